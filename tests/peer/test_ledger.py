"""The table of requests in flight by id, and the ids that it issues."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trio_mcp.peer import Ledger


class LedgerMachine(RuleBasedStateMachine):
    """A comparison of the ledger with two plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: Ledger[object, object] = Ledger()
        self.outgoing: dict[int | str, object] = {}
        self.incoming: dict[int | str, object] = {}
        self.issued: set[int] = set()
        self.unmatched = 0

    @rule()
    def issue(self) -> None:
        outgoing = object()
        id = self.ledger.issue(outgoing)
        assert id not in self.issued
        self.issued.add(id)
        self.outgoing[id] = outgoing

    @rule(id=st.integers(min_value=0, max_value=10) | st.sampled_from(["1", "2"]))
    def resolve(self, id: int | str) -> None:
        expected = self.outgoing.pop(id, None)
        self.unmatched += expected is None
        assert self.ledger.resolve(id) is expected

    @rule(id=st.integers(min_value=0, max_value=10))
    def forget(self, id: int) -> None:
        self.ledger.forget(id)
        self.outgoing.pop(id, None)

    @rule(id=st.sampled_from([1, "1", 2, "2"]))
    def begin(self, id: int | str) -> None:
        incoming = object()
        assert self.ledger.begin(id, incoming) == (id not in self.incoming)
        self.incoming.setdefault(id, incoming)

    @rule(id=st.sampled_from([1, "1", 2, "2"]))
    def end(self, id: int | str) -> None:
        self.ledger.end(id)
        self.incoming.pop(id, None)

    @invariant()
    def the_ledger_agrees_with_the_dictionaries(self) -> None:
        assert self.ledger.outgoing == self.outgoing
        assert self.ledger.incoming == self.incoming
        assert self.ledger.unmatched == self.unmatched


LedgerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLedger = LedgerMachine.TestCase


@pytest.mark.requirement("B.1-P2b")
def test_a_number_and_the_equal_string_are_different_ids() -> None:
    ledger: Ledger[str, str] = Ledger()
    assert ledger.issue("request") == 1

    assert ledger.resolve("1") is None
    assert ledger.unmatched == 1
    assert ledger.resolve(1) == "request"
    assert ledger.unmatched == 1


@pytest.mark.requirement("B.1-P3", "B.1-P3b")
def test_an_issued_id_is_never_used_again() -> None:
    ledger: Ledger[str, str] = Ledger()

    first = ledger.issue("a")
    ledger.forget(first)

    assert ledger.issue("b") != first
