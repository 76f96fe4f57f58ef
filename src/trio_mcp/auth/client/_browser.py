"""The user's browser: it shows the sign-in page, and receives the redirect on a port of this machine.

The flows of authorization call this module; it knows nothing about tokens. Rules of this file:

1. The URL of the sign-in page comes from an authorization server. Only the characters of a URL pass, because the URL
   reaches programs of the system and a terminal.
2. The web server listens only at loopback addresses, before the user sees the page.
3. The response is a GET of the redirect URI with the expected `state`. Any program or web page on this machine can send
   other requests: they are refused, and the server waits on.
4. The browser receives its page before the response is used, because the application may exit soon after.
5. That page is constant. It contains nothing of the request, no script, and no resource of another host.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations and
https://www.rfc-editor.org/rfc/rfc8252#section-7.3
"""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import logging
import os
import re
import sys
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import trio
from attrs import define, field, frozen

from ..._errors import AuthorizationFailed
from ..._util import failure_of, owned_nursery
from .._urls import shown_url

__all__ = [
    "DEFAULT_CALLBACK",
    "DONE",
    "NOT_FOUND",
    "NO_REQUEST",
    "REFUSED",
    "WRONG_METHOD",
    "WRONG_STATE",
    "BrowserAgent",
    "Callback",
    "CustomBrowserAgent",
    "close_all",
    "host_of",
    "listen",
    "open_browser",
    "open_loopback_browser",
    "print_url",
]

_log = logging.getLogger("trio_mcp.auth")

_PAGE = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,16384}")
"""The characters of RFC 3986: no spaces, quotation marks, control characters or other alphabets."""


def _print(text: str) -> None:
    with suppress(OSError, AttributeError):  # the stream is closed or not read: the browser may work all the same
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


async def open_browser(url: str, *, say: Callable[[str], None] = _print) -> None:
    """Show a page in the system's browser, and print its URL, in case that no browser has opened.

    A browser that runs in the terminal is used only if the environment variable ``BROWSER`` names it, because the
    terminal belongs to the application. On cancellation, the worker thread that starts the browser is abandoned.

    Args:
        url: an ``http`` or ``https`` URL.
        say: prints a line to the user; by default on standard error.

    Raises:
        AuthorizationFailed: *url* is not safe to show.
    """
    host = host_of(url)
    say(f"To sign in at {host}, use the page that your browser opens, or visit:\n    {url}")
    if not await trio.to_thread.run_sync(show_in_browser, url, abandon_on_cancel=True):
        say("(no browser could be opened here)")


async def print_url(url: str, *, say: Callable[[str], None] = _print) -> None:
    """Print the URL of a page, if there is no browser to show it in.

    Args:
        url: an ``http`` or ``https`` URL.
        say: prints a line to the user; by default on standard error.

    Raises:
        AuthorizationFailed: *url* is not safe to show.
    """
    host = host_of(url)
    await trio.lowlevel.checkpoint()
    say(f"To sign in at {host}, visit:\n    {url}")


def host_of(url: str) -> str:
    """Return the host of a sign-in page.

    Raises:
        AuthorizationFailed: *url* is not safe to show.
    """
    with suppress(ValueError):
        host = urlsplit(url).hostname
        if host and _PAGE.fullmatch(url):
            return host
    raise AuthorizationFailed("the address of the sign-in page is not a safe http or https URL")


def show_in_browser(url: str) -> bool:
    """Show the page at *url* in the browser of the system, without a shell; return False if there is none.

    It may block. A browser that runs in the terminal is used only if the environment variable ``BROWSER`` names it.
    """
    try:
        browser = webbrowser.get()
        if type(browser) is webbrowser.GenericBrowser and "BROWSER" not in os.environ:
            return False  # a terminal browser, which the standard library chooses if there is no screen
        return browser.open(url)
    except (webbrowser.Error, OSError):
        return False


