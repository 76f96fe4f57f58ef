"""What a flow of authorization asks for, as data: it does no I/O of its own, so that any driver can run it.

A flow is a generator. It yields a step and is sent its outcome, or has the error of the step thrown into it; what it
returns is what comes of it. `drive` runs flows on Trio.

================ =============================================== ====================================
step             outcome                                         error
================ =============================================== ====================================
`HttpCall`       `HttpReply`                                     `CallFailed`, `Unreadable`
`PickRedirect`   the redirect URI, a text                        `AuthorizationFailed`
`BrowserStep`          the URL that the browser was led to, a text     `AuthorizationFailed`
`Load`           the value, or None                              what the storage raises
`Swap`           whether it was swapped                          what the storage raises
`ReadClock`            the time, a float as `time.time` counts         none
`Pause`          None                                            none
`Await`          what the function returns                       what it raises
================ =============================================== ====================================
"""

from __future__ import annotations

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
from ..._util import owned_nursery
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
    "outlast",
    "post_form",
    "trusting",
]

T = TypeVar("T")


class CallFailed(Exception):
    """A request beside the protocol could not be made, or its response could not be read. The text says why."""


class Unreadable(CallFailed):
    """There is nothing that could be read, now or later: too much, or a redirect to where none is followed."""


@frozen
class PickRedirect:
    """Have a place for the browser to come back to."""

    preferred: str | None
    """The redirect URI that an authorization server knows already; None where there is none yet."""


@frozen
class BrowserStep:
    """Have a person visit an authorization server, and wait until the browser comes back."""

    url: str = field(repr=False)
    redirect_uri: str


@frozen
class Load:
    """Read a value of the storage."""

    key: str


@frozen
class Swap:
    """Change a value of the storage, if it is still what it was."""

    key: str
    old: str | None = field(repr=False)
    new: str | None = field(repr=False)


@frozen
class ReadClock:
    """Look at the clock."""


@frozen
class Pause:
    """Wait a little, because somebody else is at work."""

    seconds: float


@frozen
class Await:
    """Call an asynchronous function of the application's."""

    function: Callable[[], Awaitable[Any]]


Step: TypeAlias = "HttpCall | PickRedirect | BrowserStep | Load | Swap | ReadClock | Pause | Await"
Flow: TypeAlias = Generator[Step, Any, T]


def call(request: HttpCall) -> Flow[HttpReply]:
    """Make a request; raises `CallFailed`."""
    reply: HttpReply = yield request
    return reply


def get_json_from(url: str, *, named_by: Literal["user", "server"], headers: Mapping[str, str]) -> Flow[HttpReply]:
    """Ask for a JSON document; raises `CallFailed`."""
    fields = {"accept": "application/json", **headers}
    return (yield from call(HttpCall(method="GET", url=url, headers=fields, named_by=named_by)))


def post_form(
    url: str, form: Mapping[str, str], headers: Mapping[str, str], *, named_by: Literal["user", "server"] = "server"
) -> Flow[HttpReply]:
    """Post a form, whose answer is JSON, to an address that metadata, or the user, has named; raises `CallFailed`."""
    fields = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", **headers}
    body = urlencode(form).encode()
    return (yield from call(HttpCall(method="POST", url=url, headers=fields, body=body, named_by=named_by)))


def now() -> Flow[float]:
    """Return the time, as `time.time` counts."""
    time: float = yield ReadClock()
    return time


# Runs a flow of authorization on Trio: does what each of its steps asks for, and tells it what came of that.
#
# Called by the flights of the keepers; calls the transport's HTTP client, the storage and what leads a person.


@frozen(kw_only=True)
class FlowServices:
    """What flows act upon."""

    fetch: Fetch
    storage: TokenStorage = field(repr=False)
    clock: Callable[[], float]
    agent: Callable[[], AbstractAsyncContextManager[BrowserAgent]]
    """Opens what leads a person, for one flow."""
    asking_person: Callable[[], AbstractContextManager[None]]
    """Entered while a person is visiting."""


async def drive(flow: Flow[T], services: FlowServices) -> T:
    """Run a flow to its end; return what it returns, and raise what it raises.

    What leads a person is opened when the flow first needs it, and closed at its end.

    Cancellation: the flow is closed where it stands; it is told nothing.
    """
    async with AsyncExitStack() as opened:
        runner = _StepRunner(services, opened)
        try:
            step = next(flow)
            while True:
                try:
                    outcome = await runner.do(step)
                except Exception as error:  # noqa: BLE001 # it is the flow's, which raises what it does not handle
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
    """Does the steps of one flow."""

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


async def outlast(work: Callable[[], Awaitable[None]], *, seconds: float, grace: float) -> None:
    """Do work that had better not be torn: a cancellation ends it only after a while.

    Args:
        work: an async function.
        seconds: how long it may take.
        grace: how long it may take after a cancellation.

    Raises:
        trio.TooSlowError: it has taken too long.
    """
    async with owned_nursery() as nursery:
        with trio.fail_after(seconds, shield=True) as scope:
            nursery.start_soon(_hurry, scope, grace)
            await work()


async def _hurry(scope: trio.CancelScope, grace: float) -> None:
    try:
        await trio.sleep_forever()
    finally:
        scope.deadline = min(scope.deadline, trio.current_time() + grace)


# Hosts that a user trusts by name count as named by the user, whoever leads there.


def trusting(fetch: Fetch, trusted_hosts: Sequence[str]) -> Fetch:
    """Return what makes the requests that *fetch* makes, and may make them to *trusted_hosts* in any network.

    Args:
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
    """What a connection lends to the work on tokens."""

    fetch: Fetch
    nursery: trio.Nursery
    asking_person: Callable[[], AbstractContextManager[None]]


@frozen
class TaskOutcome(Generic[T]):
    """What has come of a flight."""

    value: T


_Outcome: TypeAlias = "TaskOutcome[T] | AuthorizationFailed | None"


class _Abandoned(Exception):
    """Nobody waits any more."""


@contextmanager
def failing_as_authorization() -> Generator[None]:
    """Turn whatever is raised into `AuthorizationFailed`: storages and functions of the application raise anything."""
    try:
        yield
    except (AuthorizationFailed, _Abandoned):
        raise
    except Exception as exc:
        raise AuthorizationFailed(f"authorization failed, because something raised {type(exc).__name__}") from exc


@define(eq=False)
class SharedTask(Generic[T]):
    """One piece of work, from its first step to its outcome."""

    _outcome: _Outcome[T] = field(default=None, init=False)
    _is_done: bool = field(default=False, init=False)
    _is_asking: bool = field(default=False, init=False)
    _waiting: int = field(default=0, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _person: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Around what a person takes part in."""

    async def run(self, work: Callable[[], Awaitable[T]], on_end: Callable[[], None]) -> None:
        """Do the work; to be a task of its own.

        Args:
            work: an async function.
            landing: called when it has ended, in whatever way; synchronous.
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
        """Return the outcome when it is there; None where there is none (rule 3).

        Args:
            connected: whose time limits stand still while a person is being asked.
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
        """Return a block in which a person takes part: it is left when nobody waits any more; to be entered once."""
        with self._person:
            yield
            return
        raise _Abandoned

    @contextmanager
    def asking_person(self) -> Generator[None]:
        """Return a block in which a person is being asked."""
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
