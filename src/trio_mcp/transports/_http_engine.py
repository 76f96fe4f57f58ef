"""What the client's side of HTTP needs of a library for it: one request, a response that streams, and an early end.

The transport knows this and nothing else of HTTP/1.1, sockets and TLS, so another library takes no change of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["EngineError", "HttpEngine", "HttpResponse"]


class EngineError(Exception):
    """A request could not be made, or its response broke off.

    Args:
        message: what happened, for people.
        sent: False where surely nothing has reached the server, as when it could not be connected to.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class HttpResponse(Protocol):
    """The head of a response, and its body as it comes."""

    @property
    def status(self) -> int:
        """The status, 200 say."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields by lower-case name; the values of repeated ones are joined with ``", "``."""
        ...

    def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives, without its transfer encoding, but not decompressed; once.

        Close the generator with `contextlib.aclosing` where the body may not be read to its end.

        Raises:
            EngineError: the connection ended before the body did.
        """
        ...


class HttpEngine(Protocol):
    """Makes any number of requests at once; each has one response, and no redirect is followed."""

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Make a request; entering the block waits for the head of the response.

        Leaving it before the body has ended closes the connection: the server sees that its client has left.

        Args:
            method: in capitals.
            url: absolute, ``http`` or ``https``.
            headers: all of them but those that say how the message is framed and whom it is for.
            content: the body.
            on_sent: called synchronously when the whole request has left, which may be long before the response.

        Raises:
            EngineError: the server cannot be reached, or the connection ended before the head was there.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept for later. No request is open any more."""
        ...
