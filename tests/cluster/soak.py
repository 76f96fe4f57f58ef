"""A load on a service of four processes that are killed and restarted: ``python -m tests.cluster.soak 1200 redis``.

Requests go to the processes in turn. Connections between the processes are cut; Redis is restarted and suspended.

Rules of this file:

1. A call may fail only if a process was killed, or was starting, while it was in flight. No answer may be wrong.
   Neither Redis nor the connections between the processes are a reason.
2. A call that was answered was carried out once, and one that has failed at most once.
3. A listener learns of each change that was made while it listened, whichever process made it.
4. At the end, every process answers, and nothing has grown: neither the descriptors nor the tasks of the processes.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from attrs import define, field

from trio_mcp import Client, ResourceUpdated, TrioMcpError, open_http_client, types
from trio_mcp.transports import EngineError, HttpResponse
from trio_mcp.transports.http._http1_engine import Http1Engine

PROGRAM: Final = Path(__file__).parent / "programs" / "node.py"
PATIENCE: Final = 60
"""The seconds after which something that must happen has not happened; processes of a busy machine start slowly."""
NODES: Final = 4
_CALLERS: Final = 4
"""The callers of each revision."""


class WrongError(AssertionError):
    """What must not happen."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@define(eq=False)
class Balancer:
    """An HTTP engine that sends each request to the next process, or to the one after it if that is not there."""

    ports: Sequence[int]
    _engine: Http1Engine = field(factory=Http1Engine, init=False)
    _turns: count[int] = field(factory=count, init=False)

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, on_sent: Callable[[], None] | None
    ) -> AsyncGenerator[HttpResponse]:
        turn = next(self._turns)
        async with AsyncExitStack() as stack:
            yield await self._first_response(stack, turn, method, url, headers, content, on_sent)

    async def _first_response(
        self,
        stack: AsyncExitStack,
        turn: int,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes,
        on_sent: Callable[[], None] | None,
    ) -> HttpResponse:
        for attempt in count(turn):
            place = urlsplit(url)._replace(netloc=f"127.0.0.1:{self.ports[attempt % len(self.ports)]}").geturl()
            request = self._engine.request(method, place, headers, content, on_sent=on_sent)
            try:
                return await stack.enter_async_context(request)
            except EngineError as error:
                if error.sent or attempt == turn + len(self.ports) - 1:
                    raise
        raise AssertionError("the loop does not end")

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        return self._request(method, url, headers, content, on_sent)

    async def aclose(self) -> None:
        await self._engine.aclose()


@define(eq=False)
class Redis:
    """A Redis server, whose data is lost when it is restarted."""

    port: int = field(factory=_free_port)
    _process: trio.Process | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        command = ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._process = await trio.lowlevel.open_process(command, stdout=subprocess.DEVNULL)
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", self.port)
                except OSError:
                    await trio.sleep(0.02)
                else:
                    await stream.aclose()
                    return

    async def restart(self) -> None:
        await self.aclose()
        await trio.sleep(0.5)
        await self.start()

    async def suspend(self, seconds: float) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        await trio.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    async def aclose(self) -> None:
        if self._process is not None:
            with trio.CancelScope(shield=True):
                self._process.kill()
                await self._process.wait()


@define(eq=False)
class Fleet:
    """The processes of the service."""

    ports: Sequence[int]
    shared: str
    """The file or the URL of their backend."""
    journal: Path
    options: Sequence[str] = ()
    processes: dict[int, trio.Process] = field(factory=dict[int, trio.Process], init=False)
    """By port."""
    disturbances: int = field(default=0, init=False)
    """The number of times that a process was killed or stopped."""
    is_disturbed: bool = field(default=False, init=False)
    """True from then until it accepts connections again."""

    async def start(self, port: int) -> None:
        """Start a process until it serves; one that is started while Redis is away ends, and is started again."""
        while not await self._begin(port):
            if "SharedUnavailable" not in self.log_of(port).read_text():
                raise WrongError(f"a process did not start: {self.log_of(port).read_text()}")

    async def _begin(self, port: int) -> bool:
        """Start a process; return True when it serves, and False if it ends before."""
        command = [sys.executable, str(PROGRAM), str(port), self.shared, str(self.journal), *self.options]
        with self.log_of(port).open("wb") as log:
            self.processes[port] = await trio.lowlevel.open_process(
                command, stdin=subprocess.DEVNULL, stderr=log, env=dict(os.environ)
            )
        with trio.fail_after(PATIENCE):
            while self.processes[port].poll() is None:
                try:
                    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                        await stream.send_all(b"GET /any HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                        if (await stream.receive_some()).startswith(b"HTTP/1.1 404"):
                            return True
                except (OSError, trio.BrokenResourceError):
                    pass
                await trio.sleep(0.05)
        return False

    def ended(self) -> str:
        """Return what the processes have printed that have ended by themselves."""
        return "".join(
            f"\nthe process at {port} has ended: {self.log_of(port).read_text()[-8000:]}"
            for port, process in self.processes.items()
            if process.poll() is not None
        )

    def log_of(self, port: int) -> Path:
        return self.journal.with_name(f"log-{port}")

    async def kill(self, port: int) -> None:
        """Kill a process, and start another one in its place."""
        self.disturbances += 1
        self.is_disturbed = True
        self.processes[port].kill()
        await self.processes[port].wait()
        await self.start(port)
        self.is_disturbed = False

    async def replace(self, port: int) -> None:
        """Stop a process as a deployment does, and start another one in its place."""
        self.processes[port].send_signal(signal.SIGTERM)
        with trio.fail_after(PATIENCE):
            status = await self.processes[port].wait()
        if status:
            raise WrongError(f"a stopped process ended with status {status}: {self.log_of(port).read_text()}")
        await self.start(port)

    def descriptors(self) -> int:
        """Return the number of descriptors of all processes."""
        return sum(len([*Path(f"/proc/{each.pid}/fd").iterdir()]) for each in self.processes.values())

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            for process in self.processes.values():
                process.kill()
                await process.wait()


@asynccontextmanager
async def fleet(shared: str | None, *options: str) -> AsyncGenerator[Fleet]:
    """Run the processes for as long as the block lasts; with a file of their own if *shared* is None."""
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "shared.db") if shared is None else shared
        made = Fleet([_free_port() for _ in range(NODES)], place, Path(folder) / "journal", options)
        try:
            for port in made.ports:
                await made.start(port)
            yield made
        finally:
            await made.aclose()


