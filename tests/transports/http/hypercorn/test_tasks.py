"""What an application receives, and what becomes of what it raises: without a connection."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp.transports import Receive, Scope, Send
from trio_mcp.transports.http.hypercorn._application import AppTasks, Mailbox

GONE = {"type": "http.disconnect"}
SCOPE = {"type": "http", "method": "POST", "path": "/a\nb"}


def chunk(body: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": True}


async def test_events_are_received_in_order_and_then_any_number_of_disconnects() -> None:
    mailbox = Mailbox()
    await mailbox.put(chunk(b"one"))
    await mailbox.put(chunk(b"two"))
    await mailbox.put(GONE)

    received = [await mailbox.receive() for _ in range(4)]

    assert received == [chunk(b"one"), chunk(b"two"), GONE, GONE]


async def test_the_end_of_a_body_is_said_with_its_last_piece_unless_that_was_received_already() -> None:
    mailbox, end = Mailbox(), {"type": "http.request", "body": b"", "more_body": False}
    await mailbox.put(chunk(b"one"))
    await mailbox.put(chunk(b"two"))
    await mailbox.put(end)
    assert [await mailbox.receive(), await mailbox.receive()] == [chunk(b"one"), {**chunk(b"two"), "more_body": False}]

    await mailbox.put(chunk(b"three"))
    assert await mailbox.receive() == chunk(b"three")
    await mailbox.put(end)
    assert await mailbox.receive() == end


async def test_receiving_waits_for_what_is_put(nursery: trio.Nursery) -> None:
    mailbox = Mailbox()
    received: list[object] = []

    async def receive() -> None:
        received.append(await mailbox.receive())

    nursery.start_soon(receive)
    await trio.testing.wait_all_tasks_blocked()
    assert not received
    await mailbox.put(chunk(b"late"))
    await trio.testing.wait_all_tasks_blocked()

    assert received == [chunk(b"late")]


async def test_a_cancelled_scope_receives_what_is_there_because_some_frameworks_ask_in_one() -> None:
    mailbox = Mailbox()
    await mailbox.put(GONE)

    received: object = None
    with trio.CancelScope() as scope:
        scope.cancel()
        received = await mailbox.receive()

    assert received == GONE


async def test_an_application_that_asks_for_ever_can_be_cancelled() -> None:
    mailbox = Mailbox()
    await mailbox.put(GONE)

    with trio.move_on_after(0.01) as scope:
        while True:
            await mailbox.receive()

    assert scope.cancelled_caught


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_client_waits_while_too_much_lies_in_the_mailbox(size: int, nursery: trio.Nursery) -> None:
    mailbox = Mailbox()
    puts = 0

    async def put() -> None:
        nonlocal puts
        while puts < 1000:
            await mailbox.put(chunk(bytes(size)))
            puts += 1

    nursery.start_soon(put)
    await trio.testing.wait_all_tasks_blocked()
    at_first = puts
    assert (at_first + 1) * (size + 256) <= 64 * 2**10 + 2 * (size + 256)
    for _ in range(at_first):
        await mailbox.receive()
    await trio.testing.wait_all_tasks_blocked()

    assert at_first < puts < 1000
    mailbox.close()


@pytest.mark.parametrize("end", ["the application returns", "the client leaves"])
async def test_a_waiting_put_continues_when_the_mailbox_is_closed(end: str, nursery: trio.Nursery) -> None:
    mailbox = Mailbox()
    done = trio.Event()

    async def put() -> None:
        await mailbox.put(chunk(bytes(100_000)))
        await mailbox.put(chunk(b"too much"))
        done.set()

    nursery.start_soon(put)
    await trio.testing.wait_all_tasks_blocked()
    assert not done.is_set()
    if end == "the client leaves":
        await mailbox.put(GONE)
    else:
        mailbox.close()
    await trio.testing.wait_all_tasks_blocked()

    assert done.is_set()


async def run(app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> list[object]:
    """Run an application for one request; return what it has sent, None for its end."""
    sent: list[object] = []

    async def send(event: object) -> None:
        sent.append(event)
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        await AppTasks(nursery, app).spawn_app(app, None, SCOPE, send)
    return sent


@pytest.mark.parametrize(
    "error",
    [
        ValueError("oops"),
        SystemExit(3),
        ExceptionGroup("all", [ValueError("oops")]),
        BaseExceptionGroup("all", [SystemExit(3), ValueError("oops")]),
    ],
    ids=repr,
)
async def test_what_an_application_raises_is_logged_and_ends_its_request_alone(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    assert await run(app) == [None]

    (record,) = caplog.records
    assert record.name == "trio_mcp.transports"
    assert record.getMessage() == r"the application failed at POST '/a\nb'"
    assert record.exc_info is not None
    assert repr(record.exc_info[1]) == repr(error)


async def test_an_interrupt_passes_and_what_came_with_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError("oops")])

    with pytest.raises(BaseExceptionGroup) as caught:
        await run(app)

    assert caught.group_contains(KeyboardInterrupt, depth=2)
    assert not caught.group_contains(ValueError)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_cancellation_passes_and_nothing_is_sent_any_more(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep_forever()

    async def send(event: object) -> None:
        sent.append(event)

    async with trio.open_nursery() as nursery:
        await AppTasks(nursery, app).spawn_app(app, None, SCOPE, send)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert sent == []
    assert caplog.records == []


async def test_a_connection_runs_so_many_requests_at_once_and_no_more(nursery: trio.Nursery) -> None:
    running = 0
    end = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running
        running += 1
        await end.wait()

    async def send(event: object) -> None:
        await trio.lowlevel.checkpoint()

    async def ask_300_times() -> None:
        for _ in range(300):
            await tasks.spawn_app(app, None, SCOPE, send)

    tasks = AppTasks(nursery, app)
    nursery.start_soon(ask_300_times)
    await trio.testing.wait_all_tasks_blocked()
    assert running == 200
    end.set()
    await trio.testing.wait_all_tasks_blocked()

    assert running == 300
