"""Reads the sources for what Python does not keep: the texts of attributes and values, and who may pass a parameter."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, is_typeddict

import attrs

__all__ = ["attribute_texts", "class_text", "is_described", "own_bases", "parameters_of", "value_text"]


def parameters_of(cls: type) -> list[inspect.Parameter] | None:
    """Return the parameters of a class that users may pass; None if programs do not make instances of it.

    The parameter of a private attribute is for users only if the section `Args` of the docstring describes it. A class
    that requires another one is made by the package itself.
    """
    made: Any = cls.__init__  # type: ignore[misc]  # of the class itself, not of an instance
    parameters = list(inspect.signature(made).parameters.values())[1:]
    if not attrs.has(cls):
        return parameters
    public = {each.alias for each in attrs.fields(cls) if not each.name.startswith("_")}
    text = class_text(cls)
    shown: list[inspect.Parameter] = []
    for parameter in parameters:
        if parameter.name in public or is_described(parameter.name, text):
            shown.append(parameter)
        elif parameter.default is parameter.empty and parameter.kind != parameter.VAR_KEYWORD:
            return None
    return shown


def is_described(name: str, text: str) -> bool:
    """Return True if a section `Args` of a docstring describes a parameter.

    Args:
        name: the name of the parameter.
        text: the docstring.
    """
    return re.search(rf"^ {{4}}{name}: ", text, re.MULTILINE) is not None


def class_text(cls: type) -> str:
    """Return the docstrings of a class and of the classes of the package from which it inherits."""
    return "\n".join(inspect.cleandoc(base.__doc__) for base in own_bases(cls) if base.__doc__)


def attribute_texts(cls: type, *, without: Collection[type] = ()) -> Mapping[str, str]:
    """Return the strings below the attributes of a class, inherited ones included, by the names of the attributes.

    Args:
        cls: the class.
        without: bases whose attributes are left out.
    """
    texts: dict[str, str] = {}
    for base in reversed([each for each in own_bases(cls) if each is cls or each not in without]):
        node = _definition_of(base)
        texts |= _texts_in(() if node is None else node.body)
    return texts


def _definition_of(cls: type) -> ast.ClassDef | None:
    """Return the definition of a class in its source; None if there is none, as for one that a function has made."""
    body: Sequence[ast.stmt] = _tree_of(Path(import_module(cls.__module__).__file__ or "")).body
    node = None
    for part in cls.__qualname__.split("."):
        node = next((each for each in body if isinstance(each, ast.ClassDef) and each.name == part), None)
        body = () if node is None else node.body
    return node


def _names_of_bases(cls: type) -> list[str]:
    """Return the bases that the definition of a class names."""
    node = _definition_of(cls)
    return [] if node is None else [each.id for each in node.bases if isinstance(each, ast.Name)]


@cache
def _tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


def value_text(name: str) -> str:
    """Return the string below a constant or an alias; an empty one if there is none.

    Args:
        name: its dotted public name. Of several values of the last name, that of the same folder counts.
    """
    module, _, last = name.rpartition(".")
    home = Path(import_module(module).__file__ or "")
    found = [(file, texts[last]) for file, texts in _texts_of_package() if last in texts]
    near = [text for file, text in found if file == home or (home.stem == "__init__" and home.parent == file.parent)]
    return next(iter([*near, *(text for _, text in found)]), "")


@cache
def _texts_of_package() -> Sequence[tuple[Path, Mapping[str, str]]]:
    """Return the texts below the values of each module of the package."""
    root = Path(import_module("trio_mcp").__file__ or "").parent
    return [(file, dict(_texts_in(_tree_of(file).body))) for file in sorted(root.rglob("*.py"))]


def _texts_in(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node, following in pairwise(body):
        targets = (
            [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        )
        below = following.value if isinstance(following, ast.Expr) else None
        text = below.value if isinstance(below, ast.Constant) else None
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(text, str):
                yield target.id, inspect.cleandoc(text)


def own_bases(cls: type) -> list[type]:
    """Return a class and the classes of its package from which it inherits."""
    package = cls.__module__.partition(".")[0]
    bases = cls.__mro__
    if is_typeddict(cls):  # its bases are known to the source alone: Python makes it a mere `dict`
        named = [getattr(import_module(cls.__module__), each) for each in _names_of_bases(cls)]
        bases = (cls, *(each for base in named if is_typeddict(base) for each in own_bases(base)))
    return [base for base in bases if package != "builtins" and base.__module__.partition(".")[0] == package]
