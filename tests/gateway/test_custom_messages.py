"""Methods, notifications and result types that only the servers behind a gateway know."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import define, field

from tests.gateway.helpers import ERAS, LEGACY, MODERN, Way, front, opened, server_of
from trio_mcp import Client, Context, ErrorResponse, Extension, ExtensionResult, McpError, Server, open_client, types
from trio_mcp.gateway import Gateway

ROOMS = "com.example/rooms"
DECLARED: dict[str, dict[str, Any]] = {ROOMS: {}}
in_all_eras = pytest.mark.parametrize("way", [*ERAS, Way(MODERN, MODERN, down_by="http")], ids=str)


@define(eq=False)
class Rooms:
    """A server with an extension of its own, and what it was told."""

    told: list[Any] = field(factory=list[Any])
    _more: trio.Event = field(factory=trio.Event)

    def server(self, revision: str, name: str = "rooms", extension: str = ROOMS) -> Server:
        vendor = extension.partition("/")[0]
        server = server_of(revision, name, extensions={extension: {"most": 3}})

        @server.method(f"{vendor}/rooms/list")
        async def list_rooms(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
            return {"rooms": [name], "given": params, "mine": ctx.meta.get("mine")}

        @server.method(f"{vendor}/rooms/refuse")
        async def refuse() -> dict[str, Any]:
            raise McpError(-32000, "no rooms", {"left": 0})

        @server.notification(f"{vendor}/rooms/entered")
        async def entered(params: dict[str, Any]) -> None:
            self.told.append(params)
            self._more.set()
            self._more = trio.Event()

        return server

    async def received(self, number: int) -> list[Any]:
        """Return what it was told, when it was told so much."""
        with trio.fail_after(60):
            while len(self.told) < number:
                await self._more.wait()
        return self.told


async def listed(client: Client, method: str = "com.example/rooms/list") -> Any:
    return await client.request(method, {"floor": 1, "_meta": {"mine": 7}}, dict)


@in_all_eras
async def test_a_method_that_only_the_server_knows_passes(way: Way) -> None:
    async with opened(front(Rooms().server(way.upstream)), way, extensions=DECLARED) as client:
        answer = await listed(client)
        assert {name: answer[name] for name in ("rooms", "given", "mine")} == {
            "rooms": ["rooms"],
            "given": {"floor": 1},
            "mine": 7,
        }
        assert ("resultType" in answer) == way.is_modern
        with pytest.raises(ErrorResponse) as refusal:
            await client.request("com.example/rooms/refuse", None, dict)
        assert (refusal.value.code, refusal.value.message, refusal.value.data) == (-32000, "no rooms", {"left": 0})
        with pytest.raises(ErrorResponse) as unknown:
            await client.request("com.example/rooms/leave", None, dict)
        assert unknown.value.code == -32601


@in_all_eras
async def test_custom_notifications_of_a_caller_pass_in_order(way: Way) -> None:
    rooms = Rooms()
    async with opened(front(rooms.server(way.upstream)), way) as client:
        for number in range(20):
            await client.notify("com.example/rooms/entered", {"number": number})
        assert await rooms.received(20) == [{"number": number} for number in range(20)]


async def test_an_extension_is_declared_to_both_sides_and_its_result_types_pass() -> None:
    server, seen = Server("tickets", extensions=DECLARED), list[Any]()

    @server.tool
    async def order(ctx: Context) -> Any:
        seen.append(ctx.extension(ROOMS))
        return ExtensionResult(ROOMS, "com.example/ticket", {"ticket": "t-1"})

    async def resolve(_: Client, result: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": result["ticket"]}]}

    extension = Extension(ROOMS, result_types={"com.example/ticket": resolve}, result_methods={"tools/call"})
    async with open_client(front(server), extensions=[extension]) as client:
        assert client.extension(ROOMS) == {}
        assert (await client.call_tool("order")).content == [types.TextContent(text="t-1")]
    assert seen == [{}]


async def test_with_several_servers_the_vendor_of_the_method_names_the_server() -> None:
    first, second = Rooms(), Rooms()
    gateway = front(first.server(MODERN), second.server(MODERN, "halls", "acme/halls"), Server("plain"))
    async with open_client(gateway) as client:
        assert (await listed(client))["rooms"] == ["rooms"]
        assert (await listed(client, "acme/rooms/list"))["rooms"] == ["halls"]
        with pytest.raises(ErrorResponse) as refusal:
            await listed(client, "rooms/rooms/list")
        assert refusal.value.code == -32601
        await client.notify("rooms/rooms/entered")
        await client.notify("acme/rooms/entered", {"by": "ada"})
        assert await second.received(1) == [{"by": "ada"}]
    assert first.told == []


async def test_a_method_that_several_servers_may_know_is_refused() -> None:
    async with open_client(front(Rooms().server(MODERN), Rooms().server(MODERN, "more"))) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await listed(client)
        assert refusal.value.code == -32601


def everything(_: object, __: object) -> bool:
    return True


@pytest.mark.parametrize("option", ["only", "without", "visible"])
async def test_custom_messages_do_not_pass_to_a_server_of_which_only_a_part_is_seen(option: str) -> None:
    terms: dict[str, Any] = {"only": ["find_*"], "without": ["x"], "visible": everything}
    rooms, gateway = Rooms(), Gateway("gate")
    gateway.mount(rooms.server(MODERN), **{option: terms[option]})
    async with open_client(gateway) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await listed(client)
        assert refusal.value.code == -32601
        await client.notify("com.example/rooms/entered", {})
        await client.list_tools()
    assert rooms.told == []


async def test_what_the_gateway_itself_knows_does_not_pass() -> None:
    rooms, gateway, told = Rooms(), Gateway("gate"), list[Any]()
    gateway.mount(rooms.server(MODERN))

    @gateway.method("com.example/rooms/list")
    async def own_rooms() -> dict[str, Any]:
        return {"rooms": ["lobby"]}

    @gateway.notification("com.example/rooms/entered")
    async def own_entered(params: dict[str, Any]) -> None:
        told.append(params)

    async with open_client(gateway) as client:
        assert (await listed(client))["rooms"] == ["lobby"]
        await client.notify("com.example/rooms/entered", {"number": 1})
        await client.list_tools()
    assert (told, rooms.told) == ([{"number": 1}], [])


async def test_a_notification_to_a_server_that_is_gone_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway("gate")
    gateway.mount(fail_to_open, name="gone", restart=None)
    async with open_client(gateway) as client:
        await client.notify("com.example/rooms/entered", {"number": 1})
        await client.notify("com.example/rooms/left", {"number": 1})
        with pytest.raises(ErrorResponse, match="'gone' behind this gateway is not connected"):
            await listed(client)
    assert "notification 'com.example/rooms/entered' was not passed on" in caplog.text


def fail_to_open(_: object) -> Any:
    raise OSError("refused")


@pytest.mark.parametrize("upstream", [LEGACY, MODERN])
async def test_a_server_is_told_that_the_roots_of_a_caller_have_changed(upstream: str) -> None:
    server, told = server_of(upstream), trio.Event()

    @server.middleware
    async def look(request: Any, call_next: Any) -> Any:
        if request.method == "notifications/roots/list_changed":
            told.set()
        return await call_next(request)

    async def roots() -> list[types.Root]:
        return []

    gateway = front(server, Server("closed"))
    async with open_client(gateway, revision=LEGACY, roots=roots) as client:
        await client.list_tools()
        await client.roots_changed()
        if upstream == LEGACY:
            with trio.fail_after(60):
                await told.wait()
        await client.list_tools()
    assert told.is_set() == (upstream == LEGACY)  # modern revisions have no such notification
