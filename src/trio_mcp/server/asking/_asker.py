"""How the questions of one handler reach the client, in the way of its revision and of the serving.

A legacy client is asked directly. A modern one gets its request answered with the questions, and asks again with the
answers; meanwhile the handler is parked, where it stands, or it begins anew.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import base64
import binascii
import inspect
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import trio
from attrs import define, field

from ..._errors import AskExpired, LocalProtocolError, McpError
from ...peer import HandlerPool, HandlerRun, IncomingRequest, Limits, PendingQuestions, Question
from ...wire import (
    INVALID_PARAMS,
    SERVER_INFO_KEY,
    JsonObject,
    NotJsonError,
    Undecodable,
    copy_json,
    decode,
    digest,
    encode,
    is_object,
)
from ._ask import Ask
from ._legacy import ask_directly

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = [
    "ASKABLE",
    "Asker",
    "AskingMode",
    "AskingServing",
    "BadStateError",
    "PastRounds",
    "Seals",
    "binding_of",
    "pin",
    "resume",
]


# Asking without keeping anything: the answers so far travel with the client, and the handler begins anew.
#
# A state that comes back holds what the handler was told and what it has done. It runs again from the top, in whatever
# process the retry reaches: what was answered returns at once, what `Context.once` completed is not done again.
#
# Rules of this file:
#
# 1. A question is known by its key or by what it says, never by its position, because tasks of one handler ask in any
#    order.
# 2. Nothing is remembered here, so a state is good for any number of retries until it expires: side effects that must
#    not be repeated belong into `Context.once`, which holds for retries that come one after the other.
# 3. What comes with a state is taken for answers to the questions that the state names, and to no others. A request
#    without a state may bring answers as well: to questions whose keys the client knows beforehand.


@define(eq=False)
class PastRounds:
    """What a handler was told and has done in earlier rounds, and in this one."""

    answers: dict[str, Any] = field(factory=dict[str, Any])
    """The client's answers, as they came, by the key of the question."""
    offered: Mapping[str, Any] = field(factory=dict[str, Any])
    """What the client has answered without having been asked yet, by the key of the question."""
    done: dict[str, Any] = field(factory=dict[str, Any])
    """What `Context.once` returned, by its key."""

    @classmethod
    def of(cls, contents: JsonObject, given: Mapping[str, Any]) -> PastRounds:
        """Return the past that a state holds, and the answers that came with it (rule 3)."""
        past = cls(contents["answers"], done=contents["done"])
        past.answers.update({key: given[key] for key in contents["asked"] if key in given})
        return past

    def contents(self, asked: Sequence[str]) -> JsonObject:
        """Return what the state of the next round holds."""
        return {"answers": self.answers, "done": self.done, "asked": list(asked)}

    def answer(self, run: HandlerRun, questions: Sequence[Question]) -> bool:
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


def _refuse(run: HandlerRun, error: McpError) -> None:
    exchange: IncomingRequest | None = run.exchange
    if exchange is not None:
        exchange.respond(error)
    run.stop("the client's answer is none")
    raise AskExpired("the client's answer is none")


# Request states: what a server wants to know again at the retry, sealed so that only it can read or make one.
#
# A state crosses the client's hands, which are anybody's: it is encrypted and authenticated with AES-256-GCM, says
# itself
# until when it holds and for which request and principal, and whatever is wrong with one, the answer is the same. The
# log knows the cause.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#security-considerations

_log = logging.getLogger("trio_mcp.server")

_VERSION = b"\x01"
_PURPOSE = b"trio-mcp request state"
"""Keeps what is sealed here apart from whatever else is made with the same key."""
_NONCE_BYTES = 12
_NOT_BOUND = frozenset({"_meta", "inputResponses", "requestState"})
"""The members of params that differ from one attempt to the next."""


class BadStateError(McpError):
    """The one answer to every state that cannot be used."""

    def __init__(self, method: str, cause: str) -> None:
        super().__init__(
            INVALID_PARAMS, "$.requestState: it cannot be used, or not any more; send the request anew without it"
        )
        _log.warning("the state of a retry of %r was refused: %s", method, cause)


def pin(exchange: IncomingRequest) -> bytes:
    """Return what a state is bound to, in JSON: the request without what belongs to one attempt, and who makes it.

    Call it before a handler is given the params, which it may change.

    Raises:
        NotJsonError: the params are nested so deep that they could just be read, but not be written here.
    """
    params = {name: value for name, value in (exchange.params or {}).items() if name not in _NOT_BOUND}
    principal = exchange.context.principal
    who = [] if principal is None else [principal]  # `encode` is slow where there is a null
    return encode([exchange.method, params, who])


def binding_of(pinned: bytes) -> str:
    """Return the short form of what `pin` returned, the same for the same values in any order.

    Raises:
        NotJsonError, Undecodable: it is nested so deep that it could just be written, but not once more here.
    """
    return digest(decode(pinned))


