"""The protocol's revisions in order, and which era each belongs to: derived from the method tables, never by name.

A revision is *legacy* if it has a handshake (`initialize`), and *modern* otherwise. Revisions are compared by
their place in the list; a string that is not in it is not "newer", it is unknown.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from .._errors import McpError, UnsupportedRevision
from ..types import METHODS, REVISIONS
from ._jsonrpc import INVALID_PARAMS, JsonObject, RequestId

__all__ = [
    "BATCH_REVISION",
    "CAPABILITIES_KEY",
    "CLIENT_INFO_KEY",
    "LEGACY_REVISIONS",
    "LOG_LEVELS",
    "LOG_LEVEL_KEY",
    "MISSING_CAPABILITY",
    "MODERN_REVISIONS",
    "NULL_ID_REVISIONS",
    "PROGRESS_TOKEN_KEY",
    "REVISION_KEY",
    "SERVER_INFO_KEY",
    "UNSUPPORTED_REVISION",
    "Envelope",
    "check_answer",
    "choose_answer",
    "envelope_faults",
    "is_modern",
    "progress_token",
    "read_envelope",
    "stamp",
    "unsupported_revision",
]

LEGACY_REVISIONS: tuple[str, ...] = tuple(revision for revision in REVISIONS if "initialize" in METHODS[revision])
MODERN_REVISIONS: tuple[str, ...] = tuple(revision for revision in REVISIONS if "initialize" not in METHODS[revision])

BATCH_REVISION = "2025-03-26"
"""The one revision in which an array of messages is legal."""
NULL_ID_REVISIONS = frozenset(LEGACY_REVISIONS[:3])
"""Their schemas know no error without id, so an unknown id is JSON-RPC's null there."""

_MODERN = frozenset(MODERN_REVISIONS)


def is_modern(revision: str) -> bool:
    """Tell whether requests of *revision* carry their own envelope instead of relying on a handshake."""
    return revision in _MODERN


# The handshake of the legacy revisions (2024-11-05 to 2025-11-25), as a table.
#
# Rules of this file:
#
# 1. `initialize` is the first request, is asked once, and is never cancelled.
# 2. Before it is answered neither side asks for anything but `ping`.
# 3. The server answers with the asked revision if it speaks it, otherwise with the newest one it speaks; the client
#    goes on only if it speaks the answer.
# 4. The client ends the handshake with `notifications/initialized`. The server asks for nothing but `ping` before
#    that. It serves requests already, because clients are seen to send them at once.
# 5. A refused `initialize` may be tried again.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle


def choose_answer(requested: str, spoken: Sequence[str]) -> str:
    """Return the revision a server answers `initialize` with (rule 3); *spoken* is its own, oldest first, not empty."""
    return requested if requested in spoken else spoken[-1]


def check_answer(requested: str, answered: str, spoken: Sequence[str]) -> str:
    """Return *answered* if the client speaks it; raises `UnsupportedRevision` otherwise (rule 3)."""
    if answered not in spoken:
        raise UnsupportedRevision(requested, [answered])
    return answered


# The modern envelope: what every request of 2026-07-28 says about itself in `params._meta`.
#
# Rules of this file:
#
# 1. A request is modern if, and only if, its `_meta` names a protocol version. Nothing is remembered from one
#    request to the next.
# 2. `protocolVersion` and `clientCapabilities` are required; `clientInfo`, `logLevel` and `progressToken` are not.
# 3. What is missing or of the wrong type is answered with -32602, a revision that is not spoken with -32022, in
#    this order.
# 4. A result without `resultType` is `complete`; one of a type we do not know is an invalid response.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#_meta

_PREFIX = "io.modelcontextprotocol/"
REVISION_KEY = _PREFIX + "protocolVersion"
CAPABILITIES_KEY = _PREFIX + "clientCapabilities"
CLIENT_INFO_KEY = _PREFIX + "clientInfo"
SERVER_INFO_KEY = _PREFIX + "serverInfo"
LOG_LEVEL_KEY = _PREFIX + "logLevel"
PROGRESS_TOKEN_KEY = "progressToken"  # noqa: S105 # the wire's name of a member, not a secret

