"""What a client understands beyond the specification: requests and notifications of servers, results of extensions.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from attrs import define, evolve, field, frozen

from .. import types
from .._errors import LocalProtocolError, McpError, StructureError
from .._extensions import CORE_RESULT_TYPES, check_custom, checked_settings, is_specified, with_plain_extensions
from .._user_types import TypedFunction, look_at, to_object
from ..peer import HandlerPool, HandlerRun, IncomingRequest
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, JsonObject, is_object
from ._request import RequestClocks

if TYPE_CHECKING:
    from ._client import Client

__all__ = ["CustomHandler", "CustomMessages", "Extension", "Extensions", "Resolve", "custom_messages"]

_log = logging.getLogger("trio_mcp.client")

MAX_WAITING_NOTIFICATIONS = 1024
"""Notifications that may wait for their handlers; beyond it the oldest goes."""
MAX_COMPLAINTS = 10
"""Notifications that break the protocol about which the log says so; a server that goes on fills no log."""

Resolve: TypeAlias = "Callable[[Client, JsonObject], Awaitable[JsonObject]]"
"""Given a result of an extension's type, as it came, returns the complete result that it stands for, as JSON."""
CustomHandler: TypeAlias = Callable[..., Awaitable[Any]]
"""Takes the params of a message, as the annotation of its parameter says; of a request it returns the result."""


@frozen(eq=False)
class Extension:
    """An extension of the protocol that a client understands.

    Args:
        id: its name, with a prefix: ``"com.example/rooms"``.
        settings: this client's settings of it.
        result_types: what becomes of the results it has added to tool calls and to methods that the specification
            does not have, by their ``resultType``. Each is an async function of the client and the result's JSON, and
            returns the JSON of the complete result; what it raises is raised by the call. It may take its time.

    Raises:
        ValueError: the id is none, or a result type is one of the protocol's own.
    """

    id: str
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    result_types: Mapping[str, Resolve] = field(factory=dict[str, Resolve])

    def __attrs_post_init__(self) -> None:
        checked_settings({self.id: self.settings}, "settings")
        for taken in sorted(self.result_types.keys() & set(CORE_RESULT_TYPES)):
            raise ValueError(f"{taken!r} is a result type of the protocol's own, not one of {self.id!r}")


Extensions: TypeAlias = "Mapping[str, Mapping[str, Any]] | Sequence[Extension]"
"""The extensions that a client understands: by id, with its settings of each; or as `Extension` objects."""


