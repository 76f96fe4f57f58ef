"""The tour: one conversation with everything that most programs use, for our client and for clients of other projects.

A server for it has the tools `add`, `count` (which reports progress), `ask` (which asks the user for a name) and
`fail`, the resource ``memo://one`` and the prompt `greet`. A client for it prints what it has seen as a JSON object.
Clients and servers in other languages and on other SDKs do the same, in ``python/`` and ``node/``.
"""

from __future__ import annotations

from typing import Any

from tests.peers.conftest import text_of
from trio_mcp import Client, types

__all__ = ["NAME", "SEEN", "answer_with_name", "tour"]

NAME = "Ada"
TOOLS = ["add", "ask", "count", "fail"]
SEEN = {
    "tools": TOOLS,
    "sum": 5,
    "progress": [1, 2, 3],
    "counted": "counted to 3",
    "asked": f"hello {NAME}",
    "failed": True,
    "memo": "one",
    "greeting": f"Greet {NAME}",
}
"""What every client sees on the tour."""


async def answer_with_name(question: types.ElicitRequestParams) -> types.ElicitResult:
    """Answer the question of `ask`, as the user would; servers give the only field of its form different names."""
    assert isinstance(question, types.ElicitRequestFormParams)
    return types.ElicitResult(action="accept", content=dict.fromkeys(question.requested_schema.properties, NAME))


async def tour(client: Client, *, asks: bool = True) -> dict[str, Any]:
    """Go on the tour with our client; return what it has seen.

    Args:
        client: connected to a server of the tour.
        asks: False if the server cannot ask the client, because it keeps no sessions; then `ask` is left out.
    """
    progress: list[float] = []

    async def note(update: Any) -> None:
        progress.append(update.progress)

    total = await client.call_tool("add", {"a": 2, "b": 3})
    content: Any = total.structured_content
    counted = await client.call_tool("count", {"to": 3}, on_progress=note)
    failed = await client.call_tool("fail")
    (memo,) = (await client.read_resource("memo://one")).contents
    (greeting,) = (await client.get_prompt("greet", {"name": NAME})).messages
    assert isinstance(counted.content[0], types.TextContent)
    assert isinstance(memo, types.TextResourceContents)
    assert isinstance(greeting.content, types.TextContent)
    seen = {
        "tools": sorted([tool.name async for tool in client.tools()]),
        "sum": content["result"],
        "progress": progress,
        "counted": counted.content[0].text,
        "failed": failed.is_error,
        "memo": memo.text,
        "greeting": greeting.content.text,
    }
    return seen | ({"asked": await text_of(client, "ask")} if asks else {})
