"""The comparisons, one file a stage or topology; every test is one listed case."""
