"""The carrier of one HTTP request and its response, between the server of a connection and the application.

The application is written for `HttpChannel` alone. `AsgiChannel` is that of any ASGI server; `serve_http` has one of
its own for HTTP/1.1, without ASGI in between.

Specification: https://asgi.readthedocs.io/en/stable/specs/www.html
"""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field

from ..ws import ByteChannel

__all__ = [
    "CUT_EXTENSION",
    "AsgiApp",
    "AsgiChannel",
    "AsgiMessage",
    "HttpChannel",
    "Receive",
    "ResponseHead",
    "Scope",
    "Send",
    "UpgradableChannel",
    "as_bytes",
    "as_text",
]

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

ResponseHead: TypeAlias = tuple[int, Sequence[tuple[str, str]]]
"""The status and the header fields of a response, whose names are in lower case. It is written as Latin-1."""
CUT_EXTENSION = "trio_mcp.cut"
"""The name of an extension in the scope of a request, a function that breaks its response off even during a write."""


def as_bytes(fields: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return header fields as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


def as_text(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return header fields of ASGI as text, with names in lower case and without outer whitespace."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")) for name, value in fields]


class HttpChannel(abc.ABC):
    """Carries one request and its response. At most one task reads, or waits until the client has left."""

    has_whole_body: bool
    """True if `read` has returned all of the body of the request."""

    @property
    def has_arrived(self) -> bool:
        """True if the whole body is known to have arrived, so that `read` need not wait."""
        return self.has_whole_body

    @abc.abstractmethod
    async def read(self) -> bytes | None:
        """Return the next part of the body; None if the client has left. Must not be called after the last part.

        What has arrived is returned without a checkpoint.
        """

    @abc.abstractmethod
    async def wait_left(self) -> None:
        """Wait until the client has left; the rest of the body is dropped."""

    @abc.abstractmethod
    def put(self, head: ResponseHead | None, data: bytes, *, more: bool) -> bool:
        """Send a part of the response, as far as the client takes it at once; synchronous.

        What is sent after the client has left is dropped.

        Args:
            head: the head of the response; given with the first part, and only with that.
            data: a part of the body, or nothing.
            more: False if the response ends with it.

        Returns:
            True if all is sent. Otherwise `flush` has to be awaited before the next part.
        """

    @abc.abstractmethod
    async def flush(self) -> None:
        """Send the rest of what was put.

        Raises:
            OSError: the client has left. Not every channel reports that here.
        """

    @abc.abstractmethod
    def cut(self) -> None:
        """Break the response off, even during a write; synchronous."""


class UpgradableChannel(HttpChannel):
    """Carries a request whose connection can go on with another protocol."""

    @abc.abstractmethod
    def switch(self, fields: Sequence[tuple[str, str]]) -> ByteChannel:
        """Answer with the status 101 and these header fields; return the connection, which ends with the request."""


@define(eq=False, repr=False)
class AsgiChannel(HttpChannel):
    """Carries a request of an ASGI server."""

    _scope: Scope
    _receive: Receive
    _send: Send
    has_whole_body: bool = field(default=False, init=False)
    _unsent: deque[AsgiMessage] = field(factory=deque[AsgiMessage], init=False)

    async def read(self) -> bytes | None:
        """Return the next part of the body; see `HttpChannel`."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            return None
        self.has_whole_body = not message.get("more_body", False)
        return bytes(message.get("body", b""))

    async def wait_left(self) -> None:
        """Wait until the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def put(self, head: ResponseHead | None, data: bytes, *, more: bool) -> bool:
        """Take a part of the response, which `flush` sends."""
        if head is not None:
            self._unsent.append({"type": "http.response.start", "status": head[0], "headers": as_bytes(head[1])})
        if head is None or data or not more:
            self._unsent.append({"type": "http.response.body", "body": data, "more_body": more})
        return False

    async def flush(self) -> None:
        """Send what was put."""
        while self._unsent:
            await self._send(self._unsent.popleft())

    def cut(self) -> None:
        """Break the response off, if the server has the extension for it."""
        extensions: Mapping[str, Any] = self._scope.get("extensions") or {}
        if CUT_EXTENSION in extensions:
            extensions[CUT_EXTENSION]()
