"""Dependencies of handlers: what is called, when it is left, and what is refused at registration."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import attrs
import pytest
import trio

from tests.server.helpers import text_of
from trio_mcp import Context, Resolve, Server, ToolError, open_client, types

log: list[str] = []
"""What the dependencies of this file have done in the current test."""


@pytest.fixture(autouse=True)
def _new_log() -> None:
    log.clear()


@attrs.frozen
class Database:
    user: str


async def user(ctx: Context) -> str:
    log.append("user")
    return ctx.revision


def database(name: Annotated[str, Resolve(user)], *ignored: int, port: int = 1, **options: int) -> Database:
    log.append("database" if threading.current_thread() is not threading.main_thread() else "database in the loop")
    return Database(name)


@asynccontextmanager
async def session(db: Annotated[Database, Resolve(database)]) -> AsyncGenerator[str]:
    log.append("session")
    try:
        yield f"session of {db.user}"
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    finally:
        log.append("session left")


@contextmanager
def locked() -> Generator[str]:
    log.append("locked")
    try:
        yield "lock"
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    finally:
        log.append("lock left" if threading.current_thread() is not threading.main_thread() else "left in the loop")


def make_server(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool
    async def both(
        word: str,
        lock: Annotated[str, Resolve(locked)],
        opened: Annotated[str, Resolve(session)],
        /,
        name: Annotated[str, Resolve(user)],
    ) -> str:
        log.append("both")
        if word == "fail":
            raise ToolError("no")
        if word == "sleep":
            await trio.sleep_forever()
        return f"{word}, {lock}, {opened}, {name}"

    @server.tool
    def plain(word: str, db: Annotated[Database, Resolve(database)], ctx: Context) -> str:
        return f"{word} {db.user} {ctx.revision}"

    return server


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_dependencies_are_resolved_once_for_each_call_and_left_in_reverse(revision: str) -> None:
    async with open_client(make_server(), revision=revision) as client:
        result = await client.call_tool("both", {"word": "hi"})

    assert text_of(result) == f"hi, lock, session of {revision}, {revision}"
    assert log == ["locked", "user", "database", "session", "both", "session left", "lock left"]


async def test_a_plain_handler_and_a_context_may_stand_beside_dependencies() -> None:
    async with open_client(make_server()) as client:
        revision = client.revision
        assert text_of(await client.call_tool("plain", {"word": "hi"})) == f"hi {revision} {revision}"


async def test_dependencies_are_neither_published_nor_accepted_as_arguments() -> None:
    async with open_client(make_server()) as client:
        schemas = {tool.name: tool.input_schema async for tool in client.tools()}
        refused = await client.call_tool("plain", {"word": "hi", "db": {"user": "me"}})

    assert [list(schemas[name]["properties"]) for name in ("both", "plain")] == [["word"], ["word"]]
    assert refused.is_error
    assert "$.db: unknown" in text_of(refused)
    assert log == []


async def test_a_handler_that_fails_leaves_its_dependencies_with_its_exception() -> None:
    async with open_client(make_server()) as client:
        result = await client.call_tool("both", {"word": "fail"})

    assert result.is_error
    assert text_of(result) == "no"
    assert log[-4:] == ["ToolError", "session left", "ToolError", "lock left"]


async def test_a_cancelled_call_leaves_its_dependencies() -> None:
    async with open_client(make_server()) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "both", {"word": "sleep"})
        while "both" not in log:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert log[-4:] == ["Cancelled", "session left", "Cancelled", "lock left"]


async def test_a_timeout_and_a_limit_of_a_tool_apply_to_its_dependencies(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, most, at_once = Server("s"), 0, 0

    async def slow(ctx: Context) -> float:
        nonlocal most, at_once
        at_once += 1
        most = max(most, at_once)
        try:
            await trio.sleep(4)
        finally:
            at_once -= 1
        return trio.current_time()

    @server.tool(timeout=3)
    async def late(at: Annotated[float, Resolve(slow)]) -> None: ...

    @server.tool(max_concurrency=1)
    async def one(at: Annotated[float, Resolve(slow)]) -> None: ...

    @server.tool(max_concurrency=1)
    def one_plain(at: Annotated[float, Resolve(slow)]) -> None: ...

    async with open_client(server) as client:
        assert text_of(await client.call_tool("late")) == "late timed out after 3 s"
        for name in ("one", "one_plain"):
            most = 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, name)
                nursery.start_soon(client.call_tool, name)
            assert most == 1


async def test_what_a_dependency_raises_is_what_the_handler_raises(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    def refuse() -> int:
        raise ToolError("not today")

    @contextmanager
    def swallow() -> Generator[int]:
        try:
            yield 1
        except ToolError:
            log.append("swallowed")

    @server.tool
    def work(one: Annotated[int, Resolve(swallow)], two: Annotated[int, Resolve(refuse)]) -> None: ...

    async with open_client(server) as client:
        result = await client.call_tool("work")

    assert (result.is_error, text_of(result)) == (True, "not today")
    assert log == ["swallowed"]
    assert not caplog.records


async def test_prompts_resources_and_completions_have_dependencies() -> None:
    server = Server("s")

    @server.prompt
    async def greet(name: str, opened: Annotated[str, Resolve(session)]) -> str:
        return f"{name}: {opened}"

    @server.resource("note://today")
    def today(db: Annotated[Database, Resolve(database)]) -> str:
        return db.user

    @server.resource("note:///{name}")
    def note(name: str, db: Annotated[Database, Resolve(database)]) -> str:
        return f"{name} of {db.user}"

    @server.completion(prompt="greet", argument="name")
    def names(db: Annotated[Database, Resolve(database)], typed: str, ctx: Context) -> list[str]:
        return [typed + db.user + ctx.revision]

    async with open_client(server) as client:
        revision = client.revision
        (listed,) = [prompt async for prompt in client.prompts()]
        assert [each.name for each in listed.arguments or ()] == ["name"]
        assert f"me: session of {revision}" in str(await client.get_prompt("greet", {"name": "me"}))
        assert revision in str(await client.read_resource("note://today"))
        assert f"x of {revision}" in str(await client.read_resource("note:///x"))
        completed = await client.complete(types.PromptReference(name="greet"), "name", "a")
        assert completed.values == [f"a{revision}{revision}"]
    assert "session left" in log


class Settings:
    def __init__(self, name: Annotated[str, Resolve(user)]) -> None:
        self.name = name

    async def prefix(self) -> str:
        return "p"


async def test_classes_methods_and_partials_are_dependencies() -> None:
    server, settings = Server("s"), Settings("x")

    def add(one: int, other: int = 2) -> int:
        return one + other

    @server.tool
    async def work(
        made: Annotated[Settings, Resolve(Settings)],
        prefix: Annotated[str, Resolve(settings.prefix)],
        again: Annotated[str, Resolve(settings.prefix)],
        total: Annotated[int | None, "a sum", Resolve(functools.partial(add, 1))] = None,
    ) -> str:
        return f"{made.name} {prefix} {again} {total}"

    async with open_client(server) as client:
        assert text_of(await client.call_tool("work")) == f"{client.revision} p p 3"


async def test_a_handler_that_never_waits_does_not_wait_with_dependencies_that_never_do() -> None:
    server, tasks = Server("s"), list[trio.lowlevel.Task]()

    async def me(ctx: Context) -> trio.lowlevel.Task:
        return trio.lowlevel.current_task()

    @server.tool
    async def quick(task: Annotated[trio.lowlevel.Task, Resolve(me)]) -> None:
        tasks.append(task)

    @server.tool
    async def slow(task: Annotated[trio.lowlevel.Task, Resolve(me)], opened: Annotated[str, Resolve(locked)]) -> None:
        tasks.append(task)

    async with open_client(server) as client:
        await client.call_tool("quick")
        await client.call_tool("slow")

    assert [task.name == "tools/call handler" for task in tasks] == [False, True]


async def test_a_manager_that_a_thread_enters_is_left_although_the_call_is_cancelled_meanwhile() -> None:
    server, began, cancelled, release = Server("s"), trio.Event(), trio.Event(), threading.Event()

    async def tell() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    @asynccontextmanager
    async def watched() -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tell)
            yield

    @contextmanager
    def slow() -> Generator[None]:
        trio.from_thread.run_sync(began.set)
        release.wait(10)
        log.append("entered")
        try:
            yield
        finally:
            log.append("left")

    @server.tool
    async def work(one: Annotated[None, Resolve(watched)], two: Annotated[None, Resolve(slow)]) -> None:
        log.append("work")

    async with open_client(server) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "work")
            await began.wait()
            nursery.cancel_scope.cancel()
        await cancelled.wait()
        release.set()

    assert log == ["entered", "left"]


# --- At registration ---


def refusal(register: Callable[[Any], Any], function: Callable[..., Any]) -> str:
    with pytest.raises(TypeError) as error:
        register(function)
    return str(error.value)


async def chicken(other: Annotated[int, Resolve(egg)]) -> int:  # pyright: ignore[reportUndefinedVariable, reportUnknownArgumentType] # it is defined below
    return other


async def egg(other: Annotated[int, Resolve(chicken)]) -> int:
    return other


def generator() -> Generator[int]:
    yield 1


def of_argument(limit: int) -> int:
    return limit


def of_position(ctx: Context, /) -> str:
    return ctx.revision


def test_a_dependency_that_cannot_be_resolved_is_refused_at_registration() -> None:
    server = Server("s")

    def circular(it: Annotated[int, Resolve(egg)]) -> None: ...

    def generating(it: Annotated[int, Resolve(generator)]) -> None: ...

    def arguing(it: Annotated[int, Resolve(of_argument)]) -> None: ...

    def positional(it: Annotated[str, Resolve(of_position)]) -> None: ...

    assert refusal(server.tool, circular) == "circular: the dependencies form a circle: egg -> chicken -> egg"
    assert refusal(server.prompt, generating) == (
        "generating: dependency 'generator': "
        "a generator function needs @contextmanager or @asynccontextmanager above it"
    )
    assert refusal(server.resource("a://b"), arguing) == (
        "arguing: dependency 'of_argument': parameter 'limit' is neither a Context nor "
        "`Annotated[..., Resolve(function)]`; give it a default"
    )
    assert refusal(server.tool, positional) == (
        "positional: dependency 'of_position': parameter 'ctx' is positional-only, but dependencies are passed by name"
    )


def test_a_dependency_that_is_not_written_as_it_must_be_is_refused_at_registration() -> None:
    server = Server("s")

    def bare(it: Annotated[int, Resolve]) -> None: ...

    def inside(it: Annotated[int, Resolve(user)] | None) -> None: ...

    assert refusal(server.tool, bare) == (
        "bare: parameter 'it': Resolve without a function: write `Annotated[..., Resolve(function)]`"
    )
    assert refusal(server.tool, inside) == (
        "inside: parameter 'it': Resolve must be outermost, as in `Annotated[... | None, Resolve(function)]`"
    )
    with pytest.raises(TypeError, match=r"Resolve\(5\): must be given a function"):
        Resolve(5)  # type: ignore[arg-type]


def test_a_default_of_a_dependency_is_refused_because_nothing_would_use_it() -> None:
    server = Server("s")

    def counting(count: Annotated[int, Resolve(user)] = 3) -> None: ...

    def unset(count: Annotated[int | None, Resolve(user)] = None) -> None: ...

    assert refusal(server.tool, counting) == "counting: parameter 'count': a dependency has no default"
    server.tool(unset)  # Python demands a default after a parameter with one


def test_a_handler_with_a_context_manager_around_it_is_still_refused() -> None:
    assert "a generator function cannot be a handler" in refusal(Server("s").tool, locked)


def test_a_program_without_dependencies_does_not_load_them() -> None:
    program = (
        "import sys, trio\n"
        "from trio_mcp import Server, open_client\n"
        "server = Server('s')\n"
        "@server.tool\n"
        "def add(a: int) -> int: return a\n"
        "async def main():\n"
        "    async with open_client(server) as client: await client.call_tool('add', {'a': 1})\n"
        "trio.run(main)\n"
        "sys.exit('trio_mcp.server._resolve' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
