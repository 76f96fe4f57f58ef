from __future__ import annotations

import pytest
import trio
import trio.testing
from attrs import define, evolve, field

from tests.auth.signed_tokens import Clock
from trio_mcp._shares import Sender, sender_of
from trio_mcp.auth import VerifiedToken, VerifierUnavailable
from trio_mcp.auth.server import _introspection as introspection_module
from trio_mcp.auth.server._introspection import Verdict, VerdictCache

GOOD = VerifiedToken(issuer="i", subject="ann", client_id=None, audiences=(), scopes=frozenset(), expires_at=None)
BAD = "it is not active"
SENDER = sender_of(None, "192.0.2.1")


@define(eq=False)
class ScriptedVerifier:
    """A verifier that returns a scripted verdict and counts its calls."""

    answer: Verdict | VerifierUnavailable = GOOD
    calls: int = 0
    admission: trio.Event = field(factory=trio.Event)
    senders: list[Sender] = field(factory=list[Sender])

    async def verify(self, sender: Sender) -> Verdict:
        self.calls += 1
        self.senders.append(sender)
        await self.admission.wait()
        if isinstance(self.answer, VerifierUnavailable):
            raise self.answer
        return self.answer


def ready_verifier(answer: Verdict | VerifierUnavailable = GOOD) -> ScriptedVerifier:
    verifier = ScriptedVerifier(answer)
    verifier.admission.set()
    return verifier


@pytest.mark.parametrize("answer", [GOOD, BAD])
async def test_a_verdict_is_reused_until_it_expires(answer: Verdict) -> None:
    clock, verifier = Clock(), ready_verifier(answer)
    cache = VerdictCache(10, clock)

    for passed in (0, 9):
        clock.now += passed
        assert await cache.find("token", SENDER, verifier.verify) is answer
    assert verifier.calls == 1

    clock.now += 1
    assert await cache.find("token", SENDER, verifier.verify) is answer
    assert verifier.calls == 2


async def test_each_token_has_a_separate_verdict() -> None:
    cache, good, bad = VerdictCache(10, Clock()), ready_verifier(), ready_verifier(BAD)

    assert await cache.find("one", SENDER, good.verify) is GOOD
    assert await cache.find("two", SENDER, bad.verify) is BAD
    assert await cache.find("one", SENDER, bad.verify) is GOOD


async def test_a_cache_with_a_lifetime_of_zero_keeps_nothing() -> None:
    cache, verifier = VerdictCache(0, Clock()), ready_verifier()

    await cache.find("token", SENDER, verifier.verify)
    await cache.find("token", SENDER, verifier.verify)

    assert verifier.calls == 2


async def test_without_a_cache_requests_are_not_shared() -> None:
    cache, verifier = VerdictCache(0, Clock()), ScriptedVerifier()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.find, "token", SENDER, verifier.verify)
        nursery.start_soon(cache.find, "token", SENDER, verifier.verify)
        await trio.testing.wait_all_tasks_blocked()
        assert verifier.calls == 2
        verifier.admission.set()


async def test_a_clock_that_is_set_back_expires_all_verdicts() -> None:
    clock, verifier = Clock(), ready_verifier()
    cache = VerdictCache(10, clock)
    await cache.find("token", SENDER, verifier.verify)

    clock.now -= 5
    await cache.find("token", SENDER, verifier.verify)

    assert verifier.calls == 2


async def test_concurrent_requests_for_one_token_are_shared() -> None:
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier()
    found: list[Verdict] = []

    async def find() -> None:
        found.append(await cache.find("token", SENDER, verifier.verify))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(find)
        await trio.testing.wait_all_tasks_blocked()
        verifier.admission.set()

    assert (verifier.calls, found) == (1, [GOOD] * 100)


async def test_concurrent_requests_are_shared_even_if_the_cache_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection_module, "_MAX_KEPT", 0)
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier(BAD)

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(cache.find, "token", SENDER, verifier.verify)
        await trio.testing.wait_all_tasks_blocked()
        verifier.admission.set()

    assert verifier.calls == 1


