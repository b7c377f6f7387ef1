"""The same questions to two source trees, compared byte for byte: ``harness ab``.

``order`` (what is asked) -> ``sides`` (a process for each tree) -> ``child`` (runs the cases on a path
whose answers ``tape`` records, and notes signatures with ``seen``) -> ``compare`` -> ``show``.
"""
