"""A handler run from start to end: its response, its failures, and what it cannot break."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import ConnectionBroken, LocalProtocolError, McpError
from trio_mcp.peer import ExchangeState, HandlerPool, HandlerRun, HandlerSlots, OutOfTimeError
from trio_mcp.wire import INTERNAL_ERROR, JsonObject

from .fake_exchange import FakeExchange, exchange


@define(eq=False)
class Work:
    """A handler that can be watched."""

    pool: HandlerPool
    asked: FakeExchange = field(factory=exchange)
    log: list[str] = field(factory=list[str])

    def begin(self, handler: Callable[[HandlerRun], Awaitable[JsonObject]], *, waits: bool = True) -> FakeExchange:
        self.pool.begin(self.asked, handler, self.explain, waits=waits)
        return self.asked

    def explain(self, failure: Exception) -> McpError:
        self.log.append(f"explained {failure!r}")
        return McpError(-1, repr(failure))

    async def forever(self, _: HandlerRun) -> JsonObject:
        self.log.append("started")
        try:
            await trio.Event().wait()
        finally:
            self.log.append("stopped")
        return {}


@pytest.fixture
def pool(nursery: trio.Nursery) -> HandlerPool:
    return HandlerPool(nursery)


@pytest.fixture
def work(pool: HandlerPool) -> Work:
    return Work(pool)


async def resolved(work: Work) -> None:
    """Wait until the handler has ended, and check that nothing of it is left."""
    await wait_all_tasks_blocked()
    assert work.pool.running == 0
    assert work.asked.peer.slots.running == 0
    assert work.asked.run is None


async def test_what_the_handler_returns_is_the_response(work: Work) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        assert run.exchange is work.asked
        work.asked.notify("progress", {"a": 1})
        return {"done": True}

    asked = work.begin(handler)
    assert work.pool.running == 1
    await resolved(work)

    assert asked.sent == [{"done": True}]
    assert asked.told == [("progress", {"a": 1})]
    assert asked.endings == 0
    assert asked.state is ExchangeState.ANSWERED
    assert not asked.open


async def test_a_task_is_named_for_its_method(work: Work) -> None:
    work.begin(work.forever)
    await wait_all_tasks_blocked()

    assert "m handler" in {task.name for task in work.pool.nursery.child_tasks}
    work.asked.cancel("over")


@pytest.mark.parametrize("failure", [ValueError("bad"), McpError(5, "no"), ExceptionGroup("g", [ValueError()])])
async def test_what_the_handler_raises_is_explained(work: Work, failure: Exception) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise failure

    asked = work.begin(handler)
    await resolved(work)

    (answer,) = asked.sent
    assert isinstance(answer, McpError)
    assert answer.message == repr(failure)


async def test_cancelled_before_its_first_step_a_handler_sends_nothing(work: Work) -> None:
    asked = work.begin(work.forever)
    asked.cancel("changed my mind")
    await resolved(work)

    assert work.log == ["started", "stopped"]
    assert (asked.sent, asked.endings) == ([], 1)


@pytest.mark.requirement("B.12-P2b")
async def test_cancelled_in_its_middle_a_handler_stops_and_nothing_is_sent(work: Work) -> None:
    asked = work.begin(work.forever)
    await wait_all_tasks_blocked()
    assert work.log == ["started"]

    asked.cancel("changed my mind")
    asked.notify("progress", {})
    await resolved(work)

    assert work.log == ["started", "stopped"]
    assert (asked.sent, asked.told, asked.endings) == ([], [], 1)
    assert asked.state is ExchangeState.CANCELLED


async def test_a_cancellation_has_a_reason(work: Work) -> None:
    reasons: list[str] = []

    async def handler(_: HandlerRun) -> JsonObject:
        try:
            await trio.Event().wait()
        except trio.Cancelled as exc:
            reasons.append(str(exc))
            raise
        return {}

    asked = work.begin(handler)
    await wait_all_tasks_blocked()
    asked.cancel("changed my mind")
    await resolved(work)

    assert "changed my mind" in reasons[0]


async def test_cancelled_after_its_response_nothing_happens(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {}

    asked = work.begin(handler)
    await resolved(work)
    asked.cancel("too late")
    asked.disconnect()
    asked.notify("progress", {})

    assert (asked.sent, asked.told, asked.endings) == ([{}], [], 0)
    assert asked.state is ExchangeState.ANSWERED


async def test_a_handler_that_ends_well_although_cancelled_sends_nothing(work: Work) -> None:
    async def stubborn(_: HandlerRun) -> JsonObject:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            work.asked.cancel("not wanted")
            await trio.lowlevel.checkpoint()
        return {"too": "late"}

    asked = work.begin(stubborn)
    await resolved(work)

    assert asked.sent == []


async def test_an_exchange_that_is_lost_twice_ends_once(work: Work) -> None:
    asked = work.begin(work.forever)
    asked.disconnect()
    asked.disconnect()
    await resolved(work)

    assert (asked.sent, asked.endings) == ([], 1)
    assert asked.state is ExchangeState.LOST


async def test_an_exchange_that_is_cancelled_twice_ends_once(work: Work) -> None:
    asked = work.begin(work.forever)
    asked.cancel("once")
    asked.cancel("twice")
    await resolved(work)

    assert asked.endings == 1


async def test_an_exchange_without_a_handler_ends_in_any_way() -> None:
    answered, abandoned, dropped, lost = (exchange() for _ in range(4))

    answered.respond({})
    abandoned.abandon()
    dropped.cancel("not wanted")
    lost.disconnect()

    assert answered.sent == [{}]
    (error,) = abandoned.sent
    assert isinstance(error, McpError)
    assert (error.code, error.message) == (INTERNAL_ERROR, "the server stopped before the request was done")
    assert (dropped.endings, lost.endings) == (1, 1)


@pytest.mark.requirement("B.1-P4b")
async def test_there_is_one_response() -> None:
    asked = exchange()
    asked.respond({})

    with pytest.raises(LocalProtocolError):
        asked.respond({})
    with pytest.raises(LocalProtocolError):
        asked.abandon()


async def test_a_handler_may_outlive_the_exchange_that_began_it(work: Work) -> None:
    go = trio.Event()

    async def handler(run: HandlerRun) -> JsonObject:
        await go.wait()
        assert run.exchange is None
        work.log.append("done")
        return {}

    asked = work.begin(handler)
    await wait_all_tasks_blocked()
    asked.respond({"early": True})
    go.set()
    await resolved(work)

    assert work.log == ["done"]
    assert asked.sent == [{"early": True}]


async def test_a_clean_up_that_fails_while_cancelled_is_logged_and_takes_nothing_down(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            try:
                await trio.Event().wait()
            finally:
                raise OSError("the clean-up failed")
        return {}

    asked = work.begin(handler)
    await wait_all_tasks_blocked()
    asked.cancel("not wanted")
    await resolved(work)

    assert asked.sent == []
    assert work.log == []
    assert [record.getMessage() for record in caplog.records] == ["a handler of m failed after it was cancelled"]
    assert not work.pool.nursery.cancel_scope.cancel_called


@pytest.mark.parametrize("quiet", [OutOfTimeError(), ConnectionBroken("gone")])
async def test_a_handler_that_ends_because_its_exchange_did_is_not_logged(
    work: Work, caplog: pytest.LogCaptureFixture, quiet: Exception
) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        work.asked.disconnect()
        try:
            await trio.Event().wait()
        finally:
            raise quiet

    work.begin(handler)
    await resolved(work)

    assert caplog.records == []


async def test_a_handler_that_uses_up_its_time_is_explained(work: Work, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        run.allow(5)
        return await work.forever(run)

    asked = work.begin(handler)
    await trio.sleep(4)
    assert asked.sent == []
    await trio.sleep(2)
    await resolved(work)

    assert work.log == ["started", "stopped", "explained OutOfTimeError()"]
    assert len(asked.sent) == 1


async def test_a_handler_s_own_deadline_is_its_own_exception(work: Work, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.fail_after(1):
            return await work.forever(run)

    work.begin(handler)
    await trio.sleep(2)
    await resolved(work)

    assert work.log[-1].startswith("explained TooSlowError")


async def test_a_response_waits_for_room(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    work.asked.full = True
    asked = work.begin(handler)
    await wait_all_tasks_blocked()
    assert asked.sent == []
    assert work.pool.running == 1

    asked.emptied.set()
    await resolved(work)
    assert asked.sent == [{"a": 1}]


async def test_a_response_that_waits_for_room_can_still_be_cancelled(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    work.asked.full = True
    asked = work.begin(handler)
    await wait_all_tasks_blocked()
    asked.cancel("not wanted")
    await resolved(work)

    assert (asked.sent, asked.endings) == ([], 1)


async def test_an_explanation_that_waits_for_room_can_still_be_cancelled(work: Work, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        run.allow(1)
        return await work.forever(run)

    work.asked.full = True
    asked = work.begin(handler)
    await trio.sleep(100)  # the time given to the handler does not count for the wait
    assert work.pool.running == 1
    asked.cancel("not wanted")
    await resolved(work)

    assert asked.sent == []


async def test_a_response_for_which_there_will_never_be_room_is_lost_with_its_connection(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    work.asked.full, work.asked.failure = True, ConnectionBroken("gone")
    asked = work.begin(handler)
    asked.emptied.set()
    await resolved(work)

    assert (asked.sent, asked.endings) == ([], 1)
    assert asked.state is ExchangeState.LOST


async def test_when_the_pool_stops_every_exchange_is_answered_and_every_handler_stopped() -> None:
    async with trio.open_nursery() as nursery:
        works = [Work(HandlerPool(nursery)) for _ in range(3)]
        for work in works:
            work.begin(work.forever)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    for work in works:
        (error,) = work.asked.sent
        assert isinstance(error, McpError)
        assert error.message == "the server stopped before the request was done"
        assert work.log == ["started", "stopped"]
        assert (work.pool.running, work.asked.peer.slots.running) == (0, 0)


async def test_when_the_pool_stops_handlers_that_wait_for_a_slot_end_too() -> None:
    slots = HandlerSlots(1, 10)
    async with trio.open_nursery() as nursery:
        works = [Work(HandlerPool(nursery), exchange(slots)) for _ in range(3)]
        for work in works:
            work.begin(work.forever)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [len(work.asked.sent) for work in works] == [1, 1, 1]
    assert (slots.running, slots.waiting) == (0, 0)


async def test_when_the_pool_stops_a_response_that_waits_for_room_is_replaced() -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    async with trio.open_nursery() as nursery:
        work = Work(HandlerPool(nursery))
        work.asked.full = True
        work.begin(handler)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    (error,) = work.asked.sent
    assert isinstance(error, McpError)
    assert work.pool.running == 0


async def test_a_clean_up_that_fails_while_the_pool_stops_is_logged_and_does_not_fail_the_pool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            try:
                await trio.Event().wait()
            finally:
                raise OSError("the clean-up failed")
        return {}

    async with trio.open_nursery() as nursery:
        work = Work(HandlerPool(nursery))
        work.begin(handler)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "a handler of m failed while the server stopped")
    ]
    assert len(work.asked.sent) == 1


async def test_a_handler_with_several_tasks_stops_with_the_pool_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            inner.start_soon(trio.sleep_forever)
        return {}

    async with trio.open_nursery() as nursery:
        work = Work(HandlerPool(nursery))
        work.begin(handler)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert caplog.records == []


async def test_a_handler_that_exits_the_process_has_failed_and_nothing_else_has() -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        sys.exit(3)

    asked = exchange()
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery), asked).begin(handler)

    assert "sys.exit(3)" in str(asked.sent)


async def test_a_queued_handler_sees_the_context_variables_of_its_own_request() -> None:
    seen: list[str] = []
    user: ContextVar[str] = ContextVar("user", default="nobody")

    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        seen.append(user.get())
        user.set("left behind")
        return {}

    async with trio.open_nursery() as nursery:
        slots, pool = HandlerSlots(1, 10), HandlerPool(nursery)
        for name in ("alice", "bob"):
            user.set(name)
            Work(pool, exchange(slots=slots)).begin(handler)

    assert seen == ["alice", "bob"]


async def test_an_interrupt_in_a_handler_leaves_the_pool() -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    pools: list[HandlerPool] = []
    asked = exchange()
    with pytest.RaisesGroup(KeyboardInterrupt):
        async with trio.open_nursery() as nursery:
            pools.append(HandlerPool(nursery))
            Work(pools[0], asked).begin(handler)

    assert len(asked.sent) == 1
    assert pools[0].running == 0


def failing_in_a_group(error: type[BaseException], *, stopping: bool) -> Callable[[HandlerRun], Awaitable[JsonObject]]:
    async def handler(_: HandlerRun) -> JsonObject:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            try:
                await trio.sleep(math.inf if stopping else 0)
            finally:
                raise error
        return {}

    return handler


async def test_a_task_of_a_handler_that_exits_the_process_has_failed_and_nothing_else_has() -> None:
    asked = exchange()
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery), asked).begin(failing_in_a_group(SystemExit, stopping=False))

    assert "a task of the handler tried to exit the process" in str(asked.sent)


async def test_a_task_of_a_handler_that_exits_the_process_while_the_server_stops_does_not_end_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery)).begin(failing_in_a_group(SystemExit, stopping=True))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert "failed while the server stopped" in caplog.text


@pytest.mark.parametrize("stopping", [False, True])
async def test_an_interrupt_in_a_group_of_a_handler_leaves_the_pool(stopping: bool) -> None:
    handler = failing_in_a_group(KeyboardInterrupt, stopping=stopping)

    with pytest.RaisesGroup(pytest.RaisesGroup(KeyboardInterrupt)):  # the nursery is the subject
        async with trio.open_nursery() as nursery:
            work = Work(HandlerPool(nursery))
            work.begin(handler)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


variable: ContextVar[str] = ContextVar("variable", default="unset")


async def test_a_handler_that_never_waits_runs_without_a_task(work: Work) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        assert work.pool.running == 1
        assert run.peer.slots.running == 1
        assert not run.has_several_tasks
        variable.set("the handler's own")
        return {"done": True}

    asked = work.begin(handler, waits=False)

    assert asked.sent == [{"done": True}]
    assert variable.get() == "unset"
    assert not work.pool.nursery.child_tasks
    await resolved(work)


@pytest.mark.parametrize("failure", [ValueError("bad"), McpError(5, "no")])
async def test_a_failure_of_a_handler_without_a_task_is_explained(work: Work, failure: Exception) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        raise failure

    asked = work.begin(handler, waits=False)
    await resolved(work)

    (answer,) = asked.sent
    assert isinstance(answer, McpError)
    assert answer.message == repr(failure)


async def test_a_handler_without_a_task_cannot_exit_the_process(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        sys.exit(3)

    work.begin(handler, waits=False)
    await resolved(work)

    assert work.log == ["explained RuntimeError('the handler tried to exit the process: sys.exit(3)')"]


async def test_an_interrupt_of_a_handler_without_a_task_is_raised_and_leaves_nothing_behind(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.begin(handler, waits=False)
    await resolved(work)

    (answer,) = work.asked.sent
    assert isinstance(answer, McpError)
    assert "stopped" in answer.message


async def test_a_handler_that_waits_although_declared_never_to_wait_fails(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {}

    work.begin(handler, waits=False)
    await resolved(work)

    assert work.log == ["explained RuntimeError('a handler of m that was declared never to wait has waited')"]


async def test_a_handler_without_a_task_that_stops_its_own_request_sends_nothing(work: Work) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        work.asked.cancel("changed my mind")
        assert run.exchange is None
        return {"done": True}

    work.begin(handler, waits=False)
    await resolved(work)

    assert (work.asked.sent, work.asked.endings) == ([], 1)


async def test_a_handler_that_never_waits_gets_a_task_if_there_is_no_room_for_its_response(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        return {"done": True}

    work.asked.full = True
    asked = work.begin(handler, waits=False)
    await wait_all_tasks_blocked()
    assert asked.sent == []

    asked.emptied.set()
    await resolved(work)
    assert asked.sent == [{"done": True}]


async def test_a_handler_that_never_waits_gets_a_task_if_there_is_no_free_slot(pool: HandlerPool) -> None:
    slots = HandlerSlots(1, 1)
    first, second = Work(pool, exchange(slots)), Work(pool, exchange(slots))

    async def handler(_: HandlerRun) -> JsonObject:
        return {"done": True}

    first.begin(first.forever)
    second.begin(handler, waits=False)
    await wait_all_tasks_blocked()
    assert second.asked.sent == []

    first.asked.cancel("over")
    await resolved(second)
    assert second.asked.sent == [{"done": True}]
