"""Loads the one plugin module, so that ``pytest suites/indexer --path P`` works from a clone."""

from __future__ import annotations

pytest_plugins = ("suites.plugin",)
