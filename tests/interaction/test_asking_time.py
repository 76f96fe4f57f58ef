"""Unanswered questions: the effect on their handlers in both eras and when the server stops."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.interaction.asking import (
    accept_two,
    asking,
    attempt,
    capable,
    everywhere,
    first_round,
    happens,
    in_both_eras,
    in_both_modes,
    in_virtual_time,
    never_answer,
    success_text,
    text,
)
from tests.interaction.asking_server import Mode, Seats
from tests.interaction.scripted_peers import MODERN
from trio_mcp import (
    AskExpired,
    Context,
    ErrorResponse,
    Limits,
    McpError,
    MissingCapability,
    Server,
    open_client,
    types,
)
from trio_mcp.server import ActiveServer

SOON = 0.3
"""Real seconds after which an unanswered question expires."""
BAD_STATE = r"\$\.requestState: it is invalid"

# Expiry.


@everywhere
@in_both_eras
async def test_an_expired_question_raises_ask_expired_where_it_was_asked(
    where: str, revision: str, tmp_path: Path
) -> None:
    patient = {"key": "one", "clean_up_seconds": 0}
    async with asking(where, tmp_path, ask_seconds=SOON, revision=revision, on_elicit=never_answer) as client:
        if revision == MODERN:
            first = await first_round(client, "patient", patient)
            await happens(client, "one cleaned up")
            with pytest.raises(ErrorResponse, match=BAD_STATE):
                await first.retry()
        else:
            outcome = success_text(await client.call_tool("patient", patient))
            assert outcome == "expired: the question was not answered in time"


@everywhere
async def test_a_handler_that_does_not_catch_ask_expired_fails(where: str, tmp_path: Path) -> None:
    """The legacy client still waits for the result; a modern one has already got its interim result."""
    async with asking(where, tmp_path, ask_seconds=SOON, revision="2025-11-25", on_elicit=never_answer) as client:
        result = await client.call_tool("book", {"show": "Hamlet"})
        assert result.is_error
        assert text(result) == "the question was not answered in time"


@pytest.mark.requirement("B.9-S4a")
@in_virtual_time
@in_both_eras
@pytest.mark.parametrize("clean_up_seconds", [4, 6])
async def test_after_expiry_the_handler_has_5_seconds_to_clean_up(
    where: str, revision: str, clean_up_seconds: float, tmp_path: Path, autojump_clock: MockClock
) -> None:
    patient = {"key": "one", "clean_up_seconds": clean_up_seconds}
    async with asking(where, tmp_path, ask_seconds=60, revision=revision, on_elicit=never_answer) as client:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, client, "patient", patient)
            await happens(client, "one expired")
            assert trio.current_time() - began == pytest.approx(60, abs=0.1)
            await happens(client, "one ended")
            assert trio.current_time() - began == pytest.approx(60 + min(clean_up_seconds, 5), abs=0.1)
            await wait_all_tasks_blocked()
            with trio.move_on_after(1) as too_late:
                await happens(client, "one cleaned up")
        assert too_late.cancelled_caught == (clean_up_seconds > 5)


@in_virtual_time
async def test_a_state_is_accepted_before_its_expiry(where: str, tmp_path: Path, autojump_clock: MockClock) -> None:
    async with asking(where, tmp_path, ask_seconds=60) as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        await trio.sleep(59)
        assert success_text(await first.retry()) == "2 seats for Hamlet; begun 1"

        first = await first_round(client, "book", {"show": "Hamlet"})
        await trio.sleep(60)
        with pytest.raises(ErrorResponse, match=BAD_STATE):
            await first.retry()


@in_virtual_time
async def test_deadlines_of_the_handler_include_the_parked_time(
    where: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with asking(where, tmp_path) as client:
        began = trio.current_time()
        first = await first_round(client, "hasty", {"key": "one", "seconds": 30})
        await happens(client, "one gave up")
        assert trio.current_time() - began == pytest.approx(30, abs=0.1)
        await trio.sleep(1000)
        assert success_text(await first.retry()) == "gave up"


@in_both_modes
@in_both_eras
async def test_a_question_may_have_no_expiry(mode: Mode, revision: str, tmp_path: Path) -> None:
    async with asking("bytes", tmp_path, mode=mode, revision=revision, ask_seconds=math.inf) as client:
        assert success_text(await client.call_tool("book", {"show": "Hamlet"})).startswith("2 seats")


# Time and calls that do not count.


@everywhere
@in_both_eras
async def test_max_concurrency_does_not_count_calls_whose_user_is_asked(
    where: str, revision: str, tmp_path: Path
) -> None:
    """Both calls ask at the same time; then one works, and the other waits until the first has ended."""
    calls_asked, go = trio.Semaphore(0), trio.Semaphore(0)
    results: list[str] = []

    async def on_elicit(request: Any) -> types.ElicitResult:
        calls_asked.release()
        await go.acquire()
        return await accept_two(request)

    async with asking(where, tmp_path, revision=revision, on_elicit=on_elicit) as client:

        async def call(key: str) -> None:
            results.append(success_text(await client.call_tool("exclusive", {"key": key})))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "one")
            await calls_asked.acquire()
            nursery.start_soon(call, "other")
            await calls_asked.acquire()
            for _ in range(2):
                go.release()
            await happens(client, "some work")
            for key in ("one", "other"):
                await client.call_tool("set_event", {"event": f"end {key}"})
    assert results == ["1 at a time"] * 2


@in_both_eras
async def test_a_handler_whose_question_fails_waits_for_its_concurrency_slot_before_it_resumes(
    revision: str, autojump_clock: MockClock
) -> None:
    server, at_work = Server("s"), list[int]()
    busy = 0

    @server.tool(max_concurrency=1)
    async def work(ctx: Context) -> None:
        nonlocal busy
        try:
            await ctx.elicit("How many?", Seats)
            await ctx.list_roots()
        except (MissingCapability, ErrorResponse):
            busy += 1
            at_work.append(busy)
            await trio.sleep(1)
            busy -= 1

    async def roots() -> Sequence[types.Root]:
        await trio.lowlevel.checkpoint()
        raise McpError(-1, "gone")

    options = capable(revision=revision, roots=None if revision == MODERN else roots)
    async with open_client(server, **options) as client, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(client.call_tool, "work")
    assert at_work == [1, 1, 1]


@in_virtual_time
@in_both_eras
async def test_the_tool_timeout_does_not_count_the_time_in_which_the_user_is_asked(
    where: str, revision: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def slowly(request: Any) -> types.ElicitResult:
        await trio.sleep(1000)
        return await accept_two(request)

    async with asking(where, tmp_path, revision=revision, on_elicit=slowly) as client:
        began = trio.current_time()
        assert success_text(await client.call_tool("timed", {"before": 14, "after": 14})) == "in time"
        assert trio.current_time() - began == pytest.approx(1028, abs=0.1)
        result = await client.call_tool("timed", {"before": 14, "after": 17})
        assert result.is_error
        assert trio.current_time() - began == pytest.approx(1028 + 1030, abs=0.1)


# Stopping.


@in_both_modes
@in_both_eras
async def test_a_stopping_server_asks_nothing_and_expires_open_questions(
    mode: Mode, revision: str, autojump_clock: MockClock
) -> None:
    outcomes: list[str] = []
    server = Server("s", asking=mode, limits=Limits(ask_seconds=math.inf))

    @server.tool
    async def book(ctx: Context) -> str:
        for _ in range(2):
            try:
                await ctx.elicit("How many?", Seats)
            except AskExpired as exc:
                outcomes.append(str(exc))
        return "stopped"

    async with serving_with_client(server, revision=revision, on_elicit=never_answer) as (serving, client):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, client, "book")
            await wait_all_tasks_blocked()
            serving.stop()
            await wait_all_tasks_blocked()
        if (mode, revision) == ("replayed", MODERN):  # the server stores nothing that could expire
            assert outcomes == []
        else:
            assert outcomes == ["the server stops"] * 2
        outcomes.clear()
        assert success_text(await attempt(client, "book")) == "stopped"
        assert outcomes == ["the server stops"] * 2
        assert serving.statistics().parked == 0


@asynccontextmanager
async def serving_with_client(server: Server, **options: Any) -> AsyncGenerator[tuple[ActiveServer, Any]]:
    """Serve *server*, and open an in-memory client of that serving."""

    class SharedServing:
        @asynccontextmanager
        async def serving(self) -> AsyncGenerator[ActiveServer]:
            yield serving

    async with server.serving() as serving, open_client(SharedServing(), **capable(**options)) as client:
        yield serving, client


async def test_a_question_that_is_about_to_be_sent_expires_when_the_server_stops(autojump_clock: MockClock) -> None:
    server = Server("s")
    parted: list[ActiveServer] = []

    @server.tool
    async def book(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.001)  # so that the question waits for more questions
            nursery.start_soon(stop)
            try:
                await ctx.elicit("How many?", Seats)
            except AskExpired as exc:
                return str(exc)
        return "asked"

    async def stop() -> None:
        await trio.lowlevel.checkpoint()
        parted[0].stop()

    for mode in ("parked", "replayed"):
        server.asking = mode
        async with serving_with_client(server) as (serving, client):
            parted[:] = [serving]
            assert success_text(await attempt(client, "book")) == "the server stops"


# Threads.


@define(eq=False)
class Asking:
    """A server whose tool asks from a worker thread, with a record of the thread's end."""

    ask_seconds: float = 1000.0
    server: Server = field(init=False)
    began: trio.Event = field(factory=trio.Event)
    may_ask: threading.Event = field(factory=threading.Event)
    errors: list[str] = field(factory=list[str])
    ended: trio.Event = field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        token = trio.lowlevel.current_trio_token()
        self.server = Server("s", limits=Limits(ask_seconds=self.ask_seconds))

        @self.server.tool
        def book(ctx: Context) -> None:
            trio.from_thread.run_sync(self.began.set)
            self.may_ask.wait(50)
            try:
                trio.from_thread.run(ctx.elicit, "How many?", Seats)
            except AskExpired as exc:
                self.errors.append(str(exc))
            token.run_sync_soon(self.ended.set)


