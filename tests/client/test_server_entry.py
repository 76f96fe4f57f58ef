"""Entries of the `mcpServers` table: commands, URLs, variables and faults."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp.auth import OAuth
from trio_mcp.client._mcp_json import HttpServer, opener_from_entry, server_from_entry
from trio_mcp.transports import StdioServer

URL = "http://localhost:8000/mcp"


def test_an_entry_describes_the_start_of_a_server() -> None:
    entry = {"command": "run", "args": ["--fast", "x y"], "env": {"KEY": "value"}, "cwd": "/srv"}

    assert server_from_entry(entry) == StdioServer(("run", "--fast", "x y"), env={"KEY": "value"}, cwd="/srv")


def test_a_command_is_enough() -> None:
    assert server_from_entry({"command": "run"}) == StdioServer(("run",), env={}, cwd=None)


def test_variables_of_this_process_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/opt")
    monkeypatch.setenv("EMPTY", "")
    entry = {
        "command": "${WHERE}/run",
        "args": ["${EMPTY}", "$WHERE", "${not a name}"],
        "env": {"A": "${WHERE}:${WHERE}"},
    }

    assert server_from_entry(entry | {"cwd": "${WHERE}"}) == StdioServer(
        ("/opt/run", "", "$WHERE", "${not a name}"), env={"A": "/opt:/opt"}, cwd="/opt"
    )


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({}, "'command' is required"),
        ({"command": ""}, "'command' is required"),
        ({"command": 7}, "'command' is required, and must be a string$"),
        (
            {"comand": "x", "z": 1},
            "'command' is required, and must be a string; 'comand' is not supported; 'z' is not supported",
        ),
        ({"command": "x", "args": "y"}, "'args' must be a list of strings"),
        ({"command": "x", "args": [1]}, "'args' must be a list of strings"),
        ({"command": "x", "env": ["A=1"]}, "'env' must be an object of strings"),
        ({"command": "x", "env": {"A": 1}}, "'env' must be an object of strings"),
        ({"command": "x", "cwd": 1}, "'cwd' must be a string"),
        ({"command": "x", "disabled": "yes"}, "'disabled' must be true or false"),
        ({"command": "x", "type": "pigeon"}, "'type' 'pigeon' is not supported; it may be 'stdio', 'http', 'sse', "),
        ({"command": "x", "type": ["stdio"]}, "'type' \\['stdio'\\] is not supported; it may be 'stdio'"),
        ({"command": "x", "url": URL}, "an entry has either 'command' or 'url', not both"),
        ({"type": "stdio", "url": URL}, "'command' is required, and must be a string; 'url' is not supported"),
        ({"type": "http"}, "'url' is required, and must be a string$"),
        ({"type": "sse", "serverUrl": URL}, "'url' is required, and must be a string; 'serverUrl' is not supported"),
        ({"url": 7}, "'url' is required, and must be a string$"),
        ({"url": URL, "headers": ["a: b"]}, "'headers' must be an object of strings"),
        ({"url": URL, "headers": {"a": 1}}, "'headers' must be an object of strings"),
        ({"url": "http://${NO_SUCH_VARIABLE}/"}, r"NO_SUCH_VARIABLE in '\$\{NO_SUCH_VARIABLE\}' is not set$"),
        ([], "expected an object with the member 'command' or 'url'"),
        ({"command": "x", "args": ["${NO_SUCH_VARIABLE}"]}, "variable NO_SUCH_VARIABLE in '\\${NO_SUCH_VARIABLE}'"),
    ],
)
def test_the_error_for_an_invalid_entry_names_the_faults(entry: object, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^server entry: .*{fault}"):
        server_from_entry(entry)


def test_a_variable_may_have_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/opt")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    args = ["${WHERE:-/usr}", "${EMPTY:-/usr}", "${UNSET:-/usr}", "${UNSET:-}", "${UNSET:-a:-b}", "${env:WHERE}"]

    server = server_from_entry({"command": "x", "args": args})

    assert server == StdioServer(("x", "/opt", "/usr", "/usr", "", "a:-b", "/opt"), env={})


def test_unknown_members_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    entry: dict[str, Any] = {"command": "x", "timeout": 60, "autoApprove": ["add"], "disabled": False, "headers": {}}

    assert server_from_entry(entry, where="mcp.json: server 'sums'") == StdioServer(("x",), env={})
    assert caplog.messages == ["mcp.json: server 'sums': ignored unknown members: 'autoApprove', 'headers', 'timeout'"]


# Servers with a URL.


@pytest.mark.parametrize(
    "kind", [{}, *({"type": each} for each in ("http", "sse", "streamable-http", "streamableHttp"))]
)
def test_a_url_is_enough_with_any_supported_type(kind: dict[str, str]) -> None:
    assert server_from_entry({"url": URL, **kind}) == HttpServer(URL)


def test_variables_in_urls_and_header_fields_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    headers = {"Authorization": "Bearer ${TOKEN}", "X-Team": "${TEAM:-none}"}

    server = server_from_entry({"url": "https://${HOST:-example.org}/mcp", "headers": headers})

    assert server == HttpServer("https://example.org/mcp", {"Authorization": "Bearer secret", "X-Team": "none"})
    assert "secret" not in repr(server)


def test_members_that_do_not_apply_to_a_url_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert server_from_entry({"url": URL, "env": {}, "oauth": {}}) == HttpServer(URL)
    assert caplog.messages == ["server entry: ignored unknown members: 'env', 'oauth'"]


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"url": "ftp://example.org/mcp"}, "ftp"),
        ({"url": "example.org/mcp"}, "example.org/mcp"),
        ({"url": URL, "headers": {"X-A": "b\r\nX-C: d"}}, "X-A"),
    ],
)
def test_the_error_for_an_invalid_url_names_the_entry(entry: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^mcp.json: server 'a': .*{fault}") as refused:
        opener_from_entry(entry, where="mcp.json: server 'a'")
    assert "X-C" not in str(refused.value)


def test_an_entry_yields_an_opener() -> None:
    assert callable(opener_from_entry({"url": URL}))
    assert callable(opener_from_entry({"command": "run"}))


def test_credentials_are_accepted_only_for_a_server_with_a_url() -> None:
    entry = {"url": URL, "headers": {"Authorization": "Bearer secret"}}

    assert callable(opener_from_entry({"url": URL}, auth=OAuth()))
    with pytest.raises(ValueError, match=r"^mcp\.json: server 'a': only a server with a 'url' accepts credentials"):
        opener_from_entry({"command": "run"}, where="mcp.json: server 'a'", auth=OAuth())
    with pytest.raises(
        ValueError, match=r"^mcp\.json: server 'a': auth and an Authorization header exclude each other"
    ) as refused:
        opener_from_entry(entry, where="mcp.json: server 'a'", auth=OAuth())
    assert "secret" not in str(refused.value)
