"""The official SDK's client, second major version, with our SQLite server, in both eras.

`official_client.py` plays a plan in the official SDK's own environment; here the plans are made and what came of
them is judged. Whether a handler stopped is in our server's own words: a later step of the plan asks it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[2] / "examples" / "sqlite_server.py"
PLAYER = Path(__file__).with_name("official_client.py")
PATIENCE = 120  # seconds for a whole plan

Step = dict[str, Any]
Play = Callable[..., list[Any]]


def call(tool: str, *, cancel_after: int | None = None, **arguments: Any) -> Step:
    """A step that calls a tool, and leaves the call at that report of progress if one is named."""
    return {"do": "call", "tool": tool, "arguments": arguments, "cancel_after": cancel_after}


def value(outcome: Any) -> Any:
    """What a call that went well returned: its structured content, out of the wrapping of a bare value."""
    assert not outcome["result"]["isError"], outcome
    content = outcome["result"]["structuredContent"]
    return content["result"] if content.keys() == {"result"} else content


@pytest.fixture(params=[("legacy", "2025-11-25"), ("auto", "2026-07-28")], ids=lambda era: era[1])
def play(request: pytest.FixtureRequest, official_python: str, tmp_path: Path) -> Play:
    """Play steps against our server, on a database of the test's own; the outcome of each."""
    mode, revision = request.param

    def play_steps(*steps: Step) -> list[Any]:
        ours = [sys.executable, "-W", "error", str(SERVER), str(tmp_path / "test.db")]
        done = subprocess.run(
            [official_python, str(PLAYER), mode, json.dumps(steps), *ours],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["server"], report["revision"]) == ("trio-mcp-sqlite", revision)
        outcomes: list[Any] = report["steps"]
        return outcomes

    return play_steps


def test_it_lists_what_our_server_offers(play: Play) -> None:
    tools, resources, prompts = play({"do": "tools"}, {"do": "resources"}, {"do": "prompts"})

    assert {"list_tables", "describe_table", "read_query", "write_query", "create_table", "append_insight"} <= {*tools}
    assert resources == ["memo://insights"]
    assert prompts == ["explore"]


def test_it_makes_a_table_fills_and_reads_it(play: Play) -> None:
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


def test_it_reads_the_memo_and_the_prompt(play: Play) -> None:
    _, (contents,), (message,) = play(
        call("append_insight", insight="The pond is half in the shade."),
        {"do": "read", "uri": "memo://insights"},
        {"do": "prompt", "name": "explore", "arguments": {"topic": "watering"}},
    )

    assert "The pond is half in the shade." in contents["text"]
    assert "watering" in message["content"]["text"]


def test_it_hears_every_report_of_a_long_call_in_order(play: Play) -> None:
    (counted,) = play(call("recount", table="beds", pause=0.01))

    total = value(counted)
    assert total > 0
    assert [progress for progress, _, _ in counted["progress"]] == list(range(1, total + 1))
    assert {of for _, of, _ in counted["progress"]} == {total}


def test_a_call_it_cancels_stops_our_handler(play: Play) -> None:
    cancelled, outcome = play(
        call("recount", cancel_after=2, table="plants", pause=1.0),
        call("recount_outcome"),
    )

    assert cancelled["cancelled"]
    assert value(outcome)["cancelled"]
    assert value(outcome)["counted"] < value(outcome)["total"]
