"""Paths under test: what answers a request. The oracle is a path like any other."""
