"""The HTML page of a run."""
