"""Whether the header fields of a tool call repeat the arguments that the tool's schema wants to have repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from .._errors import McpError
from ..abc import HttpServing
from ..wire import (
    HEADER_MISMATCH,
    Headers,
    JsonObject,
    MirroredParam,
    Request,
    is_object,
    mirrored_params,
    param_fault,
)

__all__ = ["Mirrors"]

_MAX_KNOWN = 4096
"""Tools whose annotations are remembered; with more of them all are read anew."""


@define(eq=False)
class Mirrors:
    """Checks calls, and remembers what each tool's schema asks for."""

    _serving: HttpServing
    _known: dict[str, tuple[JsonObject, Sequence[MirroredParam]]] = field(
        factory=dict[str, "tuple[JsonObject, Sequence[MirroredParam]]"], init=False
    )
    """By tool: its schema, and what that asks for. Another schema is another object."""

    def fault(self, request: Request, headers: Headers) -> McpError | None:
        """Return what is wrong with the header fields of a request, None where nothing is."""
        params: Any = request.params or {}
        name, arguments = params.get("name"), params.get("arguments", {})
        if request.method != "tools/call" or type(name) is not str or not is_object(arguments):
            return None  # what is wrong with a call without these is said elsewhere
        mirrored = self._mirrored(name)
        fault = param_fault(mirrored, arguments, headers) if mirrored else None
        return None if fault is None else McpError(HEADER_MISMATCH, fault)

    def _mirrored(self, tool: str) -> Sequence[MirroredParam]:
        schema = self._serving.input_schema(tool)
        if schema is None:
            return ()
        known = self._known.get(tool)
        if known is not None and known[0] is schema:
            return known[1]
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        mirrored = mirrored_params(schema)
        self._known[tool] = schema, mirrored
        return mirrored
