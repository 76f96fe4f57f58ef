"""A server whose names, texts and schemas are as awkward as the protocol permits: `python nasty_server.py`."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp import Server, serve_stdio, types

server = Server('nas"""ty\\ 1-server', version="3\n\u202e")

EVIL = 'Quotes """ and \\ and \\N{x}\nimport os\x00\u202e"'
TREE: dict[str, Any] = {
    "$defs": {
        "Tree": {
            "title": "Tree",
            "description": EVIL,
            "type": "object",
            "properties": {
                "value": {"type": "number", "description": "The value."},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["value"],
        },
        "Json": {
            "anyOf": [
                {"type": ["string", "integer", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
            ]
        },
        "Itself": {"$ref": "#/$defs/Itself"},
        "Other": {"allOf": [{"$ref": "#/$defs/Tree"}, {"properties": {"name": {"type": "string"}}}]},
    },
}


def tool(name: str, schema: dict[str, Any], output: dict[str, Any] | None = None, description: str = EVIL) -> None:
    """Register a tool that returns its arguments."""

    async def echo(**arguments: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[], structured_content=arguments)

    server.tool(name=name, description=description, input_schema=schema, output_schema=output)(echo)


def with_members(*required: str, **members: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "properties": members, "required": [*required]}


tool("class", with_members("self", **{"self": {"type": "integer"}, "def": {"type": "string"}, "1-a b": True}))
tool("list", with_members(cast={"type": "array", "items": {"type": "string"}}, types={"type": "boolean"}))
tool(
    "a-b",
    with_members("x", x={"$ref": "#/$defs/Tree"}, y={"$ref": "#/$defs/Json"}, z={"$ref": "#/$defs/Itself"}) | TREE,
)
tool("a_b", with_members("x", x={"$ref": "#/$defs/Other"}, y={"$ref": "#/$defs/Json"}) | TREE)
tool("grow", with_members("value", value={"type": "number"}), {"$ref": "#/$defs/Tree"} | TREE)
tool("__init__", {"type": "object"}, {"type": "array", "items": {"enum": ["a", 'b"', 1, None, True]}})
tool(
    "defaults",
    with_members(
        count={"type": "integer", "default": 3},
        ratio={"type": "number", "default": 0.5},
        colour={"enum": ["red", "green"], "default": "red"},
        text={"type": "string", "default": None},
        maybe={"type": ["string", "null"], "default": None},
        items={"type": "array", "default": []},
        constant={"const": "fixed"},
        floats={"enum": [0.5, [], {}, None]},
        anything={"description": "Any value.\nTwo lines."},
    ),
    with_members(
        **{
            "list": {"type": "array", "items": {"type": "integer"}},
            "not a name": {"oneOf": [{"type": "string"}, with_members("deep", deep={"type": "string"})]},
            "__mangled": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        }
    ),
)
tool("open", {"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "object"})
tool("\u043d\u043e\u0447\u044c", with_members(never=False, whole={"$ref": "#"}))
tool("wrapped", {"type": "object"}, with_members("result", result={"type": "integer"}))
tool("Any", with_members("a", a={"allOf": [{"type": "string"}, {"minLength": 1}]}, A={"type": "null"}))


@server.prompt(name="class")
async def prompt(text: str, tone: str = "kind") -> str:
    """Write."""
    return f"{text} {tone}"


@server.resource("a://fixed")
async def fixed() -> str:
    """Return a text."""
    return "fixed"


@server.resource("a://{name}/{class_}")
async def pair(name: str, class_: str) -> str:
    """Return two values."""
    return f"{name} {class_}"


@server.resource("b://{+path}", allow_traversal=True)
async def path(path: str) -> str:
    """Return a path."""
    return path


if __name__ == "__main__":
    trio.run(serve_stdio, server)
