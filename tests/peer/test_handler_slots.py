"""The limits on running handlers, and the order in which waiting handlers start."""

from __future__ import annotations

import time

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import McpError, Server
from trio_mcp.peer import BUSY, HandlerPool, HandlerRun, HandlerSlots, Limits, SenderSlots
from trio_mcp.wire import JsonObject

from .fake_exchange import FakeExchange, exchange


class ObservedHandlers:
    """Handlers that start in an observed order and end one by one."""

    def __init__(self, nursery: trio.Nursery, slots: HandlerSlots) -> None:
        self.pool = HandlerPool(nursery)
        self.slots = slots
        self.started: list[str] = []
        self.ends: dict[str, trio.Event] = {}

    def begin(self, name: str) -> FakeExchange:
        incoming = exchange(self.slots, name)
        self.ends[name] = trio.Event()

        async def handler(_: HandlerRun) -> JsonObject:
            self.started.append(name)
            await self.ends[name].wait()
            return {"by": name}

        self.pool.begin(incoming, handler, lambda exc: McpError(-1, repr(exc)))
        return incoming

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await wait_all_tasks_blocked()


async def test_handlers_beyond_the_limit_wait_and_start_in_the_order_of_arrival(nursery: trio.Nursery) -> None:
    handlers = ObservedHandlers(nursery, HandlerSlots(2, 10))
    incoming = [handlers.begin(name) for name in "abcde"]
    await wait_all_tasks_blocked()
    assert (sorted(handlers.started), handlers.slots.running, handlers.slots.waiting) == (["a", "b"], 2, 3)

    await handlers.end("b")
    assert handlers.started[2:] == ["c"]
    await handlers.end("a")
    await handlers.end("c")
    assert handlers.started[2:] == ["c", "d", "e"]
    await handlers.end("d")
    await handlers.end("e")

    assert (handlers.slots.running, handlers.slots.waiting, handlers.pool.running) == (0, 0, 0)
    assert [one.sent for one in incoming] == [[{"by": name}] for name in "abcde"]


async def test_a_queued_request_that_is_cancelled_is_skipped_and_makes_room_at_once(nursery: trio.Nursery) -> None:
    handlers = ObservedHandlers(nursery, HandlerSlots(1, 2))
    _, gone, kept = (handlers.begin(name) for name in "abc")
    await wait_all_tasks_blocked()

    gone.cancel("not wanted")
    assert handlers.slots.waiting == 1
    fourth = handlers.begin("d")
    assert handlers.slots.waiting == 2
    for name in "acd":
        await handlers.end(name)

    assert handlers.started == ["a", "c", "d"]
    assert gone.sent == []
    assert gone.endings == 1
    assert (kept.sent, fourth.sent) == ([{"by": "c"}], [{"by": "d"}])
    assert (handlers.slots.running, handlers.slots.waiting) == (0, 0)


async def test_a_request_beyond_the_queue_is_refused_as_busy(nursery: trio.Nursery) -> None:
    handlers = ObservedHandlers(nursery, HandlerSlots(1, 1))
    handlers.begin("a")
    handlers.begin("b")

    refused = handlers.begin("c")
    (error,) = refused.sent

    assert isinstance(error, McpError)
    assert error.code == BUSY == -31_000
    busy = "of this client's requests, 1 run (Limits.max_in_flight) and 1 wait (Limits.max_queued)"
    assert error.message == f"too busy: {busy}; try again later"
    assert refused.run is None
    await wait_all_tasks_blocked()
    await handlers.end("a")
    await handlers.end("b")
    assert handlers.started == ["a", "b"]


