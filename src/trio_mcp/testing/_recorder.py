"""What was said on a connection: recorded by a tap, compared with what should have been, kept in a file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ..abc import Direction
from ..wire import Undecodable, decode, is_object
from ._conversation import Normaliser, parse_text, render

__all__ = ["WireMessage", "WireRecorder"]


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
