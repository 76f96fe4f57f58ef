"""An exchange in a POST of its own, and who its sender is to the engine, where no handler leads."""

from __future__ import annotations

import pytest
import trio

from tests.transports.http.asgi_caller import MODERN, scope_of
from trio_mcp import ConnectionBroken, ConnectionClosed, LocalProtocolError, Server
from trio_mcp.abc import HttpServing
from trio_mcp.peer import Access, ExchangeContext
from trio_mcp.transports import HttpRequest
from trio_mcp.transports.http.server._modern import ClientAddress, ClientAddresses, IncomingHttpRequest

CONTEXT = ExchangeContext(
    revision=MODERN, capabilities={}, peer_info=None, meta={}, progress_token=None, log_level=None
)


def guest_of(serving: HttpServing) -> ClientAddress:
    return ClientAddresses(serving).of(HttpRequest.of(scope_of()))


def exchange_of(serving: HttpServing) -> IncomingHttpRequest:
    return IncomingHttpRequest("tools/call", {}, CONTEXT, 1, guest_of(serving), 10)


@pytest.mark.requirement("B.8-S4b")
async def test_nothing_can_be_asked_of_a_modern_client() -> None:
    async with Server("x").serving() as serving:
        with pytest.raises(LocalProtocolError, match="'roots/list' cannot be sent"):
            exchange_of(serving).ask("roots/list", None)


async def test_a_task_that_waits_for_room_fails_when_the_client_leaves(nursery: trio.Nursery) -> None:
    async with Server("x").serving() as serving:
        exchange = exchange_of(serving)
        exchange.notify("notifications/message", {"data": "x" * 100})
        assert not exchange.has_room()

        async def leave() -> None:
            await trio.testing.wait_all_tasks_blocked()
            exchange.cancel("left")

        nursery.start_soon(leave)
        with pytest.raises(ConnectionBroken):
            await exchange.room()

    assert await exchange.take() == []


async def test_who_waits_for_room_goes_on_when_it_is_answered_by_others(nursery: trio.Nursery) -> None:
    async with Server("x").serving() as serving:
        exchange = exchange_of(serving)
        exchange.notify("notifications/message", {"data": "x" * 100})

        async def answer() -> None:
            await trio.testing.wait_all_tasks_blocked()
            exchange.respond({})

        nursery.start_soon(answer)
        await exchange.room()

    assert len(await exchange.take()) == 2
    assert await exchange.take() == []


async def test_nothing_goes_to_a_sender_but_answers() -> None:
    async with Server("x").serving() as serving:
        guest = guest_of(serving)
        await guest.room()
        guest.notify_nowait("notifications/message", {})

        assert guest.has_room()
        assert not guest.admission.operating


async def test_a_sender_is_lost_when_the_serving_stops() -> None:
    told: list[str] = []
    async with Server("x").serving() as serving:
        guests = ClientAddresses(serving)
        guest = guests.of(HttpRequest.of(scope_of()))
        guest.on_disconnect(lambda reason: told.append(f"later: {reason}"))
        guests.disconnect(ConnectionClosed("stopped"))
        guest.on_disconnect(lambda reason: told.append(f"at once: {reason}"))

    assert told == ["later: stopped", "at once: stopped"]


async def test_requests_of_one_address_or_of_one_principal_have_one_sender() -> None:
    async with Server("x").serving() as serving:
        guests = ClientAddresses(serving)
        requests = [
            HttpRequest(
                method="POST", path="/", headers={}, client=client, access=Access(principal) if principal else None
            )
            for client, principal in [("a", None), ("a", None), ("b", None), ("a", "ann"), ("b", "ann"), (None, None)]
        ]
        first, again, other, ann, ann_elsewhere, nowhere = map(guests.of, requests)

        assert first is again
        assert ann is ann_elsewhere
        assert len({first, other, ann, nowhere}) == 4
