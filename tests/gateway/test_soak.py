"""A short run of the soak of gateways; a long one is ``python -m tests.gateway.soak 600``."""

from __future__ import annotations

import trio

from tests.gateway.soak import soak


async def test_nothing_is_lost_but_calls_in_flight_of_servers_in_trouble() -> None:
    with trio.fail_after(250):
        done = await soak(20, seed=3)

    assert done["echo"] > 20
    assert done["ask"] > 10
    assert done["changes"] > 10
    assert done["lists"] > 3
    assert done["kill"] + done["stop"] + done["restart"] >= 1
