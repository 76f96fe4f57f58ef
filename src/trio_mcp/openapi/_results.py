"""The schemas of the successful responses of an operation, and the check of responses against them.

Rules of this file:

1. A schema applies to the status that a description states for it, or to a class of them (``2XX``).
2. They are published together, as one schema, if every success that the description names is JSON. Otherwise a tool
   could not keep what it promises.
3. What is wrong with a schema of responses costs the check, and not the tool.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from attrs import define, field, frozen

from .. import ToolError, types
from ..lowlevel import SchemaError, Validator, compile_schema
from ..types import JSONObject
from ..wire import is_object
from ._media_types import is_json
from ._schemas import Schemas

__all__ = ["ResponseCheck", "Results", "read_results"]

_log = logging.getLogger("trio_mcp.openapi")

_MOST_WARNINGS: Final = 20
"""The number of responses of one operation that are logged because they do not fit their schema."""
_MOST_FAULTS: Final = 3
_OBJECT: Final = "object"


@frozen
class Results:
    """The schemas of the successful responses of one operation."""

    by_status: Mapping[str, Any]
    """The schemas of JSON, by status or class of statuses."""
    are_complete: bool
    """True if each success is JSON with a schema."""
    fault: str | None = None
    """What is wrong with them; then there are none."""

    @property
    def published(self) -> JSONObject | None:
        """The schema that every success fits; None if there is none (rule 2)."""
        schemas: list[JSONObject] = []
        for each in self.by_status.values():
            if each not in schemas:
                schemas.append(each)
        if not self.are_complete or not schemas:
            return None
        kind: JSONObject = {"type": _OBJECT} if all(map(_is_of_objects, schemas)) else {}
        if len(schemas) == 1:
            return {**schemas[0], **kind}
        # Definitions of one name are the same in all schemas of a description.
        definitions = {name: each for schema in schemas for name, each in schema.get("$defs", {}).items()}
        choices = [{keyword: each for keyword, each in schema.items() if keyword != "$defs"} for schema in schemas]
        return {**kind, "anyOf": choices, **({"$defs": definitions} if definitions else {})}

    def of(self, status: int) -> Any:
        """Return the schema that applies to a status; None if there is none."""
        return self.by_status.get(str(status), self.by_status.get(f"{status // 100}XX"))


def _is_of_objects(schema: JSONObject) -> bool:
    """Return True if a schema plainly admits objects only."""
    followed: set[str] = set()
    inner: Any = schema
    while is_object(inner) and "$ref" in inner and inner["$ref"] not in followed:
        followed.add(inner["$ref"])
        inner = schema["$defs"][inner["$ref"].removeprefix("#/$defs/")]
    parts: Any = [inner, *inner.get("allOf", [])] if is_object(inner) else []
    return any(is_object(each) and each.get("type") == _OBJECT for each in parts)


def read_results(schemas: Schemas, responses: object, place: str) -> Results:
    """Return the schemas of the successful responses of an operation."""
    try:
        return _read(schemas, responses, place)
    except (ValueError, RecursionError) as fault:
        return Results({}, are_complete=False, fault=str(fault))


def _read(schemas: Schemas, responses: object, place: str) -> Results:
    by_status: dict[str, Any] = {}
    are_complete = True
    for status, each in responses.items() if is_object(responses) else ():
        code = status.upper()
        if not code.startswith("2"):
            continue
        where = f"{place}.{code}"
        content = schemas.description.resolved(each, where).get("content")
        kind = next(filter(is_json, content), None) if is_object(content) else None
        schema: Any = None
        if is_object(content) and kind is not None:
            media = schemas.description.resolved(content[kind], f"{where}.content.{kind}")
            schema = schemas.plain(media.get("schema", {}), f"{where}.content.{kind}.schema", "response")
        if is_object(schema) and schema:
            by_status[code] = schema
        else:  # no JSON, or any
            are_complete = False
    return Results(by_status, are_complete)


@define(eq=False)
class ResponseCheck:
    """The check of the responses of one operation. Schemas are compiled when they are needed, which takes time."""

    _label: str
    """The method and the path of the operation, for messages."""
    _results: Results
    _misfit: Literal["refuse", "warn"]
    """What becomes of a response that does not fit: a tool error, or a line in the log."""
    _validators: dict[int, Validator | None] = field(factory=dict[int, "Validator | None"], init=False)
    """The compiled schemas, by status; None if there is none, or it cannot be used."""
    _warnings: int = field(default=0, init=False)
    _has_given_up: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self._results.fault is not None:
            self._give_up(self._results.fault)

    def published(self) -> JSONObject | None:
        """Return the output schema of the tool; None if it has none."""
        schema = self._results.published if self._misfit == "refuse" else None
        return None if schema is None or self._compiled(schema) is None else schema

    def check(self, status: int, result: types.CallToolResult) -> None:
        """Check the result of a response with its status.

        Raises:
            ToolError: the response does not fit, and is refused.
        """
        if result.structured_content is types.UNSET or self._warnings >= _MOST_WARNINGS:
            return
        faults = self._faults(status, result.structured_content)
        if not faults:
            return
        shown = "; ".join(faults[:_MOST_FAULTS])
        if self._misfit == "refuse":
            raise ToolError(f"the response does not fit its schema: {shown}")
        self._warnings += 1
        _log.warning("the response of %s does not fit its schema: %s", self._label, shown)

    def _faults(self, status: int, content: Any) -> Sequence[str]:
        if status not in self._validators:
            schema = self._results.of(status)
            self._validators[status] = None if schema is None else self._compiled(schema)
        validator = self._validators[status]
        return [] if validator is None else validator.faults(content)

    def _compiled(self, schema: Any) -> Validator | None:
        try:
            return compile_schema(schema)
        except SchemaError as fault:
            self._give_up(fault)
            return None

    def _give_up(self, fault: object) -> None:
        """Log why responses are not checked, once: the tool is useful all the same (rule 3)."""
        if self._has_given_up:
            return
        self._has_given_up = True
        _log.warning("the responses of %s are not checked: %s", self._label, fault)
