r"""URI templates of RFC 6570, such as ``notes://{folder}/{name}`` or ``search://notes{?q,limit}``.

RFC 6570 defines how a template and values make a URI, but not how to read the values out of a URI.

Rules of matching, which are choices of this package:

1. Matching inverts expansion: a URI matches if its values, expanded, make the same URI (compared as normalised
   spellings, see below). So ``{x}`` does not match ``a,b`` or ``a/b``, which it would write as ``a%2Cb`` and ``a%2Fb``;
   and ``{+x}`` does not match ``a%2Fb``, which it would write as ``a/b``. Values are percent-decoded exactly once.
2. Each URI has one reading. A template is refused at creation if ordinary values could not be read back. One rule
   decides the remaining cases: if a value contains the text that ends it, the earlier variable is shorter, and optional
   parts are left out: ``{year}-{month}`` reads ``2026-11-20`` as ``2026`` and ``11-20``.
3. The variables that RFC 6570 lets a URI leave out are optional, and then absent from the values: those of ``{#x}``,
   ``{.x}``, ``{/x}``, ``{;x}``, ``{?x}`` and ``{&x}``. Those of ``{x}`` and ``{+x}`` have at least one character,
   because empty and absent would look the same. Without names (``{/x,y}``), the last ones are left out first.
4. The variables of ``{;x,y}``, ``{?x,y}`` and ``{&x,y}`` keep the order of the template, with no others in between.
   Every client that expands the template writes them so, and each resource has one URI: subscriptions and caches
   compare URIs as strings.
5. If the template has a ``?`` or ``#`` of its own, the first one in the URI is that one: ``{+path}{?q}`` reads no ``?``
   into the path.
6. A URI longer than 65,536 characters does not match. The time to read a URI is linear in its length, but the longest
   message would take a minute.

These values are expanded as RFC 6570 defines, and cannot be read back: values that contain the text after them (rule
2); empty values (rule 3) and empty lists, which are left out; lists for variables without ``*``; in ``{+x}`` and
``{#x}``, a percent sign before two hex digits, which counts as encoded; and unencoded separators of several values: the
comma in ``{+x,y}``, ``{+x*}`` and the same with ``#``, the dot in ``{.x,y}`` and ``{.x*}``.

Rules of spellings, in which URIs and templates are compared:

7. Two URIs have the same spelling if they differ only in what RFC 3986 (section 6.2.2) and RFC 3987 (section 3.1) treat
   as the same characters: the case of hex digits (``%2f``, ``%2F``), percent-encoded unreserved characters (``%41``,
   ``A``), and characters outside ASCII, which stand for the percent-encoding of their UTF-8 (``ö``, ``%C3%B6``).
   Clients send all of these for the same resource; people and models type the last.
8. Nothing else is normalised. The case of scheme and host is kept, and so is ``..``: removing it would hide an attack.
9. A percent sign without two hex digits, octets that are not UTF-8, and ASCII characters that a URI may not contain
   (spaces, controls, ``"<>\^`{|}``) have no spelling: such a string is not a URI.
10. A spelling has one character for each character meant, so that it may be cut anywhere. Percent-encoded ASCII
    characters, except unreserved ones, differ from unencoded ones: ``%2F`` becomes the lone surrogate U+DC2F, and ``/``
    stays ``/``. No valid string contains lone surrogates.

Rules of finding the parts of a template in a URI, in linear time for any sender. All strings here are spellings:

11. From the last part to the first, compute the places of the string from which the part and all parts after it fit. A
    place is an index; a set of places is a bytearray with a 1 for each. Nothing is tried twice, so there is no
    backtracking.
12. Then, from the first to the last, each expression ends at the first place from which the rest fits. If several
    readings are possible, the earlier variable is shorter, and optional parts are left out.

Rules of `escapes`, the check of a value before a handler uses it in a path. A handler that opens ``root / name`` is
right for all names but a few, which are refused for every operating system and every use. A value escapes if the value,
or what is left after percent-decoding it again or normalising it (NFKC), contains

13. a control character, including NUL;
14. a separator (``/`` or ``\``) at its start, which makes it absolute, or a network path on Windows;
15. a segment of only dots and spaces: ``..``, and what Windows reads as ``..`` or as nothing. A ``;`` or ``:`` ends a
    segment, because some servers and NTFS ignore the rest;
16. a segment that starts with a Windows drive, ``C:``, which may be any character before a colon;
17. a URI at its start: ``file:``, or any scheme before a separator;
18. an overlong encoding of UTF-8, or more layers of percent-encoding than are ever intended.

An item of a list is one segment: there every separator escapes, and so does an empty item before others, because ``["",
"etc"]`` joined with ``/`` is absolute. Not checked are names of devices on Windows (``NUL``, ``COM1``), which are
ordinary words elsewhere; symbolic links, which only the file system knows; ``~``, ``$HOME`` and the like, which have no
meaning in a path by themselves; and characters that only look like a dot or a slash and stay what they are.

Specification: https://www.rfc-editor.org/rfc/rfc6570 (operators: section 3.2 and appendix A),
https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2 and
https://modelcontextprotocol.io/specification/2026-07-28/server/resources#security-considerations
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast
from urllib.parse import quote, unquote

from attrs import define, field, frozen

__all__ = [
    "ENCODED_RESERVED",
    "RESERVED",
    "Expression",
    "Literal",
    "Operator",
    "Part",
    "Slot",
    "UriTemplate",
    "Variable",
    "cut",
    "decoded",
    "encoded",
    "encoded_except_reserved",
    "escapes",
    "is_uri",
    "spelled",
    "spelled_uri",
]


RESERVED: Final = ":/?#[]@!$&'()*+,;="
_UNRESERVED: Final = string.ascii_letters + string.digits + "-._~"

_NO_URI: Final = re.compile(r"""%(?![0-9A-Fa-f]{2})|[\x00-\x20"<>\\^`{|}\x7f\ud800-\udfff]""")
_WITH_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_OCTETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

