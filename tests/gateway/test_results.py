"""Tools, resources and prompts behind a gateway: what they return, and how they fail, is what the caller gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.helpers import (
    MODERN,
    Way,
    contents,
    everywhere,
    front,
    in_all_eras,
    in_processes_too,
    in_this_process,
    opened,
    server_of,
    text,
    text_of,
    through,
)
from tests.gateway.upstream_server import ABOUT, HINTS, ICON, META, NOTES, UNLISTED
from trio_mcp import CacheHint, Context, ErrorResponse, Server, types
from trio_mcp.lowlevel import ClientExtensionPoints

STRUCTURED = "2025-06-18"


def own_meta(result: Any) -> dict[str, Any]:
    """Return the `_meta` of a result but for the name of the server that has sent it."""
    meta: dict[str, Any] = result.meta or {}
    return {name: each for name, each in meta.items() if not name.startswith("io.modelcontextprotocol")}


# Tools.


@in_processes_too
async def test_a_tool_returns_an_object_and_its_text(way: Way) -> None:
    async with through(way) as client:
        result = await client.call_tool("point", {"x": 1, "y": 2})

    assert text(result) == '{"x":1,"y":2}'
    assert result.structured_content == ({"x": 1, "y": 2} if way.oldest >= STRUCTURED else types.UNSET)


@everywhere
async def test_a_tool_returns_an_array_or_a_scalar_where_both_revisions_have_that(way: Way) -> None:
    async with through(way) as client:
        await client.list_tools()
        array = await client.call_tool("array")
        scalar = await client.call_tool("scalar")

    assert [each.text for each in array.content if isinstance(each, types.TextContent)] in (["[1,2]"], ["1", "2"])
    assert text(scalar) == "2.5"
    assert array.structured_content in (([1, 2],) if way.oldest == MODERN else ({"result": [1, 2]}, types.UNSET))
    assert scalar.structured_content in ((2.5,) if way.oldest == MODERN else ({"result": 2.5}, types.UNSET))


@everywhere
async def test_a_tool_error_is_a_result_with_its_text(way: Way) -> None:
    async with through(way) as client:
        failed = await client.call_tool("fail")

    assert failed.is_error
    assert text_of(failed) == "out of paper"


@in_processes_too
async def test_a_protocol_error_keeps_its_code_its_message_and_its_data(way: Way) -> None:
    async with through(way) as client:
        with pytest.raises(ErrorResponse) as refused:
            await client.call_tool("refuse")

    assert (refused.value.code, refused.value.message) == (-5, "not today")
    assert refused.value.data == {"until": "tomorrow"}


@everywhere
async def test_arguments_that_do_not_fit_are_refused_in_the_words_of_the_server(way: Way) -> None:
    async with through(way) as client:
        wrong = await client.call_tool("point", {"x": "many", "z": 1})

    assert wrong.is_error
    assert all(name in text_of(wrong) for name in ("'x'", "'y'", "'z'")) or "x" in text_of(wrong)


@everywhere
async def test_a_call_without_arguments_or_with_empty_ones_has_none(way: Way) -> None:
    async with through(way) as client:
        assert text(await client.call_tool("nothing")) == "nothing was needed"
        assert text(await client.call_tool("nothing", {})) == "nothing was needed"
        assert text(await client.call_tool("echo")) == '{"value":"nothing"}'


@in_this_process
@pytest.mark.parametrize("value", [None, True, 1, 2**53, 1.5, "", "grüß\n", [], [1, [None]], {}, {"a": {"b": []}}])
async def test_an_argument_of_any_json_type_arrives_as_it_is(way: Way, value: Any) -> None:
    async with through(way) as client:
        result = await client.call_tool("echo", {"value": value})

    assert not result.is_error
    if way.oldest >= STRUCTURED:
        assert result.structured_content == {"value": value}


@everywhere
async def test_the_meta_of_a_result_and_of_its_blocks_arrives(way: Way) -> None:
    async with through(way) as client:
        result = await client.call_tool("whole")

    if way.downstream < STRUCTURED <= way.upstream:  # the caller's revision has no links
        assert result.is_error
        return
    assert own_meta(result) == META
    words, *links, embedded = result.content
    assert isinstance(words, types.TextContent)
    assert (words.text, words.annotations) == ("said", NOTES if way.oldest >= STRUCTURED else words.annotations)
    assert isinstance(embedded, types.EmbeddedResource)
    assert embedded.resource.uri == UNLISTED
    if way.oldest >= STRUCTURED:
        assert words.meta == META
        assert embedded.resource.meta == META
        (link,) = links
        assert isinstance(link, types.ResourceLink)
        assert (link.uri, link.name, link.title, link.meta) == ("notes://text", "link", "A title", META)


@everywhere
async def test_a_result_names_the_gateway_as_its_server(way: Way) -> None:
    async with through(way) as client:
        result = await client.call_tool("nothing")

    info = (result.meta or {}).get("io.modelcontextprotocol/serverInfo")
    assert info == ({"name": "gate", "version": "0"} if way.is_modern else None)


@everywhere
async def test_the_meta_of_a_request_arrives_but_for_what_belongs_to_the_connection(way: Way) -> None:
    sent = {"example.com/colour": "red", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}

    async def ignored(_: object) -> None:
        """Ask for progress, so that the request has a token."""

    async with through(way) as client:
        seen = await client.call_tool("request_meta", meta=sent, on_progress=ignored)

    envelope = {"io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities"}
    envelope.add("io.modelcontextprotocol/logLevel")  # the gateway always says which messages it wants
    if way.oldest < STRUCTURED:
        assert '"example.com/colour":"red"' in text(seen)
        return
    received: Any = seen.structured_content
    assert {name: received.pop(name) for name in sent} == sent
    assert received.pop("progressToken") is None
    received.pop("io.github.trio-mcp/deadline", None)  # that of the gateway's own request
    assert received.pop("io.modelcontextprotocol/protocolVersion", MODERN) == MODERN
    assert received.keys() == (envelope if way.upstream == MODERN else set())


@in_all_eras
async def test_the_server_sees_the_gateway_with_the_abilities_of_the_caller(way: Way) -> None:
    async with through(way, roots=[]) as client:
        seen: Any = (await client.call_tool("caller")).structured_content

    assert (seen["name"], seen["revision"]) == ("gate", way.upstream)
    assert "roots" in seen["capabilities"]
    assert ("sampling" in seen["capabilities"]) == (way.upstream != MODERN)  # a session declares what some caller can


@everywhere
async def test_a_tool_that_no_server_has_is_refused(way: Way) -> None:
    async with through(way) as client:
        with pytest.raises(ErrorResponse, match="no tool 'missing' on the servers of this gateway") as refused:
            await client.call_tool("missing")

    assert refused.value.code == -32602


# What a tool, a prompt or a resource says of itself.


@everywhere
async def test_titles_icons_annotations_and_meta_of_entries_survive(way: Way) -> None:
    async with through(way) as client:
        (tool,) = [each async for each in client.tools() if each.name == "point"]
        (resource,) = [each async for each in client.resources() if each.name == "text"]
        (template,) = [each async for each in client.resource_templates()]
        (prompt,) = [each async for each in client.prompts() if each.name == "plan"]

    assert tool.input_schema["required"] == ["x", "y"]
    assert (tool.output_schema is not None) == (way.oldest >= STRUCTURED)
    assert (tool.annotations == HINTS) == (way.oldest >= "2025-03-26")
    assert (template.uri_template, template.mime_type) == ("notes://named/{name}", "text/markdown")
    assert [each.name for each in prompt.arguments or ()] == ["city", "pace"]
    for each in (tool, resource, template, prompt):
        assert each.description == ABOUT["description"]
        assert (each.title, each.meta) == (("A title", META) if way.oldest >= STRUCTURED else (None, None))
        assert (each.icons == [ICON]) == (way.oldest >= "2025-11-25")


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_members_that_no_revision_defines_survive_in_results_of_a_server_of_the_same_revision(
    revision: str,
) -> None:
    """The result is not read on the way."""
    way = Way(revision, revision, down_by="bytes")
    server = server_of(revision)

    @server.tool
    async def work() -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text="x")], meta={"a": {"b": [1, None]}})

    async with opened(front(server), way) as client:
        json = await ClientExtensionPoints(client).call_tool_json("work")

    assert json["_meta"]["a"] == {"b": [1, None]}


# Resources.


@in_processes_too
async def test_a_resource_is_read_as_text_or_as_bytes(way: Way) -> None:
    async with through(way) as client:
        assert contents(await client.read_resource("notes://text")) == "grüß"
        (part,) = (await client.read_resource("notes://bytes")).contents

    assert isinstance(part, types.BlobResourceContents)
    assert part.mime_type == "image/png"
    assert part.uri == "notes://bytes"


@everywhere
async def test_a_resource_of_a_template_is_read(way: Way) -> None:
    async with through(way) as client:
        result = await client.read_resource("notes://named/caf%C3%A9")

    assert contents(result) == "named café"


@everywhere
async def test_a_link_to_a_resource_that_no_list_has_can_be_read(way: Way) -> None:
    async with through(way) as client:
        assert contents(await client.read_resource(UNLISTED)) == "not listed"


@everywhere
async def test_a_resource_that_does_not_exist_is_refused_with_the_code_of_the_revision(way: Way) -> None:
    async with through(way) as client:
        with pytest.raises(ErrorResponse) as missing:
            await client.read_resource("notes://nowhere")

    assert missing.value.code == (-32602 if way.is_modern else -32002)
    assert missing.value.data == {"uri": "notes://nowhere"}


@in_all_eras
async def test_a_resource_of_no_server_is_refused_with_the_code_of_the_revision(way: Way) -> None:
    async with opened(front(server_of(way.upstream)), way) as client:
        with pytest.raises(ErrorResponse, match="no resource 'a://b' on the servers of this gateway") as missing:
            await client.read_resource("a://b")

    assert (missing.value.code, missing.value.data) == (-32602 if way.is_modern else -32002, {"uri": "a://b"})


@everywhere
async def test_hints_about_caching_are_those_of_the_server(way: Way) -> None:
    async with through(way, cache=False) as client:
        kept = await client.read_resource("notes://kept")
        plain = await client.read_resource("notes://text")

    if way.is_modern:
        known = way.upstream == MODERN
        assert (kept.ttl_ms, kept.cache_scope) == ((60_000, "public") if known else (0, "private"))
        assert (plain.ttl_ms, plain.cache_scope) == (0, "private")


async def test_a_hint_is_not_public_if_only_some_callers_see_the_server() -> None:
    server = Server("other")
    server.resources.add_static("a://b", "x", name="b", cache=CacheHint(ttl=60, scope="public"))
    gateway = front()
    gateway.mount(server, visible=lambda _, __: True)

    async with opened(gateway, Way(MODERN, MODERN), cache=False) as client:
        result = await client.read_resource("a://b")

    assert (result.ttl_ms, result.cache_scope) == (60_000, "private")


async def test_a_hint_is_not_public_if_callers_have_connections_of_their_own() -> None:
    server = Server("other")
    server.resources.add_static("a://b", "x", name="b", cache=CacheHint(ttl=60, scope="public"))
    gateway = front()
    gateway.mount(server, share="principal")

    async with opened(gateway, Way(MODERN, MODERN), cache=False) as client:
        result = await client.read_resource("a://b")

    assert result.cache_scope == "private"


# Prompts.


@everywhere
async def test_a_prompt_has_its_messages_and_its_meta(way: Way) -> None:
    async with through(way) as client:
        plan = await client.get_prompt("plan", {"city": "Graz", "pace": "fast"})
        pages = await client.get_prompt("pages")

    (message,) = plan.messages
    assert message.content == types.TextContent(text="a fast day in Graz")
    assert pages.description == "Made now."
    assert own_meta(pages) == META
    assert [each.role for each in pages.messages] == ["user", "assistant"]
    shown = pages.messages[1].content
    assert isinstance(shown, types.EmbeddedResource)
    assert shown.resource == types.TextResourceContents(uri="notes://text", text="grüß")


@everywhere
async def test_a_prompt_that_no_server_has_is_refused(way: Way) -> None:
    async with through(way) as client:
        with pytest.raises(ErrorResponse, match="no prompt 'missing'") as refused:
            await client.get_prompt("missing")
        with pytest.raises(ErrorResponse, match="city"):
            await client.get_prompt("plan")

    assert refused.value.code == -32602


# Completion.


@everywhere
async def test_arguments_of_prompts_are_completed_with_what_is_known(way: Way) -> None:
    plan = types.PromptReference(name="plan")
    async with through(way) as client:
        free = await client.complete(plan, "city", "Ge")
        known = (
            await client.complete(plan, "city", "G", context={"pace": "fast"}) if way.downstream >= STRUCTURED else None
        )
        of_literal = await client.complete(plan, "pace", "s")

    assert list(free.values) == ["Genoa", "Geneva"]
    assert list(of_literal.values) == ["slow"]
    if known is not None and way.oldest >= STRUCTURED:
        assert list(known.values) == ["Geneva"]


@everywhere
async def test_variables_of_templates_are_completed(way: Way) -> None:
    async with through(way) as client:
        result = await client.complete(types.ResourceTemplateReference(uri="notes://named/{name}"), "name", "x")

    assert list(result.values) == ["xa", "xb"]
    assert (result.total, result.has_more) == (9, True)


@everywhere
async def test_what_is_unknown_cannot_be_completed(way: Way) -> None:
    async with through(way) as client:
        with pytest.raises(ErrorResponse, match="no prompt 'missing'"):
            await client.complete(types.PromptReference(name="missing"), "city", "G")
        with pytest.raises(ErrorResponse, match=r"no resource template 'a://\{b\}'"):
            await client.complete(types.ResourceTemplateReference(uri="a://{b}"), "b", "G")


@in_all_eras
async def test_what_a_gateway_itself_has_is_completed_by_itself(way: Way) -> None:
    gateway = front(server_of(way.upstream))

    @gateway.prompt
    async def own(city: str) -> str:
        return city

    @gateway.resource("own://{id}")
    async def entry(id: str, ctx: Context) -> str:  # the variable of the template
        return id

    @gateway.completion(prompt="own", argument="city")
    async def city(typed: str) -> list[str]:
        return [f"{typed}!"]

    @gateway.completion(template="own://{id}", argument="id")
    async def ids(typed: str) -> list[str]:
        return [f"{typed}?"]

    async with opened(gateway, way) as client:
        of_prompt = await client.complete(types.PromptReference(name="own"), "city", "G")
        of_template = await client.complete(types.ResourceTemplateReference(uri="own://{id}"), "id", "G")

    assert list(of_prompt.values) == ["G!"]
    assert list(of_template.values) == ["G?"]
