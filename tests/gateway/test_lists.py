"""The merged lists of a gateway: their pages, and the URIs of resources that several servers have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.helpers import MODERN, Way, contents, front, in_all_eras, names, opened, server_of, uris
from tests.gateway.upstream_server import make_server
from trio_mcp import Client, ErrorResponse, Server, types

HERE = Way(MODERN, MODERN)


async def said() -> str:
    return "said"


def server_with_tools(name: str, number: int, revision: str = MODERN) -> Server:
    server = server_of(revision, name)
    for index in range(number):
        server.tool(name=f"{name}_{index}")(said)
    return server


# Pages.


async def pages_of(client: Client) -> list[list[str]]:
    """Return the names on each page of the list of tools."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        page = await client.list_tools(cursor)
        pages.append([tool.name for tool in page.tools])
        cursor = page.next_cursor
    return pages


@in_all_eras
async def test_each_entry_of_all_servers_is_on_exactly_one_page(way: Way) -> None:
    gateway = front(server_with_tools("a", 4, way.upstream), server_with_tools("b", 3, way.upstream), page_size=3)
    gateway.tool(name="own")(said)
    async with opened(gateway, way) as client:
        pages = await pages_of(client)

    assert pages == [["own", "a_0", "a_1"], ["a_2", "a_3", "b_0"], ["b_1", "b_2"]]


@in_all_eras
async def test_pages_stay_valid_when_entries_come_and_go(way: Way) -> None:
    first, second = server_with_tools("a", 4, way.upstream), server_with_tools("b", 3, way.upstream)
    async with opened(front(first, second, page_size=3), way, cache=False) as client:
        assert [len(page) for page in await pages_of(client)] == [3, 3, 1]
        start = await client.list_tools()
        async with client.listen(tools=True) as changes:
            first.tools.remove("a_1")
            first.tool(name="late")(said)
            await anext(changes)
            while "late" not in (await names(client)):
                await anext(changes)
        following = await client.list_tools(start.next_cursor)
        last = await client.list_tools(following.next_cursor)

    assert [tool.name for tool in start.tools] == ["a_0", "a_1", "a_2"]
    assert [tool.name for page in (following, last) for tool in page.tools] == ["a_3", "b_0", "b_1", "b_2", "late"]


@in_all_eras
async def test_a_cursor_of_another_list_is_refused(way: Way) -> None:
    server = make_server(way.upstream)
    async with opened(front(server, page_size=2), way) as client:
        page = await client.list_tools()
        assert page.next_cursor is not None
        for refused in (client.list_prompts(page.next_cursor), client.list_tools("made up")):
            with pytest.raises(ErrorResponse) as error:
                await refused
            assert error.value.code == -32602


async def test_lists_are_the_same_for_everybody_and_so_may_be_public() -> None:
    from trio_mcp import CacheHint

    gateway = front(server_with_tools("a", 1), cache={"tools/list": CacheHint(ttl=5, scope="public")})
    async with opened(gateway, HERE) as client:
        page = await client.list_tools()

    assert (page.ttl_ms, page.cache_scope) == (5000, "public")


async def test_a_gateway_without_servers_has_empty_lists() -> None:
    async with opened(front(), HERE) as client:
        assert await names(client) == []
        assert await uris(client) == []
        assert [each async for each in client.resource_templates()] == []
        assert [each async for each in client.prompts()] == []


# URIs.


def server_with_resources(name: str, revision: str) -> Server:
    """Return a server with a resource, a template and a tool that links to both and to something that is not listed."""
    server = server_of(revision, name)
    server.resources.add_static("a://b", f"b of {name}", name="b")

    @server.resource("a://named/{id}")
    async def named(id: str) -> str:  # the variable of the template
        return f"{id} of {name}"

    @server.completion(template="a://named/{id}", argument="id")
    async def ids(typed: str) -> list[str]:
        return [f"{typed} of {name}"]

    @server.tool
    async def links() -> types.CallToolResult:
        parts: list[Any] = [
            types.ResourceLink(uri="a://b", name="link"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="a://named/x", text="t")),
            types.ResourceLink(uri=f"own://{name}", name="unlisted"),
            types.TextContent(text="a://b"),
        ]
        return types.CallToolResult(content=parts)

    @server.prompt
    async def shown() -> types.GetPromptResult:
        part = types.EmbeddedResource(resource=types.TextResourceContents(uri="a://b", text="t"))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=part)])

    return server


@in_all_eras
async def test_a_uri_of_two_servers_gets_the_label_of_the_later_one(way: Way) -> None:
    gateway = front(server_with_resources("first", way.upstream))
    gateway.mount(server_with_resources("second", way.upstream), prefix="My Desk")
    async with opened(gateway, way) as client:
        assert await uris(client) == ["a://b", "my-desk+a://b"]
        templates = [each.uri_template async for each in client.resource_templates()]
        assert templates == ["a://named/{id}", "my-desk+a://named/{id}"]
        assert contents(await client.read_resource("a://b")) == "b of first"
        assert contents(await client.read_resource("a://named/x")) == "x of first"
        for uri, expected in (("my-desk+a://b", "b of second"), ("my-desk+a://named/x", "x of second")):
            read = await client.read_resource(uri)
            assert contents(read) == expected
            assert read.contents[0].uri == uri
        reference = types.ResourceTemplateReference(uri="my-desk+a://named/{id}")
        assert list((await client.complete(reference, "id", "x")).values) == ["x of second"]


