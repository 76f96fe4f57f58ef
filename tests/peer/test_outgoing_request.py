"""The requesting side of an exchange: it receives updates in order, bounded, and then the outcome."""

from __future__ import annotations

import pytest
import trio
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import ConnectionClosed, ErrorResponse, LocalProtocolError
from trio_mcp.peer import ExchangeState, OutgoingRequest, UpdateBudget

PROGRESS = "notifications/progress"


@define(eq=False)
class Probe(OutgoingRequest):
    """An exchange that writes down when it begins and when it is cancelled."""

    log: list[str] = field(factory=list[str], init=False)

    def _has_room(self) -> bool:
        return False

    async def _room(self) -> None:
        await trio.lowlevel.checkpoint()

    def _send(self) -> None:
        self.log.append("begun")

    def _cancel(self) -> None:
        self.log.append("cancelled")

    def give(self, *numbers: int, size: int = 1) -> None:
        for number in numbers:
            self.put((PROGRESS, {"progress": number}), size)

    async def take(self) -> int | None:
        update = await self.next_update()
        return None if update is None else update[1]["progress"]

    async def take_all(self) -> list[int]:
        taken: list[int] = []
        while (number := await self.take()) is not None:
            taken.append(number)
        return taken


def probe(budget: UpdateBudget | None = None, *, wants_updates: bool = True) -> Probe:
    return Probe("m", None, wants_updates, budget or UpdateBudget(100, 1000, 10_000))


async def test_updates_arrive_in_order_and_before_the_outcome() -> None:
    async with probe() as asked:
        asked.give(1, 2, 3)
        asked.finish({"done": True})
        asked.give(4)  # after the response: dropped

        assert asked.waiting == 3
        assert await asked.take_all() == [1, 2, 3]
        assert await asked.take() is None
        assert await asked.result() == {"done": True}
        assert await asked.result() == {"done": True}
    assert asked.log == ["begun"]
    assert asked.state is ExchangeState.ANSWERED
    assert asked.skipped == 0


async def test_a_wait_can_be_interrupted_and_started_again(nursery: trio.Nursery) -> None:
    async def wait() -> None:
        with pytest.raises(RuntimeError, match="too long"):
            await asked.result()
        assert not asked.receiving
        assert await asked.result() == {}

    async with probe() as asked:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert asked.receiving
        asked.interrupt(RuntimeError("too long"))
        await wait_all_tasks_blocked()
        asked.finish({})
        await wait_all_tasks_blocked()
    assert asked.log == ["begun"]


async def test_unread_updates_do_not_delay_the_result() -> None:
    async with probe() as asked:
        asked.give(*range(50))
        asked.finish({})

        assert await asked.result() == {}
        assert await asked.take_all() == list(range(50))


async def test_a_receiver_is_woken_by_an_update_and_by_the_outcome(nursery: trio.Nursery) -> None:
    taken: list[int | None] = []

    async with probe() as asked:

        async def receiver() -> None:
            taken.extend([await asked.take(), await asked.take()])

        nursery.start_soon(receiver)
        await wait_all_tasks_blocked()
        asked.give(1)
        await wait_all_tasks_blocked()
        assert taken == []
        asked.finish({})
        await wait_all_tasks_blocked()

    assert taken == [1, None]


async def test_an_update_does_not_end_the_wait_for_the_result(nursery: trio.Nursery) -> None:
    results: list[object] = []

    async with probe() as asked:

        async def receiver() -> None:
            results.append(await asked.result())

        nursery.start_soon(receiver)
        await wait_all_tasks_blocked()
        asked.give(1)
        await wait_all_tasks_blocked()
        assert results == []
        asked.finish({"a": 1})
        await wait_all_tasks_blocked()

    assert results == [{"a": 1}]


async def test_a_request_that_wants_no_updates_keeps_none() -> None:
    budget = UpdateBudget(100, 1000, 10_000)
    async with probe(budget, wants_updates=False) as asked:
        asked.give(1, 2, 3)

        assert (asked.waiting, asked.waiting_bytes, asked.skipped, budget.total) == (0, 0, 0, 0)
        assert asked.last_update_at == 0


