"""The record of ids of one connection: which are pending on our side, which run on theirs, which were never known.

Ids we issue count up and are never used again, which satisfies every revision. Ids the peer issues mean something
only on its own connection and only while its request runs.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#requests
"""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import define, field

from ._jsonrpc import RequestId

__all__ = ["Ledger"]

Asked = TypeVar("Asked")
Answering = TypeVar("Answering")


@define(eq=False)
class Ledger(Generic[Asked, Answering]):
    """Who waits for which id."""

    asked: dict[RequestId, Asked] = field(factory=dict[RequestId, Asked], init=False)
    """Our requests that wait for a response."""
    answering: dict[RequestId, Answering] = field(factory=dict[RequestId, Answering], init=False)
    """The peer's requests that wait for ours."""
    unmatched: int = field(default=0, init=False)
    """Responses that nobody waited for: late ones, and ones never asked for."""
    _issued: int = field(default=0, init=False)

    def issue(self, asked: Asked) -> int:
        """Record a request of ours; return its new id."""
        self._issued += 1
        self.asked[self._issued] = asked
        return self._issued

    def settle(self, id: RequestId) -> Asked | None:
        """Strike out a request of ours that was answered; None (and a count) where nobody waits for *id*."""
        asked = self.asked.pop(id, None)
        if asked is None:
            self.unmatched += 1
        return asked

    def forget(self, id: RequestId) -> None:
        """Strike out a request of ours that its caller left."""
        self.asked.pop(id, None)

    def begin(self, id: RequestId, answering: Answering) -> bool:
        """Record a request of the peer; False, and nothing recorded, where *id* is running already."""
        return self.answering.setdefault(id, answering) is answering

    def end(self, id: RequestId) -> None:
        """Strike out a request of the peer that was answered or cancelled."""
        self.answering.pop(id, None)
