"""Progress of handlers: it is sent at a limited rate, and its newest value is always sent."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve

from tests.peer.fake_exchange import CONTEXT, FakeExchange, FakePeer
from trio_mcp import (
    ConnectionBroken,
    Context,
    ErrorResponse,
    Limits,
    McpError,
    RequestTimedOut,
    Server,
    TimeLimits,
    open_client,
    serve_stream,
    types,
)
from trio_mcp._util import owned_nursery
from trio_mcp.peer import HandlerPool, HandlerRun
from trio_mcp.server._progress import Progress
from trio_mcp.testing import open_memory_client
from trio_mcp.wire import NotJsonError

HANDLER = Callable[[Context], Awaitable[Any]]


def make_server(handler: HANDLER, per_second: float = 2, **options: Any) -> Server:
    server = Server("s", limits=Limits(max_progress_per_second=per_second))

    @server.tool(**options)
    async def work(ctx: Context) -> None:
        await handler(ctx)

    return server


async def count(ctx: Context, *values: float, pause: float = 0) -> None:
    for value in values:
        await ctx.report_progress(value, message=f"step {value:g}")
        if pause:
            await trio.sleep(pause)


async def updates_of(server: Server, **options: Any) -> list[tuple[float, float]]:
    """Call the tool; return the time and the value of each update."""
    async with open_memory_client(server, **options) as client, client.open_call("work") as call:
        began = trio.current_time()
        return [(round(trio.current_time() - began, 6), update.progress) async for update in call.updates]


async def test_the_newest_held_back_value_is_sent_as_soon_as_the_rate_allows(
    autojump_clock: object,
) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, 1, 2, 3, 4, 5)
        await trio.sleep(60)
        await count(ctx, 6, 7, 8)
        await trio.sleep(60)

    assert await updates_of(make_server(work)) == [(0, 1), (0, 2), (0.5, 5), (60, 6), (60, 7), (60.5, 8)]


async def test_the_last_value_is_sent_with_its_message_before_the_result(autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, *range(1, 1001))

    async with open_memory_client(make_server(work)) as client, client.open_call("work") as call:
        updates = [(update.progress, update.message) async for update in call.updates]
        assert not (await call.result()).is_error

    assert updates == [(1, "step 1"), (2, "step 2"), (1000, "step 1000")]
    assert trio.current_time() == 0


@pytest.mark.parametrize("failure", [ValueError("no"), McpError(-5, "no"), ExceptionGroup("all", [ValueError("no")])])
async def test_the_last_value_is_sent_before_an_error(failure: Exception, autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, *range(1, 101))
        raise failure

    assert [value for _, value in await updates_of(make_server(work))] == [1, 2, 100]


async def test_the_last_value_is_sent_before_the_timeout_of_the_handler(autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, 1, 2)
        await trio.sleep_forever()

    assert await updates_of(make_server(work, per_second=0.1, timeout=3)) == [(0, 1), (3, 2)]


async def test_the_last_value_is_sent_before_the_server_stops(autojump_clock: object) -> None:
    began = trio.Event()

    async def work(ctx: Context) -> None:
        await count(ctx, 1, 2)
        began.set()
        await trio.sleep_forever()

    server = make_server(work, per_second=0.1)
    values: list[float] = []
    ours, theirs = trio.testing.memory_stream_pair()
    async with owned_nursery() as nursery:
        stopping = trio.CancelScope()

        async def serve() -> None:
            with stopping:
                await serve_stream(server, theirs)

        nursery.start_soon(serve)
        async with open_client(ours) as client, client.open_call("work") as call:
            await began.wait()
            stopping.cancel()
            with pytest.raises(ErrorResponse, match="the server stopped"):
                await call.result()
            values += [update.progress async for update in call.updates]
    assert values == [1, 2]


async def test_progress_of_a_handler_that_reports_often_is_sent_in_order_at_the_rate(autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, *range(1, 2001), pause=0.005)

    updates = await updates_of(make_server(work, per_second=50))

    values = [value for _, value in updates]
    assert values == sorted(set(values))
    assert values[-1] == 2000
    assert 10 * 50 <= len(updates) <= 11 * 50 + 1
    times = [when for when, _ in updates]
    assert all(later - earlier >= 0.999 for earlier, later in zip(times, times[101:-1], strict=False))


async def test_an_infinite_rate_sends_every_value(autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, *range(3000))

    assert [value for _, value in await updates_of(make_server(work, math.inf))] == list(range(3000))


@pytest.mark.parametrize("steps", [5, 100])
async def test_every_step_is_sent_at_the_default_rate(steps: int, autojump_clock: object) -> None:
    server = Server("s")

    @server.tool
    async def crunch(ctx: Context) -> str:
        for done in range(steps):
            await trio.sleep(0.01)
            await ctx.report_progress(done + 1, total=steps, message=f"step {done + 1}")
        return "done"

    async with open_client(server) as client, client.open_call("crunch") as call:
        updates = [(update.progress, update.total, update.message) async for update in call.updates]
    assert updates == [(done + 1, steps, f"step {done + 1}") for done in range(steps)]


async def test_a_held_back_value_resets_the_idle_timeout_of_the_caller(autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, 1, 2)
        await trio.sleep(14)

    server, limits = make_server(work, per_second=0.2), TimeLimits(idle=10)
    assert await updates_of(server, time_limits=limits) == [(0, 1), (5, 2)]
    with pytest.raises(RequestTimedOut):
        await updates_of(make_server(work, per_second=0.01), time_limits=limits)


@pytest.mark.parametrize("with_progress", [True, False])
async def test_a_handler_that_only_reports_progress_can_be_cancelled(
    with_progress: bool, autojump_clock: object
) -> None:
    ended, began = trio.Event(), trio.Event()

    async def work(ctx: Context) -> None:
        try:
            value = 0
            while True:
                value += 1
                await ctx.report_progress(value)
                began.set()
        finally:
            ended.set()

    async def ignore(_: object) -> None:
        await trio.lowlevel.checkpoint()

    async with open_memory_client(make_server(work)) as client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "work", on_progress=ignore if with_progress else None))
        await began.wait()
        nursery.cancel_scope.cancel()
    assert ended.is_set()


async def test_the_last_value_arrives_before_the_result_over_a_socket() -> None:
    async def work(ctx: Context) -> None:
        await count(ctx, *range(1, 2001))

    server = make_server(work, per_second=0.001)  # the second value is due long after the test
    ours, theirs = trio.socket.socketpair()
    async with owned_nursery() as nursery:
        nursery.start_soon(serve_stream, server, trio.SocketStream(theirs))
        async with open_client(trio.SocketStream(ours)) as client, client.open_call("work") as call:
            assert not (await call.result()).is_error
            assert [(update.progress, update.message) async for update in call.updates] == [
                (1, "step 1"),
                (2000, "step 2000"),
            ]


@pytest.mark.requirement("B.14-P5a")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_handler_cannot_flood_its_client(revision: str, autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        for value in range(1, 20_001):
            await ctx.report_progress(value)

    server = Server("s")
    server.tool(work)
    async with open_memory_client(server, revision=revision) as client, client.open_call("work") as call:
        values = [update.progress async for update in call.updates]
    assert values == [*range(1, 101), 20_000]


class Bench:
    """The progress of one handler run with fake exchanges."""

    def __init__(self, nursery: trio.Nursery, per_second: float) -> None:
        self.pool = HandlerPool(nursery)
        self.peer = FakePeer()
        self.exchange = self.next_exchange("first")
        incoming = self.exchange
        self.run = incoming.run = HandlerRun(
            self.pool,
            incoming,
            incoming.context,
            incoming.peer,
            incoming.method,
            self.peer.slots,
            handler=_never,
            explain=_never,
        )
        self.progress = Progress(self.run, per_second)

    def next_exchange(self, token: str | None, revision: str = CONTEXT.revision) -> FakeExchange:
        context = evolve(CONTEXT, progress_token=token, revision=revision)
        return FakeExchange("m", None, context, 1, self.peer)

    async def report(self, *values: float) -> None:
        for value in values:
            await self.progress.report(value, None, None)

    @property
    def timers(self) -> int:
        return len(self.pool.nursery.child_tasks)


def _never(*_: object) -> Any:
    raise NotImplementedError


def sent(exchange: FakeExchange) -> list[tuple[Any, Any]]:
    assert all(method == "notifications/progress" for method, _ in exchange.notifications)
    return [(params["progressToken"], params["progress"]) for _, params in exchange.notifications]


@asynccontextmanager
async def bench(per_second: float = 1) -> AsyncGenerator[Bench]:
    async with trio.open_nursery() as nursery:
        yield Bench(nursery, per_second)
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks


async def test_a_held_back_value_is_sent_before_an_interim_result_and_later_values_use_the_next_token(
    autojump_clock: object,
) -> None:
    async with bench() as b:
        await b.report(1, 2, 3)
        assert sent(b.exchange) == [("first", 1)]
        b.exchange.respond({"resultType": "input_required"})  # no notification may follow it
        assert sent(b.exchange) == [("first", 1), ("first", 3)]
        assert b.run.exchange is None
        await b.report(4)  # no exchange is open

        again = b.next_exchange("second")
        b.run.tie(again)
        await b.report(1, 5, 6)
        await trio.sleep(10)
        await b.report(7)

        assert sent(again) == [("second", 6), ("second", 7)]
        assert sent(b.exchange) == [("first", 1), ("first", 3)]


async def test_a_value_held_back_for_a_cancelled_exchange_is_never_sent(autojump_clock: object) -> None:
    async with bench() as b:
        await b.report(1, 2)
        assert b.timers == 1
        b.exchange.cancel("not wanted")
        again = b.next_exchange("second")
        b.run.tie(again)
        await trio.sleep(10)

        assert sent(b.exchange) == [("first", 1)]
        assert sent(again) == []


@pytest.mark.requirement("B.14-P4")
async def test_no_progress_is_sent_after_the_end_of_the_handler_and_no_task_is_left(autojump_clock: object) -> None:
    async with bench(0.01) as b:
        await b.report(1, 2)
        assert b.timers == 1
        b.progress.finish()
        await trio.testing.wait_all_tasks_blocked()
        assert b.timers == 0
        await b.report(3, 4)
        b.progress.finish()
        assert b.timers == 0

        assert sent(b.exchange) == [("first", 1), ("first", 2)]


async def test_the_newest_value_waits_for_room_in_the_outbox(autojump_clock: object) -> None:
    async with bench() as b:
        await b.report(1, 2)
        b.exchange.full = True
        await trio.sleep(10)
        assert sent(b.exchange) == [("first", 1)]
        await b.report(3)  # does not wait: the timer task waits and then sends this value
        b.exchange.full = False
        b.exchange.emptied.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sent(b.exchange) == [("first", 1), ("first", 3)]


async def test_a_handler_waits_for_room_as_long_as_its_exchange_is_open(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    async with bench(math.inf) as b:
        b.exchange.full = True
        nursery.start_soon(b.report, 1)
        nursery.start_soon(b.report, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert sent(b.exchange) == []
        b.exchange.full = False
        b.exchange.emptied.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sent(b.exchange) == [("first", 1)]

        b.exchange.full, b.exchange.emptied = True, trio.Event()
        nursery.start_soon(b.report, 2)
        await trio.testing.wait_all_tasks_blocked()
        b.exchange.respond({})
        b.exchange.emptied.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sent(b.exchange) == [("first", 1)]


async def test_a_held_back_value_is_dropped_with_a_lost_connection(autojump_clock: object) -> None:
    async with bench() as b:
        await b.report(1, 2)
        b.exchange.full, b.exchange.failure = True, ConnectionBroken("gone")
        await trio.sleep(10)
        b.exchange.emptied.set()
        await trio.testing.wait_all_tasks_blocked()
        assert b.timers == 0
        assert sent(b.exchange) == [("first", 1)]


async def test_a_response_at_the_moment_when_a_value_is_due_sends_the_value_once(autojump_clock: object) -> None:
    for _ in range(20):  # Trio shuffles which of the two tasks comes first
        async with bench() as b:
            due = trio.current_time() + 1
            await b.report(1, 2)
            await trio.sleep_until(due)
            b.exchange.respond({})
            again = b.next_exchange("second")
            b.run.tie(again)
            await b.report(1)
            await trio.sleep(10)
            assert sent(b.exchange) == [("first", 1), ("first", 2)]
            assert sent(again) == [("second", 1)]


async def test_a_held_back_value_may_be_replaced_until_it_is_sent(autojump_clock: object) -> None:
    async with bench() as b:
        await b.report(1, 2)
        await trio.sleep(0.5)
        await b.report(3)
        assert b.timers == 1
        await trio.sleep(0.75)
        assert sent(b.exchange) == [("first", 1), ("first", 3)]
        await b.report(4)
        await trio.sleep(0.5)
        assert sent(b.exchange) == [("first", 1), ("first", 3)]
        await trio.sleep(0.5)
        assert sent(b.exchange) == [("first", 1), ("first", 3), ("first", 4)]


async def test_a_message_that_json_cannot_represent_raises_in_the_handler_even_if_it_would_be_held_back(
    autojump_clock: object,
) -> None:
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)
        with pytest.raises(NotJsonError, match="lone surrogate"):
            await ctx.report_progress(2, message="\ud800")
        await ctx.report_progress(3)

    assert [value for _, value in await updates_of(make_server(work, per_second=0.01))] == [1, 3]


async def test_several_tasks_of_one_handler_may_report(autojump_clock: object) -> None:
    async def work(ctx: Context) -> None:
        async with trio.open_nursery() as nursery:
            for first in range(10):
                nursery.start_soon(partial(count, ctx, *range(first, 1000, 10), pause=0.1))

    updates = await updates_of(make_server(work, per_second=20))
    values = [value for _, value in updates]
    assert values == sorted(set(values))
    assert values[-1] == 999
    assert len(values) <= 20 + 20 * 10 + 1


@pytest.mark.parametrize(("revision", "sent_before"), [("2025-11-25", [1]), ("2026-07-28", [1, 3])])
async def test_a_held_back_value_is_sent_before_a_question_that_ends_the_exchange(
    revision: str, sent_before: list[float], autojump_clock: object
) -> None:
    """In legacy revisions a question does not end the exchange, so that the newest value may be sent later."""

    async def work(ctx: Context) -> None:
        await count(ctx, 1, 2, 3)
        await ctx.elicit("Go on?", {"type": "object", "properties": {}})
        await count(ctx, 4, 5, 6)

    values: list[float] = []

    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.testing.wait_all_tasks_blocked()
        assert values == sent_before
        return types.ElicitResult(action="accept", content={})

    async def on_progress(update: Any) -> None:
        await trio.lowlevel.checkpoint()
        values.append(update.progress)

    server = make_server(work, per_second=0.001)
    async with open_memory_client(server, revision=revision, on_elicit=on_elicit) as client:
        assert not (await client.call_tool("work", on_progress=on_progress)).is_error
    assert values == [*sent_before, 6]
