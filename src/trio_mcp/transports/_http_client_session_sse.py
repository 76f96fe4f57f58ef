"""HTTP+SSE of 2024-11-05: one stream brings everything, and names the address that messages are posted to.

The session is that stream: when it ends, so does the session.

Specification: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import RemoteProtocolError
from ..wire import SseDecoder, SseEvent
from ._http_client_address import checked_endpoint
from ._http_client_reading import is_event_stream, read_events
from ._http_client_session import Session
from ._http_client_session_lane import ReplyLane
from ._http_engine import EngineError

if TYPE_CHECKING:
    from ._http_client_session_keeper import SessionKeeper

__all__ = ["open_older_session"]

_log = logging.getLogger("trio_mcp.transports")

_ENDPOINT_SECONDS = 10.0
"""How long the stream and its first event are waited for."""
_SHOWN = 200


class _NoStreamError(Exception):
    """The server has no such stream."""


async def open_older_session(keeper: SessionKeeper) -> Session | None:
    """Begin a session by asking for its stream; None where the server has none.

    Raises:
        RemoteProtocolError: the stream names no address that messages may be posted to, or cannot be read.
        AuthorizationFailed: the server wants to know who asks, and there is no token for it.
    """
    session = Session(keeper.transport.door.url, is_older=True)
    stream = _OlderStream(keeper, session, ReplyLane.of(keeper, session))
    with keeper.transport.patience.within(_ENDPOINT_SECONDS):
        try:
            await keeper.transport.nursery.start(stream.run)
        except (_NoStreamError, EngineError):
            return None
        return session
    return None


@define(eq=False)
class _OlderStream:
    """The stream of one session; `run` is its task."""

    _keeper: SessionKeeper
    _session: Session
    _lane: ReplyLane
    _has_begun: bool = field(default=False, init=False)
    """Whether the first event has come."""

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Read the stream until it ends. Raises only before the session has begun."""
        with self._session.streams():
            try:
                await self._read(task_status)
            except (EngineError, RemoteProtocolError) as exc:
                if not self._has_begun:
                    raise
                _log.debug("the stream of the session broke: %s", exc)
        if not self._has_begun:
            raise _NoStreamError
        self._keeper.lost(self._session)

    async def _read(self, task_status: trio.TaskStatus[None]) -> None:
        def take(event: SseEvent) -> None:
            if not self._has_begun:
                self._begin(event)
                task_status.started()
            elif event.event == "message" and event.data:
                transport.received(event.data, self._lane)

        transport = self._keeper.transport
        async with transport.door.get({}) as response:
            if is_event_stream(response):
                await read_events(response, SseDecoder(transport.limits.max_message_bytes), take)

    def _begin(self, event: SseEvent) -> None:
        if event.event != "endpoint":
            raise RemoteProtocolError(f"the event stream begins with {event.event[:_SHOWN]!r}, and not with 'endpoint'")
        self._session.url = checked_endpoint(self._session.url, event.data.decode(errors="replace"))
        self._has_begun = True
