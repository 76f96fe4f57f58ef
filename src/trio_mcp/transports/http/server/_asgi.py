"""One HTTP request: its head, its bounded body, its authorization, and its response.

A task that answers a request computes the first event inside ``async with responding.attending():``, and sends it and
the following ones inside ``async with responding.stream() as stream:``. Afterwards `responding.left` tells whether the
client left first.

Rules of this file:

1. Only the channel reports that a client has left: what is sent to it afterwards is lost, without an error. So a task
   that computes a response does it inside `Responding.attending`, which cancels it when the client leaves.
2. A stream that is silent for a while sends a comment: proxies keep it open then, and the server finds out about
   clients that have vanished.
3. A stream ends properly when its block does. If the block fails or is cancelled, the client sees that the response
   broke off.
4. A client that takes nothing for the stall limit has left.
5. A request is authorized by its head. If it is refused, its body is not read.
6. All scopes that the messages of one POST need must be granted before the first message is handled.
7. Without authentication, no scope is granted: what needs scopes is refused to every client.
8. The metadata of the protection may be read by every client, including pages of other sites, whatever header fields
   they send: a browser asks for that first, in a preflight.
9. The response to a request over HTTP/1 that has Content-Length and Transfer-Encoding closes the connection (RFC 9112,
   6.1), under every ASGI server that obeys `connection: close`.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http and
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import trio
from attrs import define, evolve, field

from ...._errors import McpError
from ...._shares import Sender, sender_of
from ...._util import owned_nursery
from ....abc import Fetch, HttpServing, SharedService
from ....auth import LEEWAY_SECONDS
from ....peer import Access, MessageOrigin
from ....wire import (
    EVENT_STREAM_TYPE,
    INVALID_REQUEST,
    JSON_TYPE,
    VERSION_FIELD,
    Headers,
    JsonRpcRequest,
    Message,
    Refusal,
    needs_null_id,
    sse_comment,
)
from ..h1 import joined_fields
from ._byte_budget import ByteHolder, no_room
from ._channel import HttpChannel, Receive, ResponseHead, Scope, Send, as_text

if TYPE_CHECKING:
    from ....auth import HttpCall, HttpReply, ResourceServer, TokenGuard

__all__ = [
    "QUICK_PASSES",
    "TEXT_TYPE",
    "WITHOUT_TRIO",
    "BegunRequest",
    "EventStream",
    "FailedRequest",
    "HttpRequest",
    "RequestAuthorizer",
    "Responding",
    "json_fields",
    "read_body",
    "refuse_without_trio",
]

_DOCUMENT_FIELDS = {"access-control-allow-origin": "*", "cache-control": "public, max-age=300"}
_DOCUMENT_METHODS = "GET, OPTIONS"
_PREFLIGHT_FIELDS = {
    "allow": _DOCUMENT_METHODS,
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": f"{VERSION_FIELD}, authorization, *",  # the star does not include authorization
    "access-control-max-age": "86400",
}
_log = logging.getLogger("trio_mcp.transports")

_SECRET_FIELDS = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})


@define(kw_only=True, eq=False)
class HttpRequest:
    """One HTTP request and its sender. The router adds the access and the body when they are known."""

    method: str
    """The HTTP method, in capitals."""
    path: str
    """The requested path, percent-decoded, including the mount point of the application."""
    local_path: str = field(default="", repr=False)
    """The path without the mount point."""
    query: str = field(default="", repr=False)
    """The query without its question mark, still encoded."""
    headers: Headers = field(repr=False)
    """The header fields, by lower-case name; the values of repeated fields are joined with ``", "``. A function of
    `routes` finds them by their names in any case."""
    client: str | None = None
    """The address of the client; None if there is none, as over a Unix socket."""
    access: Access | None = None
    """The authenticated principal and its scopes; None without authentication."""
    access_until: float = math.inf
    """The expiry of the access, on Trio's clock: no stream that it has opened lasts longer."""
    body: bytes = field(default=b"", repr=False)
    """The whole body; empty until it was read."""
    has_known_head: bool = False
    """True if a request with the same head was begun on the same connection: its head needs no check."""
    is_framed_twice: bool = False
    """True if the end of its body is ambiguous (rule 9)."""
    stays_here: bool = False
    """True if this process has to answer it, because its owner is gone."""
    is_forwarded: bool = False
    """True if another process of the service has received, checked and forwarded it."""

    @property
    def principal(self) -> str | None:
        """The authenticated principal; None without authentication."""
        return None if self.access is None else self.access.principal

    @property
    def sender(self) -> Sender:
        """The principal or the address, with whose other requests this one shares the bounds of the server."""
        return sender_of(self.principal, self.client)

    @property
    def shown_headers(self) -> Headers:
        """The header fields that handlers may see."""
        shown: Mapping[str, str] = self.headers
        if not _SECRET_FIELDS.isdisjoint(shown):
            shown = {name: value for name, value in shown.items() if name not in _SECRET_FIELDS}
        return MappingProxyType(shown)

    @property
    def envelope(self) -> MessageOrigin:
        """The part of the request that handlers may see."""
        return MessageOrigin(self.shown_headers, self.access)

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the request that a scope of the type ``http`` describes, without its body."""
        client, headers = scope.get("client"), joined_fields(as_text(scope["headers"]))
        is_framed_twice = "transfer-encoding" in headers and "content-length" in headers
        mount: str = scope.get("root_path", "").rstrip("/")
        path: str = scope["path"]
        if path == mount or path.startswith(f"{mount}/"):
            path = path[len(mount) :]  # some hosts have left the mount point in it
        return cls(
            method=scope["method"],
            path=mount + path,
            local_path=path,
            query=scope.get("query_string", b"").decode("latin-1"),
            headers=headers,
            client=client[0] if client else None,
            is_framed_twice=is_framed_twice and scope.get("http_version", "").startswith("1"),
        )


async def read_body(
    channel: HttpChannel, max_bytes: int, seconds: float, responding: Responding | None = None
) -> bytes | Refusal | None:
    """Read the body of a request.

    Args:
        channel: carries the request.
        max_bytes: the rest of a longer body is not read.
        seconds: the maximum time for the whole body.
        responding: the response to the request, which holds the bytes of the body; None if they are not counted.

    Returns:
        The body; or its refusal (413, 408, 503); or None, because the client has left.
    """
    if channel.has_arrived:  # as usual; a timeout has its cost
        return await _read_parts(channel, max_bytes, responding)
    with trio.move_on_after(seconds) as reading:
        if responding is not None:
            responding.reading = reading
        body = await _read_parts(channel, max_bytes, responding)
        if responding is not None:
            responding.reading = None
        return body
    if responding is not None and responding.is_body_cut:
        return no_room()
    return Refusal(408, McpError(INVALID_REQUEST, f"the body did not arrive within {seconds:g} s"))


async def _read_parts(channel: HttpChannel, max_bytes: int, responding: Responding | None) -> bytes | Refusal | None:
    chunks: list[bytes] = []
    size = 0
    while not channel.has_whole_body:
        chunk = await channel.read()
        if chunk is None:
            return None
        size += len(chunk)
        if size > max_bytes:
            return Refusal(413, McpError(INVALID_REQUEST, f"the body may have at most {max_bytes} bytes"))
        if responding is not None:
            if not responding.may_hold(len(chunk)):
                return no_room()
            responding.hold(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


WITHOUT_TRIO = (
    "this application needs Trio, and its server runs another event loop (uvicorn runs asyncio): use Hypercorn's Trio "
    "worker, as in `hypercorn -k trio module:app`, or `trio_mcp.serve_http`, or `trio_mcp.asyncio.http_app` there"
)
"""The error of an application that another event loop runs, usually asyncio's, such as under uvicorn."""


