"""Generated from schema/ by `python -m codegen`: do not edit. The message types, by what they are about."""

from __future__ import annotations
