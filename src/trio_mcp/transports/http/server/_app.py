"""MCP over HTTP as an ASGI 3 application: all revisions at one path, under any ASGI server that runs on Trio.

`HttpRouter` decides for each request whether it is refused, is a modern exchange, or belongs to a session.

Rules of this file:

1. An application may be run by the lifespan events of its server, by the application that it is mounted in, or by its
   owner, but only once at a time. After a run has ended or failed, nothing is served until the next one.
2. The host decides where the application is mounted: `root_path` is the prefix to remove, whether or not the host has
   left it in the path.
3. Nothing is sent to a WebSocket that is not served: on Hypercorn 0.18 a reply, or an early return, lets one request
   end the server.
4. Era is a property of each POST. A modern one needs nothing that outlives it, so it is served even if the application
   is not run: by a serving of its own.
5. The application never starts itself implicitly. A request that needs a run is refused with an error that says how to
   run the application.
6. Any failure ends only the one request.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio
from attrs import define, field, frozen

from ...._errors import McpError
from ...._util import failure_of
from ....abc import HttpAnswerer, HttpServing
from ....wire import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    HttpPolicy,
    ModernPost,
    Refusal,
    RequestId,
    check_head,
    check_place,
    read_post,
)
from ._asgi import (
    WITHOUT_TRIO,
    BegunRequest,
    FailedRequest,
    HttpRequest,
    RequestAuthorizer,
    Responding,
    read_body,
    refuse_without_trio,
)
from ._byte_budget import ByteBudget, no_room
from ._channel import AsgiApp, AsgiChannel, HttpChannel, Receive, Scope, Send, UpgradableChannel
from ._legacy_session_manager import SessionRegistry, SessionSettings, open_sessions
from ._lifespan import no_host, serve_lifespan
from ._metrics import METRICS_TYPE, CountedRequest, HttpMetrics
from ._modern import HOW_TO_RUN, ModernEndpoint, StandaloneEndpoint, id_in, refuse_for_now
from ._nodes import BegunForwarding, NodesOpener, RequestOwners
from ._routes import RouteTable, ServiceState, StatePage, answer_page, write_access
from ._session_moves import MISDIRECTED
from ._websocket import DirectWebSocket, WebSocketLinks, accept_asgi, read_opening, refuse_websocket

if TYPE_CHECKING:
    from ....auth import ResourceServer

__all__ = ["HttpApp", "HttpRouter", "HttpSettings", "RunningApp"]


_log = logging.getLogger("trio_mcp.transports")

_SHORT_LENGTH = 4
"""The number of digits in the length of a body that is too small to be refused for lack of room."""


@frozen(kw_only=True)
class HttpSettings:
    """The settings of an HTTP application."""

    path: str | None
    """The path below its mount point; None for any path."""
    policy: HttpPolicy
    """The rules for the head of a request."""
    body_seconds: float
    """The maximum time for a body to arrive."""
    keep_alive: float
    """Seconds of silence after which a stream sends a comment."""
    asking: Literal["parked", "replayed"] | None
    """The mode of handlers while modern clients answer questions; None for the server's default."""
    sessions: SessionSettings
    """The limits for legacy clients."""
    auth: ResourceServer | None
    """The protection of the application; None if it has none."""
    max_buffer_bytes: int
    """The byte budget: the maximum number of bytes of bodies and unread responses together."""
    routes: RouteTable
    """The routes beside the endpoint."""
    health_path: str | None = None
    """The path of the check whether the process lives; None if there is none."""
    ready_path: str | None = None
    """The path of the check whether it takes new requests; None if there is none."""
    metrics_path: str | None = None
    """The path of the page for Prometheus; None if there is none, and nothing is counted."""
    access_log: logging.Logger | None = None
    """The log of requests; None if they are not logged."""
    websocket: bool = False
    """True to serve WebSockets at the path of the endpoint."""
    open_nodes: NodesOpener | None = None
    """Makes the application a node of a service of several processes; None if it is the only one."""


