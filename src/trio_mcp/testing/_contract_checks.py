"""What the clauses of a contract are written in: a caller without a client above it, and checks that say why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import trio
from attrs import define, field

from ..abc import Tap, Transport
from ..peer import ClientSession, Exchange, Limits
from ..types import REVISIONS
from ..wire import CAPABILITIES_KEY, LOG_LEVEL_KEY, REVISION_KEY, JsonObject

__all__ = [
    "Caller",
    "call",
    "check",
    "failure_of",
    "nothing_held",
    "params",
    "text_of",
    "until",
    "within",
    "working_tasks",
]

E = TypeVar("E", bound=BaseException)

_POLL_SECONDS = 0.005


@define(eq=False)
class Caller:
    """What a transport needs of a client, and nothing above it."""

    tap: Tap | None = None
    gate: ClientSession = field(factory=ClientSession, init=False)
    limits: Limits = field(factory=Limits, init=False)
    notifications: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)

    def answer(self, exchange: Exchange) -> None:
        """Nothing is asked of a modern client."""
        raise AssertionError(f"the server asked for {exchange.method!r}")

    def notified(self, method: str, params: JsonObject) -> None:
        """Note it."""
        self.notifications.append((method, params))

    def asking_person(self) -> AbstractContextManager[None]:
        """No person is asked."""
        return nullcontext()

    def renewed(self) -> None:
        """A modern client has no session that could be lost."""


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Bound a clause, and say so where it is not through in time."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise AssertionError(f"the clause is not through after {seconds:g} s: something it waits for does not come")


def params(tool: str, **arguments: Any) -> JsonObject:
    """Return the params of a call that says all about itself, and wants log messages."""
    meta: JsonObject = {REVISION_KEY: REVISIONS[-1], CAPABILITIES_KEY: {}, LOG_LEVEL_KEY: "debug"}
    return {"name": tool, "arguments": arguments, "_meta": meta}


async def call(transport: Transport, tool: str, **arguments: Any) -> JsonObject:
    """Call a tool of the contract's server, and return the result."""
    async with transport.ask("tools/call", params(tool, **arguments)) as asked:
        return await asked.result()


def text_of(result: JsonObject) -> str:
    """Return the text of a result."""
    return str(result["content"][0]["text"])


def check(found: object, expected: object, what: str) -> None:
    """Raise `AssertionError` if *found* is not *expected*, of the same types throughout."""
    if repr(found) != repr(expected):
        raise AssertionError(f"{what}: expected {expected!r:.500}, found {found!r:.500}")


async def failure_of(attempt: Callable[[], Awaitable[object]], expected: type[E]) -> E:
    """Await *attempt*, which must raise *expected* or a subclass of it, and return what it raised."""
    try:
        result = await attempt()
    except expected as exc:
        return exc
    except Exception as exc:
        raise AssertionError(f"expected {expected.__name__}, it raised {exc!r}") from exc
    raise AssertionError(f"expected {expected.__name__}, it returned {result!r:.500}")


async def until(fits: Callable[[], Awaitable[bool]], what: Callable[[], str], seconds: float) -> None:
    """Wait until something holds, which may take the other side a moment."""
    with trio.move_on_after(seconds):
        while not await fits():  # noqa: ASYNC110 # the other side has no event for us
            await trio.sleep(_POLL_SECONDS)
        return
    raise AssertionError(f"{what()}, still after {seconds:g} s")


def nothing_held(transport: Transport) -> None:
    """Check that this end of the connection remembers nothing."""
    held = transport.statistics()
    check((held.asked, held.update_bytes), (0, 0), "requests and bytes of updates that the transport still holds")


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
