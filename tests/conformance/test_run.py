"""Tests of the command line of the run, and of a server that does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.run import Runner, make_runner
from tests.conformance.runner.haproxy import over_http2
from tests.conformance.runner.server_process import ServerFailed, everything_gateway, everything_server
from trio_mcp import open_http_client


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that looks like an installed suite."""
    node = tmp_path / "node_modules" / "node" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.touch()
    return tmp_path


def made(home: Path, *arguments: str) -> Runner:
    return make_runner(["--suite", str(home), *arguments])


def test_every_scenario_is_chosen_by_default(home: Path) -> None:
    runner = made(home)
    assert (runner.legs, runner.only) == (("server", "client"), None)
    assert [setup.name for setup in runner.setups] == [
        *("", "replayed", "hypercorn", "http2", "nodes", "gateway-stdio", "gateway-http"),
    ]
    assert runner.revisions == ["2025-06-18", "2025-11-25", "2026-07-28", "extensions"]

    runner = made(home, "--leg", "client", "--revision", "2025-11-25", "--only", "sse-retry")
    assert (runner.legs, runner.revisions, runner.only) == (("client",), ["2025-11-25"], "sse-retry")


def test_setups_of_our_server_can_be_left_out_and_another_server_has_none(home: Path) -> None:
    without = ("--without", "http2", "--without", "gateway-stdio")
    assert [setup.name for setup in made(home, *without).setups] == [
        *("", "replayed", "hypercorn", "nodes", "gateway-http"),
    ]
    assert [setup.name for setup in made(home, "--server", "http://localhost/mcp").setups] == [""]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "tasks-status-notifications"], "tasks-status-notifications: the suite skips it"),
        (["--only", "telepathy"], "telepathy: no such scenario is chosen"),
        (["--only", "sse-retry", "--leg", "server"], "sse-retry: no such scenario is chosen"),
        (["--revision", "2024-11-05"], "--revision 2024-11-05: there are no scenarios"),
        (["--suite", "/nowhere"], "the suite is not installed in /nowhere"),
    ],
)
def test_an_impossible_selection_is_reported_before_the_run_starts(
    home: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        made(home, *arguments)

    assert caught.value.code == 2
    assert words in capsys.readouterr().err


async def test_a_server_that_does_not_start_fails_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"(?s)has ended with status 2; it has printed:.*--asking: invalid choice"):
        async with everything_server(tmp_path / "log", "--asking", "invalid"):
            pytest.fail("it has come up")


async def test_the_server_runs_under_hypercorn_too(tmp_path: Path) -> None:
    async with (
        everything_server(tmp_path / "log", "--under", "hypercorn") as url,
        open_http_client(url, revision="2026-07-28") as client,
    ):
        assert (await client.list_tools()).tools


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_gateway_in_front_of_the_server_offers_its_tools_under_their_names(tmp_path: Path, over: str) -> None:
    async with (
        everything_server(tmp_path / "log") as url,
        everything_gateway(tmp_path / "gateway-log", *(("--to", url) if over == "http" else ())) as url_in_front,
        open_http_client(url, revision="2026-07-28") as direct,
        open_http_client(url_in_front, revision="2026-07-28") as client,
    ):
        offered = [tool.name async for tool in direct.tools()]
        passed = [tool.name async for tool in client.tools()]

    assert offered == passed


async def test_a_missing_proxy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    missing = r"haproxy is not installed; `--without http2 --without nodes` leaves out what needs it"
    with pytest.raises(ServerFailed, match=missing):
        async with over_http2("http://127.0.0.1:1/mcp", tmp_path):
            pytest.fail("it has come up")
