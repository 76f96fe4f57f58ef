"""Tasks of servers behind a gateway: their way to callers that take tasks, and their end for those that do not."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field, frozen
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.gateway.helpers import LEGACY, MODERN, Way, client_of, front, opened, text, two_principals
from tests.gateway.upstreams import CountedServer, gateway_of, served
from tests.interaction.over_http import served_at_socket
from tests.tasks.helpers import DECLARED, REQUIRED, TASKS, RawTasks, accepted
from tests.tasks.legacy_peer import TASKS as LEGACY_TASKS
from tests.tasks.legacy_peer import LegacyPeer
from trio_mcp import (
    Accepted,
    Access,
    Context,
    CustomChange,
    ErrorResponse,
    McpError,
    Server,
    TaskSettings,
    open_client,
    types,
)
from trio_mcp.abc import Transport, TransportClient
from trio_mcp.gateway import Gateway
from trio_mcp.gateway._tasks import ServerTaskStates, TaskIds
from trio_mcp.lowlevel import ServerExtensionPoints, owned_nursery, stream_transport
from trio_mcp.testing import ScriptedPeer

WAYS = [Way(MODERN, MODERN, down_by=by) for by in ("memory", "bytes", "http")]
in_every_way = pytest.mark.parametrize("way", WAYS, ids=str)
NO_TASK = "there is no task"


@frozen
class Sure:
    sure: bool


@define(eq=False)
class Builds:
    """A server whose tools run as tasks, and what has become of their handlers."""

    cancelled: int = 0
    go_on: trio.Event = field(factory=trio.Event)

    def server(self, **settings: Any) -> Server:
        server = Server("builds", tasks=TaskSettings(after=2.0, poll_interval=1.0, **settings))

        @server.tool(task="required")
        async def build(branch: str, ctx: Context) -> str:
            await ctx.report_progress(1, total=2, message="compiling")
            await trio.sleep(3)
            match await ctx.elicit("Deploy as well?", Sure):
                case Accepted(value=Sure(sure=True)):
                    return f"{branch} is deployed"
                case _:
                    return f"{branch} is built"

        @server.tool(task="required")
        async def broken(how: str) -> str:
            raise ValueError("the disk is full") if how == "tool" else McpError(-32000, "no quota", {"left": 0})

        @server.tool(task="required")
        async def hang() -> str:
            try:
                await self.go_on.wait()
            except trio.Cancelled:
                self.cancelled += 1
                raise
            return "went on"

        @server.tool(task="optional")
        async def quick() -> str:
            return "at once"

        @server.tool(task="required")
        async def link() -> list[types.ContentBlock]:
            await trio.sleep(0.1)
            return [types.ResourceLink(name="one", uri="notes://one")]

        @server.resource("notes://one")
        async def note() -> str:
            return "one"

        return server


async def say_yes(_: types.ElicitRequestParams) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"sure": True})


# --- Callers that take tasks ---


@in_every_way
async def test_a_call_follows_the_task_of_a_server_to_its_end(way: Way, autojump_clock: object) -> None:
    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)

    gateway = front(Builds().server())
    async with opened(gateway, way, tasks=True, on_elicit=say_yes) as client:
        result = await client.call_tool("build", {"branch": "main"}, on_progress=on_progress)
        assert text(result) == "main is deployed"
        assert text(await client.call_tool("quick")) == "at once"
    assert messages == ["compiling"]


@in_every_way
async def test_a_task_has_an_id_that_names_the_server_and_is_found_again(way: Way, autojump_clock: object) -> None:
    async with opened(front(Builds().server()), way, on_elicit=say_yes) as client:
        handle = await client.start_task("build", {"branch": "main"})
        assert handle.id is not None
        assert handle.id.startswith("builds::")
        states = [state async for state in client.task(handle.id).states()]
        assert {state.id for state in states} == {handle.id}
        assert [*dict.fromkeys(state.status for state in states)] == ["working", "input_required", "completed"]
        assert text(await client.task(handle.id).result()) == "main is deployed"


async def test_a_task_is_found_again_by_a_gateway_that_was_restarted() -> None:
    builds = Builds()
    with trio.fail_after(60):
        async with served_at_socket(builds.server()) as bound:
            async with open_client(gateway_of(bound.url)) as client:
                handle = await client.start_task("hang")
            assert handle.id is not None
            builds.go_on.set()
            async with open_client(gateway_of(bound.url)) as client:
                assert text(await client.task(handle.id).result()) == "went on"


async def test_a_task_over_http_on_both_sides_is_listened_to() -> None:
    builds = Builds()
    with trio.fail_after(60):
        async with (
            served_at_socket(builds.server()) as bound,
            opened(front(bound.url), Way(MODERN, MODERN, "http", "socket")) as client,
        ):
            handle = await client.start_task("hang")
            assert handle.id is not None
            async with client.listen(custom={"taskIds": [handle.id, "no such"]}, extensions=DECLARED) as changes:
                assert changes.honored.custom == {"taskIds": [handle.id]}
                builds.go_on.set()
                change = await anext(changes)
                assert isinstance(change, CustomChange)
                assert change.method == "notifications/tasks"
                assert (change.params["taskId"], change.params["status"]) == (handle.id, "completed")
                assert change.params["result"]["structuredContent"] == {"result": "went on"}


async def test_a_task_is_answered_and_cancelled_through_the_gateway(autojump_clock: object) -> None:
    builds = Builds()
    async with open_client(front(builds.server()), on_elicit=say_yes) as client:
        raw = RawTasks(client)
        id = await raw.begin("build", {"branch": "main"})
        await trio.sleep(5)
        ((key, question),) = (await raw.get(id))["inputRequests"].items()
        assert question["params"]["message"] == "Deploy as well?"
        await raw.update(id, {key: accepted(sure=False)})
        await wait_all_tasks_blocked()
        assert (await raw.get(id))["result"]["structuredContent"] == {"result": "main is built"}

        other = await raw.begin("hang")
        await raw.cancel(other)
        await wait_all_tasks_blocked()
        assert (await raw.get(other))["status"] == "cancelled"
    assert builds.cancelled == 1


async def test_a_task_that_fails_tells_the_error_of_the_server(autojump_clock: object) -> None:
    async with open_client(front(Builds().server()), tasks=True) as client:
        with pytest.raises(ErrorResponse) as failure:
            await client.call_tool("broken", {"how": "protocol"})
        assert (failure.value.code, failure.value.message, failure.value.data) == (-32000, "no quota", {"left": 0})
        assert (await client.call_tool("broken", {"how": "tool"})).is_error


async def test_links_in_the_result_of_a_task_have_the_uris_of_the_gateway(autojump_clock: object) -> None:
    notes = Server("notes")
    notes.resource("notes://one")(lambda: "another one")
    async with open_client(front(notes, Builds().server()), tasks=True) as client:
        (block,) = (await client.call_tool("link")).content
        assert isinstance(block, types.ResourceLink)
        assert block.uri == "builds+notes://one"


async def test_a_request_about_a_task_must_declare_the_extension() -> None:
    async with open_client(front(Builds().server())) as client:
        id = (await client.start_task("hang")).id
        with pytest.raises(ErrorResponse) as refusal:
            await client.request("tasks/get", {"taskId": id}, dict)
        assert (refusal.value.code, refusal.value.data) == (-32021, REQUIRED)
        with pytest.raises(ErrorResponse) as refusal:
            async with client.listen(custom={"taskIds": [str(id)]}):
                raise AssertionError
        assert (refusal.value.code, refusal.value.data) == (-32021, REQUIRED)


@pytest.mark.parametrize("id", ["", "builds", "builds:x:1", "builds::1", "elsewhere::1", "a:b", None, 3])
async def test_a_task_that_no_server_has_does_not_exist(id: object) -> None:
    async with open_client(front(Builds().server())) as client:
        await client.list_tools()
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(ErrorResponse) as refusal:
                params: dict[str, Any] = {"taskId": id, "inputResponses": {}}
                await client.request(method, params, dict, extensions=DECLARED)
            assert refusal.value.code == -32602


async def test_without_servers_that_make_tasks_there_are_no_methods_for_them() -> None:
    async with open_client(front(Server("plain"))) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.request("tasks/get", {"taskId": "plain::1"}, dict, extensions=DECLARED)
        assert refusal.value.code == -32601
        with pytest.raises(ErrorResponse) as refusal:
            await client.request("tasks/get", {"taskId": "1"}, dict, extensions=DECLARED)
        assert refusal.value.code == -32601


async def test_a_gateway_may_have_tasks_of_its_own_beside_those_of_servers(autojump_clock: object) -> None:
    builds = Builds()
    gateway = front(builds.server(), tasks=TaskSettings(poll_interval=1.0))

    @gateway.tool(task="required")
    async def own() -> str:
        await trio.sleep(3)
        return "mine"

    async with open_client(gateway, tasks=True) as client:
        mine, theirs = await client.start_task("own"), await client.start_task("hang")
        assert (mine.id, theirs.id) != (None, None)
        ids = [str(mine.id), str(theirs.id), "neither"]
        async with client.listen(custom={"taskIds": ids}, extensions=DECLARED) as changes:
            assert changes.honored.custom == {"taskIds": ids[:2]}
            change = await anext(changes)
            assert isinstance(change, CustomChange)
            assert change.params["taskId"] == mine.id
            builds.go_on.set()
            change = await anext(changes)
            assert isinstance(change, CustomChange)
            assert change.params["taskId"] == theirs.id
        assert text(await mine.result()) == "mine"
        assert text(await theirs.result()) == "went on"
        with pytest.raises(ErrorResponse, match=NO_TASK):
            await client.task("neither").refresh()


# --- Whose task it is ---


@pytest.mark.parametrize("share", ["all", "principal"])
async def test_a_task_belongs_to_its_principal(share: Any, autojump_clock: object) -> None:
    gateway = Gateway("gate")
    gateway.mount(Builds().server(), share=share)
    async with two_principals(gateway, WAYS[0]) as (ada, bob):
        id = str((await ada.start_task("hang")).id)
        assert (await ada.task(id).refresh()).status == "working"
        with pytest.raises(ErrorResponse) as refusal:
            await bob.task(id).refresh()
        assert refusal.value.code == -32602
        async with bob.listen(custom={"taskIds": [id]}, extensions=DECLARED) as changes:
            assert changes.honored.custom == {"taskIds": []}
        await ada.task(id).cancel()


@pytest.mark.parametrize("keys", [[b"k" * 32], None])
async def test_the_id_of_a_principal_outlives_the_gateway_that_keeps_its_keys(keys: list[bytes] | None) -> None:
    options: dict[str, Any] = {} if keys is None else {"keys": keys}
    with trio.fail_after(60):
        async with served_at_socket(Builds().server()) as bound:
            ids: list[str] = []
            for _ in range(2):
                gateway = front(bound.url, **options)
                async with gateway.serving() as serving, client_of(serving, WAYS[0], "ada") as client:
                    if not ids:
                        ids.append(str((await client.start_task("hang")).id))
                    elif keys is not None:
                        await client.task(ids[0]).cancel()
                    else:
                        with pytest.raises(ErrorResponse):
                            await client.task(ids[0]).cancel()


def test_the_name_of_a_server_may_hold_anything() -> None:
    ids = TaskIds(ServerExtensionPoints(Server("gate")))
    for access in (None, Access("ada")):
        public = ids.public("a:b c/d", "e:f", access)
        assert public.isascii()
        assert ids.resolve(public, access) == ("a:b c/d", "e:f")
        assert ids.resolve(public, Access("bob")) is None


# --- Callers that take no tasks ---


@pytest.mark.parametrize("revision", ["2025-06-18", LEGACY, MODERN])
async def test_the_gateway_follows_a_task_for_a_caller_that_takes_none(revision: str, autojump_clock: object) -> None:
    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)

    # The extension exists in 2026-07-28 alone, so the declaration of an older client means nothing.
    extensions = {} if revision == MODERN else {TASKS: dict[str, Any]()}
    way = Way(MODERN, revision, down_by="bytes")
    async with opened(front(Builds().server()), way, on_elicit=say_yes, extensions=extensions) as client:
        for listens in (None, on_progress):
            result = await client.call_tool("build", {"branch": "main"}, on_progress=listens)
            assert text(result) == "main is deployed"
        assert text(await client.call_tool("quick")) == "at once"
    assert messages == ["compiling"]


async def test_a_caller_that_gives_up_cancels_the_task_that_the_gateway_follows(autojump_clock: object) -> None:
    builds = Builds()
    async with open_client(front(builds.server())) as client:
        with trio.move_on_after(5):
            await client.call_tool("hang")
        await wait_all_tasks_blocked()
        assert builds.cancelled == 1


async def test_the_error_of_a_task_that_the_gateway_follows_is_that_of_the_call(autojump_clock: object) -> None:
    async with open_client(front(Builds().server())) as client:
        with pytest.raises(ErrorResponse) as failure:
            await client.call_tool("broken", {"how": "protocol"})
        assert (failure.value.code, failure.value.message, failure.value.data) == (-32000, "no quota", {"left": 0})


async def test_a_refusal_that_names_another_capability_passes() -> None:
    server = Server("needy", tasks=TaskSettings(), extensions={"com.example/other": {}})

    @server.tool
    async def need(ctx: Context) -> None:
        ctx.require_extension("com.example/other")

    async with open_client(front(server)) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.call_tool("need")
        assert refusal.value.data == {"requiredCapabilities": {"extensions": {"com.example/other": {}}}}


async def test_a_call_that_is_a_task_for_one_attempt_only_is_answered() -> None:
    attempts: list[bool] = []
    server = Server("fickle", extensions={TASKS: {}})

    @server.tool
    async def work(ctx: Context) -> str:
        attempts.append(ctx.extension(TASKS) is not None)
        ctx.require_extension(TASKS)
        return "at once"

    async with open_client(front(server)) as client:
        assert text(await client.call_tool("work")) == "at once"
    assert attempts == [False, True]


# --- Servers of 2025-11-25 ---


@define(eq=False)
class LegacyBuilds:
    """A server to mount that has the experimental tasks of 2025-11-25."""

    support: str = "required"
    peers: list[LegacyPeer] = field(factory=list[LegacyPeer], init=False)

    @asynccontextmanager
    async def __call__(self, client: TransportClient) -> AsyncGenerator[Transport]:
        near, far = memory_stream_pair()
        peer = ScriptedPeer(far)

        async def serve() -> None:
            await peer.refuse(-32601, method="server/discover")
            await peer.answer_initialize(LEGACY, capabilities={"tools": {}, "tasks": LEGACY_TASKS})
            self.peers.append(LegacyPeer(peer, self.support))
            await self.peers[0].serve()

        async with owned_nursery() as nursery:
            nursery.start_soon(serve)
            async with stream_transport(near)(client) as transport:
                yield transport
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_tool_of_2025_that_runs_only_as_a_task_is_called_as_one(revision: str, autojump_clock: object) -> None:
    upstream = LegacyBuilds()
    async with (
        open_client(gateway_of(upstream), revision=revision, tasks=True, on_elicit=say_yes) as client,
        trio.open_nursery() as nursery,
    ):
        await client.list_tools()
        (server,) = upstream.peers

        async def go_on() -> None:
            await trio.sleep(1)
            server.state = {"status": "input_required"}

        nursery.start_soon(go_on)
        assert text(await client.call_tool("work", {"a": 1}, meta={"m": 1})) == "done"
        (call,) = server.calls
        assert call["task"] == {}
        assert call["arguments"] == {"a": 1}
        assert call["_meta"]["m"] == 1
        assert server.question == "q"


async def test_a_tool_of_2025_that_may_run_as_a_task_is_called_as_any_other() -> None:
    upstream = LegacyBuilds("optional")
    async with open_client(gateway_of(upstream)) as client:
        assert text(await client.call_tool("work")) == "plain"
        assert "task" not in upstream.peers[0].calls[0]


async def test_a_server_of_2025_may_answer_at_once_instead_of_making_a_task() -> None:
    upstream = LegacyBuilds()
    async with open_client(gateway_of(upstream)) as client:
        await client.list_tools()
        upstream.peers[0].answers_at_once = True
        assert text(await client.call_tool("work")) == "plain"


async def test_a_caller_that_gives_up_cancels_a_task_of_2025(autojump_clock: object) -> None:
    upstream = LegacyBuilds()
    async with open_client(gateway_of(upstream)) as client:
        await client.list_tools()
        with trio.move_on_after(5):
            await client.call_tool("work")
        await wait_all_tasks_blocked()
        assert upstream.peers[0].cancelled


async def test_a_task_that_the_server_cancels_is_a_tool_error(autojump_clock: object) -> None:
    upstream = LegacyBuilds()
    async with open_client(gateway_of(upstream)) as client:
        await client.list_tools()
        upstream.peers[0].state = {"status": "cancelled"}
        result = await client.call_tool("work")
        assert result.is_error
        assert result.content == [
            types.TextContent(text="the server 'crm' behind this gateway has cancelled the task that this call was")
        ]


async def test_tasks_of_a_server_of_2025_are_not_listened_to() -> None:
    async with (
        open_client(gateway_of(LegacyBuilds())) as client,
        client.listen(custom={"taskIds": ["crm::t"]}, extensions=DECLARED) as changes,
    ):
        assert changes.honored.custom == {"taskIds": []}


# --- Connections ---


@pytest.mark.parametrize("ends", [True, False])
async def test_a_connection_is_not_idle_while_a_task_goes_on(ends: bool, autojump_clock: object) -> None:
    builds = Builds()
    upstream = CountedServer(lambda _: None, make=lambda: builds.server(ttl=600))
    async with served(gateway_of(upstream, idle=60)) as gateway, gateway.client() as client:
        handle = await client.start_task("hang")
        await trio.sleep(300)
        assert upstream.open == 1
        if ends:
            builds.go_on.set()
            await trio.sleep(1)
            assert (await handle.refresh()).status == "completed"
            await trio.sleep(130)
        else:
            await trio.sleep(450)
        assert upstream.open == 0


def test_tasks_that_have_expired_are_forgotten(autojump_clock: object) -> None:
    async def main() -> None:
        states = ServerTaskStates("builds", TaskIds(ServerExtensionPoints(Server("gate"))))
        for number in range(10_000):
            states.passed({"taskId": str(number), "status": "working", "ttlMs": 1000}, None)
            if number % 100 == 0:
                await trio.sleep(1)
        assert len(states._expiries) < 1000
        odd = {"taskId": 3, "status": "working"}
        assert states.passed(odd, None) is odd
        assert states.passed({"taskId": "x", "status": "working", "ttlMs": None}, None)["taskId"] == "builds::x"
        await trio.sleep(3600)
        assert states.any_goes_on
        await trio.sleep(24 * 3600)
        assert not states.any_goes_on

    trio.run(main, clock=autojump_clock)  # type: ignore[arg-type] # the fixture is a clock


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_caller_learns_the_extensions_of_servers_that_are_still_being_connected_to(
    revision: str, autojump_clock: object
) -> None:
    class SlowServer(CountedServer):
        @asynccontextmanager
        async def __call__(self, client: TransportClient) -> AsyncGenerator[Transport]:
            await trio.sleep(3)
            async with super().__call__(client) as transport:
                yield transport

    def register(server: Server) -> None:
        server.declare_extension(TASKS)

    began = trio.current_time()
    async with open_client(gateway_of(SlowServer(register)), revision=revision) as client:
        assert trio.current_time() - began == pytest.approx(3, abs=0.5)
        assert client.server_capabilities.extensions == {TASKS: {}}


async def test_a_server_that_does_not_connect_delays_callers_for_a_bounded_time(autojump_clock: object) -> None:
    began = trio.current_time()
    gateway = gateway_of(CountedServer(hangs_while_connecting=True))

    @gateway.middleware
    async def pass_on(call: Any, proceed: Any) -> Any:
        return await proceed(call)

    async with open_client(gateway) as client:
        assert trio.current_time() - began == pytest.approx(5, abs=0.5)
        await client.ping()
    assert trio.current_time() - began < 30


async def test_states_of_tasks_that_break_the_protocol_harm_nothing() -> None:
    server = Server("odd", extensions={TASKS: {}})
    server.resource("notes://one")(lambda: "one")
    points = ServerExtensionPoints(server)

    @server.method("tasks/get", extension=TASKS)
    async def get() -> dict[str, Any]:
        return {"taskId": "1", "status": "completed", "result": 3}

    @points.listen_filter("taskIds", extension=TASKS)
    async def listened(wanted: Any, _: Context) -> Any:
        return wanted

    notes = Server("notes")
    notes.resource("notes://one")(lambda: "another one")
    async with open_client(front(notes, server)) as client:
        await client.list_resources()
        state = await client.request("tasks/get", {"taskId": "odd::1"}, dict, extensions=DECLARED)
        assert (state["taskId"], state["result"]) == ("odd::1", 3)
        async with client.listen(custom={"taskIds": ["odd::1"]}, extensions=DECLARED) as changes:
            assert changes.honored.custom == {"taskIds": ["odd::1"]}
            for id in ("2", "1"):
                points.notify_listeners("taskIds", "1", "notifications/tasks", {"taskId": id, "status": "working"})
                await wait_all_tasks_blocked()
            change = await anext(changes)
            assert isinstance(change, CustomChange)
            assert change.params["taskId"] == "odd::1"
