"""Keeps the session that a server of the older revisions has with this client: begins it, begins another, ends it.

Rules of this file:

1. Everything after `initialize` carries the session's id, where the server has given one, and the revision agreed on.
2. A status 404 says that the server has forgotten the session. Whoever finds out first has another one begun, in which
   what was refused with that status is sent again, once. All else that was under way in the old one fails, or is sent
   again if it may be; whatever comes meanwhile waits.
3. Another session is one of the same revision. A server that begins none has ended the connection. One that cannot be
   reached has not: the next request tries again.
4. A server that knows nothing of `initialize` by POST is asked for the event stream of HTTP+SSE.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import (
    AuthorizationFailed,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLost,
    HttpStatusError,
    RemoteProtocolError,
    ResponseLost,
    TrioMcpError,
)
from ..wire import JsonObject, encode_notification, is_plain_field
from ._http_client_reading import Refused
from ._http_client_session import Session
from ._http_client_session_lane import ReplyLane
from ._http_client_session_sse import open_older_session
from ._http_client_session_streams import NewsStream
from ._http_engine import EngineError, HttpResponse

if TYPE_CHECKING:
    from ._http_client import HttpTransport

__all__ = ["SessionKeeper"]

_log = logging.getLogger("trio_mcp.transports")

_RENEWAL_SECONDS = 30.0
"""How long it may take to begin another session."""
_WHO_ASKS = (401, 403)
"""The statuses that say nothing about sessions."""
_NEWS_SECONDS = 2.0
"""How long the head of the stream of news is waited for: servers that say nothing yet may not send one."""


@define(eq=False)
class SessionKeeper:
    """Keeps the one session of a transport."""

    transport: HttpTransport
    lane: ReplyLane = field(init=False)
    """Where what belongs to no exchange goes out."""
    current: Session = field(init=False)
    draining: set[ReplyLane] = field(factory=set[ReplyLane], init=False)
    """The lanes in which something waits."""
    is_older: bool | None = field(default=None, init=False)
    """Whether the server knows nothing but HTTP+SSE; None while that is not known."""
    _params: JsonObject | None = field(default=None, init=False)
    """Of the `initialize` that was answered; None where none was."""
    _revision: str | None = field(default=None, init=False)
    """Which another session must have; None where there was none yet."""
    _renewal: trio.Event | None = field(default=None, init=False)
    """Set when the renewal that is under way has ended; None where none is."""
    _unauthorized: AuthorizationFailed | None = field(default=None, init=False)
    """Why the latest renewal has failed, if it is this."""
    _wants_news: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.current = Session(self.transport.door.url)
        self.lane = ReplyLane.of(self, None)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of replies and notices that wait."""
        return sum(lane.size for lane in self.draining)

    # A session begins.

    def enter(self, session: Session) -> None:
        """The server has accepted an `initialize`: what is sent from now on belongs to its session."""
        self.current = session

    async def open_older(self) -> Session | None:
        """Ask for the stream of HTTP+SSE, and enter its session; None where the server has none.

        Raises:
            RemoteProtocolError: what it says there is no address for messages.
        """
        session = await open_older_session(self)
        if session is not None:
            self.enter(session)
        return session

    def agreed(self, params: JsonObject | None, answer: JsonObject) -> None:
        """`initialize` has been answered."""
        revision = answer.get("protocolVersion")
        self.current.revision = revision if type(revision) is str and is_plain_field(revision) else None
        self._params, self.is_older = params, self.current.is_older
        self._revision = self._revision or self.current.revision

    async def hear_news(self) -> None:
        """Open the stream on which the server says what belongs to no exchange, unless it is open, or there is none."""
        self._wants_news = True
        session = self.current
        if session.revision is None or session.is_older or session.is_lost:
            await trio.lowlevel.checkpoint()
            return
        if session.news is None:
            session.news = NewsStream(self, session)
            self.transport.nursery.start_soon(session.news.run)
        with trio.move_on_after(_NEWS_SECONDS):
            await session.news.settled.wait()

    # What belongs to it.

    async def usable(self) -> Session:
        """Return the session, or the one that stands in its place when it was lost.

        Raises:
            ResponseLost: the server cannot be reached to begin another.
            AuthorizationFailed: it wants to know who asks first, and there is no token for it.
        """
        if self._renewal is None and self.current.is_lost:
            self._begin_renewal()
        while self._renewal is not None:
            await self._renewal.wait()
        if self.current.is_lost:
            if self._unauthorized is not None:
                raise copy(self._unauthorized)
            raise ResponseLost("the session is lost, and the server cannot be reached to begin another", sent=False)
        return self.current

    async def notify(self, method: str, line: bytes) -> None:
        """Post a notification; raises what `HttpTransport.notify` does."""
        for _ in range(2):
            session = await self.usable()
            refused = await self._post(session, line)
            if refused is None:
                return
            if not _says_forgotten(refused, session):  # whatever has become of the session meanwhile
                raise refused.error
        raise ResponseLost(f"the server has forgotten the session, and did not take {method!r}", sent=False)

    async def tell(self, session: Session, line: bytes, *, is_farewell: bool = False) -> None:
        """Post a reply, or a notice that nobody waits for; what becomes of it is at most logged.

        Args:
            is_farewell: whether it is not worth more than one try.
        """
        if session.is_lost:
            return  # another session knows nothing of it
        with self.transport.patience.within(self.transport.limits.stall_seconds) as patience:
            try:
                refused = await self._post(session, line, is_farewell=is_farewell)
            except TrioMcpError as exc:
                _log.warning("a reply or a notification may not have arrived: %s", exc)
            else:
                if refused is not None:
                    _log.warning("the server did not take a reply or a notification: %s", refused.error)
        if patience.cancelled_caught:
            _log.warning("the server does not say whether it has taken a reply or a notification")

    async def _post(self, session: Session, line: bytes, *, is_farewell: bool = False) -> Refused | None:
        refused = await self.transport.post(session.url, line, session.fields, is_farewell=is_farewell)
        if refused is not None and _says_forgotten(refused, session):
            self.lost(session)
        return refused

    # A session ends.

    @staticmethod
    def is_forgotten(session: Session, response: HttpResponse) -> bool:
        """Tell whether a response to a GET says that the server has forgotten the session, and not that it has none."""
        return response.status == 404 and session.id is not None and session.has_streams

    def lost(self, session: Session) -> None:
        """The server has forgotten a session, or its stream has ended: begin another. Synchronous."""
        if session.is_lost:
            return
        session.lose()
        if session is self.current and session.revision is not None:
            for exchange in list(self.transport.ledger.answering.values()):
                exchange.lose()
            self._begin_renewal()

    def _begin_renewal(self) -> None:
        if self._renewal is None and self._params is not None and self.transport.lost is None:
            self._revision = self.current.revision or self._revision
            self._renewal = trio.Event()
            self.transport.nursery.start_soon(self._renew)

    async def _renew(self) -> None:
        """Begin another session; never raises."""
        assert self._renewal is not None
        is_begun, self._unauthorized = False, None
        try:
            with self.transport.patience.within(_RENEWAL_SECONDS):
                await self._begin_again()
                is_begun = True
                self.transport.renewed()
        except TrioMcpError as exc:
            _log.debug("no other session could be begun: %s", exc)
            self._unauthorized = exc if isinstance(exc, AuthorizationFailed) else None
            if _is_final(exc):
                self.transport.lose(ConnectionBroken(f"the server has lost the session, and begins no other: {exc}"))
        finally:
            if not is_begun:
                self.current.lose()
            renewal, self._renewal = self._renewal, None
            renewal.set()

    async def _begin_again(self) -> None:
        asked = self.transport.ask("initialize", self._params)
        asked.repeatable = True
        async with asked:
            await asked.result()
        session = self.current
        if session.revision != self._revision:
            raise RemoteProtocolError(f"it spoke revision {self._revision} before, and now wants {session.revision}")
        refused = await self._post(session, encode_notification("notifications/initialized", None))
        if refused is not None:
            raise refused.error
        if self._wants_news:
            await self.hear_news()

    def give_up(self, reason: ConnectionLost) -> None:
        """The connection is gone. A session that this side ends is ended by `close`, after the last words."""
        self.lane.fail(reason)
        if not isinstance(reason, ConnectionClosed):
            self.current.lose()

    async def close(self) -> None:
        """Tell the server that the session is not needed any more, whatever it answers."""
        session = self.current
        if session.id is None or session.is_lost:
            return
        try:
            async with self.transport.door.delete(session.fields):
                pass
        except (EngineError, AuthorizationFailed) as exc:
            _log.debug("the session could not be ended: %s", exc)


def _says_forgotten(refused: Refused, session: Session) -> bool:
    """Tell whether what was posted was refused because the server has forgotten the session."""
    return refused.status == 404 and session.id is not None


def _is_final(exc: TrioMcpError) -> bool:
    """Tell whether what came of a renewal is the server's word; a server in trouble, or a proxy, may come round."""
    match exc:
        case AuthorizationFailed() | ConnectionLost() | ResponseLost():
            return False
        case HttpStatusError(status=status):
            return status < 500 and status not in _WHO_ASKS
        case _:
            return True
