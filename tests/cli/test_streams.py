"""Standard streams that are closed, full or without a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import PROGRAMS, SAMPLE, environment

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")

CALL = ["call", "add", "a=1", "b=2"]


def run_in_shell(redirections: str, *arguments: str, unbuffered: str = "") -> tuple[int, bytes, bytes]:
    """Run the command with shell redirections; *unbuffered* is the value of PYTHONUNBUFFERED."""
    line = f'exec "$@" {redirections}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, "-m", "trio_mcp", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, env=environment() | {"PYTHONUNBUFFERED": unbuffered},
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("redirections", "out"), [("<&-", b"3\n"), (">&-", b""), ("2>&-", b"3\n"), ("<&- >&- 2>&-", b"")]
)
def test_a_command_works_with_a_closed_stream(redirections: str, out: bytes) -> None:
    assert run_in_shell(redirections, *CALL, *SAMPLE) == (0, out, b"")


def test_arguments_from_a_closed_input_are_not_json() -> None:
    status, _, error = run_in_shell("<&-", "call", "add", "--arguments", "-", *SAMPLE)

    assert (status, error.count(b"\n")) == (2, 1)
    assert error.startswith(b"trio-mcp call: --arguments: not JSON")


def test_serve_needs_standard_output() -> None:
    status, _, error = run_in_shell(">&-", "serve", str(PROGRAMS / "sample_server.py"))

    assert status == 3
    assert error.startswith(b"trio-mcp serve: standard output (descriptor 1) is closed")
    assert error.count(b"\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [CALL, [*CALL, "--json"], [*CALL, "-o", "-"], ["tools"], ["read", "bytes://all"]])
def test_an_unwritable_result_is_not_blamed_on_the_server(arguments: list[str], unbuffered: str) -> None:
    status, _, error = run_in_shell(">/dev/full", *arguments, *SAMPLE, unbuffered=unbuffered)

    message = b"cannot write to standard output: No space left on device"
    assert (status, error) == (2, b"trio-mcp %s: %s\n" % (arguments[0].encode(), message))


def test_an_unwritable_long_result_is_not_blamed_on_the_server() -> None:
    prompt = ["prompt", "review", f"code={'x' * 100_000}"]

    status, _, error = run_in_shell(">/dev/full", *prompt, *SAMPLE)

    assert (status, error) == (2, b"trio-mcp prompt: cannot write to standard output: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_closes_the_pipe_is_not_a_failure(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:  # noqa: PTH123  # a descriptor
        done = subprocess.run(
            [sys.executable, "-m", "trio_mcp", "tools", *SAMPLE], stdin=subprocess.DEVNULL, stdout=closed,
            stderr=subprocess.PIPE, env=environment() | {"PYTHONUNBUFFERED": unbuffered}, timeout=60, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (141, b"")


def test_notes_that_cannot_be_written_do_not_affect_the_result() -> None:
    logging = ["call", "chatter", "--log-level", "debug", "--trace", "-"]

    assert run_in_shell("2>/dev/full", *logging, *SAMPLE) == (0, b"logged\n", b"")


def test_a_failure_whose_message_cannot_be_written_still_has_its_status() -> None:
    assert run_in_shell("2>/dev/full", "call", "nonsense", *SAMPLE) == (2, b"", b"")
