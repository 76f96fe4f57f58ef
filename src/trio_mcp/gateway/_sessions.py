"""The callers of a gateway, and their sessions, which servers of their own ask also while no call is in flight.

Rules of this file:

1. Only a client of a legacy revision can be asked outside of a call: over a connection that carries messages both ways,
   or over the stream that an HTTP client holds open for such messages. Nothing waits for a client to open one.
2. The roots that a client has listed hold until it says that they have changed. They are told to its server while the
   client itself cannot be asked. Those of a client that does not declare that it reports changes are not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, cast
from weakref import ReferenceType, WeakKeyDictionary, ref

import trio
from attrs import define, field, frozen

from .. import Access, Ask, ConnectionLost, ErrorResponse, ListRoots, McpError, types
from ..lowlevel import ExchangeContext, Peer
from ..wire import INTERNAL_ERROR, METHOD_NOT_FOUND, is_object
from ._forward import ForwardedQuestion

__all__ = ["CallerSession", "CallerSessions", "GatewayCaller", "SessionKey", "principal_of"]

_FINISHED: Final = "notifications/elicitation/complete"
"""The notification that a user has finished on a page; not every revision has it."""


def principal_of(access: Access | None) -> str:
    """Return the principal of a caller; empty without authentication."""
    return "" if access is None else access.principal


@frozen
class GatewayCaller:
    """The caller of a request: its connection, and who it is."""

    peer: Peer | None
    """Its connection; None if that is not known, and no server asks for it."""
    access: Access | None
    context: ExchangeContext | None = None
    """The context of its request; None if that is not known, or not needed."""

    @property
    def identity(self) -> Hashable:
        """The same for requests whose messages may be confused: those of one principal, or of one connection."""
        if self.access is not None:
            return self.access.principal
        peer: Any = self.peer
        return cast("Hashable", peer)


@frozen
class SessionKey:
    """The key of the connections to servers that belong to one connection of a caller."""

    session: int
    """The number of the caller's connection."""
    principal: str


class _CannotBeAskedError(McpError):
    """The client cannot be asked at present, whatever the question."""


@define(eq=False)
class CallerSession:
    """One connection of a caller, as a `SessionAsker`.

    Args:
        number: its number among those of the serving.
        peer: the connection.
        seconds: the time that the client has for an answer.
    """

    number: int
    _peer: ReferenceType[Peer]
    _seconds: float
    _facts: ExchangeContext | None = field(default=None, init=False)
    """The revision and the capabilities of a legacy client; None before its first request, and for a modern one."""
    _roots: Sequence[types.Root] | None = field(default=None, init=False)
    """The roots that hold, if they are known (rule 2)."""

    def note(self, request: ExchangeContext) -> None:
        """Take note of what a request says of its client."""
        facts = self._facts
        if request.modern or (facts is not None and facts.capabilities == request.capabilities):
            return
        self._facts = ExchangeContext(  # without what belongs to the request
            revision=request.revision,
            capabilities=request.capabilities,
            peer_info=None,
            meta={},
            progress_token=None,
            log_level=None,
        )

    def roots_told(self, roots: Sequence[types.Root]) -> None:
        """Take note of the roots that the client has listed."""
        declared: Any = {} if self._facts is None else self._facts.capabilities.get("roots")
        if is_object(declared) and declared.get("listChanged") is True:
            self._roots = roots

    def roots_changed(self) -> None:
        """Forget the roots."""
        self._roots = None

    async def elicit(self, question: Any) -> types.ElicitResult:
        """Ask the caller's user; raises `McpError` if that is not possible."""
        answer: types.ElicitResult = await self._ask(ForwardedQuestion("elicitation/create", question))
        return answer

    async def sample(self, question: Any) -> types.CreateMessageResult:
        """Ask the caller's model; raises `McpError` if that is not possible."""
        answer: types.CreateMessageResult = await self._ask(ForwardedQuestion("sampling/createMessage", question))
        return answer

    async def roots(self) -> Sequence[types.Root]:
        """Return the caller's roots; raises `McpError` if it cannot be asked and they are not known."""
        try:
            roots: Sequence[types.Root] = await self._ask(ListRoots())
        except _CannotBeAskedError:
            if self._roots is None:
                raise
            return self._roots
        return roots

    async def visit_completed(self, id: str) -> None:
        """Tell the client that its user has finished on a page."""
        peer, facts = self._peer(), self._facts
        if peer is not None and facts is not None and _FINISHED in types.METHODS[facts.revision] and peer.has_room():
            peer.notify_nowait(_FINISHED, {"elicitationId": id})

    async def _ask(self, question: Ask[Any]) -> Any:
        peer, facts = self._peer(), self._facts
        if facts is None:
            raise _CannotBeAskedError(INTERNAL_ERROR, f"{_NOBODY}, and its client can be asked only in a call")
        lacking = question.lacking(facts)
        if lacking is not None:
            raise McpError(METHOD_NOT_FOUND, str(lacking)) from lacking
        params = question.params(facts.revision)
        request = None if peer is None else peer.standalone_request(question.method, params)
        if request is None:
            raise _CannotBeAskedError(INTERNAL_ERROR, f"{_NOBODY}, and its client has no stream open for questions")
        try:
            with trio.fail_after(self._seconds):
                async with request as asked:
                    answer = await asked.result()
        except trio.TooSlowError as late:
            raise McpError(INTERNAL_ERROR, f"the client did not answer within {self._seconds:g} s") from late
        except ErrorResponse as refusal:
            raise McpError(refusal.code, refusal.message, refusal.data) from refusal
        except ConnectionLost as lost:
            raise McpError(INTERNAL_ERROR, "the client that was asked is gone") from lost
        try:
            return question.read(answer, facts.revision)
        except McpError as fault:
            broken = f"the client gave an answer that breaks the protocol: {fault.message}"
            raise McpError(INTERNAL_ERROR, broken) from None


_NOBODY: Final = "this gateway can ask nobody now: no call is in flight"


@define(eq=False)
class CallerSessions:
    """The sessions of one serving. They refer to their connections weakly: nothing here keeps one that is gone.

    Args:
        seconds: the time that a client has for an answer.
        on_disconnect: called with the number of a session whose connection is lost.
    """

    _seconds: float
    _on_disconnect: Callable[[int], None]
    _sessions: WeakKeyDictionary[Peer, CallerSession] = field(
        factory=WeakKeyDictionary[Peer, CallerSession], init=False
    )
    _numbers: Iterator[int] = field(factory=count, init=False)

    def of(self, peer: Peer, context: ExchangeContext | None) -> CallerSession:
        """Return the session of a connection, which begins if need be.

        Args:
            context: that of the present request, if it is known.
        """
        session = self._sessions.get(peer)
        if session is None:
            session = self._sessions[peer] = CallerSession(next(self._numbers), ref(peer), self._seconds)
            peer.on_disconnect(partial(self._disconnected, session.number))
        if context is not None:
            session.note(context)
        return session

    def _disconnected(self, number: int, _: object) -> None:
        self._on_disconnect(number)

    def roots_changed(self, peer: Peer) -> None:
        """Forget the roots of a client that has reported a change of them."""
        session = self._sessions.get(peer)
        if session is not None:
            session.roots_changed()
