"""Servers that are connected again: when that is tried, what calls do meanwhile, and what the status says."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.client.test_many import names_of, program, text_of, tools
from trio_mcp import (
    AuthorizationFailed,
    Changes,
    Client,
    Clients,
    ConnectionBroken,
    ConnectionClosed,
    ListChanged,
    ResourceUpdated,
    ResponseLost,
    Restart,
    Server,
    ServerExited,
    open_client,
    open_clients,
    serve_stream,
    start_client,
)
from trio_mcp.abc import Transport, TransportClient
from trio_mcp.client._supervision import ServerChanges, SupervisedServer
from trio_mcp.lowlevel import stream_transport

TIMEOUT_SECONDS = 60
USUAL = Restart(after=1, at_most=8)


@define(eq=False)
class UnreliableServer:
    """A server over streams in memory, which refuses connections and loses them as the test wants."""

    nursery: trio.Nursery
    failures: list[Exception] = field(factory=list[Exception])
    """The failures of the next attempts."""
    attempts: list[float] = field(factory=list[float])
    """The times of the attempts so far."""
    server: Server = field(factory=lambda: Server("none yet"))
    """The server of the latest connection."""
    hangs: bool = False
    """True to let attempts hang."""
    _serving: trio.CancelScope = field(factory=trio.CancelScope)
    _stream: trio.abc.Stream = field(init=False)

    async def start(self, nursery: trio.Nursery) -> Client:
        return await start_client(nursery, self.connect)

    @asynccontextmanager
    async def connect(self, client: TransportClient) -> AsyncGenerator[Transport]:
        self.attempts.append(trio.current_time())
        if self.hangs:
            await trio.sleep_forever()
        if self.failures:
            raise self.failures.pop(0)
        near, self._stream = memory_stream_pair()
        self._serving = trio.CancelScope()
        self.nursery.start_soon(self._serve, self._stream)
        async with stream_transport(near)(client) as transport:
            yield transport

    async def _serve(self, stream: trio.abc.Stream) -> None:
        self.server = server = Server("unreliable")

        @server.prompt
        async def ask() -> str:
            return "Well?"

        @server.resource("notes://one")
        async def note() -> str:
            return "one"

        @server.tool
        async def echo(text: str) -> str:
            return text

        @server.tool
        async def wait() -> None:
            await trio.sleep_forever()

        with self._serving:
            await serve_stream(server, stream)

    async def crash(self) -> None:
        """End the connection without a word from the server; return when the client knows."""
        await trio.aclose_forcefully(self._stream)
        self._serving.cancel()
        await wait_all_tasks_blocked()


@define(eq=False)
class Supervision:
    """A supervised server, and what it has reported."""

    server: UnreliableServer
    supervised: SupervisedServer
    reports: list[str] = field(factory=list[str])

    @property
    def state(self) -> str:
        return self.supervised.status.state


@asynccontextmanager
async def supervision(restart: Restart | None = USUAL, *failures: Exception) -> AsyncGenerator[Supervision]:
    """Run a supervised server; it is closed at the end of the block."""
    reports: list[str] = []

    def report(failure: Exception | None) -> None:
        reports.append("connected" if failure is None else type(failure).__name__)

    async with trio.open_nursery() as nursery, trio.open_nursery() as servers:
        server = UnreliableServer(servers, list(failures))
        supervised = SupervisedServer("crm", server.start, restart, report)
        nursery.start_soon(supervised.run)
        await supervised.tried.wait()
        yield Supervision(server, supervised, reports)
        await supervised.aclose()
        servers.cancel_scope.cancel()


async def echo(client: Client) -> str:
    return text_of(await client.call_tool("echo", {"text": "here"}))


async def test_a_server_that_is_lost_is_connected_again_after_a_pause(autojump_clock: object) -> None:
    async with supervision() as each:
        first = await each.supervised.connected()
        await trio.sleep(100)
        await each.server.crash()

        status = each.supervised.status
        assert (status.state, status.retry_at) == ("waiting", trio.current_time() + 1)
        assert isinstance(status.failure, ConnectionBroken)
        second = await each.supervised.connected()

        assert await echo(second) == "here"
        assert second is not first
        assert [time - each.server.attempts[0] for time in each.server.attempts] == [0, 101]
        status = each.supervised.status
        assert (status.state, status.failure, status.restarts, status.retry_at) == ("connected", None, 1, None)
        assert each.reports == ["connected", "ConnectionBroken", "connected"]


async def test_pauses_double_while_attempts_fail_and_are_short_again_after_a_connection_that_lasted(
    autojump_clock: object,
) -> None:
    async with supervision() as each:
        await trio.sleep(100)
        each.server.failures = [OSError("refused")] * 6
        await each.server.crash()
        began = trio.current_time()

        await trio.sleep(60)
        assert each.state == "connected"
        assert [round(time - began) for time in each.server.attempts[1:]] == [1, 3, 7, 15, 23, 31, 39]
        await each.server.crash()
        assert each.supervised.status.retry_at == trio.current_time() + 1


async def test_pauses_double_for_a_server_that_is_lost_soon_each_time(autojump_clock: object) -> None:
    async with supervision() as each:
        pauses: list[float] = []
        for _ in range(6):
            await each.supervised.connected()
            await each.server.crash()
            pauses.append((each.supervised.status.retry_at or math.nan) - trio.current_time())

        assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 8, 8]


async def test_calls_fail_at_once_while_attempts_fail_and_name_the_server_and_the_reason(
    autojump_clock: object,
) -> None:
    async with supervision(Restart(after=1), OSError("refused")) as each:
        with pytest.raises(ConnectionBroken, match="server 'crm' is not connected: refused") as failure:
            await each.supervised.connected()
        assert isinstance(failure.value.__cause__, OSError)
        await trio.sleep(2)
        assert await echo(await each.supervised.connected()) == "here"


@pytest.mark.parametrize("failure", [ValueError("no such member"), AuthorizationFailed("sign in")])
async def test_a_failure_that_time_does_not_cure_ends_the_attempts(failure: Exception, autojump_clock: object) -> None:
    async with supervision(Restart(after=1), failure) as each:
        await trio.sleep(1000)
        assert (each.state, len(each.server.attempts)) == ("failed", 1)
        assert await echo(await each.supervised.restart()) == "here"
        assert each.state == "connected"


async def test_without_a_restart_a_lost_server_stays_lost_until_it_is_asked_for(autojump_clock: object) -> None:
    async with supervision(None) as each:
        lost = await each.supervised.connected()
        await each.server.crash()
        await trio.sleep(1000)

        assert (each.state, each.reports) == ("failed", ["connected"])
        with pytest.raises(ConnectionBroken):
            await echo(await each.supervised.connected())
        client = await each.supervised.restart()
        assert client is not lost
        assert await echo(client) == "here"
        assert each.supervised.status.restarts == 1


async def test_a_client_that_the_application_closes_stays_closed(autojump_clock: object) -> None:
    async with supervision() as each:
        client = await each.supervised.connected()
        await client.aclose()
        await trio.sleep(1000)
        assert (each.state, len(each.server.attempts)) == ("failed", 1)
        with pytest.raises(ConnectionClosed):
            await echo(await each.supervised.connected())


async def test_a_restart_ends_the_calls_in_flight_and_returns_the_new_client(autojump_clock: object) -> None:
    ended: list[type[Exception]] = []

    async def call(client: Client) -> None:
        try:
            await client.call_tool("wait")
        except ConnectionClosed as closed:
            ended.append(type(closed))

    async with supervision() as each, trio.open_nursery() as nursery:
        client = await each.supervised.connected()
        nursery.start_soon(call, client)
        await wait_all_tasks_blocked()
        assert await echo(await each.supervised.restart()) == "here"
        assert (ended, each.reports) == ([ConnectionClosed], ["connected", "connected"])


async def test_a_restart_takes_the_place_of_a_pause_and_of_an_attempt_that_hangs(autojump_clock: object) -> None:
    async with supervision(Restart(after=1000, at_most=1000)) as each, trio.open_nursery() as nursery:
        began = trio.current_time()
        await each.server.crash()
        each.server.hangs = True
        nursery.start_soon(each.supervised.restart)
        await wait_all_tasks_blocked()
        assert (each.state, len(each.server.attempts)) == ("connecting", 2)

        each.server.hangs = False
        assert await echo(await each.supervised.restart()) == "here"
        assert (len(each.server.attempts), trio.current_time() - began) == (3, 0)


async def test_a_restart_that_fails_raises_the_reason_and_is_tried_again_later(autojump_clock: object) -> None:
    async with supervision() as each:
        each.server.failures = [OSError("refused")]
        with pytest.raises(ConnectionBroken, match="server 'crm' is not connected: refused"):
            await each.supervised.restart()
        await trio.sleep(5)
        assert each.state == "connected"


async def test_closing_ends_a_pause_an_attempt_and_whoever_waits(autojump_clock: object) -> None:
    async def wait(what: Callable[[], Any]) -> None:
        with pytest.raises(ConnectionClosed, match="the clients were closed"):
            await what()
        ended.append("closed")

    ended: list[str] = []
    async with supervision(Restart(after=1000, at_most=1000)) as each, trio.open_nursery() as nursery:
        await each.server.crash()
        nursery.start_soon(wait, each.supervised.connected)
        await wait_all_tasks_blocked()
        await each.supervised.aclose()
        await wait_all_tasks_blocked()
        assert (each.state, ended) == ("closed", ["closed"])

    async with supervision(Restart(after=1)) as each, trio.open_nursery() as nursery:
        each.server.hangs = True
        nursery.start_soon(wait, each.supervised.restart)
        await wait_all_tasks_blocked()
        await each.supervised.aclose()
    assert (each.state, ended) == ("closed", ["closed", "closed"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"after": 0}, r"Restart\(after=0\): must be a number of seconds above 0"),
        ({"at_most": math.inf}, r"Restart\(at_most=inf\): must be"),
        ({"after": True}, r"Restart\(after=True\): must be"),
        ({"after": 2, "at_most": 1}, r"Restart\(at_most=1\): must not be less than after=2"),
    ],
)
def test_pauses_must_be_possible(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Restart(**arguments)


# --- Listening ---


def listening(client: Client) -> AbstractAsyncContextManager[Changes]:
    return client.listen(tools=True, prompts=True, resources=["notes://one"])


async def add_tool(server: Server) -> None:
    @server.tool
    async def more() -> None: ...

    await wait_all_tasks_blocked()


async def test_changes_go_on_when_the_server_is_back_and_everything_counts_as_changed_then(
    autojump_clock: object,
) -> None:
    async with supervision() as each:
        changes = ServerChanges(each.supervised, listening)
        await changes.begin()
        assert changes.honored.tools
        await add_tool(each.server.server)
        assert await anext(changes) == ListChanged("tools")

        for _ in range(2):
            await each.server.crash()
            with trio.fail_after(100):
                missed = [await anext(changes) for _ in range(3)]
            assert missed == [ListChanged("tools"), ListChanged("prompts"), ResourceUpdated("notes://one")]

        await add_tool(each.server.server)
        assert await anext(changes) == ListChanged("tools")
        await changes.end()
        assert not changes.honored


async def test_listening_waits_for_a_server_however_many_attempts_fail(autojump_clock: object) -> None:
    async with supervision(USUAL, *[OSError("refused")] * 5) as each:
        changes = ServerChanges(each.supervised, listening)
        await changes.begin()
        assert (len(each.server.attempts), changes.honored.tools) == (6, True)
        each.server.failures = [OSError("refused")] * 5
        await each.server.crash()
        assert await anext(changes) == ListChanged("tools")
        await changes.end()


async def test_listening_is_tried_again_after_a_pause_if_the_connection_is_there(autojump_clock: object) -> None:
    times: list[float] = []

    @asynccontextmanager
    async def listen(client: Client) -> AsyncGenerator[Changes]:
        times.append(trio.current_time())
        if 1 < len(times) < 5:
            raise ResponseLost("the server is away")
        async with listening(client) as changes:
            yield changes

    async with supervision() as each:
        changes = ServerChanges(each.supervised, listen)
        await changes.begin()
        await each.server.crash()
        assert await anext(changes) == ListChanged("tools")
        assert [round(later - earlier) for earlier, later in pairwise(times)] == [1, 1, 2, 4]
        await changes.end()


async def test_without_a_restart_listening_ends_with_the_reason(autojump_clock: object) -> None:
    async with supervision(None) as each:
        changes = ServerChanges(each.supervised, listening)
        await changes.begin()
        await each.server.crash()
        with pytest.raises(ConnectionBroken):
            await anext(changes)
        await changes.end()


@pytest.mark.parametrize("is_back", [True, False])
async def test_listening_ends_when_the_clients_are_closed(autojump_clock: object, *, is_back: bool) -> None:
    async with supervision() as each, trio.open_nursery() as nursery:
        changes = ServerChanges(each.supervised, listening)
        await changes.begin()
        if not is_back:
            each.server.failures = [OSError("refused")] * 9
            await each.server.crash()

        async def wait() -> None:
            with pytest.raises(ConnectionClosed):
                await anext(changes)

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        await each.supervised.aclose()
        await changes.end()


# --- Many servers, as processes ---


@asynccontextmanager
async def opened(**servers: object) -> AsyncGenerator[Clients]:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": servers}, restart=Restart(after=0.01)) as clients:
            yield clients


def state_of(clients: Clients, name: str) -> str:
    return clients.status[name].state


async def test_a_process_that_crashes_is_started_again_and_later_calls_wait_for_it() -> None:
    async with opened(doomed=tools("d", "crash", "add"), other=tools("o", "mul")) as clients:
        listed = await names_of(clients)
        with pytest.raises(ServerExited):
            await clients.call_tool("crash")

        assert text_of(await clients.call_tool("add")) == "d add"
        assert text_of(await clients.call_tool("mul")) == "o mul"
        assert await names_of(clients) == listed
        assert {name: each.state for name, each in clients.status.items()} == {
            "doomed": "connected",
            "other": "connected",
        }
        assert [each.restarts for each in clients.status.values()] == [1, 0]
        assert clients.failed == {}


async def test_clients_listen_to_a_process_across_its_crash() -> None:
    async with opened(doomed=tools("d", "crash", "add")) as clients:
        async with clients.listen("doomed", tools=True) as changes:
            with pytest.raises(ServerExited):
                await clients.call_tool("crash")
            assert await anext(changes) == ListChanged("tools")
        with pytest.raises(KeyError, match="has no server 'absent'"):
            async with clients.listen("absent", tools=True):
                raise AssertionError


async def test_a_server_that_is_away_keeps_its_tools_in_the_list_and_is_named_by_its_state() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        servers = {"doomed": tools("d", "crash", "add")}
        async with open_clients({"mcpServers": servers}, restart=Restart(after=1000, at_most=1000)) as clients:
            assert await names_of(clients) == ["crash", "add"]
            with pytest.raises(ServerExited):
                await clients.call_tool("crash")
            while state_of(clients, "doomed") != "waiting":  # its process is being ended
                await trio.lowlevel.checkpoint()

            assert await names_of(clients) == ["crash", "add"]
            assert [*clients] == []
            assert isinstance(clients.failed["doomed"], ServerExited)
            await clients.restart("doomed")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(clients.restart, "doomed")
                while state_of(clients, "doomed") != "connecting":
                    await trio.lowlevel.checkpoint()
                with pytest.raises(KeyError, match="server 'doomed' is not connected: it is connecting"):
                    clients["doomed"]
            assert text_of(await clients.call_tool("add")) == "d add"


async def test_a_server_can_be_restarted_by_its_name(tmp_path: Any) -> None:
    ready = tmp_path / "ready"
    waits_for_file = f"import os, sys; sys.exit('not ready') if not os.path.exists({str(ready)!r}) else None\n"
    serves = "from trio_mcp import Server\nServer('late').run()"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": {"late": program(waits_for_file + serves)}}) as clients:
            assert isinstance(clients.failed["late"], ServerExited)
            assert clients.status["late"].state == "failed"
            with pytest.raises(ConnectionBroken, match="server 'late' is not connected"):
                await clients.restart("late")

            ready.touch()
            client = await clients.restart("late")

            assert (clients["late"], clients.failed) == (client, {})
            with pytest.raises(KeyError, match="has no server 'later'"):
                await clients.restart("later")


async def test_the_restart_of_many_servers_is_checked() -> None:
    with pytest.raises(TypeError, match="restart"):
        async with open_clients({"mcpServers": {}}, restart=3):  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
            raise AssertionError


@pytest.mark.parametrize(("closes", "reason"), [(True, ConnectionClosed), (False, ConnectionBroken)])
async def test_a_client_tells_why_its_connection_is_gone(
    reason: type[Exception], autojump_clock: object, *, closes: bool
) -> None:
    async with trio.open_nursery() as servers:
        server = UnreliableServer(servers)
        async with open_client(server.connect) as client:
            with trio.move_on_after(10):
                await client.wait_lost()
                raise AssertionError
            assert not client.is_lost
            await (client.aclose() if closes else server.crash())
            assert client.is_lost
            assert type(await client.wait_lost()) is reason
        servers.cancel_scope.cancel()
