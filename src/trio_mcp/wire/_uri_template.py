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
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import define, field

from ._uri_template_expression import Expression
from ._uri_template_parts import Literal, Part, Slot, cut
from ._uri_template_spelling import RESERVED, encoded_except_reserved, spelled, spelled_uri

__all__ = ["UriTemplate"]

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
