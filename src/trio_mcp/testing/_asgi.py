"""An HTTP engine that calls ASGI applications in this process, streaming both ways, so tests need no socket.

Rules of this file:

1. The application sees what it would see under a server: a body in pieces, ``http.disconnect`` when the client leaves,
   and no error when it sends to a client that has left.
2. The application is never cancelled because its client was. It is notified, and has some seconds to return.
3. What it sends waits in a buffer as small as a socket's, so a client that does not read stalls it.
4. The lifespan runs as under a server.

Specification: https://asgi.readthedocs.io/en/stable/specs/www.html and
https://asgi.readthedocs.io/en/stable/specs/lifespan.html
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import trio
from attrs import define, field

from .._util import WIND_DOWN_SECONDS, owned_nursery
from ..abc import HttpCall, HttpReply
from ..transports import AsgiApp, AsgiMessage, EngineError, HttpResponse, Scope, engine_fetch

__all__ = ["ASGI", "AsgiEngine", "AsgiLifespan", "AsgiNetwork"]


ASGI = {"version": "3.0", "spec_version": "2.4"}


@define(eq=False)
class AsgiLifespan:
    """One lifespan of an application: its startup, its run and its shutdown."""

    state: dict[str, Any] = field(factory=dict[str, Any], init=False)
    _stopping: trio.Event = field(factory=trio.Event, init=False)
    _over: trio.Event = field(factory=trio.Event, init=False)
    """Set when the application has returned."""
    _has_started: bool = field(default=False, init=False)
    _has_ended: bool = field(default=False, init=False)
    """True if it has shut down in time."""
    _running: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Shielded after the startup: the application receives ``lifespan.shutdown``, and is not cancelled."""
    _failure: Exception | None = field(default=None, init=False)
    """The exception or the failure message of its shutdown."""
    _is_asked: bool = field(default=False, init=False)

    async def run(self, app: AsgiApp, task_status: trio.TaskStatus[None]) -> None:
        """Call the application; it has started when it sends ``lifespan.startup.complete``."""

        async def send(message: AsgiMessage) -> None:
            await trio.lowlevel.checkpoint()
            match message["type"]:
                case "lifespan.startup.complete":
                    self._has_started = self._running.shield = True
                    task_status.started()
                case "lifespan.startup.failed":
                    raise RuntimeError(f"the application could not start: {message.get('message', '')}")
                case "lifespan.shutdown.failed":
                    self._failure = RuntimeError(f"the application could not shut down: {message.get('message', '')}")
                case _:
                    pass  # it has shut down when it returns

        try:
            with self._running:
                await app({"type": "lifespan", "asgi": ASGI, "state": self.state}, self._receive, send)
        except Exception as exc:
            if not self._stopping.is_set():
                raise
            self._failure = exc
        finally:
            self._over.set()
        if not self._has_started:
            raise RuntimeError("the application has returned without completing its startup")

    async def stop(self) -> None:
        """Have the application shut down, within a bounded time."""
        self._stopping.set()
        with trio.move_on_after(WIND_DOWN_SECONDS, shield=True):
            await self._over.wait()
        self._has_ended = self._over.is_set()
        self._running.cancel()

    def check(self) -> None:
        """Raise the failure of its shutdown."""
        if self._failure is not None:
            raise self._failure
        if not self._has_ended:
            raise RuntimeError(f"the application has not shut down within {WIND_DOWN_SECONDS:g} s")

    async def _receive(self) -> AsgiMessage:
        await trio.lowlevel.checkpoint()
        if not self._is_asked:
            self._is_asked = True
            return {"type": "lifespan.startup"}
        await self._stopping.wait()
        return {"type": "lifespan.shutdown"}


_log = logging.getLogger("trio_mcp.testing")

_PIECE_BYTES = 16 * 1024
_PIECES = 4
"""The number of pieces of a response that may wait for the client: as much as a socket would hold."""
_RETURN_SECONDS = 5.0
"""The time for an application to return after its client has left, on Trio's clock; then it is cancelled."""


