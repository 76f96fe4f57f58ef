"""A request with all its attempts: a modern server that must know more first asks in its result, and is asked again.

Rules of this file:

1. A retry is a new request: its own id, progress token, `_meta` and clock. What it says is the business of `Rounds`.
2. What the attempts report comes out in order, as if they were one.
3. No task works on its own: whoever waits for an update or the result answers, in its own task.
4. A server that finds the arguments of a call mirrored wrongly has run nothing. The same is sent once more, when the
   tools have been listed anew.
5. What does no harm when it is done twice may be sent once more where its answer was lost. Anything else, and every
   retry, only if the caller says so: a server may have gone on with what it was answered.

Almost every request has one attempt, and ends with its result: that way is short, and what else a request needs is made
when it needs it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .. import types
from .._errors import ErrorResponse, LocalProtocolError, StructureError, TrioMcpError
from ..wire import HEADER_MISMATCH, JsonObject, NotJsonError, copy_json
from ._consent import Consent, consented
from ._rounds import Rounds
from ._timing import Attempt

if TYPE_CHECKING:
    from collections.abc import Generator

    from ._connection import Connection

__all__ = ["OpenRequest"]

_PLAIN = ("complete", None)
"""The types of almost every result: there is nothing more to do."""

_IDEMPOTENT = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    }
)
"""Requests that leave the same behind if they are made twice."""


@define(eq=False)
class OpenRequest:
    """One request with all its attempts: `begin` sends it, `leave` ends what is under way.

    Args:
        wants_updates: ask for progress.
        undeclared: ask even what the server has not declared.
        capabilities: what this request declares, in a modern revision; None for what the client does.
        is_manual: a result that asks for input is the outcome; by default this client's callbacks answer it.
        repeatable: every attempt may be sent once more where its answer was lost, whatever it does.
    """

    connection: Connection
    method: str
    params: JsonObject | None
    """What is asked; once it is sent, with what the consent hook has made of it."""
    wants_updates: bool = field(default=False, kw_only=True)
    undeclared: bool = field(default=False, kw_only=True)
    capabilities: JsonObject | None = field(default=None, kw_only=True)
    is_manual: bool = field(default=False, kw_only=True)
    repeatable: bool = field(default=False, kw_only=True)
    _current: Attempt = field(init=False)
    _sent: JsonObject | None = field(init=False)
    """The params of that attempt."""
    _renewals: int = field(init=False)
    """Of the list of tools, when it was sent."""
    _rounds: Rounds | None = field(init=False)
    """None until the server asks."""
    _is_corrected: bool = field(init=False)
    """Whether something was sent once more because it was mirrored wrongly."""
    _earlier: tuple[Attempt, ...] = field(init=False)
    """Attempts that are over, with updates that nobody has read."""
    _skipped: int = field(init=False)
    """Of the attempts that are left."""
    _is_going_on: bool = field(init=False)
    _failure: Exception | None = field(init=False)
    _completed: JsonObject | None = field(init=False)
    """What an extension has made of the result."""

    def __attrs_post_init__(self) -> None:
        # Here, because attrs takes three times as long to set what is no argument, and each call makes one of these.
        self._rounds = None
        self._is_corrected = False
        self._earlier = ()
        self._skipped = 0
        self._is_going_on = False
        self._failure = None
        self._completed = None

    def begin(self) -> Awaitable[None]:
        """Send the request; `leave` must follow. If it cannot be sent, it is over.

        Raises:
            RequestTimedOut: it could not be sent within the total limit.
            Exception: whatever `Connection.ask` raises, the consent hook, or the transport.
        """
        consent = self.connection.consent
        if consent is not None and self.method == "tools/call":
            return self._begin_with_consent(consent)
        return self._send(self.params)

    async def _begin_with_consent(self, consent: Consent) -> None:
        await self._get_consent(consent)
        await self._send(self.params)

    def leave(self) -> None:
        """End it; synchronous, and harmless when it has ended already."""
        for each in self._earlier:
            each.leave()
        self._current.leave()

    @property
    def has_rounds(self) -> bool:
        """Whether the server has asked."""
        return self._rounds is not None

    @property
    def skipped(self) -> int:
        """Updates that were dropped because too many waited."""
        return self._skipped + sum(each.asked.skipped for each in (*self._earlier, self._current))

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update of whichever attempt; None when the outcome has arrived."""
        while True:
            while self._earlier:
                update = await self._earlier[0].asked.next_update()
                if update is not None:
                    return update
                over, *others = self._earlier
                self._earlier = tuple(others)
                self._leave(over)
            update = await self._current.next_update()
            if update is not None:
                return update
            interim = await self._interim() if self.connection.is_modern else None
            if interim is None:
                return None
            await self._go_on(interim)

    async def _interim(self) -> JsonObject | ErrorResponse | None:
        """Return the latest outcome if it is none of the request: it asks for a round, or for a correction."""
        if self._failure is not None:
            return None
        try:
            outcome = await self._current.asked.result()  # it is there
        except ErrorResponse as error:
            return error if self._can_correct(error) else None
        except TrioMcpError:
            return None
        return outcome if self.is_interim(outcome) and not self.is_manual else None

    def _can_correct(self, error: ErrorResponse) -> bool:
        is_meant = error.code == HEADER_MISMATCH and self.method == "tools/call"
        return is_meant and not self._is_corrected and self.connection.mirrors_arguments

    async def result(self) -> JsonObject:
        """Wait for the result, which is a round only if the caller goes through them.

        Raises:
            RemoteProtocolError: what the server asks breaks the protocol, or goes beyond `Limits.max_rounds`.
            Exception: whatever a callback raises; the request is not sent again.
        """
        while True:
            if self._failure is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._failure
            try:
                outcome = await self._current.result()
            except ErrorResponse as error:
                if self._can_correct(error):
                    await self._go_on(error)
                    continue
                self.connection.answering.visits.required(error)
                raise
            if outcome.get("resultType") in _PLAIN:
                return outcome
            if not self.is_interim(outcome):
                return await self._complete(outcome)
            if self.is_manual:
                return outcome
            await self._go_on(outcome)

    async def _complete(self, outcome: JsonObject) -> JsonObject:
        """Return what a result of an extension's type stands for; any other as it is."""
        own = self.connection.own
        resolve = own.resolver(self.method, outcome.get("resultType")) if self.connection.is_modern else None
        if resolve is None:
            return outcome
        if self._completed is None:
            with self._alone():
                self._completed = await own.resolved(resolve, self.method, outcome)
        return self._completed

    def is_interim(self, outcome: JsonObject) -> bool:
        """Say whether the server has asked instead of answering."""
        if outcome.get("resultType") != "input_required" or not self.connection.is_modern:
            return False
        row = types.METHODS[self.connection.revision].get(self.method)
        return row is not None and types.InputRequiredResult in row.results  # of others it is an unknown type

    async def _get_consent(self, consent: Consent) -> None:
        self.connection.check(self.method, undeclared=self.undeclared)
        try:
            shown = copy_json(self.params)  # the caller's own may change while the hook thinks, and what it saw may not
            call = types.structure(shown, types.CallToolRequestParams)
        except NotJsonError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        except StructureError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} do not fit: {'; '.join(exc.faults)}") from exc
        self.params = types.unstructure(await consented(consent, call), revision=self.connection.revision)

    async def _send(self, params: JsonObject | None) -> None:
        """Make an attempt. If it cannot be sent, nothing has changed."""
        connection, renewals = self.connection, self.connection.tools.renewals
        asked = connection.ask(
            self.method,
            params,
            wants_updates=self.wants_updates,
            undeclared=self.undeclared,
            capabilities=self.capabilities,
        )
        asked.repeatable = self.repeatable or (self._rounds is None and self.method in _IDEMPOTENT)
        attempt = Attempt(connection.stopwatch, asked)
        await attempt.begin()
        self._current, self._sent, self._renewals = attempt, params, renewals

    async def _go_on(self, outcome: JsonObject | ErrorResponse) -> None:
        """Go through a round or a correction. If cancelled, nothing was sent; who waits next begins where it stood."""
        over = self._current
        with self._alone():
            try:
                if isinstance(outcome, ErrorResponse):
                    await self._correct()
                else:
                    await self._retry(outcome)
            except Exception as exc:
                self._failure = exc
                raise
        if over.asked.waiting:
            self._earlier = (*self._earlier, over)
        else:
            self._leave(over)

    async def _retry(self, outcome: JsonObject) -> None:
        if self._rounds is None:
            self._rounds = Rounds(self.connection, self.method, self.params)
        await self._send(await self._rounds.retry(outcome))
        self._rounds.sent()

    async def _correct(self) -> None:
        await self.connection.tools.renew(self._renewals)
        await self._send(self._sent)
        self._is_corrected = True

    @contextmanager
    def _alone(self) -> Generator[None]:
        if self._is_going_on:
            raise trio.BusyResourceError("another task is answering what the server asks")
        self._is_going_on = True
        try:
            yield
        finally:
            self._is_going_on = False

    def _leave(self, attempt: Attempt) -> None:
        attempt.leave()
        self._skipped += attempt.asked.skipped
