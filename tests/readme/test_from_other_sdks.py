"""The pages about other SDKs: the names, options and commands of this package in their tables exist.

`tests/peers/test_ported_programs.py` checks the names of the other packages.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Mapping
from typing import Any

import attrs
import pytest
import trio

import trio_mcp
from tests.readme.tables import cells, codes, is_command, is_expression, missing
from trio_mcp import Client, Context, Request, Server, abc, gateway, openapi, testing, types
from trio_mcp.apps import AppResourceOptions
from trio_mcp.auth import print_url
from trio_mcp.cli import main
from trio_mcp.server import HttpOptions, ServeHttpOptions

OURS = {"from-the-official-sdk.md": 2, "from-fastmcp.md": 1}
"""The column with the names of this package, by page."""
SERVER = Server("s")


class Ours:
    """This package."""

    def __init__(self) -> None:
        self.holders: Mapping[str, Any] = {
            "server": SERVER,
            "client": Client,
            "ctx": Context,
            "request": Request,
            "result": types.CallToolResult,
            "types": types,
            "testing": testing,
            "abc": abc,
            "trio_mcp": trio_mcp,
            "print_url": print_url,
            "trio": trio,
            "logging": logging,
            "attrs": attrs,
        }

    def find(self, name: str) -> Any:
        found = (getattr(place, name, None) for place in (trio_mcp, gateway, openapi))
        return next(filter(None, found), None)

    def more_options(self, function: Any) -> Collection[str]:
        name = function.__name__
        options: dict[str, Collection[str]] = {
            "tool": [*parameters(SERVER.tools.add), "app"],
            "prompt": parameters(SERVER.prompts.add),
            "app": AppResourceOptions.__annotations__,
            "run": ServeHttpOptions.__annotations__ | {"host": str, "port": int},
            "serve_http": ServeHttpOptions.__annotations__,
            "http_app": HttpOptions.__annotations__,
            "Gateway": parameters(Server),
            "basicConfig": ["level"],
        }
        if name.startswith("open_"):
            return [*trio_mcp.ClientOptions.__annotations__, *parameters(trio_mcp.open_stdio_client)]
        return options.get(name, ())


def parameters(function: Any) -> list[str]:
    return [*inspect.signature(function).parameters]


@pytest.mark.parametrize("page", OURS)
def test_what_a_table_names_exists(page: str) -> None:
    expressions = [code for code in codes(page, OURS[page]) if is_expression(code)]

    assert {code: faults for code in expressions if (faults := missing(code, Ours()))} == {}
    assert len(expressions) > 100


COMMANDS = {code for page in OURS for code in codes(page, OURS[page]) if is_command(code)}


@pytest.mark.parametrize("code", sorted(COMMANDS))
def test_a_command_of_a_table_exists(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = code.split()[1]

    with pytest.raises(SystemExit) as exited:
        main([command] if command == "--version" else [command, "--help"])

    assert exited.value.code == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", OURS)
def test_every_row_names_a_counterpart_or_says_why_there_is_none(page: str) -> None:
    for cell in cells(page, OURS[page]):
        assert "`" in cell or cell.startswith(("none, because ", "no ", "a list of ", "an `")), cell


def test_wrong_names_and_options_are_found() -> None:
    wrong = ["server.tols.add(f)", "open_client(target, on_elict=f)", "Servr(name)", "ctx.log(level, levels=1)"]

    assert [missing(each, Ours()) for each in wrong] == [
        ["<Server 's'>.tols"],
        ["open_client(on_elict=)"],
        ["Servr"],
        ["log(levels=)"],
    ]
