"""What a connection remembers, one gate for each role: the outcome of the legacy handshake, and nothing else.

Modern requests pass a `ServerSession` without leaving a trace, also between the requests of a handshaken client: era
is a property of each request.

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
    INVALID_REQUEST,
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


class HandshakeState(Enum):
    """How far the handshake has come; the same for both sides."""

    NOT_BEGUN = auto()
    ASKED = auto()
    """`initialize` is on its way, or being answered."""
    ANSWERED = auto()
    """Both sides know revision and capabilities; `initialized` is missing."""
    OPERATING = auto()


class HandshakeEvent(Enum):
    """What moves the handshake on."""

    ASK = auto()
    ANSWER = auto()
    REFUSE = auto()
    INITIALIZED = auto()


_E, _S = HandshakeEvent, HandshakeState

HANDSHAKE: Mapping[HandshakeState, Mapping[HandshakeEvent, HandshakeState]] = {
    _S.NOT_BEGUN: {_E.ASK: _S.ASKED},
    _S.ASKED: {_E.ANSWER: _S.ANSWERED, _E.REFUSE: _S.NOT_BEGUN},
    _S.ANSWERED: {_E.INITIALIZED: _S.OPERATING},
    _S.OPERATING: {},
}


@define(eq=False)
class ServerSession:
    """The gate of a server's connection.

    Args:
        spoken: the revisions the server speaks, oldest first, at least one.
    """

    spoken: Sequence[str]
    may_respond: bool = field(default=True, init=False)
    answers_unreadable: bool = field(default=True, init=False)
    state: HandshakeState = field(default=HandshakeState.NOT_BEGUN, init=False)
    log_level: str | None = field(default="debug", init=False)
    """The least severe level a handshaken client wants; everything until it says otherwise."""
    _asked: ExchangeContext | None = field(default=None, init=False)
    """The terms `initialize` asked for; in force once it was answered."""
    _terms: ExchangeContext | None = field(default=None, init=False)

    @property
    def revision(self) -> str | None:
        """The one of the handshake, once `initialize` was answered."""
        return None if self._terms is None else self._terms.revision

    @property
    def batches(self) -> bool:
        """Only after a handshake for 2025-03-26."""
        return self._terms is not None and self._terms.revision == BATCH_REVISION

    @property
    def omits_unknown_id(self) -> bool:
        """Unless a handshake agreed on a revision that cannot omit it."""
        return self._terms is None or self._terms.revision not in NULL_ID_REVISIONS

    @property
    def operating(self) -> bool:
        """Whether the handshake is complete, so that the server may ask the client for things."""
        return self.state is HandshakeState.OPERATING

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the terms of a request: its own envelope's, the handshake's, or those of a handshake that begins."""
        meta = _meta_of(method, params)
        if REVISION_KEY in meta:
            return self._admit_modern(meta)
        if method == "initialize":
            return self._admit_initialize(params or {}, meta)
        if self._terms is not None:
            if method == "logging/setLevel" and params is not None:
                self._note_level(params)
            if not meta and self._terms.log_level == self.log_level:
                return self._terms
            return evolve(self._terms, meta=meta, progress_token=progress_token(meta), log_level=self.log_level)
        if method == "ping" and self._legacy:
            return _terms(self._legacy[-1], {}, None, meta)
        hint = "send 'initialize' first, or " if self._legacy else ""
        raise McpError(
            INVALID_PARAMS, f"{hint}say in params._meta which protocol revision {method!r} speaks ({REVISION_KEY})"
        )

    def responded(self, method: str, *, success: bool) -> None:
        """The answer to `initialize` puts its terms in force; one that came in a modern envelope began no handshake."""
        if method == "initialize" and self.state is HandshakeState.ASKED:
            self.state = advance(HANDSHAKE, self.state, HandshakeEvent.ANSWER if success else HandshakeEvent.REFUSE)
            if success:
                assert self._asked is not None
                self._terms = evolve(self._asked, meta=_NO_META, progress_token=None)  # those were its own

    def notified(self, method: str) -> None:
        """`notifications/initialized` completes the handshake; anywhere else it means nothing."""
        if method == "notifications/initialized" and self.state is HandshakeState.ANSWERED:
            self.state = advance(HANDSHAKE, self.state, HandshakeEvent.INITIALIZED)

    def _note_level(self, params: JsonObject) -> None:
        level = params.get("level")
        if level in LOG_LEVELS:
            self.log_level = level

    @property
    def _legacy(self) -> list[str]:
        return [revision for revision in self.spoken if not is_modern(revision)]

    @property
    def _modern(self) -> list[str]:
        return [revision for revision in self.spoken if is_modern(revision)]

    def _admit_modern(self, meta: JsonObject) -> ExchangeContext:
        envelope = read_envelope(meta, self.spoken)
        if not is_modern(envelope.revision):  # spoken, but only after a handshake
            raise unsupported_revision(envelope.revision, self._modern or self.spoken)
        return ExchangeContext(
            revision=envelope.revision,
            capabilities=envelope.client_capabilities,
            peer_info=envelope.client_info,
            meta=meta,
            progress_token=envelope.progress_token,
            log_level=envelope.log_level,
        )

    def _admit_initialize(self, params: JsonObject, meta: JsonObject) -> ExchangeContext:
        requested, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
        if self.state is not HandshakeState.NOT_BEGUN:
            raise McpError(INVALID_REQUEST, "'initialize' was asked before on this connection")
        if type(requested) is not str:
            raise McpError(INVALID_PARAMS, "$.protocolVersion: required, and a string")
        if not self._legacy:
            raise unsupported_revision(requested, self.spoken)
        if not is_object(capabilities):
            raise McpError(INVALID_PARAMS, "$.capabilities: required, and an object")
        if not is_object(info):
            raise McpError(INVALID_PARAMS, "$.clientInfo: required, and an object")
        self._asked = _terms(choose_answer(requested, self._legacy), capabilities, info, meta)
        self.state = advance(HANDSHAKE, self.state, HandshakeEvent.ASK)
        return self._asked


