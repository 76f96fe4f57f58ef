"""`serve_http`: a server over HTTP, with the address, the signals and the end taken care of.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast
from urllib.parse import urlsplit

import trio
from attrs import define, field

from .._util import owned_nursery
from ..abc import HttpAnswerer
from ..transports import (
    Bound,
    HttpApp,
    HttpListening,
    HttpSettings,
    HttpSockets,
    Inheritance,
    Receive,
    Scope,
    Send,
    SessionSettings,
    bind_sockets,
    serve_asgi,
    serve_workers,
    tls_context,
)
from ..wire import HttpPolicy, is_modern
from ._serve import stopped_by_signals
from .asking import AskingMode
from .features import keys_by_default

if TYPE_CHECKING:
    from ..auth import ResourceServer

__all__ = [
    "LOCAL_HOSTS",
    "HttpBound",
    "HttpOptions",
    "HttpService",
    "Report",
    "ServeHttpOptions",
    "http_app",
    "known_names",
    "serve_as_worker",
    "serve_http",
    "serve_in_workers",
    "shared_key",
]


# `http_app`: a server as an ASGI application, and what may be said about it.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http

LOCAL_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")
"""By what names this machine calls itself."""
_MAX_BODY_BYTES = 4 * 2**20
_BODY_SECONDS = 60.0
_KEEP_ALIVE = 15.0


class HttpOptions(TypedDict, total=False):
    """What `http_app` and `serve_http` take, all by keyword and all optional; None is the default of each but `path`.

    Sizes are bytes, times are seconds.
    """

    path: str | None
    """Where clients find it, ``"/mcp"`` by default, below what the application is mounted under. None answers at every
    path: for hosts that look at the path themselves."""
    allowed_hosts: Sequence[str] | Literal["any"] | None
    """The names, with ports, by which clients reach it: ``["example.com", "example.com:8443"]``; the port ``*`` stands
    for any. By default those of this machine (``localhost:*``, ``127.0.0.1:*``, ``[::1]:*``), and the one in the URL
    that *auth* names, alone: a page of a foreign site whose name was made to lead here is refused, with 403. ``"any"``
    checks nothing: for servers behind a proxy that does."""
    allowed_origins: Sequence[str] | Literal["any"] | None
    """The sites whose pages may use it, as ``["https://example.com"]``. By default those that *allowed_hosts* names,
    over HTTP and HTTPS. Clients that are no web pages name none, and are not asked for one."""
    max_body_bytes: int | None
    """The longest body of a request, 4 MiB by default; a longer one is refused before it is read."""
    body_seconds: float | None
    """How long a body may take to arrive, a minute by default."""
    keep_alive: float | None
    """After so many seconds of silence a stream says that it is alive, 15 by default; a request that has not been
    answered by then becomes one."""
    asking: AskingMode | None
    """Where handlers are while clients of the current revision find answers, in place of what the server says of itself
    (`Server`). With several processes behind one address it must be ``"replayed"``, and the server needs `keys`."""
    sessions: SessionSettings | Literal[False] | None
    """What clients of revisions up to 2025-11-25 may cost, and what is kept for those that lose a stream.

    Their sessions live in one process. With several behind one address, and nothing before them that leads each client
    to the same one, False refuses such clients, which would fail at random otherwise."""
    auth: ResourceServer | None
    """Whose tokens it takes, and for what: every request then has to come with one. What a client has to know for that
    can be read by anybody below ``/.well-known/oauth-protected-resource``: a host that mounts the application somewhere
    leads these paths of its own here as well (`HttpApp.wrap` does). By default nobody is authenticated."""


def http_app(server: HttpAnswerer, **options: Unpack[HttpOptions]) -> HttpApp:
    """Return *server* as an ASGI 3 application, for ``hypercorn -k trio module:app`` or for mounting.

    All its revisions are served at one path. Requests of one sender share the `Limits` of a connection: a sender is who
    was authenticated, or else an address. Without *auth* nobody is: then listen where only those you trust can connect,
    and what needs scopes (`Server.tool`) is refused. See `HttpApp` for how it is run.

    Args:
        options: see `HttpOptions`.

    Raises:
        ValueError: an option makes no sense; the text names it.
        TypeError: there is no option of this name.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    unknown = sorted(options.keys() - HttpOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"unknown options: {', '.join(unknown)}; there are {', '.join(HttpOptions.__annotations__)}")
    path = options.get("path", "/mcp")
    if path is not None and not path.startswith("/"):
        raise ValueError(f"path={path!r}: it begins with a slash")
    known = known_names(options.get("auth"))
    hosts = _hosts(options.get("allowed_hosts"), known)
    policy = HttpPolicy(
        allowed_hosts=hosts,
        allowed_origins=_origins(options.get("allowed_origins"), known if hosts is None else hosts),
        max_body_bytes=_whole("max_body_bytes", options.get("max_body_bytes"), _MAX_BODY_BYTES),
        legacy=options.get("sessions") is not False and not all(map(is_modern, server.revisions)),
        modern=any(map(is_modern, server.revisions)),
    )
    settings = HttpSettings(
        path=path,
        policy=policy,
        body_seconds=_positive("body_seconds", options.get("body_seconds"), _BODY_SECONDS),
        keep_alive=_positive("keep_alive", options.get("keep_alive"), _KEEP_ALIVE),
        asking=options.get("asking"),
        sessions=options.get("sessions") or SessionSettings(),
        auth=options.get("auth"),
    )
    return HttpApp(server, settings)


