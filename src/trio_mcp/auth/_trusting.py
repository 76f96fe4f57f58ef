"""Hosts that a user trusts by name count as named by the user, whoever leads there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from ._steps import HttpCall, HttpReply
from ._urls import read_url

if TYPE_CHECKING:
    from ..abc import Fetch

__all__ = ["trusting"]


def trusting(fetch: Fetch, trusted_hosts: Sequence[str]) -> Fetch:
    """Return what makes the requests that *fetch* makes, and may make them to *trusted_hosts* in any network.

    Args:
        trusted_hosts: names of hosts, without port.
    """
    trusted = {host.lower().strip("[]") for host in trusted_hosts}

    async def fetch_trusting(call: HttpCall) -> HttpReply:
        parts = read_url(call.url)
        is_trusted = parts is not None and parts.host in trusted
        return await fetch(evolve(call, named_by="user") if is_trusted else call)

    return fetch_trusting
