"""A serving whose requests already have a principal before a transport sets one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from attrs import define, evolve

from trio_mcp.abc import Serving
from trio_mcp.peer import NO_ORIGIN, Access, Admission, IncomingRequest, Limits, MessageOrigin, Peer
from trio_mcp.wire import JsonObject


@define(eq=False)
class ServingWithPrincipal:
    """A serving for one or more connections that continues after they close.

    Args:
        principal: the principal of every request; None for an anonymous client.
    """

    _serving: Serving
    _principal: str | None

    @property
    def _access(self) -> Access | None:
        return None if self._principal is None else Access(self._principal)

    @property
    def limits(self) -> Limits:
        return self._serving.limits

    def admission(self) -> Admission:
        return self._serving.admission()

    def answer(self, exchange: IncomingRequest) -> None:
        exchange.context = evolve(exchange.context, access=self._access)
        self._serving.answer(exchange)

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        self._serving.notified(method, params, peer, evolve(envelope, access=self._access))

    def stop(self) -> None:
        self._serving.stop()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Serving]:
        yield self
