"""Docstrings of the public names: each exists, names every parameter, and lists what the function raises.

`docstring_exceptions.toml` has the functions that do not satisfy this yet. The lists may only become shorter: the tests
fail for a function that is listed and satisfies the rule, and for one more function.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import trio_mcp
from trio_mcp._mirrors import Mirror
from website import PAGES, names_on

EXCEPTIONS = tomllib.loads((Path(__file__).parent / "docstring_exceptions.toml").read_text(encoding="utf-8"))
MOST_PARAMETERS, MOST_RAISES = 171, 3
"""The lengths of the lists: lower them with each function that is mended, and never raise them."""
UNRAISED = {"AssertionError", "NotImplementedError", "StopAsyncIteration", "StopIteration"}
"""Exceptions that say that the program is wrong, or that belong to the protocols of Python."""


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield the public classes and functions with their names, except for the generated types."""
    seen: set[int] = set()
    for page in PAGES:
        for name in names_on(page) if page != "types" else ():
            module, _, last = name.rpartition(".")
            value = getattr(import_module(module), last)
            if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in seen:
                seen.add(id(value))
                yield name, value


def methods(name: str, cls: type) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield the public methods that a class defines: the name, the function, and the text about it in all classes."""
    for key, member in vars(cls).items():
        function = getattr(member, "__func__", member)  # of class methods and static methods
        if key.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("trio_mcp"):
            continue
        if issubclass(cls, Mirror):  # its methods have the text of those that they mirror
            continue
        inherited = [vars(base)[key] for base in cls.__mro__ if key in vars(base)]
        yield f"{name}.{key}", function, "\n".join(inspect.getdoc(each) or "" for each in inherited)


OBJECTS = dict(public_objects())
FUNCTIONS: list[tuple[str, Callable[..., Any], str]] = [
    *((name, value, inspect.getdoc(value) or "") for name, value in OBJECTS.items() if inspect.isfunction(value)),
    *(found for name, value in OBJECTS.items() if inspect.isclass(value) for found in methods(name, value)),
]
TEXTS = {name.removeprefix("trio_mcp."): text for name, _, text in FUNCTIONS}
_REFERRED = re.compile(r"(?:see|as|as of|of|what) `([\w.]+)`")


def whole_text(name: str, text: str) -> str:
    """Return the text about a function, with the texts to which it refers for what they have in common.

    It refers to a method of its own class by the bare name, and to others as `Client.tools` or `open_client`.
    """
    owner = name.removeprefix("trio_mcp.").rpartition(".")[0]
    places = [place for found in _REFERRED.findall(text) for place in (f"{owner}.{found}", found)]
    return "\n".join([text, *(TEXTS[place] for place in places if place in TEXTS)])


def unnamed_parameters(function: Callable[..., Any], text: str) -> list[str]:
    """Return the parameters that the docstring does not name; `**options` may be described in any words."""
    parameters = inspect.signature(function).parameters.values()
    named = [each.name for each in parameters if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
    return [name for name in named if name not in {"self", "cls"} and not re.search(rf"\b{name}\b", text)]


def raised_by(function: Callable[..., Any]) -> set[str]:
    """Return the names of the exception classes that the function itself raises, in its own lines."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    own = [node for node in walk_body(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    names = {ast.unparse(node.exc.func).rpartition(".")[2] for node in own if isinstance(node.exc, ast.Call)}
    classes = {name for name in names if hasattr(builtins, name) or hasattr(trio_mcp, name)}
    return classes - UNRAISED


def walk_body(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside a function, but not those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from walk_body(child)


def has_raises(function: Callable[..., Any], text: str) -> bool:
    """Return True if the section about exceptions names each one that the function raises, or a base class of it."""
    section = "".join(text.split("Raises:")[1:])
    for name in raised_by(function):
        raised = getattr(builtins, name, None) or getattr(trio_mcp, name)
        if not any(re.search(rf"\b{base.__name__}\b", section) for base in raised.__mro__):
            return False
    return True


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_and_its_methods_have_docstrings(name: str) -> None:
    value = OBJECTS[name]
    members: dict[str, Any] = dict(vars(value)) if inspect.isclass(value) else {}
    shown = {key: each for key, each in members.items() if inspect.isfunction(each) or isinstance(each, property)}

    assert value.__doc__
    assert [key for key, each in shown.items() if not key.startswith("_") and not inspect.getdoc(each)] == []


def test_docstrings_name_every_parameter() -> None:
    silent = {name for name, function, text in FUNCTIONS if unnamed_parameters(function, whole_text(name, text))}

    assert sorted(silent) == sorted(EXCEPTIONS["parameters"])
    assert len(silent) <= MOST_PARAMETERS


def test_docstrings_list_what_functions_raise() -> None:
    silent = {name for name, function, text in FUNCTIONS if not has_raises(function, whole_text(name, text))}

    assert sorted(silent) == sorted(EXCEPTIONS["raises"])
    assert len(silent) <= MOST_RAISES
