"""Results of more than 64 KiB, whose long parts a gateway does not read: what the caller gets of each kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Unpack

import pytest
import trio
from attrs import frozen
from trio.testing import memory_stream_pair

from tests.gateway.helpers import ERAS, LEGACY, MODERN, Way, front, in_all_eras, opened, text_of
from trio_mcp import Accepted, Client, ClientOptions, Context, RemoteProtocolError, Server, serve_stream, types
from trio_mcp.gateway._forward import read_question
from trio_mcp.wire import JsonText


@frozen
class Answer:
    right: bool


LONG = "x" * 100_000
WIDE = "é" * 100_000
"""A text that takes two bytes for each character."""
OTHERS = [Way(MODERN, each, down_by=by) for each in (MODERN, LEGACY, "2025-03-26") for by in ("bytes", "http")]
LINK = types.ResourceLink(uri="a://same", name="link")
SOUND = types.AudioContent(data="QUJD" * 30_000, mime_type="audio/wav")


def make_server(revision: str) -> Server:
    server = Server("large", revisions=[revision])
    server.resources.add_static("a://same", LONG, name="same")

    @server.tool
    async def text() -> str:
        return WIDE

    @server.tool
    async def mixed() -> list[types.ContentBlock]:
        embedded = types.EmbeddedResource(resource=types.TextResourceContents(uri="a://same", text=LONG))
        return [types.TextContent(text=LONG), SOUND, LINK, embedded]

    @server.tool
    async def confirm(context: Context) -> str:
        match await context.elicit(f"Is this right? {LONG}", Answer):
            case Accepted(Answer(right)):
                return str(right)
            case other:
                return str(other)

    return server


@asynccontextmanager
async def two_servers(way: Way, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Open a client of a gateway in front of two servers, which have a resource with the same URI."""
    first = Server("first")
    first.resources.add_static("a://same", "first", name="same")
    async with trio.open_nursery() as nursery:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve_stream, make_server(way.upstream), theirs)
        gateway = front(first)
        gateway.mount(ours, name="second", restart=None)
        async with opened(gateway, way, **options) as client:
            assert [tool.name async for tool in client.tools()] == ["text", "mixed", "confirm"]
            yield client
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("way", [*ERAS, *OTHERS], ids=str)
async def test_a_long_text_arrives_as_it_is(way: Way) -> None:
    async with two_servers(way) as client:
        result = await client.call_tool("text")

    assert [block.text for block in result.content if isinstance(block, types.TextContent)] == [WIDE]


@in_all_eras
async def test_the_uris_of_blocks_beside_long_ones_are_those_of_the_gateway(way: Way) -> None:
    async with two_servers(way) as client:
        text, sound, link, embedded = (await client.call_tool("mixed")).content

    assert isinstance(text, types.TextContent)
    assert text.text == LONG
    assert sound == SOUND
    assert isinstance(link, types.ResourceLink)
    assert (link.uri, link.name) == ("second+a://same", "link")
    assert isinstance(embedded, types.EmbeddedResource)
    assert isinstance(embedded.resource, types.TextResourceContents)
    assert (embedded.resource.uri, embedded.resource.text) == ("second+a://same", LONG)


@in_all_eras
async def test_a_long_resource_has_the_uri_of_the_gateway(way: Way) -> None:
    async with two_servers(way) as client:
        (contents,) = (await client.read_resource("second+a://same")).contents

    assert isinstance(contents, types.TextResourceContents)
    assert (contents.uri, contents.text) == ("second+a://same", LONG)


@in_all_eras
async def test_a_long_question_reaches_the_user(way: Way) -> None:
    asked: list[str] = []

    async def answer(question: Any) -> types.ElicitResult:
        asked.append(question.message)
        return types.ElicitResult(action="accept", content={"right": True})

    async with two_servers(way, on_elicit=answer) as client:
        result = await client.call_tool("confirm")

    assert asked == [f"Is this right? {LONG}"]
    assert text_of(result) == "True"


def test_a_long_question_that_cannot_be_read_is_an_error_of_the_server() -> None:
    deep = JsonText(b"[" * 50_000 + b"]" * 50_000)

    assert isinstance(read_question({"resultType": "input_required", "inputRequests": deep}), RemoteProtocolError)
