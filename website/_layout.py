"""Places each public name on one page of the reference, in one group, as `reference.toml` lists them.

Rules of this file:

1. A name that a group lists by itself is in that group. Any other name is in the first group with a pattern for it.
2. An object that has several public names is shown by the first, in the order of the modules in `reference.toml`.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from ._classes import own_bases

__all__ = [
    "MODULES",
    "PAGES",
    "ReferencePage",
    "first_members",
    "groups_of",
    "is_alias",
    "is_shown",
    "listed_members",
    "names_on",
    "public_names",
    "shown_classes",
    "shown_names",
    "value_of",
]

_PACKAGE: Final = "trio_mcp"
_LISTED: Final[Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("reference.toml").read_text(encoding="utf-8")
)
_FIRST: Final[Mapping[str, Sequence[str]]] = _LISTED["first"]
_HIDDEN: Final[Mapping[str, Sequence[str]]] = _LISTED["hidden"]

MODULES: Final[Sequence[str]] = _LISTED["modules"]
"""The public modules whose names the reference has."""


@frozen
class ReferencePage:
    """A page of the reference."""

    title: str
    introduction: str
    """Markdown that says what the page is for, with a link to the guide."""
    groups: Mapping[str, Sequence[str]]
    """The names and patterns of each group, by its heading."""

    @property
    def summary(self) -> str:
        """The introduction on one line."""
        return " ".join(self.introduction.split())


PAGES: Final[Mapping[str, ReferencePage]] = {name: ReferencePage(**page) for name, page in _LISTED["pages"].items()}
"""The pages of the reference, by the names of their files."""


def public_names(module: str) -> list[str]:
    """Return the names in the `__all__` of a module."""
    names: list[str] = import_module(module).__all__
    return names


def value_of(name: str) -> Any:
    """Return the object that has a dotted public name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def is_alias(name: str) -> bool:
    """Return True if a dotted public name stands for a type that has another name, or for a value."""
    value = value_of(name)
    has_text = inspect.isclass(value) or inspect.isroutine(value)
    return not has_text or value.__name__ != name.rpartition(".")[2]


def groups_of(page: str) -> Mapping[str, Sequence[str]]:
    """Return the dotted names of each group of a page, in order, by the heading of the group.

    Args:
        page: a key of `PAGES`.
    """
    placed = _placed()
    groups = {heading: placed.get((page, heading), ()) for heading in PAGES[page].groups}
    return {heading: names for heading, names in groups.items() if names}


def names_on(page: str) -> list[str]:
    """Return the dotted names on a page of the reference, in order.

    Args:
        page: a key of `PAGES`.
    """
    return [name for names in groups_of(page).values() for name in names]


@cache
def _placed() -> Mapping[tuple[str, str], Sequence[str]]:
    """Return the names of each group, by page and heading, in the order of the entries of the group."""
    entries = [
        (page, heading, f"{_PACKAGE}.{entry}")
        for page, content in PAGES.items()
        for heading, listed in content.groups.items()
        for entry in listed
    ]
    exact = {entry for _, _, entry in entries if "*" not in entry}
    found: dict[tuple[str, str], list[str]] = {}
    left = dict.fromkeys(shown_names())
    for page, heading, entry in entries:
        taken = [entry] if entry in exact else sorted(_matching(entry, [name for name in left if name not in exact]))
        found.setdefault((page, heading), []).extend(name for name in taken if name in left)
        for name in taken:
            left.pop(name, None)
    return found


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if fnmatchcase(name, pattern) and name.count(".") == pattern.count(".")]


@cache
def shown_names() -> Sequence[str]:
    """Return the dotted name of each public object."""
    shown: dict[object, str] = {}
    for module in MODULES:
        for last in public_names(module):
            name = f"{module}.{last}"
            value = value_of(name)
            if not inspect.ismodule(value):
                shown.setdefault(name if is_alias(name) else id(value), name)
    return tuple(shown.values())


@cache
def shown_classes() -> frozenset[type]:
    """Return the classes that have an entry in the reference."""
    return frozenset(value_of(name) for name in shown_names() if inspect.isclass(value_of(name)) and not is_alias(name))


def is_shown(cls: type, member: str) -> bool:
    """Return True if the entry of a class shows a member: it is public, and not for the package alone.

    Args:
        cls: a class.
        member: the name of the member.
    """
    return not member.startswith("_") and all(member not in _HIDDEN.get(base.__name__, ()) for base in own_bases(cls))


def first_members(cls: type) -> Sequence[str]:
    """Return the names of the members that readers of a class look for first."""
    return next((_FIRST[base.__name__] for base in own_bases(cls) if base.__name__ in _FIRST), ())


def listed_members() -> Iterator[tuple[str, str]]:
    """Yield the class and the name of each member that `reference.toml` hides or places first."""
    for classes in (_HIDDEN, _FIRST):
        yield from ((name, member) for name, members in classes.items() for member in members)
