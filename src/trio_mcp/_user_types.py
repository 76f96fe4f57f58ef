"""Typed params and results of custom messages, which are not in the specification; both clients and servers use them.

A type is a class of `trio_mcp.types`, a pydantic model, or any type that `msgspec` can make from an object: an attrs
class, a dataclass, a TypedDict, a `msgspec.Struct`, a dict. Members that a class does not declare are ignored, as
everywhere in the protocol: the sender may be newer.

`value_from_text` makes a JSON value from a string, guided by the schema of the value: a shell's ``steps=3``, the
arguments of a prompt or of a URI. The protocol transmits these as strings, and a shell has nothing else. Its rules:

1. If the schema admits a string, the value is the string. Its content does not matter.
2. Otherwise the string is JSON: ``3``, ``true``, ``[1, 2]``, ``{"x": 1}``.
3. If the schema does not constrain the type, a string of valid JSON becomes its value, any other stays a string.

It does not validate: the value may still not fit the schema.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import unquote

import msgspec
from attrs import define, field, frozen

from . import types
from ._errors import StructureError
from .wire import Undecodable, decode, is_array

__all__ = [
    "Reader",
    "TypedFunction",
    "is_async",
    "is_model",
    "kinds_of",
    "look_at",
    "member_schema",
    "reader_of",
    "to_object",
    "value_from_text",
]

Reader: TypeAlias = "Callable[[dict[str, Any]], Any]"
"""Makes an instance of a type from a JSON object; raises `StructureError` if it does not fit."""

_AS_IT_IS: tuple[Any, ...] = (Any, object, dict, Mapping, inspect.Parameter.empty)
_OBJECTS = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.DictType,
    msgspec.inspect.UnionType,
)
"""The `msgspec` descriptions of types whose JSON form is an object. A union is checked when a value arrives."""

T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call of *function* returns an awaitable."""
    core = _core_of(function)
    return inspect.iscoroutinefunction(core) or inspect.iscoroutinefunction(inspect.unwrap(core))


def is_model(annotation: Any) -> bool:
    """Return True if *annotation* is a message type of `trio_mcp.types`."""
    return isinstance(annotation, type) and issubclass(annotation, types.Model)


def _is_pydantic_model(annotation: Any) -> bool:
    """Return True if *annotation* is a pydantic model, without importing pydantic."""
    return isinstance(annotation, type) and hasattr(annotation, "model_validate_json")


@functools.cache
def reader_of(annotation: Any) -> Reader:
    """Return the function that makes an instance of *annotation* from a JSON object.

    Raises:
        TypeError: its JSON form is not an object, or it has none; the message says why.
    """
    if annotation in _AS_IT_IS or typing.get_origin(annotation) is Mapping:
        return _itself
    if is_model(annotation):
        return functools.partial(types.structure, cls=annotation)
    name = getattr(annotation, "__name__", str(annotation))
    if _is_pydantic_model(annotation):
        # Strict models accept a JSON string as a date, or an array as a set, only from JSON.
        return functools.partial(_read, name, lambda json: annotation.model_validate_json(msgspec.json.encode(json)))
    if not isinstance(msgspec.inspect.type_info(annotation), _OBJECTS):
        raise TypeError(f"{name} is not a type of JSON objects; params and results are objects")
    msgspec.json.Decoder(annotation)  # raises if it can never decode this type
    return functools.partial(_read, name, functools.partial(msgspec.convert, type=annotation))


def _itself(json: dict[str, Any]) -> dict[str, Any]:
    return json


def _read(name: str, convert: Callable[[Any], Any], json: dict[str, Any]) -> Any:
    plain = {member: value for member, value in json.items() if member != "_meta"}  # it belongs to the protocol
    try:
        return convert(plain)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 # validators may raise any exception, which must not end the connection
        raise StructureError(name, _faults_of(error)) from None


def _faults_of(error: Any) -> list[str]:
    """Return each fault behind its path, with the message of the library that found it."""
    if type(error).__module__.partition(".")[0] == "pydantic_core":
        return [
            f"{'.'.join(['$', *map(str, fault['loc'])])}: {fault['msg']}" for fault in error.errors(include_url=False)
        ]
    said = re.fullmatch(r"(.*) - at `(\$.*)`", str(error), re.DOTALL)
    return [f"{said[2]}: {said[1]}" if said else f"$: {str(error) or type(error).__name__}"]


