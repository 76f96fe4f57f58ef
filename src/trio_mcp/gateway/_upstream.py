"""The connections of a gateway to one server: who shares them, when they are opened, and what they have listed.

Rules of this file:

1. A connection is opened when it is first needed, or when the gateway is served. It is closed when its last caller has
   gone, or when nothing has used it for long enough. What it has listed is still known then if all callers share it,
   for an hour; another connection is forgotten, and replaced by a new one when its caller needs it.
2. A connection that is lost is opened again as the `Restart` of the mount says. The calls in flight fail; others wait,
   or fail while attempts fail.
3. Lists are read when the connection is opened, and again when the server reports a change. The lists of a server that
   reports none, and those that could not be read, are read again when they are asked for a minute later.
4. The latest lists stay while a server is away: a host is not told that tools have come and gone because of a restart.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

import trio
from attrs import define, field

from .. import (
    Access,
    Change,
    ChangeFilter,
    Changes,
    Client,
    ClientOptions,
    ConnectionClosed,
    ConnectionLost,
    ErrorResponse,
    ListChanged,
    MissingCapability,
    RequestTimedOut,
    ServerStatus,
    TimeLimits,
    TrioMcpError,
    types,
)
from ..lowlevel import ClientExtensionPoints, ServerChanges, SupervisedServer, owned_nursery
from ..wire import LOG_LEVELS, METHOD_NOT_FOUND, is_modern
from ._calls import CallInFlight, CallsInFlight, current_call
from ._mount import Mount
from ._tasks import TASK_IDS, TASKS, ServerTaskStates, TaskIds
from ._turns import Turns

__all__ = ["LISTS", "ListKind", "UpstreamClient"]

_log = logging.getLogger("trio_mcp.gateway")

ListKind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]
"""One of the four lists of a server."""
LISTS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources", "templates")
_AGE: Final = 60.0
"""The seconds after which the lists of a server that reports no changes are read again (rule 3)."""
_IDLE: Final = 300.0
"""The seconds after which an idle connection that not all callers share is closed by default."""
_AGE_WHILE_IDLE: Final = 3600.0
"""The seconds for which the lists of an idle server are used without asking it."""
_PATIENCE: Final = 10.0
"""The seconds for which requests that need the lists of a server, or listen to it, wait for it."""
_PATIENCE_AT_START: Final = 5.0
"""The seconds for which a caller who asks what the gateway can do waits for a server that starts."""
_LONGEST_PAUSE: Final = 60.0
"""The seconds after which a server that does not let itself be listened to is tried again, at the latest."""


@define(eq=False)
class UpstreamClient:
    """One connection to one server, shared by the callers that have the same key.

    Args:
        mount: the terms of the server.
        key: tells the connections to one server apart; None if all callers share it.
        turns: the turns of the requests to the server, on all its connections.
        info: the name that the gateway states to the server.
        nursery: runs the tasks of the connection.
        task_ids: makes the ids of the server's tasks that callers see.
        on_change: called with each list that has changed.
        on_event: called with a line for the log when the connection opens, is lost or fails.
        on_closed: called when it was closed for good.
    """

    mount: Mount
    key: Hashable
    _turns: Turns
    _info: types.Implementation
    _nursery: trio.Nursery
    _task_ids: TaskIds
    _on_change: Callable[[UpstreamClient, ListKind], None]
    _on_closed: Callable[[UpstreamClient], None]
    access: Access | None = field(default=None, init=False)
    """The latest caller, for the credentials; None if all callers share the connection."""
    lists: dict[ListKind, Sequence[Any]] = field(factory=dict[ListKind, Sequence[Any]], init=False)
    """The latest lists, as far as the server has them, as they are shown apart from their names."""
    fixed: dict[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]], init=False)
    """The arguments of each tool that are fixed, by its name on the server."""
    version: int = field(default=0, init=False)
    """Grows with each change of a list."""
    tasks: ServerTaskStates = field(init=False)
    """The tasks on the server."""
    modern: ClientExtensionPoints | None = field(default=None, init=False)
    """The client of the latest connection, which may be lost, if its server is modern."""
    makes_tasks: bool = field(default=False, init=False)
    """True if the server is modern and declares tasks."""
    is_limited: bool = field(init=False)
    """True if requests may have to wait for their turn."""
    calls: CallsInFlight = field(init=False)
    """The requests in flight."""
    server: SupervisedServer | None = field(default=None, init=False)
    """The connection; None while it is closed because it was idle."""
    listed: trio.Event = field(factory=trio.Event, init=False)
    """Set when the lists were read, or the first attempt to connect has failed."""
    _users: int = field(default=0, init=False)
    """The number of blocks of `in_use` that are open."""
    _used_at: float = field(factory=trio.current_time, init=False)
    _begun_at: float = field(default=-math.inf, init=False)
    """The time from which on the first lists are waited for."""
    _due: dict[ListKind, float] = field(factory=dict[ListKind, float], init=False)
    """The times from which on the lists are read again when they are asked for; empty before they were first read."""
    _told: frozenset[ListKind] = field(default=frozenset(), init=False)
    """The lists whose changes the server reports at present."""
    _reading: trio.Lock = field(factory=trio.Lock, init=False)
    """Held while lists that are due are read."""
    _log_level: str | None = field(default=None, init=False)
    """The most verbose level that a legacy server was asked for."""
    _end: trio.Event = field(factory=trio.Event, init=False)
    """Set when the connection is closed for good."""

    def __attrs_post_init__(self) -> None:
        self.is_limited = self._turns.are_limited
        self.calls = CallsInFlight(self.mount.name)
        self.tasks = ServerTaskStates(self.mount.name, self._task_ids)

    # --- The connection ---

    def begin(self) -> SupervisedServer:
        """Open the connection if it is not open; return it at once.

        Raises:
            ConnectionClosed: it was closed for good.
        """
        self._used_at = trio.current_time()
        if self._end.is_set():
            raise ConnectionClosed(f"the connection to server {self.mount.name!r} was closed for good")
        if self.server is None:
            if not self._due:
                self.listed, self._begun_at = trio.Event(), self._used_at
            self.server = SupervisedServer(self.mount.name, self._connect, self.mount.restart, self._report)
            self._nursery.start_soon(self._run, self.server, name=f"server {self.mount.name} of a gateway")
        return self.server

    @property
    def first_attempt(self) -> Callable[[], Awaitable[None]] | None:
        """A function that waits, for a bounded time, until the first attempt to connect has ended; None if it has."""
        server = self.server
        if server is None or server.tried.is_set():
            return None
        return partial(_wait_until, self._begun_at + _PATIENCE_AT_START, server.tried)

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep the connection from being idle for as long as the block lasts."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = trio.current_time()

    async def client(self) -> Client:
        """Return the client; wait while it connects, and right after it was lost.

        Raises:
            ConnectionBroken: the server is not connected, and the latest attempt has failed.
            ConnectionClosed: it was closed for good.
        """
        server = self.begin()
        if server.client is not None and not server.client.is_lost:
            return server.client
        return await server.connected()

    async def _connect(self, nursery: trio.Nursery) -> Client:
        seconds = self.mount.timeout
        limits = TimeLimits() if seconds is None else TimeLimits(idle=seconds, total=seconds)
        options: ClientOptions = {
            "info": self._info,
            "time_limits": limits,
            "cache": False,  # the results of one caller are not for another
            "on_elicit": self.calls.elicit,
            "elicit_modes": ["form", "url"],
            "on_elicit_complete": self.calls.visit_completed,
            "on_sample": self.calls.sample,
            "sample_with_tools": True,
            "sample_with_context": True,
            "roots": self.calls.roots,
            "on_log": self.calls.log,
            "tap": self.mount.tap,
        }
        client = await self.mount.start(nursery, self.mount.credentials(self.access), options)
        self._log_level = None
        points = ClientExtensionPoints(client)
        points.take_other_notifications(self.calls.notified)
        self.modern = points if is_modern(client.revision) else None
        self.makes_tasks = self.modern is not None and TASKS in (client.server_capabilities.extensions or {})
        if self.modern is not None:
            await client.set_log_level("emergency")  # each request says which level it wants
        return client

    async def _run(self, server: SupervisedServer) -> None:
        """Keep the connection, and what it has listed, until it is closed."""
        current_call.set(None)  # the call that began it is no concern of its tasks
        try:
            async with owned_nursery() as nursery:
                nursery.start_soon(self._follow, server)
                nursery.start_soon(self._close_in_time, server)
                if not self._end.is_set():
                    await server.run()
                nursery.cancel_scope.cancel()
        finally:
            if self.server is server:
                self.server = None
            if self.server is None:
                self.modern = None
                self._due = dict[ListKind, float].fromkeys(self._due, trio.current_time() + _AGE_WHILE_IDLE)
            self.listed.set()

    def _report(self, failure: Exception | None) -> None:
        name = self.mount.name
        if failure is None:
            _log.info("server %r is connected", name)
            if self.listed.is_set() and not self._due:  # earlier attempts have failed
                self.listed, self._begun_at = trio.Event(), trio.current_time()
        else:
            expected = isinstance(failure, TrioMcpError | OSError | ValueError)
            _log.warning("server %r: %s", name, failure, exc_info=None if expected else failure)
            self.listed.set()

    async def _close_in_time(self, server: SupervisedServer) -> None:
        """Close the connection when it has been idle for long enough, or when it is not needed any more."""
        idle = self.mount.idle
        if idle is None:
            idle = math.inf if self.mount.share == "all" else _IDLE
        while not self._end.is_set():
            due = self._used_at + idle
            if self.calls or self._users or self.tasks.any_goes_on:
                due = trio.current_time() + idle
            elif due <= trio.current_time():
                _log.info("server %r was idle for %g s; its connection is closed", self.mount.name, idle)
                break
            with trio.move_on_at(due):
                await self._end.wait()
        if self.key is not None:
            self.forget()
        self.server = None  # a call that begins from now on opens it again
        await server.aclose()

    def forget(self) -> None:
        """Close the connection for good, because it is not needed any more; synchronous. May be repeated."""
        if not self._end.is_set():
            self._end.set()
            self.server = None
            self._on_closed(self)

    # --- Lists ---

    async def _follow(self, server: SupervisedServer) -> None:
        """Read the lists whenever the server was connected, and when it reports changes."""
        while True:
            try:
                client = await server.wait_connected()
            except ConnectionLost:
                self.listed.set()
                await server.changed.wait()
                continue
            await self._follow_client(client)
            while server.client is client:
                await server.changed.wait()

    async def _follow_client(self, client: Client) -> None:
        """Read the lists, and again when the server reports changes, until the connection is lost."""
        pause = 0.5
        while not client.is_lost:
            began = trio.current_time()
            try:
                await self._follow_changes(client)
            except ConnectionLost:
                return
            except TrioMcpError as failure:
                _log.warning("server %r: its changes cannot be followed: %s", self.mount.name, failure)
            finally:
                self._told = frozenset()
                self._due = {kind: min(due, trio.current_time() + _AGE) for kind, due in self._due.items()}
            lasted = trio.current_time() - began > _LONGEST_PAUSE
            pause = 1.0 if lasted else min(2 * pause, _LONGEST_PAUSE)
            with trio.move_on_after(pause):  # over HTTP a stream of changes may end before the connection does
                await client.wait_lost()

    async def _follow_changes(self, client: Client) -> None:
        declared = client.server_capabilities
        tools = declared.tools is not None and bool(declared.tools.list_changed)
        prompts = declared.prompts is not None and bool(declared.prompts.list_changed)
        resources = declared.resources is not None and bool(declared.resources.list_changed)
        if not (tools or prompts or resources):
            await self._read_all(client)
            await client.wait_lost()
            return
        is_read = False
        try:
            async with client.listen(tools=tools, prompts=prompts, resource_list=resources) as changes:
                honored = changes.honored
                told = {"tools": honored.tools, "prompts": honored.prompts, "resources": honored.resource_list}
                self._told = frozenset(kind for kind in LISTS if told[_declared_as(kind)])
                await self._read_all(client)
                is_read = True
                async for change in changes:
                    changed = cast("ListChanged", change).kind  # it listens for nothing else
                    for kind in LISTS:
                        if _declared_as(kind) == changed:
                            await self._read(client, kind)
        except TrioMcpError:
            if not (is_read or client.is_lost):
                await self._read_all(client)
            raise

    async def _read_all(self, client: Client) -> None:
        for kind in LISTS:
            await self._read(client, kind)
        self.listed.set()

    async def _read(self, client: Client, kind: ListKind) -> None:
        again_at = trio.current_time() + _AGE
        try:
            latest = self._shown(kind, await _listed(client, kind))
        except ConnectionLost:
            raise
        except Exception as failure:  # noqa: BLE001 # an application's function, or a server that cannot list
            _log.warning("server %r: its %s cannot be listed: %s", self.mount.name, kind, failure)
        else:
            if kind in self._told:
                again_at = math.inf
            if latest != self.lists.get(kind, []):
                self.lists[kind] = latest
                self.version += 1
                self._on_change(self, kind)
        self._due[kind] = again_at

    def _shown(self, kind: ListKind, latest: Sequence[Any]) -> list[Any]:
        mount = self.mount
        if kind == "tools":
            self.fixed = {tool.name: mount.fixed(tool) for tool in latest}
            edited = {tool.name: mount.edited(tool) for tool in latest}
            return [tool for tool in edited.values() if tool is not None]
        if kind == "prompts":
            return list({each.name: each for each in latest if mount.shows(each.name)}.values())
        uris: dict[str, Any] = {}
        for each in latest:
            uri = each.uri if kind == "resources" else each.uri_template
            if mount.shows(each.name, uri):
                uris[uri] = each
        return list(uris.values())

    @property
    def is_unsettled(self) -> bool:
        """True if `wait_listed` may have something to wait for."""
        if not self.listed.is_set() or self._reading.locked() or (self.server is None and not self._due):
            return True
        return min(self._due.values(), default=math.inf) <= trio.current_time()

    @property
    def offers_resources(self) -> bool:
        """True if the server has declared resources."""
        client = None if self.server is None else self.server.client
        return client is not None and client.server_capabilities.resources is not None

    async def wait_listed(self) -> None:
        """Wait until the lists are known, for a bounded time, and read old ones again (rule 3)."""
        if self._end.is_set():
            await trio.lowlevel.checkpoint()
            return
        server = self.begin()
        with trio.move_on_at(self._begun_at + _PATIENCE):
            await self.listed.wait()
        client = server.client
        if client is not None and self._due:
            with trio.move_on_after(_PATIENCE), suppress(ConnectionLost):
                await self._read_due(client)

    async def _read_due(self, client: Client) -> None:
        """Read those lists again that are due."""
        async with self._reading:
            due: list[ListKind] = [kind for kind, time in self._due.items() if time <= trio.current_time()]
            for kind in due:  # a server that does not answer is not asked again soon
                self._due[kind] = trio.current_time() + _AGE
            for kind in due:
                await self._read(client, kind)

    # --- Requests ---

    @asynccontextmanager
    async def turn(self, call: CallInFlight) -> AsyncGenerator[None]:
        """Wait for the turn of a request, and count it as in flight for as long as the block lasts."""
        with self.in_use():
            async with self._turns.turn(call.caller):
                self.calls.begin(call)
                try:
                    yield
                finally:
                    self.ended(call)

    def ended(self, call: CallInFlight) -> None:
        """Note that a request was answered, or given up."""
        self.calls.end(call)
        self._used_at = trio.current_time()

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """The extensions that the server declares; none while it is not connected."""
        client = None if self.server is None else self.server.client
        return {} if client is None else client.server_capabilities.extensions or {}

    async def roots_changed(self) -> None:
        """Tell a legacy server that is connected that the roots of a caller have changed."""
        client = None if self.server is None else self.server.client
        if client is not None and not is_modern(client.revision):
            with suppress(TrioMcpError):  # the connection is just being lost
                await client.roots_changed()

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send the server a custom notification; if it cannot be sent, that is logged."""
        try:
            await (await self.client()).notify(method, {name: each for name, each in params.items() if name != "_meta"})
        except TrioMcpError as failure:
            _log.warning("server %r: a notification %r was not passed on: %s", self.mount.name, method, failure)

    async def want_logs(self, client: Client, level: Any) -> None:
        """Ask a legacy server for messages of *level* and above, unless it was asked for them already."""
        if client.server_capabilities.logging is None:
            return
        known = LOG_LEVELS.index(self._log_level) if self._log_level is not None else len(LOG_LEVELS)
        if LOG_LEVELS.index(level) < known:
            self._log_level = level
            await client.set_log_level(level)

    @asynccontextmanager
    async def listen(
        self, uris: Sequence[str], tasks: Sequence[str], changed: Callable[[Change], None]
    ) -> AsyncGenerator[ChangeFilter]:
        """Listen for changes of resources and tasks, also after the server was connected again.

        Yields those that the server agrees to report. *changed* is called with each change.

        Raises what `Client.listen` raises; `RequestTimedOut` if the server is not there in time.
        """
        with self.in_use():
            server = self.begin()

            def listen(client: Client) -> AbstractAsyncContextManager[Changes]:
                if not tasks:
                    return client.listen(resources=uris)
                if not is_modern(client.revision):
                    raise MissingCapability(f"revision {client.revision} has no such tasks", {})
                return client.listen(resources=uris, custom={TASK_IDS: tasks}, extensions={TASKS: {}})

            changes = ServerChanges(server, listen)
            with trio.move_on_after(_PATIENCE) as patience:
                await _begin_to_listen(server, changes)
            if patience.cancelled_caught:
                raise RequestTimedOut(f"server {self.mount.name!r} was not there within {_PATIENCE:g} s")
            try:
                async with owned_nursery() as nursery:
                    nursery.start_soon(self._report_changes, changes, changed)
                    try:
                        yield changes.honored
                    finally:
                        nursery.cancel_scope.cancel()
            finally:
                await changes.end()

    async def _report_changes(self, changes: ServerChanges, changed: Callable[[Change], None]) -> None:
        try:
            while True:
                changed(await anext(changes))
        except (TrioMcpError, StopAsyncIteration) as failure:
            _log.warning("server %r: its resources and tasks cannot be followed: %s", self.mount.name, failure)

    @property
    def status(self) -> ServerStatus | None:
        """The state of the connection; None while it is closed because it was idle."""
        return None if self.server is None else self.server.status


async def _begin_to_listen(server: SupervisedServer, changes: ServerChanges) -> None:
    """Begin to listen, again if the connection is lost meanwhile: that does no harm."""
    failures = 0
    while True:
        await server.connected()
        try:
            await changes.begin()
        except ConnectionLost:
            if not server.is_restarted:
                raise
            await trio.sleep(server.pause(failures))
            failures += 1
        else:
            return


async def _wait_until(deadline: float, event: trio.Event) -> None:
    with trio.move_on_at(deadline):
        await event.wait()


def _declared_as(kind: ListKind) -> str:
    """Return the member of the capabilities that declares a list."""
    return "resources" if kind == "templates" else kind


async def _listed(client: Client, kind: ListKind) -> list[Any]:
    try:
        return [each async for each in _iterate(client, kind)]
    except ErrorResponse as refusal:
        if refusal.code != METHOD_NOT_FOUND:
            raise
        return []  # it has the feature without this list: many servers have resources and no templates


def _iterate(client: Client, kind: ListKind) -> Any:
    match kind:
        case "tools":
            return client.tools()
        case "prompts":
            return client.prompts()
        case "resources":
            return client.resources()
        case _:
            return client.resource_templates()
