"""The connections of a gateway to one server: who shares them, when they are opened, and what they have listed.

Rules of this file:

1. A connection is opened when it is first needed, or when the gateway is served. It is closed when its last caller has
   gone, or when it was idle for long enough; then what it has listed is still known.
2. A connection that is lost is opened again as the `Restart` of the mount says. The calls in flight fail; others wait,
   or fail while attempts fail.
3. Lists are read when the connection is opened, and again when the server reports a change. The lists of a server that
   reports none are read again if they are older than a minute.
4. The latest lists stay while a server is away: a host is not told that tools have come and gone because of a restart.
5. A message of a server that names no request belongs to the call in flight. If there are several, it belongs to the
   latest of them, provided that all are of one caller; otherwise nobody may get it.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias

import trio
from attrs import define, field, frozen

from .. import (
    Access,
    Changes,
    Client,
    ClientOptions,
    ConnectionLost,
    ListChanged,
    McpError,
    ResourceUpdated,
    ServerStatus,
    TimeLimits,
    TrioMcpError,
    types,
)
from ..lowlevel import ServerChanges, SupervisedServer, TokenBucket, owned_nursery
from ..wire import INTERNAL_ERROR, LOG_LEVELS, is_modern
from ._mount import Mount

__all__ = ["LISTS", "CallInFlight", "ListKind", "Upstream", "UpstreamClient", "UpstreamStatus", "current_call"]

_log = logging.getLogger("trio_mcp.gateway")

ListKind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]
"""One of the four lists of a server."""
LISTS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources", "templates")
_AGE: Final = 60.0
"""The seconds after which the lists of a server that reports no changes are read again (rule 3)."""
_IDLE: Final = 300.0
"""The seconds after which an idle connection that not all callers share is closed by default."""
_PATIENCE: Final = 10.0
"""The seconds for which the lists of a server that is being connected are waited for."""


class CallInFlight(Protocol):
    """A request that a gateway has forwarded, as far as its connection needs to know it."""

    @property
    def caller(self) -> Hashable:
        """The caller: requests of one caller may get each other's messages."""
        ...

    async def elicit(self, question: Any) -> types.ElicitResult:
        """Ask the caller's user."""
        ...

    async def sample(self, question: Any) -> types.CreateMessageResult:
        """Ask the caller's model."""
        ...

    async def roots(self) -> Sequence[types.Root]:
        """Ask the caller for its roots."""
        ...

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Send the caller a log message, if it wants messages of this level."""
        ...


current_call: ContextVar[CallInFlight | None] = ContextVar("trio_mcp_gateway_call", default=None)
"""The call in whose task the present code runs; None in the tasks of a connection."""


@frozen(kw_only=True)
class UpstreamStatus:
    """The state of one server of a gateway: a snapshot."""

    state: Literal["connecting", "connected", "waiting", "failed", "closed", "idle"]
    """The state of its connection, or of the latest one if it has several; ``"idle"`` if it has none at present."""
    failure: Exception | None
    """The reason why the latest attempt failed, or why the connection was lost; None while connected."""
    restarts: int
    """The number of connections that replaced an earlier one."""
    retry_at: float | None
    """The time of the next attempt on Trio's clock, while the state is ``"waiting"``."""
    connections: int
    """The number of open connections: several, if callers have their own."""
    in_flight: int
    """The number of requests that it has not answered yet."""
    tools: int
    """The number of its tools that are shown."""


