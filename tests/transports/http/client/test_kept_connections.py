"""Requests on kept connections, over real sockets: what is answered, what ends them, and what they leave behind."""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.server.raw_http_client import make_server, served
from tests.transports.http.scripted_server import (
    LEGACY,
    META,
    MODERN,
    ClientStub,
    Pending,
    error,
    initialize,
    notification,
    result,
    start_request,
)
from tests.transports.http.test_engine import Connection, RawServer, listening, until
from trio_mcp import (
    Client,
    ConnectionClosed,
    Context,
    ErrorResponse,
    HttpStatusError,
    RemoteProtocolError,
    RequestTimedOut,
    ResponseLost,
    TimeLimits,
    open_http_client,
)
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Transport
from trio_mcp.peer import Limits
from trio_mcp.transports import http_transport
from trio_mcp.transports.http import _http1_engine as engine_module
from trio_mcp.transports.http._http1_engine import Http1Connection, NothingSentError, SentExchange
from trio_mcp.transports.http.client import _kept_connections as kept_module
from trio_mcp.transports.http.client import _legacy_session, _transport
from trio_mcp.transports.http.client._kept_connections import AwaitedResponse, KeptConnections
from trio_mcp.transports.http.client._legacy_session import SessionManager
from trio_mcp.transports.http.client._transport import HttpTransport
from trio_mcp.wire import JsonObject, sse_event


@define(eq=False)
class Kept:
    """A transport to a server that has answered a request, and the connection that it keeps."""

    server: RawServer
    transport: HttpTransport
    nursery: trio.Nursery
    client: ClientStub
    connection: Connection

    @property
    def kept(self) -> KeptConnections:
        """The kept connections of the client."""
        return kept_of(self.transport)

    def start(self, method: str = "tools/list", **options: Any) -> Pending:
        """Start a request whose caller awaits the outcome at once."""
        return start_request(self.nursery, self.transport, method, at_once=True, **options)

    async def sent(self, method: str = "tools/list", **options: Any) -> tuple[Pending, Any]:
        """Start a request, which is sent at once on the kept connection; return it and its message."""
        pending = self.start(method, **options)
        message = await message_on(self.connection)
        assert all(task.response is not None for task in self.transport._tasks)
        return pending, message

    async def answered(self, connection: Connection | None = None, **options: Any) -> None:
        """Make a request that is answered on the kept connection, or on *connection*."""
        connection = connection or self.connection
        pending = self.start(**options)
        await connection.json(result((await message_on(connection))["id"]))
        assert await pending.outcome() == {}
        await self.idle()

    async def answered_on_another(self) -> Connection:
        """Make a request that is answered; return its connection, which is a new one."""
        pending = self.start()
        connection = await self.server.connection()
        await connection.json(result((await message_on(connection))["id"]))
        assert await pending.outcome() == {}
        await self.idle()
        return connection

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await until(lambda: not self.transport._tasks)


async def message_on(connection: Connection) -> Any:
    """Return the next message on a connection."""
    return json.loads((await connection.request())[2])


@asynccontextmanager
async def keeping(limits: Limits | None = None, **options: Any) -> AsyncGenerator[Kept]:
    client = ClientStub(limits or Limits())
    async with (
        listening() as server,
        http_transport(server.url, **options)(client) as transport,
        trio.open_nursery() as nursery,
    ):
        assert isinstance(transport, HttpTransport)
        pending = start_request(nursery, transport)
        connection = await server.connection()
        await connection.request()
        await connection.json(result(1))
        await pending.outcome()
        await until(lambda: not transport._tasks)
        client.seen.clear()
        yield Kept(server, transport, nursery, client, connection)


def kept_of(transport: Transport) -> KeptConnections:
    """Return the kept connections of a client."""
    assert isinstance(transport, HttpTransport)
    assert transport.sender.kept is not None
    return transport.sender.kept


async def kept_connections(
    server: RawServer, transport: Transport, nursery: trio.Nursery, number: int, *, first: Connection | None = None
) -> list[Connection]:
    """Make requests together, twice; return their connections, of which the last one is used next.

    Args:
        first: the connection of the session to which the requests belong; None if they name their revision.
    """
    assert isinstance(transport, HttpTransport)
    connections = list[Connection]() if first is None else [first]
    for _ in range(2):
        pending = [start_request(nursery, transport, modern=first is None, at_once=True) for _ in range(number)]
        connections += [await server.connection() for _ in range(number - len(connections))]
        messages = [await message_on(connection) for connection in connections]
        for connection, message in zip(connections, messages, strict=True):
            await connection.json(result(message["id"]))
        for each in pending:
            await each.outcome()
        await until(lambda: not transport._tasks)
    return connections


# --- Responses ---


async def test_requests_on_a_kept_connection_have_no_tasks_and_are_seen_once() -> None:
    async with keeping() as kept:
        for number in range(2, 5):
            pending, message = await kept.sent()
            tasks = len(kept.transport.nursery.child_tasks)
            await kept.connection.json(result(message["id"], number=number))
            assert await pending.outcome() == {"number": number}
            assert not kept.transport._tasks
            assert len(kept.transport.nursery.child_tasks) == tasks
            directions = [direction for direction, _ in kept.client.seen]
            assert directions == ["sent", "received"] * (number - 1)
        assert kept.server.accepted == 1


