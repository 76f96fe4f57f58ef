"""Lifecycle and failure isolation: opening and closing of clients, and the effects of a failure."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.interaction.scripted_peers import MODERN
from trio_mcp import (
    Client,
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    RemoteProtocolError,
    Server,
    open_client,
    serve_stream,
    start_client,
)
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_server

PROGRAM = """
import trio
from trio_mcp import Server, serve_stdio
server = Server("s")

@server.tool
async def echo(text: str) -> str:
    return text

trio.run(serve_stdio, server)
"""


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


async def echoes(client: Client, text: str) -> bool:
    called: Any = await client.call_tool("echo", {"text": text})
    return bool(called.structured_content == {"result": text})


# Complaint 1.


@define(eq=False)
class Manager:
    """An object, as applications write them, whose methods open and close clients."""

    nursery: trio.Nursery
    clients: dict[int, Client] = field(factory=dict[int, Client])
    _next: int = 0

    async def open(self, target: Any) -> None:
        number, self._next = self._next, self._next + 1
        self.clients[number] = await start_client(self.nursery, target)

    async def close(self, number: int) -> None:
        client = self.clients.pop(number)
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await client.list_tools()


def served_stream(nursery: trio.Nursery) -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(serve_stream, make_server(), theirs)
    return ours


async def in_another_task(function: Callable[..., Awaitable[object]], *arguments: object) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(function, *arguments)


@pytest.mark.complaint(1)
@pytest.mark.parametrize("seed", range(20))
async def test_clients_may_be_opened_and_closed_in_any_order_from_any_task(seed: int) -> None:
    chance = random.Random(seed)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            manager = Manager(nursery)
            for step in range(30):
                if manager.clients and chance.random() < 0.5:
                    await in_another_task(manager.close, chance.choice(list(manager.clients)))
                else:
                    await in_another_task(manager.open, chance.choice([make_server(), served_stream(nursery)]))
                for client in manager.clients.values():
                    assert await echoes(client, str(step))
            remaining = list(manager.clients)
            chance.shuffle(remaining)
            async with trio.open_nursery() as closing:  # the remaining clients concurrently
                for number in remaining:
                    closing.start_soon(manager.close, number)
            nursery.cancel_scope.cancel()


@pytest.mark.complaint(1)
async def test_clients_of_child_processes_may_be_closed_in_the_order_of_opening_from_other_tasks() -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            manager = Manager(nursery)
            for _ in range(3):
                await in_another_task(manager.open, [sys.executable, "-c", PROGRAM])
            for number in range(3):
                await in_another_task(manager.close, number)
                for client in manager.clients.values():
                    assert await echoes(client, "still there")


@pytest.fixture
async def opened_in_block() -> AsyncGenerator[Client]:
    async with open_client(make_server()) as client:
        yield client


@pytest.fixture
async def opened_in_nursery(nursery: trio.Nursery) -> AsyncGenerator[Client]:
    client = await start_client(nursery, make_server())
    yield client
    await client.aclose()


@pytest.mark.complaint(1)
async def test_fixtures_can_open_and_close_clients(opened_in_block: Client, opened_in_nursery: Client) -> None:
    await opened_in_block.aclose()
    assert await echoes(opened_in_nursery, "x")


# Complaint 2.


@pytest.mark.complaint(2)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_an_invalid_response_fails_only_its_own_call(revision: str) -> None:
    """A malformed result, an error, a response without a request, invalid lines, and a callback that raises.

    The HTTP tests cover responses that are refused, truncated, of the wrong type, or missing.
    """
    outcomes: dict[str, Any] = {}

    async def call(client: Client, name: str) -> None:
        async def on_progress(_: object) -> None:
            await trio.lowlevel.checkpoint()
            raise KeyError(name)

        try:
            outcomes[name] = (await client.call_tool(name, on_progress=on_progress)).content
        except (RemoteProtocolError, ErrorResponse, KeyError) as error:
            outcomes[name] = type(error)

    good: dict[str, Any] = {"content": []}
    good |= {"resultType": "complete"} if revision == MODERN else {}
    names = ["malformed", "refused", "raises", *(f"good {number}" for number in range(100))]
    async with open_scripted_server(revision=revision) as (client, server), trio.open_nursery() as nursery:
        requests: dict[str, Any] = {}
        for name in names:
            nursery.start_soon(call, client, name)
            request = await server.expect_request("tools/call")
            requests[request["params"]["name"]] = request
        await server.send(b"this is no message\n", b"[[[[\n", b'{"jsonrpc":"2.0"}\n')
        await server.send({"jsonrpc": "2.0", "id": 10_000, "result": good})
        await server.respond(requests["malformed"], good | {"content": "not a list"})
        error = {"code": -32603, "message": "no"}
        await server.send({"jsonrpc": "2.0", "id": requests["refused"]["id"], "error": error})
        await server.report(requests["raises"], 1)
        while (await server.receive())["method"] != "notifications/cancelled":
            pass
        for name in names[3:]:
            await server.respond(requests[name], good)

    expected: dict[str, Any] = {
        "malformed": RemoteProtocolError,
        "refused": ErrorResponse,
        "raises": KeyError,
        **{name: [] for name in names[3:]},
    }
    assert outcomes == expected


# Complaint 3.


@pytest.mark.complaint(3)
async def test_a_failure_to_connect_is_raised_without_an_exception_group(tmp_path: Path) -> None:
    """A missing socket, a missing program, and a server that disconnects. The HTTP tests cover refusals over HTTP."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()
    with pytest.raises(OSError, match="No such file"):
        async with open_client(await trio.open_unix_socket(str(tmp_path / "missing"))):
            pass
    with pytest.raises(FileNotFoundError, match="cannot start"):
        async with open_client([str(tmp_path / "nothing")]):
            pass
    with pytest.raises(ConnectionBroken):
        async with open_client(ours):
            pass


