"""HTTP requests over httpx2. Imported when the first client opens, because the library takes its time to load.

Only HTTP/1.1: over HTTP/2 httpx2 does not tell the server when a response is left early, and that is what cancels a
request. httpx, its ancestor, is of no use here: it loses connections when responses are left early.
"""

from __future__ import annotations

import logging
import os
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, TypeAlias

import httpx2
import trio
from attrs import define, field

from ._http_engine import EngineError

__all__ = ["HttpxClient", "HttpxEngine", "Sending", "new_httpx_client", "user_agent"]

HttpxClient: TypeAlias = httpx2.AsyncClient
"""What users may configure and bring along."""

_PATIENCE = httpx2.Timeout(connect=30.0, read=None, write=30.0, pool=30.0)
"""Seconds. A stream may be silent for as long as it likes; the client's own limits bound a request."""
_LIMITS = _PATIENCE.as_dict()
_MOST_IDLE, _IDLE_SECONDS = 20, 4.0
"""Connections that nobody uses, and for how long: less than the 5 s after which many servers close them. Each costs a
look at every request."""
_LAST_CHUNKS = 100
"""How many are taken of a body that nobody reads to its end, which may have come already."""
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
)
"""What can only happen before anything was sent."""
_is_ours = ContextVar("_is_ours", default=False)
"""Whether the request that is being made is one of this module's."""


class _WithoutQueries(logging.Filter):
    """Keeps the queries of our requests out of httpx2's log: there are keys in some, and the ids of sessions."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours.get() and isinstance(record.args, tuple):
            record.args = tuple(
                each.copy_with(query=None) if isinstance(each, httpx2.URL) else each for each in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())


@cache
def user_agent() -> str:
    """Return what clients call themselves; to look up the version takes a millisecond."""
    return f"trio-mcp/{version('trio-mcp')}"


@cache
def _trust() -> ssl.SSLContext:
    """Return what all clients of the process verify servers with: to read the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


def new_httpx_client(*, most_idle: int = _MOST_IDLE) -> httpx2.AsyncClient:
    """Return a client made for MCP: proxies and certificates as the environment says, no HTTP/2, no redirects.

    Args:
        most_idle: how many connections are kept for later requests.
    """
    return httpx2.AsyncClient(
        verify=_trust(),
        timeout=_PATIENCE,
        # Streams last, and what ends them must get through: so the transport bounds how many there are, not the pool.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=most_idle, keepalive_expiry=_IDLE_SECONDS),
        headers={"user-agent": user_agent()},
        trust_env=_may_have_proxies(),
    )


def _may_have_proxies() -> bool:
    """Tell whether to have httpx2 look for proxies, which takes it a twentieth of what opening a client does."""
    return sys.platform in {"darwin", "win32"} or "_proxy" in " ".join(os.environ).lower()


@define(eq=False)
class HttpxEngine:
    """An `HttpEngine` over one `httpx2.AsyncClient`.

    Args:
        client: carries the requests. Its time limits hold, but for that on reading.
        closes: whether `aclose` closes the client: not if it is somebody else's.
        notes_address: whether somebody wants to know `reached_at`.
    """

    _client: httpx2.AsyncClient
    closes: bool = field(kw_only=True)
    notes_address: bool = field(default=False, kw_only=True)
    reached_at: str | None = field(default=None, init=False)
    """The address to which the latest request went that was answered: of the server, or of a proxy before it."""

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> Sending:
        """Make a request; see `HttpEngine.request`."""

        def build() -> httpx2.Request:
            return (self._built if self.closes else self._built_by_client)(method, url, headers, content, on_sent)

        return Sending(self._client, url, build, self._note_address if self.notes_address else None)

    def _built(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, on_sent: Callable[[], None] | None
    ) -> httpx2.Request:
        """Return a request of a client of ours: what such a client would make of it, in a quarter of the time."""
        address, host = _parsed(url)
        usual = {"host": host, "connection": "keep-alive", "user-agent": user_agent()}
        size = {"content-length": str(len(content))} if content or method == "POST" else {}
        body = httpx2.ByteStream(content) if on_sent is None else _Body(content, on_sent)
        return httpx2.Request(
            method,
            address,
            headers={**usual, **headers, "accept-encoding": "identity", **size},
            cookies=self._client.cookies,
            stream=body,
            extensions={"timeout": _LIMITS},
        )

    def _built_by_client(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, on_sent: Callable[[], None] | None
    ) -> httpx2.Request:
        limits = self._client.timeout
        unhurried = httpx2.Timeout(connect=limits.connect, read=None, write=limits.write, pool=limits.pool)
        fields = {**headers, "accept-encoding": "identity"}
        request = self._client.build_request(method, url, headers=fields, content=content, timeout=unhurried)
        if on_sent is not None:
            request.stream = _Body(content, on_sent)
        return request

    def _note_address(self, response: SentResponse) -> None:
        self.reached_at = response.peer()

    async def aclose(self) -> None:
        """Close the client, if it is ours."""
        if self.closes:
            await self._client.aclose()


