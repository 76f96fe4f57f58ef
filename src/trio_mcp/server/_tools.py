"""Tools: their registry, and calling one.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import McpError, ToolError
from ..peer import OutOfTimeError, Run
from ..wire import INVALID_PARAMS
from ._content import RESULT_CLASSES, content_blocks, for_revision, text_of
from ._context import Context
from ._functions import name_of
from ._signature import ArgumentFaults, ResultFaults, Signature, describe

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["Tools"]

_log = logging.getLogger("trio_mcp.server")

_COMMON_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

_FIRST_STRUCTURED = types.REVISIONS.index("2025-06-18")


@define(eq=False)
class _Tool:
    """One tool, and the function behind it."""

    definition: types.Tool
    signature: Signature
    timeout: float
    """Seconds the handler may work; infinite without a limit."""
    turns: trio.Semaphore | None
    """Bounds how many calls work at once; None without a bound."""

    async def call(
        self, serving: Serving, run: Run, context: Context, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        bound = self.signature.bind(arguments)
        injected: dict[type, Any] = {Context: context}

        def begin() -> None:
            if not math.isinf(self.timeout):
                run.allow(self.timeout)

        if not self.signature.is_async:
            work = partial(self.signature.call, bound, injected)
            return self._result(await serving.threads.run(work, turns=self.turns, on_begin=begin))
        async with self.turns or nullcontext():
            begin()
            return self._result(await self.signature.call(bound, injected))

    def _result(self, value: Any) -> types.CallToolResult:
        if isinstance(value, types.CallToolResult):
            return value
        if self.signature.output_schema is None:
            return types.CallToolResult(content=content_blocks(value))
        structured = self.signature.dump(value)
        plain = structured["result"] if self.signature.wraps_result else structured
        return types.CallToolResult(content=[types.TextContent(text=text_of(plain))], structured_content=structured)


@define(eq=False)
class Tools:
    """The registry of one server."""

    _tools: dict[str, _Tool] = field(factory=dict[str, _Tool], init=False)
    offered: bool = field(default=False, init=False)
    """Whether anything was ever registered: what was declared once is answered, with an empty list if need be."""

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        input_schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        max_concurrency: int | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Register a function; see `Server.tool`.

        Args:
            namespace: names that annotations may use beside those of the function's module.
        """
        name = name_of(function) if name is None else name
        if name in self._tools:
            raise ValueError(f"a tool {name!r} is registered already")
        if not _COMMON_NAME.fullmatch(name):
            _log.warning("tool name %r: clients may refuse all but 1 to 128 letters, digits, '_', '-' and '.'", name)
        if timeout is not None and not timeout > 0:
            raise ValueError(f"tool {name!r}: timeout={timeout!r} must be a number of seconds above 0")
        if max_concurrency is not None and max_concurrency < 1:
            raise ValueError(f"tool {name!r}: max_concurrency={max_concurrency!r} must be at least 1")
        signature = describe(
            function,
            name=name,
            inject=(Context,),
            content=RESULT_CLASSES,
            input_schema=input_schema,
            namespace=namespace,
        )
        definition = types.Tool(
            name=name,
            title=title,
            description=description or signature.description or None,
            input_schema=signature.input_schema,
            output_schema=signature.output_schema,
            annotations=annotations,
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        turns = None if max_concurrency is None else trio.Semaphore(max_concurrency)
        self._tools[name] = _Tool(definition, signature, math.inf if timeout is None else timeout, turns)
        self.offered = True

    def remove(self, name: str) -> None:
        """Take a tool out; calls under way go on. Raises KeyError where there is none of this name."""
        del self._tools[name]

    def definitions(self) -> list[types.Tool]:
        """Return what `tools/list` answers."""
        return [tool.definition for tool in self._tools.values()]

    async def call(
        self, serving: Serving, run: Run, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer `tools/call`.

        Raises:
            McpError: there is no such tool.
            Exception: whatever the tool raised; `explain` makes a result of it.
        """
        tool = self._tools.get(params.name)
        if tool is None:
            raise McpError(INVALID_PARAMS, f"no tool {params.name!r}")
        result = await tool.call(serving, run, context, params.arguments or {})
        if types.REVISIONS.index(context.revision) >= _FIRST_STRUCTURED:
            return result
        return evolve(result, content=for_revision(result.content, context.revision))

    def explain(self, name: str, failure: Exception) -> types.CallToolResult:
        """Return the tool error that stands for what a tool raised; a bug of the tool's goes to the log as well."""
        if isinstance(failure, OutOfTimeError):
            text = (
                f"{name} took longer than it may ({self._tools[name].timeout:g} s)"
                if name in self._tools
                else str(name)
            )
        elif isinstance(failure, ToolError | ArgumentFaults | ResultFaults):
            text = str(failure)
        else:
            _log.error("tool %r failed", name, exc_info=failure)
            text = _words(failure)
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _words(failure: BaseException) -> str:
    if isinstance(failure, BaseExceptionGroup):
        parts: tuple[BaseException, ...] = cast("BaseExceptionGroup[BaseException]", failure).exceptions
        return "; ".join(_words(part) for part in parts)
    return str(failure) or type(failure).__name__
