"""Cancellation at every checkpoint: neither end keeps any state, and the other side still answers."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing
from attrs import define

from tests.interaction.conversation_server import FullyDeclaringServer, make_server
from tests.interaction.openers import HTTP_OPENERS
from tests.interaction.over_http import URL, bridged
from tests.interaction.scripted_peers import ENVELOPE, MODERN
from trio_mcp import (
    Client,
    ConnectionClosed,
    ErrorResponse,
    Limits,
    ResourceUpdated,
    Server,
    open_client,
    serve_stream,
    start_client,
    start_http_client,
    start_memory_client,
    start_stdio_client,
    start_stream_client,
    types,
)
from trio_mcp.abc import SharedService
from trio_mcp.lowlevel import ActiveServer, Link
from trio_mcp.server import AskingMode
from trio_mcp.testing import ScriptedPeer, cancel_everywhere, open_memory_client
from trio_mcp.transports import server_link

ERAS = ("2025-11-25", MODERN)
Attempt: TypeAlias = Callable[[Client], Awaitable[object]]


@define
class Pair:
    """Both ends of one connection."""

    client: Client
    serving: ActiveServer
    link: Link | None
    """The server's end; None if the connection has no bytes."""

    async def check(self) -> None:
        """Check that neither end holds any state and that the server answers."""
        await trio.testing.wait_all_tasks_blocked()
        ends = [self.client.statistics()] + ([] if self.link is None else [self.link.statistics()])
        for held in ends:
            assert (held.outgoing, held.incoming, held.running, held.queued) == (0, 0, 0, 0)
            assert (held.outbox_bytes, held.update_bytes, held.malformed) == (0, 0, 0)
        facts = self.serving.statistics()
        assert (facts.running, facts.listening) == (0, 0 if self.client.revision == MODERN else 1)
        called = await self.client.call_tool("add", {"a": 1, "b": 2})
        assert called.content == [types.TextContent(text="3")]


@asynccontextmanager
async def over_bytes(revision: str) -> AsyncGenerator[Pair]:
    ours, theirs = trio.testing.memory_stream_pair()
    async with make_server(make=FullyDeclaringServer).serving() as serving, trio.open_nursery() as nursery:
        link = server_link(theirs, serving)
        nursery.start_soon(partial(link.run, drain=True))
        async with open_client(ours, revision=revision, roots=[]) as client:
            yield Pair(client, serving, link)


@define(eq=False)
class SharedServing:
    """An answerer that shares a running serving, so that a test can look at its handlers."""

    _serving: ActiveServer

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[ActiveServer]:
        yield self._serving


@asynccontextmanager
async def direct(revision: str) -> AsyncGenerator[Pair]:
    async with (
        make_server(make=FullyDeclaringServer).serving() as serving,
        open_client(SharedServing(serving), revision=revision, roots=[]) as client,
    ):
        yield Pair(client, serving, None)


class ExposedServer(FullyDeclaringServer):
    """A server that exposes its serving to the test."""

    exposed: ActiveServer

    @asynccontextmanager
    async def serving(
        self, *, asking: AskingMode | None = None, home: Callable[[], str] = str, shared: SharedService | None = None
    ) -> AsyncGenerator[ActiveServer]:
        async with super().serving(asking=asking, home=home, shared=shared) as self.exposed:
            yield self.exposed


@asynccontextmanager
async def over_http(revision: str) -> AsyncGenerator[Pair]:
    server = make_server(make=ExposedServer)
    assert isinstance(server, ExposedServer)
    limits = Limits(max_posts=1000)
    async with HTTP_OPENERS["http"](server, revision=revision, roots=[], limits=limits) as client:
        yield Pair(client, server.exposed, None)


def walking(walk: Callable[[Client], AsyncIterator[object]]) -> Attempt:
    async def attempt(client: Client) -> None:
        assert [each async for each in walk(client)]

    return attempt


