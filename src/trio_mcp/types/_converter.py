"""JSON values to messages and back: one cattrs converter per revision, made when first asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar, overload

from cattrs import Converter

from trio_mcp._errors import StructureError
from trio_mcp.types._faults import Mismatch
from trio_mcp.types._members import is_model
from trio_mcp.types._model import JSONValue
from trio_mcp.types._plain import register_plain
from trio_mcp.types._structure import register_structuring
from trio_mcp.types._tables import PROFILES, REVISIONS, SUPERSET
from trio_mcp.types._unions import register_unions
from trio_mcp.types._unstructure import Emit, register_unstructuring

__all__ = ["structure", "structurer", "unstructure", "unstructurer"]

T = TypeVar("T")


@overload
def structure(value: JSONValue, cls: type[T], *, revision: str | None = None) -> T: ...
@overload
def structure(value: JSONValue, cls: Any, *, revision: str | None = None) -> Any: ...
def structure(value: JSONValue, cls: Any, *, revision: str | None = None) -> Any:
    """Make a message out of a JSON value, changing nothing on the way.

    No value is converted into another kind: `"3"` is not 3, `True` is not 1, and the ids 1 and `"1"` stay two; only an
    integer may be written `2.0`. Members that the class, or the revision, does not name are kept in `extra`. Null for a
    member that may be left out counts as left out. In capabilities, a member of the wrong shape is kept in `extra` too.
    The user's own JSON (arguments, tool schemas, structured content, `_meta`) is taken over as it is, not copied.

    Args:
        value: what a JSON text holds: dicts, lists, strings, numbers, booleans and None.
        cls: one of the classes of this module, or one of its unions, such as `ContentBlock`.
        revision: the protocol revision whose required members count; None for what all revisions together allow.

    Raises:
        StructureError: the value does not fit. The fault is whoever sent it; every fault is named by its path.
        ValueError: no such revision.
    """
    return _structurer(cls, revision)(value)


def unstructure(obj: Any, *, revision: str | None = None) -> JSONValue:
    """Return the JSON value of a message. The opposite of `structure`.

    Members that are None (or `UNSET`) and may be left out are left out; members in `extra` are put back.

    Args:
        obj: a message, or a list of messages. Of its members only those that hold messages, lists or maps are checked,
            and a dict in place of a message is sent as it is; the others are taken to be what their types say.
        revision: the protocol revision it is for: members that the revision does not name are dropped. None keeps all.

    Raises:
        TypeError: something else stands where a message is due. The text names it by its path.
        ValueError: no such revision.
    """
    return _codec(revision).emit(obj)


@overload
def structurer(cls: type[T], revision: str | None = None) -> Callable[[JSONValue], T]: ...
@overload
def structurer(cls: Any, revision: str | None = None) -> Callable[[JSONValue], Any]: ...
def structurer(cls: Any, revision: str | None = None) -> Callable[[JSONValue], Any]:
    """Return `structure` for one class and revision, for code that calls it often.

    Raises:
        ValueError: no such revision. The function that is returned raises as `structure` does.
    """
    return _structurer(cls, revision)


@overload
def unstructurer(cls: type[T], revision: str | None = None) -> Callable[[T], JSONValue]: ...
@overload
def unstructurer(cls: Any, revision: str | None = None) -> Callable[[Any], JSONValue]: ...
def unstructurer(cls: Any, revision: str | None = None) -> Callable[[Any], JSONValue]:
    """Return `unstructure` for one class and revision, for code that calls it often.

    Raises:
        ValueError: no such revision. The function that is returned raises as `unstructure` does.
    """
    codec = _codec(revision)
    return codec.converter.get_unstructure_hook(cls) if is_model(cls) else codec.emit


@cache
def _structurer(cls: Any, revision: str | None) -> Callable[[JSONValue], Any]:
    hook = _codec(revision).converter.get_structure_hook(cls)
    name = cls.__name__ if isinstance(cls, type) else re.sub(rf"{__package__}\._generated\.\w+\.", "", str(cls))

    def structure_one(value: JSONValue) -> Any:
        try:
            return hook(value, cls)
        except Mismatch as problem:
            raise StructureError(name, problem.lines()) from None
        except RecursionError:
            raise StructureError(name, ["$: nested too deeply"]) from None

    return structure_one


class _Codec(NamedTuple):
    converter: Converter
    emit: Emit


@cache
def _codec(revision: str | None) -> _Codec:
    if revision is not None and revision not in PROFILES:
        raise ValueError(f"unknown protocol revision {revision!r}; known are {', '.join(REVISIONS)}")
    profile = SUPERSET if revision is None else PROFILES[revision]
    converter = Converter()
    register_plain(converter)
    register_unions(converter, profile)
    register_structuring(converter, profile)
    return _Codec(converter, register_unstructuring(converter, profile))
