"""`subscriptions/listen`: a request that is told of changes until somebody ends it.

Rules of this file:

1. The acknowledgement is the first message of a subscription. Changes count from before it on, so none is lost.
2. What waits to be told is kept once for each list and resource; one that reads nothing holds no more than that.
3. A subscription ends when its client cancels it, or when the server stops: then what is known is told as far as there
   is room, and an empty result says that this was no accident.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import McpError
from ..peer import Exchange, Run
from ..wire import (
    ACKNOWLEDGED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
    Change,
    ChangeFilter,
    JsonObject,
    notification_of,
    stamp,
)
from ._changes import has_resource

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["listen", "listen_in"]

_log = logging.getLogger("trio_mcp.server")


def listen(serving: Serving, exchange: Exchange, params: types.SubscriptionsListenRequestParams) -> None:
    """Begin to answer `subscriptions/listen`.

    Raises:
        McpError: the refusal.
    """
    subscription = _subscribe(serving, exchange, params)
    serving.hall.begin(exchange, subscription.run, _explain, exchange.peer.listens)
    if exchange.run is not None:  # else there are too many already
        exchange.run.last_words = subscription.conclude


async def listen_in(
    run: Run, serving: Serving, exchange: Exchange, params: types.SubscriptionsListenRequestParams
) -> NoReturn:
    """Answer it in a run that has begun already.

    Raises:
        McpError: the refusal.
    """
    subscription = _subscribe(serving, exchange, params)
    run.last_words = subscription.conclude
    await subscription.run(run)


def _subscribe(serving: Serving, exchange: Exchange, params: types.SubscriptionsListenRequestParams) -> _Subscription:
    wanted, most = ChangeFilter.from_wire(params.notifications), serving.limits.max_subscriptions
    if len(wanted.resources) > most:
        fault = f"$.notifications.resourceSubscriptions: at most {most} resources, not {len(wanted.resources)}"
        raise McpError(INVALID_PARAMS, fault)
    return _Subscription(serving, exchange, _agreed(serving, wanted))


def _agreed(serving: Serving, wanted: ChangeFilter) -> ChangeFilter:
    """Return what the server tells of: what it has declared, and resources that it has."""
    agreed, known = wanted.within(serving.server.capabilities), serving.server.resources
    return evolve(agreed, resources=[uri for uri in agreed.resources if has_resource(known, uri)])


def _explain(failure: Exception) -> McpError:
    _log.error("a subscription failed", exc_info=failure)
    return McpError(INTERNAL_ERROR, "the subscription failed; the server's log says why")


@define(eq=False)
class _Subscription:
    """One of them, from its request to its end."""

    _serving: Serving
    _exchange: Exchange
    _agreed: ChangeFilter
    _told: frozenset[Change] = field(init=False)
    """All that it may be told of."""
    _acknowledged: bool = field(default=False, init=False)
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """A set in order: what is to be told."""
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._told = self._agreed.changes()

    async def run(self, _: Run) -> NoReturn:
        """Tell of changes until cancelled."""
        self._serving.changes.add(self)
        try:
            await self._room()
            self._acknowledge()
            while True:
                while not self._waiting:
                    await self._news.park()
                await self._room()
                self.tell_now()
        finally:
            self._serving.changes.discard(self)

    def changed(self, change: Change) -> None:
        """Take note of a change."""
        if change in self._told:
            self._waiting[change] = None
            self._news.unpark()

    def tell_now(self) -> None:
        """Tell of what waits, as far as there is room; of nothing before the acknowledgement."""
        while self._waiting and self._acknowledged and self._exchange.has_room():
            self._tell_next()

    def conclude(self) -> JsonObject:
        """Say what there is still to say, and return the result."""
        if not self._acknowledged:
            self._acknowledge()
        self.tell_now()
        meta = {SERVER_INFO_KEY: self._serving.server.info_json, SUBSCRIPTION_ID_KEY: self._exchange.id}
        return {"resultType": "complete", "_meta": meta}

    async def _room(self) -> None:
        if not self._exchange.has_room():
            await self._exchange.room()

    def _acknowledge(self) -> None:
        self._acknowledged = True
        self._tell(ACKNOWLEDGED, {"notifications": self._agreed.to_wire()})

    def _tell_next(self) -> None:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._tell(*notification_of(change))

    def _tell(self, method: str, params: JsonObject) -> None:
        self._exchange.notify(method, stamp(params, {SUBSCRIPTION_ID_KEY: self._exchange.id}))
