"""Structuring and unstructuring random values of every class in every revision; inferred types; imported modules."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_mcp import types
from trio_mcp.types import Bounds
from trio_mcp.types._structure_hooks import members_of

CLASSES: list[type[types.Model]] = sorted(
    (
        each
        for name in dir(types)
        if isinstance(each := getattr(types, name), type) and issubclass(each, types.Model) and each is not types.Model
    ),
    key=lambda each: each.__name__,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
UNKNOWN = st.dictionaries(st.text(max_size=3).map(lambda text: f"x/{text}"), JSON, max_size=1)


def wire_value(kind: Any, revision: str | None, bounds: Bounds) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON values of a type, in the form of the wire."""
    origin = get_origin(kind)
    if origin is Literal:
        return st.sampled_from(get_args(kind))
    inner = [wire_value(each, revision, Bounds()) for each in get_args(kind)]
    if origin in {list, Sequence}:
        return st.lists(inner[0], max_size=2)
    if origin in {dict, Mapping}:
        return st.dictionaries(st.text(max_size=3), inner[1], max_size=2)
    if origin in {Union, UnionType}:
        return st.one_of(inner)
    if kind is float:
        return st.floats(bounds.minimum, bounds.maximum, allow_nan=False, allow_infinity=False).filter(math.isfinite)
    if isinstance(kind, type) and issubclass(kind, types.Model):
        return st.deferred(lambda: wire_object(kind, revision))
    simple = {Any: JSON, NoneType: st.none(), bool: st.booleans(), str: st.text(max_size=5)}
    return simple[kind] if kind is not int else st.integers(None if bounds.minimum is None else int(bounds.minimum))


def wire_object(cls: type[types.Model], revision: str | None) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON objects that a class accepts in a revision."""
    profile = types.SUPERSET if revision is None else types.PROFILES[revision]
    bounds = profile.bounds.get(cls.__name__, {})
    members = members_of(cls, profile)
    values = {each.wire: wire_value(each.kind, revision, bounds.get(each.wire, Bounds())) for each in members}
    required = {each.wire: values.pop(each.wire) for each in members if each.required}
    return st.tuples(st.fixed_dictionaries(required, optional=values), UNKNOWN).map(
        lambda parts: {**parts[1], **parts[0]}
    )


@pytest.mark.parametrize("revision", [None, *types.REVISIONS])
@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_structuring_and_unstructuring_a_value_returns_an_equal_value(
    revision: str | None, data: st.DataObject
) -> None:
    cls = data.draw(st.sampled_from(CLASSES))
    value = data.draw(wire_object(cls, revision))

    message = types.structure(value, cls, revision=revision)
    back = types.unstructure(message, revision=revision)

    assert back == value
    assert types.structure(back, cls, revision=revision) == message


def test_the_inferred_types_are_the_requested_ones() -> None:
    tool: types.Tool = types.structure({"name": "x", "inputSchema": {}}, types.Tool)
    again: types.Tool = types.structurer(types.Tool, "2025-06-18")(types.unstructurer(types.Tool)(tool))

    assert again == tool


def test_a_list_of_one_kind_of_block_is_a_list_of_blocks() -> None:
    texts = [types.TextContent(text="a")]

    assert types.CallToolResult(content=texts).content is texts


def test_importing_the_types_imports_no_trio_and_no_http() -> None:
    heavy = {"trio", "httpx2", "hypercorn", "h11", "msgspec", "jsonschema_rs", "anyio"}
    code = f"import sys, trio_mcp.types; print(sorted({heavy} & sys.modules.keys()))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
