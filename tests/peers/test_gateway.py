"""A gateway with several servers of other projects behind it, over both transports, for clients in both eras."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.peers.conftest import EXAMPLES, HERE, MODES, TIMEOUT, Perform, text_of
from tests.peers.everything_tools import MARK, USES, Host
from tests.peers.gateway import entry_of, gateway_command, open_gateway
from tests.peers.test_asking import ACCEPT, MODEL, ROOTS, answers
from tests.peers.test_official_client import call, value
from trio_mcp import ErrorResponse, ListChanged, ResourceUpdated, open_client, types

REVISIONS = ["2025-11-25", "2026-07-28"]
CLASHING = ["read_query", "write_query", "create_table", "list_tables", "describe_table", "append_insight"]
"""The tools of both SQLite servers."""
SQL = ("reference", "ours")
"""Both SQLite servers."""
NOT_THROUGH = {
    "simulate-research-query": "it is a task of revision 2025-11-25: callers get its result, and not the task",
    "get-roots-list": "callers share the connection, so a server is not told that the roots of one have changed",
}
"""Tools of server-everything with something that does not pass through a gateway, and why."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the gateway, and of the filesystem server."""
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def servers(
    homes: Path, everything_server: list[str], official_urls: Mapping[str, str], folder: Path
) -> dict[str, dict[str, Any]]:
    """The entries of all servers."""
    filesystem = homes / "filesystem" / "node_modules" / "@modelcontextprotocol" / "server-filesystem"
    reference = [str(homes / "sqlite" / "bin" / "mcp-server-sqlite"), "--db-path", str(folder / "reference.db")]
    return {
        "everything": entry_of(everything_server, MARK=MARK),
        "reference": entry_of(reference),
        "ours": entry_of([sys.executable, "-W", "error", str(EXAMPLES / "sqlite_server.py"), str(folder / "ours.db")]),
        "files": entry_of(["node", str(filesystem / "dist" / "index.js"), str(folder)]),
        "official": entry_of(official_urls["stateful"]),
    }


@pytest.fixture(scope="module")
def url(servers: Mapping[str, Any], folder: Path) -> Generator[str]:
    """The URL of a gateway with all servers behind it."""
    with open_gateway(folder, servers) as url:
        yield url


# --- Our client ---


@pytest.mark.parametrize("revision", REVISIONS)
async def test_names_that_clash_carry_the_name_of_their_server_and_others_stay(url: str, revision: str) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client:
            tools = [tool.name async for tool in client.tools()]
            prompts = [prompt.name async for prompt in client.prompts()]
            resources = [resource.uri async for resource in client.resources()]
            templates = [template.uri_template async for template in client.resource_templates()]

    assert {*USES, "read_text_file", "add", "book"} <= {*tools}
    assert {f"{server}__{name}" for server in ("reference", "ours") for name in CLASHING} <= {*tools}
    assert not {*CLASHING} & {*tools}
    assert {"simple-prompt", "mcp-demo", "explore", "plan"} <= {*prompts}
    assert {"demo://resource/static/document/features.md", "memo://insights", "ours+memo://insights"} <= {*resources}
    assert {"demo://resource/dynamic/text/{resourceId}", "memo://{name}"} <= {*templates}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_servers_with_the_same_tools_keep_their_own_tables_and_memos(url: str, revision: str) -> None:
    table = f"moons_{revision[:4]}"
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client:
            for server in ("reference", "ours"):
                await text_of(client, f"{server}__create_table", query=f"CREATE TABLE {table} (name TEXT)")
                await text_of(client, f"{server}__write_query", query=f"INSERT INTO {table} VALUES ('{server}')")
                await text_of(client, f"{server}__append_insight", insight=f"This is the memo of {server}.")
            rows = {name: await text_of(client, f"{name}__read_query", query=f"SELECT * FROM {table}") for name in SQL}
            refused = await client.call_tool("ours__read_query", {"query": "DROP TABLE beds"})
            memos = [(await client.read_resource(uri)).contents for uri in ("memo://insights", "ours+memo://insights")]

    assert rows["reference"] == "[{'name': 'reference'}]"
    assert json.loads(rows["ours"])["rows"] == [["ours"]]
    assert refused.is_error
    for (memo,), server, uri in zip(memos, SQL, ("memo://insights", "ours+memo://insights"), strict=True):
        assert isinstance(memo, types.TextResourceContents)
        assert (memo.uri, f"This is the memo of {server}." in memo.text) == (uri, True)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_files_are_written_and_read(url: str, folder: Path, revision: str) -> None:
    path = str(folder / f"{revision}.txt")
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client:
            written = await text_of(client, "write_file", path=path, content="grüß\n\u2028 dich 🐍")
            read = await client.call_tool("read_text_file", {"path": path})
            outside = await client.call_tool("read_text_file", {"path": "/etc/passwd"})

    assert path in written
    assert read.structured_content == {"content": "grüß\n\u2028 dich 🐍"}
    assert outside.is_error


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("tool", sorted({*USES} - {*NOT_THROUGH}))
async def test_a_tool_of_the_reference_server_works(url: str, tool: str, revision: str) -> None:
    host = Host()
    with trio.fail_after(TIMEOUT):
        async with open_client(
            url,
            revision=revision,
            on_sample=host.on_sample,
            on_elicit=host.on_elicit,
            roots=host.list_roots,
            on_log=host.on_log,
        ) as client:
            await client.set_log_level("debug")
            await USES[tool](client, host)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_of_tools_that_do_not_pass_through_as_a_whole_a_part_does(url: str, revision: str) -> None:
    host = Host(roots=[types.Root(uri="file:///srv/data", name="data")])
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision, roots=host.list_roots) as client:
            research = await text_of(client, "simulate-research-query", topic="python")
            roots = await text_of(client, "get-roots-list")

    assert {*NOT_THROUGH} == {"simulate-research-query", "get-roots-list"}
    assert "python" in research
    assert "URI: file:///srv/data" in roots


