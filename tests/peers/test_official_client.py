"""The official SDK's client, second major version, with our servers, in both eras, over stdio and HTTP.

`official_client.py` plays a plan in the official SDK's own environment; these tests make the plans and check their
outcomes. A later step of the plan asks our server whether a handler has stopped.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.peers.conftest import EXAMPLES, Perform

Step = dict[str, Any]
Play = Callable[..., list[Any]]


def call(tool: str, *, cancel_after: int | None = None, **arguments: Any) -> Step:
    """Return a step that calls a tool, and cancels the call at update number *cancel_after* if it is given."""
    return {"do": "call", "tool": tool, "arguments": arguments, "cancel_after": cancel_after}


def value(outcome: Any) -> Any:
    """Return the structured content of a successful call, without the wrapper of a bare value."""
    assert not outcome["result"]["isError"], outcome
    content = outcome["result"]["structuredContent"]
    return content["result"] if content.keys() == {"result"} else content


@pytest.fixture(scope="module", params=[("legacy", "2025-11-25"), ("auto", "2026-07-28")], ids=lambda era: era[1])
def era(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The official client's name of the era, and its newest revision."""
    mode, revision = request.param
    return mode, revision


@pytest.fixture(scope="module", params=["stdio", "http"])
def over(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def play_with(
    era: tuple[str, str], over: str, official_player: Perform, our_urls: Mapping[str, str]
) -> Callable[..., Play]:
    """Return a maker of players. It takes the name of a server, its program with arguments, and its name among the HTTP
    servers.
    """
    mode, revision = era

    def make(name: str, *program: str, url: str) -> Play:
        server = our_urls[url] if over == "http" else [sys.executable, "-W", "error", *program]

        def play_steps(*steps: Step) -> list[Any]:
            report = official_player(mode=mode, server=server, steps=steps)
            assert (report["server"], report["revision"]) == (name, revision)
            outcomes: list[Any] = report["steps"]
            return outcomes

        return play_steps

    return make


@pytest.fixture
def play(play_with: Callable[..., Play], era: tuple[str, str], tmp_path: Path) -> Play:
    """Play steps against the SQLite server, on a database of the test or, over HTTP, of the era."""
    program = str(EXAMPLES / "sqlite_server.py"), str(tmp_path / "test.db")
    return play_with("trio-mcp-sqlite", *program, url=f"sqlite-{era[0]}")


@pytest.fixture
def play_library(play_with: Callable[..., Play], era: tuple[str, str]) -> Play:
    """Play steps against the library server."""
    return play_with("library", str(EXAMPLES / "library_server.py"), url=f"library-{era[0]}")


def test_the_official_client_lists_the_features_of_the_server(play: Play) -> None:
    tools, resources, prompts = play({"do": "tools"}, {"do": "resources"}, {"do": "prompts"})

    assert {"list_tables", "describe_table", "read_query", "write_query", "create_table", "append_insight"} <= {*tools}
    assert resources == ["memo://insights"]
    assert prompts == ["explore"]


def test_the_official_client_creates_fills_and_reads_a_table(play: Play) -> None:
    created, written, read, tables = play(
        call("create_table", query="CREATE TABLE moons (name TEXT, planet TEXT)"),
        call("write_query", query="INSERT INTO moons VALUES ('Io', 'Jupiter'), ('Titan', 'Saturn')"),
        call("read_query", query="SELECT name FROM moons ORDER BY name"),
        call("list_tables"),
    )

    assert value(created) == "created"
    assert value(written) == 2
    assert value(read)["rows"] == [["Io"], ["Titan"]]
    assert "moons" in value(tables)


def test_a_read_query_that_writes_is_an_error_the_model_can_read(play: Play) -> None:
    refused, tables = play(call("read_query", query="DROP TABLE beds"), call("list_tables"))

    assert refused["result"]["isError"]
    assert "beds" in value(tables)


def test_the_official_client_reads_the_memo_and_the_prompt(play: Play) -> None:
    _, (contents,), (message,) = play(
        call("append_insight", insight="The pond is half in the shade."),
        {"do": "read", "uri": "memo://insights"},
        {"do": "prompt", "name": "explore", "arguments": {"topic": "watering"}},
    )

    assert "The pond is half in the shade." in contents["text"]
    assert "watering" in message["content"]["text"]


def test_the_official_client_receives_every_progress_update_of_a_long_call_in_order(play: Play) -> None:
    (counted,) = play(call("recount", table="beds", pause=0.01))

    total = value(counted)
    assert total > 0
    assert [progress for progress, _, _ in counted["progress"]] == list(range(1, total + 1))
    assert {of for _, of, _ in counted["progress"]} == {total}


def test_a_call_that_the_official_client_cancels_stops_the_handler(play: Play) -> None:
    cancelled, outcome = play(
        call("recount", cancel_after=2, table="plants", pause=1.0),
        call("recount_outcome"),
    )

    assert cancelled["cancelled"]
    assert value(outcome)["cancelled"]
    assert value(outcome)["counted"] < value(outcome)["total"]


def test_the_official_client_reads_every_list_page_by_page(play_library: Play) -> None:
    kinds = ["tools", "resources", "resource_templates", "prompts"]
    *lists, refused = play_library(
        *({"do": "pages", "kind": kind} for kind in kinds),
        {"do": "attempt", "step": {"do": "page", "kind": "tools", "cursor": "made up"}},
    )

    names = [[[entry["name"] for entry in page] for page in pages] for pages in lists]
    assert names == [
        [["search", "lend"], ["take_stock", "show_cover"]],
        [["rules", "stamp"], ["loans"]],
        [["about", "cover"], ["shelf"]],
        [["recommend", "compare"], ["remind"]],
    ]
    assert refused["code"] == -32602


def test_the_official_client_reads_resources_of_every_kind(play_library: Play, request: pytest.FixtureRequest) -> None:
    uris = ["rules", "stamp", "books/candle", "covers/candle", "shelf?genre=adventure&author=Jules%20Verne"]
    *read, missing = play_library(
        *({"do": "read", "uri": f"library://{uri}"} for uri in uris),
        {"do": "attempt", "step": {"do": "read", "uri": "library://books/none"}},
    )

    (rules,), (stamp,), (book,), (cover,), (shelf,) = read
    assert (rules["mimeType"], rules["text"][:7]) == ("text/markdown", "# Rules")
    assert base64.b64decode(stamp["blob"]).startswith(b"\x89PNG")
    assert json.loads(book["text"])["title"] == "The Chemical History of a Candle"
    assert cover["mimeType"] == "image/svg+xml"
    assert base64.b64decode(cover["blob"]).startswith(b"<svg")
    assert shelf["text"] == "Twenty Thousand Leagues Under the Seas"
    modern = "2026-07-28" in request.node.name
    assert missing == {
        "code": -32602 if modern else -32002,
        "message": "there is no book 'none'",
        "data": {"uri": "library://books/none"},
    }


def test_the_official_client_gets_prompts_with_typed_arguments_and_embedded_resources(play_library: Play) -> None:
    (recommendation,), comparison, refused = play_library(
        {"do": "prompt", "name": "recommend", "arguments": {"genre": "science", "age": "9", "short": "true"}},
        {"do": "prompt", "name": "compare", "arguments": {"first": "candle", "second": "origin"}},
        {"do": "attempt", "step": {"do": "prompt", "name": "recommend", "arguments": {"genre": "science", "age": "x"}}},
    )

    question = "Which short science book should a reader of 9 years take home?"
    assert recommendation == {"role": "user", "content": {"type": "text", "text": question}}
    assert [(message["role"], message["content"]["type"]) for message in comparison] == [
        ("user", "resource"),
        ("user", "resource"),
        ("user", "text"),
        ("assistant", "text"),
    ]
    assert comparison[0]["content"]["resource"]["uri"] == "library://books/candle"
    assert refused["code"] == -32602
    assert "$.age" in refused["message"]


def test_the_official_client_completes_arguments_of_prompts_and_templates(play_library: Play) -> None:
    compare = {"type": "ref/prompt", "name": "compare"}
    shelf = {"type": "ref/resource", "uri": "library://shelf{?genre,author}"}
    genres, first, second, author, refused = play_library(
        {"do": "complete", "ref": {"type": "ref/prompt", "name": "recommend"}, "name": "genre", "value": ""},
        {"do": "complete", "ref": compare, "name": "first", "value": "k"},
        {"do": "complete", "ref": compare, "name": "second", "value": "", "resolved": {"first": "candle"}},
        {"do": "complete", "ref": shelf, "name": "author", "value": "M", "resolved": {"genre": "science"}},
        {"do": "attempt", "step": {"do": "complete", "ref": compare, "name": "third", "value": ""}},
    )

    assert genres == {"values": ["adventure", "crime", "science"], "total": 3, "hasMore": False}
    assert [each["values"] for each in (first, second, author)] == [["kidnapped"], ["origin"], ["Michael Faraday"]]
    assert refused["code"] == -32602


def test_the_official_client_receives_log_messages_of_the_requested_level(play_library: Play) -> None:
    _, lent, _, stock, logged = play_library(
        {"do": "log_level", "level": "notice"},
        call("lend", book="candle", reader="Ada"),  # logs at "info", which is below
        call("lend", book="candles", reader="Bo"),
        call("take_stock", seconds_per_book=0),
        {"do": "logged", "count": 2},
    )

    assert value(lent) == {"book": "candle", "reader": "Ada", "weeks": 3}
    assert value(stock) == ["The Chemical History of a Candle"]
    assert [progress for progress, _, _ in stock["progress"]] == [1, 2, 3, 4, 5, 6, 7]
    assert [{name: each[name] for name in ("level", "logger", "data")} for each in logged] == [
        {"level": "warning", "logger": "desk", "data": {"asked_for": "candles"}},
        {"level": "notice", "logger": "stock", "data": "The Chemical History of a Candle is not on its shelf"},
    ]


def test_the_official_client_receives_an_image_that_a_tool_returns(play_library: Play) -> None:
    (shown,) = play_library(call("show_cover", book="origin"))

    (picture,) = shown["result"]["content"]
    assert (picture["type"], picture["mimeType"]) == ("image", "image/svg+xml")
    assert b"Origin of Species" in base64.b64decode(picture["data"])
