"""Event streams of a session: the standing one, those that are kept, and clients that come back."""

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

from tests.transports.http.asgi_caller import Caller
from tests.transports.http.server.scripted_client import (
    LATEST,
    ByHand,
    Theatre,
    call,
    events_of,
    logged,
    message,
    open_theatre,
    sessions_of,
    text_of,
)
from trio_mcp import Limits, MemoryEventStore, SessionSettings, SqliteEventStore, http_app
from trio_mcp.abc import EventLog
from trio_mcp.wire import INVALID_REQUEST, SseDecoder

BUSY = -31_000


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


def news(theatre: Theatre) -> None:
    """Change a list that clients are told of."""

    async def another() -> None: ...

    theatre.server.tool(another)
    theatre.server.tools.remove("another")


def methods(caller: Caller) -> list[str]:
    return [each["method"] for each in caller.messages]


def retry_of(caller: Caller) -> int | None:
    """Return when the client was told last to come back, in milliseconds."""
    decoder = SseDecoder(2**30)
    decoder.feed(caller.body)
    return decoder.retry_ms


def last_id(caller: Caller) -> str:
    decoder = SseDecoder(2**30)
    decoder.feed(caller.body)
    return decoder.last_event_id


CHANGED = "notifications/tools/list_changed"


# The standing stream.


