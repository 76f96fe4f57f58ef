"""Generates the pages of the reference: the public names, by what they are for, and the commands with their options.

Rules of this file:

1. Each public name of `trio_mcp` is on exactly one page, by the module that defines it. A page has the other names of
   its public modules as well. An object that has several public names is shown by the first.
2. The text of a name is its docstring, and that of a command its `--help`: nothing is written here that could drift.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import frozen

import trio_mcp

from ._classes import attribute_texts, parameters_of, value_text

__all__ = ["COMMANDS", "PAGES", "ReferencePage", "names_on", "public_names", "stage_reference", "text_of"]

COMMANDS = "commands"
"""The page of the commands and their options."""


@frozen
class ReferencePage:
    """A page of the reference."""

    title: str
    summary: str
    homes: frozenset[str] = frozenset()
    """The sub-packages and modules that define the names of `trio_mcp` on this page."""
    modules: tuple[str, ...] = ()
    """The public modules whose names are on this page, beside those of `trio_mcp`."""
    first: tuple[str, ...] = ()
    """The names that a reader looks for first; the others follow in alphabetical order."""


PAGES: Mapping[str, ReferencePage] = {
    "server": ReferencePage(
        "Server",
        "Servers, handlers and their context, and the ways to serve.",
        frozenset({"server", "peer"}),
        first=("Server", "Context", "serve_stdio", "serve_http", "http_app", "serve_stream", "serve_listeners"),
    ),
    "client": ReferencePage(
        "Client",
        "Openers, clients of one server and of many, and the changes they hear.",
        frozenset({"client", "wire"}),
        first=("open_client", "Client", "ClientOptions", "open_clients", "Clients"),
    ),
    "asyncio": ReferencePage(
        "On asyncio",
        "The client for programs on asyncio, and servers in their ASGI applications.",
        modules=("trio_mcp.asyncio",),
    ),
    "sync": ReferencePage("Without async", "The client for programs without async.", modules=("trio_mcp.sync",)),
    "errors": ReferencePage(
        "Errors", "All exceptions; [the tree](../errors.md) shows how they belong together.", frozenset({"_errors"})
    ),
    "http": ReferencePage(
        "HTTP", "The HTTP application, its routes, its sessions and its event stores.", frozenset({"transports"})
    ),
    "auth": ReferencePage("Authorization", "OAuth, for both sides.", frozenset({"auth"}), ("trio_mcp.auth",)),
    "gateway": ReferencePage("Gateway", "One server that stands for many.", modules=("trio_mcp.gateway",)),
    "openapi": ReferencePage("Web APIs", "Operations of web APIs as tools.", modules=("trio_mcp.openapi",)),
    "tasks": ReferencePage(
        "Tasks", "Calls that go on after their request was answered.", frozenset({"tasks"}), ("trio_mcp.tasks",)
    ),
    "skills": ReferencePage("Skills", "Instructions for a model, in folders.", modules=("trio_mcp.skills",)),
    "apps": ReferencePage(
        "Apps", "Pages that hosts show beside the results of tools.", frozenset({"apps"}), ("trio_mcp.apps",)
    ),
    "shared": ReferencePage(
        "Shared state",
        "What the processes of one service share, and how they are connected.",
        frozenset({"shared"}),
        ("trio_mcp.shared", "trio_mcp.cluster"),
    ),
    "llm": ReferencePage("Language models", "Tools for the interface of a model.", modules=("trio_mcp.llm",)),
    "testing": ReferencePage("Testing", "Clients, peers and faults for tests.", modules=("trio_mcp.testing",)),
    "abc": ReferencePage(
        "Interfaces", "What backends, transports and extensions of your own implement.", modules=("trio_mcp.abc",)
    ),
    "lowlevel": ReferencePage(
        "Low level", "Names for authors of transports and frameworks.", modules=("trio_mcp.lowlevel",)
    ),
    "types": ReferencePage(
        "Types",
        "The messages of the protocol and of its extensions, generated from its schemas.",
        modules=("trio_mcp.types", "trio_mcp.tasks.types", "trio_mcp.skills.types", "trio_mcp.apps.types"),
    ),
}

_KINDS = {"CallNext": "server", "Middleware": "server", "HttpRoute": "transports", "Change": "wire", "types": "types"}
"""The modules of names that are no classes and no functions, and so do not know where they are defined."""
_COLUMNS = 92
"""The width of the lines of `--help`, which fits a page."""


def public_names(module: str) -> list[str]:
    """Return the names in the `__all__` of a module."""
    names: list[str] = import_module(module).__all__
    return names


def names_on(page: str) -> list[str]:
    """Return the dotted names on a page of the reference, in order.

    Args:
        page: a key of `PAGES`.
    """
    first = PAGES[page].first
    top = public_names("trio_mcp")
    own = [name for name in top if _home_of(name) in PAGES[page].homes and name not in first]
    names = [f"trio_mcp.{name}" for name in (*first, *own)]
    names += [f"{module}.{name}" for module in PAGES[page].modules for name in public_names(module)]
    elsewhere = {id(getattr(trio_mcp, name)) for name in top}
    values = {name: _value_of(name) for name in names}
    return [
        name
        for name, value in values.items()
        if not inspect.ismodule(value) and (name.count(".") == 1 or id(value) not in elsewhere)
    ]


def _home_of(name: str) -> str:
    module: str = _KINDS.get(name) or getattr(trio_mcp, name).__module__.removeprefix("trio_mcp.")
    return module.partition(".")[0]


def _value_of(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def stage_reference(target: Path) -> None:
    """Write the pages of the reference into a new folder."""
    target.mkdir()
    for name, page in PAGES.items():
        text = "\n\n".join([f"# {page.title}", page.summary, *(f"::: {each}" for each in names_on(name))])
        (target / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    (target / f"{COMMANDS}.md").write_text(_commands(), encoding="utf-8")


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
    parts = [f"# {PAGES[page].title}\n\n{PAGES[page].summary}"]
    for name in names_on(page):
        value = _value_of(name)
        text = inspect.getdoc(value) if inspect.isclass(value) or inspect.isroutine(value) else value_text(name)
        parts.append(f"## {name}{_signature(value)}\n\n{text or ''}")
        if inspect.isclass(value):
            parts.append(_attributes(value))
            parts += [
                f"### {name}.{key}{_signature(each)}\n\n{inspect.getdoc(each) or ''}" for key, each in _methods(value)
            ]
    return (
        "\n\n".join(inspect.cleandoc(part) if part.startswith("### ") else part.rstrip() for part in parts if part)
        + "\n"
    )


def _attributes(cls: type) -> str:
    """Return a list of the public attributes and properties of a class, each with its text."""
    properties = {key: inspect.getdoc(each) or "" for key, each in vars(cls).items() if isinstance(each, property)}
    texts = {**attribute_texts(cls), **properties}
    return "\n".join(f"- `{key}`: {' '.join(text.split())}" for key, text in texts.items() if not key.startswith("_"))


def _methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for key, member in vars(cls).items():
        function: Any = getattr(member, "__func__", member)  # of class methods and static methods
        if inspect.isfunction(function) and not key.startswith("_"):
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