_APART: Final = {code: 0xDC00 + code for code in range(0x80) if chr(code) not in _UNRESERVED}
_TOGETHER: Final = {apart: code for code, apart in _APART.items()}

ENCODED_RESERVED: Final = RESERVED.translate(_APART)
"""The reserved characters in the form that a spelling gives to percent-encoded ones."""


@lru_cache(maxsize=1)  # a URI is compared with one template after the other
def spelled_uri(uri: str) -> str | None:
    """Return `spelled` of *uri*; the last result is cached."""
    return spelled(uri)


def spelled(uri: str) -> str | None:
    """Return the spelling of a URI or a part of one; None if the string cannot be part of a URI."""
    if _NO_URI.search(uri):
        return None
    try:
        return _OCTETS.sub(_spelled_octets, uri)
    except UnicodeDecodeError:
        return None


def _spelled_octets(octets: re.Match[str]) -> str:
    return bytes.fromhex(octets[0].replace("%", "")).decode().translate(_APART)


def is_uri(text: str) -> bool:
    """Return True if *text* is a whole URI: a scheme, then only characters that a URI may contain, all ASCII."""
    return text.isascii() and _WITH_SCHEME.fullmatch(text) is not None and spelled(text) is not None


def decoded(spelling: str) -> str:
    """Return the string that a spelling stands for, percent-decoded once."""
    return spelling.translate(_TOGETHER)


def encoded(text: str) -> str:
    """Return *text* with everything but unreserved characters percent-encoded.

    Raises:
        ValueError: *text* contains a lone surrogate, which UTF-8 cannot encode.
    """
    return quote(text, safe="")


def encoded_except_reserved(text: str) -> str:
    """Return *text* percent-encoded, except reserved characters and what is percent-encoded already.

    Raises:
        ValueError: *text* contains a lone surrogate, which UTF-8 cannot encode.
    """
    return quote(_LONE_PERCENT.sub("%25", text), safe=RESERVED + "%")


@frozen
class Operator:
    """An operator of RFC 6570: one row of the table in its appendix A."""

    first: str = ""
    """The first character of an expansion. If there is one, a URI may leave the whole expression out."""
    separator: str = ","
    named: bool = False
    """True if each value is written with the name of its variable."""
    if_empty: str = ""
    """The string that follows the name of an empty value."""
    reserved: bool = False
    """True if values contain reserved characters unencoded."""


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
"""The operators that RFC 6570 reserves without a meaning."""

_CHARACTER: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_NAME: Final = re.compile(rf"{_CHARACTER}+(?:\.{_CHARACTER}+)*")
_PREFIX: Final = re.compile(r"(.*):([0-9]+)")


@frozen
class Variable:
    """A variable of an expression, which may stand for a list of values (``{x*}``)."""

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
            raise ValueError(f"{text!r} is not a variable: a name has ASCII letters, digits, '_' and inner single dots")
        return cls(name, spelling, exploded=text.endswith("*"))