class BrowserAgent(Protocol):
    """Shows the user an authorization page, and receives the redirect, once."""

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return the redirect URI, and be ready to receive the browser there.

        Args:
            preferred: the redirect URI that the authorization server knows already; another one must be registered
                first.

        Raises:
            AuthorizationFailed: no redirect URI is available.
        """
        ...

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        """Show *url* to the user, and return the whole URL that the browser was redirected to.

        Args:
            url: an ``https`` URL, or an ``http`` URL of this machine; it has been checked.
            redirect_uri: the result of `pick_redirect`.

        Raises:
            AuthorizationFailed: the page could not be shown, or the browser was not redirected in time.
        """
        ...


@frozen(eq=False)
class CustomBrowserAgent:
    """A `BrowserAgent` that calls a function of the application. A failure affects only this authorization."""

    _visit: Callable[[str], Awaitable[str]]
    _redirect_uri: str
    _seconds: float

    async def pick_redirect(self, preferred: str | None) -> str:  # noqa: ARG002 # there is only one
        """Return the redirect URI of the application."""
        await trio.lowlevel.checkpoint()
        return self._redirect_uri

    async def sign_in(self, url: str, redirect_uri: str) -> str:  # noqa: ARG002 # the URL contains it
        """Pass *url* to the application, and return the URL that the browser was redirected to."""
        response_url: object = None
        with trio.move_on_after(self._seconds) as scope:
            try:
                response_url = await self._visit(url)
            except AuthorizationFailed:
                raise
            except Exception as error:
                raise AuthorizationFailed(
                    f"the application's visit function failed for {shown_url(url)}: {type(error).__name__}"
                ) from error
        if scope.cancelled_caught:
            raise AuthorizationFailed(f"the sign-in at {shown_url(url)} was not completed within {self._seconds:g} s")
        if not isinstance(response_url, str):
            raise AuthorizationFailed(
                f"the application's visit function returned {type(response_url).__name__}, not a URL"
            )
        return response_url


_NO_SUCH_FAMILY = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


@frozen
class Callback:
    """A redirect URI of this machine."""

    uri: str
    host: str
    port: int
    """The port; 0 means any."""
    path: str

    @classmethod
    def read(cls, uri: str) -> Callback | None:
        """Parse a redirect URI; return None if it is not one of this machine."""
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname or "", parts.port or 0
        except ValueError:
            return None
        if parts.scheme != "http" or parts.fragment or "@" in parts.netloc or not _addresses(host):
            return None
        return cls(uri, host, port, parts.path or "/")

    @property
    def addresses(self) -> list[str]:
        """The addresses to listen at."""
        return _addresses(self.host)

    def at(self, port: int) -> Callback:
        """Return the same redirect URI with a port; it is unchanged if it names that port."""
        if port == self.port:
            return self
        parts = urlsplit(self.uri)
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return Callback(parts._replace(netloc=f"{shown}:{port}").geturl(), self.host, port, self.path)


def _addresses(host: str) -> list[str]:
    """Return the addresses of a host name; none unless it is certainly this machine.

    A browser may try either address of ``localhost``, so another program must not listen at one of them.
    """
    if host == "localhost":
        return ["127.0.0.1", "::1"]
    with suppress(ValueError):
        if ip_address(host).is_loopback:
            return [host]
    return []


DEFAULT_CALLBACK = Callback("http://127.0.0.1/callback", "127.0.0.1", 0, "/callback")
"""The default redirect URI."""


async def listen(addresses: list[str], port: int) -> list[trio.SocketListener]:
    """Listen at all addresses, at the same port; 0 means any.

    Raises:
        OSError: the port is not available at one of them.
    """
    listeners = await trio.open_tcp_listeners(port, host=addresses[0])
    port = listeners[0].socket.getsockname()[1]
    for address in addresses[1:]:
        try:
            listeners += await trio.open_tcp_listeners(port, host=address)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno in _NO_SUCH_FAMILY:
                continue  # a machine without IPv6 has only one address
            close_all(listeners)
            raise
    return listeners


def close_all(listeners: list[trio.SocketListener]) -> None:
    """Stop listening; synchronous."""
    for listener in listeners:
        listener.socket.close()


_STYLE = "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem}"
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def _response(status: str, title: str, text: str, *fields: str) -> bytes:
    """Return a whole HTTP response, which closes its connection."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1><p>{text}</p></body></html>\n"
    ).encode()
    head = [
        f"HTTP/1.1 {status}",
        "content-type: text/html; charset=utf-8",
        f"content-length: {len(page)}",
        "cache-control: no-store",
        f"content-security-policy: {_POLICY}; frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "connection: close",
        *fields,
    ]
    return "".join(f"{line}\r\n" for line in [*head, ""]).encode() + page


DONE = _response("200 OK", "Back to the application", "The sign-in continues there. You can close this page.")
REFUSED = _response(
    "200 OK",
    "Not signed in",
    "The sign-in was not completed. You can close this page; the application has the details.",
)
WRONG_STATE = _response("400 Bad Request", "Not this sign-in", "The application is not waiting for this sign-in.")
NOT_FOUND = _response("404 Not Found", "Not found", "There is no such page.")
WRONG_METHOD = _response(
    "405 Method Not Allowed", "Method not allowed", "Only GET requests are supported here.", "allow: GET"
)
NO_REQUEST = _response("400 Bad Request", "Bad request", "The request could not be read.")


MAX_HEAD = 65_536
"""Bytes of a request. It contains the cookies of all programs that listen on this machine."""
REQUEST_SECONDS = 10.0
"""The time limit of one connection. Browsers open some in advance, and send nothing on them."""
MAX_CONNECTIONS = 64
"""The limit of concurrent connections."""

_TRIES = 3
"""The number of further ports to try, if a port is free at one address of the name but not at the other."""
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[01]\r?\n")


@asynccontextmanager
async def open_loopback_browser(
    *, show: Callable[[str], Awaitable[None]], seconds: float, redirect_uri: str | None
) -> AsyncGenerator[BrowserAgent]:
    """Open a browser agent that receives the redirect on this machine.

    Args:
        show: shows a URL to the user; it is cancelled when the browser has been redirected.
        seconds: the time limit of a sign-in.
        redirect_uri: an ``http`` URL of this machine, which is used unchanged; without a port in it, any free one is
            used. None means ``http://127.0.0.1:PORT/callback``, or the preferred one, if possible.
    """
    agent = _LoopbackBrowserAgent(show, seconds, redirect_uri)
    try:
        yield agent
    finally:
        agent.close()


