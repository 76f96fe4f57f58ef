"""Where handlers live: one hall per serving, one run per handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import define, field

from ._limits import Limits
from ._parking import Parking
from ._run import Explain, Handler, Run
from ._turns import Turns

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._slots import Slots

__all__ = ["Hall"]


@define(eq=False)
class Hall:
    """The nursery of every handler of one serving, their number, and those that wait for answers."""

    nursery: trio.Nursery
    limits: Limits = field(factory=Limits)
    running: int = field(default=0, init=False)
    """Handlers that have started and not ended, cleaning up and waiting for answers included."""
    parking: Parking = field(init=False)
    """Those of them that wait for answers while nobody waits for them."""
    turns: Turns = field(init=False)
    """What the connections share: handlers that work at once."""

    def __attrs_post_init__(self) -> None:
        self.turns = Turns(self.limits.max_running)
        self.parking = Parking(self.limits.max_parked, self.limits.ask_seconds)

    def begin(
        self,
        exchange: Exchange,
        handler: Handler,
        explain: Explain,
        slots: Slots | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Answer *exchange* with what *handler* returns, as soon as a slot is free: in a task of the hall, or here.

        Args:
            explain: turns an exception of the handler into the answer. `OutOfTimeError` is the one for a handler that
                used up what `Run.allow` gave it.
            slots: where the handler takes its slot; by default where all requests of the connection do.
            waits: whether the handler may ever wait for something. One that never does may be done, and its exchange
                answered, when this returns.
        """
        peer = exchange.peer
        slots = slots or peer.slots
        exchange.run = run = Run(
            self, exchange, exchange.context, peer, exchange.method, handler, explain, slots, waits
        )
        slots.take(run)
