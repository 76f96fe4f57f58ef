"""Deadlines that travel: the time that a caller has left goes along with its requests, and applies to the handlers."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from tests.interaction.asking import CAPABLE, Wire
from tests.interaction.deadline_server import CUSTOM, make_server, value_of
from tests.interaction.openers import HTTP_OPENERS, Opener
from tests.interaction.scripted_peers import ENVELOPE, MODERN, NEWEST_LEGACY, Json
from trio_mcp import Client, Context, Limits, Server, TimeLimits, open_client, types
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client, open_scripted_server
from trio_mcp.wire import DEADLINE_KEY, LISTEN

IN_VIRTUAL_TIME: dict[str, Opener] = {"memory": open_client, "bytes": open_memory_client, "http": HTTP_OPENERS["http"]}
REVISIONS = [types.REVISIONS[0], NEWEST_LEGACY, MODERN]
GENEROUS = 1000.0
"""Seconds that are enough for every call in real time, and that nobody waits for."""

everywhere = pytest.mark.parametrize("opener", IN_VIRTUAL_TIME.values(), ids=IN_VIRTUAL_TIME)
in_every_era = pytest.mark.parametrize("revision", REVISIONS)
in_both_eras = pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])


async def say_yes(_: object) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"sure": True})


async def think(seconds: float, _: object) -> types.ElicitResult:
    await trio.sleep(seconds)
    return types.ElicitResult(action="accept", content={"sure": True})


def stated(params: Json) -> Any:
    """Return the deadline in the params of a request; None if there is none."""
    return params.get("_meta", {}).get(DEADLINE_KEY)


# --- The handler has the deadline of its caller ---


@in_every_era
@everywhere
@pytest.mark.parametrize("tool", ["left", "left_at_once", "left_in_a_thread"])
async def test_a_handler_has_the_time_that_its_caller_has_left(
    opener: Opener, revision: str, tool: str, autojump_clock: object
) -> None:
    async with opener(make_server(), revision=revision) as client:
        with trio.fail_after(20):
            assert value_of(await client.call_tool(tool)) == pytest.approx(20)
            await trio.sleep(12.5)
            assert value_of(await client.call_tool(tool)) == pytest.approx(7.5)


@in_every_era
@everywhere
async def test_a_handler_has_no_deadline_if_its_caller_has_none(
    opener: Opener, revision: str, autojump_clock: object
) -> None:
    wire = Wire()
    async with opener(make_server(), revision=revision, tap=wire) as client:
        for tool in ("left", "left_at_once", "left_in_a_thread"):
            assert value_of(await client.call_tool(tool)) is None
    assert [stated(params) for params in wire.sent("tools/call")] == [None] * 3


@in_both_eras
async def test_a_deadline_around_the_server_is_no_deadline_of_its_callers(revision: str) -> None:
    with trio.fail_after(30):
        async with open_scripted_client(make_server(), revision) as client:
            answer = await client.request("tools/call", {"name": "left_at_once"})
    assert answer["result"]["content"][0]["text"] == "null"


@in_both_eras
async def test_every_request_of_a_client_has_its_deadline(revision: str, autojump_clock: object) -> None:
    wire = Wire()
    async with open_client(make_server(), revision=revision, tap=wire) as client:
        with trio.fail_after(20):
            message = (await client.get_prompt("left_of_prompt")).messages[0].content
            assert isinstance(message, types.TextContent)
            read = (await client.read_resource("left://now")).contents[0]
            assert isinstance(read, types.TextResourceContents)
            completion = await client.complete(types.PromptReference(name="left_of_prompt"), "name", "")
            custom = await client.request(CUSTOM, {}, dict)
            async with client.open_call("left") as call:
                value = value_of(await call.result())
            await client.list_tools()
            [prompt async for prompt in client.prompts()]

    texts = [message.text, read.text, *completion.values]
    assert [*map(float, texts), custom["left"], value] == [pytest.approx(20)] * 5
    methods = ("prompts/get", "resources/read", "completion/complete", CUSTOM, "tools/call", "tools/list")
    for method in (*methods, "prompts/list"):
        assert [stated(params) for params in wire.sent(method)] == [pytest.approx(20)], method


@in_both_eras
async def test_a_request_has_the_earliest_of_the_deadlines_of_its_caller(revision: str, autojump_clock: object) -> None:
    async with open_client(make_server(), revision=revision) as client:
        with trio.fail_after(30), trio.fail_after(20), trio.fail_after(40):
            assert value_of(await client.call_tool("left")) == pytest.approx(20)
        with trio.fail_after(10), trio.CancelScope(shield=True):
            assert value_of(await client.call_tool("left")) is None


@in_both_eras
async def test_the_time_limits_of_a_client_are_no_deadline(revision: str, autojump_clock: object) -> None:
    limits = TimeLimits(idle=5, total=10)
    async with open_client(make_server(), revision=revision, time_limits=limits) as client:
        assert value_of(await client.call_tool("left")) is None


async def test_the_deadline_of_a_tool_is_the_earlier_one_of_its_timeout_and_that_of_the_caller(
    autojump_clock: object,
) -> None:
    async with open_client(make_server()) as client:
        for caller, expected in ((5, 5), (9, 7)):
            with trio.fail_after(caller):
                assert value_of(await client.call_tool("left_of_seven")) == pytest.approx(expected)


async def test_the_deadline_of_the_caller_applies_to_middleware_after_the_timeout_of_the_tool(
    autojump_clock: object,
) -> None:
    server, seen = make_server(), list[float]()

    @server.middleware
    async def look(request: Any, call_next: Callable[..., Any]) -> Any:
        seen.append(request.context.deadline - trio.current_time())
        result = await call_next(request)
        seen.append(request.context.deadline - trio.current_time())
        return result

    async with open_client(server) as client:
        with trio.fail_after(20):
            await client.call_tool("left_of_seven")
    assert seen[-2:] == [pytest.approx(20)] * 2


# --- Hops ---


@in_both_eras
@everywhere
async def test_less_is_left_after_each_hop(opener: Opener, revision: str, autojump_clock: object) -> None:
    async with opener(make_server(hops=2), revision=revision) as client:
        with trio.fail_after(20):
            assert value_of(await client.call_tool("chain", {"pause": 3})) == [pytest.approx(n) for n in (20, 17, 14)]


@in_both_eras
async def test_a_chain_without_a_deadline_has_none_anywhere(revision: str, autojump_clock: object) -> None:
    async with open_client(make_server(hops=2), revision=revision) as client:
        assert value_of(await client.call_tool("chain", {"pause": 3})) == [None] * 3


@in_every_era
async def test_a_server_in_another_process_has_the_deadline_and_hands_on_less(revision: str) -> None:
    program = [sys.executable, str(Path(__file__).with_name("deadline_server.py"))]
    async with open_client(program, revision=revision) as client:
        assert value_of(await client.call_tool("left")) is None
        with trio.fail_after(GENEROUS):
            left = value_of(await client.call_tool("left"))
            here, *further = value_of(await client.call_tool("chain"))
    assert GENEROUS / 2 < left <= GENEROUS
    assert left > here > further[0] > further[1] > GENEROUS / 2


# --- Servers that are told of a deadline ---


@asynccontextmanager
async def scripted(revision: str) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Open a server that has tools, and declares no extension."""

    async def script(server: ScriptedPeer) -> None:
        if revision == MODERN:
            discovered: Json = {"supportedVersions": [revision], "capabilities": ScriptedPeer.EVERYTHING}
            caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            await server.answer(discovered | caching, method="server/discover")
        else:
            await server.answer_initialize(revision, ScriptedPeer.EVERYTHING)

    async with open_scripted_server(script, revision=revision) as opened:
        yield opened


