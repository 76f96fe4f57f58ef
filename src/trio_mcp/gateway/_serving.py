"""One serving of a gateway: its connections to the servers, and which of them answers a request.

Rules of this file:

1. Each mount has one connection for each key: None if all callers share it, the principal, or the caller's connection
   with its principal. Callers without authentication count as one principal.
2. What the gateway has registered itself is answered by itself, and precedes what servers offer.
3. A request that names what is unknown waits until each server was asked for its lists, and is refused then.
4. A method or notification that neither the specification nor the gateway knows belongs to the only server; if there
   are several, to the only one that declares an extension of the same vendor: the part of the name before the slash.
   It is refused if the mount restricts what is seen of the server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio
from attrs import define, evolve, field, frozen

from .. import (
    Access,
    Change,
    ChangeFilter,
    Context,
    CustomChange,
    McpError,
    ResourceUpdated,
    ToolError,
    TrioMcpError,
    types,
)
from ..lowlevel import IncomingRequest, Peer, ServerExtensionPoints
from ..wire import INVALID_PARAMS, JsonObject, decode, decoded, is_modern, is_object, json_text
from ._forward import SPECIFIED, ForwardedRequest, Resolve, Target, failure_of, given_params, resource_not_found
from ._merged import METHODS, Entry, MergedLists, Places
from ._mount import Mount
from ._results import with_public_uris
from ._search import FIND_TOOLS, USE_TOOL, found_tools, is_needed, query_of, search_tools, used_tool
from ._sessions import CallerSessions, GatewayCaller, SessionKey, principal_of
from ._tasks import TASK_IDS, TASK_METHODS, TASKS, TaskIds, check_takes_tasks, runs_only_as_task, takes_tasks
from ._turns import Turns
from ._upstream import ListKind, UpstreamClient

if TYPE_CHECKING:
    from ._gateway import Gateway

__all__ = ["GatewayServing"]

_SEARCH_TOOLS: Final = (FIND_TOOLS, USE_TOOL)
_USUAL: Final = frozenset({"name", "arguments", "_meta"})
"""The members of the params of the usual call."""
_NO_ARGUMENTS: Final[JsonObject] = {}
_MOST_MERGED: Final = 256
"""The number of merged lists that are kept; those of other callers are merged again when needed."""


_NOBODY: Final = GatewayCaller(None, None)
"""The caller of what no request causes."""


@frozen(eq=False)
class _Listened:
    """The resources and tasks that one subscription listens for on one server."""

    uris: dict[str, str] = field(factory=dict[str, str], init=False)
    """The URIs that the caller knows, by those of the server."""
    tasks: dict[str, str] = field(factory=dict[str, str], init=False)
    """The ids of tasks that the caller knows, by those of the server."""

    def add(self, agreed: ChangeFilter, honored: ChangeFilter) -> ChangeFilter:
        """Return *agreed* with what the server reports, as the caller knows it."""
        uris = [self.uris[uri] for uri in honored.resources if uri in self.uris]
        tasks = [self.tasks[id] for id in honored.custom.get(TASK_IDS, ()) if id in self.tasks]
        return ChangeFilter(
            resources=[*agreed.resources, *uris], custom={TASK_IDS: [*agreed.custom.get(TASK_IDS, ()), *tasks]}
        )


class _OwnEntry(Protocol):
    """A tool or prompt that the gateway itself has registered."""

    @property
    def definition(self) -> types.Tool | types.Prompt:
        """Its definition."""
        ...


class _OwnCatalog(Protocol):
    """The catalog of the tools or of the prompts that the gateway itself has registered."""

    @property
    def version(self) -> int:
        """Grows with each change."""
        ...

    def __iter__(self) -> Iterator[_OwnEntry]: ...

    def find(self, name: str, access: Access | None) -> _OwnEntry | None:
        """Return the entry of this name; None if there is none, or if it is hidden from the caller."""
        ...


@define(eq=False)
class GatewayServing:
    """A forwarder of the requests of one serving."""

    _gateway: Gateway
    _nursery: trio.Nursery
    _clients: dict[tuple[str, Hashable], UpstreamClient] = field(
        factory=dict[tuple[str, Hashable], UpstreamClient], init=False
    )
    """The connections, by the name of the mount and the key."""
    _turns: dict[str, Turns] = field(factory=dict[str, Turns], init=False)
    """The turns of the requests, by the name of the mount."""
    _sessions: CallerSessions = field(init=False)
    """The connections of callers that have servers of their own."""
    _task_ids: TaskIds = field(init=False)
    _tools: _OwnCatalog = field(init=False)
    """The catalog of the tools that the gateway itself has registered."""
    _prompts: _OwnCatalog = field(init=False)
    """The catalog of the prompts that the gateway itself has registered."""
    _places: Places = field(factory=Places, init=False)
    _merged: OrderedDict[tuple[object, ...], MergedLists] = field(
        factory=OrderedDict[tuple[object, ...], MergedLists], init=False
    )

    def __attrs_post_init__(self) -> None:
        self._task_ids = TaskIds(self._points)
        self._sessions = CallerSessions(self._gateway.limits.ask_seconds, self._disconnected)
        self._tools, self._prompts = self._gateway.tools.catalog, self._gateway.prompts.catalog

    @property
    def _points(self) -> ServerExtensionPoints:
        return ServerExtensionPoints(self._gateway)

    # --- Connections ---

    def begin(self) -> None:
        """Open the connections that all callers share."""
        for mount in self._gateway.mounts:
            self.mounted(mount)

    def mounted(self, mount: Mount) -> None:
        """Open the connection to a server, if all callers share it."""
        self._merged.clear()
        if mount.share == "all" and mount.at_start:
            self._client(mount, _NOBODY).begin()

    def unmounted(self, mount: Mount) -> None:
        """Close the connections to a server."""
        self._turns.pop(mount.name, None)
        for client in self.clients_of(mount):
            client.forget()
            for kind in client.lists:
                self._list_changed(client, kind)

    def clients_of(self, mount: Mount) -> Sequence[UpstreamClient]:
        """Return the connections to a server, the latest last."""
        return [client for client in self._clients.values() if client.mount is mount]

    def _key(self, mount: Mount, caller: GatewayCaller) -> Hashable:
        """Return the key of the connection of a caller to a server (rule 1)."""
        match mount.share:
            case "all":
                return None
            case "principal":
                return principal_of(caller.access)
            case _:
                assert caller.peer is not None
                return SessionKey(self._sessions.of(caller.peer, caller.context).number, principal_of(caller.access))

    def _disconnected(self, session: int) -> None:
        """Close what only the callers of one connection, which is gone, have used."""
        for client in list(self._clients.values()):
            if isinstance(client.key, SessionKey) and client.key.session == session:
                client.forget()

    def _client(self, mount: Mount, caller: GatewayCaller) -> UpstreamClient:
        """Return the connection of a caller to a server, which is made if need be."""
        key = self._key(mount, caller)
        client = self._clients.get((mount.name, key))
        if client is None:
            turns = self._turns.get(mount.name)
            if turns is None:
                turns = self._turns[mount.name] = Turns(mount)
            client = self._clients[mount.name, key] = UpstreamClient(
                mount, key, turns, self._gateway.info, self._nursery, self._task_ids, self._list_changed, self._closed
            )
            if mount.share == "session" and caller.peer is not None:
                client.calls.session = self._sessions.of(caller.peer, caller.context)
            self._merged.clear()
        if mount.share != "all":
            client.access = caller.access
        return client

    def _clients_for(self, caller: GatewayCaller) -> list[UpstreamClient]:
        """Return the connections of a caller, which are made if need be."""
        return [self._client(mount, caller) for mount in self._gateway.mounts]

    def _known_clients(self, caller: GatewayCaller) -> list[UpstreamClient]:
        """Return the connections of a caller that were made already: others have listed nothing yet."""
        known = (self._clients.get((mount.name, self._key(mount, caller))) for mount in self._gateway.mounts)
        return [client for client in known if client is not None]

    def _closed(self, client: UpstreamClient) -> None:
        """Forget a connection that was closed for good."""
        self._clients = {key: each for key, each in self._clients.items() if each is not client}
        self._places.forget(client)
        self._merged.clear()

    def _list_changed(self, client: UpstreamClient, kind: ListKind) -> None:
        before = dict(self._merged)
        self._merged.clear()
        self._places.tidy(client)

        def shown_to(access: Access | None) -> bool:
            if client.mount.share == "principal" and not _has_principal(client.key, access):
                return False
            return self._sees_change(before, kind, access)

        self._points.list_changed("resources" if kind == "templates" else kind, shown_to)

    def _sees_change(
        self, before: Mapping[tuple[object, ...], MergedLists], kind: ListKind, access: Access | None
    ) -> bool:
        """Return False if all that has changed in a list is hidden from a caller, as far as that is known."""
        mounts = self._gateway.mounts
        if any(mount.share == "session" for mount in mounts) or all(mount.visible is None for mount in mounts):
            return True
        caller = GatewayCaller(None, access)
        earlier = before.get(self._key_of(caller))
        if earlier is None:
            return True
        shown = [
            {each.public: each.definition for each in merged.visible(kind, access)}
            for merged in (earlier, self._lists_for(caller))
        ]
        return shown[0] != shown[1]

    def prepare(self) -> Callable[[], Awaitable[None]] | None:
        """Return a function that waits for the servers that are being connected to: what they declare matters."""
        attempts = [each.first_attempt for each in self._clients.values() if each.key is None]
        waits = [each for each in attempts if each is not None]
        return partial(_wait_for_all, waits) if waits else None

    # --- Merged lists ---

    def _lists_for(self, caller: GatewayCaller) -> MergedLists:
        """Return the merged lists of a caller, as far as they are known."""
        key = self._key_of(caller)
        merged = self._merged.get(key)
        if merged is None:
            merged = self._merged[key] = MergedLists(self._known_clients(caller), self._own_names(), self._places)
            if len(self._merged) > _MOST_MERGED:
                self._merged.popitem(last=False)
        return merged

    def _key_of(self, caller: GatewayCaller) -> tuple[object, ...]:
        """Return what the lists of a caller depend on, apart from what servers list."""
        connections = [self._key(mount, caller) for mount in self._gateway.mounts if mount.share != "all"]
        return (*self._own_versions, *connections)

    @property
    def _own_versions(self) -> tuple[int, int]:
        """The versions of what the gateway itself has registered.

        They are the key of the merged lists of all callers, if these share all connections.
        """
        return self._tools.version, self._prompts.version

    def _own_names(self) -> dict[ListKind, list[str]]:
        """Return the names of the tools and prompts that the gateway itself has registered."""
        return {
            "tools": [
                *(each.definition.name for each in self._tools),
                *(_SEARCH_TOOLS if self._gateway.search else ()),
            ],
            "prompts": [each.definition.name for each in self._prompts],
        }

    async def _settled(self, caller: GatewayCaller) -> MergedLists:
        """Return the lists of a caller when each server has listed what it has, or has failed to in time."""
        clients = self._clients_for(caller)
        waiting = [client for client in clients if client.is_unsettled]
        if not waiting:
            await trio.lowlevel.checkpoint()
            return self._lists_for(caller)
        with ExitStack() as stack:
            for client in clients:  # none is closed while the others are waited for
                stack.enter_context(client.in_use())
            async with trio.open_nursery() as nursery:
                for client in waiting:
                    nursery.start_soon(client.wait_listed)
            return self._lists_for(caller)

    # --- Requests ---

    def find_taskless(self, exchange: IncomingRequest) -> ForwardedRequest | None:
        """Return the responder of a call of the usual form: what most requests are, if all callers see the same."""
        params, facts = exchange.params, exchange.context
        if exchange.method != "tools/call" or params is None or not params.keys() <= _USUAL:
            return None
        name: Any = params.get("name")
        merged = self._merged.get(self._own_versions)
        if merged is None or type(name) is not str or type(params.get("arguments", _NO_ARGUMENTS)) is not dict:
            return None
        entry = merged.find("tools", name, facts.access)
        if entry is None or entry.client.modern is None or self._tools.find(name, facts.access) is not None:
            return None
        caller: Any = exchange.peer if facts.access is None else facts.access.principal
        return ForwardedRequest(exchange.method, params, self._target_of(params, merged, "tools", entry), caller)

    def find(
        self, exchange: IncomingRequest, params: Any
    ) -> ForwardedRequest | _ListResponder | _SearchResponder | None:
        """Return the responder of a request that servers answer; None for what the gateway answers itself."""
        method, gateway = exchange.method, self._gateway
        caller = GatewayCaller(exchange.peer, exchange.context.access, exchange.context)
        if method in METHODS:
            return _ListResponder(self, method, caller)
        if method == "tools/call" and gateway.search is not None and params.name in _SEARCH_TOOLS:
            return self._search_call(exchange, caller, params)
        if method == "tools/call" and self._tools.find(params.name, caller.access) is None:
            return self._forwarded(exchange, caller, "tools", params)
        if method == "prompts/get" and self._prompts.find(params.name, caller.access) is None:
            return self._forwarded(exchange, caller, "prompts", params)
        if method == "resources/read" and not gateway.resources.has(params.uri):
            resolve = partial(self._resource_target, exchange, caller, params.uri)
            return ForwardedRequest(method, given_params(exchange, params), resolve, caller.identity)
        if method == "completion/complete":
            return self._completion(exchange, caller, params)
        if method in TASK_METHODS:
            return self._task_request(exchange, caller) if exchange.context.modern else None
        return None if method in SPECIFIED else self._custom(exchange, caller, params)

    def _forwarded(
        self, exchange: IncomingRequest, caller: GatewayCaller, kind: ListKind, params: Any
    ) -> ForwardedRequest:
        given, merged = given_params(exchange, params), self._lists_for(caller)
        entry = merged.find(kind, params.name, caller.access)
        if entry is None:
            resolve = partial(self._named_target, given, caller, kind, params.name)
            return ForwardedRequest(exchange.method, given, resolve, caller.identity)
        may_ask = True
        if exchange.context.modern:  # then the gateway asks itself only for a legacy server
            server = entry.client.server
            client = None if server is None else server.client
            asks = entry.client.makes_tasks and not takes_tasks(exchange.context.capabilities)
            may_ask = client is None or asks or not is_modern(client.revision)
        target = self._target_of(given, merged, kind, entry)
        return ForwardedRequest(exchange.method, given, target, caller.identity, may_ask)

    def _custom(self, exchange: IncomingRequest, caller: GatewayCaller, params: Any) -> ForwardedRequest | None:
        """Return the responder of a request whose method only a server may know (rule 4)."""
        method = exchange.method
        client = None if self._points.has_method(method) else self._server_for(method, caller)
        if client is None:
            return None
        target = Target(client, {name: each for name, each in params.items() if name != "_meta"})
        return ForwardedRequest(method, params, target, caller.identity)

    def _server_for(self, method: str, caller: GatewayCaller) -> UpstreamClient | None:
        """Return the connection to the server that a custom method or notification belongs to; None if unknown."""
        mounts, vendor = self._gateway.mounts, method.partition("/")[0] + "/"
        if len(mounts) == 1:
            owners = [self._client(mounts[0], caller)]
        else:
            known = self._known_clients(caller)
            owners = [client for client in known if any(id.startswith(vendor) for id in client.extensions)]
        return owners[0] if len(owners) == 1 and owners[0].mount.shows_all else None

    async def notified(self, notification: IncomingRequest, params: Any) -> None:
        """Pass a notification of a caller on: a custom one, or that its roots have changed."""
        method, context = notification.method, notification.context
        caller = GatewayCaller(notification.peer, context.access, context)
        if method == "notifications/roots/list_changed":
            self._sessions.roots_changed(notification.peer)
            for client in self._known_clients(caller):
                await client.roots_changed()
        elif method not in SPECIFIED:
            owner = self._server_for(method, caller)
            if owner is not None:
                await owner.notify(method, params)

    def _task_request(self, exchange: IncomingRequest, caller: GatewayCaller) -> ForwardedRequest | None:
        """Return the responder of a request that names a task; None if it is not about a task of a server.

        Raises:
            McpError: the request does not declare tasks, or there is no such task.
        """
        given = exchange.params or {}
        found = self._task(given.get("taskId"), caller)
        if found is None and (TASKS in self._gateway.extensions or not self._any_makes_tasks):
            return None
        check_takes_tasks(exchange.context.capabilities)
        if found is None:
            raise McpError(INVALID_PARAMS, "there is no such task on the servers of this gateway")
        client, id = found
        finish = partial(self._task_state, client, caller)
        members = {name: each for name, each in given.items() if name == "inputResponses"}  # here, not of a retry
        target = Target(client, {**members, "taskId": id}, finish)
        return ForwardedRequest(exchange.method, given, target, caller.identity, may_ask=False)

    def _task_state(self, client: UpstreamClient, caller: GatewayCaller, state: JsonObject) -> JsonObject:
        """Return the state of a task as its caller gets it."""
        merged = self._lists_for(caller)
        if merged.has_shared_uris and "result" in state:
            outcome: Any = decoded(state["result"])
            if is_object(outcome):
                state = {**state, "result": with_public_uris(merged, client, outcome)}
        return client.tasks.passed(state, caller.access)

    @property
    def _any_makes_tasks(self) -> bool:
        return any(client.makes_tasks for client in self._clients.values())

    def _task(self, public: object, caller: GatewayCaller) -> tuple[UpstreamClient, str] | None:
        """Return the connection of a task and its id there; None if it is a task of no server of this caller."""
        found = self._task_ids.resolve(public, caller.access) if isinstance(public, str) else None
        mount = None if found is None else next((each for each in self._gateway.mounts if each.name == found[0]), None)
        if found is None or mount is None:
            return None
        return self._client(mount, caller), found[1]

    def _search_call(
        self, exchange: IncomingRequest, caller: GatewayCaller, params: Any
    ) -> ForwardedRequest | _SearchResponder:
        """Return the responder of a call of one of the two tools that stand for all others."""
        if params.name == FIND_TOOLS:
            return _SearchResponder(self, caller)
        given = given_params(exchange, params)
        resolve = partial(self._used_target, caller, params.arguments)
        return ForwardedRequest(exchange.method, given, resolve, caller.identity)

    async def _used_target(self, caller: GatewayCaller, arguments: Any) -> Target:
        used = used_tool(arguments)
        if used is None:
            raise ToolError(f"{USE_TOOL} takes the name of a tool, and its arguments as an object")
        name, inner = used
        merged = await self._settled(caller)
        entry = merged.find("tools", name, caller.access)
        if entry is None:
            raise ToolError(f"there is no tool {name!r}; {FIND_TOOLS} finds the names of tools")
        target = self._target_of({"arguments": inner}, merged, "tools", entry)
        return evolve(target, members={"name": entry.original, "arguments": inner, **target.members})

    async def search(self, caller: GatewayCaller, arguments: Any) -> JsonObject:
        """Return the result of a call of ``find_tools``."""
        assert self._gateway.search is not None
        query, at_most = query_of(self._gateway.search, arguments)
        merged = await self._settled(caller)
        return await found_tools(merged, list(merged.visible("tools", caller.access)), query, at_most)

    async def _named_target(self, given: JsonObject, caller: GatewayCaller, kind: ListKind, name: str) -> Target:
        merged = await self._settled(caller)
        entry = merged.find(kind, name, caller.access)
        if entry is None:
            raise McpError(INVALID_PARAMS, f"no {kind.removesuffix('s')} {name!r} on the servers of this gateway")
        return self._target_of(given, merged, kind, entry)

    @staticmethod
    def _target_of(given: JsonObject, merged: MergedLists, kind: ListKind, entry: Entry) -> Target:
        mount, target = entry.client.mount, entry.target
        if target is None:
            members = {} if entry.original == entry.public else {"name": entry.original}
            finish = partial(with_public_uris, merged, entry.client) if merged.has_shared_uris else None
            is_task = kind == "tools" and runs_only_as_task(entry.definition)
            target = entry.target = Target(entry.client, members, finish, is_task)
        if kind != "tools" or not mount.fix:
            return target
        arguments = mount.arguments(entry.client.fixed.get(entry.original, {}), given.get("arguments"))
        return target if arguments is None else evolve(target, members={**target.members, "arguments": arguments})

    async def _resource_target(self, exchange: IncomingRequest, caller: GatewayCaller, uri: str) -> Target:
        merged = await self._settled(caller)
        found = merged.resource(uri, caller.access)
        if found is None:
            found = self._only_server(merged, uri)
        if found is None:
            raise resource_not_found(uri, modern=exchange.context.modern)
        client, original = found
        if original == uri:
            return Target(client, {}, partial(with_public_uris, merged, client) if merged.has_shared_uris else None)
        return Target(client, {"uri": original}, partial(with_public_uris, merged, client))

    @staticmethod
    def _only_server(merged: MergedLists, uri: str) -> tuple[UpstreamClient, str] | None:
        """Return the server of a resource that no server lists, if only one server has resources and shows them all."""
        having = [client for client in merged.clients if client.offers_resources]
        if len(having) == 1 and having[0].mount.shows_all:
            return having[0], uri
        return None

    def _completion(self, exchange: IncomingRequest, caller: GatewayCaller, params: Any) -> ForwardedRequest | None:
        given, gateway = given_params(exchange, params), self._gateway
        ref: JsonObject = given["ref"]
        if "name" in ref:
            name: str = params.ref.name
            if self._prompts.find(name, caller.access) is not None:
                return None
            resolve: Resolve = partial(self._prompt_completion, caller, name, ref)
        else:
            uri: str = params.ref.uri
            if gateway.resources.templates.find(uri, caller.access) is not None:
                return None
            resolve = partial(self._template_completion, caller, uri, ref)
        return ForwardedRequest(exchange.method, given, resolve, caller.identity, may_ask=False)

    async def _prompt_completion(self, caller: GatewayCaller, name: str, ref: JsonObject) -> Target:
        target = await self._named_target({}, caller, "prompts", name)
        return Target(target.client, {"ref": {**ref, **target.members}})

    async def _template_completion(self, caller: GatewayCaller, uri: str, ref: JsonObject) -> Target:
        merged = await self._settled(caller)
        entry = merged.find("templates", uri, caller.access)
        if entry is None:
            raise McpError(INVALID_PARAMS, f"no resource template {uri!r} on the servers of this gateway")
        return Target(entry.client, {"ref": {**ref, "uri": entry.original}})

    def input_schema(self, tool: str, access: Access | None) -> JsonObject | None:
        """Return the input schema of a tool; None if it is unknown, or depends on the connection of the caller."""
        if any(mount.share == "session" for mount in self._gateway.mounts):
            return None
        entry = self._lists_for(GatewayCaller(None, access)).find("tools", tool, access)
        return None if entry is None else entry.definition.input_schema

    # --- Lists ---

    async def page(self, method: str, context: Context[Any], caller: GatewayCaller, cursor: str | None) -> JsonObject:
        """Return the page of a list that a request names."""
        kind, member = METHODS[method]
        merged = await self._settled(caller)
        revision, own = context.revision, self._own_page(method, context)
        search = self._gateway.search if kind == "tools" else None
        if search is not None:
            visible = list(merged.visible(kind, caller.access))
            if is_needed(search, merged, visible):
                stand_ins = [*(own or ()), *search_tools(search, len(visible))]
                shown, following = self._gateway.page(method, enumerate(stand_ins), cursor)
                return {member: shown} if following is None else {member: shown, "nextCursor": following}
        if self._gateway.page_size is None and cursor is None and own is None and not merged.varies:
            if (kind, revision) not in merged.pages:
                joined = b",".join(bytes(entry.json(revision)) for entry in merged.entries[kind])
                merged.pages[kind, revision] = json_text(b"[" + joined + b"]")
            result: JsonObject = {member: merged.pages[kind, revision]}
        else:
            entries: list[tuple[int, Any]] = list(enumerate(own or ()))
            entries += [
                (_FIRST_PLACE + entry.place, entry.json(revision)) for entry in merged.visible(kind, caller.access)
            ]
            shown, following = self._gateway.page(method, entries, cursor)
            result = {member: shown} if following is None else {member: shown, "nextCursor": following}
        if is_modern(revision) and (merged.varies or any(mount.share != "all" for mount in self._gateway.mounts)):
            result["cacheScope"] = "private"
        return result

    def _own_page(self, method: str, context: Context[Any]) -> list[Any] | None:
        """Return what the gateway itself lists; None if it has registered nothing of this kind."""
        own = self._gateway.own_list(method, context.revision, context.access)
        return None if own is None else decode(bytes(own)) if not isinstance(own, list) else own

    # --- Changes of resources and tasks ---

    @property
    def listen_members(self) -> Mapping[str, str]:
        """The member of the filter of `subscriptions/listen` for tasks, with their extension."""
        return {TASK_IDS: TASKS}

    @asynccontextmanager
    async def listening(
        self, wanted: ChangeFilter, peer: Peer, access: Access | None, changed: Callable[[Change], None]
    ) -> AsyncGenerator[ChangeFilter]:
        """Listen on the servers of these resources and tasks for as long as the block lasts; see `Forwarder`."""
        caller = GatewayCaller(peer, access)
        listened = await self._listened(wanted, caller)
        agreed = ChangeFilter()
        async with AsyncExitStack() as stack:
            for client, each in listened.items():
                report = partial(self._report, each, client, caller, changed)
                try:
                    honored = await stack.enter_async_context(client.listen(list(each.uris), list(each.tasks), report))
                except TrioMcpError as failure:
                    if len(listened) == 1 and each.uris:
                        raise failure_of(failure, client.mount.name, "resources/subscribe", modern=True) from failure
                    continue  # the acknowledgement says what is left
                agreed = each.add(agreed, honored)
            yield agreed

    async def _listened(self, wanted: ChangeFilter, caller: GatewayCaller) -> Mapping[UpstreamClient, _Listened]:
        listened = dict[UpstreamClient, _Listened]()
        for public in wanted.custom.get(TASK_IDS, ()):
            task = self._task(public, caller)
            if task is not None:
                listened.setdefault(task[0], _Listened()).tasks[task[1]] = public
        if wanted.resources:
            merged = await self._settled(caller)
            for uri in wanted.resources:
                found = merged.resource(uri, caller.access) or self._only_server(merged, uri)
                if found is not None:
                    listened.setdefault(found[0], _Listened()).uris[found[1]] = uri
        return listened

    def _report(
        self,
        listened: _Listened,
        client: UpstreamClient,
        caller: GatewayCaller,
        changed: Callable[[Change], None],
        change: Change,
    ) -> None:
        if isinstance(change, ResourceUpdated):
            changed(ResourceUpdated(listened.uris.get(change.uri, change.uri)))
        elif isinstance(change, CustomChange) and change.params.get("taskId") in listened.tasks:
            told = {name: each for name, each in change.params.items() if name != "_meta"}  # it is of this connection
            state = self._task_state(client, caller, told)
            changed(CustomChange(TASK_IDS, state["taskId"], change.method, state))


_FIRST_PLACE: Final = 2**32
"""The place of the first entry of a server, behind what the gateway itself lists."""


async def _wait_for_all(waits: Sequence[Callable[[], Awaitable[None]]]) -> None:
    async with trio.open_nursery() as nursery:
        for wait in waits:
            nursery.start_soon(wait)


def _has_principal(key: Hashable, access: Access | None) -> bool:
    return principal_of(access) == key


@frozen(eq=False)
class _SearchResponder:
    """Answers a call of ``find_tools``."""

    _serving: GatewayServing
    _caller: GatewayCaller
    waits: bool = field(default=True, init=False)
    may_ask: bool = field(default=False, init=False)

    async def call(self, context: Context[Any], params: Any) -> JsonObject:
        """Return the tools that fit the query."""
        del context
        return await self._serving.search(self._caller, params.arguments)


@frozen(eq=False)
class _ListResponder:
    """Answers a request for one of the lists."""

    _serving: GatewayServing
    _method: str
    _caller: GatewayCaller
    waits: bool = field(default=True, init=False)
    may_ask: bool = field(default=False, init=False)

    async def call(self, context: Context[Any], params: Any) -> JsonObject:
        """Return the page that the request names."""
        return await self._serving.page(self._method, context, self._caller, params.cursor)
