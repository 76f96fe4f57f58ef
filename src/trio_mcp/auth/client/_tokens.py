"""What an authorization server has granted, and how a client is known there.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec
import trio
from attrs import define, field, frozen

from ..._errors import AuthorizationFailed
from ...wire import encode
from .._challenges import Challenge
from .._dpop import PROOF_FIELD, DpopKey, DpopProver
from ._discovery import TokenIssuer

if TYPE_CHECKING:
    from ._grant import Grant

__all__ = [
    "ActiveToken",
    "AuthMethod",
    "FileTokenStorage",
    "Lease",
    "MemoryTokenStorage",
    "PrivateKey",
    "Registration",
    "TokenRecord",
    "TokenRequirement",
    "TokenType",
    "Tokens",
    "Way",
    "is_showable",
    "key_of",
    "read_record",
    "write_record",
]

AuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client authenticates at a token endpoint."""
TokenType: TypeAlias = Literal["Bearer", "DPoP"]


@frozen(kw_only=True)
class Tokens:
    """A token to be shown, and what came with it."""

    access_token: str = field(repr=False)
    token_type: TokenType
    expires_at: float | None
    """When it ends, as `time.time` counts; None where nobody said."""
    refresh_token: str | None = field(repr=False)
    scopes: tuple[str, ...] | None
    """What was granted; None where nobody said, so that it is what was asked for."""
    client: Registration | None = field(default=None, repr=False)
    """As whom they were obtained, where a program has registered it: the refresh token is good for no other."""


@frozen
class PrivateKey:
    """The private key by which a client authenticates (`private_key_jwt`).

    Args:
        pem: the key, as PEM (PKCS #8).
        algorithm: of the signature: ``"ES256"``, ``"RS256"`` and so on; no symmetric one.
        key_id: by which the authorization server knows the public half, if it has several.
    """

    pem: str = field(repr=False)
    algorithm: str = "ES256"
    key_id: str | None = None


@frozen
class Registration:
    """How a client is known to an authorization server.

    Args:
        client_id: its name there.
        secret: what proves that this is the client, where it has a secret.
        private_key: what proves it, in place of a secret.
        method: how it authenticates; None: as the server likes best, of what its secret or key allows.
        issuer: the one authorization server that knows it; None: whichever the MCP server names first.
        redirect_uri: where browsers are sent back to, as it was registered; None where it has said nothing of that.
        secret_expires_at: when the secret ends, as `time.time` counts; None: never.
    """

    client_id: str
    secret: str | None = field(default=None, kw_only=True, repr=False)
    private_key: PrivateKey | None = field(default=None, kw_only=True)
    method: AuthMethod | None = field(default=None, kw_only=True)
    issuer: str | None = field(default=None, kw_only=True)
    redirect_uri: str | None = field(default=None, kw_only=True)
    secret_expires_at: float | None = field(default=None, kw_only=True)


# What the storage holds about the tokens for one server: one text of JSON, for other processes and later ones.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-
# considerations#token-theft

_log = logging.getLogger("trio_mcp.auth")

_SHOWABLE = re.compile(r"[!-~]+")
_EARLY_SECONDS = 30.0
_EARLY_PART = 0.1


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

    def is_for(self, place: TokenIssuer) -> bool:
        """Tell whether the tokens are from the issuer at *place*, and for the server there."""
        return self.issuer == place.server.issuer and self.resource == place.identifier

    @property
    def known_scopes(self) -> tuple[str, ...]:
        """The scopes that a request for other tokens must not lose."""
        return self.tokens.scopes or () if self.requested is None else self.requested

    def has_ended(self, now: float) -> bool:
        """Tell whether the access token is of no use any more."""
        return self.tokens.expires_at is not None and self.tokens.expires_at <= now

    def ends_soon(self, now: float) -> bool:
        """Tell whether to replace the access token: 30 s before its end, or in the last tenth of a short life."""
        if self.tokens.expires_at is None:
            return False
        life = self.tokens.expires_at - self.obtained_at
        return self.tokens.expires_at - now < min(_EARLY_SECONDS, life * _EARLY_PART)


def key_of(grant: Grant, url: str) -> str:
    """Return where the storage holds the record of the tokens for the server at *url*, its canonical URI."""
    return encode(["tokens", url, grant.identity, grant.account, grant.dpop]).decode()


def is_showable(token: str) -> bool:
    """Tell whether a token can stand in a header field: visible ASCII alone, and not empty."""
    return _SHOWABLE.fullmatch(token) is not None


def read_record(text: str | None) -> TokenRecord | None:
    """Return what `write_record` has written; None for anything else, which is logged without its content."""
    if text is None:
        return None
    try:
        record = msgspec.json.decode(text, type=TokenRecord)
    except (ValueError, RecursionError):
        record = None
    if record is None or not is_showable(record.tokens.access_token) or not _is_bound_as_it_says(record):
        _log.warning("the token storage holds a value that is none of this version's; it is not used")
        return None
    return record


def _is_bound_as_it_says(record: TokenRecord) -> bool:
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


# The tokens that a client shows a server now, and what is asked of better ones.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage

Way: TypeAlias = Literal["loaded", "refreshed", "obtained"]

_REST_SECONDS = 60.0


@frozen(kw_only=True)
class TokenRequirement:
    """What is wrong with what was shown. Requests whose needs are equal are served by the same."""

    shown: str | None = field(repr=False)
    """The access token; None where none was shown."""
    was_refused: bool = False
    """Whether the server has said so, and it is not just about to end."""
    scopes: tuple[str, ...] | None = None
    """What better ones are to be asked for; None where the scopes were not what was wrong, empty where nobody has said
    which are lacking."""
    may_refresh: bool = True
    """Whether better ones can be had by the refresh token."""
    challenge: Challenge | None = field(default=None, eq=False)
    """What the server has said."""


@define(eq=False)
class ActiveToken:
    """Tokens that are being shown."""

    record: TokenRecord
    proofs: DpopProver | None
    way: Way
    """How they came here."""
    since: float
    """When, as `time.time` counts."""
    is_accepted: bool = field(default=False, init=False)
    """Whether the server has taken them for good, once at least."""

    @property
    def token(self) -> str:
        """What is shown."""
        return self.record.tokens.access_token

    def serves(self, need: TokenRequirement, now: float) -> bool:
        """Tell whether they are better than what was shown."""
        is_other = self.token != need.shown and not self.record.has_ended(now)
        return is_other and set(self.record.known_scopes).issuperset(need.scopes or ())

    def is_hopeless(self, now: float) -> bool:
        """Tell whether the server refuses what was obtained for it a moment ago, so that another would not help."""
        return self.way == "obtained" and not self.is_accepted and now - self.since < _REST_SECONDS

    def fields(self, method: str, url: str, now: float) -> dict[str, str]:
        """Return the header fields that show them with one request."""
        shown = {"authorization": f"{self.record.tokens.token_type} {self.token}"}
        if self.proofs is not None:
            shown[PROOF_FIELD] = self.proofs.proof(method, url, now=now, token=self.token)
        return shown


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
