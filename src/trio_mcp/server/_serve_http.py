"""Serving over HTTP: `http_app` as an ASGI application, `serve_http` in one process or in several workers.

Several workers share one address, and any of them may get the next request of a client. Therefore:

1. A worker can open what another worker has sealed (cursors, states of questions), because the parent process makes
   a common key for as long as it runs.
2. No state is kept between requests: handlers that ask questions are replayed, and there are no sessions.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Never, TypedDict, Unpack, cast
from urllib.parse import urlsplit

import trio
from attrs import define, field

from .._misuse import check_class, check_server, did_you_mean, require_trio
from .._other_sdks import option_cure
from .._util import WIND_DOWN_SECONDS, owned_nursery
from ..abc import HttpAnswerer
from ..transports import (
    Bound,
    HttpApp,
    HttpListening,
    HttpRoute,
    HttpSettings,
    HttpSockets,
    Inheritance,
    Receive,
    RouteTable,
    Scope,
    Send,
    SessionSettings,
    bind_sockets,
    serve_asgi,
    serve_workers,
    tls_context,
)
from ..wire import HttpPolicy, is_modern
from ._collection import frozen_heap
from ._stopping import STUCK_STATUS, stopped_by_signals
from .asking import AskingMode
from .features import keys_by_default

if TYPE_CHECKING:
    from ..auth import ResourceServer
    from ._server import Server

__all__ = [
    "LOCAL_HOSTS",
    "HttpBound",
    "HttpOptions",
    "HttpService",
    "Report",
    "ServeHttpOptions",
    "announcement",
    "http_app",
    "known_names",
    "serve_as_worker",
    "serve_http",
    "serve_in_workers",
    "shared_key",
]


LOCAL_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")
"""The names of this machine for itself."""
_MAX_BODY_BYTES = 4 * 2**20
_MAX_BUFFER_BYTES = 256 * 2**20
_BODY_SECONDS = 60.0
_KEEP_ALIVE = 15.0


class HttpOptions(TypedDict, total=False):
    """The options of `http_app` and `serve_http`: keywords, all optional; None means the default, except for `path`.

    Sizes are bytes, times are seconds.
    """

    path: str | None
    """The path of the endpoint, ``"/mcp"`` by default, relative to the application's mount point. None answers at every
    path, for hosts that route by path themselves."""
    allowed_hosts: Sequence[str] | Literal["any"] | None
    """The host names, with ports, by which clients reach the server: ``["example.com", "example.com:8443"]``; the port
    ``*`` matches any port. By default only the names of this machine (``localhost:*``, ``127.0.0.1:*``, ``[::1]:*``)
    and the host of *auth*'s URL. Other hosts are refused with 403, which prevents DNS rebinding. ``"any"`` disables the
    check, for servers behind a proxy that checks."""
    allowed_origins: Sequence[str] | Literal["any"] | None
    """The origins whose web pages may use the server: ``["https://example.com"]``. By default those of *allowed_hosts*,
    over HTTP and HTTPS. A request without an `Origin` field is accepted, because only web pages send one."""
    max_body_bytes: int | None
    """The maximum size of a request body, 4 MiB by default; a larger one is refused before it is read."""
    max_buffer_bytes: int | None
    """The maximum number of bytes of request bodies, and of responses that wait to be read, of all clients together;
    256 MiB by default. Beyond it, a new body is refused with 503 and `Retry-After` if its client holds the most.
    Otherwise the client that holds the most loses the response or body that has made no progress for the longest time.
    """
    body_seconds: float | None
    """The timeout for receiving a request body, 60 by default."""
    keep_alive: float | None
    """The seconds after which an idle stream sends a keep-alive comment, 15 by default. A request that is not answered
    within this time gets a stream."""
    asking: AskingMode | None
    """The way in which handlers wait for the answers of modern clients; overrides the option of `Server`. With several
    processes behind one address it must be ``"replayed"``, and the server needs `keys`."""
    sessions: SessionSettings | Literal[False] | None
    """The sessions of clients of 2025-11-25 and earlier: their limits, and the store of events for reconnections.

    A session lives in one process. False refuses such clients; use it with several processes behind one address without
    sticky routing, where they would fail at random."""
    auth: ResourceServer | None
    """The token verification; with it every request needs an access token. The metadata for clients is public, below
    ``/.well-known/oauth-protected-resource``; a host that mounts the application must route these root paths to it too
    (`HttpApp.wrap` does). By default there is no authentication."""
    health_path: str | None
    """The path of a health check for load balancers, such as ``"/healthz"``; by default there is none. A GET gets 200
    while the server serves, and 503 while it starts or stops, from any host, without authentication."""
    routes: Mapping[str, HttpRoute] | None
    """What to serve beside the endpoint, by path: ASGI applications, as of Starlette or FastAPI, and async functions
    that take the `HttpRequest`, or nothing, and return a string, bytes, JSON, or an ASGI application such as a response
    of Starlette. A function answers GET and HEAD. A path that ends in a slash is a mount point: it has all paths below.

    Routes are public: *auth* protects only the endpoint. They accept the hosts, the origins and the bodies that the
    endpoint accepts, and are refused with 503 while the server starts or stops. The lifespan of a route is not run; use
    `HttpApp.wrap` for an application with a lifespan."""
    access_log: logging.Logger | bool | None
    """The log of requests, of all paths; True for the logger ``trio_mcp.access``. Each request is one line of the level
    INFO when its response ends: method, path, status, milliseconds, and the principal or ``-``. By default requests are
    not logged."""
    websocket: bool | None
    """True to serve WebSockets at the path of the endpoint too, with the hosts, the origins and *auth* of HTTP; each
    message is a text message. One serves its client until either side closes it, so it needs no sticky routing. By
    default WebSockets are refused."""


def _cure_of_option(name: str) -> str:
    """Return what the user may do about an unknown option; empty if that is unknown."""
    if name in {"host", "port", *ServeHttpOptions.__annotations__}:
        return f"; serve_http takes {name!r}"
    return option_cure("serve_http", name) or did_you_mean(name, ServeHttpOptions.__annotations__)


def http_app(server: HttpAnswerer, **options: Unpack[HttpOptions]) -> HttpApp:
    """Return *server* as an ASGI 3 application, for ``hypercorn -k trio module:app`` or for mounting.

    All revisions are served at one path. The requests of one principal, or without authentication of one address, share
    the `Limits` of a connection. Without *auth* there is no authentication: listen only where trusted clients can
    connect; requests that need scopes (`Server.tool`) are refused. See `HttpApp` for how to run it.

    Args:
        options: see `HttpOptions`.

    Raises:
        ValueError: an option is not valid; the message names it.
        TypeError: there is no option of this name.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    check_server("http_app()", server)
    unknown = sorted(options.keys() - HttpOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"unknown options: {', '.join(unknown)}{''.join(map(_cure_of_option, unknown))}")
    path = options.get("path", "/mcp")
    if path is not None and not path.startswith("/"):
        raise ValueError(f"path={path!r}: must begin with a slash")
    if options.get("sessions"):
        check_class("sessions", options.get("sessions"), SessionSettings, "SessionSettings(store=...) or False")
    if options.get("routes") is not None:
        check_class("routes", options.get("routes"), Mapping, "routes={'/version': function}")
    names = known_names(options.get("auth"))
    hosts = _hosts(options.get("allowed_hosts"), names)
    policy = HttpPolicy(
        allowed_hosts=hosts,
        allowed_origins=_origins(options.get("allowed_origins"), names if hosts is None else hosts),
        max_body_bytes=_whole("max_body_bytes", options.get("max_body_bytes"), _MAX_BODY_BYTES),
        legacy=options.get("sessions") is not False and not all(map(is_modern, server.revisions)),
        modern=any(map(is_modern, server.revisions)),
    )
    body_seconds = _positive("body_seconds", options.get("body_seconds"), _BODY_SECONDS)
    settings = HttpSettings(
        path=path,
        policy=policy,
        body_seconds=body_seconds,
        keep_alive=_positive("keep_alive", options.get("keep_alive"), _KEEP_ALIVE),
        asking=options.get("asking"),
        sessions=options.get("sessions") or SessionSettings(),
        auth=options.get("auth"),
        max_buffer_bytes=_buffer_bytes(options.get("max_buffer_bytes"), policy.max_body_bytes),
        routes=_routes(options, path, policy, body_seconds),
        health_path=options.get("health_path"),
        access_log=_access_log(options.get("access_log")),
        websocket=bool(options.get("websocket")),
    )
    return HttpApp(server, settings)


