"""Parked handlers: resuming, cancelling and ending them.

The tests in tests/interaction/test_asking*.py do the same across a whole server.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import AskExpired, McpError
from trio_mcp.peer import GRACE_SECONDS, ExchangeState, HandlerRun, HandlerSlots, QuestionBatch
from trio_mcp.wire import INTERNAL_ERROR, JsonObject

from .fake_exchange import FakeExchange, exchange
from .parking_bench import (
    MAX_PARKED,
    Bench,
    answer_of,
    ask,
    error_of,
    forever,
    make_pool,
    one_question,
    question,
    questions_in,
    report_progress,
    token_of,
)

request_name: ContextVar[str] = ContextVar("request_name", default="none")


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(make_pool(nursery))


# One task.


async def test_a_retry_continues_the_handler_where_it_asked_and_only_once(bench: Bench) -> None:
    begun: list[int] = []

    async def handler(run: HandlerRun) -> JsonObject:
        begun.append(1)
        return {"hi": await ask(run, "name"), "begun": len(begun)}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert questions_in(first) == {"name"}
    assert bench.pool.parking.parked == bench.pool.running == 1

    second = bench.retry(first, {"name": "Ada"})
    assert bench.pool.parking.parked == 0
    assert await bench.holds_nothing()
    assert answer_of(second) == {"hi": ["Ada"], "begun": 1}


async def test_a_handler_run_belongs_to_the_exchange_that_waits_for_it(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        report_progress(run, 1)
        await ask(run, "a")
        assert run.context is second.context
        assert run.peer is second.peer
        report_progress(run, 2)
        return {}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()

    assert [params["value"] for _, params in first.notifications] == [1]
    assert [params["value"] for _, params in second.notifications] == [2]


async def test_a_handler_may_ask_again_and_again(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        return {"sum": sum([(await ask(run, str(number)))[0] for number in range(5)])}

    incoming = bench.begin(handler)
    tokens: list[str] = []
    for number in range(5):
        await wait_all_tasks_blocked()
        assert questions_in(incoming) == {str(number)}
        tokens.append(token_of(incoming))
        incoming = bench.retry(incoming, {str(number): number})
    assert await bench.holds_nothing()

    assert answer_of(incoming) == {"sum": 10}
    assert len(set(tokens)) == 5


async def test_a_parked_handler_occupies_no_slot(nursery: trio.Nursery) -> None:
    bench = Bench(make_pool(nursery), HandlerSlots(1, 0))
    first = bench.begin(one_question)
    await wait_all_tasks_blocked()
    assert (bench.slots.running, bench.pool.limiter.taken) == (0, 0)

    other = bench.begin(one_question)
    await wait_all_tasks_blocked()
    assert questions_in(other) == {"a"}
    for incoming in (first, other):
        answered = bench.retry(incoming, {"a": 1})
        await wait_all_tasks_blocked()
        assert answer_of(answered) == {"answer": 1}
    assert await bench.holds_nothing()


async def test_a_handler_keeps_the_context_variables_of_the_first_request(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        before = request_name.get()
        await ask(run, "a")
        return {"before": before, "after": request_name.get()}

    request_name.set("the first request")
    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    request_name.set("the second request")
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()

    assert answer_of(second) == dict.fromkeys(("before", "after"), "the first request")


async def test_an_exception_that_a_handler_raises_after_an_answer_is_the_response_to_the_retry(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        await ask(run, "a")
        raise KeyError("x")

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()

    assert error_of(second) == "KeyError('x')"


# Cancellation.


def cancel(incoming: FakeExchange) -> None:
    incoming.cancel("not wanted")


async def test_a_handler_that_is_cancelled_before_it_asks_stops(bench: Bench, autojump_clock: MockClock) -> None:
    ended: list[float] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            await trio.sleep(10)
            return await one_question(run)
        finally:
            ended.append(trio.current_time())

    first = bench.begin(handler)
    await trio.sleep(1)
    first.cancel("not wanted")
    assert await bench.holds_nothing()

    assert (ended, first.sent) == ([1], [])


async def test_a_handler_that_is_cancelled_before_its_question_is_sent_stops(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        first.full = True
        return await one_question(run)

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    first.cancel("not wanted")
    first.emptied.set()
    assert await bench.holds_nothing()
    assert (first.sent, first.state) == ([], ExchangeState.CANCELLED)


async def test_a_late_cancellation_of_the_first_exchange_does_nothing(bench: Bench) -> None:
    first = bench.begin(one_question)
    await wait_all_tasks_blocked()
    first.cancel("too late")
    first.disconnect()
    await wait_all_tasks_blocked()
    assert bench.pool.parking.parked == 1

    second = bench.retry(first, {"a": 1})
    first.cancel("much too late")
    assert await bench.holds_nothing()
    assert answer_of(second) == {"answer": 1}


@pytest.mark.parametrize("end", [cancel, FakeExchange.disconnect])
async def test_a_handler_stops_when_the_retry_that_waits_for_it_ends(
    bench: Bench, end: Callable[[FakeExchange], None]
) -> None:
    ended: list[str] = []

    async def handler(run: HandlerRun) -> JsonObject:
        await ask(run, "a")
        try:
            await trio.sleep_forever()
        finally:
            ended.append("ended")
        return {}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    token = token_of(first)
    second = bench.retry(first, {"a": 1})
    await wait_all_tasks_blocked()
    assert ended == []

    end(second)
    assert await bench.holds_nothing()
    assert (ended, second.sent) == (["ended"], [])
    with pytest.raises(LookupError):
        bench.retry(token, {"a": 1})


async def test_a_question_of_a_cancelled_handler_fails_because_the_call_is_over(bench: Bench) -> None:
    outcome: list[str] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                try:
                    await ask(run, "may I?")
                except AskExpired as exc:
                    outcome.append(str(exc))
        return {}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    first.cancel("not wanted")
    assert await bench.holds_nothing()
    assert outcome == ["the call is over"]


async def test_a_shielded_question_of_a_cancelled_handler_fails(bench: Bench) -> None:
    outcome: list[str] = []

    async def handler(run: HandlerRun) -> JsonObject:
        first.full = True
        with trio.CancelScope(shield=True), pytest.raises(AskExpired) as caught:
            await ask(run, "a")
        outcome.append(str(caught.value))
        return {}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    first.cancel("not wanted")
    first.emptied.set()
    assert await bench.holds_nothing()
    assert outcome == ["the call is over"]


# Closing and cancelling the pool.


async def test_when_the_pool_closes_parked_handlers_clean_up_and_new_questions_fail(
    bench: Bench, autojump_clock: MockClock
) -> None:
    log: list[str] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        finally:
            await trio.sleep(1)
            log.append("cleaned up")

    async def kept(run: HandlerRun) -> JsonObject:
        with trio.move_on_after(1):
            await ask(run, "a")
        return {}

    for each in (handler, handler, kept):
        bench.begin(each)
    await trio.sleep(5)
    assert bench.pool.parking.parked == 3

    bench.pool.parking.close()
    began = trio.current_time()
    await bench.pool.parking.emptied()
    assert trio.current_time() - began == 1
    assert log == ["cleaned up"] * 2
    assert await bench.holds_nothing()

    with pytest.raises(AskExpired, match="the server stops"):
        bench.pool.parking.check_open()
    incoming = bench.begin(one_question)
    assert await bench.holds_nothing()
    assert error_of(incoming) == "AskExpired('the server stops')"


async def test_when_the_pool_closes_questions_that_were_sent_as_requests_expire(bench: Bench) -> None:
    batch = QuestionBatch([question("a")])
    bench.pool.parking.direct.add(batch)
    bench.pool.parking.close()
    with pytest.raises(AskExpired):
        await batch.wait()


async def test_closing_a_pool_without_parked_handlers_does_not_wait(bench: Bench) -> None:
    bench.pool.parking.check_open()
    bench.pool.parking.close()
    await bench.pool.parking.emptied()


async def test_closing_the_pool_waits_no_longer_than_the_grace_period(bench: Bench, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        except AskExpired:
            return await forever(run)

    bench.begin(handler)
    await wait_all_tasks_blocked()
    bench.pool.parking.close()
    await bench.pool.parking.emptied()
    assert trio.current_time() == GRACE_SECONDS


async def test_when_the_pool_is_cancelled_parked_handlers_are_stopped() -> None:
    ended: list[int] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        finally:
            ended.append(1)

    async with trio.open_nursery() as nursery:
        bench = Bench(make_pool(nursery, ask_seconds=math.inf))
        for _ in range(MAX_PARKED):
            bench.begin(handler)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert ended == [1] * MAX_PARKED
    assert await bench.holds_nothing()


async def test_when_the_pool_is_cancelled_a_retry_that_waits_for_a_slot_is_answered(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(make_pool(nursery), HandlerSlots(1, 1))
        first = bench.begin(one_question)
        await wait_all_tasks_blocked()
        bench.begin(forever)
        second = bench.retry(first, {"a": 1})
        nursery.cancel_scope.cancel()

    (error,) = second.sent
    assert isinstance(error, McpError)
    assert error.code == INTERNAL_ERROR
    assert await bench.holds_nothing()


# Abandoned tasks of a handler.


async def test_when_a_handler_ends_the_open_questions_of_its_abandoned_tasks_fail(
    bench: Bench, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    outcome: list[str] = []

    async def abandoned(run: HandlerRun) -> None:  # such as the task of an abandoned worker thread
        for _ in range(2):
            with pytest.raises(AskExpired) as caught:
                await ask(run, "a")
            outcome.append(str(caught.value))

    async def handler(run: HandlerRun) -> JsonObject:
        nursery.start_soon(abandoned, run)
        await trio.sleep(1)
        return {"done": True}

    first = bench.begin(handler)
    await trio.sleep(2)
    assert questions_in(first) == {"a"}
    assert outcome == ["the call is over"] * 2
    assert bench.pool.parking.parked == 1  # the handler has ended, and its outcome is kept
    second = bench.retry(first, {})
    assert await bench.holds_nothing()
    assert answer_of(second) == {"done": True}


async def test_an_exchange_of_another_pool_is_not_a_retry(bench: Bench) -> None:
    assert not bench.pool.parking.resume("no token", exchange(), {})
