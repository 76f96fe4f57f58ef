"""Sends the questions of one handler to the client, and continues or repeats the handler when the answers arrive.

A legacy client receives each question as a request (`_legacy`). A modern client receives the questions as an interim
result of its own request, and retries the request with the answers and with a request state. In the meantime the
handler is either parked (it stays in memory, in the middle of the call) or replayed: the server forgets it, and runs it
again from the top when the retry arrives, in any process that has the key. A replayed handler gets the answers of
earlier rounds at once, and `Context.once` does not repeat work that is done.

A request state passes through the client, which the server does not trust. It is therefore encrypted and authenticated
with AES-256-GCM, and it holds its expiry, and the request and principal that it belongs to. Every state that cannot be
used gets the same error response; only the log names the cause.

Rules of this file:

1. A question is identified by its key or by its content, never by its position, because the tasks of one handler ask in
   any order.
2. A replaying server keeps nothing between the rounds, so a state is good for any number of retries until it expires.
   Side effects that must not be repeated belong into `Context.once`.
3. The answers that arrive with a state answer the questions that the state names, and no others. A request without a
   state may carry answers as well: to questions whose keys the client knows beforehand.
4. Retries with the same state and the same answers are one retry, which may be sent, or delivered, more than once. What
   `Context.once` does for a retry is done once, also if it comes twice at the same time: in this process, or in all
   processes of a service (`abc.SharedService.once`).

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
and https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#security-considerations
"""

from __future__ import annotations

import base64
import binascii
import hmac
import inspect
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import trio
from attrs import define, field

from ..._errors import AskExpired, LocalProtocolError, McpError
from ...abc import SharedService
from ...peer import GRACE_SECONDS, HandlerPool, HandlerRun, IncomingRequest, Limits, PendingQuestions, Question
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
    "DoneOnce",
    "PastRounds",
    "Seals",
    "binding_of",
    "interim_result",
    "pin",
    "resume",
]


