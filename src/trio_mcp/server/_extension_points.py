"""The points at which packages add an extension to a server, beyond what its decorators offer.

A part of a serving is what such a package keeps for as long as a server is served. It is made by an async context
manager function, which is entered when a serving is opened and left when it ends. The parts of a serving outlive its
lifespan, and so every handler and background task.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

import trio
from attrs import frozen

from .._extensions import check_custom, check_extension_id
from .._user_types import to_object
from .._util import owned_nursery
from ..peer import Access
from ..wire import Change, CustomChange, ListChanged
from ._context import Context, serving_of
from .features import ListenFilter

if TYPE_CHECKING:
    from ._forwarder import Forwarder
    from ._server import Server, ServerInternals

__all__ = ["OpenPart", "ServerExtensionPoints", "ServingPart", "internals_of", "open_parts"]

T = TypeVar("T")
L = TypeVar("L")

OpenPart: TypeAlias = "Callable[[Server, trio.Nursery], AbstractAsyncContextManager[T]]"
"""A function that makes the part of one serving; see `ServerExtensionPoints.add_part`."""


internals_of: Callable[[Server], ServerInternals] = attrgetter("_internals")
"""Returns the internals of a server, which are no part of its interface."""


@frozen(eq=False)
class ServingPart(Generic[T]):
    """A part of each serving of a server: the value that an async context manager function yields.

    `ServerExtensionPoints.add_part` makes it.
    """

    open: OpenPart[T]
    """Makes the part of one serving."""

    def of(self, context: Context) -> T | None:
        """Return the part of the serving that the handler with this *context* belongs to.

        None if that serving was opened before the part was added, or for a single request (an HTTP application whose
        lifespan is not running).
        """
        return cast("T | None", serving_of(context).parts.get(self))


_LISTEN_MEMBERS = {"toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"}


@frozen(eq=False)
class ServerExtensionPoints:
    """The points at which a package adds an extension to a server; see also `Server.method` and `Server.middleware`."""

    server: Server
    """The server to which the extension is added."""

    def before_serving(self, check: Callable[[], None]) -> None:
        """Call a function before each serving, when the program has registered what it registers before it serves.

        An exception of *check* is raised by the function that serves, unwrapped; nothing is served.
        """
        internals_of(self.server).checks.append(check)

    def listen_filter(self, member: str, *, extension: str) -> Callable[[L], L]:
        """Register a function that decides what a client may listen for, by a member that an extension defines.

        A client names the member in the filter of `subscriptions/listen`, as a list of strings. The function is async,
        is called with that list and the `Context` of the request, and returns those strings that the client may
        listen for. `notify_listeners` then sends notifications to those who listen for a string.

        Args:
            member: the member of the filter, such as ``"taskIds"``.
            extension: the extension that defines it; a request that does not declare it is refused.

        Raises:
            ValueError: the member is registered or is the specification's, or the id of the extension is not valid.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
        """
        filters = internals_of(self.server).listen_filters
        if member in filters or member in _LISTEN_MEMBERS:
            raise ValueError(f"listen filter {member!r}: registered already, or defined by the specification")
        check_extension_id(extension)

        def register(function: L) -> L:
            filters[member] = ListenFilter(member, extension, cast("Any", function))
            return function

        return register

    def notify_listeners(self, member: str, key: str, method: str, params: Any = None) -> None:
        """Send a notification to every client that listens for *key*; see `listen_filter`.

        Never waits, and may be called from any thread. If several with the same *key* wait to be sent, a client gets
        only the newest.

        Args:
            member: the member of the filter.
            key: the string that clients listen for.
            method: the notification, which the specification must not define.
            params: an object: a mapping, or an instance of a class whose JSON is an object.

        Raises:
            ValueError: the specification defines the notification.
            TypeError: *params* is not an object.
        """
        check_custom(method, "notification")
        internals_of(self.server).changes.notify_nowait(CustomChange(member, key, method, to_object(params)))

    def forward(self, part: ServingPart[Forwarder]) -> None:
        """Let the part of each serving answer requests in place of the server; see `Forwarder`.

        It sees each request before the server does. The capabilities that it offers have to be declared by
        `Server.capabilities`. A serving for a single request has no forwarder.

        Raises:
            ValueError: the server has a forwarder already.
        """
        if internals_of(self.server).forwarder is not None:
            raise ValueError("the server has a forwarder already")
        internals_of(self.server).forwarder = part

    def signature(self, text: str) -> str:
        """Return a short signature of *text*, which holds for as long as the server has the key (``Server(keys=...)``).

        It consists of letters, digits, ``-`` and ``_``.
        """
        return internals_of(self.server).seals.signature(text)

    def has_signed(self, text: str, signature: str) -> bool:
        """Return True if *signature* is one that `signature` has returned for *text*."""
        return internals_of(self.server).seals.has_signed(text, signature)

    @property
    def given_keys(self) -> Sequence[bytes]:
        """The keys that the program has given (``Server(keys=...)``); empty if the server has made its own."""
        return internals_of(self.server).given_keys

    def use_keys(self, keys: Sequence[bytes]) -> None:
        """Let a server that was given no keys use these from now on; the first one seals, all of them open."""
        internals_of(self.server).seals.replace_keys(keys)
        internals_of(self.server).cursors.replace_keys(keys)

    @property
    def changes_id(self) -> str:
        """A random string that identifies this `Server` object as the origin of changes.

        Its changes reach all of its own servings without being relayed.
        """
        return internals_of(self.server).changes.id

    def relaying_changes(self, relay: Callable[[Change], None]) -> AbstractContextManager[None]:
        """Return a context manager in which each change of the server is passed to a function as well.

        Args:
            relay: called from any thread; it must neither wait nor raise, and passes the change to other processes.
                There, `deliver_change` notifies the clients that listen for it.
        """
        return internals_of(self.server).changes.relaying(relay)

    def deliver_change(self, change: Change) -> None:
        """Notify the listeners in this process of a change that another process has relayed. Never waits."""
        internals_of(self.server).changes.deliver_nowait(change)

    def all_changed(self) -> None:
        """Notify the listeners in this process of everything that they listen for, because changes may be lost.

        Call it in the Trio run of the servings. It never waits.
        """
        internals_of(self.server).changes.all_changed()

    def has_method(self, name: str) -> bool:
        """Return True if a custom method of this name is registered (`Server.method`)."""
        return name in internals_of(self.server).custom.methods

    def list_changed(
        self, kind: Literal["tools", "prompts", "resources"], shown_to: Callable[[Access | None], bool] | None = None
    ) -> None:
        """Notify every client that wants to know that a list has changed, one that a `Forwarder` answers for.

        Never waits, and may be called from any thread.

        Args:
            kind: the list; ``"resources"`` includes the resource templates.
            shown_to: tells which callers' lists have changed; by default all.
        """
        internals_of(self.server).changes.notify_nowait(ListChanged(kind), shown_to)

    def add_part(self, open_part: OpenPart[T]) -> ServingPart[T]:
        """Add a part to every serving that begins from now on; for packages that add an extension to a server.

        Args:
            open_part: an async context manager function, called with the server and with a nursery for its tasks. It is
                entered before the lifespan and left after it, when every handler and background task has ended;
                then the tasks are cancelled. What it or a task raises ends the serving.

        Returns:
            The part; `ServingPart.of` returns the value that *open_part* yielded for the serving of a handler.
        """
        part = ServingPart(open_part)
        internals_of(self.server).parts = (*internals_of(self.server).parts, part)
        return part


@asynccontextmanager
async def open_parts(
    server: Server, parts: Sequence[ServingPart[Any]], *, lasts: bool
) -> AsyncGenerator[Mapping[Any, Any]]:
    """Enter the parts of one serving; yield their values by part.

    Args:
        lasts: True if the serving outlives a single request; otherwise it has no parts.
    """
    if not lasts or not (parts or _may_be_inspected()):
        yield {}
        return
    async with owned_nursery() as nursery, AsyncExitStack() as stack:
        if _may_be_inspected():
            from ._inspection import inspectable  # noqa: PLC0415 # almost no program permits it

            stack.enter_context(inspectable(server))
        opened = {part: await stack.enter_async_context(part.open(server, nursery)) for part in parts}
        yield opened


def _may_be_inspected() -> bool:
    """Return True if the environment of the process permits `trio-mcp inspect` to see the server."""
    return os.environ.get("TRIO_MCP_INSPECT", "0") not in {"", "0"}
