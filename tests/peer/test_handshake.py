"""The states of the legacy handshake, and the agreement on a revision."""

from __future__ import annotations

import itertools

import pytest

from trio_mcp import LocalProtocolError, UnsupportedRevision
from trio_mcp.peer import HANDSHAKE, advance
from trio_mcp.peer import HandshakeEvent as E
from trio_mcp.peer import HandshakeState as S
from trio_mcp.wire import LEGACY_REVISIONS, check_answer, choose_answer

MOVES = {
    (S.NOT_BEGUN, E.ASK): S.ASKED,
    (S.NOT_BEGUN, E.ANSWER): S.ANSWERED,
    (S.NOT_BEGUN, E.REFUSE): S.NOT_BEGUN,
    (S.ASKED, E.ASK): S.ASKED,
    (S.ASKED, E.ANSWER): S.ANSWERED,
    (S.ASKED, E.REFUSE): S.NOT_BEGUN,
    (S.ANSWERED, E.ASK): S.ANSWERED,
    (S.ANSWERED, E.ANSWER): S.ANSWERED,
    (S.ANSWERED, E.REFUSE): S.ANSWERED,
    (S.ANSWERED, E.INITIALIZED): S.OPERATING,
    (S.OPERATING, E.ASK): S.OPERATING,
    (S.OPERATING, E.ANSWER): S.OPERATING,
    (S.OPERATING, E.REFUSE): S.OPERATING,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, E)))
def test_the_handshake_makes_only_the_transitions_of_its_table(state: S, event: E) -> None:
    if (state, event) in MOVES:
        assert advance(HANDSHAKE, state, event) is MOVES[state, event]
    else:
        with pytest.raises(LocalProtocolError, match=f"{event.name} is not possible in state {state.name}"):
            advance(HANDSHAKE, state, event)


@pytest.mark.requirement("B.2-S1a", "B.2-S1b", "B.2-S1c")
@pytest.mark.parametrize("requested", [*LEGACY_REVISIONS, "1999-01-01", "2099-01-01", ""])
def test_a_server_answers_with_the_requested_revision_or_with_its_newest(requested: str) -> None:
    supported = LEGACY_REVISIONS[:2]

    assert choose_answer(requested, supported) == (requested if requested in supported else supported[-1])


@pytest.mark.requirement("B.2-C4")
def test_a_client_continues_only_with_a_revision_that_it_supports() -> None:
    assert check_answer("2025-11-25", "2024-11-05", LEGACY_REVISIONS) == "2024-11-05"

    with pytest.raises(UnsupportedRevision) as refused:
        check_answer("2025-11-25", "2099-01-01", LEGACY_REVISIONS)

    assert (refused.value.requested, refused.value.supported) == ("2025-11-25", ("2099-01-01",))
