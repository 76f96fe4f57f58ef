"""The environment variables that a child server inherits."""

from __future__ import annotations

import pytest

from trio_mcp.transports.stdio._client import child_environment


def test_only_variables_that_any_program_needs_are_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "os.environ",
        {"PATH": "/bin", "LC_TIME": "de_DE", "TZ": "UTC", "AWS_SECRET_ACCESS_KEY": "secret", "LD_PRELOAD": "x.so"},
    )

    assert child_environment() == {"PATH": "/bin", "LC_TIME": "de_DE", "TZ": "UTC"}


def test_variables_of_the_caller_are_added_and_replace_inherited_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/bin", "HOME": "/home/me"})

    assert child_environment({"PATH": "/opt", "TOKEN": "t"}) == {"PATH": "/opt", "HOME": "/home/me", "TOKEN": "t"}


def test_an_exported_shell_function_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"TERM": "() { :; }; echo code", "HOME": "/home/me"})

    assert child_environment() == {"HOME": "/home/me"}
