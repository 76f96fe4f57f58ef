"""A recorder of the messages of a connection. A test compares the conversation with an expected one, or saves it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

from attrs import define, field, frozen

from ..abc import Direction
from ..wire import (
    CLIENT_INFO_KEY,
    DEADLINE_KEY,
    PROGRESS_TOKEN_KEY,
    REVISION_KEY,
    SERVER_INFO_KEY,
    JsonObject,
    Undecodable,
    decode,
    is_array,
    is_object,
)

__all__ = ["Normaliser", "WireMessage", "WireRecorder", "parse_text", "render"]


# --- The text form of a conversation, and its normal form ---

_RAW = " (not JSON)"
_INDENT = "  "


def render(messages: Iterable[tuple[str, Any]]) -> str:
    """Return the text of messages, each given as direction and value; the value is `bytes` if it was not JSON."""
    return "\n".join(_paragraph(direction, value) for direction, value in messages)


def _paragraph(direction: str, value: Any) -> str:
    if isinstance(value, bytes):
        head, body = f"{direction}{_RAW}:", json.dumps(value.decode("utf-8", "surrogateescape"))
    else:
        head, body = f"{direction}:", json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return "".join(f"{line}\n" for line in (head, *(_INDENT + line for line in body.split("\n"))))


def parse_text(text: str, name: str) -> Iterator[tuple[Direction, Any]]:
    """Yield the messages of a text of `render`; raises `ValueError`, which names the invalid line."""
    head, begins, body = "", 1, list[str]()
    # The sentinel ends the last paragraph. JSON strings escape their line breaks, so every line break is of `render`.
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
    """The normal form of one conversation: it replaces, message by message, the values that differ between runs."""

    _numbers: dict[str, dict[str, int]] = field(factory=dict[str, dict[str, int]], init=False)
    """The number of each name that has appeared, by kind of name."""

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
        if type(name) is str and name.startswith(f"<{shown} "):  # from a normalised conversation
            return name
        return None if name is None else f"<{shown} {numbers.setdefault(key, len(numbers) + 1)}>"

    def _members(self, members: JsonObject, direction: Direction, other: Direction) -> JsonObject:
        """Return the members of params, of a result or of an error's data with their names replaced."""
        changed: JsonObject = {}
        for key, value in members.items():
            match key:
                case "requestId":
                    changed[key] = self._number(f"id {direction}", value, "id")
                case "progressToken":  # of progress, which is sent in the other direction than the request
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
        if DEADLINE_KEY in meta:
            changed[DEADLINE_KEY] = "<seconds>"
        for key in (CLIENT_INFO_KEY, SERVER_INFO_KEY):
            if key in meta:
                changed[key] = _without_version(meta[key])
        return changed


def _without_version(info: Any) -> Any:
    return {**info, "version": "<version>"} if is_object(info) and "version" in info else info


@frozen
class WireMessage:
    """One recorded message."""

    direction: Direction
    """Its direction, from the client's point of view."""
    value: Any
    """The JSON value, or the `bytes` of a message that is not JSON."""

    @property
    def method(self) -> str | None:
        """The method of a request or notification; None for a response."""
        return self.value.get("method") if is_object(self.value) else None


