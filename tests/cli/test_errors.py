"""Failures of a command: each known error has one status and one line, and bugs are raised."""

from __future__ import annotations

import signal

import pytest

from trio_mcp import HttpStatusError, LocalProtocolError, MissingCapability, ServerExited
from trio_mcp.cli._errors import Interrupted, UsageError, explain, wants_sign_in


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (UsageError("no such tool"), (2, "no such tool")),
        (LocalProtocolError("no such request"), (2, "no such request")),
        (MissingCapability("not declared", {"tools": {}}), (1, "not declared")),
        (ServerExited(3, ("traceback", "words")), (3, "the server process exited with status 3")),
        (Interrupted(signal.SIGINT), (130, "interrupted")),
        (Interrupted(signal.SIGTERM), (143, "ended by SIGTERM")),
        (KeyboardInterrupt(), (130, "interrupted")),
        (BaseExceptionGroup("", [BaseExceptionGroup("", [KeyboardInterrupt()])]), (130, "interrupted")),
        (BaseExceptionGroup("", [KeyboardInterrupt(), ValueError()]), None),
        (ValueError("a bug"), None),
    ],
    ids=repr,
)
def test_a_known_error_has_a_status_and_a_message(error: BaseException, known: object) -> None:
    assert explain(error) == known


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (HttpStatusError(401), True),
        (HttpStatusError(403, "insufficient_scope"), True),
        (HttpStatusError(404), False),
        (LocalProtocolError("401"), False),
    ],
    ids=repr,
)
def test_a_sign_in_helps_if_the_server_requires_authentication(error: BaseException, helps: bool) -> None:
    assert wants_sign_in(error) is helps
