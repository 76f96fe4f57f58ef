"""A fixture that runs the command in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from attrs import frozen

from trio_mcp.cli import main


@frozen
class Done:
    """The exit status and the output of a command."""

    status: object
    out: str
    err: str


Command: TypeAlias = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs `trio-mcp` with the given arguments."""

    def run(*arguments: str) -> Done:
        try:
            status: object = main(arguments)
        except SystemExit as exited:
            status = exited.code
        printed = capsys.readouterr()
        return Done(status, printed.out, printed.err)

    return run
