"""How sessions over HTTP end: deleted, idle, out of room, or with the server."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio._core import _run
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.asgi_caller import Caller
from tests.transports.http.server.scripted_client import (
    SESSION,
    ByHand,
    Theatre,
    call,
    initialize,
    logged,
    message,
    open_theatre,
    sessions_of,
    text_of,
)
from trio_mcp import SessionSettings
from trio_mcp.transports.http.server._legacy_session import StreamableSession
from trio_mcp.wire import INTERNAL_ERROR, INVALID_REQUEST

IDLE, HALF_OPEN = 1800.0, 30.0
SPARED = 60.0


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


@pytest.fixture(params=[False, True], ids=["not kept", "kept"])
def kept(request: pytest.FixtureRequest) -> bool:
    is_kept: bool = request.param
    return is_kept


def listening(client: ByHand) -> int:
    """Return how many sessions the server tells of changes."""
    running = client.app._router.running
    assert running is not None
    serving: Any = running.serving
    told: int = serving.statistics().listening
    return told


# Deleted.


async def test_a_deleted_session_ends_with_all_its_streams_and_handlers(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        standing, silent = client.get(), client.start(call("wait", 2))
        talking = client.start(call("say", 3, words=["a"]))
        await talking.messages_are(1)
        await wait_all_tasks_blocked()
        assert listening(client) == 1

        deleted = await client.request("DELETE")
        for each in (standing, silent, talking):
            await each.returned.wait()
        await wait_all_tasks_blocked()
        after = [await client.post(message("ping", id=4)), await client.request("GET"), await client.request("DELETE")]

        assert (deleted.status, deleted.body) == (204, b"")
        assert theatre.log == ["cancelled", "cancelled"]
        assert standing.complete
        assert talking.complete
        assert silent.complete
        assert silent.status == (200 if kept else 404)
        assert [each.status for each in after] == [404, 404, 404]
        assert listening(client) == 0
        assert sessions_of(client).sessions == 0


async def test_an_answer_that_is_there_when_a_session_is_deleted_still_arrives(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        calling = client.caller(call("say", words=["a"]))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        theatre.go.set()
        await wait_all_tasks_blocked()
        await client.request("DELETE")
        calling.read_on()
        await calling.returned.wait()

    assert text_of(calling) == "said"


async def test_unread_messages_of_the_standing_stream_end_with_the_session(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        for number in range(60):
            theatre.server.tool(name=f"another {number}")(theatre.seen)
            await wait_all_tasks_blocked()
        await client.request("DELETE")
        await wait_all_tasks_blocked()

        assert tasks_of(client) == 1, "only the one that looks for idle sessions"
        assert listening(client) == 0


def tasks_of(client: ByHand) -> int:
    """Return how many tasks the sessions of the application have."""
    running = client.app._router.running
    assert running is not None
    return len(running.sessions._nursery.child_tasks)


async def test_no_session_leaves_a_task_behind(theatre: Theatre, kept: bool) -> None:
    theatre.go.set()
    async with open_theatre(theatre, kept=kept) as client:
        for _ in range(10):
            each = await ByHand(client.app, client.nursery).begin()
            standing = each.get()
            await each.post(call("say", words=["a"]))
            await each.request("DELETE")
            await standing.returned.wait()
        await wait_all_tasks_blocked()

        assert tasks_of(client) == 1


async def test_a_session_forgets_the_streams_that_are_over(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        left = client.start(call("wait", 2))
        cancelled = client.start(call("wait", 3))
        await wait_all_tasks_blocked()
        left.leave()
        await client.post(message("notifications/cancelled", {"requestId": 3}))
        theatre.go.set()
        await client.post(call("say", 4, words=["a"]))
        await cancelled.returned.wait()
        await wait_all_tasks_blocked()

        running = client.app._router.running
        assert running is not None
        (session,) = running.sessions._table.values()
        assert isinstance(session, StreamableSession)
        assert list(session._outlets) == [0], "the standing one"


async def test_other_sessions_live_on(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        other = await ByHand(client.app, client.nursery).begin()
        theirs = other.start(call("wait"))
        await wait_all_tasks_blocked()
        await client.request("DELETE")
        theatre.go.set()
        await theirs.returned.wait()

        assert text_of(theirs) == "went"
        assert sessions_of(client).sessions == 1


@pytest.mark.parametrize("seed", range(10))
async def test_a_session_may_be_deleted_at_any_moment_of_a_request(seed: int) -> None:
    _run._r.seed(seed)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it
    theatre = Theatre()
    theatre.go.set()
    for moment in range(12):
        async with open_theatre(theatre, kept=bool(seed % 2)) as client:
            await client.begin()
            standing, calling = client.get(), client.start(call("say", words=["a", "b"]))
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            deleted = await client.request("DELETE")
            await standing.returned.wait()
            await calling.returned.wait()
            await wait_all_tasks_blocked()

            assert deleted.status == 204
            assert calling.complete
            assert sessions_of(client).sessions == sessions_of(client).outbox_bytes == 0


# Idle.


async def test_a_session_that_rests_for_too_long_ends(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        await trio.sleep(IDLE - 1)
        used = await client.post(message("ping", id=2))
        await trio.sleep(IDLE - 1)
        assert used.status == 200
        assert sessions_of(client).sessions == listening(client) == 1

        await trio.sleep(2)
        assert sessions_of(client).sessions == listening(client) == 0
        late = await client.post(message("ping", id=3))

    assert late.status == 404


async def test_nothing_that_is_used_is_idle(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        standing = client.get()
        await trio.sleep(10 * IDLE)
        calling = client.start(call("wait"))
        await trio.sleep(1)
        standing.leave()
        calling.leave()
        await trio.sleep(10 * IDLE)
        assert sessions_of(client).sessions == 1

        theatre.go.set()
        await trio.sleep(IDLE - 1)
        assert sessions_of(client).idle == 1
        await trio.sleep(2)
        assert sessions_of(client).sessions == 0


async def test_a_session_without_its_initialized_ends_within_seconds(
    theatre: Theatre, autojump_clock: MockClock
) -> None:
    async with open_theatre(theatre) as client:
        client.headers[SESSION] = (await client.post(initialize())).headers[SESSION]
        await trio.sleep(HALF_OPEN - 1)
        used = await client.post(message("ping", id=2))
        await trio.sleep(HALF_OPEN - 1)
        assert used.status == 200
        assert sessions_of(client).half_open == 1

        await trio.sleep(2)
        assert sessions_of(client).sessions == 0


async def test_each_session_ends_in_its_own_time(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre, idle_seconds=100.0) as client:
        for _ in range(3):
            await ByHand(client.app, client.nursery).begin()
            await trio.sleep(30)
        counts: list[int] = []
        for _ in range(5):
            counts.append(sessions_of(client).sessions)
            await trio.sleep(30)

    assert counts == [3, 2, 1, 0, 0]


# Out of room.


async def test_where_there_is_no_room_one_without_a_handshake_goes_first(
    theatre: Theatre, autojump_clock: MockClock
) -> None:
    async with open_theatre(theatre, max_sessions=3) as client:
        first = await ByHand(client.app, client.nursery).begin()
        await trio.sleep(SPARED)
        second = await ByHand(client.app, client.nursery).begin()
        half_open = await client.post(initialize())
        await client.begin()

        assert [(await each.post(message("ping", id=2))).status for each in (first, second, client)] == [200] * 3
        gone = await client.post(message("ping", id=2), mcp_session_id=half_open.headers[SESSION])
        assert gone.status == 404


async def test_otherwise_the_one_that_rests_longest_goes(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre, max_sessions=3) as client:
        clients = [await ByHand(client.app, client.nursery).begin() for _ in range(3)]
        clients[0].get()
        await trio.sleep(SPARED)
        await clients[1].post(message("ping", id=2))
        await client.begin()

        assert [(await each.post(message("ping", id=3))).status for each in clients] == [200, 200, 404]
        await clients[0].request("DELETE")


async def test_if_no_session_can_be_replaced_the_new_one_is_refused_for_now(
    theatre: Theatre, autojump_clock: MockClock
) -> None:
    async with open_theatre(theatre, max_sessions=2) as client:
        clients = [await ByHand(client.app, client.nursery).begin() for _ in range(2)]
        refused = await client.post(initialize())
        also = await client.request("GET")

        assert (refused.status, refused.code, refused.answer["id"]) == (503, INVALID_REQUEST, 1)
        assert refused.headers["retry-after"] == "30"
        assert also.status == 503
        assert [(await each.post(message("ping", id=2))).status for each in clients] == [200] * 2


# With the server.


async def test_when_the_server_stops_requests_may_finish_and_streams_end(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        standing, calling = client.get(), client.start(call("wait"))
        await wait_all_tasks_blocked()
        client.app.stop()
        client.nursery.start_soon(client.app.drained)
        await wait_all_tasks_blocked()
        late = await client.post(message("ping", id=3))
        theatre.go.set()
        await calling.returned.wait()
        await standing.returned.wait()

    assert late.status == 503
    assert text_of(calling) == "went"
    assert standing.complete


async def test_unfinished_requests_fail_because_the_server_stops(
    theatre: Theatre, kept: bool, autojump_clock: MockClock
) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        silent, talking = client.start(call("wait", 2)), client.start(call("say", 3, words=["a"]))
        await talking.messages_are(1)
        before = trio.current_time()

    assert trio.current_time() - before < 8
    assert silent.code == talking.code == INTERNAL_ERROR
    assert logged(talking) == ["a"]
    assert "stopped" in silent.answer["error"]["message"]
    assert silent.complete
    assert talking.complete
    assert theatre.log == ["cancelled", "cancelled"]


async def test_an_application_that_is_cancelled_does_not_wait(theatre: Theatre, autojump_clock: MockClock) -> None:
    before, calling = trio.current_time(), list[Caller]()
    with trio.CancelScope() as scope:
        async with open_theatre(theatre) as client:
            await client.begin()
            calling.append(client.start(call("wait")))
            await wait_all_tasks_blocked()
            scope.cancel()

    assert trio.current_time() == before
    assert calling[0].returned.is_set()


@pytest.mark.parametrize("name", ["idle_seconds", "half_open_seconds", "max_sessions", "retry_seconds"])
@pytest.mark.parametrize("value", [0, -1, math.nan, True])
def test_a_number_that_makes_no_sense_is_refused_by_name(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=name):
        SessionSettings(**settings)


@pytest.mark.parametrize("settings", [{"retry_seconds": math.inf}, {"sse_path": "sse"}])
def test_so_is_anything_else_that_makes_no_sense(settings: dict[str, Any]) -> None:
    (name,) = settings

    with pytest.raises(ValueError, match=name):
        SessionSettings(**settings)
