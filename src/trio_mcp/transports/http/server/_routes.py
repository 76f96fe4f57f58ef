"""Requests beside the endpoint: the pages for load balancers and monitoring, routes of the program, and their log.

Rules of this file:

1. A path belongs to the endpoint, to the metadata of its protection, to one page or to one route. A route whose path
   ends in a slash has all paths below it too, as a mount point; the longest of several wins. Without the slash, the
   client is redirected to it.
2. A route accepts the hosts and origins that the endpoint accepts, because the same attacks (DNS rebinding, forged
   forms) reach it. It has no authentication: its application has its own, or none.
3. A page accepts any host, because load balancers and monitoring ask by address. Those for health and readiness tell
   nothing but the state.
4. The body of a request has the limits of the endpoint, in size and time. An application that reads beyond them sees a
   client that has left.
5. While the application starts or stops, the routes answer 503.

Specification: https://asgi.readthedocs.io/en/stable/specs/www.html
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, cast
from urllib.parse import quote

import trio
from attrs import define, field, frozen

from ...._errors import McpError
from ....peer import HeaderFields
from ....wire import INTERNAL_ERROR, JSON_TYPE, HttpPolicy, Refusal, check_place, encode
from ._asgi import TEXT_TYPE, HttpRequest, Responding
from ._channel import AsgiApp, AsgiMessage, Receive, Scope, Send

__all__ = ["HttpRoute", "RouteTable", "ServiceState", "StatePage", "answer_page", "write_access"]

RouteFunction: TypeAlias = Callable[[HttpRequest], Awaitable[object]] | Callable[[], Awaitable[object]]
HttpRoute: TypeAlias = AsgiApp | RouteFunction
"""An ASGI application, or an async function of the request, or of nothing, that returns the response to a GET: text,
bytes, an ASGI application such as a response of Starlette, or any other value, to be sent as JSON."""

_READING_METHODS = "GET, HEAD"
_NOT_CALLABLE = 2  # as many arguments as nothing takes
_MAX_SHOWN = 200
"""The most characters of a path or a name in the access log."""
_ID_FIELDS = ("traceparent", "x-request-id")
"""The header fields that name a request, in the order in which they are looked for."""
_MAX_ID = 128
"""The most characters of the name of a request in the access log."""
_KEPT = "/~:@!$&'()*+,;="
"""The characters of a path that the access log does not encode, in addition to letters, digits, `-`, `.` and `_`."""


@frozen
class StatePage:
    """A page that describes the application, for load balancers or monitoring."""

    text: str
    status: int = 200
    kind: str = TEXT_TYPE
    """The media type."""


@define(eq=False)
class ServiceState:
    """The state of an application, as load balancers see it."""

    closed: str | None = field(default=None, init=False)
    """The reason why nothing is served now; None while requests are served."""
    is_live: bool = field(default=True, init=False)
    """False from the beginning of a run until it has started, and after its end."""
    is_leaving: bool = field(default=False, init=False)
    """True once the stop was announced; everything may be served nevertheless."""

    @property
    def refusal(self) -> str | None:
        """The reason why load balancers shall send nothing new; None if they may."""
        return self.closed or ("the server is about to stop" if self.is_leaving else None)

    def starting(self) -> None:
        """Note that a run begins."""
        self.closed, self.is_live, self.is_leaving = "the server is starting; try again", False, False

    def started(self) -> None:
        """Note that requests are served from now on."""
        self.closed, self.is_live = None, True

    def stopped(self) -> None:
        """Note that a run has ended."""
        self.closed, self.is_live = "the server has stopped", False

    def liveness(self) -> StatePage:
        """Return the page that tells whether the process has started and not stopped."""
        return StatePage(self.closed or "serving", 200 if self.is_live else 503)

    def readiness(self) -> StatePage:
        """Return the page that tells whether the process takes new requests."""
        return StatePage(self.refusal or "ready", 200 if self.refusal is None else 503)


async def answer_page(page: Callable[[], StatePage], responding: Responding) -> None:
    """Answer a request for a page; *page* returns its current content."""
    assert responding.request is not None
    if responding.request.method not in {"GET", "HEAD"}:
        await responding.refuse(Refusal(405, headers={"allow": _READING_METHODS}))
        return
    now = page()
    await responding.text(now.text, status=now.status, kind=now.kind)


def write_access(
    log: logging.Logger, request: HttpRequest, status: int | None, seconds: float, node: str | None
) -> None:
    """Write a request that has ended as one line: method, path, status, duration and principal.

    The query, the tokens and the header fields, but for the id of the request, are not written. What a client chooses
    is percent-encoded; the id has only visible ASCII.

    Args:
        log: the line has the level INFO. Its parts are attributes of the record: `http_method`, `http_path`,
            `http_status`, `http_seconds` and `http_principal`. The record has three more attributes:
            `http_request_id`, the `traceparent` or else the `x-request-id` of the request, or else a random string;
            `http_principal_hash`, the first 16 hexadecimal digits of the SHA-256 of the principal in UTF-8, for logs
            that must not name users; and `http_node`.
        request: the request, with its access if it was admitted.
        status: the status; None if the client left before there was one.
        seconds: the time from the head of the request to the end of the response.
        node: the name of the process in a service of several; None if it is the only one.
    """
    if not log.isEnabledFor(logging.INFO):
        return
    method, path = _shown(request.method), _shown(request.path)
    principal = None if request.principal is None else _shown(request.principal)
    log.info(
        "%s %s %s %.1f ms %s",
        method,
        path,
        status or "-",
        seconds * 1000,
        principal or "-",
        extra={
            "http_method": method,
            "http_path": path,
            "http_status": status,
            "http_seconds": seconds,
            "http_principal": principal,
            "http_request_id": _request_id(request),
            "http_principal_hash": None if request.principal is None else _hash(request.principal),
            "http_node": node,
        },
    )


def _request_id(request: HttpRequest) -> str:
    """Return the id that the client or a proxy has given to a request, or else a random one."""
    for name in _ID_FIELDS:
        id = request.headers.get(name, "")
        if 0 < len(id) <= _MAX_ID and all("!" <= each <= "~" for each in id):
            return id
    return secrets.token_hex(8)


def _hash(principal: str) -> str:
    return hashlib.sha256(principal.encode(errors="surrogatepass")).hexdigest()[:16]


def _shown(text: str) -> str:
    return quote(text[:_MAX_SHOWN], safe=_KEPT, errors="replace")


@frozen
class RouteTable:
    """The routes of one application. `of` makes it."""

    _by_path: Mapping[str, AsgiApp]
    _mounted: Sequence[str]
    """The paths that end in a slash, the longest first."""
    _policy: HttpPolicy
    _body_seconds: float

    @classmethod
    def of(
        cls, routes: Mapping[str, HttpRoute], taken: Collection[str], policy: HttpPolicy, body_seconds: float
    ) -> RouteTable:
        """Return the table of these routes.

        Args:
            routes: by path.
            taken: the paths of the endpoint, the metadata and the pages.
            policy: the rules of the endpoint.
            body_seconds: the maximum time for a body to arrive.

        Raises:
            ValueError: a path does not begin with a slash, or is taken.
            TypeError: a route is neither an ASGI application nor an async function.
        """
        for path in routes:
            if not path.startswith("/"):
                raise ValueError(f"routes: the path {path!r} must begin with a slash")
            if path.rstrip("/") in [each.rstrip("/") for each in taken]:
                raise ValueError(f"routes: the path {path!r} is that of the MCP server itself")
        mounted = sorted((path for path in routes if path.endswith("/")), key=len, reverse=True)
        by_path = {path: _application(path, route) for path, route in routes.items()}
        return cls(by_path, mounted, policy, body_seconds)

    def has(self, path: str) -> bool:
        """Return True if a path below the mount point of the application is that of a route."""
        return self._key(path) is not None

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request: HttpRequest,
        responding: Responding,
        closed: str | None,
    ) -> None:
        """Let the route of a request answer it.

        Args:
            scope: of ASGI, like the next two.
            receive: of ASGI.
            send: of ASGI.
            request: the request that the scope describes.
            responding: gets the status, and refuses what the route does not get.
            closed: the reason why the application serves nothing now; None if it serves.
        """
        key = self._key(request.local_path)
        assert key is not None
        refusal = check_place(request.headers, self._policy)
        if refusal is None and closed is not None:
            refusal = Refusal(503, McpError(INTERNAL_ERROR, closed))
        if refusal is not None:
            await responding.refuse(refusal)
            return
        path, query = request.path, request.query
        if key == request.local_path + "/":
            place = quote(f"{path}/") + (f"?{query}" if query else "")
            await responding.empty(307, {"location": place})
            return

        async def sending(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                responding.status = message["status"]
            await send(message)

        if key.endswith("/"):
            mount = scope.get("root_path", "").rstrip("/")
            scope = {**scope, "path": path, "root_path": mount + key.rstrip("/")}
        body = _BoundedBody(receive, self._policy.max_body_bytes, trio.current_time() + self._body_seconds)
        await self._by_path[key](scope, body.receive, sending)

    def _key(self, path: str) -> str | None:
        if path in self._by_path:
            return path
        return next((mount for mount in self._mounted if f"{path}/".startswith(mount)), None)


@define(eq=False)
class _BoundedBody:
    """Receives the body of a request within its limits."""

    _receive: Receive
    _bytes_left: int
    _deadline: float
    _is_complete: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    """True once a limit was exceeded."""

    async def receive(self) -> AsgiMessage:
        if self._is_complete:
            return await self._receive()
        if not self._is_over:
            with trio.CancelScope(deadline=self._deadline):
                message = await self._receive()
                self._bytes_left -= len(message.get("body", b""))
                if self._bytes_left >= 0:
                    self._is_complete = not message.get("more_body", False)
                    return message
            self._is_over = True
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}


def _application(path: str, route: Any) -> AsgiApp:
    count = _parameters(route) if callable(route) else _NOT_CALLABLE
    if count == len(("scope", "receive", "send")):
        return cast("AsgiApp", route)
    if count > 1 or not _is_async(route):
        raise TypeError(
            f"routes: {path!r} must be an ASGI application, or an async function that takes the request or nothing, "
            f"not {route!r}"
        )
    function = cast("Callable[..., Awaitable[object]]", route)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            await _send_whole(send, 405, b"", [(b"allow", _READING_METHODS.encode())])
            return
        request = HttpRequest.of(scope)
        request.headers = HeaderFields(request.headers)
        reply: Any = await (function(request) if count else function())
        if callable(reply):
            await cast("AsgiApp", reply)(scope, receive, send)
            return
        kind, body = _encoded(reply)
        await _send_whole(send, 200, body, [(b"content-type", kind)], is_head=scope["method"] == "HEAD")

    return answer


def _parameters(route: Callable[..., object]) -> int:
    """Return the number of arguments that a route must be given; of one that takes any number, those of ASGI."""
    parameters = inspect.signature(route).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 3
    positional = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return sum(each.default is each.empty for each in positional)


def _is_async(route: object) -> bool:
    return inspect.iscoroutinefunction(route) or inspect.iscoroutinefunction(type(route).__call__)


def _encoded(reply: object) -> tuple[bytes, bytes]:
    """Return the media type and the body of what a function has returned."""
    if isinstance(reply, str):
        return TEXT_TYPE.encode(), reply.encode()
    if isinstance(reply, bytes):
        return b"application/octet-stream", reply
    return JSON_TYPE.encode(), encode(reply)


async def _send_whole(
    send: Send, status: int, body: bytes, fields: Sequence[tuple[bytes, bytes]], *, is_head: bool = False
) -> None:
    headers = [*fields, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else body, "more_body": False})
