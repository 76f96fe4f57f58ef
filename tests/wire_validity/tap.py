"""Taps at every place where our code puts messages on a wire, in this process and in the children of tests.

A tap sees the messages of a link when its outbox gets them, as whole lines in the order in which they are sent, and
those of the peer just before the link handles them. A direct connection has no bytes, but its messages are those that a
wire would carry, and the tap sees them as such. Child processes load this file too, so it imports nothing of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from trio_mcp.abc import Tap, TransportClient
    from trio_mcp.transports.http.server import BegunRequest, HttpChannel, HttpRequest, ResponseHead
    from trio_mcp.transports.http.server._asgi import Responding
    from trio_mcp.wire import SseDecoder

Role: TypeAlias = "Literal['client', 'server']"
Patch: TypeAlias = "Callable[[Any, str, Any], object]"

RECORDS = "TRIO_MCP_WIRE_RECORDS"
"""The environment variable that names the folder for the records of a child process."""
TEST = "PYTEST_CURRENT_TEST"
CHILD = Path(__file__).parent / "child"
"""The folder on PYTHONPATH that makes a Python process load this file at its start."""

_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"
_JSON, _EVENTS = "application/json", "text/event-stream"
_CANCELLED = b'"notifications/cancelled"'
_REVISION_KEY = b"io.modelcontextprotocol/protocolVersion"


class Sink(Protocol):
    """A receiver of the messages of one process."""

    def opened(self, connection: int, agreed: str | None) -> None:
        """Register a new connection; *agreed* is a revision that its maker set without a handshake."""
        ...

    def observed(self, connection: int, role: Role, line: bytes, *, ours: bool) -> None:
        """Handle one line; *ours* is True if our code has sent it."""
        ...


def install(sink: Sink, patch: Patch = setattr) -> None:
    """Pass every message from now on to *sink*.

    Args:
        patch: sets an attribute; pytest's `monkeypatch.setattr` restores it after the test.
    """
    for tap in taps(sink, patch).values():
        tap()


def taps(sink: Sink, patch: Patch = setattr) -> Mapping[str, Callable[[], None]]:
    """Return the installers of the taps by the module that each imports, for processes that may never need them."""
    numbers = _Numbers(sink)
    return {
        "trio_mcp.peer._link": partial(_tap_links, numbers, patch),
        "trio_mcp.transports._memory": partial(_tap_memory, numbers, patch),
        "trio_mcp.transports.stdio._client": partial(_tap_children, patch),
        "trio_mcp.transports.http.client._transport": partial(_tap_http_clients, numbers, patch),
        "trio_mcp.transports.http.server._app": partial(_tap_http_servers, numbers, patch),
    }


class _Numbers:
    """The numbers of connections, by the objects that represent their ends."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._ends: WeakKeyDictionary[object, tuple[int, Role]] = WeakKeyDictionary()
        self._issued = 0

    def open(self, end: object, role: Role, agreed: str | None = None) -> None:
        """Register a new connection, or one end of it."""
        self._issued += 1
        self._ends[end] = (self._issued, role)
        self.sink.opened(self._issued, agreed)

    def report_sent(self, end: object, line: bytes, role: Role | None = None) -> None:
        """Report a line that this end sends; an end without a connection (an outbox under test) reports nothing."""
        if end in self._ends:
            number, its_role = self._ends[end]
            self.sink.observed(number, role or its_role, line, ours=True)

    def report_received(self, end: object, line: bytes) -> None:
        """Report a line that this end receives; an end without a connection reports nothing."""
        if end not in self._ends:
            return
        number, role = self._ends[end]
        self.sink.observed(number, "server" if role == "client" else "client", line, ours=False)


def _tap_links(numbers: _Numbers, patch: Patch) -> None:
    # Imported here and below, because a child loads this file before it needs the package, or without.
    from trio_mcp.peer import ClientSession, Link, Outbox, Outlet, QueuedMessage
    from trio_mcp.wire import Oversized

    begin, take = Link.__attrs_post_init__, Link.take
    put, put_urgent = Outbox.put, Outbox.put_urgent

    def tapped_begin(self: Link) -> None:
        begin(self)
        if isinstance(self.admission, ClientSession):
            numbers.open(self.outbox, "client", self.admission.revision)
        else:
            numbers.open(self.outbox, "server")

    def tapped_take(self: Link, line: bytes | Oversized, outlet: Outlet) -> None:
        if not isinstance(line, Oversized):
            numbers.report_received(self.outbox, bytes(line))
        take(self, line, outlet)

    def tapped_put(self: Outbox, line: bytes) -> QueuedMessage:
        numbers.report_sent(self, line)
        return put(self, line)

    def tapped_put_urgent(self: Outbox, line: bytes) -> None:
        numbers.report_sent(self, line)
        put_urgent(self, line)

    patch(Link, "__attrs_post_init__", tapped_begin)
    patch(Link, "take", tapped_take)
    patch(Outbox, "put", tapped_put)
    patch(Outbox, "put_urgent", tapped_put_urgent)


