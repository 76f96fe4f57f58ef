"""Typed params and results of messages that the specification does not know; both roles read and write them so.

A type is a class of `trio_mcp.types`, a pydantic model, or anything `msgspec` can make of an object: an attrs class, a
dataclass, a TypedDict, a `msgspec.Struct`, a dict. Members that a class does not name are passed over, as everywhere
in the protocol: whoever sends may be newer.
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
"""Makes the type out of a JSON object; raises `StructureError` where it does not fit."""

_AS_IT_IS: tuple[Any, ...] = (Any, object, dict, Mapping, inspect.Parameter.empty)
_OBJECTS = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.DictType,
    msgspec.inspect.UnionType,
)
"""What `msgspec` calls the types whose JSON is an object; of a union it is left to the first value."""

T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling *function* gives something to await."""
    core = _core_of(function)
    return inspect.iscoroutinefunction(core) or inspect.iscoroutinefunction(inspect.unwrap(core))


def is_model(annotation: Any) -> bool:
    """Tell whether *annotation* is a message type of `trio_mcp.types`."""
    return isinstance(annotation, type) and issubclass(annotation, types.Model)


def _is_pydantic_model(annotation: Any) -> bool:
    """Tell it of pydantic models, without importing pydantic."""
    return isinstance(annotation, type) and hasattr(annotation, "model_validate_json")


@functools.cache
def reader_of(annotation: Any) -> Reader:
    """Return what reads *annotation* out of a JSON object.

    Raises:
        TypeError: its JSON is no object, or it has none; the text says why.
    """
    if annotation in _AS_IT_IS or typing.get_origin(annotation) is Mapping:
        return _itself
    if is_model(annotation):
        return functools.partial(types.structure, cls=annotation)
    name = getattr(annotation, "__name__", str(annotation))
    if _is_pydantic_model(annotation):
        # From text, because only then do strict models take a date or a set for what JSON has.
        return functools.partial(_read, name, lambda json: annotation.model_validate_json(msgspec.json.encode(json)))
    if not isinstance(msgspec.inspect.type_info(annotation), _OBJECTS):
        raise TypeError(f"{name} is no type of an object, and params and results are objects")
    msgspec.json.Decoder(annotation)  # refuses what it could never read
    return functools.partial(_read, name, functools.partial(msgspec.convert, type=annotation))


def _itself(json: dict[str, Any]) -> dict[str, Any]:
    return json


def _read(name: str, convert: Callable[[Any], Any], json: dict[str, Any]) -> Any:
    plain = {member: value for member, value in json.items() if member != "_meta"}  # it is the protocol's, not theirs
    try:
        return convert(plain)
    except Exception as error:  # noqa: BLE001 # validators raise what they like, and who reads serves others as well
        raise StructureError(name, _faults_of(error)) from None


def _faults_of(error: Any) -> list[str]:
    """Return each fault after its path, in the words of whichever library found it."""
    if type(error).__module__.partition(".")[0] == "pydantic_core":
        return [
            f"{'.'.join(['$', *map(str, fault['loc'])])}: {fault['msg']}" for fault in error.errors(include_url=False)
        ]
    said = re.fullmatch(r"(.*) - at `(\$.*)`", str(error), re.DOTALL)
    return [f"{said[2]}: {said[1]}" if said else f"$: {str(error) or type(error).__name__}"]


