"""The tools of many servers as one list, and the way back from a name in it to the server."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial

import trio
from attrs import define, field, frozen

from .. import types
from .._errors import MissingCapability
from .._util import run_all
from ._client import Client
from ._many_names import Offer, Prefix, assign_names, qualified_name

__all__ = ["ServerTool", "Toolbox"]

_log = logging.getLogger("trio_mcp.client")


@frozen
class ServerTool:
    """A tool, and the server that has it."""

    name: str
    """Unique among the tools of all servers."""
    server: str
    """The server's name in the file."""
    tool: types.Tool
    """The tool as the server describes it, its name there included."""


@define(eq=False)
class Toolbox:
    """What the servers had to offer when they were last asked.

    Args:
        clients: the servers by name.
        prefix: which names get their server's in front.
        servers: all servers of the file, those included that are not there.
        report: told the name of each server that was asked, and why it could not be listed (None: it could).
    """

    _clients: Mapping[str, Client]
    _prefix: Prefix
    _servers: Collection[str]
    _report: Callable[[str, Exception | None], None]
    _listed: Sequence[ServerTool] | None = field(default=None, init=False)
    _found: Mapping[str, ServerTool] = field(factory=dict[str, ServerTool], init=False)
    """By unique name, and by ``server__name`` where that is not the name of another tool."""
    _asking: trio.Lock = field(factory=trio.Lock, init=False)

    async def ask(self, *, fresh: bool = False) -> Sequence[ServerTool]:
        """Ask every server for its tools, all at once; one that cannot answer is reported, and left out.

        Args:
            fresh: ask also those whose lists are kept.
        """
        offered: dict[str, list[types.Tool]] = {}
        jobs = [partial(self._ask_one, name, client, offered, fresh) for name, client in self._clients.items()]
        await run_all(jobs, log=_log)
        tools: dict[Offer, types.Tool] = {}
        for server in self._clients:  # in the file's order, whoever answered first
            for tool in offered.get(server, ()):
                tools.setdefault((server, tool.name), tool)  # a server that lists a name twice means the first
        names = assign_names(tools, prefix=self._prefix, servers=self._servers)
        listed = {offer: ServerTool(names[offer], offer[0], tool) for offer, tool in tools.items()}
        qualified = Counter(map(qualified_name, listed))
        self._found = {
            **{name: each for offer, each in listed.items() if qualified[name := qualified_name(offer)] == 1},
            **{each.name: each for each in listed.values()},
        }
        self._listed = tuple(listed.values())
        return self._listed

    async def _ask_one(self, name: str, client: Client, offered: dict[str, list[types.Tool]], fresh: bool) -> None:
        try:
            offered[name] = [tool async for tool in client.tools(fresh=fresh)]
        except MissingCapability:
            offered[name] = []  # a server without tools has not failed
        except Exception as exc:  # noqa: BLE001 # reported
            self._report(name, exc)
            return
        self._report(name, None)

    def walk(self) -> AsyncIterator[ServerTool]:
        """Return an iterator that asks when it is first used."""
        return _Walk(self)

    async def find(self, name: str) -> ServerTool:
        """Return the tool called *name*; where it is not known, the servers are asked (anew).

        Raises:
            KeyError: there is none.
        """
        if name not in self._found:
            known = self._listed
            async with self._asking:
                if self._listed is known:  # else another task has just asked
                    await self.ask(fresh=True)
        if name not in self._found:
            raise KeyError(self._missing(name))
        return self._found[name]

    def _missing(self, name: str) -> str:
        assert self._listed is not None
        meant = [each for each in self._listed if each.tool.name == name]
        match meant:
            case []:
                return f"no server has a tool {name!r}"
            case [one]:
                return f"the tool {name!r} of server {one.server!r} is called {one.name!r} here"
            case _:
                return f"several servers have a tool {name!r}: {', '.join(each.name for each in meant)}"


@define(eq=False)
class _Walk(AsyncIterator[ServerTool]):
    """Not an async generator: there is nothing to clean up, and one that was cancelled while it asked may go on."""

    _toolbox: Toolbox
    _items: deque[ServerTool] | None = field(default=None, init=False)

    async def __anext__(self) -> ServerTool:
        if self._items is None:
            self._items = deque(await self._toolbox.ask())
        if not self._items:
            raise StopAsyncIteration
        return self._items.popleft()
