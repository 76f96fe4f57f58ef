"""Parked handlers: resuming, cancelling and ending them.

Across a whole server it is shown in tests/interaction/test_asking*.py.
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
    MOST,
    Bench,
    answer_of,
    ask,
    asked_in,
    error_of,
    forever,
    make_pool,
    notify_nowait,
    one_question,
    question,
    token_of,
)

whose: ContextVar[str] = ContextVar("whose", default="nobody's")


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(make_pool(nursery))


# One task, straight on.


async def test_a_handler_goes_on_once_where_it_stood(bench: Bench) -> None:
    begun: list[int] = []

    async def handler(run: HandlerRun) -> JsonObject:
        begun.append(1)
        return {"hi": await ask(run, "name"), "begun": len(begun)}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert asked_in(first) == {"name"}
    assert bench.pool.parking.parked == bench.pool.running == 1

    second = bench.retry(first, {"name": "Ada"})
    assert bench.pool.parking.parked == 0
    assert await bench.holds_nothing()
    assert answer_of(second) == {"hi": ["Ada"], "begun": 1}


async def test_the_run_is_tied_to_the_exchange_that_waits_for_it(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        notify_nowait(run, 1)
        await ask(run, "a")
        assert run.context is second.context
        assert run.peer is second.peer
        notify_nowait(run, 2)
        return {}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()

    assert [params["value"] for _, params in first.told] == [1]
    assert [params["value"] for _, params in second.told] == [2]


async def test_a_handler_may_ask_again_and_again(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        return {"sum": sum([(await ask(run, str(number)))[0] for number in range(5)])}

    asked = bench.begin(handler)
    tokens: list[str] = []
    for number in range(5):
        await wait_all_tasks_blocked()
        assert asked_in(asked) == {str(number)}
        tokens.append(token_of(asked))
        asked = bench.retry(asked, {str(number): number})
    assert await bench.holds_nothing()

    assert answer_of(asked) == {"sum": 10}
    assert len(set(tokens)) == 5


async def test_a_parked_run_has_no_slot(nursery: trio.Nursery) -> None:
    bench = Bench(make_pool(nursery), HandlerSlots(1, 0))
    first = bench.begin(one_question)
    await wait_all_tasks_blocked()
    assert (bench.slots.running, bench.pool.limiter.taken) == (0, 0)

    other = bench.begin(one_question)
    await wait_all_tasks_blocked()
    assert asked_in(other) == {"a"}
    for asked in (first, other):
        answered = bench.retry(asked, {"a": 1})
        await wait_all_tasks_blocked()
        assert answer_of(answered) == {"answer": 1}
    assert await bench.holds_nothing()


async def test_a_run_keeps_the_context_variables_of_the_first_request(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        before = whose.get()
        await ask(run, "a")
        return {"before": before, "after": whose.get()}

    whose.set("the first request's")
    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    whose.set("the second request's")
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()

    assert answer_of(second) == dict.fromkeys(("before", "after"), "the first request's")


async def test_what_a_handler_raises_after_an_answer_is_explained_to_the_retry(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        await ask(run, "a")
        raise KeyError("x")

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()

    assert error_of(second) == "KeyError('x')"


# Cancellation.


def cancel(asked: FakeExchange) -> None:
    asked.cancel("not wanted")


async def test_cancelled_before_it_asks_a_handler_stops(bench: Bench, autojump_clock: MockClock) -> None:
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


async def test_cancelled_between_its_question_and_the_interim_answer_a_handler_stops(bench: Bench) -> None:
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
async def test_when_the_retry_ends_so_does_the_handler(bench: Bench, end: Callable[[FakeExchange], None]) -> None:
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


async def test_a_question_that_is_shielded_from_the_cancellation_fails(bench: Bench) -> None:
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


# The end.


async def test_when_the_pool_closes_parked_handlers_clean_up_and_no_question_is_sent_any_more(
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
    asked = bench.begin(one_question)
    assert await bench.holds_nothing()
    assert error_of(asked) == "AskExpired('the server stops')"


async def test_when_the_pool_closes_questions_that_were_sent_as_requests_expire(bench: Bench) -> None:
    asking = QuestionBatch([question("a")])
    bench.pool.parking.direct.add(asking)
    bench.pool.parking.close()
    with pytest.raises(AskExpired):
        await asking.wait()


async def test_where_nothing_is_parked_nothing_is_waited_for(bench: Bench) -> None:
    bench.pool.parking.check_open()
    bench.pool.parking.close()
    await bench.pool.parking.emptied()


async def test_closing_does_not_wait_longer_than_the_time_for_clean_up(bench: Bench, autojump_clock: MockClock) -> None:
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
        for _ in range(MOST):
            bench.begin(handler)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert ended == [1] * MOST
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


# What a handler leaves behind.


async def test_when_a_handler_ends_what_it_left_waiting_fails(
    bench: Bench, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    outcome: list[str] = []

    async def left_behind(run: HandlerRun) -> None:  # a worker thread's, say, that was abandoned
        for _ in range(2):
            with pytest.raises(AskExpired) as caught:
                await ask(run, "a")
            outcome.append(str(caught.value))

    async def handler(run: HandlerRun) -> JsonObject:
        nursery.start_soon(left_behind, run)
        await trio.sleep(1)
        return {"done": True}

    first = bench.begin(handler)
    await trio.sleep(2)
    assert asked_in(first) == {"a"}
    assert outcome == ["the call is over"] * 2
    assert bench.pool.parking.parked == 1  # the handler has ended, and its outcome waits
    second = bench.retry(first, {})
    assert await bench.holds_nothing()
    assert answer_of(second) == {"done": True}


async def test_an_exchange_of_another_pool_is_not_a_retry(bench: Bench) -> None:
    assert not bench.pool.parking.resume("no token", exchange(), {})
