"""Tests of tools whose schemas are given and published byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio.testing

from trio_mcp import Server, open_client, serve_stream, types

INPUT = """{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object", "x-unknown": [1.0, 1e2, null],
  "properties": {"n": {"maximum": 12345678901234567890123, "type": "integer"}},
  "required": ["n"]
}"""
OUTPUT = '{"type":"array","items":{"type":"integer"}}'


async def listed_bytes(server: Server, revision: str) -> bytes:
    """Return the raw response to `tools/list`."""
    ours, theirs = trio.testing.memory_stream_pair()
    received = bytearray()
    receive_some = ours.receive_some

    async def receive(max_bytes: int | None = None) -> bytes:
        chunk = bytes(await receive_some(max_bytes))
        received.extend(chunk)
        return chunk

    ours.receive_some = receive  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        async with open_client(ours, revision=revision) as client:
            received.clear()
            await client.list_tools()
    return bytes(received)


@pytest.mark.parametrize("text", [INPUT, INPUT.encode()])
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_schema_given_as_a_string_is_published_byte_for_byte(revision: str, text: str | bytes) -> None:
    server = Server("s")

    @server.tool(input_schema=text)
    async def count(n: int) -> None: ...

    lines = (await listed_bytes(server, revision)).splitlines()

    assert len(lines) == 1
    assert INPUT.replace("\n", " ").encode() in lines[0]


@pytest.mark.requirement("B.20-C6")
async def test_a_schema_given_as_an_object_keeps_its_order_and_unknown_keywords() -> None:
    schema = {"type": "object", "x-b": {"q": None}, "x-a": 1.0, "properties": {"z": True, "a": {"type": "string"}}}
    server = Server("s")

    @server.tool(input_schema=schema)
    def take(**arguments: Any) -> None: ...

    assert b'{"type":"object","x-b":{"q":null},"x-a":1.0,"properties":{"z":true,"a":{"type":"string"}}}' in (
        await listed_bytes(server, "2026-07-28")
    )


@pytest.mark.requirement("A.6-P1", "B.20-S5b", "B.20-S5c")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_structured_content_other_than_objects_is_sent_where_the_revision_allows_it(revision: str) -> None:
    server = Server("s")

    @server.tool(output_schema=OUTPUT)
    async def up_to(n: int) -> Any:
        return list(range(n))

    async with open_client(server, revision=revision) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("up_to", {"n": 2})

    newest = revision == types.REVISIONS[-1]
    assert tool.output_schema == ({"type": "array", "items": {"type": "integer"}} if newest else None)
    assert result.structured_content == ([0, 1] if newest else types.UNSET)
    assert result.content == [types.TextContent(text="[0,1]")]


async def test_null_counts_as_structured_content() -> None:
    server = Server("s")
    server.tool(name="null", output_schema={"type": "null"})(lambda: None)
    server.tool(name="none")(lambda: None)

    async with open_client(server, revision="2026-07-28") as client:
        assert (await client.call_tool("null")).structured_content is None
        assert (await client.call_tool("none")).structured_content is types.UNSET


@pytest.mark.requirement("B.20-S5a")
async def test_the_result_of_a_tool_is_checked_against_its_given_output_schema() -> None:
    server = Server("s")
    server.tool(name="t", output_schema=OUTPUT)(lambda: ["a"])

    async with open_client(server) as client:
        result = await client.call_tool("t")

    assert result.is_error
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    assert "$[0]: expected integer, got string" in block.text


@pytest.mark.requirement("B.20-S4a")
@pytest.mark.parametrize(
    ("text", "fault"),
    [("{", "tool 't': inputSchema is not JSON"), ("[]", "inputSchema is not a JSON object"), (b"\xff", "not JSON")],
)
def test_a_string_that_is_not_a_schema_is_refused_at_registration(text: str | bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Server("s").tool(name="t", input_schema=text)(lambda: None)


@pytest.mark.requirement("B.20-S4c")
@pytest.mark.parametrize("option", ["input_schema", "output_schema"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "nope"}}},
        {"type": "object", "$schema": "https://example.com/mine"},
        {"type": "object", "$ref": "https://example.com/remote"},
    ],
)
def test_an_unusable_schema_is_refused_at_registration(option: str, schema: dict[str, Any]) -> None:
    options: dict[str, Any] = {option: schema}

    with pytest.raises(ValueError, match=r"tool 't': (in|out)putSchema cannot be used: .*(nope|example\.com)"):
        Server("s").tool(name="t", **options)(lambda: None)


@pytest.mark.parametrize("revision", types.REVISIONS)
@pytest.mark.parametrize("as_text", [False, True])
async def test_an_unconstrained_property_is_written_as_the_revision_requires(revision: str, as_text: bool) -> None:
    server = Server("s")
    schema = {"type": "object", "properties": {"any": True, "never": False, "text": {"type": "string"}}}
    given: Any = json.dumps(schema) if as_text else schema

    @server.tool(input_schema=given, output_schema=given)
    def take(**arguments: Any) -> dict[str, Any]:
        return arguments

    async with open_client(server, revision=revision) as client:
        (tool,) = [tool async for tool in client.tools()]

    older: dict[str, Any] = {
        "type": "object",
        "properties": {"any": {}, "never": {"not": {}}, "text": {"type": "string"}},
    }
    assert tool.input_schema == (schema if revision == "2026-07-28" else older)
    assert tool.output_schema in ([None] if revision < "2025-06-18" else [tool.input_schema])