@define(eq=False)
class AsgiEngine:
    """An HTTP engine that sends the requests of clients to an ASGI application in this process.

    Pass it to a client::

        engine = AsgiEngine(app)
        async with open_http_client("http://test/mcp", engine=engine) as client:
            ...

    Responses stream, so server-sent events arrive as they are sent. Works with pytest-trio's ``autojump_clock``. If the
    application raises, the client gets status 500, or a response that breaks off, and the exception is logged as an
    error by ``trio_mcp.testing``.

    Args:
        app: any ASGI 3 application that runs under Trio: that of `http_app`, or one in which it is mounted.
        client: the address that requests come from, as the application sees it.
    """

    app: AsgiApp
    client: tuple[str, int] | None = field(default=("127.0.0.1", 50_000), kw_only=True)
    _state: dict[str, Any] | None = field(default=None, init=False)
    """The state of the application's lifespan for its requests; None outside the lifespan."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Run the lifespan of the application for as long as the block lasts, as a server would.

        Without it, the application is like one that is not run. Leave the blocks of all clients before this one.

        Raises:
            RuntimeError: the application reports that its startup or shutdown has failed.
            Exception: the exception of its startup, for example because it has no lifespan.
        """
        lifespan = AsgiLifespan()
        async with owned_nursery() as nursery:
            await nursery.start(lifespan.run, self.app)
            self._state = lifespan.state
            try:
                yield
            finally:
                self._state = None
                await lifespan.stop()
            lifespan.check()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Call the application with one request.

        Leaving the block disconnects, and waits until the application returns.

        Args:
            method: the HTTP method, in capitals.
            url: the absolute URL.
            headers: the header fields, without those about the framing and the host.
            content: the body.
            on_sent: called synchronously when the application has read the whole body.
        """
        exchange = _Exchange(content, on_sent)
        async with owned_nursery() as nursery:
            nursery.start_soon(exchange.run, self.app, self._scope(method, url, headers, content))
            try:
                await exchange.head.wait()
                yield exchange
            finally:
                exchange.leave()
                with trio.CancelScope(shield=True):
                    await exchange.returned.wait()

    async def fetch(self, call: HttpCall) -> HttpReply:
        """Make a request of authorization: an `abc.Fetch`.

        It lets a protected server read the keys of an authorization server in this process::

            login = AuthorizationServer("https://login.example")
            ResourceServer("https://mcp.example/mcp", issuers=[login.issuer], fetch=AsgiEngine(login).fetch)

        Args:
            call: the request.

        Raises:
            CallFailed: there is no answer.
        """
        return await engine_fetch(self)(call)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""
        await trio.lowlevel.checkpoint()

    def _scope(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Scope:
        parts = urlsplit(url)
        lines = [(b"host", parts.netloc.encode())]
        lines += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        if content or method == "POST":
            lines.append((b"content-length", b"%d" % len(content)))
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": ASGI,
            "http_version": "1.1",
            "method": method,
            "scheme": parts.scheme,
            "path": unquote_to_bytes(parts.path or "/").decode(errors="replace"),
            "raw_path": (parts.path or "/").encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": lines,
            "client": self.client,
            "server": (parts.hostname, port),
            "extensions": {},
        }
        if self._state is not None:
            scope["state"] = {**self._state}
        return scope


@define(eq=False)
class _Exchange:
    """One call of the application; the client sees it as the response."""

    _content: bytes
    _on_sent: Callable[[], None] | None
    status: int = field(default=500, init=False)
    headers: Mapping[str, str] = field(factory=dict[str, str], init=False)
    head: trio.Event = field(factory=trio.Event, init=False)
    """Set when the status and the headers are known."""
    returned: trio.Event = field(factory=trio.Event, init=False)
    """Set when the application has returned."""
    _is_begun: bool = field(default=False, init=False)
    _is_complete: bool = field(default=False, init=False)
    _over: trio.Event = field(factory=trio.Event, init=False)
    """Set when the client has left, or has the whole response."""
    _running: trio.CancelScope = field(factory=lambda: trio.CancelScope(shield=True), init=False)
    _unread: int | None = field(default=0, init=False)
    """The position of the unread part of the body; None if all has been read."""
    _pieces: trio.MemorySendChannel[bytes] = field(init=False)
    _arriving: trio.MemoryReceiveChannel[bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pieces, self._arriving = trio.open_memory_channel[bytes](_PIECES)

    async def run(self, app: AsgiApp, scope: Scope) -> None:
        """Call the application, and handle its messages as a server would; raises what would end a server."""
        try:
            with self._running:
                await self._call(app, scope)
            if self._running.cancelled_caught:
                _log.error(
                    "the application did not return within %g s after its client had left, and was cancelled: %s %s",
                    _RETURN_SECONDS,
                    scope["method"],
                    scope["path"],
                )
        finally:
            self._pieces.close()
            self._is_complete |= not self._is_begun  # the default is status 500
            self._note_sent()
            self.head.set()
            self.returned.set()

    async def _call(self, app: AsgiApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception:  # noqa: BLE001 # a bug of the application may raise anything
            _log.exception("the application raised while it answered %s %s", scope["method"], scope["path"])

    def leave(self) -> None:
        """Tell the application that the client has left or has read all, and give it time to return."""
        self._over.set()
        self._arriving.close()
        self._running.deadline = trio.current_time() + _RETURN_SECONDS

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it is sent."""
        async for piece in self._arriving:
            yield piece
        if not self._is_complete:
            raise EngineError("the application ended in the middle of its response", sent=True)

    async def _receive(self) -> AsgiMessage:
        if self._unread is None:
            await self._over.wait()
        if self._over.is_set():
            await trio.lowlevel.checkpoint()
            return {"type": "http.disconnect"}
        assert self._unread is not None
        await trio.lowlevel.checkpoint()
        start, end = self._unread, self._unread + _PIECE_BYTES
        has_more = end < len(self._content)
        self._unread = end if has_more else None
        if not has_more:
            self._note_sent()
        return {"type": "http.request", "body": self._content[start:end], "more_body": has_more}

    def _note_sent(self) -> None:
        """Count the request as sent, because the application has read it, or answers without reading it."""
        notify_nowait, self._on_sent = self._on_sent, None
        if notify_nowait is not None:
            notify_nowait()

    async def _send(self, message: AsgiMessage) -> None:
        await trio.lowlevel.checkpoint()
        if self._over.is_set() and not self._is_complete:
            return  # the client has left, which servers do not report here
        match message["type"]:
            case "http.response.start" if not self._is_begun:
                self._begin(message)
            case "http.response.body" if self._is_begun and not self._is_complete:
                await self._send_body(message.get("body", b""))
                if not message.get("more_body", False):
                    self._is_complete = True
                    self._pieces.close()
                    self._over.set()
            case type:
                raise RuntimeError(f"the application sends {type!r} at a time when no server expects it")

    def _begin(self, message: AsgiMessage) -> None:
        self._is_begun, self.status = True, message["status"]
        headers: dict[str, str] = {}
        for raw_name, raw_value in message.get("headers", ()):
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.headers = headers
        self._note_sent()
        self.head.set()

    async def _send_body(self, body: bytes) -> None:
        with suppress(trio.BrokenResourceError):  # the client leaves during the wait
            for start in range(0, len(body), _PIECE_BYTES):
                await self._pieces.send(body[start : start + _PIECE_BYTES])


