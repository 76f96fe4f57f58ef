"""Reads classes as their users see them: the parameters with which a program makes one, and the texts of attributes."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["attribute_texts", "class_text", "is_described", "parameters_of"]


def parameters_of(cls: type) -> list[inspect.Parameter] | None:
    """Return the parameters of a class that users may pass; None if programs do not make instances of it.

    The parameter of a private attribute is for users only if the section `Args` of the docstring describes it. A class
    that requires another one is made by the package itself.
    """
    parameters = list(inspect.signature(vars(cls).get("__init__", cls.__init__)).parameters.values())[1:]
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
    return "\n".join(inspect.cleandoc(base.__doc__) for base in _own_bases(cls) if base.__doc__)


def attribute_texts(cls: type) -> Mapping[str, str]:
    """Return the strings below the attributes of a class, inherited ones included, by the names of the attributes."""
    texts: dict[str, str] = {}
    for base in reversed(_own_bases(cls)):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node, following in zip(tree.body, tree.body[1:], strict=False):
            target = node.target if isinstance(node, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and isinstance(following, ast.Expr):
                text: Any = ast.literal_eval(following.value)
                texts[target.id] = inspect.cleandoc(text)
    return texts


def _own_bases(cls: type) -> list[type]:
    package = cls.__module__.partition(".")[0]
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] == package]
