"""`trio-mcp tools`: arguments, hints, one tool, Python files as targets, and the servers of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import PROGRAMS, SAMPLE, raw, run
from tests.cli.conftest import Command

SERVER = str(PROGRAMS / "sample_server.py")
HINTS = {"destructiveHint": True, "idempotentHint": True, "readOnlyHint": False, "openWorldHint": True}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
REMOVE: dict[str, Any] = {
    "name": "remove",
    "title": "Remove files",
    "description": "Remove files.\nThey are gone then.",
    "annotations": HINTS,
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "the folder"}, "deep": {"type": "boolean"}, "x": True},
        "required": ["path"],
    },
    "outputSchema": {"type": "object"},
}


def listed(*tools: dict[str, Any]) -> list[str]:
    return raw(answers={"tools/list": {"tools": [{"inputSchema": {"type": "object"}, **tool} for tool in tools]}})


def test_hints_of_a_tool_are_shown_before_its_description(command: Command) -> None:
    read = {"name": "read", "annotations": {"readOnlyHint": True}}

    assert command("tools", *listed(REMOVE, read)).out.splitlines() == [
        "remove\tpath=STRING [deep=BOOLEAN] [x=VALUE]\t[destructive, idempotent, open world] Remove files.",
        "read\t\t[read-only] ",
    ]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": ["integer", "null"]}, "INTEGER"),
        ({"type": ["integer", "string"]}, "INTEGER|STRING"),
        ({"type": "null"}, "NULL"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "NUMBER"),
        ({"oneOf": [{"enum": ["a", "b"]}, {"type": "integer"}]}, "a|b|INTEGER"),
        ({"enum": ["fast", "slow"], "type": "string"}, "fast|slow"),
        ({"enum": [*map(str, range(9))], "type": "string"}, "STRING"),
        ({"enum": [1, 2]}, "VALUE"),
        ({"type": "array"}, "ARRAY"),
        ({"type": "array", "items": {"type": "string"}}, "[STRING ...]"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}, "required": ["a"]},
            "{a=STRING [b=NULL]}",
        ),
        ({"$ref": "#/$defs/Size"}, "small|large"),
        ({"$ref": "#/$defs/Nothing"}, "VALUE"),
        ({"$ref": "#/nowhere/Size"}, "VALUE"),
        ({"$ref": "#/$defs/Node"}, "{[next={[next=VALUE]}]}"),
        (True, "VALUE"),
        ({}, "VALUE"),
    ],
)
def test_nested_arguments_are_shown_with_their_members(schema: Any, written: str, command: Command) -> None:
    definitions = {"Size": {"enum": ["small", "large"]}, "Node": NODE}
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": definitions}

    assert command("tools", *listed({"name": "t", "inputSchema": whole})).out == f"t\tx={written}\t\n"


def test_a_schema_that_refers_to_itself_from_many_places_is_shown_in_bounded_length(command: Command) -> None:
    wide = {f"m{at}": {"$ref": "#/$defs/Wide"} for at in range(50)}
    schema = {"type": "object", "properties": wide, "$defs": {"Wide": {"type": "object", "properties": wide}}}

    assert len(command("tools", *listed({"name": "t", "inputSchema": schema})).out) < 100_000


def test_one_tool_is_shown_with_its_whole_schema(command: Command) -> None:
    done = command("tools", "remove", *listed({"name": "other"}, REMOVE))

    facts, schemas = done.out.split("input schema:\n")
    given, returned = schemas.split("output schema:\n")
    assert (done.status, done.err) == (0, "")
    assert facts.splitlines() == [
        "tool\tremove",
        "title\tRemove files",
        "description\tRemove files.",
        "description\tThey are gone then.",
        "hint\tdestructive",
        "hint\tidempotent",
        "hint\topen world",
        "argument\tpath=STRING  the folder",
        "argument\t[deep=BOOLEAN]",
        "argument\t[x=VALUE]",
    ]
    assert json.loads(given) == REMOVE["inputSchema"]
    assert json.loads(returned) == REMOVE["outputSchema"]


def test_one_tool_as_json_is_what_the_server_has_sent(command: Command) -> None:
    assert json.loads(command("tools", "remove", "--json", *listed(REMOVE)).out) == REMOVE
    plain = {"name": "t", "inputSchema": {"type": "object"}}
    assert command("tools", "t", *listed(plain)).out == 'tool\tt\ninput schema:\n{\n  "type": "object"\n}\n'


def test_an_unknown_tool_is_reported_with_similar_names(command: Command) -> None:
    done = command("tools", "ad", *SAMPLE)

    assert (done.status, done.err) == (2, "trio-mcp tools: the server has no tool 'ad'; did you mean add?\n")


def test_a_server_without_tools_is_reported(command: Command) -> None:
    done = command("tools", *listed())

    assert (done.status, done.out, done.err) == (0, "", "the server has no tools\n")


# --- Python files as targets ---


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["tools", "add", SERVER], "tool\tadd\n"),
        (["tools", SERVER], "add\ta=INTEGER b=INTEGER\tAdd two numbers.\n"),
        (["call", f"{SERVER}:server", "add", "a=1", "--trace", "trace.py", "b=2"], "3\n"),
        (["call", "add", "a=1", "b=2", SERVER], "3\n"),
        (["read", "greeting://x.py", SERVER], "Hello, x.py!"),
        (["info", "--json", SERVER], '{"serverInfo"'),
    ],
    ids=" ".join,
)
def test_a_python_file_is_a_server(arguments: list[str], printed: str, tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().startswith(printed)


def test_a_file_that_does_not_exist_is_reported(command: Command) -> None:
    done = command("tools", "servr.py")

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("trio-mcp tools: servr.py: no such file (see ")


# --- The servers of a file ---


def table(folder: Path, **entries: Any) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    return str(path)


def started(*command: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [*command]}


def test_a_file_alone_lists_its_servers(tmp_path: Path, command: Command) -> None:
    off = started("x.py") | {"disabled": True}
    path = table(tmp_path, sums=started(SERVER), web={"url": "https://e.org/mcp?key=1"}, bad=3, off=off)

    done = command("--config", path)
    as_json = command("servers", "--config", path, "--json")

    rows = [line.split("\t") for line in done.out.splitlines()]
    assert (done.status, done.err) == (0, "")
    assert rows == [
        ["sums", f"{sys.executable} {SERVER}"],
        ["web", "https://e.org/mcp"],
        ["bad", "not valid: expected an object"],
        ["off", "(disabled)"],
    ]
    assert json.loads(as_json.out)["servers"][1] == {"server": "web", "target": "https://e.org/mcp"}


def test_a_file_without_servers_or_with_a_fault_is_reported(tmp_path: Path, command: Command) -> None:
    empty = command("--config", table(tmp_path))
    missing = command("--config", str(tmp_path / "none.json"))
    (tmp_path / "broken.json").write_text("{")
    broken = command("--config", str(tmp_path / "broken.json"))
    named = command("--config", table(tmp_path), "sums")

    assert (empty.status, empty.out, empty.err) == (0, "", f"{tmp_path}/mcp.json has no servers\n")
    assert missing.err == f"trio-mcp servers: cannot read {tmp_path}/none.json: No such file or directory\n"
    assert (missing.status, broken.status, named.status) == (2, 2, 2)
    assert broken.err.startswith(f"trio-mcp servers: {tmp_path}/broken.json: not JSON")
    assert named.err.startswith("trio-mcp servers: unknown arguments: sums")


def test_the_tools_of_all_servers_of_a_file_are_listed(tmp_path: Path, command: Command) -> None:
    none = started(*raw(capabilities={}, answers={"tools/list": {"tools": []}})[2:])
    path = table(tmp_path, sums=started(SERVER), none=none)

    done = command("tools", "--config", path)
    document = json.loads(command("tools", "--config", path, "--json").out)

    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "sums\tadd\ta=INTEGER b=INTEGER\tAdd two numbers."
    assert {line.split("\t")[0] for line in done.out.splitlines()} == {"sums"}
    assert document["servers"]["sums"]["tools"][0]["name"] == "add"
    assert document["servers"]["none"] == {"tools": []}


def test_a_server_that_cannot_be_asked_does_not_hide_the_tools_of_others(tmp_path: Path, command: Command) -> None:
    refusing = started(*raw(errors={"tools/list": "not today"})[2:])
    path = table(tmp_path, gone=started("-c", "raise SystemExit(7)"), refusing=refusing, sums=started(SERVER))

    done = command("tools", "--config", path)

    assert done.status == 3
    assert done.out.startswith("sums\tadd\t")
    assert "refusing: not today (-32000)\n" in done.err
    assert done.err.endswith("trio-mcp tools: these servers could not be asked: gone, refusing\n")


def test_a_file_with_one_server_needs_no_name(tmp_path: Path, command: Command) -> None:
    one = table(tmp_path, sums=started(SERVER))
    assert command("call", "add", "a=1", "b=2", "--config", one).out == "3\n"
    assert command("tools", "add", "--config", one).out.startswith("tool\tadd\n")

    two = table(tmp_path, sums=started(SERVER), more=started(SERVER))
    done = command("call", "add", "a=1", "b=2", "--config", two)
    assert done.status == 2
    assert done.err == f"trio-mcp call: name a server, as in --config {two} sums: there are sums, more\n"


def test_no_name_and_no_server_in_a_file_is_reported(tmp_path: Path, command: Command) -> None:
    path = table(tmp_path)

    assert command("info", "--config", path).err == f"trio-mcp info: {path} has no servers\n"


def test_a_sign_in_needs_the_name_of_a_server(tmp_path: Path, command: Command) -> None:
    path = table(tmp_path, sums=started(SERVER))

    done = command("tools", "--login", "--config", path)

    assert (done.status, done.err) == (2, f"trio-mcp tools: --login needs one server: --config {path} NAME\n")


@pytest.mark.parametrize("arguments", [("servers", "--config"), ("--config",), ("servers", "--json", "--config")])
def test_a_file_that_names_a_server_twice_is_refused(
    arguments: tuple[str, ...], tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"mcpServers": {"b": {"command": "x"}, "a": {"command": "x"}, "a": {"command": "y"}}}')

    done = command(*arguments, str(path))

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"trio-mcp servers: {path}: server 'a': the name is given twice; rename one of the two entries\n"
    )
