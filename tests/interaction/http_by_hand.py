"""A client over HTTP whose every request is written by hand, and which shows every response as it came."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from tests.interaction.by_hand import ENVELOPE, INFO, MODERN, Json
from tests.interaction.over_http import URL
from trio_mcp.transports import HttpEngine, HttpResponse
from trio_mcp.wire import REVISION_KEY, SseDecoder, SseEvent, decode, encode, is_array, is_object, request_fields

POST_FIELDS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
GET_FIELDS = {"accept": "text/event-stream"}
USUAL: Mapping[str, Mapping[str, str]] = {"POST": POST_FIELDS, "GET": GET_FIELDS, "DELETE": {}}
JSON, EVENTS = "application/json", "text/event-stream"


@define(eq=False)
class Got:
    """One response, as far as it has been read."""

    _response: HttpResponse
    _chunks: AsyncGenerator[bytes]
    body: bytes = field(default=b"", init=False)
    events: list[SseEvent] = field(factory=list[SseEvent], init=False)
    """Those that have come, if they are events."""
    retry_ms: int | None = field(default=None, init=False)
    _unread: deque[SseEvent] = field(factory=deque[SseEvent], init=False)
    _decoder: SseDecoder = field(factory=lambda: SseDecoder(2**24), init=False)

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def kind(self) -> str:
        """The media type of the body; empty where there is none."""
        return self.headers.get("content-type", "")

    async def event(self) -> SseEvent | None:
        """Wait for the next event; None when the stream has ended."""
        while not self._unread:
            if not await self._read():
                return None
        return self._unread.popleft()

    async def message(self) -> Any:
        """Wait for the next message in an event; None when the stream has ended."""
        while (event := await self.event()) is not None:
            if event.data:
                return decode(event.data)
        return None

    async def rest(self) -> list[Any]:
        """Read to the end; return the messages of all of it."""
        while await self._read():
            pass
        return self.messages

    async def _read(self) -> bool:
        chunk = await anext(self._chunks, b"")
        self.body += chunk
        if self.kind == EVENTS:
            events = self._decoder.feed(chunk)
            self.events += events
            self._unread += events
            self.retry_ms = self._decoder.retry_ms
        return bool(chunk)

    @property
    def messages(self) -> list[Any]:
        """Those that have come."""
        if self.kind == EVENTS:
            return [decode(event.data) for event in self.events if event.data]
        value: Any = decode(self.body) if self.body else []
        return [*value] if is_array(value) else [value]

    @property
    def answer(self) -> Any:
        """The last of them."""
        return self.messages[-1]

    @property
    def code(self) -> int | None:
        """The code of the error that the last message is; None where it is a result, or there is none."""
        error: Any = self.answer.get("error") if self.messages else None
        return None if error is None else int(error["code"])


@define(eq=False)
class HttpByHand:
    """Sends what a test wants to be sent.

    Args:
        engine: carries it.
        revision: what messages say that they speak; sessions are of that one.
    """

    _engine: HttpEngine
    revision: str = MODERN
    url: str = URL
    session: str | None = field(default=None, init=False)

    @property
    def fields(self) -> dict[str, str]:
        """The header fields that name the session and its revision."""
        if self.session is None:
            return {}
        version = {"mcp-protocol-version": self.revision} if self.revision >= "2025-06-18" else {}
        return {"mcp-session-id": self.session, **version}

    @asynccontextmanager
    async def open(
        self, method: str, message: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> AsyncGenerator[Got]:
        """Make a request, and show the response while it comes.

        Args:
            method: of HTTP.
            message: to post; bytes go as they are.
            headers: beside those that are due, or in place of them; None leaves one out.
        """
        body = b"" if message is None else message if isinstance(message, bytes) else encode(message)
        due: dict[str, str | None] = {**USUAL.get(method, {}), **self.fields, **_fields_of(message), **(headers or {})}
        sent = {name: value for name, value in due.items() if value is not None}
        async with (
            self._engine.request(method, self.url, sent, body) as response,
            aclosing(response.chunks()) as chunks,
        ):
            yield Got(response, chunks)

    async def send(self, method: str, message: Any = None, headers: Mapping[str, str | None] | None = None) -> Got:
        """Make a request, and read the whole response."""
        async with self.open(method, message, headers) as got:
            await got.rest()
        return got

    async def post(self, message: Any, headers: Mapping[str, str | None] | None = None) -> Got:
        return await self.send("POST", message, headers)

    async def post_and_never_read(self, message: Any) -> None:
        """Post a message, and leave the response where it is, for ever."""
        async with self.open("POST", message):
            await trio.sleep_forever()

    def request(self, method: str, params: Json | None = None, *, id: Any = 1, meta: Json | None = None) -> Json:
        """Return a request as its revision has them; *meta* are further members of its `_meta`."""
        return {"id": id, **self.notification(method, params, meta=meta)}

    def notification(self, method: str, params: Json | None = None, *, meta: Json | None = None) -> Json:
        """Return a notification as its revision has them."""
        envelope: Json = {**(ENVELOPE if self.revision == MODERN else {}), **(meta or {})}
        given: Json = {**(params or {}), **({"_meta": envelope} if envelope else {})}
        return {"jsonrpc": "2.0", "method": method, **({"params": given} if given else {})}

    def call(self, tool: str, arguments: Json | None = None, *, id: Any = 1, meta: Json | None = None) -> Json:
        """Return a call of a tool."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}}, id=id, meta=meta)

    async def greet(self, capabilities: Json | None = None) -> Got:
        """Begin a session, where the revision has them; return the answer to `initialize`."""
        params = {"protocolVersion": self.revision, "capabilities": capabilities or {}, "clientInfo": INFO}
        got = await self.post(self.request("initialize", params, id="hello"))
        self.session = got.headers.get("mcp-session-id")
        assert (await self.post(self.notification("notifications/initialized"))).status == 202
        return got


def _fields_of(message: Any) -> dict[str, str]:
    """Return the header fields that repeat what a modern message says."""
    params: Any = message.get("params", {}) if is_object(message) else {}
    return request_fields(message["method"], params) if REVISION_KEY in params.get("_meta", {}) else {}
