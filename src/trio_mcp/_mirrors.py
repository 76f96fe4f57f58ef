"""The parts that the clients for asyncio and for programs without async share: mirrors of the Trio client.

Rules of this file:

1. A mirror is made by inspecting a class of the Trio client, so the two cannot differ in their names: each coroutine
   function, iterator and block of it gets a form for the other world; other members are looked up as they are.
2. Data passes unchanged. An object is live, and is mirrored, if its class has something to await.
3. A block is entered and left by one Trio task, which waits in between.
4. An exception passes unchanged, except a `trio.Cancelled` of the whole run.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from types import new_class
from typing import Any, ClassVar, cast

import trio
from attrs import define, evolve, field
from outcome import Error, Outcome, acapture

__all__ = ["CALLBACKS", "Mirror", "Mirrors", "Perform", "RunBridge", "TrioBlock", "is_live", "result_of", "usage_of"]

CALLBACKS = frozenset(
    {"approve", "consent", "on_elicit", "on_elicit_complete", "on_log", "on_progress", "on_sample", "roots"}
)  # fmt: skip
"""The options that are callbacks which Trio awaits; a test compares them with the annotations."""
_TABLES = frozenset({"methods", "notifications"})
"""The options that are tables of such callbacks."""

Perform = Callable[[], Awaitable[Any]]


def result_of(result: Outcome[Any]) -> Any:
    """Return the value of a finished Trio task, or raise its exception.

    Raises:
        trio.RunFinishedError: the whole run was cancelled meanwhile, because its event loop or the process ends.
    """
    if isinstance(result, Error) and isinstance(result.error, trio.Cancelled):
        raise trio.RunFinishedError("the Trio run ended, because its event loop or the process ends")
    return result.unwrap()


@define(eq=False)
class TrioBlock:
    """The Trio side of a block.

    Args:
        open: returns the context manager; called in the Trio task.
        entered: called in the Trio task with the value of the block.
    """

    open: Callable[[], AbstractAsyncContextManager[Any]]
    entered: Callable[[Any], object]
    leaving: trio.Event = field(factory=trio.Event, init=False)

    async def run(self) -> None:
        """Enter the block, and leave it when `leaving` is set or the task is cancelled."""
        async with self.open() as value:
            self.entered(value)
            await self.leaving.wait()


async def performed(perform: Perform, scope: trio.CancelScope) -> Outcome[Any]:
    """Run *perform* inside *scope*, and return its outcome; a cancellation is an outcome too."""
    with scope:  # which has nothing to catch: a cancellation is an outcome
        return await acapture(perform)
    raise AssertionError  # pragma: no cover # for type checkers: the scope does not catch a return


def usage_of(opener: Callable[..., Any], keyword: str) -> str:
    """Return the right use of an opener, as source code; *keyword* begins its block."""
    name = opener.__name__
    return f"{keyword} {name}(...) as {'clients' if name.endswith('s') else 'client'}:"


# --- Classes ---


_live: dict[type, bool] = {}


def is_live(kind: type) -> bool:
    """Return True if objects of a class have something to await."""
    if kind not in _live:
        _live[kind] = _has_something_to_await(kind)
    return _live[kind]


def _has_something_to_await(kind: type) -> bool:
    if not kind.__module__.startswith("trio_mcp.") and not hasattr(kind, "__aenter__"):
        return False
    return (
        hasattr(kind, "__anext__")
        or hasattr(kind, "__aenter__")
        or any(inspect.iscoroutinefunction(member) for _, member in _public_members(kind))
    )


def _public_members(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        if not name.startswith("_"):
            yield name, inspect.getattr_static(kind, name)


class RunBridge(ABC):
    """A Trio run that is used from another world."""

    @abstractmethod
    def wait(self, perform: Perform) -> Any:
        """Run *perform* in a Trio task, and return its result in the way of the other world."""

    @abstractmethod
    def look(self, function: Callable[[], Any]) -> Any:
        """Return the result of a synchronous function that is called in the Trio run."""

    @abstractmethod
    def callback(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Return an async function for Trio that runs a callback of the other world."""


class Mirror:
    """A base class of mirrors: an object of the Trio client, as the other world sees it."""

    _bridge: Any
    _subject: Any
    _mirrors: ClassVar[Mirrors]

    def __init__(self, bridge: Any, subject: Any) -> None:
        self._bridge = bridge
        self._subject = subject

    def __repr__(self) -> str:
        return repr(self._subject)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mirror) and self._subject is other._subject

    def __hash__(self) -> int:
        return id(self._subject)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._mirrors.shown(self._bridge, self._bridge.look(partial(getattr, self._subject, name)))


