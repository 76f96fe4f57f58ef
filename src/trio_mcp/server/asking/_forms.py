"""Makes a form from a class or a schema: the schema for the clients of each revision, and a reader of the answers.

`Context.elicit` calls `form_of`. The specification allows a flat object of simple members and nothing else. The
`signature` folder reads the class as it reads the parameters of tools; `_form_schema` rewrites the schema of each
member with the keywords of forms, checks it, and writes it for each revision. An answer is checked as the arguments of
tools are: against the schema, formats included, and without any conversion between JSON types.

`Choices` adds titles to the strings that a form lets the user choose from.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, TypeVar, cast, get_origin, overload

from attrs import define, evolve, field, frozen

from ...schema import SchemaError, Validator, compile_schema, dialect_of, render_path
from ...wire import is_array, is_object
from ..signature import (
    FORMATS,
    MISSING,
    AnnotationReader,
    ArgumentFaults,
    Definitions,
    Inexpressible,
    Shape,
    TypeReader,
    describe_type,
    to_json,
)
from ._form_schema import (
    ALLOWED,
    FormMember,
    MemberError,
    default_factories,
    has_every_member,
    plain_member,
    read_member,
)

__all__ = ["AnswerFaults", "Choices", "Form", "FormAnnotations", "form_of"]


def _options(titles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    given: Any = titles
    options: tuple[Any, ...] = tuple(given.items()) if issubclass(type(given), Mapping) else ()
    if not options or not all(isinstance(part, str) for option in options for part in option):
        raise TypeError(f"Choices({titles!r}): give a mapping of strings to their titles, with at least one item")
    return options


@frozen
class Choices:
    """The strings to choose from in a form, each with the title that the user sees instead.

    Put it beside the type of a member, in a class for `Context.elicit`::

        size: Annotated[str, Choices({"s": "Small", "m": "Medium"})]
        extras: Annotated[list[str], Choices({"c": "Cheese", "h": "Ham"})]

    These are a choice of one and a choice of several. The members hold ``"s"`` or ``["c", "h"]``. Instead of `str`, a
    member may have a ``Literal`` or an enumeration of the same strings.

    Args:
        titles: the title of each string, in display order.

    Raises:
        TypeError: the mapping is empty, or holds anything but strings.

    Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
    """

    options: tuple[tuple[str, str], ...] = field(converter=_options, alias="titles")
    """Each string with its title."""

    def titled(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a type, restricted to these choices.

        Raises:
            Inexpressible: the type is not one of strings, has other strings, or has titles already.
        """
        if "anyOf" in schema:
            arms = [arm if arm == {"type": "null"} else self.titled(arm) for arm in schema["anyOf"]]
            return {**schema, "anyOf": arms}
        if schema.get("type") == "array":
            return {**schema, "items": self.titled(schema.get("items", {}))}
        if schema.get("type") != "string":
            raise Inexpressible("Choices are for str and list[str], and for Literal and enumerations of strings")
        if "oneOf" in schema:
            raise Inexpressible("Choices are given twice")
        values = [value for value, _ in self.options]
        if set(schema.get("enum", values)) != set(values):
            raise Inexpressible(f"the Choices {values} are not the values of the type, {schema['enum']}")
        rest = {keyword: fact for keyword, fact in schema.items() if keyword != "enum"}
        return {**rest, "oneOf": [{"const": value, "title": title} for value, title in self.options]}


@define(eq=False)
class FormAnnotations(AnnotationReader):
    """An annotation reader that also applies `Choices`."""

    def shape(self, annotation: Any) -> Shape:
        """Return the JSON form of an annotation; see `AnnotationReader.shape`."""
        shape = super().shape(annotation)
        if get_origin(annotation) is Annotated:
            for note in annotation.__metadata__:
                if isinstance(note, Choices):
                    shape = evolve(shape, schema=note.titled(shape.schema))
        return shape


T = TypeVar("T")

_MOST_KEPT: Final = 256
"""The number of forms in the cache. Weak references would not help: each form refers to its class."""

_ROOT: Final = frozenset({"$schema", "type", "properties", "required"})


class AnswerFaults(ArgumentFaults):
    """An answer does not fit the form. The client is at fault.

    `faults` has one line for each fault, with its path, as in ``$.count: expected integer, got string``.
    """

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: the answer does not fit the form", *self.faults])


@define(eq=False)
class Form(Generic[T]):
    """The questions of one class or schema. Made by `form_of`; safe to use from several tasks and threads."""

    name: str
    """The name of the form in error messages."""

    members: Sequence[FormMember]
    """The members, in display order."""

    required: Sequence[str]
    """The names of the members that an answer must contain."""

    _read: Callable[[dict[str, Any]], T] = field(alias="read")
    """Converts an answer that fits the schema into the value for the handler."""

    _dialect: str | None = field(alias="dialect", default=None)
    """The ``$schema`` of a form that was given as a schema."""

    _validator: Validator = field(init=False)
    _requested: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]], init=False)

    def __attrs_post_init__(self) -> None:
        checked = {member.name: member.validation_schema() for member in self.members}
        self._validator = compile_schema(self._schema(checked, self._dialect), formats=FORMATS)

    def requested_schema(self, revision: str) -> dict[str, Any]:
        """Return the schema for clients of a revision. It is cached: do not change it.

        Raises:
            MissingCapability: the revision has no forms, or cannot express a member, which the message names.
            KeyError: the revision is unknown.
        """
        schema = self._requested.get(revision)
        if schema is None:
            dialect = self._dialect if has_every_member(revision) else None
            schema = self._schema({member.name: member.schema(revision) for member in self.members}, dialect)
            self._requested[revision] = schema
        return schema

    def load(self, content: Mapping[str, Any] | None) -> T:
        """Read the content of an accepted answer. Absent members get their defaults.

        Unknown members are ignored, because the schema for the client cannot forbid them. A form that was given as a
        schema keeps them.

        Args:
            content: JSON values by the name of the member; None, which an empty form may result in, means no members.

        Raises:
            AnswerFaults: with every fault. Validators of the class run only if the schema finds no fault.
        """
        values = dict(content or {})
        if faults := self._validator.faults(values):
            raise AnswerFaults(self.name, faults)
        try:
            return self._read(values)
        except ArgumentFaults as refused:
            raise AnswerFaults(self.name, refused.faults) from refused

    def _schema(self, properties: dict[str, Any], dialect: str | None) -> dict[str, Any]:
        schema: dict[str, Any] = {} if dialect is None else {"$schema": dialect}
        schema.update({"type": "object", "properties": properties})
        if self.required:  # the oldest dialect forbids an empty list
            schema["required"] = list(self.required)
        return schema


