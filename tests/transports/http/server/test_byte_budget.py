"""The byte budget of an application: bodies that do not end and responses that are not read, and who gives way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.asgi_caller import AsgiCaller, call
from tests.transports.http.server.raw_session_client import (
    SESSION,
    RawSessionClient,
    text_of,
)
from tests.transports.http.server.raw_session_client import call as legacy_call
from tests.transports.http.server.test_legacy_sse import RawSseClient
from trio_mcp import Context, MemoryEventStore, Server, SessionSettings, http_app
from trio_mcp.transports import AsgiChannel, AsgiMessage, HttpApp, Receive, Scope, Send
from trio_mcp.transports.http.server._asgi import Responding
from trio_mcp.transports.http.server._legacy_session import HttpSession
from trio_mcp.wire import LOG_LEVEL_KEY, encode

BUDGET, BODY, ANSWER = 100_000, 20_000, 20_000  # bytes: five bodies or answers fill the budget
BUSY = -31_000
GREEDY, OTHER = ("192.0.2.1", 1), ("192.0.2.2", 1)


@define(eq=False)
class SlowSender(AsgiCaller):
    """A client that sends the last part of its body when the test tells it to."""

    go: trio.Event = field(factory=trio.Event, init=False)

    async def _receive(self) -> AsgiMessage:
        if self._read == len(self.pieces) - 1:
            await self.go.wait()
        return await super()._receive()


@define(eq=False)
class Answering:
    """A server whose answers are large, and a log of its handlers."""

    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)
    server: Server = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("large")
        for tool in (self.take, self.fill, self.wait, self.report):
            self.server.tool(tool)

    async def take(self, text: str) -> int:
        return len(text)

    async def fill(self, size: int = ANSWER) -> str:
        self.log.append("filled")
        return "x" * (size // 2)  # the answer has it twice, as text and as data

    async def wait(self, text: str) -> int:
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        return len(text)

    async def report(self, size: int, ctx: Context) -> str:
        await ctx.log("info", "x" * size)
        await self.go.wait()
        return "reported"


@asynccontextmanager
async def running(**options: Any) -> AsyncGenerator[tuple[Answering, HttpApp, trio.Nursery]]:
    answering = Answering()
    given: Any = {"max_buffer_bytes": BUDGET, "max_body_bytes": BUDGET, "keep_alive": 1000.0, **options}
    app = http_app(answering.server, **given)
    async with trio.open_nursery() as nursery, app.run():
        yield answering, app, nursery
        nursery.cancel_scope.cancel()


def sender(client: tuple[str, int], size: int = BODY, headers: Mapping[str, str] | None = None) -> SlowSender:
    """Return a client that has sent all of its body but the last byte."""
    posted = AsgiCaller.post(call("take", {"text": "x" * size}), headers, client=client)
    (body,) = posted.pieces
    return SlowSender(posted.scope, (body[:-1], body[-1:]))


def reader(client: tuple[str, int], tool: str = "fill", **arguments: Any) -> AsgiCaller:
    """Return a client that calls a tool and does not read the response."""
    caller = AsgiCaller.post(call(tool, arguments, **{LOG_LEVEL_KEY: "info"}), client=client)
    caller.stop_reading()
    return caller


async def start(nursery: trio.Nursery, app: HttpApp, *callers: AsgiCaller) -> None:
    """Send requests one after the other, as far as the server takes them now."""
    for each in callers:
        nursery.start_soon(each.run, app)
        await wait_all_tasks_blocked()


def is_refused(caller: AsgiCaller) -> bool:
    return caller.status == 503 and caller.code == BUSY and caller.headers["retry-after"] == "5"


async def test_a_client_whose_bodies_fill_the_budget_is_refused_and_its_small_calls_are_served() -> None:
    async with running() as (_, app, nursery):
        stalled = [sender(GREEDY) for _ in range(4)]
        await start(nursery, app, *stalled)
        assert 4 * BODY < app.buffer_bytes < BUDGET
        beyond = sender(GREEDY)
        await start(nursery, app, beyond)
        small = await AsgiCaller.post(call("take", {"text": "short"}), client=GREEDY).run(app)

        assert is_refused(beyond)
        assert small.status == 200
        assert not any(each.sent for each in stalled)
        for each in stalled:
            each.go.set()
            await each.returned.wait()
            assert text_of(each) == str(BODY)
        assert app.buffer_bytes == 0
        assert is_refused(beyond)


async def test_a_body_that_declares_its_length_is_refused_before_any_of_it_is_read() -> None:
    async with running() as (_, app, nursery):
        await start(nursery, app, *[sender(GREEDY) for _ in range(4)])
        unread = sender(GREEDY, headers={"content-length": str(BODY)})
        await start(nursery, app, unread)

        assert is_refused(unread)
        assert unread._read == 0


async def test_a_body_of_another_client_takes_the_place_of_the_one_that_stands_still_longest() -> None:
    async with running() as (_, app, nursery):
        stalled = [sender(GREEDY) for _ in range(4)]
        await start(nursery, app, *stalled)
        size = BODY * 3 // 2
        other = sender(OTHER, size, {"content-length": str(size)})
        await start(nursery, app, other)
        other.go.set()
        await other.returned.wait()

        assert text_of(other) == str(size)
        assert [bool(each.sent) for each in stalled] == [True, False, False, False]
        assert is_refused(stalled[0])


async def test_a_body_counts_until_its_request_is_answered() -> None:
    async with running() as (answering, app, nursery):
        callers = [AsgiCaller.post(call("wait", {"text": "x" * BODY}), client=GREEDY) for _ in range(4)]
        await start(nursery, app, *callers)
        assert app.buffer_bytes > 4 * BODY
        beyond = await AsgiCaller.post(call("take", {"text": "x" * BODY}), client=GREEDY).run(app)
        answering.go.set()
        for each in callers:
            await each.returned.wait()

        assert is_refused(beyond)
        assert [text_of(each) for each in callers] == [str(BODY)] * 4
        assert app.buffer_bytes == 0


async def test_a_request_that_makes_room_is_refused_and_its_handler_is_cancelled() -> None:
    async with running() as (answering, app, nursery):
        callers = [AsgiCaller.post(call("wait", {"text": "x" * BODY}), client=GREEDY) for _ in range(4)]
        await start(nursery, app, *callers)
        other = await AsgiCaller.post(call("take", {"text": "x" * BODY}), client=OTHER).run(app)

        await wait_all_tasks_blocked()

        assert text_of(other) == str(BODY)
        assert is_refused(callers[0])
        assert answering.log == ["cancelled"]


async def test_a_request_that_is_cut_before_its_response_begins_is_refused_whatever_it_does_then() -> None:
    async def cut(scope: Scope, receive: Receive, send: Send) -> None:
        responding = Responding(AsgiChannel(scope, receive, send), 1, 1)
        responding.on_cut()
        async with responding.attending():
            await trio.sleep_forever()
        await responding.json(b"{}")
        await responding.finish()
        assert responding.left

    assert is_refused(await AsgiCaller.post({}).run(cut))


async def test_an_answer_that_is_not_read_counts_and_the_slowest_reader_gives_way() -> None:
    async with running() as (_, app, nursery):
        readers = [reader(GREEDY) for _ in range(12)]
        for each in readers:
            await start(nursery, app, each)
            assert app.buffer_bytes <= BUDGET
        assert [each.returned.is_set() for each in readers] == [True] * 8 + [False] * 4
        assert not any(each.complete for each in readers)
        for each in readers:
            each.resume_reading()
        await wait_all_tasks_blocked()

        assert [each.complete for each in readers] == [False] * 8 + [True] * 4
        assert app.buffer_bytes == 0


async def test_an_answer_to_another_client_goes_through() -> None:
    async with running() as (_, app, nursery):
        readers = [reader(GREEDY) for _ in range(4)]
        await start(nursery, app, *readers)
        answered = await AsgiCaller.post(call("fill", {"size": ANSWER * 3 // 2}), client=OTHER).run(app)

        assert len(text_of(answered)) == ANSWER * 3 // 4
        assert [each.returned.is_set() for each in readers] == [True, False, False, False]


async def test_a_reader_that_makes_progress_is_not_the_slowest() -> None:
    async with running(max_buffer_bytes=1_000_000) as (_, app, nursery):
        readers = [reader(GREEDY, size=300_000) for _ in range(3)]
        await start(nursery, app, *readers)
        first = readers[0]
        first.resume_reading()
        while len(first.sent) < 2:
            await first._message_sent.wait()
        first.stop_reading()
        await wait_all_tasks_blocked()
        assert 2 <= len(first.sent) < 6
        await start(nursery, app, reader(OTHER, size=200_000))

        assert [each.returned.is_set() for each in readers] == [False, True, False]


async def test_one_answer_alone_may_exceed_the_budget() -> None:
    async with running() as (_, app, nursery):
        alone = reader(GREEDY, size=2 * BUDGET)
        await start(nursery, app, alone)
        assert app.buffer_bytes > 2 * BUDGET
        await start(nursery, app, reader(OTHER))
        assert alone.returned.is_set()
        assert app.buffer_bytes < BUDGET


async def test_events_that_are_not_read_count() -> None:
    async with running() as (answering, app, nursery):
        readers = [reader(GREEDY, "report", size=ANSWER) for _ in range(6)]
        await start(nursery, app, *readers)

        assert [each.returned.is_set() for each in readers] == [True, True, False, False, False, False]
        assert 4 * ANSWER < app.buffer_bytes < BUDGET
        answering.go.set()
        for each in readers:
            each.resume_reading()
        await wait_all_tasks_blocked()
        assert [each.complete for each in readers] == [False, False, True, True, True, True]
        assert app.buffer_bytes == 0


async def test_a_stream_that_waits_for_events_is_cut_if_its_request_holds_too_much() -> None:
    async with running(keep_alive=1.0) as (answering, app, nursery):
        held = AsgiCaller.post(call("wait", {"text": "x" * 4 * BODY}), client=GREEDY)
        await start(nursery, app, held)
        while not held.sent:
            await held._message_sent.wait()
        await start(nursery, app, reader(OTHER, size=2 * ANSWER))

        assert held.returned.is_set()
        assert not held.complete
        assert answering.log[-1] == "cancelled"


async def test_the_log_gets_one_line_a_minute(caplog: pytest.LogCaptureFixture, autojump_clock: MockClock) -> None:
    async with running() as (_, app, nursery):
        await start(nursery, app, *[reader(GREEDY) for _ in range(12)])
        (line,) = [each for each in caplog.messages if "max_buffer_bytes" in each]
        assert f"max_buffer_bytes={BUDGET}" in line


@pytest.mark.parametrize("most", [0, 1.5, 999])
def test_a_budget_below_the_largest_body_is_refused(most: Any) -> None:
    with pytest.raises(ValueError, match="max_buffer_bytes="):
        http_app(Server("small"), max_buffer_bytes=most, max_body_bytes=1000)


# Sessions.


async def test_unread_messages_of_a_session_count_and_its_slowest_response_ends() -> None:
    async with running() as (answering, app, nursery):
        client = await RawSessionClient(app, nursery).begin()
        callers = [client.caller(legacy_call("report", id, size=ANSWER)) for id in range(2, 8)]
        for each in callers:
            each.stop_reading()
            await start(nursery, app, each)
            assert app.buffer_bytes <= BUDGET
        answering.go.set()
        for each in callers:
            each.resume_reading()
        await wait_all_tasks_blocked()

        assert [len(each.messages) for each in callers] == [0, 0, 2, 2, 2, 2]
        assert app.buffer_bytes == 0


async def test_answers_of_a_session_that_are_not_read_count() -> None:
    async with running() as (_, app, nursery):
        client = await RawSessionClient(app, nursery).begin()
        callers = [client.caller(legacy_call("fill", id)) for id in range(2, 8)]
        for each in callers:
            each.stop_reading()
        await start(nursery, app, *callers)
        assert [each.returned.is_set() for each in callers] == [True, True, False, False, False, False]
        assert 4 * ANSWER < app.buffer_bytes < BUDGET


async def begin_session(app: HttpApp, nursery: trio.Nursery) -> tuple[AsgiCaller, HttpSession]:
    """Open a session and its standing stream, which the client does not read from then on."""
    client = await RawSessionClient(app, nursery).begin()
    standing = client.get()
    await wait_all_tasks_blocked()
    standing.stop_reading()
    assert app._router.running is not None
    return standing, app._router.running.sessions._table[client.headers[SESSION]]


def notification(size: int) -> bytes:
    return encode({"jsonrpc": "2.0", "method": "com.example/large", "params": {"text": "x" * size}}) + b"\n"


async def test_a_standing_stream_that_is_not_read_gives_way_and_its_session_goes_on() -> None:
    async with running() as (_, app, nursery):
        sessions = [await begin_session(app, nursery) for _ in range(3)]
        for _ in range(2):  # the first is taken by the response, the second waits
            for _, session in sessions:
                session.outlet.put_urgent(notification(BODY))
                await wait_all_tasks_blocked()

        assert app.buffer_bytes <= BUDGET
        assert [caller.returned.is_set() for caller, _ in sessions] == [True, True, False]
        assert [session.lost for _, session in sessions] == [None] * 3


async def test_a_queue_of_a_session_that_gives_way_ends_it_without_its_messages() -> None:
    async with running() as (_, app, nursery):
        sessions = [await begin_session(app, nursery) for _ in range(2)]
        for _, session in sessions:
            for _ in range(2):
                session.outlet.put_urgent(notification(BODY // 2))
                await wait_all_tasks_blocked()
        sessions[0][1].outlet.on_cut()
        assert app.buffer_bytes < 4 * BODY // 2
        for caller, _ in sessions:
            caller.resume_reading()
        await wait_all_tasks_blocked()
        assert [len(caller.messages) for caller, _ in sessions] == [1, 2]
        assert [caller.complete for caller, _ in sessions] == [True, False]
        assert app.buffer_bytes == 0


async def test_stored_events_give_way_without_loss() -> None:
    async with running(sessions=SessionSettings(event_store=MemoryEventStore())) as (_, app, nursery):
        caller, session = await begin_session(app, nursery)
        for _ in range(3):
            session.outlet.put(notification(BODY))
            await wait_all_tasks_blocked()
        assert app.buffer_bytes > 3 * BODY
        session.outlet.on_cut()
        assert app.buffer_bytes < 2 * BODY
        caller.resume_reading()
        await wait_all_tasks_blocked()

        assert len(caller.messages) == 3
        assert app.buffer_bytes == 0


async def test_unread_answers_of_http_sse_end_the_slowest_session() -> None:
    async with running() as (_, app, nursery):
        clients: list[AsgiCaller] = []
        for _ in range(6):
            sse = await RawSseClient(RawSessionClient(app, nursery)).begin()
            sse.stream.stop_reading()
            await sse.post(legacy_call("fill", size=2 * ANSWER))  # in that revision, the answer has it once
            await wait_all_tasks_blocked()
            clients.append(sse.stream)
            assert app.buffer_bytes <= BUDGET

        assert [each.returned.is_set() for each in clients] == [True, True, False, False, False, False]
