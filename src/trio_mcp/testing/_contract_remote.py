"""The additional contracts of transports to another program and of transports over a byte stream."""

from __future__ import annotations

import abc
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from .._errors import ConnectionBroken
from .._util import owned_nursery
from ..abc import Answerer, Serving, Transport, TransportClient, TransportOpener
from ..server import serve_stream
from ..transports import stream_transport
from ..types import REVISIONS
from ._contract import (
    Caller,
    TransportContract,
    call,
    check,
    contract_server,
    failure_of,
    nothing_held,
    params,
    text_of,
    until,
    within,
)
from ._script import ScriptedPeer

__all__ = ["RemoteTransportContract", "StreamContract"]


class RemoteTransportContract(TransportContract):
    """The contract of a transport whose other side may be lost; implement `cut`, which causes the loss.

    For a child process, the tool ``pid`` returns the number of the process that serves `contract_server`:
    ``await call(transport, "pid")``.
    """

    async def cut(self, transport: Transport) -> None:
        """End the other side of the connection *transport* without a message, as a crash or the network would."""
        raise NotImplementedError(f"{type(self).__name__} must implement `cut`, which ends the other side")

    async def test_the_end_of_the_connection_fails_the_waiting_callers(self) -> None:
        """Each in-flight request fails with its own `ConnectionBroken` (or a subclass); the block continues."""
        errors: list[ConnectionBroken] = []

        async def wait(transport: Transport) -> None:
            errors.append(await failure_of(partial(call, transport, "wait", key="never"), ConnectionBroken))

        async with self._opened() as transport:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(wait, transport)
                await self._until_waiting(transport, 3)
                await self.cut(transport)
            check(len({id(error) for error in errors}), 3, "exceptions")
            nothing_held(transport)

    async def test_after_the_end_of_the_connection_requests_fail(self) -> None:
        """Later requests and notifications raise `ConnectionBroken`, even after closing; `on_disconnect` reports it."""
        reports: list[bool] = []
        async with self._opener() as opener:
            async with opener(Caller()) as transport:
                transport.on_disconnect(lambda reason: reports.append(isinstance(reason, ConnectionBroken)))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(failure_of, partial(call, transport, "wait", key="never"), ConnectionBroken)
                    await self._until_waiting(transport, 1)
                    await self.cut(transport)
                for _ in range(2):
                    await failure_of(partial(call, transport, "count", steps=0), ConnectionBroken)
                await failure_of(partial(transport.notify, "notifications/x", None), ConnectionBroken)
            await failure_of(partial(call, transport, "count", steps=0), ConnectionBroken)
        check(reports, [True], "the broken connections that `on_disconnect` reported")

    async def test_updates_received_before_the_end_can_still_be_read(self) -> None:
        """An update that has arrived is delivered before the loss."""
        async with (
            self._opened() as transport,
            transport.ask("tools/call", params("hang", key="k"), wants_updates=True) as outgoing,
        ):

            async def arrived() -> bool:
                await trio.lowlevel.checkpoint()
                return outgoing.waiting == 1

            await until(arrived, lambda: "no update has come", self.seconds / 2)
            await self.cut(transport)
            await failure_of(outgoing.result, ConnectionBroken)
            check(await outgoing.next_update() is not None, True, "the update is there")
            check(await outgoing.next_update(), None, "the next update")

    async def test_a_new_connection_works_after_the_end_of_another(self) -> None:
        """After the other side of one connection is lost, the opener can connect again."""
        async with self._opener() as opener:
            async with opener(Caller()) as transport:
                await call(transport, "count", steps=0)
                await self.cut(transport)
            async with opener(Caller()) as transport:
                check(text_of(await call(transport, "count", steps=0)), "counted", "the answer")


class StreamContract(RemoteTransportContract):
    """The contract of a `trio.abc.Stream` that carries messages, with a client at one end and a server at the other.

    Implement `connected`, which returns the two ends of a connection. The clauses test `serve_stream` and
    `stream_transport` over them, and the server's side with bytes written by hand.
    """

    @abc.abstractmethod
    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        """Return the client's and the server's end of a new connection. The contract closes both."""

    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        """Serve every opened connection."""
        self._server_ends: dict[int, trio.abc.Stream] = {}

        @asynccontextmanager
        async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
            ours, theirs = await self.connected()
            nursery.start_soon(serve_stream, serving, theirs)
            async with stream_transport(ours)(client) as transport:
                self._server_ends[id(transport)] = theirs
                yield transport

        async with server.serving() as serving, owned_nursery() as nursery:
            yield connect

    async def cut(self, transport: Transport) -> None:
        """Close the server's end."""
        await trio.aclose_forcefully(self._server_ends[id(transport)])

    @asynccontextmanager
    async def _scripted_client(self) -> AsyncGenerator[tuple[ScriptedPeer, trio.CancelScope]]:
        """Serve a raw client stream; yield the stream and the scope that cancels the serving."""
        with within(self.seconds):
            ours, theirs = await self.connected()
            async with contract_server().serving() as serving, owned_nursery() as nursery:
                stop = trio.CancelScope()
                ended = trio.Event()

                async def serve(serving: Serving) -> None:
                    with stop:
                        await serve_stream(serving, theirs)
                    ended.set()

                nursery.start_soon(serve, serving)
                client = ScriptedPeer(ours)
                await client.greet(REVISIONS[-1])
                yield client, stop
                await ours.aclose()
                await ended.wait()

    async def test_a_response_has_the_unchanged_id_of_its_request(self) -> None:
        """The server answers with the very id, of the same type."""
        async with self._scripted_client() as (client, _):
            for id in (7, "7", 0, -1, 2**53, "", "é\u2028", "x" * 1000):
                await client.send(_request(id))
                check((await client.expect_response(id))["id"], id, "the id")

    async def test_messages_may_arrive_in_any_chunks(self) -> None:
        """Messages arrive intact one byte at a time and many at once."""
        async with self._scripted_client() as (client, _):
            for byte in json.dumps(_request("slow")).encode() + b"\n":
                await client.send(bytes([byte]))
            await client.expect_response("slow")
            ids = list(range(50))
            await client.send(b"".join(json.dumps(_request(id)).encode() + b"\n" for id in ids))
            answered = [(await client.receive())["id"] for _ in ids]
            check(sorted(answered), ids, "the answered ids")

    async def test_invalid_messages_are_harmless(self) -> None:
        """An invalid line is refused, and the next line is answered."""
        async with self._scripted_client() as (client, _):
            await client.send(b"\xff\x00 no message\n", _request(1))
            refusal: dict[str, Any] = await client.receive() or {}
            check(refusal.get("error", {}).get("code"), -32700, "the code of the refusal")
            await client.expect_response(1)

    async def test_requests_are_answered_after_the_end_of_the_input(self) -> None:
        """A client that half-closes a stream, if the stream can, gets its responses before the end."""
        async with self._scripted_client() as (client, _):
            await client.send(*(_request(id) for id in range(3)))
            if isinstance(client.stream, trio.abc.HalfCloseableStream):
                await client.send_eof()
                check(sorted(message["id"] for message in await client.rest()), [0, 1, 2], "the answered ids")

    async def test_a_cancelled_serving_closes_its_stream(self) -> None:
        """The client sees the end of the connection, and no partial message before it."""
        async with self._scripted_client() as (client, stop):
            await client.send(_request(1))
            await client.expect_response(1)
            stop.cancel()
            await client.expect_end()


def _request(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params("count", steps=0)}
