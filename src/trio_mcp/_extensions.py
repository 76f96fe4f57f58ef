"""The names of methods and extensions: specified ones, and custom ones of extensions and applications.

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
"""The types of results that the protocol itself defines."""

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_EXTENSION_ID = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SPECIFIED = frozenset(
    method
    for methods in types.METHODS.values()
    for method in methods
    # An experiment of one revision that became an extension, so that applications may define these methods.
    if not method.startswith("tasks/")
)

Capabilities = TypeVar("Capabilities", "types.ClientCapabilities", "types.ServerCapabilities")


def check_extension_id(id: str) -> None:
    """Raise ValueError if *id* is not a valid extension id."""
    if not _EXTENSION_ID.fullmatch(id):
        raise ValueError(f"extension id {id!r}: must be a prefix and a name, such as 'com.example/name'")


def checked_settings(extensions: Mapping[str, Mapping[str, Any]], what: str) -> dict[str, JsonObject]:
    """Return a copy of a map from ids of extensions to their settings.

    Args:
        what: the name of the map in errors.

    Raises:
        ValueError: an id is not valid.
        TypeError: the settings of an extension are not a mapping; without settings they are an empty one.
    """
    for id, settings in extensions.items():
        check_extension_id(id)
        if not isinstance(settings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] # the caller may not check types
            raise TypeError(f"{what}[{id!r}]: must be a mapping, not {settings!r}; use {{}} if there are no settings")
    return {id: dict(settings) for id, settings in extensions.items()}


def is_specified(method: str) -> bool:
    """Return True if some revision defines *method*, so that applications cannot define it."""
    return method in _SPECIFIED


def check_custom(method: str, kind: Literal["method", "notification"]) -> None:
    """Raise ValueError if an application must not define *method*."""
    if is_specified(method):
        raise ValueError(f"{kind} {method!r}: defined by the specification and cannot be replaced; use middleware")
    if not method or method.startswith("rpc."):
        raise ValueError(f"{kind} {method!r}: not a valid name; it must not be empty or begin with 'rpc.'")


def extensions_in(capabilities: Mapping[str, Any]) -> dict[str, JsonObject]:
    """Return the extensions that capabilities declare, as they were received; entries that do not fit are ignored."""
    declared = capabilities.get("extensions")
    return {id: each for id, each in declared.items() if is_object(each)} if is_object(declared) else {}


def missing_extension(id: str) -> MissingCapability:
    """Return the exception for a request that does not declare an extension it needs."""
    return MissingCapability(
        f"extension {id!r}: required, but the request does not declare it", {"extensions": {id: {}}}
    )


def with_plain_extensions(capabilities: Capabilities) -> Capabilities:
    """Return capabilities whose `extensions` pass in every revision.

    The schemas before 2026-07-28 do not define that member and would drop it; as an unknown extra member it is kept.
    """
    if capabilities.extensions is None:
        return capabilities
    return evolve(
        capabilities, extensions=None, extra={**capabilities.extra, "extensions": dict(capabilities.extensions)}
    )


def with_named_extensions(capabilities: Capabilities) -> Capabilities:
    """Return capabilities whose `extensions` are in the named member, in any revision."""
    if "extensions" not in capabilities.extra or capabilities.extensions is not None:
        return capabilities
    extra = {name: value for name, value in capabilities.extra.items() if name != "extensions"}
    return evolve(capabilities, extensions=extensions_in(capabilities.extra), extra=extra)
