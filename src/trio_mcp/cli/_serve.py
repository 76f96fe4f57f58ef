"""The command `serve`: it imports the `Server` of a user's program and serves it over stdio or HTTP."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import trio
from attrs import frozen

from ..abc import Serving, Shared
from ..server import (
    CallNext,
    HttpBound,
    HttpService,
    Request,
    ServeHttpOptions,
    Server,
    internals_of,
    serve_stdio,
)
from ..shared import RedisShared, SqliteShared
from ..transports import HttpListening, take_inheritance
from ..wire import encode
from ._errors import UsageError
from ._terminal import visible_line

if TYPE_CHECKING:
    from ..auth import ResourceServer

__all__ = ["announce", "http_service", "place_and_name", "serve", "serve_over_http", "server_of"]

_USUAL_NAME = "server"


def serve(options: argparse.Namespace) -> None:
    """Run the command `serve` over stdio until the input ends or a signal arrives.

    Raises:
        UsageError: the module or the server does not exist, or importing it failed.
        OSError: standard input or output is closed.
    """
    server = _logged_server(options)
    on_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # closed streams are None
    trio.run(serve_stdio, _AnnouncedServer(server) if on_terminal else server)


@frozen
class _AnnouncedServer:
    """A server that tells the user at a terminal when it is ready."""

    _server: Server

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Serving]:
        """Open a serving, as `Server.serving` does."""
        async with self._server.serving() as serving:
            name = self._server.info.name
            _say(
                f"serving {name} over standard input and output, for a client that starts this command; Ctrl+D ends it"
            )
            yield serving


def _say(line: str) -> None:
    sys.stderr.write(visible_line(line) + "\n")
    sys.stderr.flush()


def place_and_name(where: str) -> tuple[str, str]:
    """Return the module or file that *where* names, and the name of the server in it, which may be empty."""
    place, colon, name = where.rpartition(":")
    if not colon or not name.isidentifier():  # C:\server.py has a colon too
        return where, ""
    return place, name


def server_of(where: str) -> Server:
    """Import the server that *where* names, in the form that `serve` takes."""
    place, name = place_and_name(where)
    with redirect_stdout(sys.stderr):  # standard output is for messages
        module = _imported(place)
    found = getattr(module, name or _USUAL_NAME, None)
    if isinstance(found, Server):
        return found
    if name:
        what = f"is a {type(found).__name__}, not a Server" if hasattr(module, name) else "does not exist"
        raise UsageError(f"{place}: {name!r} {what}; {_offered(module)}")
    servers = {id(value): value for value in vars(module).values() if isinstance(value, Server)}
    if len(servers) != 1:
        raise UsageError(f"{place}: name the server, as in {place}:NAME; {_offered(module)}")
    return servers.popitem()[1]


def _offered(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Server)]
    return f"it has {', '.join(names)}" if names else "it has no Server"


def _imported(place: str) -> ModuleType:
    is_file = place.endswith(".py")
    if not is_file and (not place or place.startswith(".")):
        raise UsageError(f"{place!r} does not name a module; expected MODULE[:NAME] or FILE.py[:NAME]")
    if is_file and not Path(place).is_file():
        raise UsageError(f"{place}: no such file")
    try:
        with _no_serving(place):
            return _from_file(Path(place).resolve()) if is_file else _from_name(place)
    except _ServesAtImport as error:
        raise UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        if error.name and not is_file and f"{place}.".startswith(f"{error.name}."):
            raise UsageError(f"there is no module {error.name!r} in this folder or installed") from None
        _show(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's program may raise anything
        _show(error)
    raise UsageError(f"{place} could not be imported; the traceback is above")


class _ServesAtImport(RuntimeError):
    """The program starts to serve while it is imported, so that the import would not end."""


@contextmanager
def _no_serving(place: str) -> Generator[None]:
    """Refuse to serve any server during the block, in which the program *place* is imported."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise _ServesAtImport(
            f"{place} serves while it is imported: put `server.run()` (or trio.run(...)) under "
            '`if __name__ == "__main__":`'
        )

    serving = Server.serving  # what every way to serve begins with; a program may use `trio.run` for other things
    Server.serving = refuse  # type: ignore[method-assign]  # restored below
    try:
        yield
    finally:
        Server.serving = serving  # type: ignore[method-assign]  # as it was


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))  # as for a program that Python runs
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # attrs and pickle look there
    spec.loader.exec_module(module)
    return module


def _show(error: BaseException) -> None:
    """Print the traceback, starting at the first line of the user's program."""
    here = error.__traceback__
    while here is not None and _is_own_frame(here.tb_frame.f_code.co_filename):
        here = here.tb_next
    traceback.print_exception(error.with_traceback(here))


def _is_own_frame(file: str) -> bool:
    return file == __file__ or "importlib" in file


# --- The log ---

_log = logging.getLogger("trio_mcp.requests")


