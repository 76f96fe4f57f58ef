"""The requests that a gateway forwards: their way to a server, the messages in between, and the result.

Rules of this file:

1. What the server answers is passed on as it is, except where the revision of the caller is older than that of the
   server: then it is read and written again, in the form of the caller's revision.
2. A modern caller gets the questions of a modern server in the result, and its answers go to the server with the state
   that the server gave. The gateway keeps nothing in between; it seals the state, so that it is good for this request
   and this principal alone.
3. In every other case the gateway asks: the request waits, and is answered as any handler of this package answers.
4. Of the caller's `_meta`, all is passed on but what belongs to one connection: the envelope and the progress token.
5. A result that the server declares public is private if callers do not see the same of the server.
6. If a server fails because the caller cannot answer its question, the caller is told which capability it lacks, as its
   revision tells that.
7. A failure between the gateway and the server is told in the gateway's words: it may hold secrets of the server.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

import trio
from attrs import define, field, frozen

from .. import (
    Ask,
    AskExpired,
    AuthorizationFailed,
    Client,
    ConnectionLost,
    Context,
    Elicit,
    ErrorResponse,
    HttpStatusError,
    ListRoots,
    McpError,
    MissingCapability,
    RemoteProtocolError,
    RequestTimedOut,
    ResponseLost,
    Sample,
    StructureError,
    TaskCancelled,
    ToolError,
    TooManyParked,
    TrioMcpError,
    Visit,
    types,
)
from ..lowlevel import (
    CallerDeadlineError,
    ClientExtensionPoints,
    IncomingRequest,
    TasklessRequest,
    TasklessResponder,
    interim_result,
    past_of,
    run_of,
    serving_of,
)
from ..wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    DEADLINE_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PROGRESS_TOKEN_KEY,
    REVISION_KEY,
    JsonObject,
    Undecodable,
    decoded,
    is_modern,
    is_object,
)
from ._calls import current_call
from ._results import in_revision, without_server_info
from ._tasks import TASKS, follow_task, needs_task, run_as_legacy_task, takes_tasks, with_tasks
from ._upstream import UpstreamClient

__all__ = [
    "SPECIFIED",
    "Finish",
    "ForwardedQuestion",
    "ForwardedRequest",
    "Resolve",
    "Target",
    "capabilities_for",
    "failure_of",
    "given_params",
    "read_question",
    "resource_not_found",
]

_log = logging.getLogger("trio_mcp.gateway")

SPECIFIED: Final = frozenset(method for methods in types.METHODS.values() for method in methods)
"""The methods of all requests and notifications that some revision has."""
_OF_CONNECTION: Final = frozenset(
    {REVISION_KEY, CLIENT_INFO_KEY, CAPABILITIES_KEY, LOG_LEVEL_KEY, PROGRESS_TOKEN_KEY, DEADLINE_KEY}
)
"""The members of `_meta` that belong to one connection (rule 4)."""
_OF_ATTEMPT: Final = frozenset({"_meta", "requestState", "inputResponses"})
"""The members of params that belong to one attempt."""
RESOURCE_NOT_FOUND: Final = -32002
"""The code of legacy revisions for a resource that does not exist; modern ones use `INVALID_PARAMS`."""

Finish: TypeAlias = Callable[[JsonObject], JsonObject]
"""Changes a result that is not passed on as it is; it may change its argument."""


@frozen(eq=False)
class Target:
    """The server to which a request goes, and what it gets there."""

    client: UpstreamClient
    members: Mapping[str, Any]
    """The members of the params that differ from those of the caller."""
    finish: Finish | None = None
    """Changes the result; None if it is passed on as it is."""
    runs_only_as_task: bool = False
    """True if the definition of the tool says so."""


@frozen
class _Received:
    """A result with questions that was received without a task, and that a task continues with."""

    client: Client
    """The connection that it has come from."""
    result: JsonObject


Resolve: TypeAlias = Callable[[], Awaitable[Target]]
"""Finds the server to which a request goes; raises `McpError` if there is none."""


@define(eq=False)
class ForwardedRequest(TasklessResponder):
    """Forwards one request, and answers it: a responder, and a call in flight."""

    method: str
    params: Mapping[str, Any]
    """The params as they were received, or as middleware has changed them: see `given_params`."""
    target: Resolve | Target
    """The server, or a function that finds it."""
    caller: Hashable
    may_ask: bool = True
    waits: bool = field(init=False)
    _context: Context[Any] | None = field(init=False)
    """The context of the handler; None without one."""
    _request: TasklessRequest | None = field(init=False)
    """The request of the caller, while it is in flight without a task."""
    _points: ClientExtensionPoints | None = field(init=False)
    """The connection to the server, if it is in flight without a task, or was."""
    _cancel: Callable[[], None] | None = field(init=False)
    """Cancels the request to the server, while it is in flight without a task."""
    _received: _Received | None = field(init=False)
    """The questions of the server that the handler continues with."""
    _lacking: MissingCapability | None = field(init=False)
    """The reason why a question of a legacy server could not be passed on to the caller."""

    def __attrs_post_init__(self) -> None:
        # Set here, because attrs takes three times as long for fields that are not arguments.
        self.waits = True
        self._context = None
        self._request = None
        self._points = None
        self._cancel = None
        self._received = None
        self._lacking = None

    async def call(self, context: Context[Any], params: Any) -> Any:
        """Return the result of the server.

        Raises:
            McpError: the server has refused the request, or there is no such server.
            ToolError: the server of a tool is gone, or does not answer.
        """
        del params
        self._context = context
        target = self.target if isinstance(self.target, Target) else await self.target()
        upstream = target.client
        token = current_call.set(self)
        try:
            if upstream.is_limited:
                async with upstream.turn(self):
                    return await self._forward(await upstream.client(), target)
            upstream.calls.begin(self)
            try:
                client = await upstream.client() if self._received is None else self._received.client
                return await self._forward(client, target)
            finally:
                upstream.ended(self)
        except TrioMcpError as failure:
            if self._lacking is not None and isinstance(failure, ErrorResponse):
                raise self._lacking from failure
            modern = run_of(context).context.modern
            raise failure_of(failure, upstream.mount.name, self.method, modern=modern) from failure
        finally:
            current_call.reset(token)

    # --- Without a task ---

    def begin_nowait(self, request: TasklessRequest) -> bool:
        """Forward the request without a task, if nothing has to be waited for before its result is there.

        That is so if the server is modern, which asks in its results, and if the caller wants no progress.
        """
        target, facts = self.target, request.exchange.context
        if not isinstance(target, Target) or facts.progress_token is not None:
            return False
        upstream, capabilities = target.client, facts.capabilities
        points = upstream.modern
        if points is None or upstream.is_limited or (upstream.makes_tasks and not takes_tasks(capabilities)):
            return False
        declared = capabilities_for(capabilities, modern=facts.modern) if capabilities else capabilities
        self._request, self._points = request, points
        upstream.calls.begin(self)
        try:
            params = self._params(target, facts.log_level)
            cancel = points.request_nowait(
                self.method, params, self._answered, capabilities=declared, deadline=request.deadline
            )
        except TrioMcpError:  # the handler, which tries again, tells of it
            cancel = None
        if cancel is None:
            self._request = None
            upstream.ended(self)
            return False
        if self._is_in_flight:
            self._cancel = cancel
        return True

    @property
    def _is_in_flight(self) -> bool:
        """True while the request is in flight without a task."""
        return self._request is not None

    def give_up(self) -> None:
        """Cancel the request."""
        assert self._cancel is not None
        assert isinstance(self.target, Target)
        self._cancel()
        self._request = self._cancel = None
        self.target.client.ended(self)

    def _answered(self, outcome: JsonObject | Exception) -> None:
        """Take the answer of the server to a request without a task."""
        request, points, target = self._request, self._points, self.target
        assert points is not None
        assert isinstance(target, Target)
        if request is None:  # given up while log messages were delivered
            return
        upstream, facts = target.client, request.exchange.context
        client: Any = points.client
        if facts.log_level is not None and points.has_logs:
            points.after_logs(partial(self._answered, outcome))
            return
        self._request = self._cancel = None
        upstream.ended(self)
        if not isinstance(outcome, Exception) and _asks(outcome):
            outcome = read_question(outcome)
        if isinstance(outcome, Exception):
            if isinstance(outcome, ErrorResponse) and needs_task(outcome):
                request.needs_task()
                return
            if isinstance(outcome, RequestTimedOut) and request.deadline <= trio.current_time():
                request.answer(CallerDeadlineError())
                return
            failure = cast("TrioMcpError", outcome)
            request.answer(failure_of(failure, upstream.mount.name, self.method, modern=facts.modern))
            return
        if not facts.modern and _asks(outcome):
            self._received = _Received(client, outcome)
            request.needs_task()
            return
        try:
            answer = self._answer(outcome, client.revision, target, request.serving, request.exchange)
        except Exception as failure:  # noqa: BLE001 # it is explained as one of the handler
            answer = failure
        request.answer(answer)

    # --- In a task ---

    async def _forward(self, client: Client, target: Target) -> Any:
        context = self._context
        assert context is not None
        run = run_of(context)
        facts, points = run.context, ClientExtensionPoints(client)
        server_is_modern = is_modern(client.revision)
        if facts.log_level is not None and not server_is_modern:
            await target.client.want_logs(client, facts.log_level)
        params, declared = self._params_for(client, target), capabilities_for(facts.capabilities, modern=facts.modern)
        received, self._received = self._received, None
        try:
            if target.runs_only_as_task and not server_is_modern:
                result = await run_as_legacy_task(client, params)
            else:
                result = await points.request_json(
                    self.method,
                    params,
                    on_update=None if facts.progress_token is None else self._pass_update,
                    on_notification=self._pass_notification,
                    capabilities=declared if server_is_modern else None,
                    returns_questions=server_is_modern and facts.modern,
                    after=None if received is None else received.result,
                )
        except ErrorResponse as refusal:
            if not needs_task(refusal) or takes_tasks(declared):
                raise
            result = await points.request_json(self.method, params, capabilities=with_tasks(declared))
            if result.get("resultType") == "task":
                result = await follow_task(client, result, context)
        if facts.log_level is not None:
            await points.logs_delivered()
        return self._answer(result, client.revision, target, serving_of(context), run.exchange)

    def _params_for(self, client: Client, target: Target) -> JsonObject:
        assert self._context is not None
        facts, past = run_of(self._context).context, past_of(self._context)
        if not is_modern(client.revision):
            return self._params(target)
        if past is None:
            return self._params(target, facts.log_level)
        return self._params(target, facts.log_level, past.answers or past.offered, past.kept)

    def _params(
        self,
        target: Target,
        level: str | None = None,
        answers: Mapping[str, Any] | None = None,
        state: Any = None,
    ) -> JsonObject:
        """Return the params for the server.

        Args:
            level: the log level that a modern server is asked for.
            answers: those of a modern caller to the questions of a modern server.
            state: the state that came with the questions.
        """
        given = self.params
        params = {name: each for name, each in given.items() if name not in _OF_ATTEMPT}
        if target.members:
            params.update(target.members)
        stated: Any = given.get("_meta")
        meta: JsonObject = {}
        if is_object(stated) and not stated.keys() <= _OF_CONNECTION:
            meta = {name: each for name, each in stated.items() if name not in _OF_CONNECTION}
        if level is not None:
            meta[LOG_LEVEL_KEY] = level
        if meta:
            params["_meta"] = meta
        if answers:
            params["inputResponses"] = answers
        if state is not None:
            params["requestState"] = state
        return params

    def _answer(
        self, result: JsonObject, revision: str, target: Target, serving: Any, exchange: IncomingRequest | None
    ) -> Any:
        """Return the answer for the caller.

        Args:
            revision: the revision of the server.
            exchange: the request; None if the caller has gone.
        """
        if exchange is None:
            return result
        facts = exchange.context
        if self.method in _PLAIN and _asks(result):
            requests: Any = result.get("inputRequests")
            return interim_result(
                serving, exchange, requests if is_object(requests) else {}, result.get("requestState")
            )
        if self._lacking is not None and facts.modern and result.get("isError") is True:
            raise self._lacking
        if result.get("resultType") == "task":
            result = target.client.tasks.passed(result, facts.access)
        elif target.finish is not None:
            result = target.finish(result)
        result = without_server_info(result)
        if result.get("cacheScope") == "public" and _is_personal(target.client):
            result = {**result, "cacheScope": "private"}
        if revision <= facts.revision:
            return result
        return in_revision(result, self.method, facts.revision, str(self.params.get("name", "")))

    # --- Messages in between ---

    async def _pass_update(self, method: str, params: JsonObject) -> None:
        """Pass a notification about the progress of the request on, in its place."""
        assert self._context is not None
        run = run_of(self._context)
        exchange = run.request
        await exchange.room()
        exchange.notify(method, {**params, PROGRESS_TOKEN_KEY: run.context.progress_token})

    def _pass_notification(self, method: str, params: JsonObject) -> bool:
        """Pass a log message or a custom notification on that is known to belong to the request."""
        if method == "notifications/message":
            assert self._context is not None
            wanted, level = run_of(self._context).context.log_level, params.get("level")
            if wanted is None or level not in LOG_LEVELS or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
                return True
        elif method in SPECIFIED:
            return False
        self.notify(method, params)
        return True

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Send the caller a log message, if it wants messages of this level."""
        request = self._request
        if self._context is None and request is not None and request.exchange.run is not None:
            self._context = Context(request.exchange.run, request.serving)
        if self._context is not None:
            await self._context.log(message.level, message.data, logger=message.logger)

    def notify(self, method: str, params: JsonObject) -> bool:
        """Send the caller a custom notification, if that needs no waiting; return False otherwise."""
        exchange: IncomingRequest | None
        if self._request is not None:
            exchange = self._request.exchange
        else:
            assert self._context is not None
            exchange = run_of(self._context).exchange
        if exchange is None or not exchange.has_room():
            return False
        exchange.notify(method, params)
        return True

    async def visit_completed(self, id: str) -> None:
        """Tell the caller that its user has finished on a page, also after the request; it may be gone."""
        if self._context is not None:
            with suppress(ConnectionLost):
                await self._context.elicitation_complete(id)

    async def elicit(self, question: Any) -> types.ElicitResult:
        """Ask the caller's user; raises `McpError` if that is not possible."""
        answer: types.ElicitResult = await self._ask(ForwardedQuestion("elicitation/create", question))
        return answer

    async def sample(self, question: Any) -> types.CreateMessageResult:
        """Ask the caller's model; raises `McpError` if that is not possible."""
        answer: types.CreateMessageResult = await self._ask(ForwardedQuestion("sampling/createMessage", question))
        return answer

    async def roots(self) -> Sequence[types.Root]:
        """Ask the caller for its roots; raises `McpError` if that is not possible."""
        answer: Sequence[types.Root] = await self._ask(ListRoots())
        return answer

    async def _ask(self, question: Ask[Any]) -> Any:
        if self._context is None:
            raise McpError(INTERNAL_ERROR, "a server of this revision asks in its results")
        try:
            (answer,) = await self._context.ask_all(question)
        except MissingCapability as missing:
            self._lacking = missing
            raise McpError(METHOD_NOT_FOUND, str(missing)) from missing
        except (AskExpired, TooManyParked) as expired:
            raise McpError(INTERNAL_ERROR, str(expired)) from expired
        except ErrorResponse as refusal:
            raise McpError(refusal.code, refusal.message, refusal.data) from refusal
        return answer


