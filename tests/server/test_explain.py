"""What each kind of failure is answered with, in each era, for tools and for everything else."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import AskExpired, ErrorResponse, McpError, MissingCapability, Server, TooManyParked, open_client, types
from trio_mcp.peer import BUSY
from trio_mcp.wire import INTERNAL_ERROR, MISSING_CAPABILITY

LEGACY, MODERN = "2025-11-25", "2026-07-28"
REQUIRED: dict[str, Any] = {"elicitation": {"form": {}}}


def make_server(failure: Exception) -> Server:
    server = Server("s")

    @server.tool
    async def tool() -> None:
        raise failure

    @server.prompt
    async def prompt() -> str:
        raise failure

    @server.method("acme/own")
    async def own() -> None:
        raise failure

    return server


async def answer_to(failure: Exception, revision: str, what: str) -> types.CallToolResult | ErrorResponse:
    async with open_client(make_server(failure), revision=revision) as client:
        try:
            if what == "tool":
                return await client.call_tool("tool")
            await (client.get_prompt("prompt") if what == "prompt" else client.request("acme/own", None, dict))
        except ErrorResponse as error:
            return error
    raise AssertionError("it was answered")


@pytest.mark.requirement("B.1-S3")
@pytest.mark.parametrize("what", ["tool", "prompt", "own"])
async def test_a_capability_that_is_missing_is_named_to_a_modern_client(what: str) -> None:
    answer = await answer_to(MissingCapability("nobody can be asked", REQUIRED), MODERN, what)

    assert isinstance(answer, ErrorResponse)
    assert answer.code == MISSING_CAPABILITY
    assert answer.message == "nobody can be asked"
    assert answer.data == {"requiredCapabilities": REQUIRED}


@pytest.mark.parametrize("what", ["tool", "prompt", "own"])
@pytest.mark.parametrize("failure", [MissingCapability("nobody can be asked", REQUIRED), AskExpired("too late")])
async def test_older_revisions_say_it_in_words(failure: Exception, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """There is no code for it: of a tool it is a text for the model, else an internal error with that text."""
    answer = await answer_to(failure, LEGACY, what)

    if isinstance(answer, ErrorResponse):
        assert what != "tool"
        assert answer.code == INTERNAL_ERROR
        assert str(failure) in answer.message
    else:
        assert what == "tool"
        assert answer.is_error
        assert answer.content == [types.TextContent(text=str(failure))]
    assert caplog.records == []  # nobody made a mistake


async def test_a_question_that_expired_is_a_tool_error_in_a_modern_revision_as_well() -> None:
    answer = await answer_to(AskExpired("too late"), MODERN, "tool")

    assert isinstance(answer, types.CallToolResult)
    assert answer.is_error
    assert answer.content == [types.TextContent(text="too late")]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("what", ["tool", "prompt", "own"])
async def test_where_too_many_wait_the_request_is_refused_as_busy(what: str, revision: str) -> None:
    answer = await answer_to(TooManyParked("10 handlers wait for answers"), revision, what)

    assert isinstance(answer, ErrorResponse)
    assert answer.code == BUSY
    assert answer.message == "too busy: 10 handlers wait for answers; try again later"


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("what", ["tool", "prompt", "own"])
async def test_an_error_of_the_handlers_choice_is_that_error(what: str, revision: str) -> None:
    answer = await answer_to(McpError(-31_234, "mine", [1]), revision, what)

    assert isinstance(answer, ErrorResponse)
    assert (answer.code, answer.message, answer.data) == (-31_234, "mine", [1])


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("what", ["prompt", "own"])
async def test_a_bug_is_told_to_the_log_alone(what: str, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    answer = await answer_to(KeyError("secret"), revision, what)

    assert isinstance(answer, ErrorResponse)
    assert answer.code == INTERNAL_ERROR
    assert "secret" not in answer.message
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