def known_names(auth: ResourceServer | None) -> Sequence[str]:
    """Return the names of a server that need not be said: those of this machine, and what its protection calls it."""
    if auth is None:
        return LOCAL_HOSTS
    place = urlsplit(auth.resource)
    usual_port = ":443" if place.scheme == "https" else ":80"
    return [*LOCAL_HOSTS, place.netloc.removesuffix(usual_port)]  # as it stands in the field `Host`


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
        raise ValueError(f"{name}={given!r}: must be a whole number above 0")
    return given


def _positive(name: str, given: float | None, default: float) -> float:
    if given is None:
        return default
    if isinstance(given, bool) or math.isnan(given) or given <= 0:
        raise ValueError(f"{name}={given!r}: must be a number above 0")
    return given


_log = logging.getLogger("trio_mcp.server")

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 # it is compared with
_LAST_SECONDS = 5.0
"""What responses have beyond `Limits.drain_seconds`, for being written."""


class ServeHttpOptions(HttpOptions, total=False):
    """What `serve_http` takes beside what `http_app` does: about its address and its connections."""

    unix_socket: str | os.PathLike[str] | None
    """The path of a Unix socket, in place of host and port. One that nobody listens to any more is replaced."""
    certfile: str | os.PathLike[str] | None
    """The certificate of this server, and those that lead to its authority, as PEM. With it TLS is spoken, and
    nothing else."""
    keyfile: str | os.PathLike[str] | None
    """The private key of the certificate, as PEM; by default in the file of the certificate."""
    keyfile_password: str | None
    """What the key is encrypted with."""
    http2: bool | None
    """Speak HTTP/2 as well, which is the default."""
    backlog: int | None
    """Connections that may wait to be accepted, 1024 by default."""
    head_seconds: float | None
    """How long a client may take for the head of a request, 15 by default."""
    keep_alive_seconds: float | None
    """How long a connection may lie idle between two requests, 75 by default."""
    write_seconds: float | None
    """A client that takes less than 64 KiB of what waits for it in that time loses its connection; 30 by default."""
    max_head_bytes: int | None
    """The longest head of a request, 16 KiB by default."""


@define(eq=False)
class HttpBound:
    """Where a server can be reached, and how it is stopped. `serve_http` reports it when it serves."""

    urls: Sequence[str]
    """One URL for each address, the path included; for a Unix socket ``unix:`` and the path of that."""
    port: int | None
    """The port; None for a Unix socket."""
    _service: HttpService

    @property
    def url(self) -> str:
        """The first of the URLs."""
        return self.urls[0]

    async def stop(self) -> None:
        """Stop serving as a signal would, and return when that has been done. Harmless when repeated."""
        self._service.stop()
        await self._service.ended.wait()


