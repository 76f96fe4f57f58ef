"""Responses whose long members are passed on without being read: which are, and which are read as usual."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trio_mcp.wire import (
    JsonText,
    Reply,
    RequestId,
    decode,
    decoded,
    encode,
    encode_result,
    encode_result_in_pieces,
    parse_reply,
)

LONG = "x" * 5000
LINE = encode_result(1, {"content": [LONG], "isError": False})


def keep(_: RequestId) -> bool:
    return True


def test_long_members_of_a_result_are_text_and_short_ones_are_read() -> None:
    reply = parse_reply(LINE, keep)

    assert isinstance(reply, Reply)
    assert isinstance(reply.result["content"], JsonText)
    assert reply.result["isError"] is False
    assert decoded(reply.result["content"]) == [LONG]
    assert encode_result(1, reply.result) == LINE


def test_long_members_of_the_blocks_of_a_call_are_text() -> None:
    block = {"type": "image", "data": LONG, "mimeType": "image/png"}
    members = {"content": [block, {"type": "text", "text": "a"}], "structuredContent": {"a": LONG}, "_meta": {"b": 1}}
    line = encode_result(1, {**members, "isError": False, "resultType": "complete"})
    reply = parse_reply(line, keep)

    assert isinstance(reply, Reply)
    (image, text), structured = reply.result["content"], reply.result["structuredContent"]
    assert isinstance(image["data"], JsonText)
    assert (image["type"], image["mimeType"], text) == ("image", "image/png", {"type": "text", "text": "a"})
    assert isinstance(structured, JsonText)
    assert (reply.result["isError"], reply.result["_meta"]) == (False, {"b": 1})
    assert {name: decoded(reply.result[name]) for name in members} == members
    assert decode(encode_result(1, reply.result)) == decode(line)


HUGE = "x" * 70_000


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"content": [{"type": "text", "text": HUGE}], "isError": False}, id="a text"),
        pytest.param({"content": [{"type": "image", "data": HUGE, "mimeType": "a/b"}] * 2}, id="two images"),
        pytest.param({"content": [], "structuredContent": {"a": HUGE}, "_meta": {"b": HUGE}}, id="other members"),
        pytest.param({"contents": [{"uri": "a:b", "text": HUGE}]}, id="a resource"),
    ],
)
def test_a_result_with_long_texts_is_written_in_pieces(result: dict[str, Any]) -> None:
    reply = parse_reply(encode_result(1, result), keep)
    assert isinstance(reply, Reply)

    pieces = encode_result_in_pieces("other", reply.result)
    assert pieces is not None
    assert b"".join(pieces) == encode_result("other", result)
    assert sum(isinstance(piece, memoryview) for piece in pieces) == len(pieces) // 2 > 0


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"content": [{"text": LONG}, None]}, id="no long text"),
        pytest.param({"content": [{"text": JsonText(encode(LONG))}]}, id="a text that is not long enough"),
        pytest.param({"a": JsonText(encode(HUGE)), "b": math.nan}, id="no JSON"),
    ],
)
def test_other_results_are_not_written_in_pieces(result: dict[str, Any]) -> None:
    assert encode_result_in_pieces(1, result) is None


def test_many_small_blocks_are_one_text() -> None:
    line = encode_result(1, {"content": [{"type": "text", "text": "a"}] * 5000})
    reply = parse_reply(line, keep)

    assert isinstance(reply, Reply)
    assert isinstance(reply.result["content"], JsonText)


@pytest.mark.parametrize("value", [1, "a", {"a": [1, {"b": None}]}, [1, {"b": None}]])
def test_a_value_without_text_is_decoded_already(value: Any) -> None:
    assert decoded(value) == value


def test_characters_outside_of_ascii_are_checked() -> None:
    line = encode_result(1, {"content": "é" * 5000})
    assert parse_reply(line, keep) is not None
    assert parse_reply(line.replace("é".encode(), b"\xe9"), keep) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a/b","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":[]}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":}}',
        b"[]",
    ],
)
def test_other_messages_are_read_as_usual(line: bytes) -> None:
    assert parse_reply(line, keep) is None


def test_a_result_is_read_as_usual_unless_its_request_keeps_text() -> None:
    assert parse_reply(LINE, lambda _: False) is None