@pytest.mark.parametrize("size", [1, 7, 80])
async def test_a_response_may_arrive_in_pieces(size: int) -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        body = json.dumps(result(message["id"], tools=[])).encode()
        data = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        for at in range(0, len(data), size):
            await kept.connection.stream.send_all(data[at : at + size])
            await trio.lowlevel.checkpoint()
        assert await pending.outcome() == {"tools": []}
        await kept.idle()
        await kept.answered()
        assert kept.server.accepted == 1
        assert [direction for direction, _ in kept.client.seen] == ["sent", "received"] * 2


async def test_a_response_may_be_an_event_stream_after_which_the_connection_is_kept() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        await kept.connection.events()
        for event in (notification("notifications/x"), result(message["id"])):
            await kept.connection.chunk(sse_event(json.dumps(event).encode()))
        assert await pending.outcome() == {}
        await kept.connection.chunk(b"")
        await kept.idle()
        await kept.answered()
        assert kept.client.notifications == ["notifications/x"]
        assert kept.server.accepted == 1
        assert len(kept.client.seen) == 5


async def test_a_response_in_chunks_is_read_and_the_connection_kept() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        await kept.connection.send("HTTP/1.1 200 OK", "content-type: application/json", "transfer-encoding: chunked")
        await kept.connection.chunk(json.dumps(result(message["id"])).encode())
        await kept.connection.chunk(b"")
        assert await pending.outcome() == {}
        await kept.idle()
        await kept.answered()
        assert kept.server.accepted == 1


async def test_an_error_status_fails_the_request_and_the_connection_is_kept() -> None:
    async with keeping() as kept:
        pending, _ = await kept.sent()
        await kept.connection.send("HTTP/1.1 429 Slow down", "content-length: 0")
        with pytest.raises(HttpStatusError) as status:
            await pending.outcome()
        assert status.value.status == 429
        await kept.idle()

        pending, message = await kept.sent()
        body = json.dumps(error(-32602, "wrong", id=message["id"])).encode()
        fields = ("content-type: application/json", f"content-length: {len(body)}")
        await kept.connection.send("HTTP/1.1 400 No", *fields, body=body)
        with pytest.raises(ErrorResponse, match="wrong"):
            await pending.outcome()
        await kept.idle()
        await kept.answered()
        assert kept.server.accepted == 1


async def test_an_error_with_the_status_200_fails_the_request_alone() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        await kept.connection.json(error(-32602, "wrong", id=message["id"]))
        with pytest.raises(ErrorResponse, match="wrong"):
            await pending.outcome()
        await kept.answered()


@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc": "2.0", "id": 99, "result": {}}', b"[]"])
async def test_a_body_without_the_answer_fails_the_request_alone(body: bytes) -> None:
    async with keeping() as kept:
        pending, _ = await kept.sent()
        fields = ("content-type: application/json", f"content-length: {len(body)}")
        await kept.connection.send("HTTP/1.1 200 OK", *fields, body=body)
        with pytest.raises(RemoteProtocolError):
            await pending.outcome()
        await kept.answered()
        assert kept.server.accepted == 1


async def test_a_body_over_the_limit_is_refused() -> None:
    async with keeping(Limits(max_message_bytes=100)) as kept:
        pending, message = await kept.sent()
        await kept.connection.json(result(message["id"], padding="x" * 100))
        with pytest.raises(RemoteProtocolError, match="more than 100 bytes"):
            await pending.outcome()


async def test_a_redirect_is_followed() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        await kept.connection.send("HTTP/1.1 307 Over there", "location: /mcp/", "content-length: 0")
        first, _, body = await kept.connection.request()
        assert first == "POST /mcp/ HTTP/1.1"
        assert json.loads(body) == message
        await kept.connection.json(result(message["id"]))
        assert await pending.outcome() == {}
        assert [direction for direction, _ in kept.client.seen] == ["sent", "received"]


async def test_a_cookie_is_sent_back_with_the_next_request_and_replaced() -> None:
    async with keeping() as kept:
        for number in range(3):
            pending = kept.start()
            _, fields, body = await kept.connection.request()
            assert fields.get("cookie") == (None if number == 0 else f"worker={number}")
            await kept.connection.json(result(json.loads(body)["id"]), f"set-cookie: worker={number + 1}")
            await pending.outcome()
            await kept.idle()
        assert kept.server.accepted == 1


async def test_a_server_that_closes_after_its_response_is_connected_to_again() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        await kept.connection.json(result(message["id"]), "connection: close")
        assert await pending.outcome() == {}
        await kept.connection.left()
        await kept.answered_on_another()


async def test_an_answer_that_arrives_in_another_response_is_taken_and_its_own_response_ends() -> None:
    async with keeping() as kept:
        first, message = await kept.sent()
        second = kept.start()
        other = await kept.server.connection()
        other_message = await message_on(other)
        await other.events()
        for each in (message, other_message):
            await other.chunk(sse_event(json.dumps(result(each["id"], place="other")).encode()))
        await other.chunk(b"")
        assert [await first.outcome(), await second.outcome()] == 2 * [{"place": "other"}]
        await kept.connection.json(result(message["id"], place="late"))
        await kept.idle()
        assert len(idle_in(kept.transport)) == 2


# --- What is sent ---


async def test_a_request_that_cannot_be_sent_at_once_is_sent_by_its_task() -> None:
    async with keeping() as kept:
        large = kept.start(padding="x" * 100_000)
        message = await message_on(kept.connection)
        assert message["params"]["padding"] == "x" * 100_000
        await kept.connection.json(result(message["id"]))
        assert await large.outcome() == {}
        await kept.idle()


