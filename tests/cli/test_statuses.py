"""The ends of commands: exit statuses, messages and signals."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import PROGRAMS, SAMPLE, environment, raw, run
from tests.cli.conftest import Command

SERVER = str(PROGRAMS / "sample_server.py")
MISSING = "is `--` missing? write: trio-mcp"
SILENT_SERVER = ["--", sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["call", "add", "a=1", "b=2", *SAMPLE], 0, ""),
        (["call", "fail", *SAMPLE], 1, "trio-mcp call: tool 'fail' failed: no reason"),
        (["read", "a://b", *raw(errors={"resources/read": "gone"})], 1, "trio-mcp read: gone (-32000)"),
        (["watch", "memo://one", *raw(capabilities={})], 1, "trio-mcp watch: the server has not declared"),
        (["call", "add", "a=x", "b=2", *SAMPLE], 2, "trio-mcp call: the arguments do not fit"),
        (["tools", "--revision", "1999-01-01", *SAMPLE], 2, "trio-mcp tools: revision='1999-01-01'"),
        (["tools"], 2, "trio-mcp tools: no server"),
        (["tools", "--", "/no/such/program"], 3, "trio-mcp tools: cannot start '/no/such/program': No such file"),
        (["call", "book", *raw(exit=7)], 3, "trio-mcp call: the server process exited with status 7"),
        (["tools", "--revision", "2024-11-05", *raw()], 3, "trio-mcp tools: no common protocol revision"),
        (["tools", *raw(answers={"tools/list": {"tools": 1}})], 3, "trio-mcp tools: the result of 'tools/list'"),
        (
            ["tools", "--timeout", "0.2", *SILENT_SERVER],
            3,
            "trio-mcp tools: the server has not agreed to a revision within",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_a_command_ends_with_a_status_and_one_line(arguments: list[str], status: int, line: str) -> None:
    done = run(*arguments)

    printed = done.stderr.decode()
    assert done.returncode == status, printed
    assert printed.splitlines()[-1:] == [] if line == "" else printed.splitlines()[-1].startswith(line)
    assert (done.stdout == b"") == (status != 0)


def test_a_call_that_exceeds_its_timeout_is_cancelled_on_the_server(tmp_path: Path, command: Command) -> None:
    written = tmp_path / "stopped"

    done = command("call", "book", "--timeout", "3", *raw(cancelled=str(written)))

    assert (done.status, done.out) == (3, "")
    assert done.err == "trio-mcp call: 'tools/call' took longer than 3 s in all (TimeLimits.total)\n"
    assert "requestId" in json.loads(written.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_handler_of_a_call(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trio_mcp", "call", "hang", "--trace", "-", *SAMPLE, str(tmp_path / "cancelled")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stderr is not None
        while b"notifications/progress" not in process.stderr.readline():
            pass
        process.send_signal(number)
        printed = process.stderr.read().decode()

    assert process.returncode == 128 + number
    assert "notifications/cancelled" in printed
    assert printed.splitlines()[-1] in {"trio-mcp call: interrupted", "trio-mcp call: ended by SIGTERM"}
    assert (tmp_path / "cancelled").read_text() == "stopped"


def test_a_signal_while_connecting_ends_the_command_at_once() -> None:
    command = [sys.executable, "-m", "trio_mcp", "tools", "--trace", "-", *SILENT_SERVER]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stderr is not None
        assert b"server/discover" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().endswith(b"trio-mcp tools: interrupted\n")

    assert process.returncode == 130


IGNORING_SERVER = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        server = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}},
                  "supportedVersions": ["2026-07-28"]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": server}), flush=True)
print("input has ended", file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_a_second_and_a_third_signal_kill_a_server_that_ignores_its_end_of_input() -> None:
    command = [sys.executable, "-m", "trio_mcp", "tools", "--trace", "-", "--", sys.executable, "-c", IGNORING_SERVER]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stderr is not None
        while b"tools/list" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        while b"input has ended" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"trio-mcp tools: interrupted\n"

    assert process.returncode == 130


def test_a_closed_pipe_ends_the_command_silently() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:  # noqa: PTH123  # a descriptor
        done = subprocess.run(
            [sys.executable, "-m", "trio_mcp", "tools", *SAMPLE],
            stdout=closed, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (141, b"")


def test_terminal_commands_in_error_messages_of_a_server_are_escaped(command: Command) -> None:
    done = command("read", "a://b", *raw(errors={"resources/read": "\x1b[31mno\ntrio-mcp read: all is well"}))

    assert done.err == "trio-mcp read: \\x1b[31mno\n    trio-mcp read: all is well (-32000)\n"


def test_terminal_commands_in_log_messages_about_a_server_are_escaped(command: Command) -> None:
    update = {"method": "notifications/progress", "params": {"progressToken": "PROGRESS", "progress": "\x1b[31m"}}
    log: Any = {"method": "notifications/message", "params": {"level": "\x1b[31m", "data": 1}}

    done = command("call", "book", "--log-level", "info", *raw(notes=[update, log], capabilities={"tools": {}}))

    assert done.status == 0
    assert "trio-mcp: a log message of the server does not fit" in done.err
    assert "\x1b" not in done.err
    assert logging.getLogger("trio_mcp").handlers == []


SERVERS: Any = {
    "mcpServers": {
        "mine": {"command": sys.executable, "args": [str(PROGRAMS / "sample_server.py")]},
        "far": {"url": "ftp://example.org/mcp"},
        "odd": 3,
        "off": {"command": "true", "disabled": True},
    }
}


def test_a_server_in_a_config_file_is_found_by_its_name(tmp_path: Path, command: Command) -> None:
    (tmp_path / "servers.json").write_text(json.dumps(SERVERS))
    (tmp_path / "code.json").write_text(json.dumps({"servers": SERVERS["mcpServers"]}))

    assert command("call", "add", "a=1", "b=2", "--config", f"{tmp_path}/servers.json", "mine").out == "3\n"
    assert command("call", "add", "a=1", "b=2", "--config", f"{tmp_path}/code.json", "mine").out == "3\n"


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (json.dumps(SERVERS), "mind", "no server 'mind'; did you mean mine?"),
        (json.dumps(SERVERS), "odd", "server 'odd': expected an object"),
        (json.dumps(SERVERS), "off", "server 'off' is disabled"),
        (json.dumps(SERVERS), "far", "server 'far': 'ftp://example.org/mcp' is not the address"),
        ("[]", "mine", "expected an object with the member 'mcpServers'"),
        ("{", "mine", "not JSON"),
    ],
)
def test_a_fault_in_a_config_file_is_reported_in_one_line(
    content: str, name: str, message: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "servers.json").write_text(content)

    done = command("tools", "--config", str(tmp_path / "servers.json"), name)

    assert done.status == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_missing_config_file_is_reported(command: Command) -> None:
    done = command("tools", "--config", "/no/such/file", "mine")

    assert (done.status, done.err) == (2, "trio-mcp tools: cannot read /no/such/file: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tools", "sh", SERVER], f"chatter; {MISSING} tools -- sh {SERVER}"),
        (["call", "add", "a=1", "sh", SERVER], f"expected KEY=VALUE, got 'sh'; {MISSING} call add a=1 -- sh {SERVER}"),
        (["call", "add", SERVER, "sh"], "expected KEY=VALUE, got 'sh'"),
        (["call", "add", "no-such-program", SERVER], "expected KEY=VALUE, got 'no-such-program'"),
        (["call", "add", "sh", "b=1", *SAMPLE], "expected KEY=VALUE, got 'sh'"),
        (["install", SERVER, "--host", "json", "--env", "sh", "--dry-run"], "expected KEY=VALUE, got 'sh'"),
    ],
)
def test_words_that_seem_to_start_a_server_are_a_sign_of_missing_dashes(
    arguments: list[str], message: str, command: Command
) -> None:
    done = command(*arguments)

    assert done.status == 2
    assert done.err.endswith(f"{message}\n")


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-06-18"])
def test_a_question_without_a_terminal_names_the_option_that_answers_it(
    revision: str, tmp_path: Path, command: Command
) -> None:
    asking = ["--revision", revision, "--", sys.executable, str(PROGRAMS / "asking_server.py")]
    (tmp_path / "answers.json").write_text('{"count": 2}')

    done = command("call", "book", *asking)
    answered = command("call", "book", "--answer", str(tmp_path / "answers.json"), *asking)

    assert done.status == 1
    assert done.err.endswith(" (use --answer FILE, or a terminal)\n")
    assert (answered.status, answered.out) == (0, "2 seats\n")
