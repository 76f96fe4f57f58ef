"""Functions that take texts by name: what resources and prompts are made of.

Tools, whose arguments are any JSON, have their `Signature` instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ._context import Context
from ._docstring import Docstring, parse_docstring
from ._signature_inspect import inspect_callable

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["TextFunction", "look_at", "name_of"]


@frozen
class TextFunction:
    """A function whose arguments are texts, and perhaps a `Context`."""

    parameters: Mapping[str, inspect.Parameter]
    """Those that take a text."""
    docstring: Docstring
    _function: Callable[..., Any] = field(alias="function")
    _contexts: tuple[str, ...] = field(alias="contexts")
    _is_async: bool = field(alias="is_async")

    async def call(self, serving: Serving, texts: Mapping[str, str], context: Context) -> Any:
        """Call it: in this task if it is async, in a worker thread otherwise."""
        bound = partial(self._function, **texts, **dict.fromkeys(self._contexts, context))
        return await bound() if self._is_async else await serving.threads.run(bound)


def look_at(function: Callable[..., Any], name: str) -> TextFunction:
    """Return what can be known of *function*.

    Raises:
        TypeError: a parameter cannot take a text by its name; the error says which.
    """
    callee = inspect_callable(function, name, (Context,), {})
    for parameter in callee.arguments():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: parameter {parameter.name!r} cannot be passed by name")
        if parameter.annotation not in (parameter.empty, str, str | None, Any):
            raise TypeError(f"{name}: parameter {parameter.name!r} takes a text: annotate it as str, or not at all")
    return TextFunction(
        parameters={parameter.name: parameter for parameter in callee.arguments()},
        docstring=parse_docstring(callee.docstring),
        function=function,
        contexts=tuple(callee.injected),
        is_async=callee.is_async,
    )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name *function* was defined with; of a partial, the inner function's; of an object, its class's."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
