"""The tasks of a connection that run the application, their mailboxes, and the lifespan of the application.

`AppTasks` replaces Hypercorn's `TaskGroup`, because there:

- an application that does not read the body of its request can deadlock with its own response;
- a client that sends requests and cancels them at once can have any number of them running;
- an exception of the application other than `Exception`, such as SystemExit, ends the server;
- `receive` in a cancelled scope, as Starlette calls it, never returns an event that is available.

`lifespan_of` replaces Hypercorn's lifespan, which takes an application that fails at startup for one without a
lifespan. Here an application has no lifespan if it fails, or returns, before it calls `receive`.

Specification: https://asgi.readthedocs.io/en/latest/specs/lifespan.html
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeAlias

import trio

from ...._util import failure_of, has_cancelled, owned_nursery
from ..server import CUT_EXTENSION, AsgiApp, AsgiMessage, Scope

__all__ = ["AppTasks", "Mailbox", "contained", "lifespan_of"]

_log = logging.getLogger("trio_mcp.transports")

_SendToHypercorn: TypeAlias = Callable[[AsgiMessage | None], Awaitable[None]]
"""None reports that the application has returned."""

_MAILBOX_BYTES = 64 * 2**10
"""The size of unreceived events above which the client has to wait."""
_EVENT_BYTES = 256
"""The approximate cost of an event besides its payload."""
_MAX_REQUESTS = 200
"""The maximum number of running requests of one connection. HTTP/2 has at most 100 open; the others were cancelled."""


@contextmanager
def contained(report: Callable[[Exception], None]) -> Generator[None]:
    """Pass everything that one application or connection raises to *report*, except a cancellation of this task."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
        report(failure_of(error, "the application", _log))


class Mailbox:
    """The events that one call of the application receives. Bounded: `put` waits while it is full."""

    def __init__(self) -> None:
        self._events: deque[AsgiMessage] = deque()
        self._bytes = 0
        self._disconnect: AsgiMessage | None = None
        self._has_reported_disconnect = False
        self._is_closed = False
        self._arrived = trio.lowlevel.ParkingLot()
        self._taken = trio.lowlevel.ParkingLot()

    @property
    def is_disconnected(self) -> bool:
        """True if the client has left."""
        return self._disconnect is not None

    async def put(self, event: AsgiMessage) -> None:
        """Add an event. A disconnect event never waits, and events after it are dropped."""
        if event["type"].endswith(".disconnect"):
            self.end(event)
        while self._bytes >= _MAILBOX_BYTES and self._disconnect is None and not self._is_closed:
            await self._taken.park()
        if self._disconnect is None and not self._is_closed:
            if self._events and not event.get("more_body", True) and not event["body"]:
                self._events[-1]["more_body"] = False  # the last piece can carry the end of the body
            else:
                self._events.append(event)
                self._bytes += _cost(event)
        if self._arrived:
            self._arrived.unpark_all()

    def end(self, disconnect: AsgiMessage) -> None:
        """Let the application receive that the client has left, after all events that were put before."""
        self._disconnect = self._disconnect or disconnect
        self._taken.unpark_all()
        self._arrived.unpark_all()

    async def receive(self) -> AsgiMessage:
        """Return the next event; at the end, return the disconnect event any number of times.

        An available event is returned without a checkpoint, also in a cancelled scope, except for repetitions.
        """
        if self._has_reported_disconnect:
            await trio.lowlevel.checkpoint()  # so a loop in the application can be cancelled
        while not self._events and self._disconnect is None:
            await self._arrived.park()
        if not self._events:
            assert self._disconnect is not None
            self._has_reported_disconnect = True
            return self._disconnect
        event = self._events.popleft()
        self._bytes -= _cost(event)
        if self._taken:
            self._taken.unpark_all()
        return event

    def close(self) -> None:
        """Receive no more; tasks that wait in `put` continue."""
        self._is_closed = True
        self._events.clear()
        self._taken.unpark_all()


def _cost(event: AsgiMessage) -> int:
    return _EVENT_BYTES + len(event.get("body") or event.get("bytes") or event.get("text") or b"")