@frozen
class Expression:
    """An operator and its variables."""

    text: str
    """The expression as in the template, with braces, for messages."""
    operator: Operator
    variables: tuple[Variable, ...]

    @classmethod
    def parse(cls, body: str) -> Expression:
        """Parse the string between the braces.

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
        """The characters of a spelling that an expansion never contains after its first character."""
        if self.operator.reserved:
            return frozenset(ENCODED_RESERVED)
        return frozenset(RESERVED) - frozenset(self.structure)

    def expand(self, values: Mapping[str, str | Sequence[str]]) -> str:
        """Return the expansion; variables without a value, or with an empty list, are left out.

        Raises:
            TypeError: a value is neither a string nor a list of strings.
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
                raise TypeError(f"{variable.name}: expected a string or a list of strings, got {type(item).__name__}")
            try:
                result.append(encode(item))
            except UnicodeEncodeError:
                raise ValueError(f"{variable.name}: {item!r} holds a lone surrogate, which a URI cannot hold") from None
        return result

    def read(self, spelling: str) -> dict[str, str | list[str]] | None:
        """Return the values in a part of a URI; None if it is not an expansion of this expression.

        Not every fault is found here: the caller expands the values again and compares.
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
            return None  # without a first character, empty and absent look the same
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


@frozen
class Literal:
    """A string that the URI contains as it is."""

    spelling: str

    def fitting(self, text: str, after: bytearray) -> bytearray:
        """Return the places where this part and all after it fit; *after* are the places of the parts after it."""
        places, length = bytearray(len(after)), len(self.spelling)
        at = text.find(self.spelling)
        while at >= 0:
            places[at] = after[at + length]
            at = text.find(self.spelling, at + 1)
        return places


@frozen
class Slot:
    """An expression, and the characters that its expansion cannot contain at its place in the template."""

    expression: Expression
    excluded: frozenset[str]
    _stop: re.Pattern[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        stop = re.compile(f"[{''.join(map(re.escape, sorted(self.excluded)))}]")
        object.__setattr__(self, "_stop", stop)  # the class is frozen

    @property
    def first(self) -> str:
        """The first character of an expansion; empty if it has none."""
        return self.expression.operator.first

    def fitting(self, text: str, after: bytearray) -> bytearray:
        """Return the places where this part and all after it fit; *after* are the places of the parts after it."""
        least = 0 if self.first else 1
        inside = bytearray(len(after))  # where the values begin, after the first character
        start = 0
        for stop in [*(found.start() for found in self._stop.finditer(text)), len(text)]:
            end = after.rfind(1, start, stop + 1) + 1 - least
            if end > start:
                inside[start:end] = b"\1" * (end - start)
            start = stop + 1
        if not self.first:
            return inside
        places = bytearray(after)  # left out
        at = text.find(self.first)
        while at >= 0:
            places[at] |= inside[at + 1]
            at = text.find(self.first, at + 1)
        return places

    def end(self, at: int, after: bytearray) -> int:
        """Return the end of the expansion that starts at *at*, which must be one of its places."""
        return after.find(1, at if self.first else at + 1)


Part = Literal | Slot


def cut(parts: Iterable[Part], text: str) -> list[tuple[Expression, str]] | None:
    """Return each expression with its piece of *text*; None if the parts do not fit."""
    parts = tuple(parts)
    if parts and isinstance(parts[0], Literal) and not text.startswith(parts[0].spelling):
        return None  # most URIs are for other templates
    after = bytearray(len(text) + 1)
    after[-1] = 1
    fitting = [after]
    for part in reversed(parts):
        after = part.fitting(text, after)
        if 1 not in after:
            return None
        fitting.append(after)
    if not after[0]:
        return None
    pieces: list[tuple[Expression, str]] = []
    at = 0
    for part, rest in zip(parts, fitting[-2::-1], strict=True):
        if isinstance(part, Literal):
            at += len(part.spelling)
        else:
            end = part.end(at, rest)
            pieces.append((part.expression, text[at:end]))
            at = end
    return pieces


_LONGEST_URI: Final = 65_536  # characters
_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")

_Piece = str | Expression


@define(eq=False)
class UriTemplate:
    """A URI template: expands values to a URI, and reads the values out of a URI.

    The operators of RFC 6570, levels 1 to 3: ``{x}``, ``{+x}``, ``{#x}``, ``{.x}``, ``{/x}``, ``{;x}``, ``{?x,y}`` and
    ``{&x,y}``; and ``{x*}``, with each of them, for a list of values. The rules of matching are at the top of the file.

    Names of variables are those of RFC 6570. A server binds them to parameters of a Python function, so it cannot use
    ``{x.y}``, ``{1x}`` and ``{%41}``.

    Args:
        template: the template, such as ``"files://root{/path*}"``.

    Raises:
        ValueError: an expression is malformed or not supported, a variable appears twice, the text between expressions
            cannot be part of a URI, or values could not be read back; the message names the expression and the reason.
    """

    template: str
    variables: tuple[str, ...] = field(init=False, repr=False)
    """The names of the variables, in order; empty for a plain URI."""
    exploded: frozenset[str] = field(init=False, repr=False)
    """The names of the variables with ``*``: their values are lists, all others are strings."""
    optional: frozenset[str] = field(init=False, repr=False)
    """The names of the variables that a URI may leave out."""
    _pieces: tuple[_Piece, ...] = field(init=False, repr=False)
    _parts: tuple[Part, ...] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._pieces = tuple(parsed(self.template))
        expressions = [piece for piece in self._pieces if isinstance(piece, Expression)]
        variables = [(variable, expression) for expression in expressions for variable in expression.variables]
        self.variables = tuple(variable.name for variable, _ in variables)
        for name in self.variables:
            if self.variables.count(name) > 1:
                raise ValueError(f"{{{name}}} appears twice in {self.template!r}")
        self.exploded = frozenset(variable.name for variable, _ in variables if variable.exploded)
        self.optional = frozenset(variable.name for variable, expression in variables if expression.operator.first)
        self._parts = tuple(self._part(index) for index in range(len(self._pieces)))

    def expand(self, values: Mapping[str, str | Sequence[str]]) -> str:
        """Return the URI of the template with *values*.

        Args:
            values: a string or a list of strings for the name of each variable. A variable that is missing or has an
                empty list is undefined, and left out as RFC 6570 defines; other names are ignored.

        Raises:
            TypeError: a value is neither a string nor a list of strings.
            ValueError: a value holds a lone surrogate.
        """
        return expanded(self._pieces, values)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values of the variables in *uri*, which may be any string; None if it does not match.

        The values are percent-decoded once. Check them with `escapes` before you use them in a path.
        """
        text = spelled_uri(uri) if len(uri) <= _LONGEST_URI else None
        pieces = None if text is None else cut(self._parts, text)
        if pieces is None:
            return None
        values: dict[str, str | list[str]] = {}
        for expression, piece in pieces:
            found = expression.read(piece)
            if found is None:
                return None
            values |= found
        return values if spelled(self.expand(values)) == text else None

    def _part(self, index: int) -> Part:
        """Return the part for the piece at *index*, which depends on the pieces after it."""
        piece, after = self._pieces[index], self._pieces[index + 1 :]
        if isinstance(piece, str):
            spelling = spelled(piece)
            assert spelling is not None  # `parsed` has checked it
            return Literal(spelling)
        try:
            return Slot(piece, piece.excluded | _ends(piece, after))
        except ValueError as error:
            raise ValueError(f"{piece.text} in {self.template!r}: {error}") from None


def parsed(template: str) -> list[_Piece]:
    """Return the literals and expressions of a template, in order.

    Raises:
        ValueError: the template is malformed; the message names the place and the reason.
    """
    pieces: list[_Piece] = []
    for index, piece in enumerate(_EXPRESSION.split(template)):  # literal, expression, literal, ..., literal
        if index % 2:
            try:
                pieces.append(Expression.parse(piece))
            except ValueError as error:
                name = repr(f"{{{piece}}}")[1:-1]  # without line breaks in the message
                raise ValueError(f"{name} in {template!r}: {error}") from None
        elif "{" in piece or "}" in piece:
            raise ValueError(f"{template!r}: an unbalanced brace")
        elif spelled(piece) is None:
            raise ValueError(f"{piece!r} in {template!r} cannot be part of a URI: percent-encode it, as UTF-8")
        elif piece:
            pieces.append(piece)
    return pieces


def expanded(pieces: Sequence[_Piece], values: Mapping[str, str | Sequence[str]]) -> str:
    """Return the URI of the pieces of a template with *values*; see `UriTemplate.expand`."""
    return "".join(
        encoded_except_reserved(piece) if isinstance(piece, str) else piece.expand(values) for piece in pieces
    )


def _ends(expression: Expression, after: Sequence[_Piece]) -> set[str]:
    """Return the characters that end an expression because of the pieces after it.

    Raises:
        ValueError: values could not be read back; the message names the reason and a remedy.
    """
    ends = {mark for mark in "?#" if expression.operator.reserved and any(_has(piece, mark) for piece in after)}
    for index, piece in enumerate(after):
        if isinstance(piece, str):
            _check_text(expression, piece, after[index + 1 :])
            break
        ends.add(_check_neighbour(expression, piece))
    return ends


def _has(piece: _Piece, mark: str) -> bool:
    return mark in piece if isinstance(piece, str) else piece.operator.first == mark


def _check_neighbour(expression: Expression, neighbour: Expression) -> str:
    """Return the character that ends *expression* because *neighbour* follows directly."""
    ours, first = expression.operator, neighbour.operator.first
    if not first:
        raise ValueError(
            f"another variable follows with nothing between them, {neighbour.text}: put text between, such as '/'"
        )
    if first in {ours.first, ours.separator}:
        names = ",".join(expression.text[1:-1].split(",") + neighbour.text[2:-1].split(","))
        raise ValueError(f"which of the two a value is for is open when {neighbour.text} follows: write {{{names}}}")
    if (ours.reserved and first not in {"?", "#"}) or (ours.named and first not in RESERVED):
        raise ValueError(
            f"it may hold the {first!r} that {neighbour.text} after it begins with: put text between, such as '/'"
        )
    return first


def _check_text(expression: Expression, text: str, after: Sequence[_Piece]) -> None:
    """Check that the literal *text* after an expression cannot be read as a part of the expression."""
    ours, mark = expression.operator, text[0]
    if ours.named and (mark not in RESERVED or mark == "="):
        raise ValueError(f"a name or value may go on as {text!r} after it: put text between, such as '/'")
    if mark != ours.first and mark not in expression.structure:
        return
    bounds = expression.excluded - {mark}  # the expression cannot extend past one of these
    for piece in (text, *after):
        if isinstance(piece, str):
            if bounds & set(piece):
                return
        elif piece.operator.first not in bounds and _may_hold(piece, mark):
            raise ValueError(f"the {mark!r} after it may be its own, or begin {piece.text}: put other text between")


def _may_hold(expression: Expression, mark: str) -> bool:
    return mark in {".", expression.operator.first, *expression.structure} or expression.operator.reserved


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r".:", re.DOTALL)
"""Windows reads any character before a colon as a drive, not only letters."""
_END_OF_SEGMENT: Final = re.compile(r"[;:]")
_URI: Final = re.compile(r"(?:(?!file:)[a-z][a-z0-9+.-]*:)*(?:file:|(?<=:)[/\\])", re.IGNORECASE | re.ASCII)
_OVERLONG: Final = re.compile(r"%c[01]%|%e0%[89][0-9a-f]|%f0%8[0-9a-f]", re.IGNORECASE)
_CODE_UNIT: Final = re.compile(r"%u([0-9A-Fa-f]{4})", re.IGNORECASE)
_LAYERS: Final = 4
"""How many layers of percent-encoding a value may have; decoding each takes linear time."""


