"""One siege: the processes of all parties, the rest, each attack in turn, and the stop of the server."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio
from attrs import define, field, frozen

from soak.vitals import os_vitals
from trio_mcp import Limits as ServerLimits

from .attacker import EXCEPTIONS, HOSTILE_SCHEMAS, STUBBORN
from .records import IN_FLIGHT, read_records
from .report import REST, Limits, Phase, Report, Stop
from .user import CALLS_IN_FLIGHT

__all__ = ["STOP", "Pace", "run"]

ROOT = Path(__file__).parent.parent
STOP = "stop"
"""The name of the phase in which the server is stopped."""
STUCK_STATUS = 199
"""The status of a server that a handler kept alive for too long; see docs/servers.md."""
_WIND_DOWN_SECONDS = 1.0 + 5.0
"""The seconds for cancelled handlers, and for writing the last responses."""
_MARGIN_SECONDS = 10.0
"""The seconds by which a loaded machine may be late."""
_SAMPLE_SECONDS = 0.2
_READY_SECONDS = 30.0
"""The seconds within which a process must be ready."""
_LOG = "server.log"


@frozen(kw_only=True)
class Pace:
    """The durations of a siege, in seconds."""

    rest: float = 30.0
    """Longer than an attack: its p99 is the measure of all others."""
    attack: float = 20.0
    settle: float = 3.0
    """The time before the first phase and after each, in which the ordinary user is served too, but not measured."""


async def run(
    names: Sequence[str],
    pace: Pace,
    limits: Limits,
    *,
    folder: Path,
    report_progress: Callable[[str], object],
) -> Report:
    """Besiege a server, and return the report.

    Args:
        names: the attacks, in their order, and `STOP` as the last of them.
        pace: the durations.
        limits: the bounds that the report applies.
        folder: an empty folder for the log of the server, the records of the user, and the credentials of the parties.
        report_progress: called with the name of each phase.
    """
    return await Siege(folder, _free_port(), pace, report_progress).run(names, limits)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


@define(eq=False)
class Child:
    """A process of the siege, which obeys its standard input and prints lines."""

    module: str
    process: trio.Process
    _rest: bytes = field(default=b"", init=False)

    @classmethod
    @asynccontextmanager
    async def run(cls, module: str, *arguments: str, errors: int | None = None) -> AsyncGenerator[Child]:
        """Run a module for the block; afterwards its input ends, and if it goes on, it is killed."""
        command = [sys.executable, "-m", module, *arguments]
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
        )
        try:
            yield cls(module, process)
            assert process.stdin is not None
            await process.stdin.aclose()
            with trio.move_on_after(_MARGIN_SECONDS):
                await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()

    async def command(self, line: str) -> None:
        """Write a line to its standard input; a process that has died reads none."""
        assert self.process.stdin is not None
        with suppress(trio.BrokenResourceError):
            await self.process.stdin.send_all(f"{line}\n".encode())

    async def line(self) -> str | None:
        """Return the next line of its standard output; None after the last."""
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            chunk = await self.process.stdout.receive_some()
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    async def is_ready(self) -> None:
        """Wait until it says so.

        Raises:
            RuntimeError: it has ended, or says nothing for long.
        """
        with trio.move_on_after(_READY_SECONDS):
            if await self.line() == "ready":
                return
        raise RuntimeError(f"{self.module} was not ready")


@define(eq=False)
class Siege:
    """The parties of a run, in a folder of their own."""

    _folder: Path
    _port: int
    _pace: Pace
    _report_progress: Callable[[str], object]

    async def run(self, names: Sequence[str], limits: Limits) -> Report:
        """Run all phases."""
        arguments = (str(self._folder), str(self._port))
        phases: list[Phase] = []
        stop: Stop | None = None
        async with Child.run("siege.authority", *arguments) as authority:
            await authority.is_ready()
            with (self._folder / _LOG).open("wb") as log:
                async with Child.run("siege.server", *arguments, errors=log.fileno()) as server:
                    await self._wait_until_served()
                    async with Child.run("siege.user", *arguments) as user:
                        await user.is_ready()
                        await trio.sleep(self._pace.settle)
                        for name in (REST, *names):
                            self._report_progress(name)
                            if name == STOP:
                                stop = await self._stop(server, user)
                            else:
                                phases.append(await self._phase(name, server, user))
                            if server.process.poll() is not None:
                                break
                        else:
                            await user.command("end")
                            server.process.terminate()
        return Report(rest=phases[0], attacks=phases[1:], records=read_records(self._folder), stop=stop, limits=limits)

    async def _wait_until_served(self) -> None:
        """Wait until the server accepts connections.

        Raises:
            RuntimeError: it does not.
        """
        deadline = trio.current_time() + _READY_SECONDS
        while trio.current_time() < deadline:
            with suppress(OSError):
                async with await trio.open_tcp_stream("127.0.0.1", self._port):
                    return
            await trio.sleep(_SAMPLE_SECONDS)
        raise RuntimeError(f"the server does not serve: {(self._folder / _LOG).read_text()}")

    async def _phase(self, name: str, server: Child, user: Child) -> Phase:
        lines = self._log_lines()
        begin = time.monotonic()
        phase = Phase(name=name, begin=begin, end=begin, until=begin)
        async with trio.open_nursery() as nursery:
            samples = Samples(server.process.pid)
            nursery.start_soon(samples.take)
            if name == HOSTILE_SCHEMAS:
                await user.command("hostile")
            if name == REST:
                await trio.sleep(self._pace.rest)
            else:
                phase = await self._attack(phase)
            await user.command("peace")
            end = time.monotonic()
            await trio.sleep(self._pace.settle)
            nursery.cancel_scope.cancel()
        failures = [*phase.failures]
        for what, child in (("server", server), ("ordinary user", user)):
            if (status := child.process.poll()) is not None:
                failures.append(f"the process of the {what} ended with the status {status}")
        return attrs.evolve(
            phase,
            end=end,
            until=time.monotonic(),
            memory_kib=samples.memory_kib,
            memory_before_kib=samples.memory_before_kib,
            files=samples.files,
            log_lines=self._log_lines() - lines,
            failures=failures,
        )

    async def _attack(self, phase: Phase) -> Phase:
        """Run the process of an attack, and return the phase with what it saw."""
        arguments = (phase.name, str(self._folder), str(self._port), str(self._pace.attack))
        async with Child.run("siege.attacker", *arguments) as attacker:
            line = None
            with trio.move_on_after(self._pace.attack + _READY_SECONDS):
                line = await attacker.line()
        if line is None:
            return attrs.evolve(phase, failures=["the attacker ended without a report, or did not end"])
        saw: dict[str, Any] = json.loads(line)
        tracebacks = sum(saw["outcomes"].values()) if phase.name == EXCEPTIONS else 0
        return attrs.evolve(phase, outcomes=saw["outcomes"], breaches=saw["breaches"], tracebacks=tracebacks)

    def _log_lines(self) -> int:
        return (self._folder / _LOG).read_bytes().count(b"\n")

    async def _stop(self, server: Child, user: Child) -> Stop:
        """Stop the server by one signal, while ordinary calls run, and a handler that goes on."""
        limits = ServerLimits()
        allowed = limits.drain_seconds + _WIND_DOWN_SECONDS + limits.stop_seconds + _MARGIN_SECONDS
        arguments = (STUBBORN, str(self._folder), str(self._port), str(2 * allowed))
        async with Child.run("siege.attacker", *arguments) as attacker:
            await attacker.is_ready()
            await user.command("stop")
            await user.is_ready()
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            with trio.move_on_after(allowed):
                await server.process.wait()
            seconds = time.monotonic() - begin
            with trio.move_on_after(_MARGIN_SECONDS):
                await user.process.wait()
        return Stop(
            status=server.process.poll(),
            expected_status=STUCK_STATUS,
            seconds=seconds,
            allowed_seconds=allowed,
            in_flight=[record for record in read_records(self._folder) if record.kind == IN_FLIGHT],
            expected_in_flight=CALLS_IN_FLIGHT,
        )


@define(eq=False)
class Samples:
    """The most that the server held during a phase."""

    _pid: int
    memory_kib: int = field(default=0, init=False)
    memory_before_kib: int = field(default=0, init=False)
    files: int = field(default=0, init=False)

    async def take(self) -> None:
        """Look again and again, until cancelled or the process has ended."""
        with suppress(OSError, LookupError):  # a process that ends has no memory any more
            while True:
                vitals = os_vitals(self._pid)
                self.memory_before_kib = self.memory_before_kib or vitals.memory_kib
                self.memory_kib = max(self.memory_kib, vitals.memory_kib)
                self.files = max(self.files, vitals.descriptors)
                await trio.sleep(_SAMPLE_SECONDS)
