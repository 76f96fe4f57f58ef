"""Turns a type annotation into its JSON Schema and a loader that agrees with it.

`_signature` calls it for parameters and return annotations; questions to the user use it for their answers.
`Annotations` collects the classes met on the way in ``$defs``. The leaves are in `_annotations_scalars`, classes are
read by `_annotations_objects`, loaders come from `_annotations_load`. Rules of this file:

1. Schema and loader are made together; what the schema passes, the loader takes.
2. What cannot be published exactly is refused where it is registered, as `Inexpressible`.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from attrs import define, evolve, field

from ._annotations_constraints import annotated_schema
from ._annotations_definitions import Definitions, reference_to
from ._annotations_dump import to_json
from ._annotations_load import (
    Loader,
    Misfit,
    array_loader,
    mapping_loader,
    object_loader,
    pydantic_loader,
    tuple_loader,
)
from ._annotations_objects import MISSING, Member, ObjectSpec, is_pydantic_model, read_object
from ._annotations_scalars import ANY_KINDS, Inexpressible, Shape, enum_shape, literal_shape, scalar_shape
from ._annotations_unions import union_loader
from ._docstring import parse_docstring

__all__ = ["Annotations", "publish_member"]

_ARRAYS: Final[Mapping[Any, Callable[..., Any]]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    tuple: tuple,
    set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
}
_UNIQUE: Final = (set, frozenset)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_OBJECT: Final = frozenset({"object"})
_ARRAY: Final = frozenset({"array"})

# What a set can hold when its annotation does not say.
_SCALAR_ITEMS: Final = Shape({"type": ["string", "number", "boolean", "null"]}, ANY_KINDS - {"array", "object"})
_INT_KEY: Final = Shape({"pattern": "^(0|-?[1-9][0-9]{0,17})$"}, frozenset({"string"}), int)


@define(eq=False)
class Annotations:
    """The annotations of one signature, turned into JSON Schema one after the other.

    Their classes share one set of definitions, so that the published schema contains each once.
    """

    output: bool
    """Whether values are written (results) rather than read (arguments)."""

    namespace: Mapping[str, Any] = field(factory=dict[str, Any])
    """Names that annotations of classes may use beside those of their modules."""

    definitions: Definitions = field(factory=Definitions, init=False)
    """What goes under ``$defs``; `Definitions.complete` puts it there."""

    _classes: dict[Any, Shape] = field(factory=dict[Any, Shape], init=False)
    _aliases: list[Any] = field(factory=list[Any], init=False)

    def shape(self, annotation: Any) -> Shape:
        """Return the JSON form of an annotation.

        Raises:
            Inexpressible: it has none.
        """
        if scalar := scalar_shape(annotation, output=self.output):
            return scalar
        origin = get_origin(annotation)
        if origin is typing.Annotated:
            inner, *metadata = get_args(annotation)
            shape = self.shape(inner)
            return Shape(annotated_schema(shape, inner, metadata), shape.kinds, shape.load, shape.hashable)
        if origin is Literal:
            return literal_shape(annotation)
        if origin in {Union, types.UnionType}:
            return self._union(get_args(annotation))
        if origin is typing.Final:
            return self.shape(get_args(annotation)[0])
        if hasattr(annotation, "__value__") or hasattr(annotation, "__supertype__"):
            return self._alias(annotation)
        return self._class(annotation, origin or annotation)

    def _class(self, annotation: Any, origin: Any) -> Shape:
        if type(origin).__hash__ is None:
            raise Inexpressible(f"{annotation!r} is not a type")
        if origin in _ARRAYS:
            return self._array(get_args(annotation), _ARRAYS[origin])
        if origin in _MAPPINGS:
            return self._mapping(get_args(annotation))
        if isinstance(origin, type) and issubclass(origin, enum.Enum):
            return enum_shape(origin)
        if annotation in self._classes:
            return self._classes[annotation]
        if is_pydantic_model(origin):
            return self._model(annotation)
        spec = self._read(origin)
        if spec is None:
            raise Inexpressible(f"{_name_of(annotation)} has no JSON form")
        return self._object(annotation, origin, spec)

    def _read(self, cls: Any) -> ObjectSpec | None:
        try:
            return read_object(cls, self.namespace)
        except NameError as error:
            raise Inexpressible(f"{_name_of(cls)}: {error}; define it in the module of the class") from error
        except TypeError as error:
            raise Inexpressible(str(error)) from error

    def _alias(self, annotation: Any) -> Shape:
        if annotation in self._aliases:
            raise Inexpressible(f"the alias {_name_of(annotation)} contains itself")
        self._aliases.append(annotation)
        inner = annotation.__value__ if hasattr(annotation, "__value__") else annotation.__supertype__
        shape = self.shape(inner)
        self._aliases.pop()
        return shape

    def _union(self, arms: tuple[Any, ...]) -> Shape:
        shapes = [self.shape(arm) for arm in arms if arm is not msgspec.UnsetType]
        if len(shapes) == 1:
            return shapes[0]
        kinds = frozenset[str]().union(*(shape.kinds for shape in shapes))
        load = union_loader(shapes, self.definitions.by_name)
        return Shape(
            {"anyOf": [shape.schema for shape in shapes]}, kinds, load, all(shape.hashable for shape in shapes)
        )

    def _array(self, arguments: tuple[Any, ...], make: Callable[..., Any]) -> Shape:
        if make is tuple and arguments and arguments[-1] is not Ellipsis:
            return self._tuple(arguments)
        if make in _UNIQUE:
            return self._set(arguments, make)
        schema: dict[str, Any] = {"type": "array"}
        load: Loader | None = None if make is list else make
        item = self.shape(arguments[0]) if arguments else None
        if item is not None:
            schema["items"] = item.schema
            load = array_loader(item.load, make)
        return Shape(schema, _ARRAY, load, hashable=make is tuple and item is not None and item.hashable)

    def _set(self, arguments: tuple[Any, ...], make: Callable[..., Any]) -> Shape:
        item = _SCALAR_ITEMS if not arguments or arguments[0] in {Any, object} else self.shape(arguments[0])
        if not item.hashable:
            raise Inexpressible(f"{_name_of(arguments[0])} cannot be an item of a set: it is not hashable")
        schema = {"type": "array", "items": item.schema, "uniqueItems": True}
        return Shape(schema, _ARRAY, array_loader(item.load, make), hashable=make is frozenset)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        items = [self.shape(argument) for argument in arguments]
        schema = {
            "type": "array",
            "prefixItems": [item.schema for item in items],
            "minItems": len(items),
            "maxItems": len(items),
        }
        load = tuple_loader([item.load for item in items])
        return Shape(schema, _ARRAY, load, all(item.hashable for item in items))

    def _mapping(self, arguments: tuple[Any, ...]) -> Shape:
        if not arguments:
            return Shape({"type": "object"}, _OBJECT, hashable=False)
        key, value = (self.shape(argument) for argument in arguments)
        if arguments[0] is int:
            key = _INT_KEY
        elif key.kinds != frozenset({"string"}) and arguments[0] is not Any:
            raise Inexpressible(f"{_name_of(arguments[0])} cannot be a key: the names of JSON members are strings")
        schema: dict[str, Any] = {"type": "object", "additionalProperties": value.schema or True}
        names = {keyword: fact for keyword, fact in key.schema.items() if keyword != "type"}
        if names:
            schema["propertyNames"] = names
        return Shape(schema, _OBJECT, mapping_loader(key.load, value.load), hashable=False)

    def _object(self, annotation: Any, cls: Any, spec: ObjectSpec) -> Shape:
        name = self.definitions.reserve(_name_of(cls))
        loader: Loader | None = None

        def load(value: Any) -> Any:
            assert loader is not None
            return loader(value)

        # Entered before the members are read: a class may contain itself.
        hashable = cls is not dict and getattr(cls, "__hash__", None) is not None
        shape = Shape(reference_to(name), _OBJECT, load, hashable)
        self._classes[annotation] = shape
        documented = parse_docstring(_own_docstring(cls))
        members = [member for member in spec.members if member.accepted or self.output]
        shapes = {member.wire: self._member(cls, annotation, member) for member in members}
        schema = self.definitions.by_name[name]
        schema.update({"type": "object", "description": documented.description})
        if not documented.description:
            del schema["description"]
        properties = {
            member.wire: publish_member(
                shapes[member.wire], documented.parameters.get(member.attribute), member.default
            )
            for member in members
        }
        required = [member.wire for member in members if member.required]
        if spec.tag is not None:
            properties = {spec.tag[0]: {"const": spec.tag[1]}, **properties}
            required.insert(0, spec.tag[0])
        schema["properties"] = properties
        if required:
            schema["required"] = required
        if not self.output:
            schema["additionalProperties"] = False
        loader = object_loader(
            spec.construct, {member.wire: (member.keyword, shapes[member.wire].load) for member in members}
        )
        hashable = hashable and all(member.hashable for member in shapes.values())
        self._classes[annotation] = evolve(shape, hashable=hashable)
        return self._classes[annotation]

    def _member(self, cls: Any, annotation: Any, member: Member) -> Shape:
        try:
            return self.shape(_specialised(member.annotation, cls, annotation))
        except Inexpressible as error:
            raise Inexpressible(f"{_name_of(cls)}.{member.attribute}: {error}") from error

    def _model(self, model: Any) -> Shape:
        mode = "serialization" if self.output else "validation"
        name = self.definitions.reserve(_name_of(model))
        # Definitions of a model are its own: pydantic names them without knowing ours.
        schema = model.model_json_schema(mode=mode, ref_template=f"#/$defs/{name}.{{model}}")
        for inner, definition in schema.pop("$defs", {}).items():
            self.definitions.by_name[f"{name}.{inner}"] = definition
        self.definitions.by_name[name].update(schema)
        kinds = _OBJECT if self.definitions.resolve(schema).get("type") == "object" else ANY_KINDS
        shape = Shape(reference_to(name), kinds, pydantic_loader(model), hashable=False)
        self._classes[model] = shape
        return shape


def publish_member(shape: Shape, documentation: str | None, default: Any) -> dict[str, Any]:
    """Return the schema of a parameter or member, with its text and default.

    Args:
        shape: its form.
        documentation: what a docstring says about it; text in the annotation goes first.
        default: published where it has a JSON form of the right kind; `MISSING` is none.
    """
    schema = shape.schema
    if documentation:
        schema = {"description": documentation, **schema}
    if default is MISSING or (default is None and "null" not in shape.kinds):
        return schema
    try:
        return {**schema, "default": to_json(default)}
    except Misfit:
        return schema


def _name_of(annotation: Any) -> str:
    name = getattr(annotation, "__name__", None) or repr(annotation)
    return str(name)


def _own_docstring(cls: Any) -> str | None:
    text: str | None = cls.__dict__.get("__doc__")
    # Dataclasses and named tuples are given their signature for a docstring.
    return None if text is None or text.startswith(f"{cls.__name__}(") else text


def _specialised(annotation: Any, cls: Any, alias: Any) -> Any:
    """Put the arguments of ``Box[int]`` in place of the type variables of ``Box``."""
    chosen: dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), get_args(alias), strict=False))
    if isinstance(annotation, TypeVar):
        return chosen.get(annotation, annotation)
    open_ = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) or not open_:
        return annotation
    return annotation[tuple(chosen.get(variable, variable) for variable in open_)]
