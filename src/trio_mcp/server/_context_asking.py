"""The part of a handler's context that asks: the user, the client's model, its roots, in the middle of a call.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

import trio

from .. import types
from ..peer import Run
from ._ask import Ask
from ._asking import Asker
from ._questions import Accepted, Declined, Dismissed, Elicit, Visit, url_elicitation_required
from ._questions_to_client import ListRoots, Sample

__all__ = ["AskingContext"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class AskingContext(abc.ABC):
    """What `Context` asks with.

    Every question works the same in all revisions. The handler waits where it asks; a client of 2025-11-25 and before
    is sent a request, one of 2026-07-28 gets its call answered with the question, and calls again with the answer.
    Meanwhile the handler is parked and goes on where it stood, exactly once; or, with ``Server(asking="replayed")``, it
    is ended, and runs again from its first line, where questions that were answered return at once.

    While a person is asked, `timeout=` of the tool stands still, and its place under `max_concurrency=` is free;
    deadlines that the handler sets itself run on. Where one of these ends the question, the handler goes on without
    that place. A plain `def` handler asks with ``trio.from_thread.run(ctx.elicit, ...)``; it keeps its thread, and an
    autojump clock of a test standing still.

    Every question may raise `MissingCapability` (the client, or its revision, cannot be asked this; nothing was),
    `AskExpired` (nobody answered within `Limits.ask_seconds`, or the server stops), `TooManyParked`, `ErrorResponse`
    and `RemoteProtocolError` (the client refused, or its answer is none), and `ConnectionLost`.
    """

    __slots__ = ()

    _run: Run

    @property
    @abc.abstractmethod
    def _asker(self) -> Asker:
        """What asks for this handler."""

    @overload
    async def elicit(
        self, message: str, form: type[T], *, key: str | None = None
    ) -> Accepted[T] | Declined | Dismissed: ...
    @overload
    async def elicit(
        self, message: str, form: Mapping[str, Any], *, key: str | None = None
    ) -> Accepted[dict[str, Any]] | Declined | Dismissed: ...
    @overload
    async def elicit(
        self, message: str, *, url: str, elicitation_id: str | None = None, key: str | None = None
    ) -> Accepted[None] | Declined | Dismissed: ...
    async def elicit(
        self,
        message: str,
        form: Any = None,
        *,
        url: str | None = None,
        elicitation_id: str | None = None,
        key: str | None = None,
    ) -> Any:
        """Ask the user: to fill in a form, or to visit a page.

        Ask for nothing secret in a form: what a client must not see belongs on a page of yours. Whoever opens that
        page may be somebody else, so verify there who it is; and the address itself must let nobody in.

        Args:
            message: what the user is told.
            form: the fields, as an attrs class, dataclass or TypedDict of texts, numbers, booleans and choices; or a
                JSON Schema of such a form.
            url: the page, instead of a form; revisions from 2025-11-25 on.
            elicitation_id: what to call the visit in 2025-11-25; see `elicitation_complete`.
            key: what a client of 2026-07-28, and a handler that is replayed, know the question by. By default that is
                made of what the question says; two that say the same are told apart by their order. A client that knows
                a key may send the answer with its call, and then is not asked.

        Returns:
            `Accepted` with an instance of the class as `value` (a dict for a JSON Schema, None for a page), `Declined`
            or `Dismissed`.

        Raises:
            TypeError: *form* cannot be a form; the text names the member.
            ValueError: *url* is no address of a page.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
        """
        if (form is None) == (url is None):
            raise TypeError("elicit(): either a form or url=, and not both")
        if url is None:
            return await self._ask(Elicit(message, form, key=key))
        if elicitation_id is None:
            return await self._ask(Visit(message, url, key=key))
        return await self._ask(Visit(message, url, key=key, elicitation_id=elicitation_id))

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the user has done on the page what was to be done there.

        Only 2025-11-25 has such a notice; in other revisions nothing is sent. It goes to the client of this call alone,
        and may be sent after the call.

        Raises:
            ConnectionLost: the client is gone.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if "notifications/elicitation/complete" in types.METHODS[self._run.context.revision]:
            peer = self._run.peer
            await peer.room()
            peer.tell("notifications/elicitation/complete", {"elicitationId": elicitation_id})

    def url_elicitation_required(self, *visits: Visit) -> Exception:
        """Return the error that says: the user must visit these pages, then call again. Raise it.

        For clients of 2025-11-25 that can open pages; for all others it is `MissingCapability`. A handler that can wait
        uses `elicit` instead, which works in more revisions.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
        """
        for visit in visits:
            lacking = visit.lacking(self._run.context)
            if lacking is not None:
                return lacking
        if not visits:
            raise TypeError("url_elicitation_required(): at least one visit")
        return url_elicitation_required(visits, self._run.context.revision)

    async def sample(
        self,
        messages: str | types.SamplingMessage | Sequence[types.SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: types.ModelPreferences | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[types.Tool] | None = None,
        tool_choice: types.ToolChoice | None = None,
        key: str | None = None,
    ) -> types.CreateMessageResult:
        """Ask the client's model.

        Args:
            messages: the conversation; a text stands for one message of the user's.
            max_tokens: how much the model may write, in its tokens.
            system_prompt: what the model is told first; the client may change it.
            temperature: as the model's maker defines it.
            stop_sequences: texts at which the model stops.
            model_preferences: which model, as hints.
            metadata: for the model's maker.
            tools: what the model may use; clients from 2025-11-25 on that have declared it.
            tool_choice: whether it must.
            key: see `elicit`.

        Raises:
            ValueError: *messages* use tools in a way that no client accepts.
            StructureError: the client's revision cannot carry a message.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
        """
        return await self._ask(
            Sample(
                messages,
                max_tokens=max_tokens,
                system_prompt=system_prompt,
                temperature=temperature,
                stop_sequences=stop_sequences,
                model_preferences=model_preferences,
                metadata=metadata,
                tools=tools,
                tool_choice=tool_choice,
                key=key,
            )
        )

    async def list_roots(self, *, key: str | None = None) -> Sequence[types.Root]:
        """Ask which folders and files the client is about. They are advice, and enforce nothing; any may be gone.

        Args:
            key: see `elicit`.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/roots
        """
        return await self._ask(ListRoots(key=key))

    @overload
    async def ask_all(self, first: Ask[A], second: Ask[B], /) -> tuple[A, B]: ...
    @overload
    async def ask_all(self, first: Ask[A], second: Ask[B], third: Ask[C], /) -> tuple[A, B, C]: ...
    @overload
    async def ask_all(self, first: Ask[A], second: Ask[B], third: Ask[C], fourth: Ask[D], /) -> tuple[A, B, C, D]: ...
    @overload
    async def ask_all(self, *asks: Ask[Any]) -> tuple[Any, ...]: ...
    async def ask_all(self, *asks: Ask[Any]) -> tuple[Any, ...]:
        """Ask several things at once, in one round: `Elicit`, `Visit`, `Sample`, `ListRoots`.

        If one of them cannot be asked, none is.

        Returns:
            The answers, in the order of the questions.
        """
        if not asks:
            raise TypeError("ask_all(): nothing to ask")
        return tuple(await self._asker.ask(asks))

    @overload
    async def once(self, key: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T]) -> T: ...
    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Do something that must not be done again when the handler is replayed, and return what it returned.

        What it returns must be JSON, and what comes back is a copy. A handler that is parked runs once anyway; one
        that is replayed skips what an earlier round has completed. It is done at least once, not exactly once:
        a client that sends the same retry twice, at the same time, makes two handlers do it; so does a server that
        fails between doing it and answering. What is under way when another task of a replayed handler asks is
        cancelled, and done anew in the next round: do it before you ask, not beside it.

        Args:
            key: names it among the things this handler does once.
            function: called without arguments; may be async.

        Raises:
            NotJsonError: what it returned is no JSON value.
            Exception: whatever *function* raises; then it is not done, and tried again the next time.
        """
        return await self._asker.once(key, function)

    async def _ask(self, ask: Ask[A]) -> A:
        return cast("A", (await self._asker.ask([ask]))[0])
