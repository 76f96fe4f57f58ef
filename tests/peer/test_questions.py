"""The wait for answers: what ends it, and late answers."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import AskExpired, MissingCapability, TooManyParked
from trio_mcp.peer import QuestionBatch

from .fake_exchange import exchange
from .parking_bench import question


async def waited(asking: QuestionBatch, outcome: list[object]) -> None:
    try:
        outcome.append(await asking.wait())
    except Exception as exc:  # noqa: BLE001 # the outcome
        outcome.append(exc)


async def test_the_wait_ends_when_all_are_answered_in_their_order(nursery: trio.Nursery) -> None:
    first, second = question("a"), question("b")
    asking, outcome = QuestionBatch([first, second]), list[object]()
    nursery.start_soon(waited, asking, outcome)

    second.answer = 2
    asking.answered()
    await wait_all_tasks_blocked()
    assert outcome == []
    assert list(asking.unanswered) == [first]

    first.answer = None  # an answer like any other, once it was read
    asking.answered()
    await wait_all_tasks_blocked()
    assert outcome == [[None, 2]]
    assert list(asking.unanswered) == []


async def test_a_batch_of_questions_expires_at_its_deadline(autojump_clock: MockClock) -> None:
    asking = QuestionBatch([question("a")])
    asking.scope.deadline = trio.current_time() + 5

    with pytest.raises(AskExpired, match="the question was not answered in time"):
        await asking.wait()
    assert trio.current_time() == 5


async def test_an_answer_that_came_before_the_deadline_was_noticed_wins(nursery: trio.Nursery) -> None:
    one = question("a")
    asking, outcome = QuestionBatch([one]), list[object]()
    nursery.start_soon(waited, asking, outcome)
    await wait_all_tasks_blocked()

    asking.scope.cancel(reason="the deadline")
    one.answer = 1
    asking.answered()
    await wait_all_tasks_blocked()
    assert outcome == [[1]]


async def test_a_failure_is_raised_where_it_is_waited_and_what_comes_later_is_dropped() -> None:
    one, failure = question("a"), TooManyParked("full")
    asking = QuestionBatch([one])
    asking.fail(failure)
    asking.fail(AskExpired("later"))
    one.answer = 1
    asking.answered()

    with pytest.raises(TooManyParked) as caught:
        await asking.wait()
    assert caught.value is failure
    assert list(asking.unanswered) == []


async def test_a_failure_after_the_answers_is_dropped() -> None:
    one = question("a")
    asking = QuestionBatch([one])
    one.answer = 1
    asking.answered()
    asking.fail(AskExpired("later"))

    assert await asking.wait() == [1]


async def test_a_wait_that_is_cancelled_from_outside_is_cancelled(autojump_clock: MockClock) -> None:
    with pytest.raises(trio.TooSlowError):
        with trio.fail_after(3):
            await QuestionBatch([question("a")]).wait()


def test_what_is_lacking_is_what_an_unanswered_question_lacks() -> None:
    plain, needy = question("a"), question("b", "sampling")
    asking, context = QuestionBatch([plain, needy]), exchange().context

    lacking = asking.lacking(context)
    assert isinstance(lacking, MissingCapability)
    assert lacking.required == {"sampling": {}}
    assert asking.lacking(exchange(capabilities={"sampling": {}}).context) is None

    needy.answer = 1
    assert asking.lacking(context) is None
