"""The tasks of one connection that run the application, and the mailboxes that it receives from.

Stands in for Hypercorn's `TaskGroup`, because there:

- an application that does not read its request's body can deadlock with its own answer;
- a client that opens requests and takes them back at once has as many running as it likes;
- an exception of the application's other than `Exception`, such as SystemExit, ends the server;
- what is asked of `receive` in a cancelled scope, as Starlette does, is never answered, though it is there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias, cast

import trio

from ...._util import owned_nursery
from ..server import AsgiApp, AsgiMessage, Scope

__all__ = ["AppTasks", "Mailbox", "contained", "lifespan_of"]

_log = logging.getLogger("trio_mcp.transports")

_SendToHypercorn: TypeAlias = Callable[[AsgiMessage | None], Awaitable[None]]
"""None says that the application has returned."""

_MAILBOX_BYTES = 64 * 2**10
"""What an application has not received yet before its client is kept waiting."""
_EVENT_BYTES = 256
"""Roughly what an event costs besides its payload."""
_MAX_REQUESTS = 200
"""Requests of one connection that may run at once. HTTP/2 has at most 100 open; the others were taken back."""


@contextmanager
def contained(report: Callable[[BaseException], None]) -> Generator[None]:
    """Hand what concerns one application or one connection alone to *report*; let interrupts and cancellation pass.

    An attempt to exit the process is contained: it does not speak for the server.
    """
    try:
        yield
    except BaseException as error:
        failure, rest = _split(error)
        if failure is not None:
            report(failure)
        if rest is error:
            raise
        if rest is not None:
            raise rest from None  # what it came with has been reported


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    kinds = (Exception, SystemExit)
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(kinds)
    return (error, None) if isinstance(error, kinds) else (None, error)


class Mailbox:
    """What one call of the application receives. Bounded: `put` waits while too much lies in it."""

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
        """Whether the client is gone."""
        return self._disconnect is not None

    async def put(self, event: AsgiMessage) -> None:
        """Add an event. The one that says that the client is gone never waits; what comes after it is dropped."""
        if event["type"].endswith(".disconnect"):
            self.end(event)
        while self._bytes >= _MAILBOX_BYTES and self._disconnect is None and not self._is_closed:
            await self._taken.park()
        if self._disconnect is None and not self._is_closed:
            if self._events and not event.get("more_body", True) and not event["body"]:
                self._events[-1]["more_body"] = False  # the end of a body can be said with its last piece
            else:
                self._events.append(event)
                self._bytes += _cost(event)
        if self._arrived:
            self._arrived.unpark_all()

    def end(self, disconnect: AsgiMessage) -> None:
        """Let the application receive that the client is gone, after all that has been put."""
        self._disconnect = self._disconnect or disconnect
        self._taken.unpark_all()
        self._arrived.unpark_all()

    async def receive(self) -> AsgiMessage:
        """Return the next event; at the end, any number of times, that the client is gone.

        What is there is returned at once, and in a cancelled scope, too, but for repetitions.
        """
        if self._has_reported_disconnect:
            await trio.lowlevel.checkpoint()  # an application that asks for ever can be cancelled
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
        """Receive no more; whoever waits to put something in goes on."""
        self._is_closed = True
        self._events.clear()
        self._taken.unpark_all()


def _cost(event: AsgiMessage) -> int:
    return _EVENT_BYTES + len(event.get("body") or event.get("bytes") or event.get("text") or b"")


class AppTasks:
    """Runs the application in *nursery*, once for each request of a connection. Hypercorn calls it a task group.

    What the application raises is logged and costs that request alone. KeyboardInterrupt and cancellation pass.
    """

    def __init__(self, nursery: trio.Nursery, app: AsgiApp) -> None:
        self._nursery = nursery
        self._app = app
        self._mailboxes: dict[Mailbox, AsgiMessage] = {}
        """Of the requests that are running, each with what says that its client is gone."""
        self._ended = trio.lowlevel.ParkingLot()

    def spawn(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run a task of Hypercorn's."""
        self._nursery.start_soon(function, *arguments)

    async def spawn_app(
        self,
        app: object,  # noqa: ARG002  # the signature is Hypercorn's
        config: object,  # noqa: ARG002  # likewise
        scope: Scope,
        send: _SendToHypercorn,
    ) -> Callable[[AsgiMessage], Awaitable[None]]:
        """Run the application for one request; return what takes the events it shall receive."""
        while len(self._mailboxes) >= _MAX_REQUESTS:
            await self._ended.park()
        mailbox = Mailbox()
        self._mailboxes[mailbox] = {"type": f"{scope['type']}.disconnect"}

        async def send_to_client(event: AsgiMessage | None) -> None:
            """Send, and then be cancelled: not in between, where half would be done."""
            await send(event)
            if mailbox.is_disconnected:
                await trio.lowlevel.checkpoint()  # nothing was sent, so nothing has waited for anything
            else:
                await trio.lowlevel.checkpoint_if_cancelled()

        self._nursery.start_soon(self._run, scope, mailbox, send_to_client, name=_name(scope))
        return mailbox.put

    def end(self) -> None:
        """Tell all that is running that its client is gone. Hypercorn forgets it of a WebSocket that it has refused."""
        for mailbox, disconnect in self._mailboxes.items():
            mailbox.end(disconnect)

    async def _run(self, scope: Scope, mailbox: Mailbox, send: _SendToHypercorn) -> None:
        name = _name(scope)
        try:
            with contained(lambda failure: _log.error("the application failed at %s", name, exc_info=failure)):
                await self._app(scope, mailbox.receive, send)
        finally:
            mailbox.close()
            del self._mailboxes[mailbox]
            self._ended.unpark_all()
        await send(None)  # a request without an answer gets 500, and half an answer is cut off


