"""The end of legacy sessions: deletion, idle timeout, replacement, and the shutdown of the server."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio._core import _run
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.asgi_caller import AsgiCaller
from tests.transports.http.server.raw_session_client import (
    SESSION,
    RawSessionClient,
    ToolServer,
    call,
    initialize,
    logged,
    message,
    open_session_client,
    session_statistics,
    text_of,
)
from trio_mcp import SessionSettings
from trio_mcp.transports.http.server._legacy_session import StreamableSession
from trio_mcp.wire import INTERNAL_ERROR, INVALID_REQUEST

IDLE, HALF_OPEN = 1800.0, 30.0
PROTECTED_SECONDS = 60.0


@pytest.fixture
def tool_server() -> ToolServer:
    return ToolServer()


@pytest.fixture(params=[False, True], ids=["without event store", "with event store"])
def resumable(request: pytest.FixtureRequest) -> bool:
    is_resumable: bool = request.param
    return is_resumable


def listening(client: RawSessionClient) -> int:
    """Return the number of sessions that the server notifies of changes."""
    running = client.app._router.running
    assert running is not None
    serving: Any = running.serving
    count: int = serving.statistics().listening
    return count


# Deletion.


async def test_a_deleted_session_ends_with_all_its_streams_and_handlers(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        standalone, waiting_call = client.get(), client.start(call("wait", 2))
        streaming = client.start(call("log_twice", 3, words=["a"]))
        await streaming.wait_for_messages(1)
        await wait_all_tasks_blocked()
        assert listening(client) == 1

        deleted = await client.request("DELETE")
        for each in (standalone, waiting_call, streaming):
            await each.returned.wait()
        await wait_all_tasks_blocked()
        after = [await client.post(message("ping", id=4)), await client.request("GET"), await client.request("DELETE")]

        assert (deleted.status, deleted.body) == (204, b"")
        assert tool_server.log == ["cancelled", "cancelled"]
        assert standalone.complete
        assert streaming.complete
        assert waiting_call.complete
        assert waiting_call.status == (200 if resumable else 404)
        assert [each.status for each in after] == [404, 404, 404]
        assert listening(client) == 0
        assert session_statistics(client).sessions == 0


async def test_an_answer_that_is_ready_when_its_session_is_deleted_still_arrives(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        calling = client.caller(call("log_twice", words=["a"]))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        tool_server.go.set()
        await wait_all_tasks_blocked()
        await client.request("DELETE")
        calling.resume_reading()
        await calling.returned.wait()

    assert text_of(calling) == "logged"


async def test_unread_messages_of_the_standalone_stream_end_with_the_session(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        for number in range(60):
            tool_server.server.tool(name=f"another {number}")(tool_server.show_context)
            await wait_all_tasks_blocked()
        await client.request("DELETE")
        await wait_all_tasks_blocked()

        assert tasks_of(client) == 1, "only the task that ends idle sessions"
        assert listening(client) == 0


def tasks_of(client: RawSessionClient) -> int:
    """Return the number of tasks of the application's sessions."""
    running = client.app._router.running
    assert running is not None
    return len(running.sessions._nursery.child_tasks)


async def test_deleted_sessions_leave_no_task_behind(tool_server: ToolServer, resumable: bool) -> None:
    tool_server.go.set()
    async with open_session_client(tool_server, resumable=resumable) as client:
        for _ in range(10):
            each = await RawSessionClient(client.app, client.nursery).begin()
            standalone = each.get()
            await each.post(call("log_twice", words=["a"]))
            await each.request("DELETE")
            await standalone.returned.wait()
        await wait_all_tasks_blocked()

        assert tasks_of(client) == 1


async def test_a_session_drops_the_outlets_of_completed_requests(tool_server: ToolServer, resumable: bool) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        left = client.start(call("wait", 2))
        cancelled = client.start(call("wait", 3))
        await wait_all_tasks_blocked()
        left.disconnect()
        await client.post(message("notifications/cancelled", {"requestId": 3}))
        tool_server.go.set()
        await client.post(call("log_twice", 4, words=["a"]))
        await cancelled.returned.wait()
        await wait_all_tasks_blocked()

        running = client.app._router.running
        assert running is not None
        (session,) = running.sessions._table.values()
        assert isinstance(session, StreamableSession)
        assert list(session._outlets) == [0], "the standalone stream"


