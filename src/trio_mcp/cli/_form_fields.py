"""One field of a form a server wants filled in: how it is described to a person, and what a typed line means in it.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from attrs import frozen

from .. import types
from .._from_text import value_from_text
from .._schema import SchemaError, compile_schema
from ..wire import is_array, is_object
from ._output import json_line

__all__ = ["LEFT_OUT", "Choice", "Field", "fields_of"]

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