def _routes(options: HttpOptions, path: str | None, policy: HttpPolicy, body_seconds: float) -> RouteTable:
    health_path, routes, auth = options.get("health_path"), options.get("routes") or {}, options.get("auth")
    if path is None and (routes or health_path is not None):
        raise ValueError(
            "path=None answers at every path, so there is no room for routes or health_path; give it a path"
        )
    if health_path is not None and (not health_path.startswith("/") or health_path == path):
        raise ValueError(f"health_path={health_path!r}: must begin with a slash, and not be the path of the endpoint")
    sessions = options.get("sessions") or SessionSettings()
    taken = [path, health_path, sessions.sse_path, *(() if auth is None else auth.metadata_paths)]
    return RouteTable.of(routes, [each for each in taken if each is not None], policy, body_seconds)


def _access_log(given: object) -> logging.Logger | None:
    if given is True:
        return logging.getLogger("trio_mcp.access")
    if given is None or given is False:
        return None
    if isinstance(given, logging.Logger):
        return given
    raise TypeError(f"access_log={given!r}: must be True, False or a logging.Logger")


def known_names(auth: ResourceServer | None) -> Sequence[str]:
    """Return the host names that an HTTP service accepts by default: this machine's, and that of the URL of *auth*.

    Raises:
        TypeError: *auth* is not a `ResourceServer`.
    """
    if auth is None:
        return LOCAL_HOSTS
    given: object = auth
    if not hasattr(given, "guard"):
        raise TypeError(f"auth: expected ResourceServer(url, issuers=[...]), and got {type(given).__name__}")
    place = urlsplit(auth.resource)
    usual_port = ":443" if place.scheme == "https" else ":80"
    return [*LOCAL_HOSTS, place.netloc.removesuffix(usual_port)]  # as in the `Host` field


