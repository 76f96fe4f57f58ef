"""Custom methods, notifications, results of extensions, and deadlines: what a server adds to the specification.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import trio
from attrs import define, evolve, field, frozen

from .. import types
from .._errors import LocalProtocolError, McpError, MissingCapability, SharedUnavailable, StructureError, TooManyParked
from .._extensions import (
    CORE_RESULT_TYPES,
    check_custom,
    check_extension_id,
    extensions_in,
    is_specified,
    missing_extension,
)
from .._misuse import unawaited
from .._user_types import TypedFunction, look_at, to_object
from ..peer import BUSY, ExchangeContext, IncomingRequest
from ..wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LISTEN,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    JsonObject,
    seconds_left,
)
from ._context import Context, run_of, serving_of
from .features import NO_SCOPES, check_scopes
from .signature import may_wait

__all__ = [
    "NO_DEADLINE",
    "CustomMethod",
    "CustomMethods",
    "ExtensionResult",
    "complete_result",
    "deadline_of",
    "refusal_of",
]

_log = logging.getLogger("trio_mcp.server")

NO_DEADLINE = math.inf
_NEVER_LATE = frozenset({LISTEN, "initialize"})
"""The requests that have no deadline: one that lasts until it is cancelled, and one that is never cancelled."""


@frozen
class ExtensionResult:
    """A result of a type that an extension defines, for tools and custom methods to return.

    Only a request of 2026-07-28 that declares the extension can be answered with it; other requests are refused because
    they lack the capability. See `Context.extension`.

    Args:
        extension: the extension's id, which `Server(extensions=...)` must declare.
        result_type: the type of the result (``resultType``), such as ``"task"``.
        members: the members: a mapping, or an instance of a class whose JSON is an object.
        meta: the result's `_meta`.

    Raises:
        ValueError: the id is not valid, or the protocol itself defines the type.
    """

    extension: str
    result_type: str
    members: Any
    meta: Mapping[str, Any] | None = None

    def __attrs_post_init__(self) -> None:
        check_extension_id(self.extension)
        if self.result_type in CORE_RESULT_TYPES:
            raise ValueError(f"result type {self.result_type!r}: defined by the protocol, not by {self.extension!r}")

    def for_request(self, method: str, context: ExchangeContext, declared: Mapping[str, Any]) -> types.Result:
        """Return the result in the form for a request.

        Args:
            method: the method of the request.
            context: the context of the request, which has the revision and the extensions of the client.
            declared: the extensions that this server declares.

        Raises:
            MissingCapability: the client or its revision does not support the result.
            LocalProtocolError: the server does not declare the extension, or the method has no such results.
        """
        if is_specified(method) and method != "tools/call":
            raise LocalProtocolError(f"{method!r} cannot be answered with a result of type {self.result_type!r}")
        if self.extension not in declared:
            raise LocalProtocolError(f"this server does not declare the extension {self.extension!r}")
        if self.extension not in extensions_in(context.capabilities):
            raise missing_extension(self.extension)
        if not context.modern:
            raise MissingCapability(
                f"revision {context.revision} has no results of type {self.result_type!r}",
                {"extensions": {self.extension: {}}},
            )
        meta = None if self.meta is None else dict(self.meta)
        return types.Result(result_type=self.result_type, meta=meta, extra=to_object(self.members))


def complete_result(outcome: Any, method: str, context: ExchangeContext, declared: Mapping[str, Any]) -> types.Result:
    """Return the result of a custom method, or of any handler that returned an `ExtensionResult`.

    Args:
        outcome: the return value of the handler.
        declared: the extensions that this server declares.

    Raises:
        TypeError: a custom method did not return an object.
        MissingCapability: the client or its revision does not support the extension's result.
        LocalProtocolError: the server does not declare the extension, or the method has no such results.
    """
    if isinstance(outcome, ExtensionResult):
        return outcome.for_request(method, context, declared)
    if fault := unawaited(outcome):
        raise TypeError(f"what the handler of {method!r} returned cannot be sent: {fault}")
    json = to_object(outcome, context.revision)
    members = {name: each for name, each in json.items() if name not in {"_meta", "resultType"}}
    return types.Result(meta=json.get("_meta"), extra=members)


def refusal_of(failure: Exception, context: ExchangeContext) -> McpError | None:
    """Return the protocol error that stands for an exception, independent of the method; None if there is none."""
    if isinstance(failure, McpError):
        return failure
    if isinstance(failure, TooManyParked):
        return McpError(BUSY, f"too busy: {failure}; try again later")
    if isinstance(failure, SharedUnavailable):  # its message names the backend, which is not for clients
        _log.warning("a request failed: %s", failure)
        return McpError(
            INTERNAL_ERROR, "what the processes of this service share cannot be reached at the moment; try again later"
        )
    if isinstance(failure, MissingCapability) and context.modern:
        return McpError(MISSING_CAPABILITY, str(failure), {"requiredCapabilities": failure.required})
    return None


def deadline_of(exchange: IncomingRequest) -> float:
    """Return the deadline of the caller of a request that arrives now, on Trio's clock; infinite if there is none.

    The time for which the request waits for a slot counts.

    A handler that works for a task, instead of a connection, has none: its caller does not wait.
    """
    if exchange.outlasts or exchange.method in _NEVER_LATE:
        return NO_DEADLINE
    seconds = seconds_left(exchange.context.meta)
    return NO_DEADLINE if seconds is None else trio.current_time() + seconds


@frozen(eq=False)
class CustomMethod:
    """A custom method or notification, and its handler."""

    name: str
    function: TypedFunction
    extension: str | None
    """The extension it belongs to, which each message must declare; None if it belongs to none."""
    waits: bool
    """True if a call may need a thread, or suspend its task."""
    may_ask: bool = field(default=False, init=False)
    """A modern client cannot be asked questions in the result of a custom method."""
    scopes: frozenset[str] = NO_SCOPES
    """The scopes that a caller needs."""

    def read(self, params: JsonObject, context: ExchangeContext) -> Any:
        """Return the typed params; raises the `McpError` that refuses the message."""
        if self.extension is not None and self.extension not in extensions_in(context.capabilities):
            missing = refusal_of(missing_extension(self.extension), context)
            raise missing or McpError(
                METHOD_NOT_FOUND, f"{self.name!r} is a method of the extension {self.extension!r}"
            )
        try:
            return self.function.read(params)
        except StructureError as error:
            fault = f"the params of {self.name!r} do not fit: {'; '.join(error.faults)}"
            raise McpError(INVALID_PARAMS, fault) from None

    async def call(self, context: Context, params: Any) -> Any:
        """Call the handler: in this task if it is async, in a worker thread otherwise."""
        if self.function.is_async:
            return await self.function.call(params, context)
        return await serving_of(context).threads.run(partial(self.function.call, params, context), run_of(context))


@define(eq=False)
class CustomMethods:
    """The custom methods and notifications of one server."""

    methods: dict[str, CustomMethod] = field(factory=dict[str, CustomMethod], init=False)
    notifications: dict[str, CustomMethod] = field(factory=dict[str, CustomMethod], init=False)

    def method(self, name: str, revision: str) -> CustomMethod | None:
        """Return the custom method of this name; None if there is none, or the revision defines it itself."""
        return None if name in types.METHODS[revision] else self.methods.get(name)

    def scopes_of(self, method: str) -> frozenset[str]:
        """Return the scopes that a method needs; empty if there is no such custom method."""
        custom = self.methods.get(method)
        return NO_SCOPES if custom is None else custom.scopes

    def add_method(
        self,
        function: Callable[..., Any],
        name: str,
        extension: str | None,
        namespace: Mapping[str, Any],
        scopes: Sequence[str],
    ) -> None:
        """Register the handler of a method; see `Server.method`."""
        check_custom(name, "method")
        if name in self.methods:
            raise ValueError(f"a method {name!r} is registered already")
        label = f"method {name!r}"
        needed = check_scopes(label, scopes)
        self.methods[name] = evolve(_custom_method(function, name, label, extension, namespace), scopes=needed)

    def add_notification(
        self, function: Callable[..., Any], name: str, extension: str | None, namespace: Mapping[str, Any]
    ) -> None:
        """Register the handler of a notification; see `Server.notification`."""
        check_custom(name, "notification")
        if name in self.notifications:
            raise ValueError(f"a notification {name!r} is registered already")
        self.notifications[name] = _custom_method(function, name, f"notification {name!r}", extension, namespace)


def _custom_method(
    function: Callable[..., Any], name: str, label: str, extension: str | None, namespace: Mapping[str, Any]
) -> CustomMethod:
    if extension is not None:
        check_extension_id(extension)
    looked_at = look_at(function, label, context=Context, namespace=namespace)
    return CustomMethod(name, looked_at, extension, not looked_at.is_async or may_wait(function))
