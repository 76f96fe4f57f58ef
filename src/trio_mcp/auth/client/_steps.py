"""Authorization flows: steps as data, and the code that runs them on Trio.

A flow is a generator without I/O. It yields a step, and receives its result, or the exception that the step raised. The
return value of the generator is the result of the flow. `drive` runs a flow. `SharedTask` runs work that any number of
requests wait for.

================ ====================================== ==============================
step             result                                 exception
================ ====================================== ==============================
`HttpCall`       `HttpReply`                            `CallFailed`, `Unreadable`
`PickRedirect`   the redirect URI, a string             `AuthorizationFailed`
`BrowserStep`    the URL of the redirect, a string      `AuthorizationFailed`
`Load`           the value, or None                     any exception of the storage
`Swap`           True if the value was replaced         any exception of the storage
`ReadClock`      the time, a float as `time.time`       none
`Pause`          None                                   none
`Await`          the result of the function             any exception of the function
================ ====================================== ==============================
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    contextmanager,
    nullcontext,
)
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

import trio
from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from ..._util import failure_of
from ...abc import HttpCall, HttpReply
from .._urls import read_url

if TYPE_CHECKING:
    from ...abc import Fetch, TokenStorage
    from ._browser import BrowserAgent

__all__ = [
    "Await",
    "BrowserStep",
    "CallFailed",
    "ConnectionServices",
    "Flow",
    "FlowServices",
    "HttpCall",
    "HttpReply",
    "Load",
    "Pause",
    "PickRedirect",
    "ReadClock",
    "SharedTask",
    "Step",
    "Swap",
    "TaskOutcome",
    "Unreadable",
    "call",
    "drive",
    "failing_as_authorization",
    "get_json_from",
    "now",
    "post_form",
    "trusting",
]

_log = logging.getLogger("trio_mcp.auth")

T = TypeVar("T")


class CallFailed(Exception):
    """A request to another URL than the MCP server's failed. The message says why."""


class Unreadable(CallFailed):
    """The failure of a call whose response can never be read: it is too large, or a redirect that is not followed."""


@frozen
class PickRedirect:
    """Choose the redirect URI, and be ready to receive the browser there."""

    preferred: str | None
    """The redirect URI that the authorization server knows already; None if it knows none yet."""


@frozen
class BrowserStep:
    """Send the user to an authorization server, and wait until the browser is redirected back."""

    url: str = field(repr=False)
    redirect_uri: str


@frozen
class Load:
    """Read a value of the storage."""

    key: str


@frozen
class Swap:
    """A step that replaces a value of the token storage, if it has not changed."""

    key: str
    old: str | None = field(repr=False)
    new: str | None = field(repr=False)


@frozen
class ReadClock:
    """Read the clock."""


@frozen
class Pause:
    """Wait, because another process is working on the same record."""

    seconds: float


@frozen
class Await:
    """Call an async function of the application."""

    function: Callable[[], Awaitable[Any]]


Step: TypeAlias = "HttpCall | PickRedirect | BrowserStep | Load | Swap | ReadClock | Pause | Await"
Flow: TypeAlias = Generator[Step, Any, T]


def call(request: HttpCall) -> Flow[HttpReply]:
    """Send a request; raises `CallFailed`."""
    reply: HttpReply = yield request
    return reply


def get_json_from(url: str, *, named_by: Literal["user", "server"], headers: Mapping[str, str]) -> Flow[HttpReply]:
    """Request a JSON document; raises `CallFailed`."""
    fields = {"accept": "application/json", **headers}
    return (yield from call(HttpCall(method="GET", url=url, headers=fields, named_by=named_by)))


def post_form(
    url: str, form: Mapping[str, str], headers: Mapping[str, str], *, named_by: Literal["user", "server"] = "server"
) -> Flow[HttpReply]:
    """Post a form, and expect a JSON response; raises `CallFailed`."""
    fields = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", **headers}
    body = urlencode(form).encode()
    return (yield from call(HttpCall(method="POST", url=url, headers=fields, body=body, named_by=named_by)))


def now() -> Flow[float]:
    """Return the time, as `time.time` counts."""
    time: float = yield ReadClock()
    return time


@frozen(kw_only=True)
class FlowServices:
    """The services that flows use."""

    fetch: Fetch
    storage: TokenStorage = field(repr=False)
    clock: Callable[[], float]
    agent: Callable[[], AbstractAsyncContextManager[BrowserAgent]]
    """Opens the browser agent, for one flow."""
    asking_person: Callable[[], AbstractContextManager[None]]
    """Entered while the user signs in."""


async def drive(flow: Flow[T], services: FlowServices) -> T:
    """Run a flow to its end; return its result, or raise its exception.

    The browser agent is opened when the flow first needs it, and closed at its end.

    Cancellation: the generator is closed at its current step.
    """
    async with AsyncExitStack() as opened:
        runner = _StepRunner(services, opened)
        try:
            step = next(flow)
            while True:
                try:
                    outcome = await runner.do(step)
                except Exception as error:  # noqa: BLE001 # the flow handles the exception, or raises it
                    step = flow.throw(error)
                else:
                    step = flow.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()


