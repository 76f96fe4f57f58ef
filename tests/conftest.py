"""The plugins of the whole suite, and its demands on the process that it runs in."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

pytest_plugins = ["tests.requirements_plugin"]


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Generator[None]:
    """Let interrupts interrupt: what a shell runs in the background ignores them, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
