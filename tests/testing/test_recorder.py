"""The wire recorder: recording, comparing, saving and selecting messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.conversation_server import make_server
from trio_mcp import ErrorResponse, open_client, types
from trio_mcp.abc import Direction
from trio_mcp.testing import WireRecorder, open_memory_client


def record(*messages: tuple[Direction, Any], **options: Any) -> WireRecorder:
    wire = WireRecorder(**options)
    for direction, value in messages:
        wire(direction, value if isinstance(value, bytes) else json.dumps(value).encode())
    return wire


async def converse(wire: WireRecorder, revision: str = "2025-11-25", **options: Any) -> None:
    async with open_memory_client(make_server(), tap=wire, revision=revision, **options) as client:
        async with client.open_call("count", {"steps": 2}) as call:
            await call.result()
        with pytest.raises(ErrorResponse):
            await client.call_tool("refuse")


EXPECTED = """\
# The opening.
sent:
  {
    "id": "<id 1>",
    "jsonrpc": "2.0",
    "method": "initialize",
    "params": {
      "capabilities": {},
      "clientInfo": {
        "name": "trio-mcp",
        "version": "<version>"
      },
      "protocolVersion": "<revision>"
    }
  }

received:
  {
    "id": "<id 1>",
    "jsonrpc": "2.0",
    "result": {
      "capabilities": {
        "logging": {},
        "prompts": {},
        "resources": {},
        "tools": {}
      },
      "instructions": "Talk to me.",
      "protocolVersion": "<revision>",
      "serverInfo": {
        "name": "conversation",
        "version": "<version>"
      }
    }
  }

sent:
  {"jsonrpc": "2.0", "method": "notifications/initialized"}

# The call.
sent:
  {
    "id": "<id 2>",
    "jsonrpc": "2.0",
    "method": "tools/call",
    "params": {"_meta": {"progressToken": "<token 1>"}, "arguments": {"steps": 2}, "name": "count"}
  }
received:
  {"jsonrpc": "2.0", "method": "notifications/progress",
   "params": {"progressToken": "<token 1>", "progress": 1, "total": 2, "message": "step 1"}}
received:
  {"jsonrpc": "2.0", "method": "notifications/progress",
   "params": {"progressToken": "<token 1>", "progress": 2, "total": 2, "message": "step 2"}}
