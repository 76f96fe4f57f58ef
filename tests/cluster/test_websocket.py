"""Retries over a WebSocket whose handler waits in another process than the one that the WebSocket leads to."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field
from wsproto.events import AcceptConnection, TextMessage

from tests.interaction.scripted_peers import ENVELOPE
from tests.transports.http.server.browser import Browser, browsing
from trio_mcp import Context, HttpBound, Limits, MemoryShared, Server, serve_http
from trio_mcp.cluster import _forwarding, _links
from trio_mcp.transports.http.server import _websocket
from trio_mcp.wire import CAPABILITIES_KEY

META: dict[str, Any] = {**ENVELOPE, CAPABILITIES_KEY: {"roots": {}}}
ENDED = "the process that answered this request has ended; whether the request was carried out is unknown"


@define(eq=False)
class Work:
    """What the handlers do, and have done."""

    begun: list[str] = field(factory=list[str])
    """The processes in which a handler has begun."""
    answered: trio.Event = field(factory=trio.Event)
    """Set when a handler has got its answer."""
    released: trio.Event = field(factory=trio.Event)
    """Lets the handlers end."""
    stopped: trio.Event = field(factory=trio.Event)
    """Set when a handler has ended, however that was."""


def make_server(work: Work, name: str, limits: Limits) -> Server:
    server = Server(name, limits=limits)

    async def first_root(ctx: Context) -> str:
        work.begun.append(name)
        (root,) = await ctx.list_roots()
        return str(root.uri)

    @server.tool
    async def where(ctx: Context) -> str:
        return await first_root(ctx)

    @server.tool
    async def walk(ctx: Context) -> str:
        root = await first_root(ctx)
        for step in (1, 2):
            await ctx.report_progress(step, 2)
        await trio.lowlevel.checkpoint()
        return root

    @server.tool
    async def stay(ctx: Context) -> str:
        root = await first_root(ctx)
        try:
            work.answered.set()
            await work.released.wait()
        finally:
            work.stopped.set()
        return root

    size = {"type": "integer", "x-mcp-header": "Size"}
    schema = {"type": "object", "properties": {"size": size}, "required": ["size"]}

    @server.tool(input_schema=schema)
    async def measure(size: int, ctx: Context) -> str:
        return f"{size} at {await first_root(ctx)}"

    return server


@define(eq=False)
class Pair:
    """Two processes of one service, and a WebSocket to each."""

    work: Work
    owner: HttpBound
    at_owner: Browser
    at_other: Browser

    async def question(self, tool: str, arguments: dict[str, Any] | None = None) -> Any:
        """Have the owner begin a handler; return its question."""
        result = (await self.at_owner.call(call(tool, arguments)))["result"]
        assert result["resultType"] == "input_required"
        return result


def call(tool: str, arguments: dict[str, Any] | None = None, *, id: int = 1, **meta: Any) -> Any:
    params = {"name": tool, "arguments": arguments or {}, "_meta": {**META, **meta}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def retry_of(call: Any, question: Any, uri: str = "file:///a") -> Any:
    (key,) = question["inputRequests"]
    call["params"] |= {"requestState": question["requestState"], "inputResponses": {key: {"roots": [{"uri": uri}]}}}
    return call


@asynccontextmanager
async def pair(**limits: Any) -> AsyncGenerator[Pair]:
    shared, work = MemoryShared(), Work()
    async with trio.open_nursery() as nursery:
        with trio.fail_after(60):
            bound = [
                await nursery.start(
                    partial(
                        serve_http, make_server(work, name, Limits(**limits)), port=0, shared=shared, websocket=True
                    )
                )
                for name in ("owner", "other")
            ]
            async with AsyncExitStack() as stack:
                browsers = [await stack.enter_async_context(browsing(each)) for each in bound]
                for browser in browsers:
                    assert isinstance(await browser.event(), AcceptConnection)
                yield Pair(work, bound[0], *browsers)
            nursery.cancel_scope.cancel()


async def test_a_retry_reaches_the_handler_that_waits_in_another_process() -> None:
    async with pair() as both:
        question = await both.question("where")

        answer = await both.at_other.call(retry_of(call("where", id=7), question))

        assert answer["id"] == 7
        assert answer["result"]["structuredContent"] == {"result": "file:///a"}
        assert both.work.begun == ["owner"]


async def test_progress_of_the_handler_comes_over_the_websocket_before_its_result() -> None:
    async with pair() as both:
        question = await both.question("walk")
        retry = retry_of(call("walk", progressToken="t"), question)

        messages = [await both.at_other.call(retry)]
        while "id" not in messages[-1]:
            event = await both.at_other.event()
            assert isinstance(event, TextMessage)
            messages.append(json.loads(event.data))

        *updates, answer = messages
        assert [(each["params"]["progressToken"], each["params"]["progress"]) for each in updates] == [
            ("t", 1),
            ("t", 2),
        ]
        assert answer["result"]["structuredContent"] == {"result": "file:///a"}


async def test_an_error_of_the_other_process_is_passed_on() -> None:
    async with pair() as both:
        retry = retry_of(call("where"), await both.question("where"))
        await both.at_other.call(retry)

        error = (await both.at_other.call(retry))["error"]

        assert error["code"] == -32602
        assert "it is invalid or has expired" in error["message"]


async def test_a_cancelled_retry_cancels_the_handler() -> None:
    async with pair() as both:
        retry = retry_of(call("stay"), await both.question("stay"))
        await both.at_other.send(TextMessage(json.dumps(retry)))
        await both.work.answered.wait()

        await both.at_other.send(TextMessage(json.dumps(cancelled(1))))

        await both.work.stopped.wait()
        assert not both.work.released.is_set()
        await expect_service(both.at_other)


async def test_a_retry_that_is_cancelled_at_once_is_not_forwarded() -> None:
    async with pair() as both:
        question = await both.question("where")
        retry = TextMessage(json.dumps(retry_of(call("where"), question)))
        frames = [both.at_other.wire.send(each) for each in (retry, TextMessage(json.dumps(cancelled(1))))]
        await both.at_other.stream.send_all(b"".join(frames))

        answer = await both.at_other.call(retry_of(call("where", id=2), question))  # the handler waits as before

        assert answer["id"] == 2
        assert answer["result"]["structuredContent"] == {"result": "file:///a"}


def cancelled(id: int) -> Any:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "_meta": META}}


async def expect_service(browser: Browser) -> None:
    """Make a call whose handler waits in the process of the WebSocket itself."""
    question = (await browser.call(call("where", id=50)))["result"]
    answer = await browser.call(retry_of(call("where", id=51), question, "file:///b"))
    assert answer["result"]["structuredContent"] == {"result": "file:///b"}


async def test_a_retry_whose_process_has_ended_is_told_so() -> None:
    async with pair() as both:
        question = await both.question("where")
        await both.owner.stop()

        error = (await both.at_other.call(retry_of(call("where"), question)))["error"]

        assert error["code"] == -32602
        assert "the process in which the handler waited for the answers has ended" in error["message"]


async def test_a_retry_whose_process_is_lost_meanwhile_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    streams: list[trio.abc.Stream] = []

    async def dial(*arguments: Any) -> trio.abc.Stream:
        if streams:
            await trio.lowlevel.checkpoint()
            raise _links.NodeGoneError
        streams.append(await _links.dial(*arguments))
        return streams[0]

    monkeypatch.setattr(_forwarding, "dial", dial)
    async with pair() as both:
        retry = retry_of(call("stay"), await both.question("stay"))
        await both.at_other.send(TextMessage(json.dumps(retry)))
        await both.work.answered.wait()
        await trio.aclose_forcefully(streams[0])

        event = await both.at_other.event()

        assert isinstance(event, TextMessage)
        assert json.loads(event.data)["error"] == {"code": -32603, "message": ENDED}
        await expect_service(both.at_other)


async def test_no_more_retries_are_forwarded_than_handlers_may_run() -> None:
    async with pair(max_in_flight=1) as both:
        retry = retry_of(call("stay"), await both.question("stay"))
        await both.at_other.send(TextMessage(json.dumps(retry)))
        await both.work.answered.wait()

        second = await both.at_other.call({**retry, "id": 2})
        both.work.released.set()
        first = await both.at_other.event()

        assert second["error"] == {"code": -31000, "message": "too busy: 1 requests wait for other processes"}
        assert isinstance(first, TextMessage)
        assert json.loads(first.data)["result"]["structuredContent"] == {"result": "file:///a"}


async def test_arguments_that_header_fields_mirror_are_forwarded_with_them() -> None:
    async with pair() as both:
        question = await both.question("measure", {"size": 3})

        answer = await both.at_other.call(retry_of(call("measure", {"size": 3}), question))

        assert answer["result"]["structuredContent"] == {"result": "3 at file:///a"}


async def test_a_retry_that_no_header_fields_can_mirror_is_refused() -> None:
    async with pair() as both:
        question = await both.question("measure", {"size": 2**60})

        error = (await both.at_other.call(retry_of(call("measure", {"size": 2**60}), question)))["error"]

        assert error["code"] == -32602
        assert "the argument 'size'" in error["message"]


@pytest.mark.parametrize(
    ("fault", "message"), [(False, ENDED), (True, "the request failed; the server's log says why")]
)
async def test_a_response_that_cannot_be_read_fails_its_request_alone(
    monkeypatch: pytest.MonkeyPatch, message: str, *, fault: bool
) -> None:
    class Reader(_websocket._ResponseReader):  # pyright: ignore[reportPrivateUsage]
        def feed(self, *_: Any, **__: Any) -> list[bytes]:
            return [str(1 // (not fault)).encode()]

    monkeypatch.setattr(_websocket, "_ResponseReader", Reader)
    async with pair() as both:
        question = await both.question("where")

        answer = await both.at_other.call(retry_of(call("where"), question))

        assert answer["error"] == {"code": -32603, "message": message}
        await expect_service(both.at_other)


async def test_a_request_of_an_older_revision_is_for_the_process_of_its_websocket() -> None:
    async with pair() as both:
        question = await both.question("where")
        await both.at_other.initialize()
        params = {"name": "none", "requestState": question["requestState"]}

        answer = await both.at_other.call({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

        assert "none" in json.dumps(answer)
        assert both.work.begun == ["owner"]
