"""A handler run: its response, its failures, its cancellation, and the end of the pool."""

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

from tests.interaction.not_exceptions import KINDS, NOT_EXCEPTIONS, cancelled_of_another_task
from trio_mcp import ConnectionBroken, LocalProtocolError, McpError
from trio_mcp.peer import ExchangeState, HandlerPool, HandlerRun, HandlerSlots, OutOfTimeError
from trio_mcp.wire import INTERNAL_ERROR, JsonObject

from .fake_exchange import FakeExchange, exchange


@define(eq=False)
class Work:
    """A handler that can be watched."""

    pool: HandlerPool
    incoming: FakeExchange = field(factory=exchange)
    log: list[str] = field(factory=list[str])

    def begin(self, handler: Callable[[HandlerRun], Awaitable[JsonObject]], *, waits: bool = True) -> FakeExchange:
        self.pool.begin(self.incoming, handler, self.explain, waits=waits)
        return self.incoming

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


async def handler_ended(work: Work) -> None:
    """Wait until the handler has ended, and assert that it left nothing in the pool."""
    await wait_all_tasks_blocked()
    assert work.pool.running == 0
    assert work.incoming.peer.slots.running == 0
    assert work.incoming.run is None


async def test_the_return_value_of_the_handler_is_the_response(work: Work) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        assert run.exchange is work.incoming
        work.incoming.notify("progress", {"a": 1})
        return {"done": True}

    incoming = work.begin(handler)
    assert work.pool.running == 1
    await handler_ended(work)

    assert incoming.sent == [{"done": True}]
    assert incoming.notifications == [("progress", {"a": 1})]
    assert incoming.endings == 0
    assert incoming.state is ExchangeState.ANSWERED
    assert not incoming.open


async def test_the_task_of_a_handler_is_named_after_the_method(work: Work) -> None:
    work.begin(work.forever)
    await wait_all_tasks_blocked()

    assert "m handler" in {task.name for task in work.pool.nursery.child_tasks}
    work.incoming.cancel("over")


@pytest.mark.parametrize("failure", [ValueError("bad"), McpError(5, "no"), ExceptionGroup("g", [ValueError()])])
async def test_an_exception_of_the_handler_becomes_an_error_response(work: Work, failure: Exception) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise failure

    incoming = work.begin(handler)
    await handler_ended(work)

    (answer,) = incoming.sent
    assert isinstance(answer, McpError)
    assert answer.message == repr(failure)


async def test_a_handler_that_is_cancelled_before_its_first_step_sends_nothing(work: Work) -> None:
    incoming = work.begin(work.forever)
    incoming.cancel("changed my mind")
    await handler_ended(work)

    assert work.log == ["started", "stopped"]
    assert (incoming.sent, incoming.endings) == ([], 1)


@pytest.mark.requirement("B.12-P2b")
async def test_a_handler_that_is_cancelled_while_it_runs_stops_and_sends_nothing(work: Work) -> None:
    incoming = work.begin(work.forever)
    await wait_all_tasks_blocked()
    assert work.log == ["started"]

    incoming.cancel("changed my mind")
    incoming.notify("progress", {})
    await handler_ended(work)

    assert work.log == ["started", "stopped"]
    assert (incoming.sent, incoming.notifications, incoming.endings) == ([], [], 1)
    assert incoming.state is ExchangeState.CANCELLED


async def test_a_cancelled_handler_sees_the_reason_of_the_cancellation(work: Work) -> None:
    reasons: list[str] = []

    async def handler(_: HandlerRun) -> JsonObject:
        try:
            await trio.Event().wait()
        except trio.Cancelled as exc:
            reasons.append(str(exc))
            raise
        return {}

    incoming = work.begin(handler)
    await wait_all_tasks_blocked()
    incoming.cancel("changed my mind")
    await handler_ended(work)

    assert "changed my mind" in reasons[0]