def _hosts(allowed: Sequence[str] | Literal["any"] | None, known: Sequence[str]) -> Sequence[str] | None:
    if allowed is None:
        return known
    return None if allowed == "any" else allowed


def _origins(allowed: Sequence[str] | Literal["any"] | None, names: Sequence[str]) -> Sequence[str] | None:
    if allowed is None:
        return [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return None if allowed == "any" else allowed


def _whole(name: str, given: int | None, default: int) -> int:
    if given is None:
        return default
    if type(given) is not int or given <= 0:
        raise ValueError(f"{name}={given!r}: must be an integer above 0")
    return given


def _buffer_bytes(given: int | None, max_body_bytes: int) -> int:
    buffer_bytes = _whole("max_buffer_bytes", given, max(_MAX_BUFFER_BYTES, max_body_bytes))
    if buffer_bytes < max_body_bytes:
        raise ValueError(f"max_buffer_bytes={given!r}: must be at least max_body_bytes={max_body_bytes}")
    return buffer_bytes


def _positive(name: str, given: float | None, default: float) -> float:
    if given is None:
        return default
    if isinstance(given, bool) or math.isnan(given) or given <= 0:
        raise ValueError(f"{name}={given!r}: must be a number above 0")
    return given


_log = logging.getLogger("trio_mcp.server")

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 # only compared with
_LAST_SECONDS = 5.0
"""The seconds for writing responses, after `Limits.drain_seconds`."""


class ServeHttpOptions(HttpOptions, total=False):
    """The options of `serve_http` in addition to those of `http_app`: its address and its connections."""

    unix_socket: str | os.PathLike[str] | None
    """The path of a Unix socket, instead of host and port. A stale socket file is replaced."""
    certfile: str | os.PathLike[str] | None
    """The PEM file with the server's certificate chain. With it, the server accepts only TLS."""
    keyfile: str | os.PathLike[str] | None
    """The PEM file with the private key; by default the file of the certificate."""
    keyfile_password: str | None
    """The password of the private key."""
    http2: bool | None
    """True to support HTTP/2 too, which is the default."""
    backlog: int | None
    """The number of connections that may wait to be accepted, 1024 by default."""
    max_connections: int | None
    """The maximum number of open connections; by default three quarters of the descriptors that the process may have
    (RLIMIT_NOFILE), and at most 16,384. Beyond it, a new connection replaces the one that is idle longest, or else one
    of the address that has the most; if that is its own address, the new one is closed. Idle connections of an address
    with more than a quarter of all are replaced first, and one with more than half replaces only its own."""
    head_seconds: float | None
    """The timeout for receiving the head of a request, 15 by default."""
    keep_alive_seconds: float | None
    """The timeout of an idle connection between two requests, 75 by default."""
    write_seconds: float | None
    """The timeout for a client to receive 64 KiB of waiting data, 30 by default; then its connection is closed."""
    max_head_bytes: int | None
    """The maximum size of a request head, 16 KiB by default."""


@define(eq=False)
class HttpBound:
    """The addresses of a running server, and a way to stop it. `serve_http` reports it when it is ready."""

    urls: Sequence[str]
    """One URL for each address, including the path; for a Unix socket, ``unix:`` and the path of the socket."""
    port: int | None
    """The port; None for a Unix socket."""
    _service: HttpService = field(repr=False)

    @property
    def url(self) -> str:
        """The first of the URLs."""
        return self.urls[0]

    async def stop(self) -> None:
        """Stop serving as a signal would, and return when the server has stopped. May be called repeatedly."""
        self._service.stop()
        await self._service.ended.wait()


async def serve_http(
    server: HttpAnswerer,
    *place: Never,
    host: str = "127.0.0.1",
    port: int = 8000,
    signals: bool = True,
    task_status: trio.TaskStatus[HttpBound] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ServeHttpOptions],
) -> None:
    """Serve over HTTP/1.1 and HTTP/2, optionally with TLS, with the protocols of Hypercorn; all revisions at one path.

    ::

        trio.run(partial(serve_http, server, port=8000))

        async with trio.open_nursery() as nursery:
            bound = await nursery.start(partial(serve_http, server, port=0))
            print(bound.url)
            ...
            await bound.stop()

    Without *auth* there is no authentication. By default only this machine can connect, and only by its own names.

    Returns after one SIGINT or SIGTERM: the server accepts no more connections and requests, ends streams, lets open
    questions expire, answers in-flight requests for at most `Limits.drain_seconds`, and answers the rest with an error.
    If cancelled, it stops at once.

    Args:
        host: the host name or address to listen on. An address that stands for all addresses (``"0.0.0.0"``, ``"::"``)
            needs *allowed_hosts*, or *auth*, whose URL names the server; any other host is allowed automatically.
        port: the port; 0 for any free port, which `HttpBound.port` reports.
        signals: True to listen for SIGINT and SIGTERM, if this is the main thread and the function was not started
            through `nursery.start`. A program that starts it so stops it with `HttpBound.stop`.
        task_status: reports a `HttpBound`.
        options: see `HttpOptions` and `ServeHttpOptions`.

    Raises:
        OSError: the address is in use or not available, or a certificate file cannot be read; the message names it.
        ValueError: an option or the certificate is not valid.
        TypeError: there is no option of this name.
        BaseException: raised by the server's lifespan.
    """
    if place:
        raise TypeError("serve_http() takes all options by name: write serve_http(server, port=8000)")
    require_trio("serve_http()")
    service = HttpService.of(server, host, port, options)
    await service.run(signals=signals and task_status is trio.TASK_STATUS_IGNORED, on_bound=task_status.started)


