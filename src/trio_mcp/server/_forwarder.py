"""The interface of an object that answers a server's requests on behalf of others, such as the servers of a gateway.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from .. import types
from ..peer import Access, IncomingRequest, Peer
from ..wire import Change, ChangeFilter, JsonObject
from ._context import Context, HandlerServing

__all__ = ["Forwarder", "ForwardingResponder", "TasklessRequest", "TasklessResponder"]


class ForwardingResponder(Protocol):
    """An object that answers one request in the handler pool."""

    @property
    def waits(self) -> bool:
        """True if answering may wait for something."""
        ...

    @property
    def may_ask(self) -> bool:
        """True if it may ask the client questions by the methods of `Context`."""
        ...

    def call(self, context: Context, params: Any, /) -> Awaitable[Any]:
        """Answer: take typed params (JSON for a method that the specification does not have), and return a result.

        The result is typed, or JSON in the revision of the request. JSON may be of any result type.

        Args:
            context: the context of the request.
            params: its params.
        """
        ...


class TasklessRequest(Protocol):
    """A request that is answered without a task."""

    @property
    def serving(self) -> HandlerServing:
        """The serving."""
        ...

    @property
    def exchange(self) -> IncomingRequest:
        """The exchange."""
        ...

    @property
    def deadline(self) -> float:
        """The deadline of the caller, on Trio's clock; infinite if it has none. The responder keeps it.

        When it has passed, the outcome is `lowlevel.CallerDeadlineError`.
        """
        ...

    def answer(self, outcome: types.Model | JsonObject | Exception) -> None:
        """Answer the request.

        Args:
            outcome: the result, typed or JSON in the revision of the request, or the exception that `call` would raise.
        """
        ...

    def needs_task(self) -> None:
        """Have `call` answer, because the answer has to wait after all. It may continue what was begun."""
        ...


class TasklessResponder(abc.ABC):
    """A `ForwardingResponder` that can answer some requests without a task."""

    waits: bool
    """True if `call` may wait for anything."""
    may_ask: bool
    """True if `call` may ask the client something."""

    @abc.abstractmethod
    def begin_nowait(self, request: TasklessRequest) -> bool:
        """Begin to answer, if that needs no waiting; otherwise return False with nothing begun, and `call` is used.

        Never raises. *request* is told the outcome, once: before this returns, or at any later time.
        """

    @abc.abstractmethod
    def give_up(self) -> None:
        """Give up what was begun, because the caller has; the request is told nothing any more."""

    @abc.abstractmethod
    def call(self, context: Context, params: Any, /) -> Awaitable[Any]:
        """Answer in a task; see `lowlevel.ForwardingResponder.call`."""


class Forwarder(Protocol):
    """An object that answers requests of a server; see `ServerExtensionPoints.forward`. Its methods never wait."""

    def find(self, exchange: IncomingRequest, params: Any) -> ForwardingResponder | None:
        """Return what answers a request, or None if the server itself does.

        Called for each request but ``initialize``, ``ping``, ``server/discover``, ``logging/setLevel`` and those that
        are about subscriptions; also for methods that the server has not, and for those of extensions.

        Args:
            exchange: the request.
            params: typed params; JSON for a method that the specification does not have.

        Raises:
            McpError: the response that refuses the request.
        """
        ...

    def find_taskless(self, exchange: IncomingRequest) -> TasklessResponder | None:
        """Return what answers a request whose params need not be read before; None if `find` is to be asked.

        Called before `find`, unless there is middleware. It must not refuse a request. If the responder needs a task,
        the params are read then, and the request is refused if they do not fit.

        Args:
            exchange: the request.
        """
        ...

    def input_schema(self, tool: str, access: Access | None) -> JsonObject | None:
        """Return the input schema of a tool as it is listed; None if the caller sees no such tool, or it is unknown.

        Args:
            tool: the name of the tool.
            access: the authenticated caller; None without authentication.
        """
        ...

    async def notified(self, notification: IncomingRequest, params: Any) -> None:
        """Take a notification that the server has no handler for; those of one connection come one after the other.

        Args:
            params: as of `find`.
        """
        ...

    @property
    def listen_members(self) -> Mapping[str, str]:
        """The members of the filter of `subscriptions/listen` that it knows, each with the extension that adds it."""
        ...

    def listening(
        self, wanted: ChangeFilter, peer: Peer, access: Access | None, changed: Callable[[Change], None]
    ) -> AbstractAsyncContextManager[ChangeFilter]:
        """Return the block during which one listener is notified of changes.

        Args:
            wanted: resources, and strings of `listen_members`, that the server itself does not know.
            peer: the connection or session of the listener.
            access: the authenticated caller; None without authentication.
            changed: called with each change; it never waits and never raises.

        Returns:
            A block that yields the part of *wanted* that the caller may listen for.
        """
        ...

    def prepare(self) -> Callable[[], Awaitable[None]] | None:
        """Return a function that waits, for a bounded time, until it is known what the server has to declare.

        None if that is known. Called for ``initialize`` and ``server/discover``.
        """
        ...