_PLAIN: Final[Mapping[str, Sequence[str]]] = {
    "tools/call": ("name", "arguments"),
    "prompts/get": ("name", "arguments"),
    "resources/read": ("uri",),
}
"""The members of params that are the same in typed params and in JSON, apart from ``_meta``, of the requests that a
server may answer with questions."""


def given_params(exchange: IncomingRequest, params: Any) -> JsonObject:
    """Return the JSON of the params of a request: as it was received, unless middleware has handed on other params.

    Args:
        params: the typed params that the middleware has handed on.
    """
    received = exchange.params or {}
    plain = _PLAIN.get(exchange.method, ())
    if params.meta != received.get("_meta"):
        plain = ()
    if plain and all(getattr(params, member) == received.get(member) for member in plain):
        return received
    json: JsonObject = types.unstructure(params, revision=exchange.context.revision)
    return json


def _asks(result: JsonObject) -> bool:
    """Return True if the server asks something before it answers."""
    return result.get("resultType") == "input_required"


def read_question(question: JsonObject) -> JsonObject | RemoteProtocolError:
    """Return a result that asks something, with its long members decoded; the error if they are no JSON."""
    try:
        return {name: decoded(each) for name, each in question.items()}
    except Undecodable as fault:
        return RemoteProtocolError(f"the question of the server cannot be read: {fault}")


