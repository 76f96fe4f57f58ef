"""Dependencies: what handlers get through ``Annotated[..., Resolve(function)]``, resolved once for each call.

Rules of this file:

1. The functions of a handler, and those that they need themselves, are put into one order at registration, each once.
   A call runs them one after another in that order, and leaves those that are context managers in reverse.
2. A context manager that was entered is left, whatever happens. Where its code runs in a thread, the thread is never
   abandoned, because nobody could leave what it enters.
3. A dependency sees the exception of its handler, but cannot suppress it: the call would have no result.
4. Nothing waits here unless a dependency does: a handler that never waits may still run without a task.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any

import trio
from attrs import define, field, frozen

from ._context import Context, run_of, serving_of
from .signature import Callee, Injected, Resolve, inspect_callable, may_wait, read_defaults

__all__ = ["Dependencies"]


@frozen(eq=False)
class _Step:
    """One function that is called to resolve dependencies."""

    function: Callable[..., Any]
    contexts: tuple[str, ...]
    """Its parameters that take the context."""
    needs: Mapping[str, int]
    """Its parameters that take the values of earlier steps, and the places of these steps."""
    is_async: bool
    is_manager: bool

    @property
    def waits(self) -> bool:
        """True if it may suspend the task, or need a thread."""
        return self.is_manager or not self.is_async or may_wait(self.function)

    async def resolve(self, context: Context, values: Sequence[Any], stack: AsyncExitStack) -> Any:
        """Return the value; what must be left is added to *stack*."""
        keywords: dict[str, Any] = dict.fromkeys(self.contexts, context)
        keywords |= {name: values[place] for name, place in self.needs.items()}
        call = partial(self.function, **keywords)
        if self.is_manager:
            return await (_enter(call, stack) if self.is_async else _enter_in_thread(call, context, stack))
        if self.is_async:
            return await call()
        return await serving_of(context).threads.run(call, run_of(context))


async def _enter(call: Callable[[], Any], stack: AsyncExitStack) -> Any:
    manager = call()
    value = await manager.__aenter__()

    async def leave(kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        await manager.__aexit__(kind, error, at)

    stack.push_async_exit(leave)
    return value


async def _enter_in_thread(call: Callable[[], Any], context: Context, stack: AsyncExitStack) -> Any:
    threads, run = serving_of(context).threads, run_of(context)
    scope = trio.CancelScope()

    def enter() -> tuple[Any, Any]:
        manager = call()
        return manager, manager.__enter__()

    def begin() -> None:
        scope.shield = True  # not before: the wait for a thread can be cancelled (rule 2)

    async def leave(kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with trio.CancelScope(shield=True):
            await threads.run(partial(manager.__exit__, kind, error, at), run)

    manager: Any = None
    value: Any = None
    with scope:
        manager, value = await threads.run(enter, run, on_begin=begin)
        stack.push_async_exit(leave)
    await trio.lowlevel.checkpoint_if_cancelled()
    return value


@define(eq=False)
class Dependencies:
    """The dependencies of one handler. Immutable after `of`; safe to use from several tasks."""

    _steps: list[_Step] = field(factory=list[_Step], init=False)
    """In the order in which they are called."""
    _places: dict[Resolve, int] = field(factory=dict[Resolve, int], init=False)
    """The step of each dependency of the handler itself."""
    waits: bool = field(default=False, init=False)
    """True if resolving them may wait for something."""

    @classmethod
    def of(cls, resolved: Sequence[Resolve], name: str, namespace: Mapping[str, Any]) -> Dependencies:
        """Return the dependencies of a handler.

        Args:
            resolved: those of its own parameters.
            name: the name of the handler in errors.
            namespace: names that annotations may use in addition to those of the functions' modules.

        Raises:
            TypeError: a function cannot be called, or needs itself; the message names the handler and the functions.
        """
        found = cls()
        for each in resolved:
            found._places[each] = found._add(each.function, name, namespace, ())
        found.waits = any(step.waits for step in found._steps)
        return found

    def _add(
        self,
        function: Callable[..., Any],
        name: str,
        namespace: Mapping[str, Any],
        above: tuple[Callable[..., Any], ...],
    ) -> int:
        """Return the place of the step that calls *function*; add it behind what it needs, unless it is there.

        Args:
            above: the functions that need it, the outermost first.
        """
        if function in above:
            chain = " -> ".join(map(_name_of, (*above[above.index(function) :], function)))
            raise TypeError(f"{name}: the dependencies form a circle: {chain}")
        for place, step in enumerate(self._steps):
            if step.function == function:
                return place
        label = f"{name}: dependency {_name_of(function)!r}"
        callee = inspect_callable(function, label, (Context,), namespace, dependency=True)
        _check_parameters(callee, label)
        needs = {
            parameter: self._add(key.function, name, namespace, (*above, function))
            for parameter, key in callee.injected.items()
            if isinstance(key, Resolve)
        }
        contexts = tuple(parameter for parameter in callee.injected if parameter not in needs)
        self._steps.append(_Step(function, contexts, needs, callee.is_async, callee.is_manager))
        return len(self._steps) - 1

    @asynccontextmanager
    async def resolved(self, context: Context) -> AsyncGenerator[Mapping[Injected, Any]]:
        """Resolve everything for one call, for the duration of the block.

        Returns:
            The values of the handler's dependencies, and the context, for `Signature.call`.

        Raises:
            Exception: raised by one of the functions.
        """
        values: list[Any] = []
        async with AsyncExitStack() as stack:
            for step in self._steps:
                values.append(await step.resolve(context, values, stack))
            yield {Context: context, **{each: values[place] for each, place in self._places.items()}}


def _check_parameters(callee: Callee, label: str) -> None:
    """Check that the server can fill every parameter of a dependency.

    Raises:
        TypeError: it cannot; names the parameter.
    """
    read, made = read_defaults(callee, label)
    arguments = {parameter.name for parameter in read.arguments()}
    for parameter in read.parameters:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            continue
        where = f"{label}: parameter {parameter.name!r}"
        if parameter.name not in arguments:
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                raise TypeError(f"{where} is positional-only, but dependencies are passed by name")
        elif parameter.default is parameter.empty or parameter.name in made:
            raise TypeError(f"{where} is neither a Context nor `Annotated[..., Resolve(function)]`; give it a default")


def _name_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