MISSING_CAPABILITY = -32021
UNSUPPORTED_REVISION = -32022

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least to the most severe, as RFC 5424 names them."""


@frozen
class Envelope:
    """What one modern request says about itself and its sender."""

    revision: str
    client_capabilities: JsonObject
    client_info: JsonObject | None
    log_level: str | None
    progress_token: RequestId | None = None


def read_envelope(meta: JsonObject, spoken: Sequence[str]) -> Envelope:
    """Check the `_meta` of a request that names a protocol version (rule 1).

    Args:
        meta: the object at `params._meta`.
        spoken: the revisions this side speaks, legacy ones included: they are offered in the refusal.

    Raises:
        McpError: the answer to send (rule 3).
    """
    faults = envelope_faults(meta)
    if faults:
        raise McpError(INVALID_PARAMS, "; ".join(faults))
    revision = meta[REVISION_KEY]
    if revision not in spoken:
        raise unsupported_revision(revision, spoken)
    return Envelope(
        revision, meta[CAPABILITIES_KEY], meta.get(CLIENT_INFO_KEY), meta.get(LOG_LEVEL_KEY), progress_token(meta)
    )


def envelope_faults(meta: JsonObject) -> list[str]:
    """Return what is missing or of the wrong type in the `_meta` of a modern request, each by its path (rule 2)."""
    faults: list[str] = []
    if type(meta.get(REVISION_KEY)) is not str:
        faults.append(f"$._meta.{REVISION_KEY}: {_expected('string', REVISION_KEY, meta)}")
    if type(meta.get(CAPABILITIES_KEY)) is not dict:
        faults.append(f"$._meta.{CAPABILITIES_KEY}: {_expected('object', CAPABILITIES_KEY, meta)}")
    if CLIENT_INFO_KEY in meta and not _is_implementation(meta[CLIENT_INFO_KEY]):
        faults.append(f"$._meta.{CLIENT_INFO_KEY}: expected object with the strings 'name' and 'version'")
    if LOG_LEVEL_KEY in meta and meta[LOG_LEVEL_KEY] not in LOG_LEVELS:
        faults.append(f"$._meta.{LOG_LEVEL_KEY}: expected one of {', '.join(LOG_LEVELS)}")
    return faults


def _expected(what: str, key: str, meta: JsonObject) -> str:
    return f"expected {what}" if key in meta else "required member is missing"


def unsupported_revision(requested: str, spoken: Sequence[str]) -> McpError:
    """Return the refusal of a request in a revision this side does not speak (or does not want to)."""
    requested = requested[:100]  # a revision has ten characters, a hostile peer's may have millions
    data = {"supported": list(spoken), "requested": requested}
    return McpError(UNSUPPORTED_REVISION, f"protocol version {requested!r} is not supported here", data)


def _is_implementation(info: JsonObject) -> bool:
    return type(info) is dict and type(info.get("name")) is str and type(info.get("version")) is str


def progress_token(meta: Mapping[str, Any]) -> RequestId | None:
    """Return the progress token of a request of any revision, None where it asks for no progress.

    Raises:
        McpError: the token is neither string nor integer.
    """
    token = meta.get(PROGRESS_TOKEN_KEY)
    if token is None and PROGRESS_TOKEN_KEY not in meta:
        return None
    if type(token) is str or type(token) is int:
        return token
    raise McpError(INVALID_PARAMS, f"$._meta.{PROGRESS_TOKEN_KEY}: expected string or integer")


def stamp(params: JsonObject | None, envelope: Mapping[str, Any]) -> JsonObject:
    """Return *params* with the members of *envelope* in their `_meta`; the caller's own `_meta` members stay."""
    if params is None:
        return {"_meta": dict(envelope)}
    meta = params.get("_meta")
    return {**params, "_meta": {**meta, **envelope} if meta else dict(envelope)}
