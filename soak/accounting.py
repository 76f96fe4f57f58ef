"""The accounting of numbered calls: no call may be lost, duplicated or left running on either side.

Rules of this file:

1. Each call of a client has exactly one outcome, which must follow from the fault that was applied to it.
2. A handler begins at most once for a call, and only if a client made the call.
3. The handler of an answered call has run to its end.
4. A handler that has begun ends, unless its process was killed.
5. The user is asked at most once for a call, and exactly once if the call needs the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

from .journal import ASKED, BEGAN, ENDED, FAULT, GOT, QUESTIONED, Entry

__all__ = ["CANCEL", "CUT", "KILL", "SAFE", "Account", "account_for"]

SAFE, CANCEL, CUT, KILL = "safe", "cancel", "cut", "kill"
"""The fault applied to a call: none, a cancellation, a cut of its connection, or the death of its server."""

ANSWERED, CANCELLED, LOST = "answered", "cancelled", "lost"
"""The outcome of a call: its answer, nothing (it was cancelled), or an error because the connection broke."""

_EXPLAINED: Mapping[str, frozenset[str]] = {
    SAFE: frozenset({ANSWERED}),
    CANCEL: frozenset({ANSWERED, CANCELLED}),
    CUT: frozenset({ANSWERED, LOST}),
    KILL: frozenset({ANSWERED, CANCELLED, LOST}),
}
_SHOWN = 50
"""The most faults that are kept, because a failing run has many."""


@define
class _Call:
    """The entries about one call."""

    peril: str = ""
    kind: str = ""
    outcomes: list[str] = field(factory=list[str])
    began: int = 0
    ended: list[str] = field(factory=list[str])
    questioned: int = 0

    def add(self, entry: Entry) -> None:
        match entry.event:
            case str(event) if event == ASKED:
                self.peril, _, self.kind = entry.detail.partition(" ")
            case str(event) if event == GOT:
                self.outcomes.append(entry.detail)
            case str(event) if event == BEGAN:
                self.began += 1
            case str(event) if event == ENDED:
                self.ended.append(entry.detail)
            case str(event) if event == QUESTIONED:
                self.questioned += 1
            case event:
                raise ValueError(f"a journal has no entry {event!r}")

    def faults(self) -> Iterator[str]:
        """Yield the faults of the call."""
        if not self.peril:
            yield "was handled, but no client had called it"
            return
        yield from self._faults_of_the_client()
        yield from self._faults_of_the_server()

    def _faults_of_the_client(self) -> Iterator[str]:
        match self.outcomes:
            case []:
                yield "has no outcome: its answer is lost"
            case [outcome]:
                if _kind_of(outcome) not in _EXPLAINED[self.peril]:
                    yield f"has an unexpected outcome: {outcome}"
            case more:
                yield f"has {len(more)} outcomes: {', '.join(more)}"

    def _faults_of_the_server(self) -> Iterator[str]:
        answered = ANSWERED in self.outcomes
        if self.began > 1:
            yield f"was handled {self.began} times"
        if answered and "done" not in self.ended:
            yield "was answered, but its handler did not run to its end"
        if self.peril != KILL and len(self.ended) < self.began:
            yield "has a handler that never ended"
        if len(self.ended) > self.began:
            yield f"has a handler that ended {len(self.ended)} times and began {self.began} times"
        if self.questioned > 1:
            yield f"asked the user the same question {self.questioned} times"
        if answered and self.kind == "question" and not self.questioned:
            yield "was answered, but the user was never asked"


@frozen(kw_only=True)
class Account:
    """The outcomes of all calls of a run."""

    outcomes: Mapping[str, int]
    """The number of calls by outcome."""
    kinds: Mapping[str, int]
    """The number of calls by kind."""
    wrong: int
    """The number of faults."""
    faults: tuple[str, ...]
    """The first of them."""

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(self.kinds.values())


def _kind_of(outcome: str) -> str:
    """Return an outcome without its explanation."""
    return outcome.partition(":")[0]


def account_for(entries: Iterable[Entry]) -> Account:
    """Compare the journal entries of both sides. The order of *entries* does not matter.

    Raises:
        ValueError: an entry is not a journal entry.
    """
    calls: dict[int, _Call] = {}
    faults: list[str] = []
    for entry in entries:
        if entry.event == FAULT:
            faults.append(entry.detail)
        else:
            calls.setdefault(entry.number, _Call()).add(entry)
    for number, call in calls.items():
        faults += [f"call {number} ({call.peril} {call.kind}) {fault}" for fault in call.faults()]
    return Account(
        outcomes=Counter(_kind_of(outcome) for call in calls.values() for outcome in call.outcomes),
        kinds=Counter(call.kind for call in calls.values() if call.peril),
        wrong=len(faults),
        faults=tuple(faults[:_SHOWN]),
    )
