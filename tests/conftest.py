"""The plugins of the whole suite, and its demands on the process that it runs in."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

pytest_plugins = ["tests.requirements_plugin"]


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Generator[None]:
    """Restore the default handling of SIGINT: a shell's background jobs and their children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
