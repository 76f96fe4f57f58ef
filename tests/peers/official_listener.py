"""The official SDK's client as a listener, run by the interpreter of that SDK.

Usage: ``python official_listener.py MODE SERVER...``. MODE is the mode of the official `Client` ("auto" or "legacy"),
SERVER is a URL or the command that starts the server. The program listens for all lists and for ``memo://one``, changes
all of them and ``memo://two``, stops listening, changes the first memo again, and prints as JSON the changes that it
received.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import warnings
from typing import Any

# By name, because type checkers run where the official SDK is not installed.
mcp = importlib.import_module("mcp")

SUBSCRIBED, UNSUBSCRIBED = "memo://one", "memo://two"
KINDS = ("tools", "prompts", "resources")


def named(event: Any) -> str:
    """The name of an event or a notification in one word."""
    params = getattr(event, "params", None)
    uri = getattr(event, "uri", None) or getattr(params, "uri", None)
    return f"{type(event).__name__.removesuffix('Notification')} {uri or ''}".strip()


async def change_all(client: Any) -> None:
    """Change everything, first the resource without a subscription."""
    await client.call_tool("touch", {"uri": UNSUBSCRIBED})
    for kind in KINDS:
        await client.call_tool("grow", {"kind": kind})
    await client.call_tool("touch", {"uri": SUBSCRIBED})


async def listen(client: Any) -> dict[str, Any]:
    """Listen in the modern era twice: ended by the client and, if it can be told to, ended by the server."""
    kinds: dict[str, Any] = {f"{kind}_list_changed": True for kind in KINDS}
    async with client.listen(**kinds, resource_subscriptions=[SUBSCRIBED]) as changes:
        honored = changes.honored.model_dump(mode="json", by_alias=True, exclude_none=True)
        await change_all(client)
        received = [named(await anext(changes)) for _ in range(4)]
    await client.call_tool("touch", {"uri": SUBSCRIBED})
    if "finish" not in {tool.name for tool in (await client.list_tools()).tools}:
        return {"honored": honored, "received": received, "again": []}
    async with client.listen(resource_subscriptions=[SUBSCRIBED]) as changes:
        await client.call_tool("touch", {"uri": SUBSCRIBED})
        await client.call_tool("finish", {})
        again = [
            named(change) async for change in changes
        ]  # raises if the server did not end the subscription in order
    return {"honored": honored, "received": received, "again": again}


async def subscribe(client: Any, messages: asyncio.Queue[str]) -> dict[str, Any]:
    """Listen in the legacy era: to all list changes, and to subscribed resources."""
    await client.subscribe_resource(SUBSCRIBED)
    await change_all(client)
    received = [await messages.get() for _ in range(4)]
    await client.unsubscribe_resource(SUBSCRIBED)
    await client.call_tool("touch", {"uri": SUBSCRIBED})
    await client.call_tool("grow", {"kind": "tools"})
    return {"honored": None, "received": received, "again": [await messages.get()]}


async def main(mode: str, command: list[str]) -> dict[str, Any]:
    """Connect, listen, and return the report."""
    messages: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        messages.put_nowait(named(message))

    server = mcp.StdioServerParameters(command=command[0], args=command[1:])
    if command[0].startswith("http:"):
        server = command[0]
    async with mcp.Client(server, mode=mode, message_handler=on_message) as client:
        legacy = client.protocol_version < "2026"
        outcome = await (subscribe(client, messages) if legacy else listen(client))
        return {"revision": client.protocol_version} | outcome


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the SDK deprecates the legacy era
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
