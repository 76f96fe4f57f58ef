"""The base class of all messages: equality, repr, markers and copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest

from trio_mcp import types
from trio_mcp.types._model import NO_EXTRA


def text(words: str = "hi", **more: object) -> types.TextContent:
    return types.TextContent(text=words, **more)  # type: ignore[arg-type]  # members by name, on purpose


def test_messages_with_equal_members_are_equal() -> None:
    assert text() == text()
    assert text() != text("ho")


def test_messages_of_different_types_are_not_equal() -> None:
    assert types.RequestParams() != types.NotificationParams()


def test_unknown_members_count_in_a_comparison() -> None:
    assert text(extra={"a": 1}) == text(extra={"a": 1})
    assert text(extra={"a": 1}) != text()


def test_an_empty_extra_equals_no_extra() -> None:
    assert text(extra={}) == text()


def test_a_repr_shows_only_members_that_are_set() -> None:
    assert repr(text()) == "TextContent(text='hi')"
    assert repr(text(extra={"a": 1})) == "TextContent(text='hi', extra={'a': 1})"
    assert repr(text(extra={})) == "TextContent(text='hi')"


def test_a_message_cannot_be_changed() -> None:
    message = text()

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        message.text = "ho"  # type: ignore[misc]  # the test assigns to it on purpose


def test_a_changed_copy_can_be_made() -> None:
    assert attrs.evolve(text(), text="ho") == text("ho")


def test_a_message_is_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(text())


def test_messages_support_keyword_patterns() -> None:
    match text():
        case types.TextContent(text=found):
            assert found == "hi"
        case _:
            pytest.fail("no match")


def pickled(message: types.CallToolResult) -> types.CallToolResult:
    twin = pickle.loads(pickle.dumps(message))
    assert isinstance(twin, types.CallToolResult)
    return twin


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, pickled])
def test_a_copy_of_a_message_is_equal_and_shares_the_markers(again: Any) -> None:
    message = types.CallToolResult(content=[text()])

    twin: types.CallToolResult = again(message)

    assert twin == message
    assert twin.structured_content is types.UNSET
    assert twin.extra is NO_EXTRA


def test_unset_is_false_and_its_repr_is_its_name() -> None:
    assert not types.UNSET
    assert repr(types.UNSET) == "UNSET"


def test_the_shared_empty_mapping_is_empty_and_read_only() -> None:
    assert dict(NO_EXTRA) == {}
    assert len(NO_EXTRA) == 0
    assert repr(NO_EXTRA) == "{}"
    assert "a" not in NO_EXTRA
    with pytest.raises(KeyError):
        NO_EXTRA["a"]
    with pytest.raises(TypeError):
        NO_EXTRA["a"] = 1  # type: ignore[index]  # the test assigns to it on purpose
