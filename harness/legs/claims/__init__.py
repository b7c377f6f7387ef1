"""Reported numbers and their audit by arithmetic alone."""