"""


async def test_a_conversation_is_recorded_and_compared_with_the_expected_one() -> None:
    wire = WireRecorder()
    await converse(wire)

    assert len(wire) == 9
    assert [message.direction for message in wire] == [
        *("sent", "received", "sent", "sent"),
        *("received",) * 3,
        *("sent", "received"),
    ]
    assert [message.method for message in wire][:4] == ["initialize", None, "notifications/initialized", "tools/call"]
    assert wire.sent[1] == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert wire.received[-1]["error"]["code"] == -5
    del wire.messages[6:]
    wire.received[0]["result"]["capabilities"] = {"logging": {}, "prompts": {}, "resources": {}, "tools": {}}
    wire.assert_conversation(EXPECTED)


async def test_conversations_that_differ_only_in_their_ids_are_equal() -> None:
    one, other = WireRecorder(), WireRecorder()
    await converse(one)
    await converse(other, info=types.Implementation(name="trio-mcp", version="99"))
    for message in other:  # as another client may number its requests
        value = json.loads(json.dumps(message.value).replace('"id": 1', '"id": "a"').replace('"id": 2', '"id": 77'))
        message.value.clear()
        message.value.update(value)

    assert one.text(normalised=False) != other.text(normalised=False)
    assert one == other
    one.assert_conversation(other)
    assert one != EXPECTED


async def test_the_ids_of_client_and_server_are_numbered_separately() -> None:
    wire = record(
        ("received", {"id": 5, "method": "ping"}),
        ("sent", {"id": 5, "method": "tools/list"}),
        ("sent", {"id": 5, "result": {}}),
        ("sent", {"id": "5", "method": "tools/list"}),
        ("sent", {"method": "notifications/cancelled", "params": {"requestId": "5"}}),
        ("received", {"id": 5, "result": {}}),
        ("received", {"id": None, "error": {"code": 1, "message": "x"}}),
    )

    normalised = WireRecorder.parse(wire.text())

    ids = [value.get("id", value.get("params", {}).get("requestId")) for value in (each.value for each in normalised)]
    assert ids == ["<id 1>", "<id 1>", "<id 1>", "<id 2>", "<id 2>", "<id 1>", None]


async def test_only_values_that_differ_between_runs_are_replaced() -> None:
    meta = {
        "progressToken": 9,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/serverInfo": "odd",
        "io.github.trio-mcp/deadline": 4.987,
        "mine": 1,
    }
    wire = record(
        ("sent", {"id": 1, "method": "tools/list", "params": {"cursor": "zzz", "_meta": meta}}),
        ("sent", {"id": 2, "method": "tools/list", "params": {"_meta": {"mine": 1}, "arguments": {"cursor": "c"}}}),
        ("received", {"id": 1, "result": {"nextCursor": "aaa", "supportedVersions": ["2026-07-28"], "_meta": 7}}),
        ("received", {"id": 2, "result": {"nextCursor": "zzz", "serverInfo": {"name": "s"}}}),
        ("received", {"method": "notifications/progress", "params": {"progressToken": 9, "progress": 9}}),
        ("received", {"id": 3, "error": {"code": 1, "data": {"supported": [], "requested": "2020", "other": 1}}}),
        ("received", {"id": 3, "error": {"code": 1, "data": "2020"}}),
        ("received", {"id": 3, "error": 7, "result": 7, "params": 7}),
        ("sent", [{"id": 4, "method": "ping"}, 7]),
    )

    one, two, three, four, five, six, seven, eight, nine = (each.value for each in WireRecorder.parse(wire.text()))

    assert one["params"] == {
        "cursor": "<cursor 1>",
        "_meta": {
            "progressToken": "<token 1>",
            "io.modelcontextprotocol/protocolVersion": "<revision>",
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "<version>"},
            "io.modelcontextprotocol/serverInfo": "odd",
            "io.github.trio-mcp/deadline": "<seconds>",
            "mine": 1,
        },
    }
    assert two["params"] == {"_meta": {"mine": 1}, "arguments": {"cursor": "c"}}
    assert three["result"] == {"nextCursor": "<cursor 2>", "supportedVersions": "<revisions>", "_meta": 7}
    assert four["result"] == {"nextCursor": "<cursor 1>", "serverInfo": {"name": "s"}}
    assert five["params"] == {"progressToken": "<token 1>", "progress": 9}
    assert six["error"]["data"] == {"supported": "<revisions>", "requested": "<revision>", "other": 1}
    assert seven["error"]["data"] == "2020"
    assert eight == {"id": "<id 3>", "error": 7, "result": 7, "params": 7}
    assert nine == [{"id": "<id 4>", "method": "ping"}, 7]


async def test_a_difference_is_shown_as_a_diff() -> None:
    one = record(("sent", {"id": 1, "method": "tools/call", "params": {"name": "add"}}))
    other = record(("sent", {"id": 1, "method": "tools/call", "params": {"name": "subtract"}}))

    with pytest.raises(AssertionError) as raised:
        other.assert_conversation(one)

    assert str(raised.value).splitlines() == [
        "the conversation differs from the expected one",
        "--- expected",
        "+++ the recorded conversation",
        "@@ -1,8 +1,8 @@",
        " sent:",
        "   {",
        '     "id": "<id 1>",',
        '     "method": "tools/call",',
        '     "params": {',
        '-      "name": "add"',
        '+      "name": "subtract"',
        "     }",
        "   }",
    ]


@pytest.mark.parametrize("normalised", [False, True])
async def test_a_conversation_is_saved_to_a_file_and_read_back(normalised: bool, tmp_path: Path) -> None:
    wire, path = WireRecorder(), tmp_path / "conversation.wire"
    await converse(wire, "2026-07-28")
    wire("received", b"not \xff JSON")
    wire("received", '"é\u2028\\n"'.encode())

    wire.save(path, normalised=normalised)

    wire.assert_conversation(path)
    assert WireRecorder.load(path) == wire
    assert WireRecorder.load(str(path)).messages[-2].value == b"not \xff JSON"
    assert WireRecorder.load(path).messages[-1].value == "é\u2028\n"
    if not normalised:
        assert WireRecorder.load(path).messages == wire.messages
    path.write_text(path.read_text(encoding="utf-8").replace("counted", "uncounted"), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"(?s)--- .*conversation\.wire\n.*-.*uncounted"):
        wire.assert_conversation(path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("said:\n  {}\n", r"conversation, line 1: expected 'sent:' or 'received:', found 'said:'"),
        ("sent\n  {}\n", r"conversation, line 1: expected 'sent:' or 'received:', found 'sent'"),
        ("  {}\n", r"conversation, line 1: expected 'sent:' or 'received:', found ''"),
        ("# yes\n\nsent:\n  {}\nreceived:\n  {\n", r"conversation, line 5: the message below it is not JSON: "),
        ("sent:\nreceived:\n  {}\n", r"conversation, line 1: the message below it is not JSON: "),
    ],
)
def test_an_invalid_conversation_is_refused_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        WireRecorder.parse(text)


def test_a_string_without_messages_is_an_empty_conversation() -> None:
    assert len(WireRecorder.parse("# no messages\n")) == 0


async def test_messages_are_selected_by_method_direction_and_content() -> None:
    wire = WireRecorder()
    await converse(wire)

    calls = wire.select(method="tools/call")
    assert [message.direction for message in calls] == ["sent", "received", "sent", "received"]
    assert calls.received[-1]["error"]["code"] == -5
    assert [message.method for message in wire.select(direction="received")] == [
        None,
        *("notifications/progress",) * 2,
        *(None,) * 2,
    ]
    assert wire.select(method="tools/call", direction="sent", where=lambda value: value["id"] == 3).sent == [
        wire.messages[-2].value
    ]
    assert len(wire.select(method="tools/list")) == 0


def test_bytes_that_are_not_json_are_recorded_and_match_no_method() -> None:
    wire = record(("sent", b"\xff"), ("received", 7), ("received", {"id": [], "result": {}}), ("received", {}))

    assert wire.sent == [b"\xff"]
    assert wire.received == [7, {"id": [], "result": {}}, {}]
    assert len(wire.select(method="x")) == 0
    assert 'sent (not JSON):\n  "\\udcff"\n' in wire.text()


async def test_a_custom_rewrite_function_is_applied_after_the_normalisation() -> None:
    def without_progress(value: Any) -> Any:
        if value.get("method") == "notifications/progress":
            return None
        value["seen"] = True
        return value

    wire = WireRecorder(without_progress)
    await converse(wire)
    wire("sent", b"\xff")

    shown = WireRecorder.parse(wire.text())
    assert len(shown) == 8
    assert all(message.value["seen"] for message in shown.messages[:-1])
    assert "seen" not in wire.messages[0].value
    assert wire.select(method="initialize").rewrite is without_progress


async def test_the_messages_so_far_can_be_discarded() -> None:
    wire = WireRecorder()
    async with open_client(make_server(), tap=wire) as client:
        wire.clear()
        await client.list_tools()

    assert [message.method for message in wire] == ["tools/list", None]