async def test_a_failure_reaches_all_waiting_tasks_and_is_not_cached() -> None:
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier(VerifierUnavailable("unreachable"))
    failed: list[str] = []

    async def find() -> None:
        with pytest.raises(VerifierUnavailable) as caught:
            await cache.find("token", SENDER, verifier.verify)
        failed.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(find)
        await trio.testing.wait_all_tasks_blocked()
        verifier.admission.set()
    assert (verifier.calls, failed) == (1, ["unreachable"] * 5)

    verifier.answer = GOOD
    assert await cache.find("token", SENDER, verifier.verify) is GOOD


async def test_if_the_calling_task_is_cancelled_a_waiting_task_calls_the_verifier_again() -> None:
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier()
    leaving = trio.CancelScope()
    found: list[Verdict] = []

    async def leave() -> None:
        with leaving:
            await cache.find("token", SENDER, verifier.verify)

    async def find() -> None:
        found.append(await cache.find("token", SENDER, verifier.verify))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(find)
        nursery.start_soon(find)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        verifier.admission.set()

    assert (verifier.calls, found) == (2, [GOOD, GOOD])


async def test_the_number_of_cached_verdicts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection_module, "_MAX_KEPT", 3)
    cache, verifier = VerdictCache(10, Clock()), ready_verifier()

    for number in range(4):
        await cache.find(str(number), SENDER, verifier.verify)
    for number in (1, 2, 3):
        await cache.find(str(number), SENDER, verifier.verify)
    assert verifier.calls == 4

    await cache.find("0", SENDER, verifier.verify)
    assert verifier.calls == 5


async def test_refused_tokens_of_many_senders_take_no_place_of_valid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection_module, "_MAX_KEPT", 3)
    cache, good, bad = VerdictCache(10, Clock()), ready_verifier(), ready_verifier(BAD)

    await cache.find("valid", SENDER, good.verify)
    for number in range(10):
        await cache.find(f"garbage {number}", sender_of(None, f"192.0.2.{number}"), bad.verify)
    bob = ready_verifier(evolve(GOOD, subject="bob"))
    for _ in range(2):
        await cache.find("of bob", SENDER, bob.verify)

    assert await cache.find("valid", SENDER, bad.verify) is GOOD
    assert (good.calls, bob.calls, bad.calls) == (1, 1, 10)


async def test_a_sender_of_many_refused_tokens_does_not_push_out_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(introspection_module, "_MAX_KEPT", 3)
    cache, bad = VerdictCache(10, Clock()), ready_verifier(BAD)
    other, newcomer = sender_of(None, "192.0.2.2"), sender_of(None, "192.0.2.3")
    for number in range(5):
        await cache.find(str(number), SENDER, bad.verify)
    await cache.find("other", other, bad.verify)
    for number in range(5, 10):
        await cache.find(str(number), SENDER, bad.verify)
    await cache.find("newcomer", newcomer, bad.verify)
    assert bad.calls == 12

    for token in ("other", "newcomer", "9"):
        await cache.find(token, SENDER, bad.verify)
    assert bad.calls == 12

    await cache.find("too many", sender_of(None, "192.0.2.4"), bad.verify)  # all have one: the newcomer has no place
    await cache.find("too many", sender_of(None, "192.0.2.4"), bad.verify)
    assert bad.calls == 14


async def test_a_principal_with_many_tokens_does_not_push_out_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection_module, "_MAX_KEPT", 3)
    cache = VerdictCache(10, Clock())
    bob = ready_verifier(evolve(GOOD, subject=None, client_id="bob"))
    await cache.find("of bob", SENDER, bob.verify)

    for number in range(10):
        await cache.find(f"of ann {number}", SENDER, ready_verifier().verify)

    await cache.find("of bob", SENDER, bob.verify)
    assert bob.calls == 1


async def test_the_sender_of_a_token_that_was_valid_is_its_principal() -> None:
    clock = Clock()
    cache, verifier = VerdictCache(10, clock), ready_verifier()
    for _ in range(2):
        await cache.find("token", SENDER, verifier.verify)
        clock.now += 10
    verifier.answer = BAD
    for _ in range(2):
        await cache.find("token", SENDER, verifier.verify)
        clock.now += 10

    ann = sender_of("i ann", None)
    assert verifier.senders == [SENDER, ann, ann, SENDER]


async def test_the_cache_does_not_contain_the_token_itself() -> None:
    cache, verifier = VerdictCache(10, Clock()), ready_verifier()

    await cache.find("very secret", SENDER, verifier.verify)

    assert all("very secret" not in repr(each) for each in (cache._valid._kept, cache._refused._kept, cache._pending))
