"""The choice of the tests that run through the clients for asyncio and without async, made here alone.

A module gets clients of the bridges by a parameter of `PLACES`: a fixture of the conftest, or a list of its own with
the names of `OVER_BRIDGES`. Of these tests, `is_possible` keeps those that a bridge can run. The tests of other folders
have no clients of bridges, and are not looked at.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from tests.interaction.over_bridges import OVER_BRIDGES
from tests.interaction.over_http import IN_PROCESS, carries
from trio_mcp import types

__all__ = ["UNBRIDGED", "is_possible", "opens_clients_itself"]

PLACES = ("transport", "where", "opener", "surface", "opened_by")
"""The parameters of tests that say where a client is opened."""
BRIDGED_REVISIONS = {types.REVISIONS[0], "2025-11-25", types.REVISIONS[-1]}
"""The revisions of the tests that run through the clients for asyncio and without async."""

DIRECT = {"test_asking_keys", "test_asking_states", "test_asking_urls", "test_sampling_content"}
"""Modules whose tests call `open_client` or `open_memory_client` by themselves, and then also those of the bridges."""

SCRIPTED = "its peer is scripted byte by byte, below the client"
TIMED = "its clock jumps, and threads of a bridge do not stop for that"
OVER_HTTP = "it is about HTTP, which a bridge does not touch"
SIGNS_IN = "it signs in by an engine in the Trio run of the test, and a bridge has a run of its own"
INTERNAL = "it looks into clients for Trio"
SERVERS = "it is about servers"
UNBRIDGED = {
    "test_asking_races": "its questions are withdrawn, and callbacks of a bridge that run in threads go on",
    "test_asking_requirements": "its questions are withdrawn, and callbacks of a bridge that run in threads go on",
    "test_authorization": SIGNS_IN,
    "test_authorization_attacks": SIGNS_IN,
    "test_authorization_concurrency": SIGNS_IN,
    "test_authorization_forgeries": SIGNS_IN,
    "test_authorization_secrets": SIGNS_IN,
    "test_authorization_users": SIGNS_IN,
    "test_bad_input": SCRIPTED,
    "test_bad_server": SCRIPTED,
    "test_cancel_everywhere": TIMED,
    "test_client_requirements": SCRIPTED,
    "test_deadlines": TIMED,
    "test_eras": SCRIPTED,
    "test_feature_requirements": SERVERS,
    "test_floods": TIMED,
    "test_garbage": SCRIPTED,
    "test_http2_client": OVER_HTTP,
    "test_http_authorization": OVER_HTTP,
    "test_http_client_requirements": OVER_HTTP,
    "test_http_faults": OVER_HTTP,
    "test_http_hostile_servers": OVER_HTTP,
    "test_http_requirements": OVER_HTTP,
    "test_http_security": OVER_HTTP,
    "test_large_messages": "it measures the memory of the process, which has both ends and a bridge",
    "test_lifetimes": "it starts clients in nurseries and over streams, which the client for Trio alone can",
    "test_processes": "it is about child processes; tests of the bridges end some",
    "test_requirements": "it opens no client",
    "test_revisions": SCRIPTED,
    "test_schemas": INTERNAL,
    "test_security_model": "it opens no client",
    "test_server_requirements": SERVERS,
    "test_stopping": SERVERS,
    "test_time_limits": TIMED,
}
"""The modules of which no test runs through the clients for asyncio and without async, each with its reason."""


def opens_clients_itself(metafunc: pytest.Metafunc) -> bool:
    """Return True if a test calls an opener by itself, and is to call those of the bridges as well."""
    names = metafunc.function.__code__.co_names
    return metafunc.definition.path.stem in DIRECT and not {"open_client", "open_memory_client"}.isdisjoint(names)


def is_possible(item: pytest.Item) -> bool:
    """Return True if the place of a test exists in its revision, and a bridge can run the test if it is one."""
    call: Any = getattr(item, "callspec", None)
    parameters: dict[str, object] = {} if call is None else call.params
    places = {str(value) for name, value in parameters.items() if name in PLACES}
    revision = str(parameters.get("revision", types.REVISIONS[-1]))
    if "cluster" in places and item.get_closest_marker("one_process") is not None:
        return False
    bridges = OVER_BRIDGES.keys() & places
    if bridges and not (revision in BRIDGED_REVISIONS and _passes_bridges(item, bridges)):
        return False
    return all(carries(place, revision) for place in places & {*IN_PROCESS})


def _passes_bridges(item: pytest.Item, bridges: AbstractSet[str]) -> bool:
    """Return True if a test can run through a client of these bridges; see the markers."""
    excluded = [*item.iter_markers("not_bridged"), *(item.iter_markers("cancels") if "sync" in bridges else ())]
    return not excluded and "autojump_clock" not in getattr(item, "fixturenames", ())
