"""What connections share, and take in turns: nobody's flood keeps the others waiting for more than a turn each.

Rules of this file:

1. Who waits belongs to a group. Whenever somebody gives a turn back, the group that has waited longest for one gets it;
   inside a group it is first come, first served.
2. A turn that is given back while somebody waits passes on directly: whoever comes just then queues like everybody.
3. A group is known only while somebody of it waits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

import trio
from attrs import define, field

__all__ = ["Turns"]

Begin: TypeAlias = Callable[[], object]


@define(eq=False)
class Turns:
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