@pytest.mark.complaint(3)
@pytest.mark.parametrize("depth", [1, 3])
async def test_an_exception_in_the_block_of_nested_clients_and_calls_is_raised_without_an_exception_group(
    depth: int,
) -> None:
    async def inside(left: int) -> None:
        if left == 0:
            raise ValueError("of the user")
        async with open_client(make_server()) as one, open_memory_client(make_server()) as two:
            assert await echoes(two, "y")
            async with one.open_call("echo", {"text": "x"}):
                await inside(left - 1)

    with pytest.raises(ValueError, match="of the user") as raised:
        await inside(depth)

    assert type(raised.value) is ValueError


# Complaint 5.


@pytest.mark.complaint(5)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_every_waiting_call_fails_when_the_server_closes_the_socket(revision: str, tmp_path: Path) -> None:
    """Calls, calls whose updates are read, and iterations over lists, on a socket that the server closes abruptly."""
    failed: list[str] = []
    path = str(tmp_path / "socket")
    with trio.socket.socket(trio.socket.AF_UNIX) as listening:
        await listening.bind(path)
        listening.listen()
        stream = await trio.open_unix_socket(path)
        accepted, _ = await listening.accept()
    server = ScriptedPeer(trio.SocketStream(accepted))

    async def wait(what: str, client: Client) -> None:
        with pytest.raises(ConnectionBroken):
            if what == "call":
                await client.call_tool("x")
            elif what == "updates":
                async with client.open_call("x") as call:
                    async for _ in call.updates:
                        pass
                    await call.result()
            else:
                assert [tool async for tool in client.tools()]
        failed.append(what)

    is_welcomed = trio.Event()

    async def welcome() -> None:
        await server.welcome(revision)
        is_welcomed.set()

    kinds = ["call"] * 50 + ["updates"] * 50 + ["walk"] * 10
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(welcome)
            async with open_client(stream, revision=revision) as client:
                await is_welcomed.wait()
                async with trio.open_nursery() as waiting:
                    for what in kinds:
                        waiting.start_soon(wait, what, client)
                    for _ in kinds:
                        await server.expect_request()
                    await server.stream.aclose()
                with pytest.raises(ConnectionBroken):
                    await client.call_tool("later")
                assert client.statistics().outgoing == 0
    assert sorted(failed) == sorted(kinds)


# Complaint 8.


@pytest.mark.complaint(8)
@pytest.mark.parametrize("ticks", range(0, 40, 3))
async def test_a_cancellation_while_connecting_leaves_no_task_behind(ticks: int) -> None:
    """The cancellation comes after the given number of checkpoints; every task must have ended after it."""
    tasks_before = trio.lowlevel.current_statistics().tasks_living
    ours, theirs = trio.testing.memory_stream_pair()
    server = ScriptedPeer(theirs)

    async with trio.open_nursery() as nursery:

        async def cancel_later() -> None:
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            opening.cancel()

        async def answer() -> None:
            with suppress(AssertionError):  # the client may disconnect at any moment
                await server.answer_initialize("2025-11-25")

        nursery.start_soon(cancel_later)
        nursery.start_soon(answer)
        with trio.CancelScope() as opening:
            async with open_client(ours, revision="2025-11-25"):
                await trio.sleep_forever()
        nursery.cancel_scope.cancel()
    await theirs.aclose()

    assert opening.cancelled_caught
    assert trio.lowlevel.current_statistics().tasks_living == tasks_before