class _TappedClient:
    """The client of a direct connection whose tap first calls the tap of this file."""

    def __init__(self, client: TransportClient, tap: Tap) -> None:
        self._client = client
        self._tap = tap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def tap(self) -> Tap:
        """See `trio_mcp.abc.TransportClient`."""

        def tap_both(direction: Literal["sent", "received"], message: bytes) -> None:
            self._tap(direction, message)
            if self._client.tap is not None:
                self._client.tap(direction, message)

        return tap_both


def _tap_memory(numbers: _Numbers, patch: Patch) -> None:
    from trio_mcp.transports._memory import _MemoryTransport

    begin = _MemoryTransport.__attrs_post_init__

    def tapped_begin(self: _MemoryTransport) -> None:
        def tap(direction: Literal["sent", "received"], message: bytes) -> None:
            numbers.report_sent(self, message + b"\n", "client" if direction == "sent" else "server")

        numbers.open(self, "client")
        self.client = cast("TransportClient", _TappedClient(self.client, tap))
        begin(self)

    patch(_MemoryTransport, "__attrs_post_init__", tapped_begin)


def _tap_http_clients(numbers: _Numbers, patch: Patch) -> None:
    from trio_mcp.transports.http.client._sender import HttpSender
    from trio_mcp.transports.http.client._transport import HttpTransport

    begin, received = HttpTransport.__attrs_post_init__, HttpSender.received
    post, post_now = HttpSender.post, HttpSender.post_now

    def tapped_begin(self: HttpTransport) -> None:
        numbers.open(self.sender, "client", self.admission.revision)
        begin(self)

    def tapped_post(self: HttpSender, url: str, line: bytes, *others: Any, **options: Any) -> object:
        if options.get("sent") is None:
            numbers.report_sent(self, line)
        return post(self, url, line, *others, **options)

    def tapped_post_now(self: HttpSender, request: Any, url: str, line: bytes, fields: Mapping[str, str]) -> object:
        response = post_now(self, request, url, line, fields)
        if response is not None:
            numbers.report_sent(self, line)
        return response

    def tapped_received(self: HttpSender, message: bytes) -> None:
        numbers.report_received(self, message)
        received(self, message)

    patch(HttpTransport, "__attrs_post_init__", tapped_begin)
    patch(HttpSender, "post", tapped_post)
    patch(HttpSender, "post_now", tapped_post_now)
    patch(HttpSender, "received", tapped_received)


def _tap_http_servers(numbers: _Numbers, patch: Patch) -> None:
    from trio_mcp.transports import HttpApp

    answer, begin, go_on = HttpApp.answer, HttpApp.begin, HttpApp.go_on
    sessions = dict[str, _HttpConnection]()

    async def tapped_answer(self: HttpApp, request: HttpRequest, channel: HttpChannel) -> None:
        exchange = _TappedExchange(numbers, sessions, request, channel)
        await answer(self, request, cast("HttpChannel", exchange))

    def tapped_begin(self: HttpApp, request: HttpRequest, body: bytes) -> BegunRequest | None:
        begun = begin(self, request, body)
        if begun is None:  # `answer` follows
            return None
        exchange = _TappedExchange(numbers, sessions, request, None)
        exchange.report_request(body)
        return cast("BegunRequest", _TappedBegunRequest(begun, exchange))

    async def tapped_go_on(self: HttpApp, begun: BegunRequest, request: HttpRequest, channel: HttpChannel) -> None:
        exchange = cast("_TappedBegunRequest", begun).exchange
        exchange.channel = channel
        await go_on(self, begun, request, cast("HttpChannel", exchange))

    patch(HttpApp, "answer", tapped_answer)
    patch(HttpApp, "begin", tapped_begin)
    patch(HttpApp, "go_on", tapped_go_on)


class _HttpConnection:
    """A session, or a request without a session."""

    def __init__(self) -> None:
        self.sent_ids: set[str] = set()
        """The ids of the events that were sent, so that a replayed event is not reported twice."""


