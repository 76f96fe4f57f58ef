"""What a modern server asks about a request, round after round, and what the retries say that answer it.

Rules of this file:

1. All questions of a round are answered before the request is sent again. Nothing is sent again where one fails.
2. A retry has the params of the first request and, of the latest round alone, the answers and the state, exactly as it
   came.
3. There is a bound on rounds. A server that asks nothing is given time, longer each time.
4. Who is cancelled has lost nothing: whoever goes on begins where the round stood.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from .. import types
from .._errors import McpError, RemoteProtocolError, StructureError
from .._util import run_all
from ..wire import JsonObject

if TYPE_CHECKING:
    from ._connection import Connection

__all__ = ["ANSWERS", "STATE", "Rounds", "read_interim"]

ANSWERS, STATE = "inputResponses", "requestState"

FIRST_PAUSE = 0.1
"""Seconds before a request is sent again to a server that asks nothing; doubled each time, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 5.0

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class Rounds:
    """The rounds of one request, which one task at a time goes through."""

    _connection: Connection
    _method: str
    _params: JsonObject | None
    """Of the first request."""
    _count: int = field(default=0, init=False)
    _pauses: int = field(default=0, init=False)
    """How often in a row the server has asked nothing."""
    _paused_until: float | None = field(default=None, init=False)
    """While it has, when to send the request again, on Trio's clock."""
    _is_counted: bool = field(default=False, init=False)
    """Whether a task goes through a round, or did when it was cancelled."""
    _retry: JsonObject | None = field(default=None, init=False)
    """The params of a retry that is ready and not sent."""

    async def retry(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry that answers a round, when all it needs is there; `sent` is to follow.

        Raises:
            RemoteProtocolError: what the server asks breaks the protocol, or goes beyond `Limits.max_rounds`.
            ConnectionLost: the connection is gone.
            Exception: whatever a callback raises.
        """
        if not self._is_counted:
            self._is_counted = True
            self._count += 1
        if self._retry is None:
            with self._connection.while_it_lasts():
                self._retry = await self._prepared(outcome)
        return self._retry

    def sent(self) -> None:
        """The retry is sent: the next round is another one."""
        self._is_counted, self._retry, self._paused_until = False, None, None

    async def _prepared(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry, when all it needs is there."""
        interim = read_interim(outcome, self._method, self._connection.revision)
        limit = self._connection.limits.max_rounds
        if self._count > limit:
            raise RemoteProtocolError(f"{self._method!r}: the server has asked {limit} times (Limits.max_rounds)")
        retry = {name: value for name, value in (self._params or {}).items() if name not in {ANSWERS, STATE}}
        if interim.input_requests is not None:
            self._check(interim.input_requests)
            retry[ANSWERS] = await self._answers(interim.input_requests)
        await self._pause(is_needed=not interim.input_requests)
        if interim.request_state is not None:
            retry[STATE] = interim.request_state
        return retry

    def _check(self, questions: Mapping[str, types.InputRequest]) -> None:
        replies = self._connection.answering.replies
        for key, question in questions.items():
            try:
                replies.check(question.method, question.params)
            except McpError as refusal:
                said = f"{self._method!r} asks {key!r}, which cannot be answered: {refusal.message}"
                raise RemoteProtocolError(said) from None

    async def _answers(self, questions: Mapping[str, types.InputRequest]) -> JsonObject:
        """Ask the application all at once. The first failure takes the other questions back, and is raised bare."""
        answers: dict[str, Any] = dict.fromkeys(questions)

        async def answer(key: str) -> None:
            answers[key] = await self._answer(questions[key])

        jobs = [partial(answer, key) for key in questions]
        await run_all(jobs, at_once=self._connection.limits.max_in_flight, log=_log)
        return answers

    async def _answer(self, question: types.InputRequest) -> JsonObject:
        replies = self._connection.answering.replies
        return replies.settle(question.params, await replies.ask(question.params), self._connection.revision)

    async def _pause(self, *, is_needed: bool) -> None:
        if not is_needed:
            self._pauses = 0
            return
        until = self._paused_until
        if until is None:
            longest = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE)
            self._pauses += 1
            pause = longest * random.uniform(0.5, 1)  # noqa: S311 # keeps clients apart; no secret
            until = self._paused_until = trio.current_time() + pause
        await trio.sleep_until(until)


def read_interim(outcome: JsonObject, method: str, revision: str) -> types.InputRequiredResult:
    """Return the round in a result.

    Raises:
        RemoteProtocolError: it is none.
    """
    try:
        interim = types.structure(outcome, types.InputRequiredResult, revision=revision)
    except StructureError as exc:
        raise RemoteProtocolError(f"what {method!r} asks does not fit: {'; '.join(exc.faults)}") from exc
    if interim.input_requests is None and interim.request_state is None:
        raise RemoteProtocolError(f"{method!r} asks for input, with neither 'inputRequests' nor 'requestState'")
    return interim
