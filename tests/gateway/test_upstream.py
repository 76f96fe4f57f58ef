"""How a gateway owns its servers: restarts, states, what failures cost, lists, subscriptions, limits, credentials."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import trio
from attrs import define, evolve, field
from trio.testing import wait_all_tasks_blocked

from tests.gateway.upstreams import (
    CountedServer,
    QuietServer,
    echo,
    gateway_of,
    offer_little,
    served,
    text_of,
    tools_of,
)
from trio_mcp import (
    Access,
    CallNext,
    Client,
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    ListChanged,
    McpError,
    Request,
    ResourceUpdated,
    Restart,
    Server,
    TimeLimits,
    types,
)
from trio_mcp.gateway import Gateway

ALL = ["echo", "wait", "doze"]
LOST = "the server 'crm' behind this gateway is not connected, or the connection was lost before it answered"
SLOW = Restart(after=1000, at_most=1000)


@asynccontextmanager
async def opened(gateway: Gateway, principal: str | None = None, **options: Any) -> AsyncGenerator[Client]:
    """Serve a gateway, and connect to it."""
    async with served(gateway) as front, front.client(principal, **options) as client:
        yield client


async def failure_of(client: Client, tool: str = "echo", **arguments: Any) -> str:
    """Return the text of a call that fails."""
    result = await client.call_tool(tool, {"text": "x"} if tool.endswith("echo") and not arguments else arguments)
    assert result.is_error
    return text_of(result)


# --- Restarts and states ---


async def test_a_server_that_is_lost_is_connected_again_with_growing_pauses_and_its_status_says_so(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, restart=Restart(after=1, at_most=8))
    async with opened(gateway) as client:
        assert await tools_of(client) == ALL
        await trio.sleep(100)
        upstream.refuses = True
        await upstream.crash()
        lost_at = trio.current_time()

        status = gateway.status["crm"]
        assert (status.state, status.retry_at, status.restarts) == ("waiting", lost_at + 1, 0)
        assert isinstance(status.failure, ConnectionBroken)
        await trio.sleep(1.5)
        status = gateway.status["crm"]
        assert (status.state, status.retry_at, str(status.failure)) == (
            "waiting",
            lost_at + 3,
            "refused, and the password is s3cret",
        )
        assert (status.tools, status.connections, status.in_flight) == (3, 0, 0)
        assert await tools_of(client) == ALL
        assert await failure_of(client) == LOST
        await trio.sleep(30)
        assert [round(time - lost_at) for time in upstream.attempts[1:]] == [1, 3, 7, 15, 23, 31]

        upstream.refuses = False
        await trio.sleep(8)
        assert await echo(client) == "here"
        status = gateway.status["crm"]
        assert (status.state, status.failure, status.restarts, status.retry_at) == ("connected", None, 1, None)


async def test_the_status_of_a_server_that_hangs_while_connecting_is_connecting(autojump_clock: object) -> None:
    gateway = gateway_of(CountedServer(hangs_while_connecting=True))
    states: list[str] = []
    async with opened(gateway):
        await wait_all_tasks_blocked()
        states.append(gateway.status["crm"].state)
    states.append(gateway.status["crm"].state)
    assert states == ["connecting", "idle"]


@pytest.mark.parametrize("restart", [None, SLOW])
async def test_a_failure_that_time_does_not_cure_is_a_failed_state_until_a_restart(
    restart: Restart | None, autojump_clock: object
) -> None:
    upstream = CountedServer(failures=[ValueError("no such option")])
    gateway = gateway_of(upstream, restart=restart)
    async with opened(gateway) as client:
        await trio.sleep(100)
        status = gateway.status["crm"]
        assert (status.state, status.retry_at, len(upstream.attempts)) == ("failed", None, 1)
        assert isinstance(status.failure, ValueError)
        assert await tools_of(client) == []
        await gateway.upstreams["crm"].restart()
        assert gateway.status["crm"].state == "connected"
        assert await echo(client) == "here"


async def test_a_server_that_is_not_restarted_stays_lost_until_it_is_asked_for(autojump_clock: object) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, restart=None)
    async with opened(gateway) as client:
        assert await tools_of(client) == ALL
        await upstream.crash()
        await trio.sleep(1000)
        assert (gateway.status["crm"].state, upstream.opened) == ("failed", 1)
        assert (await tools_of(client), await failure_of(client)) == (ALL, LOST)
        await gateway.upstreams["crm"].restart()
        assert await echo(client) == "here"
        assert (upstream.opened, gateway.status["crm"].restarts) == (2, 1)


async def test_a_restart_replaces_a_pause_and_all_connections_and_costs_the_calls_in_flight(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, restart=SLOW, share="principal")
    answers: list[str] = []

    async def wait(client: Client) -> None:
        answers.append(await failure_of(client, "wait"))

    async with served(gateway) as front, front.client("ada") as ada, front.client("bob") as bob:
        assert [await echo(ada), await echo(bob)] == ["here", "here"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, ada)
            await wait_all_tasks_blocked()
            await upstream.crash()  # that of bob
            assert gateway.status["crm"].state == "waiting"
            await gateway.upstreams["crm"].restart()
        status = gateway.status["crm"]
        assert (status.state, status.connections, status.restarts, upstream.open) == ("connected", 2, 2, 2)
        assert answers == [LOST]
        assert [await echo(ada), await echo(bob)] == ["here", "here"]


async def test_a_restart_that_fails_says_why(autojump_clock: object) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, restart=SLOW)
    async with opened(gateway):
        upstream.refuses = True
        with pytest.raises(ConnectionBroken, match="server 'crm' is not connected: refused") as failed:
            await gateway.upstreams["crm"].restart()
        assert isinstance(failed.value.__cause__, OSError)


async def test_a_restart_ends_when_the_server_is_removed(autojump_clock: object) -> None:
    upstream = CountedServer(hangs_while_connecting=True)
    gateway = gateway_of(upstream)
    crm = gateway.upstreams["crm"]

    async def restart() -> None:
        with pytest.raises(ConnectionClosed):
            await crm.restart()

    async with opened(gateway), trio.open_nursery() as nursery:
        nursery.start_soon(restart)
        await wait_all_tasks_blocked()
        gateway.unmount("crm")


async def test_a_restart_of_a_server_that_is_idle_leaves_it_so(autojump_clock: object) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, at_start=False)
    async with opened(gateway):
        await gateway.upstreams["crm"].restart()
        assert (gateway.status["crm"].state, upstream.opened) == ("idle", 0)


# --- What a failure costs ---


async def test_a_crash_costs_the_calls_in_flight_and_no_others(autojump_clock: object) -> None:
    doomed, other = CountedServer(), CountedServer()
    gateway = gateway_of(doomed, prefix="crm")
    gateway.mount(other, name="other", prefix="other")
    answers: list[str] = []

    async def call(client: Client, tool: str, **arguments: Any) -> None:
        answers.append(text_of(await client.call_tool(tool, arguments)))

    async with opened(gateway) as client:
        assert len(await tools_of(client)) == 6
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, client, "crm__wait")
            nursery.start_soon(partial(call, client, "other__doze", seconds=5))
            await wait_all_tasks_blocked()
            assert [gateway.status[name].in_flight for name in ("crm", "other")] == [1, 1]
            await doomed.crash()
            assert answers == [LOST]
            assert await echo(client, tool="crm__echo") == "here"
        assert answers == [LOST, "awake"]
        assert len(await tools_of(client)) == 6


async def test_a_hung_server_costs_its_own_time_outs_and_the_lists_come_meanwhile(autojump_clock: object) -> None:
    hung, other = CountedServer(), CountedServer()
    gateway = gateway_of(hung, prefix="crm", timeout=20)
    gateway.mount(other, name="other")
    async with opened(gateway) as client:
        assert len(await tools_of(client)) == 6
        hung.hang()
        began = trio.current_time()
        assert await failure_of(client, "crm__echo") == "the server 'crm' behind this gateway did not answer in time"
        assert trio.current_time() == began + 20
        assert await echo(client) == "here"
        assert len(await tools_of(client)) == 6
        assert trio.current_time() == began + 20
        hung.answers.set()
        assert await echo(client, tool="crm__echo") == "here"
        assert hung.opened == 1


async def test_a_time_limit_may_be_longer_than_the_usual_ones(autojump_clock: object) -> None:
    limits = TimeLimits(idle=5000, total=5000)
    async with opened(gateway_of(CountedServer(), timeout=4000), time_limits=limits) as client:
        assert text_of(await client.call_tool("doze", {"seconds": 3900})) == "awake"


@pytest.mark.parametrize("how", ["refuses", "hangs_while_connecting", "hangs"])
async def test_a_server_that_never_comes_up_does_not_hold_the_others_back(how: str, autojump_clock: object) -> None:
    bad = CountedServer()
    if how == "hangs":
        bad.hang()
    else:
        setattr(bad, how, True)
    gateway = gateway_of(bad)
    gateway.mount(CountedServer(), name="other")
    async with opened(gateway) as client:
        began = trio.current_time()
        assert await tools_of(client) == ALL
        assert trio.current_time() - began <= 10
        for _ in range(5):
            began = trio.current_time()
            assert await tools_of(client) == ALL
            assert await echo(client) == "here"
            with pytest.raises(ErrorResponse, match="no tool 'missing'"):
                await client.call_tool("missing")
            assert trio.current_time() == began
            await trio.sleep(7)


async def test_errors_name_the_server_and_contain_nothing_secret(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = gateway_of(CountedServer(), restart=Restart(after=1))
    upstream = CountedServer()
    gateway.mount(upstream, name="other", prefix="other")
    async with opened(gateway) as client:
        assert len(await tools_of(client)) == 6
        upstream.refuses = True
        await upstream.crash()
        await trio.sleep(3)
        said = await failure_of(client, "other__echo")
        assert said == LOST.replace("crm", "other")
        with pytest.raises(ErrorResponse) as refused:
            await client.read_resource("other+notes://one")
        assert refused.value.message == LOST.replace("crm", "other")
    assert "the password is s3cret" in caplog.text  # which is where the operator looks


# --- Lists ---


async def test_lists_of_a_server_are_read_again_when_it_is_back(autojump_clock: object) -> None:
    names = iter(["first", "second", "third"])

    def register(server: Server) -> None:
        @server.tool(name=next(names))
        async def tool() -> None: ...

    upstream = CountedServer(register)
    async with opened(gateway_of(upstream)) as client:
        assert await tools_of(client) == ["first"]
        async with client.listen(tools=True) as changes:
            for name in ("second", "third"):
                await upstream.crash()
                assert await anext(changes) == ListChanged("tools")
                assert await tools_of(client) == [name]


async def test_a_server_that_does_not_know_one_of_the_lists_has_an_empty_one(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    upstream = Server("upstream")

    @upstream.resource("notes://one")
    async def note() -> str:
        return "one"

    @upstream.middleware
    async def lacks_templates(request: Request, call_next: CallNext) -> Any:
        if request.method == "resources/templates/list":
            raise McpError(-32601, "Method not found")
        return await call_next(request)

    async with opened(gateway_of(upstream)) as client:
        templates = [each async for each in client.resource_templates()]
        resources = [each.uri async for each in client.resources()]

    assert (templates, resources) == ([], ["notes://one"])
    assert "cannot be listed" not in caplog.text


async def test_a_list_that_cannot_be_read_stays_as_it_was_and_is_read_again_a_minute_later(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    fails = True

    def edit(tool: types.Tool) -> types.Tool | None:
        if fails:
            raise LookupError("no such description")
        return tool

    gateway = gateway_of(CountedServer(), edit=edit)
    gateway.mount(CountedServer(), name="other", prefix="other")
    async with opened(gateway) as client:
        others = ["other__echo", "other__wait", "other__doze"]
        assert await tools_of(client) == others
        assert [each.uri async for each in client.resources()] == ["notes://one", "other+notes://one"]
        fails = False
        assert await tools_of(client) == others
        await trio.sleep(60)
        assert sorted(await tools_of(client)) == sorted([*ALL, *others])
    assert "its tools cannot be listed: no such description" in caplog.text


@pytest.mark.parametrize("failure", [ZeroDivisionError(), SystemExit("enough")])
async def test_a_function_that_fails_to_edit_costs_a_list_and_not_the_serving(
    failure: BaseException, autojump_clock: object
) -> None:
    def edit(_: types.Tool) -> types.Tool:
        raise failure

    async with opened(gateway_of(CountedServer(), edit=edit)) as client:
        assert await tools_of(client) == []
        assert (await client.read_resource("notes://one")).contents


@pytest.mark.parametrize("failure", [ZeroDivisionError(), SystemExit("enough")])
@pytest.mark.parametrize("share", ["all", "principal"])
async def test_what_a_function_fails_to_decide_is_hidden(
    share: str, failure: BaseException, autojump_clock: object
) -> None:
    def visible(each: Any, access: Access | None) -> bool:
        if each.name == "wait":
            raise failure
        return True

    async with opened(gateway_of(CountedServer(), visible=visible, share=share)) as client:
        for _ in range(2):
            with pytest.raises(ErrorResponse, match="no tool 'wait' on the servers of this gateway"):
                await client.call_tool("wait")
            assert await tools_of(client) == ["echo", "doze"]
            assert await echo(client) == "here"


async def test_the_lists_of_a_server_that_reports_no_changes_are_read_again_after_a_minute(
    autojump_clock: object,
) -> None:
    upstream = CountedServer(make=lambda: QuietServer("quiet"))
    async with opened(gateway_of(upstream)) as client:
        assert await tools_of(client) == ALL
        server = upstream.servers[0]

        @server.tool
        async def more() -> None: ...

        assert await tools_of(client) == ALL
        await trio.sleep(61)
        assert await tools_of(client) == [*ALL, "more"]


async def test_a_server_that_hangs_while_old_lists_are_read_again_costs_ten_seconds_a_minute(
    autojump_clock: object,
) -> None:
    hung = CountedServer(make=lambda: QuietServer("quiet"))
    gateway = gateway_of(hung, prefix="crm")
    gateway.mount(CountedServer(), name="other")
    async with opened(gateway) as client:
        assert len(await tools_of(client)) == 6
        await trio.sleep(61)
        hung.hang()
        began = trio.current_time()
        for _ in range(5):
            assert len(await tools_of(client)) == 6
            assert [each.uri async for each in client.resources(fresh=True)] == ["notes://one", "other+notes://one"]
        assert trio.current_time() == began + 10


async def test_old_lists_stay_if_the_server_is_lost_while_they_are_read_again(autojump_clock: object) -> None:
    upstream = CountedServer(make=lambda: QuietServer("quiet"))
    async with opened(gateway_of(upstream)) as client, trio.open_nursery() as nursery:
        assert await tools_of(client) == ALL
        await trio.sleep(61)
        upstream.hang()

        async def crash_soon() -> None:
            await trio.sleep(1)
            upstream.refuses = True
            await upstream.crash()

        nursery.start_soon(crash_soon)
        assert await tools_of(client) == ALL


async def test_a_server_that_refuses_to_be_listened_to_is_asked_for_its_lists_nevertheless(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    refusals: list[float] = []

    def make() -> Server:
        server = Server("refusing")

        @server.middleware
        async def refuse(request: Request, call_next: CallNext) -> Any:
            if request.method == "subscriptions/listen" and len(refusals) < 9:
                refusals.append(trio.current_time())
                raise McpError(-32603, "not now")
            return await call_next(request)

        return server

    upstream = CountedServer(make=make)
    async with opened(gateway_of(upstream)) as client:
        assert await tools_of(client) == ALL
        server = upstream.servers[0]

        @server.tool
        async def more() -> None: ...

        await trio.sleep(61)
        assert await tools_of(client) == [*ALL, "more"]
        await trio.sleep(400)
        assert [round(later - earlier) for earlier, later in pairwise(refusals)] == [1, 2, 4, 8, 16, 32, 60, 60]

        async with client.listen(tools=True) as changes:

            @server.tool
            async def most() -> None: ...

            assert await anext(changes) == ListChanged("tools")
            assert await tools_of(client) == [*ALL, "more", "most"]
    assert "its changes cannot be followed: not now" in caplog.text


async def test_a_list_that_changes_often_keeps_the_places_of_what_stays(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with opened(gateway_of(upstream)) as client:
        assert await tools_of(client) == ALL
        server = upstream.servers[0]
        for number in range(200):

            async def passing() -> None: ...

            server.tool(name=f"passing-{number}")(passing)
            await wait_all_tasks_blocked()
            server.tools.remove(f"passing-{number}")
            await wait_all_tasks_blocked()
        assert await tools_of(client) == ALL


async def test_prompts_and_templates_are_listed_as_the_patterns_say_and_what_is_not_listed_can_be_read(
    autojump_clock: object,
) -> None:
    def register(server: Server) -> None:
        offer_little(server)

        @server.prompt
        async def greet() -> str:
            return "hello"

        @server.prompt
        async def secret() -> str:
            return "hush"

        @server.resource("notes://{name}")
        async def named(name: str) -> str:
            return name

        @server.resource("secret://{name}")
        async def hidden(name: str) -> str:
            return name

    gateway = gateway_of(CountedServer(register), without=["secret*"])
    async with opened(gateway) as client:
        assert [each.name async for each in client.prompts()] == ["greet"]
        assert [each.uri_template async for each in client.resource_templates()] == ["notes://{name}"]
        assert (await client.read_resource("notes://two")).contents
        with pytest.raises(ErrorResponse, match="no resource 'secret://one'"):
            await client.read_resource("secret://one")
    async with opened(gateway_of(CountedServer())) as client:
        with pytest.raises(ErrorResponse, match="secret://one") as refused:
            await client.read_resource("secret://one")
        assert "of this gateway" not in str(refused.value)  # the server itself has refused


async def test_a_server_that_does_not_declare_log_messages_is_not_asked_for_them(autojump_clock: object) -> None:
    class Silent(QuietServer):
        @property
        def capabilities(self) -> types.ServerCapabilities:
            return evolve(super().capabilities, logging=None)

    upstream = CountedServer(make=lambda: Silent("silent", revisions=["2025-06-18"]))
    async with opened(gateway_of(upstream)) as client:
        await client.set_log_level("debug")
        assert await echo(client) == "here"


async def test_the_lists_of_a_server_that_has_just_been_removed_are_not_waited_for(autojump_clock: object) -> None:
    gateway = gateway_of(CountedServer(hangs_while_connecting=True))
    assert gateway.upstreams["crm"].name == "crm"
    async with opened(gateway):
        (serving,) = gateway._active
        (client,) = serving.clients_of(gateway.mounts[0])
        began = trio.current_time()
        gateway.unmount("crm")
        await client.wait_listed()
        assert trio.current_time() == began
        with pytest.raises(ConnectionClosed, match="the connection to server 'crm' was closed for good"):
            await client.client()


# --- Subscriptions ---


async def test_a_subscription_is_made_again_after_a_restart_and_what_was_missed_counts_as_changed(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    async with opened(gateway_of(upstream)) as client, client.listen(resources=["notes://one"]) as changes:
        assert changes.honored.resources == ("notes://one",)
        for _ in range(3):
            await upstream.crash()
            assert await anext(changes) == ResourceUpdated("notes://one")
            upstream.servers[0].resource_updated("notes://one")
            assert await anext(changes) == ResourceUpdated("notes://one")
        with trio.move_on_after(100):
            await anext(changes)
            raise AssertionError("nothing has changed")


async def test_a_subscription_waits_for_a_server_that_is_away_for_a_bounded_time(autojump_clock: object) -> None:
    hung, other = CountedServer(), CountedServer()
    gateway = gateway_of(other)
    gateway.mount(hung, name="hung", prefix="hung")
    both = ["notes://one", "hung+notes://one"]
    async with opened(gateway) as client:
        assert len(await tools_of(client)) == 6
        hung.hangs_while_connecting = True
        await hung.crash()
        began = trio.current_time()
        async with client.listen(resources=both) as changes:
            assert changes.honored.resources == ("notes://one",)
            assert trio.current_time() == began + 10
        with pytest.raises(ErrorResponse, match="the server 'hung' behind this gateway did not answer in time"):
            async with client.listen(resources=both[1:]):
                raise AssertionError


async def test_a_subscription_ends_quietly_when_its_server_is_removed(autojump_clock: object) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream)
    async with opened(gateway) as client, client.listen(resources=["notes://one"]) as changes:
        gateway.unmount("crm")
        with trio.move_on_after(100):
            await anext(changes)
            raise AssertionError("nothing has changed")
    assert upstream.open == 0


# --- Limits ---


@define(eq=False)
class Workshop:
    """A server whose calls are recorded."""

    began: list[tuple[str, float]] = field(factory=list[tuple[str, float]])
    running: int = 0
    most: int = 0

    def register(self, server: Server) -> None:
        @server.tool
        async def work(job: str, seconds: float = 1) -> str:
            self.began.append((job, trio.current_time()))
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await trio.sleep(seconds)
            finally:
                self.running -= 1
            return job

    @property
    def jobs(self) -> str:
        return "".join(job for job, _ in self.began)


async def work(client: Client, job: str, seconds: float = 1) -> None:
    assert text_of(await client.call_tool("work", {"job": job, "seconds": seconds})) == job


async def begin(nursery: trio.Nursery, client: Client, *jobs: str) -> None:
    """Begin calls, one after the other."""
    for job in jobs:
        nursery.start_soon(work, client, job)
        await wait_all_tasks_blocked()


async def test_a_server_works_on_so_many_requests_at_the_same_time_in_the_order_of_their_arrival(
    autojump_clock: object,
) -> None:
    workshop = Workshop()
    gateway = gateway_of(CountedServer(workshop.register), max_concurrency=2)
    async with opened(gateway) as client:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await begin(nursery, client, *"abcdef")
            assert gateway.status["crm"].in_flight == 2
        assert workshop.most == 2
        assert [round(time - began, 3) for _, time in sorted(workshop.began)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("share", ["principal", "session"])
async def test_a_limit_is_one_of_the_server_and_not_of_each_connection_to_it(
    share: str, autojump_clock: object
) -> None:
    workshop = Workshop()
    upstream = CountedServer(workshop.register)
    async with (
        served(gateway_of(upstream, share=share, max_concurrency=1)) as front,
        front.client("ada") as ada,
        front.client("bob") as bob,
        trio.open_nursery() as nursery,
    ):
        await begin(nursery, ada, *"abc")
        await begin(nursery, bob, *"xyz")
    assert (upstream.opened, workshop.most) == (2, 1)
    assert workshop.jobs == "axbycz"


async def test_a_caller_with_many_requests_does_not_hold_another_one_back(autojump_clock: object) -> None:
    for limit in ({"max_concurrency": 1}, {"per_second": 1}):
        workshop = Workshop()
        async with (
            served(gateway_of(CountedServer(workshop.register), **limit)) as front,
            front.client("ada") as ada,
            front.client("bob") as bob,
            trio.open_nursery() as nursery,
        ):
            await begin(nursery, ada, *"abcdefgh")
            await begin(nursery, bob, "x")
        assert workshop.jobs.index("x") <= 2


async def test_requests_are_sent_at_the_rate_of_the_server(autojump_clock: object) -> None:
    workshop = Workshop()
    async with opened(gateway_of(CountedServer(workshop.register), per_second=2)) as client:
        assert await tools_of(client) == ["work"]
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await begin(nursery, client, *"abcdef")
        assert workshop.jobs == "abcdef"
        assert [round(time - began, 3) for _, time in workshop.began] == [0, 0, 0.5, 1, 1.5, 2]


async def test_a_request_that_waited_for_a_place_still_keeps_to_the_rate(autojump_clock: object) -> None:
    workshop = Workshop()
    gateway = gateway_of(CountedServer(workshop.register), per_second=1, max_concurrency=1)
    async with opened(gateway) as client:
        assert await tools_of(client) == ["work"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, client, "a", 10)
            await wait_all_tasks_blocked()
            for job in "bcd":
                nursery.start_soon(work, client, job, 0)
                await wait_all_tasks_blocked()
        times = [time for _, time in workshop.began]
        assert [round(later - earlier, 3) for earlier, later in pairwise(times)] == [10, 1, 1]


@pytest.mark.parametrize("limit", [{"max_concurrency": 1}, {"per_second": 1}, {"max_concurrency": 1, "per_second": 1}])
async def test_a_request_that_is_given_up_while_it_waits_leaves_no_trace(
    limit: dict[str, float], autojump_clock: object
) -> None:
    workshop = Workshop()
    gateway = gateway_of(CountedServer(workshop.register), **limit)
    async with opened(gateway) as client:
        assert await tools_of(client) == ["work"]
        for _ in range(10):
            async with trio.open_nursery() as nursery:
                await begin(nursery, client, "a")
                with trio.move_on_after(0.5):
                    async with trio.open_nursery() as given_up:
                        for _ in range(20):
                            given_up.start_soon(work, client, "x")
                        await wait_all_tasks_blocked()
                        assert gateway.status["crm"].in_flight == 1
            began = trio.current_time()
            await work(client, "b")
            assert trio.current_time() - began <= 1 + 1
            await trio.sleep(2)
        assert workshop.jobs == "ab" * 10
        assert gateway.status["crm"].in_flight == 0


async def test_a_place_is_free_again_when_its_request_fails_times_out_or_loses_its_server(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    async with opened(gateway_of(upstream, max_concurrency=1, timeout=5)) as client:
        assert await failure_of(client, "echo", wrong="x")
        assert "did not answer in time" in await failure_of(client, "wait")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failure_of, client, "wait")
            await wait_all_tasks_blocked()
            await upstream.crash()
        assert await echo(client) == "here"


# --- Credentials ---


@pytest.mark.parametrize(("share", "expected"), [("all", None), ("principal", "ada"), ("session", "ada")])
@pytest.mark.parametrize("at_start", [True, False])
async def test_credentials_are_asked_for_with_the_caller_only_if_the_connection_is_its_own(
    share: str, expected: str | None, autojump_clock: object, *, at_start: bool
) -> None:
    asked: list[str | None] = []

    def auth(access: Access | None) -> None:
        asked.append(None if access is None else access.principal)

    gateway = gateway_of(CountedServer(), share=share, auth=auth, at_start=at_start)
    async with opened(gateway, principal="ada") as client:
        assert await echo(client) == "here"
    assert asked == [expected]


@pytest.mark.parametrize("failure", [LookupError("bob is unknown"), SystemExit(3), KeyError("s3cret")])
async def test_a_function_that_finds_no_credentials_costs_the_calls_of_its_caller(
    failure: BaseException, autojump_clock: object
) -> None:
    def auth(access: Access | None) -> None:
        if access is None or access.principal != "ada":
            raise failure

    gateway = gateway_of(CountedServer(), share="principal", auth=auth)
    gateway.mount(CountedServer(), name="other", prefix="other")
    async with served(gateway) as front, front.client("ada") as ada, front.client("bob") as bob:
        assert await echo(ada) == "here"
        assert await echo(bob, tool="other__echo") == "here"
        with pytest.raises(ErrorResponse, match="no tool 'echo' on the servers of this gateway"):
            await echo(bob)
        assert await tools_of(bob) == ["other__echo", "other__wait", "other__doze"]
        assert await echo(ada) == "here"


async def listened_while_lost(restart: Restart | None) -> list[str]:
    """Listen while the connection is lost; return the resources that are listened to, or the error."""
    upstream, outcome = CountedServer(), list[str]()
    async with served(gateway_of(upstream, restart=restart)) as front, front.client() as client:
        assert await echo(client) == "here"
        upstream.hang()

        async def listen() -> None:
            try:
                async with client.listen(resources=["notes://one"]) as changes:
                    outcome.extend(changes.honored.resources)
            except ErrorResponse as refusal:
                outcome.append(refusal.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await wait_all_tasks_blocked()
            await upstream.crash()
            upstream.answers.set()
    return outcome


async def test_a_subscription_that_begins_while_its_server_is_lost_begins_again() -> None:
    assert await listened_while_lost(Restart(after=0.1)) == ["notes://one"]


async def test_a_subscription_that_begins_while_its_server_is_lost_for_good_is_refused() -> None:
    assert await listened_while_lost(None) == [LOST]
