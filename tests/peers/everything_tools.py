"""One function for each tool of server-everything: it calls the tool with our client and checks the result."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio
from attrs import define, field

from trio_mcp import Client, ResourceUpdated, types

MARK = "the child's own"
"""The value of the environment variable MARK in the server's process."""


@define(eq=False)
class Host:
    """The application's callbacks, with a record of the server's questions."""

    roots: list[types.Root] = field(factory=list[types.Root])
    sampled: list[types.CreateMessageRequestParams] = field(factory=list[types.CreateMessageRequestParams])
    logged: list[types.LoggingMessageNotificationParams] = field(factory=list[types.LoggingMessageNotificationParams])
    _news: trio.Event = field(factory=trio.Event)

    async def list_roots(self) -> list[types.Root]:
        await trio.lowlevel.checkpoint()
        return self.roots

    async def on_sample(self, request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        self.sampled.append(request)
        content = types.TextContent(text="a sonnet about nurseries")
        return types.CreateMessageResult(role="assistant", content=content, model="a model of ours")

    async def on_elicit(
        self, request: types.ElicitRequestFormParams | types.ElicitRequestURLParams
    ) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        if "could have multiple interpretations" in request.message:
            return types.ElicitResult(action="accept", content={"interpretation": "snake"})
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True, "integer": 7})

    async def on_log(self, message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        self.logged.append(message)
        self._news.set()
        self._news = trio.Event()

    async def hears(self, words: str) -> None:
        """Wait for a log message with these words."""
        while not any(words in str(message.data) for message in self.logged):
            await self._news.wait()


Use: TypeAlias = Callable[[Client, Host], Awaitable[None]]
USES: dict[str, Use] = {}
"""The functions by the name of the tool."""


def uses(tool: str) -> Callable[[Use], Use]:
    def register(use: Use) -> Use:
        USES[tool] = use
        return use

    return register


async def content_of(client: Client, tool: str, **arguments: Any) -> list[Any]:
    result = await client.call_tool(tool, arguments, raise_on_error=True)
    return list(result.content)


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a tool's result, its blocks joined by newlines."""
    return "\n".join(
        block.text for block in await content_of(client, tool, **arguments) if isinstance(block, types.TextContent)
    )


@uses("echo")
async def echo(client: Client, host: Host) -> None:
    assert await text_of(client, "echo", message="grüß\n\u2028 dich 🐍") == "Echo: grüß\n\u2028 dich 🐍"


@uses("get-annotated-message")
async def get_annotated_message(client: Client, host: Host) -> None:
    expected: dict[str, tuple[float, list[types.Role]]] = {
        "error": (1.0, ["user", "assistant"]),
        "success": (0.7, ["user"]),
        "debug": (0.3, ["assistant"]),
    }
    for kind, (priority, audience) in expected.items():
        words, picture = await content_of(client, "get-annotated-message", messageType=kind, includeImage=True)
        assert words.annotations == types.Annotations(priority=priority, audience=audience)
        assert picture.annotations == types.Annotations(priority=0.5, audience=["user"])
        assert base64.b64decode(picture.data).startswith(b"\x89PNG")


@uses("get-env")
async def get_env(client: Client, host: Host) -> None:
    assert json.loads(await text_of(client, "get-env"))["MARK"] == MARK


@uses("get-resource-links")
async def get_resource_links(client: Client, host: Host) -> None:
    _, *links = await content_of(client, "get-resource-links", count=4)
    assert [type(link) for link in links] == [types.ResourceLink] * 4
    for number, link in enumerate(links, start=1):
        (contents,) = (await client.read_resource(link.uri)).contents
        assert (contents.uri, contents.mime_type) == (link.uri, link.mime_type)
        assert f"Resource {number}:" in words_of(contents)


@uses("get-resource-reference")
async def get_resource_reference(client: Client, host: Host) -> None:
    for kind in ("Text", "Blob"):
        _, embedded, _ = await content_of(client, "get-resource-reference", resourceType=kind, resourceId=3)
        assert isinstance(embedded, types.EmbeddedResource)
        assert embedded.resource.uri == f"demo://resource/dynamic/{kind.lower()}/3"
        assert "Resource 3:" in words_of(embedded.resource)


def words_of(contents: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(contents, types.TextResourceContents):
        return contents.text
    return base64.b64decode(contents.blob).decode()


@uses("get-roots-list")
async def get_roots_list(client: Client, host: Host) -> None:
    host.roots = [types.Root(uri="file:///srv/data", name="data"), types.Root(uri="file:///srv/more")]
    await client.roots_changed()
    await host.hears("Roots updated: 2 root(s)")
    listing = await text_of(client, "get-roots-list")
    assert "Current MCP Roots (2 total)" in listing
    assert "data\n   URI: file:///srv/data" in listing
    assert "URI: file:///srv/more" in listing


@uses("get-structured-content")
async def get_structured_content(client: Client, host: Host) -> None:
    for location, temperature in (("New York", 33), ("Chicago", 36), ("Los Angeles", 73)):
        weather = await client.call_tool("get-structured-content", {"location": location})
        (block,) = weather.content
        assert isinstance(block, types.TextContent)
        assert json.loads(block.text) == weather.structured_content
        assert json.loads(block.text)["temperature"] == temperature


@uses("get-sum")
async def get_sum(client: Client, host: Host) -> None:
    assert await text_of(client, "get-sum", a=1, b=2) == "The sum of 1 and 2 is 3."
    assert (await client.call_tool("get-sum", {"a": "one", "b": 2})).is_error


@uses("get-tiny-image")
async def get_tiny_image(client: Client, host: Host) -> None:
    before, picture, after = await content_of(client, "get-tiny-image")
    assert [type(before), type(after)] == [types.TextContent] * 2
    assert isinstance(picture, types.ImageContent)
    assert picture.mime_type == "image/png"
    assert base64.b64decode(picture.data).startswith(b"\x89PNG")


@uses("gzip-file-as-resource")
async def gzip_file_as_resource(client: Client, host: Host) -> None:
    data = "data:text/plain;base64," + base64.b64encode(b"so much text " * 100).decode()
    async with client.listen(resource_list=True) as changes:
        file = {"name": f"much-{client.revision}.gz", "data": data}  # a name that a shared server does not have yet
        (link,) = await content_of(client, "gzip-file-as-resource", **file, outputType="resourceLink")
        assert isinstance(link, types.ResourceLink)
        await anext(aiter(changes))
    assert link.uri in {resource.uri async for resource in client.resources()}
    (contents,) = (await client.read_resource(link.uri)).contents
    (embedded,) = await content_of(client, "gzip-file-as-resource", **file, outputType="resource")
    for resource in (contents, embedded.resource):
        assert isinstance(resource, types.BlobResourceContents)
        assert resource.mime_type == "application/gzip"
        assert gzip.decompress(base64.b64decode(resource.blob)) == b"so much text " * 100


@uses("simulate-research-query")
async def simulate_research_query(client: Client, host: Host) -> None:
    async def begin(topic: str) -> str:
        params = {"name": "simulate-research-query", "arguments": {"topic": topic, "ambiguous": True}, "task": {}}
        return (await client.request("tools/call", params, types.CreateTaskResult)).task.task_id

    cancelled_id, task_id = await begin("java"), await begin("python")
    cancelled = await client.request("tasks/cancel", {"taskId": cancelled_id}, types.CancelTaskResult)
    assert cancelled.status == "cancelled"
    listed = await client.request("tasks/list", None, types.ListTasksResult)
    assert {task.task_id for task in listed.tasks} == {cancelled_id, task_id}
    working = await client.request("tasks/get", {"taskId": task_id}, types.GetTaskResult)
    assert working.status == "working"
    # The result waits until the task is done; meanwhile the server asks which python is meant.
    result = await client.request("tasks/result", {"taskId": task_id}, types.CallToolResult)
    (report,) = result.content
    assert isinstance(report, types.TextContent)
    assert "Research Report: python (snake)" in report.text
    done = await client.request("tasks/get", {"taskId": task_id}, types.GetTaskResult)
    assert done.status == "completed"


@uses("toggle-simulated-logging")
async def toggle_simulated_logging(client: Client, host: Host) -> None:
    assert "Started" in await text_of(client, "toggle-simulated-logging")
    await host.hears("level")  # one of any level: "Debug-level message" or "Alert level-message"
    assert "Stopped" in await text_of(client, "toggle-simulated-logging")


@uses("toggle-subscriber-updates")
async def toggle_subscriber_updates(client: Client, host: Host) -> None:
    uri = "demo://resource/dynamic/text/8"
    async with client.listen(resources=[uri]) as changes:
        assert "Started" in await text_of(client, "toggle-subscriber-updates")
        change = await anext(aiter(changes))
        assert "Stopped" in await text_of(client, "toggle-subscriber-updates")
    assert change == ResourceUpdated(uri=uri)


@uses("trigger-elicitation-request")
async def trigger_elicitation_request(client: Client, host: Host) -> None:
    answer = await text_of(client, "trigger-elicitation-request")
    assert "- Name: Ada" in answer
    assert "- Agreed to terms: true" in answer
    assert "- Favorite Integer: 7" in answer


@uses("trigger-long-running-operation")
async def trigger_long_running_operation(client: Client, host: Host) -> None:
    async with client.open_call("trigger-long-running-operation", {"duration": 0.5, "steps": 5}) as call:
        reports = [(update.progress, update.total) async for update in call.updates]
        result = await call.result(raise_on_error=True)
    assert reports == [(step, 5) for step in range(1, 6)]
    done = "Long running operation completed. Duration: 0.5 seconds, Steps: 5."
    assert result.content == [types.TextContent(text=done)]


@uses("trigger-sampling-request")
async def trigger_sampling_request(client: Client, host: Host) -> None:
    answer = await text_of(client, "trigger-sampling-request", prompt="Write a sonnet.", maxTokens=50)
    assert "a sonnet about nurseries" in answer
    assert "a model of ours" in answer
    (request,) = host.sampled
    assert (request.max_tokens, request.temperature) == (50, 0.7)
    assert request.system_prompt == "You are a helpful test server."
    (message,) = request.messages
    assert isinstance(message.content, types.TextContent)
    assert "Write a sonnet." in message.content.text
