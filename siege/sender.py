"""A sender of raw HTTP: what an attacker sends, when it reads, and what it must never see.

It uses no client of the package, because a client behaves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Self

import h11
import trio
from attrs import define, field, frozen

from .people import PATH, Parties

__all__ = ["LEGACY", "MODERN", "Http1", "Reply", "Sender", "Sightings"]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
_CHUNK = 65_536
_META: Mapping[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "siege", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
_EVENTS_OR_JSON = "application/json, text/event-stream"


@define(eq=False)
class Sightings:
    """The record of what the senders of one attack saw."""

    secret: bytes
    """The secret of the ordinary user, which none of them may see."""
    outcomes: Counter[str] = field(factory=Counter[str])
    """The number of responses by status, and of connections that ended without one."""
    breaches: list[str] = field(factory=list[str])
    """What must not happen, as sentences."""

    def breach(self, sentence: str) -> None:
        """Record what must not happen."""
        if sentence not in self.breaches:
            self.breaches.append(sentence)

    def json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"outcomes": dict(self.outcomes), "breaches": self.breaches}


@frozen
class Reply:
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def message(self) -> Any:
        """Return the last message of the body, which is JSON or an event stream; None if there is none."""
        events = [line[5:] for line in self.body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
        text = events[-1] if events else self.body
        return json.loads(text) if text.strip() else None


@define(eq=False)
class Http1:
    """One connection over HTTP/1.1."""

    stream: trio.SocketStream
    seen: Sightings
    _parser: h11.Connection = field(factory=lambda: h11.Connection(h11.CLIENT), init=False)
    _tail: bytes = field(default=b"", init=False)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def receive(self) -> bytes:
        """Return the next bytes, and look for the secret in them."""
        data = await self.stream.receive_some(_CHUNK)
        window = self._tail + data
        if self.seen.secret in window:
            self.seen.breach("the secret of the ordinary user was received by another")
        self._tail = window[-len(self.seen.secret) :]
        return data

    async def begin(self, method: str, target: str, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send a request."""
        headers = [(name, value) for name, value in fields.items()]
        if body or method == "POST":
            headers.append(("content-length", str(len(body))))
        out = self._parser.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if body:
            out += self._parser.send(h11.Data(data=body)) or b""
        out += self._parser.send(h11.EndOfMessage()) or b""
        await self.send(out)

    async def _event(self) -> Any:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(await self.receive())
        return event

    async def head(self) -> h11.Response:
        """Return the head of the response, and count its status."""
        while not isinstance(event := await self._event(), h11.Response):
            if isinstance(event, h11.ConnectionClosed):
                raise trio.BrokenResourceError("closed without a response")
        self.seen.outcomes[str(event.status_code)] += 1
        return event

    async def data(self) -> bytes:
        """Return the next bytes of the body; none at its end."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def finish(self) -> bytes:
        """Return the rest of the body, and be ready for another request if the connection is kept."""
        body = b""
        while chunk := await self.data():
            body += chunk
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
        return body

    async def reply(self) -> Reply:
        """Return the whole response."""
        head = await self.head()
        body = await self.finish()
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        return Reply(head.status_code, headers, body)


@define(eq=False)
class Sender:
    """A party at an address of its own, with the token of a principal or without one."""

    port: int
    address: str
    token: str | None
    seen: Sightings
    _ids: count[int] = field(factory=lambda: count(1), init=False)

    @classmethod
    def of(cls, parties: Parties, port: int, seen: Sightings, principal: str | None, address: str) -> Self:
        """Return the sender that is a principal, or None for nobody."""
        return cls(port, address, None if principal is None else parties.tokens[principal], seen)

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Http1]:
        """Connect. A connection that breaks ends the block, and is counted."""
        sock = trio.socket.socket()
        try:
            await sock.bind((self.address, 0))
            await sock.connect(("127.0.0.1", self.port))
            async with trio.SocketStream(sock) as stream:
                yield Http1(stream, self.seen)
        except (OSError, trio.BrokenResourceError, h11.RemoteProtocolError):
            self.seen.outcomes["cut"] += 1
        finally:
            sock.close()

    def fields(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the fields of every request."""
        auth = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        return {"host": f"127.0.0.1:{self.port}", "accept": _EVENTS_OR_JSON, **auth, **(extra or {})}

    def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, session: str | None = None, **params: Any
    ) -> tuple[dict[str, str], bytes]:
        """Return the fields and the body of a call, of a legacy session or of the newest revision."""
        meta: dict[str, Any] = {} if session else {"_meta": _META}
        body: dict[str, Any] = {"name": tool, "arguments": dict(arguments or {}), **meta, **params}
        if session:
            return self.message("tools/call", body, session=session)
        modern = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
        fields, data = self.message("tools/call", body)
        return {**fields, **modern}, data

    def message(
        self, method: str, params: Mapping[str, Any] | None, *, session: str | None = None, is_request: bool = True
    ) -> tuple[dict[str, str], bytes]:
        """Return the fields and the body of a message."""
        members: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            members["params"] = params
        if is_request:
            members["id"] = next(self._ids)
        fields = self.fields({"content-type": "application/json"})
        if session:
            fields |= {"mcp-session-id": session, "mcp-protocol-version": LEGACY}
        return fields, json.dumps(members).encode()

    async def post(self, connection: Http1, request: tuple[dict[str, str], bytes]) -> Reply:
        """Send a request, and return the whole response."""
        await connection.begin("POST", PATH, *request)
        return await connection.reply()

    async def open_session(self, connection: Http1) -> str | None:
        """Open a legacy session, and return its id; None if it was refused."""
        hello: dict[str, Any] = {
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "siege", "version": "1"},
        }
        session = (await self.post(connection, self.message("initialize", hello))).headers.get("mcp-session-id")
        if session is not None:
            await self.post(
                connection, self.message("notifications/initialized", None, session=session, is_request=False)
            )
        return session

    async def end_session(self, session: str) -> None:
        """End a legacy session, and with it its calls."""
        async with self.connect() as connection:
            fields = {"mcp-session-id": session, "mcp-protocol-version": LEGACY}
            await connection.begin("DELETE", PATH, self.fields(fields))
            await connection.reply()
