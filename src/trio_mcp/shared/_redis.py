"""A backend on Redis, for the processes of one service on any number of machines.

Rules of this file:

1. Each structure is one key, so that a script on it is atomic also in a cluster (`_redis_follow`).
2. Nothing here imports coredis before a state is opened (`_redis_connection`).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

import trio
from attrs import define, field, frozen

from ..abc import SharedState, StreamPart
from ..lowlevel import owned_nursery
from ._parts import (
    MOST_BYTES,
    MOST_ENTRIES,
    check_append,
    check_names,
    check_seconds,
    part_after,
    whole_milliseconds,
)
from ._redis_connection import RedisAddress, RedisClient, RedisLogin, check_coredis
from ._redis_follow import SCRIPTS, RedisFollower, end_of

__all__ = ["RedisShared"]


@define(eq=False)
class RedisShared:
    """Keeps shared state on Redis 7 or newer, or on Valkey, for processes on any number of machines.

    Needs coredis (``pip install 'trio-mcp[redis]'``). Each open state has one connection, and one more for each stream
    that is followed. What is kept if Redis itself ends depends on how Redis is set up; a follower learns what was lost.

    Args:
        url: ``redis://user:password@host:port/database``, or ``rediss://`` for TLS, or ``unix:///path?db=0``; all parts
            but the host may be left out, and special characters are percent-encoded. Several hosts are separated by
            commas if they are sentinels or nodes of a cluster.
        prefix: the beginning of all keys, so that several services can use one database.
        sentinel: the name of the master, if the hosts are sentinels.
        sentinel_password: the password of the sentinels themselves, if they have one.
        cluster: True if the hosts are nodes of a Redis cluster.
        ca_file: the certificates of the authorities that are trusted; those of the system if not given.
        cert_file: the certificate of this client.
        key_file: the private key of `cert_file`, if it is another file.

    Raises:
        ValueError: the URL is invalid, or arguments exclude one another.
    """

    url: str = field(repr=lambda url: repr(RedisAddress.parse(url).name))
    prefix: str = field(default="trio-mcp", kw_only=True)
    sentinel: str | None = field(default=None, kw_only=True)
    sentinel_password: str | None = field(default=None, kw_only=True, repr=False)
    cluster: bool = field(default=False, kw_only=True)
    ca_file: str | None = field(default=None, kw_only=True)
    cert_file: str | None = field(default=None, kw_only=True)
    key_file: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        address = RedisAddress.parse(self.url)
        if not address.is_tls and (self.ca_file or self.cert_file or self.key_file):
            raise ValueError("RedisShared: certificates are for TLS, but the URL does not begin with rediss://")
        if self.cluster and self.sentinel is not None:
            raise ValueError("RedisShared: sentinels do not watch a cluster; give either sentinel or cluster")
        if self.cluster and address.database:
            raise ValueError("RedisShared: a cluster has only database 0")
        if (self.cluster or self.sentinel is not None) and address.path:
            raise ValueError("RedisShared: sentinels and clusters have hosts, and not a socket in the file system")
        if len(address.hosts) > 1 and not self.cluster and self.sentinel is None:
            raise ValueError("RedisShared: several hosts need sentinel or cluster")

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedState]:
        """Connect to Redis.

        Raises:
            SharedUnavailable: Redis cannot be reached, or refuses this program.
            ImportError: coredis is not installed.
        """
        check_coredis()
        login = RedisLogin(
            RedisAddress.parse(self.url),
            self.sentinel,
            self.sentinel_password,
            self.cluster,
            self.ca_file,
            self.cert_file,
            self.key_file,
        )
        async with owned_nursery() as nursery:
            key = f"{self.prefix}:s:"
            client = RedisClient(login, SCRIPTS, key, nursery)
            try:
                await client.call(lambda commands: end_of(commands, key))
                yield _RedisState(await _local_host(login), self.prefix, login, client)
            finally:
                client.close()


async def _local_host(login: RedisLogin) -> str:
    try:
        return await login.local_host()
    except OSError as error:
        raise login.failure(error) from error


@frozen(eq=False)
class _RedisState:
    """An open `RedisShared`."""

    host: str
    _prefix: str
    _login: RedisLogin
    _client: RedisClient

    # --- Values ---

    async def get(self, key: str) -> bytes | None:
        """Return a value."""
        check_names(key)
        return await self._client.call(lambda commands: commands.get(self._key("v", key)))

    async def swap(self, key: str, old: bytes | None, new: bytes | None, *, seconds: float = math.inf) -> bool:
        """Set a value if it is *old*."""
        check_names(key)
        check_seconds(seconds)
        before, after = (b"" if value is None else b"+" + value for value in (old, new))
        return await self._run("swap", self._key("v", key), before, after, whole_milliseconds(seconds)) == 1

    # --- Streams ---

    async def append(self, stream: str, entries: Sequence[bytes], *, at_most: int, seconds: float = math.inf) -> int:
        """Append entries."""
        check_append(stream, at_most, seconds)
        arguments: tuple[bytes | str | int, ...] = (
            secrets.token_bytes(8),
            at_most,
            whole_milliseconds(seconds),
            *entries,
        )
        return cast("int", await self._run("append", self._key("s", stream), *arguments))

    async def read(self, stream: str, after: int) -> StreamPart:
        """Return entries after a number."""
        check_names(stream)
        found = await self._run("read", self._key("s", stream), after, MOST_ENTRIES, MOST_BYTES)
        last, first, *entries = cast("tuple[int, int, *tuple[bytes, ...]]", found)
        return part_after(after, last, first, entries)

    async def last(self, stream: str) -> int:
        """Return the number of the last entry."""
        check_names(stream)
        return (await self._client.call(lambda commands: end_of(commands, self._key("s", stream)))).number

    @asynccontextmanager
    async def follow(self, stream: str) -> AsyncGenerator[AsyncIterator[StreamPart]]:
        """Follow a stream."""
        check_names(stream)
        key = self._key("s", stream)
        end = await self._client.call(lambda commands: end_of(commands, key))
        sender, receiver = trio.open_memory_channel[StreamPart](0)
        async with owned_nursery() as nursery:
            follower = RedisFollower(self._login, key, end, sender)
            nursery.start_soon(follower.run)
            yield receiver

    # --- Leases ---

    async def lease(self, group: str, name: str, value: bytes, *, seconds: float) -> None:
        """Hold a lease."""
        check_names(group, name)
        check_seconds(seconds)
        await self._run("lease", self._key("l", group), name, value, whole_milliseconds(seconds))

    async def release(self, group: str, name: str) -> None:
        """Give a lease back."""
        check_names(group, name)
        await self._run("release", self._key("l", group), name)

    async def leases(self, group: str) -> Mapping[str, bytes]:
        """Return the leases of a group."""
        check_names(group)
        found = iter(cast("Sequence[bytes]", await self._run("leases", self._key("l", group))))
        return {name.decode(): value for name, value in zip(found, found, strict=True)}

    def _key(self, kind: str, name: str) -> str:
        return f"{self._prefix}:{kind}:{name}"

    async def _run(self, script: str, key: str, *arguments: bytes | str | int) -> object:
        return await self._client.call(lambda commands: commands.run(script, key, *arguments))
