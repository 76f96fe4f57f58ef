"""A map of one ``tools/call`` through the package, file by file, for newcomers.

``python -m benchmarks.call_path [link|http]`` opens a client of a server in this process, calls a tool once to warm up,
and follows the second call from the client's first step to its result. Every change from one file of the package to
another is one line of the map. Trio schedules tasks in random order, so the counts of two calls may differ a little:
the program prints the shortest of several. A test runs it and holds its counts against `LIMITS`. It does so in a
process of its own, because a call passes further files where OpenTelemetry is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import trio
from attrs import define, field, frozen
from trio.testing import memory_stream_pair

import trio_mcp
from trio_mcp import Client, Server, open_http_client, open_stream_client, serve_http, serve_stream

__all__ = ["FOLLOWERS", "LIMITS", "CallPath", "CallPathLimits", "Step", "follow_http_call", "follow_link_call"]

PACKAGE: Final = Path(trio_mcp.__file__).parent
_CALLS: Final = 5
"""The number of calls of which the shortest is printed."""


@frozen
class CallPathLimits:
    """The most that a call may pass on its way."""

    files: int
    changes: int | None
    """Changes of file; None for no limit."""


LIMITS: Final = {"link": CallPathLimits(files=21, changes=71), "http": CallPathLimits(files=38, changes=None)}
"""The limits of each transport."""


@frozen
class Step:
    """A stretch of a call inside one file."""

    file: str
    """The path inside the package."""
    functions: tuple[str, ...]
    """The functions that were entered there, in order."""


@define
class CallPath:
    """The files of the package that one call passes, in order."""

    steps: list[Step] = field(factory=list[Step])

    @property
    def files(self) -> list[str]:
        """The files without repetition, in the order of their first steps."""
        return list(dict.fromkeys(step.file for step in self.steps))

    @property
    def changes(self) -> int:
        """The number of times that the call goes from one file to another."""
        return max(0, len(self.steps) - 1)

    def lines(self) -> Generator[str]:
        """Yield the map: one line for each step, then the counts."""
        for step in self.steps:
            yield f"{step.file:<44} {', '.join(step.functions)}"
        yield f"{len(self.files)} files, {self.changes} changes of file"

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record every function of the package that is entered inside the block, in this thread."""

        def on_event(frame: FrameType, event: str, argument: Any) -> None:
            del argument
            if event == "call":
                self._enter(frame)

        sys.setprofile(on_event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _enter(self, frame: FrameType) -> None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return
        file, function = path.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname
        if self.steps and self.steps[-1].file == file:
            last = self.steps.pop()
            functions = last.functions if last.functions[-1] == function else (*last.functions, function)
            self.steps.append(Step(file, functions))
        else:
            self.steps.append(Step(file, (function,)))


def adding_server() -> Server:
    """Return a server with one tool, `add`."""
    server = Server("call-path")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


async def follow_link_call() -> CallPath:
    """Return the path of a call over a stream in memory, through both ends of the link."""
    near, far = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, adding_server(), far)
        async with open_stream_client(near) as client:
            path = await _follow(client)
    return path


async def follow_http_call() -> CallPath:
    """Return the path of a call over HTTP on a socket of this machine, through client and server."""
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, adding_server(), port=0))
        async with open_http_client(bound.url) as client:
            path = await _follow(client)
        await bound.stop()
    return path


async def _follow(client: Client) -> CallPath:
    await client.call_tool("add", {"a": 1, "b": 2})  # warm up: the first call creates what later calls reuse
    path = CallPath()
    with path.recording():
        result = await client.call_tool("add", {"a": 3, "b": 4})
    assert result.structured_content == {"result": 7}
    return path


FOLLOWERS: Final = {"link": follow_link_call, "http": follow_http_call}
"""The function that follows a call, by transport."""


def main(arguments: Sequence[str]) -> None:
    """Print the maps of the named transports, by default of both."""
    for name in arguments or FOLLOWERS:
        paths = [trio.run(FOLLOWERS[name]) for _ in range(_CALLS)]
        print(f"tools/call over {name}:")
        for line in min(paths, key=lambda path: path.changes).lines():
            print(f"    {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
