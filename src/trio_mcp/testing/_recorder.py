"""What was said on a connection: recorded by a tap, compared with what should have been, kept in a file."""

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


# A conversation as text, and without what differs from run to run.

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


@frozen
class WireMessage:
    """One message that passed."""

    direction: Direction
    """Which way it went, seen from the client."""
    value: Any
    """The JSON value; `bytes` where it was none."""

    @property
    def method(self) -> str | None:
        """Of a request or a notification; None of a response."""
        return self.value.get("method") if is_object(self.value) else None


@define(eq=False)
class WireRecorder:  # noqa: PLW1641 # it changes
    """Remembers every message of a client: give it as the option `tap`.

    Two recorders are equal when their conversations are, once what differs from run to run is replaced; the same goes
    for `assert_conversation`, whose failure is a diff. Replaced are: ids of requests and progress tokens by their
    number in order of appearance, cursors likewise, protocol revisions by ``<revision>``, and the versions that client
    and server give of themselves by ``<version>``.

    A conversation as text (`text`, `save`, `load`) has one paragraph for each message: the direction and a colon, and
    the indented JSON below it. Lines that begin with ``#`` are comments. Example::

        wire = WireRecorder()
        async with open_memory_client(server, tap=wire) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
        wire.select(method="tools/call").assert_conversation(Path("call.wire"))

    Args:
        rewrite: is given each decoded message before it is compared or shown, and returns what to take for it: for
            what else differs from run to run, such as times. None leaves the message out. Its argument is a copy.
    """

    rewrite: Callable[[Any], Any] | None = None
    messages: list[WireMessage] = field(factory=list[WireMessage], init=False)
    """What has passed so far, in order."""

    def __call__(self, direction: Direction, message: bytes) -> None:
        """Remember a message; this is what makes a recorder a tap."""
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
        """Forget what has passed so far, such as the messages that opened the connection."""
        self.messages.clear()

    def select(
        self,
        *,
        direction: Direction | None = None,
        method: str | None = None,
        where: Callable[[Any], bool] | None = None,
    ) -> WireRecorder:
        """Return a recorder of the messages that fit all that is given.

        Args:
            direction: which way they went.
            method: of a request or a notification. A response fits if its request does.
            where: told the JSON value of each.
        """
        chosen = WireRecorder(self.rewrite)
        methods = self._methods()
        for message, of in zip(self.messages, methods, strict=True):
            fits = direction in (None, message.direction) and method in (None, of)
            if fits and (where is None or where(message.value)):
                chosen.messages.append(message)
        return chosen

    def _methods(self) -> Iterator[str | None]:
        """Yield the method of each message; of a response, its request's."""
        asked: dict[tuple[Direction, str], str] = {}
        for message in self.messages:
            value = message.value
            if message.method is not None or not is_object(value):
                if is_object(value) and "id" in value:
                    asked[message.direction, json.dumps(value["id"])] = str(message.method)
                yield message.method
            else:
                asker: Direction = "received" if message.direction == "sent" else "sent"
                yield asked.get((asker, json.dumps(value.get("id"))))

    def text(self, *, normalised: bool = True) -> str:
        """Return the conversation for people to read.

        Args:
            normalised: replace what differs from run to run.
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
        """Write the conversation to a text file, to be compared with later ones."""
        Path(path).write_text(self.text(normalised=normalised), encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> WireRecorder:
        """Return what a file that `save` wrote holds.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no such file; the message names the line.
        """
        return cls.parse(Path(path).read_text(encoding="utf-8"), name=str(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "conversation") -> WireRecorder:
        """Return the conversation that `text` shows; raises `ValueError` as `load` does."""
        recorder = cls()
        recorder.messages += (WireMessage(direction, value) for direction, value in parse_text(text, name))
        return recorder

    def assert_conversation(self, expected: WireRecorder | Path | str) -> None:
        """Compare what was said with what should have been.

        Args:
            expected: another recorder, the path of a file written by `save`, or such a file's text.

        Raises:
            AssertionError: they differ; its text is a unified diff.
            OSError: the file cannot be read.
            ValueError: *expected* is no conversation.
        """
        name = str(expected) if isinstance(expected, Path) else "expected"
        if isinstance(expected, Path):
            expected = self.load(expected)
        elif isinstance(expected, str):
            expected = self.parse(expected, name=name)
        # What is written down may be normalised already, or may not.
        wanted, told = expected.text().splitlines(), self.text().splitlines()
        if wanted != told:
            diff = difflib.unified_diff(wanted, told, name, "what was said", lineterm="", n=6)
            raise AssertionError("\n".join(["the conversation is not the expected one", *diff]))
