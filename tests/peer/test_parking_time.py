"""Parked handlers: their time limits, and the resources that they release."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import AskExpired
from trio_mcp.peer import GRACE_SECONDS, FairLimiter, HandlerRun, HandlerSlots, Hold, OutOfTimeError
from trio_mcp.wire import JsonObject

from .parking_bench import (
    EXPIRY,
    Bench,
    answer_of,
    ask,
    error_of,
    forever,
    make_pool,
    one_question,
    questions_in,
)


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(make_pool(nursery))


# Time.


async def test_an_expired_question_raises_in_the_handler_and_the_clean_up_may_await(
    bench: Bench, autojump_clock: MockClock
) -> None:
    log: list[tuple[str, float]] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        except AskExpired:
            log.append(("expired", trio.current_time()))
            raise
        finally:
            await trio.sleep(GRACE_SECONDS - 1)
            log.append(("cleaned up", trio.current_time()))

    first = bench.begin(handler)
    await trio.sleep(EXPIRY + GRACE_SECONDS)
    assert log == [("expired", EXPIRY), ("cleaned up", EXPIRY + GRACE_SECONDS - 1)]
    assert await bench.holds_nothing()
    with pytest.raises(LookupError):
        bench.retry(first, {"a": 1})


async def test_the_clean_up_after_an_expiry_is_cancelled_after_the_grace_period(
    bench: Bench, autojump_clock: MockClock
) -> None:
    ended: list[float] = []

    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        except AskExpired:
            try:
                await trio.sleep_forever()
            finally:
                ended.append(trio.current_time())
        return {}

    bench.begin(handler)
    await trio.sleep(1000)
    assert ended == [EXPIRY + GRACE_SECONDS]
    assert await bench.holds_nothing()


async def test_a_retry_during_clean_up_is_refused(bench: Bench, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        try:
            return await one_question(run)
        finally:
            await trio.sleep(3)

    first = bench.begin(handler)
    await trio.sleep(EXPIRY + 1)
    assert bench.pool.parking.parked == 1
    with pytest.raises(LookupError):
        bench.retry(first, {"a": 1})
    await trio.sleep(3)
    assert await bench.holds_nothing()


async def test_a_question_asked_during_clean_up_expires_at_once(bench: Bench, autojump_clock: MockClock) -> None:
    times: list[float] = []

    async def handler(run: HandlerRun) -> JsonObject:
        for _ in range(3):
            with pytest.raises(AskExpired):
                await one_question(run)
            times.append(trio.current_time())
        return {}

    bench.begin(handler)
    await trio.sleep(EXPIRY + 1)
    assert times == [EXPIRY] * 3
    assert await bench.holds_nothing()


async def test_every_round_of_questions_has_its_own_expiry(bench: Bench, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        await ask(run, "a")
        await trio.sleep(10 * EXPIRY)  # no question expires while the handler works
        return {"answers": await ask(run, "b")}

    first = bench.begin(handler)
    await trio.sleep(EXPIRY - 1)
    second = bench.retry(first, {"a": 1})
    await trio.sleep(10 * EXPIRY + EXPIRY - 1)
    third = bench.retry(second, {"b": 2})
    assert await bench.holds_nothing()
    assert answer_of(third) == {"answers": [2]}


async def test_the_deadline_of_a_parked_handler_runs_on_and_the_outcome_waits_for_the_retry(
    bench: Bench, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        try:
            with trio.fail_after(30):
                return await one_question(run)
        except trio.TooSlowError:
            return {"gave up at": trio.current_time()}

    first = bench.begin(handler)
    await trio.sleep(40)
    assert bench.pool.parking.parked == bench.pool.running == 1
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()
    assert answer_of(second) == {"gave up at": 30}


@pytest.mark.parametrize("failure", [ValueError("bad"), None])
async def test_a_kept_outcome_is_forgotten_when_the_questions_would_have_expired(
    bench: Bench, failure: Exception | None, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.move_on_after(1):
            await ask(run, "a")
        if failure is not None:
            raise failure
        return {}

    first = bench.begin(handler)
    await trio.sleep(EXPIRY - 1)
    assert bench.pool.parking.parked == 1
    await trio.sleep(2)
    assert await bench.holds_nothing()
    with pytest.raises(LookupError):
        bench.retry(first, {"a": 1})


async def test_a_kept_failure_is_the_response_to_the_retry(bench: Bench, autojump_clock: MockClock) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.move_on_after(1):
            await ask(run, "a")
        raise ValueError("bad")

    first = bench.begin(handler)
    await trio.sleep(5)
    second = bench.retry(first, {})
    assert await bench.holds_nothing()
    assert error_of(second) == "ValueError('bad')"


async def test_a_retry_for_a_kept_outcome_may_wait_for_a_slot_and_be_cancelled(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        with trio.move_on_after(1):
            await ask(run, "a")
        return {"kept": True}

    bench = Bench(make_pool(nursery), HandlerSlots(1, 2))
    first, second = bench.begin(handler), bench.begin(handler)
    await trio.sleep(5)
    other = bench.begin(forever)
    got, dropped = bench.retry(first, {}), bench.retry(second, {})
    await trio.sleep(10 * EXPIRY)
    dropped.cancel("not wanted")
    await trio.sleep(1)
    assert bench.pool.running == 2
    other.cancel("make room")
    assert await bench.holds_nothing()
    assert answer_of(got) == {"kept": True}
    assert dropped.sent == []


async def test_the_time_limit_of_a_handler_is_paused_while_it_is_parked(
    bench: Bench, autojump_clock: MockClock
) -> None:
    async def handler(run: HandlerRun) -> JsonObject:
        run.allow(30)
        await trio.sleep(20)
        await ask(run, "a")
        await trio.sleep(20)
        return {}

    first = bench.begin(handler)
    await trio.sleep(20 + EXPIRY - 1)
    second = bench.retry(first, {"a": 1})
    await trio.sleep(9)
    assert second.sent == []
    await trio.sleep(2)
    assert error_of(second) == repr(OutOfTimeError())
    assert await bench.holds_nothing()


# Resources that a handler holds.


async def test_a_parked_handler_releases_its_resources_and_takes_them_again(
    bench: Bench, autojump_clock: MockClock
) -> None:
    limiter = FairLimiter(1)

    async def take() -> None:
        await limiter.acquire("a connection")

    async def handler(run: HandlerRun) -> JsonObject:
        await take()
        hold = Hold(take, lambda: limiter.release("a connection"))
        run.holds.add(hold)
        try:
            assert limiter.taken == 1
            await ask(run, "a")
            await run.holds.take_again(run.scope)
            assert limiter.taken == 1
        finally:
            run.holds.drop(hold)
        return {}

    first = bench.begin(handler)
    await wait_all_tasks_blocked()
    assert limiter.taken == 0
    second = bench.retry(first, {"a": 1})
    assert await bench.holds_nothing()
    assert answer_of(second) == {}
    assert limiter.taken == 0

    third = bench.begin(handler)
    await trio.sleep(EXPIRY + 1)
    assert questions_in(third) == {"a"}
    assert await bench.holds_nothing()
    assert limiter.taken == 0
