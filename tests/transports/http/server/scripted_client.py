"""A client of the older revisions made by hand: a test decides when each HTTP request is made, and sees all of it.

The server that it talks to has a tool for each thing that may happen to a request.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from attrs import define, field, frozen

from tests.transports.http.asgi_caller import Caller, scope_of
from trio_mcp import Context, Limits, MemoryEventStore, Server, SessionSettings, http_app
from trio_mcp.transports import HttpApp
from trio_mcp.transports.http.server._legacy_session_manager import SessionStatistics
from trio_mcp.wire import JsonObject, SseDecoder, SseEvent, is_object

LATEST = "2025-11-25"
SESSION, VERSION, LAST_EVENT = "mcp-session-id", "mcp-protocol-version", "last-event-id"
ROOMY = Limits(drain_seconds=5.0, outbox_bytes=1000, max_logs_per_second=math.inf)


@frozen
class Seats:
    count: int


@define(eq=False)
class Theatre:
    """A server, and what its handlers have done."""

    limits: Limits = ROOMY
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    server: Server = field(init=False)
    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("theatre", limits=self.limits, **self.options)
        for tool in (self.add, self.wait, self.say, self.flood, self.book, self.seen, self.let_go):
            self.server.tool(tool)

        @self.server.resource("house://seats")
        async def seats() -> str:
            return "7"

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def wait(self) -> str:
        """Wait until the test says go."""
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        self.log.append("gone")
        return "went"

    async def say(self, words: list[str], ctx: Context) -> str:
        """Log something, wait until the test says go, and log it again."""
        for word in words:
            await ctx.log("info", word)
        await self.wait()
        for word in words:
            await ctx.log("info", f"{word} again")
        return "said"

    async def flood(self, count: int, ctx: Context) -> int:
        """Log many lines of more than 100 bytes."""
        for done in range(count):
            await ctx.log("info", "x" * 100)
            self.log.append(f"said {done}")
        return count

    async def book(self, ctx: Context, late: bool = False, after: str = "") -> str:
        """Ask how many, perhaps after the test has said go, or a word has been logged."""
        if late:
            await self.go.wait()
        if after:
            await ctx.log("info", after)
            await trio.testing.wait_all_tasks_blocked()  # it is on its way
        try:
            answer = await ctx.elicit("How many?", Seats)
        except Exception as exc:
            self.log.append(f"{type(exc).__name__}: {exc}")
            raise
        self.log.append("booked")
        return repr(answer)

    async def seen(self, ctx: Context) -> str:
        return f"{ctx.principal} {sorted(ctx.headers)}"

    async def let_go(self, ctx: Context, retry: float | str | None = None, times: int = 1) -> str:
        """Let the client go, then wait until the test says go."""
        await ctx.log("info", "before")
        for _ in range(times):
            await ctx.close_stream(retry=None if retry is None else float(retry))
        await ctx.log("info", "after")
        return await self.wait()


def call(tool: str, id: str | int = 2, **arguments: Any) -> JsonObject:
    """Return the request that calls a tool."""
    return message("tools/call", {"name": tool, "arguments": arguments}, id)


def message(method: str, params: JsonObject | None = None, id: str | int | None = None) -> JsonObject:
    """Return a request, or, without id, a notification."""
    said: JsonObject = {"jsonrpc": "2.0", "method": method}
    return said | ({} if params is None else {"params": params}) | ({} if id is None else {"id": id})


def initialize(revision: str = LATEST, **capabilities: Any) -> JsonObject:
    """Return the request that begins a session."""
    client = {"name": "by hand", "version": "1"}
    return message(
        "initialize", {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}, id=1
    )


def events_of(caller: Caller) -> list[SseEvent]:
    """Return the events that a stream has brought so far."""
    return list(SseDecoder(2**30).feed(caller.body))


def text_of(caller: Caller) -> str:
    """Return the text of the tool's result that came last."""
    text: str = caller.answer["result"]["content"][0]["text"]
    return text


def logged(caller: Caller) -> list[str]:
    """Return what was logged on a stream."""
    messages = [each for each in caller.messages if is_object(each)]  # and no array of answers
    return [each["params"]["data"] for each in messages if each.get("method") == "notifications/message"]


@define(eq=False)
class ByHand:
    """One client."""

    app: HttpApp
    nursery: trio.Nursery
    headers: dict[str, str] = field(factory=dict[str, str])
    """Sent with every request."""

    async def begin(self, revision: str = LATEST, **capabilities: Any) -> ByHand:
        """Make the handshake."""
        begun = await self.post(initialize(revision, **capabilities))
        self.headers |= {SESSION: begun.headers[SESSION], VERSION: revision}
        done = await self.post(message("notifications/initialized"))
        assert done.status == 202
        return self

    async def post(self, said: Any, **headers: str) -> Caller:
        """Post something and wait for the whole response."""
        return await self.caller(said, **headers).run(self.app)

    async def request(self, method: str, **headers: str) -> Caller:
        """Make a request without a body and wait for the whole response."""
        return await self._bodyless(method, headers).run(self.app)

    def start(self, said: Any, **headers: str) -> Caller:
        """Post something."""
        return self._started(self.caller(said, **headers))

    def get(self, last_event: str | None = None, **headers: str) -> Caller:
        """Open an event stream."""
        resuming = {} if last_event is None else {LAST_EVENT: last_event}
        return self._started(self._bodyless("GET", {**headers, **resuming}))

    def caller(self, said: Any, **headers: str) -> Caller:
        """Return a POST that is not made yet."""
        return Caller.post(said, {**self.headers, **_fields(headers)})

    def _bodyless(self, method: str, headers: Mapping[str, str]) -> Caller:
        return Caller(scope_of(method, headers={**self.headers, **_fields(headers)}))

    def _started(self, caller: Caller) -> Caller:
        self.nursery.start_soon(caller.run, self.app)
        return caller


def _fields(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def open_theatre(
    theatre: Theatre, *, kept: bool = False, keep_alive: float = 15.0, **settings: Any
) -> AsyncGenerator[ByHand]:
    """Serve, and yield a client that has not begun a session."""
    if kept:
        settings["event_store"] = MemoryEventStore()
    sessions = SessionSettings(**settings)
    app = http_app(theatre.server, sessions=sessions, keep_alive=keep_alive)
    async with trio.open_nursery() as nursery, app.run():
        yield ByHand(app, nursery)


def sessions_of(client: ByHand) -> SessionStatistics:
    """Return what the sessions of the application hold."""
    running = client.app._router.running
    assert running is not None
    return running.sessions.statistics()