@define(eq=False)
class Soak:
    """One run of the load."""

    fleet: Fleet
    dice: random.Random
    front: str | None = None
    """The URL of a balancer; by default the clients send each request to the next process."""
    done: Counter[str] = field(factory=Counter[str])
    """What was done, by kind."""
    answered: set[int] = field(factory=set[int])
    """The numbers of the calls that were answered."""
    _numbers: count[int] = field(factory=lambda: count(1))

    async def call(self, client: Client, tool: str, arguments: Any, **options: Any) -> Any:
        """Return the structured result of a call; None if it has failed and may have (rule 1)."""
        before, was_disturbed = self.fleet.disturbances, self.fleet.is_disturbed
        try:
            with trio.fail_after(PATIENCE):
                result = await client.call_tool(tool, arguments, **options)
        except TrioMcpError as failure:
            why = repr(failure)
        except trio.TooSlowError:
            raise WrongError(f"{tool}: no answer, and no failure") from None
        else:
            if not result.is_error:
                self.done[tool] += 1
                content: Any = result.structured_content
                return content["result"] if content else True
            why = str(result.content)
        if not was_disturbed and self.fleet.disturbances == before:
            await trio.sleep(1)  # a process that has failed needs some time to say so
            raise WrongError(f"{tool}: a call failed while all was well: {why}{self.fleet.ended()}")
        self.done["failed"] += 1
        await trio.sleep(0.05)
        return None

    async def caller(self, client: Client) -> None:
        """Call one tool after the other."""
        while True:
            number = next(self._numbers)
            match self.dice.choice(("echo", "echo", "steps", "ask")):
                case "echo":
                    seconds = self.dice.choice([0.0, 0.0, 0.001, 0.1])
                    answer = await self.call(client, "echo", {"number": number, "seconds": seconds})
                    self.check("echo", answer, number)
                    if answer is not None:
                        self.answered.add(number)
                case "steps":
                    await self.follow_steps(client, number)
                case _:
                    answer = await self.call(client, "ask", {"question": str(number)})
                    self.check("ask", answer, f"{number} answered")

    async def follow_steps(self, client: Client, number: int) -> None:
        received: list[float] = []

        async def note(progress: types.ProgressNotificationParams) -> None:
            received.append(progress.progress)

        answer = await self.call(client, "steps", {"number": number, "count": 20}, on_progress=note)
        self.check("steps", answer, number)
        if received != sorted(set(received)) or any(not 1 <= each <= 20 for each in received):
            raise WrongError(f"progress of another call, or out of order: {received}")
        if answer is not None:
            self.answered.add(number)

    @staticmethod
    def check(tool: str, answer: Any, expected: Any) -> None:
        if answer is not None and answer != expected:
            raise WrongError(f"{tool}: answered {answer!r} and not {expected!r}")

    async def listener(self, client: Client, name: str) -> None:
        """Listen to a resource, and have it changed through any process (rule 3)."""
        uri = f"state://{name}"
        while True:
            before, was_disturbed = self.fleet.disturbances, self.fleet.is_disturbed
            try:
                async with client.listen(resources=[uri]) as changes:
                    while True:
                        before, was_disturbed = self.fleet.disturbances, self.fleet.is_disturbed
                        if await self.call(client, "touch", {"name": name}) is None:
                            break
                        with trio.move_on_after(PATIENCE) as waiting:
                            if await anext(changes) != ResourceUpdated(uri):
                                raise WrongError("another change was reported")
                        if waiting.cancelled_caught and not was_disturbed and self.fleet.disturbances == before:
                            raise WrongError("a change was not reported")
                        self.done["changes"] += 1
                        await trio.sleep(0.05)
            except StopAsyncIteration:  # the process has stopped, and has said so
                self.done["listening ended"] += 1
            except TrioMcpError as failure:
                if not was_disturbed and self.fleet.disturbances == before:
                    raise WrongError(f"listening failed while all was well: {failure!r}") from failure
                await trio.sleep(0.1)

    async def kill_in_turn(self, seconds: float, pause: float) -> None:
        """Kill one process after the other."""
        until = trio.current_time() + seconds
        for number in count():
            await trio.sleep(pause)
            if trio.current_time() >= until:
                return
            await self.fleet.kill(self.fleet.ports[number % NODES])
            self.done["kill"] += 1

    async def cut_connections(self, client: Client) -> None:
        """Break the connections between the processes now and then."""
        while True:
            await trio.sleep(self.dice.uniform(0.1, 1.0))
            cut = await self.call(client, "cut", {})
            self.done["cut"] += cut or 0

    async def disturb_redis(self, redis: Redis, pause: float) -> None:
        """Restart Redis and suspend it, in turn."""
        while True:
            await trio.sleep(pause)
            await redis.restart()
            self.done["restarts of Redis"] += 1
            await trio.sleep(pause)
            await redis.suspend(5)
            self.done["pauses of Redis"] += 1

    async def run(self, *disturbing: Callable[[Client], Any]) -> None:
        """Load the service for as long as the first disturbance lasts; raises `WrongError`."""
        async with AsyncExitStack() as stack:
            clients = [await self._client(stack, revision) for revision in (types.REVISIONS[-1], types.REVISIONS[-2])]
            await self._load(clients, disturbing)
        async with AsyncExitStack() as stack:
            for revision in (types.REVISIONS[-1], types.REVISIONS[-2]):
                client = await self._client(stack, revision)
                for _ in range(NODES):
                    await client.call_tool("echo", {"number": 0, "seconds": 0.0})
        self.check_journal()

    async def _load(self, clients: Sequence[Client], disturbing: Sequence[Callable[[Client], Any]]) -> None:
        async with trio.open_nursery() as nursery:
            for client in [*clients] * _CALLERS:
                nursery.start_soon(self.caller, client)
            for number, client in enumerate(clients):
                nursery.start_soon(self.listener, client, str(number))
            first, *others = disturbing
            for other in others:
                nursery.start_soon(other, clients[0])
            await first(clients[0])
            nursery.cancel_scope.cancel()

    async def _client(self, stack: AsyncExitStack, revision: str) -> Client:
        engine = None if self.front else Balancer(self.fleet.ports)
        if engine is not None:
            stack.push_async_callback(engine.aclose)
        url = self.front or "http://localhost/mcp"
        opened = open_http_client(url, engine=engine, revision=revision, on_elicit=_answer, cache=False)
        return await stack.enter_async_context(opened)

    def check_journal(self) -> None:
        """Check rule 2."""
        times = Counter(map(int, self.fleet.journal.read_text().split()))
        del times[0]
        twice = [number for number, begun in times.items() if begun > 1]
        never = [number for number in self.answered if not times[number]]
        if twice or never:
            raise WrongError(f"carried out twice: {twice}; answered and never carried out: {never}")


