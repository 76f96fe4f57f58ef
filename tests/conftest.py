"""The plugins of the whole suite, and its demands on the process that it runs in."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import tempfile
import time
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
_watchdog = pytest.StashKey["_Watchdog"]()


class _Watchdog:
    """A watchdog that ends a run in which a test hangs, and shows where it hangs.

    pytest's own, `faulthandler_timeout`, starts a thread for each test and waits for its end. On a busy machine that
    takes milliseconds, longer than most tests; so this one is set again at most once in `_INTERVAL`.
    """

    _LIMIT = 360.0
    """Seconds from the start of a test, or from up to `_INTERVAL` before it."""
    _INTERVAL = 60.0
    """Seconds."""

    def __init__(self) -> None:
        # A file of its own, because pytest replaces standard error while tests run.
        self._output = os.dup(2)
        self._set_at = -self._INTERVAL

    def set(self) -> None:
        """Give the next test its time."""
        if time.monotonic() - self._set_at >= self._INTERVAL:
            faulthandler.dump_traceback_later(self._LIMIT, exit=True, file=self._output)
            self._set_at = time.monotonic()

    def stop(self) -> None:
        """Let the process take any time from now on."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._output)


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for what clients remember, and a watchdog."""
    config.stash[_folder] = tempfile.TemporaryDirectory(prefix="trio-mcp-tests-")
    config.stash[_watchdog] = _Watchdog()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove them."""
    config.stash[_watchdog].stop()
    config.stash[_folder].cleanup()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the time of a test, and give it a cache folder of its own.

    Clients remember servers there, and the user's real one is no place.
    """
    item.config.stash[_watchdog].set()
    os.environ["XDG_CACHE_HOME"] = str(Path(item.config.stash[_folder].name, str(next(_number))))


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Generator[None]:
    """Restore the default handling of SIGINT: a shell's background jobs and their children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