def _is_personal(client: UpstreamClient) -> bool:
    """Return True if not every caller sees the same of a server; then its results are not for everybody."""
    return client.key is not None or client.mount.visible is not None


def failure_of(failure: TrioMcpError, server: str, method: str, *, modern: bool) -> Exception:
    """Return the exception that tells a caller of a failure of a server, or of the connection to it (rule 7)."""
    if isinstance(failure, McpError):
        return failure
    if isinstance(failure, ErrorResponse):
        if failure.code == MISSING_CAPABILITY and not modern:
            needed: Any = failure.data.get("requiredCapabilities") if is_object(failure.data) else None
            return MissingCapability(failure.message, needed if is_object(needed) else {})
        return McpError(_code_for(failure, method, modern=modern), failure.message, failure.data)
    if isinstance(failure, MissingCapability | AskExpired | TooManyParked | ToolError):
        return failure
    text = f"the server {server!r} behind this gateway {_what_failed(failure, server)}"
    return ToolError(text) if method == "tools/call" else McpError(INTERNAL_ERROR, text)


def _what_failed(failure: TrioMcpError, server: str) -> str:
    """Return the predicate of a sentence about a server."""
    for kind, what in _FAILURES.items():
        if isinstance(failure, kind):
            return what
    _log.warning("server %r: %s", server, failure)
    if isinstance(failure, AuthorizationFailed):
        return "does not accept the credentials of the gateway"
    if isinstance(failure, HttpStatusError):
        return f"answered with the HTTP status {failure.status}"
    return "gave an answer that breaks the protocol"