async def refuse_without_trio(scope: Scope, receive: Receive, send: Send) -> None:
    """Report that another event loop, usually asyncio's, runs the application. Uses nothing of Trio."""
    match scope["type"]:
        case "lifespan":
            await receive()
            await send({"type": "lifespan.startup.failed", "message": WITHOUT_TRIO})
        case "http":
            _log.error("%s", WITHOUT_TRIO)
            headers = [(b"content-type", TEXT_TYPE.encode())]
            await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": WITHOUT_TRIO.encode(), "more_body": False})
        case _:
            raise RuntimeError(WITHOUT_TRIO)


QUICK_PASSES = 2
"""The number of scheduler passes after which a handler that waits for nothing has ended. For such handlers it does not
pay to watch whether the client leaves."""
_NO_HEADERS: Mapping[str, str] = {}
_EMPTY_FIELDS = (("content-length", "0"),)
_JSON_FIELDS = (("content-type", JSON_TYPE), ("cache-control", "no-store"))
_KEEP_ALIVE = sse_comment()
_PIECE_BYTES = 64 * 1024
"""A larger body is sent in pieces of this size, each within the stall limit."""


TEXT_TYPE = "text/plain; charset=utf-8"


def json_fields(size: int) -> Sequence[tuple[str, str]]:
    """Return the header fields of a JSON document of *size* bytes. A tuple: many responses have the same ones."""
    return (*_JSON_FIELDS, ("content-length", str(size)))


