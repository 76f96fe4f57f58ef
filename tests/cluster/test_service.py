"""What the processes of a service share: work that is done once, keys that come first, and values that are kept."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.cluster.interrupted_backend import MESSAGE, InterruptedShared
from trio_mcp import SharedUnavailable
from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._service import KeyedService

KEY = bytes(range(32))
ONCE = f"service/once/{hashlib.sha256(b'key').hexdigest()}"
"""The name of what is done once for the key ``key``."""


@asynccontextmanager
async def processes(
    line: InterruptedShared, count: int = 2, key: bytes = KEY, *, keeps: bool = True
) -> AsyncGenerator[list[KeyedService]]:
    async with AsyncExitStack() as stack:
        states = [await stack.enter_async_context(line.open()) for _ in range(count)]
        yield [KeyedService(state, ClusterKeys([key]), keeps=keeps) for state in states]


class Work:
    """A piece of work whose runs are counted, and which goes on when the test says so."""

    def __init__(self, *, waits: bool = False) -> None:
        self.runs = self.done = 0
        self.go = trio.Event()
        if not waits:
            self.go.set()

    async def __call__(self) -> bytes:
        self.runs += 1
        await self.go.wait()
        self.done += 1
        return b"result %d" % self.done


async def test_work_for_a_key_is_done_once_and_everybody_gets_its_result(autojump_clock: object) -> None:
    work, results = Work(waits=True), list[bytes]()

    async def call(service: KeyedService) -> None:
        results.append(await service.once("key", work, seconds=60))

    async with processes(InterruptedShared(), 3) as services, trio.open_nursery() as nursery:
        for service in services * 2:
            nursery.start_soon(call, service)
        await trio.sleep(100)  # the claim is renewed
        assert (work.runs, results) == (1, [])
        work.go.set()
        await trio.sleep(1)

        assert results == [b"result 1"] * 6
        assert await services[0].once("key", work, seconds=60) == b"result 1"
        assert await services[0].once("another", work, seconds=60) == b"result 2"
        await trio.sleep(60)
        assert await services[1].once("key", work, seconds=60) == b"result 3"


async def test_work_that_fails_is_done_by_another_process_that_waits(autojump_clock: object) -> None:
    work, failing = Work(), trio.Event()

    async def fail() -> bytes:
        await failing.wait()
        raise ZeroDivisionError("no")

    async def call_failing(service: KeyedService) -> None:
        with pytest.raises(ZeroDivisionError, match="no"):
            await service.once("key", fail, seconds=60)

    async with processes(InterruptedShared()) as (one, other), trio.open_nursery() as nursery:
        nursery.start_soon(call_failing, one)
        await trio.sleep(0.1)
        with trio.fail_after(5):
            nursery.start_soon(set_later, failing)
            assert await other.once("key", work, seconds=60) == b"result 1"


async def set_later(event: trio.Event) -> None:
    await trio.sleep(1)
    event.set()


async def test_work_that_is_cancelled_is_done_by_another_process_that_waits(autojump_clock: object) -> None:
    work = Work(waits=True)
    async with processes(InterruptedShared()) as (one, other):
        with trio.move_on_after(1):
            await one.once("key", work, seconds=60)
        work.go.set()

        with trio.fail_after(0.01):
            assert await other.once("key", work, seconds=60) == b"result 1"
    assert (work.runs, work.done) == (2, 1)


async def test_a_result_is_stored_even_if_the_call_is_cancelled_meanwhile(autojump_clock: object) -> None:
    line, work = InterruptedShared(), Work()
    async with processes(line) as (one, other):
        with trio.CancelScope() as scope:

            async def cancel_at_the_second_swap(method: str, name: str) -> None:
                if work.done and method == "swap":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()

            line.before = cancel_at_the_second_swap
            await one.once("key", work, seconds=60)
        line.before = None

        assert await other.once("key", work, seconds=60) == b"result 1"
    assert work.runs == 1


async def test_the_work_of_a_process_that_has_died_is_done_after_its_claim_has_expired(autojump_clock: object) -> None:
    line, work = InterruptedShared(), Work()
    async with line.open() as state, processes(line) as (one, _):
        assert await state.swap(ONCE, None, b"c of a process that is no more", seconds=10)
        begun = trio.current_time()

        assert await one.once("key", work, seconds=60) == b"result 1"
        assert 9 < trio.current_time() - begun < 11


async def test_a_process_that_has_lost_its_claim_stops_and_takes_the_result_of_the_other(
    autojump_clock: object,
) -> None:
    line, slow, quick = InterruptedShared(), Work(waits=True), Work()
    results: list[bytes] = []

    async def call(service: KeyedService) -> None:
        results.append(await service.once("key", slow, seconds=60))

    async with line.open() as state, processes(line) as (one, other), trio.open_nursery() as nursery:
        nursery.start_soon(call, one)
        await trio.sleep(1)
        claim = await state.get(ONCE)
        assert claim is not None
        assert await state.swap(ONCE, claim, None)  # as if the process had stood still
        assert await other.once("key", quick, seconds=60) == b"result 1"
        await trio.sleep(5)

        assert (results, slow.runs, slow.done) == ([b"result 1"], 1, 0)


@pytest.mark.parametrize("before_the_end", [True, False])
async def test_work_goes_on_when_the_backend_loses_its_data(*, before_the_end: bool, autojump_clock: object) -> None:
    line, work = InterruptedShared(), Work(waits=True)

    async def call(service: KeyedService) -> None:
        assert await service.once("key", work, seconds=60) == b"result 1"

    async with processes(line) as (one, other), trio.open_nursery() as nursery:
        nursery.start_soon(call, one)
        await trio.sleep(1)
        line.shared = InterruptedShared().shared
        if before_the_end:
            await trio.sleep(5)
            nursery.start_soon(call, other)
            await trio.sleep(30)
        work.go.set()
        await wait_all_tasks_blocked()
        await trio.sleep(1)

        await call(other)
    assert work.runs == 1


async def test_the_caller_gets_the_result_although_the_backend_is_interrupted(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    line, work = InterruptedShared(), Work(waits=True)

    async def call(service: KeyedService) -> None:
        assert await service.once("key", work, seconds=60) == b"result 1"

    async with processes(line) as (one, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, one)
            await trio.sleep(1)
            line.is_down = True
            await trio.sleep(60)
            work.go.set()

        with pytest.raises(SharedUnavailable, match=MESSAGE):
            await one.once("key", work, seconds=60)
    assert work.runs == 1
    assert "do not know what was done here once" in caplog.text


@pytest.mark.parametrize("forged", ["another", "none", "short"])
async def test_a_result_that_no_process_has_made_is_refused_and_the_work_is_not_done(
    forged: str, autojump_clock: object
) -> None:
    line, work = InterruptedShared(), Work()
    async with line.open() as state, processes(line) as (one, _):
        await one.once("key", work, seconds=60)
        stored = await state.get(ONCE)
        assert stored is not None
        assert b"result" not in stored
        values = {"another": stored[:-1] + bytes([stored[-1] ^ 1]), "none": b"r", "short": b"rx"}
        assert await state.swap(ONCE, stored, values[forged])

        with pytest.raises(SharedUnavailable, match="was not made by this service"):
            await one.once("key", work, seconds=60)
    assert work.runs == 1


async def test_a_result_is_good_for_its_own_key_only(autojump_clock: object) -> None:
    line, work = InterruptedShared(), Work()
    async with line.open() as state, processes(line) as (one, _):
        await one.once("key", work, seconds=60)
        other = f"service/once/{hashlib.sha256(b'other').hexdigest()}"
        assert await state.swap(other, None, await state.get(ONCE))

        with pytest.raises(SharedUnavailable, match="was not made by this service"):
            await one.once("other", work, seconds=60)


async def test_a_key_comes_first_in_one_process_for_its_time(autojump_clock: object) -> None:
    async with processes(InterruptedShared()) as (one, other):
        assert await one.is_first("key", seconds=10)
        assert not await other.is_first("key", seconds=10)
        assert not await one.is_first("key", seconds=10)
        assert await other.is_first("other", seconds=10)
        await trio.sleep(10)

        assert await other.is_first("key", seconds=10)


async def test_a_key_cannot_come_first_while_the_backend_cannot_be_reached() -> None:
    line = InterruptedShared()
    async with processes(line) as (one, _):
        line.is_down = True

        with pytest.raises(SharedUnavailable, match=MESSAGE):
            await one.is_first("key", seconds=10)


async def test_a_value_is_known_to_all_processes_of_the_service_and_to_nobody_else(autojump_clock: object) -> None:
    line, names = InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        names.append(name)

    line.before = note
    async with processes(line) as (one, other), processes(line, 1, b"another service") as (stranger,):
        assert await other.recall("secret key") is None
        await one.keep("secret key", b"value", seconds=10)
        await other.keep("secret key", b"another", seconds=10)

        assert await other.recall("secret key") == b"value"
        assert await stranger.recall("secret key") is None
        assert hashlib.sha256(b"secret key").hexdigest() not in "".join(names)
        async with line.open() as state:
            stored = await state.get(names[0])
        assert stored is not None
        assert b"value" not in stored
        await trio.sleep(10)
        assert await other.recall("secret key") is None


async def test_nothing_is_kept_if_the_keys_are_in_the_backend() -> None:
    line, calls = InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        calls.append(method)

    line.before = note
    async with processes(line, keeps=False) as (one, other):
        await one.keep("key", b"value", seconds=10)
        assert await other.recall("key") is None

    assert calls == []


async def test_a_forged_value_is_unknown(autojump_clock: object) -> None:
    line, names = InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        names.append(name)

    line.before = note
    async with processes(line) as (one, _), line.open() as state:
        await one.recall("key")
        assert await state.swap(names[0], None, b"forged, and long enough for a nonce")

        assert await one.recall("key") is None


async def test_values_are_forgotten_for_a_while_when_the_backend_cannot_be_reached(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    caplog.set_level(logging.WARNING, "trio_mcp.cluster")
    line, calls = InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        calls.append(method)

    line.before = note
    async with processes(line, 1) as (one,):
        line.is_down = True
        assert await one.recall("key") is None
        await one.keep("key", b"value", seconds=60)
        assert await one.recall("key") is None
        assert calls == ["get"]
        line.is_down = False
        await trio.sleep(5)

        await one.keep("key", b"value", seconds=60)
        assert await one.recall("key") == b"value"
    assert caplog.text.count(MESSAGE) == 1