@frozen
class RunningApp:
    """The parts of an application that exist while it is run."""

    serving: HttpServing
    posts: ModernEndpoint
    sessions: SessionRegistry
    websockets: WebSocketLinks
    owners: RequestOwners | None
    """Finds the requests that belong to other processes of the service; None if there are no others."""

    def stop(self) -> None:
        """End the requests that do not end by themselves; synchronous."""
        self.serving.stop()
        self.posts.stop()
        self.sessions.stop()
        self.websockets.stop()
        if self.owners is not None:
            self.owners.stop()

    async def drained(self) -> None:
        """Wait until all responses have ended, for a bounded time."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.posts.drained)
            nursery.start_soon(self.sessions.emptied)
            nursery.start_soon(self.websockets.drained)
            if self.owners is not None:
                nursery.start_soon(self.owners.drained, self.serving.limits.drain_seconds)


@define(eq=False)
class HttpRouter(ServiceState):
    """Routes the requests of one application."""

    _answerer: HttpAnswerer
    _settings: HttpSettings
    authorizer: RequestAuthorizer = field(init=False)
    """Authenticates the requests."""
    budget: ByteBudget = field(init=False)
    """Counts the bytes of the requests and sessions."""
    running: RunningApp | None = field(default=None, init=False)
    """The parts of the run; None if the application is not run."""
    node: str | None = field(default=None, init=False)
    """The name of the process in a service of several; None if it is the only one."""
    metrics: HttpMetrics | None = field(init=False)
    """The counts; None if nothing is counted."""
    _standalone: StandaloneEndpoint = field(init=False)
    """Answers the requests that are served without a run."""

    def __attrs_post_init__(self) -> None:
        self.authorizer = RequestAuthorizer(self._settings.auth)
        self.budget = ByteBudget(self._settings.max_buffer_bytes)
        self.metrics = None if self._settings.metrics_path is None else HttpMetrics()
        self._standalone = StandaloneEndpoint(self._answerer, self.authorizer, self.metrics)

    def measures(self) -> StatePage:
        """Return the page of the counts."""
        assert self.metrics is not None
        text = self.metrics.page(self.running, self.budget.total, is_ready=self.refusal is None)
        return StatePage(text, kind=METRICS_TYPE)

    async def handle(self, request: HttpRequest, channel: HttpChannel, responding: Responding) -> None:
        """Answer one HTTP request."""
        await self._contained(self._answer(request, channel, responding), responding)

    async def go_on(self, begun: BegunRequest, responding: Responding) -> None:
        """Answer a request that was begun."""
        await self._contained(begun.go_on(responding), responding)

    @staticmethod
    async def _contained(answering: Awaitable[None], responding: Responding) -> None:
        """Answer a request, and contain its failures (rule 6)."""
        try:
            await answering
            await responding.finish()
        except BaseException as exc:  # noqa: BLE001 # a bug, a custom verifier, or a lifespan of a standalone serving
            _log.log(logging.ERROR, "an HTTP request failed", exc_info=failure_of(exc, "the application", _log))
            if not responding.begun:
                error = McpError(INTERNAL_ERROR, "the request failed; the server's log says why")
                await responding.refuse(Refusal(500, error))

    async def admit_websocket(self, request: HttpRequest) -> tuple[HttpRequest, WebSocketLinks] | Refusal:
        """Return the request with its access, and what serves its WebSocket; or its refusal."""
        refusal = check_place(request.headers, self._settings.policy)
        if refusal is None and not self._settings.websocket:
            refusal = Refusal(403, McpError(INVALID_REQUEST, "this server takes no WebSockets (see websocket=True)"))
        if refusal is not None:
            return refusal
        admitted = await self.authorizer.admit(request)
        if isinstance(admitted, Refusal):
            return admitted
        if self.closed is not None or self.running is None:
            why = (
                self.closed or f"WebSockets need a running HTTP application, and this one is not running: {HOW_TO_RUN}"
            )
            return Refusal(503, McpError(INTERNAL_ERROR, why))
        return admitted, self.running.websockets

    def begin(self, request: HttpRequest, body: bytes) -> BegunRequest | None:
        """Begin to answer a POST at once; see `HttpApp.begin`."""
        running = self.running
        if running is None or self.closed is not None or self.authorizer.is_needed:
            return None
        policy = self._settings.policy
        if not request.has_known_head and check_head(request.method, request.headers, policy) is not None:
            return None
        return self._begin(request, body, running)

    def begin_forwarded(self, request: HttpRequest) -> BegunRequest | None:
        """Begin to answer a POST that another process has checked; see `HttpApp.begin_forwarded`."""
        running = self.running
        if running is None or self.closed is not None or request.method != "POST":
            return None
        return self._begin(request, request.body, running)

    def _begin(self, request: HttpRequest, body: bytes, running: RunningApp) -> BegunRequest | None:
        try:
            posted = read_post(request.headers, body, self._settings.policy, self._answerer.revisions)
            if isinstance(posted, Refusal) or request.query:
                return None
            owners = None if request.is_forwarded or request.stays_here else running.owners
            owner = None if owners is None else owners.of_post(posted)
            if owners is not None and owner is not None:
                request.body = body
                return BegunForwarding(owners, owner, request, id_in(posted.message), self._answer_post)
            if isinstance(posted, ModernPost):
                return running.posts.begin(posted, request)
            request.body = body
            return running.sessions.begin(posted, request)
        except BaseException as exc:  # noqa: BLE001 # `go_on` raises it again
            return FailedRequest(exc)

    async def _answer(self, request: HttpRequest, channel: HttpChannel, responding: Responding) -> None:
        policy = self._settings.policy
        refusal = check_head(request.method, request.headers, policy)
        admitted = await self.authorizer.admit(request) if refusal is None else refusal
        if isinstance(admitted, Refusal):
            await responding.refuse(admitted)
            return
        responding.request = request = admitted
        if request.method == "POST":
            body = await self._read_body(request, channel, responding)
            if isinstance(body, Refusal):
                responding.forget()
                await self._refuse(body, request, responding)
            elif body is not None:
                request.body = body
                del body  # a large one shall not outlive its decoding
                await self._answer_post(request, responding)
        else:
            await self._answer_head(request, responding)

    async def answer_forwarded(self, request: HttpRequest, responding: Responding) -> None:
        """Answer a request that another process of the service has checked."""
        answer = self._answer_post if request.method == "POST" else self._answer_head
        await self._contained(answer(request, responding), responding)

    async def _answer_head(self, request: HttpRequest, responding: Responding) -> None:
        """Answer an admitted request without a body."""
        owners = self._owners(request)
        owner = None if owners is None else owners.of_head(request)
        if owners is not None and owner is not None and await owners.forward(owner, request, responding):
            return
        sessions = await self._sessions(None, responding)
        if sessions is not None:
            await (sessions.get if request.method == "GET" else sessions.delete)(request, responding)

    def _owners(self, request: HttpRequest) -> RequestOwners | None:
        """Return what finds the owner of a request, unless it was forwarded already or nothing is served now."""
        if self.running is None or self.closed is not None or request.is_forwarded or request.stays_here:
            return None
        return self.running.owners

    async def _read_body(
        self, request: HttpRequest, channel: HttpChannel, responding: Responding
    ) -> bytes | Refusal | None:
        """Return what `read_body` does; refuse a body that has no room before any of it is read."""
        length = request.headers.get("content-length", "")
        if len(length) > _SHORT_LENGTH and length.isdigit() and not responding.may_hold(int(length)):
            return no_room()
        return await read_body(channel, self._settings.policy.max_body_bytes, self._settings.body_seconds, responding)

    async def _answer_post(self, request: HttpRequest, responding: Responding) -> None:
        if request.query and self.running is not None:
            stream = self.running.sessions.stream_of(request)
            if stream is not None:  # HTTP+SSE: the address alone names the stream
                await stream.post(request, responding, self.closed)
                return
        owners = self._owners(request)
        owner = None if owners is None else owners.of_stream(request)
        if owners is not None and owner is not None and await owners.forward(owner, request, responding):
            return
        posted = read_post(request.headers, request.body, self._settings.policy, self._answerer.revisions)
        if isinstance(posted, Refusal):
            await self._refuse(posted, request, responding)
            return
        owner = None if owners is None else owners.of_post(posted)
        id = id_in(posted.message)
        if owners is not None and owner is not None and await owners.forward(owner, request, responding, id):
            return
        if isinstance(posted, ModernPost):
            request.body = b""
            await self._answer_modern(posted, request, responding)
        else:
            sessions = await self._sessions(id, responding)
            if sessions is not None:
                await sessions.post(posted, request, responding)

    async def _refuse(self, refusal: Refusal, request: HttpRequest, responding: Responding) -> None:
        """Refuse an admitted request in the form of its session's revision, if it names a session."""
        if self.running is not None:
            self.running.sessions.apply_revision(responding, request)
        await responding.refuse(refusal)

    async def _sessions(self, id: RequestId | None, responding: Responding) -> SessionRegistry | None:
        """Return the sessions; if there are none, refuse the request *id*."""
        is_forwarded = responding.request is not None and responding.request.is_forwarded
        if self.running is not None and (self.closed is None or is_forwarded):
            return self.running.sessions
        if is_forwarded:
            await responding.refuse(Refusal(MISDIRECTED))
            return None
        why = self.closed or f"sessions need a running HTTP application, and this one is not running: {HOW_TO_RUN}"
        await refuse_for_now(why, id, responding)
        return None

    async def _answer_modern(self, posted: ModernPost, request: HttpRequest, responding: Responding) -> None:
        if self.closed is not None:
            await refuse_for_now(self.closed, id_in(posted.message), responding)
        elif self.running is not None:
            await self.running.posts.post(posted, request, responding)
        else:
            await self._standalone.post(posted, request, responding)


