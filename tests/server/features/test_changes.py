"""Changes of a server: reported from any thread to the listeners of every serving."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import (
    Access,
    Change,
    Client,
    Context,
    CustomChange,
    ListChanged,
    ResourceUpdated,
    Server,
    open_client,
    types,
)
from trio_mcp.server.features import ChangeHub

NOTE = "note:7"


def note(of: str) -> str:
    return of


def make_server() -> Server:
    server = Server("s")
    server.tool(name="t")(lambda: None)
    server.prompt(name="p")(lambda: "")
    server.resource("note:{of}", name="note")(note)
    return server


@pytest.fixture
def server() -> Server:
    return make_server()


class RecordingListener:
    """A listener that records the changes that it receives."""

    access: Access | None = None

    def __init__(self) -> None:
        self.received: list[Change] = []
        self.flushes = 0
        self.tokens: set[object] = set()

    def changed(self, change: Change) -> None:
        self.received.append(change)
        self.tokens.add(trio.lowlevel.current_trio_token())

    def all_changed(self) -> None:
        raise AssertionError("no change is missed here")

    def notify_now(self) -> None:
        self.flushes += 1


def register_and_remove(server: Server) -> None:
    server.tool(name="t2")(lambda: None)
    server.tools.remove("t2")
    server.prompt(name="p2")(lambda: "")
    server.prompts.remove("p2")
    server.resources.add_static("a:b", "", name="r")
    server.resources.remove("a:b")
    server.resource("a:{of}", name="r")(note)
    server.resources.remove("a:{of}")
    server.resource_updated(NOTE)


LISTS = (ListChanged("tools"), ListChanged("prompts"), ListChanged("resources"), ListChanged("resources"))
EXPECTED: list[Change] = [*(change for change in LISTS for _ in range(2)), ResourceUpdated(NOTE)]


async def test_listeners_receive_every_registration_removal_and_update(server: Server) -> None:
    register_and_remove(server)  # without a listener
    async with server.serving() as serving:
        listener = RecordingListener()
        serving.changes.add(listener)
        register_and_remove(server)
        assert listener.received == EXPECTED
        serving.changes.discard(listener)
        serving.changes.discard(listener)
        register_and_remove(server)
        assert listener.received == EXPECTED


async def test_a_failed_registration_or_removal_reports_no_change(server: Server) -> None:
    async with server.serving() as serving:
        listener = RecordingListener()
        serving.changes.add(listener)
        with pytest.raises(ValueError, match="registered already"):
            server.tool(name="t")(lambda: None)
        with pytest.raises(KeyError):
            server.tools.remove("other")
        assert listener.received == []


async def test_every_serving_receives_a_change(server: Server) -> None:
    async with server.serving() as one, server.serving() as other:
        listeners = [RecordingListener(), RecordingListener()]
        for serving, listener in zip((one, other), listeners, strict=True):
            serving.changes.add(listener)
        server.resource_updated(NOTE)
        assert [listener.received for listener in listeners] == [[ResourceUpdated(NOTE)]] * 2


async def test_changes_from_threads_arrive_in_the_listening_trio_run_without_duplicates(server: Server) -> None:
    async with server.serving() as serving:
        listener = RecordingListener()
        serving.changes.add(listener)
        threads = [threading.Thread(target=register_and_remove, args=[server])]
        for thread in threads:
            thread.start()
            thread.join()  # no task runs meanwhile
        assert listener.received == []
        await wait_all_tasks_blocked()
        assert sorted(map(repr, listener.received)) == sorted(map(repr, set(EXPECTED)))
        assert listener.tokens == {trio.lowlevel.current_trio_token()}


def in_a_thread(report: Callable[[], None]) -> None:
    """Run a function in another thread; no task runs meanwhile."""
    thread = threading.Thread(target=report)
    thread.start()
    thread.join()


def state_of(task: str, state: str) -> CustomChange:
    return CustomChange("taskIds", task, "notifications/tasks", {"status": state})


def told(listener: RecordingListener) -> list[tuple[str, object]]:
    """Return the custom changes that were received, by what they tell."""
    return [(each.key, each.params["status"]) for each in listener.received if isinstance(each, CustomChange)]


async def test_the_newest_of_equal_changes_from_a_thread_is_received() -> None:
    hub, listener = ChangeHub(), RecordingListener()
    hub.add(listener)
    for change in (state_of("1", "working"), state_of("2", "working"), state_of("1", "completed")):
        in_a_thread(partial(hub.notify_nowait, change))
    await wait_all_tasks_blocked()

    assert told(listener) == [("2", "working"), ("1", "completed")]


async def test_a_change_of_the_trio_run_comes_after_earlier_ones_from_threads() -> None:
    hub, listener = ChangeHub(), RecordingListener()
    hub.add(listener)
    in_a_thread(partial(hub.notify_nowait, state_of("1", "working")))
    hub.notify_nowait(state_of("1", "completed"))
    await wait_all_tasks_blocked()

    assert told(listener) == [("1", "working"), ("1", "completed")]


def test_servings_in_different_trio_runs_receive_a_change_each_in_its_own_run(server: Server) -> None:
    lists: list[list[Change]] = []
    barrier = threading.Barrier(2)

    async def listen(*, reports: bool) -> None:
        async with server.serving() as serving:
            listener = RecordingListener()
            serving.changes.add(listener)
            await trio.to_thread.run_sync(barrier.wait)
            if reports:
                server.resource_updated(NOTE)
            with trio.fail_after(60):
                while not listener.received:
                    await trio.lowlevel.checkpoint()
            assert listener.tokens == {trio.lowlevel.current_trio_token()}
            lists.append(listener.received)
            await trio.to_thread.run_sync(barrier.wait)

    other = threading.Thread(target=trio.run, args=[partial(listen, reports=False)])
    other.start()
    trio.run(partial(listen, reports=True))
    other.join()
    assert lists == [[ResourceUpdated(NOTE)]] * 2


def test_a_change_after_the_trio_run_has_ended_is_dropped(server: Server) -> None:
    hubs: list[ChangeHub] = []

    async def run() -> None:
        hubs.append(ChangeHub())

    trio.run(run)
    hubs[0].notify_nowait(ResourceUpdated(NOTE))
    server.resource_updated(NOTE)


async def test_a_change_from_a_thread_is_dropped_if_the_serving_ends_before_it_arrives(server: Server) -> None:
    listener = RecordingListener()
    async with server.serving() as serving:
        serving.changes.add(listener)
    assert serving.changes.listening == 0

    hub = ChangeHub()
    hub.add(listener)
    thread = threading.Thread(target=hub.notify_nowait, args=[ResourceUpdated(NOTE)])
    thread.start()
    thread.join()
    hub.close()
    await wait_all_tasks_blocked()
    assert listener.received == []


async def test_listeners_are_flushed_only_after_a_change() -> None:
    hub, listener = ChangeHub(), RecordingListener()
    hub.add(listener)
    hub.notify_now()
    assert listener.flushes == 0
    hub.notify_nowait(ResourceUpdated(NOTE))
    hub.notify_now()
    hub.notify_now()
    assert listener.flushes == 1


async def call_and_receive(client: Client, tool: str) -> list[Change]:
    async with client.listen(tools=True, resources=[NOTE]) as changes:
        await client.call_tool(tool, raise_on_error=True)
        return [await anext(changes), await anext(changes)]


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_async_and_plain_handlers_may_register_and_update(server: Server, revision: str) -> None:
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
            received = await call_and_receive(client, tool)
            assert sorted(map(repr, received)) == sorted(map(repr, [ListChanged("tools"), ResourceUpdated(NOTE)]))


async def test_threads_may_register_while_others_register_and_list() -> None:
    server, count = Server("s", page_size=7), 150
    server.tool(name="first")(lambda: None)
    server.resource("first:{of}", name="first")(note)

    def register(thread: int) -> None:
        for number in range(count):
            name = f"t{thread}-{number}"
            server.resource(f"{name}:{{of}}", name=name)(note)
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


def test_a_server_declares_change_notifications_for_the_features_that_it_has() -> None:
    assert json.loads(json.dumps(types.unstructure(make_server().capabilities))) == {
        "logging": {},
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
    }
    assert types.unstructure(Server("s").capabilities) == {"logging": {}}
