"""Our client with npm's reference server over each transport; that server has every feature and asks the client back.

The tests use every feature of the server, and one fails when a release of the server offers more. They also name the
features that the server offers only to clients with capabilities that ours does not declare.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Unpack

import pytest
import trio

from tests.peers.conftest import TIMEOUT
from tests.peers.everything_tools import MARK, USES, Host, text_of, words_of
from trio_mcp import Client, ClientOptions, ErrorResponse, ResourceUpdated, open_client, types

ONLY_TO_CALLBACKS = {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"}
"""Tools that the server offers only to clients with callbacks."""

DOCUMENTS = ["architecture", "extension", "features", "how-it-works", "instructions", "startup", "structure"]
TEXT, BLOB = (f"demo://resource/dynamic/{kind}/{{resourceId}}" for kind in ("text", "blob"))


@asynccontextmanager
async def conversation(target: str | list[str], **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Open a client; a timeout bounds the block."""
    server = target if isinstance(target, str) else {"command": target[0], "args": target[1:], "env": {"MARK": MARK}}
    with trio.fail_after(TIMEOUT):
        async with open_client(server, **options) as client:
            yield client


def asking(host: Host) -> ClientOptions:
    """Return the options of a client that answers every question of the server."""
    return {
        "on_sample": host.on_sample,
        "on_elicit": host.on_elicit,
        "roots": host.list_roots,
        "on_log": host.on_log,
    }


async def test_every_tool_of_the_server_works_with_all_calls_at_once(everything: str | list[str]) -> None:
    host = Host()

    async with conversation(everything, **asking(host)) as client:
        offered = {tool.name async for tool in client.tools()}
        async with trio.open_nursery() as nursery:
            for use in USES.values():
                nursery.start_soon(use, client, host)

    assert client.revision == "2025-11-25"
    assert offered == set(USES)


async def test_tools_come_with_titles_hints_and_schemas(everything: str | list[str]) -> None:
    async with conversation(everything, **asking(Host())) as client:
        tools = {tool.name: tool async for tool in client.tools()}

    assert all(tool.title and tool.description and tool.annotations for tool in tools.values())
    assert tools["echo"].title == "Echo Tool"
    assert tools["echo"].annotations == types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    assert tools["get-sum"].input_schema["properties"]["a"] == {"type": "number", "description": "First number"}
    assert [name for name, tool in tools.items() if tool.output_schema is not None] == ["get-structured-content"]
    supports = {name: tool.execution and tool.execution.task_support for name, tool in tools.items()}
    assert [name for name, support in supports.items() if support == "required"] == ["simulate-research-query"]


async def test_tools_that_ask_are_offered_only_to_a_client_with_callbacks(everything: str | list[str]) -> None:
    async with conversation(everything) as client:
        offered = {tool.name async for tool in client.tools()}

    assert offered == set(USES) - ONLY_TO_CALLBACKS


async def test_every_listed_resource_can_be_read(everything: str | list[str]) -> None:
    async with conversation(everything) as client:
        resources = [resource async for resource in client.resources()]
        read = [(await client.read_resource(resource.uri)).contents for resource in resources]

    uris = [f"demo://resource/static/document/{name}.md" for name in DOCUMENTS]
    assert [resource.uri for resource in resources] == uris
    for resource, (contents,) in zip(resources, read, strict=True):
        assert isinstance(contents, types.TextResourceContents)
        assert (contents.uri, contents.mime_type) == (resource.uri, resource.mime_type)
        assert contents.text.startswith("# ")


async def test_every_listed_template_can_be_expanded_and_completed(everything: str | list[str]) -> None:
    async with conversation(everything) as client:
        templates = [template.uri_template async for template in client.resource_templates()]
        (text,) = (await client.read_resource(TEXT.replace("{resourceId}", "7"))).contents
        (blob,) = (await client.read_resource(BLOB.replace("{resourceId}", "7"))).contents
        suggested = [
            (await client.complete(types.ResourceTemplateReference(uri=template), "resourceId", typed)).values
            for template in templates
            for typed in ("7", "seven")
        ]
        with pytest.raises(ErrorResponse, match="Unknown resource"):
            await client.read_resource(TEXT.replace("{resourceId}", "seven"))
        with pytest.raises(ErrorResponse) as missing:
            await client.read_resource("demo://resource/nowhere")

    assert templates == [TEXT, BLOB]
    assert isinstance(text, types.TextResourceContents)
    assert isinstance(blob, types.BlobResourceContents)
    assert "Resource 7: This is a plaintext resource" in text.text
    assert b"Resource 7: This is a base64 blob" in base64.b64decode(blob.blob)
    assert suggested == [["7"], [], ["7"], []]
    assert missing.value.code == -32602


