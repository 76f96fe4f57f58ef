"""A server by hand whose results may be kept, for the tests of the cache: it counts what it is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, Unpack

import trio
from attrs import define, field

from trio_mcp import Client, ClientOptions, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[..., Awaitable[Any]]


async def _read(client: Client, **options: Any) -> types.ReadResourceResult:
    return await client.read_resource("a:b", **options)


ASK: dict[str, Ask] = {
    "server/discover": Client.discover,
    "tools/list": Client.list_tools,
    "prompts/list": Client.list_prompts,
    "resources/list": Client.list_resources,
    "resources/templates/list": Client.list_resource_templates,
    "resources/read": _read,
}
"""How a client asks for what may be kept."""

MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "resources/read": "contents",
}


def hinted(method: str, ttl_ms: int = 10_000, scope: str = "private", **members: Any) -> Json:
    """Return a result of *method* that may be kept for so long."""
    empty: Json = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
    empty = {MEMBERS[method]: []} if method in MEMBERS else empty
    return {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": scope, **empty, **members}


@define(eq=False)
class Origin:
    """Answers every request, and knows how often it was asked."""

    reply: Callable[[str, Json], Json | int] = lambda method, _: hinted(method)
    """Takes a method and its params without `_meta`; returns a result, or the code of an error."""
    asked: list[tuple[str, Json]] = field(factory=list[tuple[str, Json]])

    def count(self, method: str) -> int:
        return sum(each == method for each, _ in self.asked)

    async def answer(self, peer: ScriptedPeer) -> None:
        """Answer until the client has gone. A request to listen is acknowledged."""
        while (request := await peer.receive()) is not None:
            if "id" not in request:
                continue
            params = dict(request.get("params", {}))
            params.pop("_meta", None)
            self.asked.append((request["method"], params))
            reply = self.reply(request["method"], params)
            if isinstance(reply, int):
                error = {"code": reply, "message": "no"}
                await peer.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            else:
                await peer.respond(request, reply)


@asynccontextmanager
async def connected(origin: Origin, **options: Unpack[ClientOptions]) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Connect a client to *origin*; what the probe is told may not be kept, and does not count."""
    async with open_scripted_server(**options) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(origin.answer, peer)
        yield client, peer
        nursery.cancel_scope.cancel()
