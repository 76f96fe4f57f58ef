"""One request to an ASGI application, made by hand: what the application receives, and what it has sent so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import trio
from attrs import define, field

from trio_mcp.transports import AsgiApp, AsgiMessage
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    REVISION_KEY,
    JsonObject,
    SseDecoder,
    decode,
    encode,
    is_array,
    is_object,
    request_fields,
    sse_comment,
    stamp,
)

MODERN = "2026-07-28"
NEVER = 10_000.0
"""Seconds of the mock clock after which something will not happen any more."""
_USUAL = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream"}


def request(method: str, params: JsonObject | None = None, *, id: str | int | None = 1, **meta: Any) -> JsonObject:
    """Return a modern request, or a notification where *id* is None; *meta* are further members of its `_meta`."""
    envelope: JsonObject = {REVISION_KEY: MODERN, CAPABILITIES_KEY: {}, **meta}
    message = {"jsonrpc": "2.0", "method": method, "params": stamp(params, envelope)}
    return message if id is None else {**message, "id": id}


def call(tool: str, arguments: JsonObject | None = None, **meta: Any) -> JsonObject:
    """Return a modern request that calls a tool."""
    return request("tools/call", {"name": tool, "arguments": arguments or {}}, **meta)


def scope_of(
    method: str = "POST", path: str = "/mcp", headers: Mapping[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return the scope of a request."""
    lines = [(name.encode(), value.encode("latin-1")) for name, value in {**_USUAL, **(headers or {})}.items() if value]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.1"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 80),
        "method": method,
        "path": path,
        "query_string": b"",
        "root_path": "",
        "headers": lines,
        "client": ("127.0.0.1", 50_000),
        **more,
    }


@define(eq=False)
class Caller:
    """A client that makes one request, and may be slow or leave."""

    scope: dict[str, Any]
    pieces: Sequence[bytes] = (b"",)
    """The body, as it arrives."""
    sent: list[AsgiMessage] = field(factory=list[AsgiMessage], init=False)
    returned: trio.Event = field(factory=trio.Event, init=False)
    """Set when the application has returned."""
    _read: int = field(default=0, init=False)
    _left: trio.Event = field(factory=trio.Event, init=False)
    _reads: trio.Event = field(init=False)
    _news: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._reads = trio.Event()
        self._reads.set()

    @classmethod
    def post(cls, message: Any, headers: Mapping[str, str] | None = None, **more: Any) -> Caller:
        """Make a POST of a message, with the header fields of a modern client; an empty value leaves one out."""
        fields: dict[str, str] = {}
        if is_object(message) and "method" in message and REVISION_KEY in message.get("params", {}).get("_meta", {}):
            fields = request_fields(message["method"], message["params"])
        body = message if isinstance(message, bytes) else encode(message)
        return cls(scope_of(headers={**fields, **(headers or {})}, **more), (body,))

    async def run(self, app: AsgiApp) -> Caller:
        """Make the request; return when the application does."""
        try:
            await app(self.scope, self._receive, self._send)
        finally:
            self.returned.set()
        return self

    async def _receive(self) -> AsgiMessage:
        if self._read < len(self.pieces) and not self._left.is_set():
            self._read += 1
            await trio.lowlevel.checkpoint()
            return {
                "type": "http.request",
                "body": self.pieces[self._read - 1],
                "more_body": self._read < len(self.pieces),
            }
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        await trio.lowlevel.checkpoint()
        await self._reads.wait()
        if not self._left.is_set():
            self.sent.append(message)
            self._news.set()
            self._news = trio.Event()

    def leave(self) -> None:
        """Close the connection; what is sent from now on goes nowhere."""
        self._left.set()
        self._reads.set()

    def stop_reading(self) -> None:
        """Take nothing more, until `read_on`."""
        self._reads = trio.Event()

    def read_on(self) -> None:
        """Take what comes again."""
        self._reads.set()

    async def messages_are(self, count: int) -> None:
        """Wait until so many JSON-RPC messages have come."""
        while len(self.messages) < count:
            await self._news.wait()

    @property
    def status(self) -> int:
        """The status of the response."""
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        """Its header fields."""
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]} if self.sent else {}

    @property
    def body(self) -> bytes:
        """As much of its body as has come."""
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def complete(self) -> bool:
        """Whether it has come to its proper end."""
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    @property
    def streams(self) -> bool:
        """Whether it is an event stream."""
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def messages(self) -> list[Any]:
        """The JSON-RPC messages in it so far."""
        return list(self._messages())

    def _messages(self) -> Iterator[Any]:
        if self.streams:
            yield from (decode(event.data) for event in SseDecoder(2**30).feed(self.body) if event.data)
        elif self.body:
            value = decode(self.body)
            yield from value if is_array(value) else [value]

    @property
    def comments(self) -> int:
        """How many keep-alive comments have come."""
        return self.body.count(sse_comment())

    @property
    def answer(self) -> Any:
        """The last message."""
        return self.messages[-1]

    @property
    def code(self) -> int | None:
        """The code of the error that the last message is; None where it is a result."""
        error = self.answer.get("error")
        return None if error is None else error["code"]
