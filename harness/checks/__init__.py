"""One module a suite; each has ``check(case, path) -> Verdict``."""