async def test_every_listed_prompt_can_be_rendered(everything: str | list[str]) -> None:
    arguments: dict[str, dict[str, str] | None] = {
        "simple-prompt": None,
        "args-prompt": {"city": "Rome", "state": "Lazio"},
        "completable-prompt": {"department": "Sales", "name": "Eve"},
        "resource-prompt": {"resourceType": "Blob", "resourceId": "5"},
    }

    async with conversation(everything) as client:
        prompts = {prompt.name: prompt async for prompt in client.prompts()}
        messages = {name: (await client.get_prompt(name, arguments[name])).messages for name in prompts}
        with pytest.raises(ErrorResponse) as incomplete:
            await client.get_prompt("args-prompt", {"state": "Lazio"})

    taken = {name: [(each.name, each.required) for each in prompt.arguments or ()] for name, prompt in prompts.items()}
    assert taken == {
        "simple-prompt": [],
        "args-prompt": [("city", True), ("state", False)],
        "completable-prompt": [("department", True), ("name", True)],
        "resource-prompt": [("resourceType", True), ("resourceId", True)],
    }
    embedded = messages["resource-prompt"][1].content
    assert isinstance(embedded, types.EmbeddedResource)
    assert "Resource 5: This is a base64 blob" in words_of(embedded.resource)
    assert {name: first.content for name, (first, *_) in messages.items()} == {
        "simple-prompt": types.TextContent(text="This is a simple prompt without arguments."),
        "args-prompt": types.TextContent(text="What's weather in Rome, Lazio?"),
        "completable-prompt": types.TextContent(text="Please promote Eve to the head of the Sales team."),
        "resource-prompt": types.TextContent(
            text="This prompt includes the Blob resource with id: 5. Please analyze the following resource:"
        ),
    }
    assert incomplete.value.code == -32602


async def test_arguments_of_prompts_are_completed(everything: str | list[str]) -> None:
    team, resource = (types.PromptReference(name=f"{name}-prompt") for name in ("completable", "resource"))

    async with conversation(everything) as client:
        departments = await client.complete(team, "department", "")
        narrowed = await client.complete(team, "department", "S")
        names = [
            (await client.complete(team, "name", "", context={"department": department})).values
            for department in departments.values
        ]
        kinds = await client.complete(resource, "resourceType", "B")
        numbers = await client.complete(resource, "resourceId", "12")

    assert departments.values == ["Engineering", "Sales", "Marketing", "Support"]
    assert narrowed == types.Completion(values=["Sales", "Support"], total=2, has_more=False)
    assert names == [
        ["Alice", "Bob", "Charlie"],
        ["David", "Eve", "Frank"],
        ["Grace", "Henry", "Iris"],
        ["John", "Kim", "Lee"],
    ]
    assert (kinds.values, numbers.values) == (["Blob"], ["12"])


async def test_log_messages_arrive_at_the_configured_level_and_above(everything: str | list[str]) -> None:
    host, uris = Host(), [f"demo://resource/dynamic/text/{number}" for number in (1, 2, 3)]
    levels: tuple[types.LoggingLevel, ...] = ("info", "error", "debug")

    async with conversation(everything, on_log=host.on_log) as client:
        for level, uri in zip(levels, uris, strict=True):
            await client.set_log_level(level)
            await client.subscribe_resource(uri)  # it logs that, at the level "info"
        await host.hears(uris[2])

    messages = [str(message.data) for message in host.logged if "Subscribe" in str(message.data)]
    assert [uri in words for uri, words in zip((uris[0], uris[2]), messages, strict=True)] == [True, True]


async def test_a_listening_client_receives_updates_of_a_resource(everything: str | list[str]) -> None:
    subscribed, other = (f"demo://resource/dynamic/text/{number}" for number in (1, 2))

    async with conversation(everything) as client:
        async with client.listen(
            tools=True, prompts=True, resource_list=True, resources=[subscribed, other]
        ) as changes:
            honored = changes.honored
        async with client.listen(resources=[subscribed]) as changes:
            await text_of(client, "toggle-subscriber-updates")
            first = await anext(aiter(changes))

    assert (honored.tools, honored.prompts, honored.resource_list) == (True, True, True)
    assert set(honored.resources) == {subscribed, other}
    assert first == ResourceUpdated(uri=subscribed)


async def test_a_call_that_the_client_leaves_early_does_not_break_the_connection(everything: str | list[str]) -> None:
    async with conversation(everything) as client:
        async with client.open_call("trigger-long-running-operation", {"duration": 30, "steps": 300}) as call:
            async for _ in call.updates:
                break
        total = await text_of(client, "get-sum", a=20, b=22)
        held = client.statistics()

    assert total == "The sum of 20 and 22 is 42."
    assert (held.outgoing, held.update_bytes) == (0, 0)


@pytest.mark.parametrize(("action", "words"), [("decline", "User declined"), ("cancel", "User cancelled")])
async def test_the_user_can_decline_or_cancel_a_question(everything: str | list[str], action: str, words: str) -> None:
    async def refuse(_request: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.structure({"action": action}, types.ElicitResult)

    async with conversation(everything, on_elicit=refuse) as client:
        assert words in await text_of(client, "trigger-elicitation-request")


async def test_the_questions_of_the_server_arrive_unchanged(everything: str | list[str]) -> None:
    requests: list[types.ElicitRequestFormParams] = []

    async def ask(request: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        assert isinstance(request, types.ElicitRequestFormParams)
        requests.append(request)
        return types.ElicitResult(action="decline")

    async with conversation(everything, on_elicit=ask) as client:
        await text_of(client, "trigger-elicitation-request")

    (request,) = requests
    assert request.message == "Please provide inputs for the following fields:"
    kinds = {name: type(schema).__name__ for name, schema in request.requested_schema.properties.items()}
    assert kinds == {
        "name": "StringSchema",
        "check": "BooleanSchema",
        "firstLine": "StringSchema",
        "email": "StringSchema",
        "homepage": "StringSchema",
        "birthdate": "StringSchema",
        "integer": "NumberSchema",
        "number": "NumberSchema",
        "untitledSingleSelectEnum": "UntitledSingleSelectEnumSchema",
        "untitledMultipleSelectEnum": "UntitledMultiSelectEnumSchema",
        "titledSingleSelectEnum": "TitledSingleSelectEnumSchema",
        "titledMultipleSelectEnum": "TitledMultiSelectEnumSchema",
        "legacyTitledEnum": "LegacyTitledEnumSchema",
    }
