"""Loads the one plugin module where the project's own configuration is shut out (see pyproject.toml)."""

from __future__ import annotations

pytest_plugins = ("suites.plugin",)