async def serve_http(
    server: HttpAnswerer,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    signals: bool = True,
    task_status: trio.TaskStatus[HttpBound] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ServeHttpOptions],
) -> None:
    """Serve over HTTP, with Hypercorn's protocols inside: HTTP/1.1 and HTTP/2, TLS, all revisions at one path.

    ::

        trio.run(partial(serve_http, server, port=8000))

        async with trio.open_nursery() as nursery:
            bound = await nursery.start(partial(serve_http, server, port=0))
            print(bound.url)
            ...
            await bound.stop()

    Without *auth* nobody is authenticated. By default only this machine can connect, and only by its own names.

    Returns after one SIGINT or SIGTERM: no more is accepted, streams end, questions that are open expire, requests
    under way are answered for `Limits.drain_seconds` at most, and the rest is told that the server stops. If cancelled,
    everything ends at once.

    Args:
        host: where to listen: a name or an address. For one that stands for every address (``"0.0.0.0"``, ``"::"``)
            there must be *allowed_hosts*, or *auth*, which names the server; any other is allowed by itself.
        port: 0 takes any that is free; `HttpBound.port` tells which.
        signals: listen for SIGINT and SIGTERM, if this is the main thread and the function was not started through
            `nursery.start`, whose program has its own way to stop: `HttpBound.stop`.
        task_status: gets a `HttpBound`.
        options: see `HttpOptions` and `ServeHttpOptions`.

    Raises:
        OSError: the address cannot be taken, or a file of the certificate cannot be read; the text names it.
        ValueError: an option makes no sense, or the certificate cannot be used.
        TypeError: there is no option of this name.
        BaseException: whatever the server's lifespan raises, as it is.
    """
    service = HttpService.of(server, host, port, options)
    await service.run(signals=signals and task_status is trio.TASK_STATUS_IGNORED, on_bound=task_status.started)