@pytest.mark.parametrize("revision", REVISIONS)
async def test_prompts_and_templates_are_completed_by_their_server(url: str, revision: str) -> None:
    team, demo = types.PromptReference(name="completable-prompt"), "demo://resource/dynamic/text/{resourceId}"
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client:
            names = await client.complete(team, "name", "", context={"department": "Sales"})
            number = await client.complete(types.ResourceTemplateReference(uri=demo), "resourceId", "7")
            topic = await client.complete(types.PromptReference(name="plan"), "topic", "garden")
            with pytest.raises(ErrorResponse) as refused:
                await client.complete(types.PromptReference(name="nowhere"), "topic", "")

    assert names.values == ["David", "Eve", "Frank"]
    assert (number.values, topic.values) == (["7"], ["gardening"])
    assert refused.value.code == -32602


@pytest.mark.parametrize("revision", REVISIONS)
async def test_errors_of_servers_and_of_the_gateway_are_told_apart_by_their_words(url: str, revision: str) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client:
            with pytest.raises(ErrorResponse, match="no tool 'nothing' on the servers of this gateway"):
                await client.call_tool("nothing")
            with pytest.raises(ErrorResponse, match="no resource 'nowhere://1' on the servers of this gateway"):
                await client.read_resource("nowhere://1")
            with pytest.raises(ErrorResponse, match="Unknown resource"):
                await client.read_resource("demo://resource/dynamic/text/seven")
            invalid = await client.call_tool("get-sum", {"a": "one", "b": 2})

    assert invalid.is_error


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_that_is_given_up_is_cancelled_on_its_server(url: str, revision: str) -> None:
    name = f"left {revision}"
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client:
            async with client.open_call("hang", {"name": name}) as hanging:
                async for _ in hanging.updates:
                    break
            while (await client.call_tool("was_stopped", {"name": name})).structured_content != {"result": True}:
                await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_that_sends_updates_by_itself_reaches_a_listening_client(url: str, revision: str) -> None:
    uri = "demo://resource/dynamic/text/1"
    with trio.fail_after(TIMEOUT):
        async with open_client(url, revision=revision) as client, client.listen(resources=[uri]) as changes:
            await text_of(client, "toggle-subscriber-updates")
            first = await anext(changes)
            await text_of(client, "toggle-subscriber-updates")

    assert first == ResourceUpdated(uri)


# --- The official client ---


