"""States that were changed or come from another principal, for parked and for replayed calls."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.asking import asking, attempt, capable, count_of, first_round, in_both_modes, success_text
from tests.interaction.asking_server import Mode, make_server
from tests.interaction.serving_with_principal import ServingWithPrincipal
from trio_mcp import ErrorResponse, open_client

THE_REFUSAL = (-32602, "$.requestState: it is invalid or has expired; send the request again without it", None)
CHARACTERS = string.ascii_letters + string.digits + "-_="


async def refusal(outcome: Any) -> tuple[int, str, object]:
    with pytest.raises(ErrorResponse) as caught:
        await outcome
    return caught.value.code, caught.value.message, caught.value.data


def changed(state: str, dice: random.Random) -> str:
    """Return another string with the same beginning, the same end or the same form as the state."""
    position, character = dice.randrange(len(state)), dice.choice(CHARACTERS)
    return dice.choice(
        [
            state[:position],
            state[position:],
            state[:position] + character + state[position + 1 :],
            state[:position] + character + state[position:],
            "".join(dice.choices(CHARACTERS, k=len(state))),
        ]
    )


@in_both_modes
@pytest.mark.parametrize("seed", range(5))
async def test_a_changed_state_is_refused_and_does_not_use_the_call_up(mode: Mode, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    async with asking("memory", tmp_path, mode=mode) as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        for _ in range(40):
            state = changed(first.state, dice)
            if state != first.state:
                assert await refusal(first.retry(state=state)) == THE_REFUSAL
        assert await count_of(client, "book") == 1
        assert success_text(await first.retry()).startswith("2 seats")


@in_both_modes
async def test_a_state_is_accepted_from_the_same_principal(mode: Mode) -> None:
    async with (
        make_server(mode).serving() as serving,
        open_client(ServingWithPrincipal(serving, "Ada"), **capable()) as ada,
        open_client(ServingWithPrincipal(serving, "Ada"), **capable()) as ada_again,
        open_client(ServingWithPrincipal(serving, "Mallory"), **capable()) as mallory,
        open_client(ServingWithPrincipal(serving, None), **capable()) as anonymous,
    ):
        first = await first_round(ada, "book", {"show": "Hamlet"})
        for other in (mallory, anonymous):
            assert await refusal(first.retry(client=other)) == THE_REFUSAL
        assert success_text(await first.retry(client=ada_again)).startswith("2 seats")

        anonymous_call = await first_round(anonymous, "book", {"show": "Hamlet"})
        assert await refusal(anonymous_call.retry(client=ada)) == THE_REFUSAL


@in_both_modes
async def test_every_refusal_of_a_state_looks_the_same_to_the_client_and_the_log_names_the_cause(
    mode: Mode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking("memory", tmp_path, mode=mode) as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        refused = [first.retry(state="nonsense"), attempt(client, "book", {"show": "Faust"}, state=first.state)]
        success_text(await first.retry())
        if mode == "parked":
            refused.append(first.retry())
        for each in refused:
            assert await refusal(each) == THE_REFUSAL

    causes = [message.partition("refused: ")[2] for message in caplog.messages if "refused: " in message]
    assert len(set(causes)) == len(refused)


async def test_parking_and_replaying_servers_refuse_each_others_states() -> None:
    keys = [bytes(32)]
    async with (
        open_client(make_server("parked", keys=keys), **capable()) as parking,
        open_client(make_server("replayed", keys=keys), **capable()) as replaying,
    ):
        parked = await first_round(parking, "book", {"show": "Hamlet"})
        assert await refusal(parked.retry(client=replaying)) == THE_REFUSAL
        replayed = await first_round(replaying, "book", {"show": "Hamlet"})
        assert success_text(await replayed.retry(client=parking)).startswith(
            "2 seats"
        )  # the state contains everything it needs
        assert success_text(await parked.retry()) == "2 seats for Hamlet; begun 2"
