"""A server process that is killed at random moments loses no task that it has told of, and ends none twice.

``python -m tests.tasks.test_killed_server 200`` does so 200 times.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from tests.tasks.helpers import RawTasks
from trio_mcp import Client, ConnectionLost, open_client

PROGRAM = Path(__file__).parent / "programs" / "killed_server.py"
FINAL = {"completed", "failed", "cancelled"}
GONE = "the server that ran this task ended before the task did"


@define
class Kills:
    """Runs one server after another on the same file, and kills each."""

    path: Path
    dice: random.Random
    states: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    """The last state that was seen of each task, by id."""

    async def once(self) -> None:
        """Start a server, check the tasks of its predecessors, begin new ones, and kill it in the middle."""
        async with open_client([sys.executable, str(PROGRAM), str(self.path)]) as client:
            await self.check(client)
            process = int(await trio.Path(f"{self.path}.pid").read_text())
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(self.use, client)
                await trio.sleep(self.dice.uniform(0.0, 0.15))
                os.kill(process, signal.SIGKILL)

    async def use(self, client: Client) -> None:
        """Begin tasks, look at them and cancel some, until the server is gone."""
        tasks = RawTasks(client)
        try:
            while True:
                created = await tasks.call("work", {"seconds": self.dice.choice([0.0, 0.01, 60.0])})
                id = created["taskId"]
                self.states[id] = created
                if self.dice.random() < 0.2:
                    await tasks.cancel(id)
                self.states[id] = await tasks.get(id)
        except ConnectionLost:
            return

    async def check(self, client: Client) -> None:
        """Check every task that was told of: it is there and has ended, and what was final has not changed."""
        tasks = RawTasks(client)
        for id, seen in self.states.items():
            got = await tasks.get(id)
            assert got["status"] in FINAL, got
            if seen["status"] in FINAL:
                assert without_meta(got) == without_meta(seen)
            elif got["status"] == "failed":
                assert got["error"]["message"] == GONE
            self.states[id] = got


def without_meta(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in {"_meta", "resultType"}}


async def kill(times: int, path: Path, seed: int) -> Kills:
    kills = Kills(path, random.Random(seed))
    for _ in range(times):
        await kills.once()
    async with open_client([sys.executable, str(PROGRAM), str(path)]) as client:
        await kills.check(client)
    return kills


async def test_no_task_is_lost_or_ended_twice_when_the_server_is_killed(tmp_path: Path) -> None:
    kills = await kill(5, tmp_path / "tasks.db", seed=7)

    assert {each["status"] for each in kills.states.values()} >= {"completed", "failed"}
    assert not [name for name in names_in(tmp_path) if "-owner-" in name]


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kills = trio.run(kill, int(sys.argv[1]), Path(folder) / "tasks.db", 1)
    ends = [each["status"] for each in kills.states.values()]
    counts = {status: ends.count(status) for status in sorted({*ends})}
    sys.stdout.write(f"{counts}\n")


if __name__ == "__main__":
    main()
