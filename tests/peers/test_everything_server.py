"""Our client with npm's reference server, which has something of everything and asks the client back."""

from __future__ import annotations

import trio

from trio_mcp import Client, open_client, types

PATIENCE = 60  # seconds for a whole conversation


async def text_of(client: Client, tool: str, **arguments: object) -> str:
    """The text that a tool answered with, its blocks joined by line ends."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_tools_answer_with_text_and_with_structure(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            tools = {tool.name: tool async for tool in client.tools()}
            total = await text_of(client, "get-sum", a=1, b=2)
            weather = await client.call_tool("get-structured-content", {"location": "New York"})

    assert client.revision == "2025-11-25"
    assert {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"} <= tools.keys()
    assert tools["get-structured-content"].output_schema is not None
    assert total == "The sum of 1 and 2 is 3."
    assert weather.structured_content == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}


async def test_bad_arguments_come_back_as_a_result_that_says_so(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            result = await client.call_tool("get-sum", {"a": "one", "b": 2})

    assert result.is_error


async def test_resources_are_listed_and_read(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            resources = {resource.uri: resource async for resource in client.resources()}
            templates = [template.uri_template async for template in client.resource_templates()]
            static = (await client.read_resource("demo://resource/static/document/features.md")).contents
            dynamic = (await client.read_resource("demo://resource/dynamic/text/1")).contents

    assert "demo://resource/static/document/features.md" in resources
    assert "demo://resource/dynamic/text/{resourceId}" in templates
    for contents in (*static, *dynamic):
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text


async def test_prompts_are_listed_and_filled_in(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            names = {prompt.name async for prompt in client.prompts()}
            prompt = await client.get_prompt("args-prompt", {"city": "Rome", "state": "Lazio"})

    assert {"simple-prompt", "args-prompt"} <= names
    (message,) = prompt.messages
    assert isinstance(message.content, types.TextContent)
    assert message.content.text == "What's weather in Rome, Lazio?"


async def test_progress_arrives_in_order_and_before_the_result(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            work = {"duration": 0.5, "steps": 5}
            async with client.open_call("trigger-long-running-operation", work) as call:
                reports = [(update.progress, update.total) async for update in call.updates]
                result = await call.result()

    assert reports == [(step, 5) for step in range(1, 6)]
    assert not result.is_error


async def test_a_call_left_early_leaves_the_connection_in_order(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            with trio.move_on_after(0.2) as scope:
                await client.call_tool("trigger-long-running-operation", {"duration": 3, "steps": 3})
            total = await text_of(client, "get-sum", a=20, b=22)

    assert scope.cancelled_caught
    assert total == "The sum of 20 and 22 is 42."


async def test_the_server_samples_from_our_callback(everything_server: list[str]) -> None:
    asked: list[types.CreateMessageRequestParams] = []

    async def sample(request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.append(request)
        content = types.TextContent(text="a sonnet about nurseries")
        return types.CreateMessageResult(role="assistant", content=content, model="a model of ours")

    with trio.fail_after(PATIENCE):
        async with open_client(everything_server, on_sample=sample) as client:
            answer = await text_of(client, "trigger-sampling-request", prompt="Write a sonnet.", maxTokens=50)

    (request,) = asked
    assert request.max_tokens == 50
    assert request.system_prompt == "You are a helpful test server."
    assert "a sonnet about nurseries" in answer
    assert "a model of ours" in answer


async def test_the_server_elicits_from_our_callback(everything_server: list[str]) -> None:
    asked: list[types.ElicitRequestParams] = []

    async def ask(request: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(request)
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True, "integer": 7})

    with trio.fail_after(PATIENCE):
        async with open_client(everything_server, on_elicit=ask) as client:
            answer = await text_of(client, "trigger-elicitation-request")

    assert [request.message for request in asked] == ["Please provide inputs for the following fields:"]
    assert "- Name: Ada" in answer
    assert "- Favorite Integer: 7" in answer


async def test_a_declined_question_is_an_answer_too(everything_server: list[str]) -> None:
    async def decline(_request: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    with trio.fail_after(PATIENCE):
        async with open_client(everything_server, on_elicit=decline) as client:
            answer = await text_of(client, "trigger-elicitation-request")

    assert "User declined" in answer


async def test_the_server_is_told_our_roots(everything_server: list[str]) -> None:
    roots = [types.Root(uri="file:///srv/data", name="data"), types.Root(uri="file:///srv/more")]

    with trio.fail_after(PATIENCE):
        async with open_client(everything_server, roots=roots) as client:
            answer = await text_of(client, "get-roots-list")

    assert "Current MCP Roots (2 total)" in answer
    assert "data\n   URI: file:///srv/data" in answer
    assert "URI: file:///srv/more" in answer


async def test_tools_that_ask_are_offered_only_to_a_client_with_callbacks(everything_server: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_client(everything_server) as client:
            offered = {tool.name async for tool in client.tools()}

    assert not offered & {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"}
