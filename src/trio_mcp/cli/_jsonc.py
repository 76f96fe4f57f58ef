"""JSON with comments (JSONC), as editors allow it in their files: reading it, and setting one member of it.

Setting a member changes nothing else in the text: comments, the order of members, indentation, line ends and numbers
stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from attrs import define, field, frozen

__all__ = ["Document", "read_document"]

_SPACE = re.compile(r"\s+|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[^\s{}\[\]:,"/]+')
_BYTE_ORDER_MARK = "\ufeff"
_UNIT = "  "
"""The indentation where the file has none."""


@frozen
class _Node:
    """A value, and its place in the text."""

    start: int
    end: int
    value: Any
    members: Mapping[str, _Node] = field(factory=dict[str, "_Node"])
    """The values of an object by name."""
    first: int | None = None
    """The place of the first member's name."""


@frozen
class Document:
    """The text of a file in JSON with comments."""

    text: str
    _root: _Node
    is_plain: bool
    """True if it has neither comments nor trailing commas, so that every reader of JSON can read it."""

    @property
    def value(self) -> Any:
        """The value, as `json.loads` returns it."""
        return self._root.value

    def with_member(self, path: Sequence[str], value: Any) -> str:
        """Return the text with a member set.

        Args:
            path: the names that lead to the member; missing objects are added.
            value: the new value. If the member exists, its old value is replaced, with the comments inside it.

        Raises:
            ValueError: a value on the way is not an object.
        """
        node = self._root
        for depth, name in enumerate(path):
            if not isinstance(node.value, dict):
                raise ValueError(f"{'.'.join(path[:depth]) or 'the file'}: expected an object")
            if name not in node.members:
                for outer in reversed(path[depth + 1 :]):
                    value = {outer: value}
                return self._with_new(node, name, value)
            node = node.members[name]
        return self.text[: node.start] + self._written(value, self._indentation(node.start)) + self.text[node.end :]

    def _with_new(self, node: _Node, name: str, value: Any) -> str:
        """Return the text with a member added at the end of an object."""
        text, last = self.text, max((member.end for member in node.members.values()), default=node.start + 1)
        end = len(text[: node.end - 1].rstrip())  # after comments, which may follow the last member
        if node.members and "\n" not in text[node.start : node.end]:
            added = " " + json.dumps({name: value}, ensure_ascii=False)[1:-1]
        else:
            outer = self._indentation(node.start)
            inner = outer + self._unit if node.first is None else self._indentation(node.first)
            added = f"{self._newline}{inner}{json.dumps(name, ensure_ascii=False)}: {self._written(value, inner)}"
            added += "" if "\n" in text[end : node.end] else self._newline + outer
        comma = "," if node.members and not text.startswith(",", _after_space(text, last)) else ""
        return text[:last] + comma + text[last:end] + added + text[end:]

    def _written(self, value: Any, indentation: str) -> str:
        """Return the JSON of a value for a line with this indentation."""
        return json.dumps(value, indent=self._unit, ensure_ascii=False).replace("\n", self._newline + indentation)

    def _indentation(self, at: int) -> str:
        """Return the indentation of the line of a place."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    @property
    def _unit(self) -> str:
        return _UNIT if self._root.first is None else self._indentation(self._root.first) or _UNIT

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"


def read_document(text: str) -> Document:
    """Return the document of a text; a text without a value, empty or of comments alone, is an empty object.

    Raises:
        ValueError: the text is not JSON with comments; the message names the line and the column.
    """
    beginning = len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    if _after_space(text, beginning) == len(text):
        text = "{}\n" if text[beginning:].isspace() or beginning == len(text) else f"{text.rstrip()}\n{{}}\n"
    reader = _JsonReader(text)
    try:
        root = reader.read()
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    return Document(text, root, reader.is_plain)


def _after_space(text: str, at: int) -> int:
    """Return the place of the next character that belongs neither to a comment nor to white space."""
    while match := _SPACE.match(text, at):
        at = match.end()
    return at


@define(eq=False)
class _JsonReader:
    """A reader of one text."""

    _text: str
    _at: int = field(default=0, init=False)
    is_plain: bool = field(default=True, init=False)

    def read(self) -> _Node:
        """Return the value of the whole text."""
        self._at = len(_BYTE_ORDER_MARK) if self._text.startswith(_BYTE_ORDER_MARK) else 0
        root = self._value()
        self._skip_space()
        if self._at < len(self._text):
            self._fail("expected the end of the file")
        return root

    def _value(self) -> _Node:
        self._skip_space()
        start = self._at
        if self._text.startswith("{", start):
            return self._object(start)
        if self._text.startswith("[", start):
            values = [self._value().value for _ in self._entries("]")]
            return _Node(start, self._at, values)
        match = _SCALAR.match(self._text, start)
        try:
            value = json.loads(match[0] if match else "", parse_constant=_refuse)
        except ValueError:
            self._fail("expected a value")
        assert match is not None
        self._at = match.end()
        return _Node(start, self._at, value)

    def _object(self, start: int) -> _Node:
        members = dict[str, _Node]()
        first = None
        for at in self._entries("}"):
            first = at if first is None else first
            name = self._value().value
            if not isinstance(name, str):
                self._fail("expected the name of a member, in quotation marks, before this")
            if not self._took(":"):
                self._fail("expected ':'")
            members[name] = self._value()
        return _Node(start, self._at, {name: node.value for name, node in members.items()}, members, first)

    def _entries(self, closing: str) -> Iterator[int]:
        """Yield the place of each entry of an object or array, which the caller then reads, and pass the end."""
        self._at += 1
        is_first = is_separated = True
        while not self._took(closing):
            if not is_separated:
                self._fail(f"expected ',' or '{closing}'")
            yield self._at
            is_first, is_separated = False, self._took(",")
        if is_separated and not is_first:
            self.is_plain = False

    def _took(self, mark: str) -> bool:
        """Pass the next character if it is *mark*; return True if it was."""
        self._skip_space()
        is_next = self._text.startswith(mark, self._at)
        self._at += is_next
        return is_next

    def _skip_space(self) -> None:
        end = _after_space(self._text, self._at)
        if self.is_plain and "/" in self._text[self._at : end]:
            self.is_plain = False
        self._at = end

    def _fail(self, what: str) -> NoReturn:
        line, column = self._text.count("\n", 0, self._at) + 1, self._at - self._text.rfind("\n", 0, self._at)
        raise ValueError(f"not JSON: line {line}, column {column}: {what}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
