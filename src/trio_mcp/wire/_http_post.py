"""A POST of Streamable HTTP after its body is there: what it says about itself, and the rules of the modern revision.

The rules are a table, because their order is part of the protocol: what an envelope lacks is said before what differs
between header and body, and that before a revision that is not spoken.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from .._errors import McpError
from ._envelope import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    REVISION_KEY,
    envelope_faults,
    unsupported_revision,
)
from ._http_fields import METHOD_FIELD, NAME_FIELD, VERSION_FIELD, decode_field, name_of
from ._http_refusal import HEADER_MISMATCH, Refusal
from ._json import JsonObject, is_object
from ._jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Malformed, Message, Notification, Request
from ._revisions import LEGACY_REVISIONS, is_modern

__all__ = ["Headers", "ModernPost", "Post", "Rule", "first_fault", "read_modern", "refusal_of"]

Headers: TypeAlias = Mapping[str, str]
"""Header fields by lower-case name, values without outer whitespace, repeated ones joined by a comma and a space."""


@frozen
class ModernPost:
    """A message that says itself which revision it speaks, and whose header fields agree with it."""

    message: Request | Notification
    revision: str


@frozen
class Post:
    """What the rules look at."""

    headers: Headers
    value: Any
    """The decoded body."""
    message: Message | None
    """What the body is, None for an array of messages."""
    spoken: Sequence[str]
    """The revisions that can be offered, of the eras that are served here."""

    @property
    def version(self) -> str | None:
        """The revision that the header names, None where it names none."""
        return self.headers.get(VERSION_FIELD) or None

    @property
    def params(self) -> JsonObject:
        """The params of the message, empty where it has none."""
        return (self.message.params or {}) if isinstance(self.message, Request | Notification) else {}

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the message, empty where it has none."""
        meta = self.params.get("_meta")
        return meta if is_object(meta) else {}

    @property
    def names_its_revision(self) -> bool:
        """Whether the envelope names a revision, be it an unknown one: a message that does so is modern, always."""
        return REVISION_KEY in self.meta

    @property
    def looks_modern(self) -> bool:
        """Whether anything but a revision in the envelope says that the message is modern."""
        unknown = self.version is not None and self.version not in LEGACY_REVISIONS
        return unknown or not self.meta.keys().isdisjoint((CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY))


Rule: TypeAlias = Callable[[Post], "McpError | None"]


def first_fault(rules: Sequence[Rule], post: Post) -> McpError | None:
    """Return what the first of the rules that is broken says."""
    for rule in rules:
        fault = rule(post)
        if fault is not None:
            return fault
    return None


def refusal_of(message: Message | None, error: McpError) -> Refusal:
    """Return the refusal of a message: 400, with the id of the request if it is one."""
    return Refusal(400, error, message.id if isinstance(message, Request | Malformed) else None)


def read_modern(post: Post) -> ModernPost | Refusal:
    """Return the message if it keeps the rules of the modern revision."""
    fault = first_fault(_RULES, post)
    if fault is not None:
        return refusal_of(post.message, fault)
    assert isinstance(post.message, Request | Notification)
    assert post.version is not None
    return ModernPost(post.message, post.version)


def _is_one_call(post: Post) -> McpError | None:
    match post.message:
        case Request() | Notification():
            return None
        case Malformed(code=code, fault=fault):
            return McpError(code, fault)
        case None:
            return McpError(INVALID_REQUEST, "an array of messages: in this revision, each is a POST of its own")
        case _:
            return McpError(INVALID_REQUEST, "a response: in this revision, clients post none")


def _declares_its_revision(post: Post) -> McpError | None:
    """Only a server without the older revisions gets to see a message that does not."""
    if post.names_its_revision or post.looks_modern:
        return None
    requested = post.version or post.params.get("protocolVersion")  # `initialize` has it there
    return _missing(VERSION_FIELD) if type(requested) is not str else unsupported_revision(requested, post.spoken)


def _envelope_is_complete(post: Post) -> McpError | None:
    if isinstance(post.message, Notification):  # has no envelope, but may name its revision
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
    assert isinstance(post.message, Request | Notification)
    repeated, method = post.headers.get(METHOD_FIELD), post.message.method
    if repeated is None:  # which fields a notification has is not said
        return _missing(METHOD_FIELD) if isinstance(post.message, Request) else None
    return None if repeated == method else _different(METHOD_FIELD, repeated, method)


def _name_is_repeated(post: Post) -> McpError | None:
    assert isinstance(post.message, Request | Notification)
    repeated, name = post.headers.get(NAME_FIELD), name_of(post.message.method, post.message.params)
    if name is None:
        return None  # nothing to repeat; where there should be, the check of the params says so
    if repeated is None:
        return _missing(NAME_FIELD)
    try:
        decoded = decode_field(repeated)
    except ValueError as exc:
        return McpError(HEADER_MISMATCH, f"the header field {NAME_FIELD} is broken: {exc}")
    return None if decoded == name else _different(NAME_FIELD, decoded, name)


def _revision_is_spoken(post: Post) -> McpError | None:
    assert post.version is not None
    if post.version not in post.spoken:
        return unsupported_revision(post.version, post.spoken)
    if is_modern(post.version):
        return None
    return unsupported_revision(post.version, [each for each in post.spoken if is_modern(each)])


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
    return McpError(HEADER_MISMATCH, f"the header field {field} is missing")


def _different(field: str, repeated: str, said: str) -> McpError:
    return McpError(HEADER_MISMATCH, f"the header field {field} says {repeated[:100]!r}, the body {said[:100]!r}")
