"""The scripted peer: sending, expecting messages, the errors of unmet expectations, and both handshakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from trio_mcp import ConnectionBroken, ErrorResponse, types
from trio_mcp.testing import ScriptedPeer, open_scripted_client, open_scripted_server


@pytest.fixture
def ends() -> tuple[ScriptedPeer, ScriptedPeer]:
    ours, theirs = trio.testing.memory_stream_pair()
    return ScriptedPeer(ours), ScriptedPeer(theirs)


Ends = tuple[ScriptedPeer, ScriptedPeer]


async def test_values_are_sent_as_lines_and_bytes_unchanged(ends: Ends) -> None:
    ours, theirs = ends

    await ours.send({"a": 1}, [2], b'{"b', b'":3}\n4\n')
    await ours.stream.aclose()

    assert await theirs.rest() == [{"a": 1}, [2], {"b": 3}, 4]


async def test_a_line_that_is_not_json_is_shown_in_the_error(ends: Ends) -> None:
    ours, theirs = ends

    await ours.send(b"\xffhello\n")
    with pytest.raises(AssertionError, match=r"expected a line of JSON; received b'\\xffhello'"):
        await theirs.receive()


async def test_an_incomplete_last_line_is_shown_in_the_error(ends: Ends) -> None:
    ours, theirs = ends

    await ours.send({"a": 1}, b'{"b"')
    await ours.stream.aclose()

    assert await theirs.receive() == {"a": 1}
    with pytest.raises(AssertionError, match=r"ended in the middle of a message: b'{\"b\"'"):
        await theirs.receive()


Expect = Callable[[ScriptedPeer], Awaitable[Any]]
REQUEST = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/x"}
RESULT: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "result": {}}


def a_request(peer: ScriptedPeer) -> Awaitable[Any]:
    return peer.expect_request()


def the_request(peer: ScriptedPeer) -> Awaitable[Any]:
    return peer.expect_request("tools/list")


def a_notification(peer: ScriptedPeer) -> Awaitable[Any]:
    return peer.expect_notification("notifications/x")


def a_response(peer: ScriptedPeer) -> Awaitable[Any]:
    return peer.expect_response(7)


@pytest.mark.parametrize(
    ("expect", "message"),
    [(a_request, REQUEST), (the_request, REQUEST), (a_notification, NOTIFICATION), (a_response, RESULT)],
)
async def test_an_expected_message_is_returned(expect: Expect, message: Any, ends: Ends) -> None:
    ours, theirs = ends

    await ours.send(message)

    assert await expect(theirs) == message


@pytest.mark.parametrize(
    ("expect", "message", "expected"),
    [
        (a_request, NOTIFICATION, "a request"),
        (a_request, RESULT, "a request"),
        (a_request, [REQUEST], "a request"),
        (a_request, None, "a request"),
        (the_request, REQUEST | {"method": "tools/call"}, "a request 'tools/list'"),
        (a_notification, NOTIFICATION | {"id": 1}, "a notification 'notifications/x'"),
        (a_notification, NOTIFICATION | {"method": "notifications/y"}, "a notification 'notifications/x'"),
        (a_notification, 7, "a notification 'notifications/x'"),
        (a_response, RESULT | {"id": "7"}, "a response to 7"),
        (a_response, RESULT | {"id": 7.0}, "a response to 7"),
        (a_response, REQUEST, "a response to 7"),
        (a_response, {"jsonrpc": "2.0", "error": {}}, "a response to 7"),
        (a_response, None, "a response to 7"),
        (ScriptedPeer.expect_end, NOTIFICATION, "the end of the connection"),
        (ScriptedPeer.expect_silence, NOTIFICATION, "silence for 1 s"),
        (ScriptedPeer.expect_silence, None, "silence for 1 s"),
    ],
)
async def test_an_unexpected_message_is_shown_with_the_expected_one(
    expect: Expect, message: Any, expected: str, ends: Ends, autojump_clock: object
) -> None:
    ours, theirs = ends
    if message is not None:
        await ours.send(message)
    await ours.stream.aclose()

    with pytest.raises(AssertionError) as raised:
        await expect(theirs)

    expectation, _, shown = str(raised.value).partition("; received ")
    assert expectation == f"expected {expected}"
    if message is None:
        assert shown == "the end of the connection"
    else:
        assert str(message).replace("'", '"').replace(" ", "") == "".join(shown.split())


async def test_a_script_may_expect_silence_or_the_end_of_the_stream(ends: Ends, autojump_clock: object) -> None:
    ours, theirs = ends

    began = trio.current_time()
    await theirs.expect_silence(3600)
    assert trio.current_time() - began == 3600
    await ours.stream.aclose()
    await theirs.expect_end()


# As a client.


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_scripted_client_connects_to_a_server_in_every_revision(revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        assert client.revision == revision
        answer = await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert answer["result"]["content"] == [{"type": "text", "text": "3"}]
        id = await client.begin("tools/call", {"name": "fail"})
        assert (await client.expect_response(id))["result"]["isError"] is True


async def test_a_scripted_client_uses_the_newest_revision_by_default() -> None:
    async with open_scripted_client(make_server()) as client:
        assert client.revision == types.REVISIONS[-1]
        refused = await client.request("tools/list", envelope=None)
        assert refused["error"]["code"] == -32602
        accepted = await client.request("tools/list", {}, envelope=ScriptedPeer.envelope("2026-07-28") | {"x": 1})
        assert "result" in accepted


async def test_a_scripted_client_may_connect_to_an_active_server_and_waits_for_its_end() -> None:
    async with make_server().serving() as serving:
        async with open_scripted_client(serving) as client:
            await client.request("tools/list")
        assert serving.statistics().running == 0


async def test_an_unexpected_response_to_initialize_is_shown_in_the_error(ends: Ends) -> None:
    client, server = ends
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.answer, {"protocolVersion": "2024-11-05"})
        with pytest.raises(AssertionError, match=r'(?s)expected an agreement on 2025-11-25; received .*"2024-11-05"'):
            await client.greet("2025-11-25")


# As a server.


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_scripted_server_accepts_a_client_with_a_pinned_revision(revision: str) -> None:
    async with open_scripted_server(revision=revision) as (client, server), trio.open_nursery() as nursery:
        assert client.revision == server.revision == revision
        nursery.start_soon(server.refuse, -5, {"why": 1})
        with pytest.raises(ErrorResponse) as refused:
            await client.list_tools()
        assert (refused.value.code, refused.value.message, refused.value.data) == (-5, "no", {"why": 1})


async def test_a_scripted_server_uses_the_newest_revision_by_default() -> None:
    async with open_scripted_server() as (client, _):
        assert client.revision == types.REVISIONS[-1]


async def test_a_scripted_server_reports_progress_with_the_token_of_the_request() -> None:
    async with open_scripted_server() as (client, server):
        async with client.open_call("x") as call:
            request = await server.expect_request("tools/call")
            await server.report(request, 1)
            await server.report(request, 2, total=3, message="nearly")
            await server.respond(request, {"content": []})
            updates = [(update.progress, update.total, update.message) async for update in call.updates]
            assert updates[1] == (2, 3, "nearly")
            assert [progress for progress, _, _ in updates] == [1, 2]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "x")
            request = await server.answer({"content": []}, method="tools/call")
        with pytest.raises(AssertionError, match="expected a request that asks for progress; received"):
            await server.report(request, 1)


async def test_a_script_may_send_messages_while_the_client_connects() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32601, method="server/discover")
        await server.answer_initialize("2025-03-26")

    async with open_scripted_server(script) as (client, server):
        assert client.revision == "2025-03-26"
        assert server.revision is None


async def test_the_exception_of_a_script_is_raised_without_a_group() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.expect_request("initialize")

    with pytest.raises(AssertionError, match=r"(?s)expected a request 'initialize'; received .*server/discover"):
        async with open_scripted_server(script):
            raise NotImplementedError


async def test_the_exception_of_the_client_of_a_script_is_raised_without_a_group() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.receive()
        await server.stream.aclose()

    with pytest.raises(ConnectionBroken):
        async with open_scripted_server(script):
            raise NotImplementedError


async def test_a_script_that_is_not_finished_at_the_end_of_the_block_raises_a_clear_error(
    autojump_clock: object,
) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.welcome("2025-11-25")
        await server.expect_request("tools/list")

    with pytest.raises(AssertionError, match="60 s later the script has not ended"):
        async with open_scripted_server(script, revision="2025-11-25"):
            raise NotImplementedError


async def test_an_unknown_revision_is_named_in_the_error(ends: Ends) -> None:
    ours, _ = ends

    with pytest.raises(ValueError, match="revision='1999-01-01': this package supports 2024-11-05, "):
        await ours.greet("1999-01-01")
    with pytest.raises(ValueError, match="revision='1999-01-01'"):
        await ours.welcome("1999-01-01")
