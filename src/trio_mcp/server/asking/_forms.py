"""Makes a form out of a class: the schema that each revision's clients are asked with, and the answer read into it.

`Context.elicit` calls `form_of`. The specification allows a flat object of simple members and nothing else. Classes are
read by the machinery that reads the parameters of tools (`_signature`, `_annotations`); `_form_plain` puts what it
finds into a form's words, `_form_reading` checks them, `_form_members` writes them for each revision. An answer is
judged as the arguments of tools are: by the schema, formats included, and nothing is converted into another kind.

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
from ._form_schema import ALLOWED, FormMember, NoMember, has_every_member, made_defaults, plain_member, read_member

__all__ = ["AnswerFaults", "Choices", "Form", "FormAnnotations", "form_of"]


# Titles for the texts that a form lets people choose from: `Choices`, and annotations that know what it means.


def _options(titles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    given: Any = titles
    options: tuple[Any, ...] = tuple(given.items()) if issubclass(type(given), Mapping) else ()
    if not options or not all(isinstance(text, str) for option in options for text in option):
        raise TypeError(f"Choices({titles!r}): give a mapping of texts to their titles, with one of them at least")
    return options


@frozen
class Choices:
    """Texts to choose from in a form, each with the title that people see in its place.

    To be put beside the type of a member of a class that `Context.elicit` is given::

        size: Annotated[str, Choices({"s": "Small", "m": "Medium"})]
        extras: Annotated[list[str], Choices({"c": "Cheese", "h": "Ham"})]

    is a choice of one, and a choice of several. The members hold ``"s"`` or ``["c", "h"]``. In place of `str` there may
    be a ``Literal`` or an enumeration of the same texts.

    Args:
        titles: the title of each text, in the order to be shown.

    Raises:
        TypeError: there is none, or something is no text.

    Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
    """

    options: tuple[tuple[str, str], ...] = field(converter=_options, alias="titles")
    """Each text with its title."""

    def titled(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a type with these as the only values.

        Raises:
            Inexpressible: it is a type of something else than texts, of other texts, or has its titles already.
        """
        if "anyOf" in schema:
            arms = [arm if arm == {"type": "null"} else self.titled(arm) for arm in schema["anyOf"]]
            return {**schema, "anyOf": arms}
        if schema.get("type") == "array":
            return {**schema, "items": self.titled(schema.get("items", {}))}
        if schema.get("type") != "string":
            raise Inexpressible("Choices are for str and list[str], and for Literal and enumerations of texts")
        if "oneOf" in schema:
            raise Inexpressible("Choices are given twice")
        texts = [text for text, _ in self.options]
        if set(schema.get("enum", texts)) != set(texts):
            raise Inexpressible(f"the Choices {texts} are not the values of the type, {schema['enum']}")
        rest = {keyword: fact for keyword, fact in schema.items() if keyword != "enum"}
        return {**rest, "oneOf": [{"const": text, "title": title} for text, title in self.options]}


@define(eq=False)
class FormAnnotations(AnnotationReader):
    """Annotations among which `Choices` counts."""

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
"""Classes whose forms are kept. Not by weak references: a form holds its class, so none would ever go."""

_ROOT: Final = frozenset({"$schema", "type", "properties", "required"})


class AnswerFaults(ArgumentFaults):
    """An answer does not fit the form. Who answered is at fault.

    `faults` names every one of them by its path, as in ``$.count: expected integer, got string``.
    """

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: the answer does not fit the form", *self.faults])


