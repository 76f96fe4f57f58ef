"""The states of an exchange: every possible transition, and every impossible one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from trio_mcp import LocalProtocolError
from trio_mcp.peer import ANSWERING, ASKING, advance
from trio_mcp.peer import ExchangeEvent as E
from trio_mcp.peer import ExchangeState as S

ASKING_MOVES = {
    (S.OPEN, E.RESPONSE): S.ANSWERED,
    (S.OPEN, E.CANCEL): S.CANCELLED,
    (S.OPEN, E.LOSS): S.LOST,
    (S.ANSWERED, E.CANCEL): S.ANSWERED,
    (S.ANSWERED, E.LOSS): S.ANSWERED,
    (S.CANCELLED, E.LOSS): S.CANCELLED,
    (S.LOST, E.CANCEL): S.LOST,
    (S.LOST, E.LOSS): S.LOST,
}
ANSWERING_MOVES = {**ASKING_MOVES, (S.CANCELLED, E.CANCEL): S.CANCELLED}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, E)))
@pytest.mark.parametrize(("table", "moves"), [(ASKING, ASKING_MOVES), (ANSWERING, ANSWERING_MOVES)])
def test_an_exchange_makes_only_the_transitions_of_its_table(
    table: Mapping[S, Mapping[E, S]], moves: Mapping[tuple[S, E], S], state: S, event: E
) -> None:
    if (state, event) in moves:
        assert advance(table, state, event) is moves[state, event]
    else:
        with pytest.raises(LocalProtocolError, match=f"{event.name} is not possible in state {state.name}"):
            advance(table, state, event)


@pytest.mark.requirement("B.1-P4b")
@pytest.mark.parametrize("table", [ASKING, ANSWERING])
def test_an_exchange_has_at_most_one_response(table: Mapping[S, Mapping[E, S]]) -> None:
    assert [state for state in S if E.RESPONSE in table[state]] == [S.OPEN]
