"""The four public functions of the converter: structuring, unstructuring, and refusals."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import suppress
from typing import Any, assert_type

import pytest

from trio_mcp import StructureError, types
from trio_mcp.types import structure, structurer, unstructure, unstructurer

TOOL: dict[str, Any] = {"name": "x", "inputSchema": {"type": "object"}}


def faults(value: Any, cls: Any, revision: str | None = None) -> tuple[str, ...]:
    with pytest.raises(StructureError) as caught:
        structure(value, cls, revision=revision)
    return caught.value.faults


def test_a_message_is_structured_and_unstructured() -> None:
    tool = assert_type(structure(TOOL, types.Tool), types.Tool)

    assert tool == types.Tool(name="x", input_schema={"type": "object"})
    assert unstructure(tool) == TOOL


def test_the_functions_for_hot_paths_give_the_same_results() -> None:
    tool = assert_type(structurer(types.Tool)(TOOL), types.Tool)

    assert tool == structure(TOOL, types.Tool)
    assert unstructurer(types.Tool)(tool) == TOOL
    assert structurer(types.Tool) is structurer(types.Tool)


@pytest.mark.parametrize("revision", [None, *types.REVISIONS])
def test_every_revision_has_its_own_converter(revision: str | None) -> None:
    assert structurer(types.Tool, revision)(TOOL) == types.Tool(name="x", input_schema={"type": "object"})
    assert unstructurer(types.Tool, revision)(types.Tool(name="x", input_schema={"type": "object"})) == TOOL


def test_a_union_is_accepted_in_place_of_a_class() -> None:
    block = structure({"type": "text", "text": "hi"}, types.ContentBlock)

    assert block == types.TextContent(text="hi")
    assert unstructurer(types.ContentBlock)(block) == {"type": "text", "text": "hi"}


def test_lists_and_maps_of_messages_are_accepted_in_place_of_a_class() -> None:
    tools = structure([TOOL], list[types.Tool])

    assert unstructure(tools) == [TOOL]
    assert unstructure({"mine": tools[0]}) == {"mine": TOOL}
    assert unstructurer(types.JSONObject)({"a": 1}) == {"a": 1}


def test_an_unknown_revision_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown protocol revision '1999-01-01'; known are 2024-11-05, "):
        structure(TOOL, types.Tool, revision="1999-01-01")
    with pytest.raises(ValueError, match="1999-01-01"):
        unstructure(types.Tool(name="x", input_schema={}), revision="1999-01-01")
    with pytest.raises(ValueError, match="1999-01-01"):
        structurer(types.Tool, "1999-01-01")
    with pytest.raises(ValueError, match="1999-01-01"):
        unstructurer(types.Tool, "1999-01-01")


def test_the_error_names_the_type_and_every_fault_by_its_path() -> None:
    value = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": 3}},
            {"role": "user", "content": {"type": "text", "text": "fine"}},
            {"role": "nobody", "content": 5},
        ],
        "description": [],
    }

    with pytest.raises(StructureError) as caught:
        structure(value, types.GetPromptResult)

    assert caught.value.type_name == "GetPromptResult"
    assert caught.value.faults == (
        "$.messages[0].content.text: expected string, got integer",
        "$.messages[2].role: expected one of 'assistant', 'user', got 'nobody'",
        "$.messages[2].content: expected object, got integer",
        "$.description: expected string, got array",
    )


def test_the_error_of_a_union_names_its_arms() -> None:
    with pytest.raises(StructureError, match=r"^not a TextResourceContents \| BlobResourceContents: \$: expected"):
        structure(3, types.TextResourceContents | types.BlobResourceContents)


@pytest.mark.parametrize(
    ("value", "cls"),
    [
        ({"content": [{"type": "text", "text": "hi"}]}, types.CallToolResult),
        ({"content": [{"type": "text", "text": 3}]}, types.CallToolResult),
        ({"content": [{"type": "hologram"}, {}]}, types.CallToolResult),
        ({}, types.CallToolResult),
        ({"uri": "u", "blob": 3}, types.TextResourceContents | types.BlobResourceContents),
    ],
)
def test_neither_a_message_nor_a_refusal_creates_reference_cycles(value: Any, cls: Any) -> None:
    hook = structurer(cls)
    with suppress(StructureError):
        hook(value)
    gc.collect()
    gc.disable()
    try:
        with suppress(StructureError):
            unstructure(hook(value))
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_value_nested_beyond_the_recursion_limit_is_refused() -> None:
    value: dict[str, Any] = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
    hook = structurer(types.GetPromptResult)
    hook(value)

    def call_at_depth(depth: int) -> Any:
        return call_at_depth(depth - 1) if depth else hook(value)

    outcomes: list[str] = []
    for depth in range(sys.getrecursionlimit()):
        try:
            call_at_depth(depth)
        except StructureError as error:
            outcomes.append(str(error))
        except RecursionError:
            break

    assert outcomes
    assert set(outcomes) == {"not a GetPromptResult: $: nested too deeply"}


def test_free_json_of_the_user_may_be_nested_to_any_depth() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"deeper": deep}

    params = structure({"name": "x", "arguments": deep}, types.CallToolRequestParams)

    assert params.arguments is deep
    assert unstructurer(types.CallToolRequestParams)(params)["arguments"] is deep
    while deep:  # taken apart level by level, because freeing it at once would recurse
        deep = deep.pop("deeper")


def test_many_threads_may_use_a_type_for_the_first_time_at_once() -> None:
    program = """
import sys, threading
from trio_mcp import types

value = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
sys.setswitchinterval(1e-6)
start = threading.Barrier(8)
results = []

def work():
    start.wait()
    message = types.structure(value, types.GetPromptResult, revision="2025-06-18")
    results.append(types.unstructure(message, revision="2025-06-18") == value)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert results == [True] * 8, results
"""
    subprocess.run([sys.executable, "-c", program], check=True)
