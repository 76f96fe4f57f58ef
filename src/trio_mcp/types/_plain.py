"""Hooks for everything that is not a class: scalars, literals, arrays, maps and limits. Nothing here coerces.

The one conversion is JSON's own: an integer may be written `2.0`, and becomes 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin

from cattrs import Converter

from trio_mcp.types._faults import Mismatch, quoted, type_of
from trio_mcp.types._model import Bounds

__all__ = ["Hook", "bounded", "hook_of", "is_map", "is_sequence", "literal_hook", "plain_type", "register_plain"]

Hook: TypeAlias = Callable[[Any, Any], Any]
"""Takes a JSON value and, as cattrs calls it, the type; returns the structured value or raises `Mismatch`."""


def register_plain(converter: Converter) -> None:
    """Replace every conversion of cattrs for values that are not classes."""
    converter.register_structure_hook(str, structure_string)
    converter.register_structure_hook(int, structure_integer)
    converter.register_structure_hook(float, structure_number)
    converter.register_structure_hook(bool, structure_boolean)
    converter.register_structure_hook(type(None), structure_null)
    converter.register_structure_hook_factory(_is_literal, literal_hook)
    converter.register_structure_hook_factory(is_sequence, partial(_array_hook, converter=converter))
    converter.register_structure_hook_factory(is_map, partial(_map_hook, converter=converter))


def hook_of(converter: Converter, kind: Any) -> Hook | None:
    """Return the hook for a type, or None where every JSON value fits."""
    return None if kind is Any else converter.get_structure_hook(kind)


def plain_type(kind: Any) -> type[Any] | None:
    """Return the Python type whose values the hook for a type hands back as they are, or None: it has to look."""
    if kind in {str, int, float, bool}:
        return cast("type[Any]", kind)
    if is_map(kind) and get_args(kind)[1] is Any:
        return dict
    return list if is_sequence(kind) and get_args(kind)[0] is Any else None


def structure_string(value: Any, _: Any = None) -> Any:
    """Accept a JSON string."""
    if type_of(value) is str:
        return value
    raise Mismatch.expected("string", value)


def structure_integer(value: Any, _: Any = None) -> Any:
    """Accept a JSON integer, also one that is written with a fraction of zero."""
    if type_of(value) is int:
        return value
    if type_of(value) is float and value.is_integer():
        return int(value)
    raise Mismatch.expected("integer", value)


def structure_number(value: Any, _: Any = None) -> Any:
    """Accept a JSON number; an integer stays one, however big."""
    if type_of(value) is float or type_of(value) is int:
        return value
    raise Mismatch.expected("number", value)


def structure_boolean(value: Any, _: Any = None) -> Any:
    """Accept true and false."""
    if type_of(value) is bool:
        return value
    raise Mismatch.expected("boolean", value)


def structure_null(value: Any, _: Any = None) -> None:
    """Accept null."""
    if value is not None:
        raise Mismatch.expected("null", value)


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def is_sequence(kind: Any) -> bool:
    """Say whether a type stands for a JSON array."""
    return get_origin(kind) in {list, Sequence}


def is_map(kind: Any) -> bool:
    """Say whether a type stands for a JSON object without named members."""
    return get_origin(kind) in {dict, Mapping}


def literal_hook(kind: Any) -> Hook:
    """Return the hook for a Literal of strings."""
    allowed = frozenset(get_args(kind))
    choices = sorted(map(repr, allowed))
    wanted = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"

    def structure(value: Any, _: Any = None) -> Any:
        # The type first: True equals 1, and a list cannot be looked up.
        if type_of(value) is str and value in allowed:
            return value
        raise Mismatch(f"expected {wanted}, got {quoted(value)}")

    return structure


def _array_hook(kind: Any, converter: Converter) -> Hook:
    hook = hook_of(converter, get_args(kind)[0])

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not list:
            raise Mismatch.expected("array", value)
        if hook is None:
            return value
        try:
            return [hook(item, None) for item in value]
        except Mismatch:
            raise _all_faults(enumerate(value), hook) from None

    return structure


def _map_hook(kind: Any, converter: Converter) -> Hook:
    hook = hook_of(converter, get_args(kind)[1])

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not dict:
            raise Mismatch.expected("object", value)
        if hook is None:
            return value
        try:
            return {name: hook(item, None) for name, item in value.items()}
        except Mismatch:
            raise _all_faults(value.items(), hook) from None

    return structure


def _all_faults(items: Any, hook: Hook) -> Mismatch:
    """Go through the items again, now that one is known not to fit, and collect what is wrong with each."""
    problem = Mismatch()
    for step, item in items:
        try:
            hook(item, None)
        except Mismatch as inner:
            problem.add(step, inner)
    return problem


def bounded(hook: Hook, bounds: Bounds) -> Hook:
    """Return a hook that also enforces limits. Each limits what it can measure, and lets everything else pass."""

    def structure(value: Any, _: Any = None) -> Any:
        structured = hook(value, None)
        if type_of(structured) in {int, float}:
            _check_size(structured, bounds.minimum, bounds.maximum, "")
        elif type_of(structured) in {str, list}:
            _check_size(len(structured), bounds.min_length, bounds.max_length, "a length of ")
        return structured

    return structure


def _check_size(size: float, least: float | None, most: float | None, measure: str) -> None:
    if least is not None and not size >= least:
        raise Mismatch(f"expected {measure}at least {least}, got {measure}{quoted(size)}")
    if most is not None and not size <= most:
        raise Mismatch(f"expected {measure}at most {most}, got {measure}{quoted(size)}")
