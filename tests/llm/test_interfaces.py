"""The JSON of the three interfaces: definitions of tools out, calls in, results back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trio_mcp import Server, ToolError, open_client
from trio_mcp.llm import Api, ToolCall, load_toolkit


def make_server() -> Server:
    server = Server("weather")

    @server.tool(name="forecast.city")
    async def forecast(city: str, days: int = 1) -> str:
        """The weather of the next days."""
        return f"{city}: {days} sunny"

    @server.tool(title="Fail")
    async def fail() -> str:
        raise ToolError("no station")

    return server


# Answers of models, with every member that their interfaces send.

MESSAGE: dict[str, Any] = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "a-model",
    "content": [
        {"type": "thinking", "thinking": "The user wants the weather.", "signature": "EqQBCgIYAhIM"},
        {"type": "text", "text": "Let me look."},
        {
            "type": "tool_use",
            "id": "toolu_01A09q90qw90lq917835lq9",
            "name": "forecast_city",
            "input": {"city": "Oslo", "days": 2},
        },
        {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "Oslo"}},
        {"type": "tool_use", "id": "toolu_02", "name": "fail", "input": {}},
        {"type": "tool_use", "id": "toolu_03", "name": "missing", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 472, "output_tokens": 89},
}
RESPONSE: dict[str, Any] = {
    "id": "resp_67ca09c5efe0819096d0511c92b8c890",
    "object": "response",
    "created_at": 1741294021,
    "status": "completed",
    "error": None,
    "output": [
        {"type": "reasoning", "id": "rs_67ca09c6bedc8190a7abfec07b1a1332", "summary": []},
        {
            "type": "function_call",
            "id": "fc_67ca09c6bedc8190a7abfec07b1a1332",
            "call_id": "call_unDCRyiGgVQ2NcJXpXyDTVAG",
            "name": "forecast_city",
            "arguments": '{"city":"Oslo","days":2}',
            "status": "completed",
        },
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "fail", "arguments": "{}"},
        {"type": "function_call", "id": "fc_3", "call_id": "call_3", "name": "forecast_city", "arguments": '{"city"'},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "A while"}],
        },
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
}
COMPLETION: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "refusal": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "forecast_city", "arguments": '{"city":"Oslo","days":2}'},
        },
        {"id": "call_2", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
    ],
}


APIS: list[Api] = ["chat-completions", "messages", "responses"]
WITHOUT_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("chat-completions", {"role": "assistant", "content": "Hello"}),
    ("messages", {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}),
    ("messages", {"role": "assistant", "content": "Hello"}),
    ("messages", {"role": "assistant"}),
    ("responses", {"output": [{"type": "message", "role": "assistant", "content": []}]}),
    ("responses", {"output": []}),
    ("responses", {}),
    ("chat-completions", {"tool_calls": {}}),
]


async def schemas_and_functions(**options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    async with open_client(make_server()) as client:
        schemas = {tool.name: tool.input_schema async for tool in client.tools()}
        return schemas, (await load_toolkit(client, **options)).functions


async def answer(message: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    async with open_client(make_server()) as client:
        return await (await load_toolkit(client, **options)).answer(message)


async def test_the_messages_api_gets_its_definitions() -> None:
    schemas, functions = await schemas_and_functions(api="messages")

    assert functions == [
        {
            "name": "forecast_city",
            "description": "The weather of the next days.",
            "input_schema": schemas["forecast.city"],
        },
        {"name": "fail", "description": "Fail", "input_schema": schemas["fail"]},
    ]


async def test_the_responses_api_gets_its_definitions_which_are_not_strict() -> None:
    schemas, functions = await schemas_and_functions(api="responses")

    assert functions[0] == {
        "type": "function",
        "name": "forecast_city",
        "description": "The weather of the next days.",
        "parameters": schemas["forecast.city"],
        "strict": False,
    }


async def test_a_tool_without_a_description_has_none_in_a_definition() -> None:
    server = Server("bare")
    server.tools.add(lambda: None, name="bare")
    async with open_client(server, revision="2025-03-26") as client:  # with a title, there would be a description
        for api in APIS:
            (function,) = (await load_toolkit(client, api=api)).functions
            assert "description" not in function.get("function", function)


async def test_the_calls_of_a_message_are_answered_by_one_message_of_the_user() -> None:
    assert await answer(MESSAGE, api="messages") == [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
                    "content": "Oslo: 2 sunny",
                },
                {"type": "tool_result", "tool_use_id": "toolu_02", "content": "Error: no station", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_03",
                    "content": "Error: there is no function 'missing'",
                    "is_error": True,
                },
            ],
        }
    ]


async def test_the_calls_of_a_response_are_answered_by_outputs() -> None:
    first, second, third = await answer(RESPONSE, api="responses")

    assert first == {
        "type": "function_call_output",
        "call_id": "call_unDCRyiGgVQ2NcJXpXyDTVAG",
        "output": "Oslo: 2 sunny",
    }
    assert second == {"type": "function_call_output", "call_id": "call_2", "output": "Error: no station"}
    assert (third["type"], third["call_id"]) == ("function_call_output", "call_3")
    assert third["output"].startswith("Error: the arguments are not JSON: ")


async def test_chat_completions_are_the_default() -> None:
    assert (
        await answer(COMPLETION)
        == await answer(COMPLETION, api="chat-completions")
        == [
            {"role": "tool", "tool_call_id": "call_1", "content": "Oslo: 2 sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "Error: no station"},
        ]
    )


@pytest.mark.parametrize(("api", "message"), WITHOUT_CALLS)
async def test_an_answer_without_calls_appends_nothing(api: str, message: dict[str, Any]) -> None:
    assert await answer(message, api=api) == []


OTHER_INTERFACES: list[tuple[str, dict[str, Any], str]] = [
    ("messages", {"content": "", "tool_calls": [{"id": "1", "function": {}}]}, "api='chat-completions'"),
    ("chat-completions", {"content": [{"type": "tool_use", "id": "1", "name": "a"}]}, "api='messages'"),
    ("messages", {"output": [{"type": "function_call", "call_id": "1", "name": "a"}]}, "api='responses'"),
    ("responses", {"tool_calls": "none", "content": [{"type": "tool_use", "id": "1"}]}, "api='messages'"),
    ("chat-completions", {"choices": [{"message": {}}]}, "response['choices'][0]['message']"),
]


@pytest.mark.parametrize(("api", "message", "cure"), OTHER_INTERFACES)
async def test_calls_of_another_interface_name_the_right_one(api: str, message: dict[str, Any], cure: str) -> None:
    with pytest.raises(ValueError, match=re.escape(cure)):
        await answer(message, api=api)


@pytest.mark.parametrize(
    ("api", "message", "member"),
    [
        ("chat-completions", {"tool_calls": {"id": "1"}}, "'tool_calls'"),
        ("messages", {"content": [1]}, "'content'"),
        ("messages", {"content": {"type": "tool_use"}}, "'content'"),
        ("responses", {"output": "text"}, "'output'"),
    ],
)
async def test_calls_that_are_not_a_list_of_objects_are_refused(api: str, message: dict[str, Any], member: str) -> None:
    with pytest.raises(ValueError, match=f"{member} must be a list of objects"):
        await answer(message, api=api)


async def test_the_arguments_of_every_interface_reach_the_user_who_approves() -> None:
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> str:
        seen.append(call)
        return "not now"

    async with open_client(make_server()) as client:
        await (await load_toolkit(client, api="messages")).answer(MESSAGE, approve=approve)
        await (await load_toolkit(client, api="responses")).answer(RESPONSE, approve=approve)

    assert [(call.id, call.arguments) for call in seen if call.tool.name == "forecast.city"] == [
        ("toolu_01A09q90qw90lq917835lq9", {"city": "Oslo", "days": 2}),
        ("call_unDCRyiGgVQ2NcJXpXyDTVAG", {"city": "Oslo", "days": 2}),
    ]


async def test_an_unknown_interface_is_refused() -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(ValueError, match="api='gpt': must be one of 'chat-completions', 'messages', 'responses'"):
            await load_toolkit(client, api="gpt")  # type: ignore[arg-type] # on purpose
