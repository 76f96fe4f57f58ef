"""The contract of every transport, as a base class of tests. It works with and without pytest."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence, Sized
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

import trio
from attrs import define, field

from .. import types
from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, LocalProtocolError, McpError
from ..abc import Answerer, Direction, HttpAnswerer, HttpServing, SharedService, Tap, Transport, TransportOpener
from ..client import open_client
from ..peer import NO_ORIGIN, ClientSession, IncomingRequest, Limits, MessageOrigin, OutgoingRequest, Peer
from ..server import AskingMode, Context, Server
from ..types import REVISIONS
from ..wire import CAPABILITIES_KEY, LOG_LEVEL_KEY, REVISION_KEY, JsonObject
from ._faults import cancel_everywhere, cancelled_after

__all__ = [
    "Caller",
    "Clauses",
    "ExchangeClauses",
    "TransportContract",
    "broken_clauses",
    "call",
    "check",
    "check_contract",
    "contract_server",
    "failure_of",
    "nothing_held",
    "params",
    "text_of",
    "until",
    "updates_of",
    "within",
    "working_tasks",
]


# --- Helpers of the clauses: a caller without a client above it, and checks that explain a failure ---

E = TypeVar("E", bound=BaseException)

_POLL_SECONDS = 0.005


@define(eq=False)
class Caller:
    """The client side of a transport, without a `Client` above it."""

    tap: Tap | None = None
    admission: ClientSession = field(factory=ClientSession, init=False)
    limits: Limits = field(factory=Limits, init=False)
    notifications: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)

    def answer(self, exchange: IncomingRequest) -> None:
        """Refuse the request: a server sends none to a modern client."""
        raise AssertionError(f"the server sent the request {exchange.method!r}")

    def notified(self, method: str, params: JsonObject) -> None:
        """Record the reason of the disconnect."""
        self.notifications.append((method, params))

    def asking_person(self) -> AbstractContextManager[None]:
        """Do nothing: the contract asks no user."""
        return nullcontext()

    def renewed(self) -> None:
        """Do nothing: a modern client has no session."""


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Limit the time of a clause, and explain the failure if it takes longer."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise AssertionError(f"the clause did not finish within {seconds:g} s: an event that it awaits never came")


def params(tool: str, **arguments: Any) -> JsonObject:
    """Return the params of a call that carries all request metadata and requests log messages."""
    meta: JsonObject = {REVISION_KEY: REVISIONS[-1], CAPABILITIES_KEY: {}, LOG_LEVEL_KEY: "debug"}
    return {"name": tool, "arguments": arguments, "_meta": meta}


async def call(transport: Transport, tool: str, **arguments: Any) -> JsonObject:
    """Call a tool of the contract's server and return the result."""
    async with transport.ask("tools/call", params(tool, **arguments)) as outgoing:
        return await outgoing.result()


def text_of(result: JsonObject) -> str:
    """Return the text of a result."""
    return str(result["content"][0]["text"])


def check(found: object, expected: object, what: str) -> None:
    """Raise `AssertionError` unless *found* equals *expected* and has the same types at every depth."""
    if repr(found) != repr(expected):
        raise AssertionError(f"{what}: expected {expected!r:.500}, found {found!r:.500}")


async def failure_of(attempt: Callable[[], Awaitable[object]], expected: type[E]) -> E:
    """Await *attempt*, which must raise *expected* or a subclass, and return the exception."""
    try:
        result = await attempt()
    except expected as exc:
        return exc
    except Exception as exc:
        raise AssertionError(f"expected {expected.__name__}, but the attempt raised {exc!r}") from exc
    raise AssertionError(f"expected {expected.__name__}, but the attempt returned {result!r:.500}")


async def until(fits: Callable[[], Awaitable[bool]], what: Callable[[], str], seconds: float) -> None:
    """Poll until a condition of the other side holds."""
    with trio.move_on_after(seconds):
        while not await fits():  # noqa: ASYNC110 # the other side offers no event to wait for
            await trio.sleep(_POLL_SECONDS)
        return
    raise AssertionError(f"{what()}, still after {seconds:g} s")


def nothing_held(transport: Transport) -> None:
    """Check that this end of the connection keeps no state of a request."""
    held = transport.statistics()
    check((held.outgoing, held.update_bytes), (0, 0), "requests and bytes of updates that the transport still holds")


