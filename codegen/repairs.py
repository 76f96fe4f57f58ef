"""Repairs of known mistakes in the upstream files. Each names the expected mistake, to notice an upstream fix."""

from __future__ import annotations

from typing import Any, NamedTuple

from codegen.choices import CORE_REVISION
from codegen.shapes import Definitions, RefusedError, Schema, name_in_core, ref, target


class Repair(NamedTuple):
    """One mistake: its place, the wrong schema, and the correct one."""

    reason: str
    files: tuple[str, ...]
    """The revisions and extensions that must have the mistake; in others it is repaired if present."""
    path: tuple[str, ...]
    wrong: Any
    right: Any

    def apply(self, definitions: Definitions, name: str, kind: str = "revision") -> None:
        """Repair the mistake in place; repaired input stays unchanged.

        Args:
            definitions: the definitions of a file.
            name: the revision, or the extension.
            kind: the word for it.

        Raises:
            RefusedError: upstream has changed the place, so this repair must be reviewed.
        """
        *parents, last = self.path
        holder: Any = definitions
        for key in parents:
            holder = holder.get(key, {})
        found = holder.get(last, {})
        # An object that was repaired before has a name now.
        found = definitions.get(target(found) or "", found)
        if found == self.wrong:
            # The parents are copied, because the parts of an `allOf` share them.
            self._write(definitions)
        elif found != self.right and name in self.files:
            raise RefusedError(
                f"{kind} {name}: {'.'.join(self.path)} is not the known mistake ({self.reason}) any more"
            )

    def _write(self, definitions: Definitions) -> None:
        holder: dict[str, Any] = definitions
        for key in self.path[:-1]:
            holder[key] = dict(holder[key])
            holder = holder[key]
        holder[self.path[-1]] = self.right


_CONTENT = ("ElicitResult", "properties", "content", "additionalProperties")
_SCALARS_WRONG: Schema = {"type": ["boolean", "integer", "string"]}
_SCALARS_RIGHT: Schema = {"type": ["boolean", "number", "string"]}
_STRINGS: Schema = {"items": {"type": "string"}, "type": "array"}

REPAIRS = (
    Repair(
        reason="schema.ts says number where schema.json says integer",
        files=("2025-06-18",),
        path=_CONTENT,
        wrong=_SCALARS_WRONG,
        right=_SCALARS_RIGHT,
    ),
    Repair(
        reason="schema.ts says number where schema.json says integer",
        files=("2025-11-25", "2026-07-28"),
        path=_CONTENT,
        wrong={"anyOf": [_STRINGS, _SCALARS_WRONG]},
        right={"anyOf": [_STRINGS, _SCALARS_RIGHT]},
    ),
    Repair(
        reason="schema.ts admits null and every number as a JSON value",
        files=("2026-07-28",),
        path=("JSONValue",),
        wrong={"anyOf": [ref("JSONObject"), {"items": ref("JSONValue"), "type": "array"}, _SCALARS_WRONG]},
        right={
            "anyOf": [
                ref("JSONObject"),
                {"items": ref("JSONValue"), "type": "array"},
                {"type": ["boolean", "null", "number", "string"]},
            ]
        },
    ),
    Repair(
        reason="a union of one is written out instead of referred to",
        files=("2026-07-28",),
        path=("ClientNotification",),
        wrong={
            "properties": {
                "jsonrpc": {"const": "2.0", "type": "string"},
                "method": {"const": "notifications/cancelled", "type": "string"},
                "params": ref("CancelledNotificationParams"),
            },
            "required": ["jsonrpc", "method", "params"],
            "type": "object",
        },
        right={"anyOf": [ref("CancelledNotification")]},
    ),
)

_NUMBER: Schema = {"type": "number"}


def _dimensions(*members: str) -> Schema:
    required = [name for name in members if not name.startswith("max")]
    schema: Schema = {"properties": dict.fromkeys(members, _NUMBER), "type": "object"}
    return {**schema, "required": required} if required else schema


EXTENSION_REPAIRS = (
    Repair(
        reason="upstream closes both halves of an intersection, which then admits no dimension",
        files=("apps",),
        path=("McpUiHostContext", "properties", "containerDimensions"),
        wrong={
            "anyOf": [
                _dimensions("height", "width"),
                _dimensions("height", "maxWidth"),
                _dimensions("maxHeight", "width"),
                _dimensions("maxHeight", "maxWidth"),
            ]
        },
        right={"properties": dict.fromkeys(("height", "maxHeight", "maxWidth", "width"), _NUMBER), "type": "object"},
    ),
    Repair(
        reason="the result of a tool is written out without the members that only one revision has",
        files=("apps",),
        path=("McpUiToolResultNotification", "properties", "params"),
        wrong={
            "properties": {
                "_meta": ref(name_in_core(CORE_REVISION, "ResultMetaObject")),
                "content": {"items": ref(name_in_core(CORE_REVISION, "ContentBlock")), "type": "array"},
                "isError": {"type": "boolean"},
                "structuredContent": {},
            },
            "required": ["content"],
            "type": "object",
        },
        right=ref(name_in_core(CORE_REVISION, "CallToolResult")),
    ),
)
"""Mistakes that are repaired after copies were recognised, because a file that inlines its types repeats them."""