@define(eq=False)
class UpstreamClient:
    """One connection to one server, shared by the callers that have the same key.

    Args:
        mount: the terms of the server.
        key: tells the connections to one server apart; None if all callers share it.
        access: the caller for whom it is opened.
        info: the name that the gateway states to the server.
        nursery: runs the tasks of the connection.
        on_change: called with each list that has changed.
        on_event: called with a line for the log when the connection opens, is lost or fails.
        on_closed: called when it was closed for good.
    """

    mount: Mount
    key: Hashable
    access: Access | None
    _info: types.Implementation
    _nursery: trio.Nursery
    _on_change: Callable[[UpstreamClient, ListKind], None]
    _on_closed: Callable[[UpstreamClient], None]
    lists: dict[ListKind, Sequence[Any]] = field(factory=dict[ListKind, Sequence[Any]], init=False)
    """The latest lists, as far as the server has them, as they are shown apart from their names."""
    fixed: dict[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]], init=False)
    """The arguments of each tool that are fixed, by its name on the server."""
    version: int = field(default=0, init=False)
    """Grows with each change of a list."""
    calls: dict[CallInFlight, None] = field(factory=dict["CallInFlight", None], init=False)
    """The requests in flight: an ordered set."""
    server: SupervisedServer | None = field(default=None, init=False)
    """The connection; None while it is closed because it was idle."""
    listed: trio.Event = field(factory=trio.Event, init=False)
    """Set when the lists were read, or the first attempt to connect has failed."""
    _listening: int = field(default=0, init=False)
    """The number of blocks of `listen` that are open."""
    _used_at: float = field(factory=trio.current_time, init=False)
    _read_at: dict[ListKind, float] = field(factory=dict[ListKind, float], init=False)
    _reading: trio.Lock = field(factory=trio.Lock, init=False)
    _log_level: str | None = field(default=None, init=False)
    """The most verbose level that a legacy server was asked for."""
    _slots: trio.CapacityLimiter | None = field(default=None, init=False)
    _bucket: TokenBucket | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        mount = self.mount
        if mount.max_concurrency is not None:
            self._slots = trio.CapacityLimiter(mount.max_concurrency)
        if mount.per_second is not None:
            self._bucket = TokenBucket(mount.per_second, max(1, math.floor(mount.per_second)))

    # --- The connection ---

    def begin(self) -> SupervisedServer:
        """Open the connection if it is not open; return it at once."""
        self._used_at = trio.current_time()
        if self.server is None:
            self.server = SupervisedServer(self.mount.name, self._connect, self.mount.restart, self._report)
            self._nursery.start_soon(self._run, self.server, name=f"server {self.mount.name} of a gateway")
        return self.server

    async def client(self) -> Client:
        """Return the client; wait while it connects, and right after it was lost.

        Raises:
            ConnectionBroken: the server is not connected, and the latest attempt has failed.
        """
        server = self.begin()
        if server.client is not None and not server.client.is_lost:
            return server.client
        return await server.connected()

    async def _connect(self, nursery: trio.Nursery) -> Client:
        limits = TimeLimits() if self.mount.timeout is None else TimeLimits(total=self.mount.timeout)
        options: ClientOptions = {
            "info": self._info,
            "time_limits": limits,
            "cache": False,  # the results of one caller are not for another
            "on_elicit": self._on_elicit,
            "elicit_modes": ["form", "url"],
            "on_sample": self._on_sample,
            "sample_with_tools": True,
            "sample_with_context": True,
            "roots": self._on_roots,
            "on_log": self._on_log,
            "tap": self.mount.tap,
        }
        client = await self.mount.start(nursery, self.mount.credentials(self.access), options)
        self._log_level = None
        if is_modern(client.revision):
            await client.set_log_level("emergency")  # each request says which level it wants
        return client

    async def _run(self, server: SupervisedServer) -> None:
        """Keep the connection, and what it has listed, until it is closed."""
        current_call.set(None)  # the call that began it is no concern of its tasks
        try:
            async with owned_nursery() as nursery:
                nursery.start_soon(self._follow, server)
                nursery.start_soon(self._close_when_idle, server)
                await server.run()
                nursery.cancel_scope.cancel()
        finally:
            if self.server is server:
                self.server = None
            self.listed.set()

    def _report(self, failure: Exception | None) -> None:
        name = self.mount.name
        if failure is None:
            _log.info("server %r is connected", name)
        else:
            expected = isinstance(failure, TrioMcpError | OSError | ValueError)
            _log.warning("server %r: %s", name, failure, exc_info=None if expected else failure)
            if not self.lists:
                self.listed.set()

    async def _close_when_idle(self, server: SupervisedServer) -> None:
        idle = self.mount.idle
        if idle is None:
            idle = math.inf if self.mount.share == "all" else _IDLE
        while True:
            due = self._used_at + idle
            if self.calls or self._listening:
                due = trio.current_time() + idle
            elif due <= trio.current_time():
                break
            await trio.sleep_until(due)
        _log.info("server %r was idle for %g s; its connection is closed", self.mount.name, idle)
        self.server = None
        await server.aclose()
        if self.key is not None:
            self._on_closed(self)

    def forget(self) -> None:
        """Close the connection for good, because its last caller has gone; synchronous."""
        self._is_closed = True
        server, self.server = self.server, None
        if server is not None:
            self._nursery.start_soon(server.aclose, name="end of a server of a gateway")
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
            try:
                await self._follow_client(client)
            except TrioMcpError as failure:
                _log.warning("server %r: its changes cannot be followed: %s", self.mount.name, failure)
            if not client.is_lost:
                await trio.sleep(1)  # over HTTP a stream of changes may end before the connection does
            else:
                await self._wait_changed(server, client)

    @staticmethod
    async def _wait_changed(server: SupervisedServer, client: Client) -> None:
        while server.client is client:  # a client that is lost for good is kept
            await server.changed.wait()

    async def _follow_client(self, client: Client) -> None:
        declared = client.server_capabilities
        tools = declared.tools is not None and bool(declared.tools.list_changed)
        prompts = declared.prompts is not None and bool(declared.prompts.list_changed)
        resources = declared.resources is not None and bool(declared.resources.list_changed)
        if not (tools or prompts or resources):
            await self._read_all(client)
            await client.wait_lost()
            return
        async with client.listen(tools=tools, prompts=prompts, resource_list=resources) as changes:
            await self._read_all(client)
            async for change in changes:
                if isinstance(change, ListChanged):
                    for kind in ("resources", "templates") if change.kind == "resources" else (change.kind,):
                        await self._read(client, kind)

    async def _read_all(self, client: Client) -> None:
        for kind in LISTS:
            await self._read(client, kind)
        self.listed.set()

    async def _read(self, client: Client, kind: ListKind) -> None:
        try:
            latest = self._shown(kind, [each async for each in _iterate(client, kind)])
        except ConnectionLost:
            raise
        except Exception as failure:  # noqa: BLE001 # an application's function, or a server that cannot list
            _log.warning("server %r: its %s cannot be listed: %s", self.mount.name, kind, failure)
            return
        self._read_at[kind] = trio.current_time()
        if latest != self.lists.get(kind, []):
            self.lists[kind] = latest
            self.version += 1
            self._on_change(self, kind)

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
        if not self.listed.is_set() or (self.server is None and not self.lists):
            return True
        return bool(self._read_at) and min(self._read_at.values()) + _AGE <= trio.current_time()

    @property
    def offers_resources(self) -> bool:
        """True if the server has declared resources."""
        client = None if self.server is None else self.server.client
        return client is not None and client.server_capabilities.resources is not None

    async def wait_listed(self) -> None:
        """Wait until the lists are known, for a bounded time, and read old ones again (rule 3)."""
        server = self.server
        if not self.lists or server is None:
            server = self.begin()
        with trio.move_on_after(_PATIENCE):
            await self.listed.wait()
            if server.client is not None and not server.client.is_lost:
                await self._refresh(server.client)

    async def _refresh(self, client: Client) -> None:
        """Read those lists again that are old, and of whose changes the server does not tell."""
        declared, now = client.server_capabilities, trio.current_time()
        tells = {
            "tools": declared.tools and declared.tools.list_changed,
            "prompts": declared.prompts and declared.prompts.list_changed,
            "resources": declared.resources and declared.resources.list_changed,
        }
        for kind in LISTS:
            member = "resources" if kind == "templates" else kind
            if not tells[member] and self._read_at.get(kind, math.inf) + _AGE <= now:
                async with self._reading:
                    if self._read_at[kind] + _AGE <= now:
                        self._read_at[kind] = now
                        await self._read(client, kind)

    # --- Requests ---

    @asynccontextmanager
    async def turn(self, call: CallInFlight) -> AsyncGenerator[None]:
        """Wait for the turn of a request, and count it as in flight for as long as the block lasts."""
        if self._bucket is not None:
            due = self._bucket.due(trio.current_time())
            self._bucket.take(due)
            await trio.sleep_until(due)
        if self._slots is not None:
            await self._slots.acquire_on_behalf_of(call)
        self.calls[call] = None
        try:
            yield
        finally:
            self.ended(call)
            if self._slots is not None:
                self._slots.release_on_behalf_of(call)

    def ended(self, call: CallInFlight) -> None:
        """Note that a request was answered, or given up."""
        del self.calls[call]
        self._used_at = trio.current_time()

    @property
    def is_limited(self) -> bool:
        """True if requests have to wait for their turn."""
        return self._bucket is not None or self._slots is not None

    async def want_logs(self, client: Client, level: Any) -> None:
        """Ask a legacy server for messages of *level* and above, unless it was asked for them already."""
        if client.server_capabilities.logging is None:
            return
        known = LOG_LEVELS.index(self._log_level) if self._log_level is not None else len(LOG_LEVELS)
        if LOG_LEVELS.index(level) < known:
            self._log_level = level
            await client.set_log_level(level)

    @asynccontextmanager
    async def listen(self, uris: Sequence[str], changed: Callable[[str], None]) -> AsyncGenerator[Sequence[str]]:
        """Listen for changes of resources, also after the server was connected again.

        Yields those that the server agrees to report. *changed* is called with the URI of each that has changed.

        Raises what `Client.listen` raises.
        """
        server = self.begin()

        def listen(client: Client) -> AbstractAsyncContextManager[Changes]:
            return client.listen(resources=uris)

        changes = ServerChanges(server, listen)
        self._listening += 1
        try:
            await changes.begin()
            try:
                async with owned_nursery() as nursery:
                    nursery.start_soon(self._report_changes, changes, changed)
                    yield changes.honored.resources
                    nursery.cancel_scope.cancel()
            finally:
                await changes.end()
        finally:
            self._listening -= 1
            self._used_at = trio.current_time()

    async def _report_changes(self, changes: ServerChanges, changed: Callable[[str], None]) -> None:
        try:
            async for change in changes:
                if isinstance(change, ResourceUpdated):
                    changed(change.uri)
        except TrioMcpError as failure:
            _log.warning("server %r: its resources cannot be followed: %s", self.mount.name, failure)

    # --- Messages of the server ---

    async def _on_elicit(self, question: Any) -> types.ElicitResult:
        return await self._call().elicit(question)

    async def _on_sample(self, question: Any) -> types.CreateMessageResult:
        return await self._call().sample(question)

    async def _on_roots(self) -> Sequence[types.Root]:
        return await self._call().roots()

    async def _on_log(self, message: types.LoggingMessageNotificationParams) -> None:
        call = self._call_of_message()
        if call is None:
            _log.debug("server %r: a log message that belongs to no caller", self.mount.name)
            return
        await call.log(message)

    def _call(self) -> CallInFlight:
        call = self._call_of_message()
        if call is None:
            why = "no call is in flight" if not self.calls else "calls of several callers are in flight"
            raise McpError(INTERNAL_ERROR, f"this gateway cannot tell whom to ask: {why}")
        return call

    def _call_of_message(self) -> CallInFlight | None:
        """Return the call that a message belongs to (rule 5)."""
        call = current_call.get()
        if call in self.calls:  # else it is one of another gateway in this process
            return call
        if not self.calls or len({each.caller for each in self.calls}) > 1:
            return None
        return next(reversed(self.calls))

    @property
    def status(self) -> ServerStatus | None:
        """The state of the connection; None while it is closed because it was idle."""
        return None if self.server is None else self.server.status


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


