"""Room that every connection has for small kinds of work, beside the room for its requests."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from attrs import define, field

from ..peer import Peer, Slots

__all__ = ["Lanes"]


@define(eq=False)
class Lanes:
    """The slots of all connections, for each kind of work; none of it waits for another kind, or for handlers' turns.

    Args:
        max_running: how much of one kind runs at once, of one connection.
        max_waiting: how much of it waits; more is refused.
    """

    _max_running: int
    _max_waiting: int
    _lanes: WeakKeyDictionary[Peer, dict[str, Slots]] = field(
        factory=WeakKeyDictionary[Peer, dict[str, Slots]], init=False
    )

    def of(self, peer: Peer, kind: str = "") -> Slots:
        """Return those of one connection for one kind."""
        lanes = self._lanes.setdefault(peer, {})
        if kind not in lanes:
            lanes[kind] = Slots(self._max_running, self._max_waiting, listens=True)
        return lanes[kind]
