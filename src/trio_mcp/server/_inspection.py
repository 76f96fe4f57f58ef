"""The socket over which `trio-mcp inspect` sees a serving process, if its environment has `TRIO_MCP_INSPECT=1`.

Rules of this file:

1. The socket is a Unix socket in a folder of the user that nobody else can enter, and it is for the user alone. Whoever
   connects gets one JSON document, and cannot ask for anything.
2. A thread serves it, because the event loop may be the very thing that is blocked. The snapshots themselves are taken
   in the event loop. If that does not answer in time, the line that blocks it takes their place.
3. Programs of one user may have different environments: the host of a stdio server passes few variables on. So whoever
   looks for a socket looks in every folder that may have one.
4. A process that cannot have a socket goes on without; the log says why.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import asdict, define, field, frozen

from ._stopping import place_in_thread

if TYPE_CHECKING:
    from ._server import Server

__all__ = ["inspectable", "inspection_sockets"]

_log = logging.getLogger("trio_mcp.server")

_ANSWER_SECONDS = 1.0
"""The time that an event loop has to answer."""
_SEND_SECONDS = 5.0
_PAUSE_SECONDS = 0.02
"""The time between two connections, so that nobody keeps the thread busy."""
_CREDENTIALS = struct.Struct("3i")
"""The process, user and group at the other end of a Unix socket, as Linux returns them."""


# --- The folder ---


def _bases() -> Sequence[tuple[Path, str]]:
    """Return the folders that may hold the folder of the sockets, each with its name there, the best first."""
    user, runtime = os.geteuid(), os.environ.get("XDG_RUNTIME_DIR")
    temporary = [tempfile.gettempdir(), "/tmp"]  # noqa: S108 # for other environments; it is checked
    own = [*([runtime] if runtime else []), f"/run/user/{user}"]
    found = [*((Path(each), "trio-mcp") for each in own), *((Path(each), f"trio-mcp-{user}") for each in temporary)]
    return [(base, name) for base, name in dict.fromkeys(found) if base.is_dir()]


def _is_private(folder: Path) -> bool:
    """Return True if *folder* is a folder, and no link to one, that belongs to this user and is closed to others."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _own_folder() -> Path:
    """Return the folder for the sockets of this user, which is made if it does not exist.

    Raises:
        OSError: it cannot be made, or it is not private.
    """
    base, name = _bases()[0]
    folder = base / name
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_private(folder):
        raise PermissionError(f"{folder} must be a folder of this user that is closed to all others (mode 0700)")
    return folder


def inspection_sockets(pid: int) -> Sequence[Path]:
    """Return the socket of a process; if it has none, those of the processes that it has started."""
    folders = [base / name for base, name in _bases()]
    private = [folder for folder in folders if _is_private(folder)]
    own = [path for folder in private for path in folder.glob(f"{pid}-*.sock")]
    return own or sorted(path for folder in private for path in folder.glob(f"*-{pid}.sock"))


# --- The process that is seen ---


@frozen
class _Source:
    """A server in one Trio run."""

    server: Server
    token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token)
    thread: int = field(factory=threading.get_ident)
    """The thread of the event loop."""

    def describe(self) -> dict[str, Any]:
        """Return a snapshot as JSON, or the line that blocks the event loop. Called in another thread."""
        taken: list[dict[str, Any]] = []
        done = threading.Event()

        def take() -> None:
            try:
                taken.append(asdict(self.server.snapshot()))
            except Exception:  # noqa: BLE001 # raised here, it would end the event loop
                _log.exception("taking a snapshot has failed")
            finally:
                done.set()

        with suppress(trio.RunFinishedError):
            self.token.run_sync_soon(take)
        if not done.wait(_ANSWER_SECONDS):
            fault = f"the event loop is blocked at {place_in_thread(self.thread)}"
        elif taken:
            return {**taken[0], "fault": None}
        else:
            fault = "the snapshot has failed; the log of the server says why"
        return {"name": self.server.info.name, "version": self.server.info.version, "fault": fault}


_sources: list[_Source] = []
"""The servers of this process that are being served."""
_changing = threading.Lock()
_listener: _Listener | None = None


@contextmanager
def inspectable(server: Server) -> Generator[None]:
    """Show a server to `trio-mcp inspect` for the duration of the block, in which it is being served."""
    source = _Source(server)
    with _changing:
        _sources.append(source)
        _open()
    try:
        yield
    finally:
        with _changing:
            _sources.remove(source)
            _close()


def _open() -> None:
    """Open the socket of this process, unless it is open."""
    global _listener  # noqa: PLW0603 # a process has one
    if _listener is None:
        try:
            _listener = _Listener.open()
        except (OSError, AttributeError) as error:  # AttributeError: there are no Unix sockets, as on Windows
            _log.warning("trio-mcp inspect will not find this process: %s", error)


def _close() -> None:
    """Close the socket of this process if no server is left."""
    global _listener  # noqa: PLW0603 # as above
    if _listener is not None and not _sources:
        _listener.close()
        _listener = None


@define(eq=False)
class _Listener:
    """The socket of this process, and the thread that serves it."""

    _path: Path
    _socket: socket.socket
    _closed: socket.socket
    """Readable once the socket shall be closed."""
    _closing: socket.socket

    @classmethod
    def open(cls) -> _Listener:
        """Open the socket, in place of one that a former process of this number has left.

        Raises:
            OSError: there is no private folder for it, or it cannot be opened.
        """
        family = socket.AF_UNIX
        folder, pid = _own_folder(), os.getpid()
        for stale in folder.glob(f"{pid}-*.sock"):
            stale.unlink(missing_ok=True)
        path = folder / f"{pid}-{os.getppid()}.sock"
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen()
        except BaseException:
            listening.close()
            raise
        listener = cls(path, listening, *socket.socketpair())
        threading.Thread(target=listener.run, name="trio-mcp inspect", daemon=True).start()
        return listener

    def close(self) -> None:
        """Close the socket, and remove it."""
        self._path.unlink(missing_ok=True)
        self._closing.close()

    def run(self) -> None:
        """Answer whoever connects, until `close` is called. Runs in a thread of its own."""
        with self._socket, self._closed, selectors.DefaultSelector() as waiting:
            waiting.register(self._socket, selectors.EVENT_READ)
            waiting.register(self._closed, selectors.EVENT_READ)
            while self._closed not in [key.fileobj for key, _ in waiting.select()]:
                with suppress(OSError):  # the other end is gone, or the process has no descriptor left
                    connection, _ = self._socket.accept()
                    with connection:
                        self._answer(connection)
                time.sleep(_PAUSE_SECONDS)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_SEND_SECONDS)
        if _is_of_this_user(connection):
            servers = [source.describe() for source in dict.fromkeys(_sources)]
            document = {"pid": os.getpid(), "parent": os.getppid(), "servers": servers}
            connection.sendall(json.dumps(document).encode())


def _is_of_this_user(connection: socket.socket) -> bool:
    """Return True if a process of this user has connected. Only Linux tells; elsewhere the folder has to be enough."""
    if sys.platform != "linux":  # pragma: no cover # the tests run on Linux
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())