@in_both_eras
async def test_a_thread_that_asks_after_its_call_was_cancelled_gets_an_error_and_ends(revision: str) -> None:
    asking = Asking()
    with trio.fail_after(50):
        async with serving_with_client(asking.server, revision=revision) as (serving, client):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "book")
                await asking.began.wait()
                nursery.cancel_scope.cancel()
            asking.may_ask.set()
            await asking.ended.wait()
            await wait_for_threads(serving)
    assert asking.errors == ["the call is over"]


async def wait_for_threads(serving: ActiveServer) -> None:
    while serving.statistics().threads:  # noqa: ASYNC110 # no event announces the end of a thread
        await trio.sleep(0.001)


async def test_a_thread_that_waits_for_an_answer_gets_an_error_when_a_legacy_client_cancels_the_call() -> None:
    asking, has_asked = Asking(), trio.Event()
    asking.may_ask.set()

    async def never(_: object) -> Any:
        has_asked.set()
        await trio.sleep_forever()

    with trio.fail_after(50):
        async with serving_with_client(asking.server, revision="2025-11-25", on_elicit=never) as (serving, client):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "book")
                await has_asked.wait()
                nursery.cancel_scope.cancel()
            await asking.ended.wait()
            await wait_for_threads(serving)
    assert asking.errors == ["the call is over"]