@define(eq=False)
class CustomMessages:
    """What the application of one client has added to the protocol. Made by `custom_messages`."""

    extensions: Mapping[str, Extension]
    """By id."""
    _experimental: Mapping[str, JsonObject]
    _methods: Mapping[str, TypedFunction]
    _notifications: Mapping[str, TypedFunction]
    _resolvers: Mapping[str, Resolve]
    """By the type of the result."""
    client: Client | None = field(default=None, init=False)
    """Whose application it is; set before anything is asked."""
    skipped: int = field(default=0, init=False)
    """Notifications that were dropped because their handlers are too slow."""
    _waiting: deque[tuple[str, JsonObject]] = field(factory=deque[tuple[str, JsonObject]], init=False)
    _heard: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _complaints: int = field(default=0, init=False)

    def declared_with(self, capabilities: types.ClientCapabilities) -> types.ClientCapabilities:
        """Return what the client declares: its own capabilities and these."""
        settings = {id: dict(each.settings) for id, each in self.extensions.items()}
        return with_plain_extensions(
            evolve(capabilities, experimental=self._experimental or None, extensions=settings or None)
        )

    @property
    def hears(self) -> bool:
        """Whether it has added anything that servers say of their own accord."""
        return bool(self._methods or self._notifications)

    def answer(self, exchange: IncomingRequest, pool: HandlerPool, stopwatch: RequestClocks) -> bool:
        """Begin to answer a request of the server's, if it has a handler here; synchronous."""
        method, revision = exchange.method, exchange.context.revision
        if method not in self._methods or method in types.METHODS[revision]:
            return False
        function = self._methods[method]
        try:
            params = function.read(exchange.params or {})
        except StructureError as error:
            fault = f"the params of {method!r} do not fit: {'; '.join(error.faults)}"
            exchange.respond(McpError(INVALID_PARAMS, fault))
            return True

        async def handle(_: HandlerRun) -> JsonObject:
            with stopwatch.stopped():  # the limits measure waiting for the server
                return to_object(await function.call(params), revision)

        def explain(failure: Exception) -> McpError:
            if isinstance(failure, McpError):
                return failure
            _log.error("the handler of %r failed", method, exc_info=failure)
            return McpError(INTERNAL_ERROR, f"this client failed to answer {method!r}")

        pool.begin(exchange, handle, explain)
        return True

    def hear(self, method: str, params: JsonObject) -> bool:
        """Take a notification of the server's, if it has a handler here; synchronous."""
        if method not in self._notifications:
            return False
        if len(self._waiting) >= MAX_WAITING_NOTIFICATIONS:
            self._waiting.popleft()
            self.skipped += 1
        self._waiting.append((method, params))
        self._heard.unpark()
        return True

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task that hands notifications on, if there are handlers for any."""
        if self._notifications:
            nursery.start_soon(self._deliver)

    async def _deliver(self) -> None:
        """Hand notifications to their handlers, one after the other, for ever. A failure costs one of them."""
        while True:
            while not self._waiting:
                await self._heard.park()
            method, params = self._waiting.popleft()
            function = self._notifications[method]
            try:
                await function.call(function.read(params))
            except StructureError as error:
                self._complaints += 1
                level = logging.WARNING if self._complaints <= MAX_COMPLAINTS else logging.DEBUG
                _log.log(level, "the params of notification %r do not fit: %s", method, "; ".join(error.faults))
            except Exception:  # noqa: BLE001 # it is the application's, and costs one notification
                _log.exception("the handler of notification %r failed", method)

    def resolver(self, method: str, kind: object) -> Resolve | None:
        """Return what makes a complete result of one of type *kind*; None where there is nothing that could."""
        is_open = method == "tools/call" or not is_specified(method)
        return self._resolvers.get(kind) if is_open and isinstance(kind, str) else None

    async def resolved(self, resolve: Resolve, method: str, json: JsonObject) -> JsonObject:
        """Return the complete result that *json* stands for.

        Raises:
            LocalProtocolError: *resolve* returned something else.
            Exception: whatever it raises.
        """
        assert self.client is not None
        complete: Any = await resolve(self.client, json)
        if not is_object(complete) or complete.get("resultType", "complete") != "complete":
            raise LocalProtocolError(f"what the extension made of the result of {method!r} is no complete result")
        return complete


def custom_messages(
    *,
    extensions: Extensions | None,
    experimental: Mapping[str, Mapping[str, Any]] | None,
    methods: Mapping[str, CustomHandler] | None,
    notifications: Mapping[str, CustomHandler] | None,
) -> CustomMessages:
    """Check what an application adds to the protocol, and return it.

    Raises:
        ValueError: a name is none, or is the specification's, or two extensions claim the same.
        TypeError: a handler is no async function that could be called with params.
    """
    by_id: dict[str, Extension] = {}
    resolvers: dict[str, Resolve] = {}
    for each in _listed(extensions or {}):
        if each.id in by_id:
            raise ValueError(f"extensions: {each.id!r} is there twice")
        for kind, resolve in each.result_types.items():
            if kind in resolvers:
                raise ValueError(f"extensions: two of them have results of type {kind!r}")
            resolvers[kind] = resolve
        by_id[each.id] = each
    for name in methods or {}:
        check_custom(name, "method")
    for name in notifications or {}:
        check_custom(name, "notification")
    return CustomMessages(
        by_id,
        {name: dict(each) for name, each in (experimental or {}).items()},
        {name: _handler(handler, f"methods[{name!r}]") for name, handler in (methods or {}).items()},
        {name: _handler(handler, f"notifications[{name!r}]") for name, handler in (notifications or {}).items()},
        resolvers,
    )


def _listed(extensions: Extensions) -> Sequence[Extension]:
    if isinstance(extensions, Mapping):
        return [Extension(id, settings) for id, settings in extensions.items()]
    return extensions


def _handler(handler: CustomHandler, label: str) -> TypedFunction:
    looked_at = look_at(handler, label)
    if not looked_at.is_async:
        raise TypeError(f"{label}: {handler!r} is no async function")
    return looked_at