@define(eq=False)
class Form(Generic[T]):
    """What a class, or a schema, asks of a user. Made by `form_of`; safe to use from several tasks and threads."""

    name: str
    """What errors call it."""

    members: Sequence[FormMember]
    """In the order to be shown."""

    required: Sequence[str]
    """Names of the members that may not be left out."""

    _read: Callable[[dict[str, Any]], T] = field(alias="read")
    """Makes the value out of an answer that fits the schema."""

    _dialect: str | None = field(alias="dialect", default=None)
    """What a given schema has for ``$schema``."""

    _judge: Validator = field(init=False)
    _requested: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]], init=False)

    def __attrs_post_init__(self) -> None:
        judged = {member.name: member.judged() for member in self.members}
        self._judge = compile_schema(self._schema(judged, self._dialect), formats=FORMATS)

    def requested_schema(self, revision: str) -> dict[str, Any]:
        """Return the schema to ask peers of a revision with. It is made once and kept: do not change it.

        Raises:
            MissingCapability: the revision has no forms, or not what a member needs; the text names the member.
            KeyError: there is no such revision.
        """
        schema = self._requested.get(revision)
        if schema is None:
            dialect = self._dialect if has_every_member(revision) else None
            schema = self._schema({member.name: member.schema(revision) for member in self.members}, dialect)
            self._requested[revision] = schema
        return schema

    def load(self, content: Mapping[str, Any] | None) -> T:
        """Read the content of an accepted answer. Members that were left out get their defaults.

        Members that were not asked for are passed over: the schema that clients see cannot forbid them. Where the form
        was given as a schema, they are kept.

        Args:
            content: JSON values by the name of the member; None, which is what an empty form may bring, is no member.

        Raises:
            AnswerFaults: with every fault. Those that validators of the class find come once the schema finds none.
        """
        values = dict(content or {})
        if faults := self._judge.faults(values):
            raise AnswerFaults(self.name, faults)
        try:
            return self._read(values)
        except ArgumentFaults as refused:
            raise AnswerFaults(self.name, refused.faults) from refused

    def _schema(self, properties: dict[str, Any], dialect: str | None) -> dict[str, Any]:
        schema: dict[str, Any] = {} if dialect is None else {"$schema": dialect}
        schema.update({"type": "object", "properties": properties})
        if self.required:  # an empty list is no schema in the oldest dialect
            schema["required"] = list(self.required)
        return schema


@overload
def form_of(asked: type[T]) -> Form[T]: ...
@overload
def form_of(asked: Mapping[str, Any]) -> Form[dict[str, Any]]: ...
def form_of(asked: Any) -> Form[Any]:
    """Make the form that asks for a class, or return the one made before.

    A member may be left out if it has a default, if None is among its values, or if it is `NotRequired`. Its default is
    proposed where it fits the form: an empty text in place of an address does not. Of defaults that are made anew for
    each instance, lists of choices are proposed; what makes them is called once.

    Args:
        asked: an attrs class, a dataclass, a TypedDict, a named tuple, a `msgspec.Struct` or a pydantic model; or the
            JSON Schema of a form, as an object. What is read by a schema stays a dictionary.

    Raises:
        TypeError: no revision has such a form; names the member and says what is allowed.
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
        reader = describe_type(cls, name=f"{name} is no form", annotations=FormAnnotations)
    except TypeError as error:
        raise TypeError(f"{error}. {ALLOWED}") from error
    properties: Any = reader.schema.get("properties")
    if not is_object(properties):
        raise TypeError(f"{name} is no form: give a class with named members, such as a dataclass. {ALLOWED}")
    definitions = Definitions()
    definitions.by_name.update(reader.schema.get("$defs", {}))
    demanded: Sequence[str] = reader.schema.get("required", ())
    made = made_defaults(cls)
    members: list[FormMember] = []
    left_out: dict[str, None] = {}
    for wire, schema in properties.items():
        plain, may_be_null = plain_member(schema, definitions)
        members.append(_proposing(_checked(wire, plain, f"{name} is no form: {name}.{wire}"), made.get(wire)))
        if may_be_null and wire in demanded:
            left_out[wire] = None
    required = [wire for wire in demanded if wire not in left_out]
    return Form(name, members, required, _reading(reader, members, left_out))


_kept_form = lru_cache(_MOST_KEPT)(_form_of_class)


def _reading(
    reader: TypeReader, members: Sequence[FormMember], left_out: Mapping[str, None]
) -> Callable[[dict[str, Any]], Any]:
    names = frozenset(member.name for member in members)
    return lambda values: reader.load({**left_out, **{wire: values[wire] for wire in values if wire in names}})


def _proposing(member: FormMember, make: Callable[[], Any] | None) -> FormMember:
    """Return the member with the default that can be proposed, if there is one."""
    if member.type == "array" and member.default is MISSING and make is not None:
        member = evolve(member, default=to_json(make()))
    return evolve(member, default=MISSING) if _default_faults(member) else member


def _default_faults(member: FormMember) -> list[str]:
    return [] if member.default is MISSING else compile_schema(member.judged(), formats=FORMATS).faults(member.default)


def _form_of_schema(schema: Mapping[str, Any]) -> Form[dict[str, Any]]:
    for keyword in schema.keys() - _ROOT:
        raise TypeError(f"the form: {keyword} has no place beside its {', '.join(sorted(_ROOT))}")
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
        compile_schema(member.judged())  # now, and not when somebody has answered already
    except (NoMember, SchemaError) as error:
        raise TypeError(f"{place}: {error}. {ALLOWED}") from error
    return member