async def test_a_connection_without_a_descriptor_is_used_by_the_task_of_a_request() -> None:
    async with keeping() as kept:
        (idle,) = idle_in(kept.transport)
        idle.uses_descriptor = False  # as on Windows
        pending = kept.start()
        message = await message_on(kept.connection)
        assert [task.response for task in kept.transport._tasks] == [None]
        await kept.connection.json(result(message["id"]))
        assert await pending.outcome() == {}
        await kept.idle()
        assert kept.server.accepted == 1


async def test_header_fields_that_cannot_be_sent_fail_the_request_alone() -> None:
    async with keeping() as kept:
        pending = kept.start(fields={"x-bad": "a\r\nb"})
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await kept.answered()


async def test_two_requests_at_once_use_two_connections_which_are_both_kept() -> None:
    async with keeping() as kept:
        first, message = await kept.sent()
        second = kept.start()
        other = await kept.server.connection()
        await other.json(result((await message_on(other))["id"], place="other"))
        await kept.connection.json(result(message["id"], place="kept"))
        assert [await first.outcome(), await second.outcome()] == [{"place": "kept"}, {"place": "other"}]
        await kept.idle()
        for _ in range(3):
            pending = [kept.start(), kept.start()]
            for connection in (kept.connection, other):
                await connection.json(result((await message_on(connection))["id"]))
            for each in pending:
                await each.outcome()
            await kept.idle()
        assert kept.server.accepted == 2


async def test_two_clients_have_connections_of_their_own() -> None:
    async with keeping() as kept, http_transport(kept.server.url)(ClientStub()) as other:
        pending = start_request(kept.nursery, other, at_once=True)
        connection = await kept.server.connection()
        await connection.json(result((await message_on(connection))["id"]))
        await pending.outcome()
        for _ in range(2):
            await kept.answered()
            pending = start_request(kept.nursery, other, at_once=True)
            await connection.json(result((await message_on(connection))["id"]))
            assert await pending.outcome() == {}
        assert kept.server.accepted == 2


async def test_the_number_of_remembered_heads_is_bounded() -> None:
    async with keeping() as kept:
        for number in range(70):
            await kept.answered(fields={"x-number": f"{number}"})
        assert len(kept.kept._heads) <= 64


def write_little(connection: Http1Connection, data: bytes | bytearray) -> int:
    return os.write(connection._socket.fileno(), data[:10])


async def take_nothing(_: object) -> None:
    await trio.sleep_forever()


async def test_a_request_of_which_the_system_takes_a_part_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping() as kept:
        monkeypatch.setattr(Http1Connection, "write_now", write_little)
        for _ in range(2):
            pending, message = await kept.sent(padding="x" * 10_000)
            assert len(message["params"]["padding"]) == 10_000
            await until(lambda: all(task.response and not task.response._is_sending for task in kept.transport._tasks))
            await kept.connection.json(result(message["id"]))
            assert await pending.outcome() == {}
            await kept.idle()
        assert kept.server.accepted == 1


async def test_a_refusal_that_arrives_before_the_request_was_sent_is_its_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with keeping() as kept:
        (idle,) = kept.kept.engine._idle.values()
        monkeypatch.setattr(Http1Connection, "write_now", write_little)
        monkeypatch.setattr(idle[0].stream, "send_all", take_nothing)
        pending = kept.start()
        assert await kept.connection.stream.receive_some() == b"POST /mcp "
        await kept.connection.send("HTTP/1.1 413 Too large", "content-length: 0")
        with pytest.raises(HttpStatusError) as status:
            await pending.outcome()
        assert status.value.status == 413
        await kept.connection.left()


async def test_a_server_that_takes_nothing_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping() as kept:
        (idle,) = kept.kept.engine._idle.values()
        monkeypatch.setattr(Http1Connection, "write_now", write_little)
        monkeypatch.setattr(engine_module, "_WRITE_SECONDS", 0.01)
        monkeypatch.setattr(idle[0].stream, "send_all", take_nothing)
        with pytest.raises(ResponseLost):
            await kept.start().outcome()


async def test_a_connection_that_breaks_while_a_request_is_sent_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async with keeping() as kept:
        (idle,) = kept.kept.engine._idle.values()
        monkeypatch.setattr(Http1Connection, "write_now", write_little)
        monkeypatch.setattr(idle[0].stream, "send_all", fail)
        pending = kept.start()
        await kept.connection.stream.receive_some()
        await trio.aclose_forcefully(kept.connection.stream)
        with pytest.raises(ResponseLost):
            await pending.outcome()


async def test_a_kept_connection_of_which_nothing_can_be_sent_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping() as kept:
        original = Http1Connection.write_now

        def fail_once(connection: Http1Connection, data: bytes | bytearray) -> int:
            monkeypatch.setattr(Http1Connection, "write_now", original)
            raise NothingSentError

        for is_idle_here in (False, True):
            monkeypatch.setattr(Http1Connection, "write_now", fail_once)
            connection = await kept.answered_on_another()
            await kept.connection.left()
            if not is_idle_here:
                await kept.answered(connection)
            kept.connection = connection
        assert kept.server.accepted == 3


# --- What ends a request ---


