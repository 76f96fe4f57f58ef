"""A request of a client over HTTP, as whoever asks sees it, and the places that such requests take."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import ConnectionLost, LocalProtocolError
from ..peer import NO_HEADERS, AskedByMessage
from ..wire import LISTEN, REVISION_KEY, JsonObject, is_object, request_fields

if TYPE_CHECKING:
    from ._http_client import HttpTransport
    from ._http_client_carrier import Carrier

__all__ = ["AskedOverHttp", "Places", "fields_of", "says_revision"]


def says_revision(params: JsonObject | None) -> bool:
    """Tell whether a message says itself which revision it speaks."""
    meta = (params or {}).get("_meta")
    return is_object(meta) and REVISION_KEY in meta


def fields_of(method: str, params: JsonObject | None) -> Mapping[str, str]:
    """Return the header fields that repeat what a message which says its revision says.

    Raises:
        LocalProtocolError: the method, or a name, cannot stand in a field.
    """
    try:
        return request_fields(method, params)
    except ValueError as exc:
        raise LocalProtocolError(f"{method!r} cannot be sent over HTTP: {exc}") from None


@define(eq=False)
class Places:
    """Room for the requests that are under way at once."""

    most: int
    taken: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)
    _waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def free(self) -> bool:
        """Whether `wait` would return at once."""
        return self.taken < self.most or self._is_closed

    async def wait(self) -> None:
        """Wait for a place, to be taken without a checkpoint in between; also returns when none is given any more."""
        while not self.free:
            await self._waiting.park()
        self._waiting.unpark()  # the next one looks too, after this one has taken its place, or has failed to

    def give_back(self) -> None:
        """A place is free again."""
        self.taken -= 1
        self._waiting.unpark()

    def close(self) -> None:
        """Nobody need wait any more: the connection is gone."""
        self._is_closed = True
        self._waiting.unpark_all()


@define(eq=False)
class AskedOverHttp(AskedByMessage):
    """A request that goes out in a POST of its own."""

    _transport: HttpTransport
    line: bytes = field(default=b"", init=False)
    """The request as it was sent last, with its newline."""
    sent_fields: Mapping[str, str] = field(default=NO_HEADERS, init=False)
    """The header fields that go with it."""
    _carrier: Carrier | None = field(default=None, init=False)

    def is_awaited(self) -> bool:
        """Tell whether somebody still waits for the answer."""
        return self._transport.ledger.asked.get(self.id) is self

    @property
    def says_revision(self) -> bool:
        """Whether it says everything about itself."""
        return says_revision(self.params)

    @property
    def is_apart(self) -> bool:
        """Whether it takes no place of others: it lasts, or others may wait for it."""
        return self.method in {LISTEN, "initialize"}

    def begins_at_once(self) -> bool:
        """Whether a place is free."""
        return self.is_apart or self._transport.places.free

    async def _begin(self) -> None:
        transport = self._transport
        own = fields_of(self.method, self.params) if self.says_revision else NO_HEADERS
        if not self.is_apart:
            await transport.places.wait()
        if transport.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(transport.lost)
        self.line, self.sent_fields = self._issue(), {**own, **self.fields}
        self._leaving()
        self._carrier = transport.carry(self)

    def reissue(self) -> None:
        """Take a new id for another attempt; nobody waits for the answer to the one before.

        Raises:
            LocalProtocolError: its params are not JSON any more; then nobody waits for any answer.
        """
        self._transport.ledger.forget(self.id)
        self.line = self._issue()

    def withdraw(self) -> None:
        """Have the server stop, if it can know of the request."""
        assert self._carrier is not None
        self._carrier.stop()

    def finish(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome."""
        if self.method == "initialize" and not isinstance(outcome, Exception):
            self._transport.agreed(self.params, outcome)
        super().finish(outcome)
        assert self._carrier is not None
        self._carrier.answered(in_time=not isinstance(outcome, ConnectionLost))
