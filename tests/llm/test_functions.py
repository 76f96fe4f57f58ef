"""Tools as functions for a language model."""

from __future__ import annotations

import hashlib
import random
import re

from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import types
from trio_mcp.llm import definition, function_names


def digest(tool: str, attempt: int = 0) -> str:
    return hashlib.sha256(f"{attempt}\0{tool}".encode()).hexdigest()[:8]


def test_a_tool_becomes_a_function_with_an_unchanged_schema() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "x-unheard-of": [1, None]}},
        "$defs": {"A": {"type": "integer"}},
        "additionalProperties": False,
    }
    tool = types.Tool(name="add", title="Adding", description="Add numbers.", input_schema=schema)

    assert definition("plus", tool) == {
        "type": "function",
        "function": {"name": "plus", "description": "Add numbers.", "parameters": schema},
    }


def test_a_title_replaces_a_missing_description() -> None:
    schema = {"type": "object"}

    titled = definition("x", types.Tool(name="x", title="What", input_schema=schema))["function"]
    bare = definition("x", types.Tool(name="x", input_schema=schema))["function"]

    assert titled == {"name": "x", "description": "What", "parameters": schema}
    assert bare == {"name": "x", "parameters": schema}


def test_valid_names_are_kept_and_invalid_ones_are_sanitized() -> None:
    names = ["add_1-x", "a" * 64, "files/read.all", "ü", ""]

    assert function_names(names) == {
        "add_1-x": "add_1-x",
        "a" * 64: "a" * 64,
        "files/read.all": "files_read_all",
        "ü": f"__{digest('ü')}",
        "": f"__{digest('')}",
    }


def test_sanitized_names_are_made_unique_and_valid_names_are_kept() -> None:
    assert function_names(["a.b", "a_b", "a/b", "c d"]) == {
        "a.b": f"a_b_{digest('a.b')}",
        "a_b": "a_b",
        "a/b": f"a_b_{digest('a/b')}",
        "c d": "c_d",
    }


def test_a_name_that_is_too_long_ends_in_a_digest() -> None:
    long = "x" * 65

    assert function_names([long]) == {long: f"{'x' * 55}_{digest(long)}"}


def test_a_digest_that_is_already_a_name_is_replaced() -> None:
    taken = f"a_b_{digest('a.b')}"

    assert function_names(["a.b", "a_b", taken])["a.b"] == f"a_b_{digest('a.b', 1)}"


@given(st.sets(st.text("ab._é", max_size=70), max_size=12), st.randoms(use_true_random=False))
def test_names_are_valid_and_unique_and_do_not_depend_on_the_order(tools: set[str], chance: random.Random) -> None:
    names = function_names(tools)
    shuffled = sorted(tools)
    chance.shuffle(shuffled)

    assert names.keys() == tools
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
    assert function_names(shuffled) == names
