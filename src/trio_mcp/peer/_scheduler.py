"""How many handlers of one connection run at once, and who waits: first come, first served, connections in turn.

Rules of this file:

1. A handler runs when its connection has a slot free and the serving has a turn free (`Hall.turns`). Until then its
   request waits, in the queue of its connection.
2. A connection stands in line for a turn once, however many of its requests wait. When it has got one it stands in
   line again, behind the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias

import trio
from attrs import define, field

from .._errors import McpError

if TYPE_CHECKING:
    from ._run import HandlerRun

__all__ = ["BUSY", "FairLimiter", "HandlerSlots"]


# What connections share, and take in turns: nobody's flood keeps the others waiting for more than a turn each.
#
# Rules of this file:
#
# 1. Who waits belongs to a group. Whenever somebody gives a turn back, the group that has waited longest for one gets
# it;
#    inside a group it is first come, first served.
# 2. A turn that is given back while somebody waits passes on directly: whoever comes just then queues like everybody.
# 3. A group is known only while somebody of it waits.

Begin: TypeAlias = Callable[[], object]


@define(eq=False)
class FairLimiter:
    """A bound on how many do something at once, fair between groups. Every operation takes constant time.

    Not safe from other threads, as nothing in Trio is.

    Args:
        capacity: turns that may be taken at once.
    """

    capacity: int
    taken: int = field(default=0, init=False)
    """Turns taken now."""
    waiting: int = field(default=0, init=False)
    """How many wait for one."""
    _groups: OrderedDict[Hashable, OrderedDict[Begin, None]] = field(
        factory=OrderedDict[Hashable, "OrderedDict[Begin, None]"], init=False
    )
    """Who waits, by group, in the order in which the groups get their next turn. Nobody waits while one is free."""

    @property
    def groups(self) -> int:
        """Groups of which somebody waits."""
        return len(self._groups)

    @property
    def free(self) -> bool:
        """Whether a turn could be taken now."""
        return self.taken < self.capacity

    def take(self) -> bool:
        """Take a turn if one is free; `release` must follow."""
        if self.taken >= self.capacity:
            return False
        self.taken += 1
        return True

    def wait(self, group: Hashable, begin: Begin) -> None:
        """Call *begin* when the turn of *group* has come; it holds the turn then.

        For whoever could not `take` one, or is about to `release` one. Waiting twice with an equal *begin* is waiting
        once.

        Args:
            begin: synchronous, and must not raise.
        """
        members = self._groups.setdefault(group, OrderedDict())
        self.waiting += begin not in members
        members[begin] = None

    def forget(self, group: Hashable, begin: Begin) -> None:
        """Wait no longer; harmless where nobody did."""
        members = self._groups.get(group)
        if members is not None and begin in members:
            del members[begin]
            self.waiting -= 1
            if not members:
                del self._groups[group]

    async def acquire(self, group: Hashable) -> None:
        """Take a turn, when that of *group* has come; `release` must follow. A cancel point; cancelled, none is taken.

        Args:
            group: on whose account: a connection, usually.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.take():
            return
        begin = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        self.wait(group, begin)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.forget(group, begin)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self) -> None:
        """Give a turn back; if somebody waits, it is the next one's at once."""
        if not self._groups:
            self.taken -= 1
            return
        group, members = self._groups.popitem(last=False)
        begin, _ = members.popitem(last=False)
        self.waiting -= 1
        if members:
            self._groups[group] = members  # behind all others
        begin()


BUSY = -31_000
"""The error code, in the application's range, of a request refused because too many wait already."""


@define(eq=False)
class HandlerSlots:
    """The running and the waiting handlers of one connection.

    Args:
        max_running: handlers that run at once.
        max_waiting: requests that may wait for one to end; more are refused with `BUSY`.
        listens: whether they are those that listen for changes. These last, so they take no turns of others.
    """

    max_running: int
    max_waiting: int
    listens: bool = False
    running: int = field(default=0, init=False)
    _waiting: OrderedDict[HandlerRun, None] = field(factory=OrderedDict["HandlerRun", None], init=False)
    """A set in order: one that is cancelled while it waits is found at once."""
    _turns: FairLimiter = field(init=False)
    """What it shares with the other connections, since its first request."""

    def __attrs_post_init__(self) -> None:
        self._turns = FairLimiter(self.max_running)

    @classmethod
    def for_listens(cls, most: int) -> Self:
        """Return the room for *most* requests that listen for changes."""
        return cls(most, 0, listens=True)

    @property
    def waiting(self) -> int:
        """Requests that wait for a handler to end."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether another request would be refused as busy."""
        startable = self.running < self.max_running and self._turns.free
        return not startable and len(self._waiting) >= self.max_waiting

    def take(self, run: HandlerRun) -> None:
        """Start *run* now if a slot is free, later otherwise; answer its exchange as busy where too many wait."""
        if not self.listens:
            self._turns = run.pool.turns
        if self.running < self.max_running and self._turns.take():
            self.running += 1
            run.begin()
        elif len(self._waiting) < self.max_waiting:
            self._waiting[run] = None
            self._stand_in_line()
        else:
            assert run.exchange is not None
            run.exchange.respond(McpError(BUSY, f"too busy: {self._busy_with()}; try again later"))

    def _busy_with(self) -> str:
        """Say which limits are reached."""
        if self.listens:
            return f"of this connection's requests, {self.running} listen (Limits.max_listens)"
        if self.running >= self.max_running:
            running = f"of this connection's requests, {self.running} run (Limits.max_in_flight)"
            return f"{running} and {self.waiting} wait (Limits.max_queued)"
        running = f"of all requests, {self._turns.taken} run (Limits.max_running)"
        return f"{running}, and of this connection's, {self.waiting} wait (Limits.max_queued)"

    def release(self) -> None:
        """Give a slot back; the next waiting run starts, of this connection or of another."""
        self.running -= 1
        if self._waiting:
            self._stand_in_line()
        self._turns.release()

    def forget(self, run: HandlerRun) -> None:
        """Let *run* wait no longer, if it does: its exchange is over."""
        if run in self._waiting:
            del self._waiting[run]
            if not self._waiting:
                self._turns.forget(self, self._begin_next)

    def _stand_in_line(self) -> None:
        """Wait for a turn, if one could be used."""
        if self._waiting and self.running < self.max_running:
            self._turns.wait(self, self._begin_next)

    def _begin_next(self) -> None:
        """It is this connection's turn."""
        run, _ = self._waiting.popitem(last=False)
        self.running += 1
        self._stand_in_line()
        run.start()