async def test_a_cancellation_after_the_response_is_ignored(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {}

    incoming = work.begin(handler)
    await handler_ended(work)
    incoming.cancel("too late")
    incoming.disconnect()
    incoming.notify("progress", {})

    assert (incoming.sent, incoming.notifications, incoming.endings) == ([{}], [], 0)
    assert incoming.state is ExchangeState.ANSWERED


async def test_a_cancelled_handler_that_returns_normally_sends_nothing(work: Work) -> None:
    async def stubborn(_: HandlerRun) -> JsonObject:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            work.incoming.cancel("not wanted")
            await trio.lowlevel.checkpoint()
        return {"too": "late"}

    incoming = work.begin(stubborn)
    await handler_ended(work)

    assert incoming.sent == []


async def test_an_exchange_that_is_lost_twice_ends_once(work: Work) -> None:
    incoming = work.begin(work.forever)
    incoming.disconnect()
    incoming.disconnect()
    await handler_ended(work)

    assert (incoming.sent, incoming.endings) == ([], 1)
    assert incoming.state is ExchangeState.LOST


async def test_an_exchange_that_is_cancelled_twice_ends_once(work: Work) -> None:
    incoming = work.begin(work.forever)
    incoming.cancel("once")
    incoming.cancel("twice")
    await handler_ended(work)

    assert incoming.endings == 1


async def test_an_exchange_without_a_handler_can_be_answered_cancelled_or_lost() -> None:
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
async def test_a_second_response_is_refused() -> None:
    incoming = exchange()
    incoming.respond({})

    with pytest.raises(LocalProtocolError):
        incoming.respond({})
    with pytest.raises(LocalProtocolError):
        incoming.abandon()


async def test_a_handler_may_outlive_the_exchange_that_started_it(work: Work) -> None:
    go = trio.Event()

    async def handler(run: HandlerRun) -> JsonObject:
        await go.wait()
        assert run.exchange is None
        work.log.append("done")
        return {}

    incoming = work.begin(handler)
    await wait_all_tasks_blocked()
    incoming.respond({"early": True})
    go.set()
    await handler_ended(work)

    assert work.log == ["done"]
    assert incoming.sent == [{"early": True}]


async def test_a_failing_clean_up_of_a_cancelled_handler_is_logged_and_does_not_fail_the_pool(
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

    incoming = work.begin(handler)
    await wait_all_tasks_blocked()
    incoming.cancel("not wanted")
    await handler_ended(work)

    assert incoming.sent == []
    assert work.log == []
    assert [record.getMessage() for record in caplog.records] == ["a handler of m failed after it was cancelled"]
    assert not work.pool.nursery.cancel_scope.cancel_called


@pytest.mark.parametrize("quiet", [OutOfTimeError(), ConnectionBroken("gone")])
async def test_a_handler_that_stops_because_its_exchange_ended_is_not_logged(
    work: Work, caplog: pytest.LogCaptureFixture, quiet: Exception
) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        work.incoming.disconnect()
        try:
            await trio.Event().wait()
        finally:
            raise quiet

    work.begin(handler)
    await handler_ended(work)

    assert caplog.records == []


async def test_a_handler_that_exceeds_its_time_limit_is_answered_with_an_error(
    work: Work, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        run.allow(5)
        return await work.forever(run)

    incoming = work.begin(handler)
    await trio.sleep(4)
    assert incoming.sent == []
    await trio.sleep(2)
    await handler_ended(work)

    assert work.log == ["started", "stopped", "explained OutOfTimeError()"]
    assert len(incoming.sent) == 1


async def test_a_timeout_inside_the_handler_is_reported_as_an_exception_of_the_handler(
    work: Work, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.fail_after(1):
            return await work.forever(run)

    work.begin(handler)
    await trio.sleep(2)
    await handler_ended(work)

    assert work.log[-1].startswith("explained TooSlowError")


async def test_a_response_waits_for_room(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    work.incoming.full = True
    incoming = work.begin(handler)
    await wait_all_tasks_blocked()
    assert incoming.sent == []
    assert work.pool.running == 1

    incoming.emptied.set()
    await handler_ended(work)
    assert incoming.sent == [{"a": 1}]


async def test_a_response_that_waits_for_room_can_still_be_cancelled(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    work.incoming.full = True
    incoming = work.begin(handler)
    await wait_all_tasks_blocked()
    incoming.cancel("not wanted")
    await handler_ended(work)

    assert (incoming.sent, incoming.endings) == ([], 1)


async def test_an_error_response_that_waits_for_room_can_still_be_cancelled(
    work: Work, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        run.allow(1)
        return await work.forever(run)

    work.incoming.full = True
    incoming = work.begin(handler)
    await trio.sleep(100)  # the time given to the handler does not count for the wait
    assert work.pool.running == 1
    incoming.cancel("not wanted")
    await handler_ended(work)

    assert incoming.sent == []


async def test_a_response_that_waits_for_room_is_lost_with_its_connection(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    work.incoming.full, work.incoming.failure = True, ConnectionBroken("gone")
    incoming = work.begin(handler)
    incoming.emptied.set()
    await handler_ended(work)

    assert (incoming.sent, incoming.endings) == ([], 1)
    assert incoming.state is ExchangeState.LOST


async def test_when_the_pool_stops_every_exchange_is_answered_and_every_handler_stops() -> None:
    async with trio.open_nursery() as nursery:
        works = [Work(HandlerPool(nursery)) for _ in range(3)]
        for work in works:
            work.begin(work.forever)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    for work in works:
        (error,) = work.incoming.sent
        assert isinstance(error, McpError)
        assert error.message == "the server stopped before the request was done"
        assert work.log == ["started", "stopped"]
        assert (work.pool.running, work.incoming.peer.slots.running) == (0, 0)


async def test_when_the_pool_stops_handlers_that_wait_for_a_slot_end_too() -> None:
    slots = HandlerSlots(1, 10)
    async with trio.open_nursery() as nursery:
        works = [Work(HandlerPool(nursery), exchange(slots)) for _ in range(3)]
        for work in works:
            work.begin(work.forever)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [len(work.incoming.sent) for work in works] == [1, 1, 1]
    assert (slots.running, slots.waiting) == (0, 0)


async def test_when_the_pool_stops_a_response_that_waits_for_room_is_replaced() -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    async with trio.open_nursery() as nursery:
        work = Work(HandlerPool(nursery))
        work.incoming.full = True
        work.begin(handler)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    (error,) = work.incoming.sent
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
        (logging.ERROR, "the handler failed while it was cancelled")
    ]
    assert len(work.incoming.sent) == 1


async def test_a_handler_with_several_tasks_stops_with_the_pool_and_logs_nothing(
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


async def test_a_handler_that_raises_system_exit_fails_alone() -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        sys.exit(3)

    incoming = exchange()
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery), incoming).begin(handler)

    assert "sys.exit(3)" in str(incoming.sent)


async def test_a_queued_handler_sees_the_context_variables_of_its_own_request() -> None:
    seen: list[str] = []
    user: ContextVar[str] = ContextVar("user", default="none")

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


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_exception_of_any_class_fails_its_handler_alone(work: Work, kind: str, waits: bool) -> None:
    failure = await cancelled_of_another_task() if kind == "cancelled" else NOT_EXCEPTIONS[kind]()

    async def handler(_: HandlerRun) -> JsonObject:
        raise failure

    incoming = work.begin(handler, waits=waits)
    await handler_ended(work)

    (answer,) = incoming.sent
    assert isinstance(answer, McpError)
    assert "raised" in answer.message or "exit" in answer.message


async def test_the_cancellation_of_another_task_that_a_cancelled_handler_raises_is_its_own(work: Work) -> None:
    failure = await cancelled_of_another_task()

    async def handler(_: HandlerRun) -> JsonObject:
        try:
            await trio.sleep_forever()
        finally:
            raise failure

    incoming = work.begin(handler)
    await wait_all_tasks_blocked()
    incoming.cancel("over")
    await handler_ended(work)

    assert work.log == []


async def test_a_failure_whose_text_cannot_be_made_fails_its_handler_alone(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    class UnprintableError(Exception):
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise UnprintableError

    incoming = work.begin(handler)
    await handler_ended(work)

    assert "internal error" in str(incoming.sent)
    assert "could not be turned into a response" in caplog.text


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


async def test_a_handler_whose_task_raises_system_exit_fails_alone() -> None:
    incoming = exchange()
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery), incoming).begin(failing_in_a_group(SystemExit, stopping=False))

    assert "a task of the handler raised SystemExit" in str(incoming.sent)


async def test_a_handler_whose_task_raises_system_exit_while_the_server_stops_fails_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery)).begin(failing_in_a_group(SystemExit, stopping=True))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert "failed while it was cancelled" in caplog.text


@pytest.mark.parametrize("stopping", [False, True])
async def test_a_keyboard_interrupt_of_a_task_of_a_handler_fails_the_handler_alone(
    stopping: bool, caplog: pytest.LogCaptureFixture
) -> None:
    incoming = exchange()
    async with trio.open_nursery() as nursery:
        Work(HandlerPool(nursery), incoming).begin(failing_in_a_group(KeyboardInterrupt, stopping=stopping))
        if stopping:
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    assert ("failed while it was cancelled" in caplog.text) is stopping
    assert ("a task of the handler raised KeyboardInterrupt" in str(incoming.sent)) is not stopping


variable: ContextVar[str] = ContextVar("variable", default="unset")


async def test_a_handler_that_never_waits_runs_without_a_task(work: Work) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        assert work.pool.running == 1
        assert run.peer.slots.running == 1
        assert not run.has_several_tasks
        variable.set("the handler's own")
        return {"done": True}

    incoming = work.begin(handler, waits=False)

    assert incoming.sent == [{"done": True}]
    assert variable.get() == "unset"
    assert not work.pool.nursery.child_tasks
    await handler_ended(work)


@pytest.mark.parametrize("failure", [ValueError("bad"), McpError(5, "no")])
async def test_a_failure_of_a_handler_without_a_task_becomes_an_error_response(work: Work, failure: Exception) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        raise failure

    incoming = work.begin(handler, waits=False)
    await handler_ended(work)

    (answer,) = incoming.sent
    assert isinstance(answer, McpError)
    assert answer.message == repr(failure)


async def test_a_handler_without_a_task_that_raises_system_exit_fails_alone(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        sys.exit(3)

    work.begin(handler, waits=False)
    await handler_ended(work)

    assert work.log == ["explained RuntimeError('the handler tried to exit the process: sys.exit(3)')"]


async def test_a_handler_that_waits_although_it_is_declared_never_to_wait_fails(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {}

    work.begin(handler, waits=False)
    await handler_ended(work)

    assert work.log == ["explained RuntimeError('a handler of m that was declared never to wait has waited')"]


async def test_a_handler_without_a_task_that_cancels_its_own_request_sends_nothing(work: Work) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        work.incoming.cancel("changed my mind")
        assert run.exchange is None
        return {"done": True}

    work.begin(handler, waits=False)
    await handler_ended(work)

    assert (work.incoming.sent, work.incoming.endings) == ([], 1)


async def test_a_handler_that_never_waits_gets_a_task_if_there_is_no_room_for_its_response(work: Work) -> None:
    async def handler(_: HandlerRun) -> JsonObject:
        return {"done": True}

    work.incoming.full = True
    incoming = work.begin(handler, waits=False)
    await wait_all_tasks_blocked()
    assert incoming.sent == []

    incoming.emptied.set()
    await handler_ended(work)
    assert incoming.sent == [{"done": True}]


async def test_a_handler_that_never_waits_gets_a_task_if_there_is_no_free_slot(pool: HandlerPool) -> None:
    slots = HandlerSlots(1, 1)
    first, second = Work(pool, exchange(slots)), Work(pool, exchange(slots))

    async def handler(_: HandlerRun) -> JsonObject:
        return {"done": True}

    first.begin(first.forever)
    second.begin(handler, waits=False)
    await wait_all_tasks_blocked()
    assert second.incoming.sent == []

    first.incoming.cancel("over")
    await handler_ended(second)
    assert second.incoming.sent == [{"done": True}]


async def test_a_large_result_is_dropped_if_its_exchange_has_ended_while_it_waited_for_its_turn(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work.pool.large_results, "_clock", lambda: 0.0)  # so that no turn takes long, and none pauses

    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"text": "x" * 2**20}

    async with work.pool.large_results.turn("another sender"):
        incoming = work.incoming
        slots = HandlerSlots(10, 10, is_alone=False)
        work.pool.begin(incoming, handler, work.explain, slots)
        await wait_all_tasks_blocked()
        run = incoming.run
        assert run is not None
        run.exchange = incoming.run = None
    await wait_all_tasks_blocked()

    assert (incoming.sent, work.pool.running) == ([], 0)


async def test_a_large_result_waits_again_if_others_have_taken_its_room_while_it_waited_for_its_turn(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work.pool.large_results, "_clock", lambda: 0.0)  # so that no turn takes long, and none pauses

    async def handler(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"text": "x" * 2**20}

    incoming = work.incoming
    async with work.pool.large_results.turn("another sender"):
        work.pool.begin(incoming, handler, work.explain, HandlerSlots(10, 10, is_alone=False))
        await wait_all_tasks_blocked()
        incoming.full = True
    await wait_all_tasks_blocked()
    assert incoming.sent == []
    async with work.pool.large_results.turn("another sender"):  # nobody keeps it
        incoming.full = False
        incoming.emptied.set()
    await wait_all_tasks_blocked()

    assert [len(str(answer)) > 2**20 for answer in incoming.sent] == [True]
    assert work.pool.running == 0
