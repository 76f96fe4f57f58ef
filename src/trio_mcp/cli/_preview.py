"""The web pages of `trio-mcp app`: a page for the user, and a sandbox for the app on an origin of its own.

Two small servers on this machine, because a sandbox must have another origin than its host. Each serves one page; the
first also a WebSocket, over which the page and this process exchange JSON.

Rules of this file:

1. Every path begins with a random secret, which only the user's browser gets. Other paths are not found.
2. `Host` must be the server's own address, which stops DNS rebinding, and a WebSocket needs the `Origin` of the page.
3. The page of the app is at no address. It reaches the sandbox in a message, and has the policy of the sandbox.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from hmac import compare_digest
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import trio
from attrs import define, field, frozen

from .._util import owned_nursery
from ..apps import PERMISSIONS, App
from ..transports import (
    Bound,
    HttpChannel,
    HttpListening,
    HttpRequest,
    UpgradableChannel,
    WebSocketStream,
    read_opening,
    serve_asgi,
)
from ..wire import Line, LineFramer, Oversized, Refusal, Undecodable, decode, encode, is_object

__all__ = ["PageSocket", "open_preview"]

_HOST_PAGE, _SANDBOX_PAGE = (
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("app_host.html", "app_sandbox.html")
)
_FEATURES: Mapping[str, str] = {name: name.replace("_", "-") for name in PERMISSIONS}
"""The names that browsers have for permissions."""
_FIELDS: Mapping[str, str] = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

_MOST_BYTES = 20 * 1024 * 1024
"""The size of the longest message of a page: more than that of a view, which is in it."""
_SILENCE_SECONDS = 30.0


@define(eq=False)
class PageSocket:
    """The WebSocket of a page that is open: JSON objects in both directions."""

    _stream: WebSocketStream
    _framer: LineFramer = field(factory=lambda: LineFramer(_MOST_BYTES), init=False)
    _sending: trio.Lock = field(factory=trio.Lock, init=False)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send an object to the page.

        Raises:
            trio.BrokenResourceError: the page has left.
        """
        async with self._sending:
            await self._stream.send_all(encode(message) + b"\n")

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Iterate over the objects that the page sends, until it leaves. What is no object is skipped."""
        with suppress(trio.BrokenResourceError):
            while data := await self._stream.receive_some():
                for line in self._framer.feed(data):
                    value = None if isinstance(line, Oversized) else _decoded(line)
                    if is_object(value):
                        yield value


def _decoded(line: Line) -> Any:
    try:
        return decode(line)
    except Undecodable:
        return None


ServeSocket: TypeAlias = Callable[[PageSocket], Awaitable[None]]
"""Serves the WebSocket of one page, until the page leaves."""


@frozen
class _Page:
    html: str
    policy: str


@define(eq=False)
class _Site:
    """A server of one page, and of the WebSocket of the page. It answers requests without ASGI."""

    serve_socket: ServeSocket | None = None
    secret: str = field(factory=partial(secrets.token_urlsafe, 24), init=False)
    origin: str = field(default="", init=False)
    page: _Page | None = field(default=None, init=False)
    """None until the addresses of both servers are known."""

    @property
    def url(self) -> str:
        return f"{self.origin}/{self.secret}/"

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled, at a free port."""
        async with owned_nursery() as nursery:
            bound: Bound = await nursery.start(
                partial(
                    serve_asgi,
                    _no_application,
                    HttpListening(port=0, http2=False),
                    direct=self,
                    stopping=trio.sleep_forever,
                    drain=trio.lowlevel.checkpoint,
                    drain_seconds=0,
                )
            )
            self.origin = bound.urls[0]
            task_status.started()
            await trio.sleep_forever()

    def _is_own(self, request: HttpRequest, name: str) -> bool:
        """Return True if a request is for this server and for this name (rules 1 and 2)."""
        is_here = f"http://{request.headers.get('host')}" == self.origin
        return is_here and compare_digest(request.path.encode(), f"/{self.secret}/{name}".encode())

    def answers_directly(self, request: HttpRequest) -> bool:
        """Return True: no request is for an ASGI application."""
        del request
        return True

    def begin(self, request: HttpRequest, body: bytes) -> None:
        """Do nothing, because `answer` answers all requests."""

    async def go_on(self, begun: Any, request: HttpRequest, channel: HttpChannel) -> None:
        """Do nothing, because `begin` begins no request."""

    async def answer(self, request: HttpRequest, channel: HttpChannel) -> None:
        """Answer a request with the page, or with 404."""
        if self.page is None or request.method not in {"GET", "HEAD"} or not self._is_own(request, ""):
            status, fields, body = 404, {"content-type": "text/plain"}, b"not found"
        else:
            status, fields, body = (
                200,
                {**_FIELDS, "content-security-policy": self.page.policy},
                self.page.html.encode(),
            )
        fields["content-length"] = str(len(body))
        channel.put((status, [*fields.items()]), b"" if request.method == "HEAD" else body, more=False)
        await channel.flush()

    def takes_websocket(self, request: HttpRequest) -> bool:
        """Return True if a request is one of the page, which serves a WebSocket."""
        return self.serve_socket is not None and self._is_own(request, "socket") and self._is_from_page(request)

    def _is_from_page(self, request: HttpRequest) -> bool:
        return request.headers.get("origin") == self.origin

    async def serve_websocket(self, request: HttpRequest, channel: UpgradableChannel) -> None:
        """Open the WebSocket of a page, and serve it."""
        assert self.serve_socket is not None
        fields = read_opening(request.headers)
        if isinstance(fields, Refusal):
            channel.put((fields.status, [*fields.headers.items(), ("content-length", "0")]), b"", more=False)
            await channel.flush()
            return
        stream = WebSocketStream(channel.switch(fields), is_client=False, silence_seconds=_SILENCE_SECONDS)
        async with owned_nursery() as nursery:
            nursery.start_soon(stream.keep_alive)
            with suppress(trio.BrokenResourceError):
                await self.serve_socket(PageSocket(stream))
            await stream.aclose()


