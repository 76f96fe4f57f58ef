"""The server of the tests with programs that are not made for the protocol, and the messages that they send."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from attrs import define, field

from trio_mcp import Context, HttpBound, Limits, Server, serve_http
from trio_mcp.wire import CAPABILITIES_KEY, REVISION_KEY, JsonObject, request_fields

LEGACY, MODERN = "2025-11-25", "2026-07-28"
TIMEOUT_SECONDS = 90
"""Far more than a test needs, so that a test that hangs fails."""
CLIENT = {"name": "web", "version": "1"}
INITIALIZE: JsonObject = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT},
}
INITIALIZED: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
POST_FIELDS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@define(eq=False)
class WebServer:
    """A server whose handlers wait for the test, and report to it."""

    server: Server = field(init=False)
    go: trio.Event = field(factory=trio.Event, init=False)
    """Set by the test: `count` and `hold` go on."""
    waiting: Counter[str] = field(factory=Counter[str], init=False)
    """The handlers that wait."""
    ran: Counter[str] = field(factory=Counter[str], init=False)
    """The runs of `hold`, by the argument."""
    fields: Mapping[str, str] = field(factory=dict[str, str], init=False)
    """The header fields of the request of `count`."""
    cancelled: trio.Event = field(factory=trio.Event, init=False)
    """Set when `wait` is cancelled."""
    _changed: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("web", limits=Limits(max_progress_per_second=math.inf))
        for tool in (self.add, self.echo, self.count, self.hold, self.wait, self.change):
            self.server.tool(tool)

    async def until_waiting(self, tool: str, number: int = 1) -> None:
        """Wait until this number of handlers of *tool* waits."""
        while self.waiting[tool] < number:
            await self._changed.wait()

    def _note(self, tool: str) -> None:
        self.waiting[tool] += 1
        self._changed.set()
        self._changed = trio.Event()

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def echo(self, text: str) -> str:
        return text

    async def count(self, ctx: Context) -> str:
        """Send two progress updates, wait until the test sets `go`, send the third and end."""
        self.fields = ctx.headers
        await ctx.report_progress(1, 3)
        await ctx.report_progress(2, 3)
        self._note("count")
        await self.go.wait()
        await ctx.report_progress(3, 3)
        return "counted"

    async def hold(self, name: str) -> str:
        """Wait until the test sets `go`."""
        self.ran[name] += 1
        self._note("hold")
        await self.go.wait()
        return name

    async def wait(self) -> None:
        """Wait to be cancelled."""
        self._note("wait")
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.set()

    async def change(self) -> str:
        """Add a tool."""
        self.server.tools.add(self.add, name="added")
        return "changed"


@asynccontextmanager
async def serving(web: WebServer, **options: Any) -> AsyncGenerator[HttpBound]:
    """Serve at a free port for as long as the block lasts."""
    with trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:
            bound: HttpBound = await nursery.start(partial(serve_http, web.server, **{"port": 0, **options}))
            yield bound
            await bound.stop()


def request(method: str, params: JsonObject | None = None, *, id: int = 1) -> JsonObject:
    """Return a request of a session."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def call(tool: str, arguments: JsonObject | None = None, *, id: int = 1) -> JsonObject:
    """Return a call of a session; its progress has the token 7."""
    return request("tools/call", {"name": tool, "arguments": arguments or {}, "_meta": {"progressToken": 7}}, id=id)


def modern(message: JsonObject) -> JsonObject:
    """Return a message of a session as one of the modern revision."""
    params = message["params"]
    meta: JsonObject = {**params.get("_meta", {}), REVISION_KEY: MODERN, CAPABILITIES_KEY: {}}
    return {**message, "params": {**params, "_meta": meta}}


def fields_of(message: JsonObject, session: str | None = None) -> dict[str, str]:
    """Return the header fields of a POST of *message*, in a session or of the modern revision."""
    if REVISION_KEY in message.get("params", {}).get("_meta", {}):
        return {**POST_FIELDS, **request_fields(message["method"], message["params"])}
    in_session = {} if session is None else {"mcp-session-id": session, "mcp-protocol-version": LEGACY}
    return {**POST_FIELDS, **in_session}
