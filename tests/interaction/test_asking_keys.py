"""Keys of questions: those that the handler gives, and answers that arrive before the question."""

from __future__ import annotations

import pytest
from attrs import frozen

from tests.interaction.asking import attempt, first_round, in_both_modes, serve, success_text
from tests.interaction.asking_server import Mode
from tests.interaction.scripted_peers import MODERN
from trio_mcp import Accepted, Client, ClientOptions, Context, ErrorResponse, open_client, types

CAN_ASK = types.ClientCapabilities(elicitation=types.ElicitationCapability())
OPTIONS: ClientOptions = {"revision": MODERN}


@frozen
class Name:
    name: str


def named(name: object) -> dict[str, object]:
    return {"action": "accept", "content": {"name": name}}


async def greet(ctx: Context) -> str:
    """Ask for two names."""
    names: list[str] = []
    for key in ("yours", "mine"):
        match await ctx.elicit("Whose name?", Name, key=key):
            case Accepted(value=given):
                names.append(given.name)
            case _:
                names.append("no answer")
    return " and ".join(names)


async def twice(ctx: Context) -> str:
    """Ask with the same key twice, and with a similar one."""
    answers = [await ctx.elicit("Whose name?", Name, key=key) for key in ("x", "x", "x-2")]
    return " ".join(answer.value.name for answer in answers if isinstance(answer, Accepted))


async def call(client: Client, **offered: object) -> object:
    return await attempt(client, "work", answers=offered, capabilities=CAN_ASK)


@in_both_modes
async def test_a_client_receives_the_key_that_the_handler_gives(mode: Mode) -> None:
    async with open_client(serve(greet, mode), **OPTIONS) as client:
        first = await first_round(client, "work", capabilities=CAN_ASK)
        assert first.keys == ["yours"]
        second = await first.next_round({"yours": named("Ada")}, capabilities=CAN_ASK)
        assert second.keys == ["mine"]
        assert success_text(await second.retry({"mine": named("Bob")}, capabilities=CAN_ASK)) == "Ada and Bob"


@in_both_modes
async def test_questions_with_the_same_key_are_distinguished_by_their_order(mode: Mode) -> None:
    keys: list[str] = []
    async with open_client(serve(twice, mode), **OPTIONS) as client:
        latest = await first_round(client, "work", capabilities=CAN_ASK)
        for number in range(3):
            keys += latest.keys
            answers = {key: named(str(number)) for key in latest.keys}
            if number < 2:
                latest = await latest.next_round(answers, capabilities=CAN_ASK)
            else:
                assert success_text(await latest.retry(answers, capabilities=CAN_ASK)) == "0 1 2"

    assert keys[0] == "x"
    assert len(set(keys)) == 3


@in_both_modes
async def test_a_question_that_the_call_already_answers_is_not_asked(mode: Mode) -> None:
    async with open_client(serve(greet, mode), **OPTIONS) as client:
        assert success_text(await call(client, yours=named("Ada"), mine=named("Bob"), his=named("Cy"))) == "Ada and Bob"

        outcome = await call(client, mine=named("Bob"))
        assert isinstance(outcome, types.InputRequiredResult)
        assert list(outcome.input_requests or {}) == ["yours"]


@in_both_modes
async def test_a_call_that_answers_another_question_is_asked(mode: Mode) -> None:
    async with open_client(serve(greet, mode), **OPTIONS) as client:
        outcome = await call(client, his=named("Cy"))

        assert isinstance(outcome, types.InputRequiredResult)
        assert list(outcome.input_requests or {}) == ["yours"]


@in_both_modes
async def test_an_invalid_answer_in_the_first_call_is_refused(mode: Mode) -> None:
    async with open_client(serve(greet, mode), **OPTIONS) as client:
        with pytest.raises(ErrorResponse, match=r"\$\.content\.name: expected string") as caught:
            await call(client, yours=named(7))

        assert caught.value.code == -32602


async def test_a_retry_with_a_state_answers_only_the_questions_that_were_asked() -> None:
    async with open_client(serve(greet, "replayed"), **OPTIONS) as client:
        first = await first_round(client, "work", capabilities=CAN_ASK)
        second = await first.next_round({"yours": named("Ada"), "mine": named("Eve")}, capabilities=CAN_ASK)

        assert second.keys == ["mine"]
