"""A server made with the official SDK that announces changes in both eras, run by that SDK's interpreter.

Usage: ``python official_server.py``, over standard input and output. Its tools make things change: `touch` a resource,
`grow` a list, or `finish` all subscriptions in order.
"""

from __future__ import annotations

import importlib
from typing import Any

# By name, because type checkers run where the official SDK is not installed.
anyio = importlib.import_module("anyio")
server_module = importlib.import_module("mcp.server")
stdio = importlib.import_module("mcp.server.stdio")
subscriptions = importlib.import_module("mcp.server.subscriptions")
types = importlib.import_module("mcp.types")

TOOLS = {"touch": ["uri"], "grow": ["kind"], "finish": [], "subscribed": []}
PUBLISHED = {
    "tools": subscriptions.ToolsListChanged,
    "prompts": subscriptions.PromptsListChanged,
    "resources": subscriptions.ResourcesListChanged,
}

bus = subscriptions.InMemorySubscriptionBus()
listening = subscriptions.ListenHandler(bus)
subscribed: list[str] = []
"""The current subscriptions of legacy clients."""


async def list_tools(_ctx: Any, _params: Any) -> Any:
    """The tools."""
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=name,
                input_schema={"type": "object", "properties": {each: {"type": "string"} for each in arguments}},
            )
            for name, arguments in TOOLS.items()
        ]
    )


async def list_resources(_ctx: Any, _params: Any) -> Any:
    """One resource, so that there are any."""
    return types.ListResourcesResult(resources=[types.Resource(uri="memo://one", name="one")])


async def list_prompts(_ctx: Any, _params: Any) -> Any:
    """No prompts so far."""
    return types.ListPromptsResult(prompts=[])


async def subscribe(_ctx: Any, params: Any) -> Any:
    """Remember a legacy subscription."""
    subscribed.append(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_ctx: Any, params: Any) -> Any:
    """Remove a legacy subscription."""
    subscribed.remove(str(params.uri))
    return types.EmptyResult()


async def call_tool(ctx: Any, params: Any) -> Any:
    """Change something, and notify the subscribers in the form of the era."""
    arguments: dict[str, str] = params.arguments or {}
    legacy = ctx.protocol_version < "2026"
    match params.name:
        case "touch" if not legacy:
            await bus.publish(subscriptions.ResourceUpdated(uri=arguments["uri"]))
        case "touch" if arguments["uri"] in subscribed:
            await ctx.session.send_resource_updated(arguments["uri"])
        case "grow" if not legacy:
            await bus.publish(PUBLISHED[arguments["kind"]]())
        case "grow":
            singular = arguments["kind"].removesuffix("s")
            await getattr(ctx.session, f"send_{singular}_list_changed")()
        case "finish":
            listening.close()
        case _:
            pass
    return types.CallToolResult(content=[types.TextContent(type="text", text=",".join(subscribed))])


server = server_module.Server(
    "official",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_prompts=list_prompts,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_subscriptions_listen=listening,
)


async def main() -> None:
    """Serve one client."""
    notification_options = server_module.NotificationOptions(
        prompts_changed=True, resources_changed=True, tools_changed=True
    )
    async with stdio.stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(notification_options))


if __name__ == "__main__":
    anyio.run(main)
