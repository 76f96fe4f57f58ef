"""The command `serve --http`: a `Server` of somebody's program over HTTP, from one process or from several."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import trio

from ..server import HttpBound, HttpService, ServeHttpOptions, Server, serve_as_worker, serve_in_workers, shared_key
from ..transports import HttpListening, take_inheritance
from ._failures import UsageError
from ._serve import server_of
from ._visible import visible_line

__all__ = ["serve_over_http"]


def serve_over_http(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Serve until a signal comes.

    Args:
        options: of the command line.
        arguments: the command line, for the processes that serve where there are several.

    Raises:
        UsageError: there is no such server, an option makes no sense, or the certificate cannot be used.
        OSError: the address cannot be taken, a file cannot be read, or a process cannot be started.
    """
    inheritance = take_inheritance(HttpListening())  # before the program is imported, which may start processes
    with shared_key():
        server = server_of(options.server)
    service = _service(server, options)
    if inheritance is not None:
        trio.run(serve_as_worker, service, inheritance)
    elif options.workers in {None, 1}:
        trio.run(partial(service.run, signals=True, on_bound=_saying(server)))
    else:
        command = [sys.executable, "-m", "trio_mcp", *arguments]
        trio.run(serve_in_workers, service, command, options.workers, _saying(server))


def _service(server: Server, options: argparse.Namespace) -> HttpService:
    given: ServeHttpOptions = {
        "allowed_hosts": _names(options.allow_host),
        "allowed_origins": _names(options.allow_origin),
        "certfile": options.certfile,
        "keyfile": options.keyfile,
    }
    if options.path is not None:
        given["path"] = options.path
    if options.workers not in {None, 1}:  # which of them gets a client's next request is not known
        given["asking"], given["sessions"] = "replayed", False
    try:
        return HttpService.of(server, options.host or "127.0.0.1", options.http, given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _names(given: Sequence[str] | None) -> Sequence[str] | Literal["any"] | None:
    return "any" if given == ["any"] else given


def _saying(server: Server) -> Callable[[HttpBound], None]:
    """Return what says where the server can be reached."""

    def say(bound: HttpBound) -> None:
        sys.stderr.write(visible_line(f"serving {server.info.name} at {' and '.join(bound.urls)}") + "\n")
        sys.stderr.flush()

    return say