@define(eq=False)
class Responding(ByteHolder):
    """The response to one request. Exactly one of `refuse`, `json`, `empty` and `stream` is called, once.

    Args:
        channel: carries the request; its body has been read, or is ignored.
        keep_alive: seconds of silence after which a stream sends a comment.
        stall_seconds: the maximum time that a client may take nothing.
    """

    _channel: HttpChannel
    keep_alive: float
    stall_seconds: float
    request: HttpRequest | None = field(default=None, init=False)
    """The request that is answered; None before it has been read."""
    null_ids: bool | None = field(default=None, init=False)
    """True if an error that answers no request has the id null; None if the header fields of the request decide."""
    begun: bool = field(default=False, init=False)
    """True once the head of the response has been sent."""
    status: int | None = field(default=None, init=False)
    """The status in that head; None before."""
    left: bool = field(default=False, init=False)
    """True if the client left before the response was complete, or the response was cut."""
    is_cut: bool = field(default=False, init=False)
    """True if the request has to make room for the bytes of others (`ByteBudget`)."""
    is_body_cut: bool = field(default=False, init=False)
    """True if that happened while its body was received."""
    on_left: Callable[[], None] | None = field(default=None, init=False)
    """Called at once when `left` becomes True; None if nothing has to be done then."""
    reading: trio.CancelScope | None = field(default=None, init=False)
    """The scope in which the body is received; None before and afterwards."""
    _writing: trio.CancelScope | None = field(default=None, init=False)
    """The scope of a write."""
    _nursery: trio.Nursery | None = field(default=None, init=False)

    def find_sender(self) -> Sender:
        """Return the sender of the request."""
        return None if self.request is None else self.request.sender

    def on_cut(self) -> None:
        """Break off the body, or the handling of the request, or its response."""
        if self.reading is not None:
            self.is_body_cut = True
            self.reading.cancel(reason="the bytes have no room")
            return
        self.is_cut = True
        self._leave()
        if self._writing is not None:
            self._writing.cancel(reason="the client does not read")
            self._channel.cut()

    async def finish(self) -> None:
        """Refuse the request if it was cut before its response had begun; call it last."""
        if self.is_cut and not self.begun:
            self.is_cut = False
            self.forget()
            await self.refuse(no_room())

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        body = refusal.body(null_id=self._needs_null_id())
        if body:
            await self.json(body, status=refusal.status, headers=refusal.headers)
        else:
            await self.empty(refusal.status, refusal.headers)

    def _needs_null_id(self) -> bool:
        if self.null_ids is None and self.request is not None:
            return needs_null_id(self.request.headers, self.request.query)
        return bool(self.null_ids)

    async def json(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Answer with one JSON document."""
        await self._whole(status, body, headers)

    async def text(self, text: str, *, status: int = 200, kind: str = TEXT_TYPE) -> None:
        """Answer a GET or a HEAD with text of a media type."""
        assert self.request is not None
        body = text.encode()
        fields = {"content-type": kind, "content-length": str(len(body)), "cache-control": "no-store"}
        sent = b"" if self.request.method == "HEAD" else body
        await self._transmit(self._head(status, fields), sent, more=False)

    async def empty(self, status: int = 202, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Answer with a status and no body."""
        if status == HTTPStatus.NO_CONTENT:
            await self._transmit(self._head(status, headers), more=False)
        else:
            await self._whole(status, b"", headers)

    async def _whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        fields = json_fields(len(body)) if body else _EMPTY_FIELDS
        if headers or (self.request is not None and self.request.is_framed_twice):
            head = self._head(status, {**dict(fields), **headers})
        else:
            head = status, fields
        await self._transmit(head, body, more=False)

    @asynccontextmanager
    async def attending(self) -> AsyncGenerator[None]:
        """Cancel the block when the client leaves; `left` is True then. Must not be nested."""
        async with owned_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._watch)
            if self.is_cut:
                nursery.cancel_scope.cancel()
            yield

    async def _watch(self) -> None:
        await self._channel.wait_left()
        self._leave()

    def _leave(self) -> None:
        self.left = True
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason="the client has left")
        if self.on_left is not None:  # later, because it wakes the task that responds, which has to be cancelled
            self.on_left()

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str] = _NO_HEADERS) -> AsyncGenerator[EventStream]:
        """Answer with an event stream, inside `attending`; it ends when the block does (rule 3)."""
        assert self._nursery is not None
        fields = {
            "content-type": EVENT_STREAM_TYPE,
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            **headers,
        }
        await self._transmit(self._head(HTTPStatus.OK, fields))
        stream = EventStream(self)
        self._nursery.start_soon(stream.keep_alive)
        yield stream
        await stream.end()

    def _head(self, status: int, headers: Mapping[str, str]) -> ResponseHead:
        fields = [*headers.items()]
        if self.request is not None and self.request.is_framed_twice:
            fields.append(("connection", "close"))
        return int(status), fields

    async def relay(self, head: ResponseHead | None, body: bytes, *, more: bool) -> None:
        """Send a part of a response that another process has made.

        Args:
            head: the head of the response; given with the first part, and only with that.
            body: a part of the body, or nothing.
            more: False if the response ends with it.
        """
        await self._transmit(head and self._head(head[0], dict(head[1])), body, more=more)

    def cut(self) -> None:
        """Break the response off, because the rest of it is lost."""
        self.left = True
        self._channel.cut()

    async def put(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body, or its end; streams use `EventStream.send`."""
        await self._transmit(None, body, more=more)

    async def _transmit(self, head: ResponseHead | None, body: bytes = b"", *, more: bool = True) -> None:
        """Send a head and a part of the body, if given; a client that does not take one piece has left (rule 4)."""
        if self.is_cut:
            await trio.lowlevel.checkpoint()
            return
        if head is not None:
            self.begun, self.status = True, head[0]
        size = len(body)
        self.hold(size)
        is_small = size <= _PIECE_BYTES
        is_sent = self._channel.put(head, body if is_small else body[:_PIECE_BYTES], more=more or not is_small)
        if not (is_sent and is_small):
            await self._transmit_rest(body, more=more)
        self.release(size)

    async def _transmit_rest(self, body: bytes, *, more: bool) -> None:
        """Send what the client has not taken at once, and the following pieces of a large body."""
        with trio.CancelScope() as stall:
            self._writing = stall
            for end in range(_PIECE_BYTES, max(len(body), 1) + _PIECE_BYTES, _PIECE_BYTES):
                stall.deadline = trio.current_time() + self.stall_seconds
                try:
                    await self._channel.flush()
                except OSError:  # some servers raise it when the client has left (rule 1)
                    stall.cancel()
                    await trio.lowlevel.checkpoint()
                self.progressed()
                if end < len(body):
                    await trio.lowlevel.checkpoint()
                    piece = body[end : end + _PIECE_BYTES]
                    self._channel.put(None, piece, more=more or end + _PIECE_BYTES < len(body))
        self._writing = None
        if stall.cancelled_caught:
            self._leave()
            await trio.lowlevel.checkpoint_if_cancelled()


class BegunRequest(abc.ABC):
    """A POST whose handling has begun in one step, by `HttpApp.begin`. `take_answer` or `go_on` must follow."""

    @abc.abstractmethod
    def take_answer(self, most_bytes: int) -> tuple[int, bytes] | None:
        """Return the status and the JSON of the response, if that is all of it. Synchronous.

        If it returns None, `go_on` must follow.

        Args:
            most_bytes: the size of the JSON above which this returns None.
        """

    @abc.abstractmethod
    async def go_on(self, responding: Responding) -> None:
        """Answer the request by *responding*, which sends the response."""


@define(eq=False)
class FailedRequest(BegunRequest):
    """A request that could not be begun."""

    _failure: BaseException

    def take_answer(self, most_bytes: int) -> None:
        """Do nothing: `HttpRouter.go_on` contains the failure."""
        del most_bytes

    async def go_on(self, responding: Responding) -> None:
        """Raise the failure."""
        del responding
        raise self._failure


@define(eq=False)
class EventStream:
    """An open event stream. Made by `Responding.stream`."""

    _responding: Responding
    _last: float = field(factory=trio.current_time, init=False)
    """The time of the latest message."""
    _sending: trio.Lock = field(factory=trio.Lock, init=False)
    _has_ended: bool = field(default=False, init=False)

    async def send(self, chunk: bytes) -> None:
        """Send whole events. If cancelled, a part of them may have been sent, and the stream is unusable."""
        await self._put(chunk, more=True)

    async def end(self) -> None:
        """End the stream, after the comment that is being sent: half of one would break the stream."""
        self._has_ended = True
        await self._put(b"", more=False)

    async def keep_alive(self) -> None:
        """Send a comment whenever nothing was sent for a while; to be run as a task."""
        pause = self._responding.keep_alive
        while not self._has_ended:
            await trio.sleep_until(self._last + pause)
            if self._sending.locked():
                await trio.sleep(pause)  # a message is waiting for the client already
            elif trio.current_time() >= self._last + pause and not self._has_ended:
                await self._put(_KEEP_ALIVE, more=True)

    async def _put(self, chunk: bytes, *, more: bool) -> None:
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            await self._responding.put(chunk, more=more)
        finally:
            self._sending.release()
        self._last = trio.current_time()


@define(eq=False)
class _Fetching:
    """Makes the requests of a token guard: with the fetcher of the run, or else with one for a single request."""

    _trusted_hosts: Sequence[str]
    _open_now: Fetch | None = field(default=None, init=False)

    async def __call__(self, call: HttpCall) -> HttpReply:
        if self._open_now is not None:
            return await self._open_now(call)
        async with self._opened() as fetch:
            return await fetch(call)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self._opened() as fetch:
            self._open_now = fetch
            try:
                yield
            finally:
                self._open_now = None

    def _opened(self) -> AbstractAsyncContextManager[Fetch]:
        from .._fetch import open_fetch  # noqa: PLC0415 # most applications need no fetcher

        return open_fetch(trusted_hosts=self._trusted_hosts)


@define(eq=False)
class RequestAuthorizer:
    """Authenticates and authorizes the requests of one application.

    Args:
        auth: the protection of the application; None if it has none.
    """

    _auth: ResourceServer | None
    _fetching: _Fetching = field(init=False)
    _guard: TokenGuard | None = field(init=False)
    _has_warned: bool = field(default=False, init=False)
    """True once the log has named the lack of authentication."""

    def __attrs_post_init__(self) -> None:
        auth = self._auth
        self._fetching = _Fetching(() if auth is None else auth.trusted_hosts)
        self._guard = None if auth is None else auth.guard(self._fetching)

    @property
    def is_needed(self) -> bool:
        """True if requests need authentication."""
        return self._auth is not None

    @property
    def metadata_paths(self) -> Collection[str]:
        """The paths of the metadata of the protection, below any mount point."""
        return () if self._auth is None else self._auth.metadata_paths

    @asynccontextmanager
    async def running(self, shared: SharedService | None = None) -> AsyncGenerator[None]:
        """Keep the fetcher for keys and token introspection open for as long as the block lasts.

        Args:
            shared: what this process shares with the others of its service; None if there are no others.
        """
        if self._guard is not None:
            self._guard.shared = shared
        if self._auth is None or self._auth.fetch is not None:
            yield
            return
        async with self._fetching.running():
            yield

    async def describe(self, request: HttpRequest, responding: Responding) -> None:
        """Answer a request for the metadata of the protection (rule 8)."""
        assert self._auth is not None
        if request.method == "GET":
            await responding.json(self._auth.document(), headers=_DOCUMENT_FIELDS)
        elif request.method == "OPTIONS":
            await responding.empty(204, _PREFLIGHT_FIELDS)
        else:
            await responding.refuse(Refusal(405, headers={"allow": _DOCUMENT_METHODS}))

    async def admit(self, request: HttpRequest) -> HttpRequest | Refusal:
        """Return the request with its access, or its refusal (rule 5)."""
        if self._auth is None or self._guard is None:
            return request
        access = await self._guard.admit(
            request.method, request.path, request.query, request.headers, client=request.client
        )
        if isinstance(access, Refusal):
            return access
        until = math.inf
        if access.expires_at is not None:
            until = trio.current_time() + access.expires_at + LEEWAY_SECONDS - self._auth.clock()
        return evolve(request, access=access, access_until=until)

    def refusal(self, messages: Iterable[Message], request: HttpRequest, serving: HttpServing) -> Refusal | None:
        """Return the refusal of a POST that needs scopes that are not granted, or None (rule 6).

        Args:
            messages: the messages of the POST.
            request: the admitted request.
            serving: knows the scopes that each message needs.
        """
        requests = [message for message in messages if isinstance(message, JsonRpcRequest)]
        needed: set[str] = set()
        for each in requests:
            needed |= serving.needed_scopes(each.method, each.params or {}, request.access)
        if not needed:
            return None
        id = requests[0].id if len(requests) == 1 else None
        if self._guard is None or request.access is None:
            refusal: Refusal | None = self._no_authentication(needed)
        else:
            refusal = self._guard.permit(request.access, needed)
        return None if refusal is None else evolve(refusal, id=id)

    def _no_authentication(self, needed: Collection[str]) -> Refusal:
        """Return the refusal of rule 7; the log has the first one."""
        listed = ", ".join(sorted(needed))
        why = (
            f"this needs scopes ({listed}), and this HTTP application has no authentication: serve it with auth=, or "
            "with --auth"
        )
        if not self._has_warned:
            self._has_warned = True
            _log.warning("a request is refused: %s", why)
        return Refusal(403, McpError(INVALID_REQUEST, why))
