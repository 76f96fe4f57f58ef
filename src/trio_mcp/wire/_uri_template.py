"""URI templates with plain variables, such as ``greeting://{name}``: RFC 6570, level 1.

A variable stands for one or more characters of one path segment, percent-decoded. Where another variable follows in
the same segment, it ends at the first character of the text between them: so each URI has one reading, found in time
linear in its length, whoever has sent it. Other expressions are refused by name when the template is made.

Specification: https://www.rfc-editor.org/rfc/rfc6570#section-3.2.2
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from attrs import define, field

__all__ = ["UriTemplate"]

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@define(eq=False)
class UriTemplate:
    """A template that URIs can be matched against.

    Args:
        template: the text, such as ``"notes://{folder}/{name}"``.

    Raises:
        ValueError: an expression is not a plain variable, one appears twice, two touch, or a brace stands
            alone.
    """

    template: str
    variables: tuple[str, ...] = field(init=False)
    """Names of the variables, in order; empty for a plain URI."""
    _pattern: re.Pattern[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        parts = _EXPRESSION.split(self.template)  # literal, name, literal, name, ..., literal
        literals, names = parts[::2], parts[1::2]
        if any(brace in literal for literal in literals for brace in "{}"):
            raise ValueError(f"{self.template!r}: a brace without its partner")
        for name in names:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(
                    f"{{{name}}} in {self.template!r}: only plain variables such as {{name}} are supported"
                )
            if names.count(name) > 1:
                raise ValueError(f"{{{name}}} appears twice in {self.template!r}")
        groups = [self._group(name, literals[i + 1], last=i + 1 == len(names)) for i, name in enumerate(names)]
        pairs = zip(literals, [*groups, ""], strict=True)
        self.variables = tuple(names)
        self._pattern = re.compile("".join(re.escape(literal) + group for literal, group in pairs))

    def _group(self, name: str, after: str, *, last: bool) -> str:
        """Return the pattern of a variable that *after* follows."""
        if last or any(end in after for end in "/?#"):
            return f"(?P<{name}>[^/?#]+)"
        if not after:
            raise ValueError(f"{{{name}}} in {self.template!r}: another variable follows with nothing between them")
        return f"(?P<{name}>[^/?#{re.escape(after[0])}]+)"

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the value of each variable in *uri*, None where it does not fit."""
        found = self._pattern.fullmatch(uri)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}
