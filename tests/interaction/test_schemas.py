"""JSON Schemas on both sides: those of a server's author, and malicious ones that a client must survive."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio

from tests.interaction.scripted_peers import MODERN
from trio_mcp import Client, RemoteProtocolError, Server, open_client, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server

Json: TypeAlias = dict[str, Any]

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
UNKNOWN = "https://example.org/dialect"


async def called(schema: Json, content: Any, *, times: int = 1) -> list[Exception | None]:
    """Let a scripted server publish an output schema and return a content; return the outcome of each call."""
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    made: list[Exception | None] = []
    cacheable = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def serve(server: ScriptedPeer) -> None:
        await server.answer({"tools": [tool]} | cacheable, method="tools/list")
        for _ in range(times + 1):
            request = await server.expect_request("tools/call")
            answer: Json = {"resultType": "complete", "content": []}
            if request["params"]["name"] == "t":
                answer["structuredContent"] = content
            await server.respond(request, answer)

    async with open_scripted_server(revision=MODERN) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(serve, server)
        await client.list_tools()
        made += [await _outcome(client) for _ in range(times)]
        await client.call_tool("other")  # only that one call failed
    return made


async def _outcome(client: Client) -> Exception | None:
    try:
        await client.call_tool("t")
    except RemoteProtocolError as error:
        return error
    return None


def register(schema: Json) -> Server:
    server = Server("s")

    @server.tool(input_schema=schema)
    async def t(**arguments: Any) -> str:
        return "ran"

    return server


async def refused(schema: Json, arguments: Json) -> str | None:
    """Return the server's error for invalid arguments; None if they are valid."""
    async with open_client(register(schema)) as client:
        result = await client.call_tool("t", arguments)
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        return block.text if result.is_error else None


# Dialects.


TUPLE: Json = {"type": "object", "properties": {"p": {"prefixItems": [{"type": "integer"}]}}}
PAIRS: dict[str, Json] = {
    DRAFT_07: {"$schema": DRAFT_07, "type": "object", "properties": {"p": {"items": [{"type": "integer"}]}}},
    DRAFT_2020_12: {"$schema": DRAFT_2020_12, **TUPLE},
    "no dialect": TUPLE,
}
"""The same schema in the keywords of each dialect, which the other dialect ignores or reads differently."""


@pytest.mark.requirement("B.20-J1", "B.20-J2")
@pytest.mark.parametrize("dialect", PAIRS)
async def test_both_sides_read_a_schema_in_its_own_dialect(dialect: str) -> None:
    schema = PAIRS[dialect]

    assert await refused(schema, {"p": [1, "x"]}) is None
    assert "$.p[0]: expected integer, got string" in str(await refused(schema, {"p": ["x"]}))
    assert await called(schema, {"p": [1, "x"]}) == [None]
    (misfit,) = await called(schema, {"p": ["x"]})
    assert "$.p[0]: expected integer, got string" in str(misfit)


async def test_a_keyword_of_another_dialect_is_ignored() -> None:
    later = {**PAIRS[DRAFT_2020_12], "$schema": DRAFT_07}

    assert await refused(later, {"p": ["x"]}) is None
    assert await called(later, {"p": ["x"]}) == [None]


@pytest.mark.requirement("B.20-J3")
async def test_both_sides_refuse_an_unknown_dialect_by_name() -> None:
    schema = {"$schema": UNKNOWN, "type": "object"}

    with pytest.raises(ValueError, match=f"'t': inputSchema cannot be used: .*{UNKNOWN}"):
        register(schema)
    (misfit,) = await called(schema, {})
    assert f"the output schema of tool 't' cannot be used: unknown JSON Schema dialect '{UNKNOWN}'" in str(misfit)


# External references.


