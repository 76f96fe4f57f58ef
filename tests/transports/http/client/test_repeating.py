"""Requests over HTTP that are sent once more: which, how often, and after what time."""

from __future__ import annotations

import pytest
import trio

from tests.transports.http.faulty_engines import Flaky
from tests.transports.http.scripted_server import META, HttpScript, ask, notice, opened, result
from trio_mcp import LocalProtocolError, ResponseLost
from trio_mcp.abc import Transport
from trio_mcp.transports import EngineError


async def disconnect(server: HttpScript) -> int:
    """Have the server take a request and die; return its id."""
    visit = await server.next(rpc="tools/list")
    await visit.begin()
    visit.cut()
    return int(visit.message["id"])


async def reach(server: HttpScript, nursery: trio.Nursery, transport: Transport) -> None:
    """Have the server answer something."""
    pending = ask(nursery, transport)
    await (await server.next(rpc="tools/list")).result()
    await pending.outcome()


async def test_what_may_be_repeated_is_sent_once_more_under_a_new_id(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            for is_last in (False, True):
                visit = await server.next(rpc="tools/call")
                id, token = visit.message["id"], visit.message["params"]["_meta"]["progressToken"]
                await visit.begin()
                await visit.event(notice("notifications/progress", progressToken=token, progress=id))
                if is_last:
                    await visit.event(result(id, content=[]))
                visit.cut()

        nursery.start_soon(serve)
        asked = transport.ask("tools/call", {"name": "x", "_meta": META}, wants_updates=True)
        asked.repeatable = True
        async with asked:
            assert await asked.result() == {"content": []}
            progress = [update[1]["progress"] for _ in range(2) if (update := await asked.next_update())]
        assert progress == [1, 2]
        assert transport.statistics().outgoing == 0


async def test_what_is_lost_twice_is_lost(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, repeatable=True)
        assert [await disconnect(server), await disconnect(server)] == [1, 2]
        with pytest.raises(ResponseLost) as caught:
            await pending.outcome()
        assert caught.value.sent
        await server.silence()


async def test_what_cannot_be_sent_again_fails_alone(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        arguments: dict[str, object] = {}
        pending = ask(nursery, transport, repeatable=True, arguments=arguments)
        visit = await server.next(rpc="tools/list")
        arguments["late"] = object()
        await visit.begin()
        visit.cut()
        with pytest.raises(LocalProtocolError, match="cannot be sent"):
            await pending.outcome()
        assert transport.statistics().outgoing == 0
        await reach(server, nursery, transport)


async def test_what_may_not_be_repeated_is_not(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        await disconnect(server)
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await server.silence()


@pytest.mark.parametrize("repeatable", [False, True])
async def test_a_server_that_was_never_there_is_not_waited_for(repeatable: bool, autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server, is_up=False)
    async with opened(server, engine=engine) as transport, trio.open_nursery() as nursery:
        with pytest.raises(ResponseLost, match="'tools/list': cannot connect") as caught:
            await ask(nursery, transport, repeatable=repeatable).outcome()

    assert not caught.value.sent
    assert isinstance(caught.value.__cause__, EngineError)
    assert len(engine.refused) == 1


async def test_a_server_that_restarts_is_waited_for(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server)
    async with opened(server, engine=engine) as transport, trio.open_nursery() as nursery:
        await reach(server, nursery, transport)
        engine.is_up = False
        impatient, patient = ask(nursery, transport), ask(nursery, transport, repeatable=True)
        with pytest.raises(ResponseLost):
            await impatient.outcome()
        await trio.sleep(2)
        engine.is_up = True
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        visit.cut()  # which is the first time that it was sent
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await patient.outcome() == {"tools": []}

    pauses = [later - earlier for earlier, later in zip(engine.refused[1:], engine.refused[2:], strict=False)]
    assert all(0.05 * 2**n <= pause <= 0.1001 * 2**n for n, pause in enumerate(pauses)), pauses


async def test_a_server_that_does_not_come_back_is_given_up(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server)
    async with opened(server, engine=engine) as transport, trio.open_nursery() as nursery:
        await reach(server, nursery, transport)
        engine.is_up = False
        with pytest.raises(ResponseLost) as caught:
            await ask(nursery, transport, repeatable=True).outcome()

    assert not caught.value.sent
    assert len(engine.refused) == 7
    assert 3 < engine.refused[-1] - engine.refused[0] < 7


async def test_what_is_left_in_a_pause_is_not_sent_again(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server)
    async with opened(server, engine=engine) as transport, trio.open_nursery() as nursery:
        await reach(server, nursery, transport)
        engine.is_up = False
        pending = ask(nursery, transport, repeatable=True)
        await trio.sleep(1)
        engine.is_up = True
        pending.scope.cancel()
        await server.silence()
