"""Calls of a language model: the order of answers, errors and the consent of the user."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Context, Server, ToolError, open_client, open_clients, types
from trio_mcp.client import OnProgress
from trio_mcp.llm import OfferedTool, ToolCall, Toolkit, load_toolkit

PROGRAM = str(Path(__file__).parents[1] / "client" / "programs" / "tool_server.py")
TIMEOUT_SECONDS = 60  # for a whole conversation


def make_server() -> Server:
    server = Server("sums")

    @server.tool(name="add.numbers")
    async def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def refuse() -> str:
        raise ToolError("not today")

    @server.tool
    async def long(length: int) -> str:
        return "x" * length

    return server


def call(name: str, arguments: object = None, id: object = "1") -> dict[str, Any]:
    """Return a call in the form of a model; arguments other than strings are encoded as JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}


def message(*calls: object) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


async def answers(toolkit: Toolkit, *calls: object, **options: Any) -> list[str]:
    return [each["content"] for each in await toolkit.answer(message(*calls), **options)]


async def test_the_functions_of_a_client_are_its_tools(autojump_clock: trio.testing.MockClock) -> None:
    async with open_client(make_server()) as client:
        schemas = {tool.name: tool.input_schema async for tool in client.tools()}
        functions = (await load_toolkit(client)).functions

    assert functions[0] == {
        "type": "function",
        "function": {
            "name": "add_numbers",
            "description": "Add two numbers.",
            "parameters": schemas["add.numbers"],
        },
    }
    assert [each["function"]["name"] for each in functions] == ["add_numbers", "refuse", "long"]


async def test_answers_have_the_order_of_the_calls(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("slow")
    running: list[str] = []

    @server.tool
    async def wait(seconds: int) -> str:
        running.append("begun")
        await trio.sleep(seconds)
        running.append(f"{seconds} over")
        return f"waited {seconds}"

    async with open_client(server) as client:
        toolkit = await load_toolkit(client)
        messages = await toolkit.answer(message(call("wait", {"seconds": 3}, "b"), call("wait", {"seconds": 1}, "a")))

    assert messages == [
        {"role": "tool", "tool_call_id": "b", "content": "waited 3"},
        {"role": "tool", "tool_call_id": "a", "content": "waited 1"},
    ]
    assert running == ["begun", "begun", "1 over", "3 over"]


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (call("refuse"), "Error: not today"),
        (call("add_numbers", '{"a": 1'), "Error: the arguments are not JSON: "),
        (call("add_numbers", "[1]"), "Error: the arguments are not a JSON object"),
        (call("add_numbers", '{"a": "\\ud800"}'), "Error: the arguments are not JSON: "),
        (call("add_numbers", {"a": "one"}), "Error: "),
        (call("sub"), "Error: there is no function 'sub'"),
        ({"id": "1", "function": {"name": ["add"]}}, "Error: there is no function ['add']"),
        (
            {"id": "1", "function": {"name": "add_numbers", "arguments": 7}},
            "Error: the arguments are not a JSON object",
        ),
        ({"id": "1", "type": "custom", "custom": {"name": "add_numbers"}}, "Error: there is no function None"),
        ({}, "Error: there is no function None"),
    ],
)
async def test_an_invalid_call_is_answered_with_an_error_and_does_not_affect_others(
    wrong: dict[str, Any], answer: str, autojump_clock: trio.testing.MockClock
) -> None:
    right = call("add_numbers", {"a": 1})

    async with open_client(make_server()) as client:
        first, middle, last = await answers(await load_toolkit(client), right, wrong, right)

    assert (first, last) == ("2", "2")
    assert middle.startswith(answer)


