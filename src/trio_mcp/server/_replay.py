"""Asking without keeping anything: the answers so far travel with the client, and the handler begins anew.

A state that comes back holds what the handler was told and what it has done. It runs again from the top, in whatever
process the retry reaches: what was answered returns at once, what `Context.once` completed is not done again.

Rules of this file:

1. A question is known by its key or by what it says, never by its position, because tasks of one handler ask in any
   order.
2. Nothing is remembered here, so a state is good for any number of retries until it expires: side effects that must
   not be repeated belong into `Context.once`, which holds for retries that come one after the other.
3. What comes with a state is taken for answers to the questions that the state names, and to no others. A request
   without a state may bring answers as well: to questions whose keys the client knows beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from .._errors import AskExpired, McpError
from ..peer import Exchange, Question, Run
from ..wire import JsonObject, copy_json

__all__ = ["Past"]


@define(eq=False)
class Past:
    """What a handler was told and has done in earlier rounds, and in this one."""

    answers: dict[str, Any] = field(factory=dict[str, Any])
    """The client's answers, as they came, by the key of the question."""
    offered: Mapping[str, Any] = field(factory=dict[str, Any])
    """What the client has answered without having been asked yet, by the key of the question."""
    done: dict[str, Any] = field(factory=dict[str, Any])
    """What `Context.once` returned, by its key."""

    @classmethod
    def of(cls, contents: JsonObject, given: Mapping[str, Any]) -> Past:
        """Return the past that a state holds, and the answers that came with it (rule 3)."""
        past = cls(contents["answers"], done=contents["done"])
        past.answers.update({key: given[key] for key in contents["asked"] if key in given})
        return past

    def contents(self, asked: Sequence[str]) -> JsonObject:
        """Return what the state of the next round holds."""
        return {"answers": self.answers, "done": self.done, "asked": list(asked)}

    def answer(self, run: Run, questions: Sequence[Question]) -> bool:
        """Answer those of *questions* whose answers are there; tell whether these are all.

        Raises:
            AskExpired: an answer is none. The client has been told so, and the handler is cancelled.
        """
        for question in questions:
            if question.key in self.offered:
                self.answers.setdefault(question.key, self.offered[question.key])
            if question.key in self.answers:
                try:
                    question.answer = question.read(copy_json(self.answers[question.key]))
                except McpError as error:
                    _refuse(run, error)
        return all(question.answered for question in questions)


def _refuse(run: Run, error: McpError) -> None:
    exchange: Exchange | None = run.exchange
    if exchange is not None:
        exchange.respond(error)
    run.stop("the client's answer is none")
    raise AskExpired("the client's answer is none")
