"""Errors for mistakes that Python and Trio report in words which name neither the cause nor the cure.

Every layer may use them. A mistake is reported where the user has made it, and what is right pays nothing for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import trio

__all__ = [
    "AsyncBlock",
    "AsyncForOnly",
    "AsyncWithOnly",
    "async_block",
    "asyncio_failure",
    "called_back",
    "check_class",
    "check_parameters",
    "check_server",
    "did_you_mean",
    "require_trio",
    "unawaited",
]

P = ParamSpec("P")
T = TypeVar("T")


# --- Another event loop ---


def require_trio(function: str) -> None:
    """Check that the caller is a task of Trio.

    Args:
        function: the public function that is called, for the message.

    Raises:
        RuntimeError: it is not; most likely `asyncio.run` was called.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            f"{function} needs Trio, and no event loop of Trio runs here: start the program with trio.run(main), not "
            "with asyncio.run(main()), and mark a test with @pytest.mark.trio, of pytest-trio; or import it from "
            "trio_mcp.asyncio, if that has it"
        )


_WORDS_OF_ASYNCIO = ("trio.run received unrecognized yield message", "no running event loop", "no current event loop")


def asyncio_failure(raised: Exception, actor: str) -> RuntimeError | None:
    """Return the error to report instead of *raised*, if that says that asyncio was used; otherwise None.

    Args:
        raised: an exception of application code, which becomes the cause of the returned one.
        actor: the code, for the message, such as "the handler".
    """
    if type(raised) not in {RuntimeError, TypeError} or not raised.args or type(raised.args[0]) is not str:
        return None
    if not any(words in raised.args[0] for words in _WORDS_OF_ASYNCIO):
        return None
    failure = RuntimeError(
        f"{actor} uses asyncio, and it runs on Trio: use Trio instead (trio.sleep for asyncio.sleep), or a library for "
        "both, such as httpx and anyio; or run the asyncio code in a thread: "
        "await trio.to_thread.run_sync(asyncio.run, code()); or, in a server that asyncio hosts, on its loop: "
        "await trio_mcp.asyncio.run_asyncio(code())"
    )
    failure.__cause__ = raised
    return failure


# --- Objects that are used in one way ---


class AsyncWithOnly:
    """A base class of objects for `async with`: every other use raises an error that shows the right one."""

    __slots__ = ()
    _usage: str = "async with ... as ...:"
    """The right use, as source code."""

    if not TYPE_CHECKING:  # type checkers refuse these uses by themselves

        def __await__(self) -> NoReturn:
            raise TypeError(f"this is a block, and cannot be awaited: write `{self._usage}`")

        def __enter__(self) -> NoReturn:
            raise TypeError(f"this is an asynchronous block: write `{self._usage}`")

        __exit__ = __enter__  # Python looks for it first

        def __aiter__(self) -> NoReturn:
            raise TypeError(f"this is a block, and cannot be iterated over: write `{self._usage}`")

        __iter__ = __aiter__

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"this is a block, and has no attribute {name!r}: write `{self._usage}`")


class AsyncBlock(AsyncWithOnly, AbstractAsyncContextManager[T]):
    """The block that a function made by `async_block` returns."""

    def __init__(self, manager: AbstractAsyncContextManager[T], function: str, usage: str) -> None:
        self._manager = manager
        self._function = function
        self._usage = usage

    async def __aenter__(self) -> T:
        """Enter the block."""
        require_trio(self._function)
        return await self._manager.__aenter__()

    def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> Any:
        """Leave the block. Not a coroutine, so that no frame of its own refers to the exception."""
        return self._manager.__aexit__(kind, raised, trace)


def async_block(usage: str) -> Callable[[Callable[P, AsyncGenerator[T]]], Callable[P, AsyncBlock[T]]]:
    """Return a decorator that makes an async generator into a function for `async with`, and for nothing else.

    Args:
        usage: the right use, as source code.
    """

    def decorate(generate: Callable[P, AsyncGenerator[T]]) -> Callable[P, AsyncBlock[T]]:
        make = asynccontextmanager(generate)

        @functools.wraps(generate)
        def open_block(*args: P.args, **options: P.kwargs) -> AsyncBlock[T]:
            return AsyncBlock(make(*args, **options), f"{generate.__name__}()", usage)

        return open_block

    return decorate


