"""Names of extensions and of custom methods, and where capabilities keep extensions."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import types
from trio_mcp._extensions import (
    check_custom,
    check_extension_id,
    checked_settings,
    extensions_in,
    is_specified,
    with_named_extensions,
    with_plain_extensions,
)


@pytest.mark.requirement("D.1-P1")
@pytest.mark.parametrize("id", ["com.example/rooms", "io.modelcontextprotocol/tasks", "a/b", "a-1.b2/C_d.e-f", "a.b/1"])
def test_an_extension_id_has_a_prefix_and_a_name(id: str) -> None:
    check_extension_id(id)


@pytest.mark.requirement("D.1-P1")
@pytest.mark.parametrize(
    "id",
    [
        "rooms",
        "/rooms",
        "com.example/",
        "1a/b",
        "a-/b",
        "com..example/x",
        "a/b/c",
        "a/-b",
        "a/b-",
        "a b/c",
        "a/b\n",
        "",
    ],
)
def test_any_other_id_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match="must be a prefix and a name"):
        check_extension_id(id)


def test_settings_are_mappings_and_copied() -> None:
    given: dict[str, Any] = {"com.example/rooms": {"n": 1}}
    copied = checked_settings(given, "extensions")
    given["com.example/rooms"]["n"] = 2
    assert copied == {"com.example/rooms": {"n": 1}}
    with pytest.raises(TypeError, match=r"extensions\['com.example/rooms'\]: must be a mapping, not True; use {}"):
        checked_settings({"com.example/rooms": True}, "extensions")  # type: ignore[dict-item] # the invalid type is under test


def test_invalid_extensions_of_the_peer_are_ignored() -> None:
    assert extensions_in({"extensions": {"a/b": {"n": 1}, "a/c": True}}) == {"a/b": {"n": 1}}
    assert extensions_in({"extensions": [1]}) == {}
    assert extensions_in({}) == {}


@pytest.mark.parametrize("method", ["tools/call", "initialize", "server/discover", "elicitation/create", "ping"])
def test_methods_of_the_specification_cannot_be_custom_methods(method: str) -> None:
    assert is_specified(method)
    with pytest.raises(ValueError, match=f"method '{method}': defined by the specification"):
        check_custom(method, "method")


@pytest.mark.parametrize("method", ["", "rpc.discover"])
def test_invalid_method_names_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match=f"method {method!r}: not a valid name"):
        check_custom(method, "method")


@pytest.mark.parametrize("method", ["acme/search", "tasks/get", "tasks/cancel"])
def test_other_methods_can_be_defined(method: str) -> None:
    """The methods of tasks were an experiment of one revision and belong to an extension now."""
    check_custom(method, "method")


@pytest.mark.requirement("D.1-P1")
@pytest.mark.parametrize("revision", types.REVISIONS)
def test_extensions_are_encoded_and_decoded_in_every_revision(revision: str) -> None:
    extensions: dict[str, dict[str, Any]] = {"com.example/rooms": {}}
    ours = types.ServerCapabilities(extensions=extensions, extra={"more": 1})

    json = types.unstructure(with_plain_extensions(ours), revision=revision)
    theirs = with_named_extensions(types.structure(json, types.ServerCapabilities, revision=revision))

    assert json == {"extensions": extensions, "more": 1}
    assert theirs == ours


def test_capabilities_without_extensions_are_unchanged() -> None:
    none = types.ClientCapabilities()
    assert with_plain_extensions(none) is none
    assert with_named_extensions(none) is none
