"""The Trio driver of flows: steps, outcomes, errors and cancellation."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from attrs import define, evolve, field
from trio.testing import MockClock

from tests.auth.client.scripted_network import REDIRECT_URI, Person, WaitCounter
from trio_mcp import AuthorizationFailed
from trio_mcp._util import outlast
from trio_mcp.auth import CallFailed, HttpCall, HttpReply, MemoryTokenStorage
from trio_mcp.auth.client._browser import BrowserAgent
from trio_mcp.auth.client._steps import (
    Await,
    BrowserStep,
    Flow,
    FlowServices,
    Load,
    Pause,
    PickRedirect,
    ReadClock,
    Swap,
    drive,
)

CALL = HttpCall(method="GET", url="https://auth.example.com/x", named_by="user")


@define(eq=False)
class RecordingPerson(Person):
    """A scripted user that checks whether a request counts as waiting for the user."""

    asking: WaitCounter = field(factory=WaitCounter)
    opened: int = field(default=0, init=False)

    @asynccontextmanager
    async def accompanied(self) -> AsyncGenerator[BrowserAgent]:
        self.opened += 1
        async with super().accompanied() as agent:
            yield agent

    async def pick_redirect(self, preferred: str | None) -> str:
        assert self.asking.count == 0
        return await super().pick_redirect(preferred)

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        assert self.asking.count == 1
        return await super().sign_in(url, redirect_uri)


async def fetch(call: HttpCall) -> HttpReply:
    await trio.lowlevel.checkpoint()
    return HttpReply(status=204, headers={"x-url": call.url})


def services_with(person: RecordingPerson) -> FlowServices:
    return FlowServices(
        fetch=fetch,
        storage=MemoryTokenStorage(),
        clock=lambda: 7.0,
        agent=person.accompanied,
        asking_person=person.asking.person,
    )


@pytest.fixture
def person() -> RecordingPerson:
    return RecordingPerson()


@pytest.fixture
def services(person: RecordingPerson) -> FlowServices:
    return services_with(person)


async def test_each_step_receives_its_outcome(services: FlowServices, autojump_clock: MockClock) -> None:
    async def answer() -> int:
        await trio.lowlevel.checkpoint()
        return 42

    def flow() -> Flow[list[object]]:
        outcomes: list[object] = []
        steps = (
            CALL,
            Swap("key", None, "value"),
            Load("key"),
            ReadClock(),
            Pause(3),
            Await(answer),
            PickRedirect(None),
            BrowserStep("https://auth.example.com/authorize", REDIRECT_URI),
        )
        for step in steps:
            outcomes.append((yield step))  # noqa: PERF401 # a comprehension cannot yield
        return outcomes

    outcomes = await drive(flow(), services)

    reply = HttpReply(status=204, headers={"x-url": CALL.url})
    assert outcomes == [reply, True, "value", 7.0, None, 42, REDIRECT_URI, f"{REDIRECT_URI}?code=1"]
    assert trio.current_time() == pytest.approx(3)


async def test_a_flow_without_steps_returns_its_result(services: FlowServices) -> None:
    def flow() -> Flow[int]:
        return 1
        yield ReadClock()

    assert await drive(flow(), services) == 1


async def test_the_error_of_a_step_is_raised_in_the_flow_which_may_continue(services: FlowServices) -> None:
    async def fail(call: HttpCall) -> HttpReply:
        await trio.lowlevel.checkpoint()
        raise CallFailed("unreachable")

    def flow() -> Flow[str]:
        try:
            yield CALL
        except CallFailed as failure:
            yield ReadClock()
            return str(failure)
        raise AssertionError

    assert await drive(flow(), evolve(services, fetch=fail)) == "unreachable"


async def test_an_exception_that_the_flow_does_not_handle_propagates_unchanged(services: FlowServices) -> None:
    async def fail(call: HttpCall) -> HttpReply:
        await trio.lowlevel.checkpoint()
        raise CallFailed("unreachable")

    def flow() -> Flow[None]:
        yield CALL

    with pytest.raises(CallFailed, match="unreachable"):
        await drive(flow(), evolve(services, fetch=fail))


async def test_the_browser_agent_is_opened_once_and_closed_when_the_flow_ends(
    services: FlowServices, person: RecordingPerson
) -> None:
    def flow() -> Flow[None]:
        assert person.opened == 0
        for _ in range(2):
            redirect_uri: str = yield PickRedirect(None)
            yield BrowserStep("https://auth.example.com/authorize", redirect_uri)
        assert person.active_flows == 1
        raise AuthorizationFailed("the end")

    with pytest.raises(AuthorizationFailed, match="the end"):
        await drive(flow(), services)

    assert (person.opened, person.active_flows, person.asking.count) == (1, 0, 0)


async def test_a_cancelled_flow_is_closed(services: FlowServices, person: RecordingPerson) -> None:
    closed: list[str] = []
    person.decision = trio.Event()

    def flow() -> Flow[None]:
        try:
            yield BrowserStep("https://auth.example.com/authorize", REDIRECT_URI)
        except BaseException as exc:
            closed.append(type(exc).__name__)
            raise

    with trio.CancelScope() as scope:
        scope.cancel()
        await drive(flow(), services)

    assert scope.cancelled_caught
    assert closed == ["GeneratorExit"]
    assert (person.active_flows, person.asking.count) == (0, 0)


# Work that continues after a cancellation.


async def test_the_work_completes_within_its_timeout(autojump_clock: MockClock) -> None:
    await outlast(partial(trio.sleep, 3), seconds=5, grace=1)

    assert trio.current_time() == pytest.approx(3)


async def test_work_that_exceeds_its_timeout_is_cancelled(autojump_clock: MockClock) -> None:
    with pytest.raises(trio.TooSlowError):
        await outlast(trio.sleep_forever, seconds=5, grace=1)

    assert trio.current_time() == pytest.approx(5)


async def test_an_exception_of_the_work_propagates_unchanged() -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise AuthorizationFailed("as it is")

    with pytest.raises(AuthorizationFailed, match="as it is"):
        await outlast(fail, seconds=5, grace=1)


async def test_the_work_completes_after_a_cancellation(autojump_clock: MockClock) -> None:
    done: list[float] = []

    async def work() -> None:
        await trio.sleep(3)
        done.append(trio.current_time())

    with trio.move_on_after(2.5) as scope:
        await outlast(work, seconds=math.inf, grace=1)

    assert done == [pytest.approx(3)]
    assert scope.cancelled_caught


async def test_after_a_cancellation_the_work_has_at_most_the_grace_period(autojump_clock: MockClock) -> None:
    with trio.move_on_after(2), pytest.raises(trio.TooSlowError):
        await outlast(trio.sleep_forever, seconds=10, grace=1)

    assert trio.current_time() == pytest.approx(3)


async def test_the_grace_period_does_not_extend_the_timeout(autojump_clock: MockClock) -> None:
    with trio.move_on_after(2), pytest.raises(trio.TooSlowError):
        await outlast(trio.sleep_forever, seconds=2.5, grace=1)

    assert trio.current_time() == pytest.approx(2.5)
