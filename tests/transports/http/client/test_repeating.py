"""Repeated requests of an HTTP client: their conditions, their number and their pauses."""

from __future__ import annotations

import pytest
import trio

from tests.transports.http.faulty_engines import FlakyEngine
from tests.transports.http.scripted_server import (
    META,
    ScriptedHttpServer,
    notification,
    open_transport,
    result,
    start_request,
)
from trio_mcp import LocalProtocolError, ResponseLost
from trio_mcp.abc import Transport
from trio_mcp.transports import EngineError


async def drop_response(server: ScriptedHttpServer) -> int:
    """Receive a request and break its response off; return its id."""
    request = await server.next(rpc="tools/list")
    await request.begin()
    request.cut()
    return int(request.message["id"])


async def complete_request(server: ScriptedHttpServer, nursery: trio.Nursery, transport: Transport) -> None:
    """Complete one request, so that the server counts as reached."""
    pending = start_request(nursery, transport)
    await (await server.next(rpc="tools/list")).result()
    await pending.outcome()


async def test_a_repeatable_request_is_sent_once_more_with_a_new_id(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            for is_last in (False, True):
                request = await server.next(rpc="tools/call")
                id, token = request.message["id"], request.message["params"]["_meta"]["progressToken"]
                await request.begin()
                await request.event(notification("notifications/progress", progressToken=token, progress=id))
                if is_last:
                    await request.event(result(id, content=[]))
                request.cut()

        nursery.start_soon(serve)
        outgoing = transport.ask("tools/call", {"name": "x", "_meta": META}, wants_updates=True)
        outgoing.repeatable = True
        async with outgoing:
            assert await outgoing.result() == {"content": []}
            progress = [update[1]["progress"] for _ in range(2) if (update := await outgoing.next_update())]
        assert progress == [1, 2]
        assert transport.statistics().outgoing == 0


async def test_a_repeatable_request_that_is_lost_twice_fails(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, repeatable=True)
        assert [await drop_response(server), await drop_response(server)] == [1, 2]
        with pytest.raises(ResponseLost) as caught:
            await pending.outcome()
        assert caught.value.sent
        await server.expect_nothing()


async def test_a_request_that_cannot_be_encoded_again_fails_alone(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        arguments: dict[str, object] = {}
        pending = start_request(nursery, transport, repeatable=True, arguments=arguments)
        request = await server.next(rpc="tools/list")
        arguments["late"] = object()
        await request.begin()
        request.cut()
        with pytest.raises(LocalProtocolError, match="cannot be sent"):
            await pending.outcome()
        assert transport.statistics().outgoing == 0
        await complete_request(server, nursery, transport)


async def test_a_request_that_is_not_repeatable_is_sent_once(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        await drop_response(server)
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await server.expect_nothing()


@pytest.mark.parametrize("repeatable", [False, True])
async def test_a_request_to_a_server_that_was_never_reached_fails_at_once(
    repeatable: bool, autojump_clock: object
) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server, is_up=False)
    async with open_transport(server, engine=engine) as transport, trio.open_nursery() as nursery:
        with pytest.raises(ResponseLost, match="'tools/list': cannot connect") as caught:
            await start_request(nursery, transport, repeatable=repeatable).outcome()

    assert not caught.value.sent
    assert isinstance(caught.value.__cause__, EngineError)
    assert len(engine.refused) == 1


async def test_a_repeatable_request_waits_for_a_server_that_restarts(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server)
    async with open_transport(server, engine=engine) as transport, trio.open_nursery() as nursery:
        await complete_request(server, nursery, transport)
        engine.is_up = False
        once_only, repeatable = start_request(nursery, transport), start_request(nursery, transport, repeatable=True)
        with pytest.raises(ResponseLost):
            await once_only.outcome()
        await trio.sleep(2)
        engine.is_up = True
        request = await server.next(rpc="tools/list")
        await request.begin()
        request.cut()  # the first attempt that was sent
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await repeatable.outcome() == {"tools": []}

    pauses = [later - earlier for earlier, later in zip(engine.refused[1:], engine.refused[2:], strict=False)]
    assert all(0.05 * 2**n <= pause <= 0.1001 * 2**n for n, pause in enumerate(pauses)), pauses


async def test_a_repeatable_request_fails_if_the_server_does_not_return(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server)
    async with open_transport(server, engine=engine) as transport, trio.open_nursery() as nursery:
        await complete_request(server, nursery, transport)
        engine.is_up = False
        with pytest.raises(ResponseLost) as caught:
            await start_request(nursery, transport, repeatable=True).outcome()

    assert not caught.value.sent
    assert len(engine.refused) == 7
    assert 3 < engine.refused[-1] - engine.refused[0] < 7


async def test_a_request_cancelled_in_a_pause_is_not_repeated(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server)
    async with open_transport(server, engine=engine) as transport, trio.open_nursery() as nursery:
        await complete_request(server, nursery, transport)
        engine.is_up = False
        pending = start_request(nursery, transport, repeatable=True)
        await trio.sleep(1)
        engine.is_up = True
        pending.scope.cancel()
        await server.expect_nothing()
