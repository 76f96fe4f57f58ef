"""The owner's side of forwarded requests: it answers what other processes have received for it.

Rules of this file:

1. A response is kept until the forwarding process has taken it, so that a broken connection between the processes
   loses nothing: the next one continues where the last one broke.
2. A forwarding process that stays away for `KEPT_SECONDS` is taken for dead: its clients have left.
3. No more than `_WINDOW_BYTES` of a response wait to be taken. Then the writer of the response waits, as it waits for a
   slow client.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import trio
from attrs import define, field

from .. import HttpRequest
from ..lowlevel import (
    BegunRequest,
    ClientSession,
    ForwardedApp,
    HttpChannel,
    Limits,
    Link,
    ResponseHead,
    json_fields,
    stream_link,
)
from ..wire import JsonObject
from ._messages import DONE, LEFT, PART, REQUEST, RESUME, TAKEN, UNKNOWN, ResponsePart, read_request

__all__ = ["KEPT_SECONDS", "LINK_LIMITS", "ForwardedRequests", "node_link"]

_log = logging.getLogger("trio_mcp.cluster")

KEPT_SECONDS = 20.0
"""How long the responses for a process are kept that is not connected."""
_WINDOW_BYTES = 128 * 2**10
_SMALL_BYTES = 64 * 2**10
"""The size of a response that is sent in one part, without a task."""
LINK_LIMITS = Limits(max_message_bytes=2**30, outbox_bytes=2**20, outbox_urgent_bytes=2**30, stall_seconds=10)
"""The limits of a link between processes, which trust each other; requests and responses have their own."""


def node_link(stream: trio.abc.Stream, notified: Callable[[str, JsonObject], None]) -> Link:
    """Return a link that carries notifications between two processes."""
    return stream_link(stream, ClientSession(), notified, LINK_LIMITS)


@define(eq=False)
class _NodeChannel(HttpChannel):
    """Carries a forwarded request, and its response back to the process that has received it."""

    _id: int
    _forwarder: _Forwarder
    has_whole_body: bool = field(default=True, init=False)
    _kept: deque[ResponsePart] = field(factory=deque[ResponsePart], init=False)
    """The parts that the forwarding process has not taken (rule 1)."""
    _kept_bytes: int = field(default=0, init=False)
    _parts: int = field(default=0, init=False)
    """The number of parts that were put."""
    has_left: bool = field(default=False, init=False)
    _is_complete: bool = field(default=False, init=False)
    """True if the last part was put."""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def open(self) -> None:
        """Register the channel, so that messages about its request reach it."""
        self._forwarder.channels[self._id] = self

    async def read(self) -> bytes | None:
        """Return None: the body came with the request."""
        await trio.lowlevel.checkpoint()
        return None

    async def wait_left(self) -> None:
        """Wait until the client of the forwarding process has left."""
        while not self.has_left:
            await self._changed.park()

    def put(self, head: ResponseHead | None, data: bytes, *, more: bool) -> bool:
        """Send a part of the response; see `HttpChannel`."""
        self._put(ResponsePart(self._parts, head, data, more))
        return self._kept_bytes <= _WINDOW_BYTES

    def _put(self, part: ResponsePart) -> None:
        if self.has_left or self._is_complete:
            return
        self._parts += 1
        self._is_complete = not part.more
        self._kept.append(part)
        self._kept_bytes += len(part.data)
        self._forwarder.send(PART, part.to_json(self._id))

    async def flush(self) -> None:
        """Wait until enough was taken (rule 3)."""
        while self._kept_bytes > _WINDOW_BYTES and not self.has_left:
            await self._changed.park()

    def cut(self) -> None:
        """Break the response off."""
        self._put(ResponsePart(self._parts, None, b"", more=False, is_cut=True))

    def finish(self) -> None:
        """Break the response off unless it is complete; called when the request was answered."""
        self.cut()
        self._forget_if_done()

    def taken(self, number: int) -> None:
        """Forget the parts up to a number."""
        while self._kept and self._kept[0].number <= number:
            self._kept_bytes -= len(self._kept.popleft().data)
        self._changed.unpark_all()
        self._forget_if_done()

    def _forget_if_done(self) -> None:
        if self.has_left or (self._is_complete and not self._kept):
            self._forwarder.forget(self._id)

    def resume(self, number: int) -> None:
        """Send the parts again from a number on, over a new connection."""
        self.taken(number - 1)
        for part in self._kept:
            self._forwarder.send(PART, part.to_json(self._id))

    def leave(self) -> None:
        """Take note that the client has left."""
        self.has_left = True
        self._kept.clear()
        self._kept_bytes = 0
        self._changed.unpark_all()
        self._forget_if_done()


@define(eq=False)
class _Forwarder:
    """Another process, which forwards requests to this one."""

    channels: dict[int, _NodeChannel] = field(factory=dict[int, _NodeChannel], init=False)
    """The requests that are being answered, and those whose response was not taken, by number."""
    link: Link | None = field(default=None, init=False)
    """The connection; None if there is none now."""
    lost_at: float = field(default=0.0, init=False)
    """The time at which the latest connection was lost, on Trio's clock."""
    emptied: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    """Wakes those that wait until there are no channels, or no connection."""

    def send(self, method: str, params: JsonObject) -> None:
        """Send a message; without a connection it is dropped, because the next one begins with what is missing."""
        if self.link is not None:
            self.link.notify_nowait(method, params)

    def forget(self, id: int) -> None:
        """Forget a request."""
        self.channels.pop(id, None)
        if not self.channels:
            self.emptied.unpark_all()


