"""Whether every numbered call is accounted for on both sides: none lost, none duplicated, none left running.

Rules of this file:

1. Each call that was asked for has exactly one outcome, and one that what was done to it explains.
2. A handler begins at most once for a call, and only if somebody asked.
3. What was answered was worked on to its end.
4. A handler that has begun ends, unless its process was killed.
5. Who was asked a question for a call was asked it once, and so was everybody whose call was answered after one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

from .journal import ASKED, BEGAN, ENDED, FAULT, GOT, QUESTIONED, Entry

__all__ = ["CANCEL", "CUT", "KILL", "SAFE", "Account", "account_for"]

SAFE, CANCEL, CUT, KILL = "safe", "cancel", "cut", "kill"
"""What is done to a call: nothing; it is cancelled; its connection is cut; its server is killed."""

ANSWERED, CANCELLED, LOST = "answered", "cancelled", "lost"
"""What may come of a call: its answer; nothing, as it was wanted; an error that says that the connection broke."""

_EXPLAINED: Mapping[str, frozenset[str]] = {
    SAFE: frozenset({ANSWERED}),
    CANCEL: frozenset({ANSWERED, CANCELLED}),
    CUT: frozenset({ANSWERED, LOST}),
    KILL: frozenset({ANSWERED, CANCELLED, LOST}),
}
_SHOWN = 50
"""Faults that are kept; a run that goes wrong goes wrong often."""


@define
class _Call:
    """What is known of one call."""

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
        """Yield what is wrong with it."""
        if not self.peril:
            yield "was worked on, and nobody had asked for it"
            return
        yield from self._faults_of_the_client()
        yield from self._faults_of_the_server()

    def _faults_of_the_client(self) -> Iterator[str]:
        match self.outcomes:
            case []:
                yield "has no outcome: its answer is lost"
            case [outcome]:
                if _kind_of(outcome) not in _EXPLAINED[self.peril]:
                    yield f"came to this: {outcome}"
            case more:
                yield f"has {len(more)} outcomes: {', '.join(more)}"

    def _faults_of_the_server(self) -> Iterator[str]:
        answered = ANSWERED in self.outcomes
        if self.began > 1:
            yield f"was worked on {self.began} times"
        if answered and "done" not in self.ended:
            yield "was answered, and its handler has not come to its end"
        if self.peril != KILL and len(self.ended) < self.began:
            yield "has a handler that never ended"
        if len(self.ended) > self.began:
            yield f"has a handler that ended {len(self.ended)} times and began {self.began} times"
        if self.questioned > 1:
            yield f"asked the user the same {self.questioned} times"
        if answered and self.kind == "question" and not self.questioned:
            yield "was answered, and the user was never asked"


@frozen(kw_only=True)
class Account:
    """What became of all calls of a run."""

    outcomes: Mapping[str, int]
    """How many calls came to each outcome."""
    kinds: Mapping[str, int]
    """How many calls there were of each kind."""
    wrong: int
    """How many faults there are."""
    faults: tuple[str, ...]
    """The first of them."""

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return sum(self.kinds.values())


def _kind_of(outcome: str) -> str:
    """Return an outcome without what explains it."""
    return outcome.partition(":")[0]


def account_for(entries: Iterable[Entry]) -> Account:
    """Hold what one side wrote down against what the other did. The order of *entries* does not matter.

    Raises:
        ValueError: an entry is none of a journal.
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
