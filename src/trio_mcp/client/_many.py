"""Clients for many servers at once, those of one ``mcpServers`` file: the failure of one does not affect the others.

Rules of this file:

1. Each server has a task of its own, which runs the same coroutine as every client. An exception in that task is kept
   for callers and does not reach the shared nursery.
2. Only the opener waits for servers, until each of them has connected or failed.
3. A tool name that one server offers is kept. If several servers offer it, it becomes ``server__name`` for each of
   them.
4. A name that begins with another server's prefix (``other__``) is prefixed too, even if that server is not connected:
   no server receives calls that are meant for another.
5. In the server's part, characters other than ``A-Z a-z 0-9 _ -`` become ``_``.
6. A ``server__name`` of more than `MAX_NAME_LENGTH` characters, or one that is also the name of another tool, ends in a
   digest of the server's and the tool's name. So names are unique, readable, and independent of the order in which
   servers connect.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, Unpack, get_args, overload

import trio
from attrs import define, field, frozen

from .. import types
from .._capabilities import load_capability
from .._errors import ConnectionClosed, ServerExited, TrioMcpError
from .._misuse import AsyncForOnly, async_block, check_class, did_you_mean
from .._other_sdks import ForeignAttributes
from .._util import owned_nursery, run_all
from ..abc import ClientAuth
from ._cache import ServerCache
from ._client import Client, OnProgress
from ._listen import Changes
from ._mcp_json import ServerTable, TableSource, read_server_table
from ._open import ClientOptions, check_options, start_client
from ._supervision import Restart, ServerChanges, ServerStatus, SupervisedServer

if TYPE_CHECKING:
    from .._capabilities import ClientSkill

__all__ = [
    "MAX_NAME_LENGTH",
    "MAX_PREFIX_LENGTH",
    "Clients",
    "Offer",
    "Prefix",
    "ServerTool",
    "Toolbox",
    "assign_names",
    "open_clients",
    "qualified_name",
    "sanitized_name",
    "start_clients",
    "unique_names",
    "with_digest",
]


# --- Names ---

MAX_NAME_LENGTH: Final = 64
"""The longest name, in characters, that the interfaces of language models accept for a function."""
_DIGEST: Final = 8
MAX_PREFIX_LENGTH: Final = MAX_NAME_LENGTH - _DIGEST - 1
"""The number of characters of a name that are kept when a digest is appended."""
_UNSUITABLE: Final = re.compile(r"[^A-Za-z0-9_-]")

Key = TypeVar("Key", bound=Hashable)
R = TypeVar("R")


def sanitized_name(text: str) -> str:
    """Return *text* with ``_`` for all characters but ``A-Z a-z 0-9 _ -``."""
    return _UNSUITABLE.sub("_", text)


def with_digest(name: str, identity: str) -> str:
    """Return the beginning of *name* and a digest of *identity*, the full identity of the tool."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:MAX_PREFIX_LENGTH]}_{digest[:_DIGEST]}"


def unique_names(
    wanted: Mapping[Key, str], taken: Collection[str], identity: Callable[[Key, int], str]
) -> dict[Key, str]:
    """Return names with digests in place of the *wanted* ones; they are unique and differ from those that are *taken*.

    Args:
        identity: returns the full identity of the named object, different for each attempt from 0 on.
    """
    names: dict[Key, str] = {}
    used = set(taken)
    for key, name in wanted.items():
        tries = (with_digest(name, identity(key, attempt)) for attempt in itertools.count())
        names[key] = next(each for each in tries if each not in used)
        used.add(names[key])
    return names


Prefix: TypeAlias = Literal["clashes", "always"]
"""The names that get a server prefix: those that several servers offer, or all."""
Offer: TypeAlias = tuple[str, str]
"""A server's name, and the name of one of its tools."""


def qualified_name(offer: Offer) -> str:
    """Return a tool's name with its server's prefix, and with a digest in place of its end if it is too long.

    Args:
        offer: the name of the server, and the name of the tool there.
    """
    server, tool = offer
    name = f"{_server_prefix(server)}{tool}"
    return name if len(name) <= MAX_NAME_LENGTH else with_digest(name, _identity(offer, 0))


