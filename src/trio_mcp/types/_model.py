"""The base of the generated types: the class `Model`, the marker `UNSET`, the types of JSON and the table rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

from .._other_sdks import ForeignAttribute

__all__ = [
    "NO_EXTRA",
    "UNSET",
    "Bounds",
    "ErrorShape",
    "JSONArray",
    "JSONObject",
    "JSONValue",
    "MetaObject",
    "Method",
    "Model",
    "Profile",
    "Unset",
    "rows_in",
]

JSONValue: TypeAlias = Any
"""A JSON value: null, a boolean, a number, a string, or a list or dict of JSON values."""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object. The conversion passes it through in both directions without copying or checking it."""

JSONArray: TypeAlias = list[Any]
"""A JSON array. The conversion passes it through in both directions without copying or checking it."""

MetaObject: TypeAlias = dict[str, Any]
"""The metadata of a message, which the member `_meta` holds: a JSON object with keys of several owners."""


class Unset:
    """The type of `UNSET`, its only instance."""

    __slots__ = ()

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        """Pickle and copy by name, so that a copy `is UNSET` too."""
        return "UNSET"


UNSET: Final = Unset()
"""The default of members that distinguish null from absent: the member is absent, and is not sent."""


class _NoExtra(Mapping[str, Any]):
    """An immutable empty mapping, shared by all messages without unknown members."""

    __slots__ = ()

    def __getitem__(self, key: str) -> NoReturn:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Final[Mapping[str, Any]] = _NoExtra()
"""The `extra` of a message whose members are all named by its type: an empty mapping that cannot be changed."""


class Model:
    """The base class of every message type.

    Messages are values: they are compared by type and members, immutable (`attrs.evolve` returns a changed copy), and
    not hashable, because most hold lists and dicts. `extra` holds the members that the type does not name, by their
    name on the wire; they are sent back unchanged.

    An extension of the protocol defines its messages as subclasses. The name of a member on the wire is the camelCase
    form of its attribute. The metadata of an attribute can state another name, and limits for received values:
    `attrs.field(metadata={"wire": "_meta"})`, `attrs.field(metadata={"bounds": Bounds(minimum=0)})`.
    """

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[Any, ...]] = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # declared: defining __eq__ sets it to None
    extra: Mapping[str, Any]

    # One comparison and one repr for all classes: attrs would compile a pair for each class at import.
    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in self.__attrs_attrs__)

    if not TYPE_CHECKING:  # type checkers refuse all of these by themselves
        inputSchema = ForeignAttribute()  # noqa: N815
        isError = ForeignAttribute()  # noqa: N815
        mimeType = ForeignAttribute()  # noqa: N815
        nextCursor = ForeignAttribute()  # noqa: N815
        outputSchema = ForeignAttribute()  # noqa: N815
        structuredContent = ForeignAttribute()  # noqa: N815
        uriTemplate = ForeignAttribute()  # noqa: N815
        data = ForeignAttribute()
        text = ForeignAttribute()
        model_copy = ForeignAttribute()
        model_dump = ForeignAttribute()
        model_dump_json = ForeignAttribute()
        model_validate = ForeignAttribute()
        model_validate_json = ForeignAttribute()

        def __getitem__(self, index: object) -> NoReturn:
            """Explain that a message is no list; also called by a loop over a message."""
            members = ", ".join(f".{each.name}" for each in self.__attrs_attrs__ if each.name not in {"meta", "extra"})
            raise TypeError(f"{type(self).__name__!r} is an object and no list: use its members {members}")

    def __repr__(self) -> str:
        shown = [
            f"{each.name}={value!r}"
            for each in self.__attrs_attrs__
            if (value := getattr(self, each.name)) is not each.default and (value or each.name != "extra")
        ]
        return f"{self.__class__.__name__}({', '.join(shown)})"


# Tables hold the names of types, so that importing a table does not import the types.
@cache
def _type(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module or "trio_mcp.types"), last)


@cache
def _types(names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(map(_type, names))


class Method(NamedTuple):
    """A method in one revision, or of an extension, which names its types with their modules."""

    kind: Literal["request", "notification", "embedded"]
    """The kind of message. An *embedded* request is sent in a result, and the retry of the request answers it."""
    direction: Literal["client", "server", "both", "host", "view"]
    """The side that sends the message. The messages of apps pass between a host and a view."""
    params_name: str | None
    """The name of the type of `params`; None if the method has no params."""
    params_required: bool
    result_names: tuple[str, ...]
    """The names of the types of its result: several if there are interim results, none for a notification."""

    @property
    def params(self) -> type[Any] | Any | None:
        """The type of `params` (a class, or a union of classes); None if the method has no params."""
        return None if self.params_name is None else _type(self.params_name)

    @property
    def results(self) -> tuple[type[Any] | Any, ...]:
        """The types of its result, classes or unions: several if there are interim results, none for a notification."""
        return _types(self.result_names)


class ErrorShape(NamedTuple):
    """An error code in one revision."""

    name: str
    """The name of the error in the specification."""
    data_name: str | None
    """The name of the type of the error's `data`; None if any value is allowed."""

    @property
    def data(self) -> type[Any] | None:
        """The type of the error's `data`; None if any value is allowed."""
        return None if self.data_name is None else _type(self.data_name)


class Bounds(NamedTuple):
    """The inclusive limits of one member; None for no limit."""

    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    """The least length of a string in characters, or of an array in items."""
    max_length: int | None = None


class Profile(NamedTuple):
    """The differences between one revision and the classes, which cover all revisions.

    The keys are names of classes; members are given by their names on the wire.
    """

    required: Mapping[str, tuple[str, ...]]
    """The members that this revision requires and another revision does not."""
    unknown: Mapping[str, tuple[str, ...]]
    """The members that this revision does not have: kept in `extra` when received, dropped when sent."""
    bounds: Mapping[str, Mapping[str, Bounds]]
    """The limits of members, checked when a message is received."""
    meta_names: Mapping[str, str]
    """The name of the class that describes the `_meta` of each class."""

    @property
    def metas(self) -> Mapping[str, type[Any]]:
        """The class that describes the `_meta` of each class. The `_meta` itself stays the dict that was received."""
        return {name: _type(meta) for name, meta in self.meta_names.items()}


_K = TypeVar("_K")
_V = TypeVar("_V")


def rows_in(revision: str, changes: Mapping[_K, Mapping[str, _V | None]]) -> dict[_K, _V]:
    """Return the rows of a table that hold in one revision.

    Args:
        revision: its name, which is a date.
        changes: the values of each row, oldest first, by the revision that each holds from; None where the row ends.
    """
    rows: dict[_K, _V] = {}
    for key, values in changes.items():
        reached = [value for since, value in values.items() if since <= revision]
        if reached and (newest := reached[-1]) is not None:
            rows[key] = newest
    return rows
