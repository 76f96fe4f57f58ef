"""Sends the questions of a handler to a legacy client: each is a request of the server, inside of the client's request.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import trio

from ..._errors import AskExpired, McpError, MissingCapability, RemoteProtocolError
from ..._tracing import client_span
from ..._util import run_all
from ...peer import GRACE_SECONDS, HandlerRun, IncomingRequest, OutgoingRequest, Question
from ...wire import JsonObject

__all__ = ["ask_directly"]

_log = logging.getLogger("trio_mcp.server")


async def ask_directly(run: HandlerRun, questions: Sequence[Question]) -> list[Any]:
    """Send all questions to the client at the same time, and return the answers.

    Raises:
        MissingCapability: the client does not support one of them; none was sent.
        AskExpired: an answer did not arrive in time, the question gave way to those of other clients, or the server
            stops. The handler then has `GRACE_SECONDS`.
        TooManyParked: too many handlers wait for answers.
        ErrorResponse: the client answered one with an error.
        RemoteProtocolError: an answer is invalid.
        ConnectionLost: the connection to the client is closed.
    """
    exchange = run.exchange
    if exchange is None:  # answered or cancelled: only a thread or task that outlived the call gets here
        raise AskExpired("the call is over")
    if not exchange.peer.admission.operating:
        raise MissingCapability("the client cannot be asked before its initialized notification", {})
    for question in questions:
        lacking = question.lacking(run.context)
        if lacking is not None:
            raise lacking
    with run.pool.parking.waiting_directly(run):
        run.share_slot()
        run.holds.give_back(run)
        try:
            return await _all_answers(run, exchange, questions)
        except AskExpired:
            run.holds.shorten(run, GRACE_SECONDS)
            raise
        finally:
            run.holds.start_clock(run)


async def _all_answers(run: HandlerRun, exchange: IncomingRequest, questions: Sequence[Question]) -> list[Any]:
    if len(questions) == 1:
        return [await _answer(run, exchange, questions[0])]
    answers: list[Any] = [None] * len(questions)

    async def ask(index: int) -> None:
        answers[index] = await _answer(run, exchange, questions[index])

    await run_all([partial(ask, index) for index in range(len(questions))], log=_log)
    return answers


async def _answer(run: HandlerRun, exchange: IncomingRequest, question: Question) -> Any:
    parking = run.pool.parking
    with run.asking([question]) as asking:
        asking.scope.deadline = trio.current_time() + parking.seconds_for(exchange)
        parking.direct.add(asking)
        try:
            with asking.scope:
                async with _asked(exchange, question.request) as asked:
                    question.answer = _read(question, await asked.result())
                asking.answered()
        finally:
            parking.direct.discard(asking)
        return asking.outcome()[0]


def _asked(exchange: IncomingRequest, request: JsonObject) -> OutgoingRequest:
    method, params = request["method"], request["params"]
    span = client_span(method, params, exchange.context.revision)
    asked = exchange.ask(method, params if span is None else span.inject(params))
    asked.span = span
    return asked


def _read(question: Question, answer: Any) -> Any:
    try:
        return question.read(answer)
    except McpError as exc:
        raise RemoteProtocolError(f"the client's answer to {question.request['method']!r}: {exc.message}") from None
