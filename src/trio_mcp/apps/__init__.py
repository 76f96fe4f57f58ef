"""The apps extension: views in HTML that a server offers and a host shows, and the messages between host and view.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {"": ("types",)})
