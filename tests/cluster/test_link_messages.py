"""The messages between two processes, one at a time: those that are lost, repeated, late or unknown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import ConnectionLost, HttpRequest
from trio_mcp.cluster import _forwarding, _messages, _owner
from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._messages import ResponsePart, request_json
from trio_mcp.lowlevel import ClientSession, HttpChannel, Limits, stream_link
from trio_mcp.wire import JsonObject, decode, encode

GET = HttpRequest(method="GET", path="/mcp", headers={})
HEAD = (200, [("content-length", "2")])


# --- The owner's side ---


@define(eq=False)
class App:
    """An application that waits until the test lets it answer, or until its client has left."""

    fails: bool = False
    answered: int = field(default=0, init=False)
    left: int = field(default=0, init=False)
    go_on: trio.Event = field(factory=trio.Event, init=False)

    def begin_forwarded(self, request: HttpRequest) -> None:
        assert request.is_forwarded

    async def answer_forwarded(self, request: HttpRequest, channel: HttpChannel, begun: object = None) -> None:
        assert (request.method, begun, await channel.read()) == ("GET", None, None)
        self.answered += 1
        if self.fails:
            raise RuntimeError("a bug")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_left, channel, nursery)
            await self.go_on.wait()
            channel.put(HEAD, b"ok", more=False)
            nursery.cancel_scope.cancel()

    async def _wait_left(self, channel: HttpChannel, nursery: trio.Nursery) -> None:
        await channel.wait_left()
        self.left += 1
        nursery.cancel_scope.cancel()


@define(eq=False)
class Connection:
    """The forwarding process at the other end of a connection."""

    stream: trio.abc.Stream
    received: list[JsonObject] = field(factory=list[JsonObject], init=False)

    async def send(self, message: str, /, **params: Any) -> None:
        await self.stream.send_all(encode({"jsonrpc": "2.0", "method": message, "params": params}) + b"\n")
        await wait_all_tasks_blocked()

    async def request(self, id: int) -> None:
        await self.send(_messages.REQUEST, id=id, done=[], **request_json(GET))

    async def parts(self) -> list[JsonObject]:
        """Wait for messages, and return the params of those that have arrived."""
        await wait_all_tasks_blocked()
        return [decode(line)["params"] for line in bytes(await self.stream.receive_some()).splitlines()]


@asynccontextmanager
async def owner(app: App) -> AsyncGenerator[Callable[[], Connection]]:
    """Run the owner's side; yield a function that connects to it."""
    async with trio.open_nursery() as nursery:
        requests = _owner.ForwardedRequests(app, nursery)

        def connect() -> Connection:
            here, there = memory_stream_pair()
            nursery.start_soon(requests.serve, here, "other")
            return Connection(there)

        yield connect
        nursery.cancel_scope.cancel()


async def test_a_request_that_arrives_twice_is_carried_out_once() -> None:
    app = App()
    async with owner(app) as connect:
        connection = connect()
        await connection.request(1)
        await connection.request(1)
        app.go_on.set()

        assert [(part["id"], part["text"]) for part in await connection.parts()] == [(1, "ok")]
        assert app.answered == 1


async def test_a_message_of_a_later_version_is_ignored() -> None:
    app = App()
    async with owner(app) as connect:
        connection = connect()
        await connection.request(1)
        await connection.send("http/later", id=1)
        app.go_on.set()

        assert len(await connection.parts()) == 1


async def test_an_application_that_fails_breaks_off_its_response_alone(caplog: pytest.LogCaptureFixture) -> None:
    app = App(fails=True)
    async with owner(app) as connect:
        connection = connect()
        await connection.request(1)
        (part,) = await connection.parts()
        assert (part["cut"], part["more"]) == (True, False)
        app.fails = False
        app.go_on.set()
        await connection.request(2)

        assert [part["id"] for part in await connection.parts()] == [2]
    assert "a forwarded request failed" in caplog.text


async def test_a_new_connection_replaces_one_whose_end_was_not_noticed() -> None:
    app = App()
    async with owner(app) as connect:
        first = connect()
        await first.request(1)
        second = connect()
        await second.send(_messages.RESUME, open={"1": 0})
        app.go_on.set()

        assert [part["id"] for part in await second.parts()] == [1]
        assert bytes(await first.stream.receive_some()) == b""


async def test_the_client_has_left_if_its_process_stays_away(autojump_clock: object) -> None:
    app = App()
    async with owner(app) as connect:
        connection = connect()
        await connection.request(1)
        await connection.stream.aclose()
        await trio.sleep(_owner.KEPT_SECONDS - 1)
        assert app.left == 0
        await trio.sleep(2)

        assert app.left == 1


