"""What a gateway calls the tools and prompts of its servers, and which of them it shows."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from tests.gateway.helpers import MODERN, Way, front, in_all_eras, names, opened, server_of, text, two_principals
from trio_mcp import Access, ErrorResponse, ListChanged, Server, types

HERE = Way(MODERN, MODERN)


def server_with(*tools: str, revision: str = MODERN, name: str = "other") -> Server:
    """Return a server with tools that say where they are, and prompts of the same names."""
    server = server_of(revision, name)
    for tool in tools:
        server.tool(name=tool)(_saying(f"{tool} of {name}"))
        server.prompt(name=tool)(_saying(f"{tool} of {name}"))
    return server


def _saying(what: str) -> Any:
    async def said() -> str:
        return what

    return said


async def said(client: Any, name: str, arguments: dict[str, Any] | None = None) -> str:
    return text(await client.call_tool(name, arguments))


# Names.


@in_all_eras
async def test_a_name_that_one_server_has_stays_and_one_that_several_have_is_qualified_for_each(way: Way) -> None:
    first = server_with("find", "drop", revision=way.upstream, name="first")
    second = server_with("find", "open", revision=way.upstream, name="second")

    async with opened(front(first, second), way) as client:
        assert await names(client) == ["first__find", "drop", "second__find", "open"]
        assert [each.name async for each in client.prompts()] == ["first__find", "drop", "second__find", "open"]
        assert await said(client, "first__find") == "find of first"
        assert await said(client, "second__find") == "find of second"
        assert await said(client, "open") == "open of second"
        prompt = await client.get_prompt("second__find")
        assert prompt.messages[0].content == types.TextContent(text="find of second")
        with pytest.raises(ErrorResponse, match="no tool 'find'"):
            await client.call_tool("find")


@in_all_eras
async def test_a_prefix_precedes_all_names_of_a_server(way: Way) -> None:
    gateway = front()
    gateway.mount(server_with("find", revision=way.upstream), prefix="crm")

    async with opened(gateway, way) as client:
        assert await names(client) == ["crm__find"]
        assert await said(client, "crm__find") == "find of other"
        assert [each.name async for each in client.prompts()] == ["crm__find"]
        assert (await client.get_prompt("crm__find")).messages[0].content == types.TextContent(text="find of other")


@in_all_eras
async def test_a_name_can_be_chosen(way: Way) -> None:
    gateway = front()
    gateway.mount(server_with("find", "drop", revision=way.upstream), prefix="crm", rename={"find": "search"})

    async with opened(gateway, way) as client:
        assert await names(client) == ["search", "crm__drop"]
        assert await said(client, "search") == "find of other"
        with pytest.raises(ErrorResponse, match="no tool 'find'"):
            await client.call_tool("find")


async def test_a_name_that_two_servers_were_given_gets_a_number() -> None:
    gateway = front()
    gateway.mount(server_with("find", name="first"), rename={"find": "search"})
    gateway.mount(server_with("look", name="second"), rename={"look": "search"})

    async with opened(gateway, HERE) as client:
        assert await names(client) == ["search", "search_2"]
        assert await said(client, "search_2") == "look of second"


async def test_a_name_that_clashes_with_a_given_one_is_qualified() -> None:
    gateway = front()
    gateway.mount(server_with("find", name="first"), rename={"find": "search"})
    gateway.mount(server_with("search", name="second"))

    async with opened(gateway, HERE) as client:
        assert await names(client) == ["search", "second__search"]
        assert await said(client, "second__search") == "search of second"


# What the gateway itself has.


@in_all_eras
async def test_tools_of_the_gateway_itself_precede_those_of_servers_and_keep_their_names(way: Way) -> None:
    gateway = front(server_with("find", "drop", revision=way.upstream))
    gateway.tool(name="find")(_saying("find of the gateway"))
    gateway.prompt(name="find")(_saying("find of the gateway"))

    async with opened(gateway, way) as client:
        assert await names(client) == ["find", "other__find", "drop"]
        assert [each.name async for each in client.prompts()] == ["find", "other__find", "drop"]
        assert await said(client, "find") == "find of the gateway"
        assert await said(client, "other__find") == "find of other"
        prompt = await client.get_prompt("find")
        assert prompt.messages[0].content == types.TextContent(text="find of the gateway")


async def test_a_tool_that_the_gateway_gets_later_takes_the_name_of_one_of_a_server() -> None:
    gateway = front(server_with("find"))

    async with opened(gateway, HERE) as client:
        assert await names(client) == ["find"]
        gateway.tool(name="find")(_saying("find of the gateway"))
        assert await names(client) == ["find", "other__find"]
        gateway.tools.remove("find")
        assert await names(client) == ["find"]
        assert await said(client, "find") == "find of other"


# Which are shown.


@in_all_eras
async def test_only_and_without_are_patterns_of_names(way: Way) -> None:
    gateway = front()
    gateway.mount(
        server_with("find_a", "find_b", "drop_a", revision=way.upstream), only=["find_*"], without=["*_b", "other"]
    )

    async with opened(gateway, way) as client:
        assert await names(client) == ["find_a"]
        assert [each.name async for each in client.prompts()] == ["find_a"]
        assert await said(client, "find_a") == "find_a of other"
        for hidden in ("find_b", "drop_a"):
            with pytest.raises(ErrorResponse, match=f"no tool '{hidden}'"):
                await client.call_tool(hidden)
            with pytest.raises(ErrorResponse, match=f"no prompt '{hidden}'"):
                await client.get_prompt(hidden)
    assert gateway.status["other"].tools == 0  # it is not served any more


@in_all_eras
async def test_an_argument_that_is_fixed_is_neither_shown_nor_chosen_by_callers(way: Way) -> None:
    server = server_of(way.upstream)

    @server.tool
    async def find(query: str, tenant: str) -> str:
        return f"{query} in {tenant}"

    @server.tool
    async def wipe(tenant: str) -> str:
        return f"wiped {tenant}"

    @server.tool
    async def plain(query: str = "nothing") -> str:
        return query

    gateway = front()
    gateway.mount(server, fix={"tenant": "acme"})
    async with opened(gateway, way) as client:
        schemas = {tool.name: tool.input_schema async for tool in client.tools()}
        assert list(schemas["find"]["properties"]) == ["query"]
        assert schemas["find"]["required"] == ["query"]
        assert schemas["wipe"].get("properties", {}) == {}
        assert "required" not in schemas["wipe"]
        assert await said(client, "find", {"query": "tea"}) == "tea in acme"
        assert await said(client, "find", {"query": "tea", "tenant": "evil"}) == "tea in acme"
        assert await said(client, "wipe") == "wiped acme"
        assert await said(client, "plain") == "nothing"


async def test_a_caller_cannot_send_a_fixed_argument_to_a_tool_that_does_not_name_it() -> None:
    server = server_of(MODERN)

    @server.tool(input_schema={"type": "object", "allOf": [{"properties": {"tenant": {"type": "string"}}}]})
    async def find(tenant: str = "nobody") -> str:
        return tenant

    gateway = front()
    gateway.mount(server, fix={"tenant": "acme"})

    async with opened(gateway, HERE) as client:
        assert await said(client, "find", {"tenant": "evil"}) == "acme"
        assert await said(client, "find") == "nobody"


@in_all_eras
async def test_a_tool_can_be_edited_or_left_out(way: Way) -> None:
    def edit(tool: types.Tool) -> types.Tool | None:
        return None if tool.name == "drop" else evolve(tool, description="Find it.", title="Finder")

    gateway = front()
    gateway.mount(server_with("find", "drop", revision=way.upstream), edit=edit)

    async with opened(gateway, way) as client:
        (tool,) = [each async for each in client.tools()]
        assert (tool.name, tool.description, tool.title) == ("find", "Find it.", "Finder")
        assert await said(client, "find") == "find of other"
        with pytest.raises(ErrorResponse, match="no tool 'drop'"):
            await client.call_tool("drop")


async def test_a_fixed_argument_arrives_at_a_tool_that_is_edited_too() -> None:
    server = server_of(MODERN)

    @server.tool
    async def find(query: str, tenant: str) -> str:
        return f"{query} in {tenant}"

    gateway = front()
    gateway.mount(server, fix={"tenant": "acme"}, edit=lambda tool: evolve(tool, description="Find it."))

    async with opened(gateway, HERE) as client:
        assert await said(client, "find", {"query": "tea"}) == "tea in acme"


# Visibility.


def hides_from_bob(entry: Any, access: Access | None) -> bool:
    return access is None or access.principal != "bob" or not entry.name.startswith("secret")


def server_with_secrets(revision: str) -> Server:
    server = server_with("secret_find", "find", revision=revision)
    server.resources.add_static("a://secret", "s", name="secret")
    server.resource("b://{id}", name="secret_template")(_same)
    return server


async def _same(id: str) -> str:  # the variable of the template
    return id


@in_all_eras
@pytest.mark.parametrize("where", ["mount", "gateway"])
async def test_what_is_hidden_from_a_caller_is_as_if_it_did_not_exist(way: Way, where: str) -> None:
    gateway = front(visible=hides_from_bob if where == "gateway" else None)
    gateway.mount(server_with_secrets(way.upstream), visible=hides_from_bob if where == "mount" else None)

    async with two_principals(gateway, way) as (ada, bob):
        assert await names(ada) == ["secret_find", "find"]
        assert await names(bob) == ["find"]
        assert [each.name async for each in bob.prompts()] == ["find"]
        assert [each.uri async for each in bob.resources()] == []
        assert [each.uri_template async for each in bob.resource_templates()] == []
        assert await said(ada, "secret_find") == "secret_find of other"
        assert (await ada.read_resource("a://secret")).contents
        assert (await ada.read_resource("b://1")).contents
        with pytest.raises(ErrorResponse, match="no tool 'secret_find'"):
            await bob.call_tool("secret_find")
        with pytest.raises(ErrorResponse, match="no prompt 'secret_find'"):
            await bob.get_prompt("secret_find")
        for hidden in ("a://secret", "b://1"):
            with pytest.raises(ErrorResponse, match="no resource"):
                await bob.read_resource(hidden)
        with pytest.raises(ErrorResponse, match="no resource template"):
            await bob.complete(types.ResourceTemplateReference(uri="b://{id}"), "id", "")


async def test_a_list_with_hidden_entries_is_private() -> None:
    gateway = front()
    gateway.mount(server_with("find"), visible=hides_from_bob)

    async with two_principals(gateway, HERE) as (_, bob):
        assert (await bob.list_tools()).cache_scope == "private"


async def test_what_a_function_of_visibility_fails_for_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    def visible(entry: Any, _: Access | None) -> bool:
        return {"find": True}[entry.name]

    gateway = front()
    gateway.mount(server_with("find", "drop"), visible=visible)

    async with opened(gateway, HERE) as client:
        assert await names(client) == ["find"]
        with pytest.raises(ErrorResponse, match="no tool 'drop'"):
            await client.call_tool("drop")

    assert "visible= has failed; 'drop' is hidden" in caplog.text


@in_all_eras
async def test_a_caller_is_not_told_of_a_change_of_what_it_does_not_see(way: Way) -> None:
    server = server_with_secrets(way.upstream)
    gateway = front()
    gateway.mount(server, visible=hides_from_bob)

    async with two_principals(gateway, way) as (ada, bob):
        assert await names(bob) == ["find"]
        async with ada.listen(tools=True) as for_ada, bob.listen(tools=True) as for_bob:
            server.tool(name="secret_new")(_saying("x"))
            assert await anext(for_ada) == ListChanged("tools")
            server.tool(name="new")(_saying("x"))
            assert await anext(for_bob) == ListChanged("tools")
            assert await names(bob) == ["find", "new"]  # it was told once, when both had been added


@pytest.mark.parametrize("name", ["edit", "visible"])
async def test_functions_of_a_mount_are_plain_functions(name: str) -> None:
    async def wrong(*_: object) -> bool:
        return True

    wrongs: list[Any] = [wrong, "x"]
    for given in wrongs:
        options: dict[str, Any] = {name: given}
        with pytest.raises(TypeError, match=rf"mount\({name}=.*must be a plain function"):
            front().mount(server_of(MODERN), **options)
