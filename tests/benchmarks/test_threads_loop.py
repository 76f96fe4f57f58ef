"""The place of an event loop for benchmarks without async."""

from __future__ import annotations

import asyncio
import threading

import pytest

from benchmarks.adapters.threads_loop import ThreadsLoop

LOOP = ThreadsLoop()


def test_functions_run_at_the_same_time_each_in_a_thread_of_its_own() -> None:
    all_run = threading.Barrier(3)
    threads: set[int] = set()

    async def do() -> None:
        all_run.wait(timeout=60)
        threads.add(threading.get_ident())

    async def main() -> dict[str, float]:
        await LOOP.together([do] * 3)
        return {"threads": len(threads)}

    assert LOOP.run(main) == {"threads": 3}


def test_a_single_function_runs_in_the_thread_of_the_caller() -> None:
    threads: list[int] = []

    async def do() -> None:
        threads.append(threading.get_ident())

    async def main() -> dict[str, float]:
        await LOOP.together([do])
        return {}

    LOOP.run(main)

    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("number", [1, 3])
def test_a_failure_of_one_is_raised(number: int) -> None:
    async def fail() -> None:
        raise AssertionError("a wrong sum")

    async def main() -> dict[str, float]:
        await LOOP.together([fail] * number)
        return {}

    with pytest.raises(AssertionError, match="a wrong sum"):
        LOOP.run(main)


def test_a_coroutine_that_suspends_is_refused() -> None:
    async def main() -> dict[str, float]:
        await asyncio.sleep(0)
        return {}

    with pytest.raises(AssertionError, match="suspended"):
        LOOP.run(main)