async def call_with_callback(client: Client) -> None:
    async def on_progress(_: object) -> None:
        await trio.lowlevel.checkpoint()

    await client.call_tool("count", {"steps": 3}, on_progress=on_progress)


async def read_updates(client: Client) -> None:
    async with client.open_call("count", {"steps": 3}) as call:
        assert len([update async for update in call.updates]) == 3
        await call.result()


async def leave_unread(client: Client) -> None:
    async with client.open_call("count", {"steps": 3}):
        pass


async def listen(client: Client) -> None:
    async with client.listen(tools=True, resources=["memo://today", "picture://cat"]) as changes:
        await client.call_tool("touch", {"uris": ["picture://cat"]})
        assert await anext(changes) == ResourceUpdated("picture://cat")


async def listen_twice_at_once(client: Client) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, client)
        nursery.start_soon(listen, client)


async def two_at_once(client: Client) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "count", {"steps": 3})
        nursery.start_soon(client.call_tool, "add", {"a": 1, "b": 2})


ANYWHERE: dict[str, Attempt] = {
    "tools": walking(Client.tools),
    "resources": walking(Client.resources),
    "resource_templates": walking(Client.resource_templates),
    "prompts": walking(Client.prompts),
    "list_tools": Client.list_tools,
    "call_tool": lambda client: client.call_tool("add", {"a": 1, "b": 2}),
    "call_tool that fails": lambda client: client.call_tool("fail"),
    "call_tool with a callback": call_with_callback,
    "call_tool twice": two_at_once,
    "open_call": read_updates,
    "open_call, left at once": leave_unread,
    "listen": listen,
    "listen twice": listen_twice_at_once,
    "list_resources": Client.list_resources,
    "list_resource_templates": Client.list_resource_templates,
    "read_resource": lambda client: client.read_resource("memo://today"),
    "list_prompts": Client.list_prompts,
    "get_prompt": lambda client: client.get_prompt("review", {"code": "x"}),
    "complete": lambda client: client.complete(types.PromptReference(name="review"), "style", "k"),
    "set_log_level": lambda client: client.set_log_level("info"),
    "request": lambda client: client.request("tools/list", None, types.ListToolsResult),
    "notify": lambda client: client.notify("notifications/acme/tick"),
    "start_task": lambda client: client.start_task("add", {"a": 1, "b": 2}),
}
LEGACY_ONLY: dict[str, Attempt] = {
    "ping": Client.ping,
    "subscribe_resource": lambda client: client.subscribe_resource("memo://today"),
    "unsubscribe_resource": lambda client: client.unsubscribe_resource("memo://today"),
    "roots_changed": Client.roots_changed,
}
MODERN_ONLY: dict[str, Attempt] = {"discover": Client.discover}
AT_ONCE = ("set_log_level", "roots_changed", "notify", "open_call, left at once")
"""Calls that do not wait, at least in one era."""
everywhere = pytest.mark.parametrize("opened", [over_bytes, direct, over_http])
ATTEMPTS = ANYWHERE | LEGACY_ONLY | MODERN_ONLY
CASES = [
    (revision, name) for revision in ERAS for name in ANYWHERE | (MODERN_ONLY if revision == MODERN else LEGACY_ONLY)
]


def test_every_public_coroutine_of_a_client_is_tested() -> None:
    public = {name for cls in (Client, Client.__base__) for name in vars(cls) if not name.startswith("_")}
    facts = {
        *("extension", "instructions", "is_lost", "revision", "server_capabilities", "server_info", "statistics"),
        "task",
    }
    elsewhere = {"aclose", "app_of", "pages", "skill", "skills", "wait_lost"}  # tested below, or where they belong
    assert public - facts - elsewhere == {name.partition(",")[0].partition(" ")[0] for name in ATTEMPTS}


