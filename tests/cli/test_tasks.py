"""`trio-mcp call --detach` and `trio-mcp task`: tasks that one command starts and others follow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import field, frozen

from tests.cli.command import environment, raw, terminal
from tests.cli.conftest import Command
from trio_mcp import Accepted, Context, McpError, Server, TaskSettings, ToolError, serve_http


@frozen
class Target:
    host: str


@frozen
class Builds:
    """A server of builds over HTTP, and a way to run the command with it."""

    url: str
    go_on: trio.Event = field(factory=trio.Event)
    """Set for builds that shall end."""

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        line = [sys.executable, "-m", "trio_mcp", *arguments, "--", self.url]
        with trio.fail_after(60):
            return await trio.run_process(
                line, capture_stdout=True, capture_stderr=True, check=False, env=environment()
            )

    async def start(self, *call: str) -> str:
        """Start a task; return its id."""
        done = await self.run("call", *call, "--detach")
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    async def json(self, *arguments: str) -> Any:
        done = await self.run("task", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@asynccontextmanager
async def builds() -> AsyncGenerator[Builds]:
    server = Server("builds", version="1", tasks=TaskSettings(poll_interval=0.05))
    go_on = trio.Event()

    @server.tool(task="required")
    async def build(project: str, ctx: Context) -> str:
        await ctx.report_progress(1, total=2, message=f"compiling {project}")
        await go_on.wait()
        return f"{project} is built"

    @server.tool(task="required")
    async def deploy(ctx: Context) -> str:
        match await ctx.elicit("Where to?", Target):
            case Accepted(value=Target(host=host)):
                return f"deployed to {host}"
            case other:
                return f"not deployed: {type(other).__name__}"

    @server.tool(task="required")
    async def broken(how: str) -> str:
        raise ToolError("the disk is full") if how == "tool" else McpError(-32000, "no quota")

    @server.tool(task="optional")
    async def asks_first(ctx: Context) -> str:
        return str(await ctx.elicit("Where to?", Target))

    @server.tool
    async def quick() -> str:
        return "done at once"

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0))
        yield Builds(bound.url, go_on)
        nursery.cancel_scope.cancel()


async def test_a_detached_call_prints_the_id_of_its_task_and_other_commands_find_it() -> None:
    async with builds() as server:
        done = await server.run("call", "build", "project=shop", "--detach")
        assert (done.returncode, done.stderr.decode()) == (
            0,
            "the task is working; trio-mcp task watch ID prints its result\n",
        )
        id = done.stdout.decode().strip()

        shown = dict(line.split("\t") for line in (await server.run("task", "get", id)).stdout.decode().splitlines())
        assert shown.pop("created") <= shown.pop("updated")
        assert shown == {"task": id, "status": "working", "message": "compiling shop", "kept for": "3600 s"}

        server.go_on.set()
        done = await server.run("task", "watch", id)
        assert (done.returncode, done.stdout) == (0, b"shop is built\n")
        assert done.stderr.decode().splitlines()[-1].startswith("completed")
        assert await server.json("get", id) == await server.json("watch", id)


async def test_a_detached_call_as_json_is_the_state_of_the_task() -> None:
    async with builds() as server:
        done = await server.run("call", "build", "project=shop", "--detach", "--json")
        created = json.loads(done.stdout)
        assert (done.returncode, created["status"]) == (0, "working")

        shown = await server.json("get", created["taskId"])
        assert shown.pop("statusMessage") == "compiling shop"
        assert created.items() >= {"ttlMs": 3_600_000, "pollIntervalMs": 50, "createdAt": shown["createdAt"]}.items()
        assert shown.keys() == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}


async def test_a_call_that_the_server_answers_at_once_prints_its_result_although_it_is_detached() -> None:
    async with builds() as server:
        done = await server.run("call", "quick", "--detach")
    assert (done.returncode, done.stdout) == (0, b"done at once\n")
    assert done.stderr == b"the server has answered at once, without a task\n"


async def test_a_detached_call_whose_server_asks_before_there_is_a_task_is_refused_or_answered(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('["decline"]')
    async with builds() as server:
        done = await server.run("call", "asks_first", "--detach")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"trio-mcp call: the server asks before it has made a task of the call")

        done = await server.run("call", "asks_first", "--detach", "--answer", str(tmp_path / "answers.json"))
        assert (done.returncode, done.stdout) == (0, b"Declined()\n")


async def test_a_call_that_is_not_detached_follows_its_task_to_the_end() -> None:
    async with builds() as server:
        server.go_on.set()
        done = await server.run("call", "build", "project=docs")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"docs is built\n", b"")


async def test_a_task_is_cancelled_once_and_watching_it_then_fails() -> None:
    async with builds() as server:
        id = await server.start("build", "project=shop")
        assert (await server.json("cancel", id))["status"] == "cancelled"
        assert (await server.json("cancel", id))["status"] == "cancelled"
        done = await server.run("task", "watch", id)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines()[-1].startswith("trio-mcp task: ")


async def test_the_questions_of_a_task_are_shown_and_answered_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"host": "staging"}')
    async with builds() as server:
        id = await server.start("deploy")
        assert "question\tWhere to?\n" in (await server.run("task", "get", id)).stdout.decode()

        refused = await server.run("task", "answer", id)
        assert (refused.returncode, refused.stderr.decode()) == (
            2,
            "trio-mcp task: the task asks 'input_required: Where to?': use --answer FILE, or a terminal\n",
        )
        answered = await server.run("task", "answer", id, "--answer", str(tmp_path / "answers.json"))
        assert answered.returncode == 0, answered.stderr
        assert (await server.run("task", "watch", id)).stdout == b"deployed to staging\n"

        late = await server.run("task", "answer", id, "--answer", str(tmp_path / "answers.json"))
        assert (late.returncode, late.stderr) == (
            2,
            b"trio-mcp task: the task has no open question: it is completed\n",
        )


async def test_a_watched_task_is_answered_in_the_terminal() -> None:
    async with builds() as server:
        id = await server.start("deploy")
        async with terminal("task", "watch", id, "--", server.url) as shown:
            await shown.until("\nhost> ")
            await shown.type("live\n")
            await shown.until("[c]ancel> ")
            await shown.type("y\n")
            assert await shown.end() == 0
    assert "deployed to live" in shown.shown


async def test_a_watched_task_that_nobody_here_can_answer_says_how_to_answer_it(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('["decline"]')
    async with builds() as server, trio.open_nursery() as nursery:
        id = await server.start("deploy")
        line = [sys.executable, "-m", "trio_mcp", "task", "watch", id, "--", server.url]
        start: Callable[..., Any] = partial(
            trio.run_process, line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=environment()
        )
        watching: trio.Process = await nursery.start(start)
        assert watching.stderr is not None
        assert watching.stdout is not None
        said = b""
        with trio.fail_after(60):
            while b"--answer FILE\n" not in said:
                said += await watching.stderr.receive_some()
            await server.run("task", "answer", id, "--answer", str(tmp_path / "answers.json"))
            result = b"".join([chunk async for chunk in watching.stdout])
    assert b"input_required: Where to?\n" in said
    assert result == b"not deployed: Declined\n"


@pytest.mark.parametrize(
    ("how", "line"),
    [("tool", "trio-mcp task: the tool failed: the disk is full\n"), ("error", "trio-mcp task: no quota (-32000)\n")],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_a_task_that_failed_fails_the_command_that_watches_it(
    how: str, line: str, options: tuple[str, ...]
) -> None:
    async with builds() as server:
        id = await server.start("broken", f"how={how}")
        done = await server.run("task", "watch", id, *options)
        assert done.returncode == 1
        assert line in done.stderr.decode()
        shown = (await server.run("task", "get", id)).stdout.decode()
    assert ("error\tno quota\n" if how == "error" else "result\t{") in shown


async def test_an_unknown_task_is_refused_by_the_server() -> None:
    async with builds() as server:
        done = await server.run("task", "get", "nothing")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"there is no task 'nothing', or it has expired" in done.stderr


def test_an_unknown_action_is_a_wrong_command_line(command: Command) -> None:
    done = command("task", "end", "1", *raw())
    assert done.status == 2
    assert "invalid choice: 'end'" in done.err


def test_a_server_of_2025_11_25_has_its_tasks_shown(command: Command) -> None:
    task = {"taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttl": None}
    server = raw(answers={"tasks/get": task}, capabilities={"tools": {}, "tasks": {}})
    done = command("task", "get", "1", *server)
    assert (done.status, done.out) == (0, "task\t1\nstatus\tworking\ncreated\ta\nupdated\tb\nkept for\tever\n")
