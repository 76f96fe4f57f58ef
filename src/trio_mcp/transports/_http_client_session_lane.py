"""Where this side answers what the server of a session asks: each message a POST, one after the other.

There is a lane for each stream that questions come by. So what belongs to one exchange stays in order, and one answer
that does not get through holds up nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from attrs import define, field

from ..peer import Entry, Outbox

if TYPE_CHECKING:
    from ._http_client_session import Session
    from ._http_client_session_keeper import SessionKeeper

__all__ = ["ReplyLane"]


@define(eq=False)
class ReplyLane(Outbox):
    """A queue that has a task only while something is in it."""

    _keeper: SessionKeeper
    _session: Session | None
    """What its messages belong to; None for whatever session there is when they leave."""
    _is_draining: bool = field(default=False, init=False)

    @classmethod
    def of(cls, keeper: SessionKeeper, session: Session | None) -> Self:
        """Return an empty lane."""
        transport = keeper.transport
        limits = transport.limits
        return cls(limits.outbox_bytes, limits.outbox_urgent_bytes, transport.lose, keeper, session)

    def _append(self, entry: Entry) -> None:
        super()._append(entry)
        if self.size and not self._is_draining:
            self._is_draining = True
            self._keeper.draining.add(self)
            self._keeper.transport.nursery.start_soon(self._post_all)

    async def _post_all(self) -> None:
        try:
            while lines := self.take():
                for line in lines:
                    await self._keeper.tell(self._session or self._keeper.current, line)
                    self.sent(len(line))
        finally:
            self._is_draining = False
            self._keeper.draining.discard(self)
