"""Responses whose long members are passed on without being read: which are, and which are read as usual."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp.wire import JsonText, Reply, RequestId, decoded, encode_result, parse_reply

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


def test_a_value_that_is_no_text_is_decoded_already() -> None:
    value: Any = {"a": 1}
    assert decoded(value) is value


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
