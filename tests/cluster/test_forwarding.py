"""Requests that one process forwards to another: broken connections, dead processes, slow and leaving clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.lowlevel
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.interaction.over_cluster import cluster
from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Context, HttpRequest, Limits, Server
from trio_mcp.cluster import _forwarding, _links, _owner
from trio_mcp.cluster._messages import request_json
from trio_mcp.lowlevel import HttpChannel
from trio_mcp.wire import encode

LEGACY = "2025-11-25"


@define(eq=False)
class Work:
    """What the handlers of the test have done."""

    calls: int = 0
    stopped: trio.Event = field(factory=trio.Event)
    go_on: trio.Event = field(factory=trio.Event)


def make_server(work: Work) -> Server:
    server = Server("one-of-many", limits=Limits(drain_seconds=0.1))

    @server.tool
    async def large(size: int) -> str:
        work.calls += 1
        return "é" * size

    @server.tool
    async def step(ctx: Context, steps: int) -> str:
        """Report some progress, wait for the test, and report more."""
        work.calls += 1
        for number in range(steps):
            await ctx.report_progress(number)
        await work.go_on.wait()
        for number in range(steps, 2 * steps):
            await ctx.report_progress(number)
        return "done"

    @server.tool
    async def hang(ctx: Context) -> None:
        work.calls += 1
        await ctx.report_progress(1)
        try:
            await trio.sleep_forever()
        finally:
            work.stopped.set()

    return server


@define(eq=False)
class Connections:
    """The connections between the processes, which the test can break."""

    streams: list[trio.abc.Stream] = field(factory=list[trio.abc.Stream], init=False)
    refused: Exception | None = None
    """What dialing raises; None if it works."""
    attempts: int = 0

    async def dial(self, *arguments: Any) -> trio.abc.Stream:
        self.attempts += 1
        if self.refused is not None:
            await trio.lowlevel.checkpoint()
            raise self.refused
        stream = await _links.dial(*arguments)
        self.streams.append(stream)
        return stream

    async def break_latest(self) -> None:
        await trio.aclose_forcefully(self.streams[-1])


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    connections = Connections()
    monkeypatch.setattr(_forwarding, "dial", connections.dial)
    return connections


@asynccontextmanager
async def two_nodes(work: Work) -> AsyncGenerator[RawHttpClient]:
    """Serve two processes; yield a client of one of them with a session of the other."""
    async with cluster(lambda: make_server(work), nodes=2) as balanced:
        owner = RawHttpClient(balanced.engines[0], LEGACY)
        await owner.greet()
        client = RawHttpClient(balanced.engines[1], LEGACY)
        client.session = owner.session
        with trio.fail_after(30):
            yield client


async def test_a_response_of_megabytes_is_forwarded_unchanged() -> None:
    work = Work()
    async with two_nodes(work) as client:
        got = await client.post(client.call("large", {"size": 1_000_000}))

        assert got.answer["result"]["content"][0]["text"] == "é" * 1_000_000


async def test_many_requests_share_one_connection(connections: Connections) -> None:
    async with two_nodes(Work()) as client:

        async def call(number: int) -> None:
            got = await client.post(client.call("large", {"size": number}, id=number))
            assert got.answer["id"] == number
            assert len(got.answer["result"]["content"][0]["text"]) == number

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)

        assert connections.attempts == 1


async def test_a_call_survives_a_broken_connection_between_the_processes(connections: Connections) -> None:
    work = Work()
    async with two_nodes(work) as client:
        async with client.open("POST", client.call("step", {"steps": 5}, meta={"progressToken": 1})) as response:
            first = [await response.message() for _ in range(5)]
            await connections.break_latest()
            work.go_on.set()
            rest = await response.rest()

        *updates, answer = rest
        assert updates[:5] == first
        assert [each["params"]["progress"] for each in updates] == list(range(10))
        assert answer["result"]["content"][0]["text"] == "done"
        assert (work.calls, connections.attempts) == (1, 2)


async def test_a_request_that_was_lost_on_the_way_is_sent_again_and_carried_out_once(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    taken = _owner.ForwardedRequests._take  # a message that is lost cannot be provoked otherwise
    lost: list[str] = []

    def lose_first(self: Any, forwarder: Any, method: str, params: Any) -> None:
        if method == "http/request" and not lost:
            lost.append(method)
            nursery.start_soon(connections.break_latest)
        else:
            taken(self, forwarder, method, params)

    monkeypatch.setattr(_owner.ForwardedRequests, "_take", lose_first)
    async with trio.open_nursery() as nursery, two_nodes(work) as client:
        got = await client.post(client.call("large", {"size": 3}))

    assert got.answer["result"]["content"][0]["text"] == "ééé"
    assert (lost, work.calls) == (["http/request"], 1)


async def test_a_request_that_may_have_been_forgotten_since_it_was_sent_is_not_sent_again(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    taken = _owner.ForwardedRequests._take  # as above
    is_unknown = _forwarding.RemoteNode._is_unknown  # the clock cannot jump with real sockets

    def lose_all(self: Any, forwarder: Any, method: str, params: Any) -> None:
        if method == "http/request":
            nursery.start_soon(connections.break_latest)
        else:
            taken(self, forwarder, method, params)

    def long_afterwards(self: Any, forwarded: Any) -> None:
        forwarded.sent_at -= 60
        is_unknown(self, forwarded)

    monkeypatch.setattr(_owner.ForwardedRequests, "_take", lose_all)
    monkeypatch.setattr(_forwarding.RemoteNode, "_is_unknown", long_afterwards)
    async with trio.open_nursery() as nursery, two_nodes(work) as client:
        got = await client.post(client.call("large", {"size": 3}))

    assert (got.status, work.calls) == (502, 0)


class NeverCalled:
    """An application that must get no request."""

    def begin_forwarded(self, request: HttpRequest) -> None:
        raise AssertionError(f"it got {request}")

    async def answer_forwarded(self, request: HttpRequest, channel: HttpChannel, begun: object = None) -> None:
        raise AssertionError(f"it got {request}, {channel} and {begun}")


async def test_what_a_replaced_connection_has_kept_back_is_ignored() -> None:
    here, there = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        requests = _owner.ForwardedRequests(NeverCalled(), nursery)
        nursery.start_soon(requests.serve, here, "other")
        await wait_all_tasks_blocked()
        requests._forwarders["other"].link = None  # as if another connection had replaced it in this moment
        params: dict[str, Any] = {
            "id": 1,
            "done": [],
            **request_json(HttpRequest(method="GET", path="/mcp", headers={})),
        }
        await there.send_all(encode({"jsonrpc": "2.0", "method": "http/request", "params": params}) + b"\n")
        await wait_all_tasks_blocked()
        await there.aclose()


def json_of_another_version(_: HttpRequest) -> dict[str, Any]:
    return {"verb": "POST"}


async def test_a_request_of_another_version_of_the_package_is_lost_alone(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(Work()) as client:
        with monkeypatch.context() as patched:
            patched.setattr(_forwarding, "request_json", json_of_another_version)
            assert (await client.post(client.request("ping"))).status == 502

        assert (await client.post(client.request("ping"))).status == 200
        assert connections.attempts == 1


async def test_a_handler_stops_when_the_client_of_another_process_leaves() -> None:
    work = Work()
    async with two_nodes(work) as client:
        request = client.request("tools/call", {"name": "hang", "arguments": {}}, meta={"progressToken": 1})
        async with client.open("POST", request) as response:
            await response.message()
        await client.post(client.notification("notifications/cancelled", {"requestId": 1}))
        await work.stopped.wait()


async def test_a_request_is_lost_if_its_process_cannot_be_reached_any_more(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    monkeypatch.setattr(_forwarding, "AWAY_SECONDS", 0.1)
    async with two_nodes(work) as client:
        async with client.open("POST", client.call("hang", meta={"progressToken": 1})) as response:
            await response.message()
            connections.refused = OSError("no route")
            await connections.break_latest()
            with pytest.raises(Exception, match=r"ended|broke|cut|incomplete|left"):
                await response.rest()
        assert connections.attempts > 2


async def test_a_request_that_was_not_sent_is_refused_as_one_of_an_unknown_session(
    connections: Connections,
) -> None:
    async with two_nodes(Work()) as client:
        connections.refused = _links.NodeGoneError()

        got = await client.post(client.call("large", {"size": 1}))

        assert got.status == 404


async def test_a_request_whose_process_ends_before_it_answers_is_answered_with_an_error_that_says_so(
    connections: Connections,
) -> None:
    work = Work()
    async with two_nodes(work) as client, trio.open_nursery() as nursery:
        answers: list[Any] = []

        async def call() -> None:
            answers.append(await client.post(client.call("step", {"steps": 0}, id="mine")))

        nursery.start_soon(call)
        while not work.calls:  # the handler has no event for the test
            await trio.lowlevel.checkpoint()
        connections.refused = _links.NodeGoneError()
        await connections.break_latest()

    (got,) = answers
    assert (got.status, got.answer["id"], got.code) == (502, "mine", -32603)
    assert "whether the request was carried out is unknown" in got.answer["error"]["message"]


async def test_a_connection_without_requests_is_closed_after_a_while_and_made_again(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_forwarding, "_IDLE_SECONDS", 0.01)
    async with two_nodes(Work()) as client:
        for _ in range(3):
            assert (await client.post(client.request("ping"))).status == 200
            with pytest.raises(trio.ClosedResourceError):
                await _wait_closed(connections.streams[-1])

        assert connections.attempts == 3


async def _wait_closed(stream: trio.abc.Stream) -> None:
    while True:
        with suppress(trio.BusyResourceError):  # the writer waits as well
            await stream.wait_send_all_might_not_block()
        await trio.sleep(0.005)


async def test_the_responses_for_a_process_that_stays_away_are_given_up(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    monkeypatch.setattr(_owner, "KEPT_SECONDS", 0.05)
    monkeypatch.setattr(_forwarding, "AWAY_SECONDS", 0.01)
    async with two_nodes(work) as client:
        async with client.open("POST", client.call("hang", meta={"progressToken": 1})) as response:
            await response.message()
            connections.refused = OSError("no route")
            await connections.break_latest()
            with pytest.raises(Exception, match=r"ended|broke|cut|incomplete|left"):
                await response.rest()
        connections.refused = None
        monkeypatch.setattr(_forwarding, "AWAY_SECONDS", 8.0)
        assert (await client.post(client.request("ping", id=2))).status == 200
        await client.post(client.notification("notifications/cancelled", {"requestId": 1}))
        await work.stopped.wait()