async def test_each_update_says_when_it_arrived(autojump_clock: MockClock) -> None:
    async with probe() as asked:
        await trio.sleep(5)
        asked.give(1)
        at = trio.current_time()
        await trio.sleep(5)

        assert asked.last_update_at == at


async def test_beyond_the_number_limit_the_oldest_update_is_dropped_and_counted() -> None:
    async with probe(UpdateBudget(3, 1000, 10_000)) as asked:
        asked.give(*range(10))
        asked.finish({})

        assert asked.skipped == 7
        assert await asked.take_all() == [7, 8, 9]


async def test_beyond_the_byte_limit_the_oldest_update_is_dropped_and_counted() -> None:
    async with probe(UpdateBudget(100, 10, 10_000)) as asked:
        asked.give(1, 2, size=5)
        assert asked.skipped == 0
        asked.give(3, size=1)
        asked.finish({})

        assert asked.skipped == 1
        assert asked.waiting_bytes == 6
        assert await asked.take_all() == [2, 3]


@pytest.mark.parametrize("budget", [(1, 1, 10_000), (100, 1, 10_000), (100, 1000, 1)])
async def test_the_newest_update_is_never_dropped_however_large(budget: tuple[int, int, int]) -> None:
    async with probe(UpdateBudget(*budget)) as asked:
        asked.give(1, 2, 3, size=500)
        asked.finish({})

        assert await asked.take_all() == [3]
        assert asked.skipped == 2


async def test_beyond_the_byte_limit_of_the_link_the_fullest_request_drops_its_oldest() -> None:
    budget = UpdateBudget(100, 1000, 20)
    async with probe(budget) as full, probe(budget) as modest:
        full.give(1, 2, 3, size=5)
        modest.give(1, size=5)
        assert (full.skipped, modest.skipped, budget.total) == (0, 0, 20)

        modest.give(2, size=4)

        assert (full.skipped, modest.skipped, budget.total) == (1, 0, 19)
        assert budget.holders == {full, modest}


async def test_the_newest_update_of_each_request_stays() -> None:
    budget = UpdateBudget(100, 1000, 10)
    asked = [probe(budget) for _ in range(5)]
    for one in asked:
        one.give(1, 2, size=9)

    assert [one.waiting for one in asked] == [1] * 5
    assert [one.skipped for one in asked] == [1] * 5
    assert budget.total == 45


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["put", "take", "leave"]), st.integers(1, 30)), max_size=60)
)
def test_the_budget_always_knows_what_waits(steps: list[tuple[int, str, int]]) -> None:
    async def main() -> None:
        budget = UpdateBudget(5, 50, 80)
        asked = [probe(budget) for _ in range(4)]
        put = [0] * 4
        for which, what, size in steps:
            one = asked[which]
            if what == "put" and one.state is ExchangeState.OPEN:
                one.give(put[which], size=size)
                put[which] += 1
                assert list(one._updates or ())[-1][0][1] == {"progress": put[which] - 1}  # the newest is there
            elif what == "take" and one.waiting:
                await one.take()
            elif what == "leave":
                one.leave() if one.state is ExchangeState.OPEN else None
            assert budget.total == sum(each.waiting_bytes for each in asked)
            assert budget.holders == {each for each in asked if each.waiting}
            assert all(each.waiting <= 5 and (each.waiting_bytes <= 50 or each.waiting == 1) for each in asked)
            assert budget.total <= 80 or all(each.waiting <= 1 for each in asked)

    trio.run(main)


async def test_leaving_early_cancels_once_and_forgets_what_waits() -> None:
    budget = UpdateBudget(100, 1000, 10_000)
    asked = probe(budget)

    with pytest.raises(KeyError):  # leaving the block is the subject
        async with asked:
            asked.give(1, 2)
            raise KeyError
    asked.leave()
    asked.give(3)

    assert asked.log == ["begun", "cancelled"]
    assert asked.state is ExchangeState.CANCELLED
    assert (budget.total, budget.holders, asked.waiting) == (0, set(), 0)