async def test_a_thread_whose_question_expires_while_it_is_parked_ends() -> None:
    asking = Asking(ask_seconds=0.3)
    asking.may_ask.set()
    with trio.fail_after(50):
        async with serving_with_client(asking.server) as (serving, client):
            await first_round(client, "book")
            assert serving.statistics().threads == 0  # a waiting thread does not count
            await asking.ended.wait()
            await wait_for_threads(serving)
    assert asking.errors == ["the question was not answered in time"]


@in_both_eras
async def test_a_thread_whose_call_is_cancelled_after_an_answer_gets_an_error(revision: str) -> None:
    server, stopped = Server("s"), trio.Event()
    answered, token = trio.Event(), trio.lowlevel.current_trio_token()

    @server.tool
    def book(ctx: Context) -> None:
        trio.from_thread.run(ctx.elicit, "How many?", Seats)
        trio.from_thread.run_sync(answered.set)
        try:
            while True:
                trio.from_thread.check_cancelled()
        finally:
            token.run_sync_soon(stopped.set)

    with trio.fail_after(50):
        async with serving_with_client(server, revision=revision) as (serving, client):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "book")
                await answered.wait()
                assert serving.statistics().threads == 1
                nursery.cancel_scope.cancel()
            await stopped.wait()
            await wait_for_threads(serving)
