"""Races and misuse by handlers, middleware or clients while a question is open."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
import trio
from attrs import evolve, frozen
from trio.testing import MockClock

from tests.interaction.asking import in_both_modes
from tests.interaction.asking_server import Mode
from tests.interaction.scripted_peers import ENVELOPE
from tests.peer.fake_exchange import exchange
from trio_mcp import Accepted, AskExpired, Context, McpError, Request, Server
from trio_mcp.server.asking import Seals
from trio_mcp.testing import ScriptedPeer, open_scripted_client

Json: TypeAlias = dict[str, Any]

CAPABLE: Json = ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
ANN: Json = {"action": "accept", "content": {"name": "Ann"}}
BAD_STATE = "$.requestState: it is invalid or has expired; send the request again without it"


@frozen
class Name:
    name: str


async def call(
    client: ScriptedPeer, arguments: Json | None = None, *, interim: Json | None = None, answer: Json = ANN
) -> Json:
    """Call the tool `ask`; with an *interim* result, retry with *answer* as the answer to each of its questions."""
    params: Json = {"name": "ask", "arguments": arguments or {}}
    if interim is not None:
        params["requestState"] = interim["requestState"]
        params["inputResponses"] = dict.fromkeys(interim["inputRequests"], answer)
    response = await client.request("tools/call", params, envelope=CAPABLE)
    outcome: Json = response.get("result") or response["error"]
    return outcome


async def name_of(ctx: Context, message: str = "Who?") -> str:
    match await ctx.elicit(message, Name):
        case Accepted(value=answer):
            return answer.name
        case _:
            return "no answer"


def text_of(result: Json) -> str:
    return str(result["content"][0]["text"])


# The handler owns its arguments and answers.


@pytest.mark.parametrize("change", [1, object()], ids=["json", "no json"])
@in_both_modes
async def test_a_handler_may_change_its_arguments_before_it_asks(mode: Mode, change: object) -> None:
    server = Server("asking", asking=mode)

    @server.tool
    async def ask(order: dict[str, Any], ctx: Context) -> str:
        order["price"] = change
        return await name_of(ctx)

    async with open_scripted_client(server) as client:
        order: Json = {"order": {"item": "tea"}}
        first = await call(client, order)
        assert text_of(await call(client, order, interim=first)) == "Ann"


@in_both_modes
async def test_a_handler_may_change_an_answer_before_it_asks_again(mode: Mode) -> None:
    server = Server("asking", asking=mode)
    days = {"type": "object", "properties": {"days": {"type": "array", "items": {"enum": ["Monday", "Friday"]}}}}

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("When?", days)
        assert isinstance(answer, Accepted)
        answer.value["days"].append(object())
        return f"{await name_of(ctx, 'Who?')}, {await name_of(ctx, 'Who else?')}, {len(answer.value['days'])}"

    async with open_scripted_client(server) as client:
        first = await call(client)
        second = await call(client, interim=first, answer={"action": "accept", "content": {"days": ["Friday"]}})
        third = await call(client, interim=second)
        assert text_of(await call(client, interim=third)) == "Ann, Ann, 2"


# A shielded clean-up may ask; the question then raises an error.


async def ask_shielded(errors: list[str], ctx: Context, message: str = "Who?") -> None:
    """Ask in a shielded scope and record the reason why no answer came."""
    with trio.CancelScope(shield=True):
        try:
            await name_of(ctx, message)
        except AskExpired as why:
            errors.append(str(why))


def shielded_server(mode: Mode, *messages: str) -> tuple[Server, list[str]]:
    """Return a server whose tool asks each of *messages* in a shielded task, and the list of their errors."""
    server, errors = Server("asking", asking=mode), list[str]()

    @server.tool
    async def ask(ctx: Context) -> None:
        async with trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(ask_shielded, errors, ctx, message)

    return server, errors


async def test_a_shielded_question_raises_when_the_handler_must_run_again(autojump_clock: MockClock) -> None:
    server, errors = shielded_server("replayed", "Who?")
    async with server.serving() as serving, open_scripted_client(serving) as client:
        await call(client)
        await trio.sleep(1)
        assert (serving.statistics().running, errors) == (0, ["the call is over"])


async def test_a_shielded_question_raises_when_the_retry_is_cancelled(autojump_clock: MockClock) -> None:
    server, errors = shielded_server("parked", "Who?")
    async with server.serving() as serving, open_scripted_client(serving) as client:
        first = await call(client)
        retry: Json = {"name": "ask", "arguments": {}, "requestState": first["requestState"]}
        id = await client.begin("tools/call", retry, envelope=CAPABLE)
        await client.notify("notifications/cancelled", {"requestId": id})
        await trio.sleep(1)
        assert (serving.statistics().running, errors) == (0, ["the call is over"])


async def test_a_shielded_question_raises_when_the_serving_is_cancelled(autojump_clock: MockClock) -> None:
    server, errors = shielded_server("parked", "Who?")
    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with server.serving() as serving:
            async with open_scripted_client(serving) as client:
                await call(client)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert (trio.current_time() - began < 1, errors) == (True, ["the server stops"])


async def test_every_shielded_question_raises_when_an_answer_is_refused(autojump_clock: MockClock) -> None:
    server, errors = shielded_server("replayed", "Who?", "Who else?")
    async with open_scripted_client(server) as client:
        first = await call(client)
        refusal = await call(client, interim=first, answer={"action": "accept", "content": {}})
        assert "name" in refusal["message"]
    assert errors == [
        "the call is over",
        "the call is over",
        "the client's answer is invalid",
        "the client's answer is invalid",
    ]


# Stopping.


@in_both_modes
async def test_a_handler_that_keeps_asking_does_not_starve_a_stopping_server(
    mode: Mode, autojump_clock: MockClock
) -> None:
    server = Server("asking", asking=mode)
    attempts = 0

    @server.tool
    async def ask(ctx: Context) -> str:
        nonlocal attempts
        while attempts < 1000:
            try:
                return await name_of(ctx)
            except AskExpired:
                attempts += 1
        return "gave up"

    others = 0
    async with server.serving() as serving:
        async with open_scripted_client(serving) as client:
            await call(client)
        serving.stop()
        while serving.statistics().parked:
            others += 1
            await trio.lowlevel.checkpoint()

    assert others >= attempts == (1000 if mode == "parked" else 0)


async def test_a_second_stop_does_not_extend_the_time_for_cleanup(autojump_clock: MockClock) -> None:
    server = Server("asking")
    cleaned_up_for: list[float] = []

    @server.tool
    async def ask(ctx: Context) -> None:
        try:
            await name_of(ctx)
        except AskExpired:
            began = trio.current_time()
            try:
                await trio.sleep_forever()
            finally:
                cleaned_up_for.append(trio.current_time() - began)

    async with server.serving() as serving:
        async with open_scripted_client(serving) as client:
            await call(client)
        serving.stop()
        await trio.sleep(4)

    assert cleaned_up_for == [5]  # leaving the block has stopped the serving again


# Refused states.


def restarted(params: Any) -> Any:
    return evolve(params)


def without_state(params: Any) -> Any:
    return {"name": params.name, "arguments": params.arguments}


@pytest.mark.parametrize(("rewrite", "begun"), [(restarted, 1), (without_state, 2)])
@in_both_modes
async def test_middleware_that_replaces_params_cannot_restore_a_refused_state(
    mode: Mode, rewrite: Callable[[Any], Any], begun: int
) -> None:
    runs = 0
    server = Server("asking", asking=mode)

    @server.tool
    async def ask(ctx: Context) -> str:
        nonlocal runs
        runs += 1
        return await name_of(ctx)

    @server.middleware
    async def rewriting(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        return await call_next(request.with_params(rewrite(request.params)))

    async with open_scripted_client(server) as client:
        first = await call(client)
        outcome = await call(client, interim=first | {"requestState": first["requestState"][:-4]})

    assert runs == begun
    assert ("code" not in outcome) if begun == 2 else (outcome["code"], outcome["message"]) == (-32602, BAD_STATE)


# Unusual requests are answered.


@in_both_modes
async def test_a_retry_nested_as_deep_as_the_parser_allows_is_answered(mode: Mode) -> None:
    server = Server("asking", asking=mode)

    @server.tool
    async def ask(tree: Any, ctx: Context) -> str:
        del tree
        return await name_of(ctx)

    async with open_scripted_client(server) as client:
        first = await call(client, {"tree": 0})
        start = json.dumps({"_meta": CAPABLE, "name": "ask", "requestState": first["requestState"]})[:-1]

        async def retry(depth: int) -> int:
            """Return the code of the error that a retry is refused with."""
            tree = "[" * depth + "]" * depth
            line = f'{start},"arguments":{{"tree":{tree}}}}}'
            await client.send(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{line}}}\n'.encode())
            return int((await client.receive())["error"]["code"])

        shallow, deep = 1, 100_000
        assert (await retry(shallow), await retry(deep)) == (-32602, -32700)
        while deep - shallow > 1:
            middle = (shallow + deep) // 2
            if await retry(middle) == -32602:
                shallow = middle
            else:
                deep = middle
        assert text_of(await call(client, {"tree": 0}, interim=first)) == "Ann"


def test_a_state_is_refused_for_a_request_that_cannot_be_encoded() -> None:
    seals = Seals([bytes(16)])
    state = seals.seal({}, "binding", 1e12)
    interim = exchange()
    interim.params = {"arguments": {"number": float("nan")}}

    with pytest.raises(McpError) as refusal:
        seals.open(state, interim)
    assert refusal.value.message == BAD_STATE
