"""One request as the answering side sees it: a sink for updates and one response, tied to at most one run.

Bindings subclass `IncomingRequest` and say how bytes or objects leave. Everything here but waiting for room is
synchronous, hence atomic.
"""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING

from attrs import define, field

from .._errors import McpError
from .._tracing import RequestSpan, server_span
from ..wire import (
    ANSWERING,
    INTERNAL_ERROR,
    ExchangeEvent,
    ExchangeState,
    JsonObject,
    NotJsonError,
    RequestId,
    advance,
    encode_error,
    encode_result,
)
from ._context import ExchangeContext
from ._outgoing import OutgoingRequest

if TYPE_CHECKING:
    from ._context import Peer
    from ._run import HandlerRun

__all__ = ["IncomingRequest"]

_log = logging.getLogger("trio_mcp.peer")

_OPEN = ExchangeState.OPEN
"""By a name of its own, as in `_asked`."""


@define(eq=False)
class IncomingRequest(abc.ABC):
    """A request to be answered. Owns no task; responding and notifying put into somebody's queue and never wait."""

    method: str
    params: JsonObject | None
    context: ExchangeContext
    id: RequestId
    """What the other side calls it."""
    peer: Peer
    """The other end of the connection that it came by."""
    run: HandlerRun | None = field(default=None, init=False)
    """The handler that works for this exchange now."""
    state: ExchangeState = field(default=_OPEN, init=False)
    _span: RequestSpan | None = field(default=None, init=False)
    """What stands for it in a trace, if somebody traces."""

    def begin_span(self) -> RequestSpan | None:
        """Begin the span of this request, which ends with it; None where nobody traces."""
        context = self.context
        self._span = server_span(self.method, self.params, context.meta, context.revision, self.id)
        return self._span

    @property
    def open(self) -> bool:
        """Whether a response is still owed."""
        return self.state is _OPEN

    def respond(self, outcome: JsonObject | McpError) -> None:
        """Send the response. The caller has waited for `room`, or the response is small and made by the reader.

        Raises:
            LocalProtocolError: the exchange has been answered or cancelled before.
        """
        if self.run is not None and self.run.last_updates is not None:
            self.run.last_updates()
        self.state = advance(ANSWERING, self.state, ExchangeEvent.RESPONSE)
        self._untie()
        self._send(outcome)
        if self._span is not None:
            self._span.answered(outcome)

    def notify(self, method: str, params: JsonObject) -> None:
        """Send an update that belongs to this exchange; dropped when the exchange is over.

        Raises:
            NotJsonError: *params* hold something that JSON cannot say.
        """
        if self.open:
            self._notify(method, params)

    def cancel(self, reason: str) -> None:
        """Stop the run tied to this exchange: its asking side does not want the answer any more."""
        self._stop(ExchangeEvent.CANCEL, reason)

    def disconnect(self) -> None:
        """Stop the run tied to this exchange: there is nobody left to answer."""
        self._stop(ExchangeEvent.LOSS, "the connection is gone")

    def detach(self, retry_ms: int | None) -> None:
        """End what carries the answer, but not the exchange: the other side comes back for the rest.

        Does nothing where one connection carries everything, or where what is said meanwhile would be lost.

        Args:
            retry_ms: after how many milliseconds it shall come back; None leaves that to the transport.
        """
        del retry_ms

    @property
    def endless(self) -> bool:
        """Whether it is answered only when somebody ends it: nothing is gained by waiting for that."""
        return self.run is not None and self.run.last_words is not None

    def abandon(self) -> None:
        """Answer that the server stops, or what its run wants to have answered then, and stop the run."""
        run = self.run
        if run is not None and run.last_words is not None:
            self._conclude(run.last_words())
        else:
            self.respond(McpError(INTERNAL_ERROR, "the server stopped before the request was done"))
        if run is not None:
            run.stop("the server stops")

    def _stop(self, event: ExchangeEvent, reason: str) -> None:
        was_open, run = self.open, self.run
        self.state = advance(ANSWERING, self.state, event)
        self._untie()
        if was_open:
            self._end()
            if self._span is not None:
                self._span.failed("cancelled" if event is ExchangeEvent.CANCEL else "connection_lost")
        if run is not None:
            run.stop(reason)

    def _untie(self) -> None:
        if self.run is not None:
            self.run.slots.forget(self.run)
            self.run.exchange = None
            self.run = None

    def _encoded(self, outcome: JsonObject | McpError) -> tuple[bytes, JsonObject | McpError]:
        """Return the line of the response, and what it says: an error where JSON cannot say *outcome*."""
        try:
            return self._line_of(outcome), outcome
        except NotJsonError as exc:
            _log.error("the answer to %r cannot be sent: %s", self.method, exc)  # the text says it all
        refusal = McpError(INTERNAL_ERROR, f"the answer to {self.method!r} is not JSON; the log says where")
        return self._line_of(refusal), refusal

    def _line_of(self, outcome: JsonObject | McpError) -> bytes:
        if isinstance(outcome, McpError):
            return encode_error(self.id, outcome.code, outcome.message, outcome.data)
        return encode_result(self.id, outcome)

    def _conclude(self, result: JsonObject) -> None:
        """Respond to an endless exchange, because this side ends it."""
        self.respond(result)

    @abc.abstractmethod
    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Return a request to the other side that belongs to this exchange; enter it to send it, leave it to end it."""

    def may_be_answered_here(self) -> bool:
        """Whether a handler that cannot wait may run, and answer, before whoever brings the request goes on."""
        return self.has_room()

    @abc.abstractmethod
    def has_room(self) -> bool:
        """Whether a message may be queued now without waiting."""

    @abc.abstractmethod
    async def room(self) -> None:
        """Wait until a message may be queued; raises `ConnectionLost` where none ever will."""

    @abc.abstractmethod
    def _send(self, outcome: JsonObject | McpError) -> None:
        """Queue the response and forget the exchange."""

    @abc.abstractmethod
    def _notify(self, method: str, params: JsonObject) -> None:
        """Queue an update."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Forget the exchange: it ended without a response."""
