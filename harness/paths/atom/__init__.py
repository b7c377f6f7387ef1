"""ATOM's own functions as a path under test."""

from harness.paths.atom.path import AtomPath

__all__ = ["AtomPath"]