class AppTasks:
    """Runs the application in *nursery*, once for each request of a connection. Hypercorn calls it a task group.

    An exception of the application, of any class, is logged and ends that request only. Cancellation propagates.

    Args:
        nursery: the tasks of the connection.
        app: the application.
        cut: breaks off the response of a request whose client does not read. The application gets it in the scope.
    """

    def __init__(self, nursery: trio.Nursery, app: AsgiApp, cut: Callable[[Mailbox], None]) -> None:
        self._nursery = nursery
        self._app = app
        self._cut = cut
        self._mailboxes: dict[Mailbox, AsgiMessage] = {}
        """The mailboxes of the running requests, each with the event that reports that the client has left."""
        self._ended = trio.lowlevel.ParkingLot()

    def spawn(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run a task of Hypercorn."""
        self._nursery.start_soon(function, *arguments)

    async def spawn_app(
        self,
        app: object,  # noqa: ARG002  # the signature is Hypercorn's
        config: object,  # noqa: ARG002  # the signature is Hypercorn's
        scope: Scope,
        send: _SendToHypercorn,
    ) -> Callable[[AsgiMessage], Awaitable[None]]:
        """Run the application for one request; return the function that takes its events."""
        while len(self._mailboxes) >= _MAX_REQUESTS:
            await self._ended.park()
        mailbox = Mailbox()
        scope.setdefault("extensions", {})[CUT_EXTENSION] = partial(self._cut, mailbox)
        self._mailboxes[mailbox] = {"type": f"{scope['type']}.disconnect"}

        async def send_to_client(event: AsgiMessage | None) -> None:
            """Send, and only then be cancelled: cancellation in between would leave a message half processed."""
            await send(event)
            if mailbox.is_disconnected:
                await trio.lowlevel.checkpoint()  # nothing was sent, so there was no checkpoint yet
            else:
                await trio.lowlevel.checkpoint_if_cancelled()

        self._nursery.start_soon(self._run, scope, mailbox, send_to_client, name=_name(scope))
        return mailbox.put

    async def wait_ended(self, mailbox: Mailbox) -> None:
        """Wait until the application has ended for a request."""
        while mailbox in self._mailboxes:
            await self._ended.park()

    def end(self) -> None:
        """Tell all running requests that the client has left. Hypercorn forgets that for a refused WebSocket."""
        for mailbox, disconnect in self._mailboxes.items():
            mailbox.end(disconnect)

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program, not for one request
    async def _run(self, scope: Scope, mailbox: Mailbox, send: _SendToHypercorn) -> None:
        name = _name(scope)
        try:
            with contained(lambda failure: _log.error("the application failed at %s", name, exc_info=failure)):
                await self._app(scope, mailbox.receive, send)
        finally:
            mailbox.close()
            del self._mailboxes[mailbox]
            self._ended.unpark_all()
        await send(None)  # a missing response becomes 500, and an incomplete one is cut off


def _name(scope: Scope) -> str:
    return f"{scope.get('method', scope['type'])} {scope['path']!r}"


@asynccontextmanager
async def lifespan_of(app: AsgiApp) -> AsyncGenerator[dict[str, Any]]:
    """Start the application; at the end of the block, shut it down. The block gets the state for its requests.

    Raises:
        BaseException: the unchanged exception of the application at startup or shutdown.
        RuntimeError: the application has reported a failure, and raised nothing.

    A failure between startup and shutdown is logged. Cancellation, or an exception in the block, cancels the
    application.
    """
    lifespan = _Lifespan(app)
    try:
        async with owned_nursery() as nursery:
            nursery.start_soon(lifespan.run, name="the application's lifespan")
            await lifespan.start()
            yield lifespan.state
            await lifespan.shut_down()
    finally:
        lifespan.report()


_ANSWERS = {f"{stage}.{result}" for stage in ("startup", "shutdown") for result in ("complete", "failed")}


class _Lifespan:
    def __init__(self, app: AsgiApp) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._phase = ""
        """The lifespan event that was sent last, `startup` or `shutdown`; empty before."""
        self._answer: str | None = None
        self._failure_message = ""
        self._error: BaseException | None = None
        self._has_ended = False
        self._is_awaited = False
        self._changed = trio.lowlevel.ParkingLot()
        self._ending = trio.Event()

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program
    async def run(self) -> None:
        """Run the application; the body of its task."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._receive, self._send)
        except BaseException as error:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            failure = failure_of(error, "the application", _log)
            self._store_error(failure if has_cancelled(error) else error)
        finally:
            self._has_ended = True
            self._changed.unpark_all()

    async def start(self) -> None:
        """Wait until the application is ready."""
        await self._answered()
        if self._error is not None and not self._phase:
            _log.info("the application has no lifespan", exc_info=self._error)
            self._error = None
        self._raise_failure()

    async def shut_down(self) -> None:
        """Tell the application to shut down, and wait until it has."""
        if not self._has_ended:
            self._answer = None
            self._ending.set()
            await self._answered()
            self._raise_failure()

    async def _answered(self) -> None:
        self._is_awaited = True
        try:
            while self._answer is None and not self._has_ended:
                await self._changed.park()
        finally:
            self._is_awaited = False

    def _store_error(self, error: BaseException) -> None:
        """Store an exception for the waiting task, which raises it."""
        self._error = error
        if not self._is_awaited:
            self.report()

    def report(self) -> None:
        """Log an exception that no task will raise."""
        if self._error is not None:
            _log.error("the application failed outside its requests", exc_info=self._error)
            self._error = None

    def _raise_failure(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback refers to this frame
        if self._answer is not None and self._answer.endswith("failed"):
            raise RuntimeError(f"the application says that its {self._phase} failed: {self._failure_message}")

    async def _receive(self) -> AsgiMessage:
        if self._phase == "":
            await trio.lowlevel.checkpoint()
            self._phase = "startup"
        else:
            await self._ending.wait()
            if self._phase == "shutdown":
                await trio.sleep_forever()  # there are no more events
            self._phase = "shutdown"
        return {"type": f"lifespan.{self._phase}"}

    async def _send(self, event: AsgiMessage) -> None:
        answer = str(event["type"]).removeprefix("lifespan.")
        if answer not in _ANSWERS:
            raise ValueError(f"{event['type']!r} is not a valid event of a lifespan")
        self._answer = answer
        self._failure_message = str(event.get("message", ""))
        self._changed.unpark_all()