@define(eq=False)
class ClientSession:
    """The gate of a client's connection: who the server is, once that is known."""

    revision: str | None = field(default=None, init=False)
    """What was agreed on; None before."""
    _capabilities: JsonObject = field(factory=dict[str, Any], init=False)
    _server_info: JsonObject | None = field(default=None, init=False)

    def agree(self, revision: str, capabilities: JsonObject, server_info: JsonObject | None) -> None:
        """Take note of what the server answered."""
        self.revision, self._capabilities, self._server_info = revision, capabilities, server_info

    @property
    def may_respond(self) -> bool:
        """Not in a modern revision: its servers have nothing to ask, and its clients must not respond."""
        return self.revision is None or not is_modern(self.revision)

    @property
    def answers_unreadable(self) -> bool:
        """A client does not: what it cannot read may be the stray output of a server of any revision."""
        return False

    @property
    def batches(self) -> bool:
        """Only after a handshake for 2025-03-26."""
        return self.revision == BATCH_REVISION

    @property
    def omits_unknown_id(self) -> bool:
        """Unless a handshake agreed on a revision that cannot omit it."""
        return self.revision not in NULL_ID_REVISIONS

    @property
    def operating(self) -> bool:
        """Once it is known what the server speaks."""
        return self.revision is not None

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the terms of a server's request; before the handshake is done only `ping` is answered."""
        meta = _meta_of(method, params)
        if self.revision is None and method != "ping":
            raise McpError(METHOD_NOT_FOUND, f"{method!r} cannot be asked before the handshake is done")
        return _terms(self.revision or LEGACY_REVISIONS[-1], self._capabilities, self._server_info, meta)

    def responded(self, method: str, *, success: bool) -> None:
        """A client remembers nothing of what it answered."""

    def notified(self, method: str) -> None:
        """A client's terms do not depend on notifications."""


def _meta_of(method: str, params: JsonObject | None) -> JsonObject:
    if params is None or "_meta" not in params:
        return _NO_META
    meta: JsonObject = params["_meta"]
    if type(meta) is not dict:
        raise McpError(INVALID_PARAMS, f"$._meta: expected object in the params of {method!r}")
    return meta


def _terms(
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