def to_object(value: Any, revision: str | None = None) -> dict[str, Any]:
    """Return the JSON object of a value; None becomes an empty object.

    Args:
        revision: the protocol revision of the object; classes of `trio_mcp.types` depend on it.

    Raises:
        TypeError: its JSON form is not an object.
    """
    json: Any
    if value is None:
        return {}
    cls: Any = value.__class__
    if issubclass(cls, types.Model | Mapping):
        json = types.unstructure(value, revision=revision)
    elif _is_pydantic_model(cls):
        json = value.model_dump(mode="json", by_alias=True)
    else:
        json = msgspec.to_builtins(value)
    if not isinstance(json, dict):
        raise TypeError(f"expected an object, not {cls.__name__}: params and results are objects")
    return typing.cast("dict[str, Any]", json)


@frozen(eq=False)
class TypedFunction:
    """A handler of a custom message: it may take the params, as the type of its annotation, and a context.

    Made by `look_at`.
    """

    is_async: bool
    """True if a call returns an awaitable; otherwise the function belongs in a worker thread."""
    _function: Callable[..., Any] = field(alias="function")
    _takes: tuple[tuple[inspect.Parameter, bool], ...] = field(alias="takes")
    """The parameters that are filled, each with True for the context and False for the params."""
    read: Reader
    """Makes an instance of the annotated type from the params."""

    def call(self, params: Any, context: object = None) -> Any:
        """Call the function with the result of `read`."""
        values: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter, is_context in self._takes:
            value = context if is_context else params
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                values.append(value)
            else:
                keywords[parameter.name] = value
        return self._function(*values, **keywords)


