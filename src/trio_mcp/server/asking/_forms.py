"""Makes a form from a class or a schema: the schema for the clients of each revision, and a reader of the answers.

`Context.elicit` calls `form_of`. The specification allows a flat object of simple members and nothing else. The
`signature` folder reads the class as it reads the parameters of tools. `plain_member` then rewrites the schema of each
member with the keywords of a form, as far as both mean the same. `read_member` reads a schema in any of the five ways
to write a choice, and refuses everything that no revision lets a form ask for, when the form is made.
`FormMember.schema` writes the member for one revision. The differences between the revisions are all here:

===========================  ==============================  =======================================
feature                      2025-06-18                      later
===========================  ==============================  =======================================
choice of one, with titles   ``enum`` and ``enumNames``      ``oneOf`` of ``const`` and ``title``
choice of several            none                            ``items`` with ``enum`` or ``anyOf``
default                      of yes-or-no members only       of every member
===========================  ==============================  =======================================

A schema that was given with ``enumNames`` keeps them, because later revisions still accept them.

Only 2025-11-25 has ``pattern``. Other revisions are sent the member without it, but answers must match it nevertheless,
so the description of the member should explain it in words.

An answer is checked as the arguments of tools are: against the schema, formats included, and without any conversion
between JSON types. `Choices` adds titles to the strings that a form lets the user choose from.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, TypeVar, cast, get_origin, overload

import attrs
import msgspec
from attrs import define, evolve, field, frozen

from ..._errors import MissingCapability
from ...schema import (
    FORMATS,
    MISSING,
    AnnotationReader,
    Definitions,
    Inexpressible,
    SchemaError,
    Shape,
    Validator,
    compile_schema,
    dialect_of,
    render_path,
    to_json,
)
from ...types import METHODS, REVISIONS
from ...wire import is_array, is_object
from ..signature import ArgumentFaults, TypeReader, describe_type

__all__ = [
    "ALLOWED",
    "AnswerFaults",
    "Choices",
    "Form",
    "FormAnnotations",
    "FormMember",
    "MemberError",
    "default_factories",
    "form_of",
    "has_every_member",
    "missing_form",
    "plain_member",
    "read_member",
]


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


_WITH_PATTERN: Final = "2025-11-25"


_WITH_EVERY_MEMBER: Final = frozenset(REVISIONS[REVISIONS.index("2025-11-25") :])


def has_every_member(revision: str) -> bool:
    """Return True if a revision has all kinds of members; the first revision with forms has fewer.

    Raises:
        MissingCapability: the revision has no forms at all.
        KeyError: the revision is unknown.
    """
    if "elicitation/create" not in METHODS[revision]:
        raise missing_form(f"revision {revision} has no elicitation")
    return revision in _WITH_EVERY_MEMBER


def missing_form(reason: str) -> MissingCapability:
    """Return the error for a form that the client does not support."""
    return MissingCapability(reason, {"elicitation": {"form": {}}})


@frozen
class FormMember:
    """A member of a form."""

    name: str

    type: str
    """The ``type`` of its value in JSON Schema; ``"array"`` for a choice of several strings."""

    facts: Mapping[str, Any]
    """Its title, description and limits, by JSON Schema keyword."""

    values: Sequence[str] = ()
    """The strings to choose from; empty if the member is not a choice."""

    titles: Sequence[str] | None = None
    """The titles of `values`, in the same order; None if they have no titles."""

    has_names: bool = False
    """True if the given schema has the titles as ``enumNames``."""

    default: Any = MISSING
    """The value that the form proposes; `MISSING` if it proposes none."""

    def schema(self, revision: str) -> dict[str, Any]:
        """Return the schema of the member for clients of a revision.

        Raises:
            MissingCapability: the revision has no members of this kind, or no forms.
        """
        is_complete = has_every_member(revision)
        if self.type == "array" and not is_complete:
            raise missing_form(
                f"revision {revision} has no multiple choice, which {render_path([self.name])} needs",
            )
        facts = {name: fact for name, fact in self.facts.items() if name != "pattern" or revision == _WITH_PATTERN}
        schema = {"type": self.type, **facts, **self._choice(is_complete)}
        if self.default is not MISSING and (is_complete or self.type == "boolean"):
            schema["default"] = self.default
        return schema

    def validation_schema(self) -> dict[str, Any]:
        """Return a schema that accepts the same values as the published ones, with shorter fault messages."""
        if not self.values:
            return {"type": self.type, **self.facts}
        values = {"enum": list(self.values)}  # with the type beside it, a wrong type would be named twice
        return {"type": "array", **self.facts, "items": values} if self.type == "array" else values

    def _choice(self, has_options: bool) -> dict[str, Any]:
        if self.titles is None:
            return self._untitled()
        if self.has_names or not has_options:
            return {"enum": list(self.values), "enumNames": list(self.titles)}
        options = [{"const": value, "title": title} for value, title in zip(self.values, self.titles, strict=True)]
        return {"items": {"anyOf": options}} if self.type == "array" else {"oneOf": options}

    def _untitled(self) -> dict[str, Any]:
        values = list(self.values)
        if self.type == "array":
            return {"items": {"type": "string", "enum": values}}
        return {"enum": values} if values else {}


_NULL: Final = {"type": "null"}


_SILENT: Final = frozenset({"examples", "uniqueItems"})
"""Keywords that are left out of a form. `uniqueItems` is checked when the answer is read."""


def plain_member(schema: dict[str, Any], definitions: Definitions) -> tuple[dict[str, Any], bool]:
    """Return the schema of a member with the keywords of a form, and True if an absent member means None.

    A schema that a form cannot express is left as it is; `read_member` refuses it.
    """
    whole, may_be_null = _without_null(schema, definitions)
    plain = {keyword: fact for keyword, fact in whole.items() if keyword not in _SILENT}
    if plain.get("default", plain) is None:
        del plain["default"]
    if "const" in plain:  # the only value of a choice
        plain["enum"] = [plain.pop("const")]
    if None in plain.get("enum", ()):
        plain["enum"] = [value for value in plain["enum"] if value is not None]
        may_be_null = True
    if "enum" in plain and all(isinstance(value, str) for value in plain["enum"]):
        plain["type"] = "string"
    if plain.get("type") == "integer":
        _include_bounds(plain)
    if plain.get("type") == "array" and "items" in plain:
        plain["items"] = _plain_items(plain["items"], definitions)
    return plain, may_be_null


def _without_null(schema: dict[str, Any], definitions: Definitions) -> tuple[dict[str, Any], bool]:
    """Resolve references, and replace a union with null by its other arm."""
    whole = definitions.resolve(schema)
    arms = [arm for arm in whole.get("anyOf", ()) if arm != _NULL]
    may_be_null = len(arms) < len(whole.get("anyOf", ()))
    if len(arms) != 1:
        return whole, may_be_null
    beside = {keyword: fact for keyword, fact in whole.items() if keyword != "anyOf"}
    arm, inner = _without_null(arms[0], definitions)
    return {**arm, **beside}, may_be_null or inner


def _include_bounds(schema: dict[str, Any]) -> None:
    """Replace the exclusive bounds of an integer by the inclusive bounds next to them."""
    above, below = schema.get("exclusiveMinimum", math.inf), schema.get("exclusiveMaximum", math.inf)
    if math.isfinite(above):
        del schema["exclusiveMinimum"]
        schema["minimum"] = max(math.floor(above) + 1, schema.get("minimum", -math.inf))
    if math.isfinite(below):
        del schema["exclusiveMaximum"]
        schema["maximum"] = min(math.ceil(below) - 1, schema.get("maximum", math.inf))


def _plain_items(items: dict[str, Any], definitions: Definitions) -> dict[str, Any]:
    plain, may_be_null = plain_member(items, definitions)
    if may_be_null:  # a form has no null items
        return {}
    if "oneOf" in plain:
        plain["anyOf"] = plain.pop("oneOf")
    return plain


def default_factories(cls: Any) -> Mapping[str, Callable[[], Any]]:
    """Return the default factories of a class, by the JSON name of the member."""
    cls = get_origin(cls) or cls
    defaults: list[tuple[str, Any]]
    if attrs.has(cls):
        defaults = [(each.alias, each.default) for each in attrs.fields(cls)]
        return {name: default.factory for name, default in defaults if _takes_no_instance(default)}
    if dataclasses.is_dataclass(cls):
        defaults = [(each.name, each.default_factory) for each in dataclasses.fields(cls)]
        return {name: default for name, default in defaults if default is not dataclasses.MISSING}
    if isinstance(cls, type) and issubclass(cls, msgspec.Struct):
        defaults = [(each.encode_name, each.default_factory) for each in msgspec.structs.fields(cls)]
        return {name: default for name, default in defaults if default is not msgspec.NODEFAULT}
    return {}


def _takes_no_instance(default: Any) -> bool:
    return isinstance(default, attrs.Factory) and not default.takes_self  # type: ignore[arg-type]  # a class at run time


ALLOWED: Final = (
    "A member may be a str, int, float, bool, date or datetime, a choice of strings (Literal, an enumeration, or "
    "Choices), or a list of such choices"
)
"""The hint in error messages about members."""


class MemberError(TypeError):
    """A schema cannot be the schema of a member of a form; the message says why."""


_Options = tuple[Sequence[str], Sequence[str] | None]
"""The strings to choose from, and their titles if they have any."""


def read_member(name: str, schema: Any) -> FormMember:
    """Read the schema of one member. The caller checks that the default fits.

    Raises:
        MemberError: no form can ask for it.
    """
    if not is_object(schema):
        raise MemberError("its schema is not a JSON object")
    kind: Any = schema.get("type")
    if kind == "array":
        return _member(name, schema, _LIST, _written_options(_items(schema), "anyOf"), {"items"})
    if kind == "string" and not schema.keys().isdisjoint({"enum", "oneOf"}):
        return _member(name, schema, _CHOICE, _written_options(schema, "oneOf"), {"enum", "enumNames", "oneOf"})
    if not isinstance(kind, str) or kind not in _LIMITS:
        raise MemberError(f"forms do not have the type {kind}" if isinstance(kind, str) else "it has no single type")
    return _member(name, schema, _LIMITS[kind], ((), None), set())


def _member(
    name: str, schema: Mapping[str, Any], limits: Mapping[str, _Check], options: _Options, read: set[str]
) -> FormMember:
    facts = {keyword: fact for keyword, fact in schema.items() if keyword not in {"type", "default", *read}}
    for keyword, fact in facts.items():
        expected, fits = limits.get(keyword) or _ANNOTATIONS.get(keyword) or _NOT_ALLOWED
        if not fits(fact):
            raise MemberError(f"{keyword}={fact!r}: {_HINTS.get(keyword, expected)}")
    default: Any = schema.get("default", MISSING)
    return FormMember(
        name,
        schema["type"],
        facts,
        *options,
        has_names="enumNames" in read & schema.keys(),
        default=list(default) if is_array(default) else default,
    )


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = schema.get("items")
    if not is_object(items) or items.keys().isdisjoint({"enum", "anyOf"}) or items.get("type", "string") != "string":
        raise MemberError("the items of a list must be a choice of strings")
    for keyword in items.keys() - {"type", "enum", "anyOf", "title", "description"}:
        raise MemberError(f"{keyword} is not allowed beside the choices of a list")
    return items


def _written_options(schema: Mapping[str, Any], titled: str) -> _Options:
    """Read the strings to choose from, and their titles.

    Args:
        titled: the keyword for pairs of a string and its title.
    """
    if titled not in schema:
        values: Any = schema["enum"]
        titles: Any = schema.get("enumNames")
    elif schema.keys() & {"enum", "enumNames"}:
        raise MemberError(f"the choices are given twice, in {titled} and in enum")
    else:
        options: Any = schema[titled]
        if not is_array(options) or not all(is_object(each) and each.keys() == {"const", "title"} for each in options):
            raise MemberError(f"{titled} must be a list of objects with const and title")
        values, titles = [each["const"] for each in options], [each["title"] for each in options]
    if not _is_strings(values) or not values or len(set(values)) < len(values):
        raise MemberError("the choices must be different strings, and at least one")
    if titles is not None and not (_is_strings(titles) and len(titles) == len(values)):
        raise MemberError("there must be one title, a string, for each choice")
    return tuple(values), None if titles is None else tuple(titles)


def _is_strings(value: Any) -> bool:
    return is_array(value) and all(isinstance(each, str) for each in value)


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)


_Check = tuple[str, Callable[[Any], bool]]
"""The message for a wrong value of a keyword, and the check of the value."""


_COUNT: Final = ("expected an integer of at least 0", _is_count)


_NUMBER: Final = ("expected a number", _is_number)


_STRING: Final = ("expected a string", _is_string)


_FORMAT_NAMES: Final = ("date", "date-time", "email", "uri")


_FORMAT: Final = (f"the formats of a form are {', '.join(_FORMAT_NAMES)}", _FORMAT_NAMES.__contains__)


_NOT_ALLOWED: Final[_Check] = ("this keyword is not allowed in a form", lambda _: False)


_ANNOTATIONS: Final[Mapping[str, _Check]] = {"title": _STRING, "description": _STRING}


_CHOICE: Final[Mapping[str, _Check]] = {}


_LIST: Final[Mapping[str, _Check]] = {"minItems": _COUNT, "maxItems": _COUNT}


_RANGE: Final[Mapping[str, _Check]] = {"minimum": _NUMBER, "maximum": _NUMBER}


_LIMITS: Final[Mapping[str, Mapping[str, _Check]]] = {
    "string": {"minLength": _COUNT, "maxLength": _COUNT, "pattern": _STRING, "format": _FORMAT},
    "integer": _RANGE,
    "number": _RANGE,
    "boolean": {},
}


_HINTS: Final[Mapping[str, str]] = {
    "enum": "the choices must be strings",
    "exclusiveMinimum": "a form has no exclusive bounds; use ge in place of gt",
    "exclusiveMaximum": "a form has no exclusive bounds; use le in place of lt",
}
