"""The negotiation of a revision with the server: modern by `server/discover`, legacy by `initialize`.

Rules of this file:

1. The first request to an unknown server is `server/discover`. A discovery, or an error that only modern servers send,
   means modern. Anything else means legacy: no particular code does, because legacy servers answer with many, and some
   with what is no message. Over HTTP that includes statuses and bodies of any kind, but not a status about
   authentication (401, 403), about another address (3xx), or of a gateway in front of a server that fails (502, 503,
   504): it is raised.
2. Silence is not an answer. After the probe limit `initialize` is sent as well, and the first answer decides: a late
   discovery, or a refusal of `initialize` that names revisions, switches back. A refusal that a modern server may give
   to a request it does not know decides nothing: the client waits for the answer to the probe.
3. If a revision is pinned, no other is asked for.
4. The newest common revision is agreed on. A modern server may name legacy revisions too; they are used after a
   handshake.
5. A revision that a server refuses and offers at the same time is asked for once more, and not again: there may be many
   servers behind one address, and not all of them may be up to date.
6. The answer of a failing server to the probe leads to a handshake too, and so does silence over HTTP. But this is no
   reason to leave out the probe in later connections (`is_proven_legacy`).

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import trio
from attrs import define, field

from .. import types
from .._errors import (
    ErrorResponse,
    HttpStatusError,
    RemoteProtocolError,
    ResponseLost,
    StructureError,
    TrioMcpError,
    UnsupportedRevision,
)
from .._util import owned_nursery
from ..peer import OutgoingRequest
from ..wire import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    PROXY_ADVICE,
    SERVER_INFO_KEY,
    UNSUPPORTED_REVISION,
    JsonObject,
    check_answer,
    is_array,
    is_modern,
    is_object,
    stamp,
)
from ._callbacks import declaration
from ._connection import Connection

__all__ = ["Negotiation"]

_MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY)
"""The errors, besides the refusal of a revision, after which a handshake is useless."""
_DISCOVERY_MEMBERS = ("capabilities", "supportedVersions")
"""A result without any of these members is not a discovery of any draft."""
_FINAL_STATUSES = (401, 403, 502, 503, 504)
"""The statuses of requests that fail because of authentication, or because a gateway reaches no working server."""
_Refusal: TypeAlias = ErrorResponse | HttpStatusError | RemoteProtocolError | ResponseLost
"""An answer to the probe that is no discovery."""


@define(eq=False)
class Negotiation:
    """One negotiation."""

    connection: Connection
    revisions: Sequence[str]
    """The revisions that this side may agree to, oldest first."""
    has_probed: bool = field(default=False, init=False)
    """True once `server/discover` was sent."""
    has_asked: bool = field(default=False, init=False)
    """True once `initialize` was sent."""
    _is_doubtful: bool = field(default=False, init=False)
    """True if a handshake was made because the server seemed to fail (rule 6)."""
    _refused: set[str] = field(factory=set[str], init=False)
    """The revisions that the server has refused; if it offers one of them, the negotiation would not end."""
    _has_retried: bool = field(default=False, init=False)
    """True if a revision was asked for again because its refusal offered it (rule 5)."""

    @classmethod
    def of(cls, connection: Connection, pinned: str | None) -> Negotiation:
        """Return the negotiation of *connection*; *pinned* is the only revision to speak, if it is given."""
        return cls(connection, types.REVISIONS if pinned is None else (pinned,))

    async def agree(self, *, probe: bool) -> None:
        """Agree with the server on a revision.

        Args:
            probe: send `server/discover`; without it the client begins with the handshake, if there may be one.

        Raises:
            UnsupportedRevision: there is no common revision, or the server does not speak the pinned one.
            ErrorResponse: the server refused the handshake.
            RemoteProtocolError: the answer breaks the protocol.
            HttpStatusError: the server answered with an HTTP status that says nothing about revisions.
            ResponseLost: the server cannot be reached by HTTP, or does not answer.
            AuthorizationFailed: the server requires authentication, and there is no token for it.
            ConnectionLost: the connection is gone.
        """
        newest = self.revisions[-1]
        if is_modern(newest) and (probe or not self._legacy):
            await self.discover(newest)
        else:
            await self.initialize()

    @property
    def is_proven_legacy(self) -> bool:
        """True if the server was probed, and has shown that it knows only the handshake."""
        return self.has_probed and not self._is_doubtful and not self.connection.is_modern

    @property
    def _legacy(self) -> list[str]:
        return [revision for revision in self.revisions if not is_modern(revision)]

    async def discover(self, revision: str) -> None:
        """Probe with *revision*, and continue according to the answer."""
        self._check_not_refused(revision)
        self.has_probed = True
        params = stamp(None, self.connection.envelope(revision))
        probe = self.connection.transport.ask("server/discover", params)
        probe.repeatable = True
        async with probe:
            answer = await self._probe_answer(probe)
        if isinstance(answer, Exception):
            await self._after_refusal(revision, answer)
        elif answer is not None and self._legacy and answer.keys().isdisjoint(_DISCOVERY_MEMBERS):
            await self.initialize()
        elif answer is not None:
            await self._take_discovery(revision, answer)

    def _check_not_refused(self, revision: str) -> None:
        if revision in self._refused:
            raise RemoteProtocolError(f"the server both offers revision {revision} and refuses it")

    async def _probe_answer(self, request: OutgoingRequest) -> JsonObject | _Refusal | None:
        """Return the answer to the probe; None if a silent server has completed a handshake instead."""
        if not self._legacy:
            return await _answer_to(request)
        clocks = self.connection.clocks
        with clocks.timeouts.within(clocks.limits.probe):
            return await _answer_to(request)
        self._is_doubtful = self.connection.transport.has_fields  # over HTTP another process may answer the next probe
        late_answers, refused = list[JsonObject](), trio.Event()
        async with owned_nursery() as nursery:
            with trio.CancelScope() as initializing:
                nursery.start_soon(self._wait_for_probe, request, late_answers, initializing, refused)
                try:
                    await self.initialize()
                except (ErrorResponse, HttpStatusError) as refusal:
                    if _may_be_modern(refusal):
                        await refused.wait()
                    raise
        return late_answers[0] if initializing.cancelled_caught else None

    async def _wait_for_probe(
        self,
        request: OutgoingRequest,
        late_answers: list[JsonObject],
        initializing: trio.CancelScope,
        refused: trio.Event,
    ) -> None:
        try:
            late_answers.append(await request.result())
            initializing.cancel(reason="the server has answered the probe after all")
        except TrioMcpError:  # the server is legacy, and the handshake is in flight
            refused.set()

    async def _after_refusal(self, revision: str, error: _Refusal) -> None:
        supported = _named_revisions(error)
        if isinstance(error, ErrorResponse):  # anything else may be an accident, and the revision be asked for again
            self._refused.add(revision)
        if supported is not None:
            await self._choose(revision, supported)
        elif _is_final(error):
            if isinstance(error, ErrorResponse) and error.code == HEADER_MISMATCH:
                error.add_note(f"If a header field is missing, {PROXY_ADVICE}.")
            raise error
        elif self._legacy:
            self._is_doubtful = _is_doubtful(error)
            await self._shake_hands_after(error)
        elif isinstance(error, ErrorResponse):
            raise UnsupportedRevision(revision, ()) from error
        else:
            raise error

    async def _shake_hands_after(self, answer: _Refusal) -> None:
        """Make the handshake because of an answer to the probe; if it is refused, the exception names both."""
        try:
            await self.initialize()
        except (ErrorResponse, HttpStatusError) as refusal:
            raise refusal from answer

    async def _choose(self, refused: str, supported: Sequence[str]) -> None:
        """Take the newest common revision of those that the server names."""
        common = [each for each in self.revisions if each in supported]
        self._refused.add(refused)
        if not common:
            raise UnsupportedRevision(refused, supported)
        if refused == common[-1] and not self._has_retried:
            self._has_retried = True
            self._refused.remove(refused)
        self.revisions = common
        if is_modern(common[-1]):
            await self.discover(common[-1])
        else:
            await self.initialize()

    async def _take_discovery(self, request: str, discovered: JsonObject) -> None:
        versions: Any = discovered.get("supportedVersions")
        if is_array(versions) and request not in versions:
            await self._choose(request, [str(each) for each in versions])
            return
        try:
            self._resolve(request, discovered)
        except RemoteProtocolError as fault:
            if not self._legacy:
                raise
            self._is_doubtful = True
            await self._shake_hands_after(fault)

    def _resolve(self, revision: str, discovered: JsonObject) -> None:
        defaults = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}  # the defaults of missing members
        result = _structured("server/discover", defaults | discovered, types.DiscoverResult, revision)
        meta: JsonObject = result.meta or {}
        info: Any = meta.get(SERVER_INFO_KEY) or discovered.get("serverInfo")  # drafts had it in the body
        named = types.structure(info, types.Implementation) if _is_implementation(info) else None
        self.connection.agree(revision, result.capabilities, named, result.instructions)

    async def initialize(self) -> None:
        """Make the legacy handshake.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
        """
        connection, legacy = self.connection, self._legacy
        self._check_not_refused(legacy[-1])
        self.has_asked = True
        params = {
            "protocolVersion": legacy[-1],
            "capabilities": declaration(connection.capabilities, legacy[-1]),
            "clientInfo": types.unstructure(connection.info, revision=legacy[-1]),
        }
        async with connection.transport.ask("initialize", params) as request:
            try:
                answer = await request.result()
            except ErrorResponse as error:
                supported = _named_revisions(error)
                if supported is None:
                    raise
                await self._choose(legacy[-1], supported)
                return
        revision = check_answer(legacy[-1], str(answer.get("protocolVersion")), legacy)
        result = _structured("initialize", answer, types.InitializeResult, revision)
        connection.agree(revision, result.capabilities, result.server_info, result.instructions)
        await connection.notify("notifications/initialized")
        if connection.expects_standalone_messages:
            await connection.transport.open_standalone_stream()


async def _answer_to(probe: OutgoingRequest) -> JsonObject | _Refusal:
    """Return an error as a value, so that it is not mistaken for an error of the handshake."""
    try:
        return await probe.result()
    except (ErrorResponse, HttpStatusError, RemoteProtocolError, ResponseLost) as error:
        return error


def _is_final(error: _Refusal) -> bool:
    """Return True if a refusal of the probe means that a handshake is useless (rule 1)."""
    match error:
        case ErrorResponse():
            return error.code in _MODERN_ERRORS
        case HttpStatusError():
            return error.status in _FINAL_STATUSES or 300 <= error.status < 400
        case ResponseLost():
            return not error.sent or error.__cause__ is not None  # else the server has ended its response without one
        case _:
            return False


def _is_doubtful(error: _Refusal) -> bool:
    """Return True if an answer to the probe may be that of a failing server (rule 6)."""
    if isinstance(error, HttpStatusError):
        return error.status == 429 or (error.status >= 500 and error.status != 501)
    return isinstance(error, ResponseLost)


def _may_be_modern(refusal: ErrorResponse | HttpStatusError) -> bool:
    """Return True if a refusal of the handshake may come from a modern server that will still answer the probe."""
    if isinstance(refusal, ErrorResponse):
        return _is_final(refusal)
    return refusal.status not in _FINAL_STATUSES and 400 <= refusal.status < 500


def _named_revisions(error: _Refusal) -> Sequence[str] | None:
    """Return the revisions that a refusal names, which may be none; None if it does not refuse a revision."""
    if not isinstance(error, ErrorResponse) or error.code != UNSUPPORTED_REVISION:
        return None
    supported: Any = error.data.get("supported") if is_object(error.data) else None
    return [str(each) for each in supported] if is_array(supported) else []


def _is_implementation(info: Any) -> bool:
    return is_object(info) and type(info.get("name")) is str and type(info.get("version")) is str


def _structured(method: str, answer: JsonObject, result: type[Any], revision: str) -> Any:
    try:
        return types.structure(answer, result, revision=revision)
    except StructureError as exc:
        raise RemoteProtocolError(f"the answer to {method!r} does not fit: {'; '.join(exc.faults)}") from exc
