"""Methods, notifications and result types that only the servers behind a gateway know."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import define, evolve, field
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.gateway.helpers import ERAS, LEGACY, MODERN, Way, client_of, front, opened, server_of, text_of
from tests.gateway.upstreams import CountedServer, echo, gateway_of, served
from tests.interaction.over_http import served_at_socket
from trio_mcp import (
    Client,
    Context,
    ErrorResponse,
    Extension,
    ExtensionResult,
    Limits,
    McpError,
    Server,
    open_client,
    serve_stream,
    types,
)
from trio_mcp.gateway import Gateway
from trio_mcp.testing import ScriptedPeer

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


@define(eq=False)
class Noticeboard:
    """A server that sends custom notifications during a call, and a caller that keeps them."""

    noticed: list[Any] = field(factory=list[Any])

    def server(self, revision: str) -> Server:
        server = server_of(revision, "board")

        @server.tool
        async def announce(number: int, ctx: Context) -> str:
            for each in range(number):
                await ctx.notify("com.example/noticed", {"number": each})
            return "announced"

        @server.tool
        async def announce_slowly(ctx: Context) -> str:
            await trio.lowlevel.checkpoint()
            await ctx.report_progress(1)
            await ctx.notify("com.example/noticed", {"number": 0})
            return "announced"

        return server

    async def notice(self, params: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.noticed.append(params["number"])


@in_all_eras
async def test_custom_notifications_of_a_server_pass_in_order(way: Way) -> None:
    board = Noticeboard()
    taken = {"com.example/noticed": board.notice}
    async with opened(front(board.server(way.upstream)), way, notifications=taken) as client:
        assert text_of(await client.call_tool("announce", {"number": 3})) == "announced"
        with trio.fail_after(60):
            while len(board.noticed) < 3:  # noqa: ASYNC110 # over HTTP they are on their way
                await trio.sleep(0.001)
        assert board.noticed == [0, 1, 2]


@pytest.mark.parametrize("upstream", [LEGACY, MODERN])
@pytest.mark.parametrize("tool", ["announce", "announce_slowly"])
async def test_a_custom_notification_is_sent_before_the_result(upstream: str, tool: str) -> None:
    sent: list[str] = []

    def tap(direction: str, line: bytes) -> None:
        if direction == "received" and (b"noticed" in line or b"announced" in line):
            sent.append("notification" if b"noticed" in line else "result")

    async def ignore(_: object) -> None:
        await trio.lowlevel.checkpoint()

    way = Way(upstream, MODERN, down_by="bytes")
    async with opened(front(Noticeboard().server(upstream)), way, tap=tap) as client:
        arguments = {"number": 1} if tool == "announce" else {}
        await client.call_tool(tool, arguments, on_progress=ignore if tool == "announce_slowly" else None)
    assert sent == ["notification", "result"]


@pytest.mark.parametrize("way", [evolve(way, up_by="http") for way in ERAS], ids=str)
async def test_a_custom_notification_over_http_goes_to_its_caller_although_another_one_waits(way: Way) -> None:
    hers, his = Noticeboard(), Noticeboard()
    server = hers.server(way.upstream)

    @server.tool
    async def hang(ctx: Context) -> None:
        await ctx.report_progress(1)
        await trio.sleep_forever()

    @server.tool
    async def touch(ctx: Context) -> str:
        await ctx.notify("com.example/noticed", {"number": 1})
        return "touched"

    async with (
        served_at_socket(server) as bound,
        front(bound.url).serving() as serving,
        client_of(serving, way, "ada", notifications={"com.example/noticed": hers.notice}) as ada,
        client_of(serving, way, "bob", notifications={"com.example/noticed": his.notice}) as bob,
        ada.open_call("hang") as hanging,
    ):
        await anext(hanging.updates)
        assert text_of(await bob.call_tool("touch")) == "touched"
        with trio.fail_after(60):
            while not his.noticed:  # noqa: ASYNC110 # its handler has its turn later
                await trio.sleep(0.001)
    assert (hers.noticed, his.noticed) == ([], [1])


NOTICED = b'{"jsonrpc":"2.0","method":"com.example/noticed","params":{"number":1}}\n'


@pytest.mark.parametrize("callers", [0, 1, 2])
async def test_a_custom_notification_without_a_call_goes_to_the_only_caller_in_flight(
    callers: int, autojump_clock: object
) -> None:
    board, upstream = Noticeboard(), CountedServer()

    async def call(client: Client) -> None:
        await client.call_tool("doze", {"seconds": 1})

    taken = {"com.example/noticed": board.notice}
    async with (
        served(gateway_of(upstream)) as front,
        front.client("first", notifications=taken) as first,
        front.client("second", notifications=taken) as second,
        trio.open_nursery() as nursery,
    ):
        assert (await echo(first), await echo(second)) == ("here", "here")
        for client in (first, second)[:callers]:
            nursery.start_soon(call, client)
        await wait_all_tasks_blocked()
        await upstream.say(NOTICED)
    assert board.noticed == ([1] if callers == 1 else [])


async def test_custom_notifications_are_dropped_while_their_caller_does_not_read() -> None:
    gateway = front(Noticeboard().server(MODERN), limits=Limits(outbox_bytes=2000))
    params = {"name": "announce", "arguments": {"number": 500}, "_meta": ScriptedPeer.envelope(MODERN)}
    async with trio.open_nursery() as nursery:
        ours, theirs = lockstep_stream_pair()
        nursery.start_soon(serve_stream, gateway, theirs)
        caller = ScriptedPeer(ours)
        await caller.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        await wait_all_tasks_blocked()
        received = [await caller.receive()]
        while "id" not in received[-1]:
            received.append(await caller.receive())
        await ours.aclose()
    numbers = [each["params"]["number"] for each in received[:-1]]
    assert 0 < len(numbers) < 500
    assert numbers == [*range(len(numbers))]
    assert received[-1]["result"]["content"][0]["text"] == "announced"
