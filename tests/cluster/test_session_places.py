"""The places of sessions that have left their process, in the backend of their service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.cluster.interrupted_backend import InterruptedShared
from trio_mcp import MemoryShared
from trio_mcp.abc import SharedState
from trio_mcp.cluster import _sessions
from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._sessions import SessionPlaces

KEYS = ClusterKeys([b"k" * 32])
HOURS = 3600.0


def places(state: SharedState, node: str) -> SessionPlaces:
    return SessionPlaces(state, node, KEYS)


async def leave(owner: SessionPlaces, id: str, **record: Any) -> None:
    await owner.hand_over(id, record, seconds=60)


async def take(other: SessionPlaces, id: str) -> Any:
    found = await other.find(id)
    assert found is not None
    assert not isinstance(found, str)
    assert await found.claim()
    return found.record


@asynccontextmanager
async def running(one: SessionPlaces) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        yield
        nursery.cancel_scope.cancel()


async def test_only_one_process_claims_a_session() -> None:
    async with MemoryShared().open() as state:
        await leave(places(state, "a"), "id", word="hello")
        b, c = places(state, "b"), places(state, "c")
        for_b, for_c = await b.find("id"), await c.find("id")
        assert not isinstance(for_b, str | None)
        assert not isinstance(for_c, str | None)

        assert for_b.record == {"word": "hello"}
        assert await for_b.claim()
        assert not await for_c.claim()
        assert await c.find("id") == "b" == c.known_owner("id")
        assert b.known_owner("id") is None


async def test_a_session_that_nobody_claims_expires(autojump_clock: object) -> None:
    async with MemoryShared().open() as state:
        await leave(places(state, "a"), "id")
        other = places(state, "b")
        found = await other.find("id")
        assert not isinstance(found, str | None)
        await trio.sleep(61)

        assert await other.find("id") is None
        assert not await found.claim()


async def test_the_name_of_the_process_is_kept_for_as_long_as_it_has_the_session(autojump_clock: object) -> None:
    async with MemoryShared().open() as state:
        await leave(places(state, "a"), "id")
        b, c = places(state, "b"), places(state, "c")
        await take(b, "id")
        async with running(b):
            await trio.sleep(100 * HOURS)
            assert await c.find("id") == "b"
        await trio.sleep(5 * HOURS)
        assert await c.find("id") is None
        assert c.known_owner("id") is None


async def test_the_name_is_put_back_when_the_backend_has_lost_its_data(autojump_clock: object) -> None:
    backend = InterruptedShared()
    async with backend.open() as state:
        await leave(places(state, "a"), "id")
        b, c = places(state, "b"), places(state, "c")
        await take(b, "id")
        async with running(b):
            backend.is_down, backend.shared = True, MemoryShared()
            b.lost_data()
            await trio.sleep(1)
            backend.is_down = False
            assert await c.find("id") is None
            await trio.sleep(30)
            assert await c.find("id") == "b"


async def test_a_session_that_moves_on_while_its_name_is_renewed_is_not_lost() -> None:
    backend = InterruptedShared()
    async with backend.open() as state:
        await leave(places(state, "a"), "id")
        b = places(state, "b")
        await take(b, "id")
        lost = [True]

        async def lose_data(method: str, name: str) -> None:
            if method == "swap" and lost:
                lost.clear()
                backend.shared = MemoryShared()

        backend.before = lose_data
        await leave(b, "id", word="again")
        assert await take(places(state, "c"), "id") == {"word": "again"}


async def test_the_end_of_a_session_removes_the_name_if_the_backend_can_be_reached() -> None:
    backend = InterruptedShared()
    async with backend.open() as state:
        b, c = places(state, "b"), places(state, "c")
        for id in ("first", "second"):
            await leave(places(state, "a"), id)
            await take(b, id)
        await b.ended("first")
        backend.is_down = True
        await b.ended("second")
        backend.is_down = False

        assert [await c.find(id) for id in ("first", "second")] == [None, "b"]
        assert await b.find("second") is None  # it has ended here


async def test_a_record_that_was_signed_with_another_key_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryShared().open() as state:
        forged = SessionPlaces(state, "a", ClusterKeys([b"x" * 32]))
        await leave(forged, "id")
        assert await places(state, "b").find("id") is None
    assert "was not left by a process of this service" in caplog.text


async def test_what_was_learnt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sessions, "_MOST_LEARNT", 2)
    async with MemoryShared().open() as state:
        b, c = places(state, "b"), places(state, "c")
        for id in ("1", "2", "3"):
            await leave(places(state, "a"), id)
            await take(b, id)
            assert await c.find(id) == "b"

        assert [c.known_owner(id) for id in ("1", "2", "3")] == [None, "b", "b"]


async def test_the_id_of_a_session_is_not_in_the_backend() -> None:
    names: list[str] = []
    backend = InterruptedShared()

    async def note(method: str, name: str) -> None:
        names.append(name)

    backend.before = note
    async with backend.open() as state:
        await leave(places(state, "a"), "the-secret-id")
    assert names
    assert not any("secret" in each for each in names)