def escapes(value: str | Sequence[str]) -> bool:
    """Return True if a value in a path could lead out of its directory.

    Args:
        value: the value as `UriTemplate.match` returns it, decoded once: a string, which may be a relative path of
            several segments, or a list, in which each item is one segment.
    """
    if isinstance(value, str):
        return _escapes(value, segment=False)
    return not all(value[:-1]) or any(_escapes(item, segment=True) for item in value)


def _escapes(value: str, *, segment: bool) -> bool:
    for _ in range(_LAYERS):
        plain = _without_lookalikes(value)
        if any(_leads_out(form, segment=segment) for form in {value, plain}) or _OVERLONG.search(plain):
            return True
        value = unquote(_CODE_UNIT.sub(_code_unit, plain))
        if value == plain:
            return False
    return True


def _without_lookalikes(value: str) -> str:
    """Return *value* with each character normalised by NFKC.

    One by one, because a whole normalisation takes quadratic time in a run of accents, and no relevant character is
    composed of several.
    """
    return value.translate({ord(each): unicodedata.normalize("NFKC", each) for each in set(value)})


def _code_unit(found: re.Match[str]) -> str:
    """Return the character of ``%u002e``, an encoding that some servers of Windows decode."""
    return chr(int(found[1], 16))


def _leads_out(path: str, *, segment: bool) -> bool:
    segments = _SEPARATOR.split(path)
    return (
        _CONTROL.search(path) is not None
        or (len(segments) > 1 and (segment or not segments[0]))
        or _URI.match(path.lstrip(" ")) is not None
        or any(map(_is_special, segments))
    )


def _is_special(segment: str) -> bool:
    """Return True if a segment of a path is not the name of something inside its directory."""
    if _DRIVE.match(segment):
        return True
    name = _END_OF_SEGMENT.split(segment, 1)[0]
    return name != "" and not name.strip(". ")
