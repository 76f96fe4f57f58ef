"""The corpus of response smuggling against the client's own engine: it fails, and the connection is not used again."""

from __future__ import annotations

import pytest
import trio

from tests.transports.http.h1.smuggled_responses import (
    ACCEPTED_RESPONSES,
    CUT_RESPONSES,
    REFUSED_RESPONSES,
    AcceptedResponse,
)
from tests.transports.http.h1.smuggling import Refused
from tests.transports.http.test_engine import Connection, RawServer, listening
from trio_mcp.transports import EngineError
from trio_mcp.transports.http._http1_engine import Http1Engine

NEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden"
"""A response behind another: with it, also what waits for the end of a line has got one."""

BY_ORIGIN = {
    origin: [each for each in REFUSED_RESPONSES if each.origin == origin]
    for origin in dict.fromkeys(each.origin for each in REFUSED_RESPONSES)
}


async def answer(server: RawServer, data: bytes, *, ends: bool = False) -> Connection:
    """Answer the next request, which arrives on a new connection; return it."""
    connection = await server.connection()
    await connection.request()
    await connection.stream.send_all(data)
    if ends:
        await connection.stream.aclose()
    return connection


async def call(engine: Http1Engine, server: RawServer, method: str = "POST") -> tuple[int, bytes]:
    """Make a request; return the status and the body of its response."""
    async with engine.request(method, server.url, {}) as response:
        return response.status, b"".join([part async for part in response.chunks()])


async def expect_failure(engine: Http1Engine, server: RawServer) -> None:
    with pytest.raises(EngineError) as failed:
        await call(engine, server)
    assert failed.value.sent


@pytest.mark.parametrize("origin", BY_ORIGIN)
async def test_a_smuggled_response_fails_the_request_and_the_connection_is_not_used_again(origin: str) -> None:
    engine = Http1Engine()
    async with listening() as server:
        for refused in BY_ORIGIN[origin]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(expect_failure, engine, server)
                connection = await answer(server, refused.data + NEXT)
            await connection.left()
        await engine.aclose()

        assert server.accepted == len(BY_ORIGIN[origin])


@pytest.mark.parametrize("cut", CUT_RESPONSES, ids=lambda each: each.trick)
async def test_a_response_that_is_cut_off_fails_the_request(cut: Refused) -> None:
    engine = Http1Engine()
    async with listening() as server, trio.open_nursery() as nursery:
        nursery.start_soon(expect_failure, engine, server)
        await answer(server, cut.data, ends=True)


@pytest.mark.parametrize("accepted", ACCEPTED_RESPONSES, ids=lambda each: each.trick)
async def test_a_response_that_looks_smuggled_has_one_reading_and_may_be_the_last_of_its_connection(
    accepted: AcceptedResponse,
) -> None:
    found: list[tuple[int, bytes]] = []

    async def get_both() -> None:
        found.append(await call(engine, server, "GET" if accepted.has_body else "HEAD"))
        found.append(await call(engine, server))

    engine = Http1Engine()
    is_endless = accepted.body.startswith(b"HTTP/1.1 ")  # it lasts until the connection ends
    async with listening() as server, trio.open_nursery() as nursery:
        nursery.start_soon(get_both)
        connection = await answer(server, accepted.data, ends=is_endless)
        if accepted.is_last:
            await answer(server, NEXT)
        else:
            await connection.request()
            await connection.stream.send_all(NEXT)
    await engine.aclose()

    assert found == [(accepted.status, accepted.body), (200, b"hidden")]
