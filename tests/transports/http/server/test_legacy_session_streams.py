"""Event streams of legacy sessions: the standalone stream, stored streams, and clients that resume them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio._core import _run
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.asgi_caller import AsgiCaller
from tests.transports.http.server.raw_session_client import (
    LATEST,
    RawSessionClient,
    ToolServer,
    call,
    events_of,
    logged,
    message,
    open_session_client,
    session_statistics,
    text_of,
)
from trio_mcp import Limits, MemoryEventStore, SessionSettings, SqliteEventStore, http_app
from trio_mcp.abc import EventLog
from trio_mcp.wire import INVALID_REQUEST, SseDecoder

BUSY = -31_000


@pytest.fixture
def tool_server() -> ToolServer:
    return ToolServer()


def change_tools(tool_server: ToolServer) -> None:
    """Change the list of tools, of which clients are notified."""

    async def another() -> None: ...

    tool_server.server.tool(another)
    tool_server.server.tools.remove("another")


def methods(caller: AsgiCaller) -> list[str]:
    return [each["method"] for each in caller.messages]


def retry_of(caller: AsgiCaller) -> int | None:
    """Return the last retry time that the client received, in milliseconds."""
    decoder = SseDecoder(2**30)
    decoder.feed(caller.body)
    return decoder.retry_ms


def last_id(caller: AsgiCaller) -> str:
    decoder = SseDecoder(2**30)
    decoder.feed(caller.body)
    return decoder.last_event_id


CHANGED = "notifications/tools/list_changed"


# The standalone stream.


async def test_stored_streams_end_when_the_application_is_cancelled(tool_server: ToolServer) -> None:
    app = http_app(tool_server.server, sessions=SessionSettings(event_store=MemoryEventStore()))
    callers: list[AsgiCaller] = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with app.run():
                client = await RawSessionClient(app, nursery).begin()
                callers += [client.get(), client.start(call("log_twice", words=["a"]))]
                await callers[1].wait_for_messages(1)
                scope.cancel()
                await trio.sleep_forever()
        await wait_all_tasks_blocked()

        assert [caller.returned.is_set() for caller in callers] == [True, True]
        assert logged(callers[1]) == ["a"]
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("B.6-S1", "B.6-S6a", "B.6-S6b")
@pytest.mark.parametrize("resumable", [False, True])
async def test_messages_outside_of_requests_are_sent_on_the_standalone_stream(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        standalone = client.get()
        await wait_all_tasks_blocked()
        change_tools(tool_server)
        await standalone.wait_for_messages(1)
        answered = await client.post(call("add", a=1, b=2))

        assert standalone.is_stream
        assert methods(standalone) == [CHANGED]
        assert text_of(answered) == "3"
        standalone.disconnect()


@pytest.mark.parametrize("resumable", [False, True])
async def test_unread_messages_wait_for_the_next_standalone_stream(tool_server: ToolServer, resumable: bool) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        change_tools(tool_server)
        await wait_all_tasks_blocked()
        first = client.get()
        await first.wait_for_messages(1)
        first.disconnect()
        await first.returned.wait()
        change_tools(tool_server)
        await wait_all_tasks_blocked()
        second = client.get()
        await second.wait_for_messages(1)

        assert methods(first) == methods(second) == [CHANGED]
        second.disconnect()


@pytest.mark.parametrize("resumable", [False, True])
async def test_unread_messages_of_the_standalone_stream_are_bounded_and_merged(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        client.get().disconnect()
        await wait_all_tasks_blocked()
        for _ in range(200):
            change_tools(tool_server)
            await wait_all_tasks_blocked()
        waiting = session_statistics(client).outbox_bytes
        standalone = client.get()
        await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()

        assert 1000 <= waiting <= 3000
        assert 10 < len(standalone.messages) < 60
        standalone.disconnect()


@pytest.mark.requirement("B.6-S7")
@pytest.mark.parametrize("resumable", [False, True])
async def test_each_message_is_sent_on_the_newest_of_several_standalone_streams(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        older = client.get()
        await wait_all_tasks_blocked()
        newer = client.get()
        await wait_all_tasks_blocked()
        change_tools(tool_server)
        await newer.wait_for_messages(1)
        newer.disconnect()
        await newer.returned.wait()
        change_tools(tool_server)
        await older.wait_for_messages(1)

        assert methods(newer) == methods(older) == [CHANGED]
        older.disconnect()


async def test_a_standalone_stream_sends_keep_alives(tool_server: ToolServer, autojump_clock: MockClock) -> None:
    async with open_session_client(tool_server, keep_alive=10.0) as client:
        await client.begin()
        standalone = client.get()
        await trio.sleep(35)

        assert standalone.comments == 3
        standalone.disconnect()


async def test_the_open_streams_of_a_client_are_limited(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        streams = [client.get() for _ in range(16)]
        await wait_all_tasks_blocked()
        refused = await client.request("GET")
        streams[0].disconnect()
        await streams[0].returned.wait()
        again = client.get()
        await wait_all_tasks_blocked()

        assert (refused.status, refused.code) == (429, BUSY)
        assert again.is_stream
        for each in [*streams, again]:
            each.disconnect()


# Stored streams.


@pytest.mark.requirement("B.6-S5c", "B.6-S8c")
async def test_a_stored_stream_begins_at_once_with_the_id_to_resume_from(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True, retry_seconds=0.1) as client:
        await client.begin()
        quick = await client.post(message("ping", id=2))
        slow = client.start(call("wait"))
        standalone = client.get()
        await wait_all_tasks_blocked()

        assert (events_of(quick)[0].id, events_of(quick)[0].data) == ("3-0", b"")
        assert quick.answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert [(each.id, each.data) for each in events_of(slow)] == [("4-0", b"")]
        assert [(each.id, each.data) for each in events_of(standalone)] == [("0-0", b"")]
        assert {retry_of(each) for each in (quick, slow, standalone)} == {100}
        tool_server.go.set()
        standalone.disconnect()


@pytest.mark.requirement("B.6-S8a")
async def test_every_event_of_a_stored_stream_has_its_own_id(tool_server: ToolServer) -> None:
    tool_server.go.set()
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calls = [await client.post(call("log_twice", words=["a", "b"])) for _ in range(3)]
        ids = [each.id for caller in calls for each in events_of(caller)]

    assert len(set(ids)) == len(ids) == 18


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_clients_of_earlier_revisions_get_ids_but_no_event_without_data(
    tool_server: ToolServer, revision: str
) -> None:
    tool_server.go.set()
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin(revision)
        calling = await client.post(call("log_twice", words=["a"]))
        rest = client.get("3-1")
        await rest.returned.wait()

    assert [each.id for each in events_of(calling)] == ["3-1", "3-2", "3-3"]
    assert retry_of(calling) is None
    assert [each.id for each in events_of(rest)] == ["3-2", "3-3"]


@pytest.mark.requirement("B.6-S8b")
async def test_a_disconnected_client_resumes_the_rest_of_its_stream(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling, other = (
            client.start(call("log_twice", 2, words=["a", "b"])),
            client.start(call("log_twice", 3, words=["c"])),
        )
        await calling.wait_for_messages(2)
        await other.wait_for_messages(1)
        missed = events_of(calling)[1].id
        calling.disconnect()
        await calling.returned.wait()

        rest = client.get(missed)
        await rest.wait_for_messages(1)
        assert logged(rest) == ["b"]
        tool_server.go.set()
        await rest.returned.wait()
        await other.returned.wait()

    assert logged(rest) == ["b", "a again", "b again"]
    assert text_of(rest) == "logged"
    assert rest.complete
    assert logged(other) == ["c", "c again"]


async def test_a_stream_that_is_stored_in_a_file_is_resumed(tool_server: ToolServer, tmp_path: Path) -> None:
    async with open_session_client(tool_server, event_store=SqliteEventStore(tmp_path / "events.db")) as client:
        await client.begin()
        calling = client.start(call("log_twice", words=["a", "b"]))
        await calling.wait_for_messages(2)
        calling.disconnect()
        await calling.returned.wait()
        tool_server.go.set()
        rest = client.get(events_of(calling)[1].id)
        await rest.returned.wait()

    assert logged(rest) == ["b", "a again", "b again"]
    assert text_of(rest) == "logged"


async def test_the_answer_waits_for_a_client_that_resumes_late(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = client.start(call("log_twice", words=["a"]))
        await calling.wait_for_messages(1)
        event_id = last_id(calling)
        calling.disconnect()
        await calling.returned.wait()
        tool_server.go.set()
        await wait_all_tasks_blocked()
        assert session_statistics(client).undelivered == 0

        rest, again = (
            await client.request("GET", last_event_id=event_id),
            await client.request("GET", last_event_id="3-0"),
        )
        at_the_end = await client.request("GET", last_event_id=last_id(rest))

    assert logged(rest) == ["a again"]
    assert text_of(rest) == "logged"
    assert logged(again) == ["a", "a again"]
    assert (at_the_end.status, at_the_end.code) == (400, INVALID_REQUEST)


async def test_a_client_may_resume_a_stream_that_is_still_open(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = client.start(call("log_twice", words=["a"]))
        await calling.wait_for_messages(1)
        newer = client.get(last_id(calling))
        await wait_all_tasks_blocked()
        tool_server.go.set()
        await newer.returned.wait()
        await calling.returned.wait()

    assert logged(calling) == ["a"]
    assert logged(newer) == ["a again"]
    assert text_of(newer) == "logged"


@pytest.mark.parametrize(
    "event_id", ["x", "3", "3-x", "-1-0", "3-99", "99-0", "3-0-0", "٣-0", "1" * 5000 + "-0", "1-0"]
)
async def test_an_unknown_or_malformed_event_id_is_refused(tool_server: ToolServer, event_id: str) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = client.start(call("wait"))
        await wait_all_tasks_blocked()
        refused = await client.request("GET", last_event_id=event_id.encode().decode("latin-1"))
        tool_server.go.set()
        await calling.returned.wait()

    assert (refused.status, refused.code) == (400, INVALID_REQUEST)


async def test_a_session_cannot_resume_the_streams_of_another(tool_server: ToolServer) -> None:
    tool_server.go.set()
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = await client.post(call("log_twice", words=["secret"]))
        other = await RawSessionClient(client.app, client.nursery).begin()
        theirs = await other.request("GET", last_event_id="3-0")
        pinged = await other.post(message("ping", id=2))
        own = await other.request("GET", last_event_id="3-0")

    assert logged(calling) == ["secret", "secret again"]
    assert theirs.status == 400
    assert pinged.status == 200
    assert [each["id"] for each in own.messages] == [2]


async def test_the_id_of_an_event_is_ignored_without_an_event_store(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        standalone = client.get("3-0")
        await wait_all_tasks_blocked()
        change_tools(tool_server)
        await standalone.wait_for_messages(1)

        assert methods(standalone) == [CHANGED]
        standalone.disconnect()


async def test_a_standalone_stream_is_resumed_at_its_position(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        standalone = client.get()
        for count in (1, 2):
            await wait_all_tasks_blocked()
            change_tools(tool_server)
            await standalone.wait_for_messages(count)
        standalone.disconnect()
        await standalone.returned.wait()
        change_tools(tool_server)
        await wait_all_tasks_blocked()
        again = client.get("0-1")
        await again.wait_for_messages(2)

        assert [each.id for each in events_of(again)] == ["0-1", "0-2", "0-3"]
        again.disconnect()


async def test_a_handler_does_not_wait_for_a_disconnected_client_that_may_resume(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = client.caller(call("flood", count=300))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        assert len(tool_server.log) < 300
        calling.disconnect()
        await wait_all_tasks_blocked()
        assert len(tool_server.log) == 300

        rest = await client.request("GET", last_event_id="3-0")

    assert len(logged(rest)) == 300
    assert text_of(rest) == "300"


async def test_a_slow_client_that_resumes_delays_the_handler_and_misses_nothing(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = client.start(call("log_twice", words=[str(number) for number in range(100)]))
        await calling.wait_for_messages(100)
        calling.disconnect()
        await calling.returned.wait()
        rest = client.get("3-0")
        rest.stop_reading()
        tool_server.go.set()
        await wait_all_tasks_blocked()
        assert session_statistics(client).outbox_bytes >= 1000

        rest.resume_reading()
        await rest.returned.wait()

    assert logged(rest) == [*map(str, range(100)), *(f"{number} again" for number in range(100))]


# Streams that a handler closes.


@pytest.mark.parametrize(("retry", "retry_ms"), [(None, 1000), (2.5, 2500), (0, 0)])
async def test_a_handler_may_close_the_stream_and_the_client_resumes_it_for_the_answer(
    tool_server: ToolServer, retry: float | None, retry_ms: int
) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = await client.post(call("close_stream", retry=retry))
        assert calling.complete
        assert events_of(calling)[0].data == b""
        assert "result" not in calling.body.decode()
        assert retry_of(calling) == retry_ms

        rest = client.get(last_id(calling))
        await wait_all_tasks_blocked()
        assert not rest.complete
        tool_server.go.set()
        await rest.returned.wait()

    assert logged(calling) + logged(rest) == ["before", "after"]
    assert text_of(rest) == "done"
    assert tool_server.log == ["done"]


async def test_closing_a_stream_that_is_closed_does_nothing(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = await client.post(call("close_stream", times=2))
        tool_server.go.set()
        await wait_all_tasks_blocked()
        rest = await client.request("GET", last_event_id=last_id(calling))

    assert text_of(rest) == "done"


@pytest.mark.requirement("B.6-S5b")
@pytest.mark.parametrize(("revision", "resumable"), [("2025-06-18", True), (LATEST, False)])
async def test_the_stream_of_a_client_that_cannot_resume_it_is_not_closed(
    tool_server: ToolServer, revision: str, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin(revision)
        calling = client.start(call("close_stream"))
        await calling.wait_for_messages(2)
        assert not calling.complete
        tool_server.go.set()
        await calling.returned.wait()

    assert logged(calling) == ["before", "after"]
    assert text_of(calling) == "done"


@pytest.mark.parametrize("retry", [-1, "inf", "nan"])
async def test_an_invalid_pause_is_an_error_of_the_handler(tool_server: ToolServer, retry: Any) -> None:
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        calling = await client.post(call("close_stream", retry=retry))

    assert calling.answer["result"]["isError"]


# Event stores that fail.


class Broken:
    """An event store that fails after the first appended events."""

    def __init__(self, works_for: int) -> None:
        self.works_for = works_for

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[EventLog]:
        yield self

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        self.works_for -= 1
        if self.works_for < 0:
            raise OSError("no space left on device")

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        raise OSError("it is gone")

    async def forget(self, owner: str) -> None:
        raise OSError("it is gone")


async def test_a_failing_event_store_prevents_resumption_and_nothing_else(
    tool_server: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "trio_mcp")
    tool_server.go.set()
    async with open_session_client(tool_server, event_store=Broken(works_for=1)) as client:
        await client.begin()
        calling = await client.post(call("log_twice", words=["a", "b"]))
        lost = await client.request("GET", last_event_id="3-0")
        await client.request("DELETE")

    assert logged(calling) == ["a", "b", "a again", "b again"]
    assert text_of(calling) == "logged"
    assert lost.status == 400
    assert caplog.text.count("the event store fails") == 1
    assert "no space left" in caplog.text or "it is gone" in caplog.text


async def test_a_client_whose_stored_events_are_lost_gets_the_later_messages(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, event_store=Broken(works_for=0)) as client:
        await client.begin()
        calling = client.start(call("log_twice", words=["a"]))
        await calling.wait_for_messages(1)
        calling.disconnect()
        await calling.returned.wait()
        rest = client.get("3-0")
        await wait_all_tasks_blocked()
        tool_server.go.set()
        await rest.returned.wait()

    assert logged(rest) == ["a again"]
    assert text_of(rest) == "logged"


async def test_the_stored_events_of_a_session_are_deleted_with_it(tool_server: ToolServer) -> None:
    store = MemoryEventStore()
    logs: list[Any] = []

    class Watched:
        @asynccontextmanager
        async def open(self) -> AsyncGenerator[EventLog]:
            async with store.open() as log:
                logs.append(log)
                yield log

    tool_server.go.set()
    async with open_session_client(tool_server, event_store=Watched()) as client:
        await client.begin()
        await client.post(call("log_twice", words=["a"]))
        assert logs[0]._quota.events == 3
        await client.request("DELETE")
        await wait_all_tasks_blocked()

        assert logs[0]._quota.events == 0


# Random schedules.


@pytest.fixture(params=range(15))
def seed(request: pytest.FixtureRequest) -> int:
    """Seed the order in which Trio runs tasks."""
    seed: int = request.param
    _run._r.seed(seed)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it
    return seed


async def test_no_message_is_lost_or_repeated_when_the_client_is_disconnected_many_times(seed: int) -> None:
    tool_server = ToolServer(limits=Limits(outbox_bytes=300, max_logs_per_second=1e9))
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        caller = client.start(call("log_twice", words=[str(number) for number in range(20)]))
        await caller.wait_for_messages(1)
        received: list[Any] = []
        event_id, rounds = "3-0", 0
        while not any("result" in each for each in received):
            rounds += 1
            for _ in range((seed * rounds) % 7 + 1):
                await trio.lowlevel.checkpoint()
            if rounds == 5:
                tool_server.go.set()
            if rounds > 8:
                await caller.returned.wait()
            caller.disconnect()
            received += caller.messages
            event_id = last_id(caller) or event_id
            if not any("result" in each for each in received):
                caller = client.get(event_id)

    words = [each["params"]["data"] for each in received[:-1]]
    assert words == [*map(str, range(20)), *(f"{number} again" for number in range(20))]


async def test_a_stream_that_is_resumed_while_it_is_open_is_complete(seed: int) -> None:
    tool_server = ToolServer(limits=Limits(outbox_bytes=300, max_logs_per_second=1e9))
    async with open_session_client(tool_server, resumable=True) as client:
        await client.begin()
        callers = [client.start(call("log_twice", words=[str(number) for number in range(20)]))]
        await callers[0].wait_for_messages(1)
        for take_over in range(seed % 5 + 1):
            for _ in range(seed):
                await trio.lowlevel.checkpoint()
            if take_over == 1:
                tool_server.go.set()
            callers.append(client.get(last_id(callers[-1]) or "3-0"))
        tool_server.go.set()
        for caller in callers:
            await caller.returned.wait()

    received = {event.id: event.data for caller in callers for event in events_of(caller) if event.data}
    assert sorted(int(id.removeprefix("3-")) for id in received) == list(range(1, 42))
    assert all(caller.complete for caller in callers)
