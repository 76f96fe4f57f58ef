"""A token storage that outlives the process: one file, for its owner's eyes alone, that processes may share.

Rules of this file:

1. Changes are made under a lock that all processes take (a file beside it), held for as long as reading, comparing and
   writing takes. The file is replaced as a whole, so that whoever reads needs no lock, and sees one state of it.
2. What others may read, or own, or have put a link to, is not used: it is no place for secrets.
3. All of it happens in a thread, and what has begun is finished.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#token-theft
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import trio
from attrs import define, field

from .._errors import AuthorizationFailed

__all__ = ["FileTokenStorage"]

T = TypeVar("T")

_LOCK_SECONDS = 10.0
_LOOK_SECONDS = 0.01
"""Between looks at a lock that is held."""


def _default_path() -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    folder = data if data.is_absolute() else Path.home() / ".local" / "share"
    return folder / "trio-mcp" / "tokens.json"


if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX

    def _check_platform() -> None:
        raise NotImplementedError("FileTokenStorage needs POSIX; on Windows pass a storage of your own")

    def _try_lock(descriptor: int) -> bool:
        raise NotImplementedError

else:
    import fcntl

    def _check_platform() -> None:
        """All is there."""

    def _try_lock(descriptor: int) -> bool:
        """Lock a file that is open, if nobody else holds the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@define(eq=False)
class FileTokenStorage:
    """Keeps tokens in a file; an `abc.TokenStorage` for any number of clients and processes of one user.

    The file and the folders that are missing are made when something is first kept, the file for its owner's eyes only
    (0600), and the folder likewise (0700). What is in it is not encrypted.

    Args:
        path: where the file is, or will be; by default ``trio-mcp/tokens.json`` in the folder for the user's data
            (`XDG_DATA_HOME`, or ``~/.local/share``).

    Raises:
        NotImplementedError: this is Windows, where the locks and permissions that it needs are missing.

    A file that others may read, that belongs to somebody else or is none of this class's, a link in its place, and
    whatever the system says against it, is an `AuthorizationFailed` at the call that needed a token: it names the file.
    """

    path: Path = field(factory=_default_path, converter=Path)

    def __attrs_post_init__(self) -> None:
        _check_platform()

    async def load(self, key: str) -> str | None:
        """Return the value of a key, None where there is none."""
        return (await self._in_thread(self._read)).get(key)

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Set the value of a key to *new*, if it is *old* now; return whether it was.

        Cancellation: what has begun is finished first; it takes a moment.
        """
        return await self._in_thread(partial(self._swap, key, old, new))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(partial(self._named, work))

    def _named(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as exc:
            why = "it is a link" if exc.errno == errno.ELOOP else exc.strerror
            raise AuthorizationFailed(f"the token storage {self.path} cannot be used: {why}") from exc

    def _swap(self, key: str, old: str | None, new: str | None) -> bool:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            values = self._read()
            if values.get(key) != old:
                return False
            if new is None:
                values.pop(key, None)
            else:
                values[key] = new
            self._write(values)
        return True

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Keep all others from changing the file; the lock goes with the descriptor, also when the process dies."""
        name = self.path.with_name(f"{self.path.name}.lock")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            ends_at = time.monotonic() + _LOCK_SECONDS
            while not _try_lock(descriptor):
                if time.monotonic() >= ends_at:
                    raise AuthorizationFailed(f"the token storage {self.path} is locked by another process ({name})")
                time.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, str]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        with os.fdopen(descriptor, "rb") as file:
            self._check(os.fstat(descriptor))
            data = file.read()
        try:
            return msgspec.json.decode(data, type=dict[str, str])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise AuthorizationFailed(f"{self.path} holds no tokens, but something else: move it away") from None

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise AuthorizationFailed(f"the token storage {self.path} is no regular file")
        if status.st_uid != os.geteuid():
            raise AuthorizationFailed(f"the token storage {self.path} belongs to another user")
        if status.st_mode & 0o077:
            raise AuthorizationFailed(f"others may open the token storage {self.path}: chmod 600 it")

    def _write(self, values: dict[str, str]) -> None:
        """Put a new file in the place of the old one, in one step that a crash leaves whole."""
        new = self.path.with_name(f"{self.path.name}.new")
        with suppress(FileNotFoundError):
            new.unlink()  # left by a process that has died
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(values))
            file.flush()
            os.fsync(descriptor)
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
