"""A hand-made HTTP request to an ASGI application, and the response that it has sent so far."""

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
"""Seconds of the mock clock after which an event that has not happened never will."""
_DEFAULT_HEADERS = {
    "host": "localhost",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


def request(method: str, params: JsonObject | None = None, *, id: str | int | None = 1, **meta: Any) -> JsonObject:
    """Return a modern request, or a notification if *id* is None; *meta* are further members of its `_meta`."""
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
    lines = [
        (name.encode(), value.encode("latin-1"))
        for name, value in {**_DEFAULT_HEADERS, **(headers or {})}.items()
        if value
    ]
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
class AsgiCaller:
    """A client that sends one request, and can read slowly or disconnect."""

    scope: dict[str, Any]
    pieces: Sequence[bytes] = (b"",)
    """The parts of the body."""
    sent: list[AsgiMessage] = field(factory=list[AsgiMessage], init=False)
    returned: trio.Event = field(factory=trio.Event, init=False)
    """Set when the application has returned."""
    _read: int = field(default=0, init=False)
    _disconnected: trio.Event = field(factory=trio.Event, init=False)
    _is_reading: trio.Event = field(init=False)
    _message_sent: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._is_reading = trio.Event()
        self._is_reading.set()

    @classmethod
    def post(cls, message: Any, headers: Mapping[str, str] | None = None, **more: Any) -> AsgiCaller:
        """Return a POST of a message with the header fields of a modern client; an empty value omits the field."""
        fields: Mapping[str, str] = {}
        if is_object(message) and "method" in message and REVISION_KEY in message.get("params", {}).get("_meta", {}):
            fields = request_fields(message["method"], message["params"])
        body = message if isinstance(message, bytes) else encode(message)
        return cls(scope_of(headers={**fields, **(headers or {})}, **more), (body,))

    async def run(self, app: AsgiApp) -> AsgiCaller:
        """Send the request; return when the application returns."""
        try:
            await app(self.scope, self._receive, self._send)
        finally:
            self.returned.set()
        return self

    async def _receive(self) -> AsgiMessage:
        if self._read < len(self.pieces) and not self._disconnected.is_set():
            self._read += 1
            await trio.lowlevel.checkpoint()
            return {
                "type": "http.request",
                "body": self.pieces[self._read - 1],
                "more_body": self._read < len(self.pieces),
            }
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        await trio.lowlevel.checkpoint()
        await self._is_reading.wait()
        if not self._disconnected.is_set():
            self.sent.append(message)
            self._message_sent.set()
            self._message_sent = trio.Event()

    def disconnect(self) -> None:
        """Close the connection; later parts of the response are dropped."""
        self._disconnected.set()
        self._is_reading.set()

    def stop_reading(self) -> None:
        """Accept no more of the response until `resume_reading`."""
        self._is_reading = trio.Event()

    def resume_reading(self) -> None:
        """Accept the response again."""
        self._is_reading.set()

    async def wait_for_messages(self, count: int) -> None:
        """Wait until at least *count* JSON-RPC messages have been received."""
        while len(self.messages) < count:
            await self._message_sent.wait()

    @property
    def status(self) -> int:
        """The status of the response."""
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        """The header fields of the response; empty before its head."""
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]} if self.sent else {}

    @property
    def body(self) -> bytes:
        """The body of the response so far."""
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def complete(self) -> bool:
        """True if the whole response has been received."""
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    @property
    def is_stream(self) -> bool:
        """True if the response is an event stream."""
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def messages(self) -> list[Any]:
        """The JSON-RPC messages of the response so far."""
        return list(self._messages())

    def _messages(self) -> Iterator[Any]:
        if self.is_stream:
            yield from (decode(event.data) for event in SseDecoder(2**30).feed(self.body) if event.data)
        elif self.body:
            value = decode(self.body)
            yield from value if is_array(value) else [value]

    @property
    def comments(self) -> int:
        """The number of keep-alive comments so far."""
        return self.body.count(sse_comment())

    @property
    def answer(self) -> Any:
        """The last message of the response."""
        return self.messages[-1]

    @property
    def code(self) -> int | None:
        """The error code of the last message; None if it is a result."""
        error = self.answer.get("error")
        return None if error is None else error["code"]
