"""A peer that floods a link with requests: memory stays bounded, and a peer that does not read is disconnected."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import ConnectionBroken
from trio_mcp._util import owned_nursery
from trio_mcp.peer import HandlerPool, HandlerRun, IncomingRequest, Limits, Link, ServerSession
from trio_mcp.types import REVISIONS
from trio_mcp.wire import JsonObject, encode

from .raw_peer import (
    Bench,
    cancelled,
    client_admission,
    explain,
    handshake,
    linked,
    modern,
    notification,
    request,
    result,
)

FLOOD = 100_000


async def forever(_: HandlerRun) -> JsonObject:
    await trio.Event().wait()
    return {}


def many(message: Callable[[int], JsonObject]) -> bytes:
    return b"".join(encode(message(number)) + b"\n" for number in range(1000))


async def flood(bench: Bench, chunk: bytes, times: int = FLOOD // 1000) -> bool:
    """Send *chunk* without reading; return True if the link accepted it *times* times."""
    try:
        for _ in range(times):
            await bench.peer.stream.send_all(chunk)
    except trio.BrokenResourceError:
        return False
    return True


FLOODS = [
    pytest.param(many(lambda number: request(number, "unknown", {"filler": "x" * 50})), id="before the handshake"),
    pytest.param(many(lambda number: modern(number, "unknown")), id="unknown methods"),
    pytest.param(many(lambda number: modern(number, "ping")), id="answered at once"),
    pytest.param(b"junk\n" * 1000, id="junk"),
]


@pytest.mark.parametrize("chunk", FLOODS)
async def test_a_peer_that_floods_without_reading_costs_bounded_memory_and_is_disconnected(
    chunk: bytes, autojump_clock: MockClock
) -> None:
    limits = Limits(outbox_urgent_bytes=300_000)

    async with linked(pair=lockstep_stream_pair, limits=limits) as bench:
        tracemalloc.start()
        try:
            accepted_all = await flood(bench, chunk)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await bench.ended.wait()

        assert not accepted_all
        assert isinstance(bench.link.lost, ConnectionBroken)
        assert "does not read" in str(bench.link.lost)
        assert peak < 10_000_000
        await wait_all_tasks_blocked()
        assert bench.holds_nothing()


async def test_a_peer_that_reads_its_refusals_stays_connected() -> None:
    limits = Limits(outbox_urgent_bytes=1_000_000)

    async with linked(pair=lockstep_stream_pair, limits=limits) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.peer.rest)
        assert await flood(bench, many(lambda number: modern(number, "unknown")), times=10)

        assert bench.link.lost is None
        nursery.cancel_scope.cancel()


async def test_responses_to_batches_that_cancellations_complete_are_bounded_too(autojump_clock: MockClock) -> None:
    limits = Limits(outbox_bytes=10_000, outbox_urgent_bytes=100_000)
    chunk = b"".join(encode([1, request(1, "forever")]) + b"\n" + encode(cancelled(1)) + b"\n" for _ in range(500))

    async with linked({"forever": forever}, pair=lockstep_stream_pair, limits=limits) as bench:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handshake, bench, "2025-03-26")
        assert not await flood(bench, chunk, times=10)
        await bench.ended.wait()

        assert "does not read" in str(bench.link.lost)


async def test_the_handlers_of_a_flooding_peer_stop_with_its_link(autojump_clock: MockClock) -> None:
    limits = Limits(outbox_bytes=1000, outbox_urgent_bytes=10_000)

    async with linked({"forever": forever}, pair=lockstep_stream_pair, limits=limits) as bench:
        await bench.peer.send(*[modern(f"f{number}", "forever") for number in range(50)])
        await wait_all_tasks_blocked()
        assert bench.pool.running == 50
        assert not await flood(bench, b"junk\n" * 1000)
        await bench.ended.wait()
        await wait_all_tasks_blocked()

        assert bench.pool.running == 0
        assert bench.holds_nothing()


async def test_a_link_ends_cleanly_if_its_last_responses_overflow_the_outbox(autojump_clock: MockClock) -> None:
    limits = Limits(outbox_bytes=100, outbox_urgent_bytes=300, drain_seconds=1)

    async with linked({"forever": forever}, pair=lockstep_stream_pair, limits=limits) as bench:
        await bench.peer.send(*[modern(number, "forever") for number in range(50)])
        await bench.peer.send_eof()
        await bench.ended.wait()
        await wait_all_tasks_blocked()

        assert bench.holds_nothing()


@pytest.mark.complaint(21)
async def test_a_peer_that_stops_reading_is_disconnected_after_the_stall_limit(autojump_clock: MockClock) -> None:
    async with linked({"forever": forever}, pair=lockstep_stream_pair, limits=Limits(stall_seconds=30)) as bench:
        await bench.peer.send(modern(1, "forever"), modern(2, "ping"))
        began = trio.current_time()
        await bench.ended.wait()

        assert trio.current_time() - began == 30
        assert str(bench.link.lost) == "the peer has read nothing for 30 s"
        await wait_all_tasks_blocked()
        assert bench.holds_nothing()


async def test_a_client_s_calls_fail_when_its_server_stops_reading(autojump_clock: MockClock) -> None:
    limits = Limits(stall_seconds=30)
    async with linked(admission=client_admission(None), pair=lockstep_stream_pair, limits=limits) as bench:
        with pytest.raises(ConnectionBroken, match="has read nothing for 30 s"):
            async with bench.link.ask("m", None) as outgoing:
                await outgoing.result()


async def test_requests_beyond_the_running_and_queued_limits_are_refused_as_busy() -> None:
    limits = Limits(max_in_flight=3, max_queued=4)

    async with linked({"forever": forever}, pair=memory_stream_pair, limits=limits) as bench:
        await bench.peer.send(*[modern(number, "forever") for number in range(10)])
        refused = [await bench.peer.receive() for _ in range(3)]

        assert [answer["id"] for answer in refused] == [7, 8, 9]
        assert {answer["error"]["code"] for answer in refused} == {-31_000}
        facts = bench.link.statistics()
        assert (facts.incoming, facts.running, facts.queued) == (7, 3, 4)


@pytest.mark.requirement("B.14-P5a")
async def test_updates_for_a_caller_that_never_reads_are_bounded_and_delay_no_other_caller() -> None:
    limits = Limits(max_updates=100)
    async with (
        linked(admission=client_admission(None), limits=limits) as bench,
        bench.link.ask("m", None, wants_updates=True) as slow,
        bench.link.ask("m", None) as quick,
    ):
        for start in range(0, 20_000, 1000):
            await bench.peer.send(
                *[
                    notification("notifications/progress", {"progressToken": 1, "progress": start + number})
                    for number in range(1000)
                ]
            )
        await bench.peer.send(result(2, {}))
        assert await quick.result() == {}

        assert (slow.waiting, slow.skipped) == (100, 19_900)
        update = await slow.next_update()
        assert update is not None
        assert update[1]["progress"] == 19_900


@pytest.mark.complaint(21)
async def test_two_sides_that_flood_each_other_do_not_deadlock(autojump_clock: MockClock) -> None:
    """Each side has 100 callers, responses of 20 KB, an outbox of 8 KB and a stream without a buffer."""
    limits = Limits(outbox_bytes=8 * 1024, stall_seconds=60)
    answered = 0
    peak = 0

    async def big(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"text": "x" * 20_000}

    async with owned_nursery() as serving:
        pool = HandlerPool(serving)

        def answer(exchange: IncomingRequest) -> None:
            pool.begin(exchange, big, explain)

        admissions = [client_admission("2025-06-18"), client_admission("2025-06-18")]
        streams = lockstep_stream_pair()
        links = [
            Link(admission, answer, lambda _, __: None, limits, stream)
            for stream, admission in zip(streams, admissions, strict=True)
        ]

        async def run(link: Link) -> None:
            await link.run(drain=False)

        async def call_repeatedly(link: Link) -> None:
            nonlocal answered, peak
            for _ in range(3):
                async with link.ask("big", {"filler": "y" * 500}) as outgoing:
                    await outgoing.result()
                    answered += 1
                    peak = max(peak, link.outbox.size)

        for link in links:
            serving.start_soon(run, link)
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    for link in links:
                        nursery.start_soon(call_repeatedly, link)

        assert answered == 600
        assert peak < 8 * 1024 + 64 * 1024 + 21_000
        for link in links:
            facts = link.statistics()
            assert (facts.outgoing, facts.incoming) == (0, 0)


async def test_a_server_session_operates_after_a_handshake_over_a_link() -> None:
    admission = ServerSession(REVISIONS)
    async with linked(admission=admission) as bench:
        await handshake(bench, "2024-11-05")
        await wait_all_tasks_blocked()

        assert admission.operating
