"""The memory of servers that need no probe: those that have shown that they know only the handshake.

Some of these servers write pages of errors to their log when they get the probe, or exit. A client that remembers them
begins with the handshake the next time, and saves a round trip.

Rules of this file:

1. Only the need of a handshake is remembered, and only of servers that were probed. A server that has failed, or was
   not reached, has shown nothing.
2. A remembered server may be upgraded. So what is remembered of it expires, and is forgotten at once when the server
   has another name or version than before, or when a handshake without a probe fails; it is then probed again.
3. The memory is a file of the user that all processes share. A process replaces it as a whole: of two processes that
   write at the same time one loses what it has learned, and learns it again.
4. No failure of the file is a failure of the client: what cannot be read is empty, and what cannot be written is lost.
5. The file holds digests of commands and addresses, because these may contain secrets.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from attrs import define, field

from .. import types
from .._errors import (
    ErrorResponse,
    HttpStatusError,
    RemoteProtocolError,
    ServerExited,
    TrioMcpError,
    UnsupportedRevision,
)
from ..abc import KnownOpener, TransportOpener
from ..wire import decode, encode, is_array, is_object
from ._negotiate import Negotiation

__all__ = ["Beginning", "ProbeChoice", "WrongBeginningError", "check_probe"]

ProbeChoice: TypeAlias = Literal["always", "never", "remember"]
"""The rule by which a client probes a server before the handshake; see `ClientOptions.probe`."""

_SECONDS = 24 * 3600
"""How long a server is remembered. A server is asked once a day whether it has learned the newest revision."""
_MOST_SERVERS = 500
"""The number of servers that the file holds; those that expire last."""
_MOST_BYTES = 1024 * 1024
"""The size up to which the file is read."""
_MOST_CHARACTERS = 200
"""The number of characters of a name and version that are kept."""
_FAILURES = (OSError, ValueError, RuntimeError)
"""The errors of files, of their contents, and of a user without a home."""


_REFUSALS = (ErrorResponse, HttpStatusError, RemoteProtocolError, ServerExited, UnsupportedRevision)
"""The failures with which a server refuses to begin a connection in one way, and may begin it in the other."""


def check_probe(probe: object) -> None:
    """Raise ValueError if *probe* is not a choice."""
    if probe is not None and probe not in get_args(ProbeChoice):
        raise ValueError(f"probe={probe!r}: expected one of {', '.join(map(repr, get_args(ProbeChoice)))}")


class WrongBeginningError(Exception):
    """The server is to be connected to again, in the other way: with the probe, or without it."""


@define(eq=False)
class Beginning:
    """The way in which a client begins the connection to its server: with the probe, or with the handshake.

    Some legacy servers exit when they receive the probe, or refuse the handshake after it, because they accept only
    `initialize` as the first request. They are started again, without the probe. And a server that is remembered as
    legacy may have become another one: it is connected to again, with the probe.
    """

    probes: bool
    """True if the connection begins with the probe."""
    _memory: ProbeMemory
    _may_change: bool
    """True if the connection may be begun again in the other way."""
    _starts_process: bool
    """True if each connection is made to a new process of the server."""
    _has_changed: bool = field(default=False, init=False)

    @classmethod
    def of(cls, opener: TransportOpener, choice: ProbeChoice | None, pinned: str | None) -> Beginning:
        """Return the beginning of the first connection.

        Args:
            choice: the option of the client.
            pinned: the only revision to speak; then there is nothing to find out.
        """
        known = opener if isinstance(opener, KnownOpener) else None
        remembers = choice in {None, "remember"} and pinned is None
        memory = ProbeMemory(known.server if remembers and known is not None else None)
        return cls(
            choice != "never" and not memory.needs_handshake,
            memory,
            choice != "never" and pinned is None,
            known is not None and known.starts_process,
        )

    def failed(self, negotiation: Negotiation, failure: TrioMcpError) -> None:
        """Raise `WrongBeginningError` if the connection has failed because of the way in which it was begun."""
        if not self._may_change or not isinstance(failure, _REFUSALS):
            return
        if isinstance(failure, ServerExited) and not failure.has_read:
            return  # it does not know how the connection began
        if self.probes and not self._is_shocked(negotiation, failure):
            return
        self._memory.forget()
        self._may_change, self._has_changed, self.probes = False, True, not self.probes
        raise WrongBeginningError from failure

    def _is_shocked(self, negotiation: Negotiation, failure: TrioMcpError) -> bool:
        """Return True if the probe may have made the server fail."""
        if isinstance(failure, ServerExited):
            return True
        return (
            self._starts_process and negotiation.has_asked and isinstance(failure, ErrorResponse | RemoteProtocolError)
        )

    def agreed(self, negotiation: Negotiation) -> None:
        """Remember what the connection has shown."""
        connection = negotiation.connection
        if connection.is_modern:
            self._memory.forget()
        elif negotiation.is_proven_legacy or (self._has_changed and not self.probes):
            self._memory.learn(connection.server_info)
        else:
            self._memory.confirm(connection.server_info)


@define(eq=False)
class ProbeMemory:
    """The entry of one server in the memory.

    Args:
        server: what identifies the server: the words of a command, or a URL. None: nothing is remembered of it.
    """

    _server: Sequence[str] | None
    _known: str | None = field(init=False)
    """The name and version that the server had when it was remembered; None if it is not remembered."""

    def __attrs_post_init__(self) -> None:
        self._known = None if self._server is None else _read(time.time()).get(_digest(self._server), (0.0, None))[1]

    @property
    def needs_handshake(self) -> bool:
        """True if the server is remembered as one that knows only the handshake."""
        return self._known is not None

    def learn(self, info: types.Implementation | None) -> None:
        """Remember that the server knows only the handshake, as a probe has shown."""
        self._write(_shown(info))

    def confirm(self, info: types.Implementation | None) -> None:
        """Forget the server if it is not the one that is remembered."""
        if _shown(info) != self._known:
            self.forget()

    def forget(self) -> None:
        """Forget the server, if it is remembered."""
        if self._known is not None:
            self._write(None)

    def _write(self, info: str | None) -> None:
        if self._server is None:
            return
        self._known = info
        now = time.time()
        servers = _read(now)
        servers.pop(_digest(self._server), None)
        if info is not None:
            servers[_digest(self._server)] = (now + _SECONDS, info)
        latest = sorted(servers.items(), key=lambda each: each[1][0])[-_MOST_SERVERS:]
        with suppress(*_FAILURES):
            _replace(_path(), encode({"handshakeOnly": dict(latest)}))


def _shown(info: types.Implementation | None) -> str:
    """Return the name and version of a server, as they are remembered."""
    return "" if info is None else f"{info.name} {info.version}"[:_MOST_CHARACTERS]


def _digest(server: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(server).encode(errors="surrogatepass")).hexdigest()


def _path() -> Path:
    """Return the path of the file; raises RuntimeError if the user has no home."""
    if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
        folder, default = Path(os.environ.get("LOCALAPPDATA", "")), Path("AppData", "Local")
    else:
        folder, default = Path(os.environ.get("XDG_CACHE_HOME", "")), Path(".cache")
    return (folder if folder.is_absolute() else Path.home() / default) / "trio-mcp" / "servers.json"


def _read(now: float) -> dict[str, tuple[float, str]]:
    """Return the servers that are remembered: when each expires, and its name and version."""
    content: Any = None
    with suppress(*_FAILURES):
        path = _path()
        if path.is_file():  # opening a pipe would block
            with path.open("rb") as file:
                content = decode(file.read(_MOST_BYTES))
    servers: Any = content.get("handshakeOnly") if is_object(content) else None
    if not is_object(servers):
        return {}
    return {digest: (each[0], each[1]) for digest, each in servers.items() if _is_valid(each, now)}


def _is_valid(entry: Any, now: float) -> bool:
    """Return True if an entry has the right shape, and expires at a time that this module can have set."""
    if not is_array(entry) or len(entry) != 2:
        return False
    until, info = entry
    return type(until) in {int, float} and now < until <= now + _SECONDS and type(info) is str


def _replace(path: Path, content: bytes) -> None:
    """Replace the file as a whole, so that nobody reads a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
