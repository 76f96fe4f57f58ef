"""A raw client of the legacy revisions: a test decides when each HTTP request is sent, and sees all of it.

Its server has a tool for each event that can happen to a request.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from attrs import define, field, frozen

from tests.transports.http.asgi_caller import AsgiCaller, scope_of
from trio_mcp import Context, Limits, MemoryEventStore, Server, SessionSettings, http_app
from trio_mcp.transports import HttpApp
from trio_mcp.transports.http.server._legacy_session_manager import SessionStatistics
from trio_mcp.wire import JsonObject, SseDecoder, SseEvent, is_object

LATEST = "2025-11-25"
SESSION, VERSION, LAST_EVENT = "mcp-session-id", "mcp-protocol-version", "last-event-id"
LIMITS = Limits(drain_seconds=5.0, outbox_bytes=1000, max_logs_per_second=math.inf)


@frozen
class Seats:
    count: int


@define(eq=False)
class ToolServer:
    """A server with a tool for each event that can happen to a request, and a log of its handlers."""

    limits: Limits = LIMITS
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    server: Server = field(init=False)
    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("tools", limits=self.limits, **self.options)
        for tool in (
            self.add,
            self.wait,
            self.log_twice,
            self.flood,
            self.elicit_seats,
            self.show_context,
            self.close_stream,
        ):
            self.server.tool(tool)

        @self.server.resource("test://seats")
        async def seats() -> str:
            return "7"

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def wait(self) -> str:
        """Wait until the test sets `go`."""
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        self.log.append("done")
        return "done"

    async def log_twice(self, words: list[str], ctx: Context) -> str:
        """Log words, wait until the test sets `go`, and log them again."""
        for word in words:
            await ctx.log("info", word)
        await self.wait()
        for word in words:
            await ctx.log("info", f"{word} again")
        return "logged"

    async def flood(self, count: int, ctx: Context) -> int:
        """Log many lines of more than 100 bytes."""
        for done in range(count):
            await ctx.log("info", "x" * 100)
            self.log.append(f"logged {done}")
        return count

    async def elicit_seats(self, ctx: Context, late: bool = False, after: str = "") -> str:
        """Ask the user for a number; with *late* once the test has set `go`, with *after* once that word is logged."""
        if late:
            await self.go.wait()
        if after:
            await ctx.log("info", after)
            await trio.testing.wait_all_tasks_blocked()  # the word is being sent
        try:
            answer = await ctx.elicit("How many?", Seats)
        except Exception as exc:
            self.log.append(f"{type(exc).__name__}: {exc}")
            raise
        self.log.append("answered")
        return repr(answer)

    async def show_context(self, ctx: Context) -> str:
        return f"{ctx.principal} {sorted(ctx.headers)}"

    async def close_stream(self, ctx: Context, retry: float | str | None = None, times: int = 1) -> str:
        """Close the stream of the client, then wait until the test sets `go`."""
        await ctx.log("info", "before")
        for _ in range(times):
            await ctx.close_stream(retry=None if retry is None else float(retry))
        await ctx.log("info", "after")
        return await self.wait()


def call(tool: str, id: str | int = 2, **arguments: Any) -> JsonObject:
    """Return the request that calls a tool."""
    return message("tools/call", {"name": tool, "arguments": arguments}, id)


def message(method: str, params: JsonObject | None = None, id: str | int | None = None) -> JsonObject:
    """Return a request, or a notification without an id."""
    body: JsonObject = {"jsonrpc": "2.0", "method": method}
    return body | ({} if params is None else {"params": params}) | ({} if id is None else {"id": id})


def initialize(revision: str = LATEST, **capabilities: Any) -> JsonObject:
    """Return the request that opens a session."""
    client = {"name": "raw", "version": "1"}
    return message(
        "initialize", {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}, id=1
    )


def events_of(caller: AsgiCaller) -> list[SseEvent]:
    """Return the events of a stream so far."""
    return list(SseDecoder(2**30).feed(caller.body))


def text_of(caller: AsgiCaller) -> str:
    """Return the text of the last result of a tool."""
    text: str = caller.answer["result"]["content"][0]["text"]
    return text


def logged(caller: AsgiCaller) -> list[str]:
    """Return the data of the log messages of a stream."""
    messages = [each for each in caller.messages if is_object(each)]  # not an array of answers
    return [each["params"]["data"] for each in messages if each.get("method") == "notifications/message"]


@define(eq=False)
class RawSessionClient:
    """A client whose requests the test sends one by one."""

    app: HttpApp
    nursery: trio.Nursery
    headers: dict[str, str] = field(factory=dict[str, str])
    """The header fields of every request."""

    async def begin(self, revision: str = LATEST, **capabilities: Any) -> RawSessionClient:
        """Perform the handshake."""
        begun = await self.post(initialize(revision, **capabilities))
        self.headers |= {SESSION: begun.headers[SESSION], VERSION: revision}
        done = await self.post(message("notifications/initialized"))
        assert done.status == 202
        return self

    async def post(self, body: Any, **headers: str) -> AsgiCaller:
        """POST a body and wait for the whole response."""
        return await self.caller(body, **headers).run(self.app)

    async def request(self, method: str, **headers: str) -> AsgiCaller:
        """Send a request without a body and wait for the whole response."""
        return await self._bodyless(method, headers).run(self.app)

    def start(self, body: Any, **headers: str) -> AsgiCaller:
        """POST a body in the background."""
        return self._started(self.caller(body, **headers))

    def get(self, last_event: str | None = None, **headers: str) -> AsgiCaller:
        """Open an event stream in the background."""
        resuming = {} if last_event is None else {LAST_EVENT: last_event}
        return self._started(self._bodyless("GET", {**headers, **resuming}))

    def caller(self, body: Any, **headers: str) -> AsgiCaller:
        """Return a POST that is not sent yet."""
        return AsgiCaller.post(body, {**self.headers, **_fields(headers)})

    def _bodyless(self, method: str, headers: Mapping[str, str]) -> AsgiCaller:
        return AsgiCaller(scope_of(method, headers={**self.headers, **_fields(headers)}))

    def _started(self, caller: AsgiCaller) -> AsgiCaller:
        self.nursery.start_soon(caller.run, self.app)
        return caller


def _fields(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def open_session_client(
    tool_server: ToolServer, *, resumable: bool = False, keep_alive: float = 15.0, **settings: Any
) -> AsyncGenerator[RawSessionClient]:
    """Run an application for the server, and yield a client without a session."""
    if resumable:
        settings["event_store"] = MemoryEventStore()
    sessions = SessionSettings(**settings)
    app = http_app(tool_server.server, sessions=sessions, keep_alive=keep_alive)
    async with trio.open_nursery() as nursery, app.run():
        yield RawSessionClient(app, nursery)


def session_statistics(client: RawSessionClient) -> SessionStatistics:
    """Return the statistics of the application's sessions."""
    running = client.app._router.running
    assert running is not None
    return running.sessions.statistics()
