"""Schemas that no type can express, which are refused by name, and unusual ones that are accepted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codegen.emit import emit
from codegen.normalise import normalise
from codegen.project import ROOT, read_schemas
from codegen.shapes import RefusedError

NEXT = "2027-01-01"
STRING = {"type": "string"}


def with_members(members: dict[str, Any], definitions: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return all revisions and a new one, which adds members to `Tool`, and definitions."""
    earlier = read_schemas()
    newest = json.loads(json.dumps(earlier[-1]))
    newest["$defs"].update(definitions or {})
    newest["$defs"]["Tool"]["properties"].update(members)
    return [*earlier, normalise({"$defs": newest["$defs"], "hoisted": newest["hoisted"]}, NEXT)]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"enum": [1, 2]}, "Tool.odd: only strings and a constant integer can be single values, not 1"),
        (
            {"enum": ["a", None]},
            "Tool.odd: only strings and a constant integer can be single values, not None",
        ),
        (
            {"items": {"const": True}, "type": "array"},
            "only strings and a constant integer can be single values, not True",
        ),
        ({"anyOf": [STRING], "type": "string"}, "Tool.odd: anyOf beside other keywords cannot be expressed"),
        ({"$ref": "#/$defs/Role", "type": "string"}, "Tool.odd: a $ref beside other keywords cannot be expressed"),
        (
            {"items": {"minLength": 1, "type": "string"}, "type": "array"},
            "Tool.odd: minLength is only supported",
        ),
        (
            {"type": ["object", "string"], "properties": {}},
            "Tool.odd: members named for something that is not",
        ),
        ({"type": "object", "properties": {"x": STRING}, "required": ["y"]}, "requires a member 'y' that it does not"),
        ({"type": "object", "required": ["y"]}, "requires a member 'y' that it does not"),
        (
            {"type": "object", "properties": {"x": STRING}, "additionalProperties": STRING},
            "named members beside typed additionalProperties",
        ),
        ({"anyOf": [{"properties": {"x": STRING}}, {"properties": {"y": STRING}}]}, "holds several inline objects"),
        ({"allOf": [STRING, {"type": "object"}]}, "allOf of something that is not an object cannot be expressed"),
        (
            {"allOf": [{"properties": {"x": STRING}}, {"properties": {"x": {"type": "integer"}}}]},
            "Tool.odd.x: the parts of an allOf describe it differently",
        ),
        ({"type": "strin"}, "Tool.properties.odd.type is not a JSON Schema: "),
        ({"required": "x"}, "Tool.properties.odd.required is not a JSON Schema: "),
        (False, "Tool.odd: expected a schema, found False"),
    ],
)
def test_an_inexpressible_member_is_refused(schema: Any, sentence: str) -> None:
    with pytest.raises(RefusedError) as caught:
        emit(with_members({"odd": schema}))

    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"revision {NEXT}: Tool")


@pytest.mark.parametrize(
    ("definitions", "sentence"),
    [
        ({"Nest": {"anyOf": [STRING, {"items": {"$ref": "#/$defs/Nest"}, "type": "array"}]}}, "Nest contains itself"),
        (
            {"One": {"$ref": "#/$defs/Two"}, "Two": {"$ref": "#/$defs/One"}},
            "One contains itself, which only a class can",
        ),
        ({"Odd": {"anyOf": [{"properties": {"x": STRING}}, STRING]}}, "Odd holds an inline object that has no member"),
        ({"Odd": {"properties": {"x": STRING}, "anyOf": [{"required": ["x"]}]}}, "Odd: anyOf beside other keywords"),
        ({"Small": {"type": "integer", "maximum": 9}}, "Small: maximum is only supported directly on a member"),
        ({"Profile": {"properties": {"x": STRING}}}, "Profile is the name of something hand-written"),
        ({"odd": {"properties": {"x": STRING}}}, "odd: the class generator did not write the members of the schema"),
    ],
)
def test_an_inexpressible_definition_is_refused(definitions: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RefusedError) as caught:
        emit(with_members({}, definitions))

    assert sentence in str(caught.value)


UNUSUAL_MEMBERS: dict[str, Any] = {
    "from": STRING,
    "str": {"type": "integer"},
    "list": {"items": {"items": {"$ref": "#/$defs/Icon"}, "type": "array"}, "type": "array"},
    "least": {"type": ["integer", "null"], "minimum": 1},
    "anything": True,
    "open": {"anyOf": [{"const": "auto", "type": "string"}, STRING]},
    "tree": {"$ref": "#/$defs/Tree"},
    "either": {"anyOf": [{"items": STRING, "type": "array"}, {"items": {"type": "integer"}, "type": "array"}]},
    "nullable": {"anyOf": [{"$ref": "#/$defs/Icon"}, {"type": "null"}]},
}
UNUSUAL_DEFINITIONS: dict[str, Any] = {
    "Tree": {
        "description": 'Ends in a "quote"',
        "properties": {"leaf": {"type": "number"}, "twigs": {"items": {"$ref": "#/$defs/Tree"}, "type": "array"}},
        "type": "object",
    }
}
USES_THEM = f"""
from trio_mcp import types

value = {{
    "name": "x", "inputSchema": {{}}, "from": "here", "str": 1, "list": [[{{"src": "s"}}], []], "least": 2,
    "anything": None, "open": "any word", "tree": {{"twigs": [{{"leaf": 1}}, {{"twigs": []}}]}}, "either": [1, 2],
}}
tool = types.structure(value, types.Tool, revision="{NEXT}")
assert (tool.from_, tool.str, tool.list[0][0].src, tool.anything) == ("here", 1, "s", None), tool
assert tool.tree.twigs == [types.Tree(leaf=1), types.Tree(twigs=[])]
assert types.unstructure(tool, revision="{NEXT}") == value
try:
    types.structure({{**value, "either": [1, "a"], "least": 0, "from": 3}}, types.Tool, revision="{NEXT}")
except Exception as error:
    print(error)
deep = {{}}
for _ in range(100_000):
    deep = {{"twigs": [deep]}}
try:
    types.structure(deep, types.Tree)
except Exception as error:
    print(error)
"""


def test_unusual_but_expressible_schemas_are_generated(tmp_path: Path) -> None:
    package = tmp_path / "trio_mcp"
    shutil.copytree(
        ROOT / "src" / "trio_mcp" / "types", package / "types", ignore=shutil.ignore_patterns("__pycache__")
    )
    for module in ("_errors.py", "_facade.py", "_other_sdks.py"):
        shutil.copy(ROOT / "src" / "trio_mcp" / module, package)
    (package / "__init__.py").touch()
    for name, text in emit(with_members(UNUSUAL_MEMBERS, UNUSUAL_DEFINITIONS)).items():
        (package / "types" / name).write_text(text, "utf-8")

    # The environment of this process would make coverage mistake the copy for the package.
    environment = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", USES_THEM], env=environment, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == (
        "not a Tool: $.from: expected string, got integer; $.least: expected at least 1, got 0; "
        "$.either[1]: expected integer, got string"
    )
    assert second == "not a Tree: $: nested too deeply"
