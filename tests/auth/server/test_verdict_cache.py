from __future__ import annotations

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.auth.signed_tokens import Clock
from trio_mcp.auth import VerifiedToken, VerifierUnavailable
from trio_mcp.auth.server import _token_verifiers as verifiers_module
from trio_mcp.auth.server._token_verifiers import VerdictCache

GOOD = VerifiedToken(issuer="i", subject="ann", client_id=None, audiences=(), scopes=frozenset(), expires_at=None)


@define(eq=False)
class ScriptedVerifier:
    """A verifier that returns a scripted verdict and counts its calls."""

    answer: VerifiedToken | VerifierUnavailable | None = GOOD
    calls: int = 0
    admission: trio.Event = field(factory=trio.Event)

    async def verify(self) -> VerifiedToken | None:
        self.calls += 1
        await self.admission.wait()
        if isinstance(self.answer, VerifierUnavailable):
            raise self.answer
        return self.answer


def ready_verifier(answer: VerifiedToken | VerifierUnavailable | None = GOOD) -> ScriptedVerifier:
    verifier = ScriptedVerifier(answer)
    verifier.admission.set()
    return verifier


@pytest.mark.parametrize("answer", [GOOD, None])
async def test_a_verdict_is_reused_until_it_expires(answer: VerifiedToken | None) -> None:
    clock, verifier = Clock(), ready_verifier(answer)
    cache = VerdictCache(10, clock)

    for passed in (0, 9):
        clock.now += passed
        assert await cache.find("token", verifier.verify) is answer
    assert verifier.calls == 1

    clock.now += 1
    assert await cache.find("token", verifier.verify) is answer
    assert verifier.calls == 2


async def test_each_token_has_a_separate_verdict() -> None:
    cache, good, bad = VerdictCache(10, Clock()), ready_verifier(), ready_verifier(None)

    assert await cache.find("one", good.verify) is GOOD
    assert await cache.find("two", bad.verify) is None
    assert await cache.find("one", bad.verify) is GOOD


async def test_a_cache_with_a_lifetime_of_zero_keeps_nothing() -> None:
    cache, verifier = VerdictCache(0, Clock()), ready_verifier()

    await cache.find("token", verifier.verify)
    await cache.find("token", verifier.verify)

    assert verifier.calls == 2


async def test_without_a_cache_requests_are_not_shared() -> None:
    cache, verifier = VerdictCache(0, Clock()), ScriptedVerifier()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.find, "token", verifier.verify)
        nursery.start_soon(cache.find, "token", verifier.verify)
        await trio.testing.wait_all_tasks_blocked()
        assert verifier.calls == 2
        verifier.admission.set()


async def test_a_clock_that_is_set_back_expires_all_verdicts() -> None:
    clock, verifier = Clock(), ready_verifier()
    cache = VerdictCache(10, clock)
    await cache.find("token", verifier.verify)

    clock.now -= 5
    await cache.find("token", verifier.verify)

    assert verifier.calls == 2


async def test_concurrent_requests_for_one_token_are_shared() -> None:
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier()
    found: list[VerifiedToken | None] = []

    async def find() -> None:
        found.append(await cache.find("token", verifier.verify))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(find)
        await trio.testing.wait_all_tasks_blocked()
        verifier.admission.set()

    assert (verifier.calls, found) == (1, [GOOD] * 100)


async def test_a_failure_reaches_all_waiting_tasks_and_is_not_cached() -> None:
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier(VerifierUnavailable("unreachable"))
    failed: list[str] = []

    async def find() -> None:
        with pytest.raises(VerifierUnavailable) as caught:
            await cache.find("token", verifier.verify)
        failed.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(find)
        await trio.testing.wait_all_tasks_blocked()
        verifier.admission.set()
    assert (verifier.calls, failed) == (1, ["unreachable"] * 5)

    verifier.answer = GOOD
    assert await cache.find("token", verifier.verify) is GOOD


async def test_if_the_calling_task_is_cancelled_a_waiting_task_calls_the_verifier_again() -> None:
    cache, verifier = VerdictCache(10, Clock()), ScriptedVerifier()
    leaving = trio.CancelScope()
    found: list[VerifiedToken | None] = []

    async def leave() -> None:
        with leaving:
            await cache.find("token", verifier.verify)

    async def find() -> None:
        found.append(await cache.find("token", verifier.verify))

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
    monkeypatch.setattr(verifiers_module, "_MAX_KEPT", 3)
    cache, verifier = VerdictCache(10, Clock()), ready_verifier()

    for number in range(4):
        await cache.find(str(number), verifier.verify)
    for number in (1, 2, 3):
        await cache.find(str(number), verifier.verify)
    assert verifier.calls == 4

    await cache.find("0", verifier.verify)
    assert verifier.calls == 5


async def test_the_cache_does_not_contain_the_token_itself() -> None:
    cache, verifier = VerdictCache(10, Clock()), ready_verifier()

    await cache.find("very secret", verifier.verify)

    assert not any("very secret" in repr(getattr(cache, name)) for name in ("_kept", "_pending"))