async def test_a_response_that_breaks_the_syntax_loses_the_request_and_the_connection() -> None:
    async with keeping() as kept:
        pending, _ = await kept.sent()
        await kept.connection.stream.send_all(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        with pytest.raises(ResponseLost, match="'tools/list': ") as lost:
            await pending.outcome()
        assert lost.value.sent
        await kept.connection.left()
        await kept.answered_on_another()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n"


@pytest.mark.parametrize("begin", [b"", HEAD, HEAD + b"abc"])
async def test_a_connection_that_ends_before_the_response_loses_the_request(begin: bytes) -> None:
    async with keeping() as kept:
        pending, _ = await kept.sent()
        await kept.connection.stream.send_all(begin)
        await trio.aclose_forcefully(kept.connection.stream)
        with pytest.raises(ResponseLost) as lost:
            await pending.outcome()
        assert lost.value.sent
        await kept.answered_on_another()


async def test_a_repeatable_request_whose_connection_ends_is_sent_once_more() -> None:
    async with keeping() as kept:
        pending, before = await kept.sent(repeatable=True)
        await trio.aclose_forcefully(kept.connection.stream)
        connection = await kept.server.connection()
        message = await message_on(connection)
        assert message["id"] != before["id"]
        await connection.json(result(message["id"]))
        assert await pending.outcome() == {}
        assert [direction for direction, _ in kept.client.seen] == ["sent", "sent", "received"]


async def test_a_caller_that_leaves_closes_the_connection() -> None:
    async with keeping() as kept:
        pending, _ = await kept.sent()
        pending.scope.cancel()
        await kept.connection.left()
        await kept.idle()
        assert kept.transport.request_slots.taken == 0
        await kept.answered_on_another()


async def test_a_caller_that_leaves_before_it_waits_closes_the_connection() -> None:
    async with keeping() as kept:
        outgoing = kept.transport.ask("tools/list", {"_meta": META})
        outgoing.is_awaited_at_once = True
        with trio.CancelScope() as scope:
            async with outgoing:
                scope.cancel()
                await outgoing.result()
        await kept.idle()
        await kept.connection.request()
        await kept.connection.left()
        await kept.answered_on_another()


async def test_the_end_of_a_client_fails_its_requests_and_closes_all_connections() -> None:
    async with listening() as server, trio.open_nursery() as nursery:
        async with http_transport(server.url)(ClientStub()) as transport:
            connections = await kept_connections(server, transport, nursery, 3)
            pending = [start_request(nursery, transport, at_once=True) for _ in range(2)]
            for connection in connections[1:]:
                await message_on(connection)
        for each in pending:
            with pytest.raises(ConnectionClosed):
                await each.outcome()
        for connection in connections:
            await connection.left()


async def test_a_wait_that_is_interrupted_ends_the_request_and_its_connection() -> None:
    async with keeping() as kept:
        pending, _ = await kept.sent()
        await until(lambda: pending.outgoing.receiving)
        pending.outgoing.interrupt(RequestTimedOut("too late"))
        with pytest.raises(RequestTimedOut, match="too late"):
            await pending.outcome()
        await kept.connection.left()
        await kept.answered_on_another()


async def test_only_one_task_may_wait_for_the_response() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        await until(lambda: pending.outgoing.receiving)
        with pytest.raises(trio.BusyResourceError):
            await pending.outgoing.result()
        await kept.connection.json(result(message["id"]))
        assert await pending.outcome() == {}
        await kept.answered()


async def test_a_caller_that_waits_after_the_request_was_left_gets_an_exception() -> None:
    async with keeping() as kept:
        outgoing = kept.transport.ask("tools/list", {"_meta": META})
        outgoing.is_awaited_at_once = True
        async with outgoing, trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await outgoing.result()

            nursery.start_soon(wait)
            await until(lambda: outgoing.receiving)
            outgoing.leave()
        await kept.connection.request()
        await kept.connection.left()


# --- A client with a server ---


@define(eq=False)
class Waiting:
    """A server with a tool that waits, and what becomes of its calls."""

    started: trio.Event = field(factory=trio.Event)
    cancelled: trio.Event = field(factory=trio.Event)

    async def wait(self) -> str:
        self.started.set()
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.set()

    @asynccontextmanager
    async def with_client(self, **options: Any) -> AsyncGenerator[Client]:
        """Open a client that has called a tool, so that it keeps a connection."""
        server = make_server()
        server.tool(self.wait)
        async with served(server) as bound, open_http_client(bound.url, **options) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            yield client


@pytest.fixture
def sent_at_once(monkeypatch: pytest.MonkeyPatch) -> list[AwaitedResponse]:
    """The responses to the requests that are sent without a task."""
    responses = list[AwaitedResponse]()
    send = KeptConnections.send

    def record(self: KeptConnections, *arguments: Any) -> AwaitedResponse | None:
        response = send(self, *arguments)
        if response is not None:
            responses.append(response)
        return response

    monkeypatch.setattr(KeptConnections, "send", record)
    return responses


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_call_is_sent_at_once_unless_its_updates_are_wanted(
    revision: str, sent_at_once: list[AwaitedResponse]
) -> None:
    async with Waiting().with_client(revision=revision) as client:
        sent_at_once.clear()
        for number in range(3):
            found = await client.call_tool("add", {"a": number, "b": 1})
            assert found.structured_content == {"result": number + 1}
        assert len(sent_at_once) == 3

        async with client.open_call("add", {"a": 1, "b": 1}) as call:
            assert (await call.result()).structured_content == {"result": 2}
        assert len(sent_at_once) == 3


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_call_that_exceeds_its_time_limit_is_cancelled_at_the_server(
    revision: str, sent_at_once: list[AwaitedResponse], mock_clock: trio.testing.MockClock
) -> None:
    waiting = Waiting()
    async with (
        waiting.with_client(revision=revision, time_limits=TimeLimits(idle=10)) as client,
        trio.open_nursery() as nursery,
    ):

        async def call() -> None:
            with pytest.raises(RequestTimedOut, match="10 s"):
                await client.call_tool("wait")

        nursery.start_soon(call)
        await waiting.started.wait()
        assert sent_at_once[-1].is_awaited
        mock_clock.jump(11)
        await waiting.cancelled.wait()


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_caller_that_is_cancelled_has_its_handler_cancelled(
    revision: str, sent_at_once: list[AwaitedResponse]
) -> None:
    waiting = Waiting()
    async with waiting.with_client(revision=revision) as client:
        sent_at_once.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await waiting.started.wait()
            assert len(sent_at_once) == 1
            nursery.cancel_scope.cancel()
        await waiting.cancelled.wait()
        connection = sent_at_once[0]._connection
        if revision == MODERN:
            await until(lambda: connection._socket.fileno() < 0)
        else:  # the server has ended its response
            idle = sent_at_once[0]._owner.engine._idle
            await until(lambda: connection in idle[connection.key])


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_client_that_is_closed_fails_its_call_and_has_the_handler_cancelled(revision: str) -> None:
    waiting = Waiting()

    async def call() -> None:
        with pytest.raises(ConnectionClosed):
            await client.call_tool("wait")

    async with trio.open_nursery() as nursery:
        async with waiting.with_client(revision=revision) as client:
            nursery.start_soon(call)
            await waiting.started.wait()
        await waiting.cancelled.wait()


async def test_what_a_call_sends_after_its_answer_is_in_no_response_to_another() -> None:
    server, contexts, bodies = make_server(), list[Context](), list[bytes]()

    @server.tool
    async def leave_context(ctx: Context) -> None:
        contexts.append(ctx)

    @server.tool
    async def use_it() -> str:
        await contexts[-1].log("info", "late")
        await contexts[-1].report_progress(1)
        return "used"

    def tap(direction: str, message: bytes) -> None:
        if direction == "received":
            bodies.append(message)

    async with served(server) as bound, open_http_client(bound.url, revision=LEGACY, tap=tap) as client:
        for _ in range(3):
            await client.call_tool("leave_context")
            bodies.clear()
            assert (await client.call_tool("use_it")).structured_content == {"result": "used"}
            assert [json.loads(body)["result"]["content"][0]["text"] for body in bodies] == ["used"]


async def test_each_handler_of_a_session_sees_the_header_fields_of_its_own_request() -> None:
    server, numbers = make_server(), list[str]()

    @server.tool
    async def see(ctx: Context) -> None:
        numbers.append(ctx.headers["x-number"])

    async with (
        served(server) as bound,
        http_transport(bound.url)(ClientStub()) as transport,
        trio.open_nursery() as nursery,
    ):
        await initialize(transport)
        for number in "123":
            pending = start_request(
                nursery, transport, "tools/call", modern=False, at_once=True, fields={"x-number": number}, name="see"
            )
            await pending.outcome()

    assert numbers == ["1", "2", "3"]


# --- Idle connections ---


def idle_in(transport: Transport) -> list[Http1Connection]:
    """Return the idle connections of a client, of which the last one is used next."""
    return [each for connections in kept_of(transport).engine._idle.values() for each in connections]


async def test_a_connection_that_the_server_closes_while_it_is_idle_is_not_used() -> None:
    async with keeping() as kept:
        await kept.answered()
        (idle,) = idle_in(kept.transport)
        await kept.connection.stream.aclose()
        await trio.lowlevel.wait_readable(idle._socket)
        await kept.answered_on_another()
        assert len(idle_in(kept.transport)) == 1


async def test_a_connection_that_says_something_while_it_is_idle_is_closed_by_the_next_request() -> None:
    async with keeping() as kept:
        await kept.answered()
        (idle,) = idle_in(kept.transport)
        await kept.connection.stream.send_all(b"HTTP/1.1 408 Timeout\r\ncontent-length: 0\r\n\r\n")
        await trio.lowlevel.wait_readable(idle._socket)
        await kept.answered_on_another()
        await kept.connection.left()


async def test_a_response_to_no_request_behind_a_response_ends_the_connection() -> None:
    async with keeping() as kept:
        pending, message = await kept.sent()
        body = json.dumps(result(message["id"])).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        await kept.connection.stream.send_all(head + body + head + body)
        assert await pending.outcome() == {}
        await kept.connection.left()
        await kept.answered_on_another()


async def test_an_idle_connection_that_has_expired_is_not_used() -> None:
    async with keeping() as kept:
        await kept.answered()
        (idle,) = idle_in(kept.transport)
        idle._idle_since = -math.inf
        await kept.answered_on_another()
        await kept.connection.left()


async def test_idle_connections_that_have_expired_are_closed_by_later_requests() -> None:
    async with (
        listening() as server,
        trio.open_nursery() as nursery,
        http_transport(server.url)(ClientStub()) as transport,
    ):
        connections = await kept_connections(server, transport, nursery, 3)
        for each in idle_in(transport)[:2]:
            each._idle_since = -math.inf
        pending = start_request(nursery, transport, at_once=True)
        await connections[2].json(result((await message_on(connections[2]))["id"]))
        await pending.outcome()
        for connection in connections[:2]:
            await connection.left()
        assert len(idle_in(transport)) == 1


async def test_the_number_of_idle_connections_is_bounded() -> None:
    async with (
        listening() as server,
        trio.open_nursery() as nursery,
        http_transport(server.url)(ClientStub()) as transport,
    ):
        connections = await kept_connections(server, transport, nursery, 3)
        kept_of(transport).engine.most_idle = 1
        pending = start_request(nursery, transport, at_once=True)
        await connections[2].json(result((await message_on(connections[2]))["id"]))
        await pending.outcome()
        for connection in connections[:2]:
            await connection.left()
        assert len(idle_in(transport)) == 1


# --- Sessions of legacy servers ---


@define(eq=False)
class Session:
    """A session of a client with a server that a test plays."""

    server: RawServer
    transport: HttpTransport
    nursery: trio.Nursery

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await until(lambda: not self.transport._tasks)


async def answer_handshake(server: RawServer, id: str) -> Connection:
    """Answer the handshake; return its connection."""
    connection = await server.connection()
    message = await message_on(connection)
    assert message["method"] == "initialize"
    answer: JsonObject = result(message["id"], protocolVersion=LEGACY, capabilities={}, serverInfo={})
    await connection.json(answer, f"mcp-session-id: {id}")
    assert (await message_on(connection))["method"] == "notifications/initialized"
    await connection.send("HTTP/1.1 202 Accepted", "content-length: 0")
    return connection


@asynccontextmanager
async def in_session(connections: int) -> AsyncGenerator[tuple[Session, list[Connection]]]:
    """Open a session, with some connections that are kept."""
    client = ClientStub()
    async with listening() as server, owned_nursery() as nursery, http_transport(server.url)(client) as transport:
        assert isinstance(transport, HttpTransport)
        async with trio.open_nursery() as greeting:
            greeting.start_soon(initialize, transport)
            first = await answer_handshake(server, "s1")
        client.admission.agree(LEGACY, {}, None)
        kept = await kept_connections(server, transport, nursery, connections, first=first)
        yield Session(server, transport, nursery), kept
        assert isinstance(transport.sessions, SessionManager)
        transport.sessions.current.is_lost = True  # closing need not wait for the answer to a DELETE
        nursery.cancel_scope.cancel()


def refuse_session(*connections: Connection) -> None:
    """Refuse the requests on these connections, so that all refusals arrive together."""
    body = json.dumps(error(-32001, "Session not found", id=None)).encode()
    head = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    for connection in connections:
        assert isinstance(connection.stream, trio.SocketStream)
        assert os.write(connection.stream.socket.fileno(), head + body) == len(head + body)


async def start_on(
    session: Session, connections: list[Connection], *options: dict[str, Any]
) -> list[tuple[Pending, Connection, Any]]:
    """Start requests one after the other; return each with its connection and message."""
    found = list[tuple[Pending, Connection, Any]]()
    for each in options:
        pending = start_request(session.nursery, session.transport, modern=False, at_once=True, **each)
        received = list[tuple[Connection, Any]]()
        async with trio.open_nursery() as racing:

            async def receive(connection: Connection, into: list[tuple[Connection, Any]], end: Any) -> None:
                into.append((connection, await message_on(connection)))
                end()

            for connection in connections:
                if connection not in [used for _, used, _ in found]:
                    racing.start_soon(receive, connection, received, racing.cancel_scope.cancel)
        found.append((pending, *received[0]))
    assert all(task.response is not None for task in session.transport._tasks)
    return found


@define(eq=False)
class Answering:
    """Answers all requests on some connections, and on new ones, in a new session."""

    session: Session
    nursery: trio.Nursery

    async def accept(self) -> None:
        while True:
            self.serve(await self.session.server.connection())

    def serve(self, *connections: Connection) -> None:
        """Answer on these connections too."""
        for connection in connections:
            self.nursery.start_soon(self._serve, connection)

    async def _serve(self, connection: Connection) -> None:
        while True:
            message = await message_on(connection)
            match message["method"]:
                case "initialize":
                    answer: JsonObject = result(message["id"], protocolVersion=LEGACY)
                    await connection.json(answer, "mcp-session-id: s2")
                case "notifications/initialized":
                    await connection.send("HTTP/1.1 202 Accepted", "content-length: 0")
                case _:
                    await connection.json(result(message["id"], session="s2"))


@asynccontextmanager
async def answering(session: Session, *connections: Connection) -> AsyncGenerator[Answering]:
    async with trio.open_nursery() as nursery:
        answering = Answering(session, nursery)
        nursery.start_soon(answering.accept)
        answering.serve(*connections)
        yield answering
        nursery.cancel_scope.cancel()


IN_NEW_SESSION = {"session": "s2"}


async def test_refusals_of_a_lost_session_that_arrive_together_are_all_read() -> None:
    async with in_session(3) as (session, connections):
        started = await start_on(session, connections, {}, {}, {})
        refuse_session(*(connection for _, connection, _ in started))
        before = trio.current_time()
        async with answering(session, *connections):
            for pending, _, _ in started:
                assert await pending.outcome() == IN_NEW_SESSION
        assert trio.current_time() - before < 4  # a refusal that was not read is waited for, 5 s


async def test_a_repeatable_request_leaves_a_lost_session_at_once() -> None:
    async with in_session(2) as (session, connections):
        (refused, other, _), (pending, connection, _) = await start_on(session, connections, {}, {"repeatable": True})
        refuse_session(other)
        await connection.left()
        async with answering(session, other):
            assert await refused.outcome() == IN_NEW_SESSION
            assert await pending.outcome() == IN_NEW_SESSION


async def test_a_request_that_may_not_be_repeated_waits_for_its_refusal() -> None:
    async with in_session(2) as (session, connections):
        (refused, other, _), (pending, connection, _) = await start_on(session, connections, {}, {})
        refuse_session(other)
        async with answering(session, other) as answers:
            assert await refused.outcome() == IN_NEW_SESSION
            assert not pending.is_done
            refuse_session(connection)
            answers.serve(connection)
            assert await pending.outcome() == IN_NEW_SESSION


async def test_a_request_that_may_not_be_repeated_is_lost_without_its_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_legacy_session, "_REJECTION_SECONDS", 0.01)
    async with in_session(2) as (session, connections):
        (refused, other, _), (pending, connection, _) = await start_on(session, connections, {}, {})
        refuse_session(other)
        async with answering(session, other):
            with pytest.raises(ResponseLost, match="the session was lost"):
                await pending.outcome()
            await connection.left()
            assert await refused.outcome() == IN_NEW_SESSION


