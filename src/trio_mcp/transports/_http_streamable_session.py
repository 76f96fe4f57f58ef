"""One session of Streamable HTTP: what its POSTs get, and its GETs.

Rules of this file:

1. What belongs to a request goes out in the response to the POST that it came in; everything else by the standing
   stream, which the client opens with a GET.
2. Without an event store a response is JSON if it is nothing but the answer, or an array of answers, and an event
   stream otherwise. With one it is an event stream, because only events can be asked for again.
3. A client that closes a response has cancelled nothing. With an event store it may come back for the rest; without
   one, what was to go out there is dropped, and the answer is counted.
4. From 2025-11-25 on a kept stream begins with an event without data: its id is where the client comes back to, and it
   says after how long. Clients of before choke on it. So only the others may be sent away from a stream that goes on.
5. The standing stream ends with the access of who opened it, and its client opens another. Others end with their call.
6. Nothing of the handshake itself is kept: before it nobody knows what the client reads.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import trio
from attrs import define, field

from .._errors import ConnectionClosed, McpError
from ..peer import BUSY, NO_ENVELOPE, NO_HEADERS, Envelope, Lane
from ..wire import (
    INVALID_REQUEST,
    LAST_EVENT_FIELD,
    LEGACY_REVISIONS,
    SESSION_FIELD,
    LegacyPost,
    Refusal,
    is_array,
    sse_event,
)
from ._asgi import HttpRequest
from ._event_record import Record
from ._http_kept_lanes import KeptLane, Replay, read_mark
from ._http_lanes import HttpLane, LaneReader, Source
from ._http_response import QUICK_PASSES, Responding
from ._http_session import HttpSession

__all__ = ["StreamableSession"]

_MAX_GETS = 16
"""Event streams that the client of one session may have open by GET."""
_STANDING = 0
"""The number of the standing stream among those of a session."""
_PRIMED_REVISIONS = frozenset(LEGACY_REVISIONS[LEGACY_REVISIONS.index("2025-11-25") :])
"""Those of rule 4."""


@define(eq=False)
class StreamableSession(HttpSession):
    """One session of Streamable HTTP."""

    _record: Record | None = field(init=False)
    """What is kept of it; None where nothing is."""
    _standing: HttpLane = field(init=False)
    _lanes: dict[int, HttpLane] = field(factory=dict[int, HttpLane], init=False)
    """Those that are not complete, or are read, by number."""
    _issued: int = field(default=_STANDING, init=False)
    """The number of the newest lane."""
    _gets: int = field(default=0, init=False)
    """Streams that the client has open by GET."""
    _keeps_standing: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        events = self.host.events
        self._record = None if events is None else Record(events)
        self._standing = self._new_lane(_STANDING, kept=True)

    @property
    def lane(self) -> HttpLane:
        """The standing stream."""
        return self._standing

    @property
    def _is_primed(self) -> bool:
        return self.gate.revision in _PRIMED_REVISIONS

    def _new_lane(self, number: int, envelope: Envelope = NO_ENVELOPE, *, kept: bool) -> HttpLane:
        if self._record is None or not kept:
            lane = HttpLane(self.limits, self.close, envelope)
        else:
            lane = KeptLane(self.limits, self.close, envelope, self._record, number, number == _STANDING)
        self._lanes[number] = lane
        return lane

    async def post(self, posted: LegacyPost, request: HttpRequest, responding: Responding) -> None:
        """Take what was posted, and answer it. A handshake that fails ends the session."""
        if is_array(posted.value) and not self.gate.batches:
            await self._refuse_http(400, f"revision {self.gate.revision} has no arrays of messages", responding)
            return
        refusal = self.refusal(posted.value, request)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        begins = posted.session_id is None
        self._issued += 1
        number = self._issued
        lane = self._new_lane(number, request.envelope, kept=not begins)
        with self.visit():
            self.take_value(posted.value, len(request.body), lane)
            lane.settle()
            if isinstance(lane, KeptLane) and not lane.is_silent:
                self.host.nursery.start_soon(self._keep, lane, name="a kept stream")
                await self._stream(lane.attach(), responding, math.inf)
                return
            try:
                await self._respond(lane, responding, begins=begins)
            finally:
                del self._lanes[number]
                self._leave(lane)
                if begins and (self.gate.revision is None or not responding.begun):
                    self.close(ConnectionClosed("the handshake failed"))

    def _leave(self, lane: HttpLane) -> None:
        """The response that a lane goes out by has ended, be it that its client has left."""
        if lane.is_silent:
            return
        if lane.is_complete:
            self.unheard += 1
        self.abandon_lane(lane)

    async def _respond(self, lane: HttpLane, responding: Responding, *, begins: bool) -> None:
        """Answer with what goes out in a lane that is not kept (rule 2)."""
        for _ in range(QUICK_PASSES):
            if not lane.is_complete:
                await trio.lowlevel.checkpoint()
        if await self._respond_whole(lane, responding, begins=begins):
            return
        reader = lane.attach()
        try:
            async with responding.attending():
                with trio.move_on_after(responding.keep_alive):
                    await lane.said()
                if not await self._respond_whole(lane, responding, begins=begins):
                    headers = {SESSION_FIELD: self.id} if begins else NO_HEADERS
                    await self._write(reader, responding, headers, math.inf)
        finally:
            reader.leave()

    async def _respond_whole(self, lane: HttpLane, responding: Responding, *, begins: bool) -> bool:
        """Answer if it is known what there is to say, and that is no stream; return whether it was."""
        answer = lane.only_answer()
        if answer is not None:
            has_begun = begins and self.gate.revision is not None
            await responding.json(answer, headers={SESSION_FIELD: self.id} if has_begun else NO_HEADERS)
        elif lane.is_silent and self.lost is not None:
            await self._refuse_http(404, "the session has ended", responding)
        elif lane.is_silent:
            await responding.empty()
        return answer is not None or lane.is_silent

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Open the standing stream, or go on with one that was left (`Last-Event-ID`)."""
        if self._gets >= _MAX_GETS:
            await self._refuse_http(
                429, f"this session has {_MAX_GETS} event streams open already", responding, code=BUSY
            )
            return
        mark = request.headers.get(LAST_EVENT_FIELD, "")
        self._gets += 1
        try:
            with self.visit():
                source = await self._source(mark)
                if source is None:
                    await self._refuse_http(400, f"nothing is kept after the event {mark[:100]!r}", responding)
                else:
                    is_standing = isinstance(source, LaneReader) and source.lane is self._standing
                    await self._stream(source, responding, request.access_until if is_standing else math.inf)
        finally:
            self._gets -= 1

    async def _source(self, mark: str) -> Source | None:
        """Return what a GET gets; None where it wants to go on after something that nobody knows of."""
        if self._record is None or not mark:
            return self._standing_reader()
        stream, number = read_mark(mark) or (self._issued + 1, 0)
        lane = self._lanes.get(stream)
        if isinstance(lane, KeptLane):
            return lane.attach_after(number) if number <= lane.last else None
        replay = Replay(self._record, stream, number)
        return replay if stream <= self._issued and await replay.find() else None

    def _standing_reader(self) -> LaneReader:
        lane = self._standing
        if isinstance(lane, KeptLane) and not self._keeps_standing:  # until then it is bounded by its queue alone
            self._keeps_standing = True
            self.host.nursery.start_soon(lane.keep, name="the kept standing stream")
        return lane.attach()

    async def _keep(self, lane: KeptLane) -> None:
        await lane.keep()
        self._retire(lane)

    def _retire(self, lane: HttpLane) -> None:
        """Forget a lane that is complete, if nobody reads it: who comes back to it gets what was kept."""
        if isinstance(lane, KeptLane) and lane.is_kept and not lane.is_read:
            self._lanes.pop(lane.stream, None)

    async def _stream(self, source: Source, responding: Responding, until: float) -> None:
        """Answer with an event stream, which ends at a time of Trio's clock if it has not ended before."""
        try:
            async with responding.attending():
                await self._write(source, responding, NO_HEADERS, until)
        finally:
            source.leave()
            if isinstance(source, LaneReader):
                self._retire(source.lane)

    async def _write(self, source: Source, responding: Responding, headers: Mapping[str, str], until: float) -> None:
        async with responding.stream(headers) as stream:
            if self._is_primed and source.mark is not None:
                await stream.send(sse_event(b"", id=source.mark, retry_ms=self.host.retry_ms))
            while trio.current_time() < until and (chunk := await _next_chunk(source, until)):
                await stream.send(chunk)
            if source.retry_ms is not None:
                await stream.send(sse_event(b"", id=source.mark, retry_ms=source.retry_ms))

    async def _refuse_http(
        self, status: int, sentence: str, responding: Responding, *, code: int = INVALID_REQUEST
    ) -> None:
        await responding.refuse(Refusal(status, McpError(code, sentence)))

    def detach(self, lane: Lane, retry_ms: int | None) -> None:
        """Send away who reads a lane, where that is understood (rule 4)."""
        if isinstance(lane, KeptLane) and self._is_primed:
            lane.send_away(self.host.retry_ms if retry_ms is None else retry_ms)

    async def forget(self) -> None:
        """Forget what is kept of it, when it has ended, and the last visit has, too."""
        await super().forget()
        if self._record is not None:
            await self._record.forget()

    def _outbox_bytes(self) -> int:
        return sum(lane.size for lane in self._lanes.values())


async def _next_chunk(source: Source, until: float) -> bytes:
    """Return what is to be sent next; empty when there is no more, or it is too late."""
    with trio.CancelScope(deadline=until):
        return await source.next_chunk()
    return b""