@define(eq=False)
class Mirrors:
    """The mirrors of one world: their classes, and what passes between the two worlds.

    Args:
        module: the module in which the classes are shown.
        coroutine: returns the method for a coroutine function.
        iterator: the methods of an iterator.
        block: the methods of a block.
    """

    module: str
    coroutine: Callable[[Callable[..., Any]], Callable[..., Any]]
    iterator: Mapping[str, Any]
    block: Mapping[str, Any]
    _classes: dict[type, type[Mirror]] = field(factory=dict[type, type[Mirror]], init=False)

    def class_of(self, kind: type) -> type[Mirror]:
        """Return the mirror of a class."""
        if kind not in self._classes:
            self._classes[kind] = self._make(kind)
        return self._classes[kind]

    def _make(self, kind: type) -> type[Mirror]:
        namespace: dict[str, Any] = {
            "__doc__": kind.__doc__,
            "__module__": self.module,
            "__qualname__": kind.__name__,
            "_mirrors": self,
        }
        for name, member in _public_members(kind):
            namespace[name] = self._member(name, member)
        if hasattr(kind, "__anext__"):
            namespace |= self.iterator
        if hasattr(kind, "__aenter__"):
            namespace |= self.block
        bases: tuple[type, ...] = (Mirror,)
        if issubclass(kind, Mapping):
            bases = (Mirror, Mapping)
            namespace |= {"__getitem__": _getitem, "__iter__": _iter, "__len__": _len}
            for name in ("get", "items", "keys", "values"):  # those of Mapping use the three above
                del namespace[name]
        made: type[Mirror] = new_class(kind.__name__, bases, exec_body=lambda body: body.update(namespace))
        return made

    def _member(self, name: str, member: Any) -> Any:
        if inspect.iscoroutinefunction(member):
            return self.coroutine(member)
        if inspect.isfunction(member):
            return _function(member)
        return property(_getter(name), doc=member.__doc__ or f"See `{name}` of the class of the client for Trio.")

    def of_client(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a coroutine function about a Trio client as a function about its mirror, the first argument."""
        call = self.coroutine(function)

        @wraps(function)
        def checked(source: Any, **options: Any) -> Any:
            if not isinstance(source, Mirror) or source._mirrors is not self:  # noqa: SLF001 # of this file
                kind: type[object] = source.__class__
                raise TypeError(
                    f"{function.__name__}(): expected a client of {self.module}, and got one of class "
                    f"{kind.__module__}.{kind.__name__}"
                )
            return call(source, **options)

        checked.__module__ = self.module
        return checked

    def shown(self, bridge: RunBridge, value: Any) -> Any:
        """Return the mirror of a live object, and everything else as it is."""
        kind = cast("type[object]", type(value))
        return self.class_of(kind)(bridge, value) if is_live(kind) else value

    def given(self, bridge: RunBridge, options: dict[str, Any]) -> dict[str, Any]:
        """Return options as Trio takes them: callbacks run in the other world."""
        for name, value in options.items():
            if name in CALLBACKS and callable(value):
                options[name] = self._callback(bridge, value)
            elif name in _TABLES and value is not None:
                options[name] = {each: self._callback(bridge, function) for each, function in value.items()}
            elif name == "extensions" and isinstance(value, Sequence):
                options[name] = [self._extension(bridge, each) for each in value]  # pyright: ignore[reportUnknownVariableType]
            elif name == "options_for" and value is not None:
                options[name] = partial(self._options_for, bridge, value)
        return options

    def _options_for(self, bridge: RunBridge, options_for: Callable[[str], Any], server: str) -> Any:
        options = options_for(server)
        return self.given(bridge, {**options}) if isinstance(options, Mapping) else options

    def _extension(self, bridge: RunBridge, extension: Any) -> Any:
        resolvers = {name: self._callback(bridge, each) for name, each in extension.result_types.items()}
        return evolve(extension, result_types=resolvers)

    def _callback(self, bridge: RunBridge, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        run = bridge.callback(function)

        async def call(*values: Any, **named: Any) -> Any:
            return await run(*(self.shown(bridge, value) for value in values), **named)

        return wraps(function)(call)


def _getter(name: str) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        return self._mirrors.shown(self._bridge, self._bridge.look(partial(getattr, self._subject, name)))

    return get


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        bridge = self._bridge
        look = partial(function, self._subject, *args, **self._mirrors.given(bridge, options))
        return self._mirrors.shown(bridge, bridge.look(look))

    return call


def _getitem(self: Any, key: Any) -> Any:
    return self._mirrors.shown(self._bridge, self._bridge.look(partial(self._subject.__getitem__, key)))


def _iter(self: Any) -> Iterator[Any]:
    return iter(self._bridge.look(partial(list, self._subject)))


def _len(self: Any) -> int:
    return int(self._bridge.look(self._subject.__len__))
