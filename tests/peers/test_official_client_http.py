"""HTTP behaviour of the official SDK's client with our servers: sessions, their end, and reconnection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.peers.conftest import MODES, Perform
from tests.peers.test_official_client import call, value


def status_of_ping(url: str, session: str) -> int:
    """Return the status of the response to a ping in a session."""
    fields = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Mcp-Session-Id": session,
        "Mcp-Protocol-Version": "2025-11-25",
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    try:
        with urlopen(Request(url, body, fields)) as response:  # the URL is ours
            status: int = response.status
            return status
    except HTTPError as refused:
        with refused:
            return refused.code


def test_the_official_client_deletes_its_session_when_it_closes(
    official_player: Perform, our_urls: Mapping[str, str]
) -> None:
    url = our_urls["library-legacy"]

    report = official_player(mode="legacy", server=url, steps=[{"do": "tools"}])

    (session,) = set(report["sessions"])
    assert report["requests"][-1] == ["DELETE", None, 204]
    assert ["GET", None, 200] in report["requests"]
    assert status_of_ping(url, session) == 404


def test_the_official_client_needs_no_session_in_the_modern_era(
    official_player: Perform, our_urls: Mapping[str, str]
) -> None:
    report = official_player(mode="auto", server=our_urls["library-auto"], steps=[{"do": "tools"}])

    assert report["sessions"] == []
    assert {(method, status) for method, _, status in report["requests"]} == {("POST", 200)}


def test_the_official_client_reconnects_for_an_answer_when_the_server_closes_the_stream(
    official_player: Perform, our_urls: Mapping[str, str]
) -> None:
    report = official_player(mode="legacy", server=our_urls["polled"], steps=[call("be_patient", steps=3)])

    (outcome,) = report["steps"]
    assert value(outcome) == "thank you"
    assert [progress for progress, _, _ in outcome["progress"]] == [1, 2, 3]
    assert ["GET", 200] in [[method, status] for method, event, status in report["requests"] if event]


@pytest.mark.parametrize("mode", MODES)
def test_concurrent_calls_receive_their_own_progress_and_answers(
    official_player: Perform, our_urls: Mapping[str, str], mode: str
) -> None:
    calls = [call("take_stock", seconds_per_book=0.001 * number) for number in range(20)]
    cancelled = call("take_stock", cancel_after=1, seconds_per_book=0.5)

    report = official_player(
        mode=mode, server=our_urls[f"library-{mode}"], steps=[{"do": "together", "steps": [*calls, cancelled]}]
    )

    assert report["revision"] == MODES[mode]
    *done, left = report["steps"][0]
    assert left["cancelled"]
    for outcome in done:
        assert isinstance(value(outcome), list)
        assert [progress for progress, _, _ in outcome["progress"]] == [1, 2, 3, 4, 5, 6, 7]
