"""Captures: real tensors of an engine, read from a folder and judged like a case."""
