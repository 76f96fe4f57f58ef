"""What each side must have declared before it is asked: both use only the capabilities that were negotiated.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#operation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import types
from .._errors import MissingCapability
from ..wire import JsonObject, is_object

__all__ = ["check_declared", "declaration", "undeclared_part"]

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


def declaration(capabilities: types.ClientCapabilities, revision: str) -> JsonObject:
    """Return what a client declares as *revision* says it."""
    declared: JsonObject = types.unstructure(capabilities, revision=revision)
    elicitation = capabilities.elicitation
    pages_alone = elicitation is not None and elicitation.form is None and elicitation.url is not None
    if pages_alone and declared.get("elicitation") == {}:
        del declared["elicitation"]  # that revision has forms alone, and would take it to mean them
    return declared


_NEEDED_OF_CLIENTS: Mapping[str, str] = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}


def undeclared_part(capabilities: types.ClientCapabilities, method: str, params: Any) -> str | None:
    """Return the capability that a question needs and this client has not declared, such as ``sampling.tools``.

    None where it has declared all. What no client could declare is named by its method.
    """
    name = _NEEDED_OF_CLIENTS.get(method, method)
    found = getattr(capabilities, name, None) if name != method else None
    if found is None:
        return name
    match params:
        case types.ElicitRequestFormParams() if found.form is None:
            return "elicitation.form"
        case types.ElicitRequestURLParams() if found.url is None:
            return "elicitation.url"
        case types.CreateMessageRequestParams(tools=tools, tool_choice=choice) if found.tools is None:
            # An empty list is there, too.
            return None if tools is None and choice is None else "sampling.tools"
        case _:
            return None
