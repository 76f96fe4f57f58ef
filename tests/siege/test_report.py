"""The verdict of a siege: what fails it, and the figures that it prints."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import attrs
import pytest

from siege.records import CALL, HOSTILE, IN_FLIGHT, Record, RecordFile, percentile, read_records, within
from siege.report import Limits, Phase, Report, Stop

REST = Phase(name="rest", begin=0, end=10, until=12, memory_kib=40_000, memory_before_kib=40_000, files=20)
ATTACK = Phase(
    name="slow calls", begin=12, end=22, until=24, outcomes={"200": 1234}, memory_kib=50_000, memory_before_kib=40_000
)
IN_THE_END = [Record(IN_FLIGHT, "wait", 25, 1.5)]
STOP = Stop(
    status=199,
    expected_status=199,
    seconds=16.0,
    allowed_seconds=30.0,
    in_flight=IN_THE_END,
    expected_in_flight=1,
)


def calls(phase: Phase, seconds: float) -> list[Record]:
    return [Record(CALL, "add", phase.begin + n / 100, seconds) for n in range(100)]


GOOD = Report(rest=REST, attacks=[ATTACK], records=[*calls(REST, 0.01), *calls(ATTACK, 0.02)], stop=STOP)


def test_a_siege_of_which_the_ordinary_user_notices_little_passes() -> None:
    lines = [*GOOD.lines()]

    assert GOOD.failures == []
    assert lines[0] == "siege: 1 attacks, 200 calls of the ordinary user"
    assert "1,234 200" in lines[3]
    assert lines[-2:] == ["stop: status 199 after 16.0 s of 30 s", "passed"]


def test_a_siege_fails_if_the_calls_take_more_than_ten_times_as_long_as_at_rest() -> None:
    report = attrs.evolve(GOOD, records=[*calls(REST, 0.01), *calls(ATTACK, 0.11)])

    assert report.failures == ["slow calls: the p99 of the ordinary user was 110 ms, and may be 100 ms"]
    assert [*report.lines()][-1].startswith("FAILED: slow calls")


def test_the_time_at_rest_counts_as_at_least_five_milliseconds() -> None:
    report = attrs.evolve(GOOD, records=[*calls(REST, 0.001), *calls(ATTACK, 0.049)])

    assert report.allowed_seconds == pytest.approx(0.05)
    assert report.failures == []


def test_a_siege_fails_if_the_ordinary_user_made_no_call() -> None:
    report = attrs.evolve(GOOD, records=calls(REST, 0.01))

    assert report.failures == ["slow calls: the ordinary user made no call"]


def test_a_wrong_answer_in_the_pause_after_an_attack_fails_the_attack() -> None:
    report = attrs.evolve(GOOD, records=[*GOOD.records, *[Record(CALL, "add", 23.0, 0.1, "it was wrong")] * 2])

    assert report.failures == ["slow calls: 2 times add: it was wrong"]


def test_of_many_different_faults_the_report_quotes_some_and_counts_all() -> None:
    wrong = [Record(CALL, "add", 23.0, 0.1, f"wrong {n}") for n in range(9)]
    report = attrs.evolve(GOOD, records=[*GOOD.records, *wrong])

    assert len(report.failures) == 6
    assert report.failures[-1] == "slow calls: 9 calls of the ordinary user failed in all"


def test_a_refused_answer_of_the_hostile_server_is_no_fault() -> None:
    report = attrs.evolve(GOOD, records=[*GOOD.records, Record(HOSTILE, "hostile", 13.0, 0.1, "refused")])

    assert report.failures == []


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"breaches": ["the secret was seen"]}, "slow calls: the secret was seen"),
        ({"failures": ["the server ended"]}, "slow calls: the server ended"),
        ({"log_lines": 201}, "slow calls: the server wrote 201 lines into its log, and may write 200"),
        (
            {"log_lines": 401, "tracebacks": 2},
            "slow calls: the server wrote 401 lines into its log, and may write 400",
        ),
        ({"memory_kib": 40_000 + 769 * 1024}, "slow calls: the memory of the server grew by 769 MiB"),
    ],
)
def test_a_siege_fails_if_the_attack_had_an_effect(changes: dict[str, Any], failure: str) -> None:
    report = attrs.evolve(GOOD, attacks=[attrs.evolve(ATTACK, **changes)])

    assert report.failures == [failure]


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"status": None}, "stop: the server did not end within 30 s"),
        ({"status": 0}, "stop: the server ended with the status 0, and 199 is expected"),
        (
            {"in_flight": [Record(IN_FLIGHT, "wait", 25, 1.5, "it was lost")]},
            "stop: 0 of 1 calls in flight were answered: it was lost",
        ),
    ],
)
def test_a_siege_fails_if_the_server_does_not_stop_as_promised(changes: dict[str, Any], failure: str) -> None:
    report = attrs.evolve(GOOD, stop=attrs.evolve(STOP, **changes))

    assert report.failures == [failure]


def test_a_siege_without_a_stop_is_judged_by_its_attacks() -> None:
    report = attrs.evolve(GOOD, stop=None)

    assert report.failures == []


def test_the_figures_are_available_as_json() -> None:
    figures = json.loads(json.dumps(GOOD.json()))

    assert figures["failures"] == []
    assert figures["phases"]["slow calls"]["calls"] == 100
    assert figures["phases"]["slow calls"]["p99"] == pytest.approx(0.02)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(1, 201)]

    assert percentile(values, 0.99) == 198.0
    assert percentile(values, 0.5) == 100.0
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.99))


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = [Record(CALL, "add", 1.5, 0.25), Record(CALL, "ask", 2.5, 0.5, "lost")]
    assert read_records(tmp_path) == []
    file = RecordFile.open(tmp_path)
    for record in records:
        file.write(record)
    file.close()

    assert read_records(tmp_path) == records
    assert [*within(records, 1.5, 2.5)] == records[:1]


def test_the_default_limit_is_that_of_the_promise() -> None:
    assert Limits().times == 10.0
