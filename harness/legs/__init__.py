"""Accuracy legs: what was reported of them, and what their figures can carry."""
