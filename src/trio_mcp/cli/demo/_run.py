"""`trio-mcp demo`: a client that shows, chapter by chapter, what it does with a server in a child process.

It is an ordinary program on the public names of trio_mcp. Read it from `run_demo` on; `Screen` only prints, and the
server is in `_server.py`. Strings of the server are printed as they are, never as markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ..._errors import RemoteProtocolError
from ...client import Client, TimeLimits, open_client, open_stdio_client
from ...server import Server, serve_http
from ...types import REVISIONS, CallToolResult, ReadResourceResult, TextContent, TextResourceContents
from .._output import table_of
from .._terminal import wrapped
from ._server import database_file, sqlite_server

__all__ = ["Screen", "run_demo"]


def _console() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


@define(eq=False)
class Screen:
    """Standard output: chapters, tables and a progress bar, on a terminal or in a log."""

    _console: Console = field(factory=_console, init=False)
    _chapters: int = field(default=0, init=False)

    def chapter(self, title: str, code: str) -> None:
        """Begin a chapter.

        Args:
            title: its topic.
            code: the line of code that it demonstrates.
        """
        self._chapters += 1
        self._console.print(f"\n{self._chapters}. {title}", style="bold")
        self._console.print(f"   {code}\n", style="cyan", soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line of the demo."""
        self._console.print(self._fitting(text), soft_wrap=True)

    def quote(self, who: str, words: str) -> None:
        """Print a statement of the server or the client."""
        text = self._fitting(f"{who}: {words}")
        self._console.print(text[: len(who) + 1], style="bold", end="", soft_wrap=True)
        self._console.print(text[len(who) + 1 :], style="green", soft_wrap=True)

    def _fitting(self, text: str) -> str:
        """Return a text that on a terminal is broken between words."""
        return wrapped(text, self._console.width, hanging="   ") if self._console.is_terminal else text

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table; an absent value is an empty cell."""
        cells = [["" if value is None else str(value) for value in row] for row in rows]
        self._console.print(table_of(columns, cells, self._console.width))

    @contextmanager
    def bar(self, title: str) -> Generator[Callable[[float, float | None], None]]:
        """Show a progress bar during the block; it yields a function that takes the amount done and the total.

        If there is no terminal, only the last state is printed.
        """
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
        # Each update draws: no thread draws at intervals.
        with Progress(*columns, console=self._console, auto_refresh=False) as progress:
            task = progress.add_task(title, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total, refresh=True)


TABLE = "waterings"
COUNT = "SELECT count(*) FROM waterings"
ATTACK = "DELETE FROM waterings"

QUERY = """\
SELECT beds.name AS bed, beds.light, count(DISTINCT plants.id) AS plants, sum(waterings.litres) AS litres
FROM beds JOIN plants ON plants.bed_id = beds.id JOIN waterings ON waterings.plant_id = plants.id
GROUP BY beds.id ORDER BY litres DESC"""

DEADLINE = 1
"""The seconds after which the client cancels a call that would take much longer."""

TIME_LIMITS = TimeLimits(idle=15, connect=15)
"""The limits of every request. The server runs on this machine, so a longer silence means a fault."""


def run_demo() -> None:
    """Run the demo, and delete its files at the end.

    Raises:
        TrioMcpError: a step of the demo failed; the message says which.
        OSError: the server cannot be started, or the database file cannot be created.
    """
    with database_file() as path:
        command = [sys.executable, "-m", "trio_mcp.cli.demo", str(path)]
        trio.run(demonstrate, command, sqlite_server(path), Screen())


async def demonstrate(command: Sequence[str], server: Server, screen: Screen) -> None:
    """Show every chapter with the server that *command* starts, and the last one with the same server over HTTP."""
    screen.say("trio-mcp demo: a server for a SQLite database, started as a child process, and its client")
    async with open_stdio_client(command, time_limits=TIME_LIMITS) as client:
        await show_the_lists(client, screen)
        await show_a_query(client, screen)
        await show_progress(client, screen)
        await show_a_deadline(client, screen)
    await show_two_revisions(command, screen)
    await show_http(server, screen)
    suggest_next_steps(command, screen)


async def show_the_lists(client: Client, screen: Screen) -> None:
    """List what the server offers."""
    screen.chapter("What the server offers", "async for tool in client.tools(): ...")
    screen.table(["tool", "what it does"], [[tool.name, first_line(tool.description)] async for tool in client.tools()])
    screen.quote("resources", ", ".join([resource.uri async for resource in client.resources()]))
    screen.quote("prompts", ", ".join([prompt.name async for prompt in client.prompts()]))
    screen.quote("protocol revision, found out by asking", client.revision)


async def show_a_query(client: Client, screen: Screen) -> None:
    """Read some rows, and show that the server refuses a write."""
    screen.chapter("Rows of a query", 'await client.call_tool("read_query", {"query": ...})')
    screen.say(QUERY)
    found = value_of(await client.call_tool("read_query", {"query": QUERY}, raise_on_error=True))
    screen.table(found["columns"], found["rows"])
    refused = await client.call_tool("read_query", {"query": ATTACK})
    screen.quote(f"the answer to {ATTACK!r} in the same tool", text_of(refused))


async def show_progress(client: Client, screen: Screen) -> None:
    """Show the progress of a slow call."""
    screen.chapter("Progress of a long call", "async for update in call.updates: ...")
    async with client.open_call("recount", {"table": TABLE, "pause": 0.02}) as call:
        with screen.bar(f"recounting {TABLE}") as show:
            async for update in call.updates:
                show(update.progress, update.total)
        screen.quote("result", text_of(await call.result()))


async def show_a_deadline(client: Client, screen: Screen) -> None:
    """Cancel a call by a deadline, and ask the server whether its handler was cancelled."""
    screen.chapter(
        "A call cancelled by a deadline", f"with trio.move_on_after({DEADLINE}): await client.call_tool(...)"
    )
    with trio.move_on_after(DEADLINE):
        await client.call_tool("recount", {"table": TABLE, "pause": 0.25})
    screen.quote("the client", f"gave up after {DEADLINE} s, and went on with the same connection")
    screen.quote("the server", await outcome_of_cancelled(client))


async def show_two_revisions(command: Sequence[str], screen: Screen) -> None:
    """Compare a conversation in the oldest revision with one in the newest."""
    oldest = REVISIONS[0]
    screen.chapter("One conversation, two revisions", f'open_client(command, revision="{oldest}")')
    await compare(command, screen)


async def show_http(server: Server, screen: Screen) -> None:
    """Serve over HTTP, and compare the same conversation again."""
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0))
        screen.chapter("The same conversation over HTTP", "open_client(bound.url)")
        screen.quote("served at", bound.url)
        await compare(bound.url, screen)
        await bound.stop()


async def compare(target: Sequence[str] | str, screen: Screen) -> None:
    """Print the results of one conversation in the oldest and in the newest revision."""
    oldest, newest = REVISIONS[0], REVISIONS[-1]
    old, new = [await converse(target, revision) for revision in (oldest, newest)]
    screen.table(["", oldest, newest], [[step, old[step], new[step]] for step in old])


async def converse(target: Sequence[str] | str, revision: str) -> dict[str, str]:
    """Have a conversation in one revision; return the result of each step."""
    async with open_client(target, revision=revision, time_limits=TIME_LIMITS) as client:
        tools = [tool.name async for tool in client.tools()]
        counted = await client.call_tool("read_query", {"query": COUNT}, raise_on_error=True)
        await client.call_tool("append_insight", {"insight": f"{revision} works"}, raise_on_error=True)
        memo = await client.read_resource("memo://insights")
        updates = 0
        async with client.open_call("recount", {"table": TABLE}) as call:
            async for _ in call.updates:
                updates += 1
                if updates == 3:
                    break  # leaving the block before the result arrives cancels the call
        return {
            "tools listed": str(len(tools)),
            "rows counted": str(value_of(counted)["rows"][0][0]),
            "the answer came as": "structured content" if is_structured(counted) else "text",
            "the memo says": last_line(memo),
            "left a call after": f"{updates} updates",
            "the server": await outcome_of_cancelled(client),
        }


async def outcome_of_cancelled(client: Client) -> str:
    """Return the demo server's report on the recount that was cancelled last.

    Raises:
        RemoteProtocolError: the server reports that the recount ran to its end.
    """
    outcome = value_of(await client.call_tool("recount_outcome", raise_on_error=True))
    if not outcome["cancelled"]:
        raise RemoteProtocolError(f"the call was cancelled, but the server's handler went on: {outcome}")
    return f"my handler was stopped after {outcome['counted']} of {outcome['total']} rows"


def suggest_next_steps(command: Sequence[str], screen: Screen) -> None:
    """Print suggestions for the user."""
    entry = {"sqlite": {"command": command[0], "args": [*command[1:-1], "your.db"]}}
    screen.chapter("What to try next", "from trio_mcp import Server, open_client")
    screen.say("Let an MCP host of yours use this server; its table of servers needs this entry:")
    screen.say(f'   "mcpServers": {json.dumps(entry)}')
    screen.say(f"Read this program: {Path(__file__)}")
    screen.say(f"Read its server:   {Path(__file__).with_name('_server.py')}")
    screen.say("Write your own: README.md has a server in thirty lines, and a client in twenty.")


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, which a model reads."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def value_of(result: CallToolResult) -> Any:
    """Return the structured content of a result. Revisions before 2025-06-18 have it as JSON in the text."""
    return result.structured_content if is_structured(result) else json.loads(text_of(result))


def is_structured(result: CallToolResult) -> bool:
    """Return True if a result has structured content, which is an object for every tool of the demo."""
    return isinstance(result.structured_content, dict)


def last_line(resource: ReadResourceResult) -> str:
    """Return the last line of a resource's text."""
    text = "".join(part.text for part in resource.contents if isinstance(part, TextResourceContents))
    return text.rpartition("\n")[2]


def first_line(text: str | None) -> str:
    """Return the first line of a description that may be missing."""
    return (text or "").partition("\n")[0]
