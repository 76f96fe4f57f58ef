"""The part of a handler's context that goes beyond the specification: extensions, and messages of one's own.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio

from .._errors import LocalProtocolError, MissingCapability, RemoteProtocolError, StructureError
from .._extensions import extensions_in, is_specified, missing_extension
from .._typed import Reader, reader_of, to_object
from ..peer import Exchange, Run

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["OwnContext"]

T = TypeVar("T")


class OwnContext:
    """What `Context` extends the protocol with."""

    __slots__ = ()
    _run: Run
    _serving: Serving

    def extension(self, id: str) -> Mapping[str, Any] | None:
        """Return the client's settings of an extension that both sides have declared; None where one has not.

        Empty settings are settings. Of a modern client it is this request that counts, of others the connection.
        """
        if id not in self._serving.server.extensions:
            return None
        return extensions_in(self._run.context.capabilities).get(id)

    def require_extension(self, id: str) -> Mapping[str, Any]:
        """Return what `extension` returns, where both sides have declared it.

        Raises:
            MissingCapability: the client has not. Unhandled, it refuses the request with -32021, which names the
                extension; in older revisions it is a tool error, or an internal error with the same text.
            LocalProtocolError: this server has not.
        """
        if id not in self._serving.server.extensions:
            raise LocalProtocolError(f"this server does not declare the extension {id!r}")
        settings = self.extension(id)
        if settings is None:
            raise missing_extension(id)
        return settings

    async def notify(self, method: str, params: Any = None) -> None:
        """Send the client a notification of your own that belongs to this request.

        Does nothing where the request is over. Always a cancel point; waits only when too much is queued for the client
        already.

        Args:
            method: its name, none of the specification's.
            params: an object: a mapping, or an instance of a class whose JSON is one.

        Raises:
            LocalProtocolError: the specification has such a notification.
            TypeError: *params* are no object.
        """
        if is_specified(method):
            raise LocalProtocolError(f"{method!r} is the specification's own; this package sends it where it is due")
        json = to_object(params, self._run.context.revision)
        await trio.lowlevel.checkpoint_if_cancelled()
        exchange = self._run.exchange
        if exchange is not None and not exchange.has_room():
            await exchange.room()
        exchange = self._run.exchange  # it may be another one now
        if exchange is not None:
            exchange.notify(method, json)

    async def request(self, method: str, params: Any, result: type[T]) -> T:
        """Send the client a request of your own and return its result; revisions before 2026-07-28 only.

        Cancelling it tells the client. No time limit applies but those of the handler.

        Args:
            method: its name, none of the specification's.
            params: an object: a mapping, or an instance of a class whose JSON is one.
            result: the class to return: of any kind that a method of one's own may take.

        Raises:
            LocalProtocolError: the specification has such a request.
            MissingCapability: in this revision a server asks for nothing; or the client is not initialized yet.
            ErrorResponse: the client answered with an error.
            RemoteProtocolError: its answer does not fit *result*.
            ConnectionLost: the client, or the request that this one belongs to, is gone.
        """
        if is_specified(method):
            raise LocalProtocolError(f"{method!r} is the specification's own; see the methods of Context for it")
        context, exchange = self._run.context, self._run.exchange
        read, json = reader_of(cast("Any", result)), to_object(params, context.revision)
        if context.modern:
            raise MissingCapability(f"in revision {context.revision} a server cannot ask for {method!r}", {})
        await trio.lowlevel.checkpoint_if_cancelled()
        if exchange is None:
            raise LocalProtocolError(f"{method!r} cannot be asked any more: the request is over")
        return cast("T", await _ask(exchange, method, json, read))


async def _ask(exchange: Exchange, method: str, params: dict[str, Any], read: Reader) -> Any:
    if not exchange.peer.gate.operating:
        raise MissingCapability(f"{method!r} cannot be asked before the client has said that it is initialized", {})
    async with exchange.ask(method, params) as asked:
        answer = await asked.result()
    try:
        return read(answer)
    except StructureError as error:
        raise RemoteProtocolError(f"the result of {method!r} does not fit: {'; '.join(error.faults)}") from error
