"""The forwarding side: it sends requests that belong to other processes there, and relays their responses.

Rules of this file:

1. There is one connection to each other process, made when the first request is forwarded, for all requests.
2. If it breaks, it is made again at once, and every response continues where it was. A request that the owner has never
   seen is sent again; one that it may have seen is never repeated.
3. A request whose owner cannot be reached for `AWAY_SECONDS` is lost: the owner, which keeps responses for longer, may
   have carried it out. If nobody listens at the owner's address any more, it is lost at once.
4. What was taken from the owner is acknowledged when it was passed on, so that a client that reads slowly slows the
   owner down, and fills no memory here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

import trio
from attrs import define, field

from .. import HttpRequest, SharedUnavailable
from ..lowlevel import Link, ResponseHead
from ..wire import JsonObject
from ._keys import ClusterKeys
from ._links import Address, NodeGoneError, dial
from ._messages import DONE, LEFT, PART, REQUEST, RESUME, TAKEN, UNKNOWN, ResponsePart, request_json
from ._owner import node_link

__all__ = ["AWAY_SECONDS", "RemoteNode"]

_log = logging.getLogger("trio_mcp.cluster")

AWAY_SECONDS = 8.0
"""The time after which a process that cannot be reached is given up."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5
_IDLE_SECONDS = 60.0
"""A connection without requests is closed after that time."""
_ACKNOWLEDGED_BYTES = 32 * 2**10

_MOST_DONE = 64
"""The number of whole responses after which the owner is told of them, at the latest."""
_DONE_SECONDS = 0.25
"""The time after which it is told of them if it gets no further request."""


@define(eq=False)
class _ForwardedRequest:
    """One request that another process answers, as a `lowlevel.ForwardedExchange`."""

    id: int
    json: JsonObject
    """The request, to be sent again."""
    _remote: RemoteNode
    outcome: Literal["gone", "lost"] | None = field(default=None, init=False)
    """The reason why there is no whole response."""
    expected: int = field(default=0, init=False)
    """The number of the next part."""
    sent_at: float | None = field(default=None, init=False)
    """The time at which it was sent for the first time, on Trio's clock; None if the owner cannot have seen it."""
    _parts: deque[ResponsePart] = field(factory=deque[ResponsePart], init=False)
    """The parts of the response that were received and not passed on."""
    _latest: ResponsePart | None = field(default=None, init=False)
    """The part that is being passed on."""
    _untold_bytes: int = field(default=0, init=False)
    """The number of bytes that were passed on without telling the owner."""
    _is_complete: bool = field(default=False, init=False)
    """True if the whole response was passed on."""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def received(self, part: ResponsePart) -> None:
        """Take a part; one that was received already is dropped."""
        if part.number == self.expected:
            self.expected += 1
            self._parts.append(part)
            self._changed.unpark_all()

    def fail(self) -> None:
        """Take note that the owner cannot be reached."""
        if self.outcome is None:
            self.outcome = "gone" if self.sent_at is None else "lost"
            self._changed.unpark_all()

    async def next_part(self) -> tuple[ResponseHead | None, bytes, bool] | None:
        """Return the next part; see `lowlevel.ForwardedExchange`."""
        while not self._parts:
            if self.outcome is not None:
                return None
            await self._changed.park()
        part = self._latest = self._parts.popleft()
        if part.is_cut:
            self.outcome = "lost"
            return None
        return part.head, part.data, part.more

    def taken(self) -> None:
        """Tell the owner what was passed on, unless that is little (rule 4)."""
        part = self._latest
        assert part is not None
        self._is_complete = not part.more
        self._untold_bytes += len(part.data)
        if part.more and self._untold_bytes >= _ACKNOWLEDGED_BYTES:
            self._untold_bytes = 0
            self._remote.send(TAKEN, {"id": self.id, "number": part.number})

    def leave(self) -> None:
        """End the exchange."""
        self._remote.left(self, is_complete=self._is_complete)


