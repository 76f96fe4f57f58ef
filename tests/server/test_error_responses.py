"""Error responses: the answer to each kind of failure, in each era, of tools and of other handlers."""

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

    @server.method("acme/custom")
    async def custom() -> None:
        raise failure

    return server


async def answer_to(failure: Exception, revision: str, kind: str) -> types.CallToolResult | ErrorResponse:
    async with open_client(make_server(failure), revision=revision) as client:
        try:
            if kind == "tool":
                return await client.call_tool("tool")
            await (client.get_prompt("prompt") if kind == "prompt" else client.request("acme/custom", None, dict))
        except ErrorResponse as error:
            return error
    raise AssertionError("the server sent a result")


@pytest.mark.requirement("B.1-S3")
@pytest.mark.parametrize("kind", ["tool", "prompt", "custom"])
async def test_a_modern_client_is_sent_the_missing_capability(kind: str) -> None:
    answer = await answer_to(MissingCapability("the client cannot be asked", REQUIRED), MODERN, kind)

    assert isinstance(answer, ErrorResponse)
    assert answer.code == MISSING_CAPABILITY
    assert answer.message == "the client cannot be asked"
    assert answer.data == {"requiredCapabilities": REQUIRED}


@pytest.mark.parametrize("kind", ["tool", "prompt", "custom"])
@pytest.mark.parametrize("failure", [MissingCapability("the client cannot be asked", REQUIRED), AskExpired("too late")])
async def test_a_legacy_client_is_sent_these_failures_as_messages(
    failure: Exception, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Legacy revisions have no error code for it: a tool sends an error result, others an internal error."""
    answer = await answer_to(failure, LEGACY, kind)

    if isinstance(answer, ErrorResponse):
        assert kind != "tool"
        assert answer.code == INTERNAL_ERROR
        assert str(failure) in answer.message
    else:
        assert kind == "tool"
        assert answer.is_error
        assert answer.content == [types.TextContent(text=str(failure))]
    assert caplog.records == []  # not a bug of the server


async def test_an_expired_question_is_a_tool_error_in_a_modern_revision() -> None:
    answer = await answer_to(AskExpired("too late"), MODERN, "tool")

    assert isinstance(answer, types.CallToolResult)
    assert answer.is_error
    assert answer.content == [types.TextContent(text="too late")]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("kind", ["tool", "prompt", "custom"])
async def test_a_request_is_refused_as_busy_if_too_many_handlers_are_parked(kind: str, revision: str) -> None:
    answer = await answer_to(TooManyParked("10 handlers wait for answers"), revision, kind)

    assert isinstance(answer, ErrorResponse)
    assert answer.code == BUSY
    assert answer.message == "too busy: 10 handlers wait for answers; try again later"


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("kind", ["tool", "prompt", "custom"])
async def test_an_mcp_error_of_the_handler_is_sent_unchanged(kind: str, revision: str) -> None:
    answer = await answer_to(McpError(-31_234, "mine", [1]), revision, kind)

    assert isinstance(answer, ErrorResponse)
    assert (answer.code, answer.message, answer.data) == (-31_234, "mine", [1])


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("kind", ["prompt", "custom"])
async def test_the_details_of_a_bug_appear_only_in_the_log(
    kind: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answer_to(KeyError("secret"), revision, kind)

    assert isinstance(answer, ErrorResponse)
    assert answer.code == INTERNAL_ERROR
    assert "secret" not in answer.message
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
