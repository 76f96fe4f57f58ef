"""Questions of the server, asked on the terminal field by field, with a way out at every step.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, Final, Literal, TextIO
from urllib.parse import urlsplit

import trio
from attrs import define, field, frozen

from .. import types
from .._user_types import value_from_text
from ..client import OnElicit
from ..schema import SchemaError, compile_schema
from ..wire import is_array, is_object
from ._output import Notes, json_line

__all__ = ["LEFT_OUT", "Choice", "Field", "can_ask", "fields_of", "questions"]


# One field of a form a server wants filled in: how it is described to a person, and what a typed line means in it.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation

LEFT_OUT: Final = types.UNSET
"""The value of a field that is not in the answer."""

_EMPTY_TEXT = '""'
_TRUE, _FALSE = ("y", "yes", "true"), ("n", "no", "false")


@frozen
class Choice:
    """One of the values that a field may have."""

    value: str
    title: str


@frozen
class Field:
    """A field of a form."""

    name: str
    schema: types.JSONObject
    is_required: bool
    choices: Sequence[Choice] = ()
    takes_several: bool = False

    @property
    def default(self) -> Any:
        """What the server proposes; `LEFT_OUT` where it proposes nothing that would fit."""
        default = self.schema.get("default", LEFT_OUT)
        return default if default is LEFT_OUT or not self._faults(default) else LEFT_OUT

    def description(self) -> str:
        """Return what a person should know, on one line and one more for each choice."""
        title, words = self.schema.get("title"), self.schema.get("description")
        named = f"{title} ({self.name})" if isinstance(title, str) else self.name
        head = f"{named}: {words}" if isinstance(words, str) else named
        lines = [f"{head} [{', '.join(self._conditions())}]"]
        lines += [f"  {number}) {choice.title}" for number, choice in enumerate(self.choices, 1)]
        return "\n".join(lines)

    def _conditions(self) -> Iterator[str]:
        kind = self.schema.get("type")
        if self.takes_several:
            yield "several of these, between commas"
        elif self.choices:
            yield "one of these"
        else:
            yield {"string": "text", "boolean": "yes or no"}.get(str(kind), str(kind))
        for name, words in _LIMITS.items():
            if name in self.schema:
                yield f"{words}{self.schema[name]}"
        yield "required" if self.is_required else "may be left out"

    def shown(self, value: Any) -> str:
        """Return a value as a person would type it, or be shown it."""
        if is_array(value):
            return ", ".join(map(str, value))
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value if isinstance(value, str) else json_line(value)

    def value_of(self, line: str) -> Any:
        """Return the value that a typed line means; `LEFT_OUT` for an empty one, where that is allowed.

        Raises:
            ValueError: it means none; the text says why.
        """
        text = line.strip()
        if not text:
            if self.default is not LEFT_OUT or not self.is_required:
                return self.default
            if not self.takes_several:
                raise ValueError("a value is required")
        value = self._read(text)
        if faults := self._faults(value):
            raise ValueError("; ".join(fault.removeprefix("$: ") for fault in faults))
        return value

    def _read(self, text: str) -> Any:
        if self.takes_several:
            return list(dict.fromkeys(self._chosen(part.strip()) for part in text.split(",") if part.strip()))
        if self.choices:
            return self._chosen(text)
        if self.schema.get("type") == "boolean":
            return _yes_or_no(text)
        if self.schema.get("type") == "string" and text == _EMPTY_TEXT:
            return ""
        return value_from_text(text, self.schema, self.schema)

    def _chosen(self, text: str) -> str:
        for number, choice in enumerate(self.choices, 1):
            if text == str(number):
                return choice.value
        for choice in self.choices:
            if text.lower() in {choice.value.lower(), choice.title.lower()}:
                return choice.value
        raise ValueError(f"{text!r} is none of them: type a number from 1 to {len(self.choices)}")

    def _faults(self, value: Any) -> list[str]:
        try:
            return compile_schema(self.schema).faults(value)
        except SchemaError:  # the server will have to check by itself what it has asked for
            return []


_LIMITS: Mapping[str, str] = {
    "format": "",
    "minimum": "at least ",
    "maximum": "at most ",
    "minLength": "characters at least ",
    "maxLength": "characters at most ",
    "minItems": "choose at least ",
    "maxItems": "choose at most ",
}


def _yes_or_no(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError("expected yes or no")


def fields_of(form: types.ElicitRequestedSchema) -> list[Field]:
    """Return the fields of a form, in its order."""
    required = form.required or ()
    return [_field(name, types.unstructure(field), name in required) for name, field in form.properties.items()]


def _field(name: str, schema: types.JSONObject, is_required: bool) -> Field:
    items = schema.get("items")
    several = is_object(items)
    return Field(name, schema, is_required, list(_choices(items if is_object(items) else schema)), several)


def _choices(schema: types.JSONObject) -> Iterator[Choice]:
    """Yield the choices, in whichever of the five ways a revision writes them."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if titled is not None:
        yield from (Choice(each["const"], each["title"]) for each in titled)
        return
    values: list[str] = schema.get("enum", [])
    titles: list[str] = schema.get("enumNames", values)
    for value, title in zip_longest(values, titles[: len(values)]):
        yield Choice(value, title or value)


