"""Asking in replay mode: the handler runs again in any process that has the keys, and the server stores nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.interaction.asking import (
    CAPABLE,
    TWO,
    Json,
    Round,
    asking,
    attempt,
    capable,
    count_of,
    everywhere,
    first_round,
    in_both_modes,
    success_text,
)
from tests.interaction.asking_server import HOURS, Mode, Seats, program
from tests.interaction.parking_server import DRAIN_SECONDS, MOST
from trio_mcp import AskExpired, Client, Context, ErrorResponse, Server, open_client, types
from trio_mcp.peer import GRACE_SECONDS
from trio_mcp.wire import NotJsonError

BAD_STATE = r"\$\.requestState: it is invalid"
OLD, NEW = bytes(range(32)), bytes(range(32, 64))

# Several processes.


def process(mode: Mode, *keys: bytes) -> Any:
    return open_client([sys.executable, *program(mode, HOURS, keys)], **capable())


async def test_two_processes_that_share_a_key_finish_each_others_calls() -> None:
    with trio.fail_after(60):
        async with process("replayed", OLD) as one, process("replayed", OLD) as other:
            first = await first_round(one, "one_by_one", {"questions": ["a?", "b?"]})
            second = await first.next_round(client=other)
            assert second.messages == ["b?"]
            assert success_text(await second.retry(client=one)) == "[2,2]"
            assert [await count_of(client, "one_by_one") for client in (one, other)] == [2, 1]


async def test_keys_can_be_rotated_while_calls_are_in_flight() -> None:
    with trio.fail_after(60):
        async with process("replayed", OLD) as not_yet, process("replayed", NEW, OLD) as already:
            first = await first_round(not_yet, "one_by_one", {"questions": ["a?", "b?"]})
            second = await first.next_round(client=already)
            assert success_text(await second.retry(client=already)) == "[2,2]"
            with pytest.raises(ErrorResponse, match=BAD_STATE):  # it was sealed with the new key
                await second.retry(client=not_yet)


async def test_a_parked_call_cannot_be_finished_by_another_process() -> None:
    with trio.fail_after(60):
        async with process("parked", OLD) as one, process("parked", OLD) as other:
            first = await first_round(one, "book", {"show": "Hamlet"})
            with pytest.raises(ErrorResponse, match=BAD_STATE):
                await first.retry(client=other)
            assert success_text(await first.retry(client=one)) == "2 seats for Hamlet; begun 1"


@in_both_modes
async def test_without_configured_keys_every_server_makes_its_own_key(mode: Mode, tmp_path: Path) -> None:
    async with asking("bytes", tmp_path, mode=mode) as one, asking("bytes", tmp_path, mode=mode) as other:
        first = await first_round(one, "book", {"show": "Hamlet"})
        with pytest.raises(ErrorResponse, match=BAD_STATE):
            await first.retry(client=other)
        assert success_text(await first.retry(client=one)).startswith("2 seats")


# Side effects.


@in_both_modes
@everywhere
async def test_once_skips_what_an_earlier_round_completed(where: str, mode: Mode, tmp_path: Path) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        assert success_text(await client.call_tool("pay")) == "receipt 1, 2, 2"
        assert await count_of(client, "paid") == 1


@in_both_modes
@everywhere
async def test_a_side_effect_before_the_question_happens_once_when_parked(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        times = 1 if mode == "parked" else 2
        assert success_text(await client.call_tool("pay_carelessly")) == f"paid {times}"


async def test_once_runs_at_least_once_when_retries_are_duplicated(tmp_path: Path) -> None:
    async with asking("memory", tmp_path, mode="replayed") as client:
        calls = [await first_round(client, "pay") for _ in range(2)]
        assert await count_of(client, "paid") == 2
        first = calls[0]
        outcomes: list[Round] = []

        async def retry() -> None:
            outcomes.append(await first.next_round())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(retry)
            nursery.start_soon(retry)
        assert [success_text(await each.retry()) for each in outcomes] == ["receipt 1, 2, 2"] * 2
        assert await count_of(client, "paid") == 2


@in_both_modes
async def test_once_returns_copies_of_json_and_retries_failed_steps(mode: Mode) -> None:
    server, calls = Server("s", asking=mode), list[str]()

    @server.tool
    async def work(ctx: Context) -> str:
        def give() -> dict[str, list[int]]:
            calls.append("give")
            return {"a": [1]}

        def fail() -> int:
            calls.append("fail")
            raise ValueError("not yet")

        first, again = await ctx.once("a", give), await ctx.once("a", give)
        first["a"].append(2)
        assert again == {"a": [1]}
        for _ in range(2):
            with pytest.raises(ValueError, match="not yet"):
                await ctx.once("b", fail)
        with pytest.raises(NotJsonError):
            await ctx.once("c", object)
        results: list[Any] = []

        async def one() -> None:
            results.append(await ctx.once("slow", slow))

        async def slow() -> str:
            calls.append("slow")
            await trio.lowlevel.checkpoint()
            return "slow"

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        assert results == ["slow"] * 3
        return "fine"

    async with open_client(server, **capable()) as client:
        assert success_text(await client.call_tool("work")) == "fine"
    assert calls == ["give", "fail", "fail", "slow"]


# Answers for a handler that runs again.


async def test_answers_are_accepted_only_for_questions_that_were_asked(tmp_path: Path) -> None:
    """A client can know the key of a later question from an earlier call, because the question is the same."""
    async with asking("memory", tmp_path, mode="replayed") as client:
        first = await first_round(client, "one_by_one", {"questions": ["a?", "b?"]})
        second = await first.next_round()
        (foreseen,) = second.keys

        first = await first_round(client, "one_by_one", {"questions": ["a?", "b?"]})
        second = await first.next_round({**first.answers(), foreseen: TWO})
        assert second.keys == [foreseen]


async def test_an_invalid_answer_to_concurrent_questions_is_refused_once() -> None:
    server = Server("s", asking="replayed")

    @server.tool
    async def work(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            for message in ("a?", "b?"):
                nursery.start_soon(ctx.elicit, message, Seats)
        return "never"

    async with open_client(server, **capable()) as client:
        first = await first_round(client, "work")
        wrong = types.ElicitResult(action="accept", content={"count": "many"})
        with pytest.raises(ErrorResponse, match="does not fit the form") as caught:
            await first.retry(first.answers(wrong))
        assert caught.value.code == -32602


async def test_after_an_invalid_answer_the_handler_gets_no_further_answers() -> None:
    server, errors = Server("s", asking="replayed"), list[str]()

    @server.tool
    async def work(ctx: Context) -> None:
        async def one(message: str) -> None:
            with trio.CancelScope(shield=True):
                try:
                    await ctx.elicit(message, Seats)
                except AskExpired as exc:
                    errors.append(f"{message} {exc}")

        async with trio.open_nursery() as nursery:
            for message in ("a?", "b?"):
                nursery.start_soon(one, message)
        await one("c?")

    wrong = types.ElicitResult(action="accept", content={"count": "many"})
    async with open_client(server, **capable()) as client:
        first = await first_round(client, "work")
        await wait_all_tasks_blocked()
        assert sorted(errors) == ["a? the call is over", "b? the call is over", "c? the call is over"]
        errors.clear()
        with pytest.raises(ErrorResponse, match="does not fit the form"):
            await first.retry(first.answers(wrong))
        await wait_all_tasks_blocked()
    assert sorted(errors) == [
        "a? the client's answer is invalid",
        "b? the client's answer is invalid",
        "c? the call is over",
    ]


async def test_a_state_without_answers_asks_again(tmp_path: Path) -> None:
    async with asking("memory", tmp_path, mode="replayed") as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        outcome = await attempt(client, "book", {"show": "Hamlet"}, state=first.state)
        assert isinstance(outcome, types.InputRequiredResult)


# Stopping a process with parked handlers.


def call_line(id: int) -> bytes:
    params: Json = {"name": "book", "arguments": {"show": str(id)}, "_meta": CAPABLE}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode() + b"\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("stop", ["SIGTERM", "SIGINT", "end of input"])
async def test_a_process_that_is_stopped_lets_every_parked_handler_clean_up(stop: str, tmp_path: Path) -> None:
    cleaned_up = tmp_path / "cleaned up"
    command = [sys.executable, str(Path(__file__).with_name("parking_server.py")), str(cleaned_up)]
    with trio.fail_after(60):
        child = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        async with child.stdin, child.stdout:
            await child.stdin.send_all(b"".join(map(call_line, range(MOST))))
            received = b""
            while received.count(b"\n") < MOST:
                received += await child.stdout.receive_some()
            assert received.count(b"input_required") == MOST

            if stop == "end of input":
                await child.stdin.aclose()
            else:
                os.kill(child.pid, signal.Signals[stop])
            with trio.move_on_after(GRACE_SECONDS + DRAIN_SECONDS) as in_time:
                await child.wait()
            assert not in_time.cancelled_caught
    assert child.returncode == 0
    assert sorted(cleaned_up.read_text().splitlines()) == sorted(f"{id}: the server stops" for id in range(MOST))


async def test_a_process_whose_input_the_client_closes_lets_parked_handlers_clean_up(tmp_path: Path) -> None:
    cleaned_up = tmp_path / "cleaned up"
    program = [sys.executable, str(Path(__file__).with_name("parking_server.py")), str(cleaned_up)]
    with trio.fail_after(60):
        async with open_client(program, **capable()) as client:
            await a_round(client)
    assert cleaned_up.read_text() == "Hamlet: the server stops\n"


async def a_round(client: Client) -> Round:
    return await first_round(client, "book", {"show": "Hamlet"})
