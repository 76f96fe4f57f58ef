"""The sender of all HTTP requests of one client: what each of them carries, and where it is sent.

Rules of this file:

1. With a token source, each request carries its credentials, and the source sees each response and may have the request
   sent again. The source alone limits these repetitions. A last message before closing is sent once.
2. The redirects that `FollowedRequest` allows are followed, each with credentials for its own address.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from attrs import define, field

from ...._errors import AuthorizationFailed
from ....abc import Tap, TokenSource
from ....wire import EVENT_STREAM_TYPE, JSON_TYPE
from .._engine import FollowedRequest, HttpEngine, HttpResponse
from .._http1_engine import SentExchange
from ._kept_connections import AwaitedResponse, KeptConnections, QuickRequest

__all__ = ["HttpSender", "authorization_errors"]

_log = logging.getLogger("trio_mcp.transports")

_FIELDS_OF_POSTS = {"content-type": JSON_TYPE, "accept": f"{JSON_TYPE}, {EVENT_STREAM_TYPE}"}


@define(eq=False)
class HttpSender:
    """The sender of all HTTP requests to one server.

    Args:
        engine: makes the requests.
        url: the address of the server.
        tap: sees each message, or None.
        fields: header fields of the caller that go with each request.
    """

    engine: HttpEngine
    url: str
    _tap: Tap | None
    _fields: Mapping[str, str] = field(repr=False)
    source: TokenSource | None = field(default=None, init=False)
    """The source of credentials; None if there are none beyond the caller's header fields."""
    kept: KeptConnections | None = field(default=None, init=False)
    """The kept connections on which messages are posted at once; None with an engine that has none."""
    is_reached: bool = field(default=False, init=False)
    """True once the server has answered any request."""
    _is_redirected: bool = field(default=False, init=False)
    """True once a redirect was followed."""

    @property
    def fields_of_posts(self) -> Mapping[str, str]:
        """The header fields that each POST has."""
        return {**self._fields, **_FIELDS_OF_POSTS}

    def post(
        self,
        url: str,
        line: bytes,
        fields: Mapping[str, str],
        on_sent: Callable[[], None] | None = None,
        *,
        is_last_word: bool = False,
        sent: SentExchange | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Post one message; enter the result at once. See `HttpEngine.request` for the rest.

        Args:
            url: the address to post to.
            line: the message, with its newline.
            fields: header fields for this message only.
            on_sent: called when the whole request has left.
            is_last_word: True if the message is sent at most once.
            sent: the message as it was posted already by `post_now` or `begin_post`; None if it was not.

        Raises:
            AuthorizationFailed: the server requires authentication, and no token is available.
        """
        message = line.removesuffix(b"\n")
        if self._tap is not None and sent is None:  # before sending: the answer could be reported first otherwise
            self._tap("sent", message)
        fields = {**_FIELDS_OF_POSTS, **fields}
        return self._request("POST", url, fields, message, on_sent, is_last_word=is_last_word, sent=sent)

    def post_now(
        self, request: QuickRequest, url: str, line: bytes, fields: Mapping[str, str]
    ) -> AwaitedResponse | None:
        """Post one message at once on a kept connection; return its response, or None if nothing was sent."""
        message, kept = line.removesuffix(b"\n"), self._usable_now()
        response = None if kept is None else kept.send(request, url, fields, message)
        if response is not None and self._tap is not None:
            self._tap("sent", message)
        return response

    def begin_post(self, url: str, line: bytes, fields: Mapping[str, str]) -> SentExchange | None:
        """Post one message at once on a kept connection, for a task that then calls `post`; None if it was not sent."""
        message, kept = line.removesuffix(b"\n"), self._usable_now()
        sent = None if kept is None else kept.send_whole(url, fields, message)
        if sent is not None and self._tap is not None:
            self._tap("sent", message)
        return sent

    def _usable_now(self) -> KeptConnections | None:
        """Return the kept connections, unless a request has to wait for credentials, or for a first connection."""
        return self.kept if self.source is None and self.is_reached else None

    def get(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Request an event stream; raises what `post` does."""
        return self._request("GET", self.url, {"accept": EVENT_STREAM_TYPE, **fields})

    def delete(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Tell the server that the session named by *fields* is no longer needed, in one attempt.

        Raises what `post` does.
        """
        return self._request("DELETE", self.url, fields, is_last_word=True)

    def received(self, message: bytes) -> None:
        """Report an incoming message to the tap."""
        if self._tap is not None:
            self._tap("received", message)

    def _request(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes = b"",
        on_sent: Callable[[], None] | None = None,
        *,
        is_last_word: bool = False,
        sent: SentExchange | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        fields = {**self._fields, **fields}
        sent_before = [sent] if sent is not None else []

        def send(url: str) -> AbstractAsyncContextManager[HttpResponse]:
            if sent_before:
                return sent_before.pop()
            if self.source is None and self.is_reached:  # no credentials to add
                return self.engine.request(method, url, fields, content, on_sent=on_sent)
            return self._request_with_credentials(method, url, fields, content, on_sent, is_last_word=is_last_word)

        return FollowedRequest(send, url, self._warn_of_redirect)

    def _warn_of_redirect(self, url: str, target: str) -> None:
        if not self._is_redirected:
            self._is_redirected = True
            source, target = (each.partition("?")[0] for each in (url, target))  # a query may hold a secret
            _log.warning(
                "%.200s redirects each request to %.200s: connect to that address, which is faster", source, target
            )

    @asynccontextmanager
    async def _request_with_credentials(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes,
        on_sent: Callable[[], None] | None,
        *,
        is_last_word: bool,
    ) -> AsyncGenerator[HttpResponse]:
        """Make a request with the credentials of the source, as often as the source asks for it."""
        with authorization_errors():
            attempt = None if self.source is None else self.source.attempt(method, url)
        while True:
            headers = dict(fields)
            with authorization_errors():
                if attempt is not None:
                    headers.update(await attempt.fields())
            async with self.engine.request(method, url, headers, content, on_sent=on_sent) as response:
                self.is_reached = True
                with authorization_errors():
                    wants_more = attempt is not None and attempt.on_response(response.status, response.headers)
                if attempt is None or not wants_more or is_last_word:
                    yield response
                    return
            with authorization_errors():
                await attempt.resolve()


@contextmanager
def authorization_errors() -> Generator[None]:
    """Turn any exception of the token source, which may be the application's code, into `AuthorizationFailed`."""
    try:
        yield
    except AuthorizationFailed:
        raise
    except Exception as exc:
        raise AuthorizationFailed(f"the token source has raised {type(exc).__name__}") from exc
