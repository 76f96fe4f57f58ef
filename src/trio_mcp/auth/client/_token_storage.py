"""Token storage: in a file that several processes share, or in memory.

Rules of the file storage:

1. Changes are made under a lock file that all processes use; it is held while the file is read, compared and written.
   The file is replaced as a whole, so that readers need no lock and see a consistent state.
2. A file that others may read, that another user owns, or that is a link, is not used: secrets are not safe there.
3. The file is read and written in worker threads that only token storages use: they neither wait for the threads of
   the application, nor take them. What has begun in a thread is finished.
4. No thread waits for the lock: it is tried again and again, by one task of the process at a time, and a cancellation
   takes effect at once.
5. A change that fails, for example because the disk is full, leaves nothing but the old file.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#token-theft
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
import trio
from attrs import define, field, frozen

from ..._errors import AuthorizationFailed

__all__ = ["FileTokenStorage", "MemoryTokenStorage"]


T = TypeVar("T")

_LOCK_SECONDS = 10.0
_LOOK_SECONDS = 0.01
"""The pause between attempts to take the lock."""
_MOST_THREADS = 4
"""The number of threads of all token storages together."""


@frozen(eq=False)
class _Waits:
    """The waits of all token storages of one run of Trio."""

    threads: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_MOST_THREADS))
    turns: WeakValueDictionary[Path, trio.Lock] = field(factory=WeakValueDictionary[Path, trio.Lock])
    """By file, the lock for the one task that tries to take the file's lock."""


_waits: trio.lowlevel.RunVar[_Waits] = trio.lowlevel.RunVar("_waits")


def _waits_of_run() -> _Waits:
    try:
        return _waits.get()
    except LookupError:
        waits = _Waits()
        _waits.set(waits)
        return waits


def _default_path() -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    folder = data if data.is_absolute() else Path.home() / ".local" / "share"
    return folder / "trio-mcp" / "tokens.json"


if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX

    def _check_platform() -> None:
        raise NotImplementedError("FileTokenStorage needs POSIX; on Windows, pass a custom storage")

    def _try_lock(descriptor: int) -> bool:
        raise NotImplementedError

else:
    import fcntl

    def _check_platform() -> None:
        """Do nothing: everything that is needed is available."""

    def _try_lock(descriptor: int) -> bool:
        """Lock an open file if it is not locked; return True if this succeeded."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@define(eq=False)
class FileTokenStorage:
    """A storage of tokens in a file; an `abc.TokenStorage` for any number of clients and processes of one user.

    The file and missing folders are created at the first write, with access only for the owner (0600 and 0700). The
    content is not encrypted.

    Args:
        path: the path of the file; by default ``trio-mcp/tokens.json`` in the folder for the user's data
            (`XDG_DATA_HOME`, or ``~/.local/share``).

    Raises:
        NotImplementedError: on Windows, which lacks the locks and permissions that it needs.

    The call that needs a token raises `AuthorizationFailed`, which names the file, if the file is readable for others,
    belongs to another user, has another format, is a link, or causes an error of the system.
    """

    path: Path = field(factory=_default_path, converter=Path)

    def __attrs_post_init__(self) -> None:
        _check_platform()

    async def load(self, key: str) -> str | None:
        """Return the value of a key; None if there is none."""
        return (await self._in_thread(self._read)).get(key)

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Set the value of a key to *new* if it is *old* now; return True if it was.

        Cancellation: a change that has begun is finished first, which takes a moment; waiting for the lock ends at
        once.

        Raises:
            AuthorizationFailed: the file cannot be used, or another process keeps it locked.
        """
        with trio.move_on_after(_LOCK_SECONDS):
            async with _waits_of_run().turns.setdefault(self.path, trio.Lock()):
                while True:
                    was_old = await self._in_thread(partial(self._try_swap, key, old, new))
                    if was_old is not None:
                        return was_old
                    await trio.sleep(_LOOK_SECONDS)
        raise AuthorizationFailed(f"the token storage {self.path} is locked by another process ({self._lock_path})")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(partial(self._named, work), limiter=_waits_of_run().threads)

    def _named(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as exc:
            why = "it is a link" if exc.errno == errno.ELOOP else exc.strerror
            raise AuthorizationFailed(f"the token storage {self.path} cannot be used: {why}") from exc

    def _try_swap(self, key: str, old: str | None, new: str | None) -> bool | None:
        """Do what `swap` does; return None, and do nothing, if the file is locked."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked() as is_locked:
            if not is_locked:
                return None
            values = self._read()
            if values.get(key) != old:
                return False
            if new is None:
                values.pop(key, None)
            else:
                values[key] = new
            self._write(values)
        return True

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    @contextmanager
    def _locked(self) -> Generator[bool]:
        """Lock the file against changes by others, or yield False if it is locked by another.

        The lock ends with the descriptor, also when the process dies.
        """
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            yield _try_lock(descriptor)
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
            raise AuthorizationFailed(f"{self.path} is not a token storage; move it away") from None

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise AuthorizationFailed(f"the token storage {self.path} is not a regular file")
        if status.st_uid != os.geteuid():
            raise AuthorizationFailed(f"the token storage {self.path} belongs to another user")
        if status.st_mode & 0o077:
            raise AuthorizationFailed(f"the token storage {self.path} is accessible for other users; chmod 600 it")

    def _write(self, values: dict[str, str]) -> None:
        """Replace the file in one step that a crash cannot leave half done, and a failure leaves undone (rule 5)."""
        new = self.path.with_name(f"{self.path.name}.new")
        with suppress(FileNotFoundError):
            new.unlink()  # a process that has died left it
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(values))
                file.flush()
                os.fsync(descriptor)
            new.replace(self.path)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@define(eq=False)
class MemoryTokenStorage:
    """A storage of tokens in memory, for as long as this object lives; an `abc.TokenStorage`."""

    _values: dict[str, str] = field(factory=dict[str, str], init=False, repr=False)

    async def load(self, key: str) -> str | None:
        """Return the value of a key; None if there is none."""
        await trio.lowlevel.checkpoint()
        return self._values.get(key)

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Set the value of a key to *new* if it is *old* now; return True if it was."""
        await trio.lowlevel.checkpoint()
        if self._values.get(key) != old:
            return False
        if new is None:
            self._values.pop(key, None)
        else:
            self._values[key] = new
        return True
