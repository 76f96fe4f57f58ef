"""Work on the tokens for one server that any number of requests wait for, none of which has it in its hands.

Rules of this file:

1. A flight is a task of the connection whose request has begun it. Whoever waits may be cancelled; the flight goes on.
2. While a person is being asked, all connections whose requests wait say so, each in a task of its own.
3. A person is asked only as long as somebody waits. A flight that ends because nobody did, or because its connection
   closed, has no outcome: whoever has come meanwhile begins another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import trio
from attrs import define, field, frozen

from .._errors import AuthorizationFailed

if TYPE_CHECKING:
    from ..abc import Fetch

__all__ = ["Connected", "Flight", "Landed", "failing_as_authorization"]

T = TypeVar("T")


@frozen(eq=False)
class Connected:
    """What a connection lends to the work on tokens."""

    fetch: Fetch
    nursery: trio.Nursery
    asking_person: Callable[[], AbstractContextManager[None]]


@frozen
class Landed(Generic[T]):
    """What has come of a flight."""

    value: T


_Outcome: TypeAlias = "Landed[T] | AuthorizationFailed | None"


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
class Flight(Generic[T]):
    """One piece of work, from its first step to its outcome."""

    _outcome: _Outcome[T] = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)
    _is_asking: bool = field(default=False, init=False)
    _waiting: int = field(default=0, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _person: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Around what a person takes part in."""

    async def run(self, work: Callable[[], Awaitable[T]], landing: Callable[[], None]) -> None:
        """Do the work; to be a task of its own.

        Args:
            work: an async function.
            landing: called when it has ended, in whatever way; synchronous.
        """
        try:
            with failing_as_authorization():
                self._outcome = Landed(await work())
        except AuthorizationFailed as failure:
            self._outcome = failure
        except _Abandoned:
            pass
        finally:
            landing()
            self._is_over = True
            self._change()

    async def wait(self, connected: Connected) -> _Outcome[T]:
        """Return the outcome when it is there; None where there is none (rule 3).

        Args:
            connected: whose time limits stand still while a person is being asked.
        """
        self._waiting += 1
        try:
            while not self._is_over:
                with connected.asking_person() if self._is_asking else nullcontext():
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
        self._change()
        try:
            yield
        finally:
            self._is_asking = False
            self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