async def test_a_late_answer_of_a_lost_session_is_taken() -> None:
    async with in_session(2) as (session, connections):
        (refused, other, _), (pending, connection, message) = await start_on(session, connections, {}, {})
        refuse_session(other)
        async with answering(session, other):
            assert await refused.outcome() == IN_NEW_SESSION
            await connection.json(result(message["id"], late=True))
            assert await pending.outcome() == {"late": True}


def accept(connection: Connection) -> Awaitable[None]:
    return connection.send("HTTP/1.1 202 Accepted", "content-length: 0")


async def cancelled_on(connection: Connection, id: object) -> None:
    """Receive the cancellation of a request on a connection."""
    message = await message_on(connection)
    assert message["method"] == "notifications/cancelled"
    assert message["params"]["requestId"] == id


async def start_and_cancel(session: Session, connections: list[Connection]) -> tuple[Connection, Connection, Any]:
    """Start a request on one of two connections, and cancel it; return both, that of the request first, and its id."""
    ((pending, connection, message),) = await start_on(session, connections, {})
    pending.scope.cancel()
    (other,) = [each for each in connections if each is not connection]
    await cancelled_on(other, message["id"])
    return connection, other, message["id"]


async def test_a_cancelled_request_of_a_session_keeps_its_connection_if_the_server_ends_the_response() -> None:
    async with in_session(2) as (session, connections):
        for _ in range(2):
            connection, other, _ = await start_and_cancel(session, connections)
            assert len(session.transport._tasks) == 1  # until the cancellation is accepted
            await accept(other)
            await accept(connection)
            await session.idle()
            assert session.transport.request_slots.taken == 0
            await until(lambda: len(idle_in(session.transport)) == 2)
        assert session.server.accepted == 2


