"""The command `gateway`: it serves many servers as one, or makes HTTP of stdio and stdio of HTTP."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import trio

from ..abc import ClientAuth
from ..client import load_server_table
from ..gateway import Gateway, ToolSearch
from ..server import serve_stdio
from ..wire import is_object
from ._connect import headers_of, open_trace, sign_in_by_browser
from ._errors import UsageError
from ._output import Notes
from ._serve import announce, http_service
from ._terminal import visible

__all__ = ["serve_gateway"]

_log = logging.getLogger("trio_mcp.gateway")


def serve_gateway(options: argparse.Namespace) -> None:
    """Run the command `gateway` until the input ends or a signal arrives.

    Raises:
        UsageError: the file of servers or an option is invalid, or a file cannot be written.
        OSError: the address cannot be bound, or standard input or output is closed.
    """
    _log_to_standard_error(options.log_level or "info")
    with open_trace(options.trace) as trace:
        try:
            search = None if options.search is None else ToolSearch(at_most_tokens=options.search)
            gateway = Gateway(options.name, search=search, tap=None if trace is None else trace.of)
            _mount(gateway, options)
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from None
        count = len(gateway.mounts)
        what = f"{options.name} with {count} server{'' if count == 1 else 's'}"
        if options.http is not None:
            service = http_service(gateway, options)
            trio.run(partial(service.run, signals=True, on_bound=announce(what)))
        else:
            _log.info("serving %s over standard input and output", what)
            trio.run(serve_stdio, gateway)


def _mount(gateway: Gateway, options: argparse.Namespace) -> None:
    """Mount the servers that the command line names."""
    for name, target in _targets(options):
        entry = target if is_object(target) else {}
        auth: ClientAuth | None = None
        if options.login and (isinstance(target, str) or "url" in entry):
            auth = sign_in_by_browser(Notes())
        gateway.mount(
            target,
            name=name,
            prefix=(name or _name_of(target)) if options.prefix else None,
            only=options.only,
            without=options.without,
            auth=auth,
            timeout=options.timeout,
        )


def _name_of(target: Any) -> str:
    """Return the name that a gateway gives to a server."""
    (upstream,) = Gateway("").mount(target)
    return upstream.name


def _targets(options: argparse.Namespace) -> Iterator[tuple[str | None, Any]]:
    """Yield the name of each server, None for a command or URL, and what `Gateway.mount` takes.

    Raises:
        UsageError: the file cannot be read or has no such server, or --header does not apply.
    """
    if options.config is None:
        command: list[str] = options.target
        is_url = len(command) == 1 and "://" in command[0]
        if options.header and not is_url:
            raise UsageError("--header needs a URL after --")
        if is_url:
            yield None, {"url": command[0], "headers": headers_of(options.header)} if options.header else command[0]
        else:  # a Python file is given to `serve`
            yield Path(command[-1].partition(":")[0]).stem if "--" not in options.words else None, command
        return
    if options.header:
        raise UsageError("--header needs a URL after --; for a config file, write 'headers' in the entry")
    path, *names = options.config
    try:
        table = load_server_table(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    for name in names or table.entries:
        if name not in table.entries:
            raise UsageError(f"{path} has no server {name!r}; it has {', '.join(table.entries) or 'none'}")
        table.opener(name)  # raises ValueError if the entry is not valid
        yield name, table.entries[name]


class _Printable(logging.Formatter):
    """A formatter whose lines hold no control characters: what servers say cannot imitate other lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; the lines of a traceback are kept."""
        return visible(super().format(record))


def _log_to_standard_error(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("trio_mcp")
    log.addHandler(handler)
    log.setLevel(level.upper())