def working_tasks() -> Counter[str]:
    """Return the names of all tasks of the program."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    return Counter(task.name for task in _below(root))


def _below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _below(child)


# --- The server of the contract, whose handlers can be observed ---


@define(eq=False)
class _State:
    """The state that the handlers of one serving share."""

    stopped: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    """True for the key of each handler that was cancelled, False for that of each other handler."""
    released: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    waiting: int = 0
    """The number of waiting handlers."""
    notified: list[str] = field(factory=list[str])
    """The methods of the notifications outside any exchange."""


@asynccontextmanager
async def _lifespan(_: Server) -> AsyncGenerator[_State]:
    yield _State()


@define(eq=False)
class _Noting:
    """A serving that records its notifications."""

    _serving: Any

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        self._serving.state.notified.append(method)
        self._serving.notified(method, params, peer, envelope)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._serving, name)


@define(eq=False)
class _ContractServer:
    _server: Server

    @property
    def revisions(self) -> Sequence[str]:
        return self._server.revisions

    @property
    def limits(self) -> Limits:
        return self._server.limits

    @asynccontextmanager
    async def serving(
        self, *, asking: AskingMode | None = None, home: Callable[[], str] = str, shared: SharedService | None = None
    ) -> AsyncGenerator[HttpServing]:
        async with self._server.serving(asking=asking, home=home, shared=shared) as serving:
            yield cast("HttpServing", _Noting(serving))

    def serving_one(self) -> AbstractAsyncContextManager[HttpServing]:
        return self._server.serving_one()


def contract_server() -> HttpAnswerer:
    """Return the server for the clauses of a `TransportContract`.

    A contract passes one to `TransportContract.served`. If the servers of a transport are separate programs, such a
    program must serve it, as in ``trio.run(serve_stdio, contract_server())`` or ``app = http_app(contract_server())``.
    """
    server = Server("contract", version="1.0", lifespan=_lifespan)
    for tool in (_echo, _count, _hang, _when_stopped, _wait, _release, _waiting, _refuse, _say, _notified, _pid):
        server.tool(name=tool.__name__.removeprefix("_"))(tool)
    return _ContractServer(server)


async def _echo(value: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[], meta={"value": value})


async def _count(steps: int, ctx: Context) -> str:
    for done in range(1, steps + 1):
        await ctx.report_progress(done, total=steps, message=f"step {done}")
    return "counted"


async def _hang(key: str, ctx: Context) -> None:
    """Report progress once, then run until cancelled."""
    with _counted(ctx):
        try:
            await ctx.report_progress(1)
            await trio.sleep_forever()
        finally:
            ctx.state.stopped[key].set()


async def _when_stopped(key: str, ctx: Context) -> str:
    await ctx.state.stopped[key].wait()
    return "stopped"


async def _wait(key: str, ctx: Context) -> str:
    with _counted(ctx):
        await ctx.state.released[key].wait()
    return key


async def _release(key: str, ctx: Context) -> None:
    ctx.state.released[key].set()


async def _waiting(ctx: Context) -> int:
    return cast("_State", ctx.state).waiting


async def _refuse() -> None:
    raise McpError(-5, "not today", {"until": "tomorrow"})


async def _say(text: str, ctx: Context) -> str:
    await ctx.log("error", text)
    return "said"


async def _notified(ctx: Context) -> list[str]:
    return list(ctx.state.notified)


async def _pid() -> int:
    return os.getpid()


@define(eq=False)
class _counted:  # noqa: N801 # a context manager
    """A context manager that counts the waiting handlers."""

    _ctx: Context

    def __enter__(self) -> None:
        self._ctx.state.waiting += 1

    def __exit__(self, *_: object) -> None:
        self._ctx.state.waiting -= 1


# --- The base of the clauses: how to connect, and how long to wait ---


class Clauses:
    """A set of clauses: test methods for the transport that `served` provides."""

    seconds: ClassVar[float] = 20.0
    """The time limit of a clause, in seconds."""
    large: ClassVar[int] = 1_000_000
    """The size of a large message, in bytes."""

    def served(self, server: Answerer) -> AbstractAsyncContextManager[TransportOpener]:
        """Serve *server* during the block, and yield an opener that can connect to it any number of times.

        A server in a separate process cannot be passed in: let it serve `contract_server()`, and ignore *server*.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `served`, which provides the transport")

    @asynccontextmanager
    async def _opener(self) -> AsyncGenerator[TransportOpener]:
        with within(self.seconds):
            async with self.served(contract_server()) as opener:
                yield opener

    @asynccontextmanager
    async def _opened(self, caller: Caller | None = None) -> AsyncGenerator[Transport]:
        async with self._opener() as opener, opener(caller or Caller()) as transport:
            yield transport

    async def _until_waiting(self, transport: Transport, count: int) -> None:
        """Wait until *count* handlers wait."""
        waiting = -1

        async def as_many() -> bool:
            nonlocal waiting
            waiting = int(text_of(await call(transport, "waiting")))
            return waiting == count

        await until(as_many, lambda: f"{waiting} handlers wait instead of {count}", self.seconds / 2)


