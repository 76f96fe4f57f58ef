"""Outgoing requests over a link, and the possible responses of a peer."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import (
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    LocalProtocolError,
    RemoteProtocolError,
    ServerExited,
)
from trio_mcp.peer import HandlerRun, Limits, Link
from trio_mcp.transports.stdio import ImmediateStream
from trio_mcp.wire import JsonObject, encode

from .raw_peer import Bench, Pair, cancelled, client_admission, linked, notification, pipe_pair, request, result

PAIRS: list[Pair] = [memory_stream_pair, lockstep_stream_pair, pipe_pair]
all_pairs = pytest.mark.parametrize("pair", PAIRS)


async def forever(_: HandlerRun) -> JsonObject:
    await trio.Event().wait()
    return {}


def progress(token: Any, number: int, **more: Any) -> JsonObject:
    return notification("notifications/progress", {"progressToken": token, "progress": number, **more})


async def answer_all(bench: Bench) -> None:
    """Answer every request with its id, in the order they come."""
    while (line := await bench.peer.receive()) is not None:
        if "id" in line:
            await bench.peer.send(result(line["id"], {"id": line["id"]}))


async def call(bench: Bench, method: str = "m") -> JsonObject:
    async with bench.link.ask(method, None) as outgoing:
        return await outgoing.result()


@pytest.mark.requirement("B.1-P2a")
@all_pairs
async def test_a_request_gets_its_result(pair: Pair) -> None:
    async with linked(admission=client_admission(None), pair=pair) as bench, bench.link.ask("m", {"a": 1}) as outgoing:
        assert outgoing.id == 1
        assert await bench.peer.receive() == request(1, "m", {"a": 1})
        assert bench.link.statistics().outgoing == 1
        await bench.peer.send(result(1, {"b": 2}))

        assert await outgoing.result() == {"b": 2}
        assert bench.holds_nothing()


@pytest.mark.requirement("B.12-P1a")
async def test_leaving_a_request_after_its_result_sends_nothing(autojump_clock: MockClock) -> None:
    async with linked(admission=client_admission(None)) as bench:
        async with bench.link.ask("m", None) as outgoing:
            assert await bench.peer.receive() == request(1, "m")
            await bench.peer.send(result(1, {}))
            await outgoing.result()

        await bench.peer.expect_silence()


@pytest.mark.requirement("B.14-P1a")
@all_pairs
async def test_updates_arrive_in_order_before_the_result(pair: Pair) -> None:
    async with linked(admission=client_admission(None), pair=pair) as bench:
        async with bench.link.ask("m", {"_meta": {"mine": 1}}, wants_updates=True) as outgoing:
            assert await bench.peer.receive() == request(1, "m", {"_meta": {"mine": 1, "progressToken": 1}})
            await bench.peer.send(*[progress(1, number) for number in range(50)], result(1, {}), progress(1, 99))

            assert await outgoing.result() == {}
            numbers = [update[1]["progress"] for update in [await outgoing.next_update() for _ in range(50)] if update]
            assert numbers == list(range(50))
            assert await outgoing.next_update() is None
        assert bench.holds_nothing()


async def test_an_update_counts_with_the_size_of_its_line() -> None:
    async with linked(admission=client_admission(None)) as bench:
        async with bench.link.ask("m", None, wants_updates=True):
            update = progress(1, 1, message="x" * 100)
            await bench.peer.send(update)
            await wait_all_tasks_blocked()

            assert bench.link.statistics().update_bytes == len(str(update).replace(" ", ""))
        assert bench.link.statistics().update_bytes == 0


@pytest.mark.requirement("B.1-P7a")
async def test_updates_in_a_batch_are_counted_by_their_share_of_it() -> None:
    limits = Limits(max_update_bytes=10_000)
    async with (
        linked(admission=client_admission("2025-03-26"), limits=limits) as bench,
        bench.link.ask("m", None, wants_updates=True) as outgoing,
    ):
        await bench.peer.send([progress(1, number) for number in range(90)])
        await wait_all_tasks_blocked()

        assert (outgoing.waiting, outgoing.skipped) == (90, 0)


async def test_without_wants_updates_no_progress_is_requested_or_kept() -> None:
    async with linked(admission=client_admission(None)) as bench, bench.link.ask("m", {}) as outgoing:
        assert await bench.peer.receive() == request(1, "m", {})
        await bench.peer.send(progress(1, 1))
        await wait_all_tasks_blocked()

        assert outgoing.waiting == 0


@pytest.mark.requirement("B.14-P5b")
@pytest.mark.parametrize("token", ["1", True, 1.0, None, 2])
async def test_progress_with_another_token_is_ignored(token: Any) -> None:
    async with (
        linked(admission=client_admission(None)) as bench,
        bench.link.ask("m", None, wants_updates=True) as outgoing,
    ):
        await bench.peer.send(progress(token, 1))
        await wait_all_tasks_blocked()

        assert outgoing.waiting == 0


async def test_an_error_response_fails_only_its_own_call() -> None:
    async with linked(admission=client_admission(None)) as bench:
        async with bench.link.ask("m", None) as bad, bench.link.ask("m", None) as good:
            shape = {"code": 7, "message": "no", "data": [1]}
            await bench.peer.send({"jsonrpc": "2.0", "id": 1, "error": shape}, result(2, {}))
            with pytest.raises(ErrorResponse) as refused:
                await bad.result()
            assert await good.result() == {}
        assert (refused.value.code, refused.value.message, refused.value.data) == (7, "no", [1])
        assert bench.holds_nothing()


@pytest.mark.parametrize(
    "broken",
    [
        {"jsonrpc": "2.0", "id": 1, "result": []},
        {"jsonrpc": "1.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "error": "no"},
    ],
)
async def test_a_broken_response_fails_only_its_own_call(broken: JsonObject) -> None:
    async with linked(admission=client_admission(None)) as bench:
        async with bench.link.ask("m", None) as bad, bench.link.ask("m", None) as good:
            await bench.peer.send(broken, result(2, {}))
            with pytest.raises(RemoteProtocolError, match="the response breaks the protocol: "):
                await bad.result()
            assert await good.result() == {}
        assert bench.holds_nothing()


@pytest.mark.requirement("B.12-P1a", "B.12-P4a", "B.12-P5a")
@all_pairs
async def test_leaving_a_request_early_sends_exactly_one_cancellation_and_nothing_after_it(
    pair: Pair, autojump_clock: MockClock
) -> None:
    async with linked(admission=client_admission(None), pair=pair) as bench:
        async with bench.link.ask("m", None, wants_updates=True) as outgoing:
            assert (await bench.peer.receive())["method"] == "m"
        outgoing.leave()

        assert await bench.peer.receive() == cancelled(1)
        await bench.peer.expect_silence()
        await bench.peer.send(progress(1, 1), result(1, {}))
        await wait_all_tasks_blocked()
        assert bench.holds_nothing()
        assert bench.link.statistics().unmatched_responses == 1


async def test_a_repeated_response_is_counted_and_dropped() -> None:
    async with linked(admission=client_admission(None)) as bench, bench.link.ask("m", None) as outgoing:
        await bench.peer.send(result(1, {"first": True}), result(1, {"second": True}), result("1", {}))

        await wait_all_tasks_blocked()
        assert await outgoing.result() == {"first": True}
        assert bench.link.statistics().unmatched_responses == 2


@all_pairs
async def test_a_cancelled_scope_or_an_exception_cancels_the_request(pair: Pair, autojump_clock: MockClock) -> None:
    async with linked(admission=client_admission(None), pair=pair) as bench:

        async def asks_until(seconds: float) -> None:
            with trio.move_on_after(seconds):
                await call(bench)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks_until, 1)
            assert await bench.peer.receive() == request(1, "m")
            assert await bench.peer.receive() == cancelled(1)
        with pytest.raises(KeyError):  # the test is about leaving the block
            async with bench.link.ask("m", None):
                assert await bench.peer.receive() == request(2, "m")
                raise KeyError
        assert await bench.peer.receive() == cancelled(2)
        assert bench.holds_nothing()


@pytest.mark.requirement("B.2-C5")
async def test_initialize_is_never_cancelled(autojump_clock: MockClock) -> None:
    async with linked(admission=client_admission(None)) as bench:
        async with bench.link.ask("initialize", None):
            assert (await bench.peer.receive())["method"] == "initialize"

        await bench.peer.expect_silence()
        assert bench.holds_nothing()


@pytest.mark.requirement("B.12-P1a")
async def test_an_unsent_request_is_withdrawn_without_a_trace(autojump_clock: MockClock) -> None:
    async with linked(admission=client_admission(None), pair=lockstep_stream_pair) as bench:
        async with bench.link.ask("first", None):
            await wait_all_tasks_blocked()  # the stream has its bytes, and the peer does not read them
            async with bench.link.ask("second", None), bench.link.ask("initialize", None):
                pass
            await bench.link.notify("third", None)

        assert await bench.peer.receive() == request(1, "first")
        assert await bench.peer.receive() == notification("third")
        assert await bench.peer.receive() == cancelled(1)
        await bench.peer.expect_silence()
        assert bench.link.statistics().outbox_bytes == 0


async def test_a_request_cancelled_while_it_waits_for_room_is_never_sent(autojump_clock: MockClock) -> None:
    limits = Limits(outbox_bytes=1)
    async with linked(admission=client_admission(None), pair=lockstep_stream_pair, limits=limits) as bench:
        await bench.link.notify("full", None)
        with trio.move_on_after(1) as scope:
            async with bench.link.ask("m", None):
                raise AssertionError
        assert scope.cancelled_caught
        assert bench.holds_nothing()

        assert await bench.peer.receive() == notification("full")
        await bench.peer.expect_silence()


@pytest.mark.parametrize("params", [{"a": float("nan")}, {"a": "\ud800"}, {"a": object()}])
async def test_params_that_are_not_json_raise_for_the_caller_and_leave_nothing(
    params: JsonObject, autojump_clock: MockClock
) -> None:
    async with linked(admission=client_admission(None)) as bench:
        with pytest.raises(LocalProtocolError, match="the params of 'm' cannot be sent: "):
            async with bench.link.ask("m", params):
                pass

        assert bench.holds_nothing()
        await bench.peer.expect_silence()


# -- the end of the connection


@all_pairs
async def test_when_the_peer_disconnects_every_call_fails_with_its_own_exception(pair: Pair) -> None:
    failures: list[ServerExited] = []

    async with linked(
        admission=client_admission(None), pair=pair, disconnect_reason=lambda: ServerExited(3, ["bye"])
    ) as bench:

        async def asks() -> None:
            try:
                await call(bench)
            except ServerExited as exc:
                failures.append(exc)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(asks)
            await wait_all_tasks_blocked()
            await bench.peer.stream.aclose()

        assert {(exc.status, exc.stderr_tail) for exc in failures} == {(3, ("bye",))}
        assert len({id(exc) for exc in failures}) == 3
        assert bench.holds_nothing()
        with pytest.raises(ServerExited):
            await call(bench)
        await bench.ended.wait()
        with pytest.raises(ServerExited):
            await call(bench)
        with pytest.raises(ServerExited):
            await bench.link.notify("n", None)


async def test_a_call_on_a_link_that_can_only_receive_fails_when_the_drain_time_is_over(
    autojump_clock: MockClock,
) -> None:
    limits = Limits(drain_seconds=3)
    async with linked({"forever": forever}, admission=client_admission("2025-06-18"), limits=limits) as bench:
        await bench.peer.stream.receive_stream.aclose()  # type: ignore[attr-defined] # a stapled stream
        await bench.link.notify("n", None)
        await wait_all_tasks_blocked()

        assert bench.link.lost is None
        began = trio.current_time()
        with pytest.raises(ConnectionBroken, match="the peer stopped reading"):
            await call(bench)
        assert trio.current_time() - began == pytest.approx(3)


async def test_responses_before_the_end_of_input_reach_their_callers() -> None:
    async with (
        linked(admission=client_admission(None)) as bench,
        bench.link.ask("m", None) as outgoing,
        bench.link.ask("m", None) as other,
    ):
        await bench.peer.send(result(1, {"in": "time"}))
        await bench.peer.stream.aclose()
        await bench.ended.wait()

        assert await outgoing.result() == {"in": "time"}
        with pytest.raises(ConnectionBroken):
            await other.result()


async def test_a_link_that_closes_cancels_sent_requests_and_withdraws_queued_ones() -> None:
    async with linked(admission=client_admission(None), pair=lockstep_stream_pair) as bench:
        async with bench.link.ask("sent", None) as sent, trio.open_nursery() as nursery:
            await wait_all_tasks_blocked()
            async with bench.link.ask("queued", None) as queued:
                bench.link.stop()
                received: list[Any] = []

                async def receive_all() -> None:
                    received.extend(await bench.peer.rest())

                nursery.start_soon(receive_all)
                for outgoing in (sent, queued):
                    with pytest.raises(ConnectionClosed, match="this side closed the connection"):
                        await outgoing.result()

        assert received == [request(1, "sent"), cancelled(1)]
        assert bench.holds_nothing()


async def test_a_caller_cancelled_together_with_its_link_sees_only_its_cancellation() -> None:
    seen: list[str] = []

    async def caller(bench: Bench) -> None:
        try:
            await call(bench)
        except BaseException as exc:
            seen.append(type(exc).__name__)
            raise

    async with linked(admission=client_admission(None)) as bench:
        bench.connection.start_soon(caller, bench)
        await wait_all_tasks_blocked()
        bench.connection.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await bench.ended.wait()
            await wait_all_tasks_blocked()

    assert seen == ["Cancelled"]


async def test_after_the_link_is_lost_a_cancelled_caller_sees_its_cancellation() -> None:
    async with linked(admission=client_admission(None)) as bench:
        await bench.peer.stream.aclose()
        await bench.ended.wait()
        with trio.CancelScope() as scope:
            scope.cancel()
            await call(bench)

        assert scope.cancelled_caught


async def test_while_accepted_requests_drain_a_cancelled_caller_sees_its_cancellation() -> None:
    async with linked({"forever": forever}, admission=client_admission("2025-06-18")) as bench:
        await bench.peer.send(request(1, "forever"))
        await bench.peer.send_eof()
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await call(bench)

        assert scope.cancelled_caught
        assert not bench.ended.is_set()


# -- many requests


@all_pairs
async def test_a_thousand_calls_with_a_quarter_cancelled_at_random_leave_nothing(pair: Pair) -> None:
    chance = random.Random(5)
    scopes = [trio.CancelScope() for _ in range(1000)]
    results: dict[int, JsonObject] = {}

    async with linked(admission=client_admission(None), pair=pair) as bench, trio.open_nursery() as answering:
        answering.start_soon(answer_all, bench)

        async def asks(number: int) -> None:
            with scopes[number]:
                results[number] = await call(bench)

        async def cancels() -> None:
            for number in chance.sample(range(1000), 250):
                scopes[number].cancel()
                if chance.random() < 0.2:
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(asks, number)
            nursery.start_soon(cancels)

        assert len(results) >= 750
        assert results.keys() >= {number for number, scope in enumerate(scopes) if not scope.cancel_called}
        assert bench.holds_nothing()
        assert await call(bench)
        answering.cancel_scope.cancel()


async def test_the_outbox_stays_bounded_when_callers_time_out_on_a_peer_that_never_reads(
    autojump_clock: MockClock,
) -> None:
    limits = Limits(outbox_bytes=64 * 1024, stall_seconds=10_000)
    peak = 0

    async with linked(admission=client_admission(None), pair=lockstep_stream_pair, limits=limits) as bench:

        async def asks(seconds: float) -> None:
            with trio.move_on_after(seconds):
                await call(bench)

        for wave in range(8):
            async with trio.open_nursery() as nursery:
                for number in range(5000 if wave == 0 else 500):
                    nursery.start_soon(asks, 1 + number % 7)
                await wait_all_tasks_blocked()
                peak = max(peak, bench.link.outbox.size)
            assert bench.holds_nothing()
            assert bench.link.lost is None

        assert peak < 200 * 1024  # the bound, the bytes in the stream, and a cancellation for each sent request
        assert len(bench.link.outbox._queue) < 3000


async def test_a_thousand_cancelled_calls_to_a_peer_that_does_not_read_queue_one_cancellation_each(
    autojump_clock: MockClock,
) -> None:
    limits = Limits(stall_seconds=10_000)
    async with linked(admission=client_admission(None), pair=lockstep_stream_pair, limits=limits) as bench:
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(call, bench)
            for number in range(1, 1001):
                assert (await bench.peer.receive())["id"] == number
            nursery.cancel_scope.cancel()

        assert bench.holds_nothing()
        assert bench.link.outbox.size < 130_000
        notifications = [await bench.peer.receive() for _ in range(1000)]
        assert sorted(notifications, key=lambda message: message["params"]["requestId"]) == [
            cancelled(number) for number in range(1, 1001)
        ]
        await bench.peer.expect_silence()


@define(eq=False)
class Record(ImmediateStream):
    """A stream that records the bytes that are sent immediately."""

    sent: list[bytes] = field(factory=list[bytes])

    def send_now(self, data: bytes | memoryview) -> int:
        self.sent += [bytes(data)]
        return len(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise NotImplementedError

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class IgnoringListener:
    """A listener that ignores the outcome."""

    def on_notification(self, method: str, params: JsonObject) -> None:
        raise NotImplementedError

    def on_outcome(self, outcome: JsonObject | Exception) -> None:
        pass


@asynccontextmanager
async def recorded() -> AsyncGenerator[tuple[Link, list[bytes]]]:
    record, other = Record(), memory_stream_pair()[0]
    async with linked(admission=client_admission(None), pair=lambda: (record, other)) as bench:
        await wait_all_tasks_blocked()
        yield bench.link, record.sent


def line(id: int) -> bytes:
    return encode(request(id, "m")) + b"\n"


async def test_a_lone_request_is_sent_immediately_and_further_ones_are_sent_together() -> None:
    async with recorded() as (link, sent), link.ask("m", None):
        assert sent == [line(1)]
        async with link.ask("m", None), link.ask("m", None):
            assert sent == [line(1)]
            await wait_all_tasks_blocked()

            assert sent == [line(1), line(2) + line(3)]


async def test_a_listening_request_does_not_keep_a_link_from_being_quiet() -> None:
    async with recorded() as (link, sent):
        listening = link.ask("m", None)
        listening.listener = IgnoringListener()
        async with listening, link.ask("m", None):
            assert sent == [line(1), line(2)]


async def test_a_link_with_many_requests_is_not_quiet_even_if_all_of_them_listen() -> None:
    async with recorded() as (link, sent), AsyncExitStack() as stack:
        for _ in range(5):
            listening = link.ask("m", None)
            listening.listener = IgnoringListener()
            await stack.enter_async_context(listening)
        left = len(sent)
        await stack.enter_async_context(link.ask("m", None))
        assert len(sent) == left

        await wait_all_tasks_blocked()
        assert sent[-1] == line(5) + line(6)


async def test_in_a_cancelled_scope_no_request_is_sent() -> None:
    async with recorded() as (link, sent):
        with trio.CancelScope() as scope:
            scope.cancel()
            async with link.ask("m", None):
                raise AssertionError
        assert scope.cancelled_caught
        assert sent == []
