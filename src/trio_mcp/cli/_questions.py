"""Elicitation: the user answers a form field by field and can leave at every step, or a file has the answers.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import Any, Final, Literal, TextIO
from urllib.parse import urlsplit

import trio
from attrs import define, field, frozen

from .. import types
from .._user_types import value_from_text
from ..client import OnElicit
from ..schema import SchemaError, compile_schema
from ..types import JSONObject
from ..wire import Undecodable, decode, is_array, is_object
from ._commands import read_file
from ._errors import UsageError
from ._output import Notes, json_line

__all__ = ["LEFT_OUT", "Answers", "Choice", "Field", "can_ask", "fields_of", "questions", "read_answers"]


LEFT_OUT: Final = types.UNSET
"""The value of a field that the answer omits."""

_EMPTY_TEXT = '""'
_TRUE, _FALSE = ("y", "yes", "true"), ("n", "no", "false")


@frozen
class Choice:
    """One of the values that a field may have."""

    value: str
    title: str


@frozen
class Field:
    """A field of a form: its description for the user, and the conversion of the line that the user types."""

    name: str
    schema: types.JSONObject
    is_required: bool
    choices: Sequence[Choice] = ()
    takes_several: bool = False

    @property
    def default(self) -> Any:
        """The default value that the server proposes; `LEFT_OUT` if it proposes none that is valid."""
        default = self.schema.get("default", LEFT_OUT)
        return default if default is LEFT_OUT or not self._faults(default) else LEFT_OUT

    def description(self) -> str:
        """Return the description for the user: one line, and one more for each choice."""
        title, words = self.schema.get("title"), self.schema.get("description")
        named = f"{title} ({self.name})" if isinstance(title, str) else self.name
        head = f"{named}: {words}" if isinstance(words, str) else named
        lines = [f"{head} [{', '.join(self._conditions())}]"]
        lines += [f"  {number}) {choice.title}" for number, choice in enumerate(self.choices, 1)]
        return "\n".join(lines)

    def _conditions(self) -> Iterator[str]:
        kind = self.schema.get("type")
        if self.takes_several:
            yield "several of these, separated by commas"
        elif self.choices:
            yield "one of these"
        else:
            yield {"string": "text", "boolean": "yes or no"}.get(str(kind), str(kind))
        for name, words in _LIMITS.items():
            if name in self.schema:
                yield f"{words}{self.schema[name]}"
        yield "required" if self.is_required else "optional"

    def shown(self, value: Any) -> str:
        """Return a value as the user would type it or read it."""
        if is_array(value):
            return ", ".join(map(str, value))
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value if isinstance(value, str) else json_line(value)

    def value_of(self, line: str) -> Any:
        """Return the value of a typed line; `LEFT_OUT` for an empty line if the field is optional.

        Raises:
            ValueError: the line is not a valid value; the message says why.
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
        raise ValueError(f"{text!r} is not one of the choices; type a number from 1 to {len(self.choices)}")

    def _faults(self, value: Any) -> list[str]:
        try:
            return compile_schema(self.schema).faults(value)
        except SchemaError:  # an unusable schema: the server must check the answer itself
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
    """Yield the choices of a schema, which the revisions write in five different forms."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if titled is not None:
        yield from (Choice(each["const"], each["title"]) for each in titled)
        return
    values: list[str] = schema.get("enum", [])
    titles: list[str] = schema.get("enumNames", values)
    for value, title in zip_longest(values, titles[: len(values)]):
        yield Choice(value, title or value)


_HELP = "(Enter accepts the value in brackets, /skip omits the field, /decline refuses, /cancel or Ctrl+D dismisses)"

Action = Literal["accept", "decline", "cancel"]


def can_ask() -> bool:
    """Return True if a user can be asked: standard input and standard error are a terminal."""
    return os.name == "posix" and _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None where it is closed


def questions(notes: Notes) -> OnElicit:
    """Return a callback that asks the user at the terminal, one question at a time."""
    keyboard = _Keyboard(sys.stdin.fileno())

    async def ask(request: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
        async with notes.floor:
            keyboard.forget()
            with notes.bar_hidden():
                try:
                    if isinstance(request, types.ElicitRequestURLParams):
                        return await _Form(notes, keyboard, [], "I will visit it").ask(_page_to_visit(request))
                    return await _Form(notes, keyboard, fields_of(request.requested_schema)).ask(request.message)
                except trio.Cancelled:
                    notes.say("\n(the question was withdrawn)")
                    raise

    return ask


@define(eq=False)
class _Keyboard:
    """The lines that the user types. No thread reads them: it could not be stopped, and would take the next line."""

    _descriptor: int
    _unread: bytes = field(default=b"", init=False)

    def forget(self) -> None:
        """Discard the lines typed so far, so that no one of them answers a question that was not yet shown."""
        import termios  # noqa: PLC0415 # not on Windows, where no user is asked

        self._unread = b""
        with suppress(termios.error):  # the terminal is gone, which the next read reports
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """Wait for a line; return None for Ctrl+D."""
        while b"\n" not in self._unread:
            await trio.lowlevel.wait_readable(self._descriptor)
            chunk = os.read(self._descriptor, 4096)
            if not chunk:
                return None
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")


class _Dismissed(Exception):
    """The user declines or cancels the question."""

    def __init__(self, action: Action) -> None:
        super().__init__(action)
        self.action: Action = action


@define(eq=False)
class _Form:
    """One question of the server and its fields."""

    _notes: Notes
    _keyboard: _Keyboard
    _fields: list[Field]
    _consent: str = "Agree"
    """The confirmation to ask for if there are no fields."""
    _answers: dict[str, Any] = field(factory=dict[str, Any], init=False)

    async def ask(self, message: str) -> types.ElicitResult:
        """Ask until the user confirms an answer or dismisses the question."""
        self._notes.say("\nThe server asks: " + message.replace("\n", "\n    "))
        if self._fields:
            self._notes.say(_HELP)
        try:
            while True:
                for each in self._fields:
                    await self._fill(each)
                if await self._confirmed():
                    return types.ElicitResult(action="accept", content=dict(self._answers))
        except _Dismissed as dismissed:
            return types.ElicitResult(action=dismissed.action)

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
        """Return True if the user confirms the answers; False to ask for them again."""
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
                    raise _Dismissed("decline")
                case "c" | "cancel":
                    raise _Dismissed("cancel")
                case _:
                    self._notes.say("  type one of the letters in brackets")

    async def _typed(self, prompt: str) -> str:
        self._notes.prompt(prompt)
        line = await self._keyboard.line()
        if line is None:
            self._notes.say("")  # Ctrl+D does not end the line
        if line is None or line.strip() == "/cancel":
            raise _Dismissed("cancel")
        if line.strip() == "/decline":
            raise _Dismissed("decline")
        return line


def _page_to_visit(request: types.ElicitRequestURLParams) -> str:
    """Return what the user must know before visiting a page. The user opens it: this program must not see it."""
    lines = [request.message, "The server asks you to visit this page in your browser:", request.url]
    try:
        parts = urlsplit(request.url)
        site = parts.hostname or ""
    except ValueError:
        parts, site = urlsplit(""), ""
    lines.append(f"which belongs to: {site or 'no site'}")
    if parts.scheme != "https":
        lines.append("Warning: the address does not begin with https, so others can read the traffic.")
    if not site.isascii() or "xn--" in site:
        lines.append("Warning: the host name has letters of other alphabets, and may only look like one that you know.")
    if "@" in parts.netloc:
        lines.append("Warning: the part before the @ is not the host name.")
    return "\n".join(lines)


def _in_brackets(each: Field, proposed: Any) -> str:
    return "" if proposed is LEFT_OUT else f" [{each.shown(proposed)}]"


# --- Answers from a file ---

_REFUSALS: Final[Sequence[Any]] = ("decline", "cancel")


def read_answers(path: str) -> Answers:
    """Read the answers of a file, which is JSON: an object with the values of fields, or a list of answers.

    Raises:
        UsageError: the file cannot be read, or has another form.
    """
    try:
        given = decode(read_file(path))
    except Undecodable as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    for answer in given if is_array(given) else [given]:
        if not is_object(answer) and answer not in (*_REFUSALS, "accept"):
            raise UsageError(
                f"{path}: expected an object with the values of fields, or a list of such objects, 'accept', 'decline' "
                "and 'cancel'"
            )
    return Answers(path, given)


@define(eq=False)
class Answers:
    """Answers to the forms of a server: one for all of them, or a list with one for each, in the order of the forms."""

    _path: str
    _given: Any
    _asked: int = field(default=0, init=False)
    """The number of forms so far."""
    _used: set[str] = field(factory=set[str], init=False)
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _failure: UsageError | None = field(default=None, init=False)

    async def answer(self, request: types.ElicitRequestFormParams | types.ElicitRequestURLParams) -> types.ElicitResult:
        """Answer a form; a callback for the client. If the file has no valid answer, the command ends."""
        assert isinstance(request, types.ElicitRequestFormParams)  # no other mode is declared
        try:
            return self._answer(request)
        except UsageError as error:
            self._failure = error
            self._scope.cancel(reason="a question has no answer")
            return types.ElicitResult(action="cancel")

    @contextmanager
    def ending(self, notes: Notes) -> Generator[None]:
        """Cancel the block if a form has no answer.

        Raises:
            UsageError: a form has no answer, or the answer does not fit it.
        """
        with self._scope:
            yield
        if self._failure is not None:
            raise self._failure
        answers = self._given if is_array(self._given) else [self._given]
        unused = {name for answer in answers if is_object(answer) for name in answer} - self._used
        if unused:
            notes.say(f"{self._path}: the server has not asked for {', '.join(sorted(unused))}")

    def _answer(self, request: types.ElicitRequestFormParams) -> types.ElicitResult:
        given = self._next(request.message)
        if given in _REFUSALS:
            return types.ElicitResult(action=given)
        values: JSONObject = given if is_object(given) else {}
        fields = fields_of(request.requested_schema)
        content = {each.name: values.get(each.name, each.default) for each in fields}
        content = {name: value for name, value in content.items() if value is not LEFT_OUT}
        self._used |= content.keys()
        try:
            faults = compile_schema(types.unstructure(request.requested_schema)).faults(content)
        except SchemaError:  # the server must check the answer itself
            faults = []
        if faults:
            raise UsageError(f"{self._path}: the answer to {request.message!r} does not fit: {'; '.join(faults)}")
        return types.ElicitResult(action="accept", content=content)

    def _next(self, message: str) -> Any:
        self._asked += 1
        if not is_array(self._given):
            return self._given
        if self._asked > len(self._given):
            raise UsageError(f"{self._path} has {len(self._given)} answers, but the server asks again: {message!r}")
        return self._given[self._asked - 1]
