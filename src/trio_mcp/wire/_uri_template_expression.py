"""What stands between braces in a URI template: the operators of RFC 6570, and how each writes and reads its variables.

Levels 1 to 3, and the modifier ``*`` of level 4. Whether an expression is clear where it stands is the template's
business; see `UriTemplate`.

Specification: https://www.rfc-editor.org/rfc/rfc6570#section-3.2, and its appendix A for the table
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from attrs import frozen

from ._uri_template_spelling import (
    ENCODED_RESERVED,
    RESERVED,
    decoded,
    encoded,
    encoded_except_reserved,
    spelled,
)

__all__ = ["Expression", "Operator", "Variable"]


@frozen
class Operator:
    """One row of the table in appendix A."""

    first: str = ""
    """What an expansion begins with; where there is one, a URI may leave the whole expression out."""
    separator: str = ","
    named: bool = False
    """Whether each value is written with the name of its variable."""
    if_empty: str = ""
    """What follows the name where the value is empty."""
    reserved: bool = False
    """Whether values hold reserved characters as they are."""


_OPERATORS: Final = {
    "": Operator(),
    "+": Operator(reserved=True),
    "#": Operator(first="#", reserved=True),
    ".": Operator(first=".", separator="."),
    "/": Operator(first="/", separator="/"),
    ";": Operator(first=";", separator=";", named=True),
    "?": Operator(first="?", separator="&", named=True, if_empty="="),
    "&": Operator(first="&", separator="&", named=True, if_empty="="),
}
_FOR_LATER: Final = "=,!@|"
"""Operators that RFC 6570 reserves and gives no meaning."""

_CHARACTER: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_NAME: Final = re.compile(rf"{_CHARACTER}+(?:\.{_CHARACTER}+)*")
_PREFIX: Final = re.compile(r"(.*):([0-9]+)")


@frozen
class Variable:
    """A variable, and whether it stands for a list of values (``{x*}``)."""

    name: str
    spelling: str
    exploded: bool

    @classmethod
    def parse(cls, text: str) -> Variable:
        """Read a variable.

        Raises:
            ValueError: this is none that we support; the message says why.
        """
        if _PREFIX.fullmatch(text):
            raise ValueError(f"{text!r} asks for a prefix of the value, which is level 4 of RFC 6570; not supported")
        name = text.removesuffix("*")
        spelling = spelled(name)
        if not _NAME.fullmatch(name) or spelling is None:
            raise ValueError(f"{text!r} is no variable: a name is of ASCII letters, digits, '_' and single dots within")
        return cls(name, spelling, exploded=text.endswith("*"))


@frozen
class Expression:
    """An operator and its variables."""

    text: str
    """As the template has it, braces included: for messages."""
    operator: Operator
    variables: tuple[Variable, ...]

    @classmethod
    def parse(cls, body: str) -> Expression:
        """Read what stands between the braces.

        Raises:
            ValueError: this is no expression that we support; the message says why.
        """
        if body[:1] in _OPERATORS:
            symbol, names = body[:1], body[1:]
        else:
            symbol, names = "", body
        if not names:
            raise ValueError("no variable is named")
        if body[0] in _FOR_LATER:
            raise ValueError(f"RFC 6570 gives the operator {body[0]!r} no meaning")
        operator, variables = _OPERATORS[symbol], tuple(map(Variable.parse, names.split(",")))
        if not operator.named and any(variable.exploded for variable in variables[:-1]):
            raise ValueError("where a list with '*' ends is open when others follow it: it must be the last one")
        return cls(f"{{{body}}}", operator, variables)

    @property
    def structure(self) -> str:
        """The reserved characters that this expression writes between values, and between names and values."""
        several = len(self.variables) > 1 or any(variable.exploded for variable in self.variables)
        return (self.operator.separator if several else "") + ("=" if self.operator.named else "")

    @property
    def excluded(self) -> frozenset[str]:
        """The characters of a spelling that an expansion, its first character aside, never holds."""
        if self.operator.reserved:
            return frozenset(ENCODED_RESERVED)
        return frozenset(RESERVED) - frozenset(self.structure)

    def expand(self, values: Mapping[str, str | Sequence[str]]) -> str:
        """Return the expansion; variables without a value, or with an empty list, are left out.

        Raises:
            TypeError: a value is neither text nor a list of texts.
            ValueError: a value holds a lone surrogate.
        """
        pieces = [piece for variable in self.variables for piece in self._pieces(variable, values)]
        return self.operator.first + self.operator.separator.join(pieces) if pieces else ""

    def _pieces(self, variable: Variable, values: Mapping[str, str | Sequence[str]]) -> list[str]:
        value = values.get(variable.name, ())
        items = self._encoded(variable, value)
        if items and not variable.exploded:
            items = [",".join(items)]
        if not self.operator.named:
            return items
        return [variable.name + (f"={item}" if item else self.operator.if_empty) for item in items]

    def _encoded(self, variable: Variable, value: object) -> list[str]:
        items: Sequence[object] = [value]
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = cast("Sequence[object]", value)
        encode = encoded_except_reserved if self.operator.reserved else encoded
        result: list[str] = []
        for item in items:
            if not isinstance(item, str):
                raise TypeError(f"{variable.name}: expected text or a list of texts, got {type(item).__name__}")
            try:
                result.append(encode(item))
            except UnicodeEncodeError:
                raise ValueError(f"{variable.name}: {item!r} holds a lone surrogate; no URI can") from None
        return result

    def read(self, spelling: str) -> dict[str, str | list[str]] | None:
        """Return the values that a part of a URI has, None where it is no expansion of this expression.

        Not every fault is found here: whoever asks expands the values again and compares.
        """
        if not spelling:
            return {}
        spelling = spelling.removeprefix(self.operator.first)
        return self._read_named(spelling) if self.operator.named else self._read_in_order(spelling)

    def _read_in_order(self, spelling: str) -> dict[str, str | list[str]] | None:
        last = self.variables[-1]
        before = len(self.variables) - 1
        pieces = spelling.split(self.operator.separator, -1 if last.exploded else before)
        if not self.operator.first and (len(pieces) <= before or not all(pieces[: before + 1 - last.exploded])):
            return None  # without a first character, what is empty or left out cannot be told from what is not there
        names = [variable.name for variable in self.variables]
        values = [decoded(piece) for piece in pieces]
        found: dict[str, str | list[str]] = dict(zip(names, values, strict=False))
        if last.exploded and len(values) > before:
            found[last.name] = values[before:]
        return found

    def _read_named(self, spelling: str) -> dict[str, str | list[str]] | None:
        found: dict[str, str | list[str]] = {}
        awaited = list(reversed(self.variables))
        for piece in spelling.split(self.operator.separator):
            name, _, value = piece.partition("=")
            while awaited and awaited[-1].spelling != name:
                awaited.pop()
            if not awaited:
                return None
            variable = awaited[-1]
            if variable.exploded:
                items = found.setdefault(variable.name, [])
                assert isinstance(items, list)
                items.append(decoded(value))
            else:
                found[variable.name] = decoded(value)
        return found
