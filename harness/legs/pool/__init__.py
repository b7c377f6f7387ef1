"""Pooling: from stored answers to statements no stronger than the data."""