def to_object(value: Any, revision: str | None = None) -> dict[str, Any]:
    """Return the JSON object of a value; None is an empty one.

    Args:
        revision: the protocol revision it is for, which matters to classes of `trio_mcp.types`.

    Raises:
        TypeError: its JSON is no object.
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
    """A function that takes the params of a message, as its annotation says, and perhaps a context; made by `look_at`.

    It may take neither.
    """

    is_async: bool
    """Whether calling it gives something to await; otherwise it belongs in a worker thread."""
    _function: Callable[..., Any] = field(alias="function")
    _takes: tuple[tuple[inspect.Parameter, bool], ...] = field(alias="takes")
    """The parameters it is given, and whether each is the context; otherwise it is the params."""
    read: Reader
    """Makes the annotated type out of the params."""

    def call(self, params: Any, context: object = None) -> Any:
        """Call it with what `read` returned."""
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
    """Return what can be known of a handler.

    Args:
        label: what errors call it.
        context: the class whose instance it may ask for by annotation.
        namespace: names that annotations may use beside those of its module and closure.

    Raises:
        TypeError: it cannot be called with params, or these cannot be read; the text begins with *label*.
    """
    core = _core_of(function)
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = typing.get_type_hints(core, localns={**_closure(core), **(namespace or {})}, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{label}: an annotation cannot be resolved: {error}; define it at the top level of the module"
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
        an_option = optional and not is_context and parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if variadic or an_option or any(each == is_context for _, each in takes):
            if not optional:
                raise TypeError(f"{label}: nothing could be passed for its parameter {parameter.name!r}")
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
    """Return the function behind partials and callable objects, which has the annotations."""
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
    """Tell whether *annotation* is *wanted* or a subclass, by itself or in a union."""
    if isinstance(annotation, type):
        return issubclass(annotation, wanted)
    return any(_mentions(each, wanted) for each in typing.get_args(annotation) if isinstance(each, type))


# JSON values out of texts, by the schema they should fit: a shell's ``steps=3``, a prompt's and a URI's arguments.
#
# The protocol carries these as strings whatever they stand for, and a shell knows nothing else. Rules of this file:
#
# 1. Where the schema admits a string, the text is the value. Nothing is guessed from how it looks.
# 2. Otherwise the text is JSON: ``3``, ``true``, ``[1, 2]``, ``{"x": 1}``.
# 3. A schema that says nothing about types gets the JSON value of a text that is JSON, and the text of any other.
#
# Whether the value fits is for a validator to say, not for this file.

_KINDS: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_MAX_DEPTH: Final = 50
"""References and alternatives followed, one inside the other."""
_NOTHING: Final[Mapping[str, Any]] = {}
"""A schema that says nothing."""


def value_from_text(text: str, schema: object, root: Mapping[str, Any]) -> Any:
    """Return the JSON value that *text* stands for.

    Args:
        schema: what the value should fit: an object, or one of the schemas ``true`` and ``false``.
        root: the schema that *schema* is a part of, for references such as ``#/$defs/Point``.

    Raises:
        ValueError: the text is no JSON, and the schema admits no string.
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
        raise ValueError(f"expected {' or '.join(sorted(named)) or 'nothing'}, got the text {text!r}") from None


def kinds_of(schema: object, root: Mapping[str, Any]) -> frozenset[str]:
    """Return which of JSON's types a value of *schema* may have, as far as the usual keywords tell.

    Args:
        root: the schema that *schema* is a part of.
    """
    return _Reader(root).kinds(schema, 0)


def member_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a schema of what *schema* wants its member *name* to be, as far as the usual keywords tell."""
    return {"allOf": [*_Reader(schema).of_member(schema, name, set(), 0)]}


@define(eq=False)
class _Reader:
    """Reads one schema. Whoever wrote it may be anybody: each part of it is looked at once, however it refers."""

    _root: Mapping[str, Any]
    _read: dict[int, frozenset[str]] = field(factory=dict[int, frozenset[str]], init=False)
    """What the parts allow, by identity; a part that is being read allows everything so far."""

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
        """Yield what each keyword of the schema leaves over."""
        declared = schema.get("type")
        if isinstance(declared, str) or is_array(declared):
            yield _with_integers({declared} if isinstance(declared, str) else filter(_is_text, declared))
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
        """Yield a schema for each part of *schema* that says something about its member *name*."""
        part = _object(schema)
        if part is _NOTHING or id(part) in seen or depth > _MAX_DEPTH:
            return
        seen.add(id(part))
        depth += 1
        members, patterns = (_object(part.get(keyword)) for keyword in ("properties", "patternProperties"))
        own = [members[name]] if name in members else []
        own += [wanted for pattern, wanted in patterns.items() if _matches(pattern, name)]
        yield from own or [part.get("additionalProperties", True)]
        for keyword in ("anyOf", "oneOf"):
            if is_array(arms := part.get(keyword)):
                yield {"anyOf": [{"allOf": [*self.of_member(arm, name, seen, depth)]} for arm in arms]}
        if is_array(arms := part.get("allOf")):
            for arm in arms:
                yield from self.of_member(arm, name, seen, depth)
        if isinstance(part.get("$ref"), str):
            yield from self.of_member(self._resolved(part["$ref"]), name, seen, depth)

    def _resolved(self, reference: str) -> object:
        """Return the part of the whole schema that a reference names; what cannot be found says nothing."""
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
    """Match as JSON Schema does; a pattern that Python cannot read matches nothing."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _is_text(value: object) -> bool:
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
