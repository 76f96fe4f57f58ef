"""The relay of changes: what one process reports, the listeners of all processes hear, once and in order."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from tests.cluster.interrupted_backend import InterruptedShared
from tests.interaction.over_cluster import URL, cluster
from trio_mcp import (
    Access,
    Change,
    Client,
    Context,
    CustomChange,
    ListChanged,
    MemoryShared,
    ResourceUpdated,
    Server,
    SharedUnavailable,
    open_http_client,
)
from trio_mcp.abc import Shared
from trio_mcp.cluster._changes import ChangeRelay
from trio_mcp.lowlevel import ServerExtensionPoints
from trio_mcp.wire import encode

MEMBER, EXTENSION, METHOD = "jobs", "com.example/jobs", "notifications/com.example/job"
SOON = 1.0
"""The time after which everything has arrived that is going to, on the clock that jumps."""


@define(eq=False)
class Listener:
    """A listener that records what it hears, with the params of custom changes."""

    access: Access | None = None
    heard: list[Any] = field(factory=list[Any])

    def changed(self, change: Change) -> None:
        if isinstance(change, CustomChange):
            self.heard.append((change.key, change.method, change.params))
        else:
            self.heard.append(change)

    def all_changed(self) -> None:
        self.heard.append("everything")

    def notify_now(self) -> None:
        """Do nothing: what is heard is recorded at once."""


@define(eq=False)
class Process:
    """A process of a service, with one listener."""

    server: Server
    relay: ChangeRelay
    listener: Listener = field(factory=Listener)

    @property
    def heard(self) -> list[Any]:
        return self.listener.heard

    def report(self, key: str, params: Any) -> None:
        """Report something to those who listen for the member of an extension."""
        ServerExtensionPoints(self.server).notify_listeners(MEMBER, key, METHOD, params)


@asynccontextmanager
async def process(shared: Shared, server: Server | None = None) -> AsyncGenerator[Process]:
    server = Server("one-of-many") if server is None else server
    points = ServerExtensionPoints(server)
    async with server.serving() as serving, shared.open() as state, trio.open_nursery() as nursery:
        made = Process(server, ChangeRelay(state, points, lambda: None))
        serving.changes.add(made.listener)
        await nursery.start(made.relay.receive)
        nursery.start_soon(made.relay.send)
        with points.relaying_changes(made.relay.take):
            yield made
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def processes(shared: Shared, number: int = 2) -> AsyncGenerator[Sequence[Process]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(process(shared)) for _ in range(number)]


async def append(shared: MemoryShared, entries: Iterable[bytes], at_most: int = 1000) -> None:
    """Append to the stream of changes what no process of this test has sent."""
    async with shared.open() as state:
        await state.append("changes", [*entries], at_most=at_most)


def entry(*changes: dict[str, Any]) -> bytes:
    return encode({"origin": "elsewhere", "changes": [*changes]})


# --- From one process to the others ---


async def test_a_change_of_any_kind_is_heard_once_by_every_process(autojump_clock: object) -> None:
    async with processes(MemoryShared(), 3) as (one, two, three):
        one.server.tool(name="t")(lambda: None)
        one.server.prompt(name="p")(lambda: "")
        one.server.resources.add_static("memo://today", "", name="r")
        one.server.resource_updated("memo://today")
        one.report("7", {"status": "done", "nothing": None})
        await trio.sleep(SOON)

        expected = [
            *(ListChanged("tools"), ListChanged("prompts"), ListChanged("resources")),
            ResourceUpdated("memo://today"),
            ("7", METHOD, {"status": "done", "nothing": None}),
        ]
        assert one.heard == two.heard == three.heard == expected


async def test_changes_of_each_process_are_heard_in_their_order(autojump_clock: object) -> None:
    async with processes(MemoryShared(), 3) as (one, two, three):
        for number in range(50):
            one.server.resource_updated(f"memo://one/{number}")
            two.server.resource_updated(f"memo://two/{number}")
            if number % 3 == 0:
                await trio.sleep(0.001)
        await trio.sleep(SOON)

        for each in (one, two, three):
            assert len(each.heard) == 100
            for name in ("one", "two"):
                updated = [change for change in each.heard if name in change.uri]
                assert updated == [ResourceUpdated(f"memo://{name}/{number}") for number in range(50)]


async def test_a_server_that_is_served_twice_hears_its_own_change_once_in_each_serving(autojump_clock: object) -> None:
    shared, server = MemoryShared(), Server("one")
    async with process(shared, server) as one, process(shared, server) as again, process(shared) as other:
        server.resource_updated("memo://today")
        await trio.sleep(SOON)
        assert one.heard == again.heard == [ResourceUpdated("memo://today")]
        assert other.heard != []
        assert {*other.heard} == {ResourceUpdated("memo://today")}


async def test_changes_are_not_relayed_any_more_when_the_process_has_left(autojump_clock: object) -> None:
    shared = MemoryShared()
    async with process(shared) as one:
        async with process(shared) as two:
            pass
        two.server.resource_updated("memo://today")
        await trio.sleep(SOON)
        assert one.heard == []


async def test_changes_of_before_are_not_heard_by_a_process_that_starts(autojump_clock: object) -> None:
    shared = MemoryShared()
    async with process(shared) as one:
        one.server.resource_updated("memo://before")
        await trio.sleep(SOON)
        async with process(shared) as two:
            one.server.resource_updated("memo://after")
            await trio.sleep(SOON)
            assert two.heard == [ResourceUpdated("memo://after")]


async def test_a_process_does_not_start_if_the_backend_cannot_be_reached(autojump_clock: object) -> None:
    backend = InterruptedShared()
    async with backend.open() as state, trio.open_nursery() as nursery:
        backend.is_down = True
        with pytest.raises(SharedUnavailable):
            await nursery.start(ChangeRelay(state, ServerExtensionPoints(Server("s")), lambda: None).receive)


async def test_a_change_that_cannot_be_sent_stays_here_and_others_do_not(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with processes(MemoryShared()) as (one, two):
        for _ in range(2):
            one.server.resource_updated("memo://\ud800")
            one.report("7", {"share": math.nan})
            await trio.sleep(SOON)
        one.server.resource_updated("memo://bad/\udfff")
        one.server.resource_updated("memo://good")
        await trio.sleep(SOON)
        assert two.heard == [ResourceUpdated("memo://good")]
    assert len(caplog.messages) == 5
    assert "is not relayed to other processes" in caplog.text


# --- From threads ---


async def test_changes_that_threads_report_are_heard_by_every_process(autojump_clock: object) -> None:
    async with processes(MemoryShared()) as (one, two):

        def report() -> None:
            for number in range(20):
                one.server.resource_updated(f"memo://{number}")

        threads = [threading.Thread(target=report) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()  # no task runs meanwhile
        assert two.heard == []
        await trio.sleep(SOON)
        expected = [ResourceUpdated(f"memo://{number}") for number in range(20)]
        assert sorted(two.heard, key=str) == sorted(expected, key=str)


async def test_changes_that_another_trio_run_reports_are_heard_by_every_process(autojump_clock: object) -> None:
    async with processes(MemoryShared()) as (one, two):

        async def report() -> None:
            await trio.lowlevel.checkpoint()
            one.server.resource_updated("memo://today")

        thread = threading.Thread(target=trio.run, args=[report])
        thread.start()
        thread.join()
        await trio.sleep(SOON)
        assert one.heard == two.heard == [ResourceUpdated("memo://today")]


def test_a_change_after_the_end_of_the_process_is_dropped() -> None:
    relays: list[ChangeRelay] = []

    async def run() -> None:
        async with process(MemoryShared()) as one:
            relays.append(one.relay)

    trio.run(run)
    relays[0].take(ResourceUpdated("memo://today"))


# --- A backend that cannot be reached, or loses entries ---


async def test_changes_wait_while_the_backend_cannot_be_reached(autojump_clock: object) -> None:
    backend = InterruptedShared()
    async with process(backend) as one, process(backend.shared) as two:
        backend.is_down = True
        for number in range(5):
            one.server.resource_updated(f"memo://{number}")
            await trio.sleep(60)
        assert two.heard == []

        backend.is_down = False
        await trio.sleep(SOON)
        assert two.heard == [ResourceUpdated(f"memo://{number}") for number in range(5)]


async def test_equal_changes_that_wait_together_are_heard_once_as_the_latest(autojump_clock: object) -> None:
    backend = InterruptedShared()
    async with process(backend) as one, process(backend.shared) as two:
        backend.is_down = True
        one.server.resource_updated("memo://first")
        await trio.sleep(SOON)  # this one is on its way
        for number in range(3):
            one.server.resource_updated("memo://a")
            one.report("7", {"status": number})
            one.server.tool(name=f"t{number}")(lambda: None)
        one.server.resource_updated("memo://b")
        one.report("8", {"status": "other"})
        one.server.resource_updated("memo://a")
        backend.is_down = False
        await trio.sleep(SOON)

        assert two.heard == [
            ResourceUpdated("memo://first"),
            ("7", METHOD, {"status": 2}),
            ListChanged("tools"),
            ResourceUpdated("memo://b"),
            ("8", METHOD, {"status": "other"}),
            ResourceUpdated("memo://a"),
        ]


async def test_the_oldest_changes_are_dropped_if_too_many_wait(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_mcp.cluster._changes._MOST_WAITING", 3)
    backend = InterruptedShared()
    async with process(backend) as one, process(backend.shared) as two:
        backend.is_down = True
        one.server.resource_updated("memo://first")
        await trio.sleep(SOON)
        for number in range(10):
            one.server.resource_updated(f"memo://{number}")
        backend.is_down = False
        await trio.sleep(SOON)
        assert two.heard == [ResourceUpdated(f"memo://{name}") for name in ("first", 7, 8, 9)]


async def test_a_process_that_may_have_missed_changes_tells_that_everything_has_changed(autojump_clock: object) -> None:
    shared = MemoryShared()
    async with process(shared) as one:
        await append(shared, [entry({"uri": f"memo://{number}"}) for number in range(5)], at_most=1)
        await trio.sleep(SOON)
        assert one.heard == ["everything", ResourceUpdated("memo://4")]


FOREIGN = {
    "no JSON": b"\xff",
    "a string": b'"changes"',
    "an array": b"[1]",
    "null": b"null",
    "no origin": b'{"changes": []}',
    "no changes": b'{"origin": "x"}',
    "changes that are no array": b'{"origin": "x", "changes": 5}',
    "a change that is no object": b'{"origin": "x", "changes": ["list"]}',
    "a change that is null": b'{"origin": "x", "changes": [null]}',
    "a change of an unknown kind": entry({"of": "the future"}),
    "an unknown list": entry({"list": "skills"}),
    "a list that is no string": entry({"list": []}),
    "a URI that is no string": entry({"uri": []}),
    "a key that is no string": entry({"member": "m", "key": {}, "method": METHOD, "params": {}}),
    "a method that is no string": entry({"member": "m", "key": "k", "method": 5, "params": {}}),
    "params that are no object": entry({"member": "m", "key": "k", "method": METHOD, "params": [1]}),
    "a custom change without params": entry({"member": "m", "key": "k", "method": METHOD}),
}


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_what_another_program_has_written_is_ignored_with_a_warning(
    foreign: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    shared = MemoryShared()
    async with processes(shared) as (one, two):
        await append(shared, [FOREIGN[foreign], entry({"uri": "memo://x"})])
        one.server.resource_updated("memo://y")
        await trio.sleep(SOON)
        assert two.heard == [ResourceUpdated("memo://x"), ResourceUpdated("memo://y")]
    assert caplog.messages == ["an entry of the stream 'changes' was written by another program"] * 2


# --- Clients ---

LEGACY, MODERN = "2025-11-25", "2026-07-28"
TODAY, LATER = "memo://today", "memo://later"


def make_server() -> Server:
    server = Server("one-of-many")

    @server.tool
    async def change(ctx: Context, uris: list[str]) -> None:
        for uri in uris:
            ctx.resource_updated(uri)

    @server.tool
    def change_in_a_thread(ctx: Context, uri: str) -> None:
        ctx.resource_updated(uri)

    @server.tool
    async def report(key: str, status: str) -> None:
        ServerExtensionPoints(server).notify_listeners(MEMBER, key, METHOD, {"key": key, "status": status})

    @ServerExtensionPoints(server).listen_filter(MEMBER, extension=EXTENSION)
    async def agree(wanted: Sequence[str], ctx: Context) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return wanted

    for uri in (TODAY, LATER):
        server.resources.add_static(uri, "", name=uri)
    return server


async def next_of(changes: Any, number: int) -> list[Change]:
    """Return so many changes, and make sure that no other follows at once."""
    with trio.fail_after(60):
        received = [await anext(changes) for _ in range(number)]
    await wait_all_tasks_blocked(0.01)
    with trio.move_on_after(0.01) as quiet:
        received.append(await anext(changes))
    assert quiet.cancelled_caught, received
    return received


@asynccontextmanager
async def clients(shared: MemoryShared, revision: str) -> AsyncGenerator[Sequence[Client]]:
    """Serve a service of two processes, and open a client of each."""
    async with cluster(make_server, nodes=2, shared=shared) as balanced, AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(open_http_client(URL, engine=engine, revision=revision))
            for engine in balanced.engines
        ]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_client_hears_of_updates_in_another_process_by_tasks_and_threads(revision: str) -> None:
    async with clients(MemoryShared(), revision) as (one, two), one.listen(resources=[TODAY, LATER]) as changes:
        await two.call_tool("change", {"uris": [TODAY]}, raise_on_error=True)
        assert await next_of(changes, 1) == [ResourceUpdated(TODAY)]
        await two.call_tool("change_in_a_thread", {"uri": LATER}, raise_on_error=True)
        assert await next_of(changes, 1) == [ResourceUpdated(LATER)]
        await one.call_tool("change", {"uris": [LATER, "memo://unknown", TODAY]}, raise_on_error=True)
        assert await next_of(changes, 2) == [ResourceUpdated(LATER), ResourceUpdated(TODAY)]


async def test_a_client_hears_what_extensions_report_in_another_process() -> None:
    async with (
        clients(MemoryShared(), MODERN) as (one, two),
        one.listen(custom={MEMBER: ["7"]}, extensions={EXTENSION: {}}) as changes,
    ):
        await two.call_tool("report", {"key": "8", "status": "for others"}, raise_on_error=True)
        await two.call_tool("report", {"key": "7", "status": "done"}, raise_on_error=True)
        (change,) = await next_of(changes, 1)
        assert isinstance(change, CustomChange)
        assert change.method == METHOD
        assert (change.params["key"], change.params["status"]) == ("7", "done")


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_after_a_gap_a_client_hears_everything_that_it_listens_for_once(revision: str) -> None:
    shared = MemoryShared()
    async with (
        clients(shared, revision) as (one, two),
        one.listen(tools=True, resources=[TODAY]) as changes,
        two.listen(resources=[LATER]) as others,
    ):
        await append(shared, [entry(), entry()], at_most=1)
        assert {*await next_of(changes, 2)} == {ListChanged("tools"), ResourceUpdated(TODAY)}
        assert await next_of(others, 1) == [ResourceUpdated(LATER)]

        await one.call_tool("change", {"uris": [LATER]}, raise_on_error=True)
        assert await next_of(others, 1) == [ResourceUpdated(LATER)]


async def test_after_a_gap_a_client_is_not_told_of_what_extensions_report() -> None:
    shared = MemoryShared()
    async with (
        clients(shared, MODERN) as (one, _),
        one.listen(custom={MEMBER: ["7"]}, resources=[TODAY], extensions={EXTENSION: {}}) as changes,
    ):
        await append(shared, [entry(), entry()], at_most=1)
        assert await next_of(changes, 1) == [ResourceUpdated(TODAY)]


async def test_a_change_that_not_every_client_sees_is_not_relayed() -> None:
    def sees(_: object, access: Access | None) -> bool:
        return access is not None

    server, relayed = Server("s"), list[Change]()
    with ServerExtensionPoints(server).relaying_changes(relayed.append):
        server.tool(name="hidden", visible=sees)(lambda: None)
        server.resource_updated("memo://any")
        await trio.lowlevel.checkpoint()

    assert relayed == [ResourceUpdated("memo://any")]
