"""Our client over HTTP with servers made with the official SDK: both eras, and every variant of that SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Unpack

import pytest
import trio

from tests.peers.conftest import TIMEOUT, text_of
from tests.peers.everything_tools import Host
from tests.peers.test_subscriptions import EVERYTHING
from trio_mcp import Client, ClientOptions, ListChanged, ResourceUpdated, open_client, types

VARIANTS = [
    *((name, revision) for name in ("stateful", "stateless", "json") for revision in ("2025-11-25", "2026-07-28")),
    ("resumable", "2025-11-25"),
    ("sse", "2024-11-05"),
]
TWO_WAY = [each for each in VARIANTS if each not in {("stateless", "2025-11-25"), ("json", "2025-11-25")}]
"""The variants in which a server can ask. The official server sends a legacy client only the response if it keeps no
session or writes no event streams."""


@asynccontextmanager
async def conversation(url: str, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    with trio.fail_after(TIMEOUT):
        async with open_client(url, **options) as client:
            yield client


@pytest.mark.parametrize(("name", "revision"), VARIANTS)
async def test_every_feature_that_asks_no_question_works(
    official_urls: Mapping[str, str], name: str, revision: str
) -> None:
    reports: dict[int, list[float]] = {}

    async with conversation(official_urls[name], revision=revision) as client:
        tools = {tool.name async for tool in client.tools()}

        async def count(steps: int) -> None:
            async def on_progress(update: types.ProgressNotificationParams) -> None:
                await trio.lowlevel.checkpoint()
                reports.setdefault(steps, []).append(update.progress)

            result = await client.call_tool("count", {"steps": steps}, on_progress=on_progress)
            assert not result.is_error

        async with trio.open_nursery() as nursery:
            for steps in range(1, 11):
                nursery.start_soon(count, steps)
        total = await text_of(client, "add", a=1, b=2)
        (memo,) = (await client.read_resource("memo://pond")).contents
        (message,) = (await client.get_prompt("plan", {"topic": "a walk"})).messages
        suggested = await client.complete(types.PromptReference(name="plan"), "topic", "walk")

    assert client.revision == revision
    assert {"add", "count", "hang"} <= tools
    assert total == "3"
    assert isinstance(memo, types.TextResourceContents)
    assert memo.text == "about pond"
    assert message.content == types.TextContent(text="Plan a walk.")
    assert suggested.values == ["walking"]
    if name != "json":  # in that mode the official server sends only the response
        assert reports == {steps: [*range(1, steps + 1)] for steps in range(1, 11)}


@pytest.mark.parametrize(("name", "revision"), TWO_WAY)
async def test_the_official_server_asks_for_elicitation_sampling_and_roots(
    official_urls: Mapping[str, str], name: str, revision: str
) -> None:
    host = Host(roots=[types.Root(uri="file:///srv/data")])

    async def on_elicit(_: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={"count": 2})

    options: ClientOptions = {"revision": revision, "on_sample": host.on_sample, "roots": host.list_roots}
    if revision != "2024-11-05":  # that revision has no elicitation
        options["on_elicit"] = on_elicit
    async with conversation(official_urls[name], **options) as client:
        answers = [await text_of(client, tool) for tool in ("folders", "summarise")]
        booked = await text_of(client, "book") if "on_elicit" in options else "2 seats"

    assert answers == ["file:///srv/data", "a model of ours: a sonnet about nurseries"]
    assert booked == "2 seats"


@pytest.mark.parametrize(("name", "revision"), [each for each in TWO_WAY if each[0] != "json"])
async def test_a_call_that_the_client_leaves_early_stops_its_handler(
    official_urls: Mapping[str, str], name: str, revision: str
) -> None:
    work = f"{name} {revision}"
    async with conversation(official_urls[name], revision=revision) as client:
        async with client.open_call("hang", {"name": work}) as call:
            async for _ in call.updates:
                break
        while await text_of(client, "was_stopped", name=work) != "true":
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(("name", "revision"), [("stateful", "2025-11-25"), ("stateful", "2026-07-28"), VARIANTS[-1]])
async def test_log_messages_of_the_official_server_arrive(
    official_urls: Mapping[str, str], name: str, revision: str
) -> None:
    host = Host()

    async with conversation(official_urls[name], revision=revision, on_log=host.on_log) as client:
        if revision == "2026-07-28":  # the legacy server has no levels and sends every message
            await client.set_log_level("info")
        assert await text_of(client, "complain") == "complained"
        await host.hears("the pond is dry")

    assert [(each.level, each.logger) for each in host.logged] == [("warning", "garden")]


async def test_the_client_reconnects_for_an_answer_when_the_server_closes_the_stream(
    official_urls: Mapping[str, str],
) -> None:
    async with conversation(official_urls["resumable"], revision="2025-11-25") as client:
        assert await text_of(client, "be_patient", steps=3) == "thank you"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_client_receives_changes(official_urls: Mapping[str, str], revision: str) -> None:
    url = official_urls["changing"]
    async with conversation(url, revision=revision) as client, client.listen(**EVERYTHING) as changes:
        await client.call_tool("touch", {"uri": "memo://two"})
        for kind in ("tools", "prompts", "resources"):
            await client.call_tool("grow", {"kind": kind})
        await client.call_tool("touch", {"uri": "memo://one"})
        received = {await anext(changes) for _ in range(4)}

    assert received == {
        ListChanged("tools"),
        ListChanged("prompts"),
        ListChanged("resources"),
        ResourceUpdated("memo://one"),
    }
