"""What a worker process of an HTTP server gets from its parent: the sockets, and a line that ends when it shall.

The parent says in the environment which descriptors they are, so that a worker can be started with the very command
line of its parent. Over the line, a socket pair, the worker says once that it serves; the parent says nothing. Its end
tells the worker to stop, and comes however the parent ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress

import trio
from attrs import define, field

from ._hypercorn_listening import HttpListening
from ._hypercorn_sockets import HttpSockets

__all__ = ["Inheritance", "inheritance_variables", "take_inheritance"]

_VARIABLE = "TRIO_MCP_HTTP_WORKER"
_READY = b"\n"


def inheritance_variables(line: socket.socket, sockets: Sequence[socket.socket]) -> Mapping[str, str]:
    """Return what is to be in the environment of a worker that inherits these descriptors with their numbers."""
    return {_VARIABLE: f"{line.fileno()}:{','.join(str(each.fileno()) for each in sockets)}"}


def take_inheritance(listening: HttpListening) -> Inheritance | None:
    """Return what this process has inherited as a worker; None if it is none.

    Can be called once: what is found is not handed on to the processes that this one starts.
    """
    text = os.environ.pop(_VARIABLE, None)
    if text is None:
        return None
    line, _, rest = text.partition(":")
    sockets = [_taken(int(each)) for each in rest.split(",")]
    return Inheritance(HttpSockets.of(sockets, listening), _taken(int(line)))


def _taken(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


@define(eq=False)
class Inheritance:
    """What a worker serves with. `sockets` are for `serve_asgi`, which also stops when `wait_dismissed` returns."""

    sockets: HttpSockets
    _raw_line: socket.socket
    _line: trio.socket.SocketType = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._line = trio.socket.from_stdlib_socket(self._raw_line)

    async def report_ready(self) -> None:
        """Tell the parent that this worker serves."""
        with suppress(OSError):  # without a parent, `wait_dismissed` returns
            await self._line.send(_READY)

    async def wait_dismissed(self) -> None:
        """Return when the parent wants this worker to stop, or is gone."""
        with suppress(OSError):
            await self._line.recv(1)

    def close(self) -> None:
        """Close all of it, at the end."""
        self.sockets.close()
        self._line.close()
