"""A conversation as text, and without what differs from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast, get_args

from attrs import define, field

from ..abc import Direction
from ..wire import CLIENT_INFO_KEY, PROGRESS_TOKEN_KEY, REVISION_KEY, SERVER_INFO_KEY, JsonObject, is_array, is_object

__all__ = ["Normaliser", "parse_text", "render"]

_RAW = " (not JSON)"
_INDENT = "  "


def render(messages: Iterable[tuple[str, Any]]) -> str:
    """Return the text of messages, each given as direction and value; `bytes` are what was no JSON."""
    return "\n".join(_paragraph(direction, value) for direction, value in messages)


def _paragraph(direction: str, value: Any) -> str:
    if isinstance(value, bytes):
        head, body = f"{direction}{_RAW}:", json.dumps(value.decode("utf-8", "surrogateescape"))
    else:
        head, body = f"{direction}:", json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return "".join(f"{line}\n" for line in (head, *(_INDENT + line for line in body.split("\n"))))


def parse_text(text: str, name: str) -> Iterator[tuple[Direction, Any]]:
    """Yield the messages of a text that `render` made; raises `ValueError` naming the line that is wrong."""
    head, begins, body = "", 1, list[str]()
    # The sentinel ends the last paragraph. A JSON text has no line break but ours: those in strings are escaped.
    for number, line in enumerate([*text.split("\n"), "sent:"], 1):
        if line.startswith(("#", _INDENT)) or not line.strip():
            if line.startswith(_INDENT):
                body.append(line)
            continue
        if head or body:
            yield _message(head, body, f"{name}, line {begins}")
        head, begins, body = line.rstrip(), number, []


def _message(head: str, body: list[str], where: str) -> tuple[Direction, Any]:
    direction, raw = head.removesuffix(":").removesuffix(_RAW), head.endswith(f"{_RAW}:")
    if direction not in get_args(Direction) or not head.endswith(":"):
        raise ValueError(f"{where}: expected 'sent:' or 'received:', found {head!r}")
    try:
        value = json.loads("\n".join(body))
    except ValueError as exc:
        raise ValueError(f"{where}: the message below it is not JSON: {exc}") from None
    if raw:
        return cast("Direction", direction), str(value).encode("utf-8", "surrogateescape")
    return cast("Direction", direction), value


@define(eq=False)
class Normaliser:
    """Replaces what differs from run to run, in one conversation, message by message."""

    _numbers: dict[str, dict[str, int]] = field(factory=dict[str, dict[str, int]], init=False)
    """For each kind of name, the number of each that has appeared."""

    def __call__(self, direction: Direction, value: Any) -> Any:
        """Return a message with its names replaced; batches message by message."""
        if is_array(value):
            return [self(direction, each) for each in value]
        if not is_object(value):
            return value
        other: Direction = "received" if direction == "sent" else "sent"
        normalised: JsonObject = dict(value)
        if "id" in value:  # each side numbers its own requests
            normalised["id"] = self._number(f"id {direction if 'method' in value else other}", value["id"], "id")
        for member in ("params", "result"):
            if is_object(value.get(member)):
                normalised[member] = self._members(value[member], direction, other)
        error = value.get("error")
        if is_object(error) and is_object(error.get("data")):
            normalised["error"] = {**error, "data": self._members(error["data"], direction, other)}
        return normalised

    def _number(self, kind: str, name: Any, shown: str) -> Any:
        numbers, key = self._numbers.setdefault(kind, {}), json.dumps(name)
        if type(name) is str and name.startswith(f"<{shown} "):  # of a conversation that was normalised before
            return name
        return None if name is None else f"<{shown} {numbers.setdefault(key, len(numbers) + 1)}>"

    def _members(self, members: JsonObject, direction: Direction, other: Direction) -> JsonObject:
        """Return the members of params, of a result or of an error's data, with the names among them replaced."""
        changed: JsonObject = {}
        for key, value in members.items():
            match key:
                case "requestId":
                    changed[key] = self._number(f"id {direction}", value, "id")
                case "progressToken":  # in progress, which goes the other way than the request did
                    changed[key] = self._number(f"token {other}", value, "token")
                case "cursor" | "nextCursor":
                    changed[key] = self._number("cursor", value, "cursor")
                case "protocolVersion" | "requested":
                    changed[key] = "<revision>"
                case "supportedVersions" | "supported":
                    changed[key] = "<revisions>"
                case "clientInfo" | "serverInfo":
                    changed[key] = _without_version(value)
                case "_meta" if is_object(value):
                    changed[key] = self._meta(value, direction)
                case _:
                    changed[key] = value
        return changed

    def _meta(self, meta: JsonObject, direction: Direction) -> JsonObject:
        changed = dict(meta)
        if PROGRESS_TOKEN_KEY in meta:
            changed[PROGRESS_TOKEN_KEY] = self._number(f"token {direction}", meta[PROGRESS_TOKEN_KEY], "token")
        if REVISION_KEY in meta:
            changed[REVISION_KEY] = "<revision>"
        for key in (CLIENT_INFO_KEY, SERVER_INFO_KEY):
            if key in meta:
                changed[key] = _without_version(meta[key])
        return changed


def _without_version(info: Any) -> Any:
    return {**info, "version": "<version>"} if is_object(info) and "version" in info else info
