"""A hostile MCP server over stdio: its output schemas are made to take long, and its values fit to them.

It speaks a legacy revision, without the package: the package would refuse to serve such schemas.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

__all__ = ["TOOLS", "answers"]

Json: TypeAlias = dict[str, Any]

_REVISION = "2025-11-25"


def _chain(levels: int, inner: Mapping[str, Any]) -> Json:
    """Return a schema of definitions of which each refers twice to the one before, below `anyOf` and `not`."""
    definitions: Json = {"d0": inner}
    for level in range(1, levels):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"anyOf": [{"not": below}, {"not": {"not": below}}, below]}
    return {"$defs": definitions, "type": "object", "properties": {"x": {"$ref": f"#/$defs/d{levels - 1}"}}}


def _nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value, value] if levels < 12 else [value]
    return value


_ITSELF = {"$ref": "#/$defs/itself"}
TOOLS: Mapping[str, tuple[Json, Json]] = {
    "hostile_chain_14": (_chain(14, {"type": "integer"}), {"x": "no"}),
    "hostile_chain_40": (_chain(40, {"type": "integer"}), {"x": "no"}),
    "hostile_recursion": (
        {
            "$defs": {
                "itself": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"allOf": [_ITSELF, _ITSELF]}}]}
            },
            "type": "object",
            "properties": {"x": _ITSELF},
        },
        {"x": _nested(60)},
    ),
    "hostile_pattern": (
        {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}},
        {"x": "a" * 5_000},
    ),
    "hostile_alternatives": (
        {
            "type": "object",
            "properties": {"x": {"type": "array", "items": {"oneOf": [{"const": str(n)} for n in range(500)]}}},
        },
        {"x": ["no"] * 5_000},
    ),
    "hostile_unique": (
        {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}},
        {"x": [{"a": [n]} for n in range(20_000)]},
    ),
}
"""By name, the output schema of each tool and its value."""


def answers(message: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the response to a message, if it is a request."""
    if "id" not in message:
        return
    envelope: Json = {"jsonrpc": "2.0", "id": message["id"]}
    match message.get("method"):
        case "initialize":
            info = {"name": "hostile", "version": "1"}
            yield {
                **envelope,
                "result": {"protocolVersion": _REVISION, "capabilities": {"tools": {}}, "serverInfo": info},
            }
        case "tools/list":
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema}
                for name, (schema, _) in TOOLS.items()
            ]
            yield {**envelope, "result": {"tools": tools}}
        case "tools/call":
            _, value = TOOLS[message["params"]["name"]]
            yield {**envelope, "result": {"content": [], "structuredContent": value}}
        case _:
            yield {**envelope, "error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        for answer in answers(json.loads(line)):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