async def test_deleting_a_session_does_not_affect_other_sessions(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        other = await RawSessionClient(client.app, client.nursery).begin()
        theirs = other.start(call("wait"))
        await wait_all_tasks_blocked()
        await client.request("DELETE")
        tool_server.go.set()
        await theirs.returned.wait()

        assert text_of(theirs) == "done"
        assert session_statistics(client).sessions == 1


@pytest.mark.parametrize("seed", range(10))
async def test_a_session_may_be_deleted_at_any_moment_of_a_request(seed: int) -> None:
    _run._r.seed(seed)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it
    tool_server = ToolServer()
    tool_server.go.set()
    for moment in range(12):
        async with open_session_client(tool_server, resumable=bool(seed % 2)) as client:
            await client.begin()
            standalone, calling = client.get(), client.start(call("log_twice", words=["a", "b"]))
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            deleted = await client.request("DELETE")
            await standalone.returned.wait()
            await calling.returned.wait()
            await wait_all_tasks_blocked()

            assert deleted.status == 204
            assert calling.complete
            assert session_statistics(client).sessions == session_statistics(client).outbox_bytes == 0


# Idle timeout.


async def test_an_idle_session_ends_after_the_idle_timeout(tool_server: ToolServer, autojump_clock: MockClock) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        await trio.sleep(IDLE - 1)
        used = await client.post(message("ping", id=2))
        await trio.sleep(IDLE - 1)
        assert used.status == 200
        assert session_statistics(client).sessions == listening(client) == 1

        await trio.sleep(2)
        assert session_statistics(client).sessions == listening(client) == 0
        late = await client.post(message("ping", id=3))

    assert late.status == 404


async def test_a_session_with_an_open_stream_or_a_request_in_flight_is_not_idle(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        standalone = client.get()
        await trio.sleep(10 * IDLE)
        calling = client.start(call("wait"))
        await trio.sleep(1)
        standalone.disconnect()
        calling.disconnect()
        await trio.sleep(10 * IDLE)
        assert session_statistics(client).sessions == 1

        tool_server.go.set()
        await trio.sleep(IDLE - 1)
        assert session_statistics(client).idle == 1
        await trio.sleep(2)
        assert session_statistics(client).sessions == 0


async def test_a_session_without_an_initialized_notification_ends_within_seconds(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server) as client:
        client.headers[SESSION] = (await client.post(initialize())).headers[SESSION]
        await trio.sleep(HALF_OPEN - 1)
        used = await client.post(message("ping", id=2))
        await trio.sleep(HALF_OPEN - 1)
        assert used.status == 200
        assert session_statistics(client).half_open == 1

        await trio.sleep(2)
        assert session_statistics(client).sessions == 0


async def test_each_session_has_its_own_idle_timeout(tool_server: ToolServer, autojump_clock: MockClock) -> None:
    async with open_session_client(tool_server, idle_seconds=100.0) as client:
        for _ in range(3):
            await RawSessionClient(client.app, client.nursery).begin()
            await trio.sleep(30)
        counts: list[int] = []
        for _ in range(5):
            counts.append(session_statistics(client).sessions)
            await trio.sleep(30)

    assert counts == [3, 2, 1, 0, 0]


# Replacement.


async def test_at_the_limit_a_session_without_a_complete_handshake_is_replaced_first(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server, max_sessions=3) as client:
        first = await RawSessionClient(client.app, client.nursery).begin()
        await trio.sleep(PROTECTED_SECONDS)
        second = await RawSessionClient(client.app, client.nursery).begin()
        half_open = await client.post(initialize())
        await client.begin()

        assert [(await each.post(message("ping", id=2))).status for each in (first, second, client)] == [200] * 3
        gone = await client.post(message("ping", id=2), mcp_session_id=half_open.headers[SESSION])
        assert gone.status == 404


async def test_at_the_limit_the_session_that_was_idle_longest_is_replaced(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server, max_sessions=3) as client:
        clients = [await RawSessionClient(client.app, client.nursery).begin() for _ in range(3)]
        clients[0].get()
        await trio.sleep(PROTECTED_SECONDS)
        await clients[1].post(message("ping", id=2))
        await client.begin()

        assert [(await each.post(message("ping", id=3))).status for each in clients] == [200, 200, 404]
        await clients[0].request("DELETE")


async def test_a_new_session_is_refused_if_no_other_can_be_replaced(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server, max_sessions=2) as client:
        clients = [await RawSessionClient(client.app, client.nursery).begin() for _ in range(2)]
        refused = await client.post(initialize())
        refused_stream = await client.request("GET")

        assert (refused.status, refused.code, refused.answer["id"]) == (503, INVALID_REQUEST, 1)
        assert refused.headers["retry-after"] == "30"
        assert refused_stream.status == 503
        assert [(await each.post(message("ping", id=2))).status for each in clients] == [200] * 2


# Shutdown.


async def test_when_the_server_stops_requests_in_flight_finish_and_streams_end(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        standalone, calling = client.get(), client.start(call("wait"))
        await wait_all_tasks_blocked()
        client.app.stop()
        client.nursery.start_soon(client.app.drained)
        await wait_all_tasks_blocked()
        late = await client.post(message("ping", id=3))
        tool_server.go.set()
        await calling.returned.wait()
        await standalone.returned.wait()

    assert late.status == 503
    assert text_of(calling) == "done"
    assert standalone.complete


async def test_unfinished_requests_fail_when_the_server_has_stopped(
    tool_server: ToolServer, resumable: bool, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        waiting_call, streaming = client.start(call("wait", 2)), client.start(call("log_twice", 3, words=["a"]))
        await streaming.wait_for_messages(1)
        before = trio.current_time()

    assert trio.current_time() - before < 8
    assert waiting_call.code == streaming.code == INTERNAL_ERROR
    assert logged(streaming) == ["a"]
    assert "stopped" in waiting_call.answer["error"]["message"]
    assert waiting_call.complete
    assert streaming.complete
    assert tool_server.log == ["cancelled", "cancelled"]


async def test_a_cancelled_application_does_not_wait_for_its_handlers(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    before, calling = trio.current_time(), list[AsgiCaller]()
    with trio.CancelScope() as scope:
        async with open_session_client(tool_server) as client:
            await client.begin()
            calling.append(client.start(call("wait")))
            await wait_all_tasks_blocked()
            scope.cancel()

    assert trio.current_time() == before
    assert calling[0].returned.is_set()


@pytest.mark.parametrize("name", ["idle_seconds", "half_open_seconds", "max_sessions", "retry_seconds"])
@pytest.mark.parametrize("value", [0, -1, math.nan, True])
def test_an_invalid_number_in_the_settings_is_refused_by_name(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=name):
        SessionSettings(**settings)


@pytest.mark.parametrize("settings", [{"retry_seconds": math.inf}, {"sse_path": "sse"}])
def test_an_infinite_retry_time_or_a_relative_path_is_refused_by_name(settings: dict[str, Any]) -> None:
    (name,) = settings

    with pytest.raises(ValueError, match=name):
        SessionSettings(**settings)