@define(eq=False)
class _LoopbackBrowserAgent:
    """A `BrowserAgent` with a web server."""

    _show: Callable[[str], Awaitable[None]]
    _seconds: float
    _redirect_uri: str | None
    _callback: Callback | None = field(default=None, init=False)
    _listeners: list[trio.SocketListener] = field(factory=list[trio.SocketListener], init=False)

    def close(self) -> None:
        """Stop listening."""
        close_all(self._listeners)
        self._listeners = []

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return the redirect URI, and listen there from now on."""
        self.close()
        wanted = self._preferred_callback(preferred)
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
            f"the browser cannot be redirected to {wanted.uri}: its port is not available ({failure})"
        ) from failure

    def _preferred_callback(self, preferred: str | None) -> Callback:
        if self._redirect_uri is not None:
            wanted = Callback.read(self._redirect_uri)
            if wanted is None:
                raise AuthorizationFailed(
                    f"the redirect URI {self._redirect_uri!r:.200} is not an http URL of this machine; this program "
                    "cannot receive the browser there"
                )
            return wanted
        registered = None if preferred is None else Callback.read(preferred)
        return registered or DEFAULT_CALLBACK

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        """Show the page to the user, and return the URL that the browser was redirected to."""
        callback = self._callback
        if callback is None or callback.uri != redirect_uri:
            raise RuntimeError("sign_in() requires the redirect URI of pick_redirect()")
        sign_in = _SignIn(host_of(url), self._show, callback, _state_of(url))
        with trio.move_on_after(self._seconds):
            async with owned_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, sign_in.serve, self._listeners)
                nursery.start_soon(sign_in.show, url)
                await sign_in.done.wait()
        if sign_in.target is not None:
            parts = urlsplit(callback.uri)
            return f"{parts.scheme}://{parts.netloc}{sign_in.target}"
        if sign_in.failure is not None:
            raise sign_in.failure
        raise AuthorizationFailed(f"the sign-in at {sign_in.host} was not completed within {self._seconds:g} s")


@define(eq=False)
class _SignIn:
    """One sign-in at an authorization server."""

    host: str
    _show: Callable[[str], Awaitable[None]]
    _callback: Callback
    _state: str | None
    done: trio.Event = field(factory=trio.Event, init=False)
    target: str | None = field(default=None, init=False, repr=False)
    """The path and query that the browser was redirected to."""
    failure: AuthorizationFailed | None = field(default=None, init=False)
    _connections: int = field(default=0, init=False)

    async def show(self, url: str) -> None:
        """Show the page to the user."""
        try:
            await self._show(url)
        except AuthorizationFailed as error:
            self.failure = error
        except BaseException as error:  # noqa: BLE001 # a function of the application may raise anything; only this sign-in fails
            failure = failure_of(error, "the function that shows the sign-in page", _log)
            text = f"the sign-in page of {self.host} could not be shown: {type(error).__name__}"
            self.failure = AuthorizationFailed(text)
            self.failure.__cause__ = failure
        if self.failure is not None:
            self.done.set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection, which means one request."""
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
        page, is_response = self._page_for(method, target)
        try:
            await stream.send_all(page)
        finally:
            if is_response and not self.done.is_set():
                self.target = target
                self.done.set()

    def _page_for(self, method: str, target: str) -> tuple[bytes, bool]:
        """Return the page for a request, and True if the request is the expected response."""
        path, _, query = target.partition("?")
        if path != self._callback.path:
            return NOT_FOUND, False
        if method != "GET":
            return WRONG_METHOD, False
        try:
            members = parse_qs(query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            return NO_REQUEST, False
        if not self._has_expected_state(members.get("state", [])) or not members.keys() & {"code", "error"}:
            return WRONG_STATE, False
        return (REFUSED if "error" in members else DONE), True

    def _has_expected_state(self, states: list[str]) -> bool:
        if self._state is None:
            return True
        return len(states) == 1 and hmac.compare_digest(states[0].encode(), self._state.encode())


def _state_of(url: str) -> str | None:
    """Return the `state` of an authorization URL; None if it has none."""
    return parse_qs(urlsplit(url).query).get("state", [None])[0]


async def _request_line(stream: trio.SocketStream) -> tuple[str, str] | None:
    """Return method and target of a request; None if it is malformed. The rest of the head is ignored."""
    head, seen = bytearray(), 0
    while head.find(b"\r\n\r\n", seen) < 0:
        seen = max(0, len(head) - 3)
        chunk = await stream.receive_some()
        head += chunk
        if not chunk or len(head) > MAX_HEAD:
            return None
    match = _REQUEST_LINE.match(head)
    return None if match is None else (match[1].decode(), match[2].decode())
