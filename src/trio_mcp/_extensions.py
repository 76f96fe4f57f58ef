"""Which names belong to the specification, to extensions and to applications; the same for clients and servers.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from attrs import evolve

from . import types
from ._errors import MissingCapability
from .wire import JsonObject, is_object

__all__ = [
    "CORE_RESULT_TYPES",
    "check_custom",
    "check_extension_id",
    "checked_settings",
    "extensions_in",
    "is_specified",
    "missing_extension",
    "with_named_extensions",
    "with_plain_extensions",
]

CORE_RESULT_TYPES = ("complete", "input_required")
"""The types of results that the protocol itself has."""

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_EXTENSION_ID = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SPECIFIED = frozenset(
    method
    for methods in types.METHODS.values()
    for method in methods
    # One revision had them as an experiment, then they went to an extension: whoever wants them may have them.
    if not method.startswith("tasks/")
)

Capabilities = TypeVar("Capabilities", "types.ClientCapabilities", "types.ServerCapabilities")


def check_extension_id(id: str) -> None:
    """Raise ValueError where *id* cannot name an extension."""
    if not _EXTENSION_ID.fullmatch(id):
        raise ValueError(f"{id!r} names no extension: expected a prefix of one's own and a name, 'com.example/name'")


def checked_settings(extensions: Mapping[str, Mapping[str, Any]], what: str) -> dict[str, JsonObject]:
    """Return a copy of a map from ids of extensions to their settings.

    Args:
        what: how errors call the map.

    Raises:
        ValueError: an id cannot name an extension.
        TypeError: settings are no mapping; no settings are an empty one.
    """
    for id, settings in extensions.items():
        check_extension_id(id)
        if not isinstance(settings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] # who calls may not check types
            raise TypeError(f"{what}[{id!r}] must be a mapping, not {settings!r}; {{}} where there is nothing to set")
    return {id: dict(settings) for id, settings in extensions.items()}


def is_specified(method: str) -> bool:
    """Tell whether *method* has a meaning in some revision, so that applications cannot give it one."""
    return method in _SPECIFIED


def check_custom(method: str, kind: Literal["method", "notification"]) -> None:
    """Raise ValueError where *method* is no name that an application may define."""
    if is_specified(method):
        raise ValueError(f"{kind} {method!r} is the specification's own; middleware sees it, and nobody replaces it")
    if not method or method.startswith("rpc."):
        raise ValueError(f"{method!r} cannot name a {kind}")


def extensions_in(capabilities: Mapping[str, Any]) -> dict[str, JsonObject]:
    """Return the extensions that capabilities declare, as they came; what does not fit is passed over."""
    declared = capabilities.get("extensions")
    return {id: each for id, each in declared.items() if is_object(each)} if is_object(declared) else {}


def missing_extension(id: str) -> MissingCapability:
    """Return the exception for a request that does not declare an extension it needs."""
    return MissingCapability(
        f"this needs the extension {id!r}, which the request does not declare", {"extensions": {id: {}}}
    )


def with_plain_extensions(capabilities: Capabilities) -> Capabilities:
    """Return capabilities whose `extensions` pass in every revision.

    The schemas before 2026-07-28 do not name that member, so they would drop it; as one they do not know, they keep it.
    """
    if capabilities.extensions is None:
        return capabilities
    return evolve(
        capabilities, extensions=None, extra={**capabilities.extra, "extensions": dict(capabilities.extensions)}
    )


def with_named_extensions(capabilities: Capabilities) -> Capabilities:
    """Return capabilities whose `extensions` are where they belong, whatever revision they were read in."""
    if "extensions" not in capabilities.extra or capabilities.extensions is not None:
        return capabilities
    extra = {name: value for name, value in capabilities.extra.items() if name != "extensions"}
    return evolve(capabilities, extensions=extensions_in(capabilities.extra), extra=extra)
