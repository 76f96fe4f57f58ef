"""The outgoing request: bounded updates in order, the outcome, and leaving early."""

from __future__ import annotations

import pytest
import trio
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import ConnectionClosed, ErrorResponse, LocalProtocolError
from trio_mcp.peer import ExchangeState, OutgoingRequest, UpdateBudget
from trio_mcp.wire import JsonObject

PROGRESS = "notifications/progress"


@define(eq=False)
class Probe(OutgoingRequest):
    """An outgoing request that records when it is sent and when it is cancelled."""

    log: list[str] = field(factory=list[str], init=False)

    def _has_room(self) -> bool:
        return False

    async def _room(self) -> None:
        await trio.lowlevel.checkpoint()

    def _send(self) -> None:
        self.log.append("sent")

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
    async with probe() as outgoing:
        outgoing.give(1, 2, 3)
        outgoing.finish({"done": True})
        outgoing.give(4)  # dropped, because it comes after the response

        assert outgoing.waiting == 3
        assert await outgoing.take_all() == [1, 2, 3]
        assert await outgoing.take() is None
        assert await outgoing.result() == {"done": True}
        assert await outgoing.result() == {"done": True}
    assert outgoing.log == ["sent"]
    assert outgoing.state is ExchangeState.ANSWERED
    assert outgoing.skipped == 0


async def test_a_wait_for_the_result_can_be_interrupted_and_repeated(nursery: trio.Nursery) -> None:
    async def wait() -> None:
        with pytest.raises(RuntimeError, match="too long"):
            await outgoing.result()
        assert not outgoing.receiving
        assert await outgoing.result() == {}

    async with probe() as outgoing:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert outgoing.receiving
        outgoing.interrupt(RuntimeError("too long"))
        await wait_all_tasks_blocked()
        outgoing.finish({})
        await wait_all_tasks_blocked()
    assert outgoing.log == ["sent"]