@define(eq=False)
class Seals:
    """Seals states, and opens them again.

    Args:
        keys: the first one seals, all of them open.
    """

    _keys: Sequence[bytes] = field(alias="keys", repr=False)
    _ciphers: list[AESGCM] = field(factory=list["AESGCM"], init=False)

    def seal(self, contents: JsonObject, binding: str, expires: float) -> str:
        """Return *contents* as a state.

        Args:
            binding: what `binding_of` makes of the request.
            expires: until when it can be opened, as `time.time` counts; infinite for as long as the key is known.

        Raises:
            NotJsonError: *contents* hold something that JSON cannot say.
        """
        until = None if math.isinf(expires) else expires
        plain = encode({"binding": binding, "expires": until, "contents": contents})
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _VERSION + nonce + self._made()[0].encrypt(nonce, plain, _VERSION)
        return base64.urlsafe_b64encode(sealed).decode()

    def open(self, state: str, exchange: IncomingRequest) -> JsonObject:
        """Return the contents of a state that came with *exchange*.

        Raises:
            BadStateError: it is none of this server's, of another request or of another principal, or has expired.
        """
        plain = self._decrypt(state)
        if plain is None:
            raise BadStateError(exchange.method, "it was not made with a key of this server, or was changed")
        try:
            belongs = plain["binding"] == binding_of(pin(exchange))
        except (NotJsonError, Undecodable):  # then nothing was asked for this request
            belongs = False
        if not belongs:
            raise BadStateError(exchange.method, "it belongs to another request, or to somebody else")
        if plain["expires"] is not None and plain["expires"] <= time.time():
            raise BadStateError(exchange.method, "it has expired")
        contents: JsonObject = plain["contents"]
        return contents

    def _decrypt(self, state: str) -> JsonObject | None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 # heavy, and most servers never ask

        try:
            sealed = base64.b64decode(state.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        if sealed[:1] != _VERSION or base64.urlsafe_b64encode(sealed).decode() != state:  # one text for each state
            return None
        nonce, encrypted = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        for cipher in self._made():
            try:
                plain: Any = decode(cipher.decrypt(nonce, encrypted, _VERSION))
            except (InvalidTag, ValueError):  # ValueError: the nonce is cut short
                continue
            return plain if is_object(plain) else None  # only this server can have made it
        return None

    def _made(self) -> Sequence[AESGCM]:
        if not self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 # likewise
            from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

            self._ciphers = [AESGCM(HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(key)) for key in self._keys]
        return self._ciphers


AskingMode: TypeAlias = Literal["parked", "replayed"]

ASKABLE = frozenset({"prompts/get", "resources/read", "tools/call"})
"""What a modern server may answer with questions."""
_KEY_LENGTH = 16


class AskingServing(Protocol):
    """The part of a serving that questions need."""

    @property
    def asking(self) -> AskingMode:
        """The place where a handler waits for the answer of a modern client."""
        ...

    @property
    def info_json(self) -> JsonObject:
        """The name of the server, in the shape of `types.Implementation`."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        ...

    @property
    def pool(self) -> HandlerPool:
        """The pool in which the handlers run."""
        ...

    @property
    def seals(self) -> Seals:
        """The keys that seal and open the states of questions."""
        ...


@define(eq=False)
class Asker:
    """Asks for one handler."""

    _serving: AskingServing
    _run: HandlerRun
    _past: PastRounds
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
            run.pool.parking.check_open()
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
            run.waiting = run.pool.parking.waiting(run, self._parked) if parked else PendingQuestions(run, self._leave)
        return await run.waiting.ask(questions)

    def _parked(self, token: str, requests: Mapping[str, JsonObject]) -> JsonObject:
        """Return the interim result of a run that is being parked."""
        return self._interim({"token": token}, requests)

    def _leave(self, waiting: PendingQuestions, requests: Mapping[str, JsonObject]) -> None:
        """Answer with the questions, and end the run: another one will know more."""
        run = waiting.run
        assert run.exchange is not None
        if run.pool.parking.closing:
            run.fail_all(AskExpired("the server stops"))
            return
        run.exchange.respond(self._interim(self._past.contents(list(requests)), requests))
        run.stop("the client was asked; the handler begins anew with the answers")

    def _interim(self, contents: JsonObject, requests: Mapping[str, JsonObject]) -> JsonObject:
        serving = self._serving
        expires = time.time() + serving.limits.ask_seconds
        return {
            "resultType": "input_required",
            "inputRequests": dict(requests),
            "requestState": serving.seals.seal(contents, binding_of(self._pinned), expires),
            "_meta": {SERVER_INFO_KEY: serving.info_json},
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


def resume(serving: AskingServing, exchange: IncomingRequest, state: str | None) -> PastRounds | None:
    """Take a request: give a retry to its parked run, or return the past with which a handler begins, if it has one.

    Raises:
        McpError: the state cannot be used, an answer is none, or the connection has too much to do.
    """
    given: Any = (exchange.params or {}).get("inputResponses")
    answers: Mapping[str, Any] = given if is_object(given) else {}
    if state is None:
        return PastRounds(offered=answers)
    contents = serving.seals.open(state, exchange)
    if "token" not in contents:
        return PastRounds.of(contents, answers)
    if not serving.pool.parking.resume(contents["token"], exchange, answers):
        raise BadStateError(exchange.method, "its handler has gone on, ended or expired, or was in another process")
    return None