def assign_names(offers: Collection[Offer], *, prefix: Prefix, servers: Collection[str] = ()) -> dict[Offer, str]:
    """Return a unique name for each of *offers*. The order of the offers does not matter.

    Args:
        prefix: the names that get a server prefix.
        servers: servers without tools at present, which may have some later.
    """
    prefixes = {server: _server_prefix(server) for server in {*servers, *(server for server, _ in offers)}}
    times = Counter(tool for _, tool in offers)
    names = {
        (server, tool): tool
        for server, tool in offers
        if prefix == "clashes" and times[tool] == 1 and not _is_ambiguous(server, tool, prefixes)
    }
    qualified = {offer: qualified_name(offer) for offer in sorted(offers) if offer not in names}
    wanted = Counter([*names.values(), *qualified.values()])
    names |= {offer: name for offer, name in qualified.items() if wanted[name] == 1}
    rest = {offer: name for offer, name in qualified.items() if offer not in names}
    return names | unique_names(rest, wanted, _identity)


def _identity(offer: Offer, attempt: int) -> str:
    return "\0".join((*offer, str(attempt)))


def _server_prefix(server: str) -> str:
    return f"{sanitized_name(server)}__"


def _is_ambiguous(server: str, tool: str, prefixes: Mapping[str, str]) -> bool:
    """Return True if a tool's name begins with the prefix of another server."""
    return any(
        tool.startswith(server_prefix[:MAX_PREFIX_LENGTH]) for each, server_prefix in prefixes.items() if each != server
    )


# --- Tools ---

_log = logging.getLogger("trio_mcp.client")


@frozen
class ServerTool:
    """A tool, and the server that has it."""

    name: str
    """A name that is unique among the tools of all servers."""
    server: str
    """The server's name in the file."""
    tool: types.Tool
    """The tool as the server describes it, with its name there."""


@define(eq=False)
class Toolbox:
    """The tools of all servers as one list, and the mapping from a name in it to a server.

    Args:
        clients: the servers by name.
        prefix: the names that get a server prefix.
        servers: all servers of the file, including those that are not connected.
        is_coming_back: returns True for a server that will be connected again: its latest tools are still listed.
        report: called with the name of each server that was asked, and the reason if it could not be listed.
    """

    _clients: Mapping[str, Client]
    _prefix: Prefix
    _servers: Collection[str]
    _is_coming_back: Callable[[str], bool]
    _report: Callable[[str, Exception | None], None]
    _latest: dict[str, list[types.Tool]] = field(factory=dict[str, list[types.Tool]], init=False)
    """The latest tools of each server."""
    _listed: Sequence[ServerTool] | None = field(default=None, init=False)
    _found: Mapping[str, ServerTool] = field(factory=dict[str, ServerTool], init=False)
    """The tools by unique name, and by ``server__name`` unless that is the name of another tool."""
    _refreshing: trio.Lock = field(factory=trio.Lock, init=False)

    async def refresh(self, *, fresh: bool = False) -> Sequence[ServerTool]:
        """Ask every server for its tools, all at once; a server that cannot answer is reported and left out.

        Args:
            fresh: ask also servers whose lists are cached.
        """
        offered: dict[str, list[types.Tool]] = {}
        jobs = [partial(self._refresh_one, name, client, offered, fresh) for name, client in self._clients.items()]
        await run_all(jobs, log=_log)
        tools: dict[Offer, types.Tool] = {}
        for server in self._servers:  # in the file's order
            for tool in self._tools_of(server, offered):
                tools.setdefault((server, tool.name), tool)  # of a name that a server lists twice, the first counts
        names = assign_names(tools, prefix=self._prefix, servers=self._servers)
        listed = {offer: ServerTool(names[offer], offer[0], tool) for offer, tool in tools.items()}
        qualified = Counter(map(qualified_name, listed))
        self._found = {
            **{name: each for offer, each in listed.items() if qualified[name := qualified_name(offer)] == 1},
            **{each.name: each for each in listed.values()},
        }
        self._listed = tuple(listed.values())
        return self._listed

    def _tools_of(self, server: str, offered: Mapping[str, list[types.Tool]]) -> Sequence[types.Tool]:
        if server in offered:
            self._latest[server] = offered[server]
        elif not self._is_coming_back(server):
            self._latest.pop(server, None)
        return self._latest.get(server, ())

    async def _refresh_one(self, name: str, client: Client, offered: dict[str, list[types.Tool]], fresh: bool) -> None:
        try:
            offered[name] = [tool async for tool in client.tools(fresh=fresh)]
        except Exception as exc:  # noqa: BLE001 # reported
            self._report(name, exc)
            return
        self._report(name, None)

    def iterate(self) -> AsyncIterator[ServerTool]:
        """Return an iterator that asks the servers when it is first used."""
        return _ToolIterator(self)

    async def find(self, name: str) -> ServerTool:
        """Return the tool called *name*; if it is unknown, ask the servers again.

        Raises:
            KeyError: there is no such tool.
        """
        if name not in self._found:
            known = self._listed
            async with self._refreshing:
                if self._listed is known:  # else another task has just asked
                    await self.refresh(fresh=True)
        if name not in self._found:
            raise KeyError(self._missing(name))
        return self._found[name]

    def _missing(self, name: str) -> str:
        assert self._listed is not None
        meant = [each for each in self._listed if each.tool.name == name]
        match meant:
            case []:
                return f"no server has a tool {name!r}{did_you_mean(name, self._found)}"
            case [one]:
                return f"the tool {name!r} of server {one.server!r} is called {one.name!r} here"
            case _:
                return f"several servers have a tool {name!r}: {', '.join(each.name for each in meant)}"


