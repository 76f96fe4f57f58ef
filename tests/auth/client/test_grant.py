"""The behaviour that all grants share."""

from __future__ import annotations

import pytest
import trio

from tests.auth.client.scripted_network import URL, MachineGrant, Network, connect
from tests.auth.signed_tokens import Clock


def test_a_grant_without_a_user_has_no_browser_agent() -> None:
    with pytest.raises(RuntimeError, match="MachineGrant uses no browser"):
        MachineGrant().agent()


async def test_a_grant_requires_a_server_with_a_url(nursery: trio.Nursery) -> None:
    with pytest.raises(ValueError, match="http or https URL"):
        connect(MachineGrant(), Network(Clock()), nursery, url="mcp.example.com")


async def test_connections_have_separate_sources_and_share_one_cache(nursery: trio.Nursery) -> None:
    grant, network = MachineGrant(), Network(Clock())

    first, second = [connect(grant, network, nursery, url=url) for url in (URL, f"{URL}/")]

    assert first is not second
    assert first.cache is second.cache
    assert first.cache is not connect(grant, network, nursery, url=f"{URL}/other").cache
    assert first.cache is not connect(MachineGrant(), network, nursery).cache
