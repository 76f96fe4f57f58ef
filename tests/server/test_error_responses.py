"""Error responses: the answer to each kind of failure, in each era, of tools and of other handlers."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, cast

import pytest
import trio
import trio.lowlevel

from tests.server.helpers import text_of
from trio_mcp import (
    AskExpired,
    Client,
    ErrorResponse,
    McpError,
    MissingCapability,
    Resolve,
    Server,
    ToolError,
    TooManyParked,
    open_client,
    types,
)
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


@pytest.mark.parametrize("name", ["awaiting", "plain", "running"])
async def test_the_traceback_in_the_log_begins_with_the_code_of_the_handler(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool
    async def awaiting() -> None:
        await trio.lowlevel.checkpoint()
        fail()

    @server.tool
    def plain() -> None:
        fail()

    @server.tool
    async def running() -> None:
        await trio.to_thread.run_sync(fail)

    async with open_client(server) as client:
        await client.call_tool(name)

    (record,) = caplog.records
    assert record.exc_info is not None
    frames = [frame.name for frame in traceback.extract_tb(record.exc_info[2])]
    assert (frames[0], frames[-1]) == (name, "fail")


def fail() -> None:
    raise KeyError("secret")


# --- Texts of exceptions ---

SECRET = "the password is 123"


def make_failing_server(failure: Exception, *, mask_errors: bool) -> Server:
    """Return a server whose handlers of every kind raise an exception."""
    server = Server("s", mask_errors=mask_errors)

    def fail(*_: object) -> Any:
        raise failure

    @server.tool
    def threaded() -> str:
        return str(fail())

    @server.tool
    async def scheduled() -> str:
        return str(fail())

    @server.tool
    async def resolved(value: Annotated[str, Resolve(fail_in(fail))]) -> str:
        return value

    @server.resource("a:b")
    async def resource() -> str:
        return str(fail())

    @server.resource("a:{x}")
    def template(x: str) -> str:
        return str(fail(x))

    @server.prompt
    async def prompt(word: str) -> str:
        return str(fail(word))

    @server.completion(prompt="prompt", argument="word")
    def words(typed: str) -> list[str]:
        return [str(fail(typed))]

    @server.method("com.example/custom")
    async def custom() -> None:
        fail()

    return server


def fail_in(fail: Callable[[], Any]) -> Callable[[], Any]:
    async def value() -> Any:
        return fail()

    return value


CALLS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "threaded": lambda client: client.call_tool("threaded"),
    "scheduled": lambda client: client.call_tool("scheduled"),
    "resolved": lambda client: client.call_tool("resolved"),
    "resource": lambda client: client.read_resource("a:b"),
    "template": lambda client: client.read_resource("a:c"),
    "prompt": lambda client: client.get_prompt("prompt", {"word": "x"}),
    "completion": lambda client: client.complete(types.PromptReference(name="prompt"), "word", ""),
    "custom": lambda client: client.request("com.example/custom", None, types.EmptyResult),
}
TOOLS = ("threaded", "scheduled", "resolved")


async def texts_of(failure: Exception, revision: str, *, mask_errors: bool) -> dict[str, str]:
    """Return what a client is told of an exception, by the kind of the handler."""
    texts: dict[str, str] = {}
    async with open_client(make_failing_server(failure, mask_errors=mask_errors), revision=revision) as client:
        for kind, call in CALLS.items():
            try:
                texts[kind] = text_of(await call(client))
            except ErrorResponse as error:
                texts[kind] = str(error)
    return texts


FAILURES = [
    ValueError(SECRET),
    RuntimeError(),
    ExceptionGroup("of tasks", [KeyError(SECRET), OSError(SECRET)]),
    ErrorResponse(-32000, SECRET),
]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_masked_errors_say_only_what_failed(
    failure: Exception, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = await texts_of(failure, revision, mask_errors=True)

    for kind, text in texts.items():
        assert SECRET not in text
        assert type(failure).__name__ not in text or isinstance(failure, ErrorResponse)
        assert text.startswith(f"{kind} failed; the server's log says why" if kind in TOOLS else "")
        assert "failed; the server's log says why" in text
    assert len([record for record in caplog.records if record.exc_info]) == len(CALLS)


async def test_without_masking_a_client_is_told_the_text_of_a_tool_and_of_nothing_else() -> None:
    texts = await texts_of(ValueError(SECRET), MODERN, mask_errors=False)

    assert {kind for kind, text in texts.items() if SECRET in text} == set(TOOLS)


@pytest.mark.parametrize("mask_errors", [False, True])
async def test_deliberate_errors_keep_their_text(mask_errors: bool) -> None:
    of_tools = await texts_of(ToolError("too late"), MODERN, mask_errors=mask_errors)
    of_all = await texts_of(McpError(5, "too late"), MODERN, mask_errors=mask_errors)

    assert {text for kind, text in of_tools.items() if kind in TOOLS} == {"too late"}
    assert all("too late" in text for text in of_all.values())


async def test_a_group_keeps_the_text_of_its_deliberate_errors() -> None:
    group = ExceptionGroup("of tasks", [ToolError("too late"), ValueError(SECRET), ValueError(SECRET)])

    assert (await texts_of(group, MODERN, mask_errors=True))["scheduled"] == (
        "too late; scheduled failed; the server's log says why"
    )


async def test_a_result_that_does_not_fit_its_schema_is_masked_and_arguments_that_do_not_are_not() -> None:
    server = Server("s", mask_errors=True)

    @server.tool
    async def number(n: int) -> int:
        return cast("int", [SECRET] * n)

    async with open_client(server) as client:
        assert text_of(await client.call_tool("number", {"n": 1})) == "number failed; the server's log says why"
        assert "$.n: expected integer, got string" in text_of(await client.call_tool("number", {"n": "one"}))
