"""An ASGI application that is called in this process, as the transport of an HTTP client.

Rules of this file:

1. A response is passed on while the application sends it, so that a long one ends at its limit and is never held whole.
2. The application runs in a task of its own. What it does after its answer, such as a background task, delays no
   answer, and may last until the serving ends. If nobody waits for the answer any more, the task is cancelled.
3. An application that fails answers with status 500, as it does behind a server, and the log says why. If it needs
   asyncio, that is the error.

Specification: https://asgi.readthedocs.io/en/stable/specs/www.html and
https://asgi.readthedocs.io/en/stable/specs/lifespan.html
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import httpx2
import trio
from attrs import define, field

from .. import ToolError
from ..lowlevel import failure_of, owned_nursery

__all__ = ["App", "app_transport"]

_log = logging.getLogger("trio_mcp.openapi")

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[Any]]
_Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Any, _Receive, _Send], Awaitable[object]]
"""An ASGI 3 application."""

_ASGI: Final = {"version": "3.0", "spec_version": "2.4"}
_CLIENT: Final = ("127.0.0.1", 50_000)
"""The address that requests come from, as the application sees it."""
_PIECE_BYTES: Final = 2**16
_SHUTDOWN_SECONDS: Final = 10.0
_FAILED: Final = 500
_CURE: Final = (
    "Quart runs on Trio as QuartTrio (of quart-trio), and FastAPI and Starlette do if their endpoints need no asyncio. "
    "If asyncio hosts the server, the application can run on its loop: add_asgi(server, asyncio_app(app), ...), with "
    "asyncio_app of trio_mcp.asyncio. Otherwise serve it by a server for asyncio, and call it by its URL, with "
    "add_openapi()"
)


class _NeedsAsyncioError(Exception):
    """The application uses asyncio."""


def _failure_of_app(raised: BaseException) -> Exception:
    """Return the failure of an application that has raised *raised*; see `failure_of`, which may raise it again."""
    failure = failure_of(raised, "the application", _log)
    if failure is raised or not isinstance(raised, Exception):
        return failure
    explained = _NeedsAsyncioError(f"{failure}. {_CURE}")
    explained.__cause__ = raised
    return explained


@asynccontextmanager
async def app_transport(app: App, *, lifespan: bool) -> AsyncGenerator[httpx2.AsyncBaseTransport]:
    """Open a transport that calls an application.

    At the end of the block its tasks may still run for a bounded time, and are then cancelled.

    Args:
        lifespan: True to run the lifespan of the application as long as the block, and give its state to each request.

    Raises:
        RuntimeError: the application could not start.
    """
    async with AsyncExitStack() as stack:
        state = await stack.enter_async_context(_lifespan(app)) if lifespan else None
        calls: set[_AppCall] = set()

        async def finish() -> None:
            for each in [*calls]:
                await each.returned.wait()

        nursery = await stack.enter_async_context(owned_nursery(finish))
        yield _AppTransport(app, state, nursery, calls)


@define(eq=False)
class _AppTransport(httpx2.AsyncBaseTransport):
    """The transport of `app_transport`."""

    _app: App
    _state: Mapping[str, Any] | None
    _nursery: trio.Nursery
    _calls: set[_AppCall]
    """Those whose application runs."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Call the application with a request, and return its response when it begins.

        Raises:
            ToolError: the application needs asyncio.
        """
        call = _AppCall(request.method, request.url.path, await request.aread(), self._calls)
        self._calls.add(call)
        self._nursery.start_soon(call.run, self._app, self._scope(request))
        try:
            await call.head.wait()
        except trio.Cancelled:
            call.leave()
            raise
        if call.error is not None:
            raise call.error
        return httpx2.Response(call.status, headers=call.headers, stream=_AppBody(call))

    def _scope(self, request: httpx2.Request) -> dict[str, Any]:
        url = request.url
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": _CLIENT,
            "server": (url.host, url.port or {"https": 443}.get(url.scheme, 80)),
            "extensions": {},
        }
        if self._state is not None:
            scope["state"] = {**self._state}
        return scope


@define(eq=False)
class _AppCall:
    """One request to an application."""

    _method: str
    _path: str
    _content: bytes | None
    """The body of the request; None when the application has read it."""
    _calls: set[_AppCall]
    status: int = field(default=_FAILED, init=False)
    headers: list[tuple[bytes, bytes]] = field(factory=list[tuple[bytes, bytes]], init=False)
    head: trio.Event = field(factory=trio.Event, init=False)
    """Set when the status and the header are known."""
    returned: trio.Event = field(factory=trio.Event, init=False)
    """Set when the application has returned."""
    error: ToolError | None = field(default=None, init=False)
    """Why this application can answer no request."""
    is_begun: bool = field(default=False, init=False)
    """True when the application has sent the status and the header."""
    is_complete: bool = field(default=False, init=False)
    """True when the whole response has been sent."""
    pieces: trio.MemoryReceiveChannel[bytes] = field(init=False)
    """The body of the response."""
    _over: trio.Event = field(factory=trio.Event, init=False)
    """Set when the response is complete, or nobody waits for it."""
    _running: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _sending: trio.MemorySendChannel[bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sending, self.pieces = trio.open_memory_channel[bytes](0)

    @trio.lowlevel.enable_ki_protection  # an interrupt belongs to the main task, and not to the application
    async def run(self, app: App, scope: dict[str, Any]) -> None:
        """Call the application; whatever it raises affects this request only."""
        try:
            with self._running:
                await app(scope, self._receive, self._send)
            if not self.is_complete and not self._running.cancel_called:
                _log.error("the application returned without a whole answer to %s %s", self._method, self._path)
        except BaseException as raised:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            failure = _failure_of_app(raised)
            _log.log(logging.ERROR, "the application failed at %s %s", self._method, self._path, exc_info=failure)
            if isinstance(failure, _NeedsAsyncioError):
                self.error = ToolError(str(failure))
        finally:
            self._calls.discard(self)
            self._sending.close()
            self._over.set()
            self.head.set()
            self.returned.set()

    def leave(self) -> None:
        """Cancel the application, unless it has answered."""
        if not self.is_complete:
            self._running.cancel()
            self._over.set()

    async def _receive(self) -> _Message:
        await trio.lowlevel.checkpoint()
        if self._content is None:
            await self._over.wait()
            return {"type": "http.disconnect"}
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def _send(self, message: _Message) -> None:
        await trio.lowlevel.checkpoint()
        match message["type"]:
            case "http.response.start" if not self.is_begun:
                self.is_begun, self.status = True, message["status"]
                self.headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
                self.head.set()
            case "http.response.body" if self.is_begun and not self.is_complete:
                await self._send_body(message.get("body", b""))
                if not message.get("more_body", False):
                    self.is_complete = True
                    self._sending.close()
                    self._over.set()
            case kind:
                raise RuntimeError(f"the application sends {kind!r} at a time when no server expects it")

    async def _send_body(self, body: bytes) -> None:
        with suppress(trio.BrokenResourceError):  # nobody reads any more
            for start in range(0, len(body) if self._method != "HEAD" else 0, _PIECE_BYTES):
                await self._sending.send(bytes(body[start : start + _PIECE_BYTES]))


@define(eq=False)
class _AppBody(httpx2.AsyncByteStream):
    """The body of a response."""

    _call: _AppCall

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield it in pieces.

        Raises:
            ToolError: the application has failed because it needs asyncio, which it may report after its answer.
            httpx2.ReadError: it has failed in the middle of its answer.
        """
        call = self._call
        async for piece in call.pieces:
            yield piece
        if call.status == _FAILED:
            await call.returned.wait()
        if call.error is not None:
            raise call.error
        if call.is_begun and not call.is_complete:
            raise httpx2.ReadError("the application failed in the middle of its answer")

    async def aclose(self) -> None:
        """Stop reading."""
        self._call.leave()
        self._call.pieces.close()
        await trio.lowlevel.checkpoint()


