"""An exchange without a transport, which records what would be sent."""

from __future__ import annotations

from collections.abc import Callable

import trio
from attrs import define, evolve, field

from trio_mcp import ConnectionLost, McpError
from trio_mcp.peer import NO_HEADERS, ExchangeContext, HandlerSlots, IncomingRequest, OutgoingRequest, ServerSession
from trio_mcp.types import REVISIONS
from trio_mcp.wire import JsonObject

CONTEXT = ExchangeContext(
    revision=REVISIONS[-1],
    capabilities={},
    peer_info=None,
    meta=NO_HEADERS,
    progress_token=None,
    log_level=None,
)


@define(eq=False)
class FakePeer:
    slots: HandlerSlots = field(factory=lambda: HandlerSlots(10, 10))
    listens: HandlerSlots = field(factory=lambda: HandlerSlots(10, 0))
    admission: ServerSession = field(factory=lambda: ServerSession(REVISIONS))

    def has_room(self) -> bool:
        raise NotImplementedError

    async def room(self) -> None:
        raise NotImplementedError

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        raise NotImplementedError

    def standalone_request(self, method: str, params: JsonObject) -> OutgoingRequest | None:
        raise NotImplementedError

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        raise NotImplementedError


@define(eq=False)
class FakeExchange(IncomingRequest):
    sent: list[JsonObject | McpError] = field(factory=list[JsonObject | McpError], init=False)
    notifications: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)
    endings: int = field(default=0, init=False)
    full: bool = field(default=False, init=False)
    emptied: trio.Event = field(factory=trio.Event, init=False)
    failure: Exception | None = field(default=None, init=False)

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        raise NotImplementedError

    def has_room(self) -> bool:
        return not self.full

    async def room(self) -> None:
        await self.emptied.wait()
        if self.failure is not None:
            raise self.failure

    def _send(self, outcome: JsonObject | McpError) -> None:
        self.sent.append(outcome)

    def _notify(self, method: str, params: JsonObject) -> None:
        self.notifications.append((method, params))

    def _end(self) -> None:
        self.endings += 1


def exchange(
    slots: HandlerSlots | None = None, method: str = "m", *, capabilities: JsonObject | None = None
) -> FakeExchange:
    context = evolve(CONTEXT, capabilities=capabilities or {})
    return FakeExchange(method, None, context, 1, FakePeer() if slots is None else FakePeer(slots))