def announcement(server: Server) -> Callable[[HttpBound], None]:
    """Return a function that tells a user at a terminal where *server* is served, if the log does not."""

    def announce(bound: HttpBound) -> None:
        if _log.isEnabledFor(logging.INFO):
            return
        if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # None if closed
            line = f"serving {server.info.name} at {' and '.join(bound.urls)}; Ctrl+C stops it"
            sys.stderr.write("".join(each if each.isprintable() else "?" for each in line) + "\n")

    return announce


@define(eq=False)
class HttpService:
    """An HTTP application with its address, which is served once. `of` makes it."""

    app: HttpApp
    listening: HttpListening
    path: str
    """The path in its URLs."""
    drain_seconds: float
    """The seconds for in-flight requests and for writing their responses, after a stop."""
    leave_seconds: float
    """The further seconds for what goes on nevertheless, after which a worker process is killed."""
    ended: trio.Event = field(factory=trio.Event, init=False)
    """Set when serving has ended."""
    _stop: trio.Event = field(factory=trio.Event, init=False)
    _opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """The scope of entering the lifespan, which a stop cancels."""
    _is_open: bool = field(default=False, init=False)

    @classmethod
    def of(cls, server: HttpAnswerer, host: str, port: int, options: ServeHttpOptions) -> HttpService:
        """Return the service with these options; raises what `serve_http` raises for options that are not valid."""
        check_server("serve_http()", server)
        check_class("host", host, str, "'127.0.0.1'")
        given: dict[str, Any] = {**options}
        listening = HttpListening(
            host=host, port=port, **{name: given.pop(name) for name in _LISTENING if given.get(name) is not None}
        )
        if given.get("allowed_hosts") is None:
            given["allowed_hosts"] = _names_of(listening, given.get("auth"))
        tls_context(listening)  # report faults of the files before anything is started
        app = http_app(server, **cast("HttpOptions", {key: given[key] for key in given.keys() - _LISTENING}))
        limits, path = server.limits, given.get("path", "/mcp") or ""
        leave_seconds = WIND_DOWN_SECONDS + 2 * limits.stop_seconds
        return cls(app, listening, path, limits.drain_seconds + _LAST_SECONDS, leave_seconds)

    def stop(self) -> None:
        """Stop serving; while the lifespan is being entered, cancel that. Synchronous."""
        self._stop.set()
        if not self._is_open:
            self._opening.cancel(reason="stopped before it was started")

    def bound(self, bound: Bound) -> HttpBound:
        """Return the addresses of the server, given its sockets."""
        urls = [url if url.startswith("unix:") else url + self.path for url in bound.urls]
        return HttpBound(urls, bound.port, self)

    async def run(
        self, *, signals: bool, on_bound: Callable[[HttpBound], None], sockets: HttpSockets | None = None
    ) -> None:
        """Serve until it is stopped.

        Args:
            signals: True to stop at SIGINT and SIGTERM.
            on_bound: called with the addresses when the server is ready.
            sockets: the sockets to listen on, instead of binding new ones.
        """
        try:
            with (
                stopped_by_signals(self.stop, listen=signals) as guard,
                frozen_heap(is_own_process=guard is not None),
                self._opening,
                sockets or await bind_sockets(self.listening) as listened,
            ):
                async with self.app.run():
                    self._is_open = True
                    await serve_asgi(
                        self._serve,
                        self.listening,
                        direct=self.app,
                        stopping=self._stop.wait,
                        drain=self._drain,
                        drain_seconds=self.drain_seconds,
                        sockets=listened,
                        task_status=Report(self, on_bound),
                    )
        finally:
            self.ended.set()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; refuse the WebSockets that it does not take."""
        if scope["type"] != "websocket" or self.app.takes_asgi_websocket(scope):
            await self.app(scope, receive, send)
            return
        await receive()
        try:
            await send({"type": "websocket.close"})
        except Exception:  # noqa: BLE001 # Hypercorn fails on data that a hostile client adds
            _log.debug("refusing a WebSocket failed", exc_info=True)

    async def _drain(self) -> None:
        self.app.stop()
        await self.app.drained()


@define(eq=False)
class Report:
    """A `trio.TaskStatus` that reports the addresses of a server."""

    _service: HttpService
    _on_bound: Callable[[HttpBound], None]

    def started(self, value: Bound | None = None) -> None:
        """Report that the server is ready."""
        assert value is not None
        bound = self._service.bound(value)
        _log.info("serving at %s", ", ".join(bound.urls))
        self._on_bound(bound)


_LISTENING = ServeHttpOptions.__annotations__.keys() - HttpOptions.__annotations__.keys()
"""The options that are not `HttpOptions`."""


def _names_of(listening: HttpListening, auth: ResourceServer | None) -> Sequence[str]:
    """Return the names by which clients reach a server, as far as they are known."""
    known = known_names(auth)
    if listening.unix_socket is not None or (listening.host in _EVERYWHERE and auth is not None):
        return known
    if listening.host in _EVERYWHERE:
        raise ValueError(
            f"host={listening.host!r}: it stands for every address of this machine; name the hosts by which clients "
            "reach it (allowed_hosts, or --allow-host NAME), as in example.com:*, or 'any' if a proxy checks them"
        )
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    return [*dict.fromkeys([*known, f"{host}:*"])]


# --- Several worker processes ---

_KEY = "TRIO_MCP_HTTP_KEY"
"""The environment variable with which the parent passes the common key to its workers."""
_HANG_SECONDS = 30.0
"""The time without a sign of life after which a worker is replaced: longer than a handler should ever block."""


async def serve_in_workers(
    service: HttpService,
    command: Sequence[str],
    workers: int,
    on_bound: Callable[[HttpBound], None],
    hang_seconds: float | None = None,
) -> None:
    """Serve in several processes until a signal is received; then wait for them to end.

    Each further signal goes to the processes, which it ends if what they run does not end.

    Args:
        service: the service that each process runs; this process does not run it.
        command: the command that each process runs. It takes its `transports.Inheritance`, makes its server inside of
            `shared_key`, and calls `serve_as_worker`.
        workers: the number of processes.
        on_bound: called with the addresses when all processes are ready.
        hang_seconds: the time without a sign of life after which a process is replaced; 30 seconds by default.

    Raises:
        SystemExit: a process had to be ended; the status is `STUCK_STATUS`.
        BaseException: raised by `transports.serve_workers`.
    """
    stop, signals = trio.Event(), trio.Semaphore(0)

    def on_signal() -> None:
        stop.set()
        signals.release()

    with stopped_by_signals(on_signal, listen=True):
        statuses = await serve_workers(
            command,
            service.listening,
            workers=workers,
            stopping=stop.wait,
            signals=signals.acquire,
            drain_seconds=service.drain_seconds,
            leave_seconds=service.leave_seconds,
            hang_seconds=_HANG_SECONDS if hang_seconds is None else hang_seconds,
            env={_KEY: os.urandom(32).hex()},
            task_status=Report(service, on_bound),
        )
    if {STUCK_STATUS, -signal.SIGKILL}.intersection(statuses):  # it has ended itself, or was killed
        raise SystemExit(STUCK_STATUS)


@contextmanager
def shared_key() -> Generator[None]:
    """Give servers that are made in the block without keys the common key of the workers, if this is a worker.

    The key is removed from the environment, so that child processes do not inherit it.
    """
    key = os.environ.pop(_KEY, None)
    token = keys_by_default.set((bytes.fromhex(key),) if key else ())
    try:
        yield
    finally:
        keys_by_default.reset(token)


async def serve_as_worker(service: HttpService, inheritance: Inheritance) -> None:
    """Serve HTTP as one of several worker processes, until a signal arrives or the parent dismisses it or is gone."""

    async def stop_when_dismissed() -> None:
        await inheritance.wait_dismissed()
        service.stop()

    async with owned_nursery() as nursery:

        def report(_: HttpBound) -> None:
            nursery.start_soon(inheritance.report_ready)

        nursery.start_soon(stop_when_dismissed)
        await service.run(signals=True, sockets=inheritance.sockets, on_bound=report)