_WAYS_OUT = "(Enter takes what stands in brackets, /skip leaves out, /decline refuses, /cancel or Ctrl+D dismisses)"

Action = Literal["accept", "decline", "cancel"]


def can_ask() -> bool:
    """Say whether there is a person to ask: at standard input, and seeing standard error."""
    return os.name == "posix" and _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None where it is closed


def questions(notes: Notes) -> OnElicit:
    """Return what asks the person at the terminal, one question at a time."""
    keyboard = _Keyboard(sys.stdin.fileno())

    async def ask(request: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
        async with notes.floor:
            keyboard.forget()
            with notes.bar_hidden():
                try:
                    if isinstance(request, types.ElicitRequestURLParams):
                        return await _Form(notes, keyboard, [], "I will visit it").ask(_visit(request))
                    return await _Form(notes, keyboard, fields_of(request.requested_schema)).ask(request.message)
                except trio.Cancelled:
                    notes.say("\n(the question is withdrawn)")
                    raise

    return ask


@define(eq=False)
class _Keyboard:
    """Lines of a terminal. No thread reads them: it could not be stopped, and would keep the next line for itself."""

    _descriptor: int
    _unread: bytes = field(default=b"", init=False)

    def forget(self) -> None:
        """Drop what was typed so far: nobody agrees to a question that is not on the screen yet."""
        import termios  # noqa: PLC0415 # there is none on Windows, where nobody is asked

        self._unread = b""
        with suppress(termios.error):  # the terminal is gone, and reading from it will tell
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """Wait for a line; None for Ctrl+D."""
        while b"\n" not in self._unread:
            await trio.lowlevel.wait_readable(self._descriptor)
            chunk = os.read(self._descriptor, 4096)
            if not chunk:
                return None
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")


class _WayOut(Exception):
    """The person does not answer the question."""

    def __init__(self, action: Action) -> None:
        super().__init__(action)
        self.action: Action = action


@define(eq=False)
class _Form:
    """One question and its fields."""

    _notes: Notes
    _keyboard: _Keyboard
    _fields: list[Field]
    _consent: str = "Agree"
    """What is asked for where there are no fields."""
    _answers: dict[str, Any] = field(factory=dict[str, Any], init=False)

    async def ask(self, message: str) -> types.ElicitResult:
        """Ask until there is an answer the person wants to send."""
        self._notes.say("\nThe server asks: " + message.replace("\n", "\n    "))
        if self._fields:
            self._notes.say(_WAYS_OUT)
        try:
            while True:
                for each in self._fields:
                    await self._fill(each)
                if await self._confirmed():
                    return types.ElicitResult(action="accept", content=dict(self._answers))
        except _WayOut as way:
            return types.ElicitResult(action=way.action)

    async def _fill(self, each: Field) -> None:
        self._notes.say(each.description())
        proposed = self._answers.get(each.name, each.default)
        while True:
            line = await self._typed(f"{each.name}{_in_brackets(each, proposed)}> ")
            if line == "/skip" and not each.is_required:
                self._answers.pop(each.name, None)
                return
            try:
                value = proposed if not line.strip() and proposed is not LEFT_OUT else each.value_of(line)
            except ValueError as error:
                self._notes.say(f"  {error}")
                continue
            if value is not LEFT_OUT:
                self._answers[each.name] = value
            return

    async def _confirmed(self) -> bool:
        """Say whether the answers may leave; False to ask for them again."""
        edit = "[e]dit, " if self._fields else ""
        while True:
            line = await self._typed(
                f"{'Send this' if self._fields else self._consent}? [y]es, {edit}[d]ecline, [c]ancel> "
            )
            match line.strip().lower():
                case "y" | "yes":
                    return True
                case "e" | "edit" if self._fields:
                    return False
                case "d" | "decline":
                    raise _WayOut("decline")
                case "c" | "cancel":
                    raise _WayOut("cancel")
                case _:
                    self._notes.say("  type one of the letters")

    async def _typed(self, prompt: str) -> str:
        self._notes.prompt(prompt)
        line = await self._keyboard.line()
        if line is None:
            self._notes.say("")  # Ctrl+D does not end the line
        if line is None or line.strip() == "/cancel":
            raise _WayOut("cancel")
        if line.strip() == "/decline":
            raise _WayOut("decline")
        return line


def _visit(request: types.ElicitRequestURLParams) -> str:
    """Return what a person must know before visiting a page; opening it, somewhere we cannot look, is up to them."""
    lines = [request.message, "It asks you to visit this page yourself, in your browser:", request.url]
    try:
        parts = urlsplit(request.url)
        site = parts.hostname or ""
    except ValueError:
        parts, site = urlsplit(""), ""
    lines.append(f"which belongs to: {site or 'no site'}")
    if parts.scheme != "https":
        lines.append("Careful: the address does not begin with https, so others may read along.")
    if not site.isascii() or "xn--" in site:
        lines.append("Careful: the site's name has letters of other alphabets, and may only look like one you know.")
    if "@" in parts.netloc:
        lines.append("Careful: what stands before the @ is not the site's name.")
    return "\n".join(lines)


def _in_brackets(each: Field, proposed: Any) -> str:
    return "" if proposed is LEFT_OUT else f" [{each.shown(proposed)}]"