@define(eq=False)
class _ToolIterator(AsyncForOnly, AsyncIterator[ServerTool]):
    """An iterator over tools. It is not an async generator, so that it may continue after a cancellation."""

    _usage = "async for tool in clients.tools()"

    _toolbox: Toolbox
    _items: deque[ServerTool] | None = field(default=None, init=False)

    async def __anext__(self) -> ServerTool:
        if self._items is None:
            self._items = deque(await self._toolbox.refresh())
        if not self._items:
            raise StopAsyncIteration
        return self._items.popleft()


_LOGGED_CHARACTERS = 1000
"""The number of characters of a server's message that are logged."""


@define(eq=False, repr=False)
class Clients(ForeignAttributes, Mapping[str, Client]):
    """The servers of an ``mcpServers`` file, by name. Create it with `open_clients` or `start_clients`.

    It is a mapping of the connected servers in the file's order: ``clients["weather"]`` is a `Client`. If its
    connection is lost later, its calls fail; the others are not affected. With ``restart=`` a new client takes its
    place when the server is back; otherwise it stays. Everything here may be used from any number of tasks at once.
    """

    _table: ServerTable
    _prefix: Prefix
    _restart: Restart | None
    _servers: dict[str, SupervisedServer] = field(factory=dict[str, SupervisedServer], init=False)
    """The enabled servers, in the file's order."""
    _failed: dict[str, Exception] = field(factory=dict[str, Exception], init=False)
    _toolbox: Toolbox = field(init=False)
    _closing: trio.Event = field(factory=trio.Event, init=False)
    _closed: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        every = (*self.names, *self.disabled)
        self._toolbox = Toolbox(self, self._prefix, every, self._is_coming_back, self._note_outcome)

    def __getitem__(self, name: str) -> Client:
        client = self._servers[name].client if name in self._servers else None
        if client is not None:
            return client
        if name in self._failed:
            raise KeyError(f"server {name!r} has failed; see `failed` for the reason") from self._failed[name]
        if name in self._servers:
            raise KeyError(f"server {name!r} is not connected: it is {self._servers[name].status.state}")
        raise self._unknown(name)

    def _server(self, name: str) -> SupervisedServer:
        if name not in self._servers:
            raise self._unknown(name)
        return self._servers[name]

    def _unknown(self, name: str) -> KeyError:
        if name in self.disabled:
            return KeyError(f"server {name!r} is disabled in {self._table.where}")
        return KeyError(f"{self._table.where} has no server {name!r}; it has {', '.join(self.names) or 'none'}")

    def __iter__(self) -> Iterator[str]:
        return (name for name, server in self._servers.items() if server.client is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Clients of {self._table.where}: connected {[*self]}, failed {[*self._failed]}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the enabled servers, in the file's order, connected or not."""
        return tuple(self._table.entries)

    @property
    def disabled(self) -> tuple[str, ...]:
        """The names of the servers that the file disables."""
        return self._table.disabled

    @property
    def failed(self) -> Mapping[str, Exception]:
        """The failures by server: the reason why it could not connect, or could not list its tools the last time.

        `ServerExited` contains the last lines written to standard error, `OSError` names a program that cannot be
        started, `ConnectionBroken` a URL that cannot be reached, `ValueError` an invalid member of the file,
        `RequestTimedOut` the time limit.
        """
        return MappingProxyType(self._failed)

    @property
    def status(self) -> Mapping[str, ServerStatus]:
        """The state of each enabled server, in the file's order: a snapshot."""
        return {name: server.status for name, server in self._servers.items()}

    async def restart(self, name: str) -> Client:
        """Close the connection to the server *name*, if there is one, and connect again at once; return the new client.

        A process is ended and started again. Calls in flight raise `ConnectionClosed`; others wait for the new
        connection.

        Raises:
            KeyError: the file has no such server, or disables it.
            ConnectionBroken: the server could not be connected; the failure is the cause, and is in `failed`.
            ConnectionClosed: the clients were closed.
        """
        self._check_open()
        return await self._server(name).restart()

    def tools(self) -> AsyncIterator[ServerTool]:
        """Iterate over all tools of all servers, in the file's order; see `open_clients` for their names.

        The first step asks every server, all at once. A server that cannot answer is left out and logged, and is in
        `failed` until it can. While a server is connected again (``restart=``), its latest tools are listed.

        Raises:
            ConnectionClosed: the clients were closed.
        """
        self._check_open()
        return self._toolbox.iterate()

    async def find_tool(self, name: str) -> ServerTool:
        """Return the tool that `tools` calls *name*; ``server__name`` is accepted also for unique names.

        The servers are asked for their tools if they have not been asked yet, and again if no listed tool is called
        *name*.

        Raises:
            KeyError: no server has such a tool, or several have.
            ConnectionClosed: the clients were closed.
        """
        self._check_open()
        return await self._toolbox.find(name)

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: None = None,
        on_progress: OnProgress | None = None,
        raise_on_error: bool = False,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> types.CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[R],
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> R: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: object,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> Any: ...
    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call the tool that `find_tool` finds, on its server; otherwise as `Client.call_tool`, with its options.

        Raises:
            KeyError: no server has such a tool, or several have.
            ConnectionBroken: the server of the tool is not connected, and the latest attempt to connect has failed.
        """
        found = await self.find_tool(name)
        client = await self._servers[found.server].connected()
        return await client.call_tool(found.tool.name, arguments, **options)

    @async_block("async with clients.listen(...) as changes:")
    async def listen(
        self,
        server: str,
        *,
        tools: bool = False,
        prompts: bool = False,
        resource_list: bool = False,
        resources: Sequence[str] = (),
    ) -> AsyncGenerator[ServerChanges]:
        """Receive changes on one server for as long as the block lasts, as with `Client.listen`.

        With ``restart=`` the changes go on when the server was connected again: then everything that it agrees to
        report counts as changed. Otherwise, and where no further attempt to connect follows, the iteration raises why
        the connection was lost.

        Args:
            server: the server's name in the file. If it is not connected, the block begins when it is.
            tools: as of `Client.listen`.
            prompts: as of `Client.listen`.
            resource_list: as of `Client.listen`.
            resources: as of `Client.listen`.

        Raises:
            KeyError: the file has no such server, or disables it.
            ConnectionBroken: the server is not connected, and no further attempt follows.
            Exception: any exception of `Client.listen`.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
        """
        self._check_open()

        def listen(client: Client) -> AbstractAsyncContextManager[Changes]:
            return client.listen(tools=tools, prompts=prompts, resource_list=resource_list, resources=resources)

        changes = ServerChanges(self._server(server), listen)
        await changes.begin()
        try:
            yield changes
        finally:
            await changes.end()

    def skills(self) -> AsyncIterator[ClientSkill]:
        """Iterate over all skills of all servers, one server after the other, in the file's order; see `Client.skills`.

        `ClientSkill.server` is the name of the server in the file. A server that cannot answer is left out and logged,
        and is in `failed` until it can.

        Raises:
            ConnectionClosed: the clients were closed.

        Specification: https://modelcontextprotocol.io/extensions/skills/overview
        """
        self._check_open()
        found: AsyncIterator[ClientSkill] = load_capability("skills").list_skills_of_many(self, self._note_outcome)
        return found

    async def aclose(self) -> None:
        """Close all connections, all at once: from any task, any number of times.

        If cancelled, they close all the same.
        """
        self._closing.set()
        await self._closed.wait()

    async def _run(
        self,
        options: Mapping[str, ClientOptions],
        auths: Mapping[str, ClientAuth | None],
        *,
        task_status: trio.TaskStatus[Clients] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Connect, report when every server has connected or failed, and keep the connections until they are closed.

        Called by the openers, once.
        """
        try:
            async with owned_nursery() as nursery:
                for name in self.names:
                    start = partial(self._start, name, options[name], auths[name])
                    report = partial(self._note_outcome, name)
                    self._servers[name] = SupervisedServer(name, start, self._restart, report)
                    nursery.start_soon(self._servers[name].run)
                for server in self._servers.values():
                    await server.tried.wait()
                task_status.started(self)
                await self._closing.wait()
                async with trio.open_nursery() as closing:
                    for server in self._servers.values():
                        closing.start_soon(server.aclose)
        finally:
            self._closing.set()
            self._closed.set()

    async def _start(self, name: str, options: ClientOptions, auth: ClientAuth | None, nursery: trio.Nursery) -> Client:
        opener = self._table.opener(name, auth=auth, stderr=options.get("stderr"))
        return await start_client(nursery, opener, **options)

    def _is_coming_back(self, name: str) -> bool:
        return name in self._servers and self._servers[name].is_coming_back

    def _note_outcome(self, name: str, failure: Exception | None) -> None:
        if failure is None:
            self._failed.pop(name, None)
            return
        if self._closing.is_set():
            return  # not a failure: this side closes the connection
        self._failed[name] = failure
        expected = isinstance(failure, TrioMcpError | OSError | ValueError)
        message = _printable(failure)
        _log.warning("server %r of %s: %s", name, self._table.where, message, exc_info=None if expected else failure)

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise ConnectionClosed("the clients were closed")


@async_block("async with open_clients(...) as clients:")
async def open_clients(
    source: TableSource,
    *,
    prefix: Prefix = "clashes",
    restart: Restart | None = None,
    options_for: Callable[[str], ClientOptions | None] | None = None,
    auth_for: Callable[[str], ClientAuth | None] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Clients]:
    """Connect to all servers of an ``mcpServers`` file at once, for as long as the block lasts.

    The block begins when each server has connected or failed; `TimeLimits.connect` bounds that time. A server that
    fails is logged and is in `Clients.failed`; this function does not raise its exception, even
    if all servers fail. An exception of the block is raised unwrapped. Leave the block in the task that entered it,
    innermost first; where that is too strict, use `start_clients`.

    Names of tools: a name that one server offers is kept. A name that several servers offer becomes ``server__name``
    for each of them, and so does a name that begins with the name of another server of
    the file and ``__``; in the server's part, characters other than ``A-Z a-z 0-9 _ -`` become ``_``. If the result has
    more than 64 characters, or is the name of another tool, it ends in a digest of both names.

    Args:
        source: the path of the file, or its contents: an object with the member ``mcpServers`` or, as in Visual Studio
            Code, ``servers``. Each entry has ``command``, ``args``, ``env`` and ``cwd``, or ``url`` and ``headers``, in
            which ``${VAR}`` and ``${VAR:-default}`` stand for environment variables of this process. Entries with
            ``"disabled": true`` are skipped. Unknown members of an entry are ignored, and named in one logged warning.
        prefix: ``"always"`` makes every tool's name ``server__name``, so that a name does not depend on the other
            servers.
        restart: connect again to a server whose connection is lost, or could not be opened, after a pause: a process is
            started again. Calls of its tools wait meanwhile; those in flight fail. By default such a server is left
            alone. See `Clients.status`.
        options_for: returns more options for the server of that name, such as callbacks that know which server asks;
            None for no more.
        auth_for: returns the credentials for the server of that name (`OAuth`, `Bearer`), or None. Only servers with a
            ``url`` accept credentials.
        options: the options of every server; see `ClientOptions`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not JSON, or has no table of servers; or *prefix* or an option has an invalid value, or
            *options* contain the part of a `ResponseCache` for one server.
        TypeError: an option does not exist.
    """
    clients: Clients | None = None

    async def close() -> None:
        if clients is not None:  # None: starting has failed
            await clients.aclose()

    async with owned_nursery(close) as nursery:
        clients = await start_clients(
            nursery, source, prefix=prefix, restart=restart, options_for=options_for, auth_for=auth_for, **options
        )
        yield clients


async def start_clients(
    nursery: trio.Nursery,
    source: TableSource,
    *,
    prefix: Prefix = "clashes",
    restart: Restart | None = None,
    options_for: Callable[[str], ClientOptions | None] | None = None,
    auth_for: Callable[[str], ClientAuth | None] | None = None,
    **options: Unpack[ClientOptions],
) -> Clients:
    """Connect to all servers of an ``mcpServers`` file in a task of *nursery*, until `Clients.aclose` or its end.

    Takes the arguments of `open_clients`, and raises the same exceptions.
    """
    if restart is not None:
        check_class("restart", restart, Restart, "Restart(after=1.0)")
    if prefix not in get_args(Prefix):
        raise ValueError(f"prefix={prefix!r}: must be one of {', '.join(map(repr, get_args(Prefix)))}")
    clients = Clients(await read_server_table(source), prefix, restart)
    _check_function("options_for", options_for)
    _check_function("auth_for", auth_for)
    all_options = {name: _merged(options, name, options_for) for name in clients.names}
    for each in [options, *all_options.values()]:
        check_options(each)
    if isinstance(options.get("cache"), ServerCache):
        raise ValueError("cache=: a ServerCache is for one server; use options_for= to give each server its own")
    auths = {name: auth_for(name) if auth_for else None for name in clients.names}
    run = attrgetter("_run")(clients)  # it is no part of the interface
    started: Clients = await nursery.start(partial(run, all_options, auths), name="trio-mcp clients")
    return started


def _printable(failure: Exception) -> str:
    """Return the message of *failure* without characters that a server could use to forge lines of the log."""
    text = str(failure)
    if isinstance(failure, ServerExited):  # the lines from standard error are indented, and stay lines
        return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_LOGGED_CHARACTERS])
    return shown if len(text) <= _LOGGED_CHARACTERS else f"{shown} [...]"


def _check_function(option: str, function: object) -> None:
    if function is not None and not callable(function):
        cure = f"; for a dict by name, write {option}=table.get" if hasattr(function, "get") else ""
        kind = type(function).__name__
        raise TypeError(f"{option}: expected a function of the name of a server, and got {kind}{cure}")


def _merged(
    options: ClientOptions, name: str, options_for: Callable[[str], ClientOptions | None] | None
) -> ClientOptions:
    merged = options.copy()
    if options_for is not None and (more := options_for(name)) is not None:
        check_class(f"options_for({name!r})", more, dict, "{'on_log': on_log}")
        merged.update(more)
    return merged
