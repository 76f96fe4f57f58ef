"""What all clauses of the contract of transports have in common: how to connect, and how long to wait."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

from ..abc import Answerer, Transport, TransportOpener
from ..peer import Asked
from ._contract_checks import Caller, call, text_of, until, within
from ._contract_server import contract_server

__all__ = ["Clauses", "updates_of"]


class Clauses:
    """A set of clauses: test methods about a transport that `served` says how to get."""

    seconds: ClassVar[float] = 20.0
    """How long a clause may take."""
    large: ClassVar[int] = 1_000_000
    """How many bytes a large message has."""

    def served(self, server: Answerer) -> AbstractAsyncContextManager[TransportOpener]:
        """Serve *server* for as long as the block lasts, and yield an opener that connects to it any number of times.

        A server in a process of its own cannot be handed over: have it serve `contract_server()`, and ignore *server*.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say in `served` how to connect")

    @asynccontextmanager
    async def _opener(self) -> AsyncGenerator[TransportOpener]:
        with within(self.seconds):
            async with self.served(contract_server()) as opener:
                yield opener

    @asynccontextmanager
    async def _opened(self, caller: Caller | None = None) -> AsyncGenerator[Transport]:
        async with self._opener() as opener, opener(caller or Caller()) as transport:
            yield transport

    async def _until_waiting(self, transport: Transport, count: int) -> None:
        """Wait until so many handlers wait."""
        waiting = -1

        async def as_many() -> bool:
            nonlocal waiting
            waiting = int(text_of(await call(transport, "waiting")))
            return waiting == count

        await until(as_many, lambda: f"{waiting} handlers wait, and not {count}", self.seconds / 2)


async def updates_of(asked: Asked) -> AsyncGenerator[tuple[str, Any]]:
    """Yield the updates of a request until its outcome has come."""
    while (update := await asked.next_update()) is not None:
        yield update
