"""What rarely happens in a gateway: many callers, servers that list only a part, and links in long results."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.gateway.helpers import MODERN, Way, client_of, front, opened
from tests.interaction.over_http import served_at_socket
from trio_mcp import (
    Access,
    CallNext,
    Client,
    Context,
    ErrorResponse,
    McpError,
    RateLimit,
    Request,
    Server,
    open_client,
    serve_stream,
    types,
)
from trio_mcp.gateway import Gateway
from trio_mcp.gateway._forward import ForwardedQuestion, ForwardedRequest, Target

APPS = "io.modelcontextprotocol/ui"
HERE = Way(MODERN, MODERN)


async def names(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


def small_server(name: str = "small") -> Server:
    server = Server(name)

    @server.tool
    async def hello() -> str:
        return f"hello from {name}"

    return server


async def hello() -> str:
    return "hello"


async def no_target() -> NoReturn:
    await trio.lowlevel.checkpoint()
    raise AssertionError


async def test_a_request_without_a_task_takes_no_log_message_and_asks_nothing() -> None:
    request = ForwardedRequest("tools/call", {}, no_target, "ada")

    await request.log(types.LoggingMessageNotificationParams(level="info", data="unasked"))
    await request.visit_completed("visit")
    with pytest.raises(McpError, match="asks in its results"):
        await request.roots()
    with pytest.raises(AssertionError):
        await no_target()
    assert Target.__name__ == "Target"


def test_an_answer_that_does_not_fit_the_question_is_refused() -> None:
    schema = types.ElicitRequestedSchema(properties={})
    form = types.ElicitRequestFormParams(message="?", requested_schema=schema)
    question = ForwardedQuestion("elicitation/create", form)

    with pytest.raises(McpError, match="does not fit"):
        question.read({"action": 5}, "2025-11-25")


async def test_the_extensions_of_a_caller_that_need_no_help_are_declared_to_the_server() -> None:
    server = Server("apps", extensions={APPS: {}})

    @server.tool
    async def declared(ctx: Context) -> bool:
        return ctx.extension(APPS) is not None

    gateway = front(server)
    settings: list[dict[str, dict[str, Any]]] = [{APPS: {"mimeTypes": ["text/html"]}}, {}]
    for extensions in settings:
        async with open_client(gateway, revision="2026-07-28", extensions=extensions) as client:
            result = await client.call_tool("declared")
            assert result.structured_content == {"result": bool(extensions)}


async def test_both_the_gateway_and_a_mount_decide_what_is_seen() -> None:
    server = Server("lists")
    for name in ("one", "two", "three"):
        server.tool(name=name)(hello)

    def not_one(entry: Any, _: Access | None) -> bool:
        return bool(entry.name != "one")

    def not_two(entry: Any, _: Access | None) -> bool:
        return bool(entry.name != "two")

    gateway = Gateway("front", visible=not_one)
    gateway.mount(server, visible=not_two)
    async with opened(gateway, HERE) as client:
        assert await names(client) == ["three"]


async def test_more_principals_than_are_remembered_see_their_own_lists() -> None:
    gateway = Gateway("front")
    gateway.mount(small_server(), share="principal")
    async with gateway.serving() as serving:
        for number in [
            *range(260),
            *range(260),
        ]:  # a new connection forgets all lists, one that is there already does not
            async with client_of(serving, HERE, f"user {number}") as client:
                assert await names(client) == ["hello"]


@pytest.mark.parametrize("share", ["all", "session"])
async def test_requests_are_counted_by_tool_however_connections_are_shared(share: Any) -> None:
    gateway = Gateway("front", middleware=[RateLimit(per_second=100)])
    gateway.mount(small_server(), share=share)
    async with opened(gateway, HERE) as client:
        assert await names(client) == ["hello"]
        assert not (await client.call_tool("hello")).is_error


async def test_a_server_that_cannot_list_its_prompts_has_its_tools_all_the_same() -> None:
    async def no_prompts(request: Request, call_next: CallNext) -> Any:
        if request.method == "prompts/list":
            raise McpError(-32000, "no prompts today")
        return await call_next(request)

    server = Server("odd", middleware=[no_prompts])
    server.tool(hello)

    @server.prompt
    async def greet() -> str:
        return "hello"

    async with opened(front(server), HERE) as client:
        assert await names(client) == ["hello"]
        assert [prompt async for prompt in client.prompts()] == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_resource_that_nobody_has_cannot_be_listened_for(revision: str) -> None:
    first, second = small_server("first"), small_server("second")
    first.resources.add_static("a://one", "1", name="one")
    second.resources.add_static("a://two", "2", name="two")
    async with open_client(front(first, second), revision=revision) as client:
        assert (await client.read_resource("a://one")).contents
        if revision == "2026-07-28":
            async with client.listen(resources=["a://three"]) as changes:
                assert changes.honored.resources == ()
        else:
            with pytest.raises(ErrorResponse, match="no resource"):
                await client.request("resources/subscribe", {"uri": "a://three"}, types.EmptyResult)


async def test_links_in_long_results_have_the_uris_of_the_gateway() -> None:
    first, second = small_server("first"), small_server("second")
    first.resources.add_static("a://same", "first", name="same")
    second.resources.add_static("a://same", "second", name="same")

    @second.tool
    async def links() -> list[types.ResourceLink]:
        return [types.ResourceLink(uri="a://same", name=f"link {number}") for number in range(3000)]

    @second.tool
    async def text() -> str:
        return "x" * 200_000

    async with trio.open_nursery() as nursery:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve_stream, second, theirs)
        gateway = front(first)
        gateway.mount(ours, name="second", restart=None)
        async with opened(gateway, HERE) as client:
            await names(client)
            result = await client.call_tool("links")
            assert {block.uri for block in result.content if isinstance(block, types.ResourceLink)} == {
                "second+a://same"
            }
            assert not (await client.call_tool("text")).is_error
        nursery.cancel_scope.cancel()


async def test_a_call_of_a_server_over_http_has_header_fields_of_its_own() -> None:
    async with served_at_socket(small_server()) as bound, opened(front(bound.url), HERE) as client:
        assert await names(client) == ["hello"]
        assert (await client.call_tool("hello")).content == [types.TextContent(text="hello from small")]


def test_a_notification_of_the_specification_in_a_response_is_left_to_the_connection() -> None:
    target: Any = None
    request = ForwardedRequest("tools/call", {}, target, None)
    assert not request._pass_notification("notifications/tools/list_changed", {})