async def test_a_late_answer_to_a_cancelled_request_is_dropped_and_its_connection_kept() -> None:
    async with in_session(2) as (session, connections):
        connection, other, id = await start_and_cancel(session, connections)
        await connection.json(result(id))
        await accept(other)
        await session.idle()
        await until(lambda: len(idle_in(session.transport)) == 2)


async def test_a_response_that_goes_on_after_its_cancellation_is_closed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "_LINGER_SECONDS", 0.01)
    async with in_session(2) as (session, connections):
        connection, other, _ = await start_and_cancel(session, connections)
        await accept(other)
        await connection.left()
        await session.idle()


async def test_a_cancellation_that_is_refused_closes_the_response_at_once() -> None:
    async with in_session(2) as (session, connections):
        connection, other, _ = await start_and_cancel(session, connections)
        await other.send("HTTP/1.1 400 No", "content-length: 0")
        await connection.left()
        await session.idle()


async def test_a_cancellation_is_sent_before_its_caller_goes_on_if_a_connection_is_idle() -> None:
    async with in_session(2) as (session, connections):
        outgoing = session.transport.ask("tools/list", {})
        outgoing.is_awaited_at_once = True
        async with outgoing:
            assert len(idle_in(session.transport)) == 1
        assert idle_in(session.transport) == []
        messages = [await message_on(connection) for connection in connections]
        assert sorted(message["method"] for message in messages) == ["notifications/cancelled", "tools/list"]
        for connection in connections:
            await accept(connection)
        await session.idle()


