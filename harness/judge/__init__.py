"""From an answer to a verdict: comparison, coordinates, grades, known findings."""
