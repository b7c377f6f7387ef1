"""Faults in source text (schedules, staging, exchange): what a kernel's program does not hold.

``targets`` (which files, which suites) -> ``faults`` (all of them in one file, through cosmic-ray) ->
``tree`` (a copy of the tree with one file replaced) -> ``worker`` and ``zygote`` (a warm process that forks
for each fault) -> ``sweep`` (all of them, resumable) -> ``known`` (those that change nothing, with reasons).
"""
