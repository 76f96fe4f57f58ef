"""Converts the results of tools into the types that callers ask for: ``call_tool(..., returns=list[Hit])``.

Rules of this file:

1. Structured content counts if there is some. Servers send a value that is not an object as ``{"result": value}``. Such
   content is unwrapped if the tool's output schema has no other members, or if the type has no member ``result``;
   otherwise only if it does not fit the type as it is.
2. Without structured content, which revisions before 2025-06-18 do not have, the result must be a single text block. A
   type of strings takes the text, any other type its JSON. A type of strings and others takes the JSON if it fits.
3. Members that a class does not declare are ignored, as everywhere in the protocol: the server may be newer.
4. The names and conversions are those of the servers of this package: a class that a tool returns there reads here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from .. import types
from .._errors import UnexpectedResult
from .._user_types import is_model
from ..schema import FORMATS, AnnotationReader, Definitions, LazyValidator, Loader, Misfit, render_path
from ..wire import JsonObject, Undecodable, decode, is_object

__all__ = ["ReturnType", "return_type"]

_RESULT: Final = "result"
"""The name of the member that holds a value that is not an object."""
_TOO_DEEP: Final = "$: nested too deeply"
_STRINGS: Final = frozenset({"string"})
_QUALIFIERS: Final = re.compile(r"(?:[A-Za-z_]\w*\.|<locals>\.)+")


class _UnfitError(Exception):
    """A result does not fit a type."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults
        """One line for each fault, with its path."""


@frozen(eq=False)
class ReturnType:
    """A type to convert results into; made by `return_type`. It may be used from any number of tasks at once."""

    name: str
    """The type as a program writes it, for error messages."""
    _kinds: frozenset[str]
    """The JSON types of its values."""
    _load: Loader | None
    _whole: LazyValidator
    """Accepts the JSON form of its values."""
    _wrapped: LazyValidator
    """Accepts objects with the JSON form of a value as the member ``result``."""
    _may_have_result: bool
    """True if its values may be objects with a member ``result``."""

    def read(self, tool: str, result: types.CallToolResult, output_schema: Mapping[str, Any] | None) -> Any:
        """Convert the result of a tool, which has not failed.

        Args:
            tool: the name of the tool.
            result: its result.
            output_schema: its output schema, if it is known and there is one.

        Raises:
            UnexpectedResult: it does not fit; with every fault.
        """
        content: Any = result.structured_content
        try:
            if content is types.UNSET:
                return self._from_text(_only_text(result), output_schema)
            return self._from_json(content, output_schema)
        except _UnfitError as unfit:
            raise UnexpectedResult(tool, self.name, unfit.faults, result) from unfit.__cause__

    def _from_text(self, text: str, output_schema: Mapping[str, Any] | None) -> Any:
        if self._kinds == _STRINGS:
            return self._convert(text, wrapped=False)
        try:
            return self._from_json(_decoded(text), output_schema)
        except _UnfitError:
            if "string" not in self._kinds:
                raise
        return self._convert(text, wrapped=False)

    def _from_json(self, content: Any, output_schema: Mapping[str, Any] | None) -> Any:
        """Convert JSON in the first form that it fits; a failure has the faults of the most likely form."""
        first, *others = self._forms(content, output_schema)
        try:
            return self._convert(content, wrapped=first)
        except _UnfitError:
            for wrapped in others:
                try:
                    return self._convert(content, wrapped=wrapped)
                except _UnfitError:  # the first form tells more
                    continue
            raise

    def _forms(self, content: Any, output_schema: Mapping[str, Any] | None) -> Sequence[bool]:
        """Return the forms that a value may have, the most likely first: True for one that is wrapped."""
        if not is_object(content) or content.keys() != {_RESULT}:
            return (False,)
        if output_schema is not None and _wraps(output_schema):
            return (True, False)
        return (False, True) if self._may_have_result else (True,)

    def _convert(self, content: Any, *, wrapped: bool) -> Any:
        faults = (self._wrapped if wrapped else self._whole).faults(content)
        if faults:
            raise _UnfitError(*faults)
        value = content[_RESULT] if wrapped else content
        try:
            return value if self._load is None else self._load(value)
        except Misfit as misfit:
            found = misfit.under(_RESULT) if wrapped else misfit.faults
            raise _UnfitError(*(f"{render_path(path)}: {fault}" for path, fault in found)) from misfit
        except RecursionError:
            raise _UnfitError(_TOO_DEEP) from None


def return_type(annotation: Any) -> ReturnType:
    """Return the reader of a type: anything that a tool of this package may return as data.

    Raises:
        TypeError: the type has no JSON form; the message names the part. Or it is a message of the protocol.
    """
    try:
        hash(annotation)
    except TypeError:  # its metadata may hold a list
        return _made(annotation)
    return _cached(annotation, repr(annotation))


@lru_cache(maxsize=256)
def _cached(annotation: Any, _written: str) -> ReturnType:
    """Return the reader of a type, which is kept. Unions are equal in any order, but are not written equally."""
    return _made(annotation)


def _made(annotation: Any) -> ReturnType:
    name = _QUALIFIERS.sub("", annotation.__qualname__ if isinstance(annotation, type) else repr(annotation))
    if is_model(annotation):
        raise TypeError(f"returns={name}: it is a message of the protocol; leave out returns= for the whole result")
    reader = AnnotationReader(output=False, ignores_unknown=True)
    try:
        shape = reader.shape(annotation)
    except TypeError as fault:
        raise TypeError(f"returns={name}: {fault}") from fault
    wrapper = {"type": "object", "properties": {_RESULT: shape.schema}, "required": [_RESULT]}
    return ReturnType(
        name,
        shape.kinds,
        shape.load,
        LazyValidator(reader.definitions.complete(shape.schema), FORMATS),
        LazyValidator(reader.definitions.complete(wrapper), FORMATS),
        _may_have_result(shape.schema, reader.definitions),
    )


def _may_have_result(schema: JsonObject, definitions: Definitions) -> bool:
    """Return True if values may be objects that declare a member ``result``, or that declare no members."""
    resolved = definitions.resolve(schema)
    arms = [*_arms(resolved)]
    if arms:
        return any(_may_have_result(arm, definitions) for arm in arms)
    if "properties" in resolved:
        return _RESULT in resolved["properties"]
    return bool(resolved.get("type", "object") == "object")


def _arms(schema: JsonObject) -> Iterator[JsonObject]:
    for keyword in ("anyOf", "oneOf"):
        yield from schema.get(keyword, ())


def _wraps(output_schema: Mapping[str, Any]) -> bool:
    """Return True if the only member that an output schema declares is a required ``result``."""
    members: Any = output_schema.get("properties")
    return is_object(members) and members.keys() == {_RESULT} and output_schema.get("required") == [_RESULT]


def _only_text(result: types.CallToolResult) -> str:
    match result.content:
        case [types.TextContent(text=text)]:
            return text
        case blocks:
            kinds = ", ".join(str(block.type) for block in blocks) or "nothing"
            raise _UnfitError(f"$: no structured content, and not a single text block, but {kinds}")


def _decoded(text: str) -> Any:
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except Undecodable as exc:
        raise _UnfitError(f"$: no structured content, and the text is not JSON: {exc}") from None
