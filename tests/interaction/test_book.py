"""The documented program that asks during a call, with our client: every revision, transport and asking mode."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

import pytest

from tests.interaction.book_server import make_server
from tests.interaction.conftest import connected
from tests.interaction.openers import Opener
from tests.interaction.over_bridges import OVER_BRIDGES
from tests.interaction.over_http import IN_PROCESS, OVER_SOCKETS
from trio_mcp import Client, ClientOptions, ErrorResponse, types
from trio_mcp.server import AskingMode

PROGRAM = str(Path(__file__).with_name("book_server.py"))
WITH_ELICITATION = types.REVISIONS[2:]
WITHOUT = types.REVISIONS[:2]
MODERN = types.REVISIONS[-1]


@pytest.fixture(params=["memory", "bytes", "stdio", "unix", *IN_PROCESS, *OVER_SOCKETS, *OVER_BRIDGES])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["parked", "replayed"])
def asking(request: pytest.FixtureRequest) -> AskingMode:
    return "replayed" if request.param == "replayed" else "parked"


@pytest.fixture
def opened(transport: str, asking: AskingMode, tmp_path: Path) -> Opener:
    def open_it(**options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
        return connected(transport, partial(make_server, asking), [PROGRAM, asking], tmp_path, options)

    return open_it


async def ask(request: types.ElicitRequestParams) -> types.ElicitResult:
    """The callback of the documentation, word for word."""
    return types.ElicitResult(action="accept", content={"count": 2})


@pytest.mark.parametrize("revision", WITH_ELICITATION)
async def test_the_tool_books_the_number_that_the_user_enters(opened: Opener, revision: str) -> None:
    async with opened(revision=revision, on_elicit=ask) as client:
        booked = await client.call_tool("book", {"show": "Tosca"})
    assert booked.structured_content == {"result": "2 seats for Tosca"}


@pytest.mark.parametrize("revision", WITH_ELICITATION)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_the_tool_books_nothing_when_the_user_declines_or_cancels(
    opened: Opener, revision: str, action: Literal["decline", "cancel"]
) -> None:
    async def refuse(_: object) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    async with opened(revision=revision, on_elicit=refuse) as client:
        booked = await client.call_tool("book", {"show": "Tosca"})
    assert booked.structured_content == {"result": "nothing booked"}


@pytest.mark.parametrize("revision", WITHOUT)
async def test_in_a_revision_without_elicitation_the_missing_capability_is_a_tool_error(
    opened: Opener, revision: str
) -> None:
    async with opened(revision=revision, on_elicit=ask) as client:
        failed = await client.call_tool("book", {"show": "Tosca"})
    assert failed.is_error
    assert isinstance(failed.content[0], types.TextContent)
    assert revision in failed.content[0].text


@pytest.mark.parametrize("revision", WITH_ELICITATION)
async def test_a_missing_capability_is_a_tool_error_in_legacy_revisions_and_32021_in_the_newest(
    opened: Opener, revision: str
) -> None:
    async with opened(revision=revision) as client:
        if revision == MODERN:
            with pytest.raises(ErrorResponse) as refused:
                await client.call_tool("book", {"show": "Tosca"})
            assert refused.value.code == -32021
            assert refused.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        else:
            failed = await client.call_tool("book", {"show": "Tosca"})
            assert failed.is_error
            assert isinstance(failed.content[0], types.TextContent)
            assert "elicitation" in failed.content[0].text
