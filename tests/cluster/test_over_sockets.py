"""Processes of one service over real sockets of HTTP, whose connections begin requests in one step."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from attrs import define, field

from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Limits, MemoryShared, Server, serve_http
from trio_mcp.server import HttpBound
from trio_mcp.transports.http._http1_engine import Http1Engine

LEGACY = "2025-11-25"


@define(eq=False)
class Gate:
    """A tool waits here for the test."""

    entered: trio.Event = field(factory=trio.Event, init=False)
    opened: trio.Event = field(factory=trio.Event, init=False)


def make_server(gate: Gate | None = None) -> Server:
    server = Server("one-of-many", limits=Limits(drain_seconds=0.1 if gate is None else 50))

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def wait() -> None:
        assert gate is not None
        gate.entered.set()
        await gate.opened.wait()

    return server


@asynccontextmanager
async def served(count: int, gate: Gate | None = None) -> AsyncGenerator[list[HttpBound]]:
    shared = MemoryShared()
    async with trio.open_nursery() as nursery:
        with trio.fail_after(60):
            servers = [make_server(gate) for _ in range(count)]
            yield [await nursery.start(partial(serve_http, each, port=0, shared=shared)) for each in servers]
        nursery.cancel_scope.cancel()


@pytest.fixture
async def engine() -> AsyncGenerator[Http1Engine]:
    engine = Http1Engine()
    yield engine
    await engine.aclose()


async def test_a_session_is_continued_over_connections_that_are_kept(engine: Http1Engine) -> None:
    async with served(2) as (one, other):
        first, second = (RawHttpClient(engine, LEGACY, bound.url) for bound in (one, other))
        await first.greet()
        second.session = first.session
        for number in range(20):
            for client in (first, second):
                got = await client.post(client.call("add", {"a": number, "b": 1}, id=number))
                assert got.answer["result"]["structuredContent"] == {"result": number + 1}


async def test_a_session_of_a_process_that_has_stopped_is_continued_by_the_others(engine: Http1Engine) -> None:
    async with served(3) as (one, two, three):
        first, second, third = (RawHttpClient(engine, LEGACY, bound.url) for bound in (one, two, three))
        await first.greet()
        third.session = first.session
        assert (await third.post(third.request("ping"))).status == 200
        await one.stop()
        second.session = first.session

        assert (await second.post(second.request("ping"))).status == 200
        assert (await third.post(third.request("ping"))).status == 200


async def test_a_modern_notification_is_for_the_process_that_gets_it(engine: Http1Engine) -> None:
    async with served(2) as (one, _):
        client = RawHttpClient(engine, url=one.url)

        assert (await client.post(client.notification("notifications/acme/hello"))).status == 202


async def test_a_request_whose_session_ends_while_both_processes_stop_is_refused_because_the_server_stops(
    engine: Http1Engine,
) -> None:
    gate = Gate()
    async with served(3, gate) as (one, two, three):
        first, second, third = (RawHttpClient(engine, LEGACY, bound.url) for bound in (one, two, three))
        await first.greet()
        second.session = third.session = first.session
        statuses: list[int] = []

        async def ping() -> None:
            statuses.append((await second.post(second.request("ping", id="late"))).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.post, first.call("wait"))
            await gate.entered.wait()
            nursery.start_soon(one.stop)
            await trio.testing.wait_all_tasks_blocked(0.1)
            nursery.start_soon(ping)
            await trio.testing.wait_all_tasks_blocked(0.1)
            nursery.start_soon(two.stop)
            await trio.testing.wait_all_tasks_blocked(0.1)
            assert (await third.send("DELETE")).status == 204
        assert statuses == [503]
