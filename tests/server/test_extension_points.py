"""The points at which packages add an extension to a server: parts of a serving, and filters for listeners."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from trio_mcp import Context, CustomChange, Server, open_client
from trio_mcp.lowlevel import ServerExtensionPoints, ServingPart
from trio_mcp.testing import open_memory_client

ROOMS = "com.example/rooms"
DECLARED: dict[str, dict[str, Any]] = {ROOMS: {}}


async def test_a_part_lives_as_long_as_its_serving_and_outlives_the_lifespan() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        events.append("lifespan begins")
        yield
        events.append("lifespan ends")

    @asynccontextmanager
    async def counter(server: Server, nursery: trio.Nursery) -> AsyncGenerator[list[str]]:
        events.append(f"part of {server.info.name} begins")
        nursery.start_soon(trio.sleep_forever)
        yield events
        events.append("part ends")

    server = Server("s", lifespan=lifespan)
    part = ServerExtensionPoints(server).add_part(counter)

    @server.tool
    async def note(ctx: Context) -> int:
        kept = part.of(ctx)
        assert kept is not None
        assert kept is events
        kept.append("called")
        return len(kept)

    async with open_client(server) as client:
        await client.call_tool("note", raise_on_error=True)

    assert events == ["part of s begins", "lifespan begins", "called", "lifespan ends", "part ends"]


async def test_a_part_that_was_added_too_late_is_not_there() -> None:
    server, parts = Server("s"), list[ServingPart[int]]()

    @asynccontextmanager
    async def nothing(_: Server, __: trio.Nursery) -> AsyncGenerator[int]:
        yield 1

    @server.tool
    async def find(ctx: Context) -> list[int | None]:
        return [part.of(ctx) for part in parts]

    parts.append(ServerExtensionPoints(server).add_part(nothing))
    async with open_client(server) as client:
        parts.append(ServerExtensionPoints(server).add_part(nothing))
        assert (await client.call_tool("find")).structured_content == {"result": [1, None]}


def make_server() -> Server:
    server = Server("s", extensions=DECLARED)

    @ServerExtensionPoints(server).listen_filter("rooms", extension=ROOMS)
    async def rooms(wanted: Sequence[str], _: Context) -> Sequence[str]:
        return [name for name in wanted if name != "secret"]

    return server


async def test_an_extension_reports_to_those_who_listen_and_the_newest_report_stands_for_earlier_ones() -> None:
    server = make_server()
    points = ServerExtensionPoints(server)
    async with (
        open_memory_client(server) as client,
        client.listen(custom={"rooms": ["hall", "secret"]}, extensions=DECLARED) as changes,
    ):
        assert changes.honored.custom == {"rooms": ["hall"]}
        points.notify_listeners("rooms", "secret", "notifications/com.example/rooms", {"room": "secret"})
        for people in range(3):
            points.notify_listeners(
                "rooms", "hall", "notifications/com.example/rooms", {"room": "hall", "people": people}
            )
        change = await anext(changes)
        assert isinstance(change, CustomChange)
        assert (change.member, change.method) == ("rooms", "notifications/com.example/rooms")
        assert {name: change.params[name] for name in ("room", "people")} == {"room": "hall", "people": 2}
        assert changes.skipped == 0


async def test_an_undeclared_filter_is_ignored_by_a_server_that_does_not_know_it() -> None:
    server = Server("s")
    server.tool(name="t")(lambda: "t")
    async with (
        open_memory_client(server) as client,
        client.listen(tools=True, custom={"rooms": ["hall"]}, extensions=DECLARED) as changes,
    ):
        assert changes.honored.custom == {}
        assert changes.honored.tools


async def test_listeners_of_legacy_revisions_get_no_reports_of_extensions() -> None:
    server = make_server()
    server.tool(name="t")(lambda: "t")
    async with open_memory_client(server, revision="2025-11-25") as client, client.listen(tools=True) as changes:
        await client.list_tools()  # the server has read the end of the handshake
        ServerExtensionPoints(server).notify_listeners("rooms", "hall", "notifications/com.example/rooms")
        server.tool(name="u")(lambda: "u")
        assert not isinstance(await anext(changes), CustomChange)


@pytest.mark.parametrize("member", ["rooms", "toolsListChanged"])
def test_a_filter_has_one_meaning(member: str) -> None:
    with pytest.raises(ValueError, match=f"listen filter '{member}': registered already"):
        ServerExtensionPoints(make_server()).listen_filter(member, extension=ROOMS)


def test_a_report_is_no_notification_of_the_specification() -> None:
    with pytest.raises(ValueError, match="defined by the specification"):
        ServerExtensionPoints(make_server()).notify_listeners("rooms", "hall", "notifications/progress")


async def test_a_single_string_is_no_list_of_strings_to_listen_for() -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(TypeError, match=r"custom\['rooms'\]='hall': expected a list of strings"):
            client.listen(custom={"rooms": "hall"})


async def test_a_request_declares_extensions_beside_those_of_the_client() -> None:
    server = make_server()
    seen: list[Any] = []

    @server.method("com.example/look", extension=ROOMS)
    async def look(ctx: Context) -> None:
        seen.append(ctx.client_capabilities.extensions)

    async with open_memory_client(server, extensions={"com.example/other": {"a": 1}}) as client:
        await client.request("com.example/look", None, dict, extensions={ROOMS: {"b": 2}})
        with pytest.raises(ValueError, match="extension id 'x'"):
            await client.request("com.example/look", None, dict, extensions={"x": {}})
    assert seen == [{"com.example/other": {"a": 1}, ROOMS: {"b": 2}}]
