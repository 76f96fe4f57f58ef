"""The supervision of one of many servers: its state, its restarts, the calls that wait for it, and its changes.

Rules of this file:

1. One coroutine owns the connection: `SupervisedServer.run`. Each connection is a `Client` of its own.
2. A call waits for an attempt to connect that is in progress, and for the first one after a connection that lasted.
   Between attempts that fail, it fails at once, with the latest failure.
3. The pause doubles with each attempt that fails and each connection that is soon lost. A connection that lasts longer
   than the longest pause makes it short again.
4. A failure that time does not cure ends the attempts, until `restart` asks for one.
5. Changes that happen while a server is away cannot be known. When it is back, everything that is listened for counts
   as changed, once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeAlias

import trio
from attrs import Attribute, define, field, frozen

from .._errors import (
    AuthorizationFailed,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLost,
    RequestTimedOut,
    ResponseLost,
    UnsupportedRevision,
)
from .._misuse import AsyncForOnly
from .._util import owned_nursery
from ..wire import Change, ChangeFilter, ListChanged, ResourceUpdated
from ._client import Client
from ._listen import Changes

__all__ = ["Restart", "ServerChanges", "ServerState", "ServerStatus", "SupervisedServer"]


def _seconds(restart: Restart, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"Restart({attribute.name}={value!r}): must be a number of seconds above 0")
    if attribute.name == "at_most" and value < restart.after:
        raise ValueError(f"Restart(at_most={value!r}): must not be less than after={restart.after!r}")


@frozen(kw_only=True)
class Restart:
    """The pauses before a server that is gone is connected to again. A process is started again.

    Args:
        after: the seconds before the first attempt. They double with each attempt that fails, and with each connection
            that lasts less than *at_most* seconds.
        at_most: the longest pause in seconds.
    """

    after: float = field(default=1.0, validator=_seconds)
    at_most: float = field(default=60.0, validator=_seconds)

    def pause(self, failures: int) -> float:
        """Return the seconds before the next attempt, after so many failures in a row."""
        doublings = min(failures, math.ceil(math.log2(self.at_most / self.after)))
        return min(self.after * 2.0**doublings, self.at_most)


ServerState: TypeAlias = Literal["connecting", "connected", "waiting", "failed", "closed"]
"""The state of a server. ``"waiting"`` is the pause before an attempt to connect; after ``"failed"`` there is none."""


@frozen
class ServerStatus:
    """The state of one of many servers; see `Clients.status`."""

    state: ServerState
    """The state: ``"connected"``, and so on; see `ServerState`."""
    failure: Exception | None = None
    """The reason why the latest attempt failed, or why the latest connection was lost; None while connected."""
    restarts: int = 0
    """The number of connections that replaced an earlier one."""
    retry_at: float | None = None
    """The time of the next attempt on Trio's clock, while the state is ``"waiting"``."""


_INCURABLE = (ValueError, TypeError, UnsupportedRevision, AuthorizationFailed)
"""Failures that a new attempt would only repeat: invalid entries and options, and what needs a person."""