async def called(client: Client, server: ScriptedPeer, meta: Json | None = None) -> Json:
    """Call a tool of a scripted server; return the params that it got."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "work", meta=meta))
        kind: Json = {"resultType": "complete"} if client.revision == MODERN else {}
        request = await server.answer({"content": [], **kind}, method="tools/call")
    params: Json = request["params"]
    return params


@in_every_era
async def test_a_server_is_told_the_seconds_that_are_left_and_nothing_without_a_deadline(
    revision: str, autojump_clock: object
) -> None:
    async with scripted(revision) as (client, server):
        assert stated(await called(client, server)) is None
        with trio.fail_after(20):
            await trio.sleep(0.1)
            params = await called(client, server, meta={"mine": 1})
    assert stated(params) == pytest.approx(19.9)
    assert params["_meta"]["mine"] == 1


@in_both_eras
async def test_the_own_deadline_replaces_one_in_the_metadata_that_a_caller_passes_on(
    revision: str, autojump_clock: object
) -> None:
    async with scripted(revision) as (client, server):
        with trio.fail_after(20):
            assert stated(await called(client, server, meta={DEADLINE_KEY: 25})) == pytest.approx(20)


@in_both_eras
async def test_null_in_the_metadata_keeps_the_deadline_of_the_caller_to_itself(
    revision: str, autojump_clock: object
) -> None:
    async with scripted(revision) as (client, server):
        with trio.fail_after(20):
            params = await called(client, server, meta={DEADLINE_KEY: None})
    assert params["_meta"][DEADLINE_KEY] is None


async def test_a_subscription_has_no_deadline(autojump_clock: object) -> None:
    server, wire = make_server(), Wire()
    async with open_client(server, tap=wire) as client:
        with trio.fail_after(20):
            async with client.listen(tools=True):
                await trio.sleep(10)
        assert [stated(params) for params in wire.sent(LISTEN)] == [None]

    async with open_scripted_client(server) as raw:
        await raw.begin(LISTEN, {"notifications": {"toolsListChanged": True}, "_meta": {**ENVELOPE, DEADLINE_KEY: 5}})
        await raw.expect_notification("notifications/subscriptions/acknowledged")
        await raw.expect_silence(50)


async def test_a_handshake_has_no_deadline(autojump_clock: object) -> None:
    server = Server("s")

    @server.middleware
    async def slow(request: Any, call_next: Callable[..., Any]) -> Any:
        await trio.sleep(10)
        return await call_next(request)

    async with open_scripted_client(server) as raw:
        params: Json = {"protocolVersion": NEWEST_LEGACY, "capabilities": {}, "clientInfo": ScriptedPeer.INFO}
        answer = await raw.request("initialize", params | {"_meta": {DEADLINE_KEY: 5}}, envelope=None)
    assert answer["result"]["protocolVersion"] == NEWEST_LEGACY


# --- The time at which a request is sent ---


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
async def test_a_request_that_had_to_wait_states_the_time_that_is_left_when_it_is_sent(
    revision: str, autojump_clock: object
) -> None:
    wire = Wire()
    limits = Limits(max_posts=1)
    opening = HTTP_OPENERS["http"](make_server(), revision=revision, limits=limits, tap=wire)
    async with opening as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "chain", {"pause": 8})
        await wait_all_tasks_blocked()
        with trio.fail_after(20):
            assert value_of(await client.call_tool("left")) == pytest.approx(12)
    assert stated(wire.sent("tools/call")[-1]) == pytest.approx(12)


@in_both_eras
async def test_the_time_in_the_queue_of_a_server_counts(revision: str, autojump_clock: object) -> None:
    server = make_server(limits=Limits(max_running=1))
    async with open_memory_client(server, revision=revision) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "chain", {"pause": 8})
        await wait_all_tasks_blocked()
        with trio.fail_after(20):
            assert value_of(await client.call_tool("left")) == pytest.approx(12)


# --- Values that are no deadline ---


@in_both_eras
@pytest.mark.parametrize("value", [0, -1, -0.5, True, "20", None, [20], {"seconds": 20}, 1e300, 10**400, 40_000_000])
async def test_a_value_that_is_no_deadline_is_ignored(value: object, revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        meta = {**ScriptedPeer.envelope(revision), DEADLINE_KEY: value}
        answer = await client.request("tools/call", {"name": "left", "_meta": meta})
    assert answer["result"]["content"][0]["text"] == "null"


@in_both_eras
@pytest.mark.parametrize("value", [20, 20.5, 31_000_000])
async def test_every_positive_number_of_at_most_a_year_is_a_deadline(
    value: float, revision: str, autojump_clock: object
) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        meta = {**ScriptedPeer.envelope(revision), DEADLINE_KEY: value}
        answer = await client.request("tools/call", {"name": "left", "_meta": meta})
    assert float(answer["result"]["content"][0]["text"]) == pytest.approx(value)


# --- A deadline that passes ---


async def late(client: ScriptedPeer, revision: str, method: str, params: Json) -> Json:
    """Send a request whose deadline passes, and that nobody cancels; return the answer."""
    meta = {**ScriptedPeer.envelope(revision), DEADLINE_KEY: 5}
    return await client.request(method, {**params, "_meta": meta})


LATE = "cancelled, because the deadline of the caller has passed"


@in_every_era
async def test_a_tool_is_cancelled_when_the_deadline_of_its_caller_passes(
    revision: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        began = trio.current_time()
        answer = await late(client, revision, "tools/call", {"name": "hang"})
        assert trio.current_time() - began == pytest.approx(5)
        assert answer["result"]["isError"]
        assert answer["result"]["content"] == [{"type": "text", "text": LATE}]
        events = await client.request("tools/call", {"name": "events"})
    assert events["result"]["content"][0]["text"] == '["cleaned up"]'
    assert caplog.records == []


@define(eq=False)
class Slow:
    """A server whose every handler is too slow for its callers."""

    server: Server = field(factory=lambda: Server("slow"))

    def __attrs_post_init__(self) -> None:
        @self.server.prompt
        async def slow_prompt() -> str:
            await trio.sleep(100)
            return ""

        @self.server.resource("slow://now")
        async def slow_resource() -> str:
            await trio.sleep(100)
            return ""

        @self.server.method("com.example/slow")
        async def slow_method(_: dict[str, Any]) -> None:
            await trio.sleep(100)

        @self.server.tool
        def slow_thread() -> None:
            while True:
                trio.from_thread.check_cancelled()

        @self.server.tool(timeout=3)
        async def slow_tool() -> None:
            await trio.sleep(100)


@in_both_eras
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "slow_prompt"}),
        ("resources/read", {"uri": "slow://now"}),
        ("com.example/slow", {}),
    ],
)
async def test_a_late_request_of_any_other_method_is_an_error(
    method: str, params: Json, revision: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_scripted_client(Slow().server, revision) as client:
        answer = await late(client, revision, method, params)
    assert answer["error"] == {"code": -32603, "message": f"{method!r}: {LATE}"}
    assert caplog.records == []


@in_both_eras
async def test_a_late_request_is_answered_alike_through_middleware(revision: str, autojump_clock: object) -> None:
    server = Slow().server

    @server.middleware
    async def pass_on(request: Any, call_next: Callable[..., Any]) -> Any:
        return await call_next(request)

    async with open_scripted_client(server, revision) as client:
        answer = await late(client, revision, "prompts/get", {"name": "slow_prompt"})
    assert answer["error"]["message"] == f"'prompts/get': {LATE}"


async def test_a_plain_function_can_notice_that_the_deadline_has_passed() -> None:
    async with open_scripted_client(Slow().server) as client:
        meta = {**ENVELOPE, DEADLINE_KEY: 0.01}
        answer = await client.request("tools/call", {"name": "slow_thread", "_meta": meta})
    assert answer["result"]["content"][0]["text"] == LATE


async def test_an_earlier_timeout_of_the_tool_is_named_instead(autojump_clock: object) -> None:
    async with open_scripted_client(Slow().server) as client:
        answer = await late(client, MODERN, "tools/call", {"name": "slow_tool"})
    assert answer["result"]["content"][0]["text"] == "slow_tool timed out after 3 s"


@in_both_eras
@everywhere
async def test_a_caller_sees_its_own_deadline_and_not_the_answer_of_the_server(
    opener: Opener, revision: str, autojump_clock: object
) -> None:
    async with opener(make_server(), revision=revision) as client:
        await trio.sleep(0.1)  # so that the deadline is no round number
        for seconds in (0.3, 5, 7.7):
            with pytest.raises(trio.TooSlowError), trio.fail_after(seconds):
                await client.call_tool("hang")
        assert value_of(await client.call_tool("events")) == ["cleaned up"] * 3


async def test_a_request_that_waited_until_it_was_late_does_not_begin(autojump_clock: object) -> None:
    server = make_server(limits=Limits(max_running=1))
    begun: list[str] = []

    @server.tool
    async def begin() -> None:
        await trio.lowlevel.checkpoint()
        begun.append("begun")

    async with open_scripted_client(server) as client:
        await client.begin("tools/call", {"name": "chain", "arguments": {"pause": 8}})
        late_one = await client.begin("tools/call", {"name": "begin", "_meta": {**ENVELOPE, DEADLINE_KEY: 5}})
        await client.receive()
        answer = await client.expect_response(late_one)
    assert answer["result"]["content"][0]["text"] == LATE
    assert begun == []


# --- Questions ---


async def test_a_retry_brings_its_own_deadline(autojump_clock: object) -> None:
    wire = Wire()
    async with open_client(make_server(), on_elicit=partial(think, 6), tap=wire) as client:
        with trio.fail_after(20):
            assert value_of(await client.call_tool("ask", {"pause": 3})) == [pytest.approx(17), pytest.approx(11)]
        assert value_of(await client.call_tool("ask")) == [None, None]
    expected = [pytest.approx(20), pytest.approx(11), None, None]
    assert [stated(params) for params in wire.sent("tools/call")] == expected


async def test_a_replayed_handler_has_the_deadline_of_the_retry(autojump_clock: object) -> None:
    server = make_server(asking="replayed")
    async with open_client(server, on_elicit=partial(think, 6)) as client:
        with trio.fail_after(20):
            assert value_of(await client.call_tool("ask")) == [pytest.approx(14)] * 2


def asked(seconds: float | None) -> Json:
    """Return the params of a call that asks, with a deadline or without."""
    deadline: Json = {} if seconds is None else {DEADLINE_KEY: seconds}
    return {"name": "ask", "_meta": {**CAPABLE, **deadline}}


def answered(params: Json, interim: Json) -> Json:
    """Return the params of a retry that brings the answer."""
    accept = {"action": "accept", "content": {"sure": True}}
    answers = dict.fromkeys(interim["inputRequests"], accept)
    return {**params, "requestState": interim["requestState"], "inputResponses": answers}


@pytest.mark.parametrize("retried", [None, 7])
async def test_a_parked_handler_has_no_deadline_until_the_retry(retried: float | None, autojump_clock: object) -> None:
    async with open_scripted_client(make_server()) as client:
        interim = (await client.request("tools/call", asked(5)))["result"]
        await trio.sleep(100)
        answer = await client.request("tools/call", answered(asked(retried), interim))
    after = "null" if retried is None else f"{retried}.0"
    assert answer["result"]["content"][0]["text"] == f"[5.0,{after}]"


async def test_a_retry_may_bring_a_deadline_that_the_first_request_had_not(autojump_clock: object) -> None:
    async with open_scripted_client(make_server()) as client:
        interim = (await client.request("tools/call", asked(None)))["result"]
        answer = await client.request("tools/call", answered(asked(7), interim))
    assert answer["result"]["content"][0]["text"] == "[null,7.0]"


async def test_the_deadline_of_a_retry_passes_while_it_waits_for_a_slot(autojump_clock: object) -> None:
    server = make_server(limits=Limits(max_running=1))
    async with open_scripted_client(server) as client:
        interim = (await client.request("tools/call", asked(5)))["result"]
        long = await client.begin("tools/call", {"name": "chain", "arguments": {"pause": 50}})
        retry = await client.begin("tools/call", answered(asked(5), interim))
        began = trio.current_time()
        answer = await client.expect_response(retry)
        assert trio.current_time() - began == pytest.approx(5)
        assert answer["result"]["content"][0]["text"] == LATE
        await client.expect_response(long)
        assert (await client.request("tools/call", {"name": "left"}))["result"]["content"][0]["text"] == "null"


async def test_the_timeout_of_a_tool_is_paused_while_it_asks_and_the_deadline_of_a_legacy_caller_is_not(
    autojump_clock: object,
) -> None:
    """The request of a legacy client stays open while it answers, and so does its deadline."""
    server = make_server()

    @server.tool(timeout=10)
    async def careful(ctx: Context) -> list[float]:
        await trio.sleep(2)
        seen = [ctx.deadline - trio.current_time()]
        await ctx.elicit("Sure?", {"type": "object", "properties": {}})
        seen.append(ctx.deadline - trio.current_time())
        return seen

    async with open_client(server, revision=NEWEST_LEGACY, on_elicit=partial(think, 30)) as client:
        for caller, expected in ((100, [8, 8]), (35, [8, 3]), (9, None)):
            with trio.move_on_after(caller) as scope:
                assert value_of(await client.call_tool("careful")) == [pytest.approx(n) for n in expected or ()]
            assert scope.cancelled_caught == (expected is None)


async def test_a_handler_is_cancelled_while_it_asks_a_legacy_client_whose_deadline_passes(
    autojump_clock: object,
) -> None:
    capabilities: Json = {"elicitation": {}}
    async with open_scripted_client(make_server()) as client:
        params: Json = {"protocolVersion": NEWEST_LEGACY, "capabilities": capabilities, "clientInfo": client.INFO}
        await client.request("initialize", params, envelope=None)
        await client.notify("notifications/initialized")
        call = await client.begin("tools/call", {"name": "ask", "_meta": {DEADLINE_KEY: 5}}, envelope=None)
        question = await client.expect_request("elicitation/create")
        cancelled = await client.expect_notification("notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]
        answer = await client.expect_response(call)
    assert answer["result"]["content"][0]["text"] == LATE
