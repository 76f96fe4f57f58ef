"""One run over one transport: rounds of load, one fault, rest, and a sample.

A round is a mixed load with faults in it, for a while; then one fault of the list by itself, and in its aftermath the
CPU time that all processes use at rest; then, when it is tidied up, one sample of what each process holds. Clients that
last for the whole run, one of each era and each with a listener, are there all the time, and at rest as well.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

import attrs
import trio
from attrs import define, field, frozen

from trio_mcp import Client

from .accounting import account_for
from .book import Book
from .faults_http import HTTP_FAULTS
from .faults_stdio import STDIO_FAULTS
from .faults_websocket import WEBSOCKET_FAULTS
from .journal import Journal, read_journals
from .load import compute, do_anything
from .log_faults import faults_go_to
from .places import ERAS, Fault, HttpOver, HttpPlace, HttpServer, Place, StdioPlace, Watched
from .report import Report, Rest
from .shared_faults import inside, pid_of
from .vitals import cpu_ms, os_vitals, release_garbage

__all__ = ["Over", "Pace", "run"]

Over: TypeAlias = Literal["stdio", "http", "websocket"]

_TASKS_OF_EACH = 3
"""Tasks that use each lasting client."""
_SHORT_SESSION = 30
"""The number of actions of a short-lived client."""
_MOMENT = 0.3
"""The seconds that idle connections and tasks get to end."""
_CLIENT = "client"
"""The name of this process in the report."""


@frozen(kw_only=True)
class Pace:
    """The durations of a run, in seconds."""

    total: float
    """The run; the round in progress at its end is the last one."""
    busy: float = 8.0
    """The mixed load of one round."""
    rest_delay: float = 6.0
    """The rest after a fault and after its cleanup: longer than the timeouts of the server."""
    idle: float = 3.0
    """The duration of the measurement of CPU time at rest; 0 omits it."""


async def run(over: Over, pace: Pace, *, seed: int, report_progress: Callable[[str], object]) -> Report:
    """Run, and return the report.

    Args:
        over: the transport.
        pace: the durations of the run.
        seed: selects the actions; their timing depends on the machine.
        report_progress: called with lines about the progress of the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder), "client")
        book = Book(journal)
        with faults_go_to(journal):
            async with PLACES[over](book, Path(folder), Random(seed)) as place:  # noqa: S311 # it selects actions, and no secrets
                rounds = Rounds(place, pace, report_progress)
                await rounds.run()
        children = os_vitals(os.getpid()).processes
        if children:
            book.fault(f"{children} processes are left")
        journal.close()
        account = account_for(read_journals(Path(folder)))
    return Report(over, seed, rounds.seconds, account, rounds.samples, rounds.rests, tuple(place.faults))


@asynccontextmanager
async def _stdio(book: Book, folder: Path, rng: Random) -> AsyncGenerator[Place]:
    yield StdioPlace(book, folder, rng, STDIO_FAULTS)


@asynccontextmanager
async def _at_socket(
    over: HttpOver, faults: Mapping[str, Fault], book: Book, folder: Path, rng: Random
) -> AsyncGenerator[Place]:
    async with HttpServer.run(over, book, folder) as server:
        yield HttpPlace(book, folder, rng, faults, server)


PLACES: Mapping[Over, Callable[[Book, Path, Random], AbstractAsyncContextManager[Place]]] = {
    "stdio": _stdio,
    "http": partial(_at_socket, "http", HTTP_FAULTS),
    "websocket": partial(_at_socket, "websocket", WEBSOCKET_FAULTS),
}