_Respond: TypeAlias = Callable[[HttpRequest, HttpChannel, Responding], Awaitable[None]]


@define(eq=False, repr=False)
class HttpApp:
    """A server as an ASGI 3 application. Made by `http_app`; call it as ASGI servers do, or mount it.

    Under a server that sends lifespan events (`hypercorn -k trio module:app`) it runs itself. Mounted in another
    application, it is run by that one: in Starlette by ``lifespan=app.lifespan``, in any other by serving `wrap` of it,
    or by ``async with app.run()``. An application that is not run still answers clients of the current revision, one
    request at a time: without the server's lifespan, background tasks, and sessions of legacy clients.
    """

    _answerer: HttpAnswerer
    _settings: HttpSettings
    _router: HttpRouter = field(init=False)
    _places: Collection[str] = field(init=False)
    """The paths of the endpoint and of HTTP+SSE, without a slash at the end."""
    _pages: Mapping[str | None, Callable[[], StatePage]] = field(init=False)
    """The pages by path; those that there are not have the path None."""
    _runs: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._router = HttpRouter(self._answerer, self._settings)
        places = (self._settings.path, self._settings.sessions.sse_path)
        self._places = frozenset(place.rstrip("/") for place in places if place)
        router, settings = self._router, self._settings
        self._pages = {
            settings.health_path: router.liveness,
            settings.ready_path: router.readiness,
            settings.metrics_path: router.measures,
        }

    def __repr__(self) -> str:
        return f"<HttpApp of {self._answerer!r}>"

    @property
    def buffer_bytes(self) -> int:
        """The number of bytes of bodies and unread responses that it holds now; those of a few KiB are not counted."""
        return self._router.budget.total

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, one WebSocket, or the lifespan, as ASGI defines it."""
        if not trio.lowlevel.in_trio_task():
            await refuse_without_trio(scope, receive, send)
            return
        match scope["type"]:
            case "http":
                request, channel = HttpRequest.of(scope), AsgiChannel(scope, receive, send)
                if self.answers_directly(request):
                    await self.answer(request, channel)
                    return

                async def serve_route(request: HttpRequest, _: HttpChannel, responding: Responding) -> None:
                    routes, closed = self._settings.routes, self._router.closed
                    await routes.serve(scope, receive, send, request, responding, closed)

                await self._answer(request, channel, serve_route)
            case "lifespan":
                await serve_lifespan(self._run_unless_running, no_host, scope, receive, send)
            case "websocket" if self.accepts_websocket(scope):
                await self._serve_asgi_websocket(scope, receive, send)
            case "websocket":
                while (await receive())["type"] != "websocket.disconnect":
                    pass  # rule 3
            case unknown:
                raise ValueError(
                    f"unknown ASGI scope type {unknown!r}; this application supports http, websocket and lifespan"
                )

    def takes_websocket(self, request: HttpRequest) -> bool:
        """Return True if a request to open a WebSocket is for the endpoint; `serve_websocket` answers it."""
        path = self._settings.path
        return path is None or request.local_path.rstrip("/") == path.rstrip("/")

    def accepts_websocket(self, scope: Scope) -> bool:
        """Return True if a WebSocket of an ASGI server is served: they are enabled, and it is for the endpoint.

        Args:
            scope: the scope of the WebSocket, as ASGI defines it.
        """
        return self._settings.websocket and self.takes_websocket(HttpRequest.of({"method": "GET", **scope}))

    async def serve_websocket(self, request: HttpRequest, channel: UpgradableChannel) -> None:
        """Answer a request to open a WebSocket, without ASGI, and serve it until it is closed.

        Args:
            request: a request that `takes_websocket` takes.
            channel: the connection, which is switched to the WebSocket protocol unless the request is refused.
        """
        begun = trio.current_time()
        responding = Responding(channel, self._settings.keep_alive, self._answerer.limits.stall_seconds)
        responding.request = request
        try:
            admitted = await self._router.admit_websocket(request)
            if isinstance(admitted, Refusal):
                await responding.refuse(admitted)
                return
            fields = read_opening(request.headers)
            if isinstance(fields, Refusal):
                await responding.refuse(fields)
                return
            responding.status, (responding.request, links) = 101, admitted
            switched = channel.switch(fields)
            await switched.flush()  # under TLS nothing is sent at once
            silence = self._settings.keep_alive
            await links.serve(responding.request, DirectWebSocket(switched, is_client=False, silence_seconds=silence))
        finally:
            self._ended(responding.request, responding.status, begun)

    async def _serve_asgi_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket of an ASGI server, and log it."""
        request, begun = HttpRequest.of({"method": "GET", **scope}), trio.current_time()
        status = 101
        await receive()  # its connect event
        try:
            admitted = await self._router.admit_websocket(request)
            if isinstance(admitted, Refusal):
                status = admitted.status
                await refuse_websocket(admitted, scope, send)
                return
            request, links = admitted
            await links.serve(request, await accept_asgi(scope, receive, send))
        finally:
            self._ended(request, status, begun)

    def answers_directly(self, request: HttpRequest) -> bool:
        """Return True if `answer` takes a request; the others are for ASGI applications, its routes."""
        path = request.local_path
        if self._is_addressed(path) or path in self._pages or self._is_metadata_request(request):
            return True
        return not self._settings.routes.has(path)

    async def answer(self, request: HttpRequest, channel: HttpChannel) -> None:
        """Answer one HTTP request, without ASGI.

        Args:
            request: a request that `answers_directly` takes.
            channel: sends the response, and says when the client leaves.
        """
        await self._answer(request, channel, self._respond)

    def begin_forwarded(self, request: HttpRequest) -> BegunRequest | None:
        """Begin to answer a request that another process has received and checked; see `ForwardedApp`."""
        return self._router.begin_forwarded(request)

    async def answer_forwarded(
        self, request: HttpRequest, channel: HttpChannel, begun: BegunRequest | None = None
    ) -> None:
        """Answer a request that another process has received and checked.

        Args:
            request: the request.
            channel: sends the response, and says when the client leaves.
            begun: the result of `begin_forwarded`; None if it was not called, or has returned None.
        """
        responding = Responding(
            channel, self._settings.keep_alive, self._answerer.limits.stall_seconds, budget=self._router.budget
        )
        responding.request = request
        try:
            if begun is None:
                await self._router.answer_forwarded(request, responding)
            else:
                await self._router.go_on(begun, responding)
        finally:
            responding.forget()

    def begin(self, request: HttpRequest, body: bytes) -> BegunRequest | None:
        """Begin to answer a POST at once; return None, with nothing done, if `answer` has to. Synchronous.

        Most calls are answered before this returns. The tasks, timeouts and counters of `answer` are for those that are
        not, and cost as much as all the rest (benchmark cell `http-64`).

        Args:
            request: a POST of HTTP/1.1 that `answers_directly` takes.
            body: its whole body, of a few KiB.
        """
        if self._settings.access_log is not None or self._is_metadata_request(request):
            return None
        begun = self._router.begin(request, body) if self._is_addressed(request.local_path) else None
        metrics = self._router.metrics
        return begun if begun is None or metrics is None else CountedRequest(begun, metrics)

    async def go_on(self, begun: BegunRequest, request: HttpRequest, channel: HttpChannel) -> None:
        """Answer a request that was begun, and has no answer yet.

        Args:
            begun: the result of `begin`.
            request: the request.
            channel: sends the response, and says when the client leaves.
        """

        async def respond(_request: HttpRequest, _channel: HttpChannel, responding: Responding) -> None:
            await self._router.go_on(begun, responding)

        await self._answer(request, channel, respond)

    async def _answer(self, request: HttpRequest, channel: HttpChannel, respond: _Respond) -> None:
        """Answer one HTTP request with a function, and log it."""
        stall_seconds = self._answerer.limits.stall_seconds
        responding = Responding(channel, self._settings.keep_alive, stall_seconds, budget=self._router.budget)
        responding.request = request
        begun = trio.current_time()
        try:
            await respond(request, channel, responding)
        except Exception:
            responding.status = responding.status or 500  # which the server of the application sends
            raise
        finally:
            responding.forget()
            self._ended(responding.request, responding.status, begun)

    def _ended(self, request: HttpRequest, status: int | None, begun: float) -> None:
        """Count and log a request that has ended."""
        if self._router.metrics is not None:
            self._router.metrics.responded(status)
        if self._settings.access_log is not None:
            write_access(self._settings.access_log, request, status, trio.current_time() - begun, self._router.node)

    async def _respond(self, request: HttpRequest, channel: HttpChannel, responding: Responding) -> None:
        """Answer one request, by its path."""
        if self._is_metadata_request(request):
            await self._router.authorizer.describe(request, responding)
        elif self._is_addressed(request.local_path):
            await self._router.handle(request, channel, responding)
        elif request.local_path in self._pages:
            await answer_page(self._pages[request.local_path], responding)
        else:
            await responding.refuse(Refusal(404))

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Run the application for as long as the block lasts: the server's lifespan, its handler pool, its sessions.

        At the end, new requests are refused, streams end, requests in flight are answered for at most
        `Limits.drain_seconds`, and the rest fail because the server stops. A cancelled block does not wait for that.

        Raises:
            RuntimeError: it is already running, or another event loop than Trio's runs.
        """
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError(WITHOUT_TRIO)
        if self._runs:
            raise RuntimeError("this HTTP application is already running")
        router = self._router
        self._runs = True
        router.starting()
        settings, open_nodes = self._settings, self._settings.open_nodes
        try:
            authorizer = self._router.authorizer
            async with (
                nullcontext() if open_nodes is None else open_nodes(self) as nodes,
                authorizer.running(None if nodes is None else nodes.service),
                self._answerer.serving(
                    asking=settings.asking,
                    home=str if nodes is None else nodes.home,
                    shared=None if nodes is None else nodes.service,
                ) as serving,
                open_sessions(
                    serving,
                    self._answerer.revisions,
                    settings.sessions,
                    authorizer,
                    self._router.budget,
                    nodes,
                ) as sessions,
            ):
                owners = None if nodes is None else RequestOwners(nodes, sessions)
                running = RunningApp(
                    serving,
                    ModernEndpoint(serving, authorizer),
                    sessions,
                    WebSocketLinks(serving, authorizer, owners),
                    owners,
                )
                if router.metrics is not None:
                    router.metrics.observe(serving)
                router.node = None if nodes is None else nodes.name
                router.running = running
                router.started()
                try:
                    yield
                    self.stop()
                    await running.drained()
                finally:
                    self.stop()
                    running.posts.close()
                    running.websockets.close()
                    self._router.running = None
        finally:
            self._runs = False
            router.stopped()

    @asynccontextmanager
    async def _run_unless_running(self) -> AsyncGenerator[None]:
        """Run the application, unless its owner already does."""
        if self._runs:
            yield
            return
        async with self.run():
            yield

    @asynccontextmanager
    async def lifespan(self, host: object) -> AsyncGenerator[None]:
        """Run the application for the lifespan of *host*, as in ``Starlette(..., lifespan=app.lifespan)``."""
        del host
        async with self.run():
            yield

    def wrap(self, host: AsgiApp) -> AsgiApp:
        """Return an application that serves this one at its path, metadata paths and routes, and *host* elsewhere.

        Lifespan events go to both. *host* is any ASGI application on Trio, with lifespan or without.

        Raises:
            ValueError: this application has no path of its own.
        """
        if self._settings.path is None:
            raise ValueError(
                "with path=None the HTTP application answers at every path, so it cannot be combined; give it a path"
            )

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan" and trio.lowlevel.in_trio_task():
                await serve_lifespan(self._run_unless_running, host, scope, receive, send)
            elif scope["type"] == "lifespan" or self._is_own(scope):
                await self(scope, receive, send)
            else:
                await host(scope, receive, send)

        return both

    def announce_stop(self) -> None:
        """Let `ready_path` answer 503 from now on, and go on serving everything; synchronous and idempotent.

        Load balancers that watch it send nothing new after a while: then call `stop`.
        """
        self._router.is_leaving = True

    def stop(self) -> None:
        """Refuse new requests, and end those that do not end by themselves; synchronous and idempotent.

        New requests fail because the server stops, open questions expire, listening streams end. Wait for the rest with
        `drained`, then leave `run`.
        """
        if self._router.running is not None and self._router.closed is None:
            self._router.closed = "the server stops"
            self._router.running.stop()

    async def drained(self) -> None:
        """Wait, after `stop`, until all responses have ended; bounded as the end of `run` is."""
        if self._router.running is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._router.running.drained()

    def _is_own(self, scope: Scope) -> bool:
        """Return True if a request is for this application, with all that it serves beside its endpoint."""
        request = HttpRequest.of({"method": "", **scope})
        path, is_http = request.local_path, scope["type"] == "http"
        is_beside = path in self._pages or self._settings.routes.has(path)
        return self._is_addressed(path) or (is_http and (is_beside or self._is_metadata_request(request)))

    def _is_metadata_request(self, request: HttpRequest) -> bool:
        """Return True if a request is for the metadata of a protected server, which clients read first."""
        places = self._router.authorizer.metadata_paths
        return bool(places) and not {request.path, request.local_path}.isdisjoint(places)

    def _is_addressed(self, path: str) -> bool:
        """Return True if a path without the mount point is that of this application; a slash at the end is ignored."""
        return self._settings.path is None or path.rstrip("/") in self._places  # rule 2
