"""HTTP requests over httpx2. Imported when the first client opens, because the library takes its time to load.

Only HTTP/1.1: over HTTP/2 httpx2 does not tell the server when a response is left early, and that is what cancels a
request. httpx, its ancestor, is of no use here: it loses connections when responses are left early.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from typing import Any, TypeAlias

import httpx2
import trio
from attrs import define, field

from ._http_engine import EngineError, HttpResponse

__all__ = ["HttpxClient", "HttpxEngine", "new_httpx_client", "sending", "user_agent"]

HttpxClient: TypeAlias = httpx2.AsyncClient
"""What users may configure and bring along."""

_PATIENCE = httpx2.Timeout(connect=30.0, read=None, write=30.0, pool=30.0)
"""Seconds. A stream may be silent for as long as it likes; the client's own limits bound a request."""
_MOST_IDLE, _IDLE_SECONDS = 20, 4.0
"""Connections that nobody uses, and for how long: less than the 5 s after which many servers close them. Each costs a
look at every request."""
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
    )


@define(eq=False)
class HttpxEngine:
    """An `HttpEngine` over one `httpx2.AsyncClient`.

    Args:
        client: carries the requests. Its time limits hold, but for that on reading.
        closes: whether `aclose` closes the client: not if it is somebody else's.
    """

    _client: httpx2.AsyncClient
    closes: bool = field(kw_only=True)
    reached_at: str | None = field(default=None, init=False)
    """The address to which the latest request went that was answered: of the server, or of a proxy before it."""

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
        """Make a request; see `HttpEngine.request`."""

        def build() -> httpx2.Request:
            limits = self._client.timeout
            return self._client.build_request(
                method,
                url,
                headers={**headers, "accept-encoding": "identity"},
                content=content,
                timeout=httpx2.Timeout(connect=limits.connect, read=None, write=limits.write, pool=limits.pool),
                extensions={} if on_sent is None else {"trace": _trace(on_sent)},
            )

        async with sending(self._client, url, build) as response:
            self.reached_at = response.peer()
            yield response

    async def aclose(self) -> None:
        """Close the client, if it is ours."""
        if self.closes:
            await self._client.aclose()


@asynccontextmanager
async def sending(
    client: httpx2.AsyncClient, url: str, build: Callable[[], httpx2.Request], **options: Any
) -> AsyncGenerator[SentResponse]:
    """Send a request by *client*, and wait for the head of its response; raises `EngineError`.

    Args:
        url: how errors name where it goes.
        build: returns the request.
        options: further ones of `httpx2.AsyncClient.send`.
    """
    before = _is_ours.set(True)
    try:
        response = await client.send(build(), stream=True, follow_redirects=False, **options)
    except Exception as exc:  # a client that is not ours may raise what it likes: its hooks, its authentication
        raise _engine_error(exc, url) from exc
    finally:
        _is_ours.reset(before)
    try:
        yield SentResponse(response)
    finally:
        await response.aclose()


def _trace(on_sent: Callable[[], None]) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Return what httpx2 is to tell of each step; not each of them is one of our request."""
    is_ours = False

    async def trace(event: str, what: Mapping[str, Any]) -> None:
        nonlocal is_ours
        if event.endswith("send_request_body.started"):
            is_ours = what["request"].method != b"CONNECT"  # with which a proxy is asked for the way to the server
        elif event.endswith("send_request_body.complete") and is_ours:
            on_sent()

    return trace


class SentResponse:
    """An `HttpResponse` of httpx2's."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers  # by lower-case name, joined

    def peer(self) -> str | None:
        """Return the address that it comes from; None where a transport of the user's does not tell."""
        with suppress(Exception):
            return str(self._response.extensions["network_stream"].get_extra_info("server_addr")[0])
        return None

    async def chunks(self) -> AsyncGenerator[bytes]:
        if self._response.is_stream_consumed:  # by a hook of the user's client, or because it is made up
            yield self._response.content
            return
        body = self._response.aiter_raw()
        try:
            async for chunk in body:
                yield chunk
        except Exception as exc:  # likewise
            raise _engine_error(exc, str(self._response.url)) from exc
        finally:
            await _end(body)


async def _end(body: AsyncGenerator[bytes, None]) -> None:
    """End a generator of httpx2 that may be left between two chunks, with those inside it.

    To close it would leave the inner ones to the garbage collector. Cancelled where it waits for the network, each of
    them ends. At most what has been read already comes before that.
    """
    with trio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        async for _ in body:
            pass


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
