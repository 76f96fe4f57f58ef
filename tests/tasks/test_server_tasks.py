"""Calls that become tasks on a server, and the methods by which clients follow them, over every transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import pytest
import trio
from attrs import frozen

from tests.interaction.openers import OPENERS, Opener
from tests.interaction.serving_with_principal import ServingWithPrincipal
from tests.tasks.helpers import DECLARED, LEGACY, MODERN, REQUIRED, TASKS, RawTasks, accepted
from trio_mcp import (
    Accepted,
    AskExpired,
    Context,
    CustomChange,
    Elicit,
    ErrorResponse,
    Limits,
    LocalProtocolError,
    McpError,
    MemoryTaskStore,
    Request,
    Server,
    TaskSettings,
    ToolError,
    TooManyParked,
    open_client,
    types,
)
from trio_mcp.lowlevel import ActiveServer, ExchangeContext
from trio_mcp.peer import GATHER_SECONDS
from trio_mcp.tasks import TaskRecord
from trio_mcp.tasks._exchange import TaskExchange, TaskPeer
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client
from trio_mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY


@pytest.fixture(params=[name for name in OPENERS if name != "http-sse"])
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


@frozen
class Sure:
    sure: bool


async def say_yes(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"sure": True})


def make_server(**settings: Any) -> Server:
    defaults: dict[str, Any] = {"after": 2.0, "poll_interval": 1.0}
    server = Server("tasks", version="1", tasks=TaskSettings(**(defaults | settings)))

    @server.tool(task="optional")
    async def work(ctx: Context, seconds: float) -> str:
        await ctx.report_progress(1, total=2, message="half")
        await trio.sleep(seconds)
        return f"worked {seconds:g} s"

    @server.tool(task="required")
    async def nightly(ctx: Context, seconds: float = 10) -> str:
        for step in range(1, 3):
            await ctx.report_progress(step, total=2)
            await trio.sleep(seconds / 2)
        return "done"

    @server.tool(task="required")
    async def deploy(ctx: Context) -> str:
        match await ctx.elicit("Deploy?", Sure):
            case Accepted(value=Sure(sure=True)):
                return "deployed"
            case other:
                return f"not deployed: {other}"

    @server.tool(task="optional")
    async def ask_twice(ctx: Context, at: float) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, at + 1)  # questions wait a moment for those of other tasks of the handler
            await trio.sleep(at)
            with trio.move_on_after(GATHER_SECONDS / 4):
                await ctx.elicit("No more?", Sure)
            await trio.sleep(GATHER_SECONDS / 2)
            answer = await ctx.elicit("Sure?", Sure)
        return str(answer)

    @server.tool(task="required")
    async def broken(how: str) -> str:
        raise ToolError("the disk is full") if how == "tool" else McpError(-32000, "no quota", {"left": 0})

    @server.tool(task="optional")
    async def ask_then_work(ctx: Context) -> str:
        await trio.sleep(1)
        answer = await ctx.elicit("Really?", Sure)
        await trio.sleep(10)
        return str(answer)

    return server


# --- Which calls become tasks ---


async def test_a_question_is_asked_in_the_task_if_the_call_becomes_one_before_the_question_is_sent(
    opener: Opener, autojump_clock: object
) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("ask_twice", {"at": 2.0 - GATHER_SECONDS / 2})
        await trio.sleep(1)
        ((key, question),) = (await tasks.get(id))["inputRequests"].items()
        assert question["params"]["message"] == "Sure?"
        await tasks.update(id, {key: accepted(sure=True)})
        await trio.sleep(2)
        assert (await tasks.get(id))["result"]["structuredContent"] == {"result": str(Accepted(Sure(sure=True)))}


async def test_a_call_that_takes_longer_than_after_goes_on_as_a_task(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server()) as client:
        tasks, started = RawTasks(client), trio.current_time()

        created = await tasks.call("work", {"seconds": 10})

        assert 2 <= trio.current_time() - started < 10
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert created["ttlMs"] == 3_600_000
        assert created["pollIntervalMs"] == 1000
        assert created.keys().isdisjoint({"task", "result", "error", "inputRequests", "requestState", "ttl", "content"})
        assert (await tasks.get(created["taskId"]))["status"] == "working"
        await trio.sleep(10)
        got = await tasks.get(created["taskId"])
        assert got["resultType"] == "complete"
        assert got["status"] == "completed"
        assert got["result"]["content"] == [{"type": "text", "text": "worked 10 s"}]


async def test_a_quick_call_is_answered_like_any_call(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server()) as client:
        result = await RawTasks(client).call("work", {"seconds": 1})

        assert result.get("resultType", "complete") == "complete"
        assert result["content"] == [{"type": "text", "text": "worked 1 s"}]


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_client_that_takes_no_tasks_gets_the_result_when_it_is_there(
    opener: Opener, revision: str, autojump_clock: object
) -> None:
    async with opener(make_server(), revision=revision) as client:
        result = await client.call_tool("work", {"seconds": 100})

        assert result.content == [types.TextContent(text="worked 100 s")]


async def test_a_tool_that_requires_tasks_refuses_clients_that_take_none(opener: Opener) -> None:
    async with opener(make_server(), revision=MODERN) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.call_tool("nightly")
        assert (refusal.value.code, refusal.value.data) == (MISSING_CAPABILITY, REQUIRED)
    async with opener(make_server(), revision=LEGACY) as client:
        assert (await client.call_tool("nightly")).is_error
    async with opener(make_server(), revision=LEGACY, tasks=True) as client:
        result = await client.call_tool("nightly")
        assert "which revision 2025-11-25 does not have" in str(result.content)


async def test_arguments_that_do_not_fit_make_no_task(opener: Opener) -> None:
    async with opener(make_server()) as client:
        result = await RawTasks(client).call("nightly", {"seconds": "x"})

        assert result["isError"]
        assert "$.seconds: expected number, got string" in str(result["content"])


async def test_a_hint_of_the_experiment_of_2025_is_ignored(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server()) as client:
        result = await RawTasks(client).call("work", {"seconds": 0}, task={"ttl": 60_000})

        assert result["content"] == [{"type": "text", "text": "worked 0 s"}]


async def test_a_server_declares_the_extension_and_no_experimental_tasks(opener: Opener) -> None:
    async with opener(make_server()) as client:
        assert (client.server_capabilities.extensions or {}).get(TASKS) == {}
        assert client.server_capabilities.tasks is None


async def test_a_tool_declares_the_extension_without_settings() -> None:
    server = Server("s")
    assert TASKS not in server.extensions

    server.tool(task="optional")(lambda: "x")

    assert server.extensions == {TASKS: {}}


@pytest.mark.parametrize("task", ["always", True])
def test_the_error_names_a_tool_whose_mode_does_not_exist(task: Any) -> None:
    with pytest.raises(ValueError, match=r"tool 'x': task=.*: must be one of optional, required, or None"):
        Server("s").tool(name="x", task=task)(lambda: "x")


@pytest.mark.parametrize(
    ("name", "value"), [("after", -1), ("after", True), ("ttl", 0), ("poll_interval", float("inf")), ("max_tasks", 0)]
)
def test_the_error_names_a_setting_that_is_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"TaskSettings\({name}={value!r}\): must be"):
        TaskSettings(**{name: value})


async def test_beyond_the_most_tasks_of_a_caller_calls_are_ordinary_or_refused(
    opener: Opener, autojump_clock: object
) -> None:
    async with opener(make_server(max_tasks=1)) as client:
        tasks = RawTasks(client)
        await tasks.begin("nightly")

        with pytest.raises(ErrorResponse, match="too busy: the caller has 1 tasks already"):
            await tasks.call("nightly")
        assert (await tasks.call("work", {"seconds": 5}))["content"] == [{"type": "text", "text": "worked 5 s"}]


# --- What happens in a task ---


async def test_progress_becomes_the_message_of_the_task(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server()) as client:
        tasks = RawTasks(client)
        work, nightly = await tasks.begin("work", {"seconds": 20}), await tasks.begin("nightly")

        await trio.sleep(1)
        assert (await tasks.get(work))["statusMessage"] == "half"  # reported before it was a task
        assert (await tasks.get(nightly))["statusMessage"] == "1 of 2"
        await trio.sleep(5)
        assert (await tasks.get(nightly))["statusMessage"] == "2 of 2"


async def test_a_question_is_asked_in_the_task_and_the_handler_goes_straight_on(
    opener: Opener, autojump_clock: object
) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy")

        asked = await tasks.get(id)
        assert asked["status"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Deploy?"
        assert await tasks.get(id) == asked  # again, until it is answered

        acknowledged = await tasks.update(id, {"unknown": {"x": 1}, key: accepted(sure=True)})
        assert acknowledged.keys() <= {"resultType", "_meta"}
        await trio.sleep(0.1)
        got = await tasks.get(id)
        assert got["status"] == "completed"
        assert got["result"]["content"] == [{"type": "text", "text": "deployed"}]
        await tasks.update(id, {key: accepted(sure=False)})  # satisfied already
        assert await tasks.get(id) == got


async def test_answered_questions_vanish_and_the_others_stay_open(opener: Opener, autojump_clock: object) -> None:
    server = make_server()

    @server.tool(task="required")
    async def both(ctx: Context) -> str:
        first, second = await ctx.ask_all(Elicit("One?", Sure, key="one"), Elicit("Two?", Sure, key="two"))
        return f"{first} {second}"

    async with opener(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("both")
        assert [*(await tasks.get(id))["inputRequests"]] == ["one", "two"]

        await tasks.update(id, {"one": accepted(sure=True)})
        got = await tasks.get(id)
        assert (got["status"], [*got["inputRequests"]]) == ("input_required", ["two"])

        await tasks.update(id, {"one": accepted(sure=False), "two": {"action": "decline"}})
        await trio.sleep(0.1)
        text = (await tasks.get(id))["result"]["content"][0]["text"]
        assert text == f"{Accepted(Sure(sure=True))} Declined()"


async def test_tasks_of_one_handler_ask_and_go_on_independently(opener: Opener, autojump_clock: object) -> None:
    server, finished = make_server(), list[str]()

    @server.tool(task="required")
    async def parallel(ctx: Context) -> str:
        async def ask(name: str) -> None:
            await ctx.elicit(f"{name}?", Sure, key=name)
            finished.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "left")
            nursery.start_soon(ask, "right")
        return "both"

    async with opener(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("parallel")
        assert {*(await tasks.get(id))["inputRequests"]} == {"left", "right"}

        await tasks.update(id, {"right": accepted(sure=True)})
        await trio.sleep(0.1)
        assert finished == ["right"]
        assert [*(await tasks.get(id))["inputRequests"]] == ["left"]
        await tasks.update(id, {"left": accepted(sure=True)})
        await trio.sleep(0.1)
        assert (await tasks.get(id))["status"] == "completed"


async def test_the_same_question_twice_has_two_keys(opener: Opener, autojump_clock: object) -> None:
    server = make_server()

    @server.tool(task="required")
    async def twice(ctx: Context) -> str:
        return str([await ctx.elicit("Sure?", Sure, key="q") for _ in range(2)])

    async with opener(server, on_elicit=say_yes) as client:
        tasks, keys = RawTasks(client), list[str]()
        id = await tasks.begin("twice")
        for _ in range(2):
            keys += (await tasks.get(id))["inputRequests"]
            await tasks.update(id, {keys[-1]: accepted(sure=True)})
            await trio.sleep(0.1)

        assert len({*keys}) == 2
        assert (await tasks.get(id))["status"] == "completed"


async def test_an_invalid_answer_is_refused_and_the_question_stays_open(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy")
        ((key, _),) = (await tasks.get(id))["inputRequests"].items()

        for answer, fault in ((accepted(sure="yes"), "does not fit the form"), ({"action": "perhaps"}, "action")):
            with pytest.raises(ErrorResponse, match=fault) as refusal:
                await tasks.update(id, {key: answer})
            assert refusal.value.code == INVALID_PARAMS
        assert (await tasks.get(id))["status"] == "input_required"


async def test_a_handler_that_stops_waiting_withdraws_its_question(opener: Opener, autojump_clock: object) -> None:
    server = make_server()

    @server.tool(task="required")
    async def impatient(ctx: Context) -> str:
        with trio.move_on_after(5):
            await ctx.elicit("Now?", Sure)
        await trio.sleep(5)
        return "went on"

    async with opener(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("impatient")
        await trio.sleep(6)
        got = await tasks.get(id)
        assert got["status"] == "working"
        assert "inputRequests" not in got
        await trio.sleep(6)
        assert (await tasks.get(id))["status"] == "completed"


async def test_a_question_stays_open_until_the_task_expires(autojump_clock: object) -> None:
    server = Server("s", limits=Limits(ask_seconds=1), tasks=TaskSettings(ttl=1000))

    @server.tool(task="required")
    async def patient(ctx: Context) -> str:
        return str(await ctx.elicit("Well?", Sure))

    async with open_memory_client(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("patient")
        await trio.sleep(900)
        ((key, _),) = (await tasks.get(id))["inputRequests"].items()
        await tasks.update(id, {key: {"action": "cancel"}})
        await trio.sleep(0.1)
        assert (await tasks.get(id))["result"]["content"][0]["text"] == "Dismissed()"


async def test_a_question_that_the_client_cannot_answer_fails_the_task(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server()) as client:  # it has declared no elicitation
        tasks = RawTasks(client)
        id = await tasks.begin("deploy")
        got = await tasks.get(id)

        assert got["status"] == "failed"
        assert got["error"]["code"] == MISSING_CAPABILITY


async def test_a_tool_error_completes_a_task_and_a_protocol_error_fails_it(
    opener: Opener, autojump_clock: object
) -> None:
    async with opener(make_server()) as client:
        tasks = RawTasks(client)

        completed = await tasks.get(await tasks.begin("broken", {"how": "tool"}))
        assert completed["status"] == "completed"
        assert completed["result"]["isError"]
        failed = await tasks.get(await tasks.begin("broken", {"how": "protocol"}))
        assert failed["status"] == "failed"
        assert failed["statusMessage"] == "no quota"
        assert failed["error"] == {"code": -32000, "message": "no quota", "data": {"left": 0}}


async def test_questions_before_the_call_is_a_task_are_asked_as_for_any_call(
    opener: Opener, autojump_clock: object
) -> None:
    asked: list[str] = []

    async def on_elicit(question: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(question.message)
        await trio.sleep(100)  # the time of the user does not make a task of the call
        return types.ElicitResult(action="accept", content={"sure": True})

    async with opener(make_server(), on_elicit=on_elicit) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("ask_then_work")

        assert asked == ["Really?"]
        await trio.sleep(10)
        assert "sure=True" in (await tasks.get(id))["result"]["content"][0]["text"]


async def test_a_cancelled_task_cancels_its_handler_and_is_acknowledged_again(
    opener: Opener, autojump_clock: object
) -> None:
    server, ended = make_server(), list[str]()

    @server.tool(task="required")
    async def endless() -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")
        return "never"

    async with opener(server) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("endless")

        for _ in range(2):
            acknowledged = await tasks.cancel(id)
            assert acknowledged.keys() <= {"resultType", "_meta"}
            got = await tasks.get(id)
            assert got["status"] == "cancelled"
            assert got.keys().isdisjoint({"result", "error"})
        assert ended == ["cancelled"]


async def test_a_task_that_waits_for_an_answer_can_be_cancelled(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy")
        await tasks.cancel(id)
        got = await tasks.get(id)

        assert got["status"] == "cancelled"
        assert "inputRequests" not in got


async def test_cancelling_a_request_before_its_result_makes_no_task(opener: Opener, autojump_clock: object) -> None:
    store = MemoryTaskStore()
    async with opener(make_server(store=store)) as client:
        with trio.move_on_after(1):
            await RawTasks(client).call("work", {"seconds": 100})
        await trio.sleep(200)

        assert await store.next_expiry() is None


async def test_a_plain_function_is_a_task_too_and_runs_in_a_thread() -> None:
    server = Server("s")

    @server.tool(task="required")
    def plain(ctx: Context) -> str:
        trio.from_thread.run(ctx.report_progress, 1)
        answer = trio.from_thread.run(ctx.elicit, "Well?", Sure)
        return str(answer)

    async with open_memory_client(server, on_elicit=say_yes) as client:
        handle = await client.start_task("plain")
        assert "sure=True" in str(await handle.result())


async def test_a_task_outlives_the_connection_of_its_call(autojump_clock: object) -> None:
    async with make_server().serving() as serving:
        shared = ServingWithPrincipal(serving, None)
        async with open_client(shared) as client:
            id = await RawTasks(client).begin("nightly")
        await trio.sleep(20)
        async with open_client(shared) as client:
            assert (await RawTasks(client).get(id))["status"] == "completed"


async def test_a_task_is_there_for_its_principal_only(autojump_clock: object) -> None:
    async with (
        make_server().serving() as serving,
        open_client(ServingWithPrincipal(serving, "ada"), on_elicit=say_yes) as ada,
        open_client(ServingWithPrincipal(serving, "eve"), on_elicit=say_yes) as eve,
        open_client(ServingWithPrincipal(serving, None), on_elicit=say_yes) as anonymous,
    ):
        id = await RawTasks(ada).begin("deploy")
        for client in (eve, anonymous):
            tasks = RawTasks(client)
            for request in (tasks.get(id), tasks.cancel(id), tasks.update(id, {})):
                with pytest.raises(ErrorResponse, match="there is no task"):
                    await request
            async with client.listen(custom={"taskIds": [id]}, extensions=DECLARED) as changes:
                assert changes.honored.custom == {"taskIds": []}
        assert (await RawTasks(ada).get(id))["status"] == "input_required"


async def test_a_stopped_server_fails_its_tasks_with_a_sentence(autojump_clock: object) -> None:
    store, server = MemoryTaskStore(), make_server()
    server = make_server(store=store)
    async with open_memory_client(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        working, waiting = await tasks.begin("nightly", {"seconds": 1000}), await tasks.begin("deploy")

    for id in (working, waiting):
        record = await store.get(id)
        assert record is not None
        assert record.is_final
        assert "stop" in str(record.outcome)
    async with open_memory_client(server) as client:
        assert (await RawTasks(client).get(working))["status"] == "failed"


async def test_a_function_around_a_tool_runs_within_its_task(autojump_clock: object) -> None:
    server, seen = Server("s"), list[str]()

    async def around(context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        seen.append("before")
        try:
            return await call() + "!"
        finally:
            seen.append("after")

    @server.tool(task="required", around=around)
    async def work() -> str:
        return "done"

    async with open_memory_client(server) as client:
        tasks = RawTasks(client)
        got = await tasks.get(await tasks.begin("work"))
        assert got["result"]["structuredContent"] == {"result": "done!"}
        assert seen == ["before", "after"]


async def test_a_task_passes_middleware_once(autojump_clock: object) -> None:
    server, seen = make_server(), list[str]()

    @server.middleware
    async def watch(request: Request, call_next: Any) -> Any:
        seen.append(request.method)
        return await call_next(request)

    async with open_memory_client(server) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("nightly")
        await trio.sleep(20)
        assert (await tasks.get(id))["status"] == "completed"
        assert seen.count("tools/call") == 1


async def test_a_result_that_is_not_json_fails_the_task(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool(task="required")
    async def odd() -> types.CallToolResult:
        return types.CallToolResult(content=[], structured_content={"x": float("nan")})

    async with open_memory_client(server) as client:
        tasks = RawTasks(client)
        got = await tasks.get(await tasks.begin("odd"))
        assert got["status"] == "failed"
        assert got["error"]["code"] == INTERNAL_ERROR
        assert "NaN" not in str(got)
    assert "NaN" in caplog.text


# --- Requests about tasks ---


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_an_unknown_task_is_invalid_params(opener: Opener, method: str) -> None:
    async with opener(make_server()) as client:
        params: dict[str, Any] = {"taskId": "none", "inputResponses": {}}
        with pytest.raises(ErrorResponse, match="there is no task 'none', or it has expired") as refusal:
            await client.request(method, params, dict, extensions=DECLARED)
        assert refusal.value.code == INVALID_PARAMS


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_every_request_about_a_task_must_declare_the_extension(method: str) -> None:
    declared = ScriptedPeer.envelope(MODERN) | {"io.modelcontextprotocol/clientCapabilities": {"extensions": DECLARED}}
    params: dict[str, Any] = {"taskId": "none", "inputResponses": {}}

    async with open_scripted_client(make_server()) as client:
        with_it = await client.request(method, params, envelope=declared)
        without = await client.request(method, params, envelope=ScriptedPeer.envelope(MODERN))

    assert with_it["error"]["code"] == INVALID_PARAMS
    assert (without["error"]["code"], without["error"]["data"]) == (MISSING_CAPABILITY, REQUIRED)


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_the_methods_of_the_experiment_do_not_exist(opener: Opener, method: str) -> None:
    for revision in (MODERN, LEGACY):
        async with opener(make_server(), revision=revision) as client:
            with pytest.raises(ErrorResponse) as refusal:
                await client.request(method, {"taskId": "x"}, dict, extensions=DECLARED)
            assert refusal.value.code == METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("method", "params", "fault"),
    [
        ("tasks/get", {}, r"\$: required member 'taskId' is missing"),
        ("tasks/cancel", {"taskId": 7}, r"\$\.taskId: expected string, got integer"),
        ("tasks/update", {"taskId": "t"}, r"\$: required member 'inputResponses' is missing"),
        ("tasks/update", {"taskId": "t", "inputResponses": []}, r"\$\.inputResponses: expected object, got array"),
        ("tasks/update", {"inputResponses": {}}, r"\$: required member 'taskId' is missing"),
    ],
)
async def test_params_that_do_not_fit_are_refused_with_their_path(
    method: str, params: dict[str, Any], fault: str
) -> None:
    async with open_memory_client(make_server()) as client:
        with pytest.raises(ErrorResponse, match=fault) as refusal:
            await client.request(method, params, dict, extensions=DECLARED)
        assert refusal.value.code == INVALID_PARAMS


# --- Notifications ---


async def test_a_client_that_listens_gets_each_state_as_a_request_for_it_would(
    opener: Opener, autojump_clock: object
) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy")
        async with client.listen(custom={"taskIds": [id, "none"]}, extensions=DECLARED) as changes:
            assert changes.honored.custom == {"taskIds": [id]}
            ((key, _),) = (await tasks.get(id))["inputRequests"].items()
            await tasks.update(id, {key: accepted(sure=True)})
            states = list[dict[str, Any]]()
            while not states or states[-1]["status"] != "completed":
                change = await anext(changes)
                assert isinstance(change, CustomChange)
                assert change.method == "notifications/tasks"
                states.append({name: each for name, each in change.params.items() if name != "_meta"})

        got = await tasks.get(id)
        assert states[-1] == {name: each for name, each in got.items() if name not in {"_meta", "resultType"}}


async def test_listening_for_tasks_needs_the_extension(opener: Opener) -> None:
    async with opener(make_server()) as client:
        with pytest.raises(ErrorResponse) as refusal:
            async with client.listen(custom={"taskIds": ["x"]}):
                raise AssertionError
        assert (refusal.value.code, refusal.value.data) == (MISSING_CAPABILITY, REQUIRED)


@pytest.mark.parametrize(
    ("ids", "fault"), [("x", "expected an array"), ([1], "expected an array"), (["x"] * 1025, "at most 1024")]
)
async def test_the_error_names_a_filter_of_tasks_that_does_not_fit(ids: Any, fault: str) -> None:
    envelope = ScriptedPeer.envelope(MODERN) | {"io.modelcontextprotocol/clientCapabilities": {"extensions": DECLARED}}
    async with open_scripted_client(make_server()) as client:
        answer = await client.request("subscriptions/listen", {"notifications": {"taskIds": ids}}, envelope=envelope)

    assert answer["error"]["code"] == INVALID_PARAMS
    assert answer["error"]["message"].startswith("$.notifications.taskIds: ")
    assert fault in answer["error"]["message"]


# --- Expiry ---


async def test_a_task_is_deleted_when_it_expires(autojump_clock: object) -> None:
    async with open_memory_client(make_server(ttl=60)) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("nightly")
        await trio.sleep(59)
        assert (await tasks.get(id))["status"] == "completed"
        await trio.sleep(2)
        with pytest.raises(ErrorResponse, match="or it has expired"):
            await tasks.get(id)


async def test_a_task_that_works_at_its_expiry_is_cancelled_and_fails(autojump_clock: object) -> None:
    ended: list[type[BaseException]] = []
    server = make_server(ttl=60)

    @server.tool(task="required")
    async def endless() -> None:
        try:
            await trio.sleep_forever()
        except BaseException as exc:
            ended.append(type(exc))
            raise

    async with open_memory_client(server) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("endless")
        await trio.sleep(61)
        got = await tasks.get(id)
        assert (got["status"], got["statusMessage"]) == ("failed", "the task did not end within 60 s and was cancelled")
        assert ended == [trio.Cancelled]
        await trio.sleep(61)
        with pytest.raises(ErrorResponse, match="or it has expired"):
            await tasks.get(id)


async def test_a_later_task_that_expires_earlier_is_not_forgotten(autojump_clock: object) -> None:
    store = MemoryTaskStore()
    long, short = make_server(ttl=1000, store=store), make_server(ttl=10, store=store)
    async with open_memory_client(long) as first, open_memory_client(short) as second:
        await RawTasks(first).begin("nightly")
        id = await RawTasks(second).begin("nightly", {"seconds": 0})
        await trio.sleep(11)

        assert await store.get(id) is None


async def test_tasks_without_expiry_stay(autojump_clock: object) -> None:
    async with open_memory_client(make_server(ttl=None)) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("nightly")
        await trio.sleep(10**7)
        assert (await tasks.get(id))["status"] == "completed"


# --- A store that fails ---


class FailingStore(MemoryTaskStore):
    """A store that fails as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    async def put(self, records: Any) -> Any:
        if self.fails:
            raise OSError("the disk is full")
        return await super().put(records)

    async def create(self, record: Any, most: int) -> None:
        if self.fails:
            raise OSError("the disk is full")
        await super().create(record, most)


