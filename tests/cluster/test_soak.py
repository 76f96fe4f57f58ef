"""A short run of the soak of a service; a long one is ``python -m tests.cluster.soak 1200 redis``."""

from __future__ import annotations

import sys

import pytest
import trio

from tests.cluster.soak import soak


@pytest.mark.skipif(sys.platform != "linux", reason="it counts descriptors in /proc")
async def test_nothing_is_lost_but_calls_on_killed_processes_and_nothing_is_carried_out_twice() -> None:
    with trio.fail_after(250):
        done = await soak(12, seed=3, pause=3)

    assert done["echo"] > 20
    assert done["steps"] > 10
    assert done["ask"] > 10
    assert done["changes"] > 10
    assert done["cut"] >= 1
    assert done["kill"] >= 1