@define(eq=False)
class SupervisedServer:
    """One server, which is connected, and connected again as its `Restart` says.

    Args:
        name: the name of the server, for errors.
        start: connects a client in a nursery, where it stays until it is closed; it may raise anything.
        restart: None to leave a server alone that is gone. Its client is kept then, and its calls fail with the reason.
            So it is with a client that the application has closed.
        report: called with each failure, and with None when the server is connected.
    """

    name: str
    """The name of the server."""
    _start: Callable[[trio.Nursery], Awaitable[Client]]
    _restart: Restart | None
    _report: Callable[[Exception | None], None]
    client: Client | None = field(default=None, init=False)
    """The current client, also when it was closed at the end; None while there is none."""
    status: ServerStatus = field(default=ServerStatus("connecting"), init=False)
    """The current status."""
    changed: trio.Event = field(factory=trio.Event, init=False)
    """Set when the status changes, and replaced then."""
    tried: trio.Event = field(factory=trio.Event, init=False)
    """Set when the first attempt has succeeded or failed."""
    _attempts: int = field(default=0, init=False)
    _connections: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    """The number of attempts that failed and connections that were soon lost, in a row."""
    _lasted: bool = field(default=False, init=False)
    """True if the latest attempt that ended led to a connection."""
    _attempt: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """The scope of the attempt that is in progress."""
    _hurry: trio.Event = field(factory=trio.Event, init=False)
    """Set when the server shall be connected again, or closed; replaced before each attempt."""
    _is_closing: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Connect, and connect again, until `aclose` or cancelled. Called once, by the owner."""
        try:
            while not self._is_closing:
                self._hurry, self._attempt = trio.Event(), trio.CancelScope()
                failure = await self._connect_and_hold()
                if failure is not None and not self._is_closing:
                    await self._pause(failure)
        finally:
            self._set("closed", self.status.failure)

    async def _connect_and_hold(self) -> Exception | None:
        """Connect, and return when the connection is gone: the reason, or None if this side has closed it."""
        self._attempts += 1
        client: Client | None = None
        self._set("connecting", self.status.failure)
        try:
            async with owned_nursery() as nursery:
                with self._attempt:
                    client = await self._start(nursery)
                return None if client is None else await self._hold(client)
        except Exception as exc:  # noqa: BLE001 # reported
            self._lasted = False
            self._report(exc)
            return exc

    async def _hold(self, client: Client) -> Exception | None:
        began = trio.current_time()
        self.client = client
        self._lasted = True
        self._connections += 1
        self._set("connected")
        self._report(None)
        try:
            reason: Exception | None = await client.wait_lost()
            if self._hurry.is_set():
                reason = None
            elif self._restart is None or isinstance(reason, ConnectionClosed):
                self._set("failed", reason)
                await self._hurry.wait()
                reason = None
            elif trio.current_time() - began > self._restart.at_most:
                self._failures = 0
        finally:
            if not self._is_closing:  # else its calls tell that it is closed
                self.client = None
            with trio.CancelScope(shield=True):  # bounded, as the end of every client is
                await client.aclose()
        if reason is not None:
            self._report(reason)
        return reason

    async def _pause(self, failure: Exception) -> None:
        """Wait until the server shall be connected again."""
        if self._restart is None or isinstance(failure, _INCURABLE):
            self._set("failed", failure)
            await self._hurry.wait()
            return
        pause = self._restart.pause(self._failures)
        self._failures += 1
        self._set("waiting", failure, trio.current_time() + pause)
        with trio.move_on_after(pause):
            await self._hurry.wait()

    def _set(self, state: ServerState, failure: Exception | None = None, retry_at: float | None = None) -> None:
        self.status = ServerStatus(state, failure, max(0, self._connections - 1), retry_at)
        if state != "connecting":
            self.tried.set()
        self.changed.set()
        self.changed = trio.Event()

    @property
    def is_coming_back(self) -> bool:
        """True while an attempt to connect is in progress or will follow."""
        return self.status.state in {"connecting", "waiting"} or self._is_just_lost

    @property
    def _is_just_lost(self) -> bool:
        """True if the connection was lost, and `run` has not noticed it yet."""
        return self.status.state == "connected" and self.client is not None and self.client.is_lost

    @property
    def is_restarted(self) -> bool:
        """True if a lost server is connected again."""
        return self._restart is not None

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        assert self._restart is not None
        return self._restart.pause(failures)

    async def wait_connected(self) -> Client:
        """Return the client; wait as long as attempts to connect follow one another.

        Raises what `connected` raises.
        """
        while (self.client is None or self.client.is_lost) and self.is_coming_back:
            await self.changed.wait()
        return await self.connected()

    async def connected(self) -> Client:
        """Return the client, after the wait of rule 2.

        Raises:
            ConnectionBroken: the server is not connected; the latest failure is the cause.
            ConnectionClosed: the clients were closed.
        """
        while self.client is None or self._is_just_lost:
            state = self.status.state
            if state in {"failed", "closed"} or (state == "waiting" and not self._lasted):
                raise self._missing()
            await self.changed.wait()
        return self.client

    async def restart(self) -> Client:
        """Connect again at once; return the new client when the attempt has succeeded.

        Calls in flight raise `ConnectionClosed`.

        Raises:
            ConnectionBroken: the attempt has failed; the failure is the cause.
            ConnectionClosed: the clients were closed.
        """
        before = self._attempts
        await self._end()
        while self.status.state == "connecting" or (self._attempts == before and self.status.state != "closed"):
            await self.changed.wait()
        if self.client is None:
            raise self._missing()
        return self.client

    async def aclose(self) -> None:
        """Close the connection, and end every attempt and pause. May be repeated."""
        self._is_closing = True
        await self._end()

    async def _end(self) -> None:
        """End the attempt, the connection or the pause that is in progress."""
        self._hurry.set()
        self._attempt.cancel()
        if self.client is not None:
            await self.client.aclose()

    def _missing(self) -> ConnectionLost:
        failure = self.status.failure
        if self.status.state == "closed":
            missing: ConnectionLost = ConnectionClosed("the clients were closed")
        else:
            missing = ConnectionBroken(f"server {self.name!r} is not connected: {failure}")
        missing.__cause__ = failure
        return missing


_INTERRUPTIONS = (ConnectionLost, ResponseLost, RequestTimedOut)
"""Failures of listening that end when the server is back."""
_LISTS = (ListChanged("tools"), ListChanged("prompts"), ListChanged("resources"))


@define(eq=False)
class ServerChanges(AsyncForOnly, AsyncIterator[Change]):
    """The changes on one of many servers, also after it was connected again: an iterator for one task at a time.

    Yields a `ListChanged` or a `ResourceUpdated`. When the server is back, everything that it agrees to report counts
    as changed, because nobody knows what has changed meanwhile.
    """

    _usage = "async for change in changes"

    _server: SupervisedServer
    _listen: Callable[[Client], AbstractAsyncContextManager[Changes]]
    """Returns the block in which a client listens."""
    _block: AbstractAsyncContextManager[Changes] | None = field(default=None, init=False)
    _changes: Changes | None = field(default=None, init=False)
    """The changes of the current connection; None while there is none."""
    _missed: deque[Change] = field(factory=deque[Change], init=False)
    """The changes that count as made since the server is back, and were not read yet."""
    _failures: int = field(default=0, init=False)
    """The number of attempts to listen that failed, in a row."""

    @property
    def honored(self) -> ChangeFilter:
        """The changes that the server has agreed to report; see `Changes.honored`. Nothing while it is away."""
        return ChangeFilter() if self._changes is None else self._changes.honored

    async def begin(self) -> None:
        """Listen on the current connection."""
        block = self._listen(await self._server.wait_connected())
        self._changes = await block.__aenter__()
        self._block = block

    async def end(self) -> None:
        """Stop listening."""
        block, self._block, self._changes = self._block, None, None
        if block is not None:
            await block.__aexit__(None, None, None)

    async def __anext__(self) -> Change:
        while True:
            if self._changes is None:
                await self._begin_again()
            elif self._missed:
                await trio.lowlevel.checkpoint()
                return self._missed.popleft()
            else:
                try:
                    return await anext(self._changes)
                except (StopAsyncIteration, *_INTERRUPTIONS):
                    if not self._server.is_restarted or self._server.status.state == "closed":
                        raise
                    await self.end()

    async def _begin_again(self) -> None:
        try:
            await self.begin()
        except _INTERRUPTIONS:
            if not self._server.is_coming_back and self._server.status.state != "connected":
                raise
            self._failures += 1
            await trio.sleep(self._server.pause(self._failures - 1))
            return
        self._failures = 0
        changed = self.honored.changes()
        self._missed.extend(each for each in _LISTS if each in changed)
        self._missed.extend(map(ResourceUpdated, self.honored.resources))
