"""Repairs of known mistakes in the upstream files. Each names the expected mistake, to notice an upstream fix."""

from __future__ import annotations

from typing import Any, NamedTuple

from codegen.shapes import Definitions, RefusedError, Schema, ref


class Repair(NamedTuple):
    """One mistake: its place, the wrong schema, and the correct one."""

    reason: str
    revisions: tuple[str, ...]
    """The revisions that must have the mistake; in others it is repaired if present."""
    path: tuple[str, ...]
    wrong: Any
    right: Any

    def apply(self, definitions: Definitions, revision: str) -> None:
        """Repair the mistake in place; repaired input stays unchanged.

        Raises:
            RefusedError: upstream has changed the place, so this repair must be reviewed.
        """
        *parents, last = self.path
        holder: Any = definitions
        for key in parents:
            holder = holder.get(key, {})
        found = holder.get(last)
        if found == self.wrong:
            # The parents are copied, because the parts of an `allOf` share them.
            self._write(definitions)
        elif found != self.right and revision in self.revisions:
            raise RefusedError(
                f"revision {revision}: {'.'.join(self.path)} is not the known mistake ({self.reason}) any more"
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
        revisions=("2025-06-18",),
        path=_CONTENT,
        wrong=_SCALARS_WRONG,
        right=_SCALARS_RIGHT,
    ),
    Repair(
        reason="schema.ts says number where schema.json says integer",
        revisions=("2025-11-25", "2026-07-28"),
        path=_CONTENT,
        wrong={"anyOf": [_STRINGS, _SCALARS_WRONG]},
        right={"anyOf": [_STRINGS, _SCALARS_RIGHT]},
    ),
    Repair(
        reason="schema.ts admits null and every number as a JSON value",
        revisions=("2026-07-28",),
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
        revisions=("2026-07-28",),
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
