"""The byte budget of an HTTP application: what it receives and what waits to be read, of all clients together.

Rules of this file:

1. A request holds its body from the first byte until it is answered, the messages that wait for its response, and the
   part of the response that is being written. All of a large part stays in memory until its last byte is written, so
   all of it counts, also if the answer is complete and the client only does not read it. An outlet of a session holds
   the messages that wait in it.
2. A holder of a few bytes is not counted: the request itself needs more, and their number has other bounds.
3. Beyond the budget, the sender that holds the most gives way (`SharedBound`): of its holders, the one that has made no
   progress for the longest time is cut. A body whose sender would hold the most is refused instead.
4. A single holder may exceed the budget: the size of one answer is the choice of the server's author.
"""

from __future__ import annotations

import abc
import logging
import math
import sys

import trio
from attrs import define, field

from ...._errors import McpError
from ...._shares import Sender, SharedBound
from ....peer import BUSY
from ....wire import Refusal

__all__ = ["ByteBudget", "ByteHolder", "no_room"]

_log = logging.getLogger("trio_mcp.transports")

_FREE_BYTES = 4 * 2**10
"""The number of bytes that a holder may hold without being counted (rule 2)."""
_REPORT_SECONDS = 60.0
_RETRY_AFTER = "5"
"""The seconds after which a client that was refused may try again."""


def no_room() -> Refusal:
    """Return the refusal of a request whose bytes have no room."""
    why = "the server holds too many bytes (max_buffer_bytes), most of them for this client; try again later"
    return Refusal(503, McpError(BUSY, why), headers={"retry-after": _RETRY_AFTER})


@define(eq=False)
class ByteHolder(abc.ABC):
    """A request or an outlet that holds bytes of a client."""

    budget: ByteBudget = field(factory=lambda: ByteBudget(sys.maxsize), kw_only=True)
    held: int = field(default=0, init=False)
    """The number of bytes that it holds."""
    counted: int = field(default=0, init=False)
    """The number of bytes that the budget counts."""

    @abc.abstractmethod
    def find_sender(self) -> Sender:
        """Return the sender of these bytes, or their reader."""

    @abc.abstractmethod
    def on_cut(self) -> None:
        """Give the bytes up now, as far as possible; synchronous."""

    def hold(self, size: int) -> None:
        """Hold more bytes; that may cut any holder, also this one."""
        self.held += size
        if self.held > _FREE_BYTES:
            self.budget.count(self)

    def release(self, size: int) -> None:
        """Hold fewer bytes."""
        self.held -= size
        if self.counted:
            self.budget.count(self)

    def may_hold(self, size: int) -> bool:
        """Return True unless more bytes have to be refused (rule 3)."""
        return self.held + size <= _FREE_BYTES or self.budget.admits(self, size)

    def progressed(self) -> None:
        """Note that the client has taken or sent a part."""
        if self.counted:
            self.budget.renew(self)

    def forget(self) -> None:
        """Hold nothing any more."""
        self.release(self.held)


@define(eq=False)
class ByteBudget:
    """The bytes that all holders of one application hold together.

    Args:
        most: the maximum number.
    """

    most: int
    _shares: SharedBound[ByteHolder] = field(init=False)
    _cuts: int = field(default=0, init=False)
    _silent_until: float = field(default=-math.inf, init=False)
    """The time of the next line of the log, on Trio's clock."""

    def __attrs_post_init__(self) -> None:
        self._shares = SharedBound[ByteHolder](self.most)

    @property
    def total(self) -> int:
        """The number of bytes that are counted."""
        return self._shares.total

    def admits(self, holder: ByteHolder, size: int) -> bool:
        """Return True if *holder* may hold more bytes that it can still refuse."""
        if self._shares.has_room(size) or self._shares.who_gives_way(holder.find_sender(), size) is not None:
            return True
        self._report()
        return False

    def count(self, holder: ByteHolder) -> None:
        """Count what a holder holds now; if that is too much, cut those that give way (rule 3)."""
        now = holder.held if holder.held > _FREE_BYTES else 0
        more, holder.counted = now - holder.counted, now
        if more < 0:
            self._shares.reduce(holder, -more)
        elif more:
            self._shares.add(holder.find_sender(), holder, more)
            self._shares.renew(holder)
            while not self._shares.has_room(0) and len(self._shares) > 1:
                self._cut_one()

    def renew(self, holder: ByteHolder) -> None:
        """Note that a counted holder has made progress."""
        self._shares.renew(holder)

    def _cut_one(self) -> None:
        loser = self._shares.oldest_to_give_way(None, 0)
        assert loser is not None
        self._shares.remove(loser)
        loser.counted = 0
        self._report()
        loser.on_cut()

    def _report(self) -> None:
        self._cuts += 1
        now = trio.current_time()
        if now >= self._silent_until:
            self._silent_until = now + _REPORT_SECONDS
            what = "the bytes of requests and unread responses reach max_buffer_bytes"
            _log.warning("%s=%d: the client with the most gives way (so far %d times)", what, self.most, self._cuts)
