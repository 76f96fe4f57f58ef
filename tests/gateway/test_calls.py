"""Messages of legacy servers that name no request: whose they are, and who is asked."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.gateway.upstreams import CountedServer, gateway_of, served, text_of
from trio_mcp import Accepted, Client, Context, McpError, Server, types

LEGACY = types.REVISIONS[-2]
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}}


def register(server: Server) -> None:
    @server.tool
    async def ask(question: str, ctx: Context) -> str:
        await trio.sleep(1)
        answer = await ctx.elicit(question, FORM)
        return str(answer.value["answer"]) if isinstance(answer, Accepted) else "nothing"

    @server.tool
    async def think(ctx: Context) -> str:
        result = await ctx.sample("Think!", max_tokens=5)
        assert isinstance(result.content, types.TextContent)
        return result.content.text

    @server.tool
    async def roots(ctx: Context) -> list[str]:
        return [str(root.uri) for root in await ctx.list_roots()]

    @server.tool
    async def doze(seconds: float) -> str:
        await trio.sleep(seconds)
        return "awake"

    @server.tool
    async def tell(ctx: Context) -> None:
        await ctx.log("info", "a word")
        await trio.sleep(1)


def upstream() -> CountedServer:
    """Return a server whose messages name no request."""
    return CountedServer(register, make=lambda: Server("legacy", revisions=[LEGACY]))


class User:
    """A person who takes five seconds to answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(question.message)
        await trio.sleep(5)
        return types.ElicitResult(action="accept", content={"answer": f"yes, {question.message}"})


async def ask(client: Client, question: str) -> str:
    return text_of(await client.call_tool("ask", {"question": question}))


@pytest.mark.parametrize("revision", types.REVISIONS[-2:])
async def test_a_question_is_asked_again_if_the_call_that_it_seemed_to_belong_to_ends(
    revision: str, autojump_clock: object
) -> None:
    user, answers = User(), list[str]()

    async def call(client: Client) -> None:
        answers.append(await ask(client, "really?"))

    async with (
        served(gateway_of(upstream())) as front,
        front.client(revision=revision, on_elicit=user.answer) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(call, client)
        await trio.sleep(0.5)
        assert text_of(await client.call_tool("doze", {"seconds": 2})) == "awake"
    assert (answers, user.asked) == (["yes, really?"], ["really?"] * 2)


async def test_a_question_is_not_asked_of_another_caller_than_the_one_it_was_for(autojump_clock: object) -> None:
    ada, bob = User(), User()
    async with (
        served(gateway_of(upstream())) as front,
        front.client("ada", on_elicit=ada.answer) as first,
        front.client("bob", on_elicit=bob.answer) as second,
        trio.open_nursery() as nursery,
    ):
        with trio.move_on_after(2):
            await ask(first, "for ada?")
        nursery.start_soon(second.call_tool, "doze", {"seconds": 10})
        await trio.sleep(5)
    assert (ada.asked, bob.asked) == (["for ada?"], [])


async def test_nobody_is_asked_while_several_callers_wait(autojump_clock: object) -> None:
    ada, bob = User(), User()
    async with (
        served(gateway_of(upstream())) as front,
        front.client("ada", on_elicit=ada.answer) as first,
        front.client("bob", on_elicit=bob.answer) as second,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(second.call_tool, "doze", {"seconds": 3})
        said = await ask(first, "whose?")
    assert "this gateway cannot tell whom to ask: calls of several callers are in flight" in said
    assert (ada.asked, bob.asked) == ([], [])


async def test_a_question_that_comes_when_nobody_waits_is_refused(autojump_clock: object) -> None:
    gateway = gateway_of(upstream())
    async with served(gateway):
        (serving,) = gateway._active
        (client,) = serving.clients_of(gateway.mounts[0])
        with pytest.raises(McpError, match="cannot tell whom to ask: no call is in flight"):
            await client.calls.roots()


async def test_a_refusal_of_the_caller_is_that_of_the_question(autojump_clock: object) -> None:
    async with served(gateway_of(upstream())) as front, front.client(revision=LEGACY) as client:
        said = await ask(client, "anyone?")
        assert "elicitation" in said


async def test_models_and_roots_of_the_caller_are_asked_for(autojump_clock: object) -> None:
    async def on_sample(_: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="thought"), model="m")

    async def roots() -> list[types.Root]:
        return [types.Root(uri="file:///home/ada")]

    async with (
        served(gateway_of(upstream())) as front,
        front.client(revision=LEGACY, on_sample=on_sample, roots=roots) as client,
    ):
        assert text_of(await client.call_tool("think")) == "thought"
        assert "file:///home/ada" in text_of(await client.call_tool("roots"))


@pytest.mark.parametrize("revision", types.REVISIONS[-2:])
async def test_log_messages_go_to_the_only_caller_also_after_a_restart(revision: str, autojump_clock: object) -> None:
    logged: list[object] = []

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        logged.append(message.data)

    server = upstream()
    async with (
        served(gateway_of(server)) as front,
        front.client("ada", revision=revision, on_log=on_log) as client,
        front.client("bob") as other,
    ):
        await client.set_log_level("info")
        for _ in range(2):
            await client.call_tool("tell")
            await client.call_tool("tell")
            await server.crash()
        assert logged == ["a word"] * 4
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.call_tool, "doze", {"seconds": 3})
            await wait_all_tasks_blocked()
            await client.call_tool("tell")
        assert logged == ["a word"] * 4
