"""The admission of a connection, for each role, and its only state: the outcome of the legacy handshake.

A `ServerSession` admits modern requests without changing its state, also between the requests of a client after a
handshake: the era is a property of each request.

Rules of the handshake of the legacy revisions (2024-11-05 to 2025-11-25):

1. `initialize` is the first request, and never cancelled. A client sends it once.
2. Before it is answered, neither side sends a request other than `ping`.
3. The server answers with the requested revision if it speaks it, otherwise with the newest one that it speaks. The
   client continues only if it speaks the revision of the answer.
4. The client ends the handshake with `notifications/initialized`. Before that the server sends no request other than
   `ping`. It serves requests already, because some clients send them at once.
5. A refused `initialize` may be repeated.
6. A client may stand for several clients that come one after the other, as a gateway does. An `initialize` after the
   first one is answered like it, and what it agrees on applies to the requests that come after the answer. Everything
   in flight keeps its terms, and the server goes on sending messages of its own. An `initialize` that is refused
   changes nothing.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle and
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any

from attrs import define, evolve, field

from .._errors import McpError
from ..wire import (
    BATCH_REVISION,
    INVALID_PARAMS,
    LEGACY_REVISIONS,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    NULL_ID_REVISIONS,
    REVISION_KEY,
    JsonObject,
    choose_answer,
    is_modern,
    is_object,
    progress_token,
    read_envelope,
    unsupported_revision,
)
from ._context import ExchangeContext
from ._exchange import advance

__all__ = ["HANDSHAKE", "ClientSession", "HandshakeEvent", "HandshakeState", "ServerSession"]

_NO_META: JsonObject = {}
_MOST_PARTS_KEPT = 64
"""With more members and values than this, a `_meta` is not kept for the next request."""
_LONGEST_KEPT = 256
"""Nor with a string of more characters than this."""


class HandshakeState(Enum):
    """The state of the handshake, the same on both sides."""

    NOT_BEGUN = auto()
    ASKED = auto()
    """`initialize` was sent, and none was answered."""
    ANSWERED = auto()
    """Both sides know the revision and the capabilities; `notifications/initialized` is missing."""
    OPERATING = auto()


class HandshakeEvent(Enum):
    """The events that change the state of the handshake."""

    ASK = auto()
    ANSWER = auto()
    REFUSE = auto()
    INITIALIZED = auto()


_E, _S = HandshakeEvent, HandshakeState

HANDSHAKE: Mapping[HandshakeState, Mapping[HandshakeEvent, HandshakeState]] = {
    _S.NOT_BEGUN: {_E.ASK: _S.ASKED, _E.ANSWER: _S.ANSWERED, _E.REFUSE: _S.NOT_BEGUN},
    _S.ASKED: {_E.ASK: _S.ASKED, _E.ANSWER: _S.ANSWERED, _E.REFUSE: _S.NOT_BEGUN},
    _S.ANSWERED: {
        _E.ASK: _S.ANSWERED,
        _E.ANSWER: _S.ANSWERED,
        _E.REFUSE: _S.ANSWERED,
        _E.INITIALIZED: _S.OPERATING,
    },
    _S.OPERATING: {_E.ASK: _S.OPERATING, _E.ANSWER: _S.OPERATING, _E.REFUSE: _S.OPERATING},
}
"""The transitions. Several `initialize` may be in flight, and what was agreed on once is not lost (rule 6)."""


@define(eq=False)
class ServerSession:
    """The admission of a connection of a server.

    Args:
        supported: the revisions that the server speaks, oldest first, at least one.
    """

    supported: Sequence[str]
    may_respond: bool = field(default=True, init=False)
    """True: a server always may send responses."""
    answers_unreadable: bool = field(default=True, init=False)
    """True: a server answers messages whose id it could not read."""
    state: HandshakeState = field(default=HandshakeState.NOT_BEGUN, init=False)
    """The state of the handshake; clients of 2026-07-28 and later make none."""
    log_level: str | None = field(default="debug", init=False)
    """The least severe log level that the client wants after a handshake; all levels until it sets one."""
    _agreed: ExchangeContext | None = field(default=None, init=False)
    """The context of the latest `initialize` that was answered, which applies to later requests."""
    _repeated: ExchangeContext | None = field(default=None, init=False)
    """The context of the latest modern request, if others that state the same may share it: most clients repeat it."""

    @property
    def revision(self) -> str | None:
        """The revision of the latest handshake; None until `initialize` was answered."""
        return None if self._agreed is None else self._agreed.revision

    @property
    def peer_info(self) -> JsonObject | None:
        """The name and version of the client, from the handshake; None until `initialize` was answered."""
        return None if self._agreed is None else self._agreed.peer_info

    @property
    def batches(self) -> bool:
        """True after a handshake for 2025-03-26."""
        return self._agreed is not None and self._agreed.revision == BATCH_REVISION

    @property
    def omits_unknown_id(self) -> bool:
        """True unless a handshake agreed on a revision that cannot omit the id."""
        return self._agreed is None or self._agreed.revision not in NULL_ID_REVISIONS

    @property
    def operating(self) -> bool:
        """True if the handshake is complete, so that the server may send requests."""
        return self.state is HandshakeState.OPERATING

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the context of a request: from its envelope, from the handshake, or of a handshake that begins.

        Args:
            method: the method of the request.
            params: its params; None if it has none.

        Raises:
            McpError: the client is at fault: it names no supported revision, or has not begun the handshake. This is
                the response to send.
        """
        meta = _meta_of(method, params)
        if REVISION_KEY in meta:
            return self._admit_modern(meta)
        if method == "initialize":
            return self._admit_initialize(params or {}, meta)
        if self._agreed is not None:
            if method == "logging/setLevel" and params is not None:
                self._note_level(params)
            if not meta and self._agreed.log_level == self.log_level:
                return self._agreed
            return evolve(self._agreed, meta=meta, progress_token=progress_token(meta), log_level=self.log_level)
        if method == "ping" and self._legacy:
            return _context(self._legacy[-1], {}, None, meta)
        hint = "send 'initialize' first, or " if self._legacy else ""
        raise McpError(
            INVALID_PARAMS, f"{hint}name the protocol revision of {method!r} in params._meta ({REVISION_KEY})"
        )

    def answered_handshake(self, context: ExchangeContext, *, success: bool) -> None:
        """Apply the context of `initialize` after its answer. In a modern envelope it starts no handshake.

        Args:
            context: the context that `admit` returned for it.
            success: True if the answer is a result, False if it is an error.
        """
        if not context.modern:
            self.state = advance(HANDSHAKE, self.state, HandshakeEvent.ANSWER if success else HandshakeEvent.REFUSE)
            if success:
                self._agreed = evolve(context, meta=_NO_META, progress_token=None)  # which are its own

    def to_json(self) -> JsonObject | None:
        """Return the outcome of the handshake, for `restore` in another process; None before it."""
        agreed = self._agreed
        if agreed is None:
            return None
        return {
            "revision": agreed.revision,
            "capabilities": agreed.capabilities,
            "clientInfo": agreed.peer_info,
            "logLevel": self.log_level,
            "operating": self.operating,
        }

    def restore(self, outcome: JsonObject) -> None:
        """Continue after a handshake that another process of the same service has made.

        Args:
            outcome: returned by `to_json` there.

        Raises:
            KeyError, TypeError, ValueError: it is from another version of this package.
        """
        if outcome["revision"] not in self._legacy or not is_object(outcome["capabilities"]):
            raise ValueError(f"no session of this server has agreed on {outcome['revision']!r}")
        self._agreed = _context(outcome["revision"], outcome["capabilities"], outcome["clientInfo"], _NO_META)
        self.log_level = outcome["logLevel"]
        self.state = HandshakeState.OPERATING if outcome["operating"] else HandshakeState.ANSWERED

    def notified(self, method: str) -> None:
        """Complete the handshake when *method* is `notifications/initialized`; ignore it at any other time."""
        if method == "notifications/initialized" and self.state is HandshakeState.ANSWERED:
            self.state = advance(HANDSHAKE, self.state, HandshakeEvent.INITIALIZED)

    def _note_level(self, params: JsonObject) -> None:
        level = params.get("level")
        if level in LOG_LEVELS:
            self.log_level = level

    @property
    def _legacy(self) -> list[str]:
        return [revision for revision in self.supported if not is_modern(revision)]

    def _admit_modern(self, meta: JsonObject) -> ExchangeContext:
        if self._repeated is not None and meta == self._repeated.meta:
            return self._repeated
        envelope = read_envelope(meta, self.supported)
        context = ExchangeContext(
            revision=envelope.revision,
            capabilities=envelope.client_capabilities,
            peer_info=envelope.client_info,
            meta=meta,
            progress_token=envelope.progress_token,
            log_level=envelope.log_level,
        )
        self._repeated = context if envelope.progress_token is None and _may_be_kept(meta) else None
        return context

    def _admit_initialize(self, params: JsonObject, meta: JsonObject) -> ExchangeContext:
        requested, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
        if type(requested) is not str:
            raise McpError(INVALID_PARAMS, "$.protocolVersion: required, and a string")
        if not self._legacy:
            raise unsupported_revision(requested, self.supported)
        if not is_object(capabilities):
            raise McpError(INVALID_PARAMS, "$.capabilities: required, and an object")
        if not is_object(info):
            raise McpError(INVALID_PARAMS, "$.clientInfo: required, and an object")
        context = _context(choose_answer(requested, self._legacy), capabilities, info, meta)
        self.state = advance(HANDSHAKE, self.state, HandshakeEvent.ASK)
        return context


