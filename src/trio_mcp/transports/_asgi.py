"""ASGI 3, as far as this package speaks it: its shapes, what the scope of a request says, and a body within bounds.

Specification: https://asgi.readthedocs.io/en/stable/specs/www.html
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Self, TypeAlias

import trio
from attrs import define, field

from .._errors import McpError
from ..peer import Access, Envelope
from ..wire import INVALID_REQUEST, Headers, Refusal

__all__ = [
    "AsgiApp",
    "AsgiMessage",
    "HttpRequest",
    "Receive",
    "Scope",
    "Send",
    "path_below",
    "path_of",
    "read_body",
    "refuse_without_trio",
]

_log = logging.getLogger("trio_mcp.transports")

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_SECRET_FIELDS = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})


@define(kw_only=True, eq=False)
class HttpRequest:
    """One HTTP request, and who makes it. Whoever judges it adds what is known later: the access, the body."""

    method: str
    """In capitals."""
    path: str
    """As the client asked for it, percent-decoded, with what the application is mounted under."""
    query: str = field(default="", repr=False)
    """What stands behind the question mark, still encoded."""
    headers: Headers = field(repr=False)
    """By lower-case name; the values of repeated fields are joined with ``", "``."""
    client: str | None = None
    """The address that it comes from; None where there is none, as over a Unix socket."""
    access: Access | None = None
    """Who was authenticated, and what they may do; None where nobody was."""
    access_until: float = math.inf
    """Until when the access lasts, on Trio's clock: no stream that it has opened goes on for longer."""
    body: bytes = field(default=b"", repr=False)

    @property
    def principal(self) -> str | None:
        """Who was authenticated; None where nobody was."""
        return None if self.access is None else self.access.principal

    @property
    def envelope(self) -> Envelope:
        """What handlers may know of it."""
        shown = {name: value for name, value in self.headers.items() if name not in _SECRET_FIELDS}
        return Envelope(shown, self.access)

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the request that a scope of the type ``http`` describes, without its body."""
        client = scope.get("client")
        return cls(
            method=scope["method"],
            path=path_of(scope),
            query=scope.get("query_string", b"").decode("latin-1"),
            headers=_headers(scope["headers"]),
            client=client[0] if client else None,
        )


def path_of(scope: Scope) -> str:
    """Return the path as the client asked for it, percent-decoded, with what the application is mounted under."""
    return _mount_of(scope) + path_below(scope)


def path_below(scope: Scope) -> str:
    """Return the path without what the application is mounted under, whether the host has left that in it or not."""
    path: str = scope["path"]
    mount = _mount_of(scope)
    return path[len(mount) :] if path == mount or path.startswith(f"{mount}/") else path


def _mount_of(scope: Scope) -> str:
    mount: str = scope.get("root_path", "")
    return mount.rstrip("/")


def _headers(lines: Iterable[tuple[bytes, bytes]]) -> Headers:
    headers: dict[str, str] = {}
    for raw_name, raw_value in lines:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def read_body(receive: Receive, max_bytes: int, seconds: float) -> bytes | Refusal | None:
    """Read the body of a request.

    Args:
        max_bytes: of a longer one the rest is not read.
        seconds: how long all of it may take.

    Returns:
        The body; or why it is refused (413, 408); or None, because the client has left.
    """
    chunks: list[bytes] = []
    size = 0
    with trio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > max_bytes:
                return Refusal(413, McpError(INVALID_REQUEST, f"the body may have at most {max_bytes} bytes"))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)
    return Refusal(408, McpError(INVALID_REQUEST, f"the body did not arrive within {seconds:g} s"))


_WITHOUT_TRIO = (
    "this application runs on Trio, and the server that runs it does not: use Hypercorn's Trio worker, as in "
    "`hypercorn -k trio module:app`, or `trio_mcp.serve_http`"
)


async def refuse_without_trio(scope: Scope, receive: Receive, send: Send) -> None:
    """Say so where another event loop runs the application: asyncio's, usually. Uses nothing of Trio's."""
    match scope["type"]:
        case "lifespan":
            await receive()
            await send({"type": "lifespan.startup.failed", "message": _WITHOUT_TRIO})
        case "http":
            _log.error("%s", _WITHOUT_TRIO)
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": _WITHOUT_TRIO.encode(), "more_body": False})
        case _:
            raise RuntimeError(_WITHOUT_TRIO)
