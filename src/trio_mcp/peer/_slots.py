"""Handler slots: how many handlers run at once, of each sender and of all senders together.

A sender is an authenticated principal, or else an address, over all its connections, sessions and revisions; a
connection without an address (a pipe, memory) is a sender of its own; see `_shares.py`.

Rules of this file:

1. A handler runs when its sender has a free slot and the limiter of the pool has a place for it. Until then its request
   waits in the queue of its sender.
2. A sender waits for a place of the limiter at most once, however many of its requests wait. When it gets one, it waits
   again.
3. A free place goes to the waiting sender that has the fewest places; equals take turns. Within one sender it is first
   come, first served.
4. A sender may take three times as many places as it leaves free: three quarters of them if it is the only one. So
   however many requests it makes, a newcomer finds a free place. A connection without an address is usually the only
   one of its server, and may take all places.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import trio
from attrs import define, field

from .._errors import McpError
from .._shares import Sender
from ._limits import BUSY, Limits

if TYPE_CHECKING:
    from ._handler_pool import HandlerRun

__all__ = ["FairLimiter", "HandlerSlots", "SenderSlots"]

Begin: TypeAlias = Callable[[], object]

_SHARE = 3
"""The number of places that a group may have for each place that it leaves to others (rule 4)."""


@define(eq=False)
class FairLimiter:
    """A capacity limiter that is fair between groups; see rules 3 and 4.

    Every operation takes constant time, except for the choice of the next group: that takes time in proportion to the
    different numbers of places that the waiting groups have. Not thread-safe.

    Args:
        capacity: how many places may be taken at once.
        leaves_places: True if a group may not take all places (rule 4).
    """

    capacity: int
    _leaves_places: bool = field(default=False, kw_only=True, alias="leaves_places")
    taken: int = field(default=0, init=False)
    """The number of places taken now."""
    waiting: int = field(default=0, init=False)
    """The number of callers that wait for a place."""
    _counts: dict[Hashable, int] = field(factory=dict[Hashable, int], init=False, repr=False)
    """The number of places that each group has, unless it has none or is alone."""
    _members: dict[Hashable, OrderedDict[Begin, None]] = field(
        factory=dict[Hashable, "OrderedDict[Begin, None]"], init=False, repr=False
    )
    """The waiting callers by group."""
    _queues: dict[int, OrderedDict[Hashable, None]] = field(
        factory=dict[int, "OrderedDict[Hashable, None]"], init=False, repr=False
    )
    """The waiting groups by the number of places that each has, in the order of their turns."""

    @property
    def groups(self) -> int:
        """The number of groups that wait."""
        return len(self._members)

    def has_place(self, group: Hashable) -> bool:
        """Return True if *group* could take a place now."""
        free = self.capacity - self.taken
        if free <= 0:
            return False
        count = self._counts.get(group, 0) if self._leaves_places else 0  # always 0 for a group that is alone
        return count == 0 or count < _SHARE * (free - 1)

    def take(self, group: Hashable) -> bool:
        """Take a place for *group* if it may have one now, and return True; `release` must follow."""
        if type(group) is HandlerSlots and group.is_alone:  # as below, for most calls over pipes and in memory
            if self.taken >= self.capacity:
                return False
        elif self.has_place(group):
            self._count(group, 1)
        else:
            return False
        self.taken += 1
        return True

    def _count(self, group: Hashable, change: int) -> None:
        """Count a change of the places of a group, unless it is alone."""
        if type(group) is HandlerSlots and group.is_alone:
            return
        count = self._counts.get(group, 0)
        if count + change:
            self._counts[group] = count + change
        else:
            del self._counts[group]
        if group in self._members:
            self._dequeue(group, count)
            self._enqueue(group)

    def _enqueue(self, group: Hashable) -> None:
        self._queues.setdefault(self._counts.get(group, 0), OrderedDict())[group] = None

    def _dequeue(self, group: Hashable, count: int) -> None:
        queue = self._queues[count]
        del queue[group]
        if not queue:
            del self._queues[count]

    def wait(self, group: Hashable, begin: Begin) -> None:
        """Call *begin*, with a place taken, when *group* gets one.

        Call this if `take` returned False, or right before `release`. Waiting twice with an equal *begin* is waiting
        once.

        Args:
            begin: synchronous, and must not raise.
        """
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = OrderedDict()
            self._enqueue(group)
        self.waiting += begin not in members
        members[begin] = None

    def forget(self, group: Hashable, begin: Begin) -> None:
        """Stop waiting for a place. Does nothing if *begin* does not wait.

        Args:
            group: the group in which it waits.
            begin: the function that was passed to `wait`.
        """
        members = self._members.get(group)
        if members is not None and begin in members:
            self._leave(group, members, begin)

    def _leave(self, group: Hashable, members: OrderedDict[Begin, None], begin: Begin) -> None:
        del members[begin]
        self.waiting -= 1
        if not members:
            del self._members[group]
            self._dequeue(group, self._counts.get(group, 0))

    async def acquire(self, group: Hashable) -> None:
        """Wait for a place and take it; `release` must follow. A cancel point: if cancelled, no place is taken.

        Args:
            group: the group that waits, usually the slots of a sender.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.take(group):
            return
        begin = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        self.wait(group, begin)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.forget(group, begin)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, group: Hashable) -> None:
        """Give a place of *group* back. If a group waits that may have it, that gets it at once."""
        self.taken -= 1
        if not (type(group) is HandlerSlots and group.is_alone):  # as in `take`
            self._count(group, -1)
        while self._queues:
            following = next(iter(self._queues[min(self._queues)]))
            if not self.has_place(following):
                return
            members = self._members[following]
            begin = next(iter(members))
            self._queues[self._counts.get(following, 0)].move_to_end(following)
            self._leave(following, members, begin)
            self.taken += 1
            self._count(following, 1)
            begin()


