"""Cancellations of handlers whose connection was lost: a few are carried out at once, the others in later passes."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp.peer import Cancellations, HandlerPool, HandlerRun
from trio_mcp.wire import JsonObject

from .fake_exchange import FakeExchange, exchange

AT_ONCE = 16
MANY = 100


@pytest.fixture
def cancellations(nursery: trio.Nursery, mock_clock: MockClock) -> Cancellations:
    """Cancellations on a clock that stands still."""
    return Cancellations(nursery)


async def test_few_cancellations_are_carried_out_at_once(cancellations: Cancellations) -> None:
    carried_out = list[int]()
    for number in range(AT_ONCE):
        cancellations.add(lambda number=number: carried_out.append(number))  # type: ignore[misc] # of the default

    assert carried_out == [*range(AT_ONCE)]


async def test_many_cancellations_are_carried_out_in_order_a_few_in_each_pass(cancellations: Cancellations) -> None:
    carried_out, passes = list[int](), list[int]()
    for number in range(MANY):
        cancellations.add(lambda number=number: carried_out.append(number))  # type: ignore[misc] # of the default
    while len(carried_out) < MANY:
        passes.append(len(carried_out))
        await trio.lowlevel.checkpoint()

    assert carried_out == [*range(MANY)]
    assert max(after - before for before, after in pairwise(passes)) <= 2 * AT_ONCE  # two passes may lie in between


async def test_a_cancellation_is_carried_out_at_once_again_some_time_later(
    cancellations: Cancellations, mock_clock: MockClock
) -> None:
    carried_out = list[int]()
    for number in range(MANY):
        cancellations.add(lambda number=number: carried_out.append(number))  # type: ignore[misc] # of the default
    mock_clock.jump(1)
    cancellations.add(lambda: carried_out.append(-1))

    assert carried_out == [*range(AT_ONCE), -1]


async def test_cancellations_that_wait_are_carried_out_when_the_nursery_of_the_handlers_is_cancelled(
    mock_clock: MockClock,
) -> None:
    """A handler in a shielded clean-up does not notice the nursery, and has to be told that its questions are over."""
    carried_out = list[int]()
    async with trio.open_nursery() as nursery:
        cancellations = Cancellations(nursery)
        for number in range(MANY):
            cancellations.add(lambda number=number: carried_out.append(number))  # type: ignore[misc] # of the default
        nursery.cancel_scope.cancel()

    assert carried_out == [*range(MANY)]


async def test_the_handlers_of_a_client_that_leaves_end_a_few_in_each_pass(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    ended = 0

    async def forever(_: HandlerRun) -> JsonObject:
        nonlocal ended
        try:
            await trio.sleep_forever()
        finally:
            ended += 1

    pool = HandlerPool(nursery)
    incoming: list[FakeExchange] = [exchange() for _ in range(MANY)]
    for each in incoming:
        pool.begin(each, forever, AssertionError)  # type: ignore[arg-type] # never called
    await wait_all_tasks_blocked()
    for each in incoming:
        each.disconnect()
    assert not any(each.open for each in incoming)
    passes = list[int]()
    while pool.running:
        passes.append(ended)
        await trio.lowlevel.checkpoint()

    assert ended == MANY
    assert max(after - before for before, after in pairwise(passes)) <= 2 * AT_ONCE
