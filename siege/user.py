"""The ordinary user: ``python -m siege.user FOLDER PORT``.

It calls at a fixed pace, whether or not earlier calls were answered, so that a server that stands still for a second
delays as many calls as it would delay in life. One client speaks the newest revision, as one of `open_clients` with a
hostile server beside it; one is a legacy client. Every second somebody connects anew. Each answer is checked.

Its standard input commands it: ``hostile`` and ``peace`` begin and end the calls of the hostile server; ``end`` ends
the user; ``stop`` ends the calls and leaves some in flight, which are recorded when they end. It prints ``ready`` when
it is at work, and when these calls are in flight.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from trio_mcp import Bearer, Client, Clients, TrioMcpError, open_clients, open_http_client, types
from trio_mcp.wire import is_object

from .people import USER, Parties, url_at
from .records import CALL, HOSTILE, IN_FLIGHT, NEWCOMER, Record, RecordFile

__all__ = ["CALLS_IN_FLIGHT", "OrdinaryUser"]

PACE_SECONDS = 0.02
NEWCOMER_SECONDS = 1.0
HOSTILE_SECONDS = 1.0
TIMEOUT_SECONDS = 20.0
"""The seconds after which a call counts as lost."""
CALLS_IN_FLIGHT = 20
_IN_FLIGHT_SECONDS = 1.5
"""The duration of calls in flight: shorter than the drain of the server."""
_MOST_WAITING = 1000
"""Calls that may wait for an answer; then the pace stops, and the calls that are missing show it."""


class WrongAnswerError(Exception):
    """An answer is not that of the call, or not of this user."""


@define(eq=False)
class OrdinaryUser:
    """A user with two lasting clients."""

    parties: Parties
    url: str
    records: RecordFile
    modern: Clients
    legacy: Client
    hostile_tools: Sequence[str]
    meets_hostility: bool = False
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    async def call_at_pace(self) -> None:
        """Call until cancelled."""
        waiting = trio.CapacityLimiter(_MOST_WAITING)
        async with trio.open_nursery() as nursery:
            beat = time.monotonic()
            for n in self._numbers:
                nursery.start_soon(self._call, n, beat, waiting)
                beat += PACE_SECONDS
                await trio.sleep(max(0.0, beat - time.monotonic()))

    async def _call(self, n: int, due: float, waiting: trio.CapacityLimiter) -> None:
        """Make one call. It began when it was due, also if this process was too busy to make it then."""
        async with waiting:
            era = "legacy" if n % 2 else "modern"
            call = self.modern.call_tool if era == "modern" else self.legacy.call_tool
            match n // 2 % 10:
                case 0:
                    what, check = "ask", partial(_check_number, call, "ask", {"n": n}, n)
                case 1 | 2:
                    what, check = (
                        "add in a thread",
                        partial(_check_number, call, "add_in_thread", {"a": n, "b": 7}, n + 7),
                    )
                case 3 | 4 | 5:
                    what, check = "whoami", partial(self._check_identity, call)
                case _:
                    what, check = "add", partial(_check_number, call, "add", {"a": n, "b": 5}, n + 5)
            await self._record(CALL, f"{what}, {era}", check, due)

    async def _check_identity(self, call: Callable[..., Awaitable[types.CallToolResult]]) -> None:
        told = _content(await call("whoami"))
        if told != {"principal": USER, "secret": self.parties.secrets[USER]}:
            raise WrongAnswerError(f"the user is told to be {told}")

    async def connect_anew(self) -> None:
        """Connect and call, again and again."""
        async with trio.open_nursery() as nursery:
            for n in count(1):
                nursery.start_soon(self._record, NEWCOMER, "connect", partial(self._connect, n))
                await trio.sleep(NEWCOMER_SECONDS)

    async def _connect(self, n: int) -> None:
        revision = "2025-11-25" if n % 2 else "2026-07-28"
        async with open_http_client(self.url, auth=Bearer(self.parties.tokens[USER]), revision=revision) as client:
            await self._check_identity(client.call_tool)

    async def meet_hostility(self) -> None:
        """Use the tools of the hostile server while that is commanded."""
        for n in count():
            await trio.sleep(HOSTILE_SECONDS)
            if self.meets_hostility:
                await self._record(HOSTILE, "hostile", partial(self._use_hostile_tool, n))

    async def _use_hostile_tool(self, n: int) -> None:
        await self.modern.call_tool(self.hostile_tools[n % len(self.hostile_tools)])

    async def leave_calls_in_flight(self, task_status: trio.TaskStatus[None]) -> None:
        """Start calls of both clients, report that all of their handlers run, and record them when they end."""
        running = 0

        async def begun(_: object) -> None:
            nonlocal running
            await trio.lowlevel.checkpoint()
            running += 1
            if running == CALLS_IN_FLIGHT:
                task_status.started()

        async with trio.open_nursery() as nursery:
            for number in range(CALLS_IN_FLIGHT):
                client = self.legacy if number % 2 else self.modern["home"]
                call = partial(client.call_tool, on_progress=begun)
                wait = partial(_check_number, call, "wait", {"seconds": _IN_FLIGHT_SECONDS}, 0)
                nursery.start_soon(self._record, IN_FLIGHT, "wait", wait)

    async def _record(
        self, kind: str, what: str, call: Callable[[], Awaitable[None]], due: float | None = None
    ) -> None:
        begin, fault = time.monotonic() if due is None else due, None
        try:
            with trio.fail_after(TIMEOUT_SECONDS):
                await call()
        except trio.TooSlowError:
            fault = f"no answer within {TIMEOUT_SECONDS:g} s"
        except (WrongAnswerError, TrioMcpError) as exc:
            fault = f"{type(exc).__name__}: {exc}"[:300]
        except trio.Cancelled:
            return  # by the end of the siege
        self.records.write(Record(kind, what, begin, time.monotonic() - begin, fault))


async def _check_number(
    call: Callable[..., Awaitable[types.CallToolResult]], tool: str, arguments: dict[str, Any], expected: int
) -> None:
    told = _content(await call(tool, arguments))
    if told != {"n": expected}:
        raise WrongAnswerError(f"{expected} was expected, and the answer was {told}")


def _content(result: types.CallToolResult) -> Any:
    content: Any = result.structured_content
    if result.is_error or not is_object(content):
        raise WrongAnswerError(f"the answer was {str(result)[:200]}")
    return content


async def _answer(request: types.ElicitRequestParams) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"n": int(request.message.rpartition(" ")[2])})


@asynccontextmanager
async def _connected(folder: Path, port: int) -> AsyncGenerator[OrdinaryUser]:
    """Connect both clients, and learn the tools of all servers with their output schemas."""
    parties, url = Parties.read(folder), url_at(port)
    bearer = Bearer(parties.tokens[USER])
    servers = {"home": {"url": url}, "hostile": {"command": sys.executable, "args": ["-m", "siege.hostile"]}}
    async with AsyncExitStack() as stack:
        modern = await stack.enter_async_context(
            open_clients(
                {"mcpServers": servers}, auth_for=lambda name: bearer if name == "home" else None, on_elicit=_answer
            )
        )
        legacy = await stack.enter_async_context(
            open_http_client(url, auth=bearer, revision="2025-11-25", on_elicit=_answer)
        )
        names = [tool.name async for tool in modern.tools()]
        hostile = [name for name in names if name.startswith("hostile")]
        yield OrdinaryUser(parties, url, RecordFile.open(folder), modern, legacy, hostile)


async def run(folder: Path, port: int) -> None:
    """Be the ordinary user, as standard input commands."""
    async with (
        _connected(folder, port) as user,
        trio.open_nursery() as last_calls,
        trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin,
    ):
        async with trio.open_nursery() as nursery:
            for each in (user.call_at_pace, user.connect_anew, user.meet_hostility):
                nursery.start_soon(each)
            print("ready", flush=True)
            command = "end"
            async for command in _lines(stdin):
                user.meets_hostility = command == "hostile"
                if command in {"end", "stop"}:
                    break
            nursery.cancel_scope.cancel()
        if command == "end":
            return
        await last_calls.start(user.leave_calls_in_flight)
        print("ready", flush=True)


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncGenerator[str]:
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


if __name__ == "__main__":
    logging.disable()  # it expects what it would be warned of
    trio.run(run, Path(sys.argv[1]), int(sys.argv[2]))
