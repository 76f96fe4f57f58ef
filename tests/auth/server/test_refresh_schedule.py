from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.auth.signed_tokens import Clock, Issuer
from trio_mcp.abc import Fetch
from trio_mcp.auth import VerifierUnavailable
from trio_mcp.auth.server._token_verifiers import PAUSE_SECONDS, RefreshSchedule


@define(eq=False)
class Publisher:
    """A publisher of one document that counts how often the document is fetched."""

    clock: Clock = field(factory=Clock)
    reads: int = 0
    failure: Exception | None = None
    admission: trio.Event | None = None
    schedule: RefreshSchedule = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schedule = RefreshSchedule("the document", self.read, self.clock)

    async def read(self, fetch: Fetch) -> None:
        self.reads += 1
        if self.admission is not None:
            await self.admission.wait()
        if self.failure is not None:
            raise self.failure


FETCH = Issuer()


async def test_a_document_is_fetched_when_it_is_first_needed_and_when_it_is_old() -> None:
    publisher = Publisher()
    assert publisher.schedule.age == float("inf")

    await publisher.schedule.keep_fresh(FETCH)
    publisher.clock.now += 600
    await publisher.schedule.keep_fresh(FETCH)
    assert (publisher.reads, publisher.schedule.age) == (1, 600)

    publisher.clock.now += 1
    await publisher.schedule.keep_fresh(FETCH)
    assert (publisher.reads, publisher.schedule.age) == (2, 0)


async def test_a_document_is_not_fetched_again_during_the_pause_after_a_success_or_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher = Publisher(failure=VerifierUnavailable("unreachable"))

    for _ in range(5):
        await publisher.schedule.again(FETCH)
    assert publisher.reads == 1
    assert caplog.messages == ["the document could not be fetched: unreachable"]

    publisher.failure = None
    publisher.clock.now += PAUSE_SECONDS
    for _ in range(5):
        await publisher.schedule.again(FETCH)
    assert publisher.reads == 2


async def test_a_clock_that_is_set_back_does_not_prevent_a_fetch() -> None:
    publisher = Publisher()
    await publisher.schedule.keep_fresh(FETCH)

    publisher.clock.now -= 100_000
    await publisher.schedule.keep_fresh(FETCH)

    assert publisher.reads == 2


async def test_without_a_document_all_requests_wait_for_one_fetch() -> None:
    publisher = Publisher(admission=trio.Event())

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(publisher.schedule.keep_fresh, FETCH)
        await trio.testing.wait_all_tasks_blocked()
        assert publisher.admission is not None
        publisher.admission.set()

    assert publisher.reads == 1


async def test_a_request_does_not_wait_while_an_old_document_is_refreshed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    publisher = Publisher()
    await publisher.schedule.keep_fresh(FETCH)
    publisher.clock.now += 1000
    publisher.admission = trio.Event()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publisher.schedule.keep_fresh, FETCH)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await publisher.schedule.keep_fresh(FETCH)
        assert trio.current_time() == began
        publisher.admission.set()

    assert publisher.reads == 2


async def test_a_cancelled_request_does_not_restart_the_fetch_of_the_others() -> None:
    publisher = Publisher(admission=trio.Event())

    async with trio.open_nursery() as nursery:
        leaving = await nursery.start(cancellable, publisher)
        nursery.start_soon(publisher.schedule.keep_fresh, FETCH)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert publisher.admission is not None
        publisher.admission.set()

    assert (publisher.reads, publisher.schedule.age) == (1, 0)


async def cancellable(
    publisher: Publisher, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await publisher.schedule.keep_fresh(FETCH)


async def test_a_cancelled_fetch_ends_at_its_timeout(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = Publisher(admission=trio.Event())
    began = trio.current_time()

    with trio.move_on_after(1):
        await publisher.schedule.again(FETCH)

    assert trio.current_time() - began == 10
    assert publisher.schedule.age == float("inf")
    assert caplog.messages == ["the document: the request took more than 10 s"]
    assert caplog.records[0].levelno == logging.WARNING


async def test_an_unexpected_exception_affects_only_the_fetching_request() -> None:
    publisher = Publisher(failure=KeyError("a bug"))

    with pytest.raises(KeyError, match="a bug"):
        await publisher.schedule.again(FETCH)
    await publisher.schedule.again(FETCH)

    assert publisher.reads == 1