def _name(scope: Scope) -> str:
    return f"{scope.get('method', scope['type'])} {scope['path']!r}"


# The lifespan of an ASGI application, around the time in which it is served.
#
# Stands in for Hypercorn's, which takes an application that fails at its start for one that knows no lifespan. Here it
# is one if it fails, or returns, before it asks what there is to do.
#
# Specification: https://asgi.readthedocs.io/en/latest/specs/lifespan.html


@asynccontextmanager
async def lifespan_of(app: AsgiApp) -> AsyncGenerator[dict[str, Any]]:
    """Start the application; at the end of the block, shut it down. The block gets the state for its requests.

    Raises:
        BaseException: whatever the application raised when it started or was shut down, as it is.
        RuntimeError: it said that it failed, and raised nothing.

    A failure between the two is logged. Cancellation, or an exception in the block, cancels the application.
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
        """What the application was told last: nothing, `startup` or `shutdown`."""
        self._answer: str | None = None
        self._failure_message = ""
        self._error: BaseException | None = None
        self._has_ended = False
        self._is_awaited = False
        self._changed = trio.lowlevel.ParkingLot()
        self._ending = trio.Event()

    async def run(self) -> None:
        """The application's own task."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            with contained(self._store_error):
                await self._app(scope, self._receive, self._send)
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
        """Tell the application to end, and wait until it has."""
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
        """Keep an exception for whoever waits, who will raise it."""
        self._error = error
        if not self._is_awaited:
            self.report()

    def report(self) -> None:
        """Log an exception that nobody will raise."""
        if self._error is not None:
            _log.error("the application failed outside of its requests", exc_info=self._error)
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
                await trio.sleep_forever()  # there is no more to say
            self._phase = "shutdown"
        return {"type": f"lifespan.{self._phase}"}

    async def _send(self, event: AsgiMessage) -> None:
        answer = str(event["type"]).removeprefix("lifespan.")
        if answer not in _ANSWERS:
            raise ValueError(f"{event['type']!r} is no answer in a lifespan")
        self._answer = answer
        self._failure_message = str(event.get("message", ""))
        self._changed.unpark_all()