@define(eq=False)
class PastRounds:
    """The answers that a handler has received, and the work it has done, in earlier rounds and in this one."""

    answers: dict[str, Any] = field(factory=dict[str, Any])
    """The client's answers, as received, by the key of the question."""
    offered: Mapping[str, Any] = field(factory=dict[str, Any])
    """Answers of the client to questions that the handler has not asked yet, by the key of the question."""
    done: dict[str, Any] = field(factory=dict[str, Any])
    """The results of `Context.once`, by its key."""
    kept: Any = None
    """The value that `interim_result` has kept for the next round."""
    state: str = ""
    """The request state of the retry that runs now; empty if it has none."""
    seconds: float = 0.0
    """The time for which such a state is valid."""

    @classmethod
    def of(cls, contents: JsonObject, given: Mapping[str, Any]) -> PastRounds:
        """Return the past that a state holds, with the answers that arrived with the state (rule 3)."""
        past = cls(contents["answers"], done=contents["done"], kept=contents.get("kept"))
        past.answers.update({key: given[key] for key in contents["asked"] if key in given})
        return past

    def contents(self, asked: Sequence[str]) -> JsonObject:
        """Return the contents of the state for the next round."""
        return {"answers": self.answers, "done": self.done, "asked": list(asked)}

    def answer(self, run: HandlerRun, questions: Sequence[Question]) -> bool:
        """Answer each of *questions* that has an answer; return True if none is left open.

        Raises:
            AskExpired: an answer is invalid. The client has received an error, and the handler is cancelled.
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
    run.stop("the client's answer is invalid")
    raise AskExpired("the client's answer is invalid")


# --- Request states ---

_log = logging.getLogger("trio_mcp.server")

_VERSION = b"\x01"
_PURPOSE = b"trio-mcp request state"
"""Separates these keys from all other uses of the same secret (the info of HKDF)."""
_SIGNATURE = b"trio-mcp signature\0"
"""Separates what is signed from all other uses of the same secret."""
_NONCE_BYTES = 12
_NOT_BOUND = frozenset({"_meta", "inputResponses", "requestState"})
"""The members of params that differ between attempts."""


class BadStateError(McpError):
    """The error response to every state that cannot be used, whatever the cause."""

    def __init__(self, method: str, cause: str) -> None:
        super().__init__(
            INVALID_PARAMS, "$.requestState: it is invalid or has expired; send the request again without it"
        )
        _log.warning("the request state of a retry of %r was refused: %s", method, cause)


def pin(exchange: IncomingRequest) -> bytes:
    """Return the JSON that a state is bound to: the request without the members of one attempt, and its principal.

    Call it before the handler receives the params, because the handler may change them.

    Raises:
        NotJsonError: the params are nested so deeply that they could be read, but cannot be written here.
    """
    params = {name: value for name, value in (exchange.params or {}).items() if name not in _NOT_BOUND}
    principal = exchange.context.principal
    who = [] if principal is None else [principal]  # `encode` is slow where there is a null
    return encode([exchange.method, params, who])


def binding_of(pinned: bytes) -> str:
    """Return the digest of the result of `pin`; members in another order give the same digest.

    Raises:
        NotJsonError, Undecodable: it is nested so deeply that it could be written, but cannot be read again here.
    """
    return digest(decode(pinned))


@define(eq=False)
class Seals:
    """The keys of a server, which seal request states and open them again.

    Args:
        keys: the first one seals, all of them open.
    """

    _keys: Sequence[bytes] = field(alias="keys", repr=False)
    _ciphers: list[AESGCM] = field(factory=list["AESGCM"], init=False)

    def seal(self, contents: JsonObject, binding: str, expires: float) -> str:
        """Return *contents* as a state.

        Args:
            binding: the `binding_of` the request.
            expires: the expiry, in the seconds of `time.time`; infinite if the state never expires.

        Raises:
            NotJsonError: *contents* hold a value that is not JSON.
        """
        until = None if math.isinf(expires) else expires
        plain = encode({"binding": binding, "expires": until, "contents": contents})
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _VERSION + nonce + self._made()[0].encrypt(nonce, plain, _VERSION)
        return base64.urlsafe_b64encode(sealed).decode()

    def open(self, state: str, exchange: IncomingRequest) -> JsonObject:
        """Return the contents of a state that came with *exchange*.

        Raises:
            BadStateError: this server did not make it, it belongs to another request or principal, or it has expired.
        """
        plain = self._decrypt(state)
        if plain is None:
            raise BadStateError(exchange.method, "it was not made with a key of this server, or was modified")
        try:
            belongs = plain["binding"] == binding_of(pin(exchange))
        except (NotJsonError, Undecodable):  # no state was ever made for such a request
            belongs = False
        if not belongs:
            raise BadStateError(exchange.method, "it belongs to another request or another principal")
        if plain["expires"] is not None and plain["expires"] <= time.time():
            raise BadStateError(exchange.method, "it has expired")
        contents: JsonObject = plain["contents"]
        return contents

    def signature(self, text: str) -> str:
        """Return 128 bits that nobody can make for *text* without a key of the server."""
        return _signature(self._keys[0], text)

    def has_signed(self, text: str, signature: str) -> bool:
        """Return True if *signature* was made for *text* with a key of the server."""
        given = signature.encode()
        return any(hmac.compare_digest(_signature(key, text).encode(), given) for key in self._keys)

    def replace_keys(self, keys: Sequence[bytes]) -> None:
        """Use other keys from now on."""
        self._keys, self._ciphers = keys, []

    def _decrypt(self, state: str) -> JsonObject | None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 # slow to import, and most servers never ask

        try:
            sealed = base64.b64decode(state.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        if sealed[:1] != _VERSION or base64.urlsafe_b64encode(sealed).decode() != state:  # one encoding for each state
            return None
        nonce, encrypted = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        for cipher in self._made():
            try:
                plain: Any = decode(cipher.decrypt(nonce, encrypted, _VERSION))
            except (InvalidTag, ValueError):  # ValueError: the nonce is too short
                continue
            return plain if is_object(plain) else None  # only a holder of the key can have made it
        return None

    def _made(self) -> Sequence[AESGCM]:
        if not self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 # as above
            from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

            self._ciphers = [AESGCM(HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(key)) for key in self._keys]
        return self._ciphers


def _signature(key: bytes, text: str) -> str:
    digest = hmac.digest(key, _SIGNATURE + text.encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


# --- Questions of a handler ---

AskingMode: TypeAlias = Literal["parked", "replayed"]
"""The state of a handler while a modern client finds the answers: kept in memory, or forgotten and run again."""

ASKABLE = frozenset({"prompts/get", "resources/read", "tools/call"})
"""The requests that a modern server may answer with questions."""
_KEY_LENGTH = 16
_MOST_SECONDS_OF_RESULTS = 86_400.0
"""The longest time for which the results of `Context.once` are known to the other processes of a service."""


class AskingServing(Protocol):
    """The part of a serving that questions need."""

    @property
    def asking(self) -> AskingMode:
        """The place where a handler waits for the answer of a modern client."""
        ...

    @property
    def home(self) -> Callable[[], str]:
        """Returns the name of this process in a service of several; empty if there are no others."""
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

    @property
    def shared(self) -> SharedService | None:
        """The memory that this process has in common with the others of its service; None if there are no others."""
        ...

    @property
    def doing_once(self) -> dict[str, DoneOnce]:
        """The functions of `ctx.once` that run now in replayed handlers, by their keys."""
        ...


@define(eq=False)
class DoneOnce:
    """The work of `Context.once` for a retry that may come several times at once in this process."""

    lock: trio.Lock = field(factory=trio.Lock, init=False)
    """Held by the task that does it."""
    users: int = field(default=0, init=False)
    """The number of tasks that do it, or wait for it."""
    result: bytes | None = field(default=None, init=False)
    """The JSON of its result; None while there is none."""


@define(eq=False)
class Asker:
    """The questions of one handler, and the work that it does only once."""

    _serving: AskingServing
    _run: HandlerRun
    _past: PastRounds
    _pinned: bytes
    """The JSON that the states of its request are bound to; see `pin`."""
    _count: dict[str, int] = field(factory=dict[str, int], init=False)
    """The number of times that each question was asked, by its key."""
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
        except AskExpired:  # the handler must clean up now, without waiting for its turn
            await trio.lowlevel.checkpoint()  # a handler that asks in a loop must not starve the others
            raise
        except Exception:
            await run.holds.take_again(run)
            raise
        await run.holds.take_again(run)
        return answers

    def _question(self, ask: Ask[Any]) -> Question:
        revision = self._run.context.revision
        request = copy_json({"method": ask.method, "params": ask.params(revision)})  # raises here if it is not JSON
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
            raise LocalProtocolError(f"a handler of {run.method!r} cannot ask questions of a client of this revision")
        if self._past.answer(run, questions):
            return [question.answer for question in questions]
        if run.exchange is not None and run.exchange.shows_questions:
            return await self._in_the_open(run.exchange, questions)
        if run.pending is None:
            parked = self._serving.asking == "parked"
            run.pending = run.pool.parking.waiting(run, self._parked) if parked else PendingQuestions(run, self._leave)
        return await run.pending.ask(questions)

    async def _in_the_open(self, exchange: IncomingRequest, questions: Sequence[Question]) -> list[Any]:
        """Show the questions to the peer of an exchange that stays open, and wait until all of them are answered."""
        run = self._run
        for question in questions:
            lacking = question.lacking(exchange.context)
            if lacking is not None:
                raise lacking
        with run.pool.parking.waiting_directly(run):
            run.share_slot()
            run.holds.give_back(run)
            try:
                return await self._shown(exchange, questions)
            except AskExpired:
                run.holds.shorten(run, GRACE_SECONDS)
                raise
            finally:
                run.holds.start_clock(run)
                exchange.questions_changed()

    async def _shown(self, exchange: IncomingRequest, questions: Sequence[Question]) -> list[Any]:
        parking = self._run.pool.parking
        with self._run.asking(questions) as asking:
            asking.scope.deadline = trio.current_time() + parking.seconds_for(exchange)
            parking.direct.add(asking)
            exchange.questions_changed()
            try:
                return await asking.wait()
            finally:
                parking.direct.discard(asking)

    def _parked(self, token: str, requests: Mapping[str, JsonObject]) -> JsonObject:
        """Return the interim result of a run that is being parked; its state begins with the name of this process."""
        home = self._serving.home()
        if not home:
            return self._interim({"token": token}, requests)
        result = self._interim({"token": token, "home": home}, requests)
        return {**result, "requestState": f"{home}.{result['requestState']}"}

    def _leave(self, waiting: PendingQuestions, requests: Mapping[str, JsonObject]) -> None:
        """Answer the request with the questions and end the run; the retry starts another run with the answers."""
        run = waiting.run
        assert run.exchange is not None
        if run.pool.parking.closed:
            run.fail_all(AskExpired("the server stops"))
            return
        run.exchange.respond(self._interim(self._past.contents(list(requests)), requests))
        run.stop("the client was asked; the handler runs again when the answers arrive")

    def _interim(self, contents: JsonObject, requests: Mapping[str, JsonObject]) -> JsonObject:
        exchange = self._run.exchange
        assert exchange is not None
        return _sealed(self._serving, exchange, contents, requests, self._pinned)

    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return the result of the first call of *function* for *key*."""
        await trio.lowlevel.checkpoint_if_cancelled()
        async with self._doing.setdefault(key, trio.Lock()):
            done = self._past.done
            if key not in done:
                done[key] = await self._do_once(key, function)
            return copy_json(done[key])

    async def _do_once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return the result of *function*, from another run of the same retry if there is one (rule 4)."""

        async def work() -> bytes:
            value = function()
            return encode(await value if inspect.isawaitable(value) else value)

        past, shared = self._past, self._serving.shared
        if not past.state:
            return decode(await work())
        # The state belongs to the request and the principal, and cannot be guessed.
        retry = digest([self._pinned.decode(), past.state, past.answers, key])
        if shared is None:
            return decode(await self._do_once_here(retry, work))
        return decode(await shared.once(retry, work, seconds=min(past.seconds, _MOST_SECONDS_OF_RESULTS)))

    async def _do_once_here(self, retry: str, work: Callable[[], Awaitable[bytes]]) -> bytes:
        doing = self._serving.doing_once
        done = doing.setdefault(retry, DoneOnce())
        done.users += 1
        try:
            async with done.lock:
                if done.result is None:
                    done.result = await work()
                return done.result
        finally:
            done.users -= 1
            if not done.users:
                del doing[retry]


def interim_result(
    serving: AskingServing, exchange: IncomingRequest, requests: Mapping[str, JsonObject], kept: Any
) -> JsonObject:
    """Return the result that asks a modern client questions which this server does not ask itself.

    The next round has the answers, and *kept*, in its `PastRounds`. Only a retry of the same request by the same
    principal has them.

    Args:
        serving: the serving of the server.
        exchange: the request that the result answers.
        requests: the JSON of each question, a method and params, by key.
        kept: JSON, which the client cannot read.
    """
    contents = PastRounds(kept=kept).contents(list(requests))
    return _sealed(serving, exchange, {**contents, "kept": kept}, requests, pin(exchange))


def _sealed(
    serving: AskingServing,
    exchange: IncomingRequest,
    contents: JsonObject,
    requests: Mapping[str, JsonObject],
    pinned: bytes,
) -> JsonObject:
    expires = time.time() + serving.pool.parking.seconds_for(exchange)
    return {
        "resultType": "input_required",
        "inputRequests": dict(requests),
        "requestState": serving.seals.seal(contents, binding_of(pinned), expires),
        "_meta": {SERVER_INFO_KEY: serving.info_json},
    }


def _without_ids(request: JsonObject) -> JsonObject:
    """Return the request without the id that is new each time the question is asked."""
    return {**request, "params": {name: each for name, each in request["params"].items() if name != "elicitationId"}}


def resume(
    serving: AskingServing, exchange: IncomingRequest, state: str | None, deadline: float = math.inf
) -> PastRounds | None:
    """Give a retry to its parked run and return None, or return the past with which a new run begins.

    Args:
        deadline: the deadline of the caller, on Trio's clock, for a run that continues.

    Raises:
        McpError: the state cannot be used, an answer is invalid, or the connection has too many requests.
    """
    given: Any = (exchange.params or {}).get("inputResponses")
    answers: Mapping[str, Any] = given if is_object(given) else {}
    if state is None:
        return PastRounds(offered=answers)
    home, _, sealed = state.rpartition(".")
    contents = serving.seals.open(sealed, exchange)
    if contents.get("home", "") != home:
        raise BadStateError(exchange.method, "the name of its process was modified")
    if "token" not in contents:
        past = PastRounds.of(contents, answers)
        past.state, past.seconds = sealed, serving.pool.parking.seconds_for(exchange)
        return past
    if serving.pool.parking.resume(contents["token"], exchange, answers, deadline):
        return None
    if home != serving.home():  # that process cannot be reached, or the request would be there
        raise McpError(
            INVALID_PARAMS,
            "$.requestState: the process in which the handler waited for the answers has ended; send the request again "
            "without it",
        )
    raise BadStateError(exchange.method, "its handler has continued, ended or expired, or is in another process")
