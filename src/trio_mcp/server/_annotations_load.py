"""Turns JSON values into Python ones once the published schema has passed them.

`_annotations` puts these loaders together, one per annotation. A loader of None means the JSON value is used as it
is. What a loader may still refuse is what no schema can say: a class's own validator, a number beyond a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

__all__ = [
    "Loader",
    "Misfit",
    "array_loader",
    "load_each",
    "load_members",
    "mapping_loader",
    "object_loader",
    "pydantic_loader",
    "tuple_loader",
]

Loader: TypeAlias = Callable[[Any], Any]
"""Makes the annotated type out of a JSON value that fits the schema."""

Step: TypeAlias = "str | int"


class Misfit(Exception):
    """A value cannot be turned into its type, or back; holds each fault with the steps that lead to it."""

    def __init__(self, *faults: tuple[tuple[Step, ...], str]) -> None:
        super().__init__(*faults)
        self.faults = faults

    def under(self, step: Step) -> list[tuple[tuple[Step, ...], str]]:
        """Return the faults as seen from one level further out."""
        return [((step, *path), text) for path, text in self.faults]


def load_each(items: Iterable[tuple[Step, Any, Loader | None]]) -> list[Any]:
    """Load several members, collecting the faults of all of them.

    Raises:
        Misfit: with every fault, each below the step of its member.
    """
    loaded: list[Any] = []
    faults: list[tuple[tuple[Step, ...], str]] = []
    cause: Misfit | None = None
    for step, value, load in items:
        try:
            loaded.append(value if load is None else load(value))
        except Misfit as misfit:
            cause = misfit
            faults += misfit.under(step)
    if faults:
        raise Misfit(*faults) from cause
    return loaded


def load_members(members: Mapping[str, Any], loaders: Mapping[str, Loader | None]) -> dict[str, Any]:
    """Load the members of an object, each by the loader of its name; see `load_each`."""
    loaded: dict[str, Any] = {}
    faults: list[tuple[tuple[Step, ...], str]] = []
    cause: Misfit | None = None
    for name, value in members.items():
        load = loaders.get(name)
        try:
            loaded[name] = value if load is None else load(value)
        except Misfit as misfit:
            cause = misfit
            faults += misfit.under(name)
    if faults:
        raise Misfit(*faults) from cause
    return loaded


def array_loader(load_item: Loader | None, make: Callable[[Iterable[Any]], Any]) -> Loader | None:
    """Return a loader of arrays whose items are alike; `make` is the collection class."""
    if load_item is None:
        return None if make is list else make

    def load(values: Sequence[Any]) -> Any:
        return make(load_each((index, value, load_item) for index, value in enumerate(values)))

    return load


def tuple_loader(loaders: Sequence[Loader | None]) -> Loader:
    """Return a loader of tuples of a fixed length."""

    def load(values: Sequence[Any]) -> Any:
        pairs = zip(values, loaders, strict=True)
        return tuple(load_each((index, value, load_item) for index, (value, load_item) in enumerate(pairs)))

    return load


def mapping_loader(load_key: Loader | None, load_value: Loader | None) -> Loader | None:
    """Return a loader of dictionaries."""
    if load_key is None and load_value is None:
        return None

    def load(members: Mapping[str, Any]) -> dict[Any, Any]:
        keys = load_each((name, name, load_key) for name in members)
        return dict(zip(keys, load_each((name, value, load_value) for name, value in members.items()), strict=True))

    return load


def object_loader(construct: Callable[..., Any], members: Mapping[str, tuple[str, Loader | None]]) -> Loader:
    """Return a loader that calls a class.

    Args:
        construct: called with keyword arguments; whatever it raises is a fault of the value.
        members: for each name on the wire the keyword and the loader of its value. Names that are not there are
            dropped: the schema lets through only those that mean nothing to the class, such as a tag.
    """

    def load(value: Mapping[str, Any]) -> Any:
        known = [(name, item, *members[name]) for name, item in value.items() if name in members]
        loaded = load_each((name, item, load_item) for name, item, _, load_item in known)
        arguments = dict(zip((keyword for _, _, keyword, _ in known), loaded, strict=True))
        try:
            return construct(**arguments)
        except Exception as error:
            raise Misfit(((), str(error) or type(error).__name__)) from error

    return load


def pydantic_loader(model: Any) -> Loader:
    """Return a loader for a pydantic model, which has validators of its own."""

    def load(value: Any) -> Any:
        try:
            # Not model_validate: only from JSON text do strict models take a date or a set for what JSON has.
            return model.model_validate_json(msgspec.json.encode(value))
        except Exception as error:
            raise Misfit(*_pydantic_faults(error)) from error

    return load


def _pydantic_faults(error: Any) -> list[tuple[tuple[Step, ...], str]]:
    if not hasattr(error, "errors"):
        return [((), str(error) or type(error).__name__)]
    return [(tuple(fault["loc"]), fault["msg"]) for fault in error.errors(include_url=False)]
