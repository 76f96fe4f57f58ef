"""Where changes come from: any thread, any time, any number of servings."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Change, Client, Context, ListChanged, ResourceUpdated, Server, open_client, types
from trio_mcp.server.features import ChangeHub

NOTE = "note:7"


def text(of: str) -> str:
    return of


def make_server() -> Server:
    server = Server("s")
    server.tool(name="t")(lambda: None)
    server.prompt(name="p")(lambda: "")
    server.resource("note:{of}", name="note")(text)
    return server


@pytest.fixture
def server() -> Server:
    return make_server()


class Notes:
    """A listener that writes down."""

    def __init__(self) -> None:
        self.taken: list[Change] = []
        self.said = 0
        self.runs: set[object] = set()

    def changed(self, change: Change) -> None:
        self.taken.append(change)
        self.runs.add(trio.lowlevel.current_trio_token())

    def notify_now(self) -> None:
        self.said += 1


def register_and_remove(server: Server) -> None:
    server.tool(name="t2")(lambda: None)
    server.tools.remove("t2")
    server.prompt(name="p2")(lambda: "")
    server.prompts.remove("p2")
    server.resources.add_static("a:b", "", name="r")
    server.resources.remove("a:b")
    server.resource("a:{of}", name="r")(text)
    server.resources.remove("a:{of}")
    server.resource_updated(NOTE)


LISTS = (ListChanged("tools"), ListChanged("prompts"), ListChanged("resources"), ListChanged("resources"))
TOLD: list[Change] = [*(change for change in LISTS for _ in range(2)), ResourceUpdated(NOTE)]


async def test_all_that_is_registered_removed_and_updated_is_told(server: Server) -> None:
    register_and_remove(server)  # to nobody
    async with server.serving() as serving:
        notes = Notes()
        serving.changes.add(notes)
        register_and_remove(server)
        assert notes.taken == TOLD
        serving.changes.discard(notes)
        serving.changes.discard(notes)
        register_and_remove(server)
        assert notes.taken == TOLD


async def test_what_fails_to_be_registered_or_removed_changes_nothing(server: Server) -> None:
    async with server.serving() as serving:
        notes = Notes()
        serving.changes.add(notes)
        with pytest.raises(ValueError, match="registered already"):
            server.tool(name="t")(lambda: None)
        with pytest.raises(KeyError):
            server.tools.remove("other")
        assert notes.taken == []


async def test_every_serving_is_told(server: Server) -> None:
    async with server.serving() as one, server.serving() as other:
        listeners = [Notes(), Notes()]
        for serving, notes in zip((one, other), listeners, strict=True):
            serving.changes.add(notes)
        server.resource_updated(NOTE)
        assert [notes.taken for notes in listeners] == [[ResourceUpdated(NOTE)]] * 2


async def test_changes_of_threads_are_told_in_the_run_that_listens_equal_ones_once(server: Server) -> None:
    async with server.serving() as serving:
        notes = Notes()
        serving.changes.add(notes)
        threads = [threading.Thread(target=register_and_remove, args=[server])]
        for thread in threads:
            thread.start()
            thread.join()  # while no task runs
        assert notes.taken == []
        await wait_all_tasks_blocked()
        assert sorted(map(repr, notes.taken)) == sorted(map(repr, set(TOLD)))
        assert notes.runs == {trio.lowlevel.current_trio_token()}


def test_servings_in_different_runs_are_told_each_in_its_own(server: Server) -> None:
    told: list[list[Change]] = []
    barrier = threading.Barrier(2)

    async def listen(*, tells: bool) -> None:
        async with server.serving() as serving:
            notes = Notes()
            serving.changes.add(notes)
            await trio.to_thread.run_sync(barrier.wait)
            if tells:
                server.resource_updated(NOTE)
            with trio.fail_after(10):
                while not notes.taken:
                    await trio.lowlevel.checkpoint()
            assert notes.runs == {trio.lowlevel.current_trio_token()}
            told.append(notes.taken)
            await trio.to_thread.run_sync(barrier.wait)

    other = threading.Thread(target=trio.run, args=[partial(listen, tells=False)])
    other.start()
    trio.run(partial(listen, tells=True))
    other.join()
    assert told == [[ResourceUpdated(NOTE)]] * 2


def test_what_changes_after_a_run_has_ended_is_told_to_nobody(server: Server) -> None:
    hubs: list[ChangeHub] = []

    async def run() -> None:
        hubs.append(ChangeHub())

    trio.run(run)
    hubs[0].notify_nowait(ResourceUpdated(NOTE))
    server.resource_updated(NOTE)


async def test_what_is_on_its_way_from_a_thread_when_a_serving_ends_is_told_to_nobody(server: Server) -> None:
    notes = Notes()
    async with server.serving() as serving:
        serving.changes.add(notes)
    assert serving.changes.listening == 0

    hub = ChangeHub()
    hub.add(notes)
    thread = threading.Thread(target=hub.notify_nowait, args=[ResourceUpdated(NOTE)])
    thread.start()
    thread.join()
    hub.close()
    await wait_all_tasks_blocked()
    assert notes.taken == []


async def test_listeners_are_asked_to_speak_only_after_something_has_changed() -> None:
    hub, notes = ChangeHub(), Notes()
    hub.add(notes)
    hub.notify_now()
    assert notes.said == 0
    hub.notify_nowait(ResourceUpdated(NOTE))
    hub.notify_now()
    hub.notify_now()
    assert notes.said == 1


async def call_and_hear(client: Client, tool: str) -> list[Change]:
    async with client.listen(tools=True, resources=[NOTE]) as changes:
        await client.call_tool(tool, raise_on_error=True)
        return [await anext(changes), await anext(changes)]


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_handlers_of_both_kinds_may_register_and_update(server: Server, revision: str) -> None:
    @server.tool
    async def in_a_task(ctx: Context) -> None:
        server.tool(name="new")(lambda: None)
        ctx.resource_updated(NOTE)
        server.tools.remove("new")

    @server.tool
    def in_a_thread(ctx: Context) -> None:
        server.tool(name="new")(lambda: None)
        ctx.resource_updated(NOTE)
        server.tools.remove("new")

    async with open_client(server, revision=revision) as client:
        for tool in ("in_a_task", "in_a_thread"):
            heard = await call_and_hear(client, tool)
            assert sorted(map(repr, heard)) == sorted(map(repr, [ListChanged("tools"), ResourceUpdated(NOTE)]))


async def test_threads_may_register_while_others_register_and_list() -> None:
    server, count = Server("s", page_size=7), 150
    server.tool(name="first")(lambda: None)
    server.resource("first:{of}", name="first")(text)

    def register(thread: int) -> None:
        for number in range(count):
            name = f"t{thread}-{number}"
            server.resource(f"{name}:{{of}}", name=name)(text)
            server.tool(name=name)(lambda: None)
            if number % 2:
                server.tools.remove(name)

    async def read(client: Client, go_on: Callable[[], bool]) -> None:
        while go_on():
            names = [tool.name async for tool in client.tools()]
            assert len(set(names)) == len(names)
            await client.list_resource_templates()
            with pytest.raises(Exception, match="no resource"):
                await client.read_resource("nothing:here")

    async with open_client(server) as client, trio.open_nursery() as nursery:
        running = {0, 1, 2}

        async def work(thread: int) -> None:
            await trio.to_thread.run_sync(register, thread)
            running.remove(thread)

        for thread in range(3):
            nursery.start_soon(work, thread)
        await read(client, lambda: bool(running))
        expected = {"first"} | {f"t{thread}-{number}" for thread in range(3) for number in range(0, count, 2)}
        assert {tool.name async for tool in client.tools()} == expected


async def test_only_one_of_several_threads_gets_a_name() -> None:
    server, outcomes = Server("s"), list[str]()

    def register() -> None:
        for number in range(200):
            try:
                server.tool(name=f"t{number}")(lambda: None)
            except ValueError:
                continue
            outcomes.append(f"t{number}")

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.to_thread.run_sync, register)
    assert sorted(outcomes) == sorted({f"t{number}" for number in range(200)})


def test_a_server_declares_that_it_tells_of_what_it_has() -> None:
    assert json.loads(json.dumps(types.unstructure(make_server().capabilities))) == {
        "logging": {},
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
    }
    assert types.unstructure(Server("s").capabilities) == {"logging": {}}