_FAILURES: Final[Mapping[type[TrioMcpError], str]] = {
    RequestTimedOut: "did not answer in time",
    ResponseLost: "was reached, but its answer was lost",
    ConnectionLost: "is not connected, or the connection was lost before it answered",
    TaskCancelled: "has cancelled the task that this call was",
}
"""The words for failures that are not logged; the first class that fits counts."""


def _code_for(error: ErrorResponse, method: str, *, modern: bool) -> int:
    """Return the code of an error in the era of the caller."""
    if modern:
        return INVALID_PARAMS if error.code == RESOURCE_NOT_FOUND else error.code
    names_resource = method == "resources/read" and is_object(error.data) and "uri" in error.data
    return RESOURCE_NOT_FOUND if error.code == INVALID_PARAMS and names_resource else error.code


def resource_not_found(uri: str, *, modern: bool) -> McpError:
    """Return the error for a resource that no server has."""
    code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return McpError(code, f"no resource {uri!r} on the servers of this gateway", {"uri": uri})


def capabilities_for(capabilities: JsonObject, *, modern: bool) -> JsonObject:
    """Return the capabilities that a request declares to a modern server: those of the caller.

    Args:
        modern: True if the caller is modern; others take no tasks.
    """
    declared = {name: each for name, each in capabilities.items() if name in _ASKED}
    extensions: Any = capabilities.get("extensions")
    if is_object(extensions):
        passed = {id: each for id, each in extensions.items() if modern or id != TASKS}
        if passed:
            declared["extensions"] = passed
    return declared


