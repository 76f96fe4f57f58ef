"""What a server must have declared before it is asked: both sides use only the capabilities that were negotiated.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#operation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import types
from .._errors import MissingCapability
from ..wire import JsonObject, is_object

__all__ = ["check_declared"]

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "completion/complete": ("completions",),
    "logging/setLevel": ("logging",),
    "prompts/get": ("prompts",),
    "prompts/list": ("prompts",),
    "resources/list": ("resources",),
    "resources/read": ("resources",),
    "resources/subscribe": ("resources", "subscribe"),
    "resources/templates/list": ("resources",),
    "resources/unsubscribe": ("resources", "subscribe"),
    "tools/call": ("tools",),
    "tools/list": ("tools",),
}
"""Where in the server's capabilities a method is declared; methods that are not here need nothing."""


def check_declared(method: str, declared: JsonObject, revision: str) -> None:
    """Raise `MissingCapability` if the server has not declared what *method* needs.

    Args:
        declared: the server's capabilities, as they go over the wire. An empty object is a declaration.
    """
    path = _NEEDED.get(method, ())
    if path == ("completions",) and revision == types.REVISIONS[0]:
        return  # that capability came with the second revision
    found: Any = declared
    for name in path:
        found = found.get(name) if is_object(found) else None
    if path and (found is None or found is False):
        required: Any = {} if len(path) == 1 else True
        for name in reversed(path):
            required = {name: required}
        raise MissingCapability(f"the server has not declared {'.'.join(path)!r}, which {method!r} needs", required)
