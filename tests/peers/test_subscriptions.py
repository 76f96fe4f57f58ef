"""Subscriptions between our client or server and the official SDK, in both eras.

The tests of server-everything, which sends updates by itself, are in `test_everything_server.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import trio

from tests.peers.conftest import TIMEOUT, running
from trio_mcp import ChangeFilter, ListChanged, ResourceUpdated, open_client

HERE = Path(__file__).parent
EVERYTHING: dict[str, Any] = {"tools": True, "prompts": True, "resource_list": True, "resources": ["memo://one"]}
ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}


@pytest.fixture
def official_server(official_python: str) -> list[str]:
    """The command of a server made with the official SDK that reports changes."""
    return [official_python, str(HERE / "official_server.py")]


@pytest.mark.parametrize("revision", ERAS)
async def test_our_client_receives_changes_of_an_official_server(official_server: list[str], revision: str) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(official_server, revision=revision) as client:
            assert client.server_info is not None
            async with client.listen(**EVERYTHING) as changes:
                await client.call_tool("touch", {"uri": "memo://two"})
                for kind in ("tools", "prompts", "resources"):
                    await client.call_tool("grow", {"kind": kind})
                await client.call_tool("touch", {"uri": "memo://one"})
                received = [await anext(changes) for _ in range(4)]
                honored = changes.honored
            await client.call_tool("touch", {"uri": "memo://one"})
            async with client.listen(tools=True) as changes:  # changes in between are not delivered
                await client.call_tool("grow", {"kind": "tools"})
                again = await anext(changes)

    assert client.revision == revision
    assert honored == ChangeFilter(**EVERYTHING)
    assert received == [
        ListChanged("tools"),
        ListChanged("prompts"),
        ListChanged("resources"),
        ResourceUpdated("memo://one"),
    ]
    assert again == ListChanged("tools")


async def test_our_client_subscribes_and_unsubscribes_at_a_legacy_official_server(official_server: list[str]) -> None:
    async def subscribed() -> Any:
        return (await client.call_tool("subscribed")).content[0].text  # type: ignore[union-attr] # the server returns a text

    with trio.fail_after(TIMEOUT):
        async with open_client(official_server, revision="2025-11-25") as client:
            assert await subscribed() == ""
            async with client.listen(resources=["memo://one", "memo://two"]):
                assert await subscribed() == "memo://one,memo://two"
                async with client.listen(resources=["memo://two"]):
                    pass
                assert await subscribed() == "memo://one,memo://two"
            while await subscribed():  # leaving the block does not wait for the server
                await trio.lowlevel.checkpoint()


async def test_an_official_server_ends_our_subscription_without_an_error(official_server: list[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(official_server, revision="2026-07-28") as client:
            async with client.listen(resources=["memo://one"]) as changes:
                await client.call_tool("touch", {"uri": "memo://one"})
                await client.call_tool("finish")
                received = [change async for change in changes]
            assert [tool.name async for tool in client.tools()]  # the connection continues

    assert received == [ResourceUpdated("memo://one")]


async def test_a_new_subscription_after_a_restart_of_the_server_receives_changes(
    official_server: list[str],
) -> None:
    with trio.fail_after(TIMEOUT):
        for _ in range(2):
            async with open_client(official_server) as client, client.listen(resources=["memo://one"]) as changes:
                await client.call_tool("touch", {"uri": "memo://one"})
                assert await anext(changes) == ResourceUpdated("memo://one")


@pytest.fixture(params=["stdio", "http"])
def changing_server(request: pytest.FixtureRequest) -> Generator[list[str]]:
    """The command of our changing server, or the URL of a running one."""
    program = str(HERE / "changing_server.py")
    if request.param == "stdio":
        yield [sys.executable, "-W", "error", program]
        return
    with running(
        [sys.executable, "-W", "error", "-m", "trio_mcp", "serve", program, "--http", "0"], stderr=PIPE
    ) as process:
        assert process.stderr
        yield [process.stderr.readline().split()[-1]]


@pytest.mark.parametrize("revision", ERAS)
def test_the_official_client_receives_changes_of_our_server(
    official_python: str, changing_server: list[str], revision: str
) -> None:

    done = subprocess.run(
        [official_python, str(HERE / "official_listener.py"), ERAS[revision], *changing_server],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["revision"] == revision
    words = ["ToolListChanged", "PromptListChanged", "ResourceListChanged", "ResourceUpdated memo://one"]
    if revision == "2026-07-28":
        words = ["ToolsListChanged", "PromptsListChanged", "ResourcesListChanged", "ResourceUpdated memo://one"]
        assert report["honored"] == {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": ["memo://one"],
        }
        assert report["again"] == ["ResourceUpdated memo://one"]
    else:
        assert report["again"] == ["ToolListChanged"]
    assert report["received"] == words
