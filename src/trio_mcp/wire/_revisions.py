"""The revisions of the protocol, their era, and what requests carry in `params._meta`: the envelope, and a deadline.

A revision is *legacy* if it has a handshake (`initialize`), and *modern* otherwise; this is derived from the tables of
methods, never from the name. Revisions are compared by their place in the list. A string that is not in the list is not
"newer" but unknown.

Rules of the envelope:

1. A request is modern if, and only if, its `_meta` names a protocol version. Nothing is remembered from one request to
   the next.
2. `protocolVersion` and `clientCapabilities` are required; `clientInfo`, `logLevel` and `progressToken` are not.
3. The first fault in this order is answered: a missing member or one of the wrong type (-32602), a revision that is
   legacy or not supported (-32022), a bad progress token (-32602).
4. A result without `resultType` is `complete`. A result of an unknown type is an invalid response.

The deadline of a caller is an extension of this package, in every revision. Its value is the seconds that the caller
has left when it sends the request, because the clocks of two machines differ. A value that cannot be used is ignored:
without it the request means the same, and its caller may still cancel it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning and
https://modelcontextprotocol.io/specification/2026-07-28/basic#_meta
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from .._errors import McpError, UnsupportedRevision
from ..types import METHODS, REVISIONS
from ._jsonrpc import INVALID_PARAMS, JsonObject, RequestId, is_object

__all__ = [
    "BATCH_REVISION",
    "CAPABILITIES_KEY",
    "CLIENT_INFO_KEY",
    "DEADLINE_KEY",
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
    "seconds_left",
    "stamp",
    "unsupported_revision",
    "with_deadline",
]

LEGACY_REVISIONS: tuple[str, ...] = tuple(revision for revision in REVISIONS if "initialize" in METHODS[revision])
MODERN_REVISIONS: tuple[str, ...] = tuple(revision for revision in REVISIONS if "initialize" not in METHODS[revision])

BATCH_REVISION = "2025-03-26"
"""The only revision that allows an array of messages (a batch)."""
NULL_ID_REVISIONS = frozenset(LEGACY_REVISIONS[:3])
"""The revisions whose schemas have no error without an id, so that an unknown id is sent as null."""

_MODERN = frozenset(MODERN_REVISIONS)


def is_modern(revision: str) -> bool:
    """Return True if requests of *revision* carry their own envelope, instead of relying on a handshake."""
    return revision in _MODERN


def choose_answer(requested: str, supported: Sequence[str]) -> str:
    """Return the revision with which a server answers `initialize`: the requested one if it speaks it, else its newest.

    *supported* are its revisions, oldest first, at least one.
    """
    return requested if requested in supported else supported[-1]


def check_answer(requested: str, answered: str, supported: Sequence[str]) -> str:
    """Return *answered* if the client speaks it; raise `UnsupportedRevision` otherwise."""
    if answered not in supported:
        raise UnsupportedRevision(requested, [answered])
    return answered


_PREFIX = "io.modelcontextprotocol/"
REVISION_KEY = _PREFIX + "protocolVersion"
CAPABILITIES_KEY = _PREFIX + "clientCapabilities"
CLIENT_INFO_KEY = _PREFIX + "clientInfo"
SERVER_INFO_KEY = _PREFIX + "serverInfo"
LOG_LEVEL_KEY = _PREFIX + "logLevel"
PROGRESS_TOKEN_KEY = "progressToken"  # noqa: S105 # the name of a member, not a secret

DEADLINE_KEY = "io.github.trio-mcp/deadline"
"""The member of `_meta` that holds the seconds that the caller has left."""
_MOST_SECONDS_LEFT = 366 * 24 * 3600
"""More seconds than these are no deadline."""

MISSING_CAPABILITY = -32021
UNSUPPORTED_REVISION = -32022

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The log levels from the least to the most severe, as RFC 5424 names them."""


@define
class Envelope:
    """The facts that a modern request states about itself and its sender."""

    revision: str
    client_capabilities: JsonObject
    client_info: JsonObject | None
    log_level: str | None
    progress_token: RequestId | None = None


def read_envelope(meta: JsonObject, supported: Sequence[str]) -> Envelope:
    """Check the `_meta` of a request that names a protocol version (rule 1).

    Args:
        meta: the object at `params._meta`.
        supported: the revisions that this side speaks, legacy ones included, which a refusal offers.

    Raises:
        McpError: the error to answer with (rule 3). A revision that cannot be used is reported before a bad progress
            token, because only then can the client choose another one.
    """
    faults = envelope_faults(meta)
    if faults:
        raise McpError(INVALID_PARAMS, "; ".join(faults))
    revision = meta[REVISION_KEY]
    if revision not in supported:
        raise unsupported_revision(revision, supported)
    if not is_modern(revision):  # a legacy revision needs a handshake
        raise unsupported_revision(revision, [each for each in supported if is_modern(each)] or supported)
    return Envelope(
        revision, meta[CAPABILITIES_KEY], meta.get(CLIENT_INFO_KEY), meta.get(LOG_LEVEL_KEY), progress_token(meta)
    )


def envelope_faults(meta: JsonObject) -> list[str]:
    """Return the faults of the `_meta` of a modern request, each with its path (rules 2 and 3)."""
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


def unsupported_revision(requested: str, supported: Sequence[str]) -> McpError:
    """Return the error for a request in a revision that this side does not speak or does not accept."""
    requested = requested[:100]  # a revision has ten characters, that of a hostile peer may have millions
    data = {"supported": list(supported), "requested": requested}
    return McpError(UNSUPPORTED_REVISION, f"protocol version {requested!r} is not supported here", data)


def _is_implementation(info: JsonObject) -> bool:
    return type(info) is dict and type(info.get("name")) is str and type(info.get("version")) is str


def progress_token(meta: Mapping[str, Any]) -> RequestId | None:
    """Return the progress token of a request of any revision; None if it asks for no progress.

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


def with_deadline(params: JsonObject | None, deadline: float, now: float) -> JsonObject | None:
    """Return *params* with the seconds until *deadline* in their `_meta`.

    They are returned as they are if the deadline has passed or is more than a year away, or if the member is null
    already: then the sender of the request does not want it to have a deadline.
    """
    seconds = deadline - now
    if now + seconds < deadline:  # rounded down; a receiver with the same clock must not be early
        seconds = math.nextafter(seconds, math.inf)
    if not 0 < seconds <= _MOST_SECONDS_LEFT:
        return params
    meta: Any = (params or {}).get("_meta") or {}
    if not is_object(meta) or meta.get(DEADLINE_KEY, seconds) is None:
        return params
    return stamp(params, {DEADLINE_KEY: seconds})


def seconds_left(meta: Mapping[str, Any]) -> float | None:
    """Return the seconds that the caller of a request has left; None if it states none, or none that can be used."""
    stated = meta.get(DEADLINE_KEY)
    if (type(stated) is float or type(stated) is int) and 0 < stated <= _MOST_SECONDS_LEFT:
        return float(stated)
    return None
