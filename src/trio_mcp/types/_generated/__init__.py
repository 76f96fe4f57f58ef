"""Generated from schema/ by `python -m codegen`: do not edit. The message types, by topic."""

from __future__ import annotations
