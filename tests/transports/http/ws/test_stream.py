"""The stream of lines over a WebSocket: what is sent to a channel that blocks, what is received, and the end."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext

import pytest
import trio
import trio.testing
from attrs import define, field

from trio_mcp import ConnectionLost
from trio_mcp.peer import READER_PASS, Outbox
from trio_mcp.transports.http.ws import (
    Close,
    CloseCode,
    FrameReader,
    WebSocketStream,
    close_frame,
    ping_frame,
    pong_frame,
    text_frames,
)

LINES = [b"first\n", b"second, which is a bit longer\n", b"x\n", b"\xe2\x82\xac\n"]
SILENCE = 10.0


@define(eq=False)
class ScriptedChannel:
    """A channel whose peer takes no more bytes than a test allows."""

    room: float = float("inf")
    """The number of bytes that the peer takes."""
    is_immediate: bool = True
    """False if nothing is sent at once, as under TLS."""
    taken: bytearray = field(factory=bytearray, init=False)
    """What the peer has taken."""
    is_broken: bool = field(default=False, init=False)
    is_closed: bool = field(default=False, init=False)
    flushes: int = field(default=0, init=False)
    arriving: list[bytes] = field(factory=list[bytes], init=False)
    _unsent: bytearray = field(factory=bytearray, init=False)
    _sending: trio.Lock = field(factory=trio.Lock, init=False)
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def put(self, data: bytes) -> bool:
        self._unsent += data
        if self.is_immediate and not self._sending.locked():
            self._take()
        return not self._unsent

    def _take(self) -> None:
        size = int(min(self.room, len(self._unsent)))
        self.taken += self._unsent[:size]
        del self._unsent[:size]
        self.room -= size

    async def flush(self) -> None:
        self.flushes += 1
        async with self._sending:
            self._take()
            while self._unsent and not self.is_broken:
                await self._changed.park()
                self._take()
            if self.is_broken:
                raise trio.BrokenResourceError

    async def receive(self) -> bytes:
        while not self.arriving and not self.is_closed:
            await self._changed.park()
        if self.is_broken:
            raise trio.BrokenResourceError
        return self.arriving.pop(0) if self.arriving else b""

    def close(self) -> None:
        self.is_closed = True
        self._changed.unpark_all()

    # --- The peer ---

    def allow(self, size: float) -> None:
        """Take more bytes."""
        self.room += size
        self._changed.unpark_all()

    def fail(self) -> None:
        """End the connection."""
        self.is_broken = True
        self.close()

    def send(self, data: bytes) -> None:
        """Let bytes arrive."""
        self.arriving.append(data)
        self._changed.unpark_all()

    def text(self) -> bytes:
        """Return the text of the frames that were taken, which have to be valid."""
        reader = FrameReader(masked=True)
        text = reader.feed(bytes(self.taken))
        assert reader.fault is None
        return text


def client_stream(channel: ScriptedChannel) -> WebSocketStream:
    return WebSocketStream(channel, is_client=True, silence_seconds=SILENCE)


def server_stream(channel: ScriptedChannel) -> WebSocketStream:
    return WebSocketStream(channel, is_client=False, silence_seconds=SILENCE)


@define(eq=False)
class Sender:
    """An outbox as a link has one, its stream, and its channel."""

    channel: ScriptedChannel
    stream: WebSocketStream = field(init=False)
    outbox: Outbox = field(init=False)
    is_quiet: bool = field(default=True, init=False)
    failures: list[ConnectionLost] = field(factory=list[ConnectionLost], init=False)

    def __attrs_post_init__(self) -> None:
        self.stream = client_stream(self.channel)
        self.outbox = Outbox(
            10**9, 10**9, self.failures.append, send_now=self.stream.send_now, is_quiet=lambda: self.is_quiet
        )

    async def run(self) -> None:
        await self.outbox.drain(self.stream.send_all, 1000)


@asynccontextmanager
async def sending(channel: ScriptedChannel) -> AsyncGenerator[Sender]:
    sender = Sender(channel)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        await idle()
        yield sender
        nursery.cancel_scope.cancel()


async def idle() -> None:
    await trio.testing.wait_all_tasks_blocked()


# --- Sending ---


async def test_a_line_is_sent_at_once_by_the_task_that_queues_it() -> None:
    channel = ScriptedChannel()
    async with sending(channel) as sender:
        for line in LINES:
            sender.outbox.put(line)

        assert channel.text() == b"".join(LINES)
        assert (channel.flushes, sender.outbox.size) == (0, 0)


SIZE = len(text_frames([line[:-1] for line in LINES], masks=True))


@pytest.mark.parametrize("is_immediate", [True, False])
@pytest.mark.parametrize("step", [1, 5, SIZE])
@pytest.mark.parametrize("together", [True, False])
async def test_nothing_is_lost_or_doubled_wherever_the_channel_blocks(
    is_immediate: bool, step: int, together: bool
) -> None:
    for room in range(SIZE + 1):
        channel = ScriptedChannel(room, is_immediate)
        async with sending(channel) as sender:
            with READER_PASS if together else nullcontext():
                for number, line in enumerate(LINES):
                    sender.outbox.put(line)
                    if number == 1 and not together:
                        await idle()
            await idle()
            assert len(channel.taken) == room
            while channel.room < SIZE and len(channel.taken) < SIZE:
                channel.allow(step)
                await idle()
            assert channel.text() == b"".join(LINES)
            assert sender.outbox.size == 0
            sender.outbox.put(b"last\n")
            channel.allow(100)
            await idle()
            assert channel.text() == b"".join(LINES) + b"last\n"


@pytest.mark.parametrize("seed", range(150))
async def test_nothing_is_lost_or_doubled_whatever_happens_meanwhile(seed: int) -> None:
    chance = random.Random(seed)
    channel = ScriptedChannel(0, is_immediate=chance.random() < 0.7)
    queued, pings = list[bytes](), list[bytes]()

    def queue() -> None:
        line = b"%d " % len(queued) + b"x" * chance.choice([0, 3, 130, 70_000, 200_000]) + b"\n"
        queued.append(line)
        sender.outbox.put(line)

    def ping() -> None:
        pings.append(b"%d" % len(pings))
        channel.send(b"\x89" + bytes([len(pings[-1])]) + pings[-1])

    def change_quiet() -> None:
        sender.is_quiet = not sender.is_quiet

    steps: list[Callable[[], None]] = [
        queue,
        queue,
        ping,
        change_quiet,
        *(lambda size=size: channel.allow(size) for size in (1, 2, 7, 100, 80_000)),
    ]
    async with sending(channel) as sender, trio.open_nursery() as nursery:

        async def receive() -> None:
            assert await sender.stream.receive_some() == b""

        nursery.start_soon(receive)
        nursery.start_soon(sender.stream.keep_alive)
        for _ in range(60):
            chance.choice(steps)()
            if chance.random() < 0.6:
                await idle()
        channel.allow(float("inf"))
        await idle()
        nursery.cancel_scope.cancel()
    assert channel.text() == b"".join(queued)
    assert sender.outbox.size == 0
    assert pongs(channel.taken)[-1:] == pings[-1:]
    assert pongs(channel.taken) == sorted(pongs(channel.taken), key=int)


def frames(taken: bytearray) -> list[tuple[int, bytes]]:
    """Return the opcode and the payload of each frame of a client."""
    found = list[tuple[int, bytes]]()
    at = 0
    while at < len(taken):
        opcode, length, at = taken[at] & 15, taken[at + 1] & 127, at + 2
        if length > 125:
            size = 2 if length == 126 else 8
            length, at = int.from_bytes(taken[at : at + size], "big"), at + size
        key, payload = taken[at : at + 4], taken[at + 4 : at + 4 + length]
        found.append((opcode, bytes(byte ^ key[place % 4] for place, byte in enumerate(payload[:200]))))
        at += 4 + length
    assert at == len(taken)
    return found


def pongs(taken: bytearray) -> list[bytes]:
    return [payload for opcode, payload in frames(taken) if opcode == 10]


async def test_the_parts_of_a_line_are_one_message() -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    await stream.send_all(b'{"a"')
    assert channel.taken == b""
    assert stream.send_now(b"too early\n") == 0
    await stream.send_all(bytearray(b":1}\n\nsec"))
    await stream.send_all(memoryview(b"ond\n"))

    assert channel.text() == b'{"a":1}\nsecond\n'


async def test_a_part_of_a_line_may_be_sent_without_waiting() -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)

    assert stream.send_now(b"one\ntw") == 6
    assert channel.text() == b"one\n"
    await stream.send_all(b"o\n")
    assert channel.text() == b"one\ntwo\n"


async def test_of_what_the_channel_does_not_take_one_byte_is_left() -> None:
    channel = ScriptedChannel(3)
    stream = client_stream(channel)

    assert stream.send_now(b"one\n") == 3
    assert stream.send_now(b"two\n") == 0
    await stream_is_free(stream, channel)
    assert stream.send_now(b"\n") == 0
    await stream.send_all(b"\n")
    assert stream.send_now(b"two\n") == 4
    assert channel.text() == b"one\ntwo\n"


async def test_the_byte_that_is_left_is_not_sent_twice() -> None:
    channel = ScriptedChannel(3)
    stream = client_stream(channel)

    assert stream.send_now(b"one\ntwo") == 6
    await stream_is_free(stream, channel)
    assert stream.send_now(b"o\n") == 0  # it does not know that this is the byte
    await stream.send_all(b"o")
    assert stream.send_now(b"\n") == 0
    await stream.send_all(b"\n")
    assert channel.text() == b"one\ntwo\n"


async def stream_is_free(stream: WebSocketStream, channel: ScriptedChannel) -> None:
    channel.allow(1000)
    await stream.wait_send_all_might_not_block()


async def test_frames_of_a_server_are_not_masked() -> None:
    channel = ScriptedChannel()
    await server_stream(channel).send_all(b"x\n")

    assert channel.taken == b"\x81\x01x"


@pytest.mark.parametrize("wait", [True, False])
async def test_waiting_for_a_channel_that_is_free_is_a_checkpoint(wait: bool) -> None:
    stream = client_stream(ScriptedChannel())
    with trio.testing.assert_checkpoints():
        await (stream.wait_send_all_might_not_block() if wait else stream.send_all(b"x\n"))


async def test_a_stream_may_be_written_to_when_the_channel_has_sent_all(nursery: trio.Nursery) -> None:
    channel, ready = ScriptedChannel(0), trio.Event()
    stream = client_stream(channel)
    stream.send_now(b"x\n")

    async def wait() -> None:
        await stream.wait_send_all_might_not_block()
        ready.set()

    nursery.start_soon(wait)
    await idle()
    assert not ready.is_set()
    channel.allow(100)
    await ready.wait()


async def test_a_channel_that_breaks_breaks_the_stream() -> None:
    channel = ScriptedChannel(0)
    async with sending(channel) as sender:
        sender.outbox.put(b"x\n")
        await idle()
        channel.fail()
        await idle()

        assert len(sender.failures) == 1


async def test_a_cancelled_sender_leaves_the_rest_of_its_frame_to_the_close() -> None:
    channel = ScriptedChannel(3)
    stream = client_stream(channel)
    with trio.move_on_after(0.01):
        await stream.send_all(b"first\n")
    channel.allow(100)
    await stream.aclose()

    assert channel.text() == b"first\n"
    assert frames(channel.taken)[-1] == (8, b"\x03\xe8")


# --- Receiving ---


async def test_messages_that_arrive_together_are_received_together() -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    channel.send(text_frames([b"first", b"second"], masks=False) + b"\x81\x05th")
    channel.send(b"ird")

    assert await stream.receive_some(1) == b"first\nsecond\nth"
    assert await stream.receive_some(1) == b"ird\n"


async def test_a_server_reads_masked_frames() -> None:
    channel = ScriptedChannel()
    channel.send(text_frames([b"x"], masks=True))

    assert await server_stream(channel).receive_some() == b"x\n"


async def test_the_end_of_the_connection_ends_the_stream() -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    channel.send(b"")

    assert await stream.receive_some() == b""
    channel.send(text_frames([b"x"], masks=False))
    assert await stream.receive_some() == b""
    assert (stream.closed_by_peer, stream.fault) == (None, None)


@pytest.mark.parametrize("end", [b"", close_frame(Close(CloseCode.NORMAL), masks=False), b"\x82\x00"])
async def test_the_begin_of_a_message_that_does_not_end_is_not_taken_for_a_message(end: bytes) -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    channel.send(b"\x01\x02{}" + end)
    if not end:
        channel.close()
    assert await stream.receive_some() == b"{}"
    with pytest.raises(trio.BrokenResourceError, match="within a message"):
        await stream.receive_some()


async def test_receiving_from_a_broken_channel_raises() -> None:
    channel = ScriptedChannel()
    channel.fail()
    with pytest.raises(trio.BrokenResourceError):
        await client_stream(channel).receive_some()


async def test_a_cancelled_task_receives_nothing() -> None:
    channel = ScriptedChannel()
    channel.send(text_frames([b"x"], masks=False))
    with trio.CancelScope() as scope:
        scope.cancel()
        await client_stream(channel).receive_some()
        pytest.fail("it was not cancelled")

    assert channel.arriving


@pytest.mark.parametrize("close", [Close(1000), Close(1001, "going away"), Close(4999), Close(1005)])
async def test_a_close_is_answered_with_its_code_after_the_messages_before_it(close: Close) -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    channel.send(text_frames([b"x"], masks=False) + close_frame(close, masks=False))

    assert await stream.receive_some() == b"x\n"
    assert await stream.receive_some() == b""
    assert stream.closed_by_peer == close
    assert frames(channel.taken) == [(8, b"" if close.code == 1005 else close.code.to_bytes(2, "big"))]
    await stream.aclose()
    assert len(frames(channel.taken)) == 1
    assert channel.is_closed


async def test_a_fault_is_answered_with_its_code_after_the_messages_before_it() -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    channel.send(text_frames([b"x"], masks=False) + b"\x82\x00")

    assert await stream.receive_some() == b"x\n"
    assert await stream.receive_some() == b""
    assert stream.fault is not None
    assert frames(channel.taken) == [(8, b"\x03\xebmessages are text")]
    await stream.aclose()
    assert len(frames(channel.taken)) == 1


@pytest.mark.parametrize("ends_by", ["close", "fault", "this side"])
async def test_nothing_is_sent_after_a_close(ends_by: str) -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    if ends_by == "this side":
        await stream.close_websocket(Close(CloseCode.NORMAL))
    else:
        channel.send(close_frame(Close(1000), masks=False) if ends_by == "close" else b"\xff\xff")
        assert await stream.receive_some() == b""
    taken = bytes(channel.taken)

    assert stream.send_now(b"x\n") == 0
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"x\n")
    assert channel.taken == taken


# --- Pings ---


async def test_a_ping_is_answered_at_once_with_its_payload() -> None:
    channel = ScriptedChannel()
    stream = server_stream(channel)
    channel.send(b"\x89\x82\0\0\0\0hi" + text_frames([b"x"], masks=True))

    assert await stream.receive_some() == b"x\n"
    assert channel.taken == pong_frame(b"hi", masks=False)


async def test_of_many_pings_to_a_channel_that_blocks_the_latest_is_answered() -> None:
    channel = ScriptedChannel(0)
    async with sending(channel) as sender, trio.open_nursery() as nursery:
        sender.outbox.put(b"first\n")
        nursery.start_soon(sender.stream.receive_some)
        for number in range(3):
            channel.send(b"\x89\x01%d" % number)
            await idle()
        sender.outbox.put(b"second\n")
        channel.allow(1000)
        await idle()
        nursery.cancel_scope.cancel()

    assert channel.text() == b"first\nsecond\n"
    assert pongs(channel.taken) == [b"2"]


@pytest.mark.parametrize("is_immediate", [True, False])
async def test_a_pong_that_the_channel_does_not_take_is_sent_as_soon_as_it_does(
    is_immediate: bool, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    channel = ScriptedChannel(0 if is_immediate else 1000, is_immediate)
    stream = client_stream(channel)
    nursery.start_soon(stream.keep_alive)
    nursery.start_soon(stream.receive_some)
    channel.send(b"\x89\x01a")
    await trio.sleep(0.1)
    channel.send(b"\x89\x01b")
    await trio.sleep(0.1)
    channel.allow(1000)
    await trio.sleep(0.1)

    assert pongs(channel.taken) == [b"a", b"b"]
    assert trio.current_time() < SILENCE


async def test_a_ping_that_arrives_during_a_write_is_answered_after_it() -> None:
    channel = ScriptedChannel(0, is_immediate=False)
    stream = client_stream(channel)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"x\n")
        await idle()
        channel.send(b"\x89\x01a" + text_frames([b"x"], masks=False))
        await stream.receive_some()
        channel.allow(1000)

    assert frames(channel.taken) == [(1, b"x"), (10, b"a")]


async def test_no_ping_is_answered_after_a_close() -> None:
    channel = ScriptedChannel(0)
    stream = client_stream(channel)
    stream.send_now(b"x\n")
    channel.send(ping_frame(masks=False) + text_frames([b"x"], masks=False))
    await stream.receive_some()
    with trio.move_on_after(0.01):
        await stream.close_websocket(Close(CloseCode.NORMAL))
    channel.send(ping_frame(masks=False) + text_frames([b"x"], masks=False))
    await stream.receive_some()
    channel.allow(1000)
    await stream.wait_send_all_might_not_block()
    channel.send(ping_frame(masks=False) + text_frames([b"x"], masks=False))
    await stream.receive_some()

    assert [opcode for opcode, _ in frames(channel.taken)] == [1, 8]


# --- Signs of life ---


async def test_a_silent_peer_is_asked_and_its_answer_is_a_sign_of_life(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    nursery.start_soon(stream.keep_alive)
    nursery.start_soon(stream.receive_some)
    for number in range(1, 4):
        await trio.sleep(SILENCE + 1)
        assert [opcode for opcode, _ in frames(channel.taken)] == [9] * number
        channel.send(pong_frame(b"", masks=False))
        await trio.sleep(SILENCE - 1)
    assert not channel.is_closed


async def test_a_peer_that_sends_is_not_asked(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    nursery.start_soon(stream.keep_alive)
    for _ in range(10):
        await trio.sleep(SILENCE / 2)
        channel.send(text_frames([b"x"], masks=False))
        await stream.receive_some()

    assert channel.taken == b""


async def test_a_peer_that_gives_no_sign_of_life_loses_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    channel = ScriptedChannel()
    await client_stream(channel).keep_alive()

    assert channel.is_closed
    assert len(frames(channel.taken)) == 1
    assert trio.current_time() == pytest.approx(2 * SILENCE)


async def test_a_peer_is_not_asked_while_the_channel_blocks_or_after_a_close(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    blocked, closed = ScriptedChannel(0), ScriptedChannel()
    stream = client_stream(blocked)
    nursery.start_soon(stream.keep_alive)
    await trio.sleep(1)
    stream.send_now(b"x\n")
    await trio.sleep(SILENCE)
    blocked.allow(1000)
    await trio.sleep(SILENCE + 1)
    assert blocked.text() == b"x\n"
    assert [opcode for opcode, _ in frames(blocked.taken)] == [1, 9]
    assert not blocked.is_closed
    await trio.sleep(SILENCE)
    assert blocked.is_closed

    stream = client_stream(closed)
    await stream.close_websocket(Close(CloseCode.NORMAL))
    await stream.keep_alive()
    assert closed.is_closed
    assert [opcode for opcode, _ in frames(closed.taken)] == [8]


async def test_a_peer_that_takes_a_long_message_slowly_keeps_the_connection(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    channel = ScriptedChannel(0)
    stream = client_stream(channel)
    nursery.start_soon(stream.keep_alive)
    nursery.start_soon(stream.send_all, b"x" * 1000 + b"\n")
    while len(channel.taken) < 1000:
        await trio.sleep(SILENCE / 10)
        channel.allow(10)
    assert not channel.is_closed


async def test_a_channel_that_breaks_at_a_control_frame_is_closed(nursery: trio.Nursery) -> None:
    channel = ScriptedChannel(0)
    stream = client_stream(channel)
    channel.send(ping_frame(masks=False) + text_frames([b"x"], masks=False))
    await stream.receive_some()
    async with trio.open_nursery() as keeping:
        keeping.start_soon(stream.keep_alive)
        await idle()
        channel.fail()

    assert channel.is_closed


# --- The end ---


async def test_a_close_is_told_before_the_connection_is_closed() -> None:
    channel = ScriptedChannel()
    stream = client_stream(channel)
    await stream.send_all(b"x\n")
    await stream.close_websocket(Close(CloseCode.GOING_AWAY, "why"))
    assert not channel.is_closed
    await stream.aclose()

    assert channel.is_closed
    assert frames(channel.taken) == [(1, b"x"), (8, b"\x03\xe9why")]


async def test_a_close_waits_for_the_channel_but_not_for_long(autojump_clock: trio.testing.MockClock) -> None:
    channel = ScriptedChannel(0)
    stream = client_stream(channel)
    stream.send_now(b"x\n")
    with trio.CancelScope() as scope:
        scope.cancel()  # as `trio.aclose_forcefully` does
        await stream.aclose()

    assert channel.is_closed
    assert trio.current_time() == pytest.approx(5)


async def test_a_close_of_a_broken_channel_raises_nothing() -> None:
    channel = ScriptedChannel(0)
    stream = client_stream(channel)
    channel.fail()
    await stream.aclose()

    assert channel.taken == b""