@everywhere
@pytest.mark.parametrize(("revision", "name"), CASES)
async def test_a_cancelled_call_leaves_no_state_behind(
    revision: str, name: str, opened: Callable[[str], Any], autojump_clock: object
) -> None:
    async with opened(revision) as pair:

        async def attempt() -> None:
            with suppress(ErrorResponse):  # the server lacks some features
                await ATTEMPTS[name](pair.client)

        await pair.check()
        points = await cancel_everywhere(attempt, pair.check)
        if pair.link is not None and name not in AT_ONCE:
            assert points >= 4  # the client, the link, the server and back


@everywhere
async def test_a_cancelled_listen_block_leaves_no_subscription_behind(
    opened: Callable[[str], Any], autojump_clock: object
) -> None:
    async with opened(ERAS[0]) as pair:
        (listener,) = pair.serving.subscribers._sessions.values()  # pyright: ignore[reportPrivateUsage] # there is no public access

        async def check() -> None:
            await pair.check()
            assert not listener._uris

        assert await cancel_everywhere(lambda: listen(pair.client), check) > 4


async def test_the_thread_of_a_cancelled_call_runs_to_its_end() -> None:
    async with over_bytes(MODERN) as pair:

        async def check() -> None:
            with trio.fail_after(60):
                while pair.serving.statistics().threads:  # no event announces the end of an abandoned thread
                    await trio.lowlevel.checkpoint()
            await pair.check()

        await cancel_everywhere(lambda: pair.client.call_tool("shout", {"text": "x"}), check)


@pytest.mark.requirement("B.12-P2a")
async def test_a_thousand_calls_with_a_quarter_cancelled_leave_no_state_behind(autojump_clock: object) -> None:
    chance = random.Random(1)
    outcomes: list[bool] = []

    async def call(client: Client, number: int) -> None:
        with trio.move_on_after(chance.random() / 10 if number % 4 == 0 else 1000) as scope:
            async with client.open_call(
                "meet" if number % 4 else "hang", {"party": 750} if number % 4 else {"key": "k"}
            ) as one:
                await one.result()
        outcomes.append(scope.cancelled_caught)

    for opened in (over_bytes, direct, over_http):
        outcomes.clear()
        async with opened("2025-11-25") as pair:
            async with trio.open_nursery() as nursery:
                for number in range(1000):
                    nursery.start_soon(call, pair.client, number)
            await pair.check()
        assert (outcomes.count(True), outcomes.count(False)) == (250, 750)


# Openers.


def tasks_alive() -> int:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, alive = [root], 0
    while waiting:
        alive += 1
        waiting += [child for nursery in waiting.pop().child_nurseries for child in nursery.child_tasks]
    return alive


@define
class ProcessResources:
    """The resources of a process, for a later comparison."""

    tasks: int
    descriptors: int

    def check(self) -> None:
        assert tasks_alive() == self.tasks
        assert descriptors() == self.descriptors
        with pytest.raises(ChildProcessError):  # there is no child to wait for
            os.waitpid(-1, os.WNOHANG)


def descriptors() -> int:
    return sum(1 for number in range(256) if is_open(number))


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def check_resources(before: ProcessResources) -> None:
    await trio.testing.wait_all_tasks_blocked()
    before.check()


async def through_open_client(server: Server, revision: str) -> None:
    async with open_client(server, revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2})


async def through_bytes(server: Server, revision: str) -> None:
    async with open_memory_client(server, revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2})


async def through_start_client(server: Server, revision: str) -> None:
    async with trio.open_nursery() as nursery:
        client = await start_client(nursery, server, revision=revision)
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.aclose()


async def through_start_memory_client(server: Server, revision: str) -> None:
    async with trio.open_nursery() as nursery:
        await start_memory_client(nursery, server, revision=revision)
        nursery.cancel_scope.cancel()


async def through_start_stream_client(server: Server, revision: str) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        client = await start_stream_client(nursery, ours, revision=revision)
        await client.list_tools()
        await client.aclose()


async def through_http(server: Server, revision: str) -> None:
    async with HTTP_OPENERS["http"](server, revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2})


