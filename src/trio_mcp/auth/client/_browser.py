"""Shows a person the page where they sign in: in the system's browser, or as a line that they can copy.

The address comes from an authorization server. It reaches programs of the system, and a terminal, so only the
characters of a URL are let through.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
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
from ..._util import owned_nursery
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

_PAGE = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,16384}")
"""The characters that RFC 3986 knows: no space, no quotation mark, no control character, no other alphabet."""


def _print(text: str) -> None:
    with suppress(OSError, AttributeError):  # nobody reads it, or the stream is closed: a browser may be there still
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


async def open_browser(url: str, *, say: Callable[[str], None] = _print) -> None:
    """Show a page in the system's browser, and say its address as well: nobody can tell whether a browser has come up.

    A browser that lives in the terminal, which is the application's, is left out unless the environment variable
    ``BROWSER`` names it. The thread that starts the browser is abandoned on cancellation.

    Args:
        url: an ``http`` or ``https`` URL.
        say: says it to the person; by default on standard error.

    Raises:
        AuthorizationFailed: *url* is none that may be shown.
    """
    host = host_of(url)
    say(f"To sign in at {host}, use the page that your browser opens, or visit:\n    {url}")
    if not await trio.to_thread.run_sync(_open, url, abandon_on_cancel=True):
        say("(no browser could be opened here)")


async def print_url(url: str, *, say: Callable[[str], None] = _print) -> None:
    """Say the address of a page, where there is no browser to show it in.

    Args:
        url: an ``http`` or ``https`` URL.
        say: says it to the person; by default on standard error.

    Raises:
        AuthorizationFailed: *url* is none that may be shown.
    """
    host = host_of(url)
    await trio.lowlevel.checkpoint()
    say(f"To sign in at {host}, visit:\n    {url}")


def host_of(url: str) -> str:
    """Return whose page it is.

    Raises:
        AuthorizationFailed: *url* is none that may be shown.
    """
    with suppress(ValueError):
        host = urlsplit(url).hostname
        if host and _PAGE.fullmatch(url):
            return host
    raise AuthorizationFailed("the address of the sign-in page is no http or https URL that a browser may be given")


def _open(url: str) -> bool:
    """Start a browser, without a shell; return whether there is one."""
    try:
        browser = webbrowser.get()
        if type(browser) is webbrowser.GenericBrowser and "BROWSER" not in os.environ:
            return False  # one for terminals, which the standard library takes where there is no screen
        return browser.open(url)
    except (webbrowser.Error, OSError):
        return False


# What leads a person to an authorization server and back.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations


class BrowserAgent(Protocol):
    """Leads a person to an authorization server and back, once."""

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return where the browser is to be sent back to, ready for it.

        Args:
            preferred: what the authorization server knows already; another one has to be registered there first.

        Raises:
            AuthorizationFailed: there is no such place.
        """
        ...

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        """Show *url* to the person, and return the whole URL that the browser was then sent to.

        Args:
            url: an ``https`` URL, or an ``http`` one of this machine; checked already.
            redirect_uri: what `pick_redirect` has returned.

        Raises:
            AuthorizationFailed: the person could not be shown it, or did not come back in time.
        """
        ...


# Leads a person to an authorization server and back by a function of the application's: its own window, or a test.
#
# Called by the driver of flows. What goes wrong in the function fails one authorization, and nothing else.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization


@frozen(eq=False)
class CustomBrowserAgent:
    """A `BrowserAgent` by a function of the application's."""

    _visit: Callable[[str], Awaitable[str]]
    _redirect_uri: str
    _seconds: float

    async def pick_redirect(self, preferred: str | None) -> str:  # noqa: ARG002 # there is one, whatever is known
        """Return the redirect URI that the application waits at."""
        await trio.lowlevel.checkpoint()
        return self._redirect_uri

    async def sign_in(self, url: str, redirect_uri: str) -> str:  # noqa: ARG002 # it stands in the URL
        """Hand *url* to the application, and return the URL that it says the browser came back to."""
        response_url: object = None
        with trio.move_on_after(self._seconds) as scope:
            try:
                response_url = await self._visit(url)
            except AuthorizationFailed:
                raise
            except Exception as error:
                raise AuthorizationFailed(
                    f"the application could not lead anybody to {shown_url(url)}: {type(error).__name__}"
                ) from error
        if scope.cancelled_caught:
            raise AuthorizationFailed(f"nobody has come back from {shown_url(url)} within {self._seconds:g} s")
        if not isinstance(response_url, str):
            raise AuthorizationFailed(
                f"the application's visit function returned {type(response_url).__name__}, and no URL"
            )
        return response_url


# Where a browser can be sent back to on this machine: redirect URIs, and the sockets behind them.
#
# Specification: https://www.rfc-editor.org/rfc/rfc8252#section-7.3

_NO_SUCH_FAMILY = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


@frozen
class Callback:
    """A redirect URI of this machine."""

    uri: str
    host: str
    port: int
    """0 for any."""
    path: str

    @classmethod
    def read(cls, uri: str) -> Callback | None:
        """Return what a redirect URI says; None where browsers would be led away from this machine."""
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
        """Where to listen."""
        return _addresses(self.host)

    def at(self, port: int) -> Callback:
        """Return the same with the port that was found; to the letter where that is its own."""
        if port == self.port:
            return self
        parts = urlsplit(self.uri)
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return Callback(parts._replace(netloc=f"{shown}:{port}").geturl(), self.host, port, self.path)