@define(eq=False)
class HttpService:
    """An HTTP application with its address, from its start to its end. Made by `of`, and run once."""

    app: HttpApp
    listening: HttpListening
    path: str
    """What stands behind the address in its URLs."""
    drain_seconds: float
    """How long requests may go on when it stops, and their responses be written."""
    ended: trio.Event = field(factory=trio.Event, init=False)
    """Set when it has ended."""
    _stop: trio.Event = field(factory=trio.Event, init=False)
    _opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Entering the lifespan, which a stop gives up."""
    _is_open: bool = field(default=False, init=False)

    @classmethod
    def of(cls, server: HttpAnswerer, host: str, port: int, options: ServeHttpOptions) -> HttpService:
        """Return what these options mean; raises as `serve_http` does for those that mean nothing."""
        given: dict[str, Any] = {**options}
        listening = HttpListening(
            host=host, port=port, **{name: given.pop(name) for name in _LISTENING if given.get(name) is not None}
        )
        if given.get("allowed_hosts") is None:
            given["allowed_hosts"] = _names_of(listening, given.get("auth"))
        tls_context(listening)  # what is wrong with its files is said before anything begins
        app = http_app(server, **cast("HttpOptions", {key: given[key] for key in given.keys() - _LISTENING}))
        return cls(app, listening, given.get("path", "/mcp") or "", server.limits.drain_seconds + _LAST_SECONDS)

    def stop(self) -> None:
        """Accept no more, and end; or, while the lifespan is being entered, give that up. Synchronous."""
        self._stop.set()
        if not self._is_open:
            self._opening.cancel(reason="stopped before it was started")

    def bound(self, bound: Bound) -> HttpBound:
        """Return where it can be reached, given what it is bound to."""
        urls = [url if url.startswith("unix:") else url + self.path for url in bound.urls]
        return HttpBound(urls, bound.port, self)

    async def run(
        self, *, signals: bool, on_bound: Callable[[HttpBound], None], sockets: HttpSockets | None = None
    ) -> None:
        """Serve until it is stopped.

        Args:
            signals: stop at SIGINT and SIGTERM.
            on_bound: told where it can be reached, when it serves.
            sockets: what to listen on, in place of what it would bind itself.
        """
        try:
            async with stopped_by_signals(self.stop, listen=signals):
                with self._opening, sockets or await bind_sockets(self.listening) as listened:
                    async with self.app.run():
                        self._is_open = True
                        await serve_asgi(
                            self._serve,
                            self.listening,
                            stopping=self._stop.wait,
                            drain=self._drain,
                            drain_seconds=self.drain_seconds,
                            sockets=listened,
                            task_status=Report(self, on_bound),
                        )
        finally:
            self.ended.set()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be the application to a server that survives the refusal of a WebSocket."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        await receive()
        try:
            await send({"type": "websocket.close"})
        except Exception:  # noqa: BLE001 # Hypercorn trips over what a hostile client adds; that is no news
            _log.debug("a WebSocket could not be refused in form", exc_info=True)

    async def _drain(self) -> None:
        self.app.stop()
        await self.app.drained()


@define(eq=False)
class Report:
    """Reports where a server can be reached: a `trio.TaskStatus`."""

    _service: HttpService
    _on_bound: Callable[[HttpBound], None]

    def started(self, value: Bound | None = None) -> None:
        """It serves."""
        assert value is not None
        bound = self._service.bound(value)
        _log.info("serving at %s", ", ".join(bound.urls))
        self._on_bound(bound)


_LISTENING = ServeHttpOptions.__annotations__.keys() - HttpOptions.__annotations__.keys()
"""The options that are no `HttpOptions`."""


def _names_of(listening: HttpListening, auth: ResourceServer | None) -> Sequence[str]:
    """Return by which names clients reach a server, as far as that can be known."""
    known = known_names(auth)
    if listening.unix_socket is not None or (listening.host in _EVERYWHERE and auth is not None):
        return known
    if listening.host in _EVERYWHERE:
        raise ValueError(
            f"host={listening.host!r} is every address of this machine: say by which names clients reach it "
            "(allowed_hosts, or --allow-host NAME), as in example.com:*, or 'any' where something else checks that"
        )
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    return [*dict.fromkeys([*known, f"{host}:*"])]


# A server over HTTP in several processes behind one address, any of which may get the next request of a client.
#
# Rules of this file:
#
# 1. What one process has sealed, cursors and the states of questions, any other can open: they have a key in common,
#    made by the parent for as long as it runs.
# 2. Nothing is remembered from one request to the next: handlers that ask are replayed, and there are no sessions.

_KEY = "TRIO_MCP_HTTP_KEY"
"""The variable of a worker's environment in which the common key stands."""


async def serve_in_workers(
    service: HttpService, command: Sequence[str], workers: int, on_bound: Callable[[HttpBound], None]
) -> None:
    """Serve in so many processes until a signal comes; then wait for them to end.

    Args:
        service: what each of them serves; here it is not run.
        command: what each of them runs. It takes its `transports.Inheritance`, makes its server inside of
            `shared_key`, and calls `serve_as_worker`.
        on_bound: told where they can be reached, when all of them serve.

    Raises what `transports.serve_workers` raises.
    """
    stop = trio.Event()
    async with stopped_by_signals(stop.set, listen=True):
        await serve_workers(
            command,
            service.listening,
            workers=workers,
            stopping=stop.wait,
            drain_seconds=service.drain_seconds,
            env={_KEY: os.urandom(32).hex()},
            task_status=Report(service, on_bound),
        )


@contextmanager
def shared_key() -> Generator[None]:
    """Let servers that are made in the block, without keys, seal with what the workers have in common, if this is one.

    What is found is not handed on to the processes that this one starts.
    """
    text = os.environ.pop(_KEY, None)
    token = keys_by_default.set((bytes.fromhex(text),) if text else ())
    try:
        yield
    finally:
        keys_by_default.reset(token)


async def serve_as_worker(service: HttpService, inheritance: Inheritance) -> None:
    """Serve in one of the processes until a signal comes, or its parent wants it to end, or is gone."""

    async def obey() -> None:
        await inheritance.wait_dismissed()
        service.stop()

    async with owned_nursery() as nursery:

        def report(_: HttpBound) -> None:
            nursery.start_soon(inheritance.report_ready)

        nursery.start_soon(obey)
        await service.run(signals=True, sockets=inheritance.sockets, on_bound=report)