@define(eq=False)
class ClientSession:
    """The admission of a connection of a client."""

    revision: str | None = field(default=None, init=False)
    """The agreed revision; None before."""
    _capabilities: JsonObject = field(factory=dict[str, Any], init=False)
    _server_info: JsonObject | None = field(default=None, init=False)

    def agree(self, revision: str, capabilities: JsonObject, server_info: JsonObject | None) -> None:
        """Take note of the revision on which the two sides agree, from the answer of the server.

        Args:
            revision: the protocol revision.
            capabilities: the JSON of the capabilities that the server declares.
            server_info: the JSON of the server's name and version; None if it states none.
        """
        self.revision, self._capabilities, self._server_info = revision, capabilities, server_info

    @property
    def may_respond(self) -> bool:
        """True unless the revision is modern: modern servers send no requests, and modern clients must not respond."""
        return self.revision is None or not is_modern(self.revision)

    @property
    def answers_unreadable(self) -> bool:
        """False: an unreadable line may be stray output of a server of any revision."""
        return False

    @property
    def batches(self) -> bool:
        """True after a handshake for 2025-03-26."""
        return self.revision == BATCH_REVISION

    @property
    def omits_unknown_id(self) -> bool:
        """True unless a handshake agreed on a revision that cannot omit the id."""
        return self.revision not in NULL_ID_REVISIONS

    @property
    def operating(self) -> bool:
        """True once the revision is agreed."""
        return self.revision is not None

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the context of a request of the server. Before the handshake is complete only `ping` is admitted.

        Args:
            method: the method of the request.
            params: its params; None if it has none.

        Raises:
            McpError: the server is at fault: the handshake is not complete. This is the response to send.
        """
        meta = _meta_of(method, params)
        if self.revision is None and method != "ping":
            raise McpError(METHOD_NOT_FOUND, f"{method!r} is refused: the handshake is not complete")
        return _context(self.revision or LEGACY_REVISIONS[-1], self._capabilities, self._server_info, meta)

    def answered_handshake(self, context: ExchangeContext, *, success: bool) -> None:
        """Do nothing: a client answers no handshake.

        Args:
            context: not used.
            success: not used.
        """

    def notified(self, method: str) -> None:
        """Do nothing, for any *method*: the context of requests does not depend on notifications."""


def _may_be_kept(meta: JsonObject) -> bool:
    """Return True if a `_meta` is small, and consists of strings: Python takes 1, 1.0 and true for equal."""
    found, waiting = 0, list[Any]([meta])
    while waiting:
        part = waiting.pop()
        found += 1
        if found > _MOST_PARTS_KEPT:
            return False
        if is_object(part):
            if len(part) > _MOST_PARTS_KEPT:
                return False
            waiting += part
            waiting += part.values()
        elif part.__class__ is not str or len(part) > _LONGEST_KEPT:
            return False
    return True


def _meta_of(method: str, params: JsonObject | None) -> JsonObject:
    if params is None or "_meta" not in params:
        return _NO_META
    meta: JsonObject = params["_meta"]
    if type(meta) is not dict:
        raise McpError(INVALID_PARAMS, f"$._meta: expected object in the params of {method!r}")
    return meta


def _context(
    revision: str,
    capabilities: JsonObject,
    info: JsonObject | None,
    meta: JsonObject,
    log_level: str | None = "debug",
) -> ExchangeContext:
    return ExchangeContext(
        revision=revision,
        capabilities=capabilities,
        peer_info=info,
        meta=meta,
        progress_token=progress_token(meta),
        log_level=log_level,
    )
