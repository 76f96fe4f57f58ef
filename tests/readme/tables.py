"""The tables that map the names of other SDKs, and a check that code in them names what exists.

It needs nothing but the standard library, because the interpreters of the other SDKs run it as well.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

DOCS = Path(__file__).parents[2] / "docs"
UNKNOWN = object()
"""A value of which only the program knows what it is, such as the result of a call."""


class Peer(Protocol):
    """What is known of a package: objects by the names that the tables use for them, and how to find others."""

    @property
    def holders(self) -> Mapping[str, Any]:
        """The objects that the tables name by a variable, such as `server`."""
        ...

    def find(self, name: str) -> Any:
        """Return the public class or function of that name; None if there is none."""
        ...

    def more_options(self, function: Any) -> Collection[str]:
        """Return the options of a function that its signature does not name."""
        ...


def cells(page: str, column: int, *, without: str | None = None) -> Iterator[str]:
    """Yield the cells of one column of all tables of a page whose header has code; up to a heading, if there is one."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\|\n)+", text.partition(f"## {without}\n")[0], re.MULTILINE):
        header, _, *rows = table.splitlines()
        if "trio-mcp" in header:
            yield from (re.split(r" *(?<!\\)\| *", row.strip("|").strip())[column] for row in rows)


def codes(page: str, column: int, *, without: str | None = None) -> list[str]:
    """Return the pieces of code in one column of a page."""
    return sorted({code for cell in cells(page, column, without=without) for code in re.findall("`([^`]+)`", cell)})


def is_command(code: str) -> bool:
    return re.match(r"(fastmcp|mcp|trio-mcp) [-a-z]", code) is not None


def is_expression(code: str) -> bool:
    """Return True if the code names objects, and is no command, option, import path or header."""
    return not is_command(code) and re.match(r"--|\{|https?:|/|FASTMCP_", code) is None


def missing(code: str, peer: Peer) -> list[str]:
    """Return the names and options in a piece of code that the package does not have."""
    bare = re.sub(r"^(await |@|async def$)", "", code)
    bare = re.sub(r"^ctx: ", "", bare)
    option = re.fullmatch(r"(\w+)=(?:[^=].*)?", bare)
    if option or not bare:  # an option alone: it is in a call elsewhere in its row, and Python refuses wrong ones
        return []
    faults: list[str] = []
    tree = ast.parse(bare.replace("{...}", "..."), mode="eval").body
    named = tree.func if isinstance(tree, ast.Call) else tree
    if isinstance(named, ast.Name) and named.id not in peer.holders and peer.find(named.id) is None:
        return [named.id]
    _resolve(tree, peer, faults)
    return faults


def _resolve(node: ast.expr, peer: Peer, faults: list[str]) -> Any:
    match node:
        case ast.Name(id=name):
            found = peer.holders[name] if name in peer.holders else peer.find(name)
            if found is None and name[0].isupper() and len(name) > 1 and name not in {"Form", "Schema", "Annotated"}:
                faults.append(name)
            return UNKNOWN if found is None else found
        case ast.Attribute(value=value, attr=attr):
            return _member(_resolve(value, peer, faults), attr, faults)
        case ast.Call(func=func, args=args, keywords=keywords):
            function = _resolve(func, peer, faults)
            for each in [*args, *(keyword.value for keyword in keywords)]:
                _resolve(each, peer, faults)
            _check_options(function, [each.arg for each in keywords if each.arg], peer, faults)
            return UNKNOWN
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    _resolve(child, peer, faults)
            return UNKNOWN


def _member(holder: Any, name: str, faults: list[str]) -> Any:
    if holder is UNKNOWN:
        return UNKNOWN
    fields = {
        *getattr(holder, "__annotations__", {}),
        *getattr(holder, "model_fields", {}),
        *(each.name for each in getattr(holder, "__attrs_attrs__", ())),
    }
    if name not in fields and not hasattr(holder, name):
        faults.append(f"{getattr(holder, '__name__', holder)}.{name}")
        return UNKNOWN
    found = getattr(holder, name, UNKNOWN)
    return found if callable(found) or inspect.ismodule(found) or not isinstance(holder, type) else UNKNOWN


def _check_options(function: Any, options: Sequence[str], peer: Peer, faults: list[str]) -> None:
    if function is UNKNOWN or not options:
        return
    known = {*inspect.signature(function).parameters, *peer.more_options(function)}
    faults += [f"{getattr(function, '__name__', function)}({each}=)" for each in options if each not in known]
