"""Tests of the oracles and of the harness itself."""
