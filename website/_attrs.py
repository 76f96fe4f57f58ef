"""Shows the parameters of attrs classes and of overloaded functions: an extension of Griffe, which reads sources.

Those of a class come from the signature of the running class, because only that knows inherited attributes, and their
annotations from the sources, where they are written as a reader knows them. An implementation of overloads takes any
arguments, and its docstring describes those of its overloads.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import attrs
import griffe

from ._classes import parameters_of

__all__ = ["AttrsExtension"]

_KINDS: Mapping[Any, griffe.ParameterKind] = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
}
_DECORATORS = ("define", "frozen", "mutable", "attrs.define", "attrs.frozen", "attrs.mutable")
_LITERAL = re.compile(r"(\w?)::$", re.MULTILINE)


class AttrsExtension(griffe.Extension):
    """An extension that gives classes and methods the parameters that callers know."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:  # noqa: ARG002  # the interface of Griffe
        """Add the method to a class that attrs has made; remove that of a class which only the package makes."""
        made = _running(cls) if any(str(each.value).startswith(_DECORATORS) for each in cls.decorators) else None
        if made is None or not attrs.has(made):
            return
        found = parameters_of(made)
        if found is None:
            cls.members.pop("__init__", None)
        if found is None or "__init__" in cls.members:
            return
        annotations = {field.alias: _annotation(cls, field) for field in attrs.fields(made)}
        shown = [
            griffe.Parameter(
                parameter.name,
                annotation=annotations.get(parameter.name),
                kind=_KINDS[parameter.kind],
                default=None if parameter.default is parameter.empty else _default(parameter.default),
            )
            for parameter in found
        ]
        this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        method = griffe.Function("__init__", parameters=griffe.Parameters(this, *shown), returns="None")
        cls.set_member("__init__", method)

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:  # noqa: ARG002  # the interface of Griffe
        """Remove the parameters that nobody may pass: they only explain a mistake."""
        func.parameters = griffe.Parameters(*(each for each in func.parameters if str(each.annotation) != "Never"))

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:  # noqa: ARG002  # the interface of Griffe
        """Give the implementations of overloaded methods the parameters that their docstrings describe."""
        for member in cls.members.values():
            if isinstance(member, griffe.Function) and member.overloads:
                each = {parameter.name: parameter for overload in member.overloads for parameter in overload.parameters}
                member.parameters = griffe.Parameters(*each.values())

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002  # the interface of Griffe
        """Turn the marks of literal blocks, which docstrings take from reStructuredText, into Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = _LITERAL.sub(lambda mark: f"{mark[1]}:" if mark[1] else "", obj.docstring.value)


def _running(cls: griffe.Class) -> type | None:
    """Return the class itself; None if it is defined inside a function."""
    found: Any = import_module(cls.module.path)
    for name in cls.path.removeprefix(f"{cls.module.path}.").split("."):
        found = getattr(found, name, None)
    return found if inspect.isclass(found) else None


def _annotation(cls: griffe.Class, field: attrs.Attribute[Any]) -> Any:
    written = cls.members.get(field.name)
    return written.annotation if isinstance(written, griffe.Attribute) else str(field.type)


def _default(value: Any) -> str:
    return "..." if value is attrs.NOTHING or isinstance(value, attrs.Factory) else repr(value)  # type: ignore[arg-type]
