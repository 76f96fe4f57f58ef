"""A load on a gateway whose servers are killed, stopped and restarted meanwhile: ``python -m tests.gateway.soak 600``.

Rules of this file:

1. A call may fail only if its server was in trouble at some time during the call: from the moment it was killed or
   stopped until it has answered again. Nothing else may fail, and no answer may be wrong.
2. A listener learns of each change, also if its server was away when it happened.
3. In the end every server answers, and when the gateway has stopped, no process and no descriptor is left.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define, field

from tests.client.test_many import wait_until_gone
from tests.gateway.upstreams import Front, served
from trio_mcp import Client, ListChanged, ResourceUpdated, Restart, TrioMcpError, types
from trio_mcp.gateway import Gateway, Share

PROGRAM: Final = str(Path(__file__).parent / "programs" / "soak_server.py")
PATIENCE: Final = 120
"""The seconds after which something that must happen has not happened; servers of a busy machine start slowly."""
TIMEOUT: Final = 20
"""The seconds within which a server must answer."""
PROCESSES: Final = ("modern", "legacy", "mine")
WEB: Final = ("web", "oldweb")
SERVERS: Final = (*PROCESSES, *WEB)
ASKING: Final = ("modern", "web", "mine")
"""The servers whose questions belong to one call: the others may ask while several callers wait."""


class WrongError(AssertionError):
    """What must not happen."""


@define(eq=False)
class Trouble:
    """The times at which servers are in trouble."""

    begun: dict[str, int] = field(factory=lambda: dict.fromkeys(SERVERS, 0))
    """The number of troubles so far, by server."""
    now: set[str] = field(factory=set[str])
    """The servers that are in trouble now."""


@define(eq=False)
class Soak:
    """One run of the load."""

    front: Front
    dice: random.Random
    seconds: float
    ports: dict[str, int]
    trouble: Trouble = field(factory=Trouble)
    done: Counter[str] = field(factory=Counter[str])
    """What was done, by kind."""
    seen: set[int] = field(factory=set[int])
    """The processes so far."""
    web: dict[str, trio.Process] = field(factory=dict[str, trio.Process])
    """The processes behind URLs."""

    # --- Calls ---

    async def call(self, client: Client, server: str, tool: str, arguments: Any, **options: Any) -> Any:
        """Return the structured result of a call; None if it has failed because its server was in trouble."""
        before, was_in_trouble = self.trouble.begun[server], server in self.trouble.now
        why = ""
        try:
            with trio.fail_after(PATIENCE):
                result = await client.call_tool(f"{server}__{tool}", arguments, **options)
        except TrioMcpError as failure:
            why = repr(failure)
        except trio.TooSlowError:
            raise WrongError(f"{server} {tool}: no answer, and no failure") from None
        else:
            if not result.is_error:
                self.done[tool] += 1
                content: Any = result.structured_content
                return content["result"] if content else True
            why = str(result.content)
        if not was_in_trouble and self.trouble.begun[server] == before:
            raise WrongError(f"{server} {tool}: a call failed while its server was well: {why}")
        told = [f"the server '{server}' behind this gateway"]
        if tool == "ask":  # the process that answered with a question was replaced before the question was answered
            told.append("requestState: it is invalid or has expired")
        if not any(each in why for each in told):
            raise WrongError(f"{server} {tool}: a call failed for a wrong reason: {why}")
        self.done["failed"] += 1
        await trio.sleep(0.05)
        return None

    async def caller(self, client: Client) -> None:
        """Call one tool after the other."""
        while True:
            server, number = self.dice.choice(SERVERS), self.dice.randrange(10**9)
            match self.dice.choice(["echo", "echo", "steps", "ask"]):
                case "echo":
                    seconds = self.dice.choice([0.0, 0.001, 0.1])
                    answer = await self.call(client, server, "echo", {"number": number, "seconds": seconds})
                    self.check(server, "echo", answer, number)
                case "steps":
                    await self.follow_steps(client, server, number % 20)
                case _:
                    asking = self.dice.choice(ASKING)
                    answer = await self.call(client, asking, "ask", {"question": str(number)})
                    self.check(asking, "ask", answer, f"{number} answered")

    async def follow_steps(self, client: Client, server: str, number: int) -> None:
        received: list[float] = []

        async def note(progress: types.ProgressNotificationParams) -> None:
            received.append(progress.progress)

        answer = await self.call(client, server, "steps", {"number": number}, on_progress=note)
        self.check(server, "steps", answer, number)
        if received != sorted(set(received)) or any(not 1 <= each <= number for each in received):
            raise WrongError(f"{server}: progress of another call, or out of order: {received}")

    @staticmethod
    def check(server: str, tool: str, answer: Any, expected: Any) -> None:
        if answer is not None and answer != expected:
            raise WrongError(f"{server} {tool}: answered {answer!r} and not {expected!r}")

    # --- Changes (rule 2) ---

    async def listener(self, client: Client, server: str) -> None:
        """Listen to a resource of a server, and have it changed."""
        uri = f"state://{server}"
        while True:
            before, was_in_trouble = self.trouble.begun[server], server in self.trouble.now
            try:
                async with client.listen(resources=[uri]) as changes:
                    if uri not in changes.honored.resources:
                        if not was_in_trouble and self.trouble.begun[server] == before:
                            raise WrongError(f"{server}: listening was refused while it was well")
                        await trio.sleep(0.1)
                        continue
                    for _ in range(20):
                        await self.call(client, server, "touch", {})
                        try:
                            with trio.fail_after(PATIENCE):
                                change = await anext(changes)
                        except trio.TooSlowError:
                            raise WrongError(f"{server}: a change was not reported") from None
                        if change != ResourceUpdated(uri):
                            raise WrongError(f"{server}: reported {change}")
                        self.done["changes"] += 1
                        await trio.sleep(0.05)
            except TrioMcpError as failure:
                if not was_in_trouble and self.trouble.begun[server] == before:
                    raise WrongError(f"{server}: listening failed while it was well: {failure!r}") from failure
                await trio.sleep(0.1)

    async def lister(self, client: Client, server: str) -> None:
        """Have tools added and removed, and look for them in the list of the gateway."""
        async with client.listen(tools=True) as changes:
            for number in range(10**9):
                before = self.trouble.begun[server]
                added = await self.call(client, server, "extend", {"name": f"extra{number}"})
                if added is None:
                    continue
                wanted = {f"{server}__{each}" for each in added}
                with trio.move_on_after(PATIENCE) as scope:
                    while not wanted <= (names := {each.name async for each in client.tools(fresh=True)}):
                        if self.trouble.begun[server] != before or server in self.trouble.now:
                            break
                        if await anext(changes) != ListChanged("tools"):
                            raise WrongError("another list has changed")
                    missing = {f"{each}__echo" for each in SERVERS} - names
                    if missing:
                        raise WrongError(f"tools are not listed: {missing}")
                if scope.cancelled_caught:
                    raise WrongError(f"{server}: {wanted} were not listed")
                self.done["lists"] += 1
                await trio.sleep(0.2)

    # --- Trouble (rule 1) ---

    @asynccontextmanager
    async def in_trouble(self, server: str, client: Client) -> AsyncGenerator[None]:
        """Count a server as in trouble during the block, and until it has answered every caller again."""
        self.trouble.begun[server] += 1
        self.trouble.now.add(server)
        yield
        with trio.move_on_after(PATIENCE):
            while True:
                result: Any = None
                with suppress(TrioMcpError):
                    result = await client.call_tool(f"{server}__process")
                status = self.front.gateway.status[server]
                if result is not None and not result.is_error and status.state == "connected":
                    self.seen.add(result.structured_content["result"])
                    self.trouble.now.discard(server)
                    return
                await trio.sleep(0.05)
        raise WrongError(f"{server}: it is not back: {self.front.gateway.status[server]}")

    async def disturb(self, client: Client) -> None:
        """Kill, stop or restart one server after the other."""
        until = trio.current_time() + self.seconds
        while trio.current_time() < until:
            await trio.sleep(self.dice.uniform(0.0, 1.0))
            server = self.dice.choice(SERVERS)
            what = self.dice.choice(["kill", "stop", "restart"])
            process = self.web[server].pid if server in WEB else await self.call(client, server, "process", {})
            if process is None:
                raise WrongError(f"{server}: it was well and has not answered")
            self.seen.add(process)
            async with self.in_trouble(server, client):
                await getattr(self, what)(server, process)
            self.done[what] += 1

    async def kill(self, server: str, process: int) -> None:
        os.kill(process, signal.SIGKILL)
        if server in WEB:
            await self.web[server].wait()
            await trio.sleep(self.dice.choice([0.0, 0.5]))
            await self.start_web(server)
        else:
            await wait_until_gone(process)

    async def stop(self, server: str, process: int) -> None:
        del server
        is_long = self.seconds > PATIENCE and self.dice.random() < 1 / 8
        os.kill(process, signal.SIGSTOP)
        await trio.sleep(TIMEOUT + 5 if is_long else self.dice.uniform(0.1, 1.0))
        os.kill(process, signal.SIGCONT)

    async def restart(self, server: str, process: int) -> None:
        del process
        await self.front.gateway.upstreams[server].restart()

    async def start_web(self, server: str) -> None:
        """Start a server behind a URL, and wait until it accepts connections."""
        port = self.ports[server]
        command = [sys.executable, PROGRAM, server, "--port", str(port), *(["--legacy"] if server == "oldweb" else [])]
        self.web[server] = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
        )
        self.seen.add(self.web[server].pid)
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    await trio.sleep(0.05)
                else:
                    await stream.aclose()
                    return

    async def until_connected(self) -> None:
        """Wait until the gateway has reached the servers behind URLs, which were started after it."""
        with trio.fail_after(PATIENCE):
            while any(self.front.gateway.status[name].state != "connected" for name in WEB):  # noqa: ASYNC110
                await trio.sleep(0.05)

    # --- The run ---

    async def run(self) -> None:
        """Load the gateway for the time of the run; raises `WrongError`."""
        async with (
            self.front.client("ada", on_elicit=_answer) as modern,
            self.front.client("bob", revision=types.REVISIONS[-2], on_elicit=_answer) as legacy,
        ):
            callers = (modern, legacy)
            await self.until_connected()
            for client in callers:
                for server in SERVERS:
                    self.seen.add(await client.call_tool(f"{server}__process", returns=int))
            async with trio.open_nursery() as nursery:
                for client in callers:
                    for _ in range(4):
                        nursery.start_soon(self.caller, client)
                    nursery.start_soon(self.listener, client, self.dice.choice(["modern", "web"]))
                    nursery.start_soon(self.listener, client, self.dice.choice(["legacy", "oldweb"]))
                nursery.start_soon(self.lister, modern, "modern")
                nursery.start_soon(self.lister, legacy, "oldweb")
                await self.disturb(modern)
                nursery.cancel_scope.cancel()
            for client in callers:
                for server in SERVERS:
                    self.seen.add(await client.call_tool(f"{server}__process", returns=int))
            states = {name: status.state for name, status in self.front.gateway.status.items()}
            if set(states.values()) != {"connected"}:
                raise WrongError(f"not all is well in the end: {states}")


async def _answer(question: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": f"{question.message} answered"})


def _gateway(ports: dict[str, int]) -> Gateway:
    gateway = Gateway("soaked")
    usual: dict[str, Any] = {"restart": Restart(after=0.05, at_most=0.5), "timeout": TIMEOUT}
    for name in PROCESSES:
        command = [sys.executable, PROGRAM, name, *([] if name == "modern" else ["--legacy"])]
        share: Share = "session" if name == "mine" else "all"
        gateway.mount(command, name=name, prefix=name, share=share, max_concurrency=8, **usual)
    for name in WEB:
        gateway.mount(f"http://127.0.0.1:{ports[name]}/mcp", name=name, prefix=name, **usual)
    return gateway


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def soak(seconds: float, seed: int) -> Counter[str]:
    """Load a gateway for so many seconds; return what was done, and raise `WrongError` for what went wrong."""
    before = descriptors()
    ports = {name: _free_port() for name in WEB}
    gateway = _gateway(ports)
    async with served(gateway) as front:
        run = Soak(front, random.Random(seed), seconds, ports)
        try:
            for name in WEB:
                await run.start_web(name)
            await run.run()
            run.done["restarts"] = sum(status.restarts for status in gateway.status.values())
        finally:
            with trio.CancelScope(shield=True):
                for process in run.web.values():
                    process.kill()
                    await process.wait()
    with trio.fail_after(PATIENCE):
        for number in run.seen:
            await wait_until_gone(number)
    run.done["processes"] = len(run.seen)
    if descriptors() > before:
        raise WrongError(f"{descriptors() - before} descriptors are left")
    return run.done


def main() -> None:
    logging.getLogger("trio_mcp").setLevel(logging.CRITICAL)
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    sys.stdout.write(f"seed {seed}\n")
    done = trio.run(soak, seconds, seed)
    sys.stdout.write(", ".join(f"{count} {what}" for what, count in sorted(done.items())) + "\n")


if __name__ == "__main__":
    main()