@in_all_eras
async def test_links_in_results_lead_to_the_server_that_has_made_them(way: Way) -> None:
    gateway = front(server_with_resources("first", way.upstream), server_with_resources("second", way.upstream))
    async with opened(gateway, way) as client:
        seen: dict[str, list[str]] = {}
        for server in ("first", "second"):
            link, embedded, unlisted, words = (await client.call_tool(f"{server}__links")).content
            assert isinstance(link, types.ResourceLink)
            assert isinstance(embedded, types.EmbeddedResource)
            assert isinstance(unlisted, types.ResourceLink)
            assert words == types.TextContent(text="a://b")
            seen[server] = [link.uri, embedded.resource.uri, unlisted.uri]
            assert contents(await client.read_resource(link.uri)) == f"b of {server}"
            assert contents(await client.read_resource(embedded.resource.uri)) == f"x of {server}"
            (message,) = (await client.get_prompt(f"{server}__shown")).messages
            assert isinstance(message.content, types.EmbeddedResource)
            assert message.content.resource.uri == link.uri

    assert seen == {
        "first": ["a://b", "a://named/x", "own://first"],
        "second": ["second+a://b", "second+a://named/x", "own://second"],
    }


@in_all_eras
async def test_a_resource_that_matches_a_template_of_a_server_mounted_before_gets_a_label(way: Way) -> None:
    first, second = server_of(way.upstream, "first"), server_of(way.upstream, "second")

    @first.resource("a://{id}")
    async def any_of_first(id: str) -> str:  # the variable of the template
        return f"{id} of first"

    second.resources.add_static("c://x", "x of second", name="x")
    second.resources.add_static("a://x", "x of second", name="y")
    async with opened(front(first, second), way) as client:
        listed = await uris(client)
        read = {uri: contents(await client.read_resource(uri)) for uri in (*listed, "a://y")}

    assert list(read.values())[-1] == "y of first"
    assert {"x of second"} == {read[uri] for uri in listed}


@in_all_eras
async def test_the_same_template_with_other_names_of_variables_leads_to_its_own_server(way: Way) -> None:
    first, second = server_of(way.upstream, "first"), server_of(way.upstream, "second")

    @first.resource("a://{id}")
    async def of_first(id: str) -> str:  # the variable of the template
        return f"{id} of first"

    @second.resource("a://{name}")
    async def of_second(name: str) -> str:
        return f"{name} of second"

    async with opened(front(first, second), way) as client:
        templates = [each.uri_template async for each in client.resource_templates()]
        assert templates == ["a://{id}", "second+a://{name}"]
        assert contents(await client.read_resource("a://x")) == "x of first"
        assert contents(await client.read_resource("second+a://x")) == "x of second"


@in_all_eras
async def test_two_servers_with_the_same_prefix_have_labels_of_their_own(way: Way) -> None:
    gateway = front(server_with_resources("first", way.upstream))
    gateway.mount(server_with_resources("second", way.upstream), prefix="desk")
    gateway.mount(server_with_resources("third", way.upstream), prefix="desk")
    async with opened(gateway, way) as client:
        listed = await uris(client)
        read = [contents(await client.read_resource(uri)) for uri in listed]

    assert len(set(listed)) == 3
    assert read == ["b of first", "b of second", "b of third"]


@in_all_eras
async def test_only_what_is_shown_of_a_server_can_be_read(way: Way) -> None:
    gateway = front()
    gateway.mount(server_with_resources("first", way.upstream), only=["b", "a://other/*"])
    async with opened(gateway, way) as client:
        assert await uris(client) == ["a://b"]
        assert [each async for each in client.resource_templates()] == []
        assert contents(await client.read_resource("a://b")) == "b of first"
        for hidden in ("a://named/x", "first+a://named/x", "own://first"):
            with pytest.raises(ErrorResponse, match="no resource"):
                await client.read_resource(hidden)


@in_all_eras
async def test_resources_of_the_gateway_itself_stand_beside_those_of_servers(way: Way) -> None:
    gateway = front(server_with_resources("first", way.upstream))
    gateway.resources.add_static("own://b", "own", name="own")

    @gateway.resource("own://named/{id}")
    async def named(id: str) -> str:  # the variable of the template
        return f"{id} of the gateway"

    async with opened(gateway, way) as client:
        assert await uris(client) == ["own://b", "a://b"]
        templates = [each.uri_template async for each in client.resource_templates()]
        assert templates == ["own://named/{id}", "a://named/{id}"]
        assert contents(await client.read_resource("own://b")) == "own"
        assert contents(await client.read_resource("own://named/x")) == "x of the gateway"
        assert contents(await client.read_resource("a://b")) == "b of first"


@in_all_eras
async def test_a_unlisted_resource_of_a_later_server_is_read_by_its_label(way: Way) -> None:
    first, second = make_server(way.upstream, name="first"), make_server(way.upstream, name="second")
    async with opened(front(first, second), way) as client:
        with pytest.raises(ErrorResponse, match="no resource"):
            await client.read_resource("notes://unlisted")  # which of both has it is not known


async def test_a_template_that_cannot_be_expanded_is_listed_and_matches_nothing() -> None:
    class Odd(Server):
        pass

    odd = Odd("odd")
    entry = types.ResourceTemplate(name="odd", uri_template="a://{")

    @odd.middleware
    async def answer(request: Any, call_next: Any) -> Any:
        if request.method == "resources/templates/list":
            return types.ListResourceTemplatesResult(resource_templates=[entry], ttl_ms=0, cache_scope="private")
        return await call_next(request)

    odd.resources.add_static("c://x", "x", name="x")
    async with opened(front(odd), HERE) as client:
        assert [each.uri_template async for each in client.resource_templates()] == ["a://{"]
        assert contents(await client.read_resource("c://x")) == "x"
