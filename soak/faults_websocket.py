"""The faults over WebSockets: those of connections, and clients that leave, do not read, or break the protocol."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress

import trio
from wsproto.frame_protocol import Opcode

from .accounting import CANCEL
from .faults_sockets import SOCKET_FAULTS
from .load import LARGE, call_number
from .places import ERAS, Fault, HttpPlace, Place, Watched
from .raw_client import RawClient, leave_at_work, read_late
from .raw_websocket import RawWebSocket, frame, raw_websocket, request
from .server import LIMITS
from .shared_faults import SHARED

__all__ = ["WEBSOCKET_FAULTS"]

_ENDS_WITHIN = 20.0
"""The seconds within which the server must end the connection of a client that breaks the protocol."""
_RESET = struct.pack("ii", 1, 0)
_RESERVED_OPCODE, _RESERVED_BIT = 3, 0xC0
_LONG = LIMITS.max_message_bytes + 1
_PART = b" " * 2**16
_PARTS = 8 * LIMITS.max_message_bytes // len(_PART)
_PINGS, _FLOOD_SECONDS = 20_000, 2.0

_BROKEN_FRAMES: Mapping[str, bytes] = {
    "a binary message": frame(Opcode.BINARY, b"{}"),
    "a frame without a mask": frame(Opcode.TEXT, b"{}", mask=0),
    "text that is not UTF-8": frame(Opcode.TEXT, b"\xff\xfe"),
    "a reserved opcode": frame(_RESERVED_OPCODE, b""),
    "a reserved bit": frame(Opcode.TEXT, b"{}", first=_RESERVED_BIT),
    "a continuation of nothing": frame(Opcode.CONTINUATION, b"{}"),
    "a message inside a message": frame(Opcode.TEXT, b"{", first=0) + frame(Opcode.TEXT, b"{}"),
    "a ping in parts": frame(Opcode.PING, b"", first=0),
    "a long ping": frame(Opcode.PING, bytes(126)),
    "a close without a code": frame(Opcode.CLOSE, b"x"),
    "an impossible length": frame(Opcode.TEXT, b"", length=2**63),
}
"""The frames after which the server must end the connection."""


@asynccontextmanager
async def slow_reader(place: Place) -> AsyncGenerator[Watched]:
    """Request answers larger than the socket buffers and read them much later: they are complete."""
    here = HttpPlace.of(place)
    async with raw_websocket(here.server, place.book) as (_, peer), read_late(peer, place.book, 4 * LARGE):
        yield {}


@asynccontextmanager
async def hung_up(place: Place) -> AsyncGenerator[Watched]:
    """Leave without closing, with calls in flight, once by closing the connection and once by resetting it."""
    here = HttpPlace.of(place)
    for resets in (False, True):
        async with raw_websocket(here.server, place.book) as (websocket, peer):
            await leave_at_work(peer, place.book)
            await trio.sleep(place.rng.uniform(0, 0.1))
            if resets:
                websocket.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    yield {}


@asynccontextmanager
async def partial_frames(place: Place) -> AsyncGenerator[Watched]:
    """Send half a handshake, and half a frame with a call in flight, and stay."""
    here = HttpPlace.of(place)
    async with (
        await trio.open_tcp_stream("127.0.0.1", here.server.port) as stream,
        raw_websocket(here.server, place.book) as (websocket, peer),
    ):
        await stream.send_all(request()[:-10])
        await _begin_a_call(peer, place)
        await websocket.stream.send_all(frame(Opcode.TEXT, b'{"jsonrpc"', length=LARGE))
        yield {}


async def _begin_a_call(peer: RawClient, place: Place) -> None:
    """Call a tool that works until it is cancelled, and do not wait for it."""
    with trio.CancelScope() as scope:

        async def call(n: int) -> None:
            await peer.call(n, "hang")
            scope.cancel()
            await trio.lowlevel.checkpoint()

        await place.book.ask("abandoned", call, peril=CANCEL)


@asynccontextmanager
async def broken_frames(place: Place) -> AsyncGenerator[Watched]:
    """Break the protocol in every way, with a call in flight: the server ends each connection."""
    async with trio.open_nursery() as nursery:
        for what, sent in _BROKEN_FRAMES.items():
            nursery.start_soon(_break, place, what, sent)
    yield {}


async def _break(place: Place, what: str, sent: bytes) -> None:
    async with raw_websocket(HttpPlace.of(place).server, place.book) as (websocket, peer):
        await _begin_a_call(peer, place)
        await websocket.stream.send_all(sent)
        await _expect_end(place, websocket, what)


async def _expect_end(place: Place, websocket: RawWebSocket, what: str) -> None:
    with trio.move_on_after(_ENDS_WITHIN) as timeout:
        await websocket.end()
    if timeout.cancelled_caught:
        place.book.fault(f"a server still served a client {_ENDS_WITHIN:g} s after {what}")


@asynccontextmanager
async def endless_message(place: Place) -> AsyncGenerator[Watched]:
    """Send parts of a message that never ends, until the server ends the connection or many times its limit is sent."""
    here = HttpPlace.of(place)
    async with raw_websocket(here.server, place.book) as (websocket, peer):
        await _begin_a_call(peer, place)
        with suppress(trio.BrokenResourceError):
            await websocket.stream.send_all(frame(Opcode.TEXT, _PART, first=0))
            for _ in range(_PARTS):
                await websocket.stream.send_all(frame(Opcode.CONTINUATION, _PART, first=0))
        yield {}


@asynccontextmanager
async def long_message(place: Place) -> AsyncGenerator[Watched]:
    """Send a message above the limit: it is refused, and the next one is served."""
    here = HttpPlace.of(place)

    async def ask(n: int) -> None:
        await peer.call(n, "echo")
        await peer.answer(n, 0)

    async with raw_websocket(here.server, place.book) as (websocket, peer), trio.open_nursery() as nursery:
        nursery.start_soon(peer.receive_all)
        await websocket.send(b" " * _LONG)
        await place.book.ask("call", ask)
        nursery.cancel_scope.cancel()
    yield {}


@asynccontextmanager
async def ping_flood(place: Place) -> AsyncGenerator[Watched]:
    """Send pings and read no answer, until the server waits or all are sent; others are served meanwhile."""
    here = HttpPlace.of(place)
    revision = place.rng.choice(ERAS)
    async with here.client(revision) as client, raw_websocket(here.server, place.book) as (websocket, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_flood, websocket)
            await place.book.ask("call", lambda n: call_number(client, n, "echo"))
        yield {}


async def _flood(websocket: RawWebSocket) -> None:
    pings = frame(Opcode.PING, bytes(125)) * 100
    with trio.move_on_after(_FLOOD_SECONDS):
        for _ in range(_PINGS // 100):
            await websocket.stream.send_all(pings)


WEBSOCKET_FAULTS: Mapping[str, Fault] = {
    **SOCKET_FAULTS,
    "slow reader": slow_reader,
    "hung up": hung_up,
    "partial frames": partial_frames,
    "broken frames": broken_frames,
    "endless message": endless_message,
    "long message": long_message,
    "ping flood": ping_flood,
    **SHARED,
}
