"""How long the search is that `nox -s fuzz -- --seconds N` makes of these tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("long", max_examples=2_000)
