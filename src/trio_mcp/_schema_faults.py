"""Puts what jsonschema-rs found wrong into lines a model can act on: the path, what was expected, what came.

Called by `_schema`. jsonschema-rs's own text is used for the keywords that are rare.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import jsonschema_rs

_SHOWN_CHARACTERS: Final = 80
_OUTLINE_CHARACTERS: Final = 300
_NUMERAL: Final = re.compile(r"\+?[0-9]{1,19}")

TYPE_NAMES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
"""JSON Schema's name for the class of a JSON value."""


def render_path(parts: Iterable[str | int]) -> str:
    """Write a place inside a JSON value the way all errors of this package do: ``$.rows[2].name``."""
    return "$" + "".join(_step(part) for part in parts)


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.replace("-", "_").isidentifier() else f"[{json.dumps(part)}]"


def describe_errors(errors: "Iterable[jsonschema_rs.ValidationError]", root: Any) -> Iterator[str]:
    """Name errors found in the value `root`, one line each."""
    for error in errors:
        yield from _describe(error, root)


def outline_errors(errors: "Iterable[jsonschema_rs.EvaluationErrorEntry]", root: Any) -> Iterator[str]:
    """Name errors an evaluation found in the value `root`; they cost little and tell little."""
    for error in errors:
        path = render_path(_pointed_at(error["instanceLocation"], root))
        yield f"{path}: {shortened(error['error'], _OUTLINE_CHARACTERS)}"


def _pointed_at(pointer: str, root: Any) -> Iterator[str | int]:
    here: Any = root
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        key = name if here.__class__ is dict else int(name)
        yield key
        here = here[key]


def _describe(error: "jsonschema_rs.ValidationError", root: Any) -> Iterator[str]:
    path = _exact(error, root)
    kind: Any = error.kind
    match kind.name:
        case "required":
            yield f"{render_path([*path, kind.property])}: required, but missing"
        case "additionalProperties" | "unevaluatedProperties":
            yield from _unknown(path, kind.unexpected)
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # Where no member is allowed at all, jsonschema-rs complains about the first one only, from outside.
            yield from _unknown(path, _at(path, root))
        case "propertyNames":
            inner = kind.error
            reasons = "; ".join(line.removeprefix("$: ") for line in _describe(inner, inner.instance))
            yield f"{render_path(path)}: the name {_shown(inner.instance)} is not allowed: {reasons}"
        # An arm without faults would mean that the value fits several arms of a oneOf.
        case "anyOf" | "oneOf" if all(kind.context):
            yield from _describe_choice(kind.context, error, root)
        case _:
            yield f"{render_path(path)}: {_complaint(error, _at(path, root))}"


def _unknown(path: Sequence[str | int], names: Iterable[str]) -> Iterator[str]:
    return (f"{render_path([*path, name])}: unknown, not allowed here" for name in names)


def _complaint(error: "jsonschema_rs.ValidationError", value: Any) -> str:
    kind: Any = error.kind
    match kind.name:
        case "type":
            return f"expected {_either(kind.types)}, got {_got(value)}"
        case "enum":
            return f"expected {_either(map(_shown, kind.options))}, got {_shown(value)}"
        case "const":
            return f"expected {_shown(kind.expected_value)}, got {_shown(value)}"
        case "pattern" if not hasattr(kind, "pattern"):  # it was given up
            return f"{_shown(value)} could not be matched against the pattern in reasonable time"
        case "pattern":
            return f"{_shown(value)} does not match the pattern {kind.pattern}"
        case "format":
            return f"{_shown(value)} is not a {kind.format}{_HINTS.get(kind.format, '')}"
        case "oneOf":
            return "fits several of the alternatives, may fit only one"
        case _:
            return shortened(error.message)


_HINTS: Final = {
    "date-time": " (RFC 3339 with an offset, as in 2026-01-31T09:30:00Z)",
    "date": " (as in 2026-01-31)",
    "uuid": " (as in 123e4567-e89b-12d3-a456-426614174000)",
}


def _describe_choice(arms: Any, choice: "jsonschema_rs.ValidationError", root: Any) -> Iterator[str]:
    """Report the arm the value was meant for: the only one whose type fits, else what each would take."""
    path = choice.instance_path
    exact = _exact(choice, root)
    meant = [arm for arm in arms if not any(_is_type_fault(error, path) for error in arm)]
    if len(meant) == 1:
        yield from describe_errors(meant[0], root)
    elif meant:
        tried = "; or ".join(", ".join(describe_errors(arm, root)) for arm in meant)
        yield f"{render_path(exact)}: fits none of the alternatives ({tried})"
    else:
        types = [error.kind.types for arm in arms for error in arm if _is_type_fault(error, path)]
        yield f"{render_path(exact)}: expected {_either(chain.from_iterable(types))}, got {_got(_at(exact, root))}"


def _is_type_fault(error: "jsonschema_rs.ValidationError", path: list[str | int]) -> bool:
    return error.kind.name == "type" and error.instance_path == path


def _got(value: Any) -> str:
    return TYPE_NAMES.get(value.__class__, "something else")


def _at(path: Iterable[str | int], root: Any) -> Any:
    for part in path:
        root = root[part]
    return root


def _exact(error: "jsonschema_rs.ValidationError", root: Any) -> list[str | int]:
    """Return the path of an error as it is in the value.

    jsonschema-rs writes member names such as ``"7"`` like positions and leaves empty ones out; the value it complains
    about tells which of the places that look alike is meant.
    """
    path = error.instance_path
    found = _search(path, root, lambda value: value == error.instance)
    return found or _search(path, root, lambda _: True) or []


def _search(path: Sequence[str | int], root: Any, is_it: Callable[[Any], bool]) -> list[str | int] | None:
    if not path and is_it(root):
        return []
    candidates = [(step, path[1:]) for step in _steps_like(path[0], root)] if path else []
    if isinstance(root, dict) and "" in root:
        candidates.append(("", path))
    for step, rest in candidates:
        deeper = _search(rest, root[step], is_it)
        if deeper is not None:
            return [step, *deeper]
    return None


def _steps_like(part: str | int, root: Any) -> list[str | int]:
    if isinstance(root, dict):
        return [name for name in cast("dict[str, Any]", root) if name == part or _is_numeral_of(name, part)]
    is_position = isinstance(root, (list, tuple)) and isinstance(part, int) and part < len(cast("list[Any]", root))
    return [part] if is_position else []


def _is_numeral_of(name: str, part: str | int) -> bool:
    return _NUMERAL.fullmatch(name) is not None and int(name) == part


def _either(names: Iterable[str]) -> str:
    *most, last = dict.fromkeys(names)
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def shortened(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    """Cut a text to what fits in an error; what is wrong tends to stand at its end."""
    half = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"
