"""Streams with injected faults: the effect of each fault on the messages, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp.testing import Fault, FaultyStream, ScriptedPeer, cut, delay, duplicate, reorder, rewrite, stall

A: dict[str, Any] = {"method": "a", "n": 1}
B: dict[str, Any] = {"method": "b", "n": 2}
C: dict[str, Any] = {"method": "c", "n": 3}
ALL = (A, B, C)
HALF = json.dumps(B)[:5].encode()


class Line:
    """A connection with faults in one direction, and a scripted peer at each end."""

    def __init__(self, direction: str, *faults: Fault) -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        self.faulty = FaultyStream(ours, **{direction: faults})
        ends = ScriptedPeer(self.faulty), ScriptedPeer(theirs)
        self.source, self.sink = ends if direction == "sending" else ends[::-1]

    async def carry(self, *messages: Any) -> list[Any]:
        """Send *messages*, and return those that arrive."""
        await self.source.send(*messages)
        await self.source.stream.aclose()
        return await self.sink.rest()


def is_second(message: Any) -> bool:
    return bool(message["n"] == 2)


both_directions = pytest.mark.parametrize("direction", ["sending", "receiving"])


@both_directions
async def test_without_faults_messages_pass_as_they_are(direction: str) -> None:
    assert await Line(direction).carry(A, b'{"method"', b':"b"}\n{}\n', [C]) == [A, {"method": "b"}, {}, [C]]


@both_directions
async def test_a_fault_may_drop_or_replace_a_message(direction: str) -> None:
    line = Line(direction, rewrite(lambda _: None, "a"), rewrite(lambda line: line.replace(b"2", b"7")))

    assert await line.carry(*ALL) == [B | {"n": 7}, C]


@both_directions
@pytest.mark.parametrize("when", ["b", 2, is_second])
async def test_a_fault_is_chosen_by_method_position_or_predicate(when: Any, direction: str) -> None:
    assert await Line(direction, duplicate(when)).carry(*ALL) == [A, B, B, C]


async def test_bytes_that_are_not_json_match_no_method_and_no_predicate() -> None:
    line = Line("sending", duplicate("a"), duplicate(lambda _: True))

    await line.source.send(b"no json\n", 7)
    await line.source.stream.aclose()

    received = b""
    while chunk := await line.sink.stream.receive_some():
        received += chunk
    assert received == b"no json\n7\n7\n"


@both_directions
async def test_the_duplicating_fault_repeats_every_message_by_default(direction: str) -> None:
    assert await Line(direction, duplicate()).carry(*ALL) == [A, A, B, B, C, C]


@both_directions
async def test_the_reordering_fault_sends_a_message_after_the_next_one(direction: str) -> None:
    assert await Line(direction, reorder("a")).carry(*ALL) == [B, A, C]


@both_directions
async def test_messages_that_are_overtaken_together_keep_their_order(direction: str) -> None:
    assert await Line(direction, reorder(lambda message: message["n"] < 3)).carry(*ALL) == [C, A, B]


async def test_a_held_last_message_is_delivered_at_the_end_of_the_stream() -> None:
    assert await Line("receiving", reorder("c"), duplicate("c")).carry(*ALL) == [A, B, C, C]
    assert await Line("receiving", reorder()).carry(*ALL) == [A, B, C]


@both_directions
async def test_a_delayed_message_delays_later_ones(direction: str, autojump_clock: object) -> None:
    line, times = Line(direction, delay(10, "b")), list[float]()

    async def collect() -> None:
        while await line.sink.receive() is not None:
            times.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect)
        await line.source.send(*ALL)
        await line.source.stream.aclose()
    assert times == [0, 10, 10]


async def test_a_delay_that_is_cancelled_loses_no_message_when_receiving(autojump_clock: object) -> None:
    line = Line("receiving", delay(10))
    await line.source.send(A)

    with trio.move_on_after(5):
        await line.sink.receive()

    assert await line.sink.receive() == A
    assert trio.current_time() == pytest.approx(15)


async def test_a_cut_may_happen_inside_a_message() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    sender = ScriptedPeer(FaultyStream(ours, sending=[cut(5, "b")]))

    await sender.send(A)
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError, match="was cut"):
            await sender.send(B)

    assert await theirs.receive_some() == json.dumps(A).encode() + b"\n" + HALF
    assert await theirs.receive_some() == b""
    assert await sender.receive() is None


async def test_a_cut_happens_before_the_first_message_by_default() -> None:
    assert await Line("receiving", cut()).carry(*ALL) == []


@pytest.mark.parametrize("broken", [False, True])
async def test_a_reader_sees_a_cut_as_an_end_of_stream_or_a_broken_connection(broken: bool) -> None:
    line = Line("receiving", cut(5, 2, broken=broken))
    await line.source.send(*ALL)

    assert await line.sink.receive() == A
    assert await line.faulty.receive_some(3) == HALF[:3]
    assert await line.faulty.receive_some(3) == HALF[3:]
    for _ in range(2):
        if broken:
            with pytest.raises(trio.BrokenResourceError, match="was cut"):
                await line.faulty.receive_some()
        else:
            assert await line.faulty.receive_some() == b""
    with pytest.raises(trio.BrokenResourceError, match="was cut"):
        await line.faulty.send_all(b"[]\n")
    with pytest.raises(trio.BrokenResourceError):
        await line.source.send(A)


async def test_a_cut_while_sending_wakes_the_task_that_receives(autojump_clock: object) -> None:
    near, _far = trio.testing.lockstep_stream_pair()
    stream = FaultyStream(near, sending=[cut(0, "b")])
    woken: list[str] = []

    async def read(what: str) -> None:
        assert await stream.receive_some() == b""
        woken.append(what)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, "waiting for bytes")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await ScriptedPeer(stream).send(B)
    assert woken == ["waiting for bytes"]

    ours, theirs = trio.testing.memory_stream_pair()
    stream = FaultyStream(ours, sending=[cut(0, "b")], receiving=[stall("c")])
    await ScriptedPeer(theirs).send(C)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, "stalled")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await ScriptedPeer(stream).send(B)
    assert woken == ["waiting for bytes", "stalled"]


async def test_a_cut_while_receiving_wakes_the_task_that_sends(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    stream = FaultyStream(ours, receiving=[cut()])

    async def send() -> None:
        with pytest.raises(trio.BrokenResourceError, match="was cut"):
            await stream.send_all(b"[]\n")  # the peer does not read this

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(theirs.send_all, b"[]\n")
        assert await stream.receive_some() == b""


@both_directions
async def test_a_stalled_stream_transfers_nothing_until_it_is_closed(direction: str, autojump_clock: object) -> None:
    line, ended = Line(direction, stall("b")), list[str]()

    async def stalled() -> None:
        with pytest.raises(trio.ClosedResourceError):
            if direction == "sending":
                await line.source.send(*ALL)
            else:
                assert await line.sink.receive() == A
                await line.sink.receive()
        ended.append("closed")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stalled)
        if direction == "sending":
            assert await line.sink.receive() == A
            await line.sink.expect_silence(10_000)
        else:
            await line.source.send(*ALL)
            await trio.sleep(10_000)
        assert ended == []
        await line.faulty.aclose()
    assert ended == ["closed"]


async def test_a_stall_does_not_affect_the_other_direction(autojump_clock: object) -> None:
    line = Line("receiving", stall())

    await line.source.send(A)
    await line.sink.send(B)

    assert await line.source.receive() == B
    await line.sink.expect_silence()


async def test_a_fault_receives_the_output_of_the_previous_fault() -> None:
    faults = (
        duplicate("a"),
        rewrite(lambda line: line.replace(b"1", b"9"), 2),
        reorder(lambda message: message["n"] == 9),
    )

    assert await Line("sending", *faults).carry(*ALL) == [A, B, A | {"n": 9}, C]


async def test_a_last_line_without_a_newline_passes_unchanged() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = FaultyStream(ours, receiving=[duplicate()])
    await theirs.send_all(b"[1]")
    await theirs.aclose()

    assert await stream.receive_some() == b"[1]"
    assert await stream.receive_some() == b"[1]"
    assert await stream.receive_some() == b""


async def test_the_end_of_the_input_does_not_end_the_output() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = FaultyStream(ours)
    await theirs.send_eof()

    assert await stream.receive_some() == b""
    await stream.wait_send_all_might_not_block()
    await stream.send_all(b"[]\n")
    assert await theirs.receive_some() == b"[]\n"


@both_directions
async def test_a_closed_stream_raises_closed_resource_error(direction: str) -> None:
    ours, _ = trio.testing.memory_stream_pair()
    stream = FaultyStream(ours)
    await stream.aclose()

    with pytest.raises(trio.ClosedResourceError):
        if direction == "sending":
            await stream.send_all(b"[]\n")
        else:
            await stream.receive_some()