@define(eq=False)
class HandlerSlots:
    """The running and the waiting handlers of one sender.

    Args:
        max_running: the number of handlers that may run at once.
        max_waiting: the number of requests that may wait for a slot; more are refused with `BUSY`.
        listens: True if these are the slots of requests that listen for changes. They take no place of the limiter of
            the pool, because they last.
        is_alone: True if these are the slots of a connection without an address (rule 4).
    """

    max_running: int
    max_waiting: int
    listens: bool = False
    is_alone: bool = field(default=True, kw_only=True)
    running: int = field(default=0, init=False)
    """The number of handlers that have a slot."""
    _waiting: OrderedDict[HandlerRun, None] = field(factory=OrderedDict["HandlerRun", None], init=False)
    """An ordered set, so that a cancelled run is removed in constant time."""
    _limiter: FairLimiter = field(init=False)
    """The limiter of the pool, from the first request on."""

    def __attrs_post_init__(self) -> None:
        self._limiter = FairLimiter(self.max_running)

    @classmethod
    def for_listens(cls, most: int) -> Self:
        """Return the slots of at most *most* requests that listen for changes."""
        return cls(most, 0, listens=True)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return len(self._waiting)

    @property
    def queue(self) -> Sequence[HandlerRun]:
        """The runs that wait for a slot, in the order in which they get one."""
        return [*self._waiting]

    @property
    def full(self) -> bool:
        """True if another request would be refused as busy."""
        startable = self.running < self.max_running and self._limiter.has_place(self)
        return not startable and len(self._waiting) >= self.max_waiting

    def take(self, run: HandlerRun) -> None:
        """Start *run* now if a slot is free, and later otherwise; refuse its exchange as busy if too many wait."""
        if not self.listens:
            self._limiter = run.pool.limiter
        if self.running < self.max_running and self._limiter.take(self):
            self.running += 1
            run.begin()
        elif len(self._waiting) < self.max_waiting:
            if run.pending is None:  # else it continues
                run.since = time.perf_counter()
            self._waiting[run] = None
            self._wait_for_limiter()
        else:
            assert run.exchange is not None
            run.exchange.respond(McpError(BUSY, f"too busy: {self._reached_limits()}; try again later"))

    def adopt(self, run: HandlerRun) -> None:
        """Give *run*, which has begun with other slots, a slot of these; one is free, and they listen."""
        assert self.listens
        is_free = self.running < self.max_running and self._limiter.take(self)
        assert is_free
        self.running += 1
        run.has_slot = True

    def take_again(self, run: HandlerRun) -> None:
        """Continue *run*, which has given its slot back, when a slot is free: before the requests that wait."""
        if self.running < self.max_running and self._limiter.take(self):
            self.running += 1
            run.start()
        else:
            self._waiting[run] = None
            self._waiting.move_to_end(run, last=False)
            self._wait_for_limiter()

    def _reached_limits(self) -> str:
        """Return a sentence that names the reached limits."""
        if self.listens:
            return f"of this client's requests, {self.running} listen (Limits.max_listens)"
        if self.running >= self.max_running:
            running = f"of this client's requests, {self.running} run (Limits.max_in_flight)"
            return f"{running} and {self.waiting} wait (Limits.max_queued)"
        running = f"of all requests, {self._limiter.taken} run (Limits.max_running)"
        return f"{running}, and of this client's, {self.waiting} wait (Limits.max_queued)"

    def release(self) -> None:
        """Give a slot back. The next waiting run starts, of this sender or of another."""
        self.running -= 1
        if self._waiting:
            self._wait_for_limiter()
        self._limiter.release(self)

    def forget(self, run: HandlerRun) -> None:
        """Remove *run* from the waiting ones, if it waits, because its exchange is over."""
        if run in self._waiting:
            del self._waiting[run]
            if not self._waiting:
                self._limiter.forget(self, self._start_next)

    def _wait_for_limiter(self) -> None:
        """Wait for a place of the limiter, if a request waits and a slot is free."""
        if self._waiting and self.running < self.max_running:
            self._limiter.wait(self, self._start_next)

    def _start_next(self) -> None:
        """Start the next waiting run, with a place of the limiter."""
        run, _ = self._waiting.popitem(last=False)
        self.running += 1
        self._wait_for_limiter()
        run.start()


