"""URI templates such as ``notes://{folder}/{name}`` or ``search://notes{?q,limit}``: RFC 6570, written and read.

RFC 6570 says how a template and values make a URI; it leaves open how a URI gives the values back. Rules of this file,
which are our choice:

1. Strict both ways: a URI has the values that, expanded, make this URI again (compared in one spelling, see
   `_uri_template_spelling`), or it does not match. So ``{x}`` does not match ``a,b`` or ``a/b``, which it would have
   written ``a%2Cb`` and ``a%2Fb``; and ``{+x}`` does not match ``a%2Fb``, which it would have written ``a/b``. Values
   are percent-decoded exactly once.
2. Each URI has one reading. A template is refused when it is made if ordinary values would not come back. What remains
   is decided by one rule: where a value holds the very text that ends it, the earlier variable is the shorter, and what
   may be left out is: ``{year}-{month}`` reads ``2026-11-20`` as ``2026`` and ``11-20``.
3. What RFC 6570 lets a URI leave out may be left out, and is then absent from the values: variables of ``{#x}``,
   ``{.x}``, ``{/x}``, ``{;x}``, ``{?x}`` and ``{&x}``. Those of ``{x}`` and ``{+x}`` have at least one character: empty
   and left out would look the same. Without names (``{/x,y}``), the last ones are left out first.
4. The variables of ``{;x,y}``, ``{?x,y}`` and ``{&x,y}`` stand in the order of the template, and no others stand
   between them. That is how every client that expands the template writes them, and it keeps one thing from having
   several URIs: subscriptions and caches compare URIs as text.
5. Where the template has a ``?`` or ``#`` of its own, the first one in the URI is that one: ``{+path}{?q}`` reads no
   ``?`` into the path.

6. A URI longer than 65,536 characters does not match. The time to read one grows as its length does, whoever has sent
   it, but a message may be so long that this would be a minute.

These values are expanded as RFC 6570 says, and do not come back: those that hold the text after them (rule 2); empty
ones (rule 3) and empty lists, which are left out; lists for variables without ``*``; in ``{+x}`` and ``{#x}``, a
percent sign before two hex digits, which counts as encoded already; and what separates several values where it is not
encoded: the comma in ``{+x,y}``, ``{+x*}`` and the same with ``#``, the dot in ``{.x,y}`` and ``{.x*}``.

Specification: https://www.rfc-editor.org/rfc/rfc6570
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


# The one spelling in which URIs and templates are compared, and percent-encoding.
#
# Rules of this file:
#
# 1. Two URIs are spelled the same where they differ only in what RFC 3986 (section 6.2.2) and RFC 3987 (section 3.1)
#    call the same characters: the case of hex digits (``%2f``, ``%2F``), unreserved characters that are percent-
#    encoded
#    (``%41``, ``A``), and characters outside ASCII, which stand for the percent-encoding of their UTF-8 (``ö``,
#    ``%C3%B6``). Clients send all of these for one and the same thing, people and models type the last.
# 2. Nothing else is normalised. The case of scheme and host stays, and ``..`` stays where it is: who removes it does
# not
#    see the attack.
# 3. A percent sign without two hex digits, octets that are no UTF-8, and ASCII characters that no URI may hold
# (spaces,
#    controls, ``"<>\^`{|}``) have no spelling: such a text is no URI.
# 4. A spelling has one character for each character meant, so that it may be cut anywhere. Percent-encoded ASCII
#    characters other than the unreserved ones are kept apart from those that stand for themselves: ``%2F`` is the lone
#    surrogate U+DC2F, where ``/`` is itself. No real text holds lone surrogates.
#
# Specification: https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2

RESERVED: Final = ":/?#[]@!$&'()*+,;="
_UNRESERVED: Final = string.ascii_letters + string.digits + "-._~"

_NO_URI: Final = re.compile(r"""%(?![0-9A-Fa-f]{2})|[\x00-\x20"<>\\^`{|}\x7f\ud800-\udfff]""")
_WITH_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_OCTETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

