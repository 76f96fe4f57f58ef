"""`trio-mcp watch`: changes and log messages of a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.command import environment, raw, run

URI = "file:///config.json"
CAPABILITIES: Any = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
META = {"_meta": {"io.modelcontextprotocol/subscriptionId": "ID"}}
TOOLS: Any = {"method": "notifications/tools/list_changed"}
UPDATED: Any = {"method": "notifications/resources/updated", "params": {"uri": URI}}
LOG: Any = {"method": "notifications/message", "params": {"level": "notice", "data": "\x1b[31mhot"}}
HANDSHAKE = raw(
    capabilities=CAPABILITIES | {"logging": {}},
    answers={"resources/subscribe": {}},
    after={"resources/subscribe": [LOG, TOOLS, UPDATED]},
)
MODERN: Any = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "ttlMs": 0, "cacheScope": "private"}
ENVELOPED = raw(
    answers={"server/discover": MODERN},
    after={
        "subscriptions/listen": [
            {
                "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"toolsListChanged": True}, **META},
            },
            TOOLS | {"params": META},
        ]
    },
)


@contextmanager
def watch(*arguments: str) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "trio_mcp", "watch", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> set[str]:
    assert process.stdout is not None
    return {process.stdout.readline().removesuffix("\n") for _ in range(count)}


def note(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().removesuffix("\n")


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert (process.returncode, rest) == (130, "trio-mcp watch: interrupted\n")


def test_changes_and_log_messages_are_printed_immediately() -> None:
    with watch(URI, *HANDSHAKE) as process:
        assert note(process) == f"watching log messages, tools, prompts, resources, {URI}; press Ctrl+C to stop"
        assert lines(process, 3) == {
            "[notice] \\x1b[31mhot",
            "the list of tools has changed",
            f"{URI} has changed",
        }
        end(process)


def test_each_line_of_json_output_is_a_notification() -> None:
    with watch(URI, "--json", *HANDSHAKE) as process:
        messages = [json.loads(line) for line in lines(process, 3)]
        note(process)
        end(process)

    assert sorted(messages, key=lambda message: str(message["method"])) == [LOG, UPDATED, TOOLS | {"params": {}}]


def test_a_refused_subscription_is_reported() -> None:
    with watch(URI, *ENVELOPED) as process:
        assert note(process) == "watching tools; press Ctrl+C to stop"
        assert note(process) == f"the server does not report changes of {URI}"
        assert lines(process, 1) == {"the list of tools has changed"}
        end(process)


def test_a_server_that_ends_the_subscription_ends_the_command() -> None:
    ack = {"method": "notifications/subscriptions/acknowledged", "params": {"notifications": {}, **META}}
    result = {"id": "ID", "result": {"resultType": "complete", **META}}
    done = run("watch", *raw(answers={"server/discover": MODERN}, after={"subscriptions/listen": [ack, result]}))

    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"watching nothing; press Ctrl+C to stop\nthe server has ended the subscription\n"


def test_a_server_that_exits_ends_the_command_with_status_3() -> None:
    server = raw(
        capabilities=CAPABILITIES, answers={"resources/subscribe": {}}, after={"resources/subscribe": [TOOLS]}, exit=7
    )

    done = run("watch", URI, *server)

    assert (done.returncode, done.stdout) == (3, b"the list of tools has changed\n")
    assert done.stderr.decode().splitlines()[-1] == "trio-mcp watch: the server process exited with status 7"


def test_a_server_that_only_logs_can_be_watched() -> None:
    server = raw(capabilities={"logging": {}}, answers={"logging/setLevel": {}, "ping": {}}, after={"ping": [LOG]})

    with watch(*server) as process:
        assert note(process) == "watching log messages; press Ctrl+C to stop"
        assert lines(process, 1) == {"[notice] \\x1b[31mhot"}
        end(process)


@pytest.mark.parametrize(
    "arguments",
    [
        raw(capabilities={"tools": {}}),
        [URI, *raw(capabilities={"logging": {}})],
        raw(answers={"server/discover": MODERN | {"capabilities": {"logging": {}}}}),
    ],
    ids=[
        "nothing",
        "only log messages, but a resource was asked for",
        "only log messages, which the modern revision does not carry here",
    ],
)
def test_a_server_without_change_notifications_cannot_be_watched(arguments: list[str]) -> None:
    done = run("watch", *arguments)

    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].startswith("trio-mcp watch: the server has not declared")


def test_a_closed_pipe_of_log_messages_ends_the_command() -> None:
    server = raw(capabilities={"logging": {}}, answers={"ping": {}}, after={"ping": [LOG]})
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:  # noqa: PTH123  # a descriptor
        done = subprocess.run(
            [sys.executable, "-m", "trio_mcp", "watch", *server],
            stdout=closed, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (141, b"watching log messages; press Ctrl+C to stop\n")
