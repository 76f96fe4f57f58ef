"""Prompts: their registry, and getting one.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from .. import types
from .._errors import McpError
from ..wire import INVALID_PARAMS
from ._content import content_blocks, for_revision
from ._context import Context
from ._functions import TextFunction, look_at, name_of

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["Prompts"]


@frozen
class _Registered:
    """One prompt, and the function behind it."""

    definition: types.Prompt
    function: TextFunction


@define(eq=False)
class Prompts:
    """The registry of one server."""

    _registered: dict[str, _Registered] = field(factory=dict[str, _Registered], init=False)
    offered: bool = field(default=False, init=False)
    """Whether anything was ever registered: what was declared once is answered, with an empty list if need be."""

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        """Register a function; see `Server.prompt`."""
        name = name or name_of(function)
        if name in self._registered:
            raise ValueError(f"a prompt {name!r} is registered already")
        looked_at = look_at(function, name)
        documented = looked_at.docstring
        arguments = [
            types.PromptArgument(
                name=each, description=documented.parameters.get(each), required=parameter.default is parameter.empty
            )
            for each, parameter in looked_at.parameters.items()
        ]
        definition = types.Prompt(
            name=name,
            title=title,
            description=description or documented.description or None,
            arguments=arguments or None,
        )
        self._registered[name] = _Registered(definition, looked_at)
        self.offered = True

    def remove(self, name: str) -> None:
        """Take a prompt out; raises KeyError where there is none of this name."""
        del self._registered[name]

    def definitions(self) -> list[types.Prompt]:
        """Return what `prompts/list` answers."""
        return [one.definition for one in self._registered.values()]

    async def get(
        self, serving: Serving, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Answer `prompts/get`.

        Raises:
            McpError: there is no such prompt, or its arguments do not fit.
        """
        found = self._registered.get(params.name)
        if found is None:
            raise McpError(INVALID_PARAMS, f"no prompt {params.name!r}")
        given = dict(params.arguments or {})
        _check(found.definition, given)
        value = await found.function.call(serving, given, context)
        if isinstance(value, types.GetPromptResult):
            messages, result = value.messages, value
        else:
            messages = _messages(value)
            result = types.GetPromptResult(description=found.definition.description, messages=messages)
        readable = [evolve(each, content=for_revision([each.content], context.revision)[0]) for each in messages]
        return evolve(result, messages=readable)


def _check(definition: types.Prompt, given: dict[str, str]) -> None:
    known = definition.arguments or ()
    faults = [f"argument {each.name!r} is required" for each in known if each.required and each.name not in given]
    faults += [f"there is no argument {name!r}" for name in given if name not in {each.name for each in known}]
    if faults:
        raise McpError(INVALID_PARAMS, f"prompt {definition.name!r}: {'; '.join(faults)}")


def _messages(value: Any) -> list[types.PromptMessage]:
    """Return what a prompt function returned as messages: a message as it is, everything else as the user's words."""
    values: list[Any] = list(value) if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownArgumentType] # a user's value
    messages: list[types.PromptMessage] = []
    for each in values:
        if isinstance(each, types.PromptMessage):
            messages.append(each)
        else:
            messages += [types.PromptMessage(role="user", content=block) for block in content_blocks(each)]
    return messages
