"""`Server.snapshot`: the connections, the requests in flight, and where each handler stands."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.interaction.openers import OPENERS
from tests.peer.fake_exchange import exchange
from tests.server.helpers import SharedServing, text_of
from tests.server.isolated_calls import taking_calls
from tests.server.isolated_tools import wait as wait_in_process
from trio_mcp import (
    Client,
    Context,
    Limits,
    RequestSnapshot,
    Server,
    ServerSnapshot,
    open_client,
    open_stream_client,
    serve_stream,
    types,
)

FILE = Path(__file__)
LEGACY, MODERN = "2025-11-25", types.REVISIONS[-1]


def line_of(mark: str, function: str) -> str:
    """Return the place of the line of this file that ends with a comment."""
    lines = FILE.read_text().splitlines()
    number = next(number for number, each in enumerate(lines, 1) if each.endswith(f"# {mark}"))
    return f"{FILE}:{number} in {function}"


async def sleep() -> None:
    await trio.sleep_forever()  # it sleeps here


class Bench:
    """A server with one tool for each state of a handler."""

    def __init__(self, **options: Any) -> None:
        self.release, self.thread_release = trio.Event(), threading.Event()
        self.began = trio.Event()
        self.server = Server("bench", version="3", **options)
        self._add_waiting()
        self._add_others()
        self.server.tool(isolate="process")(wait_in_process)

    def _add_waiting(self) -> None:
        server = self.server

        @server.tool
        async def rest() -> None:
            await sleep()

        @server.tool(max_concurrency=1)
        async def alone() -> None:
            await sleep()

        @server.tool
        async def children() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sleep)

        @server.resource("a://{name}")
        async def resource(name: str) -> str:
            await sleep()
            return name

        @server.notification("com.example/notes/changed")
        async def changed(params: dict[str, Any]) -> None:
            await sleep()

    def _add_others(self) -> None:
        server = self.server

        @server.tool
        def block() -> None:
            trio.from_thread.run_sync(self.began.set)
            self.thread_release.wait()

        @server.tool
        async def ask(ctx: Context) -> None:
            await ctx.list_roots()

        @server.tool
        def ask_in_thread(ctx: Context) -> None:
            trio.from_thread.run(ctx.list_roots)

        @server.tool
        async def stubborn() -> None:
            self.began.set()
            with trio.CancelScope(shield=True):
                await self.release.wait()  # it cleans up here

        @server.tool
        async def look() -> str:
            await trio.lowlevel.checkpoint()
            (request,) = server.snapshot().requests  # it looks here
            return f"{request.place}, {request.waits_in}"

    async def called(
        self, *calls: Callable[[Client], Any], opener: Callable[..., Any] = open_client, **options: Any
    ) -> ServerSnapshot:
        """Return a snapshot while the calls of one client are in flight; then cancel them."""
        async with opener(self.server, **options) as client, trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(call, client)
                await wait_all_tasks_blocked()
            snapshot = self.server.snapshot()
            nursery.cancel_scope.cancel()
        return snapshot


def tool(name: str, **arguments: Any) -> Callable[[Client], Any]:
    return lambda client: client.call_tool(name, arguments)


def only(snapshot: ServerSnapshot) -> RequestSnapshot:
    (request,) = snapshot.requests
    return request


async def test_a_handler_is_shown_with_its_request_its_line_and_what_that_line_waits_in() -> None:
    snapshot = await Bench().called(tool("rest"))

    request, (connection,) = only(snapshot), snapshot.connections
    assert (snapshot.name, snapshot.version, snapshot.background) == ("bench", "3", ())
    assert (request.method, request.name, request.state) == ("tools/call", "rest", "running")
    assert (request.place, request.waits_in) == (
        line_of("it sleeps here", "sleep"),
        "trio._timeouts.sleep_forever",
    )
    assert (request.is_cancelled, request.process, request.connection) == (False, None, connection.number)
    assert type(request.id) is int
    assert 0 <= request.age <= connection.age


async def test_a_server_that_is_not_served_has_an_empty_snapshot() -> None:
    bench = Bench()
    await bench.called(tool("rest"))

    assert bench.server.snapshot() == ServerSnapshot(
        name="bench", version="3", connections=(), requests=(), background=()
    )


async def test_a_resource_is_named_by_its_uri_and_a_request_for_nothing_has_no_name() -> None:
    bench = Bench()

    @bench.server.method("com.example/rest")
    async def rest() -> None:
        await trio.sleep_forever()

    snapshot = await bench.called(
        lambda client: client.read_resource("a://b"),
        lambda client: client.request("com.example/rest", {}, types.EmptyResult),
    )

    assert [(each.method, each.name) for each in snapshot.requests] == [
        ("resources/read", "a://b"),
        ("com.example/rest", None),
    ]


async def test_a_handler_that_leaves_a_nursery_stands_where_its_child_stands() -> None:
    request = only(await Bench().called(tool("children")))

    assert request.place == line_of("it sleeps here", "sleep")


@pytest.mark.parametrize("limits", [Limits(max_in_flight=1), Limits(max_running=1)], ids=["in-flight", "running"])
async def test_a_request_that_waits_for_a_slot_has_no_place(limits: Limits) -> None:
    first, second = (await Bench(limits=limits).called(tool("rest"), tool("children"))).requests

    assert (first.name, first.state) == ("rest", "running")
    assert (second.name, second.state, second.place, second.waits_in) == ("children", "waiting", None, None)
    assert 0 <= second.age <= first.age


async def test_a_handler_that_waits_for_a_place_of_its_tool_is_waiting() -> None:
    first, second = (await Bench().called(tool("alone"), tool("alone"))).requests

    assert [first.state, second.state] == ["running", "waiting"]


async def test_a_handler_that_waits_for_a_thread_is_waiting_and_one_in_a_thread_has_the_line_of_the_thread() -> None:
    bench = Bench(limits=Limits(max_threads=1))
    try:
        async with open_client(bench.server) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "block")
            await bench.began.wait()
            nursery.start_soon(client.call_tool, "block")
            await wait_all_tasks_blocked()
            first, second = bench.server.snapshot().requests
            bench.thread_release.set()
    finally:
        bench.thread_release.set()

    assert (first.state, second.state) == ("thread", "waiting")
    assert "Bench._add_others.<locals>.block" in str(first.place)


async def test_a_thread_that_its_cancelled_handler_has_left_is_shown_as_cancelled() -> None:
    bench = Bench()
    try:
        async with bench.server.serving() as serving:
            async with open_client(SharedServing(serving)) as client, trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "block")
                await bench.began.wait()
                nursery.cancel_scope.cancel()
            request = only(bench.server.snapshot())
            bench.thread_release.set()
    finally:
        bench.thread_release.set()

    assert (request.name, request.state, request.is_cancelled) == ("block", "thread", True)


async def test_a_handler_that_works_in_a_process_is_shown_with_the_id_of_the_process(tmp_path: Path) -> None:
    bench = Bench()
    async with (
        taking_calls(tmp_path / "s") as calls,
        open_client(bench.server) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.call_tool, "wait", {"path": calls.path})
        line, pid = await calls.take()
        request = only(bench.server.snapshot())
        await line.aclose()

    assert (request.state, request.process, request.place) == ("process", int(pid), None)


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("name", ["ask", "ask_in_thread"])
async def test_a_handler_that_waits_for_an_answer_of_the_client_is_asking(revision: str, name: str) -> None:
    bench, asked = Bench(), trio.Event()

    async def on_roots() -> Any:
        asked.set()
        await trio.sleep_forever()

    opened = open_client(bench.server, revision=revision, roots=on_roots)
    async with opened as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, name)
        await asked.wait()
        request = only(bench.server.snapshot())
        nursery.cancel_scope.cancel()

    assert (request.state, request.is_cancelled, request.connection is not None) == ("asking", False, True)
    assert str(request.place).endswith(f"in Bench._add_others.<locals>.{name}")


async def test_a_handler_that_swallows_its_cancellation_is_shown_as_cancelled() -> None:
    bench = Bench()
    async with bench.server.serving() as serving:
        async with open_client(SharedServing(serving)) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "stubborn")
            await bench.began.wait()
            nursery.cancel_scope.cancel()
        request = only(bench.server.snapshot())
        bench.release.set()

    assert (request.state, request.is_cancelled) == ("running", True)
    assert request.place == line_of("it cleans up here", "Bench._add_others.<locals>.stubborn")


async def test_a_handler_whose_result_waits_to_be_sent_is_answering() -> None:
    bench = Bench()

    @bench.server.method("com.example/pass")
    async def let_others_run() -> None:
        await trio.lowlevel.checkpoint()

    async with bench.server.serving() as serving:
        slow = exchange(method="com.example/pass")
        slow.full = True
        serving.answer(slow)
        await wait_all_tasks_blocked()
        request = only(bench.server.snapshot())
        slow.full = False
        slow.emptied.set()

    assert (request.state, request.is_cancelled) == ("answering", False)
    assert request.connection is None  # its transport has not noted it


async def test_a_handler_that_takes_a_snapshot_is_in_it() -> None:
    async with open_client(Bench().server) as client:
        result = await client.call_tool("look")

    place = line_of("it looks here", "Bench._add_others.<locals>.look")
    assert text_of(result) == f"{place}, trio_mcp.server._server.Server.snapshot"


async def test_a_notification_has_no_id() -> None:
    bench = Bench()

    snapshot = await bench.called(lambda client: client.notify("com.example/notes/changed", {}))

    assert (only(snapshot).method, only(snapshot).id) == ("com.example/notes/changed", None)


async def test_background_tasks_are_shown_with_their_lines() -> None:
    bench = Bench()

    async def tidy() -> None:
        await trio.sleep_forever()  # it tidies here

    @bench.server.tool
    async def start() -> None:
        bench.server.background.start_soon(tidy, name="tidying", restart=True)

    snapshot = await bench.called(tool("start"))

    (task,) = snapshot.background
    assert (task.name, task.waits_in) == ("tidying", "trio._timeouts.sleep_forever")
    assert task.place.startswith(line_of("it tidies here", "")[: -len(" in ")])


# --- Connections ---


KINDS = {
    "memory": "memory",
    "bytes": "stream",
    "http": "http session",
    "http-resumable": "http session",
    "http-sse": "http+sse",
}
"""The kind of transport by opener, for a client that makes a handshake."""


@pytest.mark.parametrize("name", KINDS)
async def test_a_connection_is_shown_with_its_transport_and_its_client(name: str) -> None:
    revision = types.REVISIONS[0] if name == "http-sse" else LEGACY
    client = types.Implementation(name="host", version="1.5")

    snapshot = await Bench().called(opener=OPENERS[name], revision=revision, info=client)

    (connection,) = snapshot.connections
    assert (connection.transport, connection.client) == (KINDS[name], "host 1.5")
    assert (connection.revision, connection.principal, snapshot.requests) == (revision, None, ())


async def test_a_client_of_modern_http_is_shown_while_it_has_a_request() -> None:
    opener, client = OPENERS["http"], types.Implementation(name="host", version="1.5")

    idle = await Bench().called(opener=opener, revision=MODERN, info=client)
    busy = await Bench().called(tool("rest"), opener=opener, revision=MODERN, info=client)

    assert idle.connections == ()
    (connection,) = busy.connections
    assert (connection.transport, connection.client, connection.revision) == ("http", "host 1.5", MODERN)


async def test_a_modern_client_of_a_stream_is_named_while_it_has_a_request() -> None:
    options: dict[str, Any] = {"opener": OPENERS["bytes"], "revision": MODERN}

    idle, busy = await Bench().called(**options), await Bench().called(tool("rest"), **options)

    assert [(each.client, each.revision) for each in idle.connections] == [(None, None)]
    assert [each.revision for each in busy.connections] == [MODERN]


async def test_connections_are_numbered_in_the_order_of_their_arrival_and_gone_when_they_end() -> None:
    server = Bench().server
    async with server.serving() as serving, open_client(SharedServing(serving)):
        async with open_client(SharedServing(serving)):
            first, second = server.snapshot().connections
        (left,) = server.snapshot().connections

    assert first.number == left.number < second.number


@asynccontextmanager
async def socket_of(server: Server, kind: str, folder: Path) -> AsyncGenerator[None]:
    """Connect a client over a socket for the duration of the block."""
    listening = trio.socket.socket(trio.socket.AF_UNIX if kind == "unix" else trio.socket.AF_INET)
    await listening.bind(str(folder / "s") if kind == "unix" else ("127.0.0.1", 0))
    listening.listen()
    async with trio.SocketListener(listening) as listener, trio.open_nursery() as nursery:
        connecting = trio.socket.socket(listening.family)
        await connecting.connect(listening.getsockname())
        nursery.start_soon(serve_stream, server, await listener.accept())
        async with open_stream_client(trio.SocketStream(connecting)):
            yield


@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_a_connection_over_a_socket_is_shown_with_its_kind(kind: str, tmp_path: Path) -> None:
    server = Bench().server

    async with socket_of(server, kind, tmp_path):
        (connection,) = server.snapshot().connections

    assert connection.transport == kind


async def test_what_a_client_sends_as_its_name_is_cut_and_only_strings_count() -> None:
    server, (ours, theirs) = Bench().server, memory_stream_pair()
    async with server.serving() as serving, trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, serving, theirs)
        async with open_stream_client(ours, revision=LEGACY, info=types.Implementation(name="n" * 500, version="1")):
            (connection,) = server.snapshot().connections

    assert connection.client == "n" * 200
