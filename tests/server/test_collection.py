"""Garbage collections in a process that exists to serve: what they visit, and when they visit everything again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from tests.server import frozen_program
from trio_mcp import open_memory_client, open_stdio_client
from trio_mcp.server._collection import FrozenHeap, frozen_heap

MANY = 10**9
"""More objects than any process has."""
PROGRAM = Path(__file__).with_name("frozen_program.py")


@define
class Clock:
    """A clock that the test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Generator[Clock]:
    """A clock; afterwards nothing is frozen."""
    yield Clock()
    gc.unfreeze()


def collect(heap: FrozenHeap, clock: Clock, *, seconds: float, generation: int = 2) -> None:
    """Report a collection to *heap* that takes that long."""
    info = {"generation": generation, "collected": 0, "uncollectable": 0}
    heap.on_collection("start", info)
    clock.now += seconds
    heap.on_collection("stop", info)


def test_what_exists_when_the_serving_begins_is_frozen_until_it_ends() -> None:
    callbacks, thresholds = list(gc.callbacks), gc.get_threshold()
    with frozen_heap(is_own_process=True):
        assert gc.get_freeze_count() > 1000
        assert len(gc.callbacks) == len(callbacks) + 1
        assert gc.get_threshold() == (*thresholds[:2], 3)
    assert (gc.get_freeze_count(), gc.callbacks, gc.get_threshold()) == (0, callbacks, thresholds)


def test_the_survivors_of_a_long_full_collection_are_frozen(clock: Clock) -> None:
    heap = FrozenHeap(clock, many=MANY)
    gc.freeze()
    before = gc.get_freeze_count()
    kept = [[n] for n in range(1000)]

    collect(heap, clock, seconds=0.004)
    collect(heap, clock, seconds=1.0, generation=1)
    assert gc.get_freeze_count() <= before

    collect(heap, clock, seconds=0.006)
    assert gc.get_freeze_count() >= before + len(kept)


def test_everything_is_visited_again_when_twice_as_many_objects_are_frozen(clock: Clock) -> None:
    gc.freeze()
    heap = FrozenHeap(clock, many=gc.get_freeze_count() + 10_000)
    kept = [[n] for n in range(20_000)]

    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() > len(kept)  # they are counted every ten seconds
    clock.now = 10.0
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() == 0  # the next collection visits all
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() > len(kept)

    clock.now = 30.0
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() > len(kept)  # not twice as many as at the last time


def test_everything_is_visited_again_after_an_hour(clock: Clock) -> None:
    heap = FrozenHeap(clock, many=MANY)
    gc.freeze()
    clock.now = 3599.0
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() > 0

    clock.now = 3600.0
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() == 0
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() > 0

    clock.now = 7199.0
    collect(heap, clock, seconds=0.1)
    assert gc.get_freeze_count() > 0


def test_cycles_of_frozen_objects_are_collected_after_everything_was_thawed(clock: Clock) -> None:
    heap = FrozenHeap(clock, many=MANY)
    marks = [Node() for _ in range(10)]
    gc.freeze()
    marks.clear()
    gc.collect()
    assert Node.alive == 10

    clock.now = 3600.0
    collect(heap, clock, seconds=0.1)
    gc.collect()
    assert Node.alive == 0


class Node:
    """An object in a reference cycle."""

    alive = 0

    def __init__(self) -> None:
        self.itself = self
        Node.alive += 1

    def __del__(self) -> None:
        Node.alive -= 1


def test_the_growth_of_a_small_heap_does_not_matter(clock: Clock) -> None:
    heap = FrozenHeap(clock, many=MANY)
    collect(heap, clock, seconds=0.1)
    kept = [[n] for n in range(2 * gc.get_freeze_count())]

    clock.now = 20.0
    collect(heap, clock, seconds=0.1)

    assert gc.get_freeze_count() > len(kept)


async def test_objects_are_frozen_in_the_process_of_a_server() -> None:
    async with open_stdio_client([sys.executable, str(PROGRAM)]) as client:
        result = await client.call_tool("frozen_objects")
    content: Any = result.structured_content
    assert content["result"] > 1000


async def test_no_objects_are_frozen_in_the_process_of_a_host() -> None:
    async with open_memory_client(frozen_program.server) as client:
        result = await client.call_tool("frozen_objects")
    assert result.structured_content == {"result": 0}
