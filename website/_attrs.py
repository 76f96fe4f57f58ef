"""Shows what readers know of classes and functions: an extension of Griffe, which reads sources.

Those of a class come from the signature of the running class, because only that knows inherited attributes, and their
annotations from the sources, where they are written as a reader knows them. An implementation of overloads takes any
arguments, and its docstring describes those of its overloads. Classes that are made at run time, and that a stub
describes, have their docstrings only there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any

import attrs
import griffe

from ._classes import parameters_of, value_text
from ._layout import shown_classes
from ._links import linked
from ._reference import SYNC, without_async

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
        _take_over_members(cls)
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
        """Remove the parameters that only explain a mistake, and the names of private defaults."""
        func.parameters = griffe.Parameters(*(each for each in func.parameters if str(each.annotation) != "Never"))
        for parameter in func.parameters:
            if str(parameter.default).startswith("_"):
                parameter.default = "..."

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:  # noqa: ARG002  # the interface of Griffe
        """Give the implementations of overloaded methods the parameters that their docstrings describe.

        A stub has no implementations: one is added.
        """
        for name, overloads in cls.overloads.items():
            if overloads and name not in cls.members:
                implementation = griffe.Function(name, returns=overloads[0].returns)
                implementation.overloads = overloads
                cls.set_member(name, implementation)
        for member in cls.members.values():
            if isinstance(member, griffe.Function) and member.overloads:
                each = {parameter.name: parameter for overload in member.overloads for parameter in overload.parameters}
                member.parameters = griffe.Parameters(*each.values())

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **kwargs: Any) -> None:  # noqa: ARG002  # the interface of Griffe
        """Turn the marks of literal blocks, which docstrings take from reStructuredText, into Markdown; add links."""
        if obj.docstring is None and obj.path.startswith(SYNC) and (text := _text_at_run_time(obj)):
            obj.docstring = griffe.Docstring(
                text, parent=obj, parser=loader.docstring_parser, parser_options=loader.docstring_options
            )
        if obj.docstring is not None:
            text = _LITERAL.sub(lambda mark: f"{mark[1]}:" if mark[1] else "", obj.docstring.value)
            owner = obj.name if isinstance(obj, griffe.Class) else obj.parent.name if obj.parent is not None else ""
            obj.docstring.value = linked(text, obj.module.path, owner)


def _take_over_members(cls: griffe.Class) -> None:
    """Copy the members of the bases that the reference does not show into a class, and remove these bases."""
    hidden = [base for base in cls.bases if not _is_known(cls, str(base))]
    for base in cls.mro() if hidden else ():
        if base.module.path.startswith("trio_mcp") and not _is_known(cls, base.name):
            for name, member in base.members.items():
                if name.startswith("_") or name in cls.members:
                    continue
                if isinstance(member, griffe.Function | griffe.Attribute):
                    own: griffe.Object = copy(member)
                    if member.docstring is not None:
                        own.docstring = griffe.Docstring(
                            member.docstring.value,
                            parent=own,
                            parser=member.docstring.parser,
                            parser_options=member.docstring.parser_options,
                        )
                    cls.set_member(name, own)
    cls.bases = [base for base in cls.bases if base not in hidden and str(base) != "Model"]  # which every message has


def _text_at_run_time(obj: griffe.Object) -> str:
    if isinstance(obj, griffe.Attribute) and isinstance(obj.parent, griffe.Module):
        return value_text(obj.path)
    found: Any = import_module(obj.module.path)
    for name in obj.path.removeprefix(f"{obj.module.path}.").split("."):
        found = getattr(found, name, None)
    return without_async(inspect.getdoc(found) or "")


def _is_known(cls: griffe.Class, base: str) -> bool:
    """Return True for a base that has an entry in the reference, or comes from another package."""
    running = _running(cls)
    last = base.partition("[")[0].rpartition(".")[2]
    found = [each for each in (running.__mro__ if running is not None else ()) if each.__name__ == last]
    return not any(each.__module__.startswith("trio_mcp") and each not in shown_classes() for each in found)


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
    """Return a default as a signature shows it: a literal, or dots for what the class makes by itself."""
    written = repr(value)
    return "..." if value is attrs.NOTHING or isinstance(value, attrs.Factory) or " at 0x" in written else written  # type: ignore[arg-type]
