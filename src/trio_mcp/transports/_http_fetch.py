"""HTTP requests beside those of the protocol, which authorization needs: each has one short answer, within bounds.

Rules of this file:

1. All that belongs to one request, redirects included, has some seconds; its answer has some bytes, not compressed.
2. A GET follows redirects that stay at the origin; a POST follows none, and gets the redirect as its answer.
3. An address with a user name or a password in it is not requested: nobody may have us send what they have written.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

import trio
from attrs import define, evolve

from .._errors import RemoteProtocolError
from ..abc import Fetch
from ..auth import CallFailed, HttpCall, HttpReply, Unreadable
from ._http_client_address import origin_of, split_url
from ._http_client_reading import read_at_most
from ._http_engine import EngineError, HttpEngine, HttpResponse

__all__ = ["FETCH_SECONDS", "HttpFetch", "Sender", "engine_fetch", "shown"]

Sender: TypeAlias = "Callable[[HttpCall], AbstractAsyncContextManager[HttpResponse]]"
"""Sends one request, and follows no redirect; raises `EngineError`, or `CallFailed` for where it may not lead."""

FETCH_SECONDS = 15.0
"""How long one request may take in all."""
_MOST_BYTES = 256 * 1024
"""Of a body."""
_MOST_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_SHOWN = 200
"""Characters of an address that an error shows."""


def engine_fetch(engine: HttpEngine) -> Fetch:
    """Return an `abc.Fetch` over *engine*, whose hosts are not looked up: they may be applications in this process."""
    return HttpFetch(lambda call: engine.request(call.method, call.url, call.headers, call.body))


def shown(url: str) -> str:
    """Return an address as errors name it, without a password and without its query: there may be secrets in both."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:_SHOWN]


@define(eq=False)
class HttpFetch:
    """An `abc.Fetch`; any number of tasks may call it."""

    _send: Sender

    async def __call__(self, call: HttpCall) -> HttpReply:
        """Make one request; see `abc.Fetch`."""
        with trio.move_on_after(FETCH_SECONDS):
            return await self._follow(call)
        raise CallFailed(f"{shown(call.url)} has not answered within {FETCH_SECONDS:g} s")

    async def _follow(self, call: HttpCall) -> HttpReply:
        first = call.url
        for _ in range(_MOST_REDIRECTS + 1):
            reply = await self._request(call)
            if call.method != "GET" or reply.status not in _REDIRECTS or "location" not in reply.headers:
                return reply
            call = evolve(call, url=_redirected(call.url, reply.headers["location"]))
        raise Unreadable(f"{shown(first)} redirects more than {_MOST_REDIRECTS} times")

    async def _request(self, call: HttpCall) -> HttpReply:
        _check(call.url)
        place = shown(call.url)
        try:
            async with self._send(evolve(call, headers={**call.headers, "accept-encoding": "identity"})) as response:
                body = await read_at_most(response, _MOST_BYTES)
                if body is None:
                    raise Unreadable(f"{place} answers with more than {_MOST_BYTES} bytes")
                return HttpReply(status=response.status, headers=dict(response.headers), body=body)
        except (EngineError, RemoteProtocolError) as exc:
            raise CallFailed(f"{exc}" if place in f"{exc}" else f"{place}: {exc}") from exc


def _check(url: str) -> None:
    try:
        parts = split_url(url)
    except ValueError as exc:
        raise CallFailed(f"{url.partition('?')[0].rpartition('@')[2][:_SHOWN]!r} is no address: {exc}") from None
    if parts.username is not None or parts.password is not None:
        raise CallFailed(f"{shown(url)} is an address with a user name or a password, which is not requested")


def _redirected(url: str, location: str) -> str:
    """Return where a redirect leads; raises `Unreadable` where that is another origin, or nowhere."""
    try:
        target = urljoin(url, location)
        is_there = origin_of(split_url(target)) == origin_of(urlsplit(url))
    except ValueError:
        raise Unreadable(f"{shown(url)} redirects to what is no address") from None
    if not is_there:
        raise Unreadable(f"{shown(url)} redirects to another origin ({shown(target)}), which is not followed")
    return target
