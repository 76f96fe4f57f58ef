"""Generates the pages of the reference: the public names, by what they are for, and the commands with their options.

Rules of this file:

1. `reference.toml` says what a page is for, and in which order it has its names (see `_layout`).
2. The text of a name is its docstring, and that of a command its `--help`: nothing is written here that could drift.
3. The entry of a class has the members of its bases too if the reference does not show the base.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ._classes import attribute_texts, own_bases, parameters_of, value_text
from ._layout import PAGES, first_members, groups_of, is_alias, is_shown, names_on, shown_classes, shown_names, value_of

__all__ = [
    "COMMANDS",
    "SYNC",
    "attributes_of",
    "classes_of_reference",
    "entry_members",
    "entry_text",
    "stage_reference",
    "summary_of",
    "text_of",
    "without_async",
]

COMMANDS: Final = "commands"
"""The page of the commands and their options."""

_COLUMNS: Final = 92
"""The width of the lines of `--help`, which fits a page."""
_MANY: Final = 5
"""A class with this many methods has a table of them on top."""
SYNC: Final = "trio_mcp.sync."
"""The classes of this module have the docstrings of those for Trio."""
_ASYNC: Final = re.compile(r"\b(?:async (?=def|for|with)|await )")
_INDENTED: Final = re.compile(r"^ {4}.*$", re.MULTILINE)
_MARKS: Final = re.compile(r"``(.+?)``", re.DOTALL)


def stage_reference(target: Path) -> None:
    """Write the pages of the reference into a new folder."""
    target.mkdir()
    for name in PAGES:
        (target / f"{name}.md").write_text(_page(name), encoding="utf-8")
    (target / f"{COMMANDS}.md").write_text(_commands(), encoding="utf-8")


def _page(name: str) -> str:
    parts = [f"# {PAGES[name].title}", PAGES[name].introduction.strip(), _contents(name)]
    for heading, names in groups_of(name).items():
        parts += [f"## {heading}", *(_directive(each) for each in names)]
    return "\n\n".join(parts) + "\n"


def _contents(page: str) -> str:
    """Return a list of the names on a page, by groups, with the first sentence of each."""
    parts: list[str] = []
    for heading, names in groups_of(page).items():
        lines = [f"- [`{_short(name, page)}`](#{name}): {summary_of(name)}" for name in names]
        parts += [f"**{heading}**", "\n".join(lines)]
    return "\n\n".join(parts)


def _short(name: str, page: str) -> str:
    """Return a name as the list of a page shows it: with its module only if the page has names of several."""
    modules = {each.rpartition(".")[0] for each in names_on(page)}
    last = name.rpartition(".")[2]
    return last if len(modules) == 1 else name.removeprefix("trio_mcp.")


def summary_of(name: str) -> str:
    """Return the first sentence of the text of a name.

    Args:
        name: a dotted public name.
    """
    first = " ".join(entry_text(name).partition("\n\n")[0].split())
    return re.split(r"(?<=[.:;])\s(?=[A-Z])", _MARKS.sub(r"`\1`", first), maxsplit=1)[0]


def entry_text(name: str) -> str:
    """Return the text of a name: its docstring, or the string below its definition.

    Args:
        name: a dotted public name.
    """
    text = value_text(name) if is_alias(name) else inspect.getdoc(value_of(name))
    return without_async(text or "") if name.startswith(SYNC) else text or ""


def without_async(text: str) -> str:
    """Return a docstring of a Trio function with its examples as a program without async has them."""
    return _INDENTED.sub(lambda block: _ASYNC.sub("", block[0]), text)


def _directive(name: str) -> str:
    """Return the lines that make the entry of a name."""
    value = value_of(name)
    lines = [f"::: {name}"]
    if inspect.isclass(value) and not is_alias(name):
        members = [*attributes_of(value), *(key for key, _ in _methods(value))]
        first = [key for key in first_members(value) if key in members]
        lines += ["    options:", f"      members: [{', '.join(dict.fromkeys([*first, *members]))}]"]
        if len(list(_methods(value))) >= _MANY:
            lines.append("      summary: {functions: true}")
    return "\n".join(lines)


def _commands() -> str:
    """Return the page of the commands, made of their own `--help`."""
    overview = _help_of()
    names = re.findall(r"^ {4}(\w+)(?: {2,}|$)", overview, re.MULTILINE)
    introduction = "The help of each command, as it prints it. [The command line](../command-line.md) explains them.\n"
    parts = [f"# Commands and options\n\n{introduction}\n```text\n{overview}```\n"]
    parts += [f"## trio-mcp {name}\n\n```text\n{_help_of(name)}```\n" for name in names]
    return "\n".join(parts)


def _help_of(*command: str) -> str:
    environment = os.environ | {"COLUMNS": str(_COLUMNS), "NO_COLOR": "1"}
    arguments = [sys.executable, "-m", "trio_mcp", *command, "--help"]
    done = subprocess.run(arguments, env=environment, capture_output=True, encoding="utf-8", check=True)  # noqa: S603  # our own
    return done.stdout


def text_of(page: str) -> str:
    """Return the text of a page of the reference: each name with its signature, its docstring and its members.

    Args:
        page: a key of `PAGES`.
    """
    parts = [f"# {PAGES[page].title}", PAGES[page].introduction.strip()]
    for heading, names in groups_of(page).items():
        parts.append(f"## {heading}")
        for name in names:
            parts += _entry(name)
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def classes_of_reference() -> Iterator[tuple[str, type]]:
    """Yield each class that has an entry, with its name."""
    yield from (
        (name, value_of(name)) for name in shown_names() if inspect.isclass(value_of(name)) and not is_alias(name)
    )


def entry_members(cls: type) -> Mapping[str, str]:
    """Return the text of each member that the entry of a class shows.

    Args:
        cls: a class of the reference.
    """
    return {**attributes_of(cls), **{key: inspect.getdoc(method) or "" for key, method in _methods(cls)}}


def _entry(name: str) -> Iterator[str]:
    """Yield the heading and the texts of a name and of its members."""
    value = value_of(name)
    if is_alias(name):
        yield f"### {name}"
        yield entry_text(name)
        return
    yield f"### {name}{_signature(value)}"
    yield entry_text(name)
    if inspect.isclass(value):
        yield "\n".join(f"- `{key}`: {text}" for key, text in attributes_of(value).items())
        for key, method in _methods(value):
            yield f"#### {name}.{key}{_signature(method)}"
            text = inspect.getdoc(method) or ""
            yield without_async(text) if name.startswith(SYNC) else text


def attributes_of(cls: type) -> Mapping[str, str]:
    """Return the text of each public attribute and property of a class."""
    bases = _entry_bases(cls)
    properties = {
        key: inspect.getdoc(member) or ""
        for base in reversed(bases)
        for key, member in vars(base).items()
        if isinstance(member, property)
    }
    texts = {**attribute_texts(cls, without=shown_classes()), **properties}
    return {key: " ".join(text.split()) for key, text in texts.items() if is_shown(cls, key)}


def _entry_bases(cls: type) -> list[type]:
    """Return a class and those of its bases whose members its entry has."""
    return [cls, *(base for base in own_bases(cls)[1:] if base not in shown_classes())]


def _methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    members = {key: member for base in reversed(_entry_bases(cls)) for key, member in vars(base).items()}
    own = [key for key in vars(cls) if key in members]
    for key in dict.fromkeys([*own, *members]):
        function: Any = getattr(members[key], "__func__", members[key])  # of class methods and static methods
        if inspect.isfunction(function) and is_shown(cls, key):
            yield key, function


def _signature(value: Any) -> str:
    if not callable(value):
        return ""
    is_class = inspect.isclass(value)
    try:
        signature = inspect.signature(value)
        parameters = parameters_of(value) if is_class else [*signature.parameters.values()]
    except (TypeError, ValueError):
        return ""  # of aliases, Python knows none
    if parameters is None:
        return ""
    shown = [
        each.replace(annotation=_annotation(each.annotation), default=_default(each.default))
        for each in parameters
        if each.annotation != "Never"  # such a parameter only explains a mistake
    ]
    returned = signature.empty if is_class else _annotation(signature.return_annotation)
    return str(inspect.Signature(shown, return_annotation=returned))


class _Plain(str):
    """A string that a signature shows without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _annotation(value: Any) -> Any:
    return _Plain(value) if isinstance(value, str) else value


def _default(value: Any) -> Any:
    """Return a default as a signature shows it: a literal, or dots for a function or an object."""
    if value is None or value is inspect.Parameter.empty or type(value) in {bool, bytes, float, int, str, tuple}:
        return value
    return _Plain("...")
