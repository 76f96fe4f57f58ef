"""The gateway: a server that stands for many others.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/architecture
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, get_args

import trio
from attrs import evolve

from .. import Access, Restart, Server, types
from ..abc import Direction
from ..lowlevel import ServerExtensionPoints, ServingPart
from ..wire import JsonText
from ._merged import METHODS
from ._mount import Credentials, Edit, Mount, Share, Start, Visible, free_label, starts_of
from ._search import ToolSearch
from ._serving import GatewayServing
from ._status import Upstream, UpstreamStatus
from ._upstream import UpstreamClient

__all__ = ["Gateway"]


class Gateway(Server):
    """A server that stands for many others; it is served, tested and opened like any `Server`.

    ::

        desk = Gateway("desk", servers="mcp.json")
        desk.mount("https://example.com/mcp", prefix="crm", only=["find_*"])
        trio.run(partial(serve_http, desk, port=8000))

    Tools, prompts, resources and resource templates of all servers are listed together, and each request goes to the
    server that has what it names: progress, log messages, questions, cancellation and changes pass in both directions,
    whatever revisions both sides speak. Tools and prompts that are registered at the gateway itself precede those of
    the servers.

    Args:
        name: the name of the gateway.
        servers: the path of an ``mcpServers`` file, or its contents; each of its servers is mounted.
        search: lists two tools that find and use others, if there are more than fit into the context of a model.
        tap: called with the name of a server and each message to and from it; see `ClientOptions.tap`.
        options: as of `Server`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/architecture
    """

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        servers: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        search: ToolSearch | None = None,
        tap: Callable[[str, Direction, bytes], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, version=version, **options)
        self._visible: Visible | None = options.get("visible")
        self._upstreams: dict[str, Upstream] = {}
        self._mounts: tuple[Mount, ...] = ()
        self._active: list[GatewayServing] = []
        self._tap = tap
        self.search = search
        points = ServerExtensionPoints(self)
        part: ServingPart[Any] = points.add_part(self._open)
        points.forward(part)
        if servers is not None:
            self.mount(servers)

    @asynccontextmanager
    async def _open(self, _: Server, nursery: trio.Nursery) -> AsyncGenerator[GatewayServing]:
        serving = GatewayServing(self, nursery)
        self._active.append(serving)
        try:
            serving.begin()
            yield serving
        finally:
            self._active.remove(serving)

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the gateway declares: all that servers may have, and the extensions that they do."""
        own = super().capabilities
        extensions = {**self._extensions_of_servers(), **(own.extensions or {})}
        return evolve(
            own,
            completions={},
            tools=types.ToolsCapability(list_changed=True),
            prompts=types.PromptsCapability(list_changed=True),
            resources=types.ResourcesCapability(subscribe=True, list_changed=True),
            extensions=extensions or None,
        )

    def _extensions_of_servers(self) -> dict[str, Any]:
        declared: dict[str, Any] = {}
        for upstream in self._upstreams.values():
            for client in self._clients(upstream):
                for id, settings in client.extensions.items():
                    declared.setdefault(id, settings)
        return declared

    @property
    def mounts(self) -> Sequence[Mount]:
        """The terms of all servers, in the order in which they were mounted."""
        return self._mounts

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """The servers by name, in the order in which they were mounted."""
        return dict(self._upstreams)

    @property
    def status(self) -> Mapping[str, UpstreamStatus]:
        """The state of each server: a snapshot."""
        return {name: upstream.status for name, upstream in self._upstreams.items()}

    def mount(
        self,
        target: Any,
        *,
        name: str | None = None,
        prefix: str | None = None,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        fix: Mapping[str, Any] | None = None,
        edit: Edit | None = None,
        visible: Visible | None = None,
        share: Share = "all",
        auth: Credentials | None = None,
        restart: Restart | None = Restart(),  # noqa: B008 # frozen
        timeout: float | None = None,
        at_start: bool = True,
        idle: float | None = None,
        max_concurrency: int | None = None,
        per_second: float | None = None,
    ) -> Sequence[Upstream]:
        """Make a server, or each server of a file, a part of the gateway. It takes effect at once, also while served.

        Args:
            target: as of `open_client`: a URL, a command as a list, an entry of an ``mcpServers`` table, a `Server` of
                this process, or an `abc.TransportOpener`. Or the path of an ``mcpServers`` file, or its contents.
            name: the name of the server in the gateway; by default that in the file, the host of the URL, the program,
                or the name of the server in this process. With several servers, it precedes their names.
            prefix: tools and prompts are called ``prefix__name``; by default only where names clash.
            only: patterns (``"find_*"``) of the names of tools and prompts, and of the names or URIs of resources, that
                are shown; by default all.
            without: patterns of those that are not shown.
            rename: names of tools and prompts, by their names on the server.
            fix: arguments by name, which callers neither see nor choose.
            edit: a plain function that returns a tool with another description, title or annotations, or None to leave
                the tool out. If it raises an exception, that is logged, and the tools stay as they were before.
            visible: a plain function that decides whether a caller sees a tool, prompt, resource or template, given
                that and its `Access`, which is None without authentication; in addition to that of the gateway. If it
                raises an exception, that is logged, and the caller does not see it.
            share: the callers that share one connection to the server: ``"all"``, those of one ``"principal"``, or
                those of one ``"session"``, which is one connection to the gateway and ends with it. Over HTTP without
                sessions, the requests of one principal, or else of one address, count as one connection.
            auth: the credentials of the gateway at the server, or a plain function that returns those for a caller. It
                is called for each connection, with the `Access` of the caller, or with None if all callers share the
                connection. If it raises an exception, the connection fails. The tokens of callers are never passed on.
            restart: the pauses before a server that is gone is connected to again; None to leave it alone.
            timeout: the seconds within which the server must answer a request, from when it is sent; by default those
                of `TimeLimits`.
            at_start: connect when the gateway is served; otherwise when the server is first needed. Connections that
                not all callers share are always opened when they are first needed.
            idle: the seconds without a request or a subscription after which a connection is closed; by default never
                if all callers share it, and otherwise 300. The next request opens it again. Until then, the lists of a
                server that all callers share are known, for an hour.
            max_concurrency: the number of requests that the server works on at the same time, over all its connections;
                others wait. Those of callers take turns.
            per_second: the number of requests per second that are sent to the server, over all its connections; others
                wait. After a pause, those of one second may be sent at once. Neither limit applies to lists and
                subscriptions, which the gateway requests for all.

        Returns:
            The servers: one, or those of the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: a name is taken, or an option is out of range.
            TypeError: the target is of a type that cannot be connected to, or *edit* or *visible* is not a plain
                function.
        """
        _check_options(share, timeout, idle, max_concurrency, per_second, only, without)
        _check_functions(edit=edit, visible=visible)
        starts = self._named(starts_of(target), name)
        added: list[Upstream] = []
        for unique, start in starts.items():
            mount = Mount(
                name=unique,
                start=start,
                tap=None if self._tap is None else partial(self._tap, unique),
                label=free_label({each.label for each in self.mounts}, prefix or unique, unique),
                prefix=prefix,
                only=None if only is None else tuple(only),
                without=tuple(without),
                rename=dict(rename or {}),
                fix=dict(fix or {}),
                edit=edit,
                visible=_both(self._visible, visible),
                share=share,
                auth=auth,
                restart=restart,
                timeout=timeout,
                at_start=at_start,
                idle=idle,
                max_concurrency=max_concurrency,
                per_second=per_second,
            )
            upstream = self._upstreams[mount.name] = Upstream(mount, self._clients)
            self._mounts = (*self._mounts, mount)
            added.append(upstream)
            for serving in self._active:
                serving.mounted(mount)
        return tuple(added)

    def unmount(self, name: str) -> None:
        """Remove a server. Its connections are closed, and its calls in flight fail.

        Raises:
            KeyError: there is no server of this name.
        """
        upstream = self._upstreams.pop(name)
        self._mounts = tuple(mount for mount in self._mounts if mount is not upstream.mount)
        for serving in self._active:
            serving.unmounted(upstream.mount)

    def _named(self, starts: Mapping[str, Start], name: str | None) -> Mapping[str, Start]:
        """Return how to connect to new servers by the names that they get in the gateway; see `mount`."""
        if name is None and len(starts) == 1:
            return {self._free(given): start for given, start in starts.items()}
        if name is not None:
            starts = {name if len(starts) == 1 else f"{name}-{given}": start for given, start in starts.items()}
        for each in starts:
            if each in self._upstreams:
                raise ValueError(f"mount(): a server {each!r} is mounted already; choose another name=")
        return starts

    def _free(self, name: str) -> str:
        free, number = name, 2
        while free in self._upstreams:
            free, number = f"{name}-{number}", number + 1
        return free

    def _clients(self, upstream: Upstream) -> Sequence[UpstreamClient]:
        return [client for serving in self._active for client in serving.clients_of(upstream.mount)]

    def own_list(self, method: str, revision: str, access: Access | None) -> JsonText | list[Any] | None:
        """Return the entries that the gateway itself has registered of one kind; None if it never had any.

        Args:
            method: the method that lists them, such as ``tools/list``.
            revision: the protocol revision in which they are returned.
            access: the authenticated caller, who gets the visible ones; None without authentication.
        """
        catalog: Any = {
            "tools/list": self.tools.catalog,
            "prompts/list": self.prompts.catalog,
            "resources/list": self.resources.catalog,
            "resources/templates/list": self.resources.templates,
        }[method]
        if not catalog.offered:
            return None
        _, member = METHODS[method]
        page: Mapping[str, Any] = catalog.page(revision, None, None, None, access)
        entries: JsonText | list[Any] = page[member]
        return entries


