"""The tour (see `tour.py`) through a gateway: clients of every SDK with servers of every SDK, over both transports.

The gateway reaches servers in their newest revision. The handlers of FastMCP cannot ask there, so nobody is asked.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tests.peers.gateway import entry_of, gateway_command, open_gateway
from tests.peers.test_tour import CLIENTS, LEGACY, MODERN, STDIO_SERVER, Command, command, seen_by, served, without
from tests.peers.tour import SEEN, answer_with_name, tour
from trio_mcp import open_client

__all__ = ["command"]  # a fixture

SERVERS = ["ours", "fastmcp_server.py", "official_1_server.py", "server_1.mjs", "server_2.mjs"]
HTTP_MODES = {"official_1_server.py": "sessions", "server_1.mjs": "sessions"}
"""The argument of servers over HTTP, if it is not "http"."""


CANNOT_ASK = ["fastmcp_server.py"]
OVER_HTTP = ["official_1_server.py", "server_2.mjs"]
"""The servers over HTTP for the clients of others: one of each era."""


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def url(server: str, command: Command, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a gateway that has started the server."""
    line = STDIO_SERVER if server == "ours" else [*command(server), "stdio"]
    with open_gateway(tmp_path_factory.mktemp("gateway"), {"tour": entry_of(line)}) as url:
        yield url


@pytest.fixture(scope="module")
def gateway(
    server: str, command: Command, our_urls: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Generator[list[str]]:
    """The command of a gateway that reaches the server over HTTP."""
    folder = tmp_path_factory.mktemp("gateway")
    if server == "ours":
        yield gateway_command(folder, {"tour": entry_of(our_urls["tour"])})
        return
    with served([*command(server), HTTP_MODES.get(server, "http")]) as url:
        yield gateway_command(folder, {"tour": entry_of(url)})


def check(seen: Mapping[str, Any], server: str, program: str) -> None:
    """Compare what a client of another SDK has seen with what every client sees."""
    lacking = ["asked"] if server in CANNOT_ASK else []
    if program.endswith(".mjs"):  # this SDK drops progress that it reads together with the response
        lacking.append("progress")
    assert without(seen, *lacking) == without(SEEN, *lacking)


@pytest.mark.parametrize(("program", "mode"), CLIENTS)
def test_a_client_of_another_sdk_goes_on_the_tour_with_a_server_that_a_gateway_has_started(
    url: str, server: str, command: Command, program: str, mode: str | None
) -> None:
    seen = seen_by([*command(program), url, *([] if mode is None else [mode])])

    check(seen, server, program)


@pytest.mark.parametrize("server", OVER_HTTP, scope="module", indirect=True)
@pytest.mark.parametrize(("program", "mode"), CLIENTS)
def test_a_client_of_another_sdk_starts_a_gateway_and_goes_on_the_tour_with_a_server_over_http(
    gateway: list[str], server: str, command: Command, program: str, mode: str | None
) -> None:
    seen = seen_by([*command(program), json.dumps(gateway), *([] if mode is None else [mode])])

    check(seen, server, program)


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_our_client_goes_on_the_tour_through_a_gateway(
    url: str, gateway: list[str], server: str, over: str, revision: str
) -> None:
    target = url if over == "http" else gateway
    asks = server not in CANNOT_ASK
    async with open_client(target, on_elicit=answer_with_name, revision=revision) as client:
        seen = await tour(client, asks=asks)

    assert seen == (SEEN if asks else without(SEEN, "asked"))
