"""An HTTP client that sends exactly the requests a test writes and shows the raw responses."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from tests.interaction.over_http import URL
from tests.interaction.scripted_peers import ENVELOPE, INFO, MODERN, Json
from trio_mcp.transports import HttpEngine, HttpResponse
from trio_mcp.wire import REVISION_KEY, SseDecoder, SseEvent, decode, encode, is_array, is_object, request_fields

POST_FIELDS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
GET_FIELDS = {"accept": "text/event-stream"}
USUAL: Mapping[str, Mapping[str, str]] = {"POST": POST_FIELDS, "GET": GET_FIELDS, "DELETE": {}}
JSON, EVENTS = "application/json", "text/event-stream"


@define(eq=False)
class RawResponse:
    """One response, read step by step."""

    _response: HttpResponse
    _chunks: AsyncGenerator[bytes]
    body: bytes = field(default=b"", init=False)
    events: list[SseEvent] = field(factory=list[SseEvent], init=False)
    """The events that have arrived, if the response is a stream."""
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
        """Read to the end and return every message of the response."""
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
        """The messages that have arrived."""
        if self.kind == EVENTS:
            return [decode(event.data) for event in self.events if event.data]
        value: Any = decode(self.body) if self.body else []
        return [*value] if is_array(value) else [value]

    @property
    def answer(self) -> Any:
        """The last message that has arrived."""
        return self.messages[-1]

    @property
    def code(self) -> int | None:
        """The error code of the last message; None if it is a result or there is no message."""
        error: Any = self.answer.get("error") if self.messages else None
        return None if error is None else int(error["code"])


@define(eq=False)
class RawHttpClient:
    """A client that sends exactly the given requests.

    Args:
        engine: the HTTP engine.
        revision: the revision that messages and sessions name.
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
    ) -> AsyncGenerator[RawResponse]:
        """Make a request and yield its response while it arrives.

        Args:
            method: the HTTP method.
            message: the message to post; bytes are sent unchanged.
            headers: fields that add to or replace the required ones; None leaves one out.
        """
        body = b"" if message is None else message if isinstance(message, bytes) else encode(message)
        due: dict[str, str | None] = {**USUAL.get(method, {}), **self.fields, **_fields_of(message), **(headers or {})}
        sent = {name: value for name, value in due.items() if value is not None}
        async with (
            self._engine.request(method, self.url, sent, body) as response,
            aclosing(response.chunks()) as chunks,
        ):
            yield RawResponse(response, chunks)

    async def send(
        self, method: str, message: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> RawResponse:
        """Make a request and read the whole response."""
        async with self.open(method, message, headers) as got:
            await got.rest()
        return got

    async def post(self, message: Any, headers: Mapping[str, str | None] | None = None) -> RawResponse:
        return await self.send("POST", message, headers)

    async def post_and_never_read(self, message: Any) -> None:
        """Post a message and never read the response."""
        async with self.open("POST", message):
            await trio.sleep_forever()

    def request(self, method: str, params: Json | None = None, *, id: Any = 1, meta: Json | None = None) -> Json:
        """Return a request in the form of the client's revision; *meta* has further members of `_meta`."""
        return {"id": id, **self.notification(method, params, meta=meta)}

    def notification(self, method: str, params: Json | None = None, *, meta: Json | None = None) -> Json:
        """Return a notification in the form of the client's revision."""
        envelope: Json = {**(ENVELOPE if self.revision == MODERN else {}), **(meta or {})}
        given: Json = {**(params or {}), **({"_meta": envelope} if envelope else {})}
        return {"jsonrpc": "2.0", "method": method, **({"params": given} if given else {})}

    def call(self, tool: str, arguments: Json | None = None, *, id: Any = 1, meta: Json | None = None) -> Json:
        """Return a call of a tool."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}}, id=id, meta=meta)

    async def greet(self, capabilities: Json | None = None) -> RawResponse:
        """Begin a session in a revision that has them; return the response to `initialize`."""
        params = {"protocolVersion": self.revision, "capabilities": capabilities or {}, "clientInfo": INFO}
        got = await self.post(self.request("initialize", params, id="hello"))
        self.session = got.headers.get("mcp-session-id")
        assert (await self.post(self.notification("notifications/initialized"))).status == 202
        return got


def _fields_of(message: Any) -> Mapping[str, str]:
    """Return the header fields that mirror a modern message."""
    params: Any = message.get("params", {}) if is_object(message) else {}
    return request_fields(message["method"], params) if REVISION_KEY in params.get("_meta", {}) else {}
