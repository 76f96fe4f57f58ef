"""One failure, one call: whatever the code of an application raises, the server and its other calls go on."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.conftest import TRANSPORTS, connected
from tests.interaction.failing_server import make_server
from tests.interaction.not_exceptions import KINDS, NOT_EXCEPTIONS
from trio_mcp import Client, ClientOptions, ErrorResponse, Server, open_client, types

PROGRAM = ("-m", "tests.interaction.failing_server")
MESSAGES = {
    "cancelled": "the handler raised trio.Cancelled, but was not cancelled",
    "asyncio": "the handler raised CancelledError, which is not an Exception",
    "native": "the handler raised NativePanicError, which is not an Exception",
    "interrupt": "the handler raised KeyboardInterrupt, which is not an Exception",
    "exit": "the handler tried to exit the process: sys.exit(3)",
    "generator": "the handler raised GeneratorExit, which is not an Exception",
    "group": "a task of the handler raised NativePanicError, ValueError",
}
REVISIONS = (types.REVISIONS[0], types.REVISIONS[-2], types.REVISIONS[-1])


async def is_alive(client: Client) -> bool:
    """Call a tool that does not fail."""
    result = await client.call_tool("add", {"a": 1, "b": 2})
    return result.content == [types.TextContent(text="3")]


def requests_that_fail(client: Client, kind: str) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return a request for each kind of handler; all of them fail with an error response."""
    completed = types.PromptReference(name="failing_prompt")
    return {
        "a resource": partial(client.read_resource, f"fail://{kind}"),
        "a prompt": partial(client.get_prompt, "failing_prompt", {"kind": kind}),
        "a completion": partial(client.complete, completed, "kind", kind),
        "a custom method": partial(client.request, "com.example/fail", {"kind": kind}, dict[str, Any]),
        "middleware": partial(client.list_tools, kind),
    }


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_exception_of_any_class_fails_its_call_alone(transport: str, revision: str, tmp_path: Path) -> None:
    options = ClientOptions(revision=revision)
    async with connected(transport, make_server, PROGRAM, tmp_path, options) as client:
        for kind in KINDS:
            for tool in ("fail", *(["fail_in_a_thread"] if kind in NOT_EXCEPTIONS else [])):
                outcome = await client.call_tool(tool, {"kind": kind}, raise_on_error=False)
                assert outcome.is_error
                assert MESSAGES[kind] in str(outcome.content)
            for request in requests_that_fail(client, kind).values():
                with pytest.raises(ErrorResponse, match="failed; the server's log says why"):
                    await request()
            await client.call_tool("fail_later", {"kind": kind})
            await client.notify("com.example/failed", {"kind": kind})
            assert await is_alive(client)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_log_names_the_exception_and_the_line_that_raised_it(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(make_server()) as client:
        await client.call_tool("fail", {"kind": kind})

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("trio_mcp.server", "ERROR")
    assert MESSAGES[kind] in caplog.text
    assert "in raise_it" in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_real_interrupt_that_strikes_a_handler_is_raised_in_the_main_task(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def interrupted() -> str:
        signal.raise_signal(signal.SIGINT)
        await trio.lowlevel.checkpoint()
        return "not a failure"

    async def main() -> None:
        async with open_client(server, revision=revision) as client:
            await client.call_tool("interrupted")
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
