"""Takes the browser back from an authorization server: a web server of this machine, for as long as one sign-in takes.

Called by the driver of flows; knows nothing of tokens. Rules of this file:

1. It listens at loopback addresses alone, before the person is shown anything.
2. The answer is a GET of the redirect URI with the `state` of the visit. Every program and every page on this machine
   can ask for anything else: that is turned away, and waited on.
3. The browser has its page before the answer is handed over, because the application may end soon after.

Specification: https://www.rfc-editor.org/rfc/rfc8252#section-7.3
"""

from __future__ import annotations

import hmac
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

import trio
from attrs import define, field

from .._errors import AuthorizationFailed
from .._util import owned_nursery
from ._browser import host_of
from ._loopback_callback import USUAL, Callback, close_all, listen
from ._loopback_page import DONE, NO_REQUEST, NOT_FOUND, REFUSED, STRANGER, WRONG_METHOD
from ._visitor import Visitor

__all__ = ["open_loopback_visitor"]

MAX_HEAD = 65_536
"""Bytes of a request. The cookies of all programs that listen on this machine are in it."""
REQUEST_SECONDS = 10.0
"""How long one connection may take. Browsers open some in advance, and say nothing on them."""
MAX_CONNECTIONS = 64
"""How many of them there may be at once."""

_TRIES = 3
"""How often another port is tried where one is free at one address of the name and taken at the other."""
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[01]\r?\n")


@asynccontextmanager
async def open_loopback_visitor(
    *, show: Callable[[str], Awaitable[None]], seconds: float, redirect_uri: str | None
) -> AsyncGenerator[Visitor]:
    """Open what leads a person to an authorization server by a browser, and takes the browser back on this machine.

    Args:
        show: shows a URL to the person; it is cancelled when the browser has come back.
        seconds: how long a visit may take.
        redirect_uri: an ``http`` URL of this machine, to be kept to the letter; without a port, any free one is taken.
            None: ``http://127.0.0.1:PORT/callback``, or as like the preferred one as can be had.
    """
    visitor = _LoopbackVisitor(show, seconds, redirect_uri)
    try:
        yield visitor
    finally:
        visitor.close()


@define(eq=False)
class _LoopbackVisitor:
    """A `Visitor` that listens."""

    _show: Callable[[str], Awaitable[None]]
    _seconds: float
    _redirect_uri: str | None
    _callback: Callback | None = field(default=None, init=False)
    _listeners: list[trio.SocketListener] = field(factory=list[trio.SocketListener], init=False)

    def close(self) -> None:
        """Listen no more."""
        close_all(self._listeners)
        self._listeners = []

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return where the browser is to come back to, and listen there from now on."""
        self.close()
        wanted = self._wanted(preferred)
        is_fixed = self._redirect_uri is not None and wanted.port != 0
        ports = [wanted.port] if is_fixed else [wanted.port] + [0] * _TRIES
        failure: OSError | None = None
        for port in ports:
            try:
                self._listeners = await listen(wanted.addresses, port)
            except OSError as error:
                failure = error
                continue
            found: int = self._listeners[0].socket.getsockname()[1]
            self._callback = wanted.at(found)
            return self._callback.uri
        raise AuthorizationFailed(
            f"the browser cannot come back to {wanted.uri}: nothing can listen there ({failure})"
        ) from failure

    def _wanted(self, preferred: str | None) -> Callback:
        if self._redirect_uri is not None:
            wanted = Callback.read(self._redirect_uri)
            if wanted is None:
                raise AuthorizationFailed(
                    f"the redirect URI {self._redirect_uri!r:.200} is no http URL of this machine, so that the browser "
                    "cannot be taken back"
                )
            return wanted
        known = None if preferred is None else Callback.read(preferred)
        return known or USUAL

    async def visit(self, url: str, redirect_uri: str) -> str:
        """Show the page to the person, and return where the browser came back to."""
        callback = self._callback
        if callback is None or callback.uri != redirect_uri:
            raise RuntimeError("a visit needs the redirect URI that was picked")
        visit = _Visit(host_of(url), self._show, callback, _state_of(url))
        with trio.move_on_after(self._seconds):
            async with owned_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, visit.serve, self._listeners)
                nursery.start_soon(visit.show, url)
                await visit.over.wait()
        if visit.target is not None:
            parts = urlsplit(callback.uri)
            return f"{parts.scheme}://{parts.netloc}{visit.target}"
        if visit.failure is not None:
            raise visit.failure
        raise AuthorizationFailed(
            f"nobody has come back from the sign-in page of {visit.host} within {self._seconds:g} s"
        )


@define(eq=False)
class _Visit:
    """One visit to an authorization server."""

    host: str
    _show: Callable[[str], Awaitable[None]]
    _callback: Callback
    _state: str | None
    over: trio.Event = field(factory=trio.Event, init=False)
    target: str | None = field(default=None, init=False, repr=False)
    """Path and query that the browser came back with."""
    failure: AuthorizationFailed | None = field(default=None, init=False)
    _connections: int = field(default=0, init=False)

    async def show(self, url: str) -> None:
        """Show the page to the person."""
        try:
            await self._show(url)
        except AuthorizationFailed as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001 # it is the application's, and one sign-in fails by it
            text = f"the sign-in page of {self.host} could not be shown: {type(error).__name__}"
            self.failure = AuthorizationFailed(text)
            self.failure.__cause__ = error
        if self.failure is not None:
            self.over.set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection: one request."""
        async with stream:
            if self._connections >= MAX_CONNECTIONS:
                return
            self._connections += 1
            try:
                with suppress(trio.BrokenResourceError), trio.move_on_after(REQUEST_SECONDS):
                    await self._answer(stream)
            finally:
                self._connections -= 1

    async def _answer(self, stream: trio.SocketStream) -> None:
        line = await _request_line(stream)
        if line is None:
            await stream.send_all(NO_REQUEST)
            return
        method, target = line
        page, is_answer = self._judge(method, target)
        try:
            await stream.send_all(page)
        finally:
            if is_answer and not self.over.is_set():
                self.target = target
                self.over.set()

    def _judge(self, method: str, target: str) -> tuple[bytes, bool]:
        """Return the page for a request, and whether it is what is waited for."""
        path, _, query = target.partition("?")
        if path != self._callback.path:
            return NOT_FOUND, False
        if method != "GET":
            return WRONG_METHOD, False
        try:
            members = parse_qs(query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            return NO_REQUEST, False
        if not self._is_ours(members.get("state", [])) or not members.keys() & {"code", "error"}:
            return STRANGER, False
        return (REFUSED if "error" in members else DONE), True

    def _is_ours(self, states: list[str]) -> bool:
        if self._state is None:
            return True
        return len(states) == 1 and hmac.compare_digest(states[0].encode(), self._state.encode())


def _state_of(url: str) -> str | None:
    """Return the `state` with which an authorization server is asked; None without one."""
    return parse_qs(urlsplit(url).query).get("state", [None])[0]


async def _request_line(stream: trio.SocketStream) -> tuple[str, str] | None:
    """Return method and target of the request on a connection; None where that is no request. The rest is read over."""
    head, seen = bytearray(), 0
    while head.find(b"\r\n\r\n", seen) < 0:
        seen = max(0, len(head) - 3)
        chunk = await stream.receive_some()
        head += chunk
        if not chunk or len(head) > MAX_HEAD:
            return None
    match = _REQUEST_LINE.match(head)
    return None if match is None else (match[1].decode(), match[2].decode())