class _TappedExchange:
    """A channel of one HTTP request and its response that reports their messages."""

    def __init__(
        self, numbers: _Numbers, sessions: dict[str, _HttpConnection], request: HttpRequest, channel: HttpChannel | None
    ) -> None:
        self._numbers, self._sessions, self.channel = numbers, sessions, channel
        self._posted = request.method == "POST"
        self._is_message = self._posted
        self._headers = request.headers
        self._query = request.query
        self._connection = self._named(self._query) or self._new()
        self._body, self._answer, self._kind = b"", b"", ""
        self._decoder: SseDecoder | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    def _named(self, query: str) -> _HttpConnection | None:
        """Return the session that a header field names, or, for HTTP+SSE, the query."""
        return self._sessions.get(self._headers.get(_SESSION, query.partition("=")[2]))

    def _new(self) -> _HttpConnection:
        from trio_mcp.wire import LEGACY_REVISIONS

        connection, named = _HttpConnection(), self._headers.get(_VERSION, "")
        # A request that names an unknown session and no version belongs to a revision without that header field.
        if not named and (self._query or _SESSION in self._headers):
            named = LEGACY_REVISIONS[1]
        self._numbers.open(connection, "server", named if named in LEGACY_REVISIONS else None)
        return connection

    async def read(self) -> bytes | None:
        assert self.channel is not None
        body = await self.channel.read()
        if body is not None and self._posted:
            self._body += body
            if self.channel.has_whole_body:
                self.report_request(self._body)
        return body

    def report_request(self, body: bytes) -> None:
        """Report the message of the client."""
        if _REVISION_KEY in body:
            self._connection = self._new()  # a modern request needs no session
        if not body.startswith(b"{") or _CANCELLED not in body:
            # A cancellation has no order among the responses, which use other connections: it may cross any of them.
            self._numbers.report_received(self._connection, body)

    def report_answer(self, answer: bytes) -> None:
        """Report the answer, if it is all that was sent."""
        self._numbers.report_sent(self._connection, answer + b"\n")

    def put(self, head: ResponseHead | None, data: bytes, *, more: bool) -> bool:
        assert self.channel is not None
        if head is not None:
            status, headers = head
            self._is_message = self._posted or status != 200  # the metadata of a protected resource is not a message
            self._begin(dict(headers))
        if self._decoder is not None:
            self._report_events(data)
        elif self._kind == _JSON and self._is_message:
            self._answer += data
            if not more:
                self.report_answer(self._answer)
        return self.channel.put(head, data, more=more)

    def _begin(self, headers: Mapping[str, str]) -> None:
        from trio_mcp.wire import SseDecoder

        self._kind = headers.get("content-type", "")
        if self._kind == _EVENTS:
            self._decoder = SseDecoder(2**30)
        if _SESSION in headers:
            self._sessions[headers[_SESSION]] = self._connection

    def _report_events(self, chunk: bytes) -> None:
        assert self._decoder is not None
        for event in self._decoder.feed(chunk):
            if event.event == "endpoint":
                self._sessions[event.data.partition(b"=")[2].decode()] = self._connection
            elif event.data and event.id not in self._connection.sent_ids:
                self._connection.sent_ids |= {event.id} if event.id else set()
                self._numbers.report_sent(self._connection, event.data + b"\n")


class _TappedBegunRequest:
    """A request that was begun to be answered at once, and reports such an answer."""

    def __init__(self, begun: BegunRequest, exchange: _TappedExchange) -> None:
        self._begun, self.exchange = begun, exchange

    def take_answer(self, most_bytes: int) -> tuple[int, bytes] | None:
        answer = self._begun.take_answer(most_bytes)
        if answer is not None:
            self.exchange.report_answer(answer[1])
        return answer

    async def go_on(self, responding: Responding) -> None:
        await self._begun.go_on(responding)


def _tap_children(patch: Patch) -> None:
    """Make the servers that our client starts load this file: they inherit only a few environment variables."""
    from trio_mcp.transports.stdio import _client as _child_process
    from trio_mcp.transports.stdio._client import child_environment

    def tapped_environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
        return watched(child_environment(added))

    patch(_child_process, "child_environment", tapped_environment)


def watched(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose Python processes record their messages, if this process does."""
    if RECORDS not in os.environ:
        return dict(environment)
    path = [str(CHILD), *filter(None, [environment.get("PYTHONPATH")])]
    here = {name: os.environ[name] for name in (RECORDS, TEST) if name in os.environ}
    return {**environment, **here, "PYTHONPATH": os.pathsep.join(path)}


class Recorder:
    """The sink of a child process: a file that is complete at every moment, because tests kill children."""

    def __init__(self, folder: str) -> None:
        path = Path(folder) / f"{os.getpid()}-{os.urandom(4).hex()}.jsonl"
        self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY)
        self._write({"test": os.environ.get(TEST, ""), "command": sys.orig_argv})

    def opened(self, connection: int, agreed: str | None) -> None:
        """See `Sink`."""
        self._write({"connection": connection, "agreed": agreed})

    def observed(self, connection: int, role: Role, line: bytes, *, ours: bool) -> None:
        """See `Sink`."""
        text = line.decode("utf-8", "surrogateescape")
        self._write({"connection": connection, "role": role, "ours": ours, "line": text})

    def _write(self, record: Mapping[str, Any]) -> None:
        os.write(self._file, json.dumps(record).encode() + b"\n")


def replay(path: Path, sink: Sink) -> None:
    """Pass the recorded messages of a child process to *sink*."""
    _, *lines = path.read_bytes().split(b"\n")[:-1]  # the last line is empty, or the incomplete one of a killed process
    for record in map(json.loads, lines):
        if "agreed" in record:
            sink.opened(record["connection"], record["agreed"])
        else:
            line = record["line"].encode("utf-8", "surrogateescape")
            sink.observed(record["connection"], record["role"], line, ours=record["ours"])
