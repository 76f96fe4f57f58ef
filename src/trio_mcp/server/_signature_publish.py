"""Writes the schemas of a function: the input schema from its parameters, the output schema from what it returns.

Called by `_signature` at registration; raises whatever makes a function impossible to publish.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, Never, NoReturn

from .._schema import dialect_of
from ._annotations import Annotations, publish_member
from ._annotations_load import Loader
from ._annotations_objects import MISSING
from ._annotations_scalars import Inexpressible, Shape
from ._signature_inspect import Callee, mentions

__all__ = ["check_raw_schema", "named_arguments", "publish_parameters", "publish_result", "shape_of"]


def named_arguments(callee: Callee) -> list[inspect.Parameter]:
    """Return the parameters that are arguments, without ``*args`` and ``**kwargs``."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in callee.arguments() if parameter.kind not in variadic]


def shape_of(annotations: Annotations, annotation: Any, where: str) -> Shape:
    """Return the JSON form of an annotation.

    Raises:
        Inexpressible: it has none; the text begins with `where`.
    """
    try:
        return annotations.shape(annotation)
    except Inexpressible as error:
        raise Inexpressible(f"{where}: {error}") from error


def publish_parameters(
    callee: Callee, name: str, documented: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Loader | None]]:
    """Return the input schema and the loader of each argument.

    Raises:
        TypeError: a parameter cannot be published; names it.
    """
    annotations = Annotations(output=False, namespace=callee.namespace)
    properties: dict[str, Any] = {}
    required: list[str] = []
    loaders: dict[str, Loader | None] = {}
    named = named_arguments(callee)
    for parameter in callee.arguments():
        if parameter not in named:
            raise TypeError(f"{name}: parameter {str(parameter)!r} cannot be published: give every argument a name")
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        shape = shape_of(annotations, annotation, f"{name}: parameter {parameter.name!r}")
        has_default = parameter.default is not parameter.empty
        default = parameter.default if has_default else MISSING
        properties[parameter.name] = publish_member(shape, documented.get(parameter.name), default)
        loaders[parameter.name] = shape.load
        if not has_default:
            required.append(parameter.name)
    schema: dict[str, Any] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    return annotations.definitions.complete({**schema, "additionalProperties": False}), loaders


def check_raw_schema(schema: Mapping[str, Any], callee: Callee, name: str) -> None:
    """Refuse a raw input schema the function could not be called by.

    Raises:
        TypeError: it is no object schema, or its properties and the parameters do not match; names which.
        SchemaError: it is of an unknown dialect.
    """
    if schema.get("type") != "object":
        raise TypeError(f"{name}: the type at the root of input_schema must be 'object', not {schema.get('type')!r}")
    dialect_of(schema)
    published = set(schema.get("properties", {}))
    for parameter in callee.arguments():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}: parameter '*{parameter.name}' gets nothing: arguments are passed by name")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            published.clear()
        elif parameter.default is parameter.empty and parameter.name not in schema.get("required", ()):
            raise TypeError(f"{name}: parameter {parameter.name!r} needs a default: input_schema does not require it")
        published.discard(parameter.name)
    for missing in sorted(published):
        raise TypeError(f"{name}: input_schema publishes {missing!r}, which is no parameter of the function")


def publish_result(callee: Callee, name: str, content: Collection[type]) -> tuple[dict[str, Any] | None, bool]:
    """Return the output schema, if there is one, and whether the result is wrapped.

    Raises:
        Inexpressible: the return annotation has no JSON form.
    """
    nothing = (inspect.Signature.empty, None, type(None), Any, object, Never, NoReturn)
    if any(callee.returns is each for each in nothing) or mentions(callee.returns, content):
        return None, False
    annotations = Annotations(output=True, namespace=callee.namespace)
    shape = shape_of(annotations, callee.returns, f"{name}: the return annotation")
    if shape.kinds == frozenset({"object"}):
        return {"type": "object", **annotations.definitions.complete(shape.schema)}, False
    wrapped = {"type": "object", "properties": {"result": shape.schema}, "required": ["result"]}
    return annotations.definitions.complete(wrapped), True
