"""Fault injection: streams that fail on purpose, and `cancel_everywhere`, which cancels a coroutine at every step."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, Unpack

import trio
import trio.testing
from attrs import define, field, frozen

from .._util import owned_nursery
from ..abc import Answerer
from ..client import Client, ClientOptions, open_stream_client
from ..server import serve_stream
from ..wire import Line, LineFramer, Oversized, Undecodable, decode, is_object

__all__ = [
    "Fault",
    "FaultyStream",
    "When",
    "cancel_everywhere",
    "cancelled_after",
    "cut",
    "delay",
    "duplicate",
    "open_memory_client",
    "reorder",
    "rewrite",
    "stall",
]

When: TypeAlias = "int | str | Callable[[Any], bool] | None"
"""The messages of one direction that a fault affects: the n-th (from 1), those of a method, those whose JSON value
satisfies a predicate (other bytes never do), or all."""


@frozen
class _Deliver:
    """Bytes to pass on."""

    data: bytes


@frozen
class _Wait:
    """A pause of so many seconds before the next step."""

    seconds: float


@frozen
class _Disconnect:
    """The end of the connection."""

    broken: bool


_Step: TypeAlias = "_Deliver | _Wait | _Disconnect"


@define(eq=False)
class Fault:
    """A fault in one direction of a `FaultyStream`. The functions of this module create it.

    It counts its messages, so it can be used for one stream and one direction only.
    """

    _when: When
    _treat: Callable[[bytes], Iterable[_Step]]
    """A function that returns the steps for a chosen message."""
    _after: Callable[[], Iterable[_Step]] | None = None
    """A function that returns the steps after a message that was not chosen, and after the last message."""
    _seen: int = field(default=0, init=False)

    def feed(self, steps: Iterable[_Step]) -> list[_Step]:
        """Return the steps that this fault makes of *steps*, which are messages or the steps of the fault before it."""
        out: list[_Step] = []
        for step in steps:
            if isinstance(step, _Deliver):
                out += self._message(step)
            else:
                out.append(step)
        return out

    def _message(self, step: _Deliver) -> Iterable[_Step]:
        self._seen += 1
        if self._chooses(step.data):
            return self._treat(step.data)
        return [step, *self._after()] if self._after is not None else [step]

    def finish(self) -> Iterable[_Step]:
        """Return the messages held back, because no further message comes."""
        return self._after() if self._after is not None else ()

    def _chooses(self, line: bytes) -> bool:
        when = self._when
        if when is None or isinstance(when, int):
            return when in (None, self._seen)
        try:
            value = decode(line)
        except Undecodable:
            return False
        if isinstance(when, str):
            return is_object(value) and value.get("method") == when
        return when(value)


def delay(seconds: float, when: When = None) -> Fault:
    """Delay messages. Later messages wait too, so the order stays.

    Args:
        seconds: the delay, on Trio's clock.
        when: chooses the messages, as the number of a message from 1 on, a method, or a function of the JSON of a
            message that returns True; None for every message.
    """
    return Fault(when, lambda line: [_Wait(seconds), _Deliver(line)])


def cut(after_bytes: int = 0, when: When = None, *, broken: bool = False) -> Fault:
    """End the connection in both directions in the middle of a message, by default the first.

    The reader at the other end of the bytes sees the first *after_bytes* bytes of the message and then the end.

    Args:
        after_bytes: the number of bytes of the message that are still delivered.
        when: chooses the messages, as the number of a message from 1 on, a method, or a function of the JSON of a
            message that returns True; None for the first.
        broken: a reader of the `FaultyStream` sees a broken connection (`trio.BrokenResourceError`) instead of the
            end. A writer always does.
    """

    def part(line: bytes) -> Iterable[_Step]:
        if after_bytes:
            yield _Deliver(line[:after_bytes])
        yield _Disconnect(broken)

    return Fault(when, part)


def duplicate(when: When = None) -> Fault:
    """Deliver the messages that *when* selects, by default all, twice."""
    return Fault(when, lambda line: [_Deliver(line), _Deliver(line)])


def reorder(when: When = None) -> Fault:
    """Deliver a message after the next one that is not chosen, or at the end of the stream if there is none.

    If `when` is None, no message is delivered before the end, so choose the messages to be overtaken.
    """
    held: deque[bytes] = deque()

    def hold(line: bytes) -> Iterable[_Step]:
        held.append(line)
        return ()

    def release() -> Iterable[_Step]:
        while held:
            yield _Deliver(held.popleft())

    return Fault(when, hold, release)


def stall(when: When = None) -> Fault:
    """Stop the stream at a message, by default the first, until the stream is closed.

    A sender waits, as for a peer that does not read. A receiver gets nothing.

    Args:
        when: chooses the messages, as the number of a message from 1 on, a method, or a function of the JSON of a
            message that returns True; None for the first.
    """
    return Fault(when, lambda line: [_Wait(math.inf), _Deliver(line)])


def rewrite(change: Callable[[bytes], bytes | None], when: When = None) -> Fault:
    """Replace messages.

    Args:
        change: called with the bytes of a message, and returns the bytes of another, both without newline; None drops
            the message.
        when: chooses the messages, as the number of a message from 1 on, a method, or a function of the JSON of a
            message that returns True; None for every message.
    """

    def changed(line: bytes) -> Iterable[_Step]:
        new = change(line.removesuffix(b"\n"))
        return () if new is None else [_Deliver(new + b"\n")]

    return Fault(when, changed)


@define(eq=False)
class FaultyStream(trio.abc.Stream):
    """A stream of newline-delimited messages with faults, which can wrap either end of a connection.

    Each message passes the faults of its direction from left to right: each fault gets the output of the one before
    it. Without faults, the stream only sends and receives whole messages. Example::

        async with open_memory_client(
            server, wrap=lambda stream: FaultyStream(stream, receiving=[delay(2), duplicate("notifications/progress")])
        ) as client:
            ...

    Args:
        stream: the stream that carries the bytes; closed with this one.
        sending: the faults of the sent messages.
        receiving: the faults of the received messages.
    """

    _stream: trio.abc.Stream
    _sending: Sequence[Fault] = field(default=(), kw_only=True, alias="sending")
    _receiving: Sequence[Fault] = field(default=(), kw_only=True, alias="receiving")
    _to_send: deque[_Step] = field(factory=deque[_Step], init=False)
    _to_deliver: deque[_Step] = field(factory=deque[_Step], init=False)
    _sent: LineFramer = field(factory=lambda: LineFramer(2**40), init=False)
    _received: LineFramer = field(factory=lambda: LineFramer(2**40), init=False)
    _end: _Disconnect | None = field(default=None, init=False)
    """The fault that cut the connection; None before."""
    _input_ended: bool = field(default=False, init=False)
    _gone: trio.Event = field(factory=trio.Event, init=False)
    """An event that is set when the connection is cut or this stream is closed."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send the messages that *data* completes, with the faults. If cancelled, a message may be sent in part.

        Raises:
            trio.BrokenResourceError: a fault has cut the connection, or the stream below raises it.
            trio.ClosedResourceError: this stream is closed.
        """
        self._to_send += _through(self._sending, self._sent.feed(bytes(data)), b"\n")
        while self._to_send and self._end is None:
            step = self._to_send.popleft()
            if isinstance(step, _Deliver):
                await self._send(step.data)
            else:
                await self._obey(step)
        await trio.lowlevel.checkpoint()
        if self._end is not None:
            raise trio.BrokenResourceError("the connection was cut")

    async def _send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.ClosedResourceError:
            if self._end is None:
                raise  # otherwise a fault cut the connection during the send

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream below might take more."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return bytes of the next message, with the faults; ``b""`` at the end.

        Raises:
            trio.BrokenResourceError: a fault has broken the connection, or what the stream below raises this for.
            trio.ClosedResourceError: this stream is closed.
        """
        while True:
            step = self._to_deliver[0] if self._to_deliver else None
            if isinstance(step, _Deliver):
                self._to_deliver.popleft()
                await trio.lowlevel.cancel_shielded_checkpoint()
                return self._part(step.data, max_bytes)
            if self._end is not None or (step is None and self._input_ended):
                await trio.lowlevel.checkpoint()
                if self._end is not None and self._end.broken:
                    raise trio.BrokenResourceError("the connection was cut")
                return b""
            if step is None:
                await self._read()
            else:
                await self._obey(step)  # if cancelled, the step stays due
                if self._end is None:
                    self._to_deliver.popleft()

    def _part(self, data: bytes, max_bytes: int | None) -> bytes:
        if max_bytes is not None and len(data) > max_bytes:
            self._to_deliver.appendleft(_Deliver(data[max_bytes:]))
            return data[:max_bytes]
        return data

    async def _read(self) -> None:
        try:
            chunk = await self._stream.receive_some()
        except trio.ClosedResourceError:
            if self._end is None:
                raise
            return  # cut during the wait
        if chunk:
            self._to_deliver += _through(self._receiving, self._received.feed(bytes(chunk)), b"\n")
            return
        self._to_deliver += _through(self._receiving, self._received.finish(), b"")
        for index, fault in enumerate(self._receiving):
            self._to_deliver += _onwards(self._receiving[index + 1 :], fault.finish())
        self._input_ended = True

    async def _obey(self, step: _Wait | _Disconnect) -> None:
        if isinstance(step, _Disconnect):
            self._end = step
            self._gone.set()
            await trio.aclose_forcefully(self._stream)
            return
        with trio.move_on_after(step.seconds):
            await self._gone.wait()
            if self._end is None:
                raise trio.ClosedResourceError("this stream was closed")

    async def aclose(self) -> None:
        """Close the stream below, and end a stall."""
        self._gone.set()
        await self._stream.aclose()


