"""Tests of the exception tree: base classes, messages and copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import trio_mcp
from trio_mcp import _errors

EXAMPLES: list[tuple[_errors.TrioMcpError, str, dict[str, Any]]] = [
    (_errors.McpError(-5, "no", [1]), "no (-5)", {"code": -5, "message": "no", "data": [1]}),
    (_errors.McpError(-5, "no"), "no (-5)", {"data": None}),
    (_errors.ToolError("why"), "why", {}),
    (_errors.ToolFailed("add", "too big", {"r": 1}), "tool 'add' failed: too big", {"tool": "add", "result": {"r": 1}}),
    (_errors.ErrorResponse(7, "no"), "no (7)", {"code": 7, "message": "no", "data": None}),
    (_errors.RequestTimedOut("slow"), "slow", {}),
    (_errors.ResponseLost("cut"), "cut", {"sent": True}),
    (_errors.ResponseLost("refused", sent=False), "refused", {"sent": False}),
    (_errors.HttpStatusError(404), "HTTP status 404", {"status": 404, "text": ""}),
    (_errors.HttpStatusError(502, "bad gateway"), "HTTP status 502: bad gateway", {"status": 502}),
    (_errors.LocalProtocolError("ours"), "ours", {}),
    (_errors.RemoteProtocolError("theirs"), "theirs", {}),
    (_errors.StructureError("Tool", ["$.a: x", "$.b: y"]), "not a Tool: $.a: x; $.b: y", {"type_name": "Tool"}),
    (_errors.StructureError("Tool", ["$.a: x"]), "not a Tool: $.a: x", {"faults": ("$.a: x",)}),
    (
        _errors.UnexpectedResult("find", "list[Hit]", ["$.a: x", "$.b: y"], {"r": 1}),
        "the result of tool 'find' is not a list[Hit]: $.a: x; $.b: y",
        {"tool": "find", "type_name": "list[Hit]", "faults": ("$.a: x", "$.b: y"), "result": {"r": 1}},
    ),
    (_errors.MissingCapability("cannot", {"roots": {}}), "cannot", {"required": {"roots": {}}}),
    (
        _errors.UnsupportedRevision("a", ["b", "c"]),
        "no common protocol revision: this side asked for a, the peer offers b, c",
        {"requested": "a", "supported": ("b", "c")},
    ),
    (
        _errors.UnsupportedRevision("a", []),
        "no common protocol revision: this side asked for a, the peer offers no known revision",
        {"supported": ()},
    ),
    (_errors.ConnectionClosed("bye"), "bye", {}),
    (_errors.ConnectionBroken("gone"), "gone", {}),
    (_errors.ServerExited(3), "the server process exited with status 3", {"status": 3, "stderr_tail": ()}),
    (
        _errors.ServerExited(-9, ["one", "two"]),
        "the server process was killed by signal 9; the last lines of its standard error:\n    one\n    two",
        {"status": -9, "stderr_tail": ("one", "two")},
    ),
]

COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]


@pytest.mark.parametrize(("error", "text", "attributes"), EXAMPLES)
def test_every_error_has_its_message(error: _errors.TrioMcpError, text: str, attributes: dict[str, Any]) -> None:
    assert str(error) == text
    assert {name: getattr(error, name) for name in attributes} == attributes


@pytest.mark.parametrize(("error", "text", "attributes"), EXAMPLES)
@pytest.mark.parametrize("again", COPIES)
def test_a_copy_of_an_error_has_the_same_message_and_attributes(
    again: Any, error: _errors.TrioMcpError, text: str, attributes: dict[str, Any]
) -> None:
    copied = again(error)

    assert type(copied) is type(error)
    assert str(copied) == text
    assert {name: getattr(copied, name) for name in attributes} == attributes


def test_only_connection_errors_are_subclasses_of_connection_lost() -> None:
    lost = {type(error) for error, _, _ in EXAMPLES if isinstance(error, _errors.ConnectionLost)}

    assert lost == {_errors.ConnectionClosed, _errors.ConnectionBroken, _errors.ServerExited}
    assert issubclass(_errors.ServerExited, _errors.ConnectionBroken)
    assert not issubclass(_errors.ErrorResponse, _errors.McpError)
    assert not issubclass(_errors.RequestTimedOut, TimeoutError)


@pytest.mark.parametrize("name", _errors.__all__)
def test_every_error_is_in_the_tree_and_public(name: str) -> None:
    error = getattr(_errors, name)

    assert issubclass(error, _errors.TrioMcpError)
    assert getattr(trio_mcp, name) is error
    assert name in (_errors.__doc__ or "")
