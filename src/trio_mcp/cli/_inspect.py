"""The command `inspect`: it shows what the servers of a process do, and where each of their handlers stands."""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..server import inspection_sockets
from ._output import Output

__all__ = ["inspect_process"]

_ANSWER_SECONDS = 30.0
_CHUNK = 65_536


def inspect_process(options: argparse.Namespace) -> None:
    """Print what the servers of a process do; if it has none that can be seen, those of the processes it has started.

    Raises:
        OSError: there is no such process, it does not permit the inspection, or it is of another user.
    """
    pid: int = options.pid
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("processes cannot be inspected on this system, because Python has no Unix sockets here")
    documents = [document for path in inspection_sockets(pid) for document in _received(path)]
    if not documents:
        _check(pid)
        raise ConnectionRefusedError(
            f"process {pid} does not permit it, and no process that it has started does: start the server with "
            "TRIO_MCP_INSPECT=1 in its environment, or with `trio-mcp serve --inspect`"
        )
    output = Output()
    if options.json:
        output.document(documents)
        return
    for document in documents:
        for server in document["servers"]:
            _show(server, document["pid"], output)


def _received(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what the process at the other end of a socket sends; nothing if there is none."""
    data = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, suppress(OSError):
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(str(path))
        while chunk := connection.recv(_CHUNK):
            data += chunk
    with suppress(ValueError):  # the process has ended meanwhile
        yield json.loads(data)


def _check(pid: int) -> None:
    """Raise an error if there is no such process of this user."""
    try:
        os.kill(pid, 0)
        owner = Path(f"/proc/{pid}").stat().st_uid if Path("/proc/self").exists() else os.geteuid()
    except (ProcessLookupError, FileNotFoundError):
        raise ProcessLookupError(f"there is no process {pid}") from None
    except PermissionError:
        owner = -1
    if owner != os.geteuid():
        raise PermissionError(f"process {pid} belongs to another user, who alone may inspect it")


def _show(server: dict[str, Any], pid: int, output: Output) -> None:
    title = f"{server['name']} {server['version']}, process {pid}"
    if server["fault"] is not None:
        output.text(f"{title}: {server['fault']}")
        return
    requests, connections, tasks = server["requests"], server["connections"], server["background"]
    numbers = [
        _counted(len(connections), "connection"),
        _counted(len(requests), "request"),
        _counted(len(tasks), "background task"),
    ]
    output.text(f"{title}: {', '.join(numbers)}")
    _table(output, ("connection", "transport", "client", "revision", "principal", "age"), map(_connection, connections))
    _table(output, ("request", "id", "connection", "state", "age", "stands at", "waits in"), map(_request, requests))
    _table(output, ("background task", "stands at", "waits in"), map(_task, tasks))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table(output: Output, columns: Sequence[str], rows: Iterator[Sequence[str | None]]) -> None:
    found = [*rows]
    if found:
        output.table(columns, found)


def _connection(each: dict[str, Any]) -> Sequence[str | None]:
    number, age = str(each["number"]), _age(each["age"])
    return number, each["transport"], each["client"], each["revision"], each["principal"], age


def _request(each: dict[str, Any]) -> Sequence[str | None]:
    what = each["method"] if each["name"] is None else f"{each['method']} {each['name']}"
    state = each["state"] if each["process"] is None else f"{each['state']} {each['process']}"
    if each["is_cancelled"]:
        state += ", cancelled"
    shown = ["" if each[name] is None else str(each[name]) for name in ("id", "connection")]
    return what, *shown, state, _age(each["age"]), each["place"], each["waits_in"]


def _task(each: dict[str, Any]) -> Sequence[str | None]:
    return each["name"], each["place"], each["waits_in"]


def _age(seconds: float) -> str:
    return f"{seconds:.1f} s"
