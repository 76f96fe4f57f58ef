"""A POST of Streamable HTTP with its body: the rules of the modern revision, refusals, and media types.

The rules are a table, because their order is part of the protocol: faults of the envelope come before differences
between header and body, and these before a revision that is not supported.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
and https://www.rfc-editor.org/rfc/rfc9110#name-accept
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from attrs import define, field, frozen

from .._errors import McpError
from ._http_headers import (
    METHOD_FIELD,
    NAME_FIELD,
    PROXY_ADVICE,
    VERSION_FIELD,
    decode_field,
    is_verbatim_field,
    name_of,
)
from ._jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonRpcRequest,
    Malformed,
    Message,
    Notification,
    RequestId,
    encode_error,
    is_object,
)
from ._revisions import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LEGACY_REVISIONS,
    LOG_LEVEL_KEY,
    MISSING_CAPABILITY,
    REVISION_KEY,
    UNSUPPORTED_REVISION,
    envelope_faults,
    is_modern,
    unsupported_revision,
)

__all__ = [
    "EVENT_STREAM_TYPE",
    "HEADER_MISMATCH",
    "JSON_TYPE",
    "Headers",
    "ModernPost",
    "Post",
    "Refusal",
    "Rule",
    "accepts",
    "first_fault",
    "is_json",
    "names_type",
    "read_modern",
    "refusal_of",
    "status_of",
]


HEADER_MISMATCH = -32020

_STATUS_OF = {METHOD_NOT_FOUND: 404, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400, UNSUPPORTED_REVISION: 400}


@frozen
class Refusal:
    """An HTTP response to a request that is refused: a status, and usually a JSON-RPC error with the reason."""

    status: int
    error: McpError | None = None
    """The error; None if the status is enough."""
    id: RequestId | None = None
    """The id of the refused message; None if it has none, or if it could not be read."""
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """Header fields that belong to the status, by lower-case name."""

    def body(self, *, null_id: bool = False) -> bytes:
        """Return the JSON-RPC error as `application/json`; empty if there is none.

        Args:
            null_id: True if the revision of the client writes an unknown id as null, instead of omitting it; see
                `needs_null_id`.
        """
        if self.error is None:
            return b""
        error = self.error
        line = encode_error(self.id, error.code, error.message, error.data, omit_id=not null_id)
        return line.removesuffix(b"\n")


def status_of(error_code: int) -> int:
    """Return the HTTP status of a modern response that consists of an error."""
    return _STATUS_OF.get(error_code, 200)


Headers: TypeAlias = Mapping[str, str]
"""Header fields by lower-case name, values without outer whitespace, repeated ones joined by a comma and a space."""


@define
class ModernPost:
    """A message that names its own revision, and whose header fields agree with it."""

    message: JsonRpcRequest | Notification
    revision: str


@define(eq=False)
class Post:
    """A POST, as the rules see it."""

    headers: Headers
    value: Any
    """The decoded body."""
    message: Message | None
    """The message in the body; None for an array of messages."""
    supported: Sequence[str]
    """The revisions that can be offered, of the eras that the server serves."""
    version: str | None = field(init=False)
    """The revision that the header names; None if it names none."""
    params: JsonObject = field(init=False)
    """The params of the message; empty if it has none."""
    meta: JsonObject = field(init=False)
    """The `_meta` of the message; empty if it has none."""

    def __attrs_post_init__(self) -> None:
        message = self.message
        self.version = self.headers.get(VERSION_FIELD) or None
        self.params = (message.params or {}) if isinstance(message, JsonRpcRequest | Notification) else {}
        meta = self.params.get("_meta")
        self.meta = meta if is_object(meta) else {}

    @property
    def names_its_revision(self) -> bool:
        """True if the envelope names a revision, known or unknown. Such a message is always modern."""
        return REVISION_KEY in self.meta

    @property
    def looks_modern(self) -> bool:
        """True if something other than a revision in the envelope shows that the message is modern."""
        unknown = self.version is not None and self.version not in LEGACY_REVISIONS
        return unknown or not self.meta.keys().isdisjoint((CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY))


Rule: TypeAlias = Callable[[Post], "McpError | None"]


def first_fault(rules: Sequence[Rule], post: Post) -> McpError | None:
    """Return the error of the first broken rule; None if all are kept."""
    for rule in rules:
        fault = rule(post)
        if fault is not None:
            return fault
    return None


def refusal_of(message: Message | None, error: McpError) -> Refusal:
    """Return the refusal of a message: status 400, with the id if the message is a request."""
    return Refusal(400, error, message.id if isinstance(message, JsonRpcRequest | Malformed) else None)


def read_modern(post: Post) -> ModernPost | Refusal:
    """Return the message if it keeps the rules of the modern revision; a refusal otherwise."""
    fault = first_fault(_RULES, post)
    if fault is not None:
        return refusal_of(post.message, fault)
    assert isinstance(post.message, JsonRpcRequest | Notification)
    assert post.version is not None
    return ModernPost(post.message, post.version)


def _is_one_call(post: Post) -> McpError | None:
    match post.message:
        case JsonRpcRequest() | Notification():
            return None
        case Malformed(code=code, fault=fault):
            return McpError(code, fault)
        case None:
            return McpError(INVALID_REQUEST, "an array of messages: in this revision, each is a POST of its own")
        case _:
            return McpError(INVALID_REQUEST, "a response: in this revision, clients post none")


def _declares_its_revision(post: Post) -> McpError | None:
    """Refuse a message without a revision. Only a server without legacy revisions gets one."""
    if post.names_its_revision or post.looks_modern:
        return None
    requested = post.version or post.params.get("protocolVersion")  # `initialize` names it there
    return _missing(VERSION_FIELD) if type(requested) is not str else unsupported_revision(requested, post.supported)


def _envelope_is_complete(post: Post) -> McpError | None:
    if isinstance(post.message, Notification):  # it has no envelope, but may name its revision
        wrong = type(post.meta.get(REVISION_KEY, "")) is not str
        return McpError(INVALID_PARAMS, f"$._meta.{REVISION_KEY}: expected string") if wrong else None
    if not is_object(post.params.get("_meta")):
        what = "expected object" if "_meta" in post.params else "required member is missing"
        return McpError(INVALID_PARAMS, f"$._meta: {what}")
    faults = envelope_faults(post.meta)
    return McpError(INVALID_PARAMS, "; ".join(faults)) if faults else None


def _version_is_repeated(post: Post) -> McpError | None:
    if post.version is None:
        return _missing(VERSION_FIELD)
    named = post.meta.get(REVISION_KEY, post.version)
    return None if named == post.version else _different(VERSION_FIELD, post.version, named)


def _method_is_repeated(post: Post) -> McpError | None:
    assert isinstance(post.message, JsonRpcRequest | Notification)
    repeated, method = post.headers.get(METHOD_FIELD), post.message.method
    if repeated is None:  # the specification does not require it of notifications
        return _missing(METHOD_FIELD) if isinstance(post.message, JsonRpcRequest) else None
    return None if repeated == method else _different(METHOD_FIELD, repeated, method)


def _name_is_repeated(post: Post) -> McpError | None:
    assert isinstance(post.message, JsonRpcRequest | Notification)
    repeated, name = post.headers.get(NAME_FIELD), name_of(post.message.method, post.message.params)
    if name is None:
        return None  # if a name is required, the check of the params reports it
    if repeated == name and is_verbatim_field(name):  # as usual
        return None
    if repeated is None:
        return _missing(NAME_FIELD)
    try:
        decoded = decode_field(repeated)
    except ValueError as exc:
        return McpError(HEADER_MISMATCH, f"the header field {NAME_FIELD} is broken: {exc}")
    return None if decoded == name else _different(NAME_FIELD, decoded, name)


def _revision_is_spoken(post: Post) -> McpError | None:
    assert post.version is not None
    if post.version not in post.supported:
        return unsupported_revision(post.version, post.supported)
    if is_modern(post.version):
        return None
    return unsupported_revision(post.version, [each for each in post.supported if is_modern(each)])


_RULES: Sequence[Rule] = (
    _is_one_call,
    _declares_its_revision,
    _envelope_is_complete,
    _version_is_repeated,
    _method_is_repeated,
    _name_is_repeated,
    _revision_is_spoken,
)


def _missing(field: str) -> McpError:
    return McpError(HEADER_MISMATCH, f"the header field {field} is missing; {PROXY_ADVICE}")


def _different(field: str, repeated: str, said: str) -> McpError:
    return McpError(HEADER_MISMATCH, f"the header field {field} says {repeated[:100]!r}, the body {said[:100]!r}")


JSON_TYPE = "application/json"
EVENT_STREAM_TYPE = "text/event-stream"

_ZERO_QUALITY = re.compile(r"q\s*=\s*0(?:\.0*)?")


def is_json(content_type: str | None) -> bool:
    """Return True if a body is declared as JSON. Undeclared is not JSON: browsers send such bodies to any site."""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == JSON_TYPE


@lru_cache(maxsize=64)  # a client sends the same field with each request
def accepts(accept: str | None, media_type: str) -> bool:
    """Return True if a client accepts *media_type*. Without the field (None or blank) it accepts everything.

    Of several matching ranges the most specific one decides; a quality of 0 refuses.
    """
    if accept is None or not accept.strip():
        return True
    verdicts = _verdicts(accept)
    kind, _, _ = media_type.partition("/")
    ranges = (media_type, f"{kind}/*", "*/*")
    return next((verdicts[each] for each in ranges if each in verdicts), False)


@lru_cache(maxsize=64)
def names_type(accept: str | None, media_type: str) -> bool:
    """Return True if a client accepts *media_type* literally, and not by a wildcard or by having no field."""
    return _verdicts(accept or "").get(media_type, False)


def _verdicts(accept: str) -> dict[str, bool]:
    """Return the media ranges of the field, each with True unless its quality is 0."""
    verdicts: dict[str, bool] = {}
    for media_range in accept.lower().split(","):
        range_type, *parameters = (part.strip() for part in media_range.split(";"))
        refused = any(_ZERO_QUALITY.fullmatch(parameter) for parameter in parameters)
        verdicts[range_type] = verdicts.get(range_type, False) or not refused
    return verdicts
