"""Modern HTTP requests and the client addresses that share their limits, without an application."""

from __future__ import annotations

import pytest
import trio

from tests.transports.http.asgi_caller import MODERN, scope_of
from trio_mcp import ConnectionBroken, ConnectionClosed, LocalProtocolError, Server
from trio_mcp.abc import HttpServing
from trio_mcp.peer import Access, ExchangeContext
from trio_mcp.transports import AsgiChannel, AsgiMessage, HttpRequest
from trio_mcp.transports.http.server._asgi import Responding
from trio_mcp.transports.http.server._modern import ClientAddress, ClientAddresses, IncomingHttpRequest

CONTEXT = ExchangeContext(
    revision=MODERN, capabilities={}, peer_info=None, meta={}, progress_token=None, log_level=None
)


def address_of(serving: HttpServing) -> ClientAddress:
    return ClientAddresses(serving).of(HttpRequest.of(scope_of()))


async def send(message: AsgiMessage) -> None:
    raise NotImplementedError


async def receive() -> AsgiMessage:
    raise NotImplementedError


def incoming_request(serving: HttpServing) -> IncomingHttpRequest:
    exchange = IncomingHttpRequest("tools/call", {}, CONTEXT, 1, address_of(serving), 10)
    exchange.hold_with(Responding(AsgiChannel({}, receive, send), 1, 1))
    return exchange


@pytest.mark.requirement("B.8-S4b")
async def test_a_modern_client_cannot_be_sent_requests() -> None:
    async with Server("x").serving() as serving:
        with pytest.raises(LocalProtocolError, match="'roots/list' cannot be sent"):
            incoming_request(serving).ask("roots/list", None)


async def test_a_task_that_waits_for_room_fails_when_the_client_disconnects(nursery: trio.Nursery) -> None:
    async with Server("x").serving() as serving:
        exchange = incoming_request(serving)
        exchange.notify("notifications/message", {"data": "x" * 100})
        assert not exchange.has_room()

        async def leave() -> None:
            await trio.testing.wait_all_tasks_blocked()
            exchange.cancel("left")

        nursery.start_soon(leave)
        with pytest.raises(ConnectionBroken):
            await exchange.room()

    assert await exchange.take() == []


async def test_a_task_that_waits_for_room_continues_when_another_task_answers(nursery: trio.Nursery) -> None:
    async with Server("x").serving() as serving:
        exchange = incoming_request(serving)
        exchange.notify("notifications/message", {"data": "x" * 100})

        async def answer() -> None:
            await trio.testing.wait_all_tasks_blocked()
            exchange.respond({})

        nursery.start_soon(answer)
        await exchange.room()

    assert len(await exchange.take()) == 2
    assert await exchange.take() == []


async def test_notifications_to_a_client_address_are_dropped() -> None:
    async with Server("x").serving() as serving:
        address = address_of(serving)
        await address.room()
        address.notify_nowait("notifications/message", {})

        assert address.has_room()
        assert not address.admission.operating


async def test_client_addresses_are_disconnected_when_the_serving_stops() -> None:
    reasons: list[str] = []
    async with Server("x").serving() as serving:
        addresses = ClientAddresses(serving)
        address = addresses.of(HttpRequest.of(scope_of()))
        address.on_disconnect(lambda reason: reasons.append(f"later: {reason}"))
        addresses.disconnect(ConnectionClosed("stopped"))
        address.on_disconnect(lambda reason: reasons.append(f"at once: {reason}"))

    assert reasons == ["later: stopped", "at once: stopped"]


async def test_requests_of_one_address_or_of_one_principal_share_a_client_address() -> None:
    async with Server("x").serving() as serving:
        addresses = ClientAddresses(serving)
        requests = [
            HttpRequest(
                method="POST", path="/", headers={}, client=client, access=Access(principal) if principal else None
            )
            for client, principal in [("a", None), ("a", None), ("b", None), ("a", "ann"), ("b", "ann"), (None, None)]
        ]
        first, again, other, ann, ann_elsewhere, nowhere = map(addresses.of, requests)

        assert first is again
        assert ann is ann_elsewhere
        assert len({first, other, ann, nowhere}) == 4
