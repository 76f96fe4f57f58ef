"""The hypothesis profile with which `nox -s fuzz -- --seconds N` runs these tests for longer."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("long", max_examples=2_000)