def _logged_server(options: argparse.Namespace) -> Server:
    """Return the server that the command line names, with a log on standard error if it requests one."""
    if options.log_level is None:
        return server_of(options.server)
    level = options.log_level.upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    server = server_of(options.server)
    logging.getLogger("trio_mcp").setLevel(level)  # also if the program has configured the log differently
    if _log.isEnabledFor(logging.INFO):
        internals = internals_of(server)
        internals.middleware = (_log_request, *internals.middleware)
    return server


async def _log_request(request: Request, call_next: CallNext) -> Any:
    """Log a request or notification with its outcome and its time. The outermost middleware function."""
    began, outcome = time.perf_counter(), "cancelled"
    try:
        result = await call_next(request)
        outcome = "failed" if getattr(result, "is_error", False) else "done"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
        raise
    else:
        return result
    finally:
        params = request.params
        subject = getattr(params, "name", None) or getattr(params, "uri", None)
        what = request.method if subject is None else f"{request.method} {subject}"
        milliseconds = (time.perf_counter() - began) * 1000
        _log.info("%s", visible_line(f"{what}: {outcome}, {milliseconds:.1f} ms"))


# --- The command serve --http ---


def serve_over_http(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Run the command `serve` over HTTP, in one process or several, until a signal arrives.

    Args:
        options: the options of the command line.
        arguments: the command line itself, with which the worker processes are started.

    Raises:
        UsageError: the server does not exist, an option is invalid, or the certificate cannot be used.
        OSError: the address cannot be bound, a file cannot be read, or a process cannot be started.
    """
    inheritance = take_inheritance(HttpListening())  # before the program is imported, which may start processes
    server = _logged_server(options)
    service = http_service(server, options)

    def on_bound(bound: HttpBound) -> None:
        if inheritance is None:
            announce(server.info.name)(bound)

    command = [sys.executable, "-m", "trio_mcp", *arguments]
    trio.run(partial(service.serve, signals=True, on_bound=on_bound, command=command, inheritance=inheritance))


def http_service(server: Server, options: argparse.Namespace) -> HttpService:
    """Return the service that the options of a command line describe; raises `UsageError` if they are invalid."""
    given: ServeHttpOptions = {
        "allowed_hosts": _names(options.allow_host),
        "allowed_origins": _names(options.allow_origin),
        "certfile": options.certfile,
        "keyfile": options.keyfile,
        "health_path": options.health_path,
        "ready_path": options.ready_path,
        "metrics_path": options.metrics,
        "drain_delay": options.drain_delay,
        "workers": options.workers,
        "worker_timeout": options.worker_timeout,
    }
    if options.path is not None:
        given["path"] = options.path
    if options.access_log is not None:
        given["access_log"] = _log_to_standard_error(options.access_log)
    if options.auth is not None:
        given["auth"] = _protection(options)
    if options.shared is not None:
        given["shared"] = _shared(options.shared)
    try:
        return HttpService.of(server, options.host or "127.0.0.1", options.http, given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _shared(place: str) -> Shared:
    """Return the backend that the option `--shared` names."""
    if place.partition("://")[0] in {"redis", "rediss", "unix"}:
        return RedisShared(place)
    if "://" in place:
        raise UsageError(f"--shared {place}: expected the path of a file, or a URL that begins with redis://")
    return SqliteShared(place.removeprefix("sqlite:"))


def _log_to_standard_error(form: str) -> logging.Logger:
    """Return the access log, with a handler that writes its lines as ``"text"`` or ``"json"``."""
    log, handler = logging.getLogger("trio_mcp.access"), logging.StreamHandler()
    handler.setFormatter(_JsonAccess() if form == "json" else logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    return log


_ACCESS_PARTS = ("method", "path", "status", "seconds", "principal", "request_id", "principal_hash", "node")
"""The attributes of the record of a request, without their ``http_``."""


class _JsonAccess(logging.Formatter):
    """A formatter that makes each record of the access log one JSON object, with the time in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        parts = {name: getattr(record, f"http_{name}") for name in _ACCESS_PARTS}
        return encode({"time": time, **parts}).decode()


def _protection(options: argparse.Namespace) -> ResourceServer:
    """Return the check of access tokens."""
    from ..auth import ResourceServer  # noqa: PLC0415  # most servers of this command do not need it

    try:
        return ResourceServer(options.auth_url, issuers=options.auth, scopes=options.auth_scope or ())
    except ValueError as error:
        raise UsageError(str(error)) from None


def _names(given: Sequence[str] | None) -> Sequence[str] | Literal["any"] | None:
    return "any" if given == ["any"] else given


def announce(what: str) -> Callable[[HttpBound], None]:
    """Return a callback that prints what is served, and its URLs."""

    def say(bound: HttpBound) -> None:
        _say(f"serving {what} at {' and '.join(bound.urls)}")

    return say
