"""Turns the names in docstrings into links to their entries in the reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Final

from ._layout import shown_names
from ._reference import classes_of_reference, entry_members

__all__ = ["linked"]

_CODE: Final = re.compile(r"(?<![`\[\w])`([A-Za-z_][\w.]*)`(?!`)")
_SPECIFICATION: Final = re.compile(r"^Specification: (https://\S+)$", re.MULTILINE)


def linked(text: str, path: str, owner: str) -> str:
    """Return a docstring whose names of the package, and links to the specification, are links in Markdown.

    Args:
        text: the docstring.
        path: the dotted name of its module; a name of this module, or of a package around it, goes before others.
        owner: the class that has the docstring, or whose member has it; empty if there is none.
    """

    def link(code: re.Match[str]) -> str:
        target = _target(code[1], path, owner)
        return code[0] if target is None else f"[{code[0]}][{target}]"

    return _SPECIFICATION.sub(r"[Specification](\1)", _CODE.sub(link, text))


def _target(name: str, path: str, owner: str) -> str | None:
    """Return the identifier of the entry that a docstring means by a name."""
    if name == owner:
        return None
    parts = path.split(".")
    packages = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    candidates = [f"{package}.{each}" for each in (f"{owner}.{name}", name) for package in packages]
    found = next((each for each in candidates if each in _entries()), None)
    return found or _unique().get(name)


@cache
def _entries() -> frozenset[str]:
    """Return the identifiers of all entries and of their members."""
    texts = {name: entry_members(cls) for name, cls in classes_of_reference()}
    members = {f"{name}.{member}" for name, found in texts.items() for member, text in found.items() if text}
    return frozenset({*shown_names(), *members})


@cache
def _unique() -> Mapping[str, str]:
    """Return the identifiers of the entries whose last name no other entry has, by that name.

    A name of a message may mean something else outside of the modules of messages, as `Annotated` does.
    """
    lasts = Counter(name.rpartition(".")[2] for name in shown_names())
    names = [name for name in shown_names() if ".types." not in name]
    return {last: name for name in names if lasts[last := name.rpartition(".")[2]] == 1}
