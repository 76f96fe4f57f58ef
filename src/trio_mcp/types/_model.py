"""The base of the generated types: the class `Model`, the marker `UNSET`, the types of JSON and the table rows.

The second half holds the two errors of the conversion, which the public functions raise as `StructureError` and
`TypeError`, and the functions that word their messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

__all__ = [
    "MAX_FAULTS",
    "NO_EXTRA",
    "UNSET",
    "Bounds",
    "ErrorShape",
    "JSONArray",
    "JSONObject",
    "JSONValue",
    "Method",
    "Mismatch",
    "Model",
    "Profile",
    "Unsendable",
    "Unset",
    "kind_of",
    "listed",
    "quoted",
    "rows_in",
    "type_of",
]

JSONValue: TypeAlias = Any
"""A JSON value: null, a boolean, a number, a string, or a list or dict of JSON values."""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object. The conversion passes it through in both directions without copying or checking it."""

JSONArray: TypeAlias = list[Any]
"""A JSON array. The conversion passes it through in both directions without copying or checking it."""


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


class Model:
    """The base class of every message type.

    Messages are values: they are compared by type and members, immutable (`attrs.evolve` returns a changed copy), and
    not hashable, because most hold lists and dicts. `extra` holds the members that the type does not name, by their
    name on the wire; they are sent back unchanged.
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
    return getattr(import_module("trio_mcp.types"), name)


@cache
def _types(names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(map(_type, names))


class Method(NamedTuple):
    """A method in one revision."""

    kind: Literal["request", "notification", "embedded"]
    """The kind of message. An *embedded* request is sent in a result, and the retry of the request answers it."""
    direction: Literal["client", "server", "both"]
    """The side that sends the message."""
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
    def results(self) -> tuple[type[Any], ...]:
        """The types of its result: several if there are interim results, none for a notification."""
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


# --- The faults of a value, by path ---

type_of: Callable[[Any], type[Any]] = type
"""`type` under another name, by which type checkers do not narrow: the contents of a JSON value stay Any."""

MAX_FAULTS: Final = 100
"""The most faults that are kept of one value. Further faults are only counted, so that a peer cannot exhaust memory."""

_MAX_QUOTED: Final = 60
"""The most characters of a peer's value or of a member's name in an error message."""

_MAX_BITS: Final = 1024
"""The size of the largest integer in an error message, in bits."""

_KINDS: Final = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """Return the name of the JSON type of *value*, or of its Python type if it is not a JSON value."""
    return _KINDS.get(type_of(value), type_of(value).__name__)


def quoted(value: Any) -> str:
    """Return a scalar in the shortened form of an error message, or the JSON type of any other value."""
    if type_of(value) not in {bool, float, int, str}:
        return kind_of(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a very large integer"  # slow to write out, and forbidden above some length
    text = repr(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def listed(words: list[str]) -> str:
    """Return words as an enumeration: `a`, `a or b`, `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


class Mismatch(Exception):
    """A JSON value does not fit its type. The exception holds every fault with its path inside the value."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self.faults: list[tuple[tuple[str | int, ...], str]] = [] if text is None else [((), text)]
        self.uncounted = 0

    @classmethod
    def expected(cls, wanted: str, value: Any) -> Mismatch:
        """Return the mismatch of a value of the wrong JSON type."""
        return cls(f"expected {wanted}, got {kind_of(value)}")

    def add(self, step: str | int | None, inner: Mismatch) -> None:
        """Add the faults of a value inside this one.

        Args:
            step: the name of the member or the index of the item; None for this value itself.
            inner: the faults of the inner value.
        """
        room = MAX_FAULTS - len(self.faults)
        path = () if step is None else (step,)
        self.faults.extend(((*path, *deeper), text) for deeper, text in inner.faults[:room])
        self.uncounted += inner.uncounted + max(0, len(inner.faults) - room)

    def inside(self, step: str | int) -> Mismatch:
        """Return the same error with the path of the outer value."""
        outer = Mismatch()
        outer.add(step, self)
        return outer

    def lines(self) -> list[str]:
        """Return the faults as sentences, each after its path from the root, `$`."""
        lines = [f"{_path(steps)}: {text}" for steps, text in self.faults]
        return [*lines, f"... and {self.uncounted} more"] if self.uncounted else lines


class Unsendable(TypeError):
    """A message of this program holds a value that its type does not allow and that cannot be sent as JSON."""

    def __init__(self, text: str, steps: tuple[str | int, ...] = ()) -> None:
        super().__init__(text, steps)
        self._text = text
        self._steps = steps

    def __str__(self) -> str:
        return f"{_path(self._steps)}: {self._text}"

    def inside(self, step: str | int) -> Unsendable:
        """Return the same error with the path of the outer value."""
        return Unsendable(self._text, (step, *self._steps))


def _path(steps: tuple[str | int, ...]) -> str:
    return "$" + "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.lstrip("$").isidentifier() and len(step) <= _MAX_QUOTED:
        return f".{step}"
    return f"[{json.dumps(step if len(step) <= _MAX_QUOTED else step[:_MAX_QUOTED] + '...')}]"