async def through_start_http_client(server: Server, revision: str) -> None:
    async with bridged("http", server) as engine, trio.open_nursery() as nursery:
        client = await start_http_client(nursery, URL, engine=engine, revision=revision, roots=[])
        await client.list_tools()
        await client.aclose()


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    "through",
    [
        through_open_client,
        through_bytes,
        through_start_client,
        through_start_memory_client,
        through_start_stream_client,
        through_http,
        through_start_http_client,
    ],
)
@pytest.mark.complaint(8)
async def test_a_cancelled_opener_leaves_no_state_behind(
    through: Callable[[Server, str], Awaitable[None]], revision: str, autojump_clock: object
) -> None:
    lifespans = [0, 0]

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        lifespans[0] += 1
        try:
            await trio.lowlevel.checkpoint()
            yield
        finally:
            lifespans[1] += 1

    server = make_server()
    server.lifespan = lifespan
    before = ProcessResources(tasks_alive(), descriptors())

    async def check() -> None:
        await check_resources(before)
        assert lifespans[0] == lifespans[1]

    points = await cancel_everywhere(lambda: through(server, revision), check)
    assert points > 5


TINY = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        named = {"name": "tiny", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": named}
    else:
        result = {"content": []}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("opener", ["open", "start"])
@pytest.mark.complaint(8)
async def test_a_cancelled_opener_of_a_child_process_leaves_no_state_behind(opener: str) -> None:
    command = [sys.executable, "-S", "-c", TINY]

    async def through_open() -> None:
        async with open_client(command, revision="2025-11-25") as client:
            await client.call_tool("x")

    async def through_start() -> None:
        async with trio.open_nursery() as nursery:
            client = await start_stdio_client(nursery, command, revision="2025-11-25")
            await client.call_tool("x")
            await client.aclose()

    attempt = through_open if opener == "open" else through_start
    with trio.fail_after(100):
        await attempt()  # Trio starts its own tasks for processes at the first use
        before = ProcessResources(tasks_alive(), descriptors())
        points = await cancel_everywhere(attempt, partial(check_resources, before))
    assert points > 10


async def test_a_cancelled_aclose_still_closes_the_client(autojump_clock: object) -> None:
    clients: list[Client] = []
    before = tasks_alive()
    async with trio.open_nursery() as nursery:

        async def check() -> None:
            while clients:
                await clients[-1].aclose()
                with pytest.raises(ConnectionClosed):
                    await clients.pop().list_tools()
            await trio.testing.wait_all_tasks_blocked()
            assert tasks_alive() == before
            clients.append(await start_client(nursery, make_server()))

        await check()

        async def attempt() -> None:
            await clients[-1].aclose()

        await cancel_everywhere(attempt, check)
        await clients[-1].aclose()


@pytest.mark.parametrize("revision", ERAS)
async def test_a_cancelled_serving_closes_the_stream_and_leaves_no_state_behind(
    revision: str, autojump_clock: object
) -> None:
    server, before = make_server(), tasks_alive()
    ends: list[trio.abc.Stream] = []

    async def talk(client: ScriptedPeer) -> None:
        await client.greet(revision)
        envelope = {"_meta": ENVELOPE} if revision == MODERN else {}
        for id, tool, arguments in (
            (1, "count", {"steps": 3}),
            (2, "hang", {"key": "k"}),
            (3, "add", {"a": 1, "b": 2}),
        ):
            params = {"name": tool, "arguments": arguments, **envelope}
            await client.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        assert [message["id"] for message in [await client.receive(), await client.receive()]] == [1, 3]
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        await client.stream.aclose()

    async def attempt() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        ends[:] = [ours, theirs]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, ScriptedPeer(ours))
            await serve_stream(server, theirs)

    async def check() -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert tasks_alive() == before
        with pytest.raises(trio.ClosedResourceError):
            await ends[1].send_all(b"x")
        await ends[0].aclose()

    assert await cancel_everywhere(attempt, check) > 10
