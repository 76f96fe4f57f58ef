"""The part of a server's registry that goes beyond the specification: middleware, methods, notifications, extensions.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from .._extensions import checked_settings
from ..wire import JsonObject
from ._custom import OwnMethods
from ._middleware import Middleware, check_middleware

__all__ = ["ExtensibleServer", "callers_names"]

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


class ExtensibleServer:
    """What `Server` is extended with."""

    __slots__ = ("all_middleware", "experimental", "extensions", "own")

    own: OwnMethods
    """Methods and notifications beyond the specification."""
    extensions: Mapping[str, JsonObject]
    """Its settings of each extension that it understands, by id."""
    experimental: Mapping[str, JsonObject]
    """Non-standard capabilities that it declares."""
    all_middleware: Sequence[Middleware]
    """What is around every request, the outermost first."""

    def _extend(
        self,
        middleware: Sequence[Middleware],
        extensions: Mapping[str, Mapping[str, Any]],
        experimental: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.all_middleware = tuple(map(check_middleware, middleware))
        self.own, self.extensions = OwnMethods(), checked_settings(extensions, "extensions")
        self.experimental = {name: dict(each) for name, each in experimental.items()}

    def method(self, name: str, *, extension: str | None = None, scopes: Sequence[str] = ()) -> Callable[[F], F]:
        """Register a function as the answer to a method of your own, or of an extension, in every revision.

        It takes the params, as the annotation of its parameter says (an attrs class, a dataclass, a TypedDict, a
        `msgspec.Struct`, a pydantic model, a dict), and a `Context` if it asks for one. It returns an object of any of
        these kinds, or None for an empty one. Params that do not fit are refused, and it does not run.

        Args:
            name: the method, such as ``"com.example/rooms/list"``.
            extension: the extension it belongs to: a request that does not declare it is refused.
            scopes: what must have been granted to whoever asks it; as of a `Server.tool`.

        Raises:
            ValueError: the specification has a method of this name, it is registered already, or *scopes* are none.
            TypeError: it cannot be called with params; the text says why.
        """
        return _own_registrar(partial(self.own.add_method, scopes=scopes), name, extension, callers_names())

    def notification(self, name: str, *, extension: str | None = None) -> Callable[[F], F]:
        """Register a function that takes a notification of your own, or of an extension; see `method`.

        Those of one connection are worked on one after the other, in the order in which they were sent. What it returns
        means nothing; its failure goes to the log, and costs that notification.

        Raises what `method` raises.
        """
        return _own_registrar(self.own.add_notification, name, extension, callers_names())

    def middleware(self, function: M) -> M:
        """Register an async function around every request and notification; see `Request`. It is returned unchanged.

        It is called with the `Request` and with what calls the next one, and returns the result::

            @server.middleware
            async def log(request, call_next):
                print(request.method)
                return await call_next(request)

        The first one registered is the outermost. Each sees whatever a client sends, lists, `initialize` and unknown
        methods too, but not `notifications/cancelled` and `notifications/progress`, which belong to the engine, and
        not the answer to a question, with which a parked handler goes on. `call_next` of `subscriptions/listen` returns
        no sooner than it ends: by cancellation. It may answer itself, pass other params on (`Request.with_params`),
        and raise `McpError`. Any other failure of its own is answered as an internal error, and costs one request.

        What is registered while the server is being served counts for the next request.

        Raises:
            TypeError: it is no async function.
        """
        self.all_middleware = (*self.all_middleware, check_middleware(function))
        return function


def _own_registrar(
    add: Callable[[Callable[..., Any], str, str | None, Mapping[str, Any]], None],
    name: str,
    extension: str | None,
    namespace: Mapping[str, Any],
) -> Callable[[F], F]:
    def register(function: F) -> F:
        add(function, name, extension, namespace)
        return function

    return register


def callers_names() -> Mapping[str, Any]:
    """Return the local names of whoever called a decorator: annotations may name classes that are local there."""
    return sys._getframe(2).f_locals  # noqa: SLF001 # Python has no public name for a caller's frame