async def _no_application(*_: object) -> None:
    """An ASGI application without a lifespan; it gets no requests."""


@asynccontextmanager
async def open_preview(app: App, serve_socket: ServeSocket, *, title: str, about: str) -> AsyncGenerator[str]:
    """Serve the page of a preview and its sandbox for as long as the block lasts; yield the URL of the page.

    Args:
        app: the app that the sandbox holds.
        serve_socket: serves the WebSocket of each page that is opened.
        title: the heading of the page.
        about: one line below it.

    Raises:
        OSError: no port can be bound.
    """
    host, sandbox = _Site(serve_socket), _Site()
    async with owned_nursery() as nursery:
        for site in (host, sandbox):
            await nursery.start(site.serve)
        settings = {
            "title": title,
            "about": about,
            "sandbox": sandbox.url,
            "sandboxOrigin": sandbox.origin,
            "allow": "; ".join(_FEATURES[each] for each in sorted(app.permissions)),
            "border": app.prefers_border is not False,
        }
        nonce = secrets.token_urlsafe(16)
        host.page = _Page(
            _filled(_HOST_PAGE, title=escape(title), nonce=nonce, settings=_json_for_script(settings)),
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self' "
            f"{host.origin.replace('http', 'ws', 1)}; frame-src {sandbox.origin}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'",
        )
        sandbox.page = _Page(
            _filled(_SANDBOX_PAGE, host_origin=host.origin), app.csp.policy(frame_ancestors=host.origin)
        )
        yield host.url


def _filled(page: str, **values: str) -> str:
    for name, value in values.items():
        page = page.replace("{{" + name + "}}", value)
    return page


def _json_for_script(value: Any) -> str:
    """Return JSON that cannot end the script that it stands in."""
    return encode(value).decode().replace("<", "\\u003c")
