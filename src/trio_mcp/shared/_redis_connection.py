"""A connection to Redis: the address, a coredis client that is replaced when it fails, and the failures as exceptions.

Rules of this file:

1. coredis is imported when a client is made, and nowhere else at run time: it is an optional dependency.
2. coredis repeats nothing by itself: it cannot know whether a lost command was executed.
3. A client has one connection (one for each node of a cluster), on which the commands of all tasks follow one another.
   When it fails in any way, or does not answer in time, it is closed, and the next command makes another one.
4. A command is not cancelled once it may have been sent: whether Redis executes it would be unknown. It ends within
   `LONGEST_CALL` in any case.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast
from urllib.parse import parse_qs, unquote, urlsplit

import trio
from attrs import define, field, frozen

from .. import SharedUnavailable

if TYPE_CHECKING:
    from coredis import Redis, RedisCluster
    from coredis.typing import ResponseType

__all__ = [
    "LONGEST_CALL",
    "Commands",
    "Members",
    "RedisAddress",
    "RedisClient",
    "RedisLogin",
    "check_coredis",
    "open_commands",
]

T = TypeVar("T")

LONGEST_CALL = 0.9
"""The time that a command may take, in seconds, with the time to connect."""
_LONGEST_CONNECT = 0.4
"""The time to connect to one server, in seconds, so that another one can be tried."""
_TLS, _PLAIN, _UNIX = "rediss", "redis", "unix"
_PORT, _LOCAL = 6379, "127.0.0.1"

_log = logging.getLogger(__name__)

Members: TypeAlias = "Mapping[bytes, bytes]"
"""The members of an entry of a stream."""
_Script: TypeAlias = "Callable[[Sequence[str], Sequence[bytes | str | int]], Awaitable[ResponseType]]"
_Client: TypeAlias = "Redis[bytes] | RedisCluster[bytes]"


def check_coredis() -> None:
    """Check that coredis is installed.

    Raises:
        ImportError: it is not.
    """
    try:
        import_module("coredis")
    except ImportError as error:
        raise ImportError("RedisShared needs coredis: pip install 'trio-mcp[redis]'") from error


@frozen
class RedisAddress:
    """A URL of Redis in parts."""

    hosts: tuple[tuple[str, int], ...]
    """The hosts and ports; empty for a socket in the file system."""
    path: str | None
    """The path of the socket; None for hosts."""
    username: str | None
    password: str | None = field(repr=False)
    database: int
    is_tls: bool

    @classmethod
    def parse(cls, url: str) -> RedisAddress:
        """Return the address of a URL: ``redis://user:password@host:port,host:port/database`` or ``unix:///path``.

        Raises:
            ValueError: it is no such URL. The message does not repeat it, because it may have a password.
        """
        scheme, _, rest = url.partition("://")
        if scheme not in {_TLS, _PLAIN, _UNIX}:
            raise ValueError("the URL of Redis begins with redis://, rediss:// or unix://")
        authority, slash, path = rest.partition("/")
        userinfo, _, places = authority.rpartition("@")
        username, _, password = userinfo.partition(":")
        split = urlsplit(f"//{slash}{path}") if scheme == _UNIX else urlsplit(slash + path)
        database = parse_qs(split.query).get("db", ["0"])[0] if scheme == _UNIX else split.path.strip("/") or "0"
        try:
            hosts = tuple(_place(each) for each in places.split(",")) if scheme != _UNIX else ()
            number = int(database)
        except ValueError:
            raise ValueError("the URL of Redis has an invalid port, or a database that is not a number") from None
        socket = unquote(split.path) if scheme == _UNIX else None
        return cls(hosts, socket, unquote(username) or None, unquote(password) or None, number, is_tls=scheme == _TLS)

    @property
    def name(self) -> str:
        """The name of the server for messages, without user and password."""
        return self.path or ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts
        )


def _place(text: str) -> tuple[str, int]:
    """Return the host and the port of ``host:port``, ``[host]:port`` or ``host``."""
    split = urlsplit(f"//{text}")
    return split.hostname or "localhost", split.port or _PORT


def _reason_of(error: BaseException) -> str:
    """Return the message of the exception that was raised first."""
    while True:
        cause: BaseException | None = getattr(error, "exceptions", (error.__cause__,))[0]  # of a group, if it is one
        if cause is None:
            return str(error) or type(error).__name__
        error = cause


async def _address_towards(host: str, port: int) -> str:
    """Return the address of this machine from which a host is reached. Nothing is sent."""
    family, kind, *_, place = (await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_DGRAM))[0]
    with trio.socket.socket(family, kind) as socket:
        await socket.connect(place)
        address: str = socket.getsockname()[0]
        return address.partition("%")[0]


@frozen
class RedisLogin:
    """All that is needed to connect to Redis."""

    address: RedisAddress
    sentinel: str | None
    """The name of the master if the hosts are sentinels."""
    sentinel_password: str | None = field(repr=False)
    cluster: bool
    """True if the hosts are nodes of a cluster."""
    ca_file: str | None
    cert_file: str | None
    key_file: str | None

    def failure(self, cause: BaseException | str) -> SharedUnavailable:
        """Return the exception for something that went wrong."""
        if isinstance(cause, BaseException):
            cause = _reason_of(cause)
        of_master = f" (master {self.sentinel!r})" if self.sentinel else ""
        return SharedUnavailable(f"Redis at {self.address.name}{of_master} cannot be used: {cause}")

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[_Client]:
        """Open a client, in one task. It connects when it is used."""
        import coredis  # noqa: PLC0415 # rule 1
        from coredis.connection import TCPLocation  # noqa: PLC0415 # rule 1
        from coredis.retry import NoRetryPolicy  # noqa: PLC0415 # rule 1

        tls, where = self._tls(), self.address
        locations = [TCPLocation(host, port) for host, port in where.hosts]
        if self.cluster:
            nodes = coredis.RedisCluster(
                startup_nodes=locations,
                username=where.username,
                password=where.password,
                connect_timeout=_LONGEST_CONNECT,
                ssl_context=tls,
                max_connections=1,
                max_connections_per_node=True,
                skip_full_coverage_check=True,
                verify_version=False,
                retry_policy=NoRetryPolicy(),  # rule 2
            )
            async with nodes:
                yield cast("RedisCluster[bytes]", nodes)  # its overloads know no locations for bytes
        elif self.sentinel is not None:
            async with (
                coredis.Sentinel(
                    locations,
                    sentinel_kwargs={
                        "password": self.sentinel_password,
                        "connect_timeout": _LONGEST_CONNECT,
                        "stream_timeout": _LONGEST_CONNECT,
                        "ssl_context": tls,
                    },
                    username=where.username,
                    password=where.password,
                    db=where.database,
                    connect_timeout=_LONGEST_CONNECT,
                    ssl_context=tls,
                    max_connections=1,
                ) as sentinels,
                sentinels.primary_for(self.sentinel) as client,
            ):
                client.verify_version = False
                yield client
        else:
            host, port = where.hosts[0] if where.hosts else (None, None)
            async with coredis.Redis(
                host,
                port,
                where.database,
                username=where.username,
                password=where.password,
                connect_timeout=_LONGEST_CONNECT,
                unix_socket_path=where.path,
                ssl_context=tls,
                max_connections=1,
                verify_version=False,
                retry_policy=NoRetryPolicy(),  # rule 2
            ) as client:
                yield client

    def _tls(self) -> ssl.SSLContext | None:
        if not self.address.is_tls:
            return None
        context = ssl.create_default_context()
        try:
            if self.ca_file is not None:
                context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except OSError as error:
            files = ", ".join(repr(file) for file in (self.ca_file, self.cert_file, self.key_file) if file is not None)
            raise ValueError(f"the certificates of {files} cannot be used: {error}") from None
        return context

    async def local_host(self) -> str:
        """Return the address of this machine in the network of Redis; ``127.0.0.1`` if that is this machine.

        Raises:
            OSError: there is no way to any of the hosts.
        """
        failure: OSError | None = None
        for host, port in self.address.hosts:
            try:
                found = ipaddress.ip_address(await _address_towards(host, port))
            except OSError as error:
                failure = error
            else:
                return _LOCAL if found.is_loopback else str(found)
        if failure is not None:
            raise failure
        return _LOCAL  # for a socket in the file system


@define(eq=False)
class Commands:
    """The commands of one client."""

    _client: _Client
    _scripts: Mapping[str, _Script]

    async def run(self, script: str, key: str, *arguments: bytes | str | int) -> ResponseType:
        """Run one of the scripts on a key."""
        return await self._scripts[script]([key], arguments)

    async def get(self, key: str) -> bytes | None:
        """Return a string."""
        return await self._client.get(key)

    async def entries_after(self, key: str, id: str, *, most: int, seconds: float) -> list[tuple[bytes, Members]]:
        """Wait for entries of a stream after an id, and return their ids and members; none after *seconds*."""
        found = await self._client.xread({key: id}, count=most, block=round(seconds * 1000))
        entries = () if found is None else next(iter(found.values()))
        return [(cast("bytes", entry.identifier), cast("Members", entry.field_values)) for entry in entries]


@asynccontextmanager
async def open_commands(login: RedisLogin, scripts: Mapping[str, str], key: str) -> AsyncGenerator[Commands]:
    """Open a client, in one task, and connect it: run the first of the scripts on a key, which need not exist."""
    async with login.client() as client:
        registered = {name: cast("_Script", client.register_script(text)) for name, text in scripts.items()}
        commands = Commands(client, registered)
        await commands.run(next(iter(scripts)), key)
        yield commands


@define(eq=False)
class RedisClient:
    """A client that connects again after each failure (rule 3).

    Args:
        login: all that is needed to connect.
        scripts: the scripts for `Commands.run`.
        key: the key for `open_commands`.
        nursery: runs the clients, until `close` is called.
    """

    _login: RedisLogin
    _scripts: Mapping[str, str]
    _key: str
    _nursery: trio.Nursery
    _is_closed: bool = field(default=False, init=False)
    _current: _OpenClient | None = field(default=None, init=False)
    _connecting: trio.Lock = field(factory=trio.Lock, init=False)
    _failed: tuple[float, Exception] | None = field(default=None, init=False)
    """The latest failed attempt to connect: the time at which it began, and the cause."""

    async def call(self, work: Callable[[Commands], Awaitable[T]]) -> T:
        """Execute commands; a cancelled call has either not begun, or ends as if it had not been cancelled (rule 4).

        Raises:
            SharedUnavailable: they failed, or took longer than `LONGEST_CALL`; whether they were executed is unknown.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise self._login.failure("the block of its state was left")
        begun, client = trio.current_time(), self._current
        scope = trio.CancelScope(shield=True, deadline=begun + LONGEST_CALL)
        try:
            with scope:
                client = client or await self._connect(begun)
                return await client.call(work, scope)
        except Exception as error:
            if not scope.cancel_called:  # coredis makes an error of the cancellation of an attempt to connect
                if client is not None and not _is_refusal(error):
                    self._discard(client, error)
                raise self._login.failure(error) from error
        if client is not None and client.failure is not None:
            raise self._login.failure(client.failure) from client.failure
        late = TimeoutError(f"it does not answer within {LONGEST_CALL:g} seconds")
        if client is not None and client.answered_at < begun:  # otherwise it has only too much to do
            self._discard(client, late)
        raise self._login.failure(late)

    async def _connect(self, begun: float) -> _OpenClient:
        """Open a client, if no other call has; a call that began before a failed attempt fails with it."""
        async with self._connecting:
            if self._current is not None:
                return self._current
            if self._failed is not None and self._failed[0] >= begun:
                raise self._failed[1]
            attempt = trio.current_time()
            try:
                client: _OpenClient = await self._nursery.start(_OpenClient.run, self._login, self._scripts, self._key)
            except Exception as error:
                self._failed = attempt, error
                raise
            self._current = client
            return client

    def close(self) -> None:
        """Close the client for ever."""
        self._is_closed = True
        if self._current is not None:
            self._discard(self._current, RuntimeError("the block of its state was left"))

    def _discard(self, client: _OpenClient, failure: Exception) -> None:
        client.fail(failure)  # so no other call comes here with it
        self._current = None


