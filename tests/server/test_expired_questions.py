"""Handlers whose requests to the client expire unanswered: the memory and the tasks that they leave behind."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import Any

import trio
from attrs import evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.interaction.scripted_peers import ENVELOPE
from tests.peer.fake_exchange import CONTEXT, FakeExchange, FakePeer
from trio_mcp import Context, Limits, Server
from trio_mcp.peer import GRACE_SECONDS, HandlerSlots

CALLS, AT_A_TIME = 10_000, 1000
OPEN_SECONDS = 60.0
LARGEST_BLOCK = 512
"""In bytes. Larger blocks come from the system allocator, so that only tracing counts them."""


def allocated_blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


async def test_10_000_calls_whose_questions_expire_leave_no_tasks_and_little_memory(
    autojump_clock: MockClock,
) -> None:
    """In each round, as many handlers as may be parked ask the client, and all of them expire."""
    server = Server("s", limits=Limits(ask_seconds=OPEN_SECONDS, max_parked=AT_A_TIME))
    peer = FakePeer(HandlerSlots(AT_A_TIME, AT_A_TIME))
    context = evolve(CONTEXT, capabilities={"elicitation": {}})
    params: dict[str, Any] = {"name": "book", "_meta": ENVELOPE}

    @server.tool
    async def book(ctx: Context) -> str:
        return str(await ctx.elicit("How many?", {"type": "object", "properties": {"count": {"type": "integer"}}}))

    async with server.serving() as serving:

        async def ask_and_expire(number: int) -> None:
            for id in range(number):
                serving.answer(FakeExchange("tools/call", params, context, id, peer))
            await wait_all_tasks_blocked()
            assert serving.statistics().parked == number
            await trio.sleep(OPEN_SECONDS + GRACE_SECONDS)

        await ask_and_expire(AT_A_TIME)  # the first round creates the objects that exist once
        idle, blocks = trio.lowlevel.current_statistics().tasks_living, allocated_blocks()
        for _ in range(CALLS // AT_A_TIME - 2):
            await ask_and_expire(AT_A_TIME)
        tracemalloc.start()  # slows every allocation down
        try:
            before, _ = tracemalloc.get_traced_memory()
            await ask_and_expire(AT_A_TIME)
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        grown = allocated_blocks() - blocks
        sys.stdout.write(f"\n{CALLS} expired calls: {grown} blocks of memory more\n")
        sys.stdout.write(f"the last {AT_A_TIME}: {after - before} bytes more, {peak - before} while they are parked\n")
        assert grown * LARGEST_BLOCK < 2**20
        assert after - before < 2**20 / (CALLS / AT_A_TIME)
        assert trio.lowlevel.current_statistics().tasks_living == idle
        assert (serving.statistics().parked, serving.statistics().running, peer.slots.running) == (0, 0, 0)
