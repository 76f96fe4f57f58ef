"""The wait for the answers to a batch of questions."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import AskExpired, MissingCapability, TooManyParked
from trio_mcp.peer import QuestionBatch

from .fake_exchange import exchange
from .parking_bench import question


async def waited(batch: QuestionBatch, outcome: list[object]) -> None:
    try:
        outcome.append(await batch.wait())
    except Exception as exc:  # noqa: BLE001 # the exception is the outcome
        outcome.append(exc)


async def test_the_wait_ends_when_every_question_is_answered_and_returns_the_answers_in_order(
    nursery: trio.Nursery,
) -> None:
    first, second = question("a"), question("b")
    batch, outcome = QuestionBatch([first, second]), list[object]()
    nursery.start_soon(waited, batch, outcome)

    second.answer = 2
    batch.answered()
    await wait_all_tasks_blocked()
    assert outcome == []
    assert list(batch.unanswered) == [first]

    first.answer = None  # a valid answer once it was read
    batch.answered()
    await wait_all_tasks_blocked()
    assert outcome == [[None, 2]]
    assert list(batch.unanswered) == []


async def test_a_batch_of_questions_expires_at_its_deadline(autojump_clock: MockClock) -> None:
    batch = QuestionBatch([question("a")])
    batch.scope.deadline = trio.current_time() + 5

    with pytest.raises(AskExpired, match="the question was not answered in time"):
        await batch.wait()
    assert trio.current_time() == 5


async def test_an_answer_that_came_before_the_deadline_was_noticed_wins(nursery: trio.Nursery) -> None:
    one = question("a")
    batch, outcome = QuestionBatch([one]), list[object]()
    nursery.start_soon(waited, batch, outcome)
    await wait_all_tasks_blocked()

    batch.scope.cancel(reason="the deadline")
    one.answer = 1
    batch.answered()
    await wait_all_tasks_blocked()
    assert outcome == [[1]]


async def test_the_first_failure_is_raised_in_the_waiting_task_and_later_outcomes_are_dropped() -> None:
    one, failure = question("a"), TooManyParked("full")
    batch = QuestionBatch([one])
    batch.fail(failure)
    batch.fail(AskExpired("later"))
    one.answer = 1
    batch.answered()

    with pytest.raises(TooManyParked) as caught:
        await batch.wait()
    assert caught.value is failure
    assert list(batch.unanswered) == []


async def test_a_failure_after_the_answers_is_dropped() -> None:
    one = question("a")
    batch = QuestionBatch([one])
    one.answer = 1
    batch.answered()
    batch.fail(AskExpired("later"))

    assert await batch.wait() == [1]


async def test_a_cancellation_from_outside_ends_the_wait(autojump_clock: MockClock) -> None:
    with pytest.raises(trio.TooSlowError):
        with trio.fail_after(3):
            await QuestionBatch([question("a")]).wait()


def test_only_unanswered_questions_need_their_capabilities() -> None:
    plain, needy = question("a"), question("b", "sampling")
    batch, context = QuestionBatch([plain, needy]), exchange().context

    lacking = batch.lacking(context)
    assert isinstance(lacking, MissingCapability)
    assert lacking.required == {"sampling": {}}
    assert batch.lacking(exchange(capabilities={"sampling": {}}).context) is None

    needy.answer = 1
    assert batch.lacking(context) is None
