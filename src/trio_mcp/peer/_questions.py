"""What a handler must know before it can go on: questions to the other side, and the wait for their answers.

Rules of this file:

1. Questions that are asked together wait together: they are answered all, or fail all.
2. Whoever waits is woken by its answers, by a failure, or by the deadline of its scope. An answer that came before the
   deadline was noticed wins.
3. What is waited for is settled once; whatever comes later is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import trio
from attrs import define, field

from .._errors import AskExpired, MissingCapability
from ..wire import JsonObject
from ._context import ExchangeContext

__all__ = ["Question", "QuestionBatch"]


class _Unanswered:
    """The type of the mark that there is no answer yet; None may be one."""


_UNANSWERED: Final = _Unanswered()


@define(eq=False)
class Question:
    """One thing to know from the other side."""

    key: str
    """What the other side's answer is found by; unique among the open questions of a run."""
    request: JsonObject
    """The method and the params, as they go over the wire."""
    read: Callable[[Any], Any]
    """Makes of the JSON value that was answered what the handler gets; raises `McpError` if it is no answer."""
    lacking: Callable[[ExchangeContext], MissingCapability | None]
    """Says why the other side cannot be asked on these terms; None if it can."""
    _answer: Any = field(default=_UNANSWERED, init=False)

    @property
    def answered(self) -> bool:
        """Whether the answer is there."""
        return self._answer is not _UNANSWERED

    @property
    def answer(self) -> Any:
        """The answer, as `read` made it."""
        assert self.answered
        return self._answer

    @answer.setter
    def answer(self, answer: Any) -> None:
        self._answer = answer


@define(eq=False)
class QuestionBatch:
    """One wait of a handler for the answers to some questions."""

    questions: Sequence[Question]
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """Its deadline is when the questions expire."""
    _resolved: trio.Event = field(factory=trio.Event, init=False)
    _failure: Exception | None = field(default=None, init=False)

    @property
    def unanswered(self) -> Iterator[Question]:
        """The questions that are still open."""
        if not self._resolved.is_set():
            yield from (question for question in self.questions if not question.answered)

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Say why they cannot all be asked on these terms; None if they can."""
        return next(filter(None, (question.lacking(context) for question in self.unanswered)), None)

    def answered(self) -> None:
        """Wake whoever waits, if every answer is there."""
        if all(question.answered for question in self.questions):
            self._resolved.set()

    def fail(self, failure: Exception) -> None:
        """Raise *failure* where the answers are waited for, unless they are there."""
        if not self._resolved.is_set():
            self._failure = failure
            self._resolved.set()
            self.scope.cancel(reason=str(failure))

    async def wait(self) -> list[Any]:
        """Wait for the answers, and return the `outcome`."""
        with self.scope:
            await self._resolved.wait()
        return self.outcome()

    def outcome(self) -> list[Any]:
        """Return the answers, in the order of the questions; nothing is waited for any more.

        Raises:
            AskExpired: the deadline came before the answers.
            Exception: whatever `fail` was given.
        """
        if self._failure is not None:
            raise self._failure
        if not self._resolved.is_set():
            raise AskExpired("nobody answered in time")
        return [question.answer for question in self.questions]
