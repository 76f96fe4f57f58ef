"""The registry: what a server offers. It owns no task and runs nothing; `serve_*` and `open_client` do."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar, overload

from attrs import define, field

from .. import types
from ..peer import Limits
from ._prompts import Prompts
from ._resources import Resources
from ._serving import Serving, open_serving
from ._tools import Tools

__all__ = ["Server"]

F = TypeVar("F", bound=Callable[..., Any])


@asynccontextmanager
async def _no_lifespan(_: Server) -> AsyncGenerator[None]:
    yield None


@define(eq=False, init=False)
class Server:
    """What an MCP server offers: tools, resources and prompts, registered by decorators.

    The same server can be served many times at once, on any transport; what is registered or removed meanwhile counts
    for the next request.

    Args:
        name: what the server calls itself.
        version: the version of your program, not of the protocol.
        title: its name for people.
        description: what it is, in a sentence.
        website_url: where to read more.
        icons: pictures of it.
        instructions: how to use it, for the calling model.
        lifespan: an async context manager function, called with the server and entered once per serving; what it
            yields is `Context.state`.
        limits: what each connection may cost.
        revisions: the protocol revisions to speak, all of them by default.

    Raises:
        ValueError: *revisions* is empty or names an unknown one.
    """

    info: types.Implementation
    """How the server names itself."""
    info_json: dict[str, Any]
    """The same, as it goes over the wire."""
    instructions: str | None
    lifespan: Callable[[Server], AbstractAsyncContextManager[Any]]
    limits: Limits
    revisions: tuple[str, ...]
    """The protocol revisions it speaks, oldest first."""
    tools: Tools = field(factory=Tools)
    resources: Resources = field(factory=Resources)
    prompts: Prompts = field(factory=Prompts)

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        instructions: str | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] = _no_lifespan,
        limits: Limits | None = None,
        revisions: Sequence[str] = types.REVISIONS,
    ) -> None:
        self.info = types.Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.info_json = types.unstructure(self.info)
        self.instructions = instructions
        self.lifespan = lifespan
        self.limits = Limits() if limits is None else limits
        self.revisions = _in_order(revisions)
        self.tools, self.resources, self.prompts = Tools(), Resources(), Prompts()

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server declares: it follows from what is registered."""
        return types.ServerCapabilities(
            logging={},
            tools=types.ToolsCapability() if self.offers("tools") else None,
            resources=types.ResourcesCapability() if self.offers("resources") else None,
            prompts=types.PromptsCapability() if self.offers("prompts") else None,
        )

    def offers(self, feature: str) -> bool:
        """Tell whether there is, or ever was, anything behind the methods that begin with *feature* (``"tools"``)."""
        registries: dict[str, Tools | Resources | Prompts] = {
            "tools": self.tools,
            "resources": self.resources,
            "prompts": self.prompts,
        }
        return feature not in registries or registries[feature].offered

    def serving(self) -> AbstractAsyncContextManager[Serving]:
        """Open a serving: enters the lifespan, and the nursery in which handlers run. `serve_*` do this for you."""
        return open_serving(self)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
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
    ) -> Callable[[F], F]: ...
    def tool(self, *args: Any, **options: Any) -> Any:
        """Register a function as a tool; bare or called. The function is returned unchanged.

        The input schema comes from the signature, descriptions from the docstring's ``Args:`` or from
        ``Annotated[..., "text"]``, constraints from ``Annotated[..., msgspec.Meta(ge=1)]``. A return annotation gives
        an output schema; without one, what is returned becomes content. A parameter annotated `Context` receives it.

        Args:
            name: the tool's name; the function's by default.
            title: its name for people.
            description: what it does, for the calling model; the docstring by default.
            annotations: hints about its behaviour.
            icons: pictures of it.
            meta: its `_meta`.
            input_schema: a JSON Schema of your own for the arguments, which then arrive as the wire has them.
            timeout: seconds the handler may work; then it is cancelled, and the call is a tool error.
            max_concurrency: calls of this tool that work at once, over all connections; more wait.

        Raises:
            ValueError: a tool of this name is registered, or an option makes no sense.
            TypeError: a parameter cannot be described by a JSON Schema; the text names it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
        """
        # Annotations may name classes that are local to the function in which the tool is registered.
        namespace = sys._getframe(1).f_locals  # noqa: SLF001 # Python has no public name for the caller's frame
        return _decorated(partial(self.tools.add, namespace=namespace), *args, **options)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
    ) -> Callable[[F], F]:
        """Register a function as a resource, or, where *uri* has ``{variables}``, as a resource template.

        The function gets the variables of the template, as text, and a `Context` if it asks for one. It returns text,
        bytes, contents (`types.TextResourceContents`, `types.BlobResourceContents`), a list of them, or a whole
        `types.ReadResourceResult`.

        Args:
            uri: where clients find it; ``{name}`` stands for one segment of a path.
            name: its name; the function's by default.
            title: its name for people.
            description: what it is; the docstring by default.
            mime_type: its media type; of text ``text/plain`` by default, of bytes ``application/octet-stream``.

        Raises:
            ValueError: the URI is registered, is none, or its variables are not the function's parameters.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources
        """

        def register(function: F) -> F:
            self.resources.add(
                function, uri, name=name, title=title, description=description, mime_type=mime_type
            )  # fmt: skip
            return function

        return register

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, *, name: str | None = None, title: str | None = None, description: str | None = None
    ) -> Callable[[F], F]: ...
    def prompt(self, *args: Any, **options: Any) -> Any:
        """Register a function as a prompt; bare or called. The function is returned unchanged.

        Its parameters are the prompt's arguments, all text. It returns a text, a `types.PromptMessage`, a list of
        them, or a whole `types.GetPromptResult`.

        Args:
            name: the prompt's name; the function's by default.
            title: its name for people.
            description: what it is for; the docstring by default.

        Raises:
            ValueError: a prompt of this name is registered.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
        """
        return _decorated(self.prompts.add, *args, **options)


def _decorated(add: Callable[..., None], function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Register *function*, or return the decorator that will."""
    if function is None:
        return lambda later: _decorated(add, later, **options)  # type: ignore[return-value]  # given one, it returns it
    add(function, **options)
    return function


def _in_order(revisions: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(revisions) - set(types.REVISIONS))
    if unknown or not revisions:
        raise ValueError(f"revisions={list(revisions)!r}: at least one of {', '.join(types.REVISIONS)}, and no other")
    return tuple(revision for revision in types.REVISIONS if revision in revisions)
