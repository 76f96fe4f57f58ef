"""The command in this process, for what needs no process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from attrs import frozen

from trio_mcp.cli import main


@frozen
class Done:
    """What a command left behind."""

    status: object
    out: str
    err: str


Command: TypeAlias = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `trio-mcp` with these arguments."""

    def run(*arguments: str) -> Done:
        try:
            status: object = main(arguments)
        except SystemExit as left:
            status = left.code
        printed = capsys.readouterr()
        return Done(status, printed.out, printed.err)

    return run
