"""A capacity limiter that is fair between groups, usually the senders of requests.

Rules of this file:

1. A free place goes to the waiting group that has the fewest places; equals take turns. Within one group it is first
   come, first served.
2. A group may take three times as many places as it leaves free: three quarters of them if it is the only one. So
   however much it wants, a newcomer finds a free place. This applies to limiters that are made so, and not to a group
   that is alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

import trio
from attrs import define, field

__all__ = ["FairLimiter", "LimitedGroup"]

Begin: TypeAlias = Callable[[], object]

_SHARE = 3
"""The number of places that a group may have for each place that it leaves to others (rule 2)."""


@define(eq=False)
class LimitedGroup:
    """A group that may take all places of a limiter, because it is alone."""

    is_alone: bool = field(default=True, kw_only=True)
    """True if there is no other group to leave places to."""


@define(eq=False)
class FairLimiter:
    """A capacity limiter that is fair between groups; see the rules above.

    Every operation takes constant time, except for the choice of the next group: that takes time in proportion to the
    different numbers of places that the waiting groups have. Not thread-safe.

    Args:
        capacity: how many places may be taken at once.
        leaves_places: True if a group may not take all places (rule 2).
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
        if isinstance(group, LimitedGroup) and group.is_alone:  # as below, for most calls over pipes and in memory
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
        if isinstance(group, LimitedGroup) and group.is_alone:
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
        """Stop waiting. Harmless if *begin* does not wait."""
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
        if not (isinstance(group, LimitedGroup) and group.is_alone):  # as in `take`
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
