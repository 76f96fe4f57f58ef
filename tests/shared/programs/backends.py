"""The backend of a URL, for the programs of these tests."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from trio_mcp import RedisShared, SqliteShared
from trio_mcp.abc import Shared

TIMES: Mapping[str, float] = {
    "trio_mcp.shared._redis_connection.LONGEST_CALL": 30.0,
    "trio_mcp.shared._redis_connection._LONGEST_CONNECT": 10.0,
    "trio_mcp.shared._redis_follow.LONGEST_CALL": 30.0,
    "trio_mcp.shared._redis_follow._GRACE": 30.0,
    "trio_mcp.shared._sqlite._LONGEST_WAIT": 30.0,
}
"""Time limits in seconds, with which no test depends on the speed of the machine."""


def patient_backend(url: str) -> Shared:
    """Return the backend of `backend_of`, in a program of its own."""
    for name, seconds in TIMES.items():
        module, _, attribute = name.rpartition(".")
        setattr(import_module(module), attribute, seconds)
    return backend_of(url)


def backend_of(url: str) -> Shared:
    """Return the backend of a URL of Redis, or of the path of an SQLite file."""
    return RedisShared(url) if "://" in url else SqliteShared(url)
