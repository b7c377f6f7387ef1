"""Correctness and accuracy validation for the FP4 sparse-attention indexer."""

__version__ = "0.1.0"
