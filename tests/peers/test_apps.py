"""Apps with the official SDK: its server with our host, and our server with its client, in both eras."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.peers.conftest import EXAMPLES, MODES, Perform, text_of
from trio_mcp import AppHost, Csp, open_client
from trio_mcp.apps import App, open_view, visibility_of
from trio_mcp.llm import load_toolkit
from trio_mcp.wire import JsonObject

UI = "io.modelcontextprotocol/ui"
CLOCK = App(
    uri="ui://clock/app.html",
    html="<!doctype html><title>Clock</title>",
    csp=Csp(connect=["https://time.example"]),
    permissions=frozenset({"geolocation"}),
    prefers_border=True,
    ignored=[],
)


@pytest.fixture
def clock_server(official_python: str) -> list[str]:
    return [official_python, str(Path(__file__).with_name("official_apps.py"))]


@pytest.mark.parametrize("revision", MODES.values())
async def test_a_server_of_the_official_sdk_has_apps_for_our_host(clock_server: list[str], revision: str) -> None:
    async with open_client(clock_server, revision=revision, apps=AppHost()) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        app = await client.app_of(tools["clock"])
        offered = [each["function"]["name"] for each in (await load_toolkit(client)).functions]
        settings, text = client.extension(UI), await text_of(client, "clock")

    assert settings == ({} if revision == MODES["auto"] else None)  # it declares no extensions in a handshake
    assert app == CLOCK
    assert visibility_of(tools["wind"]) == {"app"}
    assert (offered, text) == (["clock"], "shown")


@pytest.mark.parametrize("revision", MODES.values())
async def test_a_server_of_the_official_sdk_knows_a_client_without_apps(clock_server: list[str], revision: str) -> None:
    async with open_client(clock_server, revision=revision) as client:
        assert await text_of(client, "clock") == "five o'clock"


@pytest.mark.parametrize("revision", MODES.values())
async def test_a_view_calls_a_server_of_the_official_sdk(clock_server: list[str], revision: str) -> None:
    to_host, from_page = trio.open_memory_channel[JsonObject](0)
    to_page, from_host = trio.open_memory_channel[JsonObject](math.inf)
    about = {"appInfo": {"name": "page", "version": "1"}, "appCapabilities": {}, "protocolVersion": "2026-01-26"}
    said: list[tuple[str, JsonObject]] = [
        ("ui/initialize", about),
        ("ui/notifications/initialized", {}),
        ("tools/call", {"name": "wind", "arguments": {"turns": 3}}),
        ("resources/read", {"uri": CLOCK.uri}),
    ]
    answers: dict[int, JsonObject] = {}
    async with (
        open_client(clock_server, revision=revision, apps=AppHost()) as client,
        open_view(client, CLOCK, to_page.send, from_page, host=AppHost()),
    ):
        for id, (method, params) in enumerate(said):
            named = {} if method.startswith("ui/notifications/") else {"id": id}
            await to_host.send({"jsonrpc": "2.0", "method": method, "params": params, **named})
        while len(answers) < 3:
            message = await from_host.receive()
            answers[message["id"]] = message["result"]
        to_host.close()

    assert answers[2]["structuredContent"] == {"result": 6}
    assert answers[3]["contents"][0]["text"] == CLOCK.html


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_sees_the_apps_of_our_server(official_player: Perform, mode: str) -> None:
    server = [sys.executable, "-W", "error", str(EXAMPLES / "chart_server.py")]
    steps: list[Any] = [{"do": "pages", "kind": "tools"}, {"do": "read", "uri": "ui://sales/chart"}]

    ((sales, months),), (contents,) = official_player(mode=mode, server=server, steps=steps)["steps"]

    assert sales["_meta"] == {"ui": {"resourceUri": "ui://sales/chart"}, "ui/resourceUri": "ui://sales/chart"}
    assert months["_meta"] == {"ui": {"visibility": ["app"]}}
    assert contents["mimeType"] == "text/html;profile=mcp-app"
    assert contents["_meta"]["ui"]["prefersBorder"] is True
