"""Event streams that go on over several connections: what was missed is asked for by the id of the last event.

Rules of this file:

1. A stream is taken up again after the pause that the server asked for (`retry`), or after a second. Where that fails,
   the pauses grow; whatever comes makes them short again, and so does a stream that lasted.
2. A stream that nobody waits for (`NewsStream`) is tried for as long as the session lasts, unless the server has none.
   Nor is it once a person was asked for it, or an authorization server, and said no: nobody is asked again and again.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import AuthorizationFailed, RemoteProtocolError
from ..wire import LAST_EVENT_FIELD, SseDecoder, SseEvent, is_plain_field
from ._http_client_carrier import back_off
from ._http_client_reading import is_event_stream, read_events
from ._http_client_session_lane import ReplyLane
from ._http_engine import EngineError, HttpResponse

if TYPE_CHECKING:
    from ._http_client_session import Session
    from ._http_client_session_keeper import SessionKeeper

__all__ = ["EventTrail", "NewsStream"]

_log = logging.getLogger("trio_mcp.transports")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds, where the server has not said how long to wait."""


@define(eq=False)
class EventTrail:
    """One stream, and how far it has been read.

    Args:
        limit: bytes of the longest event.
        take: is given each event.
    """

    _limit: int
    _take: Callable[[SseEvent], None]
    failures: int = field(default=0, init=False)
    """Attempts since something has come, or a connection has lasted."""
    _last_event_id: str = field(default="", init=False)
    _retry: float = field(default=0.0, init=False)
    """Seconds that the server wants to pass before the next attempt."""

    @property
    def fields(self) -> dict[str, str]:
        """The header field that asks for what has not been read; empty where nothing says how far that is."""
        last = self._last_event_id
        return {LAST_EVENT_FIELD: last} if last and is_plain_field(last) else {}

    async def read(self, response: HttpResponse) -> None:
        """Read one connection to its end; raises what `read_events` does."""
        decoder, begun = SseDecoder(self._limit, self._last_event_id), trio.current_time()
        try:
            await read_events(response, decoder, self._take_event)
        finally:
            if decoder.last_event_id != self._last_event_id:
                self._last_event_id, self.failures = decoder.last_event_id, 0
            if trio.current_time() - begun > _LONGEST_PAUSE:
                self.failures = 0
            if decoder.retry_ms is not None:
                self._retry = decoder.retry_ms / 1000

    def _take_event(self, event: SseEvent) -> None:
        self.failures = 0
        self._take(event)

    async def pause(self) -> None:
        """Wait before the next attempt."""
        self.failures += 1
        first = self._retry or _FIRST_PAUSE
        spread = back_off(self.failures, first=first, longest=max(first, _LONGEST_PAUSE))
        await trio.sleep(max(self._retry, spread))

    def forget(self) -> None:
        """Begin anew: what has not been read cannot be."""
        self._last_event_id = ""


@define(eq=False)
class NewsStream:
    """What the server says in a session outside of all exchanges; `run` is its task."""

    _keeper: SessionKeeper
    _session: Session
    settled: trio.Event = field(factory=trio.Event, init=False)
    """Set when the stream has begun, or it is known that it does not."""
    _trail: EventTrail = field(init=False)
    _lane: ReplyLane = field(init=False)
    _has_begun: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._trail = EventTrail(self._keeper.transport.limits.max_message_bytes, self._take)
        self._lane = ReplyLane.of(self._keeper, self._session)

    async def run(self) -> None:
        """Hear it until the session ends, or the server refuses; never raises."""
        with self._session.streams():
            while await self._connect():
                self.settled.set()
                await self._trail.pause()
        self.settled.set()

    async def _connect(self) -> bool:
        """Hear it over one connection; return whether to try another."""
        keeper, session = self._keeper, self._session
        patience = keeper.transport.patience
        pauses = patience.pauses
        try:
            async with keeper.transport.door.get({**session.fields, **self._trail.fields}) as response:
                if not is_event_stream(response):
                    if keeper.is_forgotten(session, response):
                        keeper.lost(session)
                    return self._has_begun and response.status >= 500
                self._has_begun = session.has_streams = True
                self.settled.set()
                await self._trail.read(response)
        except EngineError as exc:
            _log.debug("the stream of news broke: %s", exc)
        except RemoteProtocolError as exc:
            _log.warning("some of the server's news cannot be read: %s", exc)
            self._trail.forget()  # else the same would come again
        except AuthorizationFailed as exc:
            if not self._has_begun or exc.error is not None or patience.pauses > pauses:
                _log.warning("the server's news are not heard: %s", exc)
                return False
            _log.debug("the stream of news cannot be taken up again: %s", exc)
        return True

    def _take(self, event: SseEvent) -> None:
        if event.event == "message" and event.data:
            self._keeper.transport.received(event.data, self._lane)