@define(eq=False)
class SenderSlots:
    """The handler slots of all senders of one serving.

    Slots exist while a connection, a session or a run refers to them.

    Args:
        limits: the limits of each sender.
    """

    _limits: Limits
    _slots: WeakValueDictionary[Sender, HandlerSlots] = field(
        factory=WeakValueDictionary[Sender, HandlerSlots], init=False
    )
    _listens: WeakValueDictionary[Sender, HandlerSlots] = field(
        factory=WeakValueDictionary[Sender, HandlerSlots], init=False
    )

    @classmethod
    def of(cls, serving: object, limits: Limits) -> SenderSlots:
        """Return the slots of a serving (`abc.Serving`) with these limits, the same for all its transports."""
        slots = _SENDERS.get(serving)
        if slots is None:
            slots = _SENDERS[serving] = cls(limits)
        return slots

    def for_requests(self, sender: Sender) -> HandlerSlots:
        """Return the slots that all requests of a sender share."""
        slots = self._slots.get(sender)
        if slots is None:
            slots = HandlerSlots(self._limits.max_in_flight, self._limits.max_queued, is_alone=False)
            self._slots[sender] = slots
        return slots

    def for_listens(self, sender: Sender) -> HandlerSlots:
        """Return the slots that all requests of a sender share that listen for changes."""
        slots = self._listens.get(sender)
        if slots is None:
            slots = self._listens[sender] = HandlerSlots.for_listens(self._limits.max_listens)
        return slots


_SENDERS: WeakKeyDictionary[object, SenderSlots] = WeakKeyDictionary()
"""The slots by serving. Kept here, so that a custom serving need not know of them."""
