"""Senders, and the bounds that they share, so that no sender can take a resource of the server from all others.

A sender is the authenticated principal of a request, or its network address if nobody is authenticated. Every bound of
a server that concerns several senders follows the rules of this file, whichever connection, session or revision the
requests use.

Rules of this file:

1. A bound is common to all senders. While it is not reached, a sender may use any part of it.
2. Once it is reached, the sender that uses the most gives way to a newcomer: it loses one of its entries. If the
   newcomer would then use as much as that sender or more, the newcomer is refused instead. So an entry is never lost to
   a sender that uses as much, and two senders cannot take an entry from each other in turn.
3. An IPv6 address counts as its /64 network, because one host usually has all the addresses of such a network.
"""

from __future__ import annotations

import heapq
import ipaddress
from collections.abc import Hashable, Iterable
from functools import lru_cache
from itertools import count, islice
from typing import Generic, TypeAlias, TypeVar

from attrs import define, field

__all__ = ["Sender", "SharedBound", "sender_of"]

Sender: TypeAlias = Hashable
"""The identity of a sender, made by `sender_of`; or the connection itself, if it has neither principal nor address."""

_NETWORK_BITS = 64
_STALE_BEFORE_CLEANUP = 64

E = TypeVar("E", bound=Hashable)


def sender_of(principal: str | None, address: str | None) -> Sender:
    """Return the sender of a request.

    Args:
        principal: the authenticated principal; None without authentication.
        address: the network address of the client without its port; None if there is none, as over a Unix socket.
    """
    return ("principal", principal) if principal is not None else ("address", _network(address))


@lru_cache(1024)
def _network(address: str | None) -> str | None:
    """Return the network that stands for *address* (rule 3)."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS), strict=False))


@define(eq=False)
class _Share(Generic[E]):
    """The entries of one sender."""

    entries: dict[E, int] = field(factory=dict[E, int])
    """The weight of each entry; the oldest entry is first, by the time of `add` or `renew`."""
    weight: int = 0
    """The sum of these weights."""
    noted: int = 0
    """The weight with which the heap knows the sender; never below `weight`."""


@define(eq=False)
class SharedBound(Generic[E]):
    """A bound that many senders share: on a number of entries, or on the sum of their weights, such as bytes.

    It only counts. Its owner adds and removes the entries, and ends the entries of a sender that gives way. Every
    operation takes logarithmic time at most.

    Args:
        most: the greatest sum of the weights of all entries.
    """

    most: int
    total: int = field(default=0, init=False)
    """The sum of the weights of all entries."""
    _shares: dict[Sender, _Share[E]] = field(factory=dict[Sender, "_Share[E]"], init=False, repr=False)
    _owners: dict[E, Sender] = field(factory=dict[E, Sender], init=False, repr=False)
    _heap: list[tuple[int, int, Sender]] = field(factory=list[tuple[int, int, Sender]], init=False, repr=False)
    """The senders by negative weight. An entry whose weight differs from `_Share.noted` is stale."""
    _order: count[int] = field(factory=count, init=False)
    """Numbers that keep the heap from comparing senders."""

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, entry: E) -> bool:
        return entry in self._owners

    @property
    def senders(self) -> int:
        """The number of senders that have entries."""
        return len(self._shares)

    def weight_of(self, sender: Sender) -> int:
        """Return the sum of the weights of a sender's entries."""
        share = self._shares.get(sender)
        return 0 if share is None else share.weight

    def entries_of(self, sender: Sender, most: int | None = None) -> Iterable[E]:
        """Return the entries of a sender, the oldest first; at most so many."""
        share = self._shares.get(sender)
        return () if share is None else list(islice(share.entries, most))

    def has_room(self, weight: int = 1) -> bool:
        """Return True if an entry of this weight fits."""
        return self.total + weight <= self.most

    def add(self, sender: Sender, entry: E, weight: int = 1) -> None:
        """Add an entry, or add weight to an entry of the same sender. The bound itself is not checked."""
        share = self._shares.get(sender)
        if share is None:
            share = self._shares[sender] = _Share[E]()
        share.entries[entry] = share.entries.get(entry, 0) + weight
        share.weight += weight
        self._owners[entry] = sender
        self.total += weight
        if share.weight > share.noted:
            self._note(sender, share)

    def remove(self, entry: E) -> None:
        """Remove an entry with all its weight. Harmless if there is none."""
        if entry in self._owners:
            self.reduce(entry, self._shares[self._owners[entry]].entries[entry])

    def reduce(self, entry: E, weight: int) -> None:
        """Take weight from an entry, which is removed when none is left."""
        sender = self._owners[entry]
        share = self._shares[sender]
        share.entries[entry] -= weight
        share.weight -= weight
        self.total -= weight
        if not share.entries[entry]:
            del share.entries[entry], self._owners[entry]
            if not share.entries:
                del self._shares[sender]
                if not self._shares:  # frees the memory of many former entries
                    self._shares.clear()
                    self._owners.clear()
                    self._heap.clear()

    def renew(self, entry: E) -> None:
        """Make an entry the newest one of its sender."""
        entries = self._shares[self._owners[entry]].entries
        entries[entry] = entries.pop(entry)

    def who_gives_way(self, newcomer: Sender, weight: int = 1) -> Sender | None:
        """Return the sender that shall lose an entry to one of *newcomer*; None if *newcomer* is refused (rule 2)."""
        heaviest = self.heaviest()
        if heaviest is None or self.weight_of(heaviest) <= self.weight_of(newcomer) + weight:
            return None
        return heaviest

    def oldest_to_give_way(self, newcomer: Sender, weight: int = 1) -> E | None:
        """Return the oldest entry of `who_gives_way`; None if *newcomer* is refused."""
        heaviest = self.who_gives_way(newcomer, weight)
        return None if heaviest is None else next(iter(self._shares[heaviest].entries))

    def heaviest(self) -> Sender | None:
        """Return the sender whose entries weigh the most; None if there are no entries."""
        while self._heap:
            negative, _, sender = self._heap[0]
            share = self._shares.get(sender)
            if share is not None and share.weight == -negative == share.noted:
                return sender
            heapq.heappop(self._heap)
            if share is not None and share.noted == -negative:  # it has become lighter since
                self._note(sender, share)
        return None

    def _note(self, sender: Sender, share: _Share[E]) -> None:
        share.noted = share.weight
        heapq.heappush(self._heap, (-share.weight, next(self._order), sender))
        if len(self._heap) > 2 * len(self._shares) + _STALE_BEFORE_CLEANUP:
            for each in self._shares.values():
                each.noted = each.weight
            self._heap = [(-each.weight, next(self._order), owner) for owner, each in self._shares.items()]
            heapq.heapify(self._heap)
