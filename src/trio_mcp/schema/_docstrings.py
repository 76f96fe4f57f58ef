"""Splits the docstring of a function or class into its description and those of the parameters.

It reads Google style, NumPy style and Sphinx fields; all other lines are description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Final

from attrs import field, frozen

__all__ = ["Docstring", "parse_docstring"]

_TITLES: Final = frozenset({"args", "arguments", "parameters", "params", "attributes", "other parameters"})

_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\))?\s*:(?:\s+(?P<text>.*))?$")
_NUMPY_ENTRY: Final = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_FIELD: Final = re.compile(
    r":(?P<kind>param|parameter|arg|argument|type)\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)$"
)
_UNDERLINE: Final = re.compile(r"\s*-{3,}\s*$")


@frozen
class Docstring:
    """The parts of a docstring."""

    description: str = ""
    """Summary and body, without the sections about parameters; empty when there is no docstring."""

    parameters: dict[str, str] = field(factory=dict[str, str])
    """The description of each parameter, on one line."""


def parse_docstring(text: str | None) -> Docstring:
    """Split a docstring into its parts; None is a missing docstring."""
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    parameters: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        end = _read_section(lines, at, parameters) or _read_field(lines, at, parameters)
        if end:
            at = end
        else:
            kept.append(lines[at])
            at += 1
    described = {name: joined for name, parts in parameters.items() if (joined := _joined(parts))}
    return Docstring(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), described)


def _read_section(lines: Sequence[str], at: int, into: dict[str, list[str]]) -> int | None:
    """Read the section about parameters that starts at this line; return the line behind it, or None without one."""
    title = lines[at].strip().lower()
    if title.removesuffix(":") not in _TITLES:
        return None
    if at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1]):
        return _read_numpy(lines, at + 2, into)
    return _read_google(lines, at, into) if title.endswith(":") else None


def _read_google(lines: Sequence[str], at: int, into: dict[str, list[str]]) -> int | None:
    end = _end_of_block(lines, at)
    body = [line for line in lines[at + 1 : end] if line.strip()]
    if not body:
        return None
    entry_indent = _indent(body[0])
    current: list[str] = []
    for line in body:
        entry = _GOOGLE_ENTRY.match(line.strip()) if _indent(line) <= entry_indent else None
        if entry:
            current = into.setdefault(entry["name"], [])
            current.append(entry["text"] or "")
        else:
            current.append(line)
    return end


def _read_numpy(lines: Sequence[str], at: int, into: dict[str, list[str]]) -> int:
    indent = _indent(lines[at - 2])
    current: list[list[str]] = []
    while at < len(lines) and not (at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1])):
        line = lines[at]
        entry = _NUMPY_ENTRY.match(line.strip()) if line.strip() and _indent(line) <= indent else None
        if entry:
            names = (name.strip().lstrip("*") for name in entry["names"].split(","))
            current = [into.setdefault(name, []) for name in names]
        else:
            for parts in current:
                parts.append(line)
        at += 1
    return at


def _read_field(lines: Sequence[str], at: int, into: dict[str, list[str]]) -> int | None:
    found = _SPHINX_FIELD.match(lines[at].strip())
    if not found:
        return None
    end = _end_of_block(lines, at)
    if found["kind"] != "type":
        into.setdefault(found["name"], []).extend([found["text"], *lines[at + 1 : end]])
    return end


def _end_of_block(lines: Sequence[str], at: int) -> int:
    """Return the first line after `at` that is neither blank nor indented deeper than line `at`."""
    indent = _indent(lines[at])
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(parts: Sequence[str]) -> str:
    return " ".join(part.strip() for part in parts if part.strip())