# --- The lifespan ---


@asynccontextmanager
async def _lifespan(app: App) -> AsyncGenerator[Mapping[str, Any]]:
    """Run the lifespan of an application for as long as the block lasts; yield its state.

    Raises:
        RuntimeError: the application could not start.
    """
    lifespan = _AppLifespan()
    async with owned_nursery() as nursery:
        await nursery.start(lifespan.run, app)
        try:
            yield lifespan.state
        finally:
            await lifespan.stop()


@define(eq=False)
class _AppLifespan:
    """One lifespan of an application."""

    state: dict[str, Any] = field(factory=dict[str, Any], init=False)
    _is_asked: bool = field(default=False, init=False)
    """True when the application has been asked to start."""
    _has_started: bool = field(default=False, init=False)
    _stopping: trio.Event = field(factory=trio.Event, init=False)
    _ended: trio.Event = field(factory=trio.Event, init=False)
    _running: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Shielded after the start: the application shuts down when it is told to, and is not cancelled."""

    async def run(self, app: App, task_status: trio.TaskStatus[None]) -> None:
        """Call the application; raises if it fails before it has started."""

        async def send(message: _Message) -> None:
            await trio.lowlevel.checkpoint()
            if message["type"] == "lifespan.startup.complete":
                self._has_started = self._running.shield = True
                task_status.started()
            elif message["type"].endswith(".failed"):
                raise RuntimeError(message.get("message", ""))

        try:
            with self._running:
                await app({"type": "lifespan", "asgi": _ASGI, "state": self.state}, self._receive, send)
        except BaseException as raised:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            failure = _failure_of_app(raised)
            if not self._has_started:
                raise RuntimeError(f"the application could not start: {failure}") from failure
            _log.log(logging.ERROR, "the lifespan of the application failed", exc_info=failure)
        finally:
            self._ended.set()
        if not self._has_started:
            raise RuntimeError("the application has returned without completing its startup")

    async def stop(self) -> None:
        """Have the application shut down, within a bounded time."""
        self._stopping.set()
        with trio.move_on_after(_SHUTDOWN_SECONDS, shield=True):
            await self._ended.wait()
        if not self._ended.is_set():
            _log.error("the application has not shut down within %g s, and is cancelled", _SHUTDOWN_SECONDS)
        self._running.cancel()

    async def _receive(self) -> _Message:
        await trio.lowlevel.checkpoint()
        if not self._is_asked:
            self._is_asked = True
            return {"type": "lifespan.startup"}
        await self._stopping.wait()
        return {"type": "lifespan.shutdown"}
