"""Attacks by connections: those that send nothing, send slowly, or do not read, and sessions with open streams."""

from __future__ import annotations

from functools import partial

import h2.config
import h2.connection
import h2.errors
import h2.events
import trio

from .people import PATH
from .place import AT_ONCE, Place, hold
from .sender import LEGACY, Http1, Sender
from .server import MAX_FILES

__all__ = [
    "idle_connections",
    "rapid_resets",
    "sessions",
    "slow_heads",
    "unfinished_bodies",
    "unread_answers",
    "unread_http2_answers",
]

_IDLE = MAX_FILES + 200
"""More connections than the server may have open files."""
_BODIES = 100
_BODY_BYTES = 4 * 2**20
_CHUNK_BYTES = 256 * 2**10
_UNREAD = 40
_MEGABYTES = 8
_SESSIONS = 600
_SLOW_HEADS = 300
_AGAIN_SECONDS = 0.5
_MOST_RESETS = 20
"""The streams that are reset in one go."""


async def idle_connections(place: Place) -> None:
    """Open more connections than the server may have, and send nothing."""

    async def nothing(_: Http1) -> None:
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for sender in (place.attacker, place.stranger):
            nursery.start_soon(partial(hold, sender, nothing, connections=_IDLE // 2))


async def unfinished_bodies(place: Place) -> None:
    """Send the largest bodies except for their last byte."""

    async def send(sender: Sender, connection: Http1) -> None:
        fields, _ = sender.call("add")
        lines = [f"{name}: {value}" for name, value in {**fields, "content-length": str(_BODY_BYTES)}.items()]
        await connection.send("\r\n".join([f"POST {PATH} HTTP/1.1", *lines, "", ""]).encode())
        for _ in range(_BODY_BYTES // _CHUNK_BYTES - 1):
            await connection.send(b" " * _CHUNK_BYTES)
        await connection.send(b" " * (_CHUNK_BYTES - 1))

    async with trio.open_nursery() as nursery:
        for sender in (place.attacker, place.stranger):
            nursery.start_soon(partial(hold, sender, partial(send, sender), connections=_BODIES // 2))


async def unread_answers(place: Place) -> None:
    """Call for large answers, and read none of them, over HTTP/1.1."""

    async def call(connection: Http1) -> None:
        fields, body = place.attacker.call("big", {"megabytes": _MEGABYTES})
        await connection.begin("POST", PATH, fields, body)

    await hold(place.attacker, call, connections=_UNREAD, then=_until_cut)


async def _until_cut(connection: Http1) -> None:
    """Wait until the server cuts a connection, and read nothing of it."""
    while True:
        await trio.sleep(_AGAIN_SECONDS)
        await connection.send(b"\r\n")  # between two requests, which a server ignores


async def unread_http2_answers(place: Place) -> None:
    """Call for large answers over HTTP/2, on few connections, without room for their bytes."""
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(_leave_unread, place.attacker, _UNREAD // 2)


async def _leave_unread(sender: Sender, streams: int) -> None:
    while True:
        async with sender.connect() as connection:
            protocol = await _http2(connection)
            for _ in range(streams):
                _request(protocol, sender, "big", {"megabytes": _MEGABYTES})
            await connection.send(protocol.data_to_send())
            while data := await connection.receive():  # the frames without a window; acknowledged, and nothing more
                for event in protocol.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived):
                        sender.seen.outcomes[_status(event)] += 1
                await connection.send(protocol.data_to_send())
            sender.seen.outcomes["cut"] += 1
        await trio.sleep(_AGAIN_SECONDS)


def _status(event: h2.events.ResponseReceived) -> str:
    return next((bytes(value).decode() for name, value in event.headers if bytes(name) == b":status"), "?")


async def _http2(connection: Http1) -> h2.connection.H2Connection:
    protocol = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
    protocol.initiate_connection()
    await connection.send(protocol.data_to_send())
    return protocol


def _request(protocol: h2.connection.H2Connection, sender: Sender, tool: str, arguments: dict[str, int]) -> int:
    fields, body = sender.call(tool, arguments)
    authority = fields.pop("host")
    pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", authority), (":path", PATH)]
    stream = protocol.get_next_available_stream_id()
    protocol.send_headers(stream, [*pseudo, *fields.items(), ("content-length", str(len(body)))])
    protocol.send_data(stream, body, end_stream=True)
    return stream


async def rapid_resets(place: Place) -> None:
    """Begin requests over HTTP/2 and reset them at once."""
    sender = place.attacker

    async def reset() -> None:
        while True:
            async with sender.connect() as connection:
                protocol = await _http2(connection)
                for _ in range(_MOST_RESETS):
                    protocol.reset_stream(
                        _request(protocol, sender, "add", {"a": 1, "b": 2}), h2.errors.ErrorCodes.CANCEL
                    )
                await connection.send(protocol.data_to_send())
                with trio.move_on_after(_AGAIN_SECONDS):
                    while await connection.receive():
                        pass
                sender.seen.outcomes["resets"] += _MOST_RESETS
            await trio.sleep(_AGAIN_SECONDS / 10)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE // 2):
            nursery.start_soon(reset)


async def sessions(place: Place) -> None:
    """Open sessions, each with an open stream, until no more fit."""
    sender = place.attacker

    async def open_one(connection: Http1) -> None:
        session = await sender.open_session(connection)
        if session is None:
            return
        fields = {"mcp-session-id": session, "mcp-protocol-version": LEGACY, "accept": "text/event-stream"}
        await connection.begin("GET", PATH, sender.fields(fields))
        await connection.head()

    await hold(sender, open_one, connections=_SESSIONS)


async def slow_heads(place: Place) -> None:
    """Send the heads of requests a byte at a time."""

    async def begin(connection: Http1) -> None:
        await connection.send(f"POST {PATH} HTTP/1.1\r\n".encode())

    async def trickle(connection: Http1) -> None:
        while True:
            await trio.sleep(1.0)
            await connection.send(b"x")

    async with trio.open_nursery() as nursery:
        for sender in (place.attacker, place.stranger):
            nursery.start_soon(partial(hold, sender, begin, connections=_SLOW_HEADS // 2, then=trickle))