async def test_a_cancellation_of_which_the_system_takes_a_part_is_sent_again_on_another_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_session(2) as (session, connections):
        ((pending, connection, message),) = await start_on(session, connections, {})
        with monkeypatch.context() as patched:
            patched.setattr(Http1Connection, "write_now", write_little)
            pending.scope.cancel()
            (other,) = [each for each in connections if each is not connection]
            assert await other.stream.receive_some() == b"POST /mcp "
            await other.left()
        new = await session.server.connection()
        await cancelled_on(new, message["id"])
        await accept(new)
        await accept(connection)
        await session.idle()


async def test_a_request_of_a_session_is_sent_whole_before_its_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_session(2) as (session, connections):
        idle = idle_in(session.transport)[-1]
        may_send, send_all = trio.Event(), idle.stream.send_all

        async def send_late(data: Any) -> None:
            await may_send.wait()
            await send_all(data)

        with monkeypatch.context() as patched:
            patched.setattr(Http1Connection, "write_now", write_little)
            patched.setattr(idle.stream, "send_all", send_late)
            pending = start_request(session.nursery, session.transport, modern=False, at_once=True)
            await until(lambda: pending.outgoing.receiving)
            await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        received = list[Any]()

        async def receive(connection: Connection) -> None:
            message = await message_on(connection)
            received.append(message["method"])
            if message["method"] == "notifications/cancelled":
                await connection.send("HTTP/1.1 202 Accepted", "content-length: 0")

        async with trio.open_nursery() as nursery:
            for each in connections:
                nursery.start_soon(receive, each)
            await trio.testing.wait_all_tasks_blocked()
            assert received == []
            may_send.set()
        assert received == ["tools/list", "notifications/cancelled"]
        await session.idle()