async def test_leaving_after_the_outcome_keeps_the_outcome_and_cancels_nothing() -> None:
    budget = UpdateBudget(100, 1000, 10_000)
    async with probe(budget) as asked:
        asked.give(1)
        asked.finish({"a": 1})

    assert asked.log == ["begun"]
    assert budget.total == 0
    assert await asked.result() == {"a": 1}
    assert await asked.take() is None


async def test_leaving_a_lost_exchange_cancels_nothing() -> None:
    async with probe() as asked:
        asked.finish(ConnectionClosed("gone"))
        assert asked.state is ExchangeState.LOST

    assert asked.state is ExchangeState.LOST
    assert asked.log == ["begun"]


async def test_a_request_that_fails_to_begin_leaves_no_trace() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with probe() as asked:
            raise AssertionError(asked)

    assert scope.cancelled_caught


async def test_receiving_from_a_request_that_was_left_raises_instead_of_waiting_forever() -> None:
    async with probe() as asked:
        pass

    with pytest.raises(trio.ClosedResourceError, match="left before its outcome"):
        await asked.result()
    with pytest.raises(trio.ClosedResourceError, match="left before its outcome"):
        await asked.next_update()


async def test_leaving_a_request_wakes_the_task_that_receives_from_it(nursery: trio.Nursery) -> None:
    told: list[str] = []
    async with probe() as asked:

        async def receiver() -> None:
            try:
                await asked.result()
            except trio.ClosedResourceError:
                told.append("closed")

        nursery.start_soon(receiver)
        await wait_all_tasks_blocked()

    await wait_all_tasks_blocked()
    assert told == ["closed"]


async def test_an_error_outcome_is_raised_at_each_call_of_result() -> None:
    async with probe() as asked:
        asked.finish(ErrorResponse(1, "no"))

        for _ in range(2):
            with pytest.raises(ErrorResponse, match="no"):
                await asked.result()
        assert await asked.take() is None
        assert asked.state is ExchangeState.ANSWERED


async def test_a_request_has_one_outcome() -> None:
    async with probe() as asked:
        asked.finish({})

        with pytest.raises(LocalProtocolError):
            asked.finish({})


async def test_a_caller_cancelled_with_its_connection_sees_its_cancellation(nursery: trio.Nursery) -> None:
    async with probe() as asked:
        with trio.CancelScope() as scope:

            async def disconnect() -> None:
                asked.finish(ConnectionClosed("gone"))
                scope.cancel()

            nursery.start_soon(disconnect)
            await asked.result()

        assert scope.cancelled_caught


async def test_a_second_receiver_gets_an_error(nursery: trio.Nursery) -> None:
    async with probe() as asked:
        nursery.start_soon(asked.result)
        await wait_all_tasks_blocked()

        with pytest.raises(trio.BusyResourceError, match="another task already receives"):
            await asked.next_update()
        with pytest.raises(trio.BusyResourceError, match="another task already receives"):
            await asked.result()
        asked.finish({})


@pytest.mark.parametrize("receive", ["result", "next_update"])
async def test_another_task_may_receive_after_a_cancelled_one(receive: str, autojump_clock: MockClock) -> None:
    async with probe() as asked:
        with trio.move_on_after(1) as scope:
            await getattr(asked, receive)()
        assert scope.cancelled_caught
        assert asked.state is ExchangeState.OPEN
        asked.give(1)
        asked.finish({"a": 1})

        assert await asked.take() == 1
        assert await asked.result() == {"a": 1}


@pytest.mark.parametrize("receive", ["result", "next_update"])
async def test_receiving_is_a_cancel_point_even_without_waiting(receive: str) -> None:
    async with probe() as asked:
        asked.give(1)
        asked.finish({})
        with trio.CancelScope() as scope:
            scope.cancel()
            await getattr(asked, receive)()

        assert scope.cancelled_caught
        assert await asked.take() == 1