@define(eq=False)
class Rounds:
    """The rounds of a run, one after the other."""

    _place: Place
    _pace: Pace
    _report_progress: Callable[[str], object]
    samples: dict[str, dict[str, list[float]]] = field(factory=dict[str, "dict[str, list[float]]"], init=False)
    """The samples at rest, by process and metric, in the order of the rounds."""
    rests: list[Rest] = field(factory=list[Rest], init=False)
    seconds: float = field(default=0.0, init=False)
    """The duration of the run."""
    _lasting: dict[str, Client] = field(factory=dict[str, Client], init=False)
    """The lasting clients, by the name of their server in the report."""
    _pids: dict[str, int] = field(factory=dict[str, int], init=False)
    """The processes of these servers, by the same names."""

    async def run(self) -> None:
        """Run them until the time is over."""
        began = trio.current_time()
        async with AsyncExitStack() as stack:
            clients = {era: await stack.enter_async_context(self._place.client(era)) for era in ERAS}
            for client in clients.values():
                await stack.enter_async_context(client.listen(tools=True))
            await self._name_servers(clients)
            for fault in cycle(self._place.faults):
                await self._round(fault, [*clients.values()])
                self.seconds = trio.current_time() - began
                self._report_progress(f"{self.seconds:.0f} s, {len(self.rests)} rounds")
                if self.seconds >= self._pace.total:
                    return

    async def _name_servers(self, clients: Mapping[str, Client]) -> None:
        by_pid = {await pid_of(client): (era, client) for era, client in clients.items()}
        several = len(by_pid) > 1
        for pid, (era, client) in by_pid.items():
            name = f"server, {era}" if several else "server"
            self._lasting[name], self._pids[name] = client, pid

    async def _round(self, fault: str, clients: Sequence[Client]) -> None:
        await self._load(clients)
        async with self._place.faults[fault](self._place) as watched:
            await trio.sleep(self._pace.rest_delay)
            self.rests.append(Rest(fault, self._pace.idle, await self._cpu_at_rest(watched)))
        await trio.sleep(self._pace.rest_delay)
        await self._sample(clients)

    async def _load(self, clients: Sequence[Client]) -> None:
        until = trio.current_time() + self._pace.busy
        async with trio.open_nursery() as nursery:
            for client in clients:
                for _ in range(_TASKS_OF_EACH):
                    nursery.start_soon(self._keep_doing, partial(self._do_anything, client), until)
            for era in ERAS:
                nursery.start_soon(self._keep_doing, partial(self._short_session, era, until), until)
            nursery.start_soon(self._keep_doing, self._apply_a_fault, until)

    async def _keep_doing(self, what: Callable[[], Awaitable[None]], until: float) -> None:
        """Repeat an action. An exception of it is a fault of the run, which continues."""
        while trio.current_time() < until:
            try:
                await what()
            except Exception as exc:  # noqa: BLE001 # every exception is recorded
                self._place.book.fault(f"{what} raised {exc!r}")
                await trio.sleep(0.1)

    async def _do_anything(self, client: Client) -> None:
        await do_anything(client, self._place.book, self._place.rng)
        await trio.sleep(self._place.rng.uniform(0, 0.005))

    async def _short_session(self, era: str, until: float) -> None:
        """Connect, perform some actions, and disconnect."""
        async with self._place.client(era) as client:
            for _ in range(_SHORT_SESSION):
                if trio.current_time() < until:
                    await self._do_anything(client)

    async def _apply_a_fault(self) -> None:
        """Apply a fault during the load."""
        fault = self._place.rng.choice([*self._place.faults.values()])
        async with fault(self._place):
            await trio.sleep(self._place.rng.uniform(0, 0.3))

    async def _cpu_at_rest(self, watched: Watched) -> Mapping[str, float]:
        if not self._pace.idle:
            return {}
        pids = {_CLIENT: os.getpid(), **self._pids, **watched}
        before = {name: cpu_ms(pid) for name, pid in pids.items()}
        await trio.sleep(self._pace.idle)
        return {name: cpu_ms(pid) - before[name] for name, pid in pids.items()}

    async def _sample(self, clients: Sequence[Client]) -> None:
        for client in clients:  # what each use tidies up, and what it leaves behind, is the same in every sample
            await compute(client, self._place.book, self._place.rng)
            await inside(client)
        await trio.sleep(_MOMENT)
        for name, client in self._lasting.items():
            known = dict(await inside(client))
            self._add(name, known | attrs.asdict(os_vitals(known.pop("pid"))))
        await trio.sleep(_MOMENT)
        release_garbage()
        tasks = trio.lowlevel.current_statistics().tasks_living
        objects = len(gc.get_objects())
        self._add(_CLIENT, {"tasks": tasks, "objects": objects, **attrs.asdict(os_vitals(os.getpid()))})

    def _add(self, process: str, sample: Mapping[str, float]) -> None:
        for metric, value in sample.items():
            self.samples.setdefault(process, {}).setdefault(metric, []).append(value)
