"""The trace of a command that cannot be written: messages and statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SAMPLE
from tests.cli.conftest import Command

needs_full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")


@needs_full_disk
def test_an_incomplete_trace_is_reported_after_the_result(command: Command) -> None:
    done = command("call", "add", "a=1", "b=2", "--trace", "/dev/full", *SAMPLE)

    message = "the trace is incomplete: cannot write /dev/full: No space left on device"
    assert (done.status, done.out, done.err) == (2, "3\n", f"trio-mcp call: {message}\n")


@needs_full_disk
def test_the_first_failure_takes_precedence_over_the_trace(command: Command) -> None:
    done = command("call", "fail", "--trace", "/dev/full", *SAMPLE)

    assert done.status == 1
    assert done.err.endswith("trio-mcp call: tool 'fail' failed: no reason\n")
