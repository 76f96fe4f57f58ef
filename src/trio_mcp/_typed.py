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
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from attrs import field, frozen

from . import types
from ._errors import StructureError

__all__ = ["Reader", "TypedFunction", "is_async", "is_model", "look_at", "reader_of", "to_object"]

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
