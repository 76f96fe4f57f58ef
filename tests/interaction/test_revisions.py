"""Messages and members of one revision never cross the wire in another.

Elicitation has its own tests. Batches exist only on streams: a connection without bytes cannot carry them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import pytest
import trio
import trio.testing

from tests.interaction.conftest import connected, numbers
from tests.interaction.over_http import IN_PROCESS
from tests.interaction.scripted_peers import MODERN
from tests.interaction.surface_server import make_server as make_surface_server
from trio_mcp import (
    Audio,
    Client,
    ClientOptions,
    Context,
    ErrorResponse,
    Image,
    Server,
    open_stream_client,
    serve_stream,
    types,
)
from trio_mcp.testing import ScriptedPeer

Json: TypeAlias = dict[str, Any]

BATCHES = "2025-03-26"
SOUNDS = "2025-03-26"
LINKS = "2025-06-18"
LINK = types.ResourceLink(name="doc", uri="file:///doc")
SOUND = Audio(b"a", "audio/wav")
PICTURE = Image(b"a", "image/png")


@pytest.fixture(params=("memory", "bytes", "unix", *IN_PROCESS))
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Wire:
    """A record of the messages that a client has sent and received."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.received: list[Any] = []

    def tap(self, direction: str, message: bytes) -> None:
        (self.sent if direction == "sent" else self.received).append(json.loads(message))

    def answers(self) -> list[tuple[str, Json]]:
        """Return the results that came, each with the method of its request."""
        methods = {message["id"]: message["method"] for message in self.sent if "id" in message and "method" in message}
        return [(methods[message["id"]], message["result"]) for message in self.received if "result" in message]


def over(
    transport: str, server: Server, folder: Path, **options: Unpack[ClientOptions]
) -> AbstractAsyncContextManager[Client]:
    return connected(transport, lambda: server, [], folder, options)


@asynccontextmanager
async def streams(transport: str, folder: Path) -> AsyncGenerator[tuple[trio.abc.Stream, trio.abc.Stream]]:
    """Yield the two ends of a connection that carries bytes."""
    if transport != "unix":
        yield trio.testing.memory_stream_pair()
        return
    path = str(folder / f"socket-{next(numbers)}")
    with trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM) as listening:
        await listening.bind(path)
        listening.listen()
        ours = await trio.open_unix_socket(path)
        accepted, _ = await listening.accept()
        async with ours, trio.SocketStream(accepted) as theirs:
            yield ours, theirs


