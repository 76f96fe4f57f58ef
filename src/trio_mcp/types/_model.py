"""What every generated class stands on: the base class, the two markers, JSON's types, the table rows."""

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
"""Anything a JSON text can hold: null, a boolean, a number, a string, or a list or dict of such."""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object. Passed through both ways as it is: never copied, never looked into."""

JSONArray: TypeAlias = list[Any]
"""A JSON array. Passed through both ways as it is: never copied, never looked into."""


class Unset:
    """The type of `UNSET`, which has no second instance."""

    __slots__ = ()

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        """Pickle and copy by name, so that `is UNSET` stays true afterwards."""
        return "UNSET"


UNSET: Final = Unset()
"""The default of members for which null is a value of its own: absent, and left out when sending."""


class _NoExtra(Mapping[str, Any]):
    """An empty mapping that nobody can fill, shared by every message without unknown members."""

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
    """Base of every message type.

    Messages are values: compared by type and members, never changed (`attrs.evolve` makes a changed copy), and not
    hashable, because most hold lists and dicts. `extra` holds the members the type does not name, by their wire name;
    they are sent back as they came.
    """

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[Any, ...]] = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # declared: defining __eq__ sets it to None
    extra: Mapping[str, Any]

    # One comparison and one repr for all, because attrs would compile a pair per class whenever the types are imported.
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


# Tables hold the names of types, so that loading a table loads none of the types it speaks of.
@cache
def _type(name: str) -> Any:
    return getattr(import_module("trio_mcp.types"), name)


@cache
def _types(names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(map(_type, names))


class Method(NamedTuple):
    """What a revision says about one method."""

    kind: Literal["request", "notification", "embedded"]
    """An *embedded* request travels inside a result, and is answered in the retry of the request it interrupted."""
    direction: Literal["client", "server", "both"]
    """Who sends it."""
    params_name: str | None
    """The name of the type of `params`; None when the method has none."""
    params_required: bool
    result_names: tuple[str, ...]
    """The names of the types its result may have: several in case of interim results; none for a notification."""

    @property
    def params(self) -> type[Any] | Any | None:
        """The type of `params` (a class, or a union of classes); None when the method has none."""
        return None if self.params_name is None else _type(self.params_name)

    @property
    def results(self) -> tuple[type[Any], ...]:
        """The types its result may have: several in case of interim results; none for a notification."""
        return _types(self.result_names)


class ErrorShape(NamedTuple):
    """What a revision says about one error code."""

    name: str
    """The name the specification gives to the error."""
    data_name: str | None
    """The name of the type of the error's `data`; None where any value is allowed."""

    @property
    def data(self) -> type[Any] | None:
        """The type of the error's `data`; None where any value is allowed."""
        return None if self.data_name is None else _type(self.data_name)


class Bounds(NamedTuple):
    """The limits of one member, each inclusive; None for no limit."""

    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    """Of a string in characters, of an array in items."""
    max_length: int | None = None


class Profile(NamedTuple):
    """How a revision differs from the classes, which cover all revisions. Keys are class names, members wire names."""

    required: Mapping[str, tuple[str, ...]]
    """Members that may be left out elsewhere and must be present here."""
    unknown: Mapping[str, tuple[str, ...]]
    """Members the revision does not name: kept in `extra` when received, dropped when sent."""
    bounds: Mapping[str, Mapping[str, Bounds]]
    """Limits of members, checked when a message is received."""
    meta_names: Mapping[str, str]
    """The name of the class that fits a class's `_meta`."""

    @property
    def metas(self) -> Mapping[str, type[Any]]:
        """The class that fits a class's `_meta`, which is itself kept as the plain dict that came."""
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


# What is wrong with a JSON value, by path: raised by hooks, turned into `StructureError` at the public boundary.

type_of: Callable[[Any], type[Any]] = type
"""`type` under a name that type checkers do not narrow by: what is inside a JSON value stays Any to them."""

MAX_FAULTS: Final = 100
"""How many faults of one value are kept; further ones are only counted, so that no peer can make us hold millions."""

_MAX_QUOTED: Final = 60
"""How many characters of a peer's value, or of a member's name, a message repeats."""

_MAX_BITS: Final = 1024
"""How big an integer a message repeats."""

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
    """Return JSON's word for what `value` is, or the name of its Python type when JSON has none."""
    return _KINDS.get(type_of(value), type_of(value).__name__)


def quoted(value: Any) -> str:
    """Return a scalar as a message shows it, shortened; of anything else only what kind it is."""
    if type_of(value) not in {bool, float, int, str}:
        return kind_of(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a very large integer"  # writing it out is slow, and beyond some length forbidden
    text = repr(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def listed(words: list[str]) -> str:
    """Return words as prose: `a`, `a or b`, `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


class Mismatch(Exception):
    """A JSON value does not fit. Holds every fault of the value, each with its path from that value."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self.faults: list[tuple[tuple[str | int, ...], str]] = [] if text is None else [((), text)]
        self.uncounted = 0

    @classmethod
    def expected(cls, wanted: str, value: Any) -> Mismatch:
        """Return the mismatch of a value that is of the wrong kind."""
        return cls(f"expected {wanted}, got {kind_of(value)}")

    def add(self, step: str | int | None, inner: Mismatch) -> None:
        """Take over the faults of a value inside this one.

        Args:
            step: the member's name or the item's index; None for this very value.
            inner: what is wrong there.
        """
        room = MAX_FAULTS - len(self.faults)
        path = () if step is None else (step,)
        self.faults.extend(((*path, *deeper), text) for deeper, text in inner.faults[:room])
        self.uncounted += inner.uncounted + max(0, len(inner.faults) - room)

    def inside(self, step: str | int) -> Mismatch:
        """Return the same, as seen from what holds the value."""
        outer = Mismatch()
        outer.add(step, self)
        return outer

    def lines(self) -> list[str]:
        """Return the faults as sentences, each headed by its path from the root, `$`."""
        lines = [f"{_path(steps)}: {text}" for steps, text in self.faults]
        return [*lines, f"... and {self.uncounted} more"] if self.uncounted else lines


class Unsendable(TypeError):
    """A message holds something that its types do not allow and that has no form as JSON. The program's fault."""

    def __init__(self, text: str, steps: tuple[str | int, ...] = ()) -> None:
        super().__init__(text, steps)
        self._text = text
        self._steps = steps

    def __str__(self) -> str:
        return f"{_path(self._steps)}: {self._text}"

    def inside(self, step: str | int) -> Unsendable:
        """Return the same, as seen from what holds the value."""
        return Unsendable(self._text, (step, *self._steps))


def _path(steps: tuple[str | int, ...]) -> str:
    return "$" + "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.lstrip("$").isidentifier() and len(step) <= _MAX_QUOTED:
        return f".{step}"
    return f"[{json.dumps(step if len(step) <= _MAX_QUOTED else step[:_MAX_QUOTED] + '...')}]"