@define(eq=False)
class WireRecorder:  # noqa: PLW1641 # it changes
    """A recorder of every message of a client; pass it as the option `tap`.

    Two recorders are equal if their normalised conversations are; `assert_conversation` compares likewise and shows a
    diff. The normal form replaces request ids, progress tokens and cursors by their number in order of appearance,
    protocol revisions by ``<revision>``, the versions of client and server by ``<version>``, and deadlines by
    ``<seconds>``.

    A conversation as text (`text`, `save`, `load`) has one paragraph for each message: the direction and a colon, and
    the indented JSON below it. Lines that begin with ``#`` are comments. Example::

        wire = WireRecorder()
        async with open_memory_client(server, tap=wire) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
        wire.select(method="tools/call").assert_conversation(Path("call.wire"))

    Args:
        rewrite: takes a copy of each decoded message before it is compared or shown, and returns its replacement, for
            other values that differ between runs, such as times. None omits the message.
    """

    rewrite: Callable[[Any], Any] | None = None
    messages: list[WireMessage] = field(factory=list[WireMessage], init=False)
    """The messages so far, in order."""

    def __call__(self, direction: Direction, message: bytes) -> None:
        """Record a message. This method makes a recorder a tap."""
        try:
            self.messages.append(WireMessage(direction, decode(message)))
        except Undecodable:
            self.messages.append(WireMessage(direction, message))

    def __iter__(self) -> Iterator[WireMessage]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __eq__(self, other: object) -> bool:
        return self.text() == other.text() if isinstance(other, WireRecorder) else NotImplemented

    @property
    def sent(self) -> list[Any]:
        """The JSON values of the messages that the client sent."""
        return [message.value for message in self.messages if message.direction == "sent"]

    @property
    def received(self) -> list[Any]:
        """The JSON values of the messages that the client received."""
        return [message.value for message in self.messages if message.direction == "received"]

    def clear(self) -> None:
        """Discard the messages so far, such as those that opened the connection."""
        self.messages.clear()

    def select(
        self,
        *,
        direction: Direction | None = None,
        method: str | None = None,
        where: Callable[[Any], bool] | None = None,
    ) -> WireRecorder:
        """Return a recorder of the messages that match all given criteria.

        Args:
            direction: their direction.
            method: the method of a request or notification. A response matches if its request does.
            where: a predicate of the JSON value.
        """
        chosen = WireRecorder(self.rewrite)
        methods = self._methods()
        for message, of in zip(self.messages, methods, strict=True):
            fits = direction in (None, message.direction) and method in (None, of)
            if fits and (where is None or where(message.value)):
                chosen.messages.append(message)
        return chosen

    def _methods(self) -> Iterator[str | None]:
        """Yield the method of each message; for a response, that of its request."""
        methods: dict[tuple[Direction, str], str] = {}
        for message in self.messages:
            value = message.value
            if message.method is not None or not is_object(value):
                if is_object(value) and "id" in value:
                    methods[message.direction, json.dumps(value["id"])] = str(message.method)
                yield message.method
            else:
                requester: Direction = "received" if message.direction == "sent" else "sent"
                yield methods.get((requester, json.dumps(value.get("id"))))

    def text(self, *, normalised: bool = True) -> str:
        """Return the conversation as readable text.

        Args:
            normalised: replace the values that differ between runs.
        """
        return render(self._pairs(normalised=normalised))

    def _pairs(self, *, normalised: bool) -> Iterator[tuple[str, Any]]:
        normalise = Normaliser() if normalised else None
        for message in self.messages:
            value = message.value
            if normalise is not None and not isinstance(value, bytes):
                value = normalise(message.direction, value)
            if self.rewrite is not None and not isinstance(value, bytes):
                value = self.rewrite(json.loads(json.dumps(value)))
                if value is None:
                    continue
            yield message.direction, value

    def save(self, path: Path | str, *, normalised: bool = True) -> None:
        """Write the conversation to a text file in UTF-8, for comparison with later ones.

        Args:
            path: the file, which is replaced if it exists.
            normalised: True to write it as `text` does by default, False to keep the values that differ in each run.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(self.text(normalised=normalised), encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> WireRecorder:
        """Return the conversation in a file that `save` has written.

        Args:
            path: the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file has another format; the message names the line.
        """
        return cls.parse(Path(path).read_text(encoding="utf-8"), name=str(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "conversation") -> WireRecorder:
        """Return the conversation of a string that `text` returned.

        Args:
            text: the string.
            name: the name of the conversation in error messages.

        Raises:
            ValueError: the string has another format; the message names the line.
        """
        recorder = cls()
        recorder.messages += (WireMessage(direction, value) for direction, value in parse_text(text, name))
        return recorder

    def assert_conversation(self, expected: WireRecorder | Path | str) -> None:
        """Compare the conversation with the expected one.

        Args:
            expected: another recorder, the path of a file written by `save`, or the text of such a file.

        Raises:
            AssertionError: they differ; the message is a unified diff.
            OSError: the file cannot be read.
            ValueError: *expected* is not a conversation.
        """
        name = str(expected) if isinstance(expected, Path) else "expected"
        if isinstance(expected, Path):
            expected = self.load(expected)
        elif isinstance(expected, str):
            expected = self.parse(expected, name=name)
        # The saved conversation may already be normalised.
        expected_lines, lines = expected.text().splitlines(), self.text().splitlines()
        if expected_lines != lines:
            diff = difflib.unified_diff(expected_lines, lines, name, "the recorded conversation", lineterm="", n=6)
            raise AssertionError("\n".join(["the conversation differs from the expected one", *diff]))