@define(eq=False)
class RemoteNode:
    """Another process of the service, and the connection to it.

    Args:
        name: its name.
        own_name: the name of this process.
        keys: of the service.
        nursery: the nursery of its task.
        find: returns its address; None if it is not there any more. Raises `SharedUnavailable`.
    """

    name: str
    _own_name: str
    _keys: ClusterKeys
    _nursery: trio.Nursery
    _find: Callable[[str], Awaitable[Address | None]]
    _requests: dict[int, _ForwardedRequest] = field(factory=dict[int, _ForwardedRequest], init=False)
    """The requests that are not answered, by number."""
    _count: int = field(default=0, init=False)
    _link: Link | None = field(default=None, init=False)
    """The connection; None if there is none now."""
    _runs: bool = field(default=False, init=False)
    _done: list[int] = field(factory=list[int], init=False)
    """The requests whose whole response was passed on without telling the owner."""

    @property
    def is_idle(self) -> bool:
        """True if there are no requests and no connection."""
        return not self._requests and not self._runs

    def forward(self, request: HttpRequest) -> _ForwardedRequest:
        """Send a request, as soon as there is a connection."""
        self._count += 1
        forwarded = _ForwardedRequest(self._count, request_json(request), self)
        self._requests[forwarded.id] = forwarded
        if self._link is not None:
            self._send_request(forwarded)
        elif not self._runs:
            self._runs = True
            self._nursery.start_soon(self._keep_connected, name=f"connection to {self.name}")
        return forwarded

    def left(self, forwarded: _ForwardedRequest, *, is_complete: bool) -> None:
        """Forget a request, because its response was passed on, or its client has left."""
        del self._requests[forwarded.id]
        if forwarded.sent_at is None:
            return
        if not is_complete:
            self.send(LEFT, {"id": forwarded.id})
            return
        self._done.append(forwarded.id)
        if len(self._done) >= _MOST_DONE:
            self.send(DONE, {"ids": self._take_done()})

    def _take_done(self) -> list[int]:
        done, self._done = self._done, []
        return done

    def send(self, method: str, params: JsonObject) -> None:
        """Send a message; without a connection it is dropped, because the next one begins with what is missing."""
        if self._link is not None:
            self._link.notify_nowait(method, params)

    def _send_request(self, forwarded: _ForwardedRequest) -> None:
        if forwarded.sent_at is None:
            forwarded.sent_at = trio.current_time()
        self.send(REQUEST, {"id": forwarded.id, "done": self._take_done(), **forwarded.json})

    async def _keep_connected(self) -> None:
        """Be connected as long as there are requests (rules 1 to 3)."""
        try:
            while any(each.outcome is None for each in self._requests.values()):
                stream = await self._connect_in_time()
                if stream is None:
                    self._fail_all()
                else:
                    await self._use(stream)
        finally:
            self._runs = False
            self._fail_all()

    async def _connect_in_time(self) -> trio.abc.Stream | None:
        """Return a connection; None if the process is gone, or cannot be reached for long (rule 3)."""
        pause, cause = _FIRST_PAUSE_SECONDS, "no answer"
        with trio.move_on_after(AWAY_SECONDS):
            while True:
                try:
                    address = await self._find(self.name)
                    if address is None:
                        return None
                    return await dial(address, self._own_name, self.name, self._keys)
                except NodeGoneError:
                    return None
                except (OSError, SharedUnavailable) as error:
                    cause = str(error)
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        _log.warning("the process %s of this service cannot be reached: %s", self.name, cause)
        return None

    def _fail_all(self) -> None:
        for forwarded in self._requests.values():
            forwarded.fail()

    async def _use(self, stream: trio.abc.Stream) -> None:
        """Send and receive over a connection, until it is lost or has been idle for long."""
        link = node_link(stream, self._received)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_after, link)
            try:
                self._link, self._done = link, []
                requests = [*self._requests.values()]
                sent = {str(each.id): each.expected for each in requests if each.sent_at is not None}
                self.send(RESUME, {"open": sent})
                for forwarded in requests:
                    if forwarded.sent_at is None:
                        self._send_request(forwarded)
                await link.run(drain=False)
            finally:
                self._link = None
                nursery.cancel_scope.cancel()

    async def _look_after(self, link: Link) -> None:
        """Tell the owner of whole responses, and stop a connection that has been idle for long."""
        idle_since = trio.current_time()
        while True:
            await trio.sleep(_DONE_SECONDS)
            if self._done:
                self.send(DONE, {"ids": self._take_done()})
            if self._requests:
                idle_since = trio.current_time()
            elif trio.current_time() >= idle_since + _IDLE_SECONDS:
                link.stop()

    def _received(self, method: str, params: JsonObject) -> None:
        if method == UNKNOWN:
            for id in params["ids"]:
                self._is_unknown(self._requests.get(id))
        elif method == PART and (forwarded := self._requests.get(params["id"])) is not None:
            forwarded.received(ResponsePart.of_json(params))

    def _is_unknown(self, forwarded: _ForwardedRequest | None) -> None:
        """Send a request again that was lost on the way.

        It is lost for good if its response had begun, or if the owner may have forgotten it since it was sent.
        """
        if forwarded is None or forwarded.sent_at is None:
            return
        if forwarded.expected or trio.current_time() > forwarded.sent_at + AWAY_SECONDS:
            forwarded.fail()
        else:
            self._send_request(forwarded)