def look_at(
    function: Callable[..., Any],
    label: str,
    *,
    context: type | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> TypedFunction:
    """Inspect the handler of a custom message.

    Args:
        label: its name in error messages.
        context: the class of the context, which a parameter may request by its annotation.
        namespace: names that annotations may use in addition to those of its module and closure.

    Raises:
        TypeError: the function cannot be called with params, or its annotation cannot be read; the message begins with
            *label*.
    """
    core = _core_of(function)
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = typing.get_type_hints(core, localns={**_closure(core), **(namespace or {})}, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{label}: an annotation cannot be resolved: {error}; define or import it at the top level of the "
            "module, and not under `if TYPE_CHECKING:`"
        ) from error
    except (TypeError, ValueError) as error:
        raise TypeError(f"{label}: its signature cannot be read: {error}") from error
    takes: list[tuple[inspect.Parameter, bool]] = []
    read: Reader = _itself
    for parameter in parameters:
        annotation = hints.get(parameter.name, Any)
        is_context = context is not None and _mentions(annotation, context)
        variadic = parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        optional = variadic or parameter.default is not parameter.empty
        is_option = optional and not is_context and parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if variadic or is_option or any(each == is_context for _, each in takes):
            if not optional:
                raise TypeError(f"{label}: there is no value for its parameter {parameter.name!r}; give it a default")
            continue
        takes.append((parameter, is_context))
        if not is_context:
            try:
                read = reader_of(annotation)
            except TypeError as error:
                raise TypeError(f"{label}: parameter {parameter.name!r}: {error}") from error
    return TypedFunction(
        is_async=is_async(function),
        function=function,
        takes=tuple(takes),
        read=read,
    )


def _core_of(function: Any) -> Any:
    """Return the function behind partials and callable objects; it has the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or isinstance(function, type) else type(function).__call__


def _closure(core: Any) -> dict[str, Any]:
    core = inspect.unwrap(core)
    cells, code = getattr(core, "__closure__", None) or (), getattr(core, "__code__", None)
    found: dict[str, Any] = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _mentions(annotation: Any, wanted: type) -> bool:
    """Return True if *annotation* is *wanted* or a subclass, with or without type arguments, alone or in a union."""
    plain = typing.get_origin(annotation) or annotation
    if isinstance(plain, type) and issubclass(plain, wanted):
        return True
    return any(_mentions(each, wanted) for each in typing.get_args(annotation))


# --- JSON values from strings ---

_KINDS: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_MAX_DEPTH: Final = 50
"""The number of nested references and alternatives that are followed."""
_NOTHING: Final[Mapping[str, Any]] = {}
"""A schema without constraints."""


def value_from_text(text: str, schema: object, root: Mapping[str, Any]) -> Any:
    """Return the JSON value that the string *text* stands for; see the rules in the docstring of this module.

    Args:
        schema: the schema of the value: an object, ``True`` or ``False``.
        root: the schema that contains *schema*, for references such as ``#/$defs/Point``.

    Raises:
        ValueError: the string is not JSON, and the schema does not admit strings.
    """
    kinds = kinds_of(schema, root)
    if "string" in kinds and kinds != _KINDS:
        return text
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except Undecodable:
        if "string" in kinds:
            return text
        named = kinds - {"integer"} if "number" in kinds else kinds
        raise ValueError(f"expected {' or '.join(sorted(named)) or 'nothing'}, got the string {text!r}") from None


def kinds_of(schema: object, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that a value of *schema* may have, as far as the common keywords constrain them.

    Args:
        root: the schema that contains *schema*.
    """
    return _Reader(root).kinds(schema, 0)


def member_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a schema of the member *name* of *schema*, as far as the common keywords constrain it."""
    return {"allOf": [*_Reader(schema).of_member(schema, name, set(), 0)]}


@define(eq=False)
class _Reader:
    """A reader of one schema. The schema is not trusted: each part is read once, even if references form a circle."""

    _root: Mapping[str, Any]
    _read: dict[int, frozenset[str]] = field(factory=dict[int, frozenset[str]], init=False)
    """The types that each part admits, by its id; a part that is being read admits all."""

    def kinds(self, schema: object, depth: int) -> frozenset[str]:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return _KINDS
        part = cast("Mapping[str, Any]", schema)
        if id(part) not in self._read:
            self._read[id(part)] = left = _KINDS
            for limit in self._limits(part, depth + 1):
                left &= limit
            self._read[id(part)] = left
        return self._read[id(part)]

    def _limits(self, schema: Mapping[str, Any], depth: int) -> Iterator[frozenset[str]]:
        """Yield the types that each keyword of the schema admits."""
        declared = schema.get("type")
        if isinstance(declared, str) or is_array(declared):
            yield _with_integers({declared} if isinstance(declared, str) else filter(_is_string, declared))
        if "const" in schema:
            yield frozenset({_kind(schema["const"])})
        if is_array(schema.get("enum")):
            yield frozenset(map(_kind, schema["enum"]))
        for keyword in ("anyOf", "oneOf"):
            if is_array(schema.get(keyword)):
                yield frozenset[str]().union(*(self.kinds(arm, depth) for arm in schema[keyword]))
        if is_array(schema.get("allOf")):
            yield from (self.kinds(arm, depth) for arm in schema["allOf"])
        if isinstance(schema.get("$ref"), str):
            yield self.kinds(self._resolved(schema["$ref"]), depth)

    def of_member(self, schema: object, name: str, seen: set[int], depth: int) -> Iterator[object]:
        """Yield a schema for each part of *schema* that constrains its member *name*."""
        part = _object(schema)
        if part is _NOTHING or id(part) in seen or depth > _MAX_DEPTH:
            return
        seen.add(id(part))
        depth += 1
        members, patterns = (_object(part.get(keyword)) for keyword in ("properties", "patternProperties"))
        named = [members[name]] if name in members else []
        named += [wanted for pattern, wanted in patterns.items() if _matches(pattern, name)]
        yield from named or [part.get("additionalProperties", True)]
        for keyword in ("anyOf", "oneOf"):
            if is_array(arms := part.get(keyword)):
                yield {"anyOf": [{"allOf": [*self.of_member(arm, name, seen, depth)]} for arm in arms]}
        if is_array(arms := part.get("allOf")):
            for arm in arms:
                yield from self.of_member(arm, name, seen, depth)
        if isinstance(part.get("$ref"), str):
            yield from self.of_member(self._resolved(part["$ref"]), name, seen, depth)

    def _resolved(self, reference: str) -> object:
        """Return the part of the root schema that a reference names; an unknown one has no constraints."""
        if reference != "#" and not reference.startswith("#/"):
            return _NOTHING
        found: Any = self._root
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = cast("Mapping[str, Any]", found).get(name, _NOTHING)
            elif is_array(found) and name in map(str, range(len(found))):
                found = found[int(name)]
            else:
                return _NOTHING
        return found


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else _NOTHING


def _matches(pattern: str, name: str) -> bool:
    """Search as JSON Schema does; a pattern that Python cannot compile does not match."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _with_integers(declared: Iterable[str]) -> frozenset[str]:
    names = frozenset(declared)
    return names | {"integer"} if "number" in names else names


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case _:
            return "object" if isinstance(value, Mapping) else "array"
