"""A tap sees every message of a client on every transport, and does not change them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from trio_mcp import Client, ErrorResponse, Limits, ServerExited, open_client, testing
from trio_mcp.abc import Direction
from trio_mcp.transports._stream import tapped

Opener = Callable[..., AbstractAsyncContextManager[Client]]
PROGRAM = Path(__file__).parent.parent / "interaction" / "conversation_server.py"
OPENERS: dict[str, Callable[[], Opener]] = {
    "memory": lambda: partial(open_client, make_server()),
    "bytes": lambda: partial(testing.open_memory_client, make_server()),
    "lockstep": lambda: partial(testing.open_memory_client, make_server(), lockstep=True),
    "stdio": lambda: partial(open_client, [sys.executable, str(PROGRAM)]),
}


INCOMPLETE_MESSAGE = '{"jsonrpc":"2.0","id":'
DIES_IN_MID_MESSAGE = f"""
import json, sys
begin = json.loads(sys.stdin.readline())
info = {{"protocolVersion": "2025-11-25", "capabilities": {{}}, "serverInfo": {{"name": "s", "version": "1"}}}}
print(json.dumps({{"jsonrpc": "2.0", "id": begin["id"], "result": info}}), flush=True)
assert "initialized" in sys.stdin.readline() and "ping" in sys.stdin.readline()
print({INCOMPLETE_MESSAGE!r}, end="", flush=True)
"""


class RecordingTap:
    """A tap that records the messages."""

    def __init__(self) -> None:
        self.lines: list[tuple[Direction, bytes]] = []

    def __call__(self, direction: Direction, message: bytes) -> None:
        self.lines.append((direction, message))

    @property
    def values(self) -> list[tuple[str, Any]]:
        return [(direction, json.loads(line)) for direction, line in self.lines]


@pytest.fixture
def tap() -> RecordingTap:
    return RecordingTap()


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]()


async def test_a_tap_sees_the_messages_of_both_directions_in_order(opener: Opener, tap: RecordingTap) -> None:
    async with opener(tap=tap, revision="2025-11-25") as client:
        async with client.open_call("count", {"steps": 2}) as call:
            assert len([update async for update in call.updates]) == 2
        with pytest.raises(ErrorResponse):
            await client.call_tool("refuse")

    assert all(b"\n" not in line for _, line in tap.lines)
    observed = [(direction, value.get("method"), value.get("id")) for direction, value in tap.values]
    assert observed == [
        ("sent", "initialize", 1),
        ("received", None, 1),
        ("sent", "notifications/initialized", None),
        ("sent", "tools/call", 2),
        ("received", "notifications/progress", None),
        ("received", "notifications/progress", None),
        ("received", None, 2),
        ("sent", "tools/call", 3),
        ("received", None, 3),
    ]
    assert tap.values[3][1]["params"]["arguments"] == {"steps": 2}
    assert [value["params"]["progress"] for _, value in tap.values[4:6]] == [1, 2]
    assert tap.values[6][1]["result"]["content"] == [{"type": "text", "text": "counted"}]
    assert tap.values[8][1]["error"] == {"code": -5, "message": "not today", "data": {"until": "tomorrow"}}


async def test_a_tap_sees_a_cancellation(opener: Opener, tap: RecordingTap) -> None:
    async with opener(tap=tap) as client:
        async with client.open_call("hang", {"key": "a"}) as call:
            assert (await anext(call.updates)).progress == 1
        await client.call_tool("when_stopped", {"key": "a"})

    observed = [value for _, value in tap.values]
    (request,) = (value for value in observed if value.get("params", {}).get("name") == "hang")
    assert {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": request["id"]},
    } in observed


@pytest.mark.parametrize("target", ["memory", "bytes"])
async def test_a_tap_that_raises_is_logged_once_and_does_not_affect_the_client(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[bytes] = []

    def tap(direction: Direction, message: bytes) -> None:
        calls.append(message)
        if len(calls) == 3:
            raise ValueError("disk full")

    async with OPENERS[target]()(tap=tap) as client:
        for _ in range(2):
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}

    assert len(calls) == 3
    (record,) = caplog.records
    assert record.getMessage() == "the tap raised; it sees no more messages of this client"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "disk full"


async def test_a_tap_sees_whole_messages_although_they_arrive_in_parts(tap: RecordingTap) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = tapped(ours, tap, 100)

    for part in (b'{"a":', b"1}\n{", memoryview(b'"b":2}\r\n[]\n')):
        await stream.send_all(part)
        await stream.wait_send_all_might_not_block()
    await theirs.send_all(b"[1]\n\n[2]\n[")
    assert await stream.receive_some(5) == b"[1]\n\n"
    assert await stream.receive_some() == b"[2]\n["

    assert tap.lines == [
        ("sent", b'{"a":1}'),
        ("sent", b'{"b":2}'),
        ("sent", b"[]"),
        ("received", b"[1]"),
        ("received", b"[2]"),
    ]
    assert await theirs.receive_some() == b'{"a":1}\n{"b":2}\r\n[]\n'


async def test_a_tap_sees_a_last_message_without_a_newline(tap: RecordingTap) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = tapped(ours, tap, 100)

    await theirs.send_all(b"[1]\n[2]")
    await theirs.aclose()
    while await stream.receive_some():
        pass

    assert tap.lines == [("received", b"[1]"), ("received", b"[2]")]


async def test_a_tap_does_not_see_an_incomplete_last_line(tap: RecordingTap) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = tapped(ours, tap, 100)

    await theirs.send_all(b'stray output\n{"jsonrpc":')
    await theirs.aclose()
    while await stream.receive_some():
        pass

    assert tap.lines == [("received", b"stray output")]


async def test_the_incomplete_message_of_a_server_that_dies_is_logged_and_not_shown_to_the_tap(
    tap: RecordingTap, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client([sys.executable, "-c", DIES_IN_MID_MESSAGE], tap=tap, revision="2025-11-25") as client:
        with pytest.raises(ServerExited):
            await client.ping()

    assert [value.get("method", "answer") for _, value in tap.values] == [
        "initialize",
        "answer",
        "notifications/initialized",
        "ping",
    ]
    (record,) = (each for each in caplog.records if each.name == "trio_mcp.peer")
    assert INCOMPLETE_MESSAGE in record.getMessage()


async def test_a_tap_does_not_see_a_message_that_was_sent_incompletely(tap: RecordingTap) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = tapped(ours, tap, 100)

    await stream.send_all(b"[1")
    await stream.aclose()

    assert tap.lines == []
    assert await theirs.receive_some() == b"[1"
    assert await theirs.receive_some() == b""


async def test_a_tap_does_not_see_a_message_that_is_too_large_but_sees_the_next_one(tap: RecordingTap) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = tapped(ours, tap, 5)

    await theirs.send_all(b'["too long"]\n[1]\n')
    await stream.receive_some()

    assert tap.lines == [("received", b"[1]")]


async def test_a_tap_sees_large_and_concurrent_messages_one_by_one(tap: RecordingTap) -> None:
    async with (
        testing.open_memory_client(make_server(limits=Limits()), tap=tap, lockstep=True) as client,
        trio.open_nursery() as nursery,
    ):
        for size in (3, 300_000, 5):
            nursery.start_soon(client.call_tool, "shout", {"text": "x" * size})

    sent = [value["params"]["arguments"]["text"] for way, value in tap.values[2:] if way == "sent"]
    received = [value["result"]["content"][0]["text"] for way, value in tap.values[2:] if way == "received"]
    assert sorted(map(len, sent)) == sorted(map(len, received)) == [3, 5, 300_000]


def test_a_stream_without_a_tap_is_not_wrapped() -> None:
    ours, _ = trio.testing.memory_stream_pair()

    assert tapped(ours, None, 100) is ours