def _through(faults: Sequence[Fault], lines: Iterable[Line | Oversized], newline: bytes) -> list[_Step]:
    return _onwards(faults, [_Deliver(bytes(line) + newline) for line in lines if not isinstance(line, Oversized)])


def _onwards(faults: Sequence[Fault], steps: Iterable[_Step]) -> list[_Step]:
    for fault in faults:
        steps = fault.feed(steps)
    return list(steps)


# --- Cancelling a coroutine at every step ---


async def cancel_everywhere(
    attempt: Callable[[], Awaitable[object]],
    after_each: Callable[[], Awaitable[object]] | None = None,
    *,
    max_points: int = 10_000,
) -> int:
    """Run *attempt* repeatedly, and cancel it after the first step of the program, then the second, until it completes.

    A step is the work of one task, of any task, between two checkpoints. So *attempt* is cancelled at every point, and
    with the other tasks in every state. One call replaces dozens of hand-timed tests: every cancelled run must leave a
    consistent state, which *after_each* can assert.

    Args:
        attempt: creates the coroutine to cancel; called for each run.
        after_each: awaited after each run, cancelled or not.
        max_points: the most steps to try.

    Returns:
        The number of steps after which it was cancelled.

    Raises:
        RuntimeError: the attempt did not complete within *max_points* runs.
    """
    for point in range(1, max_points + 1):
        with trio.CancelScope() as scope:
            await cancelled_after(point, attempt, scope)
        if after_each is not None:
            await after_each()
        if not scope.cancelled_caught:
            return point - 1
    raise RuntimeError(f"not completed after {max_points} runs")


