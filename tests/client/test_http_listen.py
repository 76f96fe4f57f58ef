"""`client.listen` over HTTP at a modern server: each block has its own stream, which can be lost alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.http_origin import Answer, Events, HttpOrigin, Json, ReceivedRequest, connected
from trio_mcp import ListChanged, ResponseLost

LISTEN = "subscriptions/listen"
ID = "io.modelcontextprotocol/subscriptionId"


def notification(request: ReceivedRequest, method: str, **params: Any) -> Json:
    """Return a notification of the subscription that *request* opens."""
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": {ID: request.id}}}


def acknowledge_and_end(request: ReceivedRequest) -> Answer:
    """Acknowledge the subscription, report one change and end without a result."""
    acknowledged = notification(request, "subscriptions/acknowledged", notifications=request.params["notifications"])
    return Events([acknowledged, notification(request, "tools/list_changed")])


async def test_a_lost_stream_is_raised_after_its_changes_are_read() -> None:
    origin = HttpOrigin(replies={LISTEN: acknowledge_and_end})

    async with connected(origin) as client:
        async with client.listen(tools=True) as changes:
            assert await changes.__anext__() == ListChanged("tools")
            for _ in range(2):
                with pytest.raises(ResponseLost, match=LISTEN):
                    await changes.__anext__()
        await client.discover()
        async with client.listen(tools=True) as changes:
            assert await changes.__anext__() == ListChanged("tools")

    assert len(origin.of(LISTEN)) == 2


async def test_a_stream_that_is_lost_before_the_acknowledgement_fails_the_block() -> None:
    origin = HttpOrigin(replies={LISTEN: lambda _: Events([])})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost, match=LISTEN):
            async with client.listen(tools=True):
                raise AssertionError
        await client.discover()

    assert len(origin.of(LISTEN)) == 1