def _is_refusal(error: Exception) -> bool:
    """Return True if Redis has answered a command with an error, so that the connection can be used further."""
    from coredis.exceptions import ReadOnlyError, ResponseError  # noqa: PLC0415 # rule 1

    return isinstance(error, ResponseError) and not isinstance(error, ReadOnlyError)  # a master has become a replica


@define(eq=False)
class _OpenClient:
    """A client in its own task, in which it must be closed."""

    commands: Commands
    answered_at: float = field(default=-math.inf, init=False)
    """The time of the latest answer to a call."""
    failure: Exception | None = field(default=None, init=False)
    """The reason why it is closed."""
    _calls: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    _failed: trio.Event = field(factory=trio.Event, init=False)

    async def call(self, work: Callable[[Commands], Awaitable[T]], scope: trio.CancelScope) -> T:
        """Execute commands in a scope, which is cancelled if the client fails for another call.

        coredis does not do so: calls that wait for a connection of a broken client wait for ever.
        """
        self._calls.add(scope)
        try:
            result = await work(self.commands)
        finally:
            self._calls.remove(scope)
        self.answered_at = trio.current_time()
        return result

    def fail(self, failure: Exception) -> None:
        """Close the client, and end all calls."""
        self.failure = self.failure or failure
        self._failed.set()
        for scope in self._calls:
            scope.cancel()

    @classmethod
    async def run(
        cls, login: RedisLogin, scripts: Mapping[str, str], key: str, task_status: trio.TaskStatus[_OpenClient]
    ) -> None:
        """Open a client, pass it on, and wait until it shall be closed."""
        opened: _OpenClient | None = None
        with trio.CancelScope() as scope:
            try:
                async with open_commands(login, scripts, key) as commands:
                    opened = cls(commands)
                    scope.shield = (
                        True  # calls that have begun end, also if the block of the state is cancelled (rule 4)
                    )
                    task_status.started(opened)
                    await opened._failed.wait()
            except Exception as error:
                if opened is None:
                    raise
                _log.debug("closing failed", exc_info=error)  # pragma: no cover # coredis closes without failures