# --- A request that is handed over ---


async def test_a_caller_that_leaves_before_the_task_of_its_request_runs_closes_the_connection() -> None:
    async with keeping() as kept:
        outgoing = kept.transport.ask("tools/list", {"_meta": META})
        outgoing.is_awaited_at_once = True
        async with outgoing:
            (task,) = kept.transport._tasks
            assert task.response is not None
            task.response.hand_over()
        await kept.connection.request()
        await kept.connection.left()
        await kept.idle()
        await kept.answered_on_another()


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_request_of_a_session_that_is_handed_over_is_cancelled_when_its_caller_leaves(has_begun: bool) -> None:
    async with in_session(2) as (session, connections):
        received = dict[str, Any]()

        async def receive(connection: Connection) -> None:
            message = await message_on(connection)
            received[message["method"]] = message
            if message["method"] == "notifications/cancelled":
                await connection.send("HTTP/1.1 202 Accepted", "content-length: 0")
            else:
                await connection.left()

        outgoing = session.transport.ask("tools/list", {})
        outgoing.is_awaited_at_once = True
        async with outgoing:
            (task,) = session.transport._tasks
            assert task.response is not None
            task.response.hand_over()
            if has_begun:
                await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for each in connections:
                nursery.start_soon(receive, each)
        assert received["notifications/cancelled"]["params"]["requestId"] == received["tools/list"]["id"]
        await session.idle()


@define(eq=False)
class QuickStub:
    """A request that records what becomes of it."""

    bodies: list[bytes] = field(factory=list[bytes])
    sent: list[SentExchange] = field(factory=list[SentExchange])

    def take_json(self, body: bytes) -> None:
        self.bodies.append(body)

    def go_on(self, sent: SentExchange) -> None:
        self.sent.append(sent)


async def test_a_request_may_be_handed_over_before_its_response_is_awaited() -> None:
    async with keeping() as kept:
        request = QuickStub()
        response = kept.kept.send(request, kept.server.url, {}, b"{}")
        assert response is not None
        response.hand_over()
        await kept.connection.request()
        await kept.connection.send("HTTP/1.1 202 Accepted", "content-length: 0")
        async with request.sent[0] as handed_over:
            assert handed_over.status == 202
        await kept.answered()


@define(eq=False)
class BeforeStep(trio.abc.Instrument):
    """Does something before the next step of a task: what has let it continue has happened already."""

    task: trio.lowlevel.Task
    act: Callable[[], None]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            trio.lowlevel.remove_instrument(self)
            self.act()


@pytest.mark.parametrize("is_noticed", [False, True])
async def test_a_response_that_arrives_while_its_request_is_handed_over_is_not_lost(is_noticed: bool) -> None:
    async with keeping() as kept, trio.open_nursery() as nursery:
        request = QuickStub()
        response = kept.kept.send(request, kept.server.url, {}, b"{}")
        assert response is not None
        tasks = list[trio.lowlevel.Task]()

        async def wait() -> None:
            tasks.append(trio.lowlevel.current_task())
            await response.wait()

        nursery.start_soon(wait)
        await kept.connection.request()
        await until(lambda: response.is_awaited)
        assert isinstance(kept.connection.stream, trio.SocketStream)
        if is_noticed:  # the waiting task would read it in its next step
            trio.lowlevel.add_instrument(BeforeStep(tasks[0], response.hand_over))
        os.write(kept.connection.stream.socket.fileno(), HEAD + b"[1,2]")
        if not is_noticed:
            response.hand_over()
        await until(lambda: bool(request.sent))
        async with request.sent[0] as handed_over:
            assert [chunk async for chunk in handed_over.chunks()] == [b"[1,2]"]
        assert request.bodies == []


async def test_a_request_that_is_handed_over_and_never_read_closes_its_connection() -> None:
    async with keeping() as kept:
        request = QuickStub()
        response = kept.kept.send(request, kept.server.url, {}, b"{}")
        assert response is not None
        response.hand_over()
        await kept.connection.request()
        with trio.CancelScope() as scope:
            scope.cancel()
            async with request.sent[0]:
                raise AssertionError
        await kept.connection.left()


async def test_secrets_in_the_header_fields_of_the_caller_are_not_shown() -> None:
    async with keeping(headers={"authorization": "Bearer s3cret"}) as kept:
        await kept.answered()
        assert len(kept.kept._heads) == 1
        assert "s3cret" not in repr(kept.transport)


async def test_a_request_whose_sending_is_stopped_does_not_wait_for_its_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_module, "_MOST_BYTES", 10**9)
    async with keeping() as kept:
        stopped = kept.start(padding="x" * 20_000_000)
        await trio.testing.wait_all_tasks_blocked()
        (task,) = kept.transport._tasks
        assert task.response is not None
        task.response.wake()
        with pytest.raises(ResponseLost):
            await stopped.outcome()
        await kept.idle()
