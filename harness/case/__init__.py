"""What is asked: cases, their ids, their limits, the listed ones."""
