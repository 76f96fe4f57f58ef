"""How the questions of one handler reach the client, in the way of its revision and of the serving.

A legacy client is asked directly. A modern one gets its request answered with the questions, and asks again with the
answers; meanwhile the handler is parked, where it stands, or it begins anew.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import trio
from attrs import define, field

from .._errors import AskExpired, LocalProtocolError
from ..peer import Exchange, Question, Run, Waiting
from ..wire import SERVER_INFO_KEY, JsonObject, copy_json, digest, is_object
from ._ask import Ask
from ._replay import Past
from ._sealing import BadStateError, binding_of
from ._session_asking import ask_directly

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["ASKABLE", "Asker", "AskingMode", "resume"]

AskingMode: TypeAlias = Literal["parked", "replayed"]

ASKABLE = frozenset({"prompts/get", "resources/read", "tools/call"})
"""What a modern server may answer with questions."""
_KEY_LENGTH = 16


@define(eq=False)
class Asker:
    """Asks for one handler."""

    _serving: Serving
    _run: Run
    _past: Past
    _pinned: bytes
    """What the states of its request are bound to."""
    _count: dict[str, int] = field(factory=dict[str, int], init=False)
    """How often each question was asked."""
    _doing: dict[str, trio.Lock] = field(factory=dict[str, trio.Lock], init=False)

    async def ask(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Return the answers to *asks*, in their order."""
        await trio.lowlevel.checkpoint_if_cancelled()
        run = self._run
        questions = [self._question(ask) for ask in asks]
        try:
            run.hall.parking.check_open()
            answers = await (
                self._in_an_interim_result(questions) if run.context.modern else ask_directly(run, questions)
            )
        except AskExpired:  # now it has to clean up, and must not wait for others
            await trio.lowlevel.checkpoint()  # nor may they wait for it: it may ask again and again
            raise
        except Exception:
            await run.holds.take_again(run.scope)
            raise
        await run.holds.take_again(run.scope)
        return answers

    def _question(self, ask: Ask[Any]) -> Question:
        revision = self._run.context.revision
        request = copy_json({"method": ask.method, "params": ask.params(revision)})  # refused here, if it is no JSON
        key = digest(_without_ids(request))[:_KEY_LENGTH] if ask.key is None else ask.key
        return Question(
            key=self._unique(key),
            request=request,
            read=lambda answer: ask.read(answer, revision),
            lacking=ask.lacking,
        )

    def _unique(self, key: str) -> str:
        self._count[key] = count = self._count.get(key, 0) + 1
        return key if count == 1 else self._unique(f"{key}-{count}")

    async def _in_an_interim_result(self, questions: Sequence[Question]) -> list[Any]:
        run = self._run
        if run.method not in ASKABLE:
            raise LocalProtocolError(f"a handler of {run.method!r} cannot ask anything of a client of this revision")
        if self._past.answer(run, questions):
            return [question.answer for question in questions]
        if run.waiting is None:
            parked = self._serving.asking == "parked"
            run.waiting = run.hall.parking.waiting(run, self._parked) if parked else Waiting(run, self._leave)
        return await run.waiting.ask(questions)

    def _parked(self, token: str, requests: Mapping[str, JsonObject]) -> JsonObject:
        """Return the interim result of a run that is being parked."""
        return self._interim({"token": token}, requests)

    def _leave(self, waiting: Waiting, requests: Mapping[str, JsonObject]) -> None:
        """Answer with the questions, and end the run: another one will know more."""
        run = waiting.run
        assert run.exchange is not None
        if run.hall.parking.closing:
            run.fail_all(AskExpired("the server stops"))
            return
        run.exchange.respond(self._interim(self._past.contents(list(requests)), requests))
        run.stop("the client was asked; the handler begins anew with the answers")

    def _interim(self, contents: JsonObject, requests: Mapping[str, JsonObject]) -> JsonObject:
        server = self._serving.server
        expires = time.time() + server.limits.ask_seconds
        return {
            "resultType": "input_required",
            "inputRequests": dict(requests),
            "requestState": server.seals.seal(contents, binding_of(self._pinned), expires),
            "_meta": {SERVER_INFO_KEY: server.info_json},
        }

    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return what *function* returned when it was called for *key* first."""
        await trio.lowlevel.checkpoint_if_cancelled()
        async with self._doing.setdefault(key, trio.Lock()):
            done = self._past.done
            if key not in done:
                value = function()
                done[key] = copy_json(await value if inspect.isawaitable(value) else value)
            return copy_json(done[key])


def _without_ids(request: JsonObject) -> JsonObject:
    """Leave out what is made anew whenever the question is asked."""
    return {**request, "params": {name: each for name, each in request["params"].items() if name != "elicitationId"}}


def resume(serving: Serving, exchange: Exchange, state: str | None) -> Past | None:
    """Take a request: give a retry to its parked run, or return the past with which a handler begins, if it has one.

    Raises:
        McpError: the state cannot be used, an answer is none, or the connection has too much to do.
    """
    given: Any = (exchange.params or {}).get("inputResponses")
    answers: Mapping[str, Any] = given if is_object(given) else {}
    if state is None:
        return Past(offered=answers)
    contents = serving.server.seals.open(state, exchange)
    if "token" not in contents:
        return Past.of(contents, answers)
    if not serving.hall.parking.resume(contents["token"], exchange, answers):
        raise BadStateError(exchange.method, "its handler has gone on, ended or expired, or was in another process")
    return None
