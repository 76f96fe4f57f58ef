"""The rules of Streamable HTTP up to revision 2025-11-25: sessions named by a header field, GET streams, deletion.

These rules look at one request by itself. The server knows which sessions exist.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

from attrs import field, frozen

from .._errors import McpError
from ._http_headers import VERSION_FIELD
from ._http_messages import Headers, Post, Refusal, Rule, first_fault, refusal_of
from ._jsonrpc import INVALID_REQUEST, JsonRpcRequest, Malformed, Message, is_array
from ._revisions import BATCH_REVISION, NULL_ID_REVISIONS, is_modern

__all__ = [
    "LAST_EVENT_FIELD",
    "SESSION_FIELD",
    "LegacyPost",
    "addressed_stream",
    "check_session",
    "names_session",
    "needs_null_id",
    "read_legacy",
    "stream_query",
]

SESSION_FIELD = "mcp-session-id"
LAST_EVENT_FIELD = "last-event-id"
_STREAM = "sessionId"
"""The name in the query of the address of an HTTP+SSE stream, as in the reference implementation: some logs and proxies
know it."""


@frozen
class LegacyPost:
    """The message or messages of a POST to a session, or of one that begins a session."""

    value: Any
    """The JSON object of one message, or an array of them, which is legal only in a session of 2025-03-26."""
    session_id: str | None
    """The session that it names; None only for a single `initialize`, which begins one."""
    message: Message | None = field(default=None, eq=False, repr=False)
    """The message in the value; None for an array."""


def stream_query(id: str) -> str:
    """Return the query of the address to which the client of an HTTP+SSE stream posts."""
    return urlencode({_STREAM: id})


def addressed_stream(query: str) -> str | None:
    """Return the id of the HTTP+SSE stream that a POST with this query is addressed to; None if it has none."""
    values = parse_qs(query).get(_STREAM)
    return values[0] if values else None


def names_session(headers: Headers) -> bool:
    """Return True if a request names a session."""
    return bool(headers.get(SESSION_FIELD))


def needs_null_id(headers: Headers, query: str) -> bool:
    """Return True if the HTTP error for an unread request gets the id null, because the client's revision requires one.

    A client in a session that does not name its revision speaks one that has no field for that.

    Args:
        headers: the header fields of the request.
        query: the query of its URL, by which HTTP+SSE names sessions.
    """
    named = headers.get(VERSION_FIELD)
    return named in NULL_ID_REVISIONS if named else names_session(headers) or bool(query)


def read_legacy(post: Post) -> LegacyPost | Refusal:
    """Return the posted messages if they keep the rules of the legacy revisions; a refusal otherwise."""
    fault = first_fault(_RULES, post)
    if fault is not None:
        return refusal_of(post.message, fault)
    return LegacyPost(post.value, post.headers.get(SESSION_FIELD) or None, post.message)


def check_session(headers: Headers, supported: Sequence[str]) -> Refusal | None:
    """Return the refusal of a GET or DELETE; None if it names a session, which may exist or not.

    Args:
        headers: the header fields of the request; `check_head` has passed them.
        supported: the revisions that the server speaks.
    """
    version = headers.get(VERSION_FIELD) or None
    if version is not None and is_modern(version):
        return Refusal(405, headers={"allow": "POST"})  # that revision has neither
    fault = _version_fault(version, supported)
    if fault is None and not names_session(headers):
        fault = _no_session()
    return None if fault is None else refusal_of(None, fault)


def _is_well_formed(post: Post) -> McpError | None:
    return McpError(post.message.code, post.message.fault) if isinstance(post.message, Malformed) else None


def _batch_is_legal(post: Post) -> McpError | None:
    if not is_array(post.value):
        return None
    if post.version not in {None, BATCH_REVISION}:
        return McpError(INVALID_REQUEST, f"an array of messages, which only {BATCH_REVISION} has")
    return None if post.value else McpError(INVALID_REQUEST, "an array of no messages")


def _version_is_spoken(post: Post) -> McpError | None:
    return None if _begins_session(post) else _version_fault(post.version, post.supported)


def _session_is_named(post: Post) -> McpError | None:
    return None if _begins_session(post) or names_session(post.headers) else _no_session()


_RULES: Sequence[Rule] = (_is_well_formed, _batch_is_legal, _version_is_spoken, _session_is_named)


def _begins_session(post: Post) -> bool:
    return isinstance(post.message, JsonRpcRequest) and post.message.method == "initialize"


def _version_fault(version: str | None, supported: Sequence[str]) -> McpError | None:
    if version is None or (version in supported and not is_modern(version)):
        return None
    offered = ", ".join(revision for revision in supported if not is_modern(revision))
    return McpError(INVALID_REQUEST, f"{VERSION_FIELD} {version[:100]!r}: sessions here speak {offered}")


def _no_session() -> McpError:
    return McpError(INVALID_REQUEST, f"the header field {SESSION_FIELD} is missing: send 'initialize' first")
