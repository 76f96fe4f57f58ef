"""Handlers that wait for answers in one of several processes: the retry reaches them through any of these."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio
from attrs import define

from tests.interaction.over_cluster import Process, cluster
from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Context, MemoryShared, Server, open_http_client, types
from trio_mcp.cluster._membership import HEARTBEAT_SECONDS
from trio_mcp.server import HttpOptions
from trio_mcp.wire import CAPABILITIES_KEY

URL = "http://localhost/mcp"
ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}


def make_server(asking: Literal["parked", "replayed"] = "parked", begun: list[str] | None = None) -> Server:
    """Return a server that adds its name to *begun* whenever its handler begins."""
    server = Server("asks", asking=asking)

    @server.tool
    async def where(ctx: Context) -> list[str]:
        if begun is not None:
            begun.append(str(id(server)))
        return [str(root.uri) for _ in range(2) for root in await ctx.list_roots()]

    return server


def retry_of(client: RawHttpClient, interim: Any, uri: str) -> Any:
    (key,) = interim["inputRequests"]
    retry = client.call("where", meta=ROOTS)
    retry["params"] |= {
        "requestState": interim["requestState"],
        "inputResponses": {key: {"roots": [{"uri": uri}]}},
    }
    return retry


async def test_a_parked_handler_is_continued_through_any_process() -> None:
    begun: list[str] = []

    async with cluster(lambda: make_server(begun=begun), nodes=3) as balanced:
        clients = [RawHttpClient(engine) for engine in balanced.engines]
        first = (await clients[0].post(clients[0].call("where", meta=ROOTS))).answer["result"]
        assert first["resultType"] == "input_required"
        second = (await clients[1].post(retry_of(clients[1], first, "file:///a"))).answer["result"]
        assert second["resultType"] == "input_required"
        last = (await clients[2].post(retry_of(clients[2], second, "file:///b"))).answer["result"]

        assert last["structuredContent"] == {"result": ["file:///a", "file:///b"]}
        assert len(begun) == 1


@pytest.mark.parametrize("asking", ["parked", "replayed"])
async def test_a_client_is_asked_through_a_balancer_as_by_one_process(asking: Literal["parked", "replayed"]) -> None:
    async with (
        cluster(lambda: make_server(asking), nodes=3) as balanced,
        open_http_client(URL, engine=balanced, roots=[types.Root(uri="file:///home")]) as client,
    ):
        for _ in range(6):
            result = await client.call_tool("where")
            assert result.structured_content == {"result": ["file:///home", "file:///home"]}


async def test_a_replayed_handler_begins_again_in_the_process_that_gets_the_retry() -> None:
    begun: list[str] = []

    async with cluster(lambda: make_server("replayed", begun), nodes=2) as balanced:
        clients = [RawHttpClient(engine) for engine in balanced.engines]
        first = (await clients[0].post(clients[0].call("where", meta=ROOTS))).answer["result"]
        await clients[1].post(retry_of(clients[1], first, "file:///a"))

        assert len({*begun}) == 2


async def test_a_retry_whose_process_has_ended_is_told_so() -> None:
    shared = MemoryShared()
    owner, other = (
        Process(make_server(), HttpOptions(shared=shared)),
        Process(make_server(), HttpOptions(shared=shared)),
    )
    async with trio.open_nursery() as nursery:
        clients = [RawHttpClient(await nursery.start(each.run)) for each in (owner, other)]
        interim = (await clients[0].post(clients[0].call("where", meta=ROOTS))).answer["result"]
        owner.stop.set()
        await owner.stopped.wait()

        got = await clients[1].post(retry_of(clients[1], interim, "file:///a"))

        assert got.code == -32602
        assert "the process in which the handler waited for the answers has ended" in got.answer["error"]["message"]
        other.stop.set()


@define
class Calendar:
    """The clock of the machines, in the place of `time`."""

    now: float = 1_000_000.0

    def time(self) -> float:
        return self.now


async def test_handlers_are_found_when_all_keys_of_their_time_were_replaced(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    calendar, shared = Calendar(), MemoryShared()
    monkeypatch.setattr("trio_mcp.cluster._membership.time", calendar)
    owner, other = (Process(make_server(), HttpOptions(shared=shared)) for _ in range(2))
    async with trio.open_nursery() as nursery:
        client = RawHttpClient(await nursery.start(owner.run))
        earlier = (await client.post(client.call("where", meta=ROOTS))).answer["result"]
        for _ in range(4):
            for seconds in (31 * 86400.0, 61.0):  # a key is announced, and replaces the one before
                calendar.now += seconds
                await trio.sleep(2 * HEARTBEAT_SECONDS)
        interim = (await client.post(client.call("where", meta=ROOTS))).answer["result"]
        later = RawHttpClient(await nursery.start(other.run))  # which has never known the first key

        got = await later.post(retry_of(later, interim, "file:///a"))
        assert got.answer["result"]["resultType"] == "input_required"
        got = await client.post(retry_of(client, earlier, "file:///a"))
        assert got.answer["result"]["resultType"] == "input_required"
        owner.stop.set()
        other.stop.set()


@pytest.mark.parametrize("home", ["", "ffffffffffff.", "own"])
async def test_a_state_whose_process_was_replaced_by_another_name_is_refused(home: str) -> None:
    async with cluster(make_server, nodes=2) as balanced:
        clients = [RawHttpClient(engine) for engine in balanced.engines]
        mine, theirs = [(await client.post(client.call("where", meta=ROOTS))).answer["result"] for client in clients]
        name = f"{mine['requestState'].partition('.')[0]}." if home == "own" else home
        theirs["requestState"] = name + theirs["requestState"].partition(".")[2]

        got = await clients[0].post(retry_of(clients[0], theirs, "file:///a"))

        assert got.code == -32602
        assert "it is invalid or has expired" in got.answer["error"]["message"]
