"""Checking structured content against the output schemas that a server has published.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from .. import types
from .._errors import RemoteProtocolError
from .._schema import LazyValidator, SchemaError

__all__ = ["OutputSchemas"]

MAX_SCHEMAS = 10_000
"""Tools whose schemas are remembered; a server that lists more is not checked for the rest."""


@define(eq=False)
class OutputSchemas:
    """The output schemas of the tools that one client has listed. Each is compiled at its first use."""

    _validators: dict[str, LazyValidator] = field(factory=dict[str, LazyValidator], init=False)

    def learn(self, tools: Iterable[types.Tool]) -> None:
        """Take note of a page of the server's tools: the latest list is right."""
        for tool in tools:
            known = self._validators.get(tool.name)
            if tool.output_schema is None:
                self._validators.pop(tool.name, None)
            elif known is not None and known.schema == tool.output_schema:
                continue
            elif len(self._validators) < MAX_SCHEMAS:
                self._validators[tool.name] = LazyValidator(tool.output_schema)

    def forget(self) -> None:
        """Nothing is known of the tools any more."""
        self._validators.clear()

    def check(self, name: str, result: types.CallToolResult) -> None:
        """Compare a result with what the tool has promised.

        Raises:
            RemoteProtocolError: a successful result has no structured content, or it does not fit; or the schema
                itself cannot be used.
        """
        validator = self._validators.get(name)
        if validator is None or result.is_error:
            return
        if result.structured_content is types.UNSET:
            raise RemoteProtocolError(f"tool {name!r} promised structured content and returned none")
        content: Any = result.structured_content
        try:
            faults = validator.faults(content)
        except SchemaError as exc:
            raise RemoteProtocolError(f"the output schema of tool {name!r} cannot be used: {exc}") from exc
        if faults:
            raise RemoteProtocolError(
                f"what tool {name!r} returned does not fit its output schema: {'; '.join(faults)}"
            )
