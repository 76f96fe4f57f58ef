"""The YAML frontmatter of a SKILL.md: reading it as JSON, and comparing it with what a server says of it.

Rules of this file:

1. A plain scalar has the value that the core schema of YAML 1.2 gives it. A date, a time, `yes` and `1_000` are
   strings. A server that reads YAML 1.1, with PyYAML for example, has other values for some of these. A client accepts
   an entry that has either values: the digest has shown before that the text is the right one.
2. What has no JSON form is refused: keys that are not strings, numbers that are not finite, and all tags but ``!!str``.
   A key that is given twice is refused too, because programs do not agree on its value.
3. Reading takes little time and memory, whoever wrote the text: its length and its depth are limited, and aliases,
   which can make a short text stand for a long one, are refused.

Specification: https://agentskills.io/specification
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import yaml
from attrs import frozen

from ..wire import JsonObject, is_array, is_object

__all__ = ["Frontmatter", "FrontmatterError", "frontmatter_difference", "is_skill_name", "read_frontmatter"]

MOST_CHARACTERS = 64 * 2**10
"""The longest frontmatter that is read."""
MOST_LEVELS = 32
"""The deepest nesting of lists and mappings."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the fast one, where PyYAML was built with it
_FENCE = re.compile(r"---[ \t]*\r?")
_STRING_TAGS = (None, "!", "tag:yaml.org,2002:str")

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64


def is_skill_name(name: str) -> bool:
    """Return True if *name* is a valid name of a skill: 1 to 64 of ``a-z 0-9 -``, each hyphen between two others."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


class FrontmatterError(ValueError):
    """A SKILL.md has no valid frontmatter; `line` is the number of the line in it, from 1 on."""

    def __init__(self, line: int, fault: str) -> None:
        super().__init__(line, fault)
        self.line = line
        self.fault = fault

    def __str__(self) -> str:
        return f"line {self.line}: {self.fault}"


@frozen
class Frontmatter:
    """The frontmatter of one SKILL.md."""

    members: JsonObject
    """The members as JSON."""
    lines: Mapping[str, int]
    """The number of the line of each member, from 1 on."""


PlainValue: TypeAlias = "str | float | bool | None"
"""The value of a scalar without quotes."""


def frontmatter_difference(entry: JsonObject, text: str) -> str | None:
    """Return the path of the first value that differs between an entry and the text of its SKILL.md; None if none does.

    Raises FrontmatterError as `read_frontmatter` does.
    """
    difference = _first_difference(entry, read_frontmatter(text).members)
    if difference is None or _first_difference(entry, read_frontmatter(text, _plain_value_of_1_1).members) is None:
        return None
    return difference


def read_frontmatter(text: str, plain_value: Callable[[str], PlainValue] | None = None) -> Frontmatter:
    """Return the frontmatter of the text of a SKILL.md.

    Args:
        plain_value: returns the value of a scalar without quotes, or raises ValueError; by default by rule 1.

    Raises:
        FrontmatterError: there is none, it is not valid YAML, or it has no JSON form (rules 2 and 3).
    """
    first, *rest = text.removeprefix("\ufeff").split("\n", MOST_CHARACTERS)  # a bound for the lines as well
    if not _FENCE.fullmatch(first):
        raise FrontmatterError(1, "expected frontmatter: the first line must be ---")
    end = next((at for at, line in enumerate(rest) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise FrontmatterError(1, "the frontmatter has no end: a line --- must follow it")
    source = "\n".join(rest[:end])
    if len(source) > MOST_CHARACTERS:
        raise FrontmatterError(1, f"the frontmatter is longer than {MOST_CHARACTERS} characters")
    return _YamlReader(source, plain_value or _plain_value).document()


class _YamlReader:
    """Reads one YAML document, event by event."""

    def __init__(self, source: str, plain_value: Callable[[str], PlainValue]) -> None:
        self._plain_value = plain_value
        self._events: Iterator[Any] = yaml.parse(source, Loader=_LOADER)
        self._line = 2

    def document(self) -> Frontmatter:
        try:
            self._next()  # the beginning of the stream
            lines = dict[str, int]()
            root = None if isinstance(self._next(), yaml.StreamEndEvent) else self._value(self._next(), 0, lines)
            if not is_object(root):
                raise self._fault("expected members, such as `name: pdf-processing`")
            self._next()  # the end of the document
            if not isinstance(self._next(), yaml.StreamEndEvent):
                raise self._fault("expected a single YAML document")
        except yaml.MarkedYAMLError as error:
            line = self._line if error.problem_mark is None else error.problem_mark.line + 2
            raise FrontmatterError(line, f"not valid YAML: {error.problem}") from None
        except (yaml.YAMLError, UnicodeEncodeError):  # of the reader, which knows no line
            raise FrontmatterError(self._line, "not valid YAML: it has a character that YAML does not allow") from None
        return Frontmatter(root, lines)

    def _next(self) -> Any:
        event = next(self._events)
        self._line = event.start_mark.line + 2  # after the line --- and counted from 1 on
        return event

    def _fault(self, fault: str) -> FrontmatterError:
        return FrontmatterError(self._line, fault)

    def _value(self, event: Any, level: int, lines: dict[str, int] | None = None) -> Any:
        """Return the value that an event begins.

        Args:
            level: the number of lists and mappings around it.
            lines: filled with the lines of the members of a mapping.
        """
        if isinstance(event, yaml.AliasEvent):
            raise self._fault(f"aliases are not supported: write the value of *{event.anchor} again")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if event.tag is not None:
            raise self._fault(f"the tag {event.tag!r} is not supported")
        if level == MOST_LEVELS:
            raise self._fault(f"more than {MOST_LEVELS} lists and mappings are nested")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._items(level + 1)
        return self._members(level + 1, {} if lines is None else lines)

    def _items(self, level: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, level))
        return items

    def _members(self, level: int, lines: dict[str, int]) -> JsonObject:
        members: JsonObject = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._value(event, level)
            if not isinstance(key, str):
                raise self._fault(f"the key {key!r:.100} is not a string")
            if key in members:
                raise self._fault(f"{key!r:.100} is given twice")
            lines[key] = self._line
            members[key] = self._value(self._next(), level)
        return members

    def _scalar(self, event: Any) -> Any:
        if event.tag not in _STRING_TAGS:
            raise self._fault(f"the tag {event.tag!r} is not supported")
        text = str(event.value)
        if event.tag is not None or not event.implicit[0]:  # tagged as a string, or in quotes
            return text
        try:
            return self._plain_value(text)
        except ValueError as error:
            raise self._fault(str(error)) from None


# --- The values of plain scalars ---

_CONSTANTS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_BASED = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def _plain_value(text: str) -> PlainValue:
    """Return the value by the core schema of YAML 1.2; raises ValueError if it has no JSON form."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        number = math.inf if _NOT_FINITE.fullmatch(text) else float(text)
        if math.isinf(number):
            raise ValueError(f"the number {text:.100} has no JSON form; write it in quotes")
        return number
    return text


