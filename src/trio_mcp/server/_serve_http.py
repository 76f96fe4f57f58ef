"""Serving over HTTP, in one process or in several workers.

Several workers share one address, and any of them may get the next request of a client. Therefore they are one service
with a shared backend (`abc.Shared`): that of the program, or else an SQLite file that lasts as long as the workers.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Unpack, cast

import trio
from attrs import define, field

from .._capabilities import load_capability
from .._misuse import check_class, check_server, require_trio
from .._util import WIND_DOWN_SECONDS, owned_nursery
from ..abc import HttpAnswerer
from ..transports import (
    Bound,
    HttpApp,
    HttpListening,
    HttpSockets,
    Inheritance,
    Receive,
    Scope,
    Send,
    bind_sockets,
    serve_asgi,
    serve_workers,
    take_inheritance,
    tls_context,
)
from ._collection import frozen_heap
from ._http_app import HttpOptions, http_app, known_names
from ._stopping import STUCK_STATUS, stopped_by_signals

if TYPE_CHECKING:
    from ..auth import ResourceServer
    from ._server import Server

__all__ = ["HttpBound", "HttpService", "ServeHttpOptions", "announcement", "serve_http"]

_log = logging.getLogger("trio_mcp.server")

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 # only compared with
_SHARED_FILE = "TRIO_MCP_SHARED_FILE"
"""The environment variable with the file that workers share if the program names no backend."""
_HANG_SECONDS = 30.0
"""The time without a sign of life after which a worker is replaced: longer than a handler should ever block."""
_LAST_SECONDS = 25.0
"""The seconds for writing responses and handing over sessions, after `Limits.drain_seconds`."""


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
    workers: int | None
    """The number of processes that serve the address, 1 by default. Each further process runs the program of this one
    again, with its arguments, up to the call that serves. Without *shared*, they share an SQLite file that lasts as
    long as they do. A process that ends is replaced. A program can serve only one address in this way."""
    worker_timeout: float | None
    """The seconds for which a process may be stopped, or blocked by a handler, before it is replaced; 30 by default."""
    drain_delay: float | None
    """The seconds for which the process goes on serving everything, new connections included, after its stop was
    requested; 0 by default. *ready_path* answers 503 meanwhile, so load balancers send their requests elsewhere before
    the process refuses them. A second signal ends the delay. The other times of a stop begin after it."""


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

    Returns after one SIGINT or SIGTERM: after *drain_delay*, the server accepts no more connections and requests, ends
    streams, lets open questions expire, answers in-flight requests for at most `Limits.drain_seconds`, and answers the
    rest with an error. With *shared*, questions in sessions stay open as long as requests do, and the other processes
    continue the sessions. If cancelled, it stops at once.

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
    await service.serve(signals=signals and task_status is trio.TASK_STATUS_IGNORED, on_bound=task_status.started)


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
    workers: int = 1
    """The number of processes."""
    worker_timeout: float = _HANG_SECONDS
    """The seconds without a sign of life after which a process is replaced."""
    drain_delay: float = 0.0
    """The seconds for which everything is served after a stop was requested."""
    ended: trio.Event = field(factory=trio.Event, init=False)
    """Set when serving has ended."""
    _stop: trio.Event = field(factory=trio.Event, init=False)
    _opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """The scope of entering the lifespan, which a stop cancels."""
    _is_open: bool = field(default=False, init=False)
    _signals: int = field(default=0, init=False)
    """The number of signals so far."""
    _hurried: trio.Event = field(factory=trio.Event, init=False)
    """Set when the rest of the delay is to be skipped."""

    @classmethod
    def of(cls, server: HttpAnswerer, host: str, port: int, options: ServeHttpOptions) -> HttpService:
        """Return the service with these options; raises what `serve_http` raises for options that are not valid."""
        check_server("serve_http()", server)
        check_class("host", host, str, "'127.0.0.1'")
        given: dict[str, Any] = {**options}
        workers, timeout = given.pop("workers", None), given.pop("worker_timeout", None)
        workers, timeout = 1 if workers is None else workers, _HANG_SECONDS if timeout is None else timeout
        if type(workers) is not int or workers < 1:
            raise ValueError(f"workers={workers!r}: must be an integer above 0")
        if isinstance(timeout, bool) or not timeout > 0:
            raise ValueError(f"worker_timeout={timeout!r}: must be a number above 0")
        delay = given.pop("drain_delay", None) or 0.0
        if isinstance(delay, bool) or not 0 <= delay < math.inf:
            raise ValueError(f"drain_delay={delay!r}: must be a number of seconds, 0 or more")
        if workers > 1:
            _check_shared_by_processes(given)
        listening = HttpListening(
            host=host, port=port, **{name: given.pop(name) for name in _LISTENING if given.get(name) is not None}
        )
        if given.get("allowed_hosts") is None:
            given["allowed_hosts"] = _names_of(listening, given.get("auth"))
        tls_context(listening)  # report faults of the files before anything is started
        app = http_app(server, **cast("HttpOptions", {key: given[key] for key in given.keys() - _LISTENING}))
        limits, path = server.limits, given.get("path", "/mcp") or ""
        leave_seconds = WIND_DOWN_SECONDS + 2 * limits.stop_seconds
        return cls(app, listening, path, limits.drain_seconds + _LAST_SECONDS, leave_seconds, workers, timeout, delay)

    def stop(self) -> None:
        """Stop serving, after the delay; while the lifespan is being entered, cancel that. Synchronous."""
        self._stop.set()
        self.app.announce_stop()
        if not self._is_open:
            self._opening.cancel(reason="stopped before it was started")

    def _on_signal(self) -> None:
        """Stop; at a second signal, without the rest of the delay."""
        self._signals += 1
        if self._signals > 1:
            self._hurried.set()
        self.stop()

    async def _wait_stop(self) -> None:
        """Return when the process is to stop: after the delay that follows the request."""
        await self._stop.wait()
        with trio.move_on_after(self.drain_delay):
            await self._hurried.wait()

    def bound(self, bound: Bound) -> HttpBound:
        """Return the addresses of the server, given its sockets."""
        urls = [url if url.startswith("unix:") else url + self.path for url in bound.urls]
        return HttpBound(urls, bound.port, self)

    async def serve(
        self,
        *,
        signals: bool,
        on_bound: Callable[[HttpBound], None],
        command: Sequence[str] | None = None,
        inheritance: Inheritance | None = None,
    ) -> None:
        """Serve until it is stopped, in as many processes as there are workers.

        Args:
            signals: True to stop at SIGINT and SIGTERM.
            on_bound: called with the addresses when the server is ready.
            command: the command of the other processes; by default that of this one.
            inheritance: what this process has inherited, if it is one of the other processes and the caller has taken
                its inheritance; by default it is taken here.

        Raises:
            SystemExit: a process had to be ended; the status is `STUCK_STATUS`.
        """
        if inheritance is None and self.workers > 1:
            inheritance = take_inheritance(self.listening)
        if inheritance is None and self.workers == 1:
            await self.run(signals=signals, on_bound=on_bound)
        elif inheritance is not None:
            await self._run_as_worker(inheritance, on_bound)
        else:
            try:
                await self._run_workers(command or [sys.executable, *sys.orig_argv[1:]], signals, on_bound)
            finally:
                self.ended.set()

    async def _run_as_worker(self, inheritance: Inheritance, on_bound: Callable[[HttpBound], None]) -> None:
        """Serve as one of several processes, until a signal arrives or the parent dismisses it or is gone."""

        async def stop_when_dismissed() -> None:
            await inheritance.wait_dismissed()
            self.stop()

        async with owned_nursery() as nursery:

            def report(bound: HttpBound) -> None:
                nursery.start_soon(inheritance.report_ready)
                on_bound(bound)

            nursery.start_soon(stop_when_dismissed)
            await self.run(signals=True, sockets=inheritance.sockets, on_bound=report)

    async def _run_workers(self, command: Sequence[str], listen: bool, on_bound: Callable[[HttpBound], None]) -> None:
        """Serve in other processes. Each further signal goes to them, and ends them if what they run does not end."""
        signals = trio.Semaphore(0)

        def on_signal() -> None:
            self._stop.set()
            signals.release()

        with stopped_by_signals(on_signal, listen=listen), tempfile.TemporaryDirectory() as folder:
            statuses = await serve_workers(
                command,
                self.listening,
                workers=self.workers,
                stopping=self._stop.wait,
                signals=signals.acquire,
                drain_seconds=self.drain_delay + self.drain_seconds,
                leave_seconds=self.leave_seconds,
                hang_seconds=self.worker_timeout,
                env={_SHARED_FILE: str(Path(folder) / "shared.db")},
                task_status=Report(self, on_bound),
            )
        if {STUCK_STATUS, -signal.SIGKILL}.intersection(statuses):  # it has ended itself, or was killed
            raise SystemExit(STUCK_STATUS)

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
                stopped_by_signals(self._on_signal, listen=signals) as guard,
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
                        stopping=self._wait_stop,
                        drain=self._drain,
                        drain_seconds=self.drain_seconds,
                        sockets=listened,
                        task_status=Report(self, on_bound),
                    )
        finally:
            self.ended.set()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; refuse the WebSockets that it does not take."""
        if scope["type"] != "websocket" or self.app.accepts_websocket(scope):
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


def _check_shared_by_processes(given: dict[str, Any]) -> None:
    """Add the backend of the workers to the options, unless there is one; refuse one that only one process can use."""
    backends = load_capability("shared")
    if isinstance(given.get("shared"), backends.MemoryShared):
        raise ValueError(
            "shared=MemoryShared(): other processes cannot use it; use SqliteShared(path) or RedisShared(url)"
        )
    file = os.environ.pop(_SHARED_FILE, None)  # child processes shall not inherit it
    if given.get("shared") is None and file is not None:
        given["shared"] = backends.SqliteShared(file)


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
