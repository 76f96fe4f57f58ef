"""The binding of arguments: the published schema alone decides, and a function can return its arguments unchanged."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import jsonschema  # type: ignore[import-untyped]  # has no annotations, and we need none
import msgspec
import pydantic

from fuzz.source import Source
from trio_mcp.server.signature import ArgumentFaults, Signature, describe
from trio_mcp.wire import copy_json, is_array, is_object


class Colour(enum.Enum):
    """Text."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """Numbers."""

    LOW = 1
    HIGH = 10


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: int = 0


@attrs.define
class Tree:
    """An attrs class that holds itself."""

    label: str
    kids: list[Tree] = attrs.Factory(list["Tree"])


@attrs.frozen
class Seats:
    """An attrs class with a bound."""

    count: Annotated[int, msgspec.Meta(ge=1, le=9)]
    row: str = "A"
    price: float = 1.0


class Options(TypedDict):
    """A dict with names."""

    verbose: bool
    depth: NotRequired[int]


class Pair(NamedTuple):
    """A tuple with names."""

    left: int
    right: str = "r"


class Packet(msgspec.Struct, rename="camel"):
    """A struct with other names on the wire."""

    packet_id: int
    time_to_live: int | None = None


class Line(pydantic.BaseModel):
    """A model."""

    article: str
    amount: int = pydantic.Field(ge=1, le=1000)


_KINDS: tuple[Any, ...] = (
    *(int, float, str, bool, Any, None, bytes, dt.datetime, dt.date, dt.timedelta, uuid.UUID, Decimal),
    *(list[int], dict[str, Any], tuple[int, Colour], set[int], dict[Colour, int], list[int | None], list[list[Point]]),
    *(int | None, int | str | bool, int | float, float | int | None, Colour | str, Point | Seats, Point | str | None),
    *(Literal["fast", "slow"], Literal["auto", 1, True, None], Colour, Level),  # noqa: PYI061 # null among others
    *(Point, Tree, Seats, Options, Pair, Packet, Line, list[Tree], dict[str, Seats], Line | None),
    Annotated[str, msgspec.Meta(min_length=2, max_length=5)],
    Annotated[list[int], msgspec.Meta(min_length=1, max_length=3)],
    Annotated[int, msgspec.Meta(ge=1, le=9)],
)
_TEXTS = ("red", "blue", "fast", "auto", "2026-11-20", "2026-11-20T10:00:00Z", "PT5S", "YWJj", "1.5", "1", "x")
_FORMATS = ("is not a", "is no ", "expected ", "alternatives", "unique")


@attrs.frozen
class _Echo:
    """A function that returns the one argument it takes, as a tool."""

    signature: Signature
    judge: Any

    @classmethod
    def of(cls, kind: Any) -> _Echo:
        """Make the function for one type."""

        def echo(value: Any) -> Any:
            return value

        echo.__annotations__ = {"value": kind, "return": kind}
        signature = describe(echo)
        return cls(signature, jsonschema.Draft202012Validator(signature.input_schema))


_ECHOES = tuple(map(_Echo.of, _KINDS))


def target(data: bytes) -> None:
    """Make arguments that nearly fit a published schema; bind them, and send what was bound back and forth."""
    source = Source(data)
    echo = source.choose(_ECHOES)
    signature, schema = echo.signature, echo.signature.input_schema
    arguments = _fitting(source, schema, schema.get("$defs", {}), 0) if source.below(16) else source.object()
    if not is_object(arguments):
        return
    before = copy_json(arguments)
    try:
        bound = signature.bind(arguments)
    except ArgumentFaults as refusal:
        assert refusal.faults
        assert all(fault.startswith("$") for fault in refusal.faults)
        assert not echo.judge.is_valid(arguments) or _is_ours_alone(arguments, refusal), (arguments, refusal.faults)
        return
    assert echo.judge.is_valid(arguments), arguments
    assert arguments == before, "what was given has been changed"
    _send_back(signature, signature.call(bound, {}))


def _send_back(signature: Signature, value: Any) -> None:
    if signature.output_schema is None:  # of anything, and of nothing
        return
    structured = signature.dump(value)
    assert copy_json(structured) == structured
    content = structured["result"] if signature.wraps_result else structured
    again = signature.call(signature.bind({"value": content}), {})
    assert again == value, (value, content, again)
    assert isinstance(value, set) or signature.dump(again) == structured  # equal sets may have another order


def _is_ours_alone(arguments: dict[str, Any], refusal: ArgumentFaults) -> bool:
    """Return True if the second validator cannot decide: it ignores formats, and its `$` matches before a newline."""
    return "\\n" in repr(arguments) or all(any(each in fault for each in _FORMATS) for fault in refusal.faults)


def _fitting(source: Source, schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    """Return a value that a schema accepts, or sometimes a similar one."""
    if source.below(24) == 23 or depth > 6 or not is_object(schema):
        return source.json(4)
    if "$ref" in schema:
        return _fitting(source, definitions[schema["$ref"].removeprefix("#/$defs/")], definitions, depth + 1)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else source.choose(schema["enum"])
    if "anyOf" in schema:
        return _fitting(source, source.choose(schema["anyOf"]), definitions, depth + 1)
    kind = schema.get("type")
    kind = source.choose(kind) if is_array(kind) else kind
    if kind == "object":
        return _members(source, schema, definitions, depth)
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})] * source.below(4)
        return [_fitting(source, item, definitions, depth + 1) for item in items]
    return _scalar(source, kind)


def _scalar(source: Source, kind: Any) -> Any:
    match kind:
        case "integer":
            return source.choose((1, 5, 10, 0, -1, 2**70, 3.0, source.below(256)))
        case "number":
            return source.number()
        case "string":
            return source.choose(_TEXTS) if source.flag() else source.text()
        case "boolean":
            return source.flag()
        case _:
            return None if kind == "null" else source.json(4)


def _members(source: Source, schema: dict[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    required = schema.get("required", [])
    members = {
        name: _fitting(source, inner, definitions, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or source.flag()
    }
    more = schema.get("additionalProperties", True)
    if more is not False and "properties" not in schema:
        names = {"type": "string", **schema.get("propertyNames", {})}
        for _ in range(source.below(3)):
            members[str(_fitting(source, names, definitions, depth + 1))] = _fitting(
                source, more if is_object(more) else {}, definitions, depth + 1
            )
    return members