@pytest.fixture
def listening() -> Generator[socket.socket]:
    """A socket to which neither side may connect."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.requirement("B.20-J5", "B.20-J6")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("scheme", ["http", "https", "file", "HTTP"])
async def test_neither_side_fetches_the_references_of_a_schema(
    scheme: str, keyword: str, listening: socket.socket, tmp_path: Path
) -> None:
    accepting = tmp_path / "schema.json"
    await trio.Path(accepting).write_text(json.dumps({"type": "object"}))
    there = accepting.as_uri() if scheme == "file" else f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/schema.json"
    schemas: list[Json] = [
        {"type": "object", "properties": {"p": {keyword: there}}},
        {"type": "object", "items": {"anyOf": [{"type": "string"}, {keyword: there}]}},
        {"type": "object", "$id": there.removesuffix("schema.json"), keyword: "schema.json"},
        {"type": "object", "$defs": {"never used": {"$ref": there}}},
    ]

    for schema in schemas:
        with pytest.raises(ValueError, match="not fetched"):
            register(schema)
        (misfit,) = await called(schema, {})
        assert there.lower() in str(misfit).lower()
        assert "not fetched" in str(misfit)


@pytest.mark.requirement("B.20-J5")
async def test_neither_side_fetches_a_custom_dialect(listening: socket.socket) -> None:
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/dialect"

    with pytest.raises(ValueError, match=f"unknown JSON Schema dialect '{address}'"):
        register({"$schema": address})
    (misfit,) = await called({"$schema": address}, {})
    assert address in str(misfit)


# Malicious servers.


def nested(levels: int, keyword: str = "items") -> Json:
    schema: Json = {"type": "integer"}
    for _ in range(levels):
        schema = {keyword: schema}
    return schema


def ladder(keyword: str, rungs: int = 60) -> Json:
    definitions: Json = {"d0": {"type": "integer"}}
    for number in range(1, rungs):
        definitions[f"d{number}"] = {keyword: [{"$ref": f"#/$defs/d{number - 1}"}] * 2}
    return {"$defs": definitions, "$ref": f"#/$defs/d{rungs - 1}"}


def tower(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


ITSELF: Json = {"$ref": "#"}
HARM: dict[str, tuple[Json, Any, str]] = {
    "deep": (nested(400), 1, "the schema is nested deeper than 200 levels"),
    "wide": ({"properties": {f"p{number}": {} for number in range(5_000)}}, {}, "more than 5,000 parts"),
    "allOf": (ladder("allOf"), 1, "too expensive to validate"),
    "many branches": ({**ladder("anyOf"), "unevaluatedProperties": False}, 1, "references of the schema multiply"),
    "recursive": ({"type": "array", "items": {"oneOf": [ITSELF, ITSELF]}}, tower(100), "does not fit"),
    "dangling reference": ({"$ref": "#/$defs/x"}, 1, "cannot be used"),
    "backtracking": ({"pattern": r"^(a*)*\1$"}, "a" * 100 + "!", "in reasonable time"),
    "linear": ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!", "does not match the pattern"),
    "memory": ({"pattern": "((a{100}){100}){100}"}, "a", "cannot be used"),
}


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize("name", HARM)
async def test_a_malicious_output_schema_fails_only_its_own_call(name: str) -> None:
    schema, content, reason = HARM[name]

    first, second = await called(schema, content, times=2)

    for misfit in (first, second):
        assert isinstance(misfit, RemoteProtocolError)
        assert "'t'" in str(misfit)
        assert reason in str(misfit)


async def test_a_schema_that_refers_only_to_itself_accepts_every_value() -> None:
    for schema in (ITSELF, {"allOf": [ITSELF, ITSELF]}, {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}):
        assert await called({"type": "object"} | schema, {"a": 1}) == [None]


# The server's side: its author's schema, and arguments from outside.


@pytest.mark.requirement("B.20-J7")
async def test_a_server_refuses_arguments_that_would_take_too_long_to_check() -> None:
    schema = {"type": "object", "properties": {"p": {"$ref": "#/$defs/d59"}}, "$defs": ladder("oneOf")["$defs"]}
    recursive: Json = {"$defs": {"r": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/r"}] * 2}}}}

    assert await refused(schema, {}) is None
    assert "too expensive to validate" in str(await refused(schema, {"p": 1}))
    recursive |= {"type": "object", "properties": {"p": {"$ref": "#/$defs/r"}}}
    assert await refused(recursive, {"p": [[[]]]}) is None
    assert "too expensive to validate" in str(await refused(recursive, {"p": tower(100)}))


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize("name", ["deep", "wide", "many branches", "dangling reference", "memory"])
def test_a_server_refuses_an_unusable_input_schema_at_registration(name: str) -> None:
    with pytest.raises(ValueError, match="tool 't': inputSchema cannot be used"):
        register(HARM[name][0])