_APART: Final = {code: 0xDC00 + code for code in range(0x80) if chr(code) not in _UNRESERVED}
_TOGETHER: Final = {apart: code for code, apart in _APART.items()}

ENCODED_RESERVED: Final = RESERVED.translate(_APART)
"""The reserved characters as a spelling has them where they were percent-encoded."""


@lru_cache(maxsize=1)  # a URI is compared with one template after the other
def spelled_uri(uri: str) -> str | None:
    """Return what `spelled` does; the last answer is remembered."""
    return spelled(uri)


def spelled(uri: str) -> str | None:
    """Return the spelling of a URI or a part of one; None where the text cannot stand in a URI."""
    if _NO_URI.search(uri):
        return None
    try:
        return _OCTETS.sub(_spelled_octets, uri)
    except UnicodeDecodeError:
        return None


def _spelled_octets(octets: re.Match[str]) -> str:
    return bytes.fromhex(octets[0].replace("%", "")).decode().translate(_APART)


def is_uri(text: str) -> bool:
    """Tell whether *text* is a whole URI: a scheme, and after it characters of a URI alone, all of them ASCII."""
    return text.isascii() and _WITH_SCHEME.fullmatch(text) is not None and spelled(text) is not None


def decoded(spelling: str) -> str:
    """Return the text that a spelling stands for: percent-decoded once."""
    return spelling.translate(_TOGETHER)


def encoded(text: str) -> str:
    """Return *text* with everything but unreserved characters percent-encoded.

    Raises:
        ValueError: a lone surrogate, which has no UTF-8.
    """
    return quote(text, safe="")


def encoded_except_reserved(text: str) -> str:
    """Return *text* for where reserved characters, and what is percent-encoded already, stay as they are.

    Raises:
        ValueError: a lone surrogate, which has no UTF-8.
    """
    return quote(_LONE_PERCENT.sub("%25", text), safe=RESERVED + "%")


# What stands between braces in a URI template: the operators of RFC 6570, and how each writes and reads its variables.
#
# Levels 1 to 3, and the modifier ``*`` of level 4. Whether an expression is clear where it stands is the template's
# business; see `UriTemplate`.
#
# Specification: https://www.rfc-editor.org/rfc/rfc6570#section-3.2, and its appendix A for the table


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


# Where the parts of a URI template begin and end in a URI: found in time linear in its length, whoever has sent it.
#
# Rules of this file:
#
# 1. From the last part to the first, each is asked from which places of the text it and all after it fit. A place is
# an
#    index; a set of places is a bytearray with a 1 for each. Nothing is tried twice, so there is nothing to backtrack.
# 2. Then, from the first to the last, each expression ends at the first place from which the rest fits: where several
#    readings are possible, the earlier variable is the shorter, and what may be left out is.
# 3. All texts here are spellings; see `spelled`.


@frozen
class Literal:
    """Text that stands in the URI as it is."""

    spelling: str

    def fitting(self, text: str, after: bytearray) -> bytearray:
        """Return the places where this part and all after it fit, *after* being those of the parts after it."""
        places, length = bytearray(len(after)), len(self.spelling)
        at = text.find(self.spelling)
        while at >= 0:
            places[at] = after[at + length]
            at = text.find(self.spelling, at + 1)
        return places


