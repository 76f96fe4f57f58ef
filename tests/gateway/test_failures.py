"""A failure between a gateway and a server is told in the words of the gateway."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.gateway.helpers import LEGACY, MODERN, Way, front, opened, text_of
from tests.gateway.upstream_server import make_server
from trio_mcp import (
    AskExpired,
    AuthorizationFailed,
    ConnectionBroken,
    ErrorResponse,
    Limits,
    McpError,
    MissingCapability,
    RemoteProtocolError,
    RequestTimedOut,
    ResponseLost,
    ToolError,
    TrioMcpError,
    types,
)
from trio_mcp.gateway._forward import failure_of

CALL, READ = "tools/call", "resources/read"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (RequestTimedOut("secret"), "did not answer in time"),
        (ResponseLost("secret"), "was reached, but its answer was lost"),
        (ConnectionBroken("secret"), "is not connected, or the connection was lost before it answered"),
        (AuthorizationFailed("secret"), "does not accept the credentials of the gateway"),
        (RemoteProtocolError("secret"), "gave an answer that breaks the protocol"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_a_failure_is_a_tool_error_of_a_call_and_an_internal_error_of_the_rest(
    failure: TrioMcpError, words: str
) -> None:
    of_call = failure_of(failure, "crm", CALL, modern=True)
    of_read = failure_of(failure, "crm", READ, modern=True)

    assert isinstance(of_call, ToolError)
    assert isinstance(of_read, McpError)
    assert str(of_call) == of_read.message == f"the server 'crm' behind this gateway {words}"
    assert of_read.code == -32603


@pytest.mark.parametrize("failure", [McpError(-5, "x"), AskExpired("x"), ToolError("x"), MissingCapability("x", {})])
def test_what_is_meant_for_the_caller_stays_as_it_is(failure: TrioMcpError) -> None:
    assert failure_of(failure, "crm", CALL, modern=True) is failure


@pytest.mark.parametrize(
    ("code", "method", "data", "modern", "expected"),
    [
        (-32002, READ, {"uri": "a://b"}, True, -32602),
        (-32002, READ, None, False, -32002),
        (-32602, READ, {"uri": "a://b"}, False, -32002),
        (-32602, READ, None, False, -32602),
        (-32602, CALL, {"uri": "a://b"}, False, -32602),
        (-32602, READ, {"uri": "a://b"}, True, -32602),
        (-5, READ, {"uri": "a://b"}, False, -5),
    ],
)
def test_the_code_of_a_missing_resource_is_that_of_the_caller_s_era(
    code: int, method: str, data: Any, modern: bool, expected: int
) -> None:
    told = failure_of(ErrorResponse(code, "x", data), "crm", method, modern=modern)

    assert isinstance(told, McpError)
    assert (told.code, told.message, told.data) == (expected, "x", data)


@pytest.mark.parametrize(
    ("data", "needed"), [({"requiredCapabilities": {"roots": {}}}, {"roots": {}}), ({}, {}), (None, {})]
)
def test_a_capability_that_a_legacy_caller_lacks_is_told_without_the_modern_code(data: Any, needed: Any) -> None:
    told = failure_of(ErrorResponse(-32021, "no roots", data), "crm", CALL, modern=False)

    assert isinstance(told, MissingCapability)
    assert (told.message, told.required) == ("no roots", needed)
    assert isinstance(failure_of(ErrorResponse(-32021, "no roots", data), "crm", CALL, modern=True), McpError)


async def test_a_question_that_expires_is_an_error_for_the_server_that_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gateway = front(make_server(LEGACY), limits=Limits(ask_seconds=5))
    with trio.fail_after(1000):
        async with opened(gateway, Way(LEGACY, MODERN), on_elicit=never) as client:
            async with client.open_call("ask", {"question": "How many?"}, manual_input=True) as call:
                interim = await call.result()
            assert isinstance(interim, types.InputRequiredResult)
            await trio.sleep(60)
            assert gateway.status["shelf"].in_flight == 0
            assert text_of(await client.call_tool("nothing")) == "nothing was needed"


async def never(_: object) -> Any:
    await trio.sleep_forever()