@define(eq=False)
class _StepRunner:
    """Runs the steps of one flow."""

    _services: FlowServices
    _opened: AsyncExitStack
    _agent: BrowserAgent | None = field(default=None, init=False)

    async def do(self, step: Step) -> Any:
        services = self._services
        match step:
            case HttpCall():
                return await services.fetch(step)
            case Load(key):
                return await services.storage.load(key)
            case Swap(key, old, new):
                return await services.storage.swap(key, old, new)
            case ReadClock():
                return services.clock()
            case Pause(seconds):
                return await trio.sleep(seconds)
            case Await(function):
                return await function()
            case _:
                return await self._run_browser_step(step)

    async def _run_browser_step(self, step: PickRedirect | BrowserStep) -> str:
        if self._agent is None:
            self._agent = await self._opened.enter_async_context(self._services.agent())
        if isinstance(step, PickRedirect):
            return await self._agent.pick_redirect(step.preferred)
        with self._services.asking_person():
            return await self._agent.sign_in(step.url, step.redirect_uri)


def trusting(fetch: Fetch, trusted_hosts: Sequence[str]) -> Fetch:
    """Return a `Fetch` that may reach *trusted_hosts* in any network.

    Requests to these hosts count as named by the user, even if a server has named the URL.

    Args:
        fetch: makes the requests.
        trusted_hosts: names of hosts, without port.
    """
    trusted = {host.lower().strip("[]") for host in trusted_hosts}

    async def fetch_trusting(call: HttpCall) -> HttpReply:
        parts = read_url(call.url)
        is_trusted = parts is not None and parts.host in trusted
        return await fetch(evolve(call, named_by="user") if is_trusted else call)

    return fetch_trusting


@frozen(eq=False)
class ConnectionServices:
    """The services of a connection that renewals of tokens use."""

    fetch: Fetch
    nursery: trio.Nursery
    asking_person: Callable[[], AbstractContextManager[None]]


@frozen
class TaskOutcome(Generic[T]):
    """The result of a shared task."""

    value: T


_Outcome: TypeAlias = "TaskOutcome[T] | AuthorizationFailed | None"


class _Abandoned(Exception):
    """No request waits for the result any more."""


@contextmanager
def failing_as_authorization() -> Generator[None]:
    """Turn any exception into `AuthorizationFailed`: storages and functions of the application raise anything."""
    try:
        yield
    except (AuthorizationFailed, _Abandoned):
        raise
    except BaseException as exc:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
        failure = failure_of(exc, "the application", _log)
        raise AuthorizationFailed(f"authorization failed with {type(exc).__name__}") from failure


@define(eq=False)
class SharedTask(Generic[T]):
    """A task that any number of requests wait for, although none of them runs it.

    1. It runs in the nursery of the connection whose request has started it. Waiting requests may be cancelled; the
       task continues.
    2. While the user is asked, each waiting connection reports it, in the task of its own request.
    3. The user is asked only while a request waits. If no request waits any more, or if the connection of the task
       closes, there is no outcome, and a later request starts another task.
    """

    _outcome: _Outcome[T] = field(default=None, init=False)
    _is_done: bool = field(default=False, init=False)
    _is_asking: bool = field(default=False, init=False)
    _waiting: int = field(default=0, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _person: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Surrounds the work that needs the user."""

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program
    async def run(self, work: Callable[[], Awaitable[T]], on_end: Callable[[], None]) -> None:
        """Run the work; the caller starts this method as a task.

        Args:
            work: an async function.
            on_end: a synchronous function, called when the work has ended in any way.
        """
        try:
            with failing_as_authorization():
                self._outcome = TaskOutcome(await work())
        except AuthorizationFailed as failure:
            self._outcome = failure
        except _Abandoned:
            pass
        finally:
            on_end()
            self._is_done = True
            self._notify()

    async def wait(self, connection: ConnectionServices) -> _Outcome[T]:
        """Wait for the outcome, and return it; None if there is none (rule 3).

        Args:
            connection: its timeouts are paused while the user is asked.
        """
        self._waiting += 1
        try:
            while not self._is_done:
                with connection.asking_person() if self._is_asking else nullcontext():
                    await self._changed.wait()
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._person.cancel()
        return self._outcome

    @contextmanager
    def with_person(self) -> Generator[None]:
        """Return a context for work that needs the user; it is cancelled when no request waits. Enter it once."""
        with self._person:
            yield
            return
        raise _Abandoned

    @contextmanager
    def asking_person(self) -> Generator[None]:
        """Return a context in which the user is being asked."""
        self._is_asking = True
        self._notify()
        try:
            yield
        finally:
            self._is_asking = False
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
