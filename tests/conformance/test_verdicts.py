"""Tests of the verdicts on results of the suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.conformance.runner.scenarios import Scenario
from tests.conformance.runner.verdicts import Check, expecting_failure, judge, read_checks, read_results

SCENARIO = Scenario("client", "2026-07-28", "tools_call", least=2, is_watched=True, skips=frozenset({"OldWay"}))
WIRE = Check("wire-schema-valid", "WireSchemaValid", "SUCCESS", "")
CALLED = Check("tool-called", "ToolCalled", "SUCCESS", "")
GOOD = [CALLED, WIRE]


def written(**more: Any) -> dict[str, Any]:
    """Return a check in the format of the suite."""
    check: dict[str, Any] = {"id": "tool-called", "name": "ToolCalled", "description": "…", "status": "SUCCESS"}
    return {**check, "specReferences": [], "timestamp": "2026-11-22T00:00:00.000Z", **more}


def test_a_scenario_passes_when_all_its_checks_succeed() -> None:
    verdict = judge(SCENARIO, GOOD)

    assert verdict.faults == []
    assert verdict.counts == {"SUCCESS": 2}


def test_an_informational_check_does_not_count() -> None:
    informational = Check("incoming-request", "IncomingRequest", "INFO", "")

    assert judge(SCENARIO, [*GOOD, informational]).faults == []


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED", "PENDING"])
def test_every_other_status_is_a_fault(status: str) -> None:
    verdict = judge(SCENARIO, [*GOOD, Check("retry", "Retry", status, "too early")])

    assert verdict.faults == [f"{status} retry (Retry): too early"]
    assert verdict.counts[status] == 1


def test_a_check_that_may_be_skipped_must_not_fail() -> None:
    old = Check("headers", "OldWay", "SKIPPED", "")

    assert judge(SCENARIO, [*GOOD, old]).faults == []
    assert judge(SCENARIO, [*GOOD, evolve(old, status="FAILURE")]).faults == ["FAILURE headers (OldWay)"]


def test_messages_that_were_not_validated_against_the_schema_are_a_fault() -> None:
    (fault,) = judge(SCENARIO, [CALLED, CALLED]).faults
    assert "wire-schema-valid is missing" in fault

    assert judge(evolve(SCENARIO, is_watched=False), [CALLED, CALLED]).faults == []


def test_checks_that_were_not_reached_are_reported_as_missing() -> None:
    assert judge(SCENARIO, [WIRE]).faults == ["1 checks succeeded where 2 should: some were not reached"]


def test_a_client_that_ended_with_an_error_is_a_fault() -> None:
    assert judge(SCENARIO, GOOD, crash="status 1").faults == ["status 1"]


def test_a_scenario_without_results_did_not_pass() -> None:
    verdict = judge(SCENARIO, None, crash="status 1")

    assert verdict.counts == {}
    assert verdict.faults == ["status 1", "there are no results: the scenario did not run to its end"]


def test_a_scenario_that_has_to_fail_must_not_pass() -> None:
    failed, passed = judge(SCENARIO, [WIRE]), judge(SCENARIO, GOOD)

    excused, faulty = (expecting_failure(verdict, "nothing carries it") for verdict in (failed, passed))

    assert (excused.faults, excused.excuse) == ([], "nothing carries it")
    assert faulty.faults == ["it passes, and is expected to fail: nothing carries it"]


def test_checks_are_read_from_the_file_of_the_suite() -> None:
    text = json.dumps([written(), written(id="x", name="x", status="FAILURE", errorMessage="no", details={"a": 1})])

    checks = read_checks(text)

    assert checks == [CALLED, Check("x", "x", "FAILURE", "no")]
    assert str(checks[1]) == "FAILURE x: no"


@pytest.mark.parametrize("text", ["", "7", "{}x", '[{"id": "x"}]', "[7]"])
def test_a_file_that_is_not_a_list_of_checks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"checks|JSON|Expecting|Extra"):
        read_checks(text)


def test_results_are_found_by_the_names_of_their_folders(tmp_path: Path) -> None:
    def write(folder: str, status: str) -> None:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "checks.json").write_text(json.dumps([written(status=status)]))

    write("server-ping-2026-11-22T00-27-28-735Z", "FAILURE")
    write("server-ping-2026-11-22T00-27-29-001Z", "SUCCESS")
    write("server-ping-2026-07-28-2026-11-22T00-27-29-001Z", "WARNING")
    write("server-auth/basic-cimd-2026-11-22T00-27-29-001Z", "INFO")
    write("notes", "FAILURE")
    (tmp_path / "server-broken-off-2026-11-22T00-27-29-001Z").mkdir()

    results = read_results(tmp_path, prefix="server-")

    statuses = {name: [check.status for check in checks] for name, checks in results.items()}
    assert statuses == {"ping": ["SUCCESS"], "ping-2026-07-28": ["WARNING"], "auth/basic-cimd": ["INFO"]}