@lru_cache(maxsize=16)  # most requests go to one and the same
def _parsed(url: str) -> tuple[httpx2.URL, str]:
    """Return an address, and what it is called in the field `Host`."""
    address = httpx2.URL(url)
    return address, address.netloc.decode("ascii")


@define
class _Body(httpx2.AsyncByteStream):
    """The body of a request, which says when it has left: what is sent is asked for more only afterwards."""

    _content: bytes
    _on_sent: Callable[[], None]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield self._content
        self._on_sent()


@define(eq=False)
class Sending(AbstractAsyncContextManager["SentResponse"]):
    """Sends a request by *client*, and waits for the head of its response; raises `EngineError`.

    Args:
        url: how errors name where it goes.
        build: returns the request.
        heard: called with the response.
        auth: of `httpx2.AsyncClient.send`.
    """

    _client: httpx2.AsyncClient
    _url: str
    _build: Callable[[], httpx2.Request]
    _heard: Callable[[SentResponse], None] | None = None
    auth: Any = field(default=httpx2.USE_CLIENT_DEFAULT, kw_only=True)
    _response: httpx2.Response = field(init=False)

    async def __aenter__(self) -> SentResponse:
        before = _is_ours.set(True)
        try:
            self._response = await self._client.send(self._build(), stream=True, follow_redirects=False, auth=self.auth)
        except Exception as exc:  # a client that is not ours may raise what it likes: its hooks, its authentication
            raise _engine_error(exc, self._url) from exc
        finally:
            _is_ours.reset(before)
        response = SentResponse(self._response)
        if self._heard is not None:
            self._heard(response)
        return response

    async def __aexit__(self, *_: object) -> None:
        if not self._response.is_stream_consumed:  # its body, most likely none, has nearly always come with its head
            await _end(self._response.aiter_raw())  # else httpcore2 would close a connection that can be used again
        await self._response.aclose()


class SentResponse:
    """An `HttpResponse` of httpx2's."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())  # by lower-case name, joined

    def peer(self) -> str | None:
        """Return the address that it comes from; None where a transport of the user's does not tell."""
        with suppress(Exception):
            return str(self._response.extensions["network_stream"].get_extra_info("server_addr")[0])
        return None

    async def chunks(self) -> AsyncGenerator[bytes]:
        if self._response.is_stream_consumed:  # by a hook of the user's client, or because it is made up
            yield self._response.content
            return
        body, is_left = self._response.aiter_raw(), True
        try:
            async for chunk in body:
                yield chunk
            is_left = False
        except Exception as exc:  # likewise
            raise _engine_error(exc, str(self._response.url)) from exc
        finally:
            if is_left:
                await _end(body)


async def _end(body: AsyncGenerator[bytes, None]) -> None:
    """End a generator of httpx2 that may be left between two chunks, with those inside it.

    To close it would leave the inner ones to the garbage collector. Cancelled where it waits for the network, each of
    them ends. At most what has been read already comes before that, unless a transport of the user's makes it up.
    """
    with trio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        for _ in range(_LAST_CHUNKS):
            await anext(body)
        await body.aclose()


def _engine_error(exc: Exception, url: str) -> EngineError:
    if isinstance(exc, _UNSENT):
        place = url.partition("?")[0]  # what follows may be a secret
        return EngineError(f"cannot connect to {place}: {_reason(exc)}", sent=False)
    return EngineError(_reason(exc), sent=True)


def _reason(exc: Exception) -> str:
    """Return what happened; where an error has no text, its cause may."""
    cause: BaseException | None = exc
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return type(exc).__name__
    return str(cause) if isinstance(cause, httpx2.HTTPError | ssl.SSLError) else f"{type(cause).__name__}: {cause}"
