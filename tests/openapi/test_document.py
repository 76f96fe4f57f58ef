"""Descriptions in files, at URLs and as mappings, and those that cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.openapi.helpers import describe
from trio_mcp import Server
from trio_mcp.openapi import AddedTools, add_openapi


def add(source: Any) -> AddedTools:
    return add_openapi(Server("s"), source, include=["*"], base_url="http://api.test")


@pytest.mark.parametrize("as_text", [str, Path])
def test_a_description_is_a_file_in_json(tmp_path: Path, as_text: Any) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(describe(get={})))

    assert add(as_text(path)).names == ["get"]


def test_a_description_is_a_file_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "openapi.yaml"
    path.write_text(
        "openapi: 3.0.3\nx-dated: 2026-11-26\npaths:\n  x-note: ignored\n  /day:\n    get:\n      operationId: day\n"
        "      parameters: [{name: on, in: query, schema: {type: string, default: 2026-11-26}}]\n"
        "      responses:\n        200: {description: done}\n"
    )

    assert add(path).names == ["day"]


@pytest.fixture
def url(tmp_path: Path) -> Generator[str]:
    """The URL of a folder."""
    program = (
        "import functools, http.server, sys\n"
        "handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


def test_a_description_is_at_a_url(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(describe(get={})))

    assert add(f"{url}/openapi.json").names == ["get"]
    with pytest.raises(OSError, match=r"/none\.json: .*404"):
        add(f"{url}/none.json")
    monkeypatch.setattr("trio_mcp.openapi._document.MAX_BYTES", 10)
    with pytest.raises(ValueError, match=r"openapi\.json: longer than 10 bytes"):
        add(f"{url}/openapi.json")


def test_a_file_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        add(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", r"openapi:1: neither JSON nor YAML: "),
        ("a: b\n\tc", r"openapi:2: neither JSON nor YAML: "),
        ("\x00", "neither JSON nor YAML"),
        ("[1]", "expected an object"),
        ("[" * 100_000, "nested too deeply"),
        ("a: " + "{a: " * 5_000, "nested too deeply"),
        ("{}", "states the version None; OpenAPI 3.0, 3.1, 3.2 are supported"),
        ('{"swagger": "2.0"}', "is Swagger 2.0; OpenAPI"),
        ('{"openapi": "4.0.0"}', "states the version '4.0.0'"),
        ('{"openapi": "3.1.0", "paths": []}', "paths: expected an object"),
        ('{"openapi": "3.1.0", "paths": {"/a": 3}}', "paths./a: expected an object"),
        ('{"openapi": "3.1.0", "paths": {"/a": {"get": 3}}}', "paths./a.get: expected an object"),
        ('{"openapi": "3.1.0"}', "selects no operation"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused_with_the_place(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "openapi"
    path.write_text(text)

    with pytest.raises(ValueError, match=fault) as refusal:
        add(path)

    assert str(refusal.value).startswith(str(path))
