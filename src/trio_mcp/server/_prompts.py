"""Prompts: registering them, and getting one.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from .. import types
from .._errors import McpError
from ..peer import Run
from ..wire import INVALID_PARAMS
from ._catalog import Catalog, Listable
from ._content import content_blocks, older_messages
from ._context import Context
from ._functions import TextFunction, look_at, name_of
from ._scopes import NO_SCOPES, check_scopes
from ._signature import ArgumentFaults

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["Prompts"]


@frozen
class _Prompt(Listable):
    """One prompt, and the function behind it."""

    definition: types.Prompt
    function: TextFunction
    scopes: frozenset[str]
    """What must have been granted to whoever gets it."""

    @property
    def waits(self) -> bool:
        """Whether getting it may wait for something."""
        return self.function.waits

    async def call(
        self, serving: Serving, _: Run, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Answer `prompts/get`.

        Raises:
            McpError: the arguments do not fit.
        """
        try:
            bound = self.function.bind(params.arguments or {})
        except ArgumentFaults as error:
            faults = "; ".join(error.faults)
            raise McpError(INVALID_PARAMS, f"the arguments of prompt {params.name!r} do not fit: {faults}") from None
        value = await self.function.call(serving, bound, context)
        if isinstance(value, types.GetPromptResult):
            result = value
        else:
            result = types.GetPromptResult(description=self.definition.description, messages=_messages(value))
        return older_messages(result, context.revision, params.name)


@define(eq=False)
class Prompts:
    """The prompts of one server. They may come and go while it is being served."""

    catalog: Catalog[_Prompt] = field(factory=lambda: Catalog[_Prompt]("prompt", "prompts/list", "prompts"), init=False)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        scopes: Sequence[str] = (),
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Register a function; see `Server.prompt`.

        Args:
            namespace: names that annotations may use beside those of the function's module.
        """
        name = name or name_of(function)
        looked_at = look_at(function, name, namespace)
        arguments = [
            types.PromptArgument(
                name=each,
                title=schema.get("title"),
                description=schema.get("description"),
                required=looked_at.requires(each),
            )
            for each, schema in looked_at.parameters.items()
        ]
        definition = types.Prompt(
            name=name,
            title=title,
            description=description or looked_at.description,
            arguments=arguments or None,
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        self.catalog.add(name, _Prompt(definition, looked_at, check_scopes(f"prompt {name!r}", scopes)))

    def scopes_of(self, name: object) -> frozenset[str]:
        """Return what must have been granted to whoever gets this prompt; nothing where there is no such prompt."""
        prompt = self.catalog.get(name) if isinstance(name, str) else None
        return NO_SCOPES if prompt is None else prompt.scopes

    def remove(self, name: str) -> None:
        """Take a prompt out; raises KeyError where there is none of this name."""
        self.catalog.remove(name)


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