@pytest.fixture(scope="module", params=["http", "stdio"])
def target(request: pytest.FixtureRequest, url: str, official_urls: Mapping[str, str], folder: Path) -> str | list[str]:
    """The URL of the gateway with all servers, or the command of one with those that run already."""
    if request.param == "http":
        return url
    return gateway_command(folder, {"official": entry_of(official_urls["stateful"])})


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_uses_an_official_server_through_a_gateway(
    official_player: Perform, target: str | list[str], mode: str
) -> None:
    report = official_player(
        mode=mode,
        server=target,
        steps=[
            answers(elicitation=ACCEPT, sampling=MODEL, list_roots=ROOTS),
            {"do": "tools"},
            call("add", a=1, b=2),
            call("count", steps=3),
            call("book"),
            call("folders"),
            call("summarise"),
            {"do": "read", "uri": "memo://pond"},
            {"do": "prompt", "name": "plan", "arguments": {"topic": "a pond"}},
            {"do": "complete", "ref": {"type": "ref/prompt", "name": "plan"}, "name": "topic", "value": "garden"},
            {"do": "log_level", "level": "warning"},
            call("complain"),
            {"do": "logged", "count": 1},
            call("hang", cancel_after=1, name=f"{mode} {type(target)}"),
            call("was_stopped", name=f"{mode} {type(target)}"),
            {"do": "attempt", "step": {"do": "read", "uri": "nowhere://1"}},
        ],
    )

    assert (report["server"], report["revision"]) == ("gateway", MODES[mode])
    _, tools, total, counted, booked, folders, summary, *rest = report["steps"]
    (memo,), (message,), completed, _, _, logged, cancelled, stopped, refused = rest
    assert {"add", "book", "complain"} <= {*tools}
    assert [value(each) for each in (total, booked, folders, summary)] == [
        *(3, "2 seats", ["file:///home/ada"], "tiny: short"),
    ]
    assert counted["progress"] == [[step, 3, f"step {step}"] for step in (1, 2, 3)]
    assert (memo["text"], message["content"]["text"]) == ("about pond", "Plan a pond.")
    assert completed["values"] == ["gardening"]
    assert [{name: each[name] for name in ("level", "logger", "data")} for each in logged] == [
        {"level": "warning", "logger": "garden", "data": "the pond is dry"}
    ]
    assert cancelled["cancelled"]
    assert value(stopped) is True
    assert refused["code"] == (-32002 if mode == "legacy" else -32602)


# --- Changes ---


@pytest.fixture
def changing_url(official_python: str, tmp_path: Path) -> Generator[str]:
    """The URL of a gateway with two servers that change on request: `official`, and `ours`, which can also stop.

    Each test has its own, so that none begins while a server stops.
    """
    servers = {
        "official": entry_of([official_python, str(HERE / "official_server.py")]),
        "ours": entry_of([sys.executable, "-W", "error", str(HERE / "changing_server.py")]),
    }
    with open_gateway(tmp_path, servers, "--prefix") as url:
        yield url


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_listening_client_receives_changes_of_all_servers_under_the_uris_of_the_gateway(
    changing_url: str, revision: str
) -> None:
    theirs, ours = "memo://one", "ours+memo://one"
    with trio.fail_after(TIMEOUT):
        async with open_client(changing_url, revision=revision) as client:
            before = {tool.name async for tool in client.tools()}
            async with client.listen(tools=True, prompts=True, resource_list=True, resources=[theirs, ours]) as changes:
                await client.call_tool("official__touch", {"uri": "memo://one"})
                received = [await anext(changes)]
                await client.call_tool("ours__touch", {"uri": "memo://one"})
                received.append(await anext(changes))
                for kind in ("tools", "prompts", "resources"):
                    await client.call_tool("ours__grow", {"kind": kind})
                    received.append(await anext(changes))
            after = {tool.name async for tool in client.tools()}

    assert {*changes.honored.resources} == {theirs, ours}
    assert received == [
        ResourceUpdated(theirs),
        ResourceUpdated(ours),
        *(ListChanged(kind) for kind in ("tools", "prompts", "resources")),
    ]
    (grown,) = after - before
    assert grown.startswith("ours__tool-")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_that_stops_is_started_again_and_the_subscription_goes_on(
    changing_url: str, revision: str
) -> None:
    uri = "memo://two"
    with trio.fail_after(TIMEOUT):
        async with open_client(changing_url, revision=revision) as client, client.listen(resources=[uri]) as changes:
            await client.call_tool("ours__finish")
            change: object = None
            while change is None:  # until the gateway listens to the new process
                await client.call_tool("ours__touch", {"uri": uri})
                with trio.move_on_after(0.5):
                    change = await anext(changes)

    assert change == ResourceUpdated(uri)


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_receives_changes_of_our_server_through_a_gateway(
    official_python: str, tmp_path: Path, mode: str
) -> None:
    server = entry_of([sys.executable, "-W", "error", str(HERE / "changing_server.py")])
    with open_gateway(tmp_path, {"changing": server}, "--without", "finish") as url:
        done = subprocess.run(
            [official_python, str(HERE / "official_listener.py"), mode, url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["revision"] == MODES[mode]
    if mode == "auto":
        kinds = ["ToolsListChanged", "PromptsListChanged", "ResourcesListChanged"]
        assert report["again"] == []
    else:
        kinds = ["ToolListChanged", "PromptListChanged", "ResourceListChanged"]
        assert report["again"] == ["ToolListChanged"]
    assert sorted(report["received"]) == sorted([*kinds, "ResourceUpdated memo://one"])
