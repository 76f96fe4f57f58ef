"""Descriptions in files, at URLs and as mappings, and those that cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.openapi.helpers import describe, parameter, tools
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


def test_a_mapping_need_not_be_made_of_dicts_and_lists() -> None:
    document = describe(get={"parameters": (MappingProxyType(parameter("n", schema={"enum": (1, 2)})),)})
    document["paths"]["/get"]["get"]["responses"] = {200: {"description": "a number as a key"}}
    node: dict[str, Any] = {"type": "object"}
    node["properties"] = {"next": node}  # it contains itself, and not by a reference
    document["components"]["schemas"]["Unused"] = node
    server = Server("s")

    assert add_openapi(server, MappingProxyType(document), include=["*"], base_url="http://api.test").names == ["get"]


async def test_keys_in_yaml_are_text(tmp_path: Path) -> None:
    path = tmp_path / "openapi.yaml"
    path.write_text(
        "openapi: 3.1.0\ncomponents: &shared {x-none: 1}\npaths:\n  /day:\n    get:\n      operationId: day\n"
        "      <<: *shared\n      parameters:\n"
        "      - {name: q, in: query, schema: {properties: {1: {}, on: {}, ~: {}}}}\n"
    )
    server = Server("s")

    assert add_openapi(server, path, include=["*"], base_url="http://api.test").names == ["day"]
    schema = (await tools(server))["day"].input_schema
    assert [*schema["properties"]["q"]["properties"]] == ["1", "on", "~"]


def test_an_operation_may_have_any_method() -> None:
    document = describe(version="3.2.0", find={"method": "query"}, get={"path": "/things"})
    others = {"COPY": {"operationId": "copy"}, "x-odd": {"tags": None}}
    document["paths"]["/things"]["additionalOperations"] = others
    server = Server("s")

    added = add_openapi(server, document, include=["QUERY *", "copy", "x-odd *"], base_url="http://api.test")

    assert added.names == ["find", "copy", "x-odd_things"]


@pytest.mark.parametrize(
    ("own", "reference", "is_refused"),
    [
        ("https://example.com/api/openapi.json", "https://example.com/api/openapi.json#/components/schemas/Id", False),
        ("https://example.com/api/openapi.json", "openapi.json#/components/schemas/Id", False),
        ("https://example.com/api/openapi.json", "other.json#/components/schemas/Id", True),
        (None, "openapi.json#/components/schemas/Id", True),
        (None, "#/components/schemas/Id", False),
        (None, "#/components/schemas/None", True),
    ],
)
def test_a_reference_may_name_the_description_itself(own: str | None, reference: str, *, is_refused: bool) -> None:
    document = describe(schemas={"Id": {}}, get={"parameters": [parameter("id", schema={"$ref": reference})]})
    document |= {} if own is None else {"$self": own}

    assert bool(add(document).left_out) is is_refused


def test_what_the_api_itself_requests_is_no_tool() -> None:
    paid: Any = {"post": {"operationId": "paid", "responses": {}}}
    document = describe(order={"method": "post", "callbacks": {"paid": {"{$request.body#/url}": paid}}})
    document["webhooks"] = {"shipped": {"post": {"operationId": "shipped"}}}

    assert add(document).names == ["order"]
    with pytest.raises(ValueError, match="'shipped' selects no operation"):
        add_openapi(Server("s"), document, include=["shipped"], base_url="http://api.test")
    only_webhooks = {"openapi": "3.1.0", "webhooks": document["webhooks"]}
    with pytest.raises(ValueError, match="'\\*' selects no operation"):
        add(only_webhooks)


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


@pytest.mark.parametrize(
    "servers", [None, [{"url": "/{v}", "variables": {"v": {"default": "v1"}, "w": 3}}], [{"url": "v1/"}]]
)
def test_the_server_of_a_description_is_relative_to_its_url(servers: Any, tmp_path: Path, url: str) -> None:
    document = describe(get={}) | ({} if servers is None else {"servers": servers})
    (tmp_path / "openapi.json").write_text(json.dumps(document))

    assert add_openapi(Server("s"), f"{url}/openapi.json", include=["*"]).names == ["get"]


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