@asynccontextmanager
async def over_stream(
    transport: str, folder: Path, **options: Unpack[ClientOptions]
) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Yield a connected client and the scripted server at the other end."""
    welcomed = trio.Event()

    async def welcome(server: ScriptedPeer) -> None:
        await server.welcome(options.get("revision") or MODERN)
        welcomed.set()

    with trio.fail_after(30):
        async with streams(transport, folder) as (ours, theirs), trio.open_nursery() as nursery:
            server = ScriptedPeer(theirs)
            nursery.start_soon(welcome, server)
            async with open_stream_client(ours, **options) as client:
                await welcomed.wait()
                yield client, server


# Batches.


@pytest.mark.requirement("B.1-P8")
@pytest.mark.parametrize("transport", ["bytes", "unix"])
async def test_a_server_accepts_batches_in_one_revision_only(transport: str, revision: str, tmp_path: Path) -> None:
    meta = {"_meta": ScriptedPeer.envelope(revision)} if revision == MODERN else {}
    listing = {"jsonrpc": "2.0", "method": "tools/list", "params": meta}
    async with streams(transport, tmp_path) as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, make_surface_server(), theirs)
        client = ScriptedPeer(ours)
        await client.greet(revision)
        await client.send([listing | {"id": 71}, listing | {"id": 72}])
        answer = await client.receive()
        assert "result" in await client.request("tools/list", {})
        await client.send_eof()
        await client.expect_end()

    if revision == BATCHES:
        assert {each["id"]: "result" in each for each in answer} == {71: True, 72: True}
    else:
        assert answer["error"]["code"] == -32600
        assert "batches exist in revision 2025-03-26 only" in answer["error"]["message"]


@pytest.mark.parametrize("transport", ["bytes", "unix"])
async def test_a_client_accepts_batches_in_one_revision_only(transport: str, revision: str, tmp_path: Path) -> None:
    wire = Wire()
    connection = over_stream(transport, tmp_path, revision=revision, tap=wire.tap)
    async with connection as (client, server):
        results: list[types.CallToolResult] = []

        async def call(name: str) -> None:
            results.append(await client.call_tool(name))

        async with trio.open_nursery() as calling:
            calling.start_soon(call, "a")
            calling.start_soon(call, "b")
            requests = [await server.expect_request("tools/call") for _ in range(2)]
            result: Json = {"content": []}
            result |= {"resultType": "complete"} if revision == MODERN else {}
            batch = [{"jsonrpc": "2.0", "id": request["id"], "result": result} for request in requests]
            await server.send(batch)
            if revision != BATCHES:  # the client ignored it
                await server.send(*({**each, "result": result | {"_meta": {"a": 1}}} for each in batch))

    assert [each.meta for each in results] == [None if revision == BATCHES else {"a": 1}] * 2
    assert not [message for message in wire.sent if isinstance(message, list)]


# Content.


def give(server: Server, content: list[Any], *, whole: bool = False) -> None:
    """Add a tool and a prompt that return the content, as a complete result if *whole*."""
    blocks = [each.block() if isinstance(each, Image | Audio) else each for each in content]

    @server.tool
    async def tool() -> types.CallToolResult | list[Any]:
        return types.CallToolResult(content=blocks) if whole else content

    @server.prompt
    async def prompt() -> Any:
        messages = [types.PromptMessage(role="assistant", content=block) for block in blocks]
        return types.GetPromptResult(messages=messages) if whole else content


@pytest.mark.requirement("A.5-P1")
@pytest.mark.parametrize("whole", [False, True], ids=["content", "result"])
@pytest.mark.parametrize(
    ("block", "kind", "since"),
    [(SOUND, "audio", SOUNDS), (LINK, "a resource link", LINKS), (PICTURE, "", "")],
    ids=["sound", "link", "picture"],
)
async def test_content_of_a_later_revision_is_not_sent_to_older_peers_and_the_log_names_the_reason(
    transport: str,
    revision: str,
    block: Any,
    kind: str,
    since: str,
    whole: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")
    give(server, [PICTURE, block], whole=whole)

    @server.tool
    async def other() -> str:
        return "fine"

    async with over(transport, server, tmp_path, revision=revision) as client:
        called = await client.call_tool("tool")
        if revision >= since:
            assert called.is_error is not True
            assert called.content[1].type == (await client.get_prompt("prompt")).messages[1].content.type
        else:
            (block,) = called.content
            assert called.is_error
            assert isinstance(block, types.TextContent)
            reason = f"is {kind}, which revision {revision} does not have ({since} and later ones do)"
            assert block.text == f"tool 'tool': content[1] {reason}"
            with pytest.raises(ErrorResponse) as refused:
                await client.get_prompt("prompt")
            assert refused.value.message == f"prompt 'prompt': messages[1] {reason}"
            assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
            assert all(reason in record.getMessage() for record in caplog.records)
        assert (await client.call_tool("other")).content == [types.TextContent(text="fine")]


# Members of results in the newest revision only.


CACHEABLE = {
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
}


@pytest.mark.requirement("B.17-S1a")
async def test_every_result_has_a_type_and_cache_members_in_the_newest_revision_only(
    transport: str, revision: str, tmp_path: Path
) -> None:
    wire, server = Wire(), make_surface_server()

    @server.resource("kept://long")
    async def kept() -> types.ReadResourceResult:
        contents = [types.TextResourceContents(uri="kept://long", text="x")]
        return types.ReadResourceResult(contents=contents, ttl_ms=60_000, cache_scope="public", result_type="complete")

    @server.tool
    async def dated() -> types.CallToolResult:
        return types.CallToolResult(content=[], result_type="complete")

    async with over(transport, server, tmp_path, revision=revision, tap=wire.tap) as client:
        await converse(client)

    answers = wire.answers()
    methods = {method for method, _ in answers}
    assert len(methods) >= 8
    for method, result in answers:
        modern = revision == MODERN
        assert ("resultType" in result) == modern, method
        assert ("ttlMs" in result) == (modern and method in CACHEABLE), method
        assert ("cacheScope" in result) == (modern and method in CACHEABLE), method
    if revision == MODERN:
        assert methods >= CACHEABLE
        assert {result["resultType"] for _, result in answers} == {"complete"}


async def converse(client: Client) -> None:
    """Send one request of every kind that a revision has."""
    for walk in (client.tools, client.resources, client.resource_templates, client.prompts):
        assert [entry async for entry in walk()]
    await client.call_tool("dated")
    await client.call_tool("point", {"x": 1, "y": 2})
    await client.read_resource("kept://long")
    await client.read_resource("notes://text")
    await client.get_prompt("whole")
    await (client.discover() if client.revision == MODERN else client.ping())
    await client.set_log_level("error")
    if client.revision != MODERN:
        await client.subscribe_resource("notes://text")
        await client.unsubscribe_resource("notes://text")


# Requests of the server.


async def roots() -> list[types.Root]:
    await trio.lowlevel.checkpoint()
    return [types.Root(uri="file:///srv")]


@pytest.mark.parametrize("transport", ["bytes", "unix"])
async def test_a_client_answers_requests_of_a_server_in_legacy_revisions_only(
    transport: str, revision: str, tmp_path: Path
) -> None:
    connection = over_stream(transport, tmp_path, revision=revision, roots=roots)
    async with connection as (client, server), trio.open_nursery() as nursery:
        await server.begin("roots/list", envelope=None)
        await server.begin("ping", envelope=None)
        if revision == MODERN:
            nursery.start_soon(client.discover)
            await server.expect_request("server/discover")  # the first message
        else:
            answers = [await server.receive() for _ in range(2)]
            assert sorted(str(answer["result"]) for answer in answers) == [
                "{'roots': [{'uri': 'file:///srv'}]}",
                "{}",
            ]
        nursery.cancel_scope.cancel()


async def test_a_server_sends_requests_in_legacy_revisions_only(transport: str, revision: str, tmp_path: Path) -> None:
    wire, server = Wire(), Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return ", ".join(root.uri for root in await ctx.list_roots())

    async with over(transport, server, tmp_path, revision=revision, tap=wire.tap, roots=roots) as client:
        said = await client.call_tool("ask")

    requests = [message["method"] for message in wire.received if "method" in message and "id" in message]
    interim = [result for _, result in wire.answers() if result.get("resultType") == "input_required"]
    assert said.content == [types.TextContent(text="file:///srv")]
    assert requests == ([] if revision == MODERN else ["roots/list"])
    assert len(interim) == (1 if revision == MODERN else 0)


@pytest.mark.parametrize("lacking", [True, False], ids=["without callbacks", "with callbacks"])
async def test_a_server_never_sends_a_request_to_a_client_of_the_newest_revision(
    transport: str, lacking: bool, tmp_path: Path
) -> None:
    """The server asks, logs, sends progress and announces changes."""
    wire, server = Wire(), make_surface_server()

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1)
        ctx.resource_updated("notes://text")
        server.tool(name="new")(lambda: "x")
        return ", ".join(root.uri for root in await ctx.list_roots())

    given = None if lacking else roots
    connection = over(transport, server, tmp_path, revision=MODERN, tap=wire.tap, roots=given)
    async with connection as client, client.listen(tools=True, resources=["notes://text"]) as changes:
        try:
            await client.call_tool("ask")
        except ErrorResponse as refused:
            assert lacking
            assert refused.code == -32021
        await anext(aiter(changes))
    assert [message for message in wire.received if "method" in message and "id" in message] == []
    assert wire.received
