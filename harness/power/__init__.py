"""How many wrong kernels the suites see: mechanical faults in a kernel's own IR, one at a time.

``rules`` (which faults there are) -> ``mutants`` (all of them in one program) -> ``trial`` (one planted, the
cases run until one is red) -> ``sweep`` (all of them, in workers, resumable) -> ``table`` (who saw what).
"""
