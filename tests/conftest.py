"""The plugins of the whole suite, and its demands on the process that it runs in."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("hypothesis") is not None:  # sessions without property tests do not install it
    from hypothesis import HealthCheck, settings

    settings.register_profile("steady", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    # The profile of all property tests: none may depend on the speed of the machine. In CI its parent is that of
    # hypothesis for CI.
    settings.register_profile("long", settings.get_profile("steady"), max_examples=2_000)
    # The profile with which `nox -s fuzz -- --seconds N` runs the tests of models and fuzz targets for longer.
    settings.load_profile("steady")

pytest_plugins = ["tests.requirements_plugin"]

_number = itertools.count()
_folder = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for what clients remember."""
    config.stash[_folder] = tempfile.TemporaryDirectory(prefix="trio-mcp-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it."""
    config.stash[_folder].cleanup()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each test a cache folder of its own: clients remember servers there, and the user's real one is no place."""
    os.environ["XDG_CACHE_HOME"] = str(Path(item.config.stash[_folder].name, str(next(_number))))


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Generator[None]:
    """Restore the default handling of SIGINT: a shell's background jobs and their children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
