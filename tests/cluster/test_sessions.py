"""Sessions of older clients in a service of several processes: any of these takes the requests of any session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import pytest
import trio

from tests.interaction.over_cluster import Process, cluster
from tests.interaction.raw_http_client import RawHttpClient
from tests.transports.http.server.token_verifier import Tokens, protection
from trio_mcp import (
    Changes,
    Context,
    ListChanged,
    MemoryShared,
    ResourceUpdated,
    Server,
    open_http_client,
)
from trio_mcp.server import HttpOptions

URL = "http://localhost/mcp"
LEGACY = "2025-11-25"


def make_server() -> Server:
    server = Server("one-of-many")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(ctx: Context, steps: int) -> str:
        for step in range(steps):
            await ctx.report_progress(step)
        return "counted"

    @server.tool
    async def change(ctx: Context) -> None:
        ctx.resource_updated("memo://today")
        server.tool(name="late")(lambda: None)

    @server.tool
    async def change_last(ctx: Context) -> None:
        ctx.resource_updated("memo://last")

    server.resources.add_static("memo://today", "# Today", name="today")
    server.resources.add_static("memo://last", "# Last", name="last")
    return server


async def test_a_session_is_continued_by_every_process() -> None:
    async with cluster(make_server, nodes=3) as balanced:
        client = RawHttpClient(balanced.engines[0], LEGACY)
        await client.greet()

        for number, engine in enumerate(balanced.engines):
            other = RawHttpClient(engine, LEGACY)
            other.session = client.session
            got = await other.post(client.call("add", {"a": number, "b": 1}, id=number))
            assert (got.status, got.answer["id"]) == (200, number)
            assert got.answer["result"]["content"][0]["text"] == str(number + 1)


async def test_progress_of_a_forwarded_call_streams_in_order_before_its_result() -> None:
    async with cluster(make_server, nodes=2) as balanced:
        client = RawHttpClient(balanced.engines[0], LEGACY)
        await client.greet()
        other = RawHttpClient(balanced.engines[1], LEGACY)
        other.session = client.session

        got = await other.post(client.call("count", {"steps": 20}, meta={"progressToken": "t"}))

        *updates, answer = got.messages
        assert [each["params"]["progress"] for each in updates] == list(range(20))
        assert answer["result"]["content"][0]["text"] == "counted"


async def test_the_stream_of_a_session_is_opened_through_another_process_and_ends_with_the_session() -> None:
    async with cluster(make_server, nodes=3) as balanced:
        first, second, third = (RawHttpClient(engine, LEGACY) for engine in balanced.engines)
        await first.greet()
        second.session = third.session = first.session
        await third.post(third.request("resources/subscribe", {"uri": "memo://today"}))

        async with second.open("GET") as stream:
            assert (stream.status, stream.kind) == (200, "text/event-stream")
            await third.post(third.call("change"))
            told = {(await stream.message())["method"] for _ in range(2)}
            assert told == {"notifications/tools/list_changed", "notifications/resources/updated"}
            assert (await third.send("DELETE")).status == 204
            assert await stream.message() is None

        gone = await first.post(first.call("add", {"a": 1, "b": 1}))
        assert gone.status == 404


FORGED: Mapping[str, Callable[[str], str]] = {
    "another tag": lambda id: id[:-1] + ("A" if id[-1] != "A" else "B"),
    "another process": lambda id: "ffffffffffff" + id[12:],
    "no dots": lambda id: id.replace(".", ""),
    "words": lambda _: "no session",
    "short": lambda _: "a.b.c",
    "long": lambda _: "x" * 5000,
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
async def test_an_id_that_no_process_has_made_is_unknown_everywhere_and_is_not_forwarded(
    forge: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_connection(*_: object) -> None:
        raise AssertionError("it was forwarded")

    monkeypatch.setattr("trio_mcp.cluster._forwarding.dial", no_connection)
    async with cluster(make_server, nodes=2) as balanced:
        client = RawHttpClient(balanced.engines[0], LEGACY)
        await client.greet()
        assert client.session is not None
        client.session = forge(client.session)

        for engine in balanced.engines:
            other = RawHttpClient(engine, LEGACY)
            other.session = client.session
            assert (await other.post(client.call("add", {"a": 1, "b": 1}))).status == 404
            assert (await other.send("GET")).status == 404


async def test_a_session_belongs_to_its_principal_in_every_process() -> None:
    tokens = Tokens()
    ann, bob = tokens.issue("ann"), tokens.issue("bob")

    async with cluster(make_server, nodes=2, auth=protection(tokens)) as balanced:
        first, second = (RawHttpClient(engine, LEGACY, "https://mcp.example/mcp") for engine in balanced.engines)
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        begun = await first.post(first.request("initialize", params), ann)
        first.session = second.session = begun.headers["mcp-session-id"]

        assert (await second.post(second.request("ping"), ann)).status == 200
        assert (await second.post(second.request("ping"), bob)).status == 404
        assert (await second.post(second.request("ping"))).status == 401
    assert tokens.verified.count("token-0") == 2  # by the process that has received the request, and no other


async def test_posts_of_http_with_sse_reach_the_process_that_has_the_stream() -> None:
    async with cluster(make_server, nodes=2) as balanced:
        first = RawHttpClient(balanced.engines[0], "2024-11-05")
        async with first.open("GET") as stream:
            endpoint = await stream.event()
            assert endpoint is not None
            assert endpoint.event == "endpoint"
            second = RawHttpClient(balanced.engines[1], "2024-11-05", f"http://localhost{endpoint.data.decode()}")
            posted = await second.post(second.request("ping", id="over there"))
            assert posted.status == 202
            assert await stream.message() == {"jsonrpc": "2.0", "id": "over there", "result": {}}


async def test_a_process_that_stops_ends_the_streams_that_it_forwards_and_leaves_the_session_alone() -> None:
    shared = MemoryShared()
    owner, other = (
        Process(make_server(), HttpOptions(shared=shared)),
        Process(make_server(), HttpOptions(shared=shared)),
    )
    async with trio.open_nursery() as nursery:
        first, second = [RawHttpClient(await nursery.start(each.run), LEGACY) for each in (owner, other)]
        await first.greet()
        second.session = first.session
        async with second.open("GET") as stream:
            await first.post(first.call("change"))
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
            other.stop.set()
            assert await stream.message() is None
        await other.stopped.wait()
        assert (await first.post(first.request("ping"))).status == 200
        owner.stop.set()


@pytest.mark.parametrize("revision", [LEGACY, "2026-07-28"])
async def test_a_change_in_one_process_reaches_the_listeners_of_all(revision: str) -> None:
    async with cluster(make_server, nodes=3) as balanced, AsyncExitStack() as stack:
        listening: list[Changes] = []
        for engine in balanced.engines:
            client = await stack.enter_async_context(open_http_client(URL, engine=engine, revision=revision))
            listening.append(
                await stack.enter_async_context(client.listen(tools=True, resources=["memo://today", "memo://last"]))
            )
        changing = await stack.enter_async_context(open_http_client(URL, engine=balanced.engines[1]))
        await changing.call_tool("change")
        await changing.call_tool("change_last")

        for changes in listening:
            with trio.fail_after(60):
                assert {await anext(changes), await anext(changes)} == {
                    ListChanged("tools"),
                    ResourceUpdated("memo://today"),
                }
                assert await anext(changes) == ResourceUpdated("memo://last")  # so each was reported once
