"""Cursors of list pages: they are opaque, tamper-evident and, with custom keys, valid in other processes."""

from __future__ import annotations

import base64
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import McpError, Server
from trio_mcp.server.features import Cursors, check_keys

OLD, NEW = b"o" * 32, b"n" * 32


@given(st.integers(0, 2**63))
def test_a_cursor_is_read_back_as_its_position(position: int) -> None:
    cursors = Cursors((OLD,))

    assert cursors.read("tools/list", cursors.seal("tools/list", position)) == position


@given(st.data())
def test_a_cursor_with_a_changed_bit_is_refused(data: st.DataObject) -> None:
    cursors = Cursors((OLD,))
    sealed = bytearray(base64.urlsafe_b64decode(cursors.seal("tools/list", 7)))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8

    with pytest.raises(McpError, match=r"\$\.cursor: .* is not a cursor of 'tools/list'") as caught:
        cursors.read("tools/list", base64.urlsafe_b64encode(sealed).decode())
    assert caught.value.code == -32602


@pytest.mark.requirement("B.16-S1c")
@given(st.text())
def test_a_string_that_is_not_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(McpError):
        Cursors((OLD,)).read("tools/list", text)


@pytest.mark.requirement("B.16-S1b")
def test_a_cursor_of_another_list_is_refused() -> None:
    cursors = Cursors((OLD,))

    with pytest.raises(McpError, match="not a cursor of 'prompts/list'"):
        cursors.read("prompts/list", cursors.seal("tools/list", 7))


def test_keys_can_be_rotated() -> None:
    cursor = Cursors((OLD,)).seal("tools/list", 7)

    assert Cursors((NEW, OLD)).read("tools/list", cursor) == 7
    assert Cursors((NEW, OLD)).seal("tools/list", 7) == Cursors((NEW,)).seal("tools/list", 7) != cursor
    with pytest.raises(McpError):
        Cursors((NEW,)).read("tools/list", cursor)


def test_a_server_generates_a_key_by_default_and_refuses_short_keys() -> None:
    assert check_keys(()) != check_keys(())
    assert check_keys([OLD, NEW]) == (OLD, NEW)
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Server("s", keys=[os.urandom(15)])


@pytest.mark.parametrize("keys", [OLD, "o" * 32, ["o" * 32], [1]])
def test_keys_that_are_not_a_list_of_bytes_are_refused(keys: Any) -> None:
    with pytest.raises(TypeError, match="keys: must be a list of bytes"):
        Server("s", keys=keys)
