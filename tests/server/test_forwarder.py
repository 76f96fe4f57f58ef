"""Servers whose requests are answered by a forwarder: what another package may build on `ServerExtensionPoints`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import (
    Access,
    CacheHint,
    Change,
    ChangeFilter,
    Context,
    ErrorResponse,
    Limits,
    McpError,
    Server,
    open_client,
    serve_stream,
    types,
)
from trio_mcp.lowlevel import (
    ClientExtensionPoints,
    IncomingRequest,
    Peer,
    ServerExtensionPoints,
    TasklessRequest,
    TasklessResponder,
)
from trio_mcp.testing import ScriptedPeer

BEGUN = {f"notes://{name}" for name in ("one", "fails", "late", "asks", "breaks", "never")}
"""The resources that a `Note` begins to read without a task."""


connection: ContextVar[str] = ContextVar("connection", default="none")


@define(eq=False)
class Note(TasklessResponder):
    """Answers the request to read one resource, without a task."""

    waits: bool = field(default=True, init=False)
    may_ask: bool = field(default=False, init=False)
    given_up: bool = field(default=False, init=False)
    answered_late: bool = field(default=False, init=False)
    begun_for: list[str] = field(factory=list[str], init=False)
    """The connections in whose contexts it has begun."""

    def begin_nowait(self, request: TasklessRequest) -> bool:
        self.begun_for.append(connection.get())
        uri: str = (request.exchange.params or {})["uri"]
        if uri == "notes://one":
            request.answer({"contents": [{"uri": uri, "text": "one"}]})
        elif uri == "notes://fails":
            request.answer(McpError(-32000, "no notes today"))
        elif uri == "notes://late":

            def answer(_: object) -> None:
                self.answered_late = True
                request.answer({"contents": []})

            request.exchange.peer.on_disconnect(answer)
        elif uri == "notes://asks":
            request.needs_task()
        elif uri == "notes://breaks":
            request.answer(RuntimeError("a bug"))
        return uri in BEGUN

    def give_up(self) -> None:
        self.given_up = True

    async def call(self, context: Context, params: Any) -> Any:
        del context
        await trio.lowlevel.checkpoint()
        return {"contents": [{"uri": params.uri, "text": "from a task"}]}


@define(eq=False)
class Notes:
    """A forwarder that answers for some resources."""

    note: Note = field(factory=Note, init=False)
    is_quick: bool = field(default=False, init=False)
    """True if it finds responders before params are read."""
    notified_of: list[str] = field(factory=list[str], init=False)

    def find(self, exchange: IncomingRequest, params: Any) -> Note | None:
        del params
        return self.note if exchange.method == "resources/read" else None

    def find_taskless(self, exchange: IncomingRequest) -> Note | None:
        return self.note if exchange.method == "resources/read" and self.is_quick else None

    def input_schema(self, tool: str, access: Access | None) -> dict[str, Any] | None:
        del tool, access
        return None

    async def notified(self, notification: IncomingRequest, params: Any) -> None:
        del params
        await trio.lowlevel.checkpoint()
        self.notified_of.append(notification.method)

    @property
    def listen_members(self) -> Mapping[str, str]:
        return {}

    def listening(
        self, wanted: ChangeFilter, peer: Peer, access: Access | None, changed: Callable[[Change], None]
    ) -> AbstractAsyncContextManager[ChangeFilter]:
        raise AssertionError

    def prepare(self) -> Callable[[], Awaitable[None]] | None:
        return None


def own_note() -> str:
    return "its own"


def make_server(limits: Limits | None = None) -> tuple[Server, Notes]:
    hints: Any = {"resources/read": CacheHint(ttl=5.0, scope="public")}
    server, notes = Server("notes", cache=hints, limits=limits or Limits()), Notes()
    points = ServerExtensionPoints(server)
    server.resource("notes://own")(own_note)  # so that it declares resources

    @asynccontextmanager
    async def open_part(_: Server, __: trio.Nursery) -> AsyncGenerator[Notes]:
        yield notes

    points.forward(points.add_part(open_part))
    return server, notes


async def test_a_result_without_a_task_has_the_cache_hint_of_the_server() -> None:
    server, _ = make_server()
    async with open_client(server, revision="2026-07-28", cache=False) as client:
        result = await client.read_resource("notes://one")
        assert result.contents == [types.TextResourceContents(uri="notes://one", text="one")]
        assert (result.ttl_ms, result.cache_scope) == (5000, "public")
        (contents,) = (await client.read_resource("notes://two")).contents
        assert contents == types.TextResourceContents(uri="notes://two", text="from a task")
        with pytest.raises(ErrorResponse, match="no notes today"):
            await client.read_resource("notes://fails")


@pytest.mark.parametrize("is_quick", [False, True])
async def test_a_request_that_needs_a_task_after_all_is_answered_in_one(is_quick: bool) -> None:
    server, notes = make_server()
    notes.is_quick = is_quick
    async with open_client(server) as client:
        for uri in ("notes://asks", "notes://two"):
            (contents,) = (await client.read_resource(uri)).contents
            assert contents == types.TextResourceContents(uri=uri, text="from a task")


@pytest.mark.parametrize("is_quick", [False, True])
async def test_an_exception_that_is_a_bug_is_not_shown_to_the_caller(
    is_quick: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server, notes = make_server()
    notes.is_quick = is_quick
    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.read_resource("notes://breaks")
        assert (await client.read_resource("notes://one")).contents
    assert "a bug" in caplog.text


@pytest.mark.parametrize("uri", ["notes://breaks", "notes://two"])
async def test_params_that_do_not_fit_are_refused_when_they_are_read(uri: str) -> None:
    server, notes = make_server()
    notes.is_quick = True
    async with open_client(server) as client:
        points = ClientExtensionPoints(client)
        with pytest.raises(ErrorResponse, match="params of 'resources/read' do not fit") as refused:
            await points.request_json("resources/read", {"uri": uri, "requestState": 5})
    assert refused.value.code == -32602


async def test_a_request_without_a_task_is_given_up_when_its_caller_is_cancelled(autojump_clock: object) -> None:
    server, notes = make_server()
    async with open_client(server) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.read_resource, "notes://never")
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        await trio.sleep(1)
        assert notes.note.given_up


async def test_requests_of_a_caller_that_is_gone_are_given_up_and_a_late_answer_is_dropped(
    autojump_clock: object,
) -> None:
    server, notes = make_server()
    async with trio.open_nursery() as nursery:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve_stream, server, theirs)
        caller = ScriptedPeer(ours)
        for uri in ("notes://late", "notes://never"):
            params = {"uri": uri, "_meta": ScriptedPeer.envelope("2026-07-28")}
            await caller.send({"jsonrpc": "2.0", "id": uri, "method": "resources/read", "params": params})
        await wait_all_tasks_blocked()
        await ours.aclose()
    assert notes.note.answered_late
    assert notes.note.given_up


async def test_a_request_that_has_waited_for_its_turn_begins_in_its_own_context(autojump_clock: object) -> None:
    """Else it would belong to the span of the request that has made room for it."""
    server, notes = make_server(Limits(max_running=1))
    async with server.serving() as serving, trio.open_nursery() as nursery:
        callers: dict[str, ScriptedPeer] = {}
        for name, uri in (("first", "notes://never"), ("second", "notes://one")):
            ours, theirs = memory_stream_pair()
            connection.set(name)
            nursery.start_soon(serve_stream, serving, theirs)
            caller = callers[name] = ScriptedPeer(ours)
            params = {"uri": uri, "_meta": ScriptedPeer.envelope("2026-07-28")}
            await caller.send({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params})
            await wait_all_tasks_blocked()
        assert notes.note.begun_for == ["first"]
        await callers["first"].send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert (await callers["second"].receive())["id"] == 1
        nursery.cancel_scope.cancel()
    assert notes.note.begun_for == ["first", "second"]


async def test_the_forwarder_is_told_of_notifications_that_the_server_has_no_handler_for() -> None:
    server, notes = make_server()
    told: list[str] = []

    @server.notification("com.example/known")
    async def known() -> None:
        told.append("com.example/known")

    async with open_client(server) as client:
        await client.notify("com.example/known")
        await client.notify("com.example/unknown")
        await client.read_resource("notes://two")
    assert (told, notes.notified_of) == (["com.example/known"], ["com.example/unknown"])


def test_a_server_has_one_forwarder() -> None:
    server, _ = make_server()
    points = ServerExtensionPoints(server)
    with pytest.raises(ValueError, match="has a forwarder already"):
        points.forward(points.add_part(lambda *_: None))  # type: ignore[arg-type] # it is not opened


async def look() -> dict[str, Any]:
    return {}


def test_a_server_knows_its_custom_methods() -> None:
    server, _ = make_server()
    server.method("com.example/look")(look)
    points = ServerExtensionPoints(server)
    assert points.has_method("com.example/look")
    assert not points.has_method("com.example/other")
    assert not points.has_method("tools/call")