_RESOLVER_OF_1_1: Any = yaml.resolver.Resolver()
_CONSTRUCTOR_OF_1_1 = yaml.constructor.SafeConstructor()


def _plain_value_of_1_1(text: str) -> PlainValue:
    """Return the value by YAML 1.1, as PyYAML reads it, but for dates and times, which are strings."""
    tag: str = _RESOLVER_OF_1_1.resolve(yaml.ScalarNode, text, (True, False))
    node = yaml.ScalarNode(tag, text)
    match tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return bool(_CONSTRUCTOR_OF_1_1.construct_yaml_bool(node))
        case "int":
            return int(_CONSTRUCTOR_OF_1_1.construct_yaml_int(node))
        case "float":
            return float(_CONSTRUCTOR_OF_1_1.construct_yaml_float(node))
        case _:
            return text


# --- Comparison ---


def _first_difference(entry: object, file: object, path: str = "$") -> str | None:
    """Return the path of the first value that is not the same in the entry of a skill and in its file; else None.

    Integers and floats are the same if they are equal numbers, because JSON does not tell them apart.
    """
    if is_object(entry) and is_object(file):
        for name in [*entry, *file]:
            if name not in entry or name not in file:
                return f"{path}.{name}"
        different = (_first_difference(entry[name], file[name], f"{path}.{name}") for name in entry)
        return next((each for each in different if each is not None), None)
    if is_array(entry) and is_array(file) and len(entry) == len(file):
        pairs = enumerate(zip(entry, file, strict=True))
        different = (_first_difference(here, there, f"{path}[{at}]") for at, (here, there) in pairs)
        return next((each for each in different if each is not None), None)
    is_same = entry == file and isinstance(entry, bool) == isinstance(file, bool) and not is_array(entry)
    return None if is_same else path
