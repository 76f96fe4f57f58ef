"""Parked handlers: the questions of a round, and the answers of a retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio._core import _run
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import ConnectionBroken, McpError, MissingCapability, TooManyParked
from trio_mcp.peer import BUSY, ExchangeState, HandlerRun, HandlerSlots
from trio_mcp.wire import JsonObject, NotJsonError

from .parking_bench import (
    EXPIRY,
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
)


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(make_pool(nursery))


@pytest.fixture(params=range(20))
def any_order(request: pytest.FixtureRequest) -> None:
    """Make Trio schedule tasks in a different order each time."""
    _run._r.seed(request.param)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it


# Several tasks.


def in_tasks(depth: int, *keys: str) -> Callable[[HandlerRun], Any]:
    """Return a handler that asks for each key in its own task, *depth* passes of the scheduler apart."""

    async def handler(run: HandlerRun) -> JsonObject:
        answers: JsonObject = {}

        async def one(key: str, passes: int) -> None:
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            (answers[key],) = await ask(run, key)

        async with trio.open_nursery() as nursery:
            for index, key in enumerate(keys):
                nursery.start_soon(one, key, index * depth)
        return answers

    return handler


@pytest.mark.usefixtures("any_order")
@pytest.mark.parametrize("depth", [0, 3])
async def test_the_questions_of_several_tasks_are_sent_together(
    bench: Bench, depth: int, autojump_clock: MockClock
) -> None:
    first = bench.begin(in_tasks(depth, *"abcde"))
    await trio.sleep(1)
    assert questions_in(first) == set("abcde")

    second = bench.retry(first, {key: key.upper() for key in "abcde"})
    await trio.sleep(1)
    assert answer_of(second) == {key: key.upper() for key in "abcde"}
    assert await bench.holds_nothing()


@pytest.mark.usefixtures("any_order")
async def test_unanswered_questions_are_sent_again_and_unexpected_answers_ignored(
    bench: Bench, autojump_clock: MockClock
) -> None:
    first = bench.begin(in_tasks(0, *"abcde"))
    await trio.sleep(1)
    second = bench.retry(first, {"a": 1, "b": 2})
    await trio.sleep(1)
    assert questions_in(second) == set("cde")

    third = bench.retry(second, {"a": "stale", "c": 3, "d": 4, "e": 5, "unexpected": 0})
    await trio.sleep(1)
    assert answer_of(third) == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert await bench.holds_nothing()


async def test_a_group_of_questions_is_answered_only_when_all_its_answers_are_there(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        return {"answers": await ask(run, "a", "b", "c")}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert questions_in(first) == {"a", "b", "c"}
    second = bench.retry(first, {"b": 2})
    await wait_all_tasks_blocked()
    assert questions_in(second) == {"a", "c"}
    third = bench.retry(second, {})
    await wait_all_tasks_blocked()
    assert questions_in(third) == {"a", "c"}
    fourth = bench.retry(third, {"a": 1, "b": "stale", "c": 3})

    assert await bench.holds_nothing()
    assert answer_of(fourth) == {"answers": [1, 2, 3]}


async def test_a_task_that_does_not_ask_does_not_delay_the_question_of_another(
    bench: Bench, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        async with trio.open_nursery() as nursery:

            async def tick() -> None:
                while True:
                    report_progress(run, trio.current_time())
                    await trio.sleep(1)

            nursery.start_soon(tick)
            await trio.sleep(2.5)
            answers = await ask(run, "a")
            await trio.sleep(2.5)
            nursery.cancel_scope.cancel()
        return {"answers": answers}

    first = bench.begin(handler)
    await trio.sleep(9.5)
    second = bench.retry(first, {"a": 7})
    await trio.sleep(5)

    assert [params["value"] for _, params in first.notifications] == [0, 1, 2]
    # a parked handler sends no progress
    assert [params["value"] for _, params in second.notifications] == [10, 11]
    assert answer_of(second) == {"answers": [7]}
    assert await bench.holds_nothing()


@pytest.mark.usefixtures("any_order")
async def test_questions_asked_while_parked_are_sent_in_the_next_round(bench: Bench, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        async def late() -> None:
            await trio.sleep(5)
            await ask(run, "late")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(late)
            await ask(run, "early")
        return {}

    first = bench.begin(handler)
    await trio.sleep(20)
    assert questions_in(first) == {"early"}
    second = bench.retry(first, {"early": 1})
    await trio.sleep(1)
    assert questions_in(second) == {"late"}
    third = bench.retry(second, {"late": 2})
    await trio.sleep(1)
    assert answer_of(third) == {}
    assert await bench.holds_nothing()


async def test_a_question_asked_after_an_abandoned_one_is_sent_in_the_next_round(
    bench: Bench, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.move_on_after(5):
            await ask(run, "a")
        return {"answers": await ask(run, "b")}

    first = bench.begin(handler)
    await trio.sleep(10)
    assert questions_in(first) == {"a"}
    second = bench.retry(first, {"a": "too late"})
    await trio.sleep(1)
    assert questions_in(second) == {"b"}
    third = bench.retry(second, {"b": 2})
    await trio.sleep(1)
    assert answer_of(third) == {"answers": [2]}


async def test_an_interim_answer_waits_for_room(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        first.full = True
        return await one_question(run)

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert (first.sent, bench.pool.parking.parked) == ([], 0)

    first.emptied.set()
    await wait_all_tasks_blocked()
    assert questions_in(first) == {"a"}
    bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()


async def test_a_handler_stops_if_its_connection_is_lost_before_its_question_is_sent(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        first.full, first.failure = True, ConnectionBroken("gone")
        first.emptied.set()
        return await one_question(run)

    first = bench.begin(handler)
    assert await bench.holds_nothing()
    assert (first.sent, first.state) == ([], ExchangeState.LOST)


async def test_questions_that_are_not_json_fail_only_for_the_handler_that_asked(bench: Bench) -> None:
    def unwritable(_: str, __: Any) -> JsonObject:
        raise NotJsonError("too deep")

    async def handler(run: HandlerRun) -> JsonObject:
        run.pending = run.pool.parking.waiting(run, unwritable)
        return await one_question(run)

    other = bench.begin(one_question)
    incoming = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert error_of(incoming) == "NotJsonError('too deep')"
    bench.retry(other, {"a": 1})
    assert await bench.holds_nothing()


@pytest.mark.usefixtures("any_order")
async def test_an_abandoned_question_is_not_sent(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.CancelScope() as scope:
            scope.cancel()
            await ask(run, "a")
        return {"questions": "none"}

    first = bench.begin(handler)
    assert await bench.holds_nothing()
    assert answer_of(first) == {"questions": "none"}


# Capabilities.


async def test_a_batch_with_a_question_that_needs_an_undeclared_capability_is_not_sent(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with pytest.raises(MissingCapability) as caught:
            await ask(run, "a", question("b", "sampling"))
        return {"lacking": caught.value.required, "answers": await ask(run, "c")}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert questions_in(first) == {"c"}
    second = bench.retry(first, {"c": 3})
    assert await bench.holds_nothing()
    assert answer_of(second) == {"lacking": {"sampling": {}}, "answers": [3]}


async def test_capabilities_are_checked_against_the_request_that_the_question_answers(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        return {"answers": await ask(run, question("a", "sampling"), question("b", "roots"))}

    first = bench.begin(handler, sampling={}, roots={})
    await wait_all_tasks_blocked()
    assert questions_in(first) == {"a", "b"}

    second = bench.retry(first, {"a": 1}, sampling={})  # its client cannot answer `b`, which is still open
    assert await bench.holds_nothing()
    assert error_of(second) == "MissingCapability('no roots', {'roots': {}})"

    third = bench.begin(handler, sampling={}, roots={})
    await wait_all_tasks_blocked()
    fourth = bench.retry(third, {"a": 1, "b": 2})  # no question is left for this request
    assert await bench.holds_nothing()
    assert answer_of(fourth) == {"answers": [1, 2]}


async def test_a_retry_that_declares_more_allows_more_questions(bench: Bench, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        async def one(*questions: Any) -> None:
            answers.append(await ask(run, *questions))

        answers: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "a")
            await trio.sleep(1)  # it is parked
            nursery.start_soon(one, question("b", "sampling"))
        return {"answers": sorted(answers)}

    first = bench.begin(handler)
    await trio.sleep(5)
    second = bench.retry(first, {"a": 1}, sampling={})
    await trio.sleep(1)
    assert questions_in(second) == {"b"}
    third = bench.retry(second, {"b": 2})
    await trio.sleep(1)
    assert answer_of(third) == {"answers": [[1], [2]]}


# Tokens and retries.


async def test_a_token_is_accepted_for_one_retry(bench: Bench) -> None:
    answers: list[Any] = []

    async def handler(run: HandlerRun) -> JsonObject:
        answers.extend(await ask(run, "a"))
        await go.wait()
        return {}

    go = trio.Event()
    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    second = bench.retry(first, {"a": 1})
    with pytest.raises(LookupError):
        bench.retry(first, {"a": 2})
    await wait_all_tasks_blocked()
    with pytest.raises(LookupError):
        bench.retry(first, {"a": 2})
    go.set()
    assert await bench.holds_nothing()
    with pytest.raises(LookupError):
        bench.retry(first, {"a": 2})

    assert answers == [1]
    assert answer_of(second) == {}


async def test_a_malformed_answer_does_not_use_the_token_up(bench: Bench) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        return {"answers": await ask(run, "a", "b")}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    with pytest.raises(McpError, match="b: null is not an answer"):
        bench.retry(first, {"a": 1, "b": None})
    await wait_all_tasks_blocked()
    assert bench.pool.parking.parked == 1

    second = bench.retry(first, {"b": 2})
    await wait_all_tasks_blocked()
    assert questions_in(second) == {"a"}  # the valid answer of the refused retry was not used either
    third = bench.retry(second, {"a": 3})
    assert await bench.holds_nothing()
    assert answer_of(third) == {"answers": [3, 2]}


async def test_a_retry_that_is_refused_as_busy_does_not_use_the_token_up(nursery: trio.Nursery) -> None:
    bench = Bench(make_pool(nursery), HandlerSlots(1, 0))
    first = bench.begin(one_question)
    await wait_all_tasks_blocked()
    other = bench.begin(forever)
    with pytest.raises(McpError, match="too busy") as caught:
        bench.retry(first, {"a": 1})
    assert caught.value.code == BUSY

    other.cancel("make room")
    await wait_all_tasks_blocked()
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()
    assert answer_of(second) == {"answer": 1}


async def test_the_time_that_a_retry_waits_for_a_slot_does_not_count(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        run.allow(5)
        return await one_question(run)

    bench = Bench(make_pool(nursery), HandlerSlots(1, 1))
    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    other = bench.begin(forever)
    second = bench.retry(first, {"a": 1})
    assert bench.slots.waiting == 1
    await trio.sleep(10 * EXPIRY)
    assert second.sent == []

    other.cancel("make room")
    assert await bench.holds_nothing()
    assert answer_of(second) == {"answer": 1}


async def test_a_retry_that_is_cancelled_while_it_waits_for_a_slot_stops_the_handler(nursery: trio.Nursery) -> None:
    ended: list[str] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    bench = Bench(make_pool(nursery), HandlerSlots(1, 1))
    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    other = bench.begin(forever)
    second = bench.retry(first, {"a": 1})
    second.cancel("not wanted")
    await wait_all_tasks_blocked()
    assert (ended, second.sent, bench.slots.waiting, bench.pool.running) == (["cancelled"], [], 0, 1)

    other.cancel("make room")
    assert await bench.holds_nothing()


async def test_a_retry_may_come_on_another_connection(bench: Bench) -> None:
    elsewhere = Bench(bench.pool, HandlerSlots(1, 0))
    first = bench.begin(one_question)
    await wait_all_tasks_blocked()
    second = elsewhere.retry(first, {"a": 1})
    assert (bench.slots.running, elsewhere.slots.running) == (0, 1)

    assert await bench.holds_nothing()
    assert await elsewhere.holds_nothing()
    assert answer_of(second) == {"answer": 1}


# Bounds.


async def test_a_question_beyond_the_limit_fails_and_no_parked_handler_is_evicted(bench: Bench) -> None:
    parked = [bench.begin(one_question) for _ in range(MAX_PARKED)]
    await wait_all_tasks_blocked()
    assert bench.pool.parking.parked == MAX_PARKED

    async def handler(run: HandlerRun) -> JsonObject:
        with pytest.raises(TooManyParked, match=rf"{MAX_PARKED} handlers wait .*max_parked"):
            await one_question(run)
        return {"went": "on"}

    beyond = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert answer_of(beyond) == {"went": "on"}

    for incoming in parked:
        answered = bench.retry(incoming, {"a": 1})
        await wait_all_tasks_blocked()
        assert answer_of(answered) == {"answer": 1}
    assert await bench.holds_nothing()
