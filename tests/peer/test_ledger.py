"""Who waits for which id."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trio_mcp.peer import Ledger


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against two plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: Ledger[object, object] = Ledger()
        self.asked: dict[int | str, object] = {}
        self.answering: dict[int | str, object] = {}
        self.issued: set[int] = set()
        self.unmatched = 0

    @rule()
    def issue(self) -> None:
        asked = object()
        id = self.ledger.issue(asked)
        assert id not in self.issued
        self.issued.add(id)
        self.asked[id] = asked

    @rule(id=st.integers(min_value=0, max_value=10) | st.sampled_from(["1", "2"]))
    def resolve(self, id: int | str) -> None:
        expected = self.asked.pop(id, None)
        self.unmatched += expected is None
        assert self.ledger.resolve(id) is expected

    @rule(id=st.integers(min_value=0, max_value=10))
    def forget(self, id: int) -> None:
        self.ledger.forget(id)
        self.asked.pop(id, None)

    @rule(id=st.sampled_from([1, "1", 2, "2"]))
    def begin(self, id: int | str) -> None:
        answering = object()
        assert self.ledger.begin(id, answering) == (id not in self.answering)
        self.answering.setdefault(id, answering)

    @rule(id=st.sampled_from([1, "1", 2, "2"]))
    def end(self, id: int | str) -> None:
        self.ledger.end(id)
        self.answering.pop(id, None)

    @invariant()
    def the_same_is_known(self) -> None:
        assert self.ledger.outgoing == self.asked
        assert self.ledger.incoming == self.answering
        assert self.ledger.unmatched == self.unmatched


LedgerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLedger = LedgerMachine.TestCase


@pytest.mark.requirement("B.1-P2b")
def test_a_number_and_its_text_are_different_ids() -> None:
    ledger: Ledger[str, str] = Ledger()
    assert ledger.issue("asked") == 1

    assert ledger.resolve("1") is None
    assert ledger.unmatched == 1
    assert ledger.resolve(1) == "asked"
    assert ledger.unmatched == 1


@pytest.mark.requirement("B.1-P3", "B.1-P3b")
def test_an_id_of_ours_is_never_used_again() -> None:
    ledger: Ledger[str, str] = Ledger()

    first = ledger.issue("a")
    ledger.forget(first)

    assert ledger.issue("b") != first