async def test_what_a_store_could_not_keep_is_stored_later_and_seen_only_then(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingStore()
    async with open_memory_client(make_server(store=store)) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("nightly", {"seconds": 1})
        store.fails = True
        await trio.sleep(100)
        assert (await tasks.get(id))["status"] == "working"
        store.fails = False
        await trio.sleep(100)
        assert (await tasks.get(id))["status"] == "completed"
    assert "the states of 1 tasks could not be stored" in caplog.text


async def test_a_call_that_cannot_become_a_task_is_ordinary_or_refused_without_details(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingStore()
    store.fails = True
    async with open_memory_client(make_server(store=store)) as client:
        tasks = RawTasks(client)
        assert (await tasks.call("work", {"seconds": 5}))["content"][0]["text"] == "worked 5 s"
        with pytest.raises(ErrorResponse) as refusal:
            await tasks.call("nightly")
    assert refusal.value.code == INTERNAL_ERROR
    assert "disk" not in refusal.value.message
    assert "a call could not become a task" in caplog.text


@frozen
class ForOneRequest:
    """A server that opens each serving for a single request."""

    server: Server

    def serving(self) -> AbstractAsyncContextManager[ActiveServer]:
        return self.server.serving_one()


async def test_a_single_request_without_a_lifespan_has_no_tasks() -> None:
    async with open_client(ForOneRequest(make_server())) as client:
        with pytest.raises(ErrorResponse, match="start its lifespan"):
            await RawTasks(client).call("nightly")
        assert (await RawTasks(client).call("work", {"seconds": 0}))["content"][0]["text"] == "worked 0 s"


async def test_a_question_that_gives_way_or_cannot_be_asked_fails_in_its_handler(autojump_clock: object) -> None:
    server, raised = Server("s", tasks=TaskSettings(ttl=None), limits=Limits(max_parked=1)), list[BaseException]()

    @server.tool(task="required")
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("Well?", Sure)
        except Exception as exc:
            raised.append(exc)
            raise
        return "answered"

    async with open_memory_client(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        first, second = await tasks.begin("ask"), await tasks.begin("ask")
        assert (await tasks.get(first))["status"] == "input_required"
        assert (await tasks.get(second))["error"]["message"].startswith("too busy")
    assert [type(each) for each in raised] == [TooManyParked, AskExpired]  # the latter because the server stopped


# --- At the same moment ---


class SlowStore(MemoryTaskStore):
    """A store that keeps new tasks, and states, as slowly as it is told to."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def create(self, record: TaskRecord, most: int) -> None:
        await trio.sleep(self.seconds)
        await super().create(record, most)

    async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
        await trio.sleep(self.seconds)
        return await super().put(records)


async def test_a_call_that_ends_while_its_task_is_being_stored_is_an_ordinary_call(autojump_clock: object) -> None:
    store = SlowStore(seconds=4)
    async with open_memory_client(make_server(store=store)) as client:
        result = await RawTasks(client).call("work", {"seconds": 4})

        assert result["content"] == [{"type": "text", "text": "worked 4 s"}]
        await trio.sleep(10)
        assert await store.next_expiry() is None  # the task was deleted again


async def test_a_call_that_is_cancelled_while_its_task_is_being_stored_leaves_none(autojump_clock: object) -> None:
    store = SlowStore(seconds=4)
    async with open_memory_client(make_server(store=store)) as client:
        with trio.move_on_after(1):
            await RawTasks(client).call("nightly")
        await trio.sleep(100)
        assert await store.next_expiry() is None


async def test_a_call_that_asks_at_the_moment_at_which_it_would_become_a_task_asks_first(
    autojump_clock: object,
) -> None:
    server = make_server()

    @server.tool(task="optional")
    async def asks(ctx: Context) -> str:
        await trio.sleep(1.999)
        async with trio.open_nursery() as nursery:  # the questions of several tasks are gathered for a moment
            nursery.start_soon(ctx.elicit, "One?", Sure)
            nursery.start_soon(ctx.elicit, "Two?", Sure)
        await trio.sleep(10)
        return "done"

    async with open_memory_client(server, on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("asks")
        await trio.sleep(20)
        assert (await tasks.get(id))["status"] == "completed"


async def test_a_task_that_is_cancelled_twice_at_once_is_cancelled_once(autojump_clock: object) -> None:
    async with open_memory_client(make_server(store=SlowStore(seconds=1))) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("nightly", {"seconds": 100})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tasks.cancel, id)
            nursery.start_soon(tasks.cancel, id)
        assert (await tasks.get(id))["status"] == "cancelled"


async def test_the_handler_of_a_task_that_another_server_has_ended_is_cancelled_by_its_next_report(
    autojump_clock: object,
) -> None:
    store, ended = MemoryTaskStore(), list[str]()
    first, second = make_server(store=store), make_server(store=store)

    @first.tool(task="required")
    async def reports(ctx: Context) -> None:
        try:
            for step in range(1000):
                await ctx.report_progress(step)
                await trio.sleep(1)
        finally:
            ended.append("cancelled")

    async with open_memory_client(first) as one, open_memory_client(second) as two:
        id = await RawTasks(one).begin("reports")
        await RawTasks(two).cancel(id)
        await trio.sleep(10)
        assert ended == ["cancelled"]
        assert (await RawTasks(one).get(id))["status"] == "cancelled"


async def test_tasks_of_a_process_that_is_gone_are_failed_with_a_sentence() -> None:
    store = MemoryTaskStore()
    record = TaskRecord(
        owner="gone", principal=None, created_at=1.0, updated_at=1.0, ttl=None, poll_interval=1.0, expires_at=None
    )
    await store.create(record, 10)
    async with open_memory_client(make_server(store=store)) as client:
        got = await RawTasks(client).get(record.id)

        assert got["status"] == "failed"
        assert got["error"]["message"] == "the server that ran this task ended before the task did"


async def test_a_store_that_fails_to_tell_what_expires_is_asked_again(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(MemoryTaskStore):
        fails = True

        async def next_expiry(self) -> float | None:
            if self.fails:
                raise OSError("the disk is gone")
            return await super().next_expiry()

    store = Forgetful()
    async with open_memory_client(make_server(ttl=60, store=store)) as client:
        id = await RawTasks(client).begin("nightly")
        store.fails = False
        await trio.sleep(100)
        assert await store.get(id) is None
    assert "the expiry of tasks failed; it is tried again in 30 s" in caplog.text


async def test_what_cannot_be_stored_before_the_end_is_in_the_log(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingStore()
    async with open_memory_client(make_server(store=store)) as client:
        await RawTasks(client).begin("nightly", {"seconds": 1})
        store.fails = True
    assert "1 tasks could not be stored before the server ended" in caplog.text


async def test_a_task_has_no_requests_of_its_own(autojump_clock: object) -> None:
    server = make_server()

    @server.tool(task="required")
    async def custom(ctx: Context) -> None:
        await ctx.log("info", "nobody listens")
        await ctx.notify("notifications/com.example/tick")
        await ctx.request("com.example/ask", None, dict)

    async with open_memory_client(server) as client:
        tasks = RawTasks(client)
        got = await tasks.get(await tasks.begin("custom"))
        assert "cannot send requests in revision" in str(got)


async def test_a_handler_that_ends_after_another_server_has_ended_its_task_changes_nothing(
    autojump_clock: object,
) -> None:
    store = MemoryTaskStore()
    async with (
        open_memory_client(make_server(store=store)) as one,
        open_memory_client(make_server(store=store)) as two,
    ):
        id = await RawTasks(one).begin("work", {"seconds": 10})
        await RawTasks(two).cancel(id)
        await trio.sleep(20)
        assert (await RawTasks(one).get(id))["status"] == "cancelled"


async def test_cancelling_a_task_of_another_server_that_has_just_ended_changes_nothing(autojump_clock: object) -> None:
    class Racing(MemoryTaskStore):
        async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
            if {each.status for each in records} == {"cancelled"}:
                await super().put([each.changed(2.0, "completed", {}, None) for each in known])
            return await super().put(records)

    store = Racing()
    async with (
        open_memory_client(make_server(store=store)) as one,
        open_memory_client(make_server(store=store)) as two,
    ):
        id = await RawTasks(one).begin("nightly", {"seconds": 100})
        record = await store.get(id)
        assert record is not None
        known = [record]
        await RawTasks(two).cancel(id)
        assert (await RawTasks(two).get(id))["status"] == "completed"


async def test_a_task_that_is_over_here_too_may_be_reported_as_ended_by_others(autojump_clock: object) -> None:
    class Shared(MemoryTaskStore):
        asked = 0

        def __init__(self) -> None:
            super().__init__()
            self.is_shared = True

        async def changed_by_others(self, owner: str) -> Mapping[str, TaskRecord | None]:
            self.asked += 1
            return {"unknown": None, **await super().changed_by_others(owner)}

    store = Shared()
    async with open_memory_client(make_server(store=store)) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("nightly", {"seconds": 10})
        await trio.sleep(100)
        assert (await tasks.get(id))["status"] == "completed"
    assert 5 < store.asked < 15  # only while there are tasks


async def test_a_call_that_was_cancelled_before_its_tool_begins_makes_no_task(autojump_clock: object) -> None:
    store = MemoryTaskStore()
    server = make_server(store=store)

    @server.middleware
    async def slow(request: Request, call_next: Any) -> Any:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
        return await call_next(request)

    async with open_memory_client(server) as client:
        with trio.move_on_after(1):
            await RawTasks(client).call("nightly")
        await trio.sleep(100)
        assert await store.next_expiry() is None


async def test_a_retry_that_does_not_declare_tasks_gets_none(autojump_clock: object) -> None:
    def envelope(**extensions: Any) -> dict[str, Any]:
        declared = {"elicitation": {}, "extensions": extensions}
        return ScriptedPeer.envelope(MODERN) | {"io.modelcontextprotocol/clientCapabilities": declared}

    params: dict[str, Any] = {"name": "ask_then_work", "arguments": {}}
    async with open_scripted_client(make_server()) as client:
        asked = (await client.request("tools/call", params, envelope=envelope(**DECLARED)))["result"]
        ((key, _),) = asked["inputRequests"].items()
        retry = {**params, "requestState": asked["requestState"], "inputResponses": {key: accepted(sure=True)}}
        answered = (await client.request("tools/call", retry, envelope=envelope()))["result"]

    assert answered["resultType"] == "complete"
    assert "sure=True" in str(answered["content"])


async def test_the_exchange_of_a_task_has_room_for_everything_and_takes_no_requests() -> None:
    peer = TaskPeer()
    context = ExchangeContext(
        revision=MODERN, capabilities={}, peer_info=None, meta={}, progress_token=None, log_level=None
    )
    exchange = TaskExchange("tools/call", {}, context, "t", peer, cast("Any", None))

    assert exchange.has_room()
    assert peer.has_room()
    await exchange.room()
    await peer.room()
    peer.notify_nowait("notifications/message", {})
    peer.on_disconnect(lambda _: None)
    with pytest.raises(LocalProtocolError, match="a task cannot send requests"):
        exchange.ask("com.example/ask", None)
