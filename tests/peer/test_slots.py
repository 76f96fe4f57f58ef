"""How many handlers run at once, and whose turn is next."""

from __future__ import annotations

import time

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import McpError
from trio_mcp.peer import BUSY, Hall, Run, Slots
from trio_mcp.wire import JsonObject

from .fake_exchange import FakeExchange, exchange


class Works:
    """Handlers that start in an observed order and end one by one."""

    def __init__(self, nursery: trio.Nursery, slots: Slots) -> None:
        self.hall = Hall(nursery)
        self.slots = slots
        self.started: list[str] = []
        self.ends: dict[str, trio.Event] = {}

    def begin(self, name: str) -> FakeExchange:
        asked = exchange(self.slots, name)
        self.ends[name] = trio.Event()

        async def handler(_: Run) -> JsonObject:
            self.started.append(name)
            await self.ends[name].wait()
            return {"by": name}

        self.hall.begin(asked, handler, lambda exc: McpError(-1, repr(exc)))
        return asked

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await wait_all_tasks_blocked()


async def test_handlers_beyond_the_limit_wait_and_start_in_the_order_they_came(nursery: trio.Nursery) -> None:
    works = Works(nursery, Slots(2, 10))
    asked = [works.begin(name) for name in "abcde"]
    await wait_all_tasks_blocked()
    assert (sorted(works.started), works.slots.running, works.slots.waiting) == (["a", "b"], 2, 3)

    await works.end("b")
    assert works.started[2:] == ["c"]
    await works.end("a")
    await works.end("c")
    assert works.started[2:] == ["c", "d", "e"]
    await works.end("d")
    await works.end("e")

    assert (works.slots.running, works.slots.waiting, works.hall.running) == (0, 0, 0)
    assert [one.sent for one in asked] == [[{"by": name}] for name in "abcde"]


async def test_a_request_cancelled_while_it_waits_is_skipped_and_makes_room_at_once(nursery: trio.Nursery) -> None:
    works = Works(nursery, Slots(1, 2))
    _, gone, kept = (works.begin(name) for name in "abc")
    await wait_all_tasks_blocked()

    gone.cancel("not wanted")
    assert works.slots.waiting == 1
    fourth = works.begin("d")
    assert works.slots.waiting == 2
    for name in "acd":
        await works.end(name)

    assert works.started == ["a", "c", "d"]
    assert gone.sent == []
    assert gone.endings == 1
    assert (kept.sent, fourth.sent) == ([{"by": "c"}], [{"by": "d"}])
    assert (works.slots.running, works.slots.waiting) == (0, 0)


async def test_a_request_beyond_the_queue_is_refused_as_busy(nursery: trio.Nursery) -> None:
    works = Works(nursery, Slots(1, 1))
    works.begin("a")
    works.begin("b")

    refused = works.begin("c")
    (error,) = refused.sent

    assert isinstance(error, McpError)
    assert error.code == BUSY == -31_000
    assert error.message == "too busy: 1 requests run and 1 wait; try again later"
    assert refused.run is None
    await wait_all_tasks_blocked()
    await works.end("a")
    await works.end("b")
    assert works.started == ["a", "b"]


async def test_a_slot_is_given_back_however_the_handler_ends(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    slots = Slots(1, 10)
    hall = Hall(nursery)

    async def fails(_: Run) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise ValueError

    async def times_out(run: Run) -> JsonObject:
        run.allow(1)
        await trio.Event().wait()
        return {}

    async def forever(_: Run) -> JsonObject:
        await trio.Event().wait()
        return {}

    asked = [exchange(slots) for _ in range(3)]
    for one, handler in zip(asked, (fails, times_out, forever), strict=True):
        hall.begin(one, handler, lambda exc: McpError(-1, repr(exc)))
    await trio.sleep(2)
    assert (slots.running, slots.waiting) == (1, 0)
    asked[2].cancel("not wanted")
    await wait_all_tasks_blocked()

    assert (slots.running, hall.running) == (0, 0)


async def test_refusing_costs_the_same_however_many_wait() -> None:
    async with trio.open_nursery() as nursery:
        works = Works(nursery, Slots(1, 4096))
        for number in range(4097):
            works.begin(str(number))

        began = time.perf_counter()
        for _ in range(10_000):
            works.begin("refused")
        took = time.perf_counter() - began

        assert works.slots.waiting == 4096
        nursery.cancel_scope.cancel()
    assert took < 2  # looking through the queue for each refusal took 20 s
