"""Listening to a modern server over HTTP: a stream of its own, which may be lost alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.http_origin import Answer, Events, Got, HttpOrigin, Json, connected
from trio_mcp import ListChanged, ResponseLost

LISTEN = "subscriptions/listen"
ID = "io.modelcontextprotocol/subscriptionId"


def told(got: Got, method: str, **params: Any) -> Json:
    """A notification of the subscription that *got* asks for."""
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": {ID: got.id}}}


def agreeing(got: Got) -> Answer:
    """Acknowledge, tell of one change, and end without a result."""
    acknowledged = told(got, "subscriptions/acknowledged", notifications=got.params["notifications"])
    return Events([acknowledged, told(got, "tools/list_changed")])


async def test_a_lost_stream_is_raised_after_its_changes_are_read() -> None:
    origin = HttpOrigin(replies={LISTEN: agreeing})

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


async def test_a_stream_that_is_lost_before_it_is_agreed_on_fails_the_block() -> None:
    origin = HttpOrigin(replies={LISTEN: lambda _: Events([])})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost, match=LISTEN):
            async with client.listen(tools=True):
                raise AssertionError
        await client.discover()

    assert len(origin.of(LISTEN)) == 1
