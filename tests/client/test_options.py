"""Invalid client options: every opener refuses them before it starts or connects anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import (
    Server,
    open_client,
    open_clients,
    open_http_client,
    open_stdio_client,
    open_stream_client,
    start_client,
)
from trio_mcp import testing as kit

Opener = Callable[[Any], AbstractAsyncContextManager[object]]
NEVER = ["never-started"]
TABLE = {"mcpServers": {"a": {"command": NEVER[0]}}}

OPENERS: dict[str, Opener] = {
    "command": lambda options: open_client(NEVER, **options),
    "stdio": lambda options: open_stdio_client(NEVER, **options),
    "memory": lambda options: open_client(Server("s"), **options),
    "http": lambda options: open_http_client("http://never.reached/", **options),
    "stream": lambda options: open_stream_client(trio.testing.memory_stream_pair()[0], **options),
    "testing": lambda options: kit.open_memory_client(Server("s"), **options),
    "many": lambda options: open_clients(TABLE, **options),
    "one of many": lambda options: open_clients(TABLE, options_for=lambda _: options),
}


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
async def test_the_error_names_misspelt_options(opener: Opener) -> None:
    with pytest.raises(TypeError, match="unknown client option 'on_elicitation', 'on_smaple'; see ClientOptions"):
        async with opener({"on_smaple": None, "on_elicitation": None}):
            raise AssertionError


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
async def test_an_unknown_revision_is_rejected(opener: Opener) -> None:
    with pytest.raises(ValueError, match="revision='1999-01-01': this package supports 2024-11-05"):
        async with opener({"revision": "1999-01-01"}):
            raise AssertionError


async def test_start_client_raises_the_refusal_through_the_nursery() -> None:
    misspelt: Any = {"on_smaple": None}

    with pytest.RaisesGroup(TypeError):
        async with trio.open_nursery() as nursery:
            await start_client(nursery, NEVER, **misspelt)