class AsyncForOnly:
    """A base class of asynchronous iterators: a plain `for` or `await` raises an error that shows the right use."""

    __slots__ = ()
    _usage: str = "async for ... in ...:"
    """The right use, as source code."""

    if not TYPE_CHECKING:  # as above

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"this is an asynchronous iterator: write `{self._usage}`, or `[each async for each in ...]`"
            )

        def __await__(self) -> NoReturn:
            raise TypeError(f"this is an asynchronous iterator, and cannot be awaited: write `{self._usage}`")

        def __getitem__(self, index: object) -> NoReturn:
            raise TypeError(
                f"this is an asynchronous iterator, and has no index: write `{self._usage}`, or make a list of it: "
                "`[each async for each in ...]`"
            )

        __contains__ = __getitem__


# --- Callbacks ---


def called_back(option: str, callback: Callable[..., Awaitable[T]], *arguments: object) -> Awaitable[T]:
    """Call an async function of the application, and return what its caller awaits.

    Args:
        option: the name of the option or argument that it was given as, for the message.
        callback: the function.
        arguments: its arguments.

    Raises:
        TypeError: it takes other arguments, or is a plain function.
        Exception: any exception of *callback*.
    """
    try:
        value = callback(*arguments)
    except TypeError:
        check_parameters(option, callback, *arguments)
        raise
    if not inspect.isawaitable(value):
        raise TypeError(f"{option}: expected an async function (`async def`), and {callback!r} is a plain one")
    return value


def check_parameters(option: str, callback: Callable[..., object], *arguments: object) -> None:
    """Check that a callback can be called with these arguments.

    Args:
        option: the name of the option or argument that it was given as, for the message.
        callback: the function.
        arguments: the arguments; only their number counts.

    Raises:
        TypeError: it takes others.
    """
    try:
        inspect.signature(callback).bind(*arguments)
    except ValueError:
        return  # Python does not know the parameters of some functions
    except TypeError as exc:
        number = {0: "no argument", 1: "one argument"}.get(len(arguments), f"{len(arguments)} arguments")
        raise TypeError(f"{option}: it is called with {number}, and {callback!r} takes others ({exc})") from None


# --- Wrong values and names ---


def check_class(name: str, value: object, expected: type, example: str) -> None:
    """Check that an option is an instance of a class.

    Args:
        name: the name of the option or argument, for the message.
        value: its value, of which the message shows the class only, because it may be a secret.
        expected: the class.
        example: an example of a right value, as source code.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, expected):
        raise TypeError(f"{name}: expected {expected.__name__}, such as {example}, and got {type(value).__name__}")


def check_server(function: str, server: object) -> None:
    """Check that the first argument of a function that serves is a server, or at least looks like one.

    Raises:
        TypeError: it is not.
    """
    if isinstance(server, type) or not hasattr(server, "serving"):
        got = f"the class {server.__name__}" if isinstance(server, type) else type(server).__name__
        raise TypeError(f"{function}: expected a Server, such as Server('notes'), and got {got}")


def unawaited(value: object) -> str:
    """Return what is wrong with a coroutine that a handler has returned, and close it; empty for any other value."""
    if not inspect.iscoroutine(value):
        return ""
    value.close()  # otherwise Python would warn later, and without the place, that it was never awaited
    return f"it is a coroutine of {value.__qualname__}(): `await` is missing before that call"


_MOST_NAMES, _MOST_CHARACTERS = 200, 100
"""How many names are compared, and how long the name may be: a peer may choose both."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remark with the known names that are like *name*, to be added to an error; empty if there is none."""
    from difflib import get_close_matches  # noqa: PLC0415 # most programs make no such mistake

    names = [each for each, _ in zip(known, range(_MOST_NAMES), strict=False)]
    close = get_close_matches(name, names, n=3) if len(name) <= _MOST_CHARACTERS else []
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