async def test_arguments_may_be_omitted_or_be_an_object(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("greeter")

    @server.tool
    async def greet(name: str = "you") -> str:
        return f"hello {name}"

    function: dict[str, Any] = {"name": "greet"}
    async with open_client(server) as client:
        contents = await answers(
            await load_toolkit(client),
            {"id": "1", "function": function},
            {"id": "2", "function": function | {"arguments": ""}},
            {"id": "3", "function": function | {"arguments": " \n"}},
            {"id": "4", "function": function | {"arguments": {"name": "Ada"}}},
        )

    assert contents == ["hello you", "hello you", "hello you", "hello Ada"]


async def test_a_message_without_calls_needs_no_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_client(make_server()) as client:
        toolkit = await load_toolkit(client)
        assert await toolkit.answer({"role": "assistant", "content": "done"}) == []
        assert await toolkit.answer({"role": "assistant", "content": "done", "tool_calls": None}) == []


@pytest.mark.parametrize("calls", [{"id": "1"}, ["add"], [call("add"), None]])
async def test_tool_calls_that_are_not_a_list_of_objects_are_refused(
    calls: object, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(ValueError, match="'tool_calls' must be a list of objects"):
            await (await load_toolkit(client)).answer({"tool_calls": calls})


async def test_a_long_message_is_truncated_with_a_note(autojump_clock: trio.testing.MockClock) -> None:
    calls = [call("long", {"length": 10}), call("long", {"length": 13})]

    async with open_client(make_server()) as client:
        contents = await answers(await load_toolkit(client), *calls, max_characters=10)

    assert contents == ["x" * 10, "x" * 10 + "\n[3 more characters are left out here]"]


async def test_calls_run_only_with_consent_and_a_refusal_is_answered_with_its_reason(
    autojump_clock: trio.testing.MockClock,
) -> None:
    approvals: list[ToolCall] = []
    verdicts: list[Any] = [True, False, "ask me tomorrow", "", None, 1]

    async def approve(call: ToolCall) -> bool | str:
        approvals.append(call)
        await trio.sleep(1)
        verdict: bool | str = verdicts[len(approvals) - 1]
        return verdict

    calls = [call("add_numbers", {"a": number}, f"{number}") for number in range(6)]
    async with open_client(make_server()) as client:
        contents = await answers(await load_toolkit(client), *calls, approve=approve)

    refused = "Error: the user has refused this call"
    assert contents == ["1", refused, f"{refused}: ask me tomorrow", refused, refused, refused]
    assert [each.id for each in approvals] == ["0", "1", "2", "3", "4", "5"]
    first = approvals[0]
    assert (first.function, first.server, first.tool.name) == ("add_numbers", None, "add.numbers")
    assert first.arguments == {"a": 0}


async def test_consent_is_not_requested_for_an_invalid_call(autojump_clock: trio.testing.MockClock) -> None:
    async def approve(call: ToolCall) -> bool:
        pytest.fail(f"consent was requested for {call}")

    async with open_client(make_server()) as client:
        contents = await answers(await load_toolkit(client), call("sub"), call("refuse", "{"), approve=approve)

    assert len(contents) == 2


async def test_an_exception_of_approve_is_raised_and_no_call_is_made(autojump_clock: trio.testing.MockClock) -> None:
    server, calls = Server("counting"), list[int]()

    @server.tool
    async def count(number: int) -> None:
        calls.append(number)

    async def approve(call: ToolCall) -> bool:
        if call.arguments["number"] == 2:
            raise ZeroDivisionError
        return True

    async with open_client(server) as client:
        toolkit = await load_toolkit(client)
        with pytest.raises(ZeroDivisionError):
            await answers(toolkit, call("count", {"number": 1}), call("count", {"number": 2}), approve=approve)

    assert calls == []


async def test_cancelling_the_answer_cancels_the_calls(autojump_clock: trio.testing.MockClock) -> None:
    server, cancelled = Server("hanging"), trio.Event()

    @server.tool
    async def hang(ctx: Context) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with open_client(server) as client:
        toolkit = await load_toolkit(client)
        with trio.move_on_after(1) as scope:
            await answers(toolkit, call("hang"))
        assert scope.cancelled_caught
        await cancelled.wait()


async def test_an_exit_in_a_callback_is_raised_unchanged(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context) -> None:
        await ctx.list_roots()

    async def roots() -> list[types.Root]:
        await trio.lowlevel.checkpoint()
        raise SystemExit(3)

    async with open_client(server, roots=roots, revision="2026-07-28") as client:
        with pytest.raises(SystemExit, match="3"):
            await (await load_toolkit(client)).answer(message(call("ask"), call("ask")))


async def test_a_closed_connection_is_reported_to_the_model(autojump_clock: trio.testing.MockClock) -> None:
    async with open_client(make_server()) as client:
        toolkit = await load_toolkit(client)
        await client.aclose()
        (content,) = await answers(toolkit, call("refuse"))

    assert content.startswith("Error: ")
    assert "closed" in content


class BrokenSource:
    """A source of tools whose calls raise an unexpected exception."""

    async def tools(self) -> AsyncIterator[types.Tool]:
        for description in ("the first", "the second"):
            yield types.Tool(name="odd", description=description, input_schema={"type": "object"})

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> types.CallToolResult:
        raise ZeroDivisionError("with a secret")


async def test_an_unexpected_failure_is_logged_and_reported_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    toolkit = await load_toolkit(BrokenSource())

    assert await answers(toolkit, call("odd")) == ["Error: the call failed (ZeroDivisionError)"]
    (record,) = caplog.records
    assert (record.name, record.levelno, record.message) == (
        "trio_mcp.llm",
        logging.WARNING,
        "the call of 'odd' failed",
    )
    assert record.exc_info is not None


@pytest.mark.parametrize(("error", "answer"), [(KeyError(), "there is no such tool"), (KeyError("gone", 1), "gone 1")])
async def test_a_tool_that_its_source_no_longer_has_is_reported_to_the_model(error: KeyError, answer: str) -> None:
    class SourceWithoutTool(BrokenSource):
        async def call_tool(
            self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
        ) -> types.CallToolResult:
            raise error

    assert await answers(await load_toolkit(SourceWithoutTool()), call("odd")) == [f"Error: {answer}"]


async def test_the_first_of_two_tools_with_the_same_name_is_used() -> None:
    (function,) = (await load_toolkit(BrokenSource())).functions

    assert function["function"]["description"] == "the first"


async def test_each_tool_of_many_servers_is_called_at_its_server() -> None:
    approvals: list[tuple[str | None, str]] = []

    async def approve(call: ToolCall) -> bool:
        approvals.append((call.server, call.tool.name))
        return True

    def entry(*arguments: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": [PROGRAM, *arguments]}

    servers = {"a": entry("A", "add", "crash"), "b b": entry("B", "add", "mul.all", "pid")}
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": servers}) as clients:
            toolkit = await load_toolkit(clients)
            names = [each["function"]["name"] for each in toolkit.functions]
            contents = await answers(toolkit, call("a__add"), call("b_b__add"), call("mul_all"), approve=approve)
            crashed, fine = await answers(toolkit, call("crash"), call("mul_all"))
            [_ async for _ in clients.tools()]
            (vanished,) = await answers(toolkit, call("crash"))

    assert names == ["a__add", "crash", "b_b__add", "mul_all", "pid"]
    assert contents == ["A add", "B add", "B mul.all"]
    assert approvals == [("a", "add"), ("b b", "add"), ("b b", "mul.all")]
    assert crashed == "Error: the server process exited with status 3"
    assert fine == "B mul.all"
    assert vanished == "Error: no server has a tool 'crash'"


async def test_progress_of_each_call_arrives_with_the_call_and_before_its_result() -> None:
    server, seen = Server("slow"), list[tuple[str, float]]()

    @server.tool
    async def count(to: int, ctx: Context) -> int:
        for done in range(to):
            await ctx.report_progress(done + 1, to)
        return to

    async def on_progress(made: ToolCall, update: types.ProgressNotificationParams) -> None:
        seen.append((made.id, update.progress))

    async with open_client(server) as client:
        toolkit = await load_toolkit(client)
        said = await answers(
            toolkit, call("count", {"to": 2}, "a"), call("count", {"to": 1}, "b"), on_progress=on_progress
        )

    assert said == ["2", "1"]
    assert [progress for id, progress in seen if id == "a"][-1] == 2
    assert ("b", 1) in seen


async def test_a_failing_progress_callback_is_logged_and_the_call_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("slow")

    @server.tool
    async def count(ctx: Context) -> int:
        await ctx.report_progress(1)
        return 1

    async def on_progress(_: ToolCall, __: types.ProgressNotificationParams) -> None:
        raise ZeroDivisionError

    async with open_client(server) as client:
        assert await answers(await load_toolkit(client), call("count"), on_progress=on_progress) == ["1"]

    assert [record.message for record in caplog.records] == ["on_progress failed"]


async def test_a_call_that_takes_too_long_is_cancelled_and_the_model_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, ended = Server("slow"), list[float]()

    @server.tool
    async def wait(seconds: int) -> str:
        try:
            await trio.sleep(seconds)
        finally:
            ended.append(trio.current_time())
        return f"waited {seconds}"

    def seconds_of(made: ToolCall) -> float | None:
        return 0.5 if made.arguments["seconds"] == 1 else None

    async with open_client(server) as client:
        toolkit, began = await load_toolkit(client), trio.current_time()
        calls = call("wait", {"seconds": 1}), call("wait", {"seconds": 100})
        same_for_all = await answers(toolkit, *calls, timeout=2.5)
        by_call = await answers(toolkit, *calls, timeout=seconds_of)

    assert same_for_all == ["waited 1", "Error: the call took longer than 2.5 s, and was cancelled"]
    assert by_call == ["Error: the call took longer than 0.5 s, and was cancelled", "waited 100"]
    assert [at - began for at in ended] == pytest.approx([1, 2.5, 3, 102.5])


def adds(offer: OfferedTool) -> bool:
    return offer.server is None and offer.tool.description == "Add two numbers."


CHOICES: list[tuple[Any, list[str]]] = [
    (None, ["add_numbers", "refuse", "long"]),
    (["refuse", "add.*"], ["add_numbers", "refuse"]),
    ((), []),
    (adds, ["add_numbers"]),
]


@pytest.mark.parametrize(("only", "names"), CHOICES)
async def test_only_the_wanted_tools_are_offered_and_can_be_called(only: Any, names: list[str]) -> None:
    async with open_client(make_server()) as client:
        toolkit = await load_toolkit(client, only=only)
        refused = await answers(toolkit, call("long", {"length": 1}))

    assert [each["function"]["name"] for each in toolkit.functions] == names
    assert refused == (["x"] if "long" in names else ["Error: there is no function 'long'"])


async def test_the_wanted_tools_may_be_named_by_server() -> None:
    table = {name: {"command": sys.executable, "args": [PROGRAM, name, "greet", "pid"]} for name in ("a", "b", "c")}
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": table}) as clients:
            toolkit = await load_toolkit(clients, only={"a": ["gr*"], "b": ["pid", "greet"]})
            said = await answers(toolkit, call("b__greet"))

    assert [each["function"]["name"] for each in toolkit.functions] == ["a__greet", "b__greet", "b__pid"]
    assert said == ["b greet"]


@pytest.mark.parametrize(
    ("only", "error", "message"),
    [
        ("add.*", TypeError, "only='add.*': expected a list of names"),
        ({"sums": ["add.*"]}, ValueError, "only= names the tools by server, but there is only one server"),
    ],
)
async def test_a_choice_that_cannot_be_meant_is_refused(only: Any, error: type[Exception], message: str) -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(error, match=message):
            await load_toolkit(client, only=only)