@frozen
class Slot:
    """An expression, and the characters that cannot stand in it at its place in the template."""

    expression: Expression
    excluded: frozenset[str]
    _stop: re.Pattern[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        stop = re.compile(f"[{''.join(map(re.escape, sorted(self.excluded)))}]")
        object.__setattr__(self, "_stop", stop)  # the class is frozen

    @property
    def first(self) -> str:
        """The character that an expansion begins with; empty where there is none."""
        return self.expression.operator.first

    def fitting(self, text: str, after: bytearray) -> bytearray:
        """Return the places where this part and all after it fit, *after* being those of the parts after it."""
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
        """Return where the expansion that begins at *at* ends; *at* must be one of its places."""
        return after.find(1, at if self.first else at + 1)


Part = Literal | Slot


def cut(parts: Iterable[Part], text: str) -> list[tuple[Expression, str]] | None:
    """Return each expression with its piece of *text*, None where the parts do not fit."""
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
    """A template that values can be expanded with and URIs can be matched against.

    The operators of RFC 6570, levels 1 to 3: ``{x}``, ``{+x}``, ``{#x}``, ``{.x}``, ``{/x}``, ``{;x}``, ``{?x,y}`` and
    ``{&x,y}``; and ``{x*}``, with each of them, for a list of values. The rules of reading are at the top of the file.

    Names are those of RFC 6570. A server binds them to parameters of a Python function, which ``{x.y}``, ``{1x}`` and
    ``{%41}`` cannot name.

    Args:
        template: the text, such as ``"files://root{/path*}"``.

    Raises:
        ValueError: an expression is malformed or not supported, a variable appears twice, the text between expressions
            cannot stand in a URI, or values would not come back; the message names the expression and the reason.
    """

    template: str
    variables: tuple[str, ...] = field(init=False, repr=False)
    """Names of the variables, in order; empty for a plain URI."""
    exploded: frozenset[str] = field(init=False, repr=False)
    """Names of those with ``*``: their values are lists, all others text."""
    optional: frozenset[str] = field(init=False, repr=False)
    """Names of those that a URI may leave out."""
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
        """Return the URI that the template and *values* make.

        Args:
            values: by the name of the variable: text, or a list of texts. A variable that is missing or has an empty
                list is undefined, and left out as RFC 6570 says; other names mean nothing.

        Raises:
            TypeError: a value is neither text nor a list of texts.
            ValueError: a value holds a lone surrogate.
        """
        return expanded(self._pieces, values)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the value of each variable that *uri* has, None where it does not fit. Any text may be asked about.

        The values are what was sent, percent-decoded once: before one is used in a path, see `escapes`.
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
        """Return how the piece at *index* is read, given those after it."""
        piece, after = self._pieces[index], self._pieces[index + 1 :]
        if isinstance(piece, str):
            spelling = spelled(piece)
            assert spelling is not None  # as it was parsed
            return Literal(spelling)
        try:
            return Slot(piece, piece.excluded | _ends(piece, after))
        except ValueError as error:
            raise ValueError(f"{piece.text} in {self.template!r}: {error}") from None


def parsed(template: str) -> list[_Piece]:
    """Return the texts and expressions of a template, in order.

    Raises:
        ValueError: the template is malformed; the message names the place and the reason.
    """
    pieces: list[_Piece] = []
    for index, piece in enumerate(_EXPRESSION.split(template)):  # text, expression, text, ..., text
        if index % 2:
            try:
                pieces.append(Expression.parse(piece))
            except ValueError as error:
                name = repr(f"{{{piece}}}")[1:-1]  # a line break in a template is none in the message
                raise ValueError(f"{name} in {template!r}: {error}") from None
        elif "{" in piece or "}" in piece:
            raise ValueError(f"{template!r}: a brace without its partner")
        elif spelled(piece) is None:
            raise ValueError(f"{piece!r} in {template!r} cannot stand in a URI: percent-encode it, as UTF-8")
        elif piece:
            pieces.append(piece)
    return pieces


def expanded(pieces: Sequence[_Piece], values: Mapping[str, str | Sequence[str]]) -> str:
    """Return the URI that the pieces of a template and *values* make; see `UriTemplate.expand`."""
    return "".join(
        encoded_except_reserved(piece) if isinstance(piece, str) else piece.expand(values) for piece in pieces
    )


def _ends(expression: Expression, after: Sequence[_Piece]) -> set[str]:
    """Return the characters that end an expression because of what comes after it.

    Raises:
        ValueError: values would not come back; the message says why, and what to write instead.
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
    """Return the character at which *expression* ends because *neighbour* follows with no text between."""
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
    """Check that *text* after an expression does not look like a part of the expression."""
    ours, mark = expression.operator, text[0]
    if ours.named and (mark not in RESERVED or mark == "="):
        raise ValueError(f"a name or value may go on as {text!r} after it: put text between, such as '/'")
    if mark != ours.first and mark not in expression.structure:
        return
    bounds = expression.excluded - {mark}  # what comes after one of these is out of reach
    for piece in (text, *after):
        if isinstance(piece, str):
            if bounds & set(piece):
                return
        elif piece.operator.first not in bounds and _may_hold(piece, mark):
            raise ValueError(f"the {mark!r} after it may be its own, or begin {piece.text}: put other text between")


def _may_hold(expression: Expression, mark: str) -> bool:
    return mark in {".", expression.operator.first, *expression.structure} or expression.operator.reserved


# Whether a value out of a URI, used in a path, could lead out of its place: what a server asks before a handler runs.
#
# A handler that opens ``root / name`` is right for every name but a few. Those few are refused here, whatever system
# the
# server runs on and whatever its handler makes of the value. Rules of this file: a value escapes where it, or what is
# left of it when it is percent-decoded again or normalised (NFKC), holds
#
# 1. a control character, NUL among them;
# 2. a separator (``/`` or ``\``) at its beginning, which makes it absolute, or a network path of Windows;
# 3. a segment of nothing but dots and spaces: ``..``, and what Windows reads as that or as nothing. A ``;`` or ``:``
# ends
#    a segment, since some servers and NTFS cut the rest off;
# 4. a segment that begins with a drive of Windows, ``C:``, which may be any character before a colon;
# 5. a URI of its own at its beginning: ``file:``, or any scheme before a separator;
# 6. an overlong encoding of UTF-8, or more layers of percent-encoding than anyone means.
#
# An item of a list is one segment, so there every separator escapes, and so does an empty item before others: joined
# with
# ``/``, ``["", "etc"]`` is absolute.
#
# What is not looked for: names of devices on Windows (``NUL``, ``COM1``), which are ordinary words elsewhere; symbolic
# links, which only the file system knows; ``~``, ``$HOME`` and the like, which no path means by itself; and characters
# that only look like a dot or a slash and stay what they are.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#security-considerations

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r".:", re.DOTALL)
"""Windows takes any character before a colon for a drive, not letters alone."""
_END_OF_SEGMENT: Final = re.compile(r"[;:]")
_URI: Final = re.compile(r"(?:(?!file:)[a-z][a-z0-9+.-]*:)*(?:file:|(?<=:)[/\\])", re.IGNORECASE | re.ASCII)
_OVERLONG: Final = re.compile(r"%c[01]%|%e0%[89][0-9a-f]|%f0%8[0-9a-f]", re.IGNORECASE)
_CODE_UNIT: Final = re.compile(r"%u([0-9A-Fa-f]{4})", re.IGNORECASE)
_LAYERS: Final = 4
"""How often a value may be percent-decoded again and still change; each time costs as much as the value is long."""


def escapes(value: str | Sequence[str]) -> bool:
    """Return whether a value could lead out of the place where a path has it.

    Args:
        value: as `UriTemplate.match` returns it, decoded once: text, which may be a relative path of several segments,
            or a list, in which each item is one segment.
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
    """Return what NFKC makes of each character.

    One by one, since it is the time of a whole normalisation that grows with the square of a run of accents; and no
    character that matters here is put together out of several.
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
    """Whether a segment of a path is not the name of something inside."""
    if _DRIVE.match(segment):
        return True
    name = _END_OF_SEGMENT.split(segment, 1)[0]
    return name != "" and not name.strip(". ")