async def updates_of(outgoing: OutgoingRequest) -> AsyncGenerator[tuple[str, Any]]:
    """Yield the updates of a request until its outcome arrives."""
    while (update := await outgoing.next_update()) is not None:
        yield update


# --- The clauses ---


class ExchangeClauses(Clauses):
    """The clauses about a single connection: results, errors, updates, notifications, concurrency and cancellation."""

    # One exchange.

    async def test_a_request_is_answered_with_its_result(self) -> None:
        """The caller gets the result, and no state of the request is left."""
        async with self._opened() as transport:
            check(text_of(await call(transport, "count", steps=3)), "counted", "the result")
            nothing_held(transport)

    async def test_values_are_transferred_unchanged(self) -> None:
        """A JSON value arrives as the same value of the same type: `1`, `1.0`, `"1"` and `true` are four values."""
        values: list[Any] = [
            0,
            1,
            1.0,
            "1",
            True,
            None,
            -1.5,
            2**53,
            "",
            "é\u2028\U0001f600\n\0",
            [],
            {},
            [[]],
            {"": {"a": [None]}},
        ]
        async with self._opened() as transport:
            for value in (*values, values):
                check((await call(transport, "echo", value=value))["_meta"]["value"], value, "the value came back")

    async def test_large_messages_are_transferred_in_both_directions(self) -> None:
        """Messages may have any size that `Limits` allows."""
        async with self._opened() as transport:
            text = "x" * self.large
            check((await call(transport, "echo", value=text))["_meta"]["value"] == text, True, "it came back whole")

    async def test_an_error_is_raised_with_its_code_message_and_data(self) -> None:
        """An error of the server is an `ErrorResponse`, and the connection stays usable."""
        async with self._opened() as transport:
            error = await failure_of(partial(call, transport, "refuse"), ErrorResponse)
            check((error.code, error.message, error.data), (-5, "not today", {"until": "tomorrow"}), "the error")
            check((await failure_of(partial(call, transport, "nothing"), ErrorResponse)).code, -32602, "its code")
            check(text_of(await call(transport, "count", steps=0)), "counted", "the next call")

    async def test_params_that_are_not_json_are_refused_before_they_are_sent(self) -> None:
        """Params that are not JSON are a `LocalProtocolError`, and the connection stays usable."""
        async with self._opened() as transport:
            for value in (float("nan"), object(), "\ud800"):
                await failure_of(partial(call, transport, "echo", value=value), LocalProtocolError)
            nothing_held(transport)
            check(text_of(await call(transport, "count", steps=0)), "counted", "the next call")

    # Updates.

    async def test_updates_arrive_in_order_and_before_the_result(self) -> None:
        """Each update arrives once, in the order of sending, and before the result."""
        async with self._opened() as transport:
            for steps in (1, 30):
                async with transport.ask("tools/call", params("count", steps=steps), wants_updates=True) as outgoing:
                    got = [update[1]["progress"] async for update in updates_of(outgoing)]
                    check(got, list(range(1, steps + 1)), "progress")
                    check(text_of(await outgoing.result()), "counted", "the result")
            nothing_held(transport)

    async def test_updates_reach_the_request_they_belong_to(self) -> None:
        """Concurrent requests do not get each other's updates."""
        async with self._opened() as transport:
            got: dict[int, list[Any]] = {}

            async def count(steps: int) -> None:
                async with transport.ask("tools/call", params("count", steps=steps), wants_updates=True) as outgoing:
                    got[steps] = [update[1]["total"] async for update in updates_of(outgoing)]

            async with trio.open_nursery() as nursery:
                for steps in (3, 5, 7):
                    nursery.start_soon(count, steps)
            check(dict(sorted(got.items())), {steps: [steps] * steps for steps in (3, 5, 7)}, "totals")

    async def test_no_updates_arrive_for_a_request_without_updates(self) -> None:
        """A caller that requests no updates gets none, and the request does not ask the server for any."""
        async with self._opened() as transport, transport.ask("tools/call", params("count", steps=3)) as outgoing:
            check([update async for update in updates_of(outgoing)], [], "updates")

    # Notifications.

    async def test_notifications_reach_the_server_in_order(self) -> None:
        """The server knows of a notification sent before a request when it answers the request."""
        async with self._opened() as transport:
            methods = [f"notifications/{number}" for number in range(5)]
            for number, method in enumerate(methods):
                await transport.notify(method, {"number": number} if number else None)
            result = await call(transport, "notified")
            check(json.loads(text_of(result)), methods, "the notifications that the server received")

    async def test_notifications_of_the_server_reach_the_client_in_order(self) -> None:
        """A notification that the server sends before its result arrives before the result."""
        caller = Caller()
        async with self._opened(caller) as transport:
            for text in ("one", "two"):
                await call(transport, "say", text=text)
                check([params["data"] for _, params in caller.notifications][-1:], [text], "the latest message")
            check([method for method, _ in caller.notifications], ["notifications/message"] * 2, "notifications")

    # Many at once.

    async def test_requests_run_concurrently_and_are_answered_in_any_order(self) -> None:
        """No request waits for an earlier one."""
        async with self._opened() as transport:
            order: list[str] = []

            async def wait(key: str) -> None:
                order.append(text_of(await call(transport, "wait", key=key)))

            async with trio.open_nursery() as nursery:
                for key in ("first", "second", "third"):
                    nursery.start_soon(wait, key)
                await self._until_waiting(transport, 3)
                for done, key in enumerate(("third", "first", "second"), 1):
                    await call(transport, "release", key=key)
                    await until(partial(_as_long_as, order, done), lambda: f"answered: {order}", self.seconds / 2)
            check(order, ["third", "first", "second"], "the order of the answers")

    async def test_many_concurrent_requests_each_get_their_own_result(self) -> None:
        """Two hundred concurrent requests get their own results."""
        async with self._opened() as transport:
            got: dict[int, Any] = {}

            async def echo(number: int) -> None:
                got[number] = (await call(transport, "echo", value=number))["_meta"]["value"]

            async with trio.open_nursery() as nursery:
                for number in range(200):
                    nursery.start_soon(echo, number)
            check(sorted(got.items()), [(number, number) for number in range(200)], "answers")
            nothing_held(transport)

    async def test_requests_in_flight_are_counted(self) -> None:
        """`statistics` counts the in-flight requests."""
        async with self._opened() as transport, trio.open_nursery() as nursery:
            for key in ("a", "b"):
                nursery.start_soon(partial(call, transport, "wait", key=key))
            await self._until_waiting(transport, 2)
            check(transport.statistics().outgoing, 2, "requests that wait")
            for key in ("a", "b"):
                await call(transport, "release", key=key)

    # Cancellation.

    async def test_leaving_a_request_stops_its_handler_and_nothing_arrives_afterwards(self) -> None:
        """A caller that leaves before the outcome cancels the handler; the server sends neither result nor error."""
        caller = Caller()
        async with self._opened(caller) as transport:
            async with transport.ask("tools/call", params("hang", key="k"), wants_updates=True) as outgoing:
                await outgoing.next_update()
            nothing_held(transport)
            check(text_of(await call(transport, "when_stopped", key="k")), "stopped", "the handler")
            check(transport.statistics().unmatched_responses, 0, "responses to the request that was left")
            check(caller.notifications, [], "notifications")

    async def test_a_cancelled_caller_stops_only_its_own_handler(self) -> None:
        """Cancelling a waiting task ends its request and no other."""
        async with self._opened() as transport, trio.open_nursery() as nursery:
            nursery.start_soon(partial(call, transport, "wait", key="other"))
            with trio.CancelScope() as scope:
                async with transport.ask("tools/call", params("hang", key="k"), wants_updates=True) as outgoing:
                    await outgoing.next_update()
                    scope.cancel()
                    await outgoing.result()
            check(scope.cancelled_caught, True, "the caller was cancelled")
            check(text_of(await call(transport, "when_stopped", key="k")), "stopped", "the handler")
            await self._until_waiting(transport, 1)
            await call(transport, "release", key="other")

    async def test_a_call_may_be_cancelled_at_every_step(self) -> None:
        """After a cancellation at any point, neither end keeps state of the call, and the next call is answered."""
        async with self._opened() as transport:

            async def attempt() -> None:
                async with transport.ask("tools/call", params("count", steps=3), wants_updates=True) as outgoing:
                    async for _ in updates_of(outgoing):
                        pass
                    await outgoing.result()

            async def check_after() -> None:
                nothing_held(transport)
                await self._until_waiting(transport, 0)

            await cancel_everywhere(attempt, check_after)