@overload
def form_of(asked: type[T]) -> Form[T]: ...
@overload
def form_of(asked: Mapping[str, Any]) -> Form[dict[str, Any]]: ...
def form_of(asked: Any) -> Form[Any]:
    """Return the form for a class or a schema. The forms of classes are cached.

    A member is optional if it has a default, if it may be None, or if it is `NotRequired`. The form proposes the
    default of a member if it is valid there: an empty string is not a valid address. Of defaults that a factory makes
    for each instance, the form proposes only lists of choices; it calls the factory once.

    Args:
        asked: an attrs class, a dataclass, a TypedDict, a named tuple, a `msgspec.Struct` or a pydantic model; or the
            JSON Schema of a form, as an object. Answers to a form that is given as a schema stay dictionaries.

    Raises:
        TypeError: no revision can express the form; the message names the member and what is allowed.
    """
    if isinstance(asked, Mapping):
        return _form_of_schema(cast("Mapping[str, Any]", asked))
    try:
        hash(asked)
    except TypeError:
        return _form_of_class(asked)
    return _kept_form(asked)


def _form_of_class(cls: Any) -> Form[Any]:
    name = str(getattr(cls, "__name__", cls))
    try:
        reader = describe_type(cls, name=f"{name} cannot be a form", annotations=FormAnnotations)
    except TypeError as error:
        raise TypeError(f"{error}. {ALLOWED}") from error
    properties: Any = reader.schema.get("properties")
    if not is_object(properties):
        raise TypeError(f"{name} cannot be a form: give a class with named members, such as a dataclass. {ALLOWED}")
    definitions = Definitions()
    definitions.by_name.update(reader.schema.get("$defs", {}))
    demanded: Sequence[str] = reader.schema.get("required", ())
    factories = default_factories(cls)
    members: list[FormMember] = []
    nulls: dict[str, None] = {}
    for wire, schema in properties.items():
        plain, may_be_null = plain_member(schema, definitions)
        member = _checked(wire, plain, f"{name} cannot be a form: {name}.{wire}")
        members.append(_proposing(member, factories.get(wire)))
        if may_be_null and wire in demanded:
            nulls[wire] = None
    required = [wire for wire in demanded if wire not in nulls]
    return Form(name, members, required, _reading(reader, members, nulls))


_kept_form = lru_cache(_MOST_KEPT)(_form_of_class)


def _reading(
    reader: TypeReader, members: Sequence[FormMember], nulls: Mapping[str, None]
) -> Callable[[dict[str, Any]], Any]:
    names = frozenset(member.name for member in members)
    return lambda values: reader.load({**nulls, **{wire: values[wire] for wire in values if wire in names}})


def _proposing(member: FormMember, factory: Callable[[], Any] | None) -> FormMember:
    """Return the member with its default if the form can propose it, otherwise without."""
    if member.type == "array" and member.default is MISSING and factory is not None:
        member = evolve(member, default=to_json(factory()))
    return evolve(member, default=MISSING) if _default_faults(member) else member


def _default_faults(member: FormMember) -> list[str]:
    if member.default is MISSING:
        return []
    return compile_schema(member.validation_schema(), formats=FORMATS).faults(member.default)


def _form_of_schema(schema: Mapping[str, Any]) -> Form[dict[str, Any]]:
    for keyword in schema.keys() - _ROOT:
        raise TypeError(f"the form: {keyword} is not allowed; the keywords of a form are {', '.join(sorted(_ROOT))}")
    properties: Any = schema.get("properties")
    required: Any = schema.get("required", [])
    if schema.get("type") != "object" or not is_object(properties):
        raise TypeError("the form: its type must be 'object', and its properties an object")
    if not is_array(required) or not all(isinstance(name, str) and name in properties for name in required):
        raise TypeError(f"the form: required={required!r} must be a list of names from its properties")
    try:
        dialect_of(schema)
    except SchemaError as error:
        raise TypeError(f"the form: {error}") from error
    members = [_checked(name, member, f"the form: {render_path([name])}") for name, member in properties.items()]
    for member in members:
        if faults := _default_faults(member):
            raise TypeError(f"the form: the default of {render_path([member.name])} does not fit: {'; '.join(faults)}")
    return Form("the form", members, list(required), lambda values: values, schema.get("$schema"))


def _checked(name: str, schema: Any, place: str) -> FormMember:
    try:
        member = read_member(name, schema)
        compile_schema(member.validation_schema())  # fails now, not after the user has answered
    except (MemberError, SchemaError) as error:
        raise TypeError(f"{place}: {error}. {ALLOWED}") from error
    return member
