"""Features of HTTP between our client and our server: mirrored arguments, and sessions that end with a restart."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from tests.client.http_origin import LEGACY, MODERN
from trio_mcp import Client, ListChanged, ResourceUpdated, Server, http_app, open_http_client, types
from trio_mcp.testing import AsgiEngine

URL = "http://localhost/mcp"
CONFIG = "file:///config.json"


def booking(field: str, *, name: str = "booking") -> Server:
    """Return a server whose only tool requires its argument in a header field, too."""
    server = Server(name)
    city = {"type": "string", "x-mcp-header": field}

    @server.tool(input_schema={"type": "object", "properties": {"city": city}, "required": ["city"]})
    def book(city: str) -> str:
        return f"{name}: a room in {city}"

    @server.resource(CONFIG)
    def config() -> str:
        return "{}"

    return server


@define(eq=False)
class Address:
    """An address at which a test can replace the server."""

    app: Any
    posts: list[dict[str, str]] = field(factory=list[dict[str, str]], init=False)
    """The header fields of each POST."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            self.posts.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.app(scope, receive, send)

    def values(self, field: str) -> list[str | None]:
        return [post.get(field) for post in self.posts if post.get("mcp-method") == "tools/call"]


async def book(client: Client, city: str) -> str:
    (block,) = (await client.call_tool("book", {"city": city})).content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_client_learns_from_a_refusal_which_arguments_the_server_requires_in_header_fields() -> None:
    first, second = http_app(booking("City")), http_app(booking("Town", name="newer"))
    address = Address(first)
    async with (
        first.run(),
        second.run(),
        open_http_client(URL, engine=AsgiEngine(address), revision=MODERN) as client,
    ):
        assert await book(client, "Zürich") == "booking: a room in Zürich"
        assert await book(client, "Bern") == "booking: a room in Bern"
        address.app = second
        assert await book(client, "Basel") == "newer: a room in Basel"

    encoded = "=?base64?WsO8cmljaA==?="
    assert address.values("mcp-param-city") == [None, encoded, "Bern", "Basel", None]
    assert address.values("mcp-param-town") == [None, None, None, None, "Basel"]


async def test_a_listening_client_continues_after_a_restart_of_the_server() -> None:
    before, after = booking("City"), booking("City", name="restarted")
    first, second = http_app(before), http_app(after)
    address = Address(first)
    async with (
        first.run(),
        second.run(),
        open_http_client(URL, engine=AsgiEngine(address), revision=LEGACY) as client,
        client.listen(tools=True, resources=[CONFIG]) as changes,
    ):
        before.resource_updated(CONFIG)
        assert await changes.__anext__() == ResourceUpdated(CONFIG)
        address.app = second
        await client.read_resource(CONFIG)
        assert [await changes.__anext__(), await changes.__anext__()] == [ListChanged("tools"), ResourceUpdated(CONFIG)]
        await wait_all_tasks_blocked()
        after.resource_updated(CONFIG)
        assert await changes.__anext__() == ResourceUpdated(CONFIG)
        assert await book(client, "Bern") == "restarted: a room in Bern"
