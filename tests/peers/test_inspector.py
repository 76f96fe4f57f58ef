"""The official Inspector's command line with our server over HTTP, in both eras."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

TIMEOUT = 60  # seconds for a command


@pytest.fixture(params=["legacy", "modern"])
def inspect(
    request: pytest.FixtureRequest, inspector: list[str], our_urls: Mapping[str, str], tmp_path: Path
) -> Callable[..., Any]:
    """Return a function that runs an Inspector command and returns its output."""

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [
                *inspector,
                our_urls["library-legacy"],
                "--transport",
                "http",
                "--protocol-era",
                request.param,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_inspector_lists_the_tools_of_the_server(inspect: Callable[..., Any]) -> None:
    listed = inspect("--method", "tools/list")

    assert [tool["name"] for tool in listed["tools"]] == ["search", "lend", "take_stock", "show_cover"]


def test_the_inspector_calls_a_tool(inspect: Callable[..., Any]) -> None:
    called = inspect("--method", "tools/call", "--tool-name", "search", "--tool-arg", "words=Kidnapped")

    assert [book["id"] for book in called["structuredContent"]["result"]] == ["kidnapped"]