async def _answer(question: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": f"{question.message} answered"})


async def soak(seconds: float, seed: int, *, with_redis: bool = False, pause: float = 20.0) -> Counter[str]:
    """Load a service for so many seconds, in which its processes are killed; return what was done.

    Args:
        with_redis: share by Redis, which is disturbed too; otherwise by a file.
        pause: the seconds between two kills.
    """
    redis = Redis()
    try:
        if with_redis:
            await redis.start()
        async with fleet(redis.url if with_redis else None) as running:
            run = Soak(running, random.Random(seed))

            async def kill(_: Client) -> None:
                await run.kill_in_turn(seconds, pause)

            async def disturb_redis(_: Client) -> None:
                await run.disturb_redis(redis, 1.7 * pause)

            await run.run(kill, run.cut_connections, *([disturb_redis] if with_redis else []))
            await trio.sleep(1)
            run.done["descriptors at the end"] = running.descriptors()
            return run.done
    finally:
        await redis.aclose()


def main() -> None:
    logging.getLogger("trio_mcp").setLevel(logging.CRITICAL)
    seconds, with_redis = float(sys.argv[1]), "redis" in sys.argv[2:]
    seed = random.randrange(10**6)
    sys.stdout.write(f"seed {seed}\n")
    done = trio.run(partial(soak, seconds, seed, with_redis=with_redis, pause=min(20.0, seconds / 10)))
    sys.stdout.write(", ".join(f"{count} {what}" for what, count in sorted(done.items())) + "\n")


if __name__ == "__main__":
    main()