async def _as_long_as(what: Sized, length: int) -> bool:
    await trio.lowlevel.checkpoint()
    return len(what) == length


class TransportContract(ExchangeClauses):
    """The contract of an `abc.TransportOpener`: each test method is a clause, and its docstring states the clause.

    Inherit from it and implement `served`. Pytest (with pytest-trio) then collects the clauses like other tests, and
    `check_contract` runs them without pytest::

        class TestMyTransport(TransportContract):
            @asynccontextmanager
            async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
                async with my_listener(server) as address:
                    yield my_transport(address)

    If pytest-trio's `trio_mode` is off, mark the class: ``pytestmark = pytest.mark.trio``. The clauses use Trio's clock
    only for time limits, so they work with sockets, with processes and in memory.

    For a transport to another machine or process, inherit from `RemoteTransportContract`; for a `trio.abc.Stream`, from
    `StreamContract`. Each adds clauses.
    """

    # Opening and closing.

    async def test_closing_fails_the_waiting_callers(self) -> None:
        """Leaving the opener's block fails each in-flight request with its own `ConnectionClosed`."""
        errors: list[ConnectionClosed] = []

        async def wait(transport: Transport) -> None:
            errors.append(await failure_of(partial(call, transport, "wait", key="never"), ConnectionClosed))

        async with self._opener() as opener, trio.open_nursery() as nursery, opener(Caller()) as transport:
            for _ in range(3):
                nursery.start_soon(wait, transport)
            await self._until_waiting(transport, 3)
        check(len({id(error) for error in errors}), 3, "exceptions")

    async def test_after_closing_requests_fail(self) -> None:
        """After its block was left, every method of a transport raises `ConnectionClosed`."""
        async with self._opener() as opener:
            async with opener(Caller()) as transport:
                await call(transport, "count", steps=0)
            await failure_of(partial(call, transport, "count", steps=0), ConnectionClosed)
            await failure_of(partial(transport.notify, "notifications/x", None), ConnectionClosed)
            nothing_held(transport)

    async def test_disconnect_callbacks_are_called_once(self) -> None:
        """`on_disconnect` passes the reason when the connection is lost, or at once if it is already lost."""
        reasons: list[str] = []
        async with self._opener() as opener:
            async with opener(Caller()) as transport:
                for _ in range(2):
                    transport.on_disconnect(lambda reason: reasons.append(type(reason).__name__))
                await call(transport, "count", steps=0)
                check(reasons, [], "the reasons before the connection is closed")
            check(reasons, ["ConnectionClosed"] * 2, "the reasons after it is closed")
            transport.on_disconnect(lambda reason: reasons.append(type(reason).__name__))
            check(reasons, ["ConnectionClosed"] * 3, "the reasons after a late registration")

    async def test_the_exception_of_a_block_is_raised_unchanged(self) -> None:
        """An exception raised in the opener's block is not wrapped, replaced or swallowed."""
        async with self._opener() as opener:
            for error in (KeyError("mine"), ExceptionGroup("mine", [KeyError("mine")]), ConnectionLost("mine")):
                raised = await _raised_by(opener, error)
                check([id(each) for each in raised], [id(error)], f"the exceptions of a block that raised: {raised}")

    async def test_an_opener_can_connect_repeatedly(self) -> None:
        """An opener can connect twice, concurrently or in sequence. Closing one connection leaves the other open."""
        async with self._opener() as opener:
            async with opener(Caller()) as one:
                async with opener(Caller()) as other:
                    for transport in (one, other):
                        check(text_of(await call(transport, "count", steps=0)), "counted", "the answer")
                check(text_of(await call(one, "count", steps=0)), "counted", "the answer to the one still open")
            async with opener(Caller()) as again:
                check(text_of(await call(again, "count", steps=0)), "counted", "the answer to one opened later")

    async def test_no_task_outlives_its_connection(self) -> None:
        """Leaving a block ends all tasks of its connection, even if it is cancelled inside or while opening."""
        async with self._opener() as opener:

            async def attempt() -> None:
                async with opener(Caller()) as transport:
                    await call(transport, "count", steps=0)

            async def none_left() -> bool:
                await trio.lowlevel.checkpoint()
                return not working_tasks() - before

            before, point, completed = working_tasks(), 1, False
            while not completed:
                with trio.CancelScope() as scope:
                    await cancelled_after(point, attempt, scope)
                await until(none_left, lambda: f"tasks are left: {working_tasks() - before}", self.seconds / 2)
                point, completed = 2 * point, not scope.cancelled_caught

    # The view of a client.

    async def test_the_tap_sees_every_message(self) -> None:
        """The tap of a client gets each message in order, as JSON without the newline."""
        seen: list[tuple[Direction, Any]] = []
        async with (
            self._opened(Caller(lambda direction, line: seen.append((direction, json.loads(line))))) as transport,
            transport.ask("tools/call", params("count", steps=2), wants_updates=True) as outgoing,
        ):
            await outgoing.result()
        messages = [(direction, message.get("method")) for direction, message in seen]
        progress = ("received", "notifications/progress")
        check(messages, [("sent", "tools/call"), progress, progress, ("received", None)], "messages")

    async def test_a_client_works_in_every_revision(self) -> None:
        """A `Client` negotiates each revision and works: lists, calls, progress, errors, cancellation."""
        for revision in types.REVISIONS:
            async with self._opener() as opener, open_client(opener, revision=revision) as client:
                check(client.revision, revision, "the revision")
                names = [tool.name async for tool in client.tools()]
                check("echo" in names, True, "the tools are listed")
                async with client.open_call("count", {"steps": 3}) as counting:
                    check([update.progress async for update in counting.updates], [1, 2, 3], "progress")
                check(
                    (await failure_of(partial(client.call_tool, "refuse"), ErrorResponse)).code, -5, "the error's code"
                )
                async with client.open_call("hang", {"key": "k"}) as hanging:
                    await anext(hanging.updates)
                stopped = await client.call_tool("when_stopped", {"key": "k"})
                check(text_of(types.unstructure(stopped)), "stopped", "the handler")


