"""Applications without ASGI over real sockets: requests, responses, failures, and clients that send ahead or leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
import trio
import trio.testing
from attrs import define

from tests.transports.http.socket_clients import (
    OK,
    App,
    get,
    post,
    read_all,
    read_until,
    serving,
)
from trio_mcp.transports import HttpRequest
from trio_mcp.transports.http.server import BegunRequest, HttpChannel

Answer: TypeAlias = Callable[[HttpRequest, HttpChannel], Awaitable[None]]
SIZED = [("content-length", "4")]


@define(eq=False)
class Direct:
    """Answers all requests but those for ``/asgi``."""

    answer: Answer

    def begin(self, request: HttpRequest, body: bytes) -> BegunRequest | None:
        """Leave each request to `answer`."""

    def answers_directly(self, request: HttpRequest) -> bool:
        return request.path != "/asgi"


class Quick(BegunRequest):
    """A request that is answered in one step."""

    def take_answer(self, most_bytes: int) -> tuple[int, bytes]:
        return 200, b"{}"

    async def go_on(self, responding: object) -> None:
        raise AssertionError


@define(eq=False)
class AllAtOnce(Direct):
    """Answers all requests in one step that can be answered so."""

    def begin(self, request: HttpRequest, body: bytes) -> BegunRequest:
        return Quick()


async def read_whole(channel: HttpChannel) -> bytes:
    body = b""
    while not channel.has_whole_body:
        part = await channel.read()
        assert part is not None
        body += part
    return body


async def test_requests_and_responses_have_all_their_parts() -> None:
    seen: list[HttpRequest] = []
    tasks: set[trio.lowlevel.Task] = set()

    async def echo(request: HttpRequest, channel: HttpChannel) -> None:
        seen.append(request)
        tasks.add(trio.lowlevel.current_task())
        body = await read_whole(channel)
        assert channel.put((201, [("x-more", "1"), ("content-length", str(len(body)))]), body, more=False)

    async with serving(App(), direct=Direct(echo)) as served, await served.connect() as stream:
        for body in (b"<one>", b"<two>"):
            await stream.send_all(post("/a%20b?c=%20", 5, body))
            reply = await read_until(stream, body)
            assert reply.startswith(b"HTTP/1.1 201 Created\r\nx-more: 1\r\ncontent-length: 5\r\ndate: ")

    assert [(each.method, each.path, each.local_path, each.query) for each in seen] == 2 * [
        ("POST", "/a b", "/a b", "c=%20")
    ]
    assert (seen[0].client, seen[0].headers["content-length"]) == ("127.0.0.1", "5")
    assert len(tasks) == 1


async def test_the_requests_that_it_does_not_take_are_for_the_asgi_application() -> None:
    async def fail(request: HttpRequest, channel: HttpChannel) -> None:
        raise AssertionError

    async with serving(App(), direct=Direct(fail)) as served, await served.connect() as stream:
        await stream.send_all(get("/asgi"))
        assert (await read_until(stream, b"fine")).startswith(OK)


async def test_an_empty_body_is_whole_from_the_start() -> None:
    async def answer(request: HttpRequest, channel: HttpChannel) -> None:
        channel.put((200, SIZED), b"good" if channel.has_whole_body else b"bad!", more=False)

    async with serving(App(), direct=Direct(answer)) as served, await served.connect() as stream:
        await stream.send_all(get("/"))
        assert (await read_until(stream, b"\r\n\r\ngood")).startswith(OK)


async def test_a_client_that_waits_is_told_to_continue_only_if_its_body_is_read() -> None:
    async def answer(request: HttpRequest, channel: HttpChannel) -> None:
        if request.path == "/read":
            assert await read_whole(channel) == b"body"
        channel.put((200, SIZED), b"done", more=False)

    fields = "host: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n"
    async with serving(App(), direct=Direct(answer)) as served:
        async with await served.connect() as stream:
            await stream.send_all(f"POST /read HTTP/1.1\r\n{fields}".encode())
            assert await read_until(stream, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await stream.send_all(b"body")
            assert (await read_until(stream, b"done")).startswith(OK)
        async with await served.connect() as stream:
            await stream.send_all(f"POST /refuse HTTP/1.1\r\n{fields}".encode())
            reply = await read_all(stream)

    assert reply.startswith(OK)
    assert b"connection: close\r\n" in reply


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_failure_ends_its_request_only(has_begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: HttpRequest, channel: HttpChannel) -> None:
        if has_begun:
            channel.put((200, SIZED), b"go", more=True)
        raise SystemExit("secret")

    async with serving(App(), direct=Direct(fail)) as served, await served.connect() as stream:
        await stream.send_all(get("/fail") + get("/asgi"))
        reply = await read_all(stream)
        async with await served.connect() as other:
            await other.send_all(get("/asgi"))
            assert await read_until(other, b"fine")

    assert reply.endswith(b"\r\n\r\ngo") if has_begun else reply.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in reply
    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/fail'"]


async def test_a_malformed_body_is_refused_and_counts_as_a_client_that_has_left() -> None:
    seen: list[bytes | None] = []

    async def read(request: HttpRequest, channel: HttpChannel) -> None:
        while not seen or seen[-1] is not None:
            seen.append(await channel.read())
        await channel.wait_left()
        assert channel.put((200, SIZED), b"late", more=False)

    async with serving(App(), direct=Direct(read)) as served, await served.connect() as stream:
        await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        while not seen:
            await trio.lowlevel.checkpoint()
        await stream.send_all(b"nonsense\r\n")
        reply = await read_all(stream)

    assert seen == [b"a", None]
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"late" not in reply


def wait_for(go_on: trio.Event, left: trio.Event) -> Answer:
    async def watch(channel: HttpChannel) -> None:
        await channel.wait_left()
        left.set()
        go_on.set()

    async def answer(request: HttpRequest, channel: HttpChannel) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, channel)
            await go_on.wait()
            nursery.cancel_scope.cancel()
        channel.put((200, SIZED), b"done", more=False)

    return answer


@pytest.mark.parametrize("number", [2, 4000])
async def test_requests_that_arrive_while_another_is_answered_are_answered_after_it(number: int) -> None:
    go_on, left = trio.Event(), trio.Event()
    async with serving(App(), direct=Direct(wait_for(go_on, left))) as served, await served.connect() as stream:
        await stream.send_all(get("/wait"))
        for _ in range(number):
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(get("/asgi"))
        assert not left.is_set()
        go_on.set()
        reply = b""
        while reply.count(b"fine") < number:
            reply += await stream.receive_some()

    assert reply.index(b"done") < reply.index(b"fine")


async def test_a_client_that_leaves_is_noticed() -> None:
    go_on, left = trio.Event(), trio.Event()
    async with serving(App(), direct=Direct(wait_for(go_on, left))) as served:
        async with await served.connect() as stream:
            await stream.send_all(get("/wait"))
            await trio.testing.wait_all_tasks_blocked()
        await left.wait()


@pytest.mark.parametrize("ahead", [0, 200_000])
async def test_a_client_that_is_cut_has_left(ahead: int) -> None:
    go_on, left = trio.Event(), trio.Event()
    channels: list[HttpChannel] = []
    wait = wait_for(go_on, left)

    async def answer(request: HttpRequest, channel: HttpChannel) -> None:
        channels.append(channel)
        await wait(request, channel)

    async with serving(App(), direct=Direct(answer)) as served, await served.connect() as stream:
        await stream.send_all(get("/wait") + bytes(ahead))
        await trio.testing.wait_all_tasks_blocked()
        channels[0].cut()
        await left.wait()
        assert await read_all(stream) in {b"", b"[reset]"}


async def test_the_rest_of_a_body_that_is_not_read_is_dropped() -> None:
    go_on, left = trio.Event(), trio.Event()
    async with serving(App(), direct=Direct(wait_for(go_on, left))) as served, await served.connect() as stream:
        await stream.send_all(post("/wait", 200_000, bytes(100)))
        for _ in range(2):
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(bytes(50_000))
        assert not left.is_set()
        go_on.set()
        assert (await read_all(stream)).endswith(b"done")


# --- Answers in one step ---


async def test_a_body_in_chunks_is_not_answered_in_one_step_because_its_size_is_not_announced() -> None:
    async def measure(request: HttpRequest, channel: HttpChannel) -> None:
        channel.put((200, SIZED), f"{len(await read_whole(channel)):04}".encode(), more=False)

    async with serving(App(), direct=AllAtOnce(measure)) as served, await served.connect() as stream:
        await stream.send_all(post("/", 2, b"{}"))
        await read_until(stream, b"\r\n\r\n{}")
        head = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
        await stream.send_all(head + b"2\r\n{}\r\n0\r\n\r\n")
        assert (await read_until(stream, b"0002")).startswith(OK)


async def test_a_connection_with_requests_that_have_arrived_does_not_give_way_to_another() -> None:
    async def fail(request: HttpRequest, channel: HttpChannel) -> None:
        raise AssertionError

    async with serving(App(), direct=AllAtOnce(fail), max_connections=1) as served, await served.connect() as stream:
        await stream.send_all(post("/", 2, b"{}"))
        await read_until(stream, b"\r\n\r\n{}")
        await stream.send_all(post("/", 2, b"{}") * 200)
        async with await served.connect():
            answers = b""
            while answers.count(b"\r\n\r\n{}") < 200:
                part = await stream.receive_some()
                assert part
                answers += part
