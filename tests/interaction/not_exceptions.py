"""Exceptions that are no `Exception`, such as application code should not raise, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import trio


class NativePanicError(BaseException):
    """An exception such as those of native modules."""


async def cancelled_of_another_task() -> BaseException:
    """Return the `trio.Cancelled` of another task, as a shared flight stores it if its first caller leaves."""
    stored: list[BaseException] = []

    async def first_caller() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as exc:
                stored.append(exc)
                raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first_caller)
    return stored[0]


NOT_EXCEPTIONS: Mapping[str, Callable[[], BaseException]] = {
    "asyncio": asyncio.CancelledError,
    "native": NativePanicError,
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
    "generator": GeneratorExit,
    "group": lambda: BaseExceptionGroup("several", [NativePanicError(), ValueError("an ordinary one")]),
}
KINDS = ("cancelled", *NOT_EXCEPTIONS)


async def raise_it(kind: str) -> None:
    """Raise the exception of this kind."""
    failure = await cancelled_of_another_task() if kind == "cancelled" else NOT_EXCEPTIONS[kind]()
    raise failure
