"""`serve_http`: a server over HTTP, with the address, the signals and the end taken care of.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import trio
from attrs import define, field

from ..abc import HttpAnswerer
from ..transports import (
    Bound,
    HttpApp,
    HttpListening,
    HttpSockets,
    Receive,
    Scope,
    Send,
    bind_sockets,
    serve_asgi,
    tls_context,
)
from ._http_app import HttpOptions, http_app, known_names
from ._stopping import stopped_by_signals

if TYPE_CHECKING:
    from ..auth import ResourceServer

__all__ = ["HttpBound", "HttpService", "Report", "ServeHttpOptions", "serve_http"]

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
