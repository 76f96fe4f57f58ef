"""What an HTTP application makes of one request: refused by the rules, a modern exchange, or something for a session.

Rules of this file:

1. Era is a property of each POST. A modern one needs nothing that outlives it, so it is served even where nobody runs
   the application: by a serving of its own.
2. The application never starts itself in hiding. What needs a run is refused with a sentence that says how to have one.
3. Whatever fails costs nothing but the one request.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

import trio
from attrs import define, field, frozen

from .._errors import McpError
from ..abc import HttpAnswerer, HttpServing
from ..wire import (
    INTERNAL_ERROR,
    HttpPolicy,
    ModernPost,
    Notification,
    Refusal,
    Request,
    RequestId,
    check_head,
    needs_null_id,
    parse_message,
    read_post,
)
from ._asgi import HttpRequest, Receive, read_body
from ._http_admission import Admission
from ._http_posts import Posts
from ._http_response import Responding
from ._http_sessions import Sessions, SessionSettings

if TYPE_CHECKING:
    from ..auth import ResourceServer

__all__ = ["Door", "HttpSettings", "Running"]

_log = logging.getLogger("trio_mcp.transports")

_HOW_TO_RUN = "let the host of the HTTP application pass on lifespan events, or enter `app.run()`"


@frozen(kw_only=True)
class HttpSettings:
    """How an HTTP application serves."""

    path: str | None
    """Where, below what it is mounted under; None: wherever it is asked."""
    policy: HttpPolicy
    """What it takes."""
    body_seconds: float
    """How long a body may take to arrive."""
    keep_alive: float
    """Seconds of silence after which a stream says that it is alive."""
    asking: Literal["parked", "replayed"] | None
    """Where handlers are while modern clients find answers; None: as the server says."""
    sessions: SessionSettings
    """What older clients may cost."""
    auth: ResourceServer | None
    """How it is protected; None where it is not."""


@frozen
class Running:
    """What there is while the application is run."""

    serving: HttpServing
    posts: Posts
    sessions: Sessions

    def stop(self) -> None:
        """Let end what does not end by itself; synchronous."""
        self.serving.stop()
        self.posts.stop()
        self.sessions.stop()

    async def drained(self) -> None:
        """Wait until all responses have ended, for a bounded time."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.posts.drained)
            nursery.start_soon(self.sessions.emptied)


@define(eq=False)
class Door:
    """Takes the requests of one application."""

    _answerer: HttpAnswerer
    _settings: HttpSettings
    admission: Admission = field(init=False)
    """Judges who asks."""
    running: Running | None = field(default=None, init=False)
    """None where nobody runs the application."""
    closed: str | None = field(default=None, init=False)
    """Why nothing is served now; None while something is."""
    _alone: int = field(default=0, init=False)
    """Requests that are served by themselves now."""

    def __attrs_post_init__(self) -> None:
        self.admission = Admission(self._settings.auth)

    async def take(self, request: HttpRequest, receive: Receive, responding: Responding) -> None:
        """Answer one HTTP request (rule 3)."""
        responding.null_ids = needs_null_id(request.headers, request.query)
        try:
            await self._answer(request, receive, responding)
        except Exception:  # noqa: BLE001 # a bug, or a serving of its own whose lifespan fails
            _log.exception("an HTTP request failed")
            if not responding.begun:
                error = McpError(INTERNAL_ERROR, "the request failed; the server's log says why")
                await responding.refuse(Refusal(500, error))

    async def _answer(self, request: HttpRequest, receive: Receive, responding: Responding) -> None:
        policy = self._settings.policy
        refusal = check_head(request.method, request.headers, policy)
        admitted = await self.admission.admit(request) if refusal is None else refusal
        if isinstance(admitted, Refusal):
            await responding.refuse(admitted)
            return
        request = admitted
        if request.method == "POST":
            body = await read_body(receive, policy.max_body_bytes, self._settings.body_seconds)
            if isinstance(body, Refusal):
                await self._refuse(body, request, responding)
            elif body is not None:
                request.body = body
                await self._answer_post(request, responding)
        else:
            sessions = await self._sessions(None, responding)
            if sessions is not None:
                await (sessions.get if request.method == "GET" else sessions.delete)(request, responding)

    async def _answer_post(self, request: HttpRequest, responding: Responding) -> None:
        if self.closed is None and self.running is not None:
            stream = self.running.sessions.stream_of(request)
            if stream is not None:  # of HTTP+SSE, whose address says it all
                await stream.post(request, responding)
                return
        posted = read_post(request.headers, request.body, self._settings.policy, self._answerer.revisions)
        if isinstance(posted, Refusal):
            await self._refuse(posted, request, responding)
        elif isinstance(posted, ModernPost):
            await self._answer_modern(posted, request, responding)
        else:
            message = parse_message(posted.value)
            sessions = await self._sessions(message.id if isinstance(message, Request) else None, responding)
            if sessions is not None:
                await sessions.post(posted, request, responding)

    async def _refuse(self, refusal: Refusal, request: HttpRequest, responding: Responding) -> None:
        """Refuse what was admitted: the session that it names knows which revision its client speaks."""
        if self.running is not None:
            self.running.sessions.speak_in(responding, request)
        await responding.refuse(refusal)

    async def _sessions(self, id: RequestId | None, responding: Responding) -> Sessions | None:
        """Return the sessions; where there are none, say why to whoever asked by request *id*."""
        if self.closed is None and self.running is not None:
            return self.running.sessions
        why = self.closed or f"sessions need an HTTP application that is run, and nobody runs this one: {_HOW_TO_RUN}"
        await _turn_away(why, id, responding)
        return None

    async def _answer_modern(self, posted: ModernPost, request: HttpRequest, responding: Responding) -> None:
        if self.closed is not None:
            await _turn_away(self.closed, _id_of(posted), responding)
        elif self.running is not None:
            await self.running.posts.post(posted, request, responding)
        else:
            await self._answer_alone(posted, request, responding)

    async def _answer_alone(self, posted: ModernPost, request: HttpRequest, responding: Responding) -> None:
        """Serve one request by itself (rule 1)."""
        id, most = _id_of(posted), self._answerer.limits.max_running
        if isinstance(posted.message, Notification):  # who would work on it once this has been answered?
            why = f"notifications need an HTTP application that is run, and nobody runs this one: {_HOW_TO_RUN}"
            await _turn_away(why, id, responding)
            return
        if self._alone >= most:
            await _turn_away(f"too busy: {most} requests run (Limits.max_running); try again later", id, responding)
            return
        try:
            opening = self._answerer.serving_one()
        except McpError as error:
            await _turn_away(error.message, id, responding)
            return
        self._alone += 1
        try:
            async with opening as serving:
                await Posts(serving, self.admission).post(posted, request, responding)
        finally:
            self._alone -= 1


def _id_of(posted: ModernPost) -> RequestId | None:
    return posted.message.id if isinstance(posted.message, Request) else None


async def _turn_away(why: str, id: RequestId | None, responding: Responding) -> None:
    """Refuse what could be served at another time, or in another way."""
    await responding.refuse(Refusal(503, McpError(INTERNAL_ERROR, why), id))
