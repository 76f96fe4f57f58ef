"""The turns of introspection requests: their number and order, and requests that wait too long or are too many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing
from attrs import define, field

from trio_mcp._shares import Sender, sender_of
from trio_mcp.auth import VerifierUnavailable
from trio_mcp.auth.server._introspection import IntrospectionTurns

ATTACKER, USER, THIRD = (sender_of(None, f"192.0.2.{number}") for number in (1, 2, 3))


@define(eq=False)
class Takers:
    """Tasks that take turns; each one keeps its turn until the test ends it."""

    turns: IntrospectionTurns
    nursery: trio.Nursery
    running: dict[str, trio.Event] = field(factory=dict[str, trio.Event])
    order: list[str] = field(factory=list[str])
    """The names of the tasks in the order of their turns."""
    failures: dict[str, str] = field(factory=dict[str, str])
    scopes: dict[str, trio.CancelScope] = field(factory=dict[str, trio.CancelScope])

    async def start(self, sender: Sender, names: Sequence[str]) -> None:
        """Start a task for each name, one after the other."""
        for name in names:
            self.nursery.start_soon(self._take, sender, name)
            await trio.testing.wait_all_tasks_blocked()

    async def _take(self, sender: Sender, name: str) -> None:
        self.scopes[name] = trio.CancelScope()
        try:
            with self.scopes[name]:
                async with self.turns.turn(sender):
                    self.order.append(name)
                    self.running[name] = trio.Event()
                    await self.running[name].wait()
        except VerifierUnavailable as exc:
            self.failures[name] = str(exc)
        finally:
            self.running.pop(name, None)

    async def end(self, *names: str) -> None:
        """End turns, one after the other."""
        for name in names:
            self.running[name].set()
            await trio.testing.wait_all_tasks_blocked()

    async def end_all(self) -> None:
        while self.running:
            await self.end(next(iter(self.running)))


async def test_a_bounded_number_of_turns_runs_at_once(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(), nursery)
    await takers.start(ATTACKER, [f"{number}" for number in range(40)])

    assert list(takers.running) == takers.order == [f"{number}" for number in range(32)]
    await takers.end("5", "3")
    assert takers.order[32:] == ["32", "33"]
    await takers.end_all()
    assert (len(takers.order), takers.failures, takers.turns.running) == (40, {}, 0)


async def test_the_senders_that_wait_get_turns_in_rotation(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(most_running=1), nursery)
    await takers.start(ATTACKER, ["a0", "a1", "a2", "a3", "a4"])
    await takers.start(USER, ["u1", "u2"])
    await takers.start(THIRD, ["t1"])

    await takers.end_all()

    assert takers.order == ["a0", "a1", "u1", "t1", "a2", "u2", "a3", "a4"]


async def test_the_sender_with_the_most_waiting_requests_gives_way(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(most_running=1, most_waiting=4), nursery)
    await takers.start(ATTACKER, ["a0", "a1", "a2", "a3", "a4", "a5"])
    assert takers.failures == {"a5": "4 tokens wait for introspection, which is the limit"}

    await takers.start(USER, ["u1", "u2", "u3"])
    assert takers.failures.keys() == {"a5", "a1", "a2", "u3"}
    assert takers.failures["a1"] == takers.failures["a2"] == "too many tokens wait for introspection"

    await takers.end_all()
    assert takers.order == ["a0", "a3", "u1", "a4", "u2"]


async def test_a_request_does_not_wait_for_its_turn_for_more_than_ten_seconds(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    takers = Takers(IntrospectionTurns(most_running=1), nursery)
    await takers.start(ATTACKER, ["a0", "a1"])
    await takers.start(USER, ["u1"])

    await trio.sleep(9.9)
    assert not takers.failures
    await trio.sleep(0.2)
    assert takers.failures == dict.fromkeys(["a1", "u1"], "the token has waited for introspection for 10 s")
    await takers.start(USER, ["u2"])
    await takers.end_all()

    assert (takers.order, takers.turns.running) == (["a0", "u2"], 0)


async def test_a_cancelled_request_leaves_the_rotation(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(most_running=1), nursery)
    await takers.start(ATTACKER, ["a0", "a1"])
    await takers.start(USER, ["u1", "u2"])

    takers.scopes["u1"].cancel()
    takers.scopes["a1"].cancel()
    await trio.testing.wait_all_tasks_blocked()
    await takers.end_all()

    assert (takers.order, takers.turns.running) == (["a0", "u2"], 0)


async def test_a_turn_that_comes_in_the_moment_of_a_cancellation_is_passed_on(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(most_running=1), nursery)
    async with takers.turns.turn(THIRD):
        await takers.start(ATTACKER, ["a1"])
        await takers.start(USER, ["u1"])
        takers.scopes["a1"].cancel()  # a1 does not run before the turn of this task has ended
    await trio.testing.wait_all_tasks_blocked()
    assert takers.order == ["u1"]

    await takers.end_all()
    assert takers.turns.running == 0


async def test_a_request_that_gives_way_in_the_moment_of_its_cancellation_is_only_cancelled(
    nursery: trio.Nursery,
) -> None:
    takers = Takers(IntrospectionTurns(most_running=1, most_waiting=3), nursery)
    await takers.start(ATTACKER, ["a0", "a1", "a2", "a3"])

    async def cancel_and_take() -> None:
        takers.scopes["a1"].cancel()  # a1 does not run before this task waits
        await takers._take(USER, "u1")

    nursery.start_soon(cancel_and_take)
    await trio.testing.wait_all_tasks_blocked()
    await takers.end_all()

    assert (takers.order, takers.failures, takers.turns.running) == (["a0", "a2", "u1", "a3"], {}, 0)


async def test_a_turn_that_fails_is_over(nursery: trio.Nursery) -> None:
    turns = IntrospectionTurns(most_running=1)

    for _ in range(3):
        with pytest.raises(ValueError, match="a bug"):
            async with turns.turn(USER):
                raise ValueError("a bug")
    assert turns.running == 0


async def test_a_sender_whose_latest_tokens_were_all_refused_has_four_turns_at_once(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(most_running=6), nursery)
    for _ in range(8):
        takers.turns.learn(ATTACKER, is_valid=False)
        takers.turns.learn(USER, is_valid=False)
    takers.turns.learn(USER, is_valid=True)

    await takers.start(ATTACKER, ["a0", "a1", "a2", "a3", "a4", "a5"])
    assert takers.order == ["a0", "a1", "a2", "a3"]
    await takers.start(USER, ["u0", "u1", "u2"])
    assert takers.order[4:] == ["u0", "u1"]

    await takers.end("u0")  # the attacker comes first in the rotation, and has its four turns
    assert takers.order[6:] == ["u2"]
    await takers.end("a0")
    assert takers.order[7:] == ["a4"]

    takers.turns.learn(ATTACKER, is_valid=True)
    await takers.end("u1")
    assert takers.order[8:] == ["a5"]
    await takers.end_all()
    assert (len(takers.order), takers.turns.running) == (9, 0)


async def test_a_bounded_number_of_senders_is_known_for_refused_tokens(nursery: trio.Nursery) -> None:
    takers = Takers(IntrospectionTurns(), nursery)
    for _ in range(8):
        takers.turns.learn(ATTACKER, is_valid=False)
    for number in range(1000):
        takers.turns.learn(sender_of(None, f"198.51.{number // 250}.{number % 250}"), is_valid=False)

    await takers.start(ATTACKER, [f"{number}" for number in range(6)])

    assert len(takers.running) == 6
    await takers.end_all()
