"""The accounting of calls: it detects every lost, duplicated or unfinished call."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.accounting import CANCEL, CUT, KILL, SAFE, account_for
from soak.journal import Entry, Journal, read_journals


def entries(text: str) -> list[Entry]:
    """Return the entries of call 1: ``"asked safe call, began, ended done, got answered"``."""
    words = [entry.strip().partition(" ") for entry in text.split(",")]
    return [Entry(1, event, detail) for event, _, detail in words]


GOOD = {
    "answered": "asked safe call, began, ended done, got answered",
    "in any order": "began, ended done, asked safe call, got answered",
    "cancelled before it was sent": "asked cancel call, got cancelled",
    "cancelled at work": "asked cancel call, began, ended stopped, got cancelled",
    "cancelled and done all the same": "asked cancel call, began, ended done, got cancelled",
    "lost before it came": "asked cut call, got lost: the connection broke",
    "lost at work": "asked cut call, began, ended done, got lost: the connection broke",
    "killed at work": "asked kill call, began, got lost: status -9",
    "a question": "asked safe question, began, questioned, ended done, got answered",
}

WRONG = {
    "is lost": "asked safe call, began, ended done",
    "has an unexpected outcome: lost": "asked safe call, began, ended done, got lost: the connection broke",
    "has an unexpected outcome: cancelled": "asked safe call, began, ended stopped, got cancelled",
    "has an unexpected outcome: silence": "asked cut call, got silence: no response within 60 s",
    "has an unexpected outcome: WrongAnswerError: 2": "asked cut call, began, ended done, got WrongAnswerError: 2",
    "has 2 outcomes": "asked safe call, began, ended done, got answered, got answered",
    "was handled 2 times": "asked safe call, began, ended done, began, ended done, got answered",
    "but its handler did not run to its end": "asked cut call, began, ended stopped, got answered",
    "has a handler that never ended": "asked cancel call, began, got cancelled",
    "has a handler that ended 2 times": "asked safe call, began, ended done, ended done, got answered",
    "but no client had called it": "began, ended done",
    "the same question 2 times": "asked safe question, began, questioned, questioned, ended done, got answered",
    "but the user was never asked": "asked safe question, began, ended done, got answered",
}


@pytest.mark.parametrize("case", GOOD)
def test_a_call_with_an_expected_outcome_is_not_a_fault(case: str) -> None:
    account = account_for(entries(GOOD[case]))

    assert (account.calls, account.wrong, account.faults) == (1, 0, ())


@pytest.mark.parametrize("case", WRONG)
def test_a_call_with_an_unexplained_outcome_is_a_fault(case: str) -> None:
    account = account_for(entries(WRONG[case]))

    assert account.wrong >= 1
    assert any(case in fault for fault in account.faults)
    assert all(fault.startswith("call 1 ") for fault in account.faults)


@pytest.mark.parametrize("peril", [SAFE, CANCEL, CUT, KILL])
def test_an_answered_call_is_correct_under_any_fault(peril: str) -> None:
    assert account_for(entries(f"asked {peril} call, began, ended done, got answered")).wrong == 0


def test_an_answered_call_without_a_handler_is_a_fault() -> None:
    assert account_for(entries("asked safe call, got answered")).wrong == 1


def test_a_fault_that_belongs_to_no_call_is_counted() -> None:
    account = account_for([Entry(0, "fault", "3 processes are left")])

    assert account.faults == ("3 processes are left",)


def test_many_faults_are_all_counted_and_partly_shown() -> None:
    account = account_for(Entry(0, "fault", str(number)) for number in range(1000))

    assert account.wrong == 1000
    assert 10 < len(account.faults) < 100


def test_an_unknown_journal_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="no entry 'guessed'"):
        account_for([Entry(1, "guessed", "")])


def test_a_journal_contains_the_entries_of_all_writers(tmp_path: Path) -> None:
    client, server = Journal.open(tmp_path, "client"), Journal.open(tmp_path, "server")
    client.write(7, "asked", "safe call")
    with server.handling(7):
        pass
    with pytest.raises(KeyboardInterrupt), server.handling(8):
        raise KeyboardInterrupt
    client.fault("two\tlines\n")

    written = [*read_journals(tmp_path)]

    assert written == [
        Entry(7, "asked", "safe call"),
        Entry(0, "fault", "two lines"),
        Entry(7, "began", ""),
        Entry(7, "ended", "done"),
        Entry(8, "began", ""),
        Entry(8, "ended", "stopped"),
    ]
    client.close()
    server.close()
