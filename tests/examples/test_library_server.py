"""A client uses every tool, resource, prompt and completion of the library server in every revision."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp import Client, ErrorResponse, open_client, types

LIBRARY = Path(__file__).parents[2] / "examples" / "library_server.py"
TIMEOUT = 60  # seconds for a whole conversation


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_library_server_works_in_every_revision(revision: str) -> None:
    command = [sys.executable, "-W", "error", str(LIBRARY)]
    logged: list[Any] = []
    audited = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        logged.append((message.level, message.logger, message.data))
        if message.logger == "stock":
            audited.set()

    with trio.fail_after(TIMEOUT):
        async with open_client(command, revision=revision, on_log=on_log) as client:
            await client.set_log_level("info")
            await use_the_tools(client)
            await use_the_resources(client, not_found=-32602 if revision == "2026-07-28" else -32002)
            await use_the_prompts_and_completions(client, resolved=revision >= "2025-06-18")
            await audited.wait()

    assert logged == [
        ("warning", "desk", {"asked_for": "treasures"}),
        ("info", "desk", {"lent": "treasure", "to": "Ada"}),
        ("notice", "stock", "Treasure Island is not on its shelf"),
    ]


async def use_the_tools(client: Client) -> None:
    assert len((await client.list_tools()).tools) == 2
    assert [tool.name async for tool in client.tools()] == ["search", "lend", "take_stock", "show_cover"]
    found = await client.call_tool("search", {"words": "stevenson"}, raise_on_error=True)
    assert [book["id"] for book in json.loads(text_of(found))] == ["treasure", "kidnapped"]
    for arguments, outcome in (
        ({"book": "treasures", "reader": "Ada"}, "there is no book 'treasures'; search for its id"),
        ({"book": "treasure", "reader": "Ada"}, '{"book":"treasure","reader":"Ada","weeks":3}'),
        ({"book": "treasure", "reader": "Bo"}, "Ada has Treasure Island"),
        (
            {"book": "candle", "reader": "Bo", "weeks": 7},
            "lend: the arguments do not fit its schema\n$.weeks: 7 is greater than the maximum of 6",
        ),
    ):
        assert text_of(await client.call_tool("lend", arguments)) == outcome
    async with client.open_call("take_stock", {"seconds_per_book": 0}) as call:
        reported = [update.progress async for update in call.updates]
        assert text_of(await call.result()) == '["Treasure Island"]'
    assert reported == [1, 2, 3, 4, 5, 6, 7]
    (picture,) = (await client.call_tool("show_cover", {"book": "candle"})).content
    assert isinstance(picture, types.ImageContent)
    assert b"Chemical History" in base64.b64decode(picture.data)


async def use_the_resources(client: Client, *, not_found: int) -> None:
    assert [each.name async for each in client.resources()] == ["rules", "stamp", "loans"]
    assert [each.name async for each in client.resource_templates()] == ["about", "cover", "shelf"]
    read = {
        uri: (await client.read_resource(f"library://{uri}")).contents[0]
        for uri in ("rules", "stamp", "loans", "books/candle", "covers/candle", "shelf?genre=crime&author=Conan")
    }
    texts = {uri: each.text for uri, each in read.items() if isinstance(each, types.TextResourceContents)}
    blobs = {
        uri: base64.b64decode(each.blob) for uri, each in read.items() if isinstance(each, types.BlobResourceContents)
    }
    assert texts["rules"].startswith("# Rules")
    assert json.loads(texts["loans"]) == {"treasure": "Ada"}
    assert json.loads(texts["books/candle"])["author"] == "Michael Faraday"
    assert texts["shelf?genre=crime&author=Conan"] == "The Hound of the Baskervilles"
    assert blobs["stamp"].startswith(b"\x89PNG\r\n")
    assert blobs["covers/candle"].startswith(b"<svg")
    for uri in ("library://books/none", "library://shelf?genre=poems", "library://cellar"):
        with pytest.raises(ErrorResponse) as missing:
            await client.read_resource(uri)
        assert (missing.value.code, missing.value.data) == (not_found, {"uri": uri})


async def use_the_prompts_and_completions(client: Client, *, resolved: bool) -> None:
    assert [prompt.name async for prompt in client.prompts()] == ["recommend", "compare", "remind"]
    arguments_of = {
        "recommend": {"genre": "crime", "age": "12", "short": "true"},
        "compare": {"first": "candle", "second": "origin"},
        "remind": {"reader": "Ada"},
    }
    got = {name: (await client.get_prompt(name, arguments)).messages for name, arguments in arguments_of.items()}
    last = {name: messages[-1].content for name, messages in got.items()}
    assert last == {
        "recommend": types.TextContent(text="Which short crime book should a reader of 12 years take home?"),
        "compare": types.TextContent(text="Let me compare them."),
        "remind": types.TextContent(text="Write a friendly letter to Ada, who is to bring back: Treasure Island."),
    }
    assert [type(message.content) for message in got["compare"][:2]] == [types.EmbeddedResource] * 2
    wrong: tuple[dict[str, str], ...] = ({"genre": "crime", "age": "2"}, {"genre": "crime"}, {"genre": "x", "age": "9"})
    for arguments in wrong:
        with pytest.raises(ErrorResponse, match="do not fit"):
            await client.get_prompt("recommend", arguments)
    with pytest.raises(ErrorResponse, match="there is no book 'x'"):
        await client.get_prompt("compare", {"first": "x", "second": "origin"})

    compare, shelf = types.PromptReference(name="compare"), "library://shelf{?genre,author}"
    science = {"genre": "science"}
    suggested = [
        (await client.complete(types.PromptReference(name="recommend"), "genre", "s")).values,
        (await client.complete(types.PromptReference(name="remind"), "reader", "")).values,
        (await client.complete(compare, "first", "k")).values,
        (await client.complete(compare, "second", "", context={"first": "candle"})).values,
        (await client.complete(types.ResourceTemplateReference(uri=shelf), "author", "C", context=science)).values,
        (await client.complete(types.ResourceTemplateReference(uri="library://books/{book}"), "book", "m")).values,
    ]
    others = ["treasure", "kidnapped", "leagues", "moonstone", "baskerville", "origin", "candle"]
    assert suggested == [
        ["science"],
        ["Ada"],
        ["kidnapped"],
        ["origin"] if resolved else others,
        ["Charles Darwin"],
        ["moonstone"],
    ]


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text