def _addresses(host: str) -> list[str]:
    """Return the addresses of a host's name; none where it is not this machine for sure.

    A browser may try either address of ``localhost``, so nobody else may sit at the other.
    """
    if host == "localhost":
        return ["127.0.0.1", "::1"]
    with suppress(ValueError):
        if ip_address(host).is_loopback:
            return [host]
    return []


DEFAULT_CALLBACK = Callback("http://127.0.0.1/callback", "127.0.0.1", 0, "/callback")
"""Where nothing else is known."""


async def listen(addresses: list[str], port: int) -> list[trio.SocketListener]:
    """Listen at all addresses, at the same port; 0 for any.

    Raises:
        OSError: the port cannot be had at one of them.
    """
    listeners = await trio.open_tcp_listeners(port, host=addresses[0])
    port = listeners[0].socket.getsockname()[1]
    for address in addresses[1:]:
        try:
            listeners += await trio.open_tcp_listeners(port, host=address)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno in _NO_SUCH_FAMILY:
                continue  # a machine without IPv6 has one address
            close_all(listeners)
            raise
    return listeners


def close_all(listeners: list[trio.SocketListener]) -> None:
    """Listen no more; synchronous."""
    for listener in listeners:
        listener.socket.close()


# What a browser is told when it comes back from an authorization server: a page on its own, the same for everybody.
#
# Nothing of the request is in it, no script, and nothing that would be loaded from elsewhere.

_STYLE = "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem}"
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def _response(status: str, title: str, text: str, *fields: str) -> bytes:
    """Return a whole HTTP response that ends its connection."""
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


DONE = _response("200 OK", "Back to the application", "It goes on by itself. You can close this page.")
REFUSED = _response(
    "200 OK", "Not signed in", "The sign-in has not been completed. You can close this page; the application says more."
)
WRONG_STATE = _response(
    "400 Bad Request", "Not this sign-in", "This page belongs to no sign-in that the application waits for."
)
NOT_FOUND = _response("404 Not Found", "Nothing here", "There is no such page.")
WRONG_METHOD = _response("405 Method Not Allowed", "Nothing here", "This page can only be visited.", "allow: GET")
NO_REQUEST = _response("400 Bad Request", "Nothing here", "This was no request that could be read.")


# Takes the browser back from an authorization server: a web server of this machine, for as long as one sign-in takes.
#
# Called by the driver of flows; knows nothing of tokens. Rules of this file:
#
# 1. It listens at loopback addresses alone, before the person is shown anything.
# 2. The answer is a GET of the redirect URI with the `state` of the visit. Every program and every page on this
# machine
#    can ask for anything else: that is turned away, and waited on.
# 3. The browser has its page before the answer is handed over, because the application may end soon after.
#
# Specification: https://www.rfc-editor.org/rfc/rfc8252#section-7.3

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
async def open_loopback_browser(
    *, show: Callable[[str], Awaitable[None]], seconds: float, redirect_uri: str | None
) -> AsyncGenerator[BrowserAgent]:
    """Open what leads a person to an authorization server by a browser, and takes the browser back on this machine.

    Args:
        show: shows a URL to the person; it is cancelled when the browser has come back.
        seconds: how long a visit may take.
        redirect_uri: an ``http`` URL of this machine, to be kept to the letter; without a port, any free one is taken.
            None: ``http://127.0.0.1:PORT/callback``, or as like the preferred one as can be had.
    """
    agent = _LoopbackBrowserAgent(show, seconds, redirect_uri)
    try:
        yield agent
    finally:
        agent.close()


@define(eq=False)
class _LoopbackBrowserAgent:
    """A `BrowserAgent` that listens."""

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
            f"the browser cannot come back to {wanted.uri}: nothing can listen there ({failure})"
        ) from failure

    def _preferred_callback(self, preferred: str | None) -> Callback:
        if self._redirect_uri is not None:
            wanted = Callback.read(self._redirect_uri)
            if wanted is None:
                raise AuthorizationFailed(
                    f"the redirect URI {self._redirect_uri!r:.200} is no http URL of this machine, so that the browser "
                    "cannot be taken back"
                )
            return wanted
        registered = None if preferred is None else Callback.read(preferred)
        return registered or DEFAULT_CALLBACK

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        """Show the page to the person, and return where the browser came back to."""
        callback = self._callback
        if callback is None or callback.uri != redirect_uri:
            raise RuntimeError("a visit needs the redirect URI that was picked")
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
        raise AuthorizationFailed(
            f"nobody has come back from the sign-in page of {sign_in.host} within {self._seconds:g} s"
        )


@define(eq=False)
class _SignIn:
    """One visit to an authorization server."""

    host: str
    _show: Callable[[str], Awaitable[None]]
    _callback: Callback
    _state: str | None
    done: trio.Event = field(factory=trio.Event, init=False)
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
            self.done.set()

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
        page, is_response = self._page_for(method, target)
        try:
            await stream.send_all(page)
        finally:
            if is_response and not self.done.is_set():
                self.target = target
                self.done.set()

    def _page_for(self, method: str, target: str) -> tuple[bytes, bool]:
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
        if not self._has_expected_state(members.get("state", [])) or not members.keys() & {"code", "error"}:
            return WRONG_STATE, False
        return (REFUSED if "error" in members else DONE), True

    def _has_expected_state(self, states: list[str]) -> bool:
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
