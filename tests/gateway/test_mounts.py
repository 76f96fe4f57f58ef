"""What can be mounted, when, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.gateway.helpers import (
    LEGACY,
    MODERN,
    PROGRAM,
    Way,
    front,
    in_all_eras,
    names,
    opened,
    server_of,
    text,
    text_of,
    uris,
)
from tests.gateway.upstream_server import make_server
from tests.interaction.over_http import served_at_socket
from trio_mcp import Access, Bearer, ErrorResponse, ListChanged, Server, types
from trio_mcp.abc import ClientAuth
from trio_mcp.gateway import Gateway
from trio_mcp.gateway._mount import Mount, free_label, is_table, starts_of

HERE = Way(MODERN, MODERN)
ENTRY: dict[str, Any] = {"command": sys.executable, "args": [PROGRAM, MODERN]}


async def works(gateway: Gateway, *servers: str) -> bool:
    """Return True if the tools of each server can be called; a name precedes them if there are several."""
    with trio.fail_after(60):
        async with opened(gateway, HERE) as client:
            for server in servers:
                name = f"{server}__nothing" if len(servers) > 1 else "nothing"
                assert text(await client.call_tool(name)) == "nothing was needed"
            return list(gateway.upstreams) == list(servers)


# Targets.


async def test_a_server_of_this_process_is_mounted_by_its_name() -> None:
    assert await works(front(make_server()), "shelf")


async def test_a_command_is_mounted_by_the_name_of_its_program() -> None:
    assert await works(front([sys.executable, PROGRAM, MODERN]), "upstream_server")


async def test_an_entry_of_a_table_is_mounted_by_the_name_of_its_program() -> None:
    assert await works(front(ENTRY), "upstream_server")


async def test_a_url_is_mounted_by_its_host() -> None:
    async with served_at_socket(make_server(LEGACY)) as bound:
        assert await works(front(bound.url), "127.0.0.1")


async def test_the_url_of_a_websocket_is_mounted() -> None:
    async with served_at_socket(make_server(), websocket=True) as bound:
        assert await works(front(bound.url.replace("http", "ws", 1)), "127.0.0.1")


async def test_an_entry_with_a_url_is_mounted_by_its_host() -> None:
    async with served_at_socket(make_server(LEGACY)) as bound:
        assert await works(front({"url": bound.url}), "127.0.0.1")


async def test_a_file_of_servers_is_mounted_and_so_are_its_contents(tmp_path: Path) -> None:
    contents = {"mcpServers": {"one": ENTRY, "two": ENTRY}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(contents))

    assert await works(Gateway("gate", servers=str(path)), "one", "two")
    for servers in (path, contents):
        assert list(Gateway("gate", servers=servers).upstreams) == ["one", "two"]


async def test_a_name_precedes_those_of_a_file() -> None:
    gateway = front()
    added = gateway.mount({"mcpServers": {"one": ENTRY, "two": ENTRY}}, name="desk")

    assert [each.name for each in added] == list(gateway.status) == ["desk-one", "desk-two"]
    assert [each.name for each in gateway.mounts] == ["desk-one", "desk-two"]
    assert gateway.mount({"mcpServers": {"one": ENTRY}}, name="third")[0].name == "third"


async def test_an_opener_of_a_transport_is_mounted() -> None:
    def my_transport(client: Any) -> Any:
        raise OSError("no line")

    gateway = front(my_transport)
    async with opened(gateway, HERE) as client:
        assert await names(client) == []
        assert gateway.status["my_transport"].state == "waiting"
        assert str(gateway.status["my_transport"].failure) == "no line"


async def test_the_same_name_gets_a_number_unless_it_was_chosen() -> None:
    gateway = front(make_server(), make_server(), make_server())

    assert list(gateway.upstreams) == ["shelf", "shelf-2", "shelf-3"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ([sys.executable, "-u", "/opt/my server.py"], "my_server"),
        (["python3.12", "-m", "notes"], "notes"),
        (["npx", "-y", "@scope/files"], "files"),
        (["/usr/bin/files", "--all", "/tmp"], "files"),
        (["node", "index.js"], "index"),
        ([], "server"),
    ],
)
def test_the_name_of_a_command_is_that_of_what_it_runs(command: list[str], name: str) -> None:
    assert list(starts_of(command)) == [name]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("mcp.json", True),
        (Path("mcp.json"), True),
        ({"mcpServers": {}}, True),
        ({"servers": {}}, True),
        ("https://example.com/mcp", False),
        ({"command": "x"}, False),
        (["x"], False),
    ],
)
def test_a_path_and_a_table_name_many_servers(target: object, expected: bool) -> None:
    assert is_table(target) == expected


# Errors.


@pytest.mark.parametrize("target", [None, 5, b"x", Server])
def test_a_target_of_another_type_is_refused(target: Any) -> None:
    with pytest.raises(TypeError, match=r"mount\(.*expected a URL, a command, a file or an entry of servers"):
        front().mount(target)


def test_a_file_that_is_missing_is_refused() -> None:
    with pytest.raises(OSError, match=r"missing\.json"):
        front().mount("/nowhere/missing.json")
    with pytest.raises(OSError, match=r"missing\.json"):
        Gateway("gate", servers="/nowhere/missing.json")


@pytest.mark.parametrize("contents", [{"mcpServers": {"one": {"command": 5}}}, {"mcpServers": []}, {"command": 5}])
def test_an_entry_that_is_not_valid_is_refused_and_nothing_is_mounted(contents: Any) -> None:
    gateway = front()
    with pytest.raises(ValueError, match=r"command|mcpServers|one"):
        gateway.mount(contents)
    assert not gateway.mounts


def test_a_name_that_is_taken_is_refused_and_nothing_is_mounted() -> None:
    gateway = front()
    gateway.mount(make_server(), name="two")
    with pytest.raises(ValueError, match=r"mount\(\): a server 'two' is mounted already; choose another name="):
        gateway.mount(make_server(), name="two")
    with pytest.raises(ValueError, match="'two' is mounted already"):
        gateway.mount({"mcpServers": {"one": ENTRY, "two": ENTRY}})
    assert list(gateway.upstreams) == ["two"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": "some"}, r"mount\(share='some'\): must be one of 'all', 'principal', 'session'"),
        ({"timeout": 0}, r"mount\(timeout=0\): must be a number above 0"),
        ({"idle": float("inf")}, r"mount\(idle=inf\): must be a number above 0"),
        ({"per_second": "fast"}, r"mount\(per_second='fast'\): must be a number above 0"),
        ({"max_concurrency": 0}, r"mount\(max_concurrency=0\): must be an integer of at least 1"),
        ({"max_concurrency": True}, r"mount\(max_concurrency=True\): must be an integer"),
        ({"only": "find_*"}, r"mount\(only='find_\*'\): must be a list of patterns, such as \['find_\*'\]"),
        ({"without": "x"}, r"mount\(without='x'\): must be a list of patterns"),
    ],
)
def test_an_option_that_is_not_valid_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        front().mount(make_server(), **options)


def test_a_server_that_is_not_mounted_cannot_be_removed() -> None:
    with pytest.raises(KeyError, match="shelf"):
        front().unmount("shelf")


async def test_credentials_are_only_for_urls() -> None:
    gateway = front()
    gateway.mount(make_server(), auth=Bearer("secret"))
    async with opened(gateway, HERE) as client:
        assert await names(client) == []
        assert gateway.status["shelf"].state == "failed"
        assert "only a server that is reached by a URL accepts credentials" in str(gateway.status["shelf"].failure)


def test_credentials_may_depend_on_the_caller() -> None:
    async def start(*_: Any) -> Any:
        raise AssertionError

    def choose(access: Access | None) -> ClientAuth | None:
        return None if access is None else Bearer(access.principal)

    chosen = Mount(name="x", start=start, label="x", auth=choose)
    fixed = Mount(name="x", start=start, label="x", auth=Bearer("mine"))

    assert chosen.credentials(None) is None
    assert chosen.credentials(Access("ada")) is not None
    assert fixed.credentials(None) is fixed.auth
    assert "mine" not in repr(fixed)


def test_labels_are_schemes_of_uris_and_unique() -> None:
    assert free_label(set(), "My Desk") == "my-desk"
    assert free_label(set(), "127.0.0.1") == "s127-0-0-1"
    assert free_label({"crm"}, "crm", "notes") == "notes"
    assert free_label({"crm", "notes"}, "crm", "notes") == "crm-2"
    assert free_label({"crm", "crm-2"}, "crm") == "crm-3"


# While it is served.


@in_all_eras
async def test_a_server_that_is_mounted_while_the_gateway_is_served_is_told_and_listed(way: Way) -> None:
    gateway = front(server_of(way.upstream, "empty"))
    async with opened(gateway, way) as client:
        assert await names(client) == []
        async with client.listen(tools=True) as changes:
            gateway.mount(make_server(way.upstream))
            assert await anext(changes) == ListChanged("tools")
            assert "nothing" in await names(client)
        assert text(await client.call_tool("nothing")) == "nothing was needed"


@in_all_eras
async def test_a_server_that_is_removed_while_the_gateway_is_served_is_told_and_gone(way: Way) -> None:
    gateway = front(make_server(way.upstream))
    async with opened(gateway, way) as client:
        assert "nothing" in await names(client)
        assert "notes://text" in await uris(client)
        async with client.listen(tools=True) as changes:
            gateway.unmount("shelf")
            assert await anext(changes) == ListChanged("tools")
        assert await names(client) == await uris(client) == []
        assert gateway.status == {}
        with pytest.raises(ErrorResponse, match="no tool 'nothing'"):
            await client.call_tool("nothing")


@in_all_eras
async def test_the_calls_of_a_server_that_is_removed_fail(way: Way) -> None:
    gateway = front(make_server(way.upstream))
    results: list[types.CallToolResult] = []

    async with opened(gateway, way) as client, trio.open_nursery() as nursery:
        await names(client)
        async with client.open_call("hang", {"key": "x"}) as call:
            await anext(call.updates)
            gateway.unmount("shelf")
            results.append(await call.result())
        nursery.cancel_scope.cancel()

    (failed,) = results
    assert failed.is_error
    assert "the server 'shelf' behind this gateway is not connected" in text_of(failed)


async def test_a_server_that_is_mounted_again_is_used_at_once() -> None:
    gateway = front(make_server())
    async with opened(gateway, HERE) as client:
        await names(client)
        gateway.unmount("shelf")
        gateway.mount(make_server(), prefix="again")
        await trio.testing.wait_all_tasks_blocked()
        assert text(await client.call_tool("again__nothing")) == "nothing was needed"
        assert gateway.status["shelf"].tools > 1


async def test_a_server_that_is_not_needed_at_the_start_is_connected_by_the_first_request() -> None:
    gateway = front()
    gateway.mount(make_server(), at_start=False)
    async with opened(gateway, HERE) as client:
        before = gateway.status["shelf"]
        assert (before.state, before.connections) == ("idle", 0)
        assert text(await client.call_tool("nothing")) == "nothing was needed"
        after = gateway.status["shelf"]
        assert (after.state, after.connections) == ("connected", 1)


async def test_a_server_can_be_restarted() -> None:
    gateway = front(make_server())
    async with opened(gateway, HERE) as client:
        assert text(await client.call_tool("nothing")) == "nothing was needed"
        await gateway.upstreams["shelf"].restart()
        assert gateway.status["shelf"].restarts == 1
        assert text(await client.call_tool("nothing")) == "nothing was needed"


async def test_a_gateway_can_be_served_twice_and_has_connections_of_each_serving() -> None:
    gateway = front(make_server())
    async with opened(gateway, HERE) as first, opened(gateway, HERE) as second:
        assert await names(first) == await names(second)
        assert gateway.status["shelf"].connections == 2
    assert gateway.status["shelf"].connections == 0


async def test_a_gateway_declares_all_that_servers_may_have() -> None:
    gateway = front()
    async with opened(gateway, HERE) as client:
        declared = client.server_capabilities
        assert declared.tools == types.ToolsCapability(list_changed=True)
        assert declared.prompts == types.PromptsCapability(list_changed=True)
        assert declared.resources == types.ResourcesCapability(subscribe=True, list_changed=True)
        assert declared.completions == {}


async def test_a_gateway_declares_the_extensions_of_its_servers() -> None:
    ui = "io.modelcontextprotocol/ui"
    first = Server("apps", extensions={ui: {}, "com.example/rooms": {"most": 3}})
    second = Server("halls", extensions={"com.example/rooms": {"most": 5}, "org.example/halls": {}})
    gateway = front(first, second)
    async with opened(gateway, HERE) as client:
        await names(client)
        assert client.server_capabilities.extensions == {
            ui: {},
            "com.example/rooms": {"most": 3},  # that of the server that was mounted first
            "org.example/halls": {},
        }
