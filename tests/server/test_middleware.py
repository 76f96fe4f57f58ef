"""Middleware: its order, the requests and results that it sees and may change, and its failures."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve

from tests.server.helpers import SharedServing, text_of
from trio_mcp import (
    CallNext,
    Client,
    Context,
    ErrorResponse,
    Limits,
    McpError,
    Middleware,
    Request,
    Server,
    ToolError,
    ToolFailed,
    open_client,
    serve_stream,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client
from trio_mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

LEGACY, MODERN = "2025-11-25", "2026-07-28"
Open = Callable[..., AbstractAsyncContextManager[Client]]
OPENERS: dict[str, Open] = {"memory": open_client, "bytes": open_memory_client}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Open:
    return OPENERS[str(request.param)]


@pytest.fixture(params=[LEGACY, MODERN])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_server(*middleware: Middleware, limits: Limits | None = None, page_size: int | None = None) -> Server:
    server = Server("s", version="1", middleware=middleware, limits=limits, page_size=page_size)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def fail(how: str) -> None:
        raise ToolError("deliberate") if how == "deliberate" else RuntimeError("a bug")

    server.resource("file:///a")(lambda: "a")
    return server


async def test_the_first_middleware_registered_is_the_outermost(opener: Open, revision: str) -> None:
    order: list[str] = []

    def noting(name: str) -> Middleware:
        async def note(request: Request, call_next: CallNext) -> Any:
            if request.method == "tools/call":
                order.append(f"{name} in")
                result = await call_next(request)
                order.append(f"{name} out")
                return result
            return await call_next(request)

        return note

    server = make_server(noting("first"), noting("second"))
    third = noting("third")
    assert server.middleware(third) is third

    async with opener(server, revision=revision) as client:
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"

    assert order == ["first in", "second in", "third in", "third out", "second out", "first out"]


async def test_middleware_sees_typed_params_and_typed_results_of_every_request(opener: Open, revision: str) -> None:
    seen: dict[str, tuple[type, type]] = {}

    async def note(request: Request, call_next: CallNext) -> Any:
        result = await call_next(request)
        seen[request.method] = (type(request.params), type(result))
        assert request.context.revision == revision
        assert not request.is_notification or request.method == "notifications/initialized"
        return result

    async with opener(make_server(note, page_size=1), revision=revision) as client:
        assert [tool.name async for tool in client.tools()] == ["echo", "fail"]
        await client.call_tool("echo", {"text": "hi"})
        await client.read_resource("file:///a")
        if revision == LEGACY:
            await client.ping()
            await client.subscribe_resource("file:///a")
            await client.set_log_level("error")
        await client.list_resources()  # handlers of notifications run beside those of requests

    opening: dict[str, dict[str, tuple[type, type]]] = {
        LEGACY: {
            "initialize": (types.InitializeRequestParams, types.InitializeResult),
            "notifications/initialized": (types.NotificationParams, type(None)),
            "ping": (types.RequestParams, types.EmptyResult),
            "resources/subscribe": (types.SubscribeRequestParams, types.EmptyResult),
            "logging/setLevel": (types.SetLevelRequestParams, types.EmptyResult),
        },
        MODERN: {"server/discover": (types.RequestParams, types.DiscoverResult)},
    }
    assert seen == opening[revision] | {
        "tools/list": (types.PaginatedRequestParams, types.ListToolsResult),
        "resources/list": (types.PaginatedRequestParams, types.ListResourcesResult),
        "tools/call": (types.CallToolRequestParams, types.CallToolResult),
        "resources/read": (types.ReadResourceRequestParams, types.ReadResourceResult),
    }


async def test_a_list_that_middleware_does_not_change_is_sent_byte_for_byte() -> None:
    async def see(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    plain, through = make_server(), make_server(see)
    exact = '{"type": "object", "properties": {"n": {"type": "integer", "maximum": 1e2}}}'
    for server in (plain, through):
        server.tool(name="raw", input_schema=exact)(lambda n=0: n)
    lists: list[bytes] = []

    for server in (plain, through):

        def keep(direction: str, message: bytes) -> None:
            if direction == "received" and b'"tools":[' in message:
                lists.append(message)

        async with open_memory_client(server, tap=keep) as client:
            await client.list_tools()

    assert lists[0] == lists[1]
    assert b"1e2" in lists[0]


async def test_middleware_may_change_a_list(opener: Open) -> None:
    async def hide(request: Request, call_next: CallNext) -> Any:
        result = await call_next(request)
        if isinstance(result, types.ListToolsResult):
            return evolve(result, tools=[tool for tool in result.tools if tool.name != "fail"])
        return result

    async with opener(make_server(hide)) as client:
        assert [tool.name async for tool in client.tools()] == ["echo"]


async def test_middleware_may_change_params(opener: Open, revision: str) -> None:
    async def shout(request: Request, call_next: CallNext) -> Any:
        if request.method != "tools/call":
            return await call_next(request)
        text = request.params.arguments["text"]
        if text == "typed":
            return await call_next(request.with_params(evolve(request.params, arguments={"text": "TYPED"})))
        return await call_next(request.with_params({"name": "echo", "arguments": {"text": text.upper()}}))

    async with opener(make_server(shout), revision=revision) as client:
        assert text_of(await client.call_tool("echo", {"text": "typed"})) == "TYPED"
        assert text_of(await client.call_tool("echo", {"text": "plain"})) == "PLAIN"


async def test_middleware_may_answer_with_a_typed_result_or_with_json(opener: Open, revision: str) -> None:
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            content = types.TextContent(text="from middleware")
            if request.params.name == "typed":
                return types.CallToolResult(content=[content], structured_content={"n": 1})
            return {"content": [{"type": "text", "text": "from middleware"}]}
        return await call_next(request)

    async with opener(make_server(answer), revision=revision) as client:
        assert text_of(await client.call_tool("typed")) == "from middleware"
        assert text_of(await client.call_tool("json")) == "from middleware"


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_result_of_middleware_is_adapted_to_the_revision(revision: str) -> None:
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            link = types.ResourceLink(name="a", uri="file:///a")
            return types.CallToolResult(content=[link], structured_content=[1])
        return await call_next(request)

    async with open_memory_client(make_server(answer), revision=revision) as client:
        result = await client.call_tool("any")

    if revision < "2025-06-18":
        assert result.is_error
        assert "a resource link" in text_of(result)
    else:
        assert isinstance(result.content[0], types.ResourceLink)
        assert result.structured_content == ([1] if revision == MODERN else types.UNSET)


async def test_an_interim_result_of_middleware_is_sent_only_in_revisions_that_have_them(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            return types.InputRequiredResult(result_type="input_required", request_state="from middleware")
        return await call_next(request)

    async with open_scripted_client(make_server(answer), revision) as client:
        response = await client.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})

    if revision == MODERN:
        assert response["result"]["requestState"] == "from middleware"
    else:
        assert response["error"]["code"] == INTERNAL_ERROR
        assert "which is no result of it" in caplog.text


async def test_a_prompt_of_middleware_with_content_that_the_revision_lacks_is_refused() -> None:
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.method == "prompts/get":
            sound = types.AudioContent(data="AAAA", mime_type="audio/wav")
            return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=sound)])
        return await call_next(request)

    server = make_server(answer)
    server.prompt(name="sing")(lambda: "la")
    responses: list[Any] = []
    for revision in ("2024-11-05", "2025-03-26"):
        async with open_scripted_client(server, revision) as client:
            responses.append(await client.request("prompts/get", {"name": "sing"}))

    assert "prompt 'sing': messages[0] is audio" in responses[0]["error"]["message"]
    assert responses[1]["result"]["messages"][0]["content"]["type"] == "audio"


async def test_a_middleware_that_passes_on_no_request_is_logged_as_a_bug_of_middleware(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong: Any = None

    async def forget(request: Request, call_next: CallNext) -> Any:
        return await call_next(wrong if request.method == "tools/call" else request)

    async with open_client(make_server(forget)) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.call_tool("echo", {"text": "x"})

    assert "answering 'tools/call' failed outside of its handler" in caplog.text


async def test_middleware_may_refuse_a_request_with_any_error(opener: Open, revision: str) -> None:
    async def refuse(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            raise McpError(-31_500, "not today", {"why": "Sunday"})
        return await call_next(request)

    async with opener(make_server(refuse), revision=revision) as client:
        with pytest.raises(ErrorResponse, match="not today") as refusal:
            await client.call_tool("echo", {"text": "x"})
        assert refusal.value.code == -31_500
        assert refusal.value.data == {"why": "Sunday"}
        assert [tool.name async for tool in client.tools()] == ["echo", "fail"]


async def test_middleware_may_catch_and_replace_an_exception_of_the_handler(opener: Open) -> None:
    caught: list[str] = []

    async def mend(request: Request, call_next: CallNext) -> Any:
        try:
            return await call_next(request)
        except ToolError as error:
            caught.append(str(error))
            return types.CallToolResult(content=[types.TextContent(text="mended")])
        except RuntimeError as error:
            raise ToolError("try later") from error

    async with opener(make_server(mend)) as client:
        assert text_of(await client.call_tool("fail", {"how": "deliberate"})) == "mended"
        with pytest.raises(ToolFailed, match="try later"):
            await client.call_tool("fail", {"how": "bug"}, raise_on_error=True)

    assert caught == ["deliberate"]


async def test_an_exception_that_middleware_does_not_catch_is_answered_as_usual(
    opener: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async def pass_on(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    async with opener(make_server(pass_on)) as client:
        assert text_of(await client.call_tool("fail", {"how": "bug"})) == "a bug"
        wrong = await client.call_tool("echo", {"text": 1})
        assert wrong.is_error
        assert "$.text: expected string" in text_of(wrong)

    assert [record.getMessage() for record in caplog.records] == ["tool 'fail' failed"]


async def test_a_failure_of_middleware_is_an_internal_error_of_its_request_only(
    opener: Open, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call" and request.params.arguments["text"] == "stumble":
            raise KeyError("a secret of the middleware")
        return await call_next(request)

    async with opener(make_server(stumble), revision=revision) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.call_tool("echo", {"text": "stumble"})
        assert text_of(await client.call_tool("echo", {"text": "fine"})) == "fine"

    assert refusal.value.code == INTERNAL_ERROR
    assert "secret" not in str(refusal.value)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("tools/call", None),
        ("tools/list", 7),
        ("tools/call", types.CallToolRequestParams(name="echo")),
        ("tools/call", types.ListToolsResult(tools=[])),
        ("tools/call", types.Result(result_type="task")),  # independent of the capabilities of the client
    ],
    ids=repr,
)
async def test_a_result_of_middleware_of_the_wrong_type_is_an_internal_error(
    method: str, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def forget(request: Request, call_next: CallNext) -> Any:
        result = await call_next(request)
        return answer if request.method == method else result

    async with open_scripted_client(make_server(forget)) as client:
        response = await client.request(method, {"name": "echo", "arguments": {"text": "x"}})

    assert response["error"]["code"] == INTERNAL_ERROR
    (record,) = caplog.records
    assert record.exc_info is not None
    assert f"middleware answered {method!r} with {answer!r}" in str(record.exc_info[1])


async def test_middleware_sees_unknown_methods_and_invalid_params_as_json() -> None:
    seen: list[tuple[str, Any]] = []
    raised: list[int] = []

    async def note(request: Request, call_next: CallNext) -> Any:
        params: Any = request.params
        seen.append((request.method, type(params) if isinstance(params, types.Model) else params))
        try:
            return await call_next(request)
        except McpError as error:
            raised.append(error.code)
            if request.method == "tools/call":
                return await call_next(request.with_params({"name": "echo", "arguments": {"text": "mended"}}))
            if request.method == "acme/known-to-middleware":
                return {"answer": 42}
            raise

    async with open_scripted_client(make_server(note), LEGACY) as client:
        unknown = await client.request("acme/unknown", {"a": 1})
        answered = await client.request("acme/known-to-middleware")
        mended = await client.request("tools/call", {"name": 7})

    assert unknown["error"]["code"] == METHOD_NOT_FOUND
    assert answered["result"] == {"answer": 42}
    assert mended["result"]["content"] == [{"type": "text", "text": "mended"}]
    assert raised == [METHOD_NOT_FOUND, METHOD_NOT_FOUND, INVALID_PARAMS]
    assert [each for each in seen if not each[0].startswith(("initialize", "notifications/"))] == [
        ("acme/unknown", {"a": 1}),
        ("acme/known-to-middleware", {}),
        ("tools/call", {"name": 7}),
    ]


async def test_middleware_may_call_the_next_handler_again() -> None:
    calls: list[int] = []

    async def retry(request: Request, call_next: CallNext) -> Any:
        try:
            return await call_next(request)
        except RuntimeError:
            return await call_next(request)

    server = Server("s", middleware=[retry])

    @server.tool
    async def second_time_lucky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("not yet")
        return "done"

    async with open_client(server) as client:
        assert text_of(await client.call_tool("second_time_lucky")) == "done"


async def test_cancelling_the_call_cancels_the_middleware_and_the_handler(
    opener: Open, revision: str, autojump_clock: object
) -> None:
    ended: list[str] = []
    all_ended = trio.Event()

    async def note(request: Request, call_next: CallNext) -> Any:
        try:
            return await call_next(request)
        except trio.Cancelled:
            ended.append(request.method)
            all_ended.set()
            raise

    server = make_server(note)

    @server.tool
    async def hang() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("handler")

    async with opener(server, revision=revision) as client:
        with trio.move_on_after(1):
            await client.call_tool("hang")
        await all_ended.wait()

    assert ended == ["handler", "tools/call"]


async def test_a_tool_timeout_inside_of_middleware_is_a_tool_error(autojump_clock: object) -> None:
    async def pass_on(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    server = Server("s", middleware=[pass_on])

    @server.tool(timeout=1)
    async def slow() -> None:
        await trio.sleep_forever()

    async with open_client(server) as client:
        result = await client.call_tool("slow")

    assert result.is_error
    assert text_of(result) == "slow timed out after 1 s"


async def test_the_timeout_of_a_tool_does_not_include_the_middleware(autojump_clock: object) -> None:
    async def slow(request: Request, call_next: CallNext) -> Any:
        result = await call_next(request)
        await trio.sleep(10)
        return result

    server = make_server(slow)

    @server.tool(timeout=1)
    async def hurry() -> str:
        await trio.sleep(0.9)
        return "in time"

    async with open_client(server) as client:
        assert text_of(await client.call_tool("hurry")) == "in time"


async def test_middleware_surrounds_a_subscription_until_it_ends(opener: Open, autojump_clock: object) -> None:
    """The acknowledgement and the changes of `subscriptions/listen` do not pass through middleware."""
    events: list[str] = []
    ended = trio.Event()

    async def note(request: Request, call_next: CallNext) -> Any:
        if request.method != "subscriptions/listen":
            return await call_next(request)
        events.append("begin")
        assert request.params.notifications.tools_list_changed is True
        try:
            return await call_next(request)
        finally:
            events.append("end")
            ended.set()

    server = make_server(note)

    async with opener(server, revision=MODERN) as client:
        async with client.listen(tools=True) as changes:
            server.tool(name="new")(lambda: None)
            async for _ in changes:
                events.append("change")
                break
        await ended.wait()

    assert events == ["begin", "change", "end"]


async def test_middleware_may_refuse_a_subscription_and_the_limits_apply_behind_it(opener: Open) -> None:
    async def refuse(request: Request, call_next: CallNext) -> Any:
        if request.method == "subscriptions/listen" and request.params.notifications.prompts_list_changed:
            raise McpError(-31_501, "no prompts here")
        return await call_next(request)

    server = make_server(refuse, limits=Limits(max_subscriptions=1))
    server.prompt(name="p")(lambda: "p")

    async with opener(server, revision=MODERN) as client:
        with pytest.raises(ErrorResponse, match="no prompts here"):
            async with client.listen(prompts=True):
                pass
        with pytest.raises(ErrorResponse, match="at most 1 resources"):
            async with client.listen(resources=["file:///a", "file:///b"]):
                pass


async def test_a_subscription_inside_of_middleware_completes_when_the_server_stops() -> None:
    async def pass_on(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    server = make_server(pass_on)
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        client = ScriptedPeer(ours)
        await client.greet(MODERN)
        id = await client.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.expect_notification("notifications/subscriptions/acknowledged")
        await client.send_eof()
        response = await client.expect_response(id)
        await client.expect_notification("notifications/cancelled")

    assert response["result"]["resultType"] == "complete"


async def test_middleware_that_waits_for_the_peer_during_initialize_does_not_block_the_connection() -> None:
    """User complaint 24: awaiting the peer in a middleware around `initialize` deadlocked the connection."""
    pinged = trio.Event()

    async def wait_for_a_ping(request: Request, call_next: CallNext) -> Any:
        if request.method == "ping":
            pinged.set()
        if request.method == "initialize":
            await pinged.wait()
        return await call_next(request)

    server = make_server(wait_for_a_ping, limits=Limits(max_in_flight=1, max_queued=1))

    with trio.fail_after(60):
        async with raw_client(server) as (send, receive):
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            await send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
            with pytest.raises(AssertionError, match="silence"):
                await receive()
            await send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
            answers = {(await receive())["id"], (await receive())["id"]}

    assert answers == {1, 2}


@asynccontextmanager
async def raw_client(server: Server) -> AsyncGenerator[tuple[Any, Any]]:
    """Serve over a byte stream; `receive` fails if no message arrives before all other tasks are blocked."""
    ours, theirs = trio.testing.memory_stream_pair()
    peer = ScriptedPeer(ours)

    async def receive() -> Any:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_when_idle, scope)
                message = await peer.receive()
                nursery.cancel_scope.cancel()
                return message
        raise AssertionError("silence")

    async def cancel_when_idle(scope: trio.CancelScope) -> None:
        await trio.testing.wait_all_tasks_blocked(0.01)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        yield peer.send, receive
        await ours.aclose()


async def test_a_ping_does_not_wait_for_handlers_that_take_all_places() -> None:
    """A handler that waits for its client must not delay the pings of that client."""

    async def pass_on(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    server = Server("s", middleware=[pass_on], limits=Limits(max_in_flight=1, max_queued=1))
    started = trio.Event()

    @server.tool
    async def hang() -> None:
        started.set()
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with open_memory_client(server, revision=LEGACY) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "hang")
            await started.wait()
            await client.ping()
            nursery.cancel_scope.cancel()


async def test_a_client_that_disconnects_during_a_slow_initialize_does_not_affect_the_next_connection(
    opener: Open, autojump_clock: object
) -> None:
    """`initialize` cannot be cancelled: it continues, and its response arrives after the client has disconnected."""

    async def slow(request: Request, call_next: CallNext) -> Any:
        await trio.sleep(10)
        return await call_next(request)

    async with make_server(slow).serving() as serving:
        with trio.move_on_after(1):
            async with opener(SharedServing(serving), revision=LEGACY):
                raise NotImplementedError
        await trio.sleep(20)
        async with opener(SharedServing(serving), revision=LEGACY) as client:
            assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"


async def test_a_client_may_repeat_an_initialize_that_middleware_refused() -> None:
    tries: list[str] = []

    async def not_the_first(request: Request, call_next: CallNext) -> Any:
        if request.method == "initialize":
            tries.append(request.params.protocol_version)
            if len(tries) == 1:
                raise McpError(-31_502, "come back later")
        return await call_next(request)

    async with raw_client(make_server(not_the_first)) as (send, receive):
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        await send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert (await receive())["error"]["code"] == -31_502
        await send({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params})
        assert (await receive())["result"]["protocolVersion"] == LEGACY


async def test_a_server_without_middleware_answers_small_requests_inline() -> None:
    server = make_server()

    async with server.serving() as serving, open_client(server, revision=LEGACY) as client:
        await client.ping()
        assert serving.small_answers._slots is None  # pyright: ignore[reportPrivateUsage] # shows that no slots were created


async def test_middleware_that_is_registered_while_serving_applies_to_the_next_request() -> None:
    server, seen = make_server(), list[str]()

    async with open_client(server) as client:
        await client.list_tools()

        @server.middleware
        async def note(request: Request, call_next: CallNext) -> Any:
            seen.append(request.method)
            return await call_next(request)

        assert note in server._internals.middleware
        await client.list_resources()

    assert seen == ["resources/list"]


def plain_function(request: Request, call_next: CallNext) -> None:
    raise NotImplementedError


@pytest.mark.parametrize("wrong", [7, plain_function])
def test_middleware_that_is_not_an_async_function_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be an async function"):
        Server("s").middleware(wrong)
    with pytest.raises(TypeError, match="must be an async function"):
        Server("s", middleware=[wrong])


async def test_middleware_may_report_progress() -> None:
    received: list[float] = []

    async def report(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            await request.context.report_progress(0.5)
        return await call_next(request)

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        received.append(update.progress)

    async with open_client(make_server(report)) as client:
        await client.call_tool("echo", {"text": "x"}, on_progress=on_progress)

    assert received == [0.5]


async def test_a_parked_handler_continues_within_its_middleware() -> None:
    """The retry that carries the answers does not pass through the middleware again."""
    seen: list[str] = []

    async def note(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            seen.append("in")
        result = await call_next(request)
        if request.method == "tools/call":
            seen.append(text_of(result))
        return result

    server = Server("s", middleware=[note])

    @server.tool
    async def ask(ctx: Context) -> str:
        roots = await ctx.list_roots()
        return roots[0].uri

    async with open_memory_client(server, revision=MODERN, roots=[types.Root(uri="file:///here")]) as client:
        assert text_of(await client.call_tool("ask")) == "file:///here"

    assert seen == ["in", "file:///here"]


async def test_an_invalid_request_state_is_refused_within_the_middleware() -> None:
    refused: list[int] = []

    async def note(request: Request, call_next: CallNext) -> Any:
        try:
            return await call_next(request)
        except McpError as error:
            refused.append(error.code)
            raise

    async with open_scripted_client(make_server(note), MODERN) as client:
        params = {"name": "echo", "arguments": {"text": "x"}, "requestState": "nonsense"}
        response = await client.request("tools/call", params)

    assert refused == [response["error"]["code"]]


async def test_debug_logs_contain_no_params(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="trio_mcp")
    async with open_scripted_client(make_server(), LEGACY) as client:
        await client.notify("notifications/acme/unknown", {"password": "hunter2"})
        await client.request("ping")

    assert "hunter2" not in caplog.text
