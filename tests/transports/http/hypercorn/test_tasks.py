"""The tasks of an application, without a connection: received events, and the exceptions that they raise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp.transports import Receive, Scope, Send
from trio_mcp.transports.http.hypercorn._application import AppTasks, Mailbox

DISCONNECT = {"type": "http.disconnect"}
SCOPE = {"type": "http", "method": "POST", "path": "/a\nb"}


def cut_nothing(mailbox: Mailbox) -> None:
    raise NotImplementedError


def chunk(body: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": True}


async def test_events_are_received_in_order_and_then_any_number_of_disconnects() -> None:
    mailbox = Mailbox()
    await mailbox.put(chunk(b"one"))
    await mailbox.put(chunk(b"two"))
    await mailbox.put(DISCONNECT)

    received = [await mailbox.receive() for _ in range(4)]

    assert received == [chunk(b"one"), chunk(b"two"), DISCONNECT, DISCONNECT]


async def test_the_last_part_of_a_body_is_marked_unless_it_was_received_already() -> None:
    mailbox, end = Mailbox(), {"type": "http.request", "body": b"", "more_body": False}
    await mailbox.put(chunk(b"one"))
    await mailbox.put(chunk(b"two"))
    await mailbox.put(end)
    assert [await mailbox.receive(), await mailbox.receive()] == [chunk(b"one"), {**chunk(b"two"), "more_body": False}]

    await mailbox.put(chunk(b"three"))
    assert await mailbox.receive() == chunk(b"three")
    await mailbox.put(end)
    assert await mailbox.receive() == end


async def test_receive_waits_for_the_next_event(nursery: trio.Nursery) -> None:
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


async def test_a_cancelled_scope_receives_waiting_events() -> None:
    mailbox = Mailbox()
    await mailbox.put(DISCONNECT)

    received: object = None
    with trio.CancelScope() as scope:
        scope.cancel()
        received = await mailbox.receive()

    assert received == DISCONNECT


async def test_an_application_that_receives_for_ever_can_be_cancelled() -> None:
    mailbox = Mailbox()
    await mailbox.put(DISCONNECT)

    with trio.move_on_after(0.01) as scope:
        while True:
            await mailbox.receive()

    assert scope.cancelled_caught


@pytest.mark.parametrize("size", [1, 100_000])
async def test_the_connection_waits_while_the_mailbox_is_full(size: int, nursery: trio.Nursery) -> None:
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
        await mailbox.put(DISCONNECT)
    else:
        mailbox.close()
    await trio.testing.wait_all_tasks_blocked()

    assert done.is_set()


async def run(app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> list[object]:
    """Run an application for one request; return the events that it has sent, with None for its end."""
    sent: list[object] = []

    async def send(event: object) -> None:
        sent.append(event)
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        await AppTasks(nursery, app, cut_nothing).spawn_app(app, None, SCOPE, send)
    return sent


@pytest.mark.parametrize(
    "error",
    [
        ValueError("oops"),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        ExceptionGroup("all", [ValueError("oops")]),
        BaseExceptionGroup("all", [KeyboardInterrupt(), ValueError("oops")]),
    ],
    ids=repr,
)
async def test_an_exception_in_an_application_is_logged_and_ends_only_its_request(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    assert await run(app) == [None]

    (record,) = caplog.records
    assert record.name == "trio_mcp.transports"
    assert record.getMessage() == r"the application failed at POST '/a\nb'"
    assert record.exc_info is not None
    failure = record.exc_info[1]
    assert failure is not None
    assert error in (failure, failure.__cause__)


async def test_a_cancelled_application_sends_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep_forever()

    async def send(event: object) -> None:
        sent.append(event)

    async with trio.open_nursery() as nursery:
        await AppTasks(nursery, app, cut_nothing).spawn_app(app, None, SCOPE, send)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert sent == []
    assert caplog.records == []


async def test_the_concurrent_requests_of_a_connection_are_limited(nursery: trio.Nursery) -> None:
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

    tasks = AppTasks(nursery, app, cut_nothing)
    nursery.start_soon(ask_300_times)
    await trio.testing.wait_all_tasks_blocked()
    assert running == 200
    end.set()
    await trio.testing.wait_all_tasks_blocked()

    assert running == 300