_ASKED: Final = frozenset({"elicitation", "sampling", "roots"})


@frozen
class ForwardedQuestion(Ask[Any]):
    """A question of a server, for the caller of the gateway; its answer is checked where it arrives at the server."""

    method: str
    question: Any
    """The params of the question, typed."""
    key: str | None = None
    _id: str = field(factory=lambda: secrets.token_urlsafe(16), init=False)
    """Names the page for a legacy caller, if the server does not name it."""

    def params(self, revision: str) -> JsonObject:
        """Return the params of the question in the revision of the caller."""
        json: JsonObject = types.unstructure(self.question, revision=revision)
        params = {name: each for name, each in json.items() if name not in {"_meta", "task"}}
        if isinstance(self.question, types.ElicitRequestURLParams) and not is_modern(revision):
            params.setdefault("elicitationId", self._id)  # modern servers have none
        return params

    def lacking(self, context: Any) -> MissingCapability | None:
        """Return the capability that the caller has not declared."""
        question = self.question
        if isinstance(question, types.CreateMessageRequestParams):
            probe: Ask[Any] = Sample("", max_tokens=1, tools=question.tools, tool_choice=question.tool_choice)
        elif isinstance(question, types.ElicitRequestURLParams):
            probe = Visit(question.message, question.url)
        else:
            probe = cast("Ask[Any]", Elicit("", {"type": "object", "properties": {}}))
        return probe.lacking(context)

    def read(self, answer: Any, revision: str) -> Any:
        """Return the answer, typed."""
        kind: Any = types.CreateMessageResult if self.method == "sampling/createMessage" else types.ElicitResult
        try:
            return types.structure(answer, kind, revision=revision)
        except StructureError as fault:
            raise McpError(INVALID_PARAMS, f"the answer does not fit: {'; '.join(fault.faults)}") from None
