from __future__ import annotations

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.auth.signed_tokens import Clock
from trio_mcp.auth import VerifiedToken, VerifierUnavailable
from trio_mcp.auth.server import _token_verifiers as answers_module
from trio_mcp.auth.server._token_verifiers import VerdictCache

GOOD = VerifiedToken(issuer="i", subject="ann", client_id=None, audiences=(), scopes=frozenset(), expires_at=None)


@define(eq=False)
class Oracle:
    """Answers what it is told to, and counts how often it was asked."""

    answer: VerifiedToken | VerifierUnavailable | None = GOOD
    asked: int = 0
    admission: trio.Event = field(factory=trio.Event)

    async def ask(self) -> VerifiedToken | None:
        self.asked += 1
        await self.admission.wait()
        if isinstance(self.answer, VerifierUnavailable):
            raise self.answer
        return self.answer


def open_oracle(answer: VerifiedToken | VerifierUnavailable | None = GOOD) -> Oracle:
    oracle = Oracle(answer)
    oracle.admission.set()
    return oracle


@pytest.mark.parametrize("answer", [GOOD, None])
async def test_an_answer_is_used_for_a_while_whatever_it_is(answer: VerifiedToken | None) -> None:
    clock, oracle = Clock(), open_oracle(answer)
    answers = VerdictCache(10, clock)

    for passed in (0, 9):
        clock.now += passed
        assert await answers.find("token", oracle.ask) is answer
    assert oracle.asked == 1

    clock.now += 1
    assert await answers.find("token", oracle.ask) is answer
    assert oracle.asked == 2


async def test_each_token_has_its_own_answer() -> None:
    answers, good, bad = VerdictCache(10, Clock()), open_oracle(), open_oracle(None)

    assert await answers.find("one", good.ask) is GOOD
    assert await answers.find("two", bad.ask) is None
    assert await answers.find("one", bad.ask) is GOOD


async def test_nothing_is_kept_for_no_time() -> None:
    answers, oracle = VerdictCache(0, Clock()), open_oracle()

    await answers.find("token", oracle.ask)
    await answers.find("token", oracle.ask)

    assert oracle.asked == 2


async def test_without_a_cache_requests_are_not_shared() -> None:
    answers, oracle = VerdictCache(0, Clock()), Oracle()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answers.find, "token", oracle.ask)
        nursery.start_soon(answers.find, "token", oracle.ask)
        await trio.testing.wait_all_tasks_blocked()
        assert oracle.asked == 2
        oracle.admission.set()


async def test_a_clock_that_was_set_back_ends_all_answers() -> None:
    clock, oracle = Clock(), open_oracle()
    answers = VerdictCache(10, clock)
    await answers.find("token", oracle.ask)

    clock.now -= 5
    await answers.find("token", oracle.ask)

    assert oracle.asked == 2


async def test_concurrent_requests_for_one_token_are_shared() -> None:
    answers, oracle = VerdictCache(10, Clock()), Oracle()
    found: list[VerifiedToken | None] = []

    async def want() -> None:
        found.append(await answers.find("token", oracle.ask))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(want)
        await trio.testing.wait_all_tasks_blocked()
        oracle.admission.set()

    assert (oracle.asked, found) == (1, [GOOD] * 100)


async def test_a_failure_reaches_all_waiting_tasks_and_is_not_cached() -> None:
    answers, oracle = VerdictCache(10, Clock()), Oracle(VerifierUnavailable("nobody is there"))
    failed: list[str] = []

    async def want() -> None:
        with pytest.raises(VerifierUnavailable) as caught:
            await answers.find("token", oracle.ask)
        failed.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(want)
        await trio.testing.wait_all_tasks_blocked()
        oracle.admission.set()
    assert (oracle.asked, failed) == (1, ["nobody is there"] * 5)

    oracle.answer = GOOD
    assert await answers.find("token", oracle.ask) is GOOD


async def test_when_the_one_who_asks_leaves_another_asks() -> None:
    answers, oracle = VerdictCache(10, Clock()), Oracle()
    leaving = trio.CancelScope()
    found: list[VerifiedToken | None] = []

    async def leave() -> None:
        with leaving:
            await answers.find("token", oracle.ask)

    async def want() -> None:
        found.append(await answers.find("token", oracle.ask))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(want)
        nursery.start_soon(want)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        oracle.admission.set()

    assert (oracle.asked, found) == (2, [GOOD, GOOD])


async def test_only_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "_MAX_KEPT", 3)
    answers, oracle = VerdictCache(10, Clock()), open_oracle()

    for number in range(4):
        await answers.find(str(number), oracle.ask)
    for number in (1, 2, 3):
        await answers.find(str(number), oracle.ask)
    assert oracle.asked == 4

    await answers.find("0", oracle.ask)
    assert oracle.asked == 5


async def test_no_token_is_kept() -> None:
    answers, oracle = VerdictCache(10, Clock()), open_oracle()

    await answers.find("very secret", oracle.ask)

    assert not any("very secret" in repr(getattr(answers, name)) for name in ("_kept", "_pending"))