async def test_stored_streams_end_when_the_run_is_cancelled(theatre: Theatre) -> None:
    app = http_app(theatre.server, sessions=SessionSettings(event_store=MemoryEventStore()))
    callers: list[Caller] = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with app.run():
                client = await ByHand(app, nursery).begin()
                callers += [client.get(), client.start(call("say", words=["a"]))]
                await callers[1].messages_are(1)
                scope.cancel()
                await trio.sleep_forever()
        await wait_all_tasks_blocked()

        assert [caller.returned.is_set() for caller in callers] == [True, True]
        assert logged(callers[1]) == ["a"]
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("B.6-S1", "B.6-S6a", "B.6-S6b")
@pytest.mark.parametrize("kept", [False, True])
async def test_what_belongs_to_no_request_goes_out_by_the_standing_stream(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        standing = client.get()
        await wait_all_tasks_blocked()
        news(theatre)
        await standing.messages_are(1)
        answered = await client.post(call("add", a=1, b=2))

        assert standing.streams
        assert methods(standing) == [CHANGED]
        assert text_of(answered) == "3"
        standing.leave()


@pytest.mark.parametrize("kept", [False, True])
async def test_unread_messages_wait_for_the_next_standing_stream(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        news(theatre)
        await wait_all_tasks_blocked()
        first = client.get()
        await first.messages_are(1)
        first.leave()
        await first.returned.wait()
        news(theatre)
        await wait_all_tasks_blocked()
        second = client.get()
        await second.messages_are(1)

        assert methods(first) == methods(second) == [CHANGED]
        second.leave()


@pytest.mark.parametrize("kept", [False, True])
async def test_unread_messages_of_the_standing_stream_are_bounded_and_merged(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        client.get().leave()
        await wait_all_tasks_blocked()
        for _ in range(200):
            news(theatre)
            await wait_all_tasks_blocked()
        waiting = sessions_of(client).outbox_bytes
        standing = client.get()
        await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()

        assert 1000 <= waiting <= 3000
        assert 10 < len(standing.messages) < 60
        standing.leave()


@pytest.mark.requirement("B.6-S7")
@pytest.mark.parametrize("kept", [False, True])
async def test_each_message_goes_to_the_newest_of_several_streams(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        older = client.get()
        await wait_all_tasks_blocked()
        newer = client.get()
        await wait_all_tasks_blocked()
        news(theatre)
        await newer.messages_are(1)
        newer.leave()
        await newer.returned.wait()
        news(theatre)
        await older.messages_are(1)

        assert methods(newer) == methods(older) == [CHANGED]
        older.leave()


async def test_a_standing_stream_sends_keep_alives(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre, keep_alive=10.0) as client:
        await client.begin()
        standing = client.get()
        await trio.sleep(35)

        assert standing.comments == 3
        standing.leave()


async def test_a_client_may_have_so_many_streams_open_and_no_more(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        streams = [client.get() for _ in range(16)]
        await wait_all_tasks_blocked()
        refused = await client.request("GET")
        streams[0].leave()
        await streams[0].returned.wait()
        again = client.get()
        await wait_all_tasks_blocked()

        assert (refused.status, refused.code) == (429, BUSY)
        assert again.streams
        for each in [*streams, again]:
            each.leave()


# Streams that are kept.


@pytest.mark.requirement("B.6-S5c", "B.6-S8c")
async def test_a_stored_stream_begins_at_once_with_the_id_to_resume_from(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True, retry_seconds=0.1) as client:
        await client.begin()
        quick = await client.post(message("ping", id=2))
        slow = client.start(call("wait"))
        standing = client.get()
        await wait_all_tasks_blocked()

        assert (events_of(quick)[0].id, events_of(quick)[0].data) == ("3-0", b"")
        assert quick.answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert [(each.id, each.data) for each in events_of(slow)] == [("4-0", b"")]
        assert [(each.id, each.data) for each in events_of(standing)] == [("0-0", b"")]
        assert {retry_of(each) for each in (quick, slow, standing)} == {100}
        theatre.go.set()
        standing.leave()


@pytest.mark.requirement("B.6-S8a")
async def test_every_event_of_a_stored_stream_has_its_own_id(theatre: Theatre) -> None:
    theatre.go.set()
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calls = [await client.post(call("say", words=["a", "b"])) for _ in range(3)]
        ids = [each.id for caller in calls for each in events_of(caller)]

    assert len(set(ids)) == len(ids) == 18


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_older_clients_get_ids_but_no_event_without_data(theatre: Theatre, revision: str) -> None:
    theatre.go.set()
    async with open_theatre(theatre, kept=True) as client:
        await client.begin(revision)
        calling = await client.post(call("say", words=["a"]))
        rest = client.get("3-1")
        await rest.returned.wait()

    assert [each.id for each in events_of(calling)] == ["3-1", "3-2", "3-3"]
    assert retry_of(calling) is None
    assert [each.id for each in events_of(rest)] == ["3-2", "3-3"]


@pytest.mark.requirement("B.6-S8b")
async def test_a_client_that_was_cut_off_comes_back_for_the_rest_of_that_stream(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling, other = client.start(call("say", 2, words=["a", "b"])), client.start(call("say", 3, words=["c"]))
        await calling.messages_are(2)
        await other.messages_are(1)
        missed = events_of(calling)[1].id
        calling.leave()
        await calling.returned.wait()

        rest = client.get(missed)
        await rest.messages_are(1)
        assert logged(rest) == ["b"]
        theatre.go.set()
        await rest.returned.wait()
        await other.returned.wait()

    assert logged(rest) == ["b", "a again", "b again"]
    assert text_of(rest) == "said"
    assert rest.complete
    assert logged(other) == ["c", "c again"]


async def test_events_in_a_file_are_as_good(theatre: Theatre, tmp_path: Path) -> None:
    async with open_theatre(theatre, event_store=SqliteEventStore(tmp_path / "events.db")) as client:
        await client.begin()
        calling = client.start(call("say", words=["a", "b"]))
        await calling.messages_are(2)
        calling.leave()
        await calling.returned.wait()
        theatre.go.set()
        rest = client.get(events_of(calling)[1].id)
        await rest.returned.wait()

    assert logged(rest) == ["b", "a again", "b again"]
    assert text_of(rest) == "said"


async def test_the_answer_waits_for_a_client_that_comes_back_late(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = client.start(call("say", words=["a"]))
        await calling.messages_are(1)
        mark = last_id(calling)
        calling.leave()
        await calling.returned.wait()
        theatre.go.set()
        await wait_all_tasks_blocked()
        assert sessions_of(client).undelivered == 0

        rest, again = await client.request("GET", last_event_id=mark), await client.request("GET", last_event_id="3-0")
        nothing = await client.request("GET", last_event_id=last_id(rest))

    assert logged(rest) == ["a again"]
    assert text_of(rest) == "said"
    assert logged(again) == ["a", "a again"]
    assert (nothing.status, nothing.code) == (400, INVALID_REQUEST)


async def test_a_client_may_take_over_a_stream_that_is_still_open(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = client.start(call("say", words=["a"]))
        await calling.messages_are(1)
        newer = client.get(last_id(calling))
        await wait_all_tasks_blocked()
        theatre.go.set()
        await newer.returned.wait()
        await calling.returned.wait()

    assert logged(calling) == ["a"]
    assert logged(newer) == ["a again"]
    assert text_of(newer) == "said"


@pytest.mark.parametrize("mark", ["x", "3", "3-x", "-1-0", "3-99", "99-0", "3-0-0", "٣-0", "1" * 5000 + "-0", "1-0"])
async def test_what_names_no_event_of_the_session_is_refused(theatre: Theatre, mark: str) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = client.start(call("wait"))
        await wait_all_tasks_blocked()
        refused = await client.request("GET", last_event_id=mark.encode().decode("latin-1"))
        theatre.go.set()
        await calling.returned.wait()

    assert (refused.status, refused.code) == (400, INVALID_REQUEST)


async def test_a_session_never_sees_the_streams_of_another(theatre: Theatre) -> None:
    theatre.go.set()
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = await client.post(call("say", words=["secret"]))
        other = await ByHand(client.app, client.nursery).begin()
        theirs = await other.request("GET", last_event_id="3-0")
        pinged = await other.post(message("ping", id=2))
        own = await other.request("GET", last_event_id="3-0")

    assert logged(calling) == ["secret", "secret again"]
    assert theirs.status == 400
    assert pinged.status == 200
    assert [each["id"] for each in own.messages] == [2]


async def test_without_a_store_the_id_of_an_event_means_nothing(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        standing = client.get("3-0")
        await wait_all_tasks_blocked()
        news(theatre)
        await standing.messages_are(1)

        assert methods(standing) == [CHANGED]
        standing.leave()


async def test_a_standing_stream_is_resumed_at_its_position(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        standing = client.get()
        for heard in (1, 2):
            await wait_all_tasks_blocked()
            news(theatre)
            await standing.messages_are(heard)
        standing.leave()
        await standing.returned.wait()
        news(theatre)
        await wait_all_tasks_blocked()
        again = client.get("0-1")
        await again.messages_are(2)

        assert [each.id for each in events_of(again)] == ["0-1", "0-2", "0-3"]
        again.leave()


async def test_a_handler_whose_client_may_come_back_is_not_held_up_either(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = client.caller(call("flood", count=300))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        assert len(theatre.log) < 300
        calling.leave()
        await wait_all_tasks_blocked()
        assert len(theatre.log) == 300

        rest = await client.request("GET", last_event_id="3-0")

    assert len(logged(rest)) == 300
    assert text_of(rest) == "300"


async def test_a_slow_client_that_comes_back_holds_the_handler_up_and_misses_nothing(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = client.start(call("say", words=[str(number) for number in range(100)]))
        await calling.messages_are(100)
        calling.leave()
        await calling.returned.wait()
        rest = client.get("3-0")
        rest.stop_reading()
        theatre.go.set()
        await wait_all_tasks_blocked()
        assert sessions_of(client).outbox_bytes >= 1000

        rest.read_on()
        await rest.returned.wait()

    assert logged(rest) == [*map(str, range(100)), *(f"{number} again" for number in range(100))]


# Sending a client away.


@pytest.mark.parametrize(("retry", "told"), [(None, 1000), (2.5, 2500), (0, 0)])
async def test_a_handler_may_send_the_client_away_and_it_comes_back_for_the_answer(
    theatre: Theatre, retry: float | None, told: int
) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = await client.post(call("let_go", retry=retry))
        assert calling.complete
        assert events_of(calling)[0].data == b""
        assert "result" not in calling.body.decode()
        assert retry_of(calling) == told

        rest = client.get(last_id(calling))
        await wait_all_tasks_blocked()
        assert not rest.complete
        theatre.go.set()
        await rest.returned.wait()

    assert logged(calling) + logged(rest) == ["before", "after"]
    assert text_of(rest) == "went"
    assert theatre.log == ["gone"]


async def test_a_client_that_is_away_already_cannot_be_sent_away(theatre: Theatre) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = await client.post(call("let_go", times=2))
        theatre.go.set()
        await wait_all_tasks_blocked()
        rest = await client.request("GET", last_event_id=last_id(calling))

    assert text_of(rest) == "went"


@pytest.mark.requirement("B.6-S5b")
@pytest.mark.parametrize(("revision", "kept"), [("2025-06-18", True), (LATEST, False)])
async def test_a_client_that_would_not_come_back_is_not_sent_away(theatre: Theatre, revision: str, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin(revision)
        calling = client.start(call("let_go"))
        await calling.messages_are(2)
        assert not calling.complete
        theatre.go.set()
        await calling.returned.wait()

    assert logged(calling) == ["before", "after"]
    assert text_of(calling) == "went"


@pytest.mark.parametrize("retry", [-1, "inf", "nan"])
async def test_an_invalid_pause_is_an_error_of_the_handler(theatre: Theatre, retry: Any) -> None:
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        calling = await client.post(call("let_go", retry=retry))

    assert calling.answer["result"]["isError"]


# A store that fails.


class Broken:
    """A store in which everything fails but the first things that are kept."""

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


async def test_a_store_that_fails_costs_resumption_and_nothing_else(
    theatre: Theatre, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "trio_mcp")
    theatre.go.set()
    async with open_theatre(theatre, event_store=Broken(works_for=1)) as client:
        await client.begin()
        calling = await client.post(call("say", words=["a", "b"]))
        lost = await client.request("GET", last_event_id="3-0")
        await client.request("DELETE")

    assert logged(calling) == ["a", "b", "a again", "b again"]
    assert text_of(calling) == "said"
    assert lost.status == 400
    assert caplog.text.count("the event store cannot") == 1
    assert "no space left" in caplog.text or "it is gone" in caplog.text


async def test_a_client_whose_events_are_lost_gets_what_comes_next(theatre: Theatre) -> None:
    async with open_theatre(theatre, event_store=Broken(works_for=0)) as client:
        await client.begin()
        calling = client.start(call("say", words=["a"]))
        await calling.messages_are(1)
        calling.leave()
        await calling.returned.wait()
        rest = client.get("3-0")
        await wait_all_tasks_blocked()
        theatre.go.set()
        await rest.returned.wait()

    assert logged(rest) == ["a again"]
    assert text_of(rest) == "said"


async def test_the_stored_events_of_a_session_are_deleted_with_it(theatre: Theatre) -> None:
    store = MemoryEventStore()
    logs: list[Any] = []

    class Watched:
        @asynccontextmanager
        async def open(self) -> AsyncGenerator[EventLog]:
            async with store.open() as log:
                logs.append(log)
                yield log

    theatre.go.set()
    async with open_theatre(theatre, event_store=Watched()) as client:
        await client.begin()
        await client.post(call("say", words=["a"]))
        assert logs[0]._quota.events == 3
        await client.request("DELETE")
        await wait_all_tasks_blocked()

        assert logs[0]._quota.events == 0


# Whatever the scheduler does.


@pytest.fixture(params=range(15))
def seed(request: pytest.FixtureRequest) -> int:
    """Let Trio choose among tasks in another order each time."""
    seed: int = request.param
    _run._r.seed(seed)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it
    return seed


async def test_nothing_is_lost_or_said_twice_however_often_the_client_is_cut_off(seed: int) -> None:
    theatre = Theatre(limits=Limits(outbox_bytes=300, max_logs_per_second=1e9))
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        caller = client.start(call("say", words=[str(number) for number in range(20)]))
        await caller.messages_are(1)
        heard: list[Any] = []
        mark, rounds = "3-0", 0
        while not any("result" in each for each in heard):
            rounds += 1
            for _ in range((seed * rounds) % 7 + 1):
                await trio.lowlevel.checkpoint()
            if rounds == 5:
                theatre.go.set()
            if rounds > 8:
                await caller.returned.wait()
            caller.leave()
            heard += caller.messages
            mark = last_id(caller) or mark
            if not any("result" in each for each in heard):
                caller = client.get(mark)

    words = [each["params"]["data"] for each in heard[:-1]]
    assert words == [*map(str, range(20)), *(f"{number} again" for number in range(20))]


async def test_a_stream_that_is_taken_over_in_flight_is_complete(seed: int) -> None:
    theatre = Theatre(limits=Limits(outbox_bytes=300, max_logs_per_second=1e9))
    async with open_theatre(theatre, kept=True) as client:
        await client.begin()
        callers = [client.start(call("say", words=[str(number) for number in range(20)]))]
        await callers[0].messages_are(1)
        for take_over in range(seed % 5 + 1):
            for _ in range(seed):
                await trio.lowlevel.checkpoint()
            if take_over == 1:
                theatre.go.set()
            callers.append(client.get(last_id(callers[-1]) or "3-0"))
        theatre.go.set()
        for caller in callers:
            await caller.returned.wait()

    heard = {event.id: event.data for caller in callers for event in events_of(caller) if event.data}
    assert sorted(int(id.removeprefix("3-")) for id in heard) == list(range(1, 42))
    assert all(caller.complete for caller in callers)