@define(eq=False)
class ForwardedRequests:
    """The requests that other processes have forwarded to this one.

    Args:
        app: answers the requests.
        nursery: the nursery of the tasks that answer.
    """

    _app: ForwardedApp
    _nursery: trio.Nursery
    _forwarders: dict[str, _Forwarder] = field(factory=dict[str, _Forwarder], init=False)

    async def serve(self, stream: trio.abc.Stream, node: str) -> None:
        """Take the messages of a connection of another process, until it ends.

        Args:
            node: the name of the process.
        """
        forwarder = self._forwarders.setdefault(node, _Forwarder())

        def notified(method: str, params: JsonObject) -> None:
            if forwarder.link is link:  # a request that an earlier connection has kept back was sent again by this one
                self._take(forwarder, method, params)

        link = node_link(stream, notified)
        if forwarder.link is not None:
            forwarder.link.stop()  # which is broken, although this process has not noticed it
        forwarder.link = link
        try:
            await link.run(drain=False)
        finally:
            if forwarder.link is link:
                forwarder.link, forwarder.lost_at = None, trio.current_time()
                forwarder.emptied.unpark_all()
                self._nursery.start_soon(self._expire, node, forwarder)

    def _take(self, forwarder: _Forwarder, method: str, params: JsonObject) -> None:
        if method == REQUEST:
            id: int = params["id"]
            for done in params["done"]:
                forwarder.forget(done)
            if id not in forwarder.channels:
                self._begin(params, _NodeChannel(id, forwarder))
        elif method == DONE:
            for done in params["ids"]:
                forwarder.forget(done)
        elif method == RESUME:
            self._resume(forwarder, {int(id): number for id, number in params["open"].items()})
        elif (known := forwarder.channels.get(params["id"])) is not None:
            if method == TAKEN:
                known.taken(params["number"])
            elif method == LEFT:
                known.leave()

    def _resume(self, forwarder: _Forwarder, wanted: dict[int, int]) -> None:
        for id, channel in [*forwarder.channels.items()]:
            if id in wanted:
                channel.resume(wanted[id])
            else:
                channel.leave()
        unknown = [id for id in wanted if id not in forwarder.channels]
        if unknown:
            forwarder.send(UNKNOWN, {"ids": unknown})

    def _begin(self, params: JsonObject, channel: _NodeChannel) -> None:
        """Answer a request at once if that needs no waiting, as for most calls, and otherwise in a task."""
        channel.open()
        try:
            request = read_request(params)
        except (KeyError, TypeError, ValueError):  # a process with another version of this package
            _log.exception("a forwarded request cannot be read")
            channel.finish()
            return
        begun = self._app.begin_forwarded(request)
        answer = None if begun is None else begun.take_answer(_SMALL_BYTES)
        if answer is None:
            self._nursery.start_soon(self._run, request, channel, begun)
        else:
            status, body = answer
            channel.put((status, json_fields(len(body))), body, more=False)

    async def _run(self, request: HttpRequest, channel: _NodeChannel, begun: BegunRequest | None) -> None:
        try:
            await self._app.answer_forwarded(request, channel, begun)
        except Exception:  # noqa: BLE001 # a bug must not end the other requests
            _log.exception("a forwarded request failed")
        finally:
            channel.finish()

    async def _expire(self, node: str, forwarder: _Forwarder) -> None:
        """Give the clients of a process up if it stays away (rule 2)."""
        lost_at = forwarder.lost_at
        if forwarder.channels:
            await trio.sleep_until(lost_at + KEPT_SECONDS)
        if forwarder.link is None and forwarder.lost_at == lost_at:
            del self._forwarders[node]
            for channel in [*forwarder.channels.values()]:
                channel.leave()

    async def drained(self) -> None:
        """Wait until the responses were taken by the processes that are connected."""
        for forwarder in [*self._forwarders.values()]:
            while forwarder.channels and forwarder.link is not None:
                await forwarder.emptied.park()
