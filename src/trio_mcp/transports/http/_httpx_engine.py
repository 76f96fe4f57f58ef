"""The HTTP engine of a client over httpx2: for proxies, and for clients that users configure.

A client of our own speaks only HTTP/1.1. Over HTTP/2, httpx2 does not tell the server that a response was closed early,
which is what cancels a request. (httpx, its ancestor, loses connections if responses are closed early.)
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any, TypeAlias

import httpx2
import trio
from attrs import define, field

from ._engine import EngineError, cannot_connect, may_have_proxies, reason_of, user_agent

__all__ = ["HttpxClient", "HttpxEngine", "new_httpx_client", "without_defaults"]

HttpxClient: TypeAlias = httpx2.AsyncClient
"""The client that users may configure and pass in."""

_TIMEOUT = httpx2.Timeout(connect=30.0, read=None, write=30.0, pool=30.0)
"""Seconds. A stream may be silent for any time; the client's own timeouts bound a request."""
_LIMITS = _TIMEOUT.as_dict()
_MOST_IDLE, _IDLE_SECONDS = 100, 4.0
"""The number of idle connections, and how long they are kept: less than the 5 s after which many servers close them.
Each one costs a check per request."""
_LAST_CHUNKS = 100
"""The number of chunks that are read of a body that is not read to its end: they may have arrived already."""
_NOT_SENT_ERRORS = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
)
"""The errors that can only happen before anything was sent."""
_is_ours = ContextVar("_is_ours", default=False)
"""True while a request of this module is being made."""


class _WithoutQueries(logging.Filter):
    """A log filter that removes the queries of our own requests from httpx2's log.

    Queries may hold keys and session ids.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours.get() and isinstance(record.args, tuple):
            record.args = tuple(
                each.copy_with(query=None) if isinstance(each, httpx2.URL) else each for each in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())


@cache
def _trust() -> ssl.SSLContext:
    """Return the TLS context of all clients of the process, cached because reading the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


def new_httpx_client(*, most_idle: int = _MOST_IDLE) -> httpx2.AsyncClient:
    """Return a client for MCP: proxies and certificates of the environment, no HTTP/2, no redirects.

    Args:
        most_idle: the number of idle connections that are kept.
    """
    return httpx2.AsyncClient(
        verify=_trust(),
        timeout=_TIMEOUT,
        # The transport bounds the number of streams, not the pool: a cancellation must not wait for a connection.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=most_idle, keepalive_expiry=_IDLE_SECONDS),
        headers={"user-agent": user_agent()},
        trust_env=may_have_proxies(),
    )


@define(eq=False)
class HttpxEngine:
    """An `HttpEngine` over one `httpx2.AsyncClient`.

    Args:
        client: makes the requests. Its timeouts apply, except that on reading.
        closes: True if `aclose` closes the client: not if the caller owns it.
    """

    _client: httpx2.AsyncClient
    closes: bool = field(kw_only=True)

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

        return Sending(self._client, url, build)

    def _built(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, on_sent: Callable[[], None] | None
    ) -> httpx2.Request:
        """Return a request as our own client would build it, in a quarter of the time."""
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

    async def aclose(self) -> None:
        """Close the client, if the engine owns it."""
        if self.closes:
            await self._client.aclose()


@lru_cache(maxsize=16)  # most requests go to the same URL
def _parsed(url: str) -> tuple[httpx2.URL, str]:
    """Return a URL, and its value in the field `Host`."""
    address = httpx2.URL(url)
    return address, address.netloc.decode("ascii")


@define
class _Body(httpx2.AsyncByteStream):
    """The body of a request, which reports when it has been sent: only then does httpx2 ask for more."""

    _content: bytes
    _on_sent: Callable[[], None]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield self._content
        self._on_sent()


@define(eq=False)
class Sending(AbstractAsyncContextManager["SentResponse"]):
    """A request that *client* sends; entering waits for the head of the response, and raises `EngineError`.

    Args:
        client: sends the request.
        url: the address that errors name.
        build: returns the request.
        auth: of `httpx2.AsyncClient.send`.
    """

    _client: httpx2.AsyncClient
    _url: str
    _build: Callable[[], httpx2.Request]
    auth: Any = field(default=httpx2.USE_CLIENT_DEFAULT, kw_only=True)
    _response: httpx2.Response = field(init=False)

    async def __aenter__(self) -> SentResponse:
        before = _is_ours.set(True)
        try:
            self._response = await self._client.send(self._build(), stream=True, follow_redirects=False, auth=self.auth)
        except Exception as exc:  # hooks and authentication of a user's client may raise anything
            raise _engine_error(exc, self._url) from exc
        finally:
            _is_ours.reset(before)
        return SentResponse(self._response)

    async def __aexit__(self, *_: object) -> None:
        if not self._response.is_stream_consumed:  # the body, mostly empty, has usually arrived with the head
            await _end(self._response.aiter_raw())  # otherwise httpcore2 closes a reusable connection
        await self._response.aclose()


class SentResponse:
    """An `HttpResponse` of httpx2."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())  # by lower-case name, joined

    async def chunks(self) -> AsyncGenerator[bytes]:
        if self._response.is_stream_consumed:  # by a hook of the user's client, or a mocked response
            yield self._response.content
            return
        body, is_left = self._response.aiter_raw(), True
        try:
            async for chunk in body:
                yield chunk
            is_left = False
        except Exception as exc:  # a user's transport may raise anything
            raise _engine_error(exc, str(self._response.url)) from exc
        finally:
            if is_left:
                await _end(body)


async def _end(body: AsyncGenerator[bytes, None]) -> None:
    """End a generator of httpx2 that may have been left between two chunks, with the generators inside it.

    Closing it would leave the inner ones to the garbage collector. Cancelled while waiting for the network, each of
    them ends. Before that, at most what has been received already is read, unless a custom transport makes it up.
    """
    with trio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        for _ in range(_LAST_CHUNKS):
            await anext(body)
        await body.aclose()


def _engine_error(exc: Exception, url: str) -> EngineError:
    reason = reason_of(exc, self_explanatory=(httpx2.HTTPError,))
    if isinstance(exc, _NOT_SENT_ERRORS):
        return cannot_connect(exc, url, reason)
    return EngineError(reason, sent=True)


def without_defaults(
    client: httpx2.AsyncClient, seconds: tuple[float, float]
) -> Callable[[str, str, Mapping[str, str], bytes], Sending]:
    """Return a function that sends requests without the header fields, cookies and credentials of *client*.

    Args:
        seconds: the maximum times to wait for a step of a request, and for a connection.
    """
    timeout = httpx2.Timeout(seconds[0], connect=seconds[1])

    def send(method: str, url: str, headers: Mapping[str, str], content: bytes) -> Sending:
        def build() -> httpx2.Request:
            host = httpx2.URL(url).netloc.decode("ascii")
            fields = {"host": host, "user-agent": user_agent(), **headers}
            return httpx2.Request(
                method, url, headers=fields, content=content, extensions={"timeout": timeout.as_dict()}
            )

        return Sending(client, url, build, auth=None)

    return send
