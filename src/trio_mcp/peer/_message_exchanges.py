"""The two ends of an exchange that is made of messages."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import LocalProtocolError, McpError
from ..wire import (
    PROGRESS_TOKEN_KEY,
    SUBSCRIPTION_ID_KEY,
    JsonObject,
    NotJsonError,
    encode_notification,
    encode_request,
    stamp,
)
from ._asked import Asked
from ._exchange import Exchange
from ._lane import Lane
from ._outbox import Entry

if TYPE_CHECKING:
    from ._correspondent import Correspondent

__all__ = ["AskedByMessage", "Batch", "ExchangeByMessage"]


@define(eq=False)
class AskedByMessage(Asked):
    """A request of ours."""

    _correspondent: Correspondent
    _lane: Lane
    """Where it goes out."""
    _entry: Entry | None = field(default=None, init=False)

    def begins_at_once(self) -> bool:
        """Whether its lane has room."""
        return self._lane.has_room()

    def goes_by(self, lane: Lane) -> bool:
        """Whether it is sent in a lane, or was."""
        return self._lane is lane

    def waits_in(self, lane: Lane) -> bool:
        """Whether it is in the queue of a lane, and has not left."""
        return self._lane is lane and self._entry is not None and bool(self._entry.line)

    async def _begin(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._correspondent.room_in(self._lane)  # cancelled here: nothing was sent, and there is nothing to say
        if self._correspondent.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self._correspondent.lost)
        self._entry = self._lane.put(self._issue())
        self._leaving()

    def _issue(self) -> bytes:
        """Take a new id, under which an answer is awaited from now on; return the line of the request."""
        ledger, params = self._correspondent.ledger, self.params
        self.id = ledger.issue(self)
        if self.wants_updates:
            params = stamp(params, {PROGRESS_TOKEN_KEY: self.id})
        try:
            return encode_request(self.id, self.method, params)
        except NotJsonError as exc:
            ledger.forget(self.id)
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None

    def _cancel(self) -> None:
        self._correspondent.ledger.forget(self.id)
        self.withdraw()

    def withdraw(self) -> None:
        """Take the request back if it has not left, and tell the other side to stop if it has."""
        sent = self._entry is not None and not self._lane.withdraw(self._entry)
        if sent and self.method != "initialize":  # which is never cancelled
            self._lane.put_urgent(encode_notification("notifications/cancelled", {"requestId": self.id}))


@define(eq=False)
class ExchangeByMessage(Exchange):
    """A request of the other side."""

    _correspondent: Correspondent
    lane: Lane
    """Where its answer goes, and all that belongs to it."""
    _batch: Batch | None = None

    def ask(self, method: str, params: JsonObject | None) -> Asked:
        """Return a request that goes out where this one's answer will."""
        return self._correspondent.ask_in(self.lane, method, params)

    def has_room(self) -> bool:
        """Whether its lane has room."""
        return self.lane.has_room()

    def may_be_answered_here(self) -> bool:
        """Not in an array, which may hold thousands of requests: others would have to wait for all of them."""
        return self._batch is None and self.lane.has_room()

    async def room(self) -> None:
        """Wait for room in its lane."""
        await self.lane.room()

    def detach(self, retry_ms: int | None) -> None:
        """Let whoever reads its lane go, if the connection can do without."""
        self._correspondent.detach(self.lane, retry_ms)

    def _conclude(self, result: JsonObject) -> None:
        # Both pages are obeyed: that on subscriptions wants the result, that on cancellation demands the notice. The
        # result goes first, because there are clients that take a subscription for lost when the notice does.
        self.respond(result)
        params = {"requestId": self.id, "reason": "the server stops", "_meta": {SUBSCRIPTION_ID_KEY: self.id}}
        self.lane.put_urgent(encode_notification("notifications/cancelled", params))

    def _send(self, outcome: JsonObject | McpError) -> None:
        self._correspondent.ended(self)
        line, outcome = self._encoded(outcome)
        self._correspondent.gate.responded(self.method, success=not isinstance(outcome, McpError))
        if self._batch is not None:
            self._batch.settle(line)
        else:
            self.lane.put_urgent(line)  # the reader itself may have answered, and it cannot wait

    def _tell(self, method: str, params: JsonObject) -> None:
        self.lane.put(encode_notification(method, params))

    def _end(self) -> None:
        self._correspondent.ended(self)
        if self._batch is not None:
            self._batch.settle(None)


@define(eq=False)
class Batch:
    """The answers to one array of requests: they leave together, as an array, when the last one is there.

    Specification: https://modelcontextprotocol.io/specification/2025-03-26/basic#batching
    """

    _lane: Lane
    _answers: list[bytes] = field(factory=list[bytes], init=False)
    _open: int = field(default=1, init=False)
    """Requests not answered yet, and one more while the array is being read."""

    def expect(self) -> None:
        """Wait for the answer to one more request."""
        self._open += 1

    def add(self, line: bytes) -> None:
        """Take an answer that nobody was expected to give."""
        self._answers.append(line.rstrip())

    def settle(self, line: bytes | None) -> None:
        """Take the answer to an expected request; None where it was cancelled."""
        if line is not None:
            self.add(line)
        self._open -= 1
        if self._open == 0 and self._answers:  # urgent: the last one may have been refused, or cancelled, by the reader
            self._lane.put_urgent(b"[" + b",".join(self._answers) + b"]\n")

    def close(self) -> None:
        """The array has been read."""
        self.settle(None)
