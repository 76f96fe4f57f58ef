"""Plugins of the whole suite."""

from __future__ import annotations

pytest_plugins = ["tests.requirements_plugin"]