@pytest.mark.parametrize("outcome", [{"done": True}, ErrorResponse(-32603, "too late")])
async def test_an_outcome_after_the_deadline_does_not_reach_the_caller(
    outcome: JsonObject | ErrorResponse, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    ends: list[bool] = []

    async def call() -> None:
        with trio.move_on_after(1) as scope:
            outgoing = probe()
            outgoing.deadline = trio.current_effective_deadline()
            requests.append(outgoing)
            async with outgoing:
                await outgoing.result()
        ends.append(scope.cancelled_caught)

    requests: list[Probe] = []
    nursery.start_soon(call)
    await wait_all_tasks_blocked()
    mock_clock.jump(2)  # Trio notices only when it has run the tasks that are awake
    requests[0].finish(outcome)
    await wait_all_tasks_blocked()

    assert ends == [True]


async def test_unread_updates_do_not_delay_the_result() -> None:
    async with probe() as outgoing:
        outgoing.give(*range(50))
        outgoing.finish({})

        assert await outgoing.result() == {}
        assert await outgoing.take_all() == list(range(50))


async def test_a_receiver_is_woken_by_an_update_and_by_the_outcome(nursery: trio.Nursery) -> None:
    taken: list[int | None] = []

    async with probe() as outgoing:

        async def receiver() -> None:
            taken.extend([await outgoing.take(), await outgoing.take()])

        nursery.start_soon(receiver)
        await wait_all_tasks_blocked()
        outgoing.give(1)
        await wait_all_tasks_blocked()
        assert taken == []
        outgoing.finish({})
        await wait_all_tasks_blocked()

    assert taken == [1, None]


async def test_an_update_does_not_end_the_wait_for_the_result(nursery: trio.Nursery) -> None:
    results: list[object] = []

    async with probe() as outgoing:

        async def receiver() -> None:
            results.append(await outgoing.result())

        nursery.start_soon(receiver)
        await wait_all_tasks_blocked()
        outgoing.give(1)
        await wait_all_tasks_blocked()
        assert results == []
        outgoing.finish({"a": 1})
        await wait_all_tasks_blocked()

    assert results == [{"a": 1}]


async def test_a_request_without_updates_stores_none() -> None:
    budget = UpdateBudget(100, 1000, 10_000)
    async with probe(budget, wants_updates=False) as outgoing:
        outgoing.give(1, 2, 3)

        assert (outgoing.waiting, outgoing.waiting_bytes, outgoing.skipped, budget.total) == (0, 0, 0, 0)
        assert outgoing.last_update_at == 0


async def test_the_time_of_the_last_update_is_known(autojump_clock: MockClock) -> None:
    async with probe() as outgoing:
        await trio.sleep(5)
        outgoing.give(1)
        at = trio.current_time()
        await trio.sleep(5)

        assert outgoing.last_update_at == at


async def test_beyond_the_number_limit_the_oldest_update_is_dropped_and_counted() -> None:
    async with probe(UpdateBudget(3, 1000, 10_000)) as outgoing:
        outgoing.give(*range(10))
        outgoing.finish({})

        assert outgoing.skipped == 7
        assert await outgoing.take_all() == [7, 8, 9]


async def test_beyond_the_byte_limit_the_oldest_update_is_dropped_and_counted() -> None:
    async with probe(UpdateBudget(100, 10, 10_000)) as outgoing:
        outgoing.give(1, 2, size=5)
        assert outgoing.skipped == 0
        outgoing.give(3, size=1)
        outgoing.finish({})

        assert outgoing.skipped == 1
        assert outgoing.waiting_bytes == 6
        assert await outgoing.take_all() == [2, 3]


@pytest.mark.parametrize("budget", [(1, 1, 10_000), (100, 1, 10_000), (100, 1000, 1)])
async def test_the_newest_update_is_never_dropped_even_if_it_is_large(budget: tuple[int, int, int]) -> None:
    async with probe(UpdateBudget(*budget)) as outgoing:
        outgoing.give(1, 2, 3, size=500)
        outgoing.finish({})

        assert await outgoing.take_all() == [3]
        assert outgoing.skipped == 2


async def test_beyond_the_byte_limit_of_the_link_the_fullest_request_drops_its_oldest() -> None:
    budget = UpdateBudget(100, 1000, 20)
    async with probe(budget) as full, probe(budget) as modest:
        full.give(1, 2, 3, size=5)
        modest.give(1, size=5)
        assert (full.skipped, modest.skipped, budget.total) == (0, 0, 20)

        modest.give(2, size=4)

        assert (full.skipped, modest.skipped, budget.total) == (1, 0, 19)
        assert budget.holders == {full, modest}


async def test_the_newest_update_of_each_request_is_kept() -> None:
    budget = UpdateBudget(100, 1000, 10)
    outgoing = [probe(budget) for _ in range(5)]
    for one in outgoing:
        one.give(1, 2, size=9)

    assert [one.waiting for one in outgoing] == [1] * 5
    assert [one.skipped for one in outgoing] == [1] * 5
    assert budget.total == 45


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["put", "take", "leave"]), st.integers(1, 30)), max_size=60)
)
def test_the_budget_always_equals_the_sum_of_the_waiting_updates(steps: list[tuple[int, str, int]]) -> None:
    async def main() -> None:
        budget = UpdateBudget(5, 50, 80)
        outgoing = [probe(budget) for _ in range(4)]
        put = [0] * 4
        for which, what, size in steps:
            one = outgoing[which]
            if what == "put" and one.state is ExchangeState.OPEN:
                one.give(put[which], size=size)
                put[which] += 1
                assert list(one._updates or ())[-1][0][1] == {"progress": put[which] - 1}  # the newest is there
            elif what == "take" and one.waiting:
                await one.take()
            elif what == "leave":
                one.leave() if one.state is ExchangeState.OPEN else None
            assert budget.total == sum(each.waiting_bytes for each in outgoing)
            assert budget.holders == {each for each in outgoing if each.waiting}
            assert all(each.waiting <= 5 and (each.waiting_bytes <= 50 or each.waiting == 1) for each in outgoing)
            assert budget.total <= 80 or all(each.waiting <= 1 for each in outgoing)

    trio.run(main)


async def test_leaving_a_request_early_cancels_it_once_and_drops_waiting_updates() -> None:
    budget = UpdateBudget(100, 1000, 10_000)
    outgoing = probe(budget)

    with pytest.raises(KeyError):  # the test is about leaving the block
        async with outgoing:
            outgoing.give(1, 2)
            raise KeyError
    outgoing.leave()
    outgoing.give(3)

    assert outgoing.log == ["sent", "cancelled"]
    assert outgoing.state is ExchangeState.CANCELLED
    assert (budget.total, budget.holders, outgoing.waiting) == (0, set(), 0)