@define(eq=False)
class Upstream:
    """One server of a gateway. `Gateway.mount` makes it."""

    mount: Mount = field(repr=False)
    _clients: Callable[[Upstream], Sequence[UpstreamClient]] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the server in the gateway."""
        return self.mount.name

    @property
    def status(self) -> UpstreamStatus:
        """The state of the server: a snapshot."""
        clients = self._clients(self)
        latest: ServerStatus | None = next((each.status for each in reversed(clients) if each.status), None)
        return UpstreamStatus(
            state="idle" if latest is None else latest.state,
            failure=None if latest is None else latest.failure,
            restarts=sum(each.status.restarts for each in clients if each.status),
            retry_at=None if latest is None else latest.retry_at,
            connections=Counter(each.status.state for each in clients if each.status)["connected"],
            in_flight=sum(len(each.calls) for each in clients),
            tools=max((len(each.lists.get("tools", ())) for each in clients), default=0),
        )

    async def restart(self) -> None:
        """Close the connections to the server, and open them again at once; a process is started again.

        The calls in flight fail.

        Raises:
            ConnectionBroken: the server could not be connected; the failure is the cause.
        """
        async with trio.open_nursery() as nursery:
            for client in self._clients(self):
                if client.server is not None:
                    nursery.start_soon(partial(client.server.restart))
