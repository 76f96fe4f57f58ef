"""An exchange without a transport: it writes down what would be sent."""

from __future__ import annotations

import trio
from attrs import define, field

from trio_mcp import McpError
from trio_mcp.peer import NO_HEADERS, Exchange, ExchangeContext, Slots
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
class FakeExchange(Exchange):
    sent: list[JsonObject | McpError] = field(factory=list[JsonObject | McpError], init=False)
    told: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)
    endings: int = field(default=0, init=False)
    full: bool = field(default=False, init=False)
    emptied: trio.Event = field(factory=trio.Event, init=False)
    failure: Exception | None = field(default=None, init=False)

    def has_room(self) -> bool:
        return not self.full

    async def room(self) -> None:
        await self.emptied.wait()
        if self.failure is not None:
            raise self.failure

    def _send(self, outcome: JsonObject | McpError) -> None:
        self.sent.append(outcome)

    def _tell(self, method: str, params: JsonObject) -> None:
        self.told.append((method, params))

    def _end(self) -> None:
        self.endings += 1


def exchange(slots: Slots | None = None, method: str = "m") -> FakeExchange:
    return FakeExchange(method, None, CONTEXT, slots or Slots(10, 10))
