"""Openers: the functions that open a client of a server, by the name of the transport between the two."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, Unpack

from tests.interaction.over_http import IN_PROCESS, over_http
from trio_mcp import Client, ClientOptions, Server, open_client
from trio_mcp.testing import open_memory_client

Opener: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


def _http_opener(transport: str) -> Opener:
    def open_it(server: Server, **options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
        return over_http(transport, server, options)

    return open_it


HTTP_OPENERS = {transport: _http_opener(transport) for transport in IN_PROCESS}


OPENERS: dict[str, Opener] = {"memory": open_client, "bytes": open_memory_client, **HTTP_OPENERS}
"""All take a server and the options of the client, as `open_client` does."""
