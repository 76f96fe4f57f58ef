"""The outgoing queue of a link: order, bounds, immediate sending and failure."""

from __future__ import annotations

import random
import threading

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from trio_mcp import ConnectionBroken, ConnectionClosed, ConnectionLost
from trio_mcp.peer import READER_PASS, Outbox

PIECE = 64 * 1024


@define(eq=False)
class Reader:
    """A peer that accepts bytes once `open` is set."""

    sent: list[bytes] = field(factory=list[bytes])
    open: trio.Event = field(factory=trio.Event)
    failures: list[ConnectionLost] = field(factory=list[ConnectionLost])

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.open.wait()
        await trio.lowlevel.checkpoint()
        self.sent.append(bytes(data))

    def outbox(self, bound: int = 10, urgent_bound: int = 20) -> Outbox:
        return Outbox(bound, urgent_bound, self.failures.append)


@pytest.fixture
def reader() -> Reader:
    return Reader()


async def test_messages_are_sent_in_order_and_small_ones_together(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox()
    reader.open.set()
    outbox.put(b"a\n")
    outbox.put_urgent(b"b\n")
    outbox.put(b"c\n")

    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    await outbox.flush()

    assert reader.sent == [b"a\nb\nc\n"]
    assert outbox.size == 0


async def test_a_message_that_finds_the_queue_empty_is_sent_at_once_and_alone(
    nursery: trio.Nursery, reader: Reader
) -> None:
    outbox = reader.outbox()
    reader.open.set()
    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    await wait_all_tasks_blocked()

    for line in (b"a\n", b"b\n"):
        outbox.put(line)
        await wait_all_tasks_blocked()

    assert reader.sent == [b"a\n", b"b\n"]


async def test_many_small_messages_are_sent_in_pieces_of_bounded_size(nursery: trio.Nursery, reader: Reader) -> None:
    outbox, lines = reader.outbox(), [f"{number:>1000}\n".encode() for number in range(200)]
    reader.open.set()
    for line in lines:
        outbox.put(line)

    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    await outbox.flush()

    assert b"".join(reader.sent) == b"".join(lines)
    assert len(reader.sent) < 10
    assert max(map(len, reader.sent)) <= PIECE


async def test_a_large_message_is_sent_in_pieces(nursery: trio.Nursery, reader: Reader) -> None:
    outbox, line = reader.outbox(), random.Random(1).randbytes(3 * PIECE + 5)
    reader.open.set()
    outbox.put(line)

    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    await outbox.flush()

    assert [len(piece) for piece in reader.sent] == [PIECE, PIECE, PIECE, 5]
    assert b"".join(reader.sent) == line


async def test_room_waits_while_the_bound_is_reached(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox(bound=4)
    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    outbox.put(b"123")
    assert outbox.has_room()
    await outbox.room()
    outbox.put(b"456")
    assert not outbox.has_room()
    passed: list[str] = []

    async def sender(name: str) -> None:
        await outbox.room()
        passed.append(name)
        outbox.put(b"7")

    nursery.start_soon(sender, "a")
    await wait_all_tasks_blocked()
    assert passed == []

    reader.open.set()
    await wait_all_tasks_blocked()

    assert passed == ["a"]
    assert reader.sent == [b"123456", b"7"]


async def test_no_wake_up_is_lost_with_many_waiters_some_of_them_cancelled(
    nursery: trio.Nursery, reader: Reader
) -> None:
    outbox, chance = reader.outbox(bound=3), random.Random(7)
    scopes = [trio.CancelScope() for _ in range(300)]
    done: set[int] = set()

    async def sender(number: int) -> None:
        with scopes[number]:
            await outbox.room()
            outbox.put(b"xy")
            done.add(number)

    async def canceller() -> None:
        for number in chance.sample(range(300), 100):
            scopes[number].cancel()
            if chance.random() < 0.3:
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as senders:
        for number in range(300):
            senders.start_soon(sender, number)
        await wait_all_tasks_blocked()
        nursery.start_soon(outbox.drain, reader.send_all, 1.0)
        reader.open.set()
        senders.start_soon(canceller)

    await outbox.flush()
    assert done >= {number for number, scope in enumerate(scopes) if not scope.cancel_called}
    assert b"".join(reader.sent) == b"xy" * len(done)


async def test_a_waiter_cancelled_at_the_moment_it_is_woken_wakes_the_next_waiter(nursery: trio.Nursery) -> None:
    outbox = Outbox(2, 2, lambda _: None)
    entries = [outbox.put(b"1"), outbox.put(b"2")]
    scope, passed = trio.CancelScope(), trio.Event()

    async def cancelled_waiter() -> None:
        with scope:
            await outbox.room()
            await trio.lowlevel.checkpoint()  # cancelled here, after it was woken, and before it queues a message

    async def next_waiter() -> None:
        await outbox.room()
        passed.set()

    nursery.start_soon(cancelled_waiter)
    await wait_all_tasks_blocked()
    nursery.start_soon(next_waiter)
    await wait_all_tasks_blocked()
    assert outbox.withdraw(entries[0])
    scope.cancel()
    await wait_all_tasks_blocked()

    assert passed.is_set()


async def test_a_withdrawn_message_is_not_sent_and_gives_its_room_back(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox(bound=2)
    kept, gone = outbox.put(b"a\n"), outbox.put(b"b\n")

    assert outbox.withdraw(gone)
    assert not outbox.withdraw(gone)
    assert outbox.size == 2
    assert kept.line == b"a\n"

    reader.open.set()
    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    await outbox.flush()
    assert reader.sent == [b"a\n"]
    assert not outbox.withdraw(kept)


async def test_a_queue_of_withdrawn_messages_alone_sends_nothing(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox()
    reader.open.set()
    nursery.start_soon(outbox.drain, reader.send_all, 1.0)
    await wait_all_tasks_blocked()

    assert outbox.withdraw(outbox.put(b"a\n"))
    await wait_all_tasks_blocked()
    assert reader.sent == []

    outbox.put(b"b\n")
    await outbox.flush()
    assert reader.sent == [b"b\n"]


async def test_withdrawn_messages_do_not_fill_the_queue_and_the_others_keep_their_order(reader: Reader) -> None:
    outbox, kept = reader.outbox(bound=10**6), list[bytes]()
    for number in range(10_000):
        entry = outbox.put(b"%d\n" % number)
        if number % 1000:
            outbox.withdraw(entry)
        else:
            kept.append(entry.line)

    assert len(outbox._queue) < 3 * len(kept)
    async with trio.open_nursery() as nursery:
        reader.open.set()
        nursery.start_soon(outbox.drain, reader.send_all, 1.0)
        await outbox.flush()
        nursery.cancel_scope.cancel()
    assert b"".join(reader.sent) == b"".join(kept)


async def test_urgent_messages_count_against_the_urgent_bound_only_when_there_is_no_room(reader: Reader) -> None:
    outbox = reader.outbox(bound=100, urgent_bound=3)

    for _ in range(20):
        outbox.put_urgent(b"12345")

    assert outbox.size == 100
    assert outbox.failure is None
    outbox.put_urgent(b"123")
    assert outbox.failure is None
    outbox.put_urgent(b"1")
    assert isinstance(outbox.failure, ConnectionBroken)


async def test_more_urgent_bytes_than_the_limit_break_the_link(reader: Reader) -> None:
    outbox = reader.outbox(bound=1, urgent_bound=20)
    outbox.put(b"a")

    outbox.put_urgent(b"x" * 20)
    assert outbox.failure is None
    outbox.put_urgent(b"y")

    assert str(outbox.failure) == "the peer does not read: 21 bytes of replies to it wait"
    assert outbox.is_stalled
    assert reader.failures == [outbox.failure]
    assert outbox.size == 0


async def test_urgent_bytes_that_were_sent_are_not_counted(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox(bound=1, urgent_bound=20)
    reader.open.set()
    nursery.start_soon(outbox.drain, reader.send_all, 1.0)

    for _ in range(20):
        outbox.put(b"a")
        outbox.put_urgent(b"x" * 20)
        await outbox.flush()

    assert outbox.failure is None


async def test_a_peer_that_reads_nothing_for_the_stall_limit_is_disconnected(
    nursery: trio.Nursery, reader: Reader, autojump_clock: MockClock
) -> None:
    outbox = reader.outbox(bound=1)
    outbox.put(b"abc")
    began = trio.current_time()

    nursery.start_soon(outbox.drain, reader.send_all, 7.0)
    with pytest.raises(ConnectionBroken, match="has read nothing for 7 s"):
        await outbox.room()

    assert trio.current_time() - began == 7
    assert outbox.is_stalled
    assert len(reader.failures) == 1


async def test_a_slow_peer_that_reads_piece_after_piece_stays_connected(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    taken: list[int] = []

    async def slow(data: bytes | memoryview) -> None:
        await trio.sleep(6)
        taken.append(len(data))

    outbox = Outbox(1, 1, lambda _: None)
    nursery.start_soon(outbox.drain, slow, 7.0)
    outbox.put(b"x" * (5 * PIECE))
    await outbox.flush()
    await trio.sleep(100)  # an idle link does not count as stalled
    outbox.put(b"y")
    await outbox.flush()

    assert taken == [PIECE] * 5 + [1]
    assert outbox.failure is None


@pytest.mark.parametrize("error", [trio.BrokenResourceError, trio.ClosedResourceError])
async def test_a_broken_stream_fails_the_queue_and_every_waiting_task(error: type[Exception]) -> None:
    failures: list[ConnectionLost] = []
    outbox, caught = Outbox(1, 1, failures.append), list[ConnectionLost]()
    broken = trio.Event()

    async def send_all(_: bytes | memoryview) -> None:
        await broken.wait()
        raise error

    async def sender() -> None:
        try:
            await outbox.room()
        except ConnectionLost as exc:
            caught.append(exc)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.drain, send_all, 60.0)
        queued = [outbox.put(b"a"), outbox.put(b"b")]
        await wait_all_tasks_blocked()
        queued.append(outbox.put(b"c"))
        for _ in range(3):
            nursery.start_soon(sender)
        nursery.start_soon(outbox.flush)
        await wait_all_tasks_blocked()
        broken.set()

    assert [str(failure) for failure in failures] == ["the peer stopped reading"]
    assert len({id(exc) for exc in [*caught, outbox.failure]}) == 4  # each task has its own exception
    assert all(type(exc) is ConnectionBroken for exc in caught)
    assert not outbox.is_stalled
    assert not outbox.has_room()
    assert [outbox.withdraw(entry) for entry in queued] == [False, False, False]


async def test_after_a_failure_nothing_is_queued_and_the_first_failure_is_kept(reader: Reader) -> None:
    outbox = reader.outbox(bound=5, urgent_bound=5)
    first = ConnectionClosed("first")
    outbox.put(b"abc")
    outbox.fail(first)
    outbox.fail(ConnectionBroken("second"))

    late = outbox.put(b"abc")
    for _ in range(10):
        outbox.put_urgent(b"abc")

    assert reader.failures == [first]
    assert outbox.failure is first
    assert not outbox.withdraw(late)
    assert (outbox.size, outbox.is_stalled) == (0, False)
    await outbox.flush()
    with pytest.raises(ConnectionClosed, match="first"):
        await outbox.room()


async def test_a_cancelled_sender_sees_its_cancellation_and_not_the_failure(reader: Reader) -> None:
    outbox = reader.outbox()
    outbox.fail(ConnectionClosed("gone"))

    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.room()

    assert scope.cancelled_caught


async def test_flush_waits_until_the_current_write_is_done(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox()
    outbox.put(b"abc")
    nursery.start_soon(outbox.drain, reader.send_all, 60.0)
    flushed = trio.Event()

    async def flush() -> None:
        await outbox.flush()
        flushed.set()

    nursery.start_soon(flush)
    await wait_all_tasks_blocked()
    assert not flushed.is_set()
    assert outbox.size == 3

    reader.open.set()
    await flushed.wait()
    assert outbox.size == 0


async def test_waiting_for_room_in_a_full_queue_is_a_checkpoint(nursery: trio.Nursery, reader: Reader) -> None:
    outbox = reader.outbox(bound=1)
    outbox.put(b"a")
    reader.open.set()
    nursery.start_soon(outbox.drain, reader.send_all, 60.0)

    with assert_checkpoints():
        await outbox.room()


@define(eq=False)
class Pipe:
    """A stream that accepts bytes without waiting as long as it has room."""

    room: int = 1000
    quiet: bool = True
    at_once: list[bytes] = field(factory=list[bytes])
    later: list[bytes] = field(factory=list[bytes])
    outbox: Outbox = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.outbox = Outbox(10, 20, lambda _: None, send_now=self.send_now, is_quiet=lambda: self.quiet)

    def send_now(self, data: bytes | memoryview) -> int:
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.at_once += [taken] if taken else []
        return len(taken)

    async def send_all(self, data: bytes | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.later.append(bytes(data))


@pytest.fixture
async def pipe(nursery: trio.Nursery) -> Pipe:
    pipe = Pipe()
    nursery.start_soon(pipe.outbox.drain, pipe.send_all, 1.0)
    await wait_all_tasks_blocked()
    return pipe


async def test_on_a_quiet_link_a_message_is_sent_immediately(pipe: Pipe) -> None:
    entry = pipe.outbox.put(b"a\n")
    assert pipe.at_once == [b"a\n"]
    assert not pipe.outbox.withdraw(entry)
    pipe.outbox.put_urgent(b"b\n")

    assert pipe.at_once == [b"a\n", b"b\n"]
    assert (pipe.outbox.size, pipe.outbox.waiting) == (0, 0)
    await pipe.outbox.flush()


async def test_on_a_busy_link_messages_are_collected_and_sent_together(pipe: Pipe) -> None:
    pipe.quiet = False
    pipe.outbox.put(b"a\n")
    pipe.outbox.put(b"b\n")
    assert pipe.at_once == []

    await pipe.outbox.flush()
    assert pipe.at_once == [b"a\nb\n"]


async def test_the_rest_of_a_message_that_did_not_fit_is_sent_before_other_messages(pipe: Pipe) -> None:
    pipe.room = 3
    pipe.outbox.put(b"abcd\n")
    assert (pipe.at_once, pipe.outbox.size) == ([b"abc"], 2)
    pipe.outbox.put(b"e\n")  # queued, because something is being sent

    await pipe.outbox.flush()
    assert (pipe.at_once, pipe.later) == ([b"abc"], [b"d\n", b"e\n"])
    assert pipe.outbox.size == 0


async def test_the_outbox_waits_for_a_stream_that_accepts_nothing_immediately(pipe: Pipe) -> None:
    pipe.room = 0
    pipe.outbox.put(b"a\n")

    await pipe.outbox.flush()
    assert pipe.later == [b"a\n"]


async def test_a_message_in_pieces_is_sent_piece_by_piece(pipe: Pipe) -> None:
    pipe.outbox.put_pieces([b"ab", memoryview(b"cd"), b"e\n"])
    pipe.outbox.put(b"f\n")

    assert pipe.at_once == [b"ab", b"cd", b"e\n", b"f\n"]
    assert pipe.outbox.size == 0


async def test_the_rest_of_the_pieces_that_did_not_fit_is_sent_before_other_messages(pipe: Pipe) -> None:
    pipe.room = 3
    pipe.outbox.put_pieces([b"ab", memoryview(b"cd"), b"e\n"])
    assert (pipe.at_once, pipe.outbox.size) == ([b"ab", b"c"], 3)
    pipe.outbox.put(b"f\n")

    await pipe.outbox.flush()
    assert b"".join([*pipe.at_once, *pipe.later]) == b"abcde\nf\n"
    assert pipe.outbox.size == 0


async def test_a_message_in_pieces_waits_for_the_messages_before_it(pipe: Pipe) -> None:
    pipe.quiet = False
    pipe.outbox.put(b"a\n")
    pipe.outbox.put_pieces([b"b", memoryview(b"c"), b"\n"])
    assert pipe.at_once == []

    await pipe.outbox.flush()
    assert pipe.at_once == [b"a\nbc\n"]


async def test_messages_of_one_pass_of_a_reader_are_sent_together(pipe: Pipe) -> None:
    with READER_PASS:
        pipe.outbox.put(b"a\n")
        pipe.outbox.put(b"b\n")
        assert pipe.at_once == []

    assert pipe.at_once == [b"a\nb\n"]


async def test_messages_of_one_pass_are_sent_by_the_reader_although_much_is_in_flight(pipe: Pipe) -> None:
    pipe.quiet = False
    with READER_PASS:
        pipe.outbox.put(b"a\n")

    assert pipe.at_once == [b"a\n"]


async def test_a_message_that_is_withdrawn_in_the_pass_that_queued_it_is_not_sent(pipe: Pipe) -> None:
    with READER_PASS:
        assert pipe.outbox.withdraw(pipe.outbox.put(b"a\n"))
    await wait_all_tasks_blocked()

    assert (pipe.at_once, pipe.later, pipe.outbox.size) == ([], [], 0)


async def test_flush_returns_after_messages_that_were_sent_immediately(nursery: trio.Nursery, pipe: Pipe) -> None:
    with READER_PASS:
        pipe.outbox.put(b"a\n")
        nursery.start_soon(pipe.outbox.flush)
        await wait_all_tasks_blocked()

    await wait_all_tasks_blocked()
    assert not nursery.child_tasks


async def test_messages_beyond_the_first_piece_are_sent_by_the_draining_task(pipe: Pipe) -> None:
    pipe.room = 10 * PIECE
    with READER_PASS:
        for _ in range(3):
            pipe.outbox.put(b"x" * PIECE)
    assert pipe.at_once == [b"x" * PIECE]

    await pipe.outbox.flush()
    assert pipe.at_once == [b"x" * PIECE] * 3


async def test_messages_of_a_pass_do_not_wait_for_a_pass_in_another_thread(pipe: Pipe) -> None:
    in_pass, end = threading.Event(), threading.Event()

    def other_reader() -> None:
        with READER_PASS:
            in_pass.set()
            end.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, other_reader)
        await trio.to_thread.run_sync(in_pass.wait)
        pipe.outbox.put(b"a\n")
        assert pipe.at_once == [b"a\n"]
        end.set()
