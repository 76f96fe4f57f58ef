"""A scripted server for the tests of the cache: its results are cacheable, and it counts its requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, Unpack

import trio
from attrs import define, field

from trio_mcp import Client, ClientOptions, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server

Json: TypeAlias = dict[str, Any]
RequestFunction: TypeAlias = Callable[..., Awaitable[Any]]


async def _read(client: Client, **options: Any) -> types.ReadResourceResult:
    return await client.read_resource("a:b", **options)


REQUESTS: dict[str, RequestFunction] = {
    "server/discover": Client.discover,
    "tools/list": Client.list_tools,
    "prompts/list": Client.list_prompts,
    "resources/list": Client.list_resources,
    "resources/templates/list": Client.list_resource_templates,
    "resources/read": _read,
}
"""The cacheable requests of a client, by method."""

MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "resources/read": "contents",
}


def cacheable(method: str, ttl_ms: int = 10_000, scope: str = "private", **members: Any) -> Json:
    """Return a result of *method* with cache hints."""
    empty: Json = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
    empty = {MEMBERS[method]: []} if method in MEMBERS else empty
    return {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": scope, **empty, **members}


@define(eq=False)
class CountingServer:
    """A server that answers every request and records it."""

    reply: Callable[[str, Json], Json | int] = lambda method, _: cacheable(method)
    """A function of the method and the params without `_meta` that returns a result or an error code."""
    requests: list[tuple[str, Json]] = field(factory=list[tuple[str, Json]])

    def count(self, method: str) -> int:
        return sum(each == method for each, _ in self.requests)

    async def answer(self, peer: ScriptedPeer) -> None:
        """Answer requests until the client disconnects."""
        while (request := await peer.receive()) is not None:
            if "id" not in request:
                continue
            params = dict(request.get("params", {}))
            params.pop("_meta", None)
            self.requests.append((request["method"], params))
            reply = self.reply(request["method"], params)
            if isinstance(reply, int):
                error = {"code": reply, "message": "no"}
                await peer.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            else:
                await peer.respond(request, reply)


@asynccontextmanager
async def connected(
    origin: CountingServer, **options: Unpack[ClientOptions]
) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Connect a client to *origin*, which does not record the probe; the answer to the probe is not cacheable."""
    async with open_scripted_server(**options) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(origin.answer, peer)
        yield client, peer
        nursery.cancel_scope.cancel()
