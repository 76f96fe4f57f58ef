"""Tests of the list of required scenarios, and of its comparison with the list of the suite."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from tests.conformance.runner.scenarios import read_scenarios
from tests.conformance.runner.suite import Found, read_last_words, read_list
from tests.conformance.runner.table import left_out, summary, table
from tests.conformance.runner.verdicts import Check, expecting_failure, judge

SCENARIOS = read_scenarios()

LIST = """\
Required for 2026-07-28 (69 scenarios, frozen; run at the 2026-07-28 wire):

Server scenarios (test against a server):
  - server-stateless
  - tools-list

Client scenarios (test against a client):
  - tools_call
  - auth/basic-cimd

Run and reported, but never scored:
  extension (16):
    - tasks-lifecycle [server]
  - odd-one
"""


def test_each_leg_has_the_frozen_number_of_scenarios_and_the_additional_ones() -> None:
    sizes = {
        (leg, revision): len(SCENARIOS.of(leg, revision))
        for leg in ("server", "client")
        for revision in SCENARIOS.revisions(leg)
    }

    assert sizes == {
        ("server", "2025-06-18"): 27,
        ("server", "2025-11-25"): 30 + 3,
        ("server", "2026-07-28"): 37 + 3,
        ("client", "2025-11-25"): 18 + 7 + 2,
        ("client", "2026-07-28"): 32 + 7,
        ("server", "extensions"): 9 + 3,
        ("client", "extensions"): 4,
    }


def test_only_the_expected_scenarios_are_unwatched_or_have_skips() -> None:
    unwatched = {(each.leg, each.name) for each in SCENARIOS.required if not each.is_watched}

    assert len(unwatched) == 5 + 9 + 4 + 33
    assert [each.name for each in SCENARIOS.required if each.skips] == ["http-standard-headers"]
    assert [*SCENARIOS.not_through_gateway] == ["server-sse-polling"]


def test_a_scenario_that_the_suite_requires_is_run_or_left_out_for_a_reason() -> None:
    requested = ["tools_call", "tasks-status-notifications", "telepathy"]

    assert SCENARIOS.unexpected("client", "2026-07-28", requested) == ["telepathy"]
    assert SCENARIOS.unexpected("client", "2025-06-18", requested) == ["tools_call", "telepathy"]
    assert SCENARIOS.why_left_out("tasks-status-notifications") == "the suite skips it"
    assert SCENARIOS.why_left_out("tools_call") is None


def test_the_list_of_the_suite_is_read_without_uncounted_scenarios() -> None:
    assert read_list(LIST) == {
        "server": ["server-stateless", "tools-list"],
        "client": ["tools_call", "auth/basic-cimd"],
    }


def test_the_last_words_of_a_client_are_its_last_line_that_is_not_empty(tmp_path: Path) -> None:
    assert not read_last_words(tmp_path)

    (tmp_path / "stderr.txt").write_text("INFO: hello\n  | RuntimeError: no server\n  +----------\n")

    words = read_last_words(tmp_path)
    assert words == "RuntimeError: no server"
    crash = Found(1, "", last_words=words).crash
    assert crash == f"the suite has ended with status 1; the last output of the client: {words}"
    assert Found(1, "").crash == "the suite has ended with status 1"
    assert Found(0, "", last_words=words).crash is None


def test_the_table_has_a_line_for_each_scenario_and_lists_the_faults() -> None:
    scenario = SCENARIOS.of("server", "2025-11-25")["ping"]
    good = judge(scenario, [Check("ping", "Ping", "SUCCESS", ""), Check("wire-schema-valid", "Wire", "SUCCESS", "")])
    bad = evolve(judge(scenario, None), variant="replayed")

    head, first, second, fault = table([good, bad]).splitlines()

    assert head.split() == ["scenario", "leg", "revision", "passed", "failed", "warned", "skipped"]
    assert first.split() == ["ping", "server", "2025-11-25", "2", "0", "0", "0", "ok"]
    assert second.split() == ["ping", "server", "replayed", "2025-11-25", "0", "0", "0", "0", "BELOW", "THE", "MARK"]
    assert "there are no results" in fault
    assert summary([good, bad]).splitlines() == ["server 2025-11-25: 1 of 1", "server replayed 2025-11-25: 0 of 1"]


def test_a_scenario_that_fails_as_expected_is_not_counted_as_passed_and_has_its_reason_in_the_table() -> None:
    scenario = SCENARIOS.of("server", "2025-11-25")["server-sse-polling"]
    verdict = expecting_failure(judge(scenario, None), "a gateway closes no stream")

    _, row, reason = table([verdict]).splitlines()

    assert row.endswith("fails as expected")
    assert reason.strip() == "a gateway closes no stream"
    assert summary([verdict]) == "server 2025-11-25: 0 of 1, and 1 fails as expected"


def test_a_scenario_that_is_left_out_is_counted_once() -> None:
    requested = ["tasks-status-notifications", "tasks-status-notifications", "tools_call"]

    report = left_out(SCENARIOS, requested)
    assert report == "left out, because the suite skips it: 1 scenarios"