class AsgiNetwork:
    """An HTTP engine that sends the requests of clients to several ASGI applications in this process, by origin.

    Pass it to a client, as with `AsgiEngine`::

        network = AsgiNetwork({"https://mcp.example": app, "https://auth.example": auth})
        async with network.lifespan(), open_http_client("https://mcp.example/mcp", engine=network) as client:
            ...

    Requests to other origins fail: no application listens there.

    Args:
        apps: ASGI 3 applications that run under Trio, by origin: scheme, host, and the port if it is not the default.
        client: the address that requests come from, as the applications see it.

    Raises:
        ValueError: a key is not an origin, or two are the same.
    """

    def __init__(self, apps: Mapping[str, AsgiApp], *, client: tuple[str, int] | None = ("127.0.0.1", 50_000)) -> None:
        self._engines = {_origin_of(url): AsgiEngine(app, client=client) for url, app in apps.items()}
        if len(self._engines) < len(apps) or any(urlsplit(url).path.strip("/") for url in apps):
            raise ValueError(
                "AsgiNetwork: each key must be a different origin without a path, such as 'https://mcp.example'"
            )

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Run the lifespans of all applications for as long as the block lasts; see `AsgiEngine.lifespan`."""
        async with AsyncExitStack() as stack:
            for engine in self._engines.values():
                await stack.enter_async_context(engine.lifespan())
            yield

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Call the application at the origin of *url*; see `testing.AsgiEngine.request`.

        Raises:
            EngineError: no application has that origin.
        """
        engine = self._engines.get(_origin_of(url))
        if engine is None:
            await trio.lowlevel.checkpoint()
            raise EngineError(f"no application listens at {'://'.join(_origin_of(url)[:2])}", sent=False)
        async with engine.request(method, url, headers, content, on_sent=on_sent) as response:
            yield response

    async def fetch(self, call: HttpCall) -> HttpReply:
        """Make a request of authorization; see `testing.AsgiEngine.fetch`.

        Args:
            call: the request.

        Raises:
            CallFailed: there is no answer.
        """
        return await engine_fetch(self)(call)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""
        await trio.lowlevel.checkpoint()


def _origin_of(url: str) -> tuple[str, str, int]:
    """Return the origin of a URL; raises ValueError if it has none."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    if usual is None or not parts.hostname:
        raise ValueError(f"{url!r} has no http or https origin")
    return parts.scheme, parts.hostname, parts.port or usual
