"""Servers that are killed at random moments, under load: only calls in flight fail, and nothing is left in the end.

``python -m tests.client.test_killed_servers 2000`` kills 2000 times.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path

import trio
from attrs import define, field

from tests.client.test_many import PROGRAMS, wait_until_gone
from trio_mcp import Clients, ConnectionLost, Restart, open_clients

SERVERS = ("first", "second", "third")
CALLERS = 4
"""The number of callers of each server."""


@define
class Load:
    """Calls of many servers, which are killed meanwhile."""

    clients: Clients
    dice: random.Random
    answered: int = 0
    failed: int = 0
    killed: dict[str, list[int]] = field(factory=lambda: {name: [] for name in SERVERS})
    """The killed processes, by server."""

    @property
    def kills(self) -> dict[str, int]:
        """The number of kills by server."""
        return {name: len(killed) for name, killed in self.killed.items()}

    async def run(self, kills: int) -> None:
        """Call until so many servers were killed."""
        async with trio.open_nursery() as nursery:
            for name in SERVERS:
                for _ in range(CALLERS):
                    nursery.start_soon(self.call, name)
            while sum(self.kills.values()) < kills:
                await self.kill()
            nursery.cancel_scope.cancel()

    async def call(self, server: str) -> None:
        """Call one server, one call after the other. Each kill of the server may cost this caller one call."""
        failed = 0
        while True:
            number = self.dice.randrange(10**9)
            arguments = {"number": number, "seconds": self.dice.choice([0.0, 0.001, 0.02])}
            try:
                answer = await self.clients.call_tool(f"{server}__echo", arguments, returns=int)
            except ConnectionLost:
                failed += 1
                self.failed += 1
                assert failed <= self.kills[server], "a call failed that was not in flight"
            else:
                assert answer == number
                self.answered += 1

    async def kill(self) -> None:
        """Kill one server, unless it is still dying of the last time."""
        await trio.sleep(self.dice.uniform(0.0, 0.4))
        server = self.dice.choice(SERVERS)
        with suppress(ConnectionLost):
            process = await self.clients.call_tool(f"{server}__process", returns=int)
            self.killed[server].append(process)
            os.kill(process, signal.SIGKILL)


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def load(kills: int, seed: int) -> Load:
    entry = {"command": sys.executable, "args": [str(PROGRAMS / "echo_server.py")]}
    servers = {"mcpServers": dict.fromkeys(SERVERS, entry)}
    async with open_clients(servers, restart=Restart(after=0.01, at_most=0.05)) as clients:
        assert len([tool async for tool in clients.tools()]) == 2 * len(SERVERS)
        before = descriptors()
        run = Load(clients, random.Random(seed))
        await run.run(kills)
        while {name: status.restarts for name, status in clients.status.items()} != run.kills:  # noqa: ASYNC110
            await trio.sleep(0.01)  # the last one is still dying, and there is no event for its return
        running = [await clients.call_tool(f"{name}__process", returns=int) for name in SERVERS]
        assert descriptors() <= before
        assert all(status.state == "connected" for status in clients.status.values())
    for each in [*running, *chain(*run.killed.values())]:
        await wait_until_gone(each)
    return run


async def test_calls_fail_only_in_flight_and_nothing_is_left_when_servers_are_killed() -> None:
    with trio.fail_after(60):
        run = await load(6, seed=3)

    assert run.answered > run.failed


def main() -> None:
    run = trio.run(load, int(sys.argv[1]), 1)
    sys.stdout.write(f"{run.answered} calls answered, {run.failed} failed in flight\n")


if __name__ == "__main__":
    main()
