"""The servers of a gateway, as an application sees them: what state they are in, and how they are started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import trio
from attrs import define, field, frozen

from .. import ConnectionLost, ServerStatus
from ..lowlevel import SupervisedServer
from ._mount import Mount
from ._upstream import UpstreamClient

__all__ = ["Upstream", "UpstreamStatus"]


@frozen(kw_only=True)
class UpstreamStatus:
    """The state of one server of a gateway: a snapshot."""

    state: Literal["connecting", "connected", "waiting", "failed", "closed", "idle"]
    """The state of its connection, or of the latest one if it has several; ``"idle"`` if it has none at present."""
    failure: Exception | None
    """The reason why the latest attempt failed, or why the connection was lost; None while connected."""
    restarts: int
    """The number of connections that replaced an earlier one."""
    retry_at: float | None
    """The time of the next attempt on Trio's clock, while the state is ``"waiting"``."""
    connections: int
    """The number of open connections: several, if callers have their own."""
    in_flight: int
    """The number of requests that it has not answered yet."""
    tools: int
    """The number of its tools that are shown."""


@define(eq=False)
class Upstream:
    """One server of a gateway. `Gateway.mount` makes it."""

    mount: Mount = field(repr=False)
    """The name, the address and the options with which it was mounted."""
    _clients: Callable[[Upstream], Sequence[UpstreamClient]] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the server in the gateway."""
        return self.mount.name

    @property
    def status(self) -> UpstreamStatus:
        """The state of the server: a snapshot."""
        clients = self._clients(self)
        latest: ServerStatus | None = next((each.status for each in reversed(clients) if each.status), None)
        return UpstreamStatus(
            state="idle" if latest is None else latest.state,
            failure=None if latest is None else latest.failure,
            restarts=sum(each.status.restarts for each in clients if each.status),
            retry_at=None if latest is None else latest.retry_at,
            connections=Counter(each.status.state for each in clients if each.status)["connected"],
            in_flight=sum(len(each.calls) for each in clients),
            tools=max((len(each.lists.get("tools", ())) for each in clients), default=0),
        )

    async def restart(self) -> None:
        """Close the connections to the server, and open them again at once; a process is started again.

        The calls in flight fail. A server that is idle stays so until it is needed.

        Raises:
            ConnectionBroken: the server could not be connected; the failure is the cause.
            ConnectionClosed: the server was removed meanwhile, or the gateway stops.
        """
        failures: list[ConnectionLost] = []

        async def restart(server: SupervisedServer) -> None:
            try:
                await server.restart()
            except ConnectionLost as failure:
                failures.append(failure)

        async with trio.open_nursery() as nursery:
            for server in [client.server for client in self._clients(self) if client.server is not None]:
                nursery.start_soon(restart, server)
        if failures:
            raise failures[0]