def _both(first: Visible | None, second: Visible | None) -> Visible | None:
    """Return the function that shows what both functions show."""
    if first is None or second is None:
        return first or second
    return lambda entry, access: first(entry, access) and second(entry, access)


def _check_functions(**functions: object) -> None:
    for name, function in functions.items():
        if function is not None and (not callable(function) or inspect.iscoroutinefunction(function)):
            raise TypeError(f"mount({name}={function!r}): must be a plain function")


def _check_options(
    share: object,
    timeout: object,
    idle: object,
    max_concurrency: object,
    per_second: object,
    only: object,
    without: object,
) -> None:
    if share not in get_args(Share):
        raise ValueError(f"mount(share={share!r}): must be one of {', '.join(map(repr, get_args(Share)))}")
    numbers = {"timeout": timeout, "idle": idle, "per_second": per_second}
    for name, number in numbers.items():
        if number is not None and (not isinstance(number, int | float) or not 0 < number < math.inf):
            raise ValueError(f"mount({name}={number!r}): must be a number above 0")
    if max_concurrency is not None and (type(max_concurrency) is not int or max_concurrency < 1):
        raise ValueError(f"mount(max_concurrency={max_concurrency!r}): must be an integer of at least 1")
    for name, patterns in (("only", only), ("without", without)):
        if isinstance(patterns, str):
            raise ValueError(f"mount({name}={patterns!r}): must be a list of patterns, such as [{patterns!r}]")