async def test_a_slot_is_released_when_the_handler_fails_times_out_or_is_cancelled(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    slots = HandlerSlots(1, 10)
    pool = HandlerPool(nursery)

    async def fails(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise ValueError

    async def times_out(run: HandlerRun) -> JsonObject:
        run.allow(1)
        await trio.Event().wait()
        return {}

    async def forever(_: HandlerRun) -> JsonObject:
        await trio.Event().wait()
        return {}

    incoming = [exchange(slots) for _ in range(3)]
    for one, handler in zip(incoming, (fails, times_out, forever), strict=True):
        pool.begin(one, handler, lambda exc: McpError(-1, repr(exc)))
    await trio.sleep(2)
    assert (slots.running, slots.waiting) == (1, 0)
    incoming[2].cancel("not wanted")
    await wait_all_tasks_blocked()

    assert (slots.running, pool.running) == (0, 0)


async def test_the_cost_of_a_refusal_does_not_grow_with_the_queue() -> None:
    async with trio.open_nursery() as nursery:
        handlers = ObservedHandlers(nursery, HandlerSlots(1, 4096))
        short = ObservedHandlers(nursery, HandlerSlots(1, 1))
        for full, count in ((handlers, 4097), (short, 2)):
            for number in range(count):
                full.begin(str(number))

        def cost(full: ObservedHandlers) -> float:
            began = time.thread_time()  # not that of other processes
            for _ in range(5_000):
                full.begin("refused")
            return time.thread_time() - began

        cheap, dear = min(cost(short) for _ in range(3)), min(cost(handlers) for _ in range(3))
        assert (handlers.slots.waiting, short.slots.waiting) == (4096, 1)
        nursery.cancel_scope.cancel()
    assert dear < 10 * cheap  # looking through the queue for each refusal cost 60 times as much


class SharedPool:
    """Handlers of several connections that share a pool, where each connection has its own slots."""

    def __init__(self, nursery: trio.Nursery, limits: Limits, **slots: HandlerSlots) -> None:
        self.pool = HandlerPool(nursery, limits)
        self.slots = slots
        self.started: list[str] = []
        self.ends: dict[str, trio.Event] = {}

    def begin(self, name: str) -> FakeExchange:
        """Begin on the connection that the name begins with."""
        incoming = exchange(self.slots[name[0]], name)
        self.ends[name] = trio.Event()

        async def handler(_: HandlerRun) -> JsonObject:
            self.started.append(name)
            await self.ends[name].wait()
            return {"by": name}

        self.pool.begin(incoming, handler, lambda exc: McpError(-1, repr(exc)))
        return incoming

    async def end(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
            await wait_all_tasks_blocked()

    def figures(self) -> dict[str, tuple[int, int]]:
        return {name: (slots.running, slots.waiting) for name, slots in self.slots.items()}


async def test_connections_take_turns_when_the_limit_for_all_of_them_is_reached(nursery: trio.Nursery) -> None:
    shared = SharedPool(
        nursery, Limits(max_running=2), a=HandlerSlots(10, 10), b=HandlerSlots(10, 10), c=HandlerSlots(10, 10)
    )
    for name in ("a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1"):
        shared.begin(name)
    await wait_all_tasks_blocked()
    assert shared.figures() == {"a": (2, 3), "b": (0, 2), "c": (0, 1)}
    assert shared.pool.limiter.groups == 3

    await shared.end("a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5")

    assert sorted(shared.started[:2]) == ["a1", "a2"]  # Trio shuffles tasks that start together
    assert shared.started[2:] == ["a3", "b1", "c1", "a4", "b2", "a5"]
    assert shared.figures() == {"a": (0, 0), "b": (0, 0), "c": (0, 0)}
    assert (shared.pool.limiter.taken, shared.pool.limiter.waiting, shared.pool.limiter.groups) == (0, 0, 0)


async def test_the_limit_of_a_connection_applies_too(nursery: trio.Nursery) -> None:
    shared = SharedPool(nursery, Limits(max_running=3), a=HandlerSlots(1, 10), b=HandlerSlots(10, 10))
    for name in ("a1", "a2", "a3", "b1", "b2", "b3"):
        shared.begin(name)
    await wait_all_tasks_blocked()
    assert sorted(shared.started) == ["a1", "b1", "b2"]

    await shared.end("a1")  # its connection waits too, but the other one has waited longer
    assert shared.started[3:] == ["b3"]
    await shared.end("b1")
    assert shared.started[4:] == ["a2"]
    await shared.end("b2", "b3")
    assert shared.figures() == {"a": (1, 1), "b": (0, 0)}
    await shared.end("a2")
    assert shared.started[5:] == ["a3"]
    await shared.end("a3")
    assert (shared.pool.limiter.taken, shared.pool.limiter.waiting) == (0, 0)


async def test_requests_that_are_cancelled_while_they_wait_for_other_connections_leave_no_trace(
    nursery: trio.Nursery,
) -> None:
    shared = SharedPool(nursery, Limits(max_running=1), a=HandlerSlots(10, 10), b=HandlerSlots(10, 10))
    shared.begin("a1")
    gone = [shared.begin(name) for name in ("b1", "b2", "a2")]
    shared.begin("a3")
    await wait_all_tasks_blocked()

    for one in gone:
        one.cancel("not wanted")
        one.cancel("not wanted")
    assert shared.pool.limiter.groups == 1
    await shared.end("a1", "a3")

    assert shared.started == ["a1", "a3"]
    assert shared.figures() == {"a": (0, 0), "b": (0, 0)}
    assert (shared.pool.limiter.taken, shared.pool.limiter.waiting, shared.pool.limiter.groups) == (0, 0, 0)


async def test_a_refusal_because_of_other_connections_names_both_limits(nursery: trio.Nursery) -> None:
    shared = SharedPool(nursery, Limits(max_running=2), a=HandlerSlots(10, 10), b=HandlerSlots(10, 1))
    for name in ("a1", "a2", "b1"):
        shared.begin(name)

    (error,) = shared.begin("b2").sent

    assert isinstance(error, McpError)
    assert error.code == BUSY
    busy = "of all requests, 2 run (Limits.max_running), and of this client's, 1 wait (Limits.max_queued)"
    assert error.message == f"too busy: {busy}; try again later"
    await wait_all_tasks_blocked()
    await shared.end("a1", "a2", "b1")


async def test_listening_requests_have_their_own_limit_which_their_refusal_names(
    nursery: trio.Nursery,
) -> None:
    shared = SharedPool(nursery, Limits(max_running=1), a=HandlerSlots(10, 10), b=HandlerSlots.for_listens(2))
    shared.begin("a1")
    for name in ("b1", "b2"):
        shared.begin(name)
    (error,) = shared.begin("b3").sent
    await wait_all_tasks_blocked()

    assert sorted(shared.started) == ["a1", "b1", "b2"]
    assert isinstance(error, McpError)
    assert error.code == BUSY
    assert error.message == "too busy: of this client's requests, 2 listen (Limits.max_listens); try again later"
    await shared.end("a1", "b1", "b2")


async def test_full_predicts_whether_another_request_would_be_refused(nursery: trio.Nursery) -> None:
    shared = SharedPool(nursery, Limits(max_running=2), a=HandlerSlots(1, 1), b=HandlerSlots(5, 1))
    a, b = shared.slots.values()
    seen = [(a.full, b.full)]
    for name in ("a1", "a2", "b1", "b2"):
        shared.begin(name)
        seen.append((a.full, b.full))
    await wait_all_tasks_blocked()

    assert seen == [(False, False), (False, False), (True, False), (True, False), (True, True)]
    await shared.end("a1")  # the other connection has waited longer, so it is its turn
    assert (a.full, b.full) == (True, False)
    await shared.end("b1")
    assert (a.full, b.full) == (False, False)
    await shared.end("b2", "a2")


# Slots that are given back while a question is open.


class AskingHandler:
    """A handler with the only slot, which it shares while a question is open."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.handlers = ObservedHandlers(nursery, HandlerSlots(1, 10))
        self.incoming = exchange(self.handlers.slots, "asking")
        self.answered = trio.Event()
        self.log: list[str] = []

    def begin(self, *, shielded: bool = False) -> None:
        async def handler(run: HandlerRun) -> JsonObject:
            with trio.CancelScope(shield=shielded):
                for number in range(2):
                    run.share_slot()
                    run.holds.give_back(run.scope)
                    self.log.append(f"asked {number}")
                    await self.answered.wait()
                    run.holds.start_clock(run.scope)
                    await run.holds.take_again(run.scope)
                    self.log.append(f"continues {number}")
            return {}

        self.handlers.pool.begin(self.incoming, handler, lambda exc: McpError(-1, repr(exc)))

    async def answer(self) -> None:
        self.answered.set()
        await wait_all_tasks_blocked()


async def test_a_handler_that_asks_takes_its_slot_again_before_the_requests_that_wait(nursery: trio.Nursery) -> None:
    asking = AskingHandler(nursery)
    asking.begin()
    await wait_all_tasks_blocked()
    for name in "ab":
        asking.handlers.begin(name)
    await wait_all_tasks_blocked()
    assert asking.handlers.started == ["a"]

    await asking.answer()
    assert asking.log == ["asked 0"]
    await asking.handlers.end("a")

    assert asking.log == ["asked 0", "continues 0", "asked 1"]
    assert asking.handlers.started == ["a", "b"]
    await asking.handlers.end("b")
    assert asking.log[3:] == ["continues 1"]
    assert (asking.handlers.slots.running, asking.handlers.slots.waiting) == (0, 0)


async def test_a_handler_with_an_answer_continues_at_once_if_a_slot_is_free(nursery: trio.Nursery) -> None:
    asking = AskingHandler(nursery)
    asking.begin()
    await wait_all_tasks_blocked()
    assert asking.handlers.slots.running == 0

    await asking.answer()
    assert asking.log == ["asked 0", "continues 0", "asked 1", "continues 1"]
    assert asking.incoming.sent == [{}]


async def test_a_handler_cancelled_while_it_waits_for_its_slot_leaves_no_trace(nursery: trio.Nursery) -> None:
    asking = AskingHandler(nursery)
    asking.begin()
    await wait_all_tasks_blocked()
    asking.handlers.begin("a")
    await asking.answer()
    assert asking.handlers.slots.waiting == 1

    asking.incoming.cancel("over")
    await wait_all_tasks_blocked()

    assert (asking.handlers.slots.running, asking.handlers.slots.waiting) == (1, 0)
    await asking.handlers.end("a")
    assert (asking.handlers.slots.running, asking.handlers.pool.limiter.taken) == (0, 0)


async def test_a_cancelled_handler_gives_a_slot_that_it_gets_at_once_back(nursery: trio.Nursery) -> None:
    handlers, answered = ObservedHandlers(nursery, HandlerSlots(1, 10)), trio.Event()

    async def handler(run: HandlerRun) -> JsonObject:
        run.share_slot()
        run.holds.give_back(run.scope)
        with trio.CancelScope(shield=True):
            await answered.wait()
        run.holds.start_clock(run.scope)
        await run.holds.take_again(run.scope)
        raise AssertionError

    incoming = exchange(handlers.slots)
    handlers.pool.begin(incoming, handler, lambda exc: McpError(-1, repr(exc)))
    await wait_all_tasks_blocked()
    incoming.cancel("over")
    answered.set()
    await wait_all_tasks_blocked()

    assert (handlers.slots.running, handlers.pool.limiter.taken, handlers.pool.running) == (0, 0, 0)


async def test_a_shielded_handler_whose_request_is_cancelled_still_gets_its_slot(nursery: trio.Nursery) -> None:
    asking = AskingHandler(nursery)
    asking.begin(shielded=True)
    await wait_all_tasks_blocked()
    asking.handlers.begin("a")
    await asking.answer()
    asking.incoming.cancel("over")
    await wait_all_tasks_blocked()
    assert asking.log == ["asked 0"]

    await asking.handlers.end("a")

    assert asking.log == ["asked 0", "continues 0", "asked 1", "continues 1"]
    assert asking.handlers.pool.running == 0


async def test_requests_of_one_sender_share_their_slots_in_one_serving() -> None:
    async with Server("one").serving() as serving, Server("other").serving() as other:
        slots = SenderSlots.of(serving, serving.limits)
        mine, listens = slots.for_requests("me"), slots.for_listens("me")

        assert SenderSlots.of(serving, serving.limits).for_requests("me") is mine
        assert SenderSlots.of(serving, serving.limits).for_listens("me") is listens
        assert (mine.is_alone, mine.listens, listens.listens) == (False, False, True)
        assert slots.for_requests("you") is not mine
        assert SenderSlots.of(other, other.limits).for_requests("me") is not mine