async def cancelled_after(steps: int, attempt: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    """Await *attempt*, and cancel *scope* after so many steps of the program."""
    instrument = _Steps(steps, scope)
    trio.lowlevel.add_instrument(instrument)
    try:
        await attempt()
    finally:
        trio.lowlevel.remove_instrument(instrument)


@define(eq=False)
class _Steps(trio.abc.Instrument):
    """An instrument that cancels a scope after the n-th step of the program."""

    _left: int
    _scope: trio.CancelScope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel(reason=f"cancel_everywhere, in {task.name}")


# --- A client and a server in memory ---


@asynccontextmanager
async def open_memory_client(
    server: Answerer,
    *,
    lockstep: bool = False,
    wrap: Callable[[trio.abc.Stream], trio.abc.Stream] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Serve *server* and connect to it through bytes in memory, so that every rule of the wire applies.

    It works with pytest-trio's ``autojump_clock``, even for plain `def` handlers. An exception of the block is not
    wrapped.

    Args:
        lockstep: pass on each byte only when it is read, which reveals deadlocks that buffers hide.
        wrap: takes the client's end of the stream and returns a replacement, such as a `FaultyStream`. Closing the
            replacement must close the stream.
        options: see `trio_mcp.ClientOptions`.
    """
    pair = trio.testing.lockstep_stream_pair() if lockstep else trio.testing.memory_stream_pair()
    ours, theirs = pair
    client_end = ours if wrap is None else wrap(ours)
    async with server.serving() as serving, owned_nursery() as nursery:
        ended = trio.Event()

        async def serve() -> None:
            await serve_stream(serving, theirs)
            ended.set()

        nursery.start_soon(serve)
        async with open_stream_client(client_end, **options) as client:
            yield client
        await ended.wait()  # the server has seen the end, so its lifespan ends before the test continues
