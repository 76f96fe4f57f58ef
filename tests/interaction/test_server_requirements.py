"""Requirements for every server, checked on the wire: the members of each result, and what it may depend on."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import trio_mcp
from tests.interaction.conversation_server import SMALL, make_server
from tests.interaction.scripted_peers import ENVELOPE, INFO, LEGACY, META, MODERN, Json
from trio_mcp import Context, Server, types
from trio_mcp.testing import open_scripted_client

REQUESTS: dict[str, Json] = {
    "tools/list": {},
    "tools/call": {"name": "add", "arguments": {"a": 1, "b": 2}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "memo://today"},
    "prompts/list": {},
    "prompts/get": {"name": "review", "arguments": {"code": "x"}},
}
"""One good request for every method of a feature of the conversation server."""
CACHEABLE = {method for method in REQUESTS if method.endswith("/list")} | {"server/discover", "resources/read"}


def call(id: int | str, tool: str, *, envelope: Json | None = None, **arguments: object) -> Json:
    params: Json = {"name": tool, "arguments": arguments}
    params |= {} if envelope is None else {"_meta": envelope}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


# Members of results.


@pytest.mark.requirement("B.1-S1", "B.3-S5a", "B.17-S1a", "B.17-S1b")
async def test_a_modern_result_carries_its_type_its_server_and_its_cache_lifetime() -> None:
    async with open_scripted_client(make_server(), MODERN) as client:
        for method, params in [*REQUESTS.items(), ("server/discover", {})]:
            result = (await client.request(method, params, envelope=ENVELOPE))["result"]
            assert result["resultType"] == "complete", method
            assert result["_meta"][META + "serverInfo"] == {"name": "conversation", "version": "1.0"}, method
            assert {"ttlMs", "cacheScope"} <= result.keys() if method in CACHEABLE else "ttlMs" not in result, method
            if method in CACHEABLE:
                assert type(result["ttlMs"]) is int, method
                assert result["ttlMs"] >= 0, method
                assert result["cacheScope"] in {"public", "private"}, method
        failed = (await client.request("tools/call", {"name": "fail"}, envelope=ENVELOPE))["result"]
        assert (failed["isError"], failed["resultType"]) == (True, "complete")


@pytest.mark.requirement("B.2-P1c", "B.2-P1d", "A.6-P1")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_legacy_result_has_no_members_of_later_revisions(revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        for method, params in REQUESTS.items():
            result = (await client.request(method, params))["result"]
            assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & result.keys(), method


@pytest.mark.requirement("B.1-P9b", "B.5-S3a")
async def test_a_modern_server_sends_only_responses_and_notifications() -> None:
    sent: list[Any] = []
    capabilities: Json = {"roots": {}, "sampling": {}, "elicitation": {}}
    envelope = ENVELOPE | {META + "clientCapabilities": capabilities, META + "logLevel": "debug", "progressToken": 1}
    async with open_scripted_client(make_server(), MODERN) as client:
        for id, (method, params) in enumerate(REQUESTS.items()):
            await client.send({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": envelope, **params}})
        await client.send(call("count", "count", envelope=envelope, steps=3))
        await client.send(call("say", "say", envelope=envelope, level="error", text="x"))
        await client.send_eof()
        sent = await client.rest()
    assert [message["method"] for message in sent if "id" in message and "method" in message] == []
    assert len([message for message in sent if "id" in message]) == len(REQUESTS) + 2
    assert sorted(message["method"] for message in sent if "method" in message) == [
        "notifications/message",
        *["notifications/progress"] * 3,
    ]


# Envelopes of requests.


@pytest.mark.requirement("B.3-S1a")
@pytest.mark.parametrize("missing", ENVELOPE)
async def test_a_modern_request_without_a_required_member_is_refused_even_after_a_complete_one(missing: str) -> None:
    envelope = {key: value for key, value in ENVELOPE.items() if key != missing}
    async with open_scripted_client(make_server(), MODERN) as client:
        assert "result" in await client.request("tools/list", {}, envelope=ENVELOPE)
        for method in ("tools/list", "server/discover"):
            answer = await client.request(method, {}, envelope=envelope)
            assert answer["error"]["code"] == -32602, method


@pytest.mark.requirement("B.3-S2")
async def test_a_modern_request_inherits_nothing_from_an_earlier_one() -> None:
    server, seen = Server("s"), list[Any]()

    @server.tool
    async def look(ctx: Context) -> None:
        seen.append((ctx.client_capabilities, ctx.client_info and ctx.client_info.name, dict(ctx.meta)))

    rich: Json = ENVELOPE | {META + "clientCapabilities": {"roots": {}}, META + "clientInfo": INFO, "mine": 1}
    async with open_scripted_client(server, MODERN) as client:
        for envelope in (rich, ENVELOPE, rich):
            assert "result" in await client.request("tools/call", {"name": "look"}, envelope=envelope)
    assert seen == [
        (types.ClientCapabilities(roots=types.RootsCapability()), INFO["name"], rich),
        (types.ClientCapabilities(), None, ENVELOPE),
        (types.ClientCapabilities(roots=types.RootsCapability()), INFO["name"], rich),
    ]


@pytest.mark.requirement("B.4-S1", "B.3-S3a")
@pytest.mark.parametrize("revision", LEGACY)
async def test_requests_of_both_eras_can_be_mixed_on_one_connection(revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(
            call("modern", "meet", envelope=ENVELOPE, party=4),
            call("legacy", "meet", party=4),
            call("modern too", "meet", envelope=ENVELOPE, party=4),
            call("legacy too", "meet", party=4),
        )
        answers = [await client.receive() for _ in range(4)]
    assert {answer["id"]: "resultType" in answer["result"] for answer in answers} == {
        "modern": True,
        "legacy": False,
        "modern too": True,
        "legacy too": False,
    }


# The handshake.


@pytest.mark.requirement("B.2-S1a", "B.2-S1b", "B.2-S1c", "B.2-S2", "B.20-S1a", "B.21-S1a", "B.22-S1a")
@pytest.mark.parametrize("requested", [*LEGACY, "2099-01-01", "1999-01-01", MODERN])
async def test_a_handshake_is_answered_with_a_revision_the_capabilities_and_the_name(requested: str) -> None:
    server = make_server(revisions=["2024-11-05", "2025-06-18", MODERN])
    params: Json = {"protocolVersion": requested, "capabilities": {}, "clientInfo": INFO}
    async with open_scripted_client(server, MODERN) as client:
        result = (await client.request("initialize", params, envelope=None))["result"]
    assert result["protocolVersion"] == (requested if requested in {"2024-11-05", "2025-06-18"} else "2025-06-18")
    assert {"tools", "resources", "prompts", "logging"} <= result["capabilities"].keys()
    assert result["serverInfo"] == {"name": "conversation", "version": "1.0"}
    assert result["instructions"] == "Talk to me."


@pytest.mark.requirement("B.3-S7")
async def test_a_modern_only_server_names_its_revisions_when_it_refuses_a_handshake() -> None:
    params: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    async with open_scripted_client(make_server(revisions=[MODERN]), MODERN) as client:
        error = (await client.request("initialize", params, envelope=None))["error"]
    assert error["data"] == {"supported": [MODERN], "requested": "2025-11-25"}


# Declared capabilities.


@pytest.mark.requirement("B.3-S8", "B.3-S9")
async def test_a_discovery_lists_working_revisions_and_capabilities() -> None:
    async with open_scripted_client(make_server(revisions=["2025-03-26", MODERN]), MODERN) as client:
        result = (await client.request("server/discover", {}, envelope=ENVELOPE))["result"]
        assert result["supportedVersions"] == ["2025-03-26", MODERN]
        assert result["instructions"] == "Talk to me."
        for feature in result["capabilities"].keys() - {"logging", "completions"}:
            assert "result" in await client.request(f"{feature}/list", {}, envelope=ENVELOPE), feature


@pytest.mark.requirement("B.20-S1f", "B.21-S1c", "B.22-S1c")
async def test_a_declared_feature_whose_last_member_was_removed_is_still_declared_and_listed() -> None:
    server = Server("s")
    server.tool(name="t")(lambda: None)
    server.resource("a:b", name="r")(lambda: "")
    server.prompt(name="p")(lambda: "")
    server.tools.remove("t")
    server.resources.remove("a:b")
    server.prompts.remove("p")
    async with open_scripted_client(server, MODERN) as client:
        declared = (await client.request("server/discover", {}, envelope=ENVELOPE))["result"]["capabilities"]
        for feature in ("tools", "resources", "prompts"):
            assert feature in declared
            assert (await client.request(f"{feature}/list", {}, envelope=ENVELOPE))["result"][feature] == []


@pytest.mark.requirement("B.20-S2a", "B.20-S2b", "B.21-S1b", "B.22-S1b")
async def test_lists_depend_neither_on_the_connection_nor_on_earlier_requests() -> None:
    server = make_server()
    answers: list[Any] = []
    declared: list[Json] = [{}, {"roots": {}, "sampling": {}}]
    for capabilities in declared:
        envelope = ENVELOPE | {META + "clientCapabilities": capabilities}
        async with open_scripted_client(server, MODERN) as client:
            ask = partial(client.request, envelope=envelope)
            for _ in range(2):
                lists = [method for method in REQUESTS if method.endswith("/list")]
                answers.append([(await ask(method, {}))["result"] for method in lists])
                for method, params in REQUESTS.items():
                    await ask(method, params)
    assert len(answers[0][0]["tools"]) > 5
    assert answers[1:] == answers[:1] * 3


@pytest.mark.requirement("B.20-S3b")
async def test_tool_names_are_case_sensitive() -> None:
    server = Server("s")
    server.tool(name="tool")(lambda: "small")
    server.tool(name="Tool")(lambda: "capital")
    async with open_scripted_client(server, MODERN) as client:
        for name, text in (("tool", "small"), ("Tool", "capital")):
            result = (await client.request("tools/call", {"name": name}, envelope=ENVELOPE))["result"]
            assert result["content"] == [{"type": "text", "text": text}]


# Progress.


@pytest.mark.requirement("B.14-P2")
async def test_the_server_sends_no_progress_that_was_not_requested(revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        answer = await client.request("tools/call", {"name": "count", "arguments": {"steps": 3}})
        assert "result" in answer  # the first message from the server


@pytest.mark.requirement("B.14-P2", "G.15")
@pytest.mark.parametrize("token", [7, "7", 0, ""])
async def test_progress_carries_the_token_with_its_original_type(token: int | str, revision: str) -> None:
    envelope: Json = (ENVELOPE if revision == MODERN else {}) | {"progressToken": token}
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(call("x", "count", envelope=envelope, steps=1))
        progress = await client.receive()
        assert (progress["method"], progress["params"]["progressToken"]) == ("notifications/progress", token)
        assert type(progress["params"]["progressToken"]) is type(token)
        assert (await client.receive())["id"] == "x"


@pytest.mark.requirement("B.14-P4")
async def test_the_server_sends_no_progress_after_the_result(revision: str) -> None:
    server, kept = Server("s"), list[Context]()

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)
        kept.append(ctx)

    envelope: Json = (ENVELOPE if revision == MODERN else {}) | {"progressToken": 1}
    async with open_scripted_client(server, revision) as client:
        await client.send(call("x", "work", envelope=envelope))
        assert (await client.receive())["method"] == "notifications/progress"
        assert (await client.receive())["id"] == "x"
        await kept[0].report_progress(2)
        assert "result" in await client.request("tools/list", {})  # the next message from the server


# Ping.


@pytest.mark.requirement("B.15-P1a")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_busy_server_answers_a_ping_at_once(revision: str, autojump_clock: object) -> None:
    async with open_scripted_client(make_server(limits=SMALL), revision) as client:
        await client.send(*(call(id, "when_stopped", key="never") for id in range(6)))  # every handler slot is taken
        assert (await client.request("tools/list", {}))["error"]["code"] == -31000
        assert (await client.request("ping", None))["result"] == {}


# Pictures.


@pytest.mark.requirement("B.26-P1")
async def test_icons_are_sent_with_all_their_members() -> None:
    icon = types.Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48", "any"], theme="dark")
    server = Server("s", icons=[icon])
    server.tool(name="t", icons=[icon])(lambda: None)
    expected = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
    async with open_scripted_client(server, MODERN) as client:
        result = (await client.request("tools/list", {}, envelope=ENVELOPE))["result"]
    assert result["tools"][0]["icons"] == [expected]
    assert result["_meta"][META + "serverInfo"]["icons"] == [expected]


@pytest.mark.requirement("B.22-S3")
async def test_an_image_in_a_prompt_is_base64_with_its_media_type() -> None:
    server = Server("s")
    server.prompt(name="p")(lambda: [trio_mcp.Image(b"abc", "image/png"), trio_mcp.Audio(b"abc", "audio/wav")])
    async with open_scripted_client(server, MODERN) as client:
        messages = (await client.request("prompts/get", {"name": "p"}, envelope=ENVELOPE))["result"]["messages"]
    assert [message["content"] for message in messages] == [
        {"type": "image", "data": "YWJj", "mimeType": "image/png"},
        {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"},
    ]


# Cancellation.


@pytest.mark.requirement("B.12-P2b", "B.5-S3c")
async def test_a_cancelled_call_is_not_answered_and_sends_no_more_progress(revision: str) -> None:
    envelope: Json = (ENVELOPE if revision == MODERN else {}) | {"progressToken": 1}
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(call("x", "hang", envelope=envelope, key="k"))
        assert (await client.receive())["method"] == "notifications/progress"
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}})
        stopped: Json = {"name": "when_stopped", "arguments": {"key": "k"}}
        assert "result" in await client.request("tools/call", stopped)
        await client.send_eof()
        assert await client.rest() == []


# Tasks, which this package does not create.


@pytest.mark.requirement("D.2-L2")
async def test_a_call_that_requests_a_task_is_answered_directly(revision: str) -> None:
    params: Json = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {"ttl": 60_000}}
    async with open_scripted_client(make_server(), revision) as client:
        result = (await client.request("tools/call", params))["result"]
        assert result["content"] == [{"type": "text", "text": "3"}]
        assert "task" not in result
        listed = (await client.request("tools/list", {}))["result"]["tools"]
        assert all("execution" not in tool for tool in listed)


# Error codes.


@pytest.mark.requirement("B.1-P10a", "B.1-P10b", "B.1-P10e")
def test_the_package_uses_no_error_code_that_the_specification_reserves() -> None:
    defined = {-32020, -32021, -32022}
    of_older_revisions = {
        -32002,  # not found, which only legacy revisions get: test_resources_are_listed_and_read
        -32042,  # URL elicitation required, sent only in 2025-11-25: Context.url_elicitation_required
    }
    of_hosts = {-32000}  # the host of an app refuses a wish of its view, which is no message of the protocol
    package = Path(trio_mcp.__file__).parent
    numbers: set[int] = set()
    for path in package.rglob("*.py"):
        if path.parent.name != "types":  # that folder describes the errors of every revision and sends none
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                    value: Any = node.operand.value if isinstance(node.operand, ast.Constant) else None
                    numbers |= {-value} if isinstance(value, int) else set()
    reserved = {number for number in numbers if -32099 <= number <= -32000}
    assert -32022 in reserved
    assert reserved <= defined | of_older_revisions | of_hosts
