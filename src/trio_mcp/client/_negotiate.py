"""The negotiation of a revision with the server: modern by `server/discover`, legacy by `initialize`.

Rules of this file:

1. The first request to an unknown server is `server/discover`. A discovery, or an error that only modern servers send,
   means modern. Any other error means legacy, and so does a result without any member of a discovery. No particular
   code means legacy, because legacy servers answer with many. Over HTTP a status for a wrong request means legacy too,
   but a status about authentication (401, 403) or about a failing server does not: it is raised.
2. Silence is not an answer. After the probe limit `initialize` is sent as well, and the first answer decides: a late
   discovery, or a refusal of `initialize` that names revisions, switches back. A refusal that a modern server may give
   to a request it does not know decides nothing: the client waits for the answer to the probe.
3. If a revision is pinned, no other is asked for.
4. The newest common revision is agreed on. A modern server may name legacy revisions too; they are used after a
   handshake.
5. A revision that a server refuses and offers at the same time is asked for once more, and not again: there may be many
   servers behind one address, and not all of them may be up to date.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio
from attrs import define, field

from .. import types
from .._errors import (
    ErrorResponse,
    HttpStatusError,
    RemoteProtocolError,
    StructureError,
    TrioMcpError,
    UnsupportedRevision,
)
from .._util import owned_nursery
from ..peer import OutgoingRequest
from ..wire import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
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

__all__ = ["negotiate"]

_MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY)
"""The errors, besides the refusal of a revision, after which a handshake is useless."""
_DISCOVERY_MEMBERS = ("capabilities", "supportedVersions")
"""A result without any of these members is not a discovery of any draft."""
_AUTHENTICATION_STATUSES = (401, 403)
"""The statuses of requests that fail only because of missing or insufficient authentication."""


async def negotiate(connection: Connection, *, pinned: str | None, probe: bool = True) -> None:
    """Agree with the server on a revision.

    Args:
        pinned: the only revision to speak.
        probe: send `server/discover`; without it the client begins with the handshake.

    Raises:
        UnsupportedRevision: there is no common revision, or the server does not speak the pinned one.
        ErrorResponse: the server refused the handshake.
        RemoteProtocolError: the answer breaks the protocol.
        HttpStatusError: the server answered with an HTTP status that says nothing about revisions.
        ResponseLost: the server cannot be reached by HTTP, or does not answer.
        AuthorizationFailed: the server requires authentication, and there is no token for it.
        ConnectionLost: the connection is gone.
    """
    revisions = types.REVISIONS if pinned is None else (pinned,)
    negotiation = _Negotiation(connection, revisions)
    if probe and is_modern(revisions[-1]):
        await negotiation.discover(revisions[-1])
    else:
        await negotiation.initialize()


@define(eq=False)
class _Negotiation:
    """One negotiation."""

    connection: Connection
    revisions: Sequence[str]
    """The revisions that this side may agree to, oldest first."""
    _refused: set[str] = field(factory=set[str], init=False)
    """The revisions that the server has refused; if it offers one of them, the negotiation would not end."""
    _has_retried: bool = field(default=False, init=False)
    """True if a revision was asked for again because its refusal offered it (rule 5)."""

    @property
    def _legacy(self) -> list[str]:
        return [revision for revision in self.revisions if not is_modern(revision)]

    async def discover(self, revision: str) -> None:
        """Probe with *revision*, and continue according to the answer."""
        self._check_not_refused(revision)
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
            await self._agree(revision, answer)

    def _check_not_refused(self, revision: str) -> None:
        if revision in self._refused:
            raise RemoteProtocolError(f"the server both offers revision {revision} and refuses it")

    async def _probe_answer(self, request: OutgoingRequest) -> JsonObject | ErrorResponse | HttpStatusError | None:
        """Return the answer to the probe; None if a silent server has completed a handshake instead."""
        if not self._legacy:
            return await _answer_to(request)
        clocks = self.connection.clocks
        with clocks.timeouts.within(clocks.limits.probe):
            return await _answer_to(request)
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

    async def _after_refusal(self, revision: str, error: ErrorResponse | HttpStatusError) -> None:
        supported = _named_revisions(error)
        self._refused.add(revision)
        if supported is not None:
            await self._choose(revision, supported)
        elif _is_final(error):
            raise error
        elif self._legacy:
            await self.initialize()
        elif isinstance(error, HttpStatusError):
            raise error
        else:
            raise UnsupportedRevision(revision, ()) from error

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

    async def _agree(self, request: str, discovered: JsonObject) -> None:
        versions: Any = discovered.get("supportedVersions")
        if not is_array(versions) or request in versions:
            self._resolve(request, discovered)
        else:
            await self._choose(request, [str(each) for each in versions])

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


async def _answer_to(probe: OutgoingRequest) -> JsonObject | ErrorResponse | HttpStatusError:
    """Return an error as a value, so that it is not mistaken for an error of the handshake."""
    try:
        return await probe.result()
    except (ErrorResponse, HttpStatusError) as error:
        return error


def _is_final(error: ErrorResponse | HttpStatusError) -> bool:
    """Return True if a refusal of the probe means that a handshake is useless (rule 1)."""
    if isinstance(error, ErrorResponse):
        return error.code in _MODERN_ERRORS
    return error.status in _AUTHENTICATION_STATUSES or not 400 <= error.status < 500


def _may_be_modern(refusal: ErrorResponse | HttpStatusError) -> bool:
    """Return True if a refusal of the handshake may come from a modern server that will still answer the probe."""
    return _is_final(refusal) if isinstance(refusal, ErrorResponse) else not _is_final(refusal)


def _named_revisions(error: ErrorResponse | HttpStatusError) -> Sequence[str] | None:
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
