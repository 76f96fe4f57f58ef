"""Tests of the everything server without HTTP: the scenarios find what they need in every revision."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.conformance.everything_asking import ASKING_TOOLS
from tests.conformance.everything_server import JSON_SCHEMA_2020_12, Asking, make_server
from trio_mcp import ClientOptions, ErrorResponse, types
from trio_mcp.testing import open_memory_client

MODERN = "2026-07-28"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": {"contactMethod": "phone", "phone": "1"},
    "confirm_delete": {"filename": "notes.txt"},
    "greet": {"name": "Ada"},
    "slow_compute": {"seconds": 1},
    "test_elicitation": {"message": "Who are you?"},
    "test_sampling": {"prompt": "Hello"},
}
TASKS = ("failing_job", "protocol_error_job", "confirm_delete", "multi_input")
"""Tools that run only as tasks; the first two fail."""
FULL_FORMS = ("test_elicitation_sep1330_enums",)
"""Tools with forms that 2025-06-18 lacks."""

ways = pytest.mark.parametrize(
    ("revision", "asking"),
    [("2025-06-18", "parked"), ("2025-11-25", "parked"), (MODERN, "parked"), (MODERN, "replayed")],
)


async def fill_in(request: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
    """Answer a form as the suite does: with a value of the right type for each member."""
    await trio.lowlevel.checkpoint()
    assert isinstance(request, types.ElicitRequestFormParams)
    schema: Any = types.unstructure(request)["requestedSchema"]
    return types.ElicitResult(action="accept", content={name: _value(of) for name, of in schema["properties"].items()})


def _value(schema: dict[str, Any]) -> Any:
    if schema["type"] == "array":
        return [_value({"type": "string", **schema["items"]})]
    options = schema.get("enum") or [each["const"] for each in schema.get("oneOf", schema.get("anyOf", ()))]
    return options[0] if options else {"string": "x", "integer": 1, "number": 1.5, "boolean": True}[schema["type"]]


async def answer_sampling(_: object) -> types.CreateMessageResult:
    await trio.lowlevel.checkpoint()
    return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="Paris"))


def capable(revision: str) -> ClientOptions:
    return {
        "revision": revision,
        "tasks": True,
        "on_elicit": fill_in,
        "on_sample": answer_sampling,
        "roots": [types.Root(uri="file:///home")],
    }


@ways
async def test_every_tool_has_a_description_and_works(revision: str, asking: Asking, autojump_clock: MockClock) -> None:
    failed: list[str] = []

    async def works(name: str) -> bool:
        try:
            return not (await client.call_tool(name, ARGUMENTS.get(name))).is_error
        except ErrorResponse:
            return False

    async with open_memory_client(make_server(asking), **capable(revision)) as client:
        tools = [tool async for tool in client.tools()]
        for tool in tools:
            assert tool.description, tool.name
            assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool.name)
            if not await works(tool.name):
                failed.append(tool.name)

    assert tools[0].name == "test_simple_text"
    lacking = FULL_FORMS if revision == "2025-06-18" else ()
    assert failed == ["test_error_handling", *lacking, *(TASKS[:2] if revision == MODERN else TASKS)]


@ways
async def test_resources_prompts_and_completions_work(revision: str, asking: Asking, autojump_clock: MockClock) -> None:
    async with open_memory_client(make_server(asking), **capable(revision)) as client:
        async for resource in client.resources():
            (contents,) = (await client.read_resource(resource.uri)).contents
            assert contents.mime_type
        (template,) = (await client.read_resource("test://template/123/data")).contents
        assert isinstance(template, types.TextResourceContents)
        assert json.loads(template.text)["id"] == "123"
        with pytest.raises(ErrorResponse) as caught:
            await client.read_resource("test://nonexistent")
        assert caught.value.data == {"uri": "test://nonexistent"}
        async for prompt in client.prompts():
            arguments = {each.name: "test://value" for each in prompt.arguments or ()}
            assert prompt.description
            assert (await client.get_prompt(prompt.name, arguments)).messages
        completion = await client.complete(types.PromptReference(name="test_prompt_with_arguments"), "arg1", "test")
        assert completion.values == ["test", "testing"]


async def test_the_2020_12_schema_is_published_unchanged() -> None:
    async with open_memory_client(make_server(), revision=MODERN) as client:
        tools = {tool.name: tool async for tool in client.tools()}

    assert types.unstructure(tools["json_schema_2020_12_tool"])["inputSchema"] == json.loads(JSON_SCHEMA_2020_12)
    region: Any = tools["test_x_mcp_header"].input_schema["properties"]
    assert region["region"]["x-mcp-header"] == "Region"


@pytest.mark.parametrize("asking", ["parked", "replayed"])
async def test_questions_have_the_keys_that_the_suite_expects(asking: Asking) -> None:
    keys = {
        "elicitation": ["user_name"],
        "sampling": ["capital_question"],
        "list_roots": ["client_roots"],
        "request_state": ["confirm"],
        "multiple_inputs": ["user_name", "greeting", "client_roots"],
        "multi_round": ["step1"],
        "tampered_state": ["confirm"],
        "capabilities": ["user_name", "greeting", "client_roots"],
    }
    found: dict[str, list[str]] = {}
    async with open_memory_client(make_server(asking), **capable(MODERN)) as client:
        for name in keys:
            async with client.open_call(f"test_input_required_result_{name}", manual_input=True) as call:
                outcome = await call.result()
            assert isinstance(outcome, types.InputRequiredResult)
            found[name] = [*(outcome.input_requests or {})]

    assert found == keys
    assert len(ASKING_TOOLS) == 6 + len(keys)


async def test_the_server_asks_only_for_declared_capabilities() -> None:
    async with open_memory_client(make_server(), revision=MODERN, on_sample=answer_sampling) as client:
        async with client.open_call("test_input_required_result_capabilities", manual_input=True) as call:
            outcome = await call.result()
        assert isinstance(outcome, types.InputRequiredResult)
        (question,) = (outcome.input_requests or {}).values()
        assert question.method == "sampling/createMessage"

    async with open_memory_client(make_server(), revision=MODERN) as client:
        with pytest.raises(ErrorResponse) as caught:
            await client.call_tool("test_missing_capability")
        assert caught.value.code == -32021
        assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
