"""Event streams of a session that go on over several connections: news, and answers that are taken up again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import Flaky
from tests.transports.http.scripted_server import (
    Caller,
    HttpScript,
    Visit,
    ask,
    notice,
    opened_in_session,
    result,
)
from trio_mcp import Limits, RemoteProtocolError, ResponseLost
from trio_mcp.abc import Transport

# News.


async def hear(server: HttpScript, transport: Transport, nursery: trio.Nursery) -> Visit:
    """Have the transport ask for news; return the request once its head is sent."""
    nursery.start_soon(transport.open_standalone_stream)
    visit = await server.next("GET")
    await visit.begin()
    return visit


async def test_the_standalone_stream_is_open_before_it_is_reported_as_open(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    heard = trio.Event()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:

        async def open_standalone_stream() -> None:
            await transport.open_standalone_stream()
            heard.set()

        nursery.start_soon(open_standalone_stream)
        visit = await server.next("GET")
        await trio.testing.wait_all_tasks_blocked()
        assert not heard.is_set()
        await visit.begin()
        await heard.wait()
        await transport.open_standalone_stream()  # already
        await visit.send(b": alive\n\nevent: other\ndata: x\n\n")
        await visit.event()
        await visit.event(notice("notifications/tools/list_changed"))
        await trio.testing.wait_all_tasks_blocked()
        assert caller.news == ["notifications/tools/list_changed"]

    assert visit.left.is_set()
    assert [each.method for each in server.visits] == ["POST", "POST", "GET", "DELETE"]
    assert visit.headers["accept"] == "text/event-stream"
    assert visit.headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize(
    ("status", "kind"), [(405, None), (404, None), (401, None), (503, None), (200, "text/html"), (202, None)]
)
async def test_a_server_without_a_standalone_stream_is_not_asked_again(
    status: int, kind: str | None, autojump_clock: object
) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        await (await server.next("GET")).answer(status, b"no", kind=kind)
        await trio.testing.wait_all_tasks_blocked()
        await transport.open_standalone_stream()
        await server.silence(3600)
        assert caller.renewals == 0


async def test_a_server_that_delays_the_head_of_its_stream_is_not_waited_for(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport:
        begun = trio.current_time()
        await transport.open_standalone_stream()
        assert trio.current_time() - begun == 2
        visit = await server.next("GET")
        await visit.begin()
        await visit.event(notice("notifications/late"))
        await trio.testing.wait_all_tasks_blocked()
        assert caller.news == ["notifications/late"]


async def test_a_standalone_stream_that_ends_is_resumed_at_its_position(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        visit = await hear(server, transport, nursery)
        await visit.event(notice("notifications/a"), id="e1", retry_ms=3000)
        await visit.end()
        ended = trio.current_time()
        visit = await server.next("GET")
        assert trio.current_time() - ended == 3
        assert visit.headers["last-event-id"] == "e1"
        await visit.begin()
        await visit.event(notice("notifications/b"), id="e2")
        visit.cut()
        visit = await server.next("GET")
        assert trio.current_time() - ended == 6
        assert visit.headers["last-event-id"] == "e2"
        assert caller.news == ["notifications/a", "notifications/b"]


async def test_the_pauses_grow_until_something_comes(autojump_clock: object) -> None:
    server = HttpScript()
    pauses: list[float] = []
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        visit = await hear(server, transport, nursery)
        for status in (200, 503, 200, 502, 200, 200, 200, 200):
            if not visit.over.is_set():
                await visit.end()
            before = trio.current_time()
            visit = await server.next("GET")
            pauses.append(trio.current_time() - before)
            if status == 200:
                await visit.begin()
            else:
                await visit.answer(status)
        await visit.event(notice("notifications/x"))
        await visit.end()
        before = trio.current_time()
        await server.next("GET")
        assert 0.5 <= trio.current_time() - before <= 1.01

    longest = [1, 2, 4, 8, 16, 30, 30, 30]
    assert all(0.5 * most <= pause <= 1.01 * most for pause, most in zip(pauses, longest, strict=True)), pauses


async def test_a_stream_that_lasted_is_resumed_soon(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        visit = await hear(server, transport, nursery)
        for _ in range(10):  # as by a proxy that ends what is silent
            await trio.sleep(31)
            await visit.end()
            before = trio.current_time()
            visit = await server.next("GET")
            assert trio.current_time() - before <= 1.01
            await visit.begin()


async def test_the_standalone_stream_is_retried_if_the_server_cannot_be_reached(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    engine = Flaky(server, down_for="GET")
    async with opened_in_session(server, caller, engine=engine) as transport:
        engine.is_up = False
        begun = trio.current_time()
        await transport.open_standalone_stream()
        assert trio.current_time() == begun
        await trio.sleep(3600)
        engine.is_up = True
        await (await server.next("GET")).begin()
        assert len(engine.refused) > 100


async def test_a_standalone_stream_that_is_refused_later_ends(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        await (await hear(server, transport, nursery)).end()
        await (await server.next("GET")).answer(405)
        await server.silence(3600)


async def test_events_of_the_standalone_stream_that_cannot_be_read_are_skipped(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server, caller = HttpScript(), Caller(Limits(max_message_bytes=200))
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        visit = await hear(server, transport, nursery)
        await visit.event(notice("notifications/a"), id="e1")
        await visit.event(notice("notifications/long", text="x" * 200), id="e2")
        visit = await server.next("GET")
        assert "last-event-id" not in visit.headers  # else the same would come again
        await visit.begin()
        await visit.event(notice("notifications/b"))
        await trio.testing.wait_all_tasks_blocked()
        assert caller.news == ["notifications/a", "notifications/b"]

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "cannot be read and are skipped: the server sends a message of more than 200 bytes" in record.getMessage()


# Answers.


async def ask_and_part(
    server: HttpScript, transport: Transport, nursery: trio.Nursery, **event: Any
) -> tuple[Callable[[], Any], int]:
    """Ask; have the server begin its stream with an event and end it. Return how to get the outcome, and the id."""
    pending = ask(nursery, transport, modern=False)
    visit = await server.next(rpc="tools/list")
    await visit.begin()
    await visit.event(**event)
    await visit.end()
    return pending.outcome, visit.message["id"]


async def test_an_answer_is_resumed_after_the_pause_that_the_server_asks_for(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        outcome, id = await ask_and_part(server, transport, nursery, id="e1", retry_ms=500)
        for number in range(2, 12):  # as often as it likes: something comes each time
            before = trio.current_time()
            visit = await server.next("GET")
            assert trio.current_time() - before == 0.5
            assert visit.headers["last-event-id"] == f"e{number - 1}"
            assert visit.headers["mcp-session-id"] == "s1"
            await visit.begin()
            await visit.event(id=f"e{number}")
            await visit.end()
        visit = await server.next("GET")
        await visit.begin()
        await visit.event(result(id, tools=[]))
        await visit.end()
        assert await outcome() == {"tools": []}


async def test_a_stream_that_breaks_off_is_resumed_too(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server, down_for="GET")
    async with opened_in_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event(id="e1")
        engine.is_up = False
        visit.cut()
        await trio.sleep(2)
        engine.is_up = True
        await (await server.next("GET")).answer(503)
        visit = await server.next("GET")
        await visit.begin()
        visit.cut()
        visit = await server.next("GET")
        await visit.begin()
        await visit.event(result(pending.asked.id, tools=[]))
        await visit.end()
        assert await pending.outcome() == {"tools": []}
        assert engine.refused


@pytest.mark.parametrize(
    "event", [{}, {"retry_ms": 10}, {"id": "caf\u00e9"}, {"id": ""}], ids=["none", "retry", "no field", "empty"]
)
async def test_a_stream_without_ids_is_not_resumed(event: dict[str, Any], autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        outcome, _ = await ask_and_part(server, transport, nursery, **event)
        with pytest.raises(ResponseLost, match="ended its response to 'tools/list' without an answer"):
            await outcome()
        await server.silence()


async def test_a_stream_that_is_not_continued_is_given_up(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        outcome, _ = await ask_and_part(server, transport, nursery, id="e1")
        for _ in range(5):
            await (await server.next("GET")).answer(502)
        with pytest.raises(ResponseLost, match="without an answer"):
            await outcome()
        await server.silence()


@pytest.mark.parametrize("status", [404, 405, 200])
async def test_a_server_that_resumes_no_stream_is_not_asked_again(status: int, autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        outcome, _ = await ask_and_part(server, transport, nursery, id="e1")
        await (await server.next("GET")).answer(status, b"{}", kind="application/json")
        with pytest.raises(ResponseLost, match="without an answer"):
            await outcome()
        await server.silence()
        assert caller.renewals == 0


async def test_a_404_of_a_server_that_has_had_a_stream_means_a_lost_session(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        outcome, _ = await ask_and_part(server, transport, nursery, id="e1")
        visit = await server.next("GET")
        await visit.begin()
        await visit.end()
        await (await server.next("GET")).answer(404)
        with pytest.raises(ResponseLost, match="the session was lost"):
            await outcome()
        await server.next(rpc="initialize")


async def test_leaving_in_a_pause_tells_the_server_and_takes_nothing_up(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event(id="e1", retry_ms=60_000)
        await visit.end()
        await trio.sleep(1)
        pending.scope.cancel()
        await (await server.next(rpc="notifications/cancelled")).answer(202)
        await server.silence(3600)


async def test_an_answer_that_is_too_long_is_not_asked_for_again(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(Limits(max_message_bytes=200))
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event(id="e1")
        await visit.event(result(pending.asked.id, text="x" * 200))
        with pytest.raises(RemoteProtocolError, match="more than 200 bytes"):
            await pending.outcome()
        await server.silence()
