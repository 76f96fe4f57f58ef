"""The server object: its options, its capabilities, and requests that are refused without a handler."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trio_mcp import (
    Context,
    ErrorResponse,
    Limits,
    LocalProtocolError,
    MissingCapability,
    Server,
    open_client,
    types,
)
from trio_mcp.lowlevel import ServerExtensionPoints


@pytest.mark.parametrize("revisions", [[], ["2026-07-28", "1999-01-01"]])
def test_a_server_supports_only_known_revisions_and_at_least_one(revisions: list[str]) -> None:
    with pytest.raises(ValueError, match="must be some of"):
        Server("s", revisions=revisions)


def test_revisions_are_sorted() -> None:
    assert Server("s", revisions=["2026-07-28", "2024-11-05"]).revisions == ("2024-11-05", "2026-07-28")


def test_the_repr_of_a_server_does_not_contain_its_keys() -> None:
    assert "secret" not in repr(Server("s", keys=[b"a secret of thirty-two letters ."]))


def test_a_decorator_that_is_given_the_wrong_thing_says_how_it_is_written() -> None:
    decorators: Any = Server("s")

    def stock() -> str:
        return "tea"

    with pytest.raises(TypeError, match=r"write @server.resource\('notes://stock'\) above stock"):
        decorators.resource(stock)
    with pytest.raises(TypeError, match=r"write @server.tool\(name='sum'\)"):
        decorators.tool("sum")
    with pytest.raises(TypeError, match=r"write @server.prompt\(name='x'\)"):
        decorators.prompt("x")


@pytest.mark.requirement("B.18-S1", "B.20-S1a")
async def test_the_server_info_and_instructions_reach_the_client() -> None:
    server = Server(
        "s",
        version="1",
        title="The S",
        description="a server",
        website_url="https://example.com",
        icons=[types.Icon(src="https://example.com/i.png")],
        instructions="use it",
    )
    server.tool(name="t")(lambda: None)

    for revision in ("2025-11-25", "2026-07-28"):
        async with open_client(server, revision=revision) as client:
            assert client.server_info == server.info
            assert client.instructions == "use it"
            tools = types.ToolsCapability(list_changed=True)
            declared = types.ServerCapabilities(logging={}, tools=tools)
            assert client.server_capabilities == declared


@pytest.mark.requirement("B.1-S2", "B.3-S9")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_feature_without_registrations_is_an_unknown_method(revision: str) -> None:
    lists = {"tools/list": types.ListToolsResult, "prompts/list": types.ListPromptsResult}

    async with open_client(Server("s"), revision=revision) as client:
        for method, result in lists.items():
            with pytest.raises(ErrorResponse, match="has no method") as caught:
                await client.request(method, None, result)
            assert caught.value.code == -32601


@pytest.mark.requirement("B.2-P1a", "B.2-P1b")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_client_does_not_send_requests_that_the_server_has_not_declared(revision: str) -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: "")

    async with open_client(server, revision=revision) as client:
        with pytest.raises(MissingCapability, match="has not declared 'tools', which 'tools/call' needs") as caught:
            await client.call_tool("t")
        assert caught.value.required == {"tools": {}}
        with pytest.raises(MissingCapability):
            await client.get_prompt("p")
        assert (await client.list_resources()).resources


@pytest.mark.requirement("B.2-P1a")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_completion_needs_a_declaration_in_revisions_that_have_it(revision: str) -> None:
    reference = types.PromptReference(name="p")

    async with open_client(Server("s"), revision=revision) as client:
        expected = ErrorResponse if revision == "2024-11-05" else MissingCapability
        with pytest.raises(expected):
            await client.complete(reference, "a", "b")


@pytest.mark.requirement("B.2-P1b")
async def test_a_subscription_needs_the_declared_capability() -> None:
    class WithoutSubscribe(Server):
        @property
        def capabilities(self) -> types.ServerCapabilities:
            return types.ServerCapabilities(resources=types.ResourcesCapability())

    async with open_client(WithoutSubscribe("s"), revision="2025-11-25") as client:
        with pytest.raises(MissingCapability) as caught:
            await client.subscribe_resource("a:b")

    assert caught.value.required == {"resources": {"subscribe": True}}


@pytest.mark.requirement("B.2-P1b")
async def test_a_change_of_roots_that_were_not_declared_raises() -> None:
    async with open_client(Server("s"), revision="2025-11-25") as client:
        with pytest.raises(LocalProtocolError, match="has not declared any roots"):
            await client.roots_changed()


@pytest.mark.requirement("B.16-S1b")
async def test_an_invalid_cursor_is_refused() -> None:
    server = Server("s")
    server.tool(name="t")(lambda: None)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="'nonsense' is not a cursor") as caught:
            await client.list_tools("nonsense")

    assert caught.value.code == -32602


async def test_invalid_params_are_refused_with_all_faults() -> None:
    server = Server("s")
    server.tool(name="t")(lambda: None)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match=r"\$\.arguments: expected object") as caught:
            await client.request("tools/call", {"name": 3, "arguments": []}, types.CallToolResult)

    assert caught.value.code == -32602
    assert "$.name: expected string" in caught.value.message


async def test_statistics_count_handlers_and_threads() -> None:
    server = Server("s", limits=Limits(max_threads=3))

    @server.tool
    async def look(ctx: Context) -> None:
        await trio.lowlevel.checkpoint()

    async with server.serving() as serving:
        statistics = serving.statistics()

    assert (statistics.running, statistics.threads) == (0, 0)


async def test_a_notification_without_a_handler_is_ignored() -> None:
    server = Server("s")

    async with open_client(server, revision="2025-11-25", roots=[]) as client:
        await client.roots_changed()
        await client.ping()


@pytest.mark.requirement("B.20-S1f")
async def test_a_server_whose_last_tool_was_removed_sends_an_empty_list() -> None:
    server = Server("s")
    server.tool(name="only")(lambda: None)

    async with open_client(server) as client:
        server.tools.remove("only")
        assert (await client.list_tools()).tools == []


async def test_a_package_can_declare_an_extension_of_a_server_that_exists() -> None:
    server = Server("s", extensions={"com.example/a": {"size": 1}})

    server.declare_extension("com.example/b")
    server.declare_extension("com.example/a", {"size": 2})

    declared = {"com.example/a": {"size": 2}, "com.example/b": {}}
    assert server.extensions == declared
    assert server.capabilities.extensions == declared
    with pytest.raises(ValueError, match="extension id 'b'"):
        server.declare_extension("b")


async def test_a_package_can_check_a_server_before_each_serving() -> None:
    server, servings, faults = Server("s"), list[str](), list[str]()

    def check() -> None:
        servings.append(server.info.name)
        if faults:
            raise ValueError(faults[0])

    ServerExtensionPoints(server).before_serving(check)
    async with open_client(server):
        assert servings == ["s"]
    async with server.serving_one():
        assert servings == ["s", "s"]
    faults.append("not complete")
    with pytest.raises(ValueError, match="not complete"):
        async with open_client(server):
            pass
