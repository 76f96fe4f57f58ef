"""The skills extension: instructions for models, with their files, that a server offers and a client verifies.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
    from ._server import ServerSkills as ServerSkills
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {"": ("types",), "_server": ("ServerSkills",)})
