"""Runs a flow of authorization on Trio: does what each of its steps asks for, and tells it what came of that.

Called by the flights of the keepers; calls the transport's HTTP client, the storage and what leads a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from attrs import define, field, frozen

from .._util import owned_nursery
from ._steps import Await, Flow, HttpCall, Load, Now, Pause, PickRedirect, Step, Swap, Visit

if TYPE_CHECKING:
    from ..abc import Fetch, TokenStorage
    from ._visitor import Visitor

__all__ = ["World", "drive", "outlast"]

T = TypeVar("T")


@frozen(kw_only=True)
class World:
    """What flows act upon."""

    fetch: Fetch
    storage: TokenStorage = field(repr=False)
    clock: Callable[[], float]
    visitor: Callable[[], AbstractAsyncContextManager[Visitor]]
    """Opens what leads a person, for one flow."""
    asking_person: Callable[[], AbstractContextManager[None]]
    """Entered while a person is visiting."""


async def drive(flow: Flow[T], world: World) -> T:
    """Run a flow to its end; return what it returns, and raise what it raises.

    What leads a person is opened when the flow first needs it, and closed at its end.

    Cancellation: the flow is closed where it stands; it is told nothing.
    """
    async with AsyncExitStack() as opened:
        hands = _Hands(world, opened)
        try:
            step = next(flow)
            while True:
                try:
                    outcome = await hands.do(step)
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
class _Hands:
    """Does the steps of one flow."""

    _world: World
    _opened: AsyncExitStack
    _visitor: Visitor | None = field(default=None, init=False)

    async def do(self, step: Step) -> Any:
        world = self._world
        match step:
            case HttpCall():
                return await world.fetch(step)
            case Load(key):
                return await world.storage.load(key)
            case Swap(key, old, new):
                return await world.storage.swap(key, old, new)
            case Now():
                return world.clock()
            case Pause(seconds):
                return await trio.sleep(seconds)
            case Await(function):
                return await function()
            case _:
                return await self._lead(step)

    async def _lead(self, step: PickRedirect | Visit) -> str:
        if self._visitor is None:
            self._visitor = await self._opened.enter_async_context(self._world.visitor())
        if isinstance(step, PickRedirect):
            return await self._visitor.pick_redirect(step.preferred)
        with self._world.asking_person():
            return await self._visitor.visit(step.url, step.redirect_uri)


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