async def test_the_client_is_waited_for_if_its_process_comes_back(autojump_clock: object) -> None:
    app = App()
    async with owner(app) as connect:
        connection = connect()
        await connection.request(1)
        await connection.stream.aclose()
        await trio.sleep(1)
        second = connect()
        await second.send(_messages.RESUME, open={"1": 0, "7": 2})
        assert await second.parts() == [{"ids": [7]}]
        await trio.sleep(2 * _owner.KEPT_SECONDS)
        app.go_on.set()

        assert [part["id"] for part in await second.parts()] == [1]
        assert app.left == 0


# --- The forwarding side ---


@define(eq=False)
class Link:
    """A connection that records what is sent."""

    sent: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        self.sent.append((method, params))


async def never(_: str) -> None:
    await trio.sleep_forever()


async def nowhere(_: str) -> None:
    await trio.lowlevel.checkpoint()


def remote_node(nursery: trio.Nursery, find: Any = never) -> _forwarding.RemoteNode:
    return _forwarding.RemoteNode("theirs", "ours", ClusterKeys([bytes(32)]), nursery, find)


async def test_a_part_that_arrives_twice_is_passed_on_once() -> None:
    async with trio.open_nursery() as nursery:
        exchange = remote_node(nursery).forward(GET)
        for number in (0, 0, 2, 1):
            exchange.received(ResponsePart(number, HEAD if not number else None, b"%d" % number, more=True))
        exchange.fail()

        parts = [await exchange.next_part() for _ in range(3)]
        assert [part and part[1] for part in parts] == [b"0", b"1", None]
        nursery.cancel_scope.cancel()


async def test_a_process_that_has_no_address_any_more_is_gone() -> None:
    async with trio.open_nursery() as nursery:
        remote = remote_node(nursery, nowhere)
        exchange = remote.forward(GET)
        assert not remote.is_idle

        assert await exchange.next_part() is None
        assert exchange.outcome == "gone"
        exchange.leave()
        await wait_all_tasks_blocked()
        assert remote.is_idle


async def test_the_owner_is_told_of_many_whole_responses_together() -> None:
    async with trio.open_nursery() as nursery:
        remote, link = remote_node(nursery), Link()
        remote._link = link  # type: ignore[assignment]  # in place of a connection
        exchanges = [remote.forward(GET) for _ in range(64)]
        link.sent.clear()
        for exchange in exchanges:
            exchange.received(ResponsePart(0, HEAD, b"ok", more=False))
            await exchange.next_part()
            exchange.taken()
            exchange.leave()

        assert link.sent == [(_messages.DONE, {"ids": [*range(1, 65)]})]


async def test_messages_about_requests_that_have_ended_are_ignored() -> None:
    async with trio.open_nursery() as nursery:
        remote, link = remote_node(nursery), Link()
        remote._link = link  # type: ignore[assignment]  # in place of a connection
        remote._received(_messages.PART, ResponsePart(0, HEAD, b"ok", more=False).to_json(99))
        remote._received(_messages.UNKNOWN, {"ids": [99]})
        remote._received("http/later", {"id": 99})

        assert link.sent == []


# --- Links that take notifications ---


def ignore(method: str, params: JsonObject) -> None:
    raise AssertionError(f"no notification is sent here: {method} {params}")


async def test_a_link_of_notifications_refuses_requests() -> None:
    here, there = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        link = stream_link(here, ClientSession(), ignore, Limits())
        nursery.start_soon(lambda: link.run(drain=False))
        await there.send_all(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        answer = decode(bytes(await there.receive_some()))

        assert answer["error"]["code"] == -32601
        await there.aclose()


async def test_a_link_over_a_socket_that_breaks_while_it_sends_is_lost() -> None:
    ours, theirs = trio.socket.socketpair()
    theirs.close()
    lost: list[ConnectionLost] = []
    async with trio.open_nursery() as nursery:
        link = stream_link(trio.SocketStream(ours), ClientSession(), ignore, Limits())
        link.on_disconnect(lost.append)
        link.notify_nowait("acme/any", {})
        nursery.start_soon(lambda: link.run(drain=False))

    assert len(lost) == 1


async def test_a_link_whose_socket_was_closed_here_is_lost() -> None:
    ours, theirs = trio.socket.socketpair()
    stream = trio.SocketStream(ours)
    lost: list[ConnectionLost] = []
    async with trio.open_nursery() as nursery:
        link = stream_link(stream, ClientSession(), ignore, Limits())
        link.on_disconnect(lost.append)
        nursery.start_soon(lambda: link.run(drain=False))
        await wait_all_tasks_blocked()
        ours.close()
        link.notify_nowait("acme/any", {})
    theirs.close()

    assert len(lost) == 1