async def test_leaving_a_request_after_its_outcome_keeps_the_outcome_and_cancels_nothing() -> None:
    budget = UpdateBudget(100, 1000, 10_000)
    async with probe(budget) as outgoing:
        outgoing.give(1)
        outgoing.finish({"a": 1})

    assert outgoing.log == ["sent"]
    assert budget.total == 0
    assert await outgoing.result() == {"a": 1}
    assert await outgoing.take() is None


async def test_leaving_a_lost_exchange_cancels_nothing() -> None:
    async with probe() as outgoing:
        outgoing.finish(ConnectionClosed("gone"))
        assert outgoing.state is ExchangeState.LOST

    assert outgoing.state is ExchangeState.LOST
    assert outgoing.log == ["sent"]


async def test_a_request_that_fails_to_begin_leaves_no_trace() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with probe() as outgoing:
            raise AssertionError(outgoing)

    assert scope.cancelled_caught


async def test_receiving_from_a_request_that_was_left_raises_instead_of_waiting_forever() -> None:
    async with probe() as outgoing:
        pass

    with pytest.raises(trio.ClosedResourceError, match="left before its outcome"):
        await outgoing.result()
    with pytest.raises(trio.ClosedResourceError, match="left before its outcome"):
        await outgoing.next_update()


async def test_leaving_a_request_wakes_the_task_that_receives_from_it(nursery: trio.Nursery) -> None:
    seen: list[str] = []
    async with probe() as outgoing:

        async def receiver() -> None:
            try:
                await outgoing.result()
            except trio.ClosedResourceError:
                seen.append("closed")

        nursery.start_soon(receiver)
        await wait_all_tasks_blocked()

    await wait_all_tasks_blocked()
    assert seen == ["closed"]


async def test_an_error_outcome_is_raised_at_each_call_of_result() -> None:
    async with probe() as outgoing:
        outgoing.finish(ErrorResponse(1, "no"))

        for _ in range(2):
            with pytest.raises(ErrorResponse, match="no"):
                await outgoing.result()
        assert await outgoing.take() is None
        assert outgoing.state is ExchangeState.ANSWERED


async def test_a_second_outcome_of_a_request_is_refused() -> None:
    async with probe() as outgoing:
        outgoing.finish({})

        with pytest.raises(LocalProtocolError):
            outgoing.finish({})


async def test_a_caller_cancelled_with_its_connection_sees_its_cancellation(nursery: trio.Nursery) -> None:
    async with probe() as outgoing:
        with trio.CancelScope() as scope:

            async def disconnect() -> None:
                outgoing.finish(ConnectionClosed("gone"))
                scope.cancel()

            nursery.start_soon(disconnect)
            await outgoing.result()

        assert scope.cancelled_caught


async def test_a_second_receiver_gets_an_error(nursery: trio.Nursery) -> None:
    async with probe() as outgoing:
        nursery.start_soon(outgoing.result)
        await wait_all_tasks_blocked()

        with pytest.raises(trio.BusyResourceError, match="another task already receives"):
            await outgoing.next_update()
        with pytest.raises(trio.BusyResourceError, match="another task already receives"):
            await outgoing.result()
        outgoing.finish({})


@pytest.mark.parametrize("receive", ["result", "next_update"])
async def test_another_task_may_receive_after_a_cancelled_one(receive: str, autojump_clock: MockClock) -> None:
    async with probe() as outgoing:
        with trio.move_on_after(1) as scope:
            await getattr(outgoing, receive)()
        assert scope.cancelled_caught
        assert outgoing.state is ExchangeState.OPEN
        outgoing.give(1)
        outgoing.finish({"a": 1})

        assert await outgoing.take() == 1
        assert await outgoing.result() == {"a": 1}


@pytest.mark.parametrize("receive", ["result", "next_update"])
async def test_receiving_is_a_cancellation_point_even_if_it_does_not_wait(receive: str) -> None:
    async with probe() as outgoing:
        outgoing.give(1)
        outgoing.finish({})
        with trio.CancelScope() as scope:
            scope.cancel()
            await getattr(outgoing, receive)()

        assert scope.cancelled_caught
        assert await outgoing.take() == 1
