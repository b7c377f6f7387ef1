"""Reduction: from a failing case to a smallest one that fails in the same way, and a script that shows it."""
