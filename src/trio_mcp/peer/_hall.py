"""Where handlers live: one hall per serving, one run per handler.

A Trio task never changes its nursery, so a handler that may outlive the request that began it must be *started* in a
nursery that outlives every request. That nursery is the hall's. A request that is cancelled stops its run
through the run's own scope, not through a parent task.

Rules of this file:

1. A run is tied to at most one exchange at a time. Either side may cut the tie; cutting is synchronous.
2. The boundary that turns a handler's failure into an answer stands outside the run's cancel scope. Inside it, a
   handler whose clean-up fails while it is cancelled raises a group that holds `Cancelled`, which no
   `except Exception` sees: it would take the whole hall down.
3. Whatever happens to a run, its slot is given back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

import trio
from attrs import define, field

from .._errors import ConnectionLost, McpError
from ..wire import INTERNAL_ERROR, JsonObject

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._slots import Slots

__all__ = ["Explain", "Hall", "Handler", "OutOfTimeError", "Run"]

_log = logging.getLogger("trio_mcp.peer")

Handler: TypeAlias = "Callable[[Run], Awaitable[JsonObject]]"
"""Does the work of one request; returns the result's JSON object or raises."""
Explain: TypeAlias = "Callable[[Exception], JsonObject | McpError]"
"""Turns what a handler raised into the answer its peer gets."""


class OutOfTimeError(Exception):
    """The handler used up the time that `Run.allow` gave it."""


@define(eq=False)
class Run:
    """One handler, from its first exchange to its last. `Context` is a view of it."""

    hall: Hall
    exchange: Exchange | None
    """The exchange it works for now; None when that was answered, cancelled or lost."""
    _handler: Handler
    _explain: Explain
    slots: Slots
    """Where it has its slot, or waits for one."""
    _origin: Exchange = field(init=False)
    _context: Context = field(factory=copy_context, init=False)
    """The context variables of whoever made the request; the run may be started by somebody else, later."""
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    last_words: Callable[[], JsonObject] | None = field(default=None, init=False)
    """Makes the answer of a handler that does not end by itself, when the server stops; None for all others."""

    def __attrs_post_init__(self) -> None:
        assert self.exchange is not None
        self._origin = self.exchange

    def start(self) -> None:
        """Start the run's only task; called once, when it has its slot."""
        self.hall.running += 1
        start = partial(self.hall.nursery.start_soon, self._drive, name=f"{self._origin.method} handler")
        self._context.run(start)

    def allow(self, seconds: float) -> None:
        """Let the handler work for at most *seconds* from now; what it is doing then is cancelled."""
        self.scope.deadline = trio.current_time() + seconds

    async def _drive(self) -> None:
        try:
            outcome = await self._work()
            if self.exchange is not None and not self.exchange.has_room():
                await self._wait_for_room(self.exchange)
            if self.exchange is not None:
                self.exchange.respond(outcome)
        finally:
            self.hall.running -= 1
            self.slots.release()
            if self.exchange is not None:
                self.exchange.abandon()

    async def _work(self) -> JsonObject | McpError:
        """Run the handler; return what to answer (rule 2)."""
        try:
            with self.scope:
                return await self._handler(self)
            failure: Exception = OutOfTimeError()  # or the exchange was cancelled: then nobody asks
        except Exception as exc:  # noqa: BLE001 # the one boundary between a handler and the server
            failure = exc
        except SystemExit as exc:  # the handler's own, or of code it calls; it does not speak for the server
            failure = RuntimeError(f"the handler tried to exit the process: sys.exit({exc.code!r})")
        except BaseExceptionGroup as group:
            cancelled, rest = group.split(trio.Cancelled)
            if cancelled is None or not isinstance(rest, ExceptionGroup):  # KeyboardInterrupt and its like pass
                raise
            _log.error(
                "a handler of %s failed while the server stopped", self._origin.method, exc_info=cast("Exception", rest)
            )
            raise cancelled from None  # the hall stops, and a clean-up failed
        if self.exchange is None:
            self._mourn(failure)
            return {}
        try:
            return self._explain(failure)
        except Exception:  # noqa: BLE001 # a text that cannot be made, say, must not cost the siblings anything
            _log.exception("a failure of %s cannot be explained", self._origin.method)
            return McpError(INTERNAL_ERROR, "internal error; the log says more")

    def _mourn(self, failure: Exception) -> None:
        """Log what nobody is left to hear."""
        if not isinstance(failure, OutOfTimeError | ConnectionLost):
            _log.error("a handler of %s failed after it was cancelled", self._origin.method, exc_info=failure)

    async def _wait_for_room(self, exchange: Exchange) -> None:
        with trio.CancelScope() as self.scope:  # the handler's own scope is spent; a cancellation must find this one
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.lose()


@define(eq=False)
class Hall:
    """The nursery of every handler of one serving, and their number."""

    nursery: trio.Nursery
    running: int = field(default=0, init=False)
    """Handlers that have started and not ended, cleaning up included."""

    def begin(self, exchange: Exchange, handler: Handler, explain: Explain, slots: Slots | None = None) -> None:
        """Answer *exchange* with what *handler* returns, in a task of the hall, as soon as a slot is free.

        Args:
            explain: turns an exception of the handler into the answer. `OutOfTimeError` is the one for a handler that
                used up what `Run.allow` gave it.
            slots: where the handler takes its slot; by default where all requests of the connection do.
        """
        slots = slots or exchange.peer.slots
        exchange.run = run = Run(self, exchange, handler, explain, slots)
        slots.take(run)
