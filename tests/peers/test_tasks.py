"""Tasks between FastMCP and this package, in both directions. Both have them in modern revisions only.

FastMCP sends no notifications about tasks, says at each request that the task has just changed, and its tools cannot
wait for an answer in a task: they ask in their result, and are called again with the answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.peers.conftest import HERE, TIMEOUT
from tests.peers.test_tour import served
from trio_mcp import ErrorResponse, TaskCancelled, TaskHandle, open_client, types

OURS = [sys.executable, "-W", "error", str(HERE / "tasks_server.py")]
NAMES = {"Who are you?": "Ada", "Who is your friend?": "Bob", "And the other?": "Cy"}
QUOTA: dict[str, Any] = {"code": -32000, "message": "no quota", "data": {"left": 0}}


@pytest.fixture(scope="module")
def python(homes: Path) -> str:
    """The Python in which FastMCP is installed."""
    return str(homes / "fastmcp" / "bin" / "python")


def program(name: str) -> str:
    return str(HERE / "python" / name)


# --- The client of FastMCP with our server ---


def seen_by_fastmcp(python: str, target: str, what: str) -> dict[str, Any]:
    """Return what a client made with FastMCP sees."""
    line = [python, program("fastmcp_tasks_client.py"), target, what]
    done = subprocess.run(line, capture_output=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr.decode()
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.fixture(scope="module")
def seen(python: str) -> dict[str, Any]:
    """What a client with tasks sees over stdio."""
    return seen_by_fastmcp(python, json.dumps([*OURS, "stdio"]), "tasks")


def test_a_call_of_a_fastmcp_client_follows_our_task_to_its_end(seen: dict[str, Any]) -> None:
    assert seen["called"] == 42


def test_a_fastmcp_client_follows_our_task_by_its_handle(seen: dict[str, Any]) -> None:
    assert seen["followed"] == {
        "created": ["working", 600_000, 50],
        "working": ["working", "compiling"],
        "final": ["completed", {"result": "main is built"}],
        "result": "main is built",
        "in the end": "completed",  # though it was cancelled then
    }


def test_a_fastmcp_client_sees_tool_errors_and_failures_of_our_tasks(seen: dict[str, Any]) -> None:
    assert seen["failures"] == {
        "tool": {
            "status": "completed",
            "error": None,
            "raised": {"tool_error": "the disk is full"},
            "called": {"isError": True, "text": ["the disk is full"]},
        },
        "protocol": {
            "status": "failed",
            "error": QUOTA,
            "raised": {"tool_error": "no quota"},
            "called": {"isError": True, "text": ["no quota"]},
        },
    }


def test_a_fastmcp_client_answers_the_questions_of_our_task(seen: dict[str, Any]) -> None:
    assert seen["questions"] == {"asked": ["Who are you?"], "result": "Ada, Bob, Cy", "called": "Ada, Bob, Cy"}


def test_a_fastmcp_client_cancels_our_tasks(seen: dict[str, Any]) -> None:
    assert seen["cancelled"] == {"statuses": ["cancelled", "cancelled"], "raised": True}


def test_our_server_tells_a_fastmcp_client_that_a_task_is_unknown(seen: dict[str, Any]) -> None:
    assert seen["unknown"] == [{"code": -32602, "data": None}] * 2


def test_our_server_makes_no_tasks_for_a_fastmcp_client_of_the_legacy_era(python: str) -> None:
    seen = seen_by_fastmcp(python, json.dumps([*OURS, "stdio"]), "legacy")

    assert seen["build"] == "main is built"
    assert "'io.modelcontextprotocol/tasks': required" in seen["nightly"]["tool_error"]


def test_a_fastmcp_client_cannot_ask_for_our_tasks_over_http(python: str) -> None:
    # It leaves out `Mcp-Name`, which clients must set on these requests and which its own server does not require.
    with served([*OURS, "http"]) as url:
        seen = seen_by_fastmcp(python, url, "one")

    assert seen == {"created": "working", "asked": {"code": -32020, "data": None}}


# --- Our client with the server of FastMCP ---


@pytest.fixture
def command(python: str) -> Sequence[str]:
    """The command of a server made with FastMCP."""
    return [python, program("fastmcp_tasks_server.py"), "stdio"]


@pytest.fixture(params=["stdio", "http"])
def target(command: Sequence[str], python: str, request: pytest.FixtureRequest) -> Generator[str | Sequence[str]]:
    """The command of that server, or the URL of a running one: for tests that send every request about tasks."""
    if request.param == "stdio":
        yield command
        return
    with served([python, program("fastmcp_tasks_server.py"), "http"]) as url:
        yield url


async def answer(question: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": NAMES[question.message]})


async def statuses_of(handle: TaskHandle) -> list[str]:
    """Follow a task to its end; return the status in each of its states."""
    return [state.status async for state in handle.states()]


async def test_our_call_follows_a_task_of_fastmcp_to_its_end(target: str | Sequence[str]) -> None:
    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)
        await client.call_tool("release")

    with trio.fail_after(TIMEOUT):
        async with open_client(target, tasks=True, on_elicit=answer) as client:
            assert await client.call_tool("nightly", {"count": 21}, returns=int) == 42
            result = await client.call_tool("build", {"branch": "main"}, on_progress=on_progress)
            assert result.structured_content == {"result": "main is built"}
            assert messages == ["compiling"]
            assert await client.call_tool("greet", returns=str) == "Ada, Bob, Cy"


async def test_our_handle_shows_the_states_of_a_task_of_fastmcp(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command) as client:
            handle = await client.start_task("build", {"branch": "main"})
            assert (handle.status, handle.tool) == ("working", "build")
            async for state in handle.states():
                if state.message == "compiling":
                    await client.call_tool("release")
            assert handle.status == "completed"
            assert handle.state
            assert (handle.state.poll_interval, handle.state.ttl) == (0.05, 900)
            await handle.cancel()  # harmless, because it has ended
            assert (await handle.result()).structured_content == {"result": "main is built"}


async def test_our_client_sees_tool_errors_and_failures_of_tasks_of_fastmcp(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command, tasks=True) as client:
            result = await client.call_tool("broken", {"how": "tool"})
            assert result.is_error
            assert result.content == [types.TextContent(text="the disk is full")]
            handle = await client.start_task("broken", {"how": "protocol"})
            assert (await statuses_of(handle))[-1] == "failed"
            assert handle.state
            assert handle.state.outcome == QUOTA
            for request in (handle.result(), client.call_tool("broken", {"how": "protocol"})):
                with pytest.raises(ErrorResponse) as failure:
                    await request
                error = failure.value
                assert {"code": error.code, "message": error.message, "data": error.data} == QUOTA


async def test_our_client_answers_the_questions_of_a_task_of_fastmcp(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command, on_elicit=answer) as client:
            handle = await client.start_task("greet")
            statuses = await statuses_of(handle)
            assert "input_required" in statuses
            assert statuses[-1] == "completed"
            assert (await handle.result()).structured_content == {"result": "Ada, Bob, Cy"}


async def test_our_program_answers_the_questions_of_a_task_of_fastmcp_one_by_one(target: str | Sequence[str]) -> None:
    asked: list[list[str]] = []
    with trio.fail_after(TIMEOUT):
        async with open_client(target, on_elicit=answer) as client:
            handle = await client.start_task("greet")
            async for state in handle.states(answering=False):
                questions = {each["params"]["message"]: key for key, each in state.questions.items()}
                if questions and asked[-1:] != [sorted(questions)]:
                    asked.append(sorted(questions))
                    message = asked[-1][-1]
                    answers = {questions[message]: types.ElicitResult(action="accept", content={"name": message[:3]})}
                    await handle.answer({**answers, "unknown": types.ElicitResult(action="decline")})
            assert asked == [["Who are you?"], ["And the other?", "Who is your friend?"], ["And the other?"]]
            assert (await handle.result()).structured_content == {"result": "Who, Who, And"}


@pytest.mark.parametrize("way", ["handle", "call"])
async def test_our_client_cancels_a_task_of_fastmcp(target: str | Sequence[str], way: str) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(target, tasks=True) as client:
            if way == "handle":
                handle = await client.start_task("endless")
                await client.call_tool("until_running")
                await handle.cancel()
                assert (await statuses_of(handle))[-1] == "cancelled"
                with pytest.raises(TaskCancelled):
                    await handle.result()
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "endless")
                    await client.call_tool("until_running")
                    nursery.cancel_scope.cancel()
            await client.call_tool("until_stopped")


async def test_our_client_cancels_a_task_of_fastmcp_that_asks(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command) as client:
            handle = await client.start_task("greet")
            async for state in handle.states(answering=False):
                if state.questions:
                    await handle.cancel()
            assert handle.status == "cancelled"


async def test_our_client_learns_from_fastmcp_that_a_task_is_unknown(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command) as client:
            handle = client.task("other")
            for request in (handle.refresh(), handle.result(), handle.cancel(), handle.answer({})):
                with pytest.raises(ErrorResponse) as failure:
                    await request
                assert failure.value.code == -32602


async def test_our_client_finds_a_task_of_fastmcp_over_another_connection(python: str) -> None:
    with trio.fail_after(TIMEOUT), served([python, program("fastmcp_tasks_server.py"), "http"]) as url:
        async with open_client(url) as client:
            id = (await client.start_task("nightly", {"count": 21})).id
        assert id is not None
        async with open_client(url) as client:
            assert (await client.task(id).result()).structured_content == {"result": 42}


async def test_fastmcp_makes_no_tasks_for_our_client_if_that_takes_none(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command) as client:
            await client.call_tool("release")
            assert await client.call_tool("build", {"branch": "main"}, returns=str) == "main is built"
            with pytest.raises(ErrorResponse, match="requires the tasks extension") as failure:
                await client.call_tool("nightly", {"count": 21})
            assert failure.value.code == -32021


async def test_fastmcp_makes_no_tasks_for_our_client_in_the_legacy_era(command: Sequence[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(command, revision="2025-11-25") as client:
            await client.call_tool("release")
            handle = await client.start_task("build", {"branch": "main"})
            assert handle.id is None
            assert (await handle.result()).structured_content == {"result": "main is built"}