async def _raised_by(opener: TransportOpener, error: Exception) -> list[Exception]:
    """Return the exception that leaves a block in which *error* is raised; None if none does."""
    raised: list[Exception] = []

    async def attempt() -> None:
        async with opener(Caller()) as transport:
            await call(transport, "count", steps=0)
            raise error

    try:
        await attempt()
    except Exception as exc:  # noqa: BLE001 # the caller compares it
        raised.append(exc)
    return raised


# --- Running a contract without pytest ---


async def broken_clauses(contract: TransportContract) -> dict[str, Exception]:
    """Run every clause of *contract*, without pytest; return the exception of each broken clause by its method name.

    A clause is a method whose name begins with ``test_``, also one that a subclass adds.
    """
    broken: dict[str, Exception] = {}
    for name in sorted(name for name in dir(contract) if name.startswith("test_")):
        try:
            await getattr(contract, name)()
        except Exception as exc:  # noqa: BLE001 # any exception breaks the clause
            broken[name] = exc
    return broken


async def check_contract(contract: TransportContract) -> None:
    """Run every clause of *contract*, one after the other.

    Raises:
        ExceptionGroup: clauses are broken. It holds an exception for each, with the name of the clause as a note.
    """
    broken = await broken_clauses(contract)
    for name, exc in broken.items():
        exc.add_note(f"clause {name.removeprefix('test_')}")
    if broken:
        raise ExceptionGroup(f"{type(contract).__name__} breaks {len(broken)} clauses", list(broken.values()))
