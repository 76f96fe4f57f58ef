"""What an authorization server has granted, and how a client is known there.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import trio
from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from .._dpop import DpopKey
from ._discovery import TokenIssuer
from ._flow import Flow, Load, Pause, Swap, now
from ._token_endpoint import Tokens, is_showable

__all__ = [
    "FileTokenStorage",
    "Lease",
    "LeasedRecord",
    "MemoryTokenStorage",
    "TokenRecord",
    "load_record",
    "read_record",
    "refresh_leased",
    "release_lease",
    "store_record",
    "take_lease",
    "write_record",
]


# What the storage holds about the tokens for one server: one text of JSON, for other processes and later ones.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-
# considerations#token-theft

_log = logging.getLogger("trio_mcp.auth")
_EARLY_SECONDS = 30.0
_EARLY_FRACTION = 0.1


@frozen
class Lease:
    """Who is replacing the tokens, and until when nobody else may try."""

    holder: str
    """A text that nobody else has drawn."""
    until: float
    """As `time.time` counts."""


@frozen(kw_only=True)
class TokenRecord:
    """The tokens for one server, and what has to be known to replace them."""

    version: Literal[1] = 1
    """Of this shape; what has another one is none of ours."""
    issuer: str
    """Who has issued the tokens; nobody else ever sees them, but for the server."""
    resource: str | None
    """The server, as the requests for the tokens have named it."""
    tokens: Tokens
    obtained_at: float
    """As `time.time` counts."""
    requested: tuple[str, ...] | None
    """The scopes that were asked for; None where none was named."""
    dpop_key: str | None = field(repr=False)
    """The private key that the tokens are bound to, as a JSON Web Key."""
    lease: Lease | None = None

    def is_for(self, token_issuer: TokenIssuer) -> bool:
        """Tell whether the tokens are from the issuer at *place*, and for the server there."""
        return self.issuer == token_issuer.server.issuer and self.resource == token_issuer.identifier

    @property
    def scopes_to_keep(self) -> tuple[str, ...]:
        """The scopes that a request for other tokens must not lose."""
        return self.tokens.scopes or () if self.requested is None else self.requested

    def has_expired(self, now: float) -> bool:
        """Tell whether the access token is of no use any more."""
        return self.tokens.expires_at is not None and self.tokens.expires_at <= now

    def expires_soon(self, now: float) -> bool:
        """Tell whether to replace the access token: 30 s before its end, or in the last tenth of a short life."""
        if self.tokens.expires_at is None:
            return False
        lifetime = self.tokens.expires_at - self.obtained_at
        return self.tokens.expires_at - now < min(_EARLY_SECONDS, lifetime * _EARLY_FRACTION)


def read_record(text: str | None) -> TokenRecord | None:
    """Return what `write_record` has written; None for anything else, which is logged without its content."""
    if text is None:
        return None
    try:
        record = msgspec.json.decode(text, type=TokenRecord)
    except (ValueError, RecursionError):
        record = None
    if record is None or not is_showable(record.tokens.access_token) or not _has_matching_key(record):
        _log.warning("the token storage holds a value that is none of this version's; it is not used")
        return None
    return record


def _has_matching_key(record: TokenRecord) -> bool:
    if record.dpop_key is None:
        return record.tokens.token_type == "Bearer"  # noqa: S105 # a type
    try:
        DpopKey.from_jwk(record.dpop_key)
    except ValueError:
        return False
    return record.tokens.token_type == "DPoP"  # noqa: S105 # a type


def write_record(record: TokenRecord) -> str:
    """Return a record as the storage holds it; it is full of secrets."""
    return msgspec.json.encode(record).decode()


_LEASE_SECONDS = 40.0
_FIRST_PAUSE = 0.05  # seconds
_MAX_PAUSE = 1.0
_MAX_SWAPS = 20  # that others may come between
_TEMPORARY = {"temporarily_unavailable", "server_error", "slow_down", "use_dpop_nonce", "invalid_dpop_proof"}


@frozen
class LeasedRecord:
    """A record that is ours to replace."""

    key: str
    record: TokenRecord
    text: str = field(repr=False)
    """What stands in the storage."""


def load_record(key: str) -> Flow[TokenRecord | None]:
    """Return the record that the storage holds."""
    text: str | None = yield Load(key)
    return read_record(text)


def take_lease(key: str, old_token: str, token_issuer: TokenIssuer) -> Flow[LeasedRecord | TokenRecord | None]:
    """Wait until nobody else replaces the tokens from *place*, and lease them.

    Args:
        key: of the record.
        useless: the access token that is to be replaced.
        place: where it is replaced.

    Returns:
        What to replace; or the record as it is, where somebody else has replaced it or nobody can; or None, where
        there is none.
    """
    pause = _FIRST_PAUSE
    while True:
        text: str | None = yield Load(key)
        record = read_record(text)
        if record is None or not record.is_for(token_issuer):
            return None
        if record.tokens.access_token != old_token or record.tokens.refresh_token is None:
            return record
        time = yield from now()
        if record.lease is not None and time < record.lease.until <= time + _LEASE_SECONDS:
            yield Pause(pause)
            pause = min(pause * 2, _MAX_PAUSE)
            continue
        leased = evolve(record, lease=Lease(secrets.token_urlsafe(12), time + _LEASE_SECONDS))
        leased_text = write_record(leased)
        if (yield Swap(key, text, leased_text)):
            return LeasedRecord(key, leased, leased_text)


def release_lease(leased: LeasedRecord) -> Flow[None]:
    """Let others try, with the same refresh token; nothing happens where the record is ours no more."""
    yield Swap(leased.key, leased.text, write_record(evolve(leased.record, lease=None)))


def refresh_leased(leased: LeasedRecord, refresh: Flow[Tokens]) -> Flow[TokenRecord]:
    """Replace the tokens; the lease ends with it. Where this fails, it is to be released.

    Args:
        leased: the record.
        refresh: presents its refresh token.

    Returns:
        The new record, or the one there was without its refresh token: that is of no use any more.

    Raises:
        AuthorizationFailed: it cannot be told now.
    """
    old = leased.record
    try:
        tokens = yield from refresh
    except AuthorizationFailed as failure:
        if failure.error is None or failure.error in _TEMPORARY:
            raise
        _log.info("the authorization server %s refreshes no more: %s", old.issuer, failure)
        spent = evolve(old, lease=None, tokens=evolve(old.tokens, refresh_token=None))
        yield Swap(leased.key, leased.text, write_record(spent))
        return spent
    tokens = evolve(
        tokens,
        refresh_token=tokens.refresh_token or old.tokens.refresh_token,
        scopes=old.tokens.scopes if tokens.scopes is None else tokens.scopes,
        client=old.tokens.client,
    )
    new = evolve(old, tokens=tokens, obtained_at=(yield from now()), lease=None)
    try:
        yield from _store_refreshed(leased, new)
    except Exception as error:  # noqa: BLE001 # storages raise anything; the old tokens are gone, whatever it was
        _log.warning("a token was refreshed and is used, but could not be stored: %s", type(error).__name__)
    return new


def _store_refreshed(leased: LeasedRecord, new: TokenRecord) -> Flow[None]:
    """Store what has become of a leased record, unless the lease has run out and somebody else has replaced it."""
    replaced, new_text = leased.record.tokens.access_token, write_record(new)
    text: str | None = leased.text
    for _ in range(_MAX_SWAPS):
        if (yield Swap(leased.key, text, new_text)):
            return
        text = yield Load(leased.key)
        stored = read_record(text)
        if stored is None or stored.tokens.access_token != replaced:
            return


def store_record(key: str, record: TokenRecord) -> Flow[None]:
    """Store a record in place of whatever is there."""
    new_text = write_record(record)
    for _ in range(_MAX_SWAPS):
        text: str | None = yield Load(key)
        if (yield Swap(key, text, new_text)):
            return
    raise AuthorizationFailed("the token storage does not take the new token: it changes all the time")


# A token storage that outlives the process: one file, for its owner's eyes alone, that processes may share.
#
# Rules of this file:
#
# 1. Changes are made under a lock that all processes take (a file beside it), held for as long as reading, comparing
# and
#    writing takes. The file is replaced as a whole, so that whoever reads needs no lock, and sees one state of it.
# 2. What others may read, or own, or have put a link to, is not used: it is no place for secrets.
# 3. All of it happens in a thread, and what has begun is finished.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-
# considerations#token-theft

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


# A token storage that ends with the process.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-
# considerations#token-theft


@define(eq=False)
class MemoryTokenStorage:
    """Keeps tokens for as long as it lives; an `abc.TokenStorage`."""

    _values: dict[str, str] = field(factory=dict[str, str], init=False, repr=False)

    async def load(self, key: str) -> str | None:
        """Return the value of a key, None where there is none."""
        await trio.lowlevel.checkpoint()
        return self._values.get(key)

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Set the value of a key to *new*, if it is *old* now; return whether it was."""
        await trio.lowlevel.checkpoint()
        if self._values.get(key) != old:
            return False
        if new is None:
            self._values.pop(key, None)
        else:
            self._values[key] = new
        return True
