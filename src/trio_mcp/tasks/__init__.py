"""The tasks extension: tool calls that go on after their first response, and are polled, answered and cancelled later.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {"": ("types",)})
