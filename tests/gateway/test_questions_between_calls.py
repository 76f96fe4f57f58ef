"""Questions of legacy servers behind a gateway while no call is in flight: who is asked, and what if nobody can be."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.gateway.asking_upstream import AskingUpstream
from tests.gateway.helpers import LEGACY, MODERN, Way, client_of, front, opened, text_of
from tests.gateway.test_questions import CAPABLE, capable
from tests.interaction.over_http import bridged
from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Client, Limits, McpError, serve_stream, types
from trio_mcp.gateway import Gateway
from trio_mcp.wire import INTERNAL_ERROR, METHOD_NOT_FOUND

PROGRAM: Final = str(Path(__file__).with_name("asking_upstream.py"))
ROOTS: Final = {"roots": [{"uri": "file:///home", "name": "home"}]}
NOBODY: Final = "this gateway can ask nobody now: no call is in flight"
DUPLEX: Final = pytest.mark.parametrize("way", [Way(LEGACY, LEGACY, down_by=by) for by in ("memory", "bytes")], ids=str)


def gateway_with(*questions: str, share: Any = "session", **options: Any) -> Gateway:
    gateway = front(**options)
    gateway.mount(AskingUpstream(questions), name="asking", share=share)
    return gateway


async def answers(client: Client) -> list[Any]:
    """Return what the server has been answered, when it has an answer to each of its questions."""
    await client.list_tools()  # so the connection is open, and nothing is in flight when the server asks
    with trio.fail_after(60):
        told: list[Any] = json.loads(text_of(await client.call_tool("answers")))
    return told


async def ask(client: Client, tool: str, kind: str) -> Any:
    """Let the server ask by one of its tools; return the last answer that it has."""
    with trio.fail_after(60):
        await client.call_tool(tool, {"kind": kind})
    return (await answers(client))[-1]


async def ask_between(client: Client, kind: str) -> Any:
    """Let the server ask while no call is in flight; return the answer."""
    await client.notify("acme/ask", {"kind": kind})
    await wait_all_tasks_blocked()
    return (await answers(client))[-1]


# The client of a session.


@DUPLEX
async def test_the_roots_of_the_session_are_listed_right_after_the_handshake(way: Way) -> None:
    async with opened(gateway_with("roots/list"), way, **CAPABLE) as client:
        assert await answers(client) == [ROOTS]


@DUPLEX
async def test_every_kind_of_question_is_asked(way: Way) -> None:
    questions = ("ping", "roots/list", "sampling/createMessage", "elicitation/create")
    async with opened(gateway_with(*questions), way, **CAPABLE) as client:
        told = await answers(client)

    assert {} in told
    assert ROOTS in told
    assert {"action": "accept", "content": {"count": 2}} in told
    assert "fine, in 7 words" in str(told)


async def test_the_client_of_a_child_process_is_asked_by_another_child_process() -> None:
    """Both sides speak over standard input and output, or over bytes as they are there."""
    gateway = front()
    gateway.mount([sys.executable, PROGRAM, "roots/list", "elicitation/create"], name="asking", share="session")
    with trio.fail_after(60):
        async with opened(gateway, Way(LEGACY, LEGACY, down_by="bytes"), **CAPABLE) as client:
            told = await answers(client)

    assert ROOTS in told
    assert {"action": "accept", "content": {"count": 2}} in told


async def test_each_session_is_asked_by_its_own_connection() -> None:
    way = Way(LEGACY, LEGACY)
    one, two = (types.Root(uri=f"file:///{name}") for name in ("one", "two"))
    async with (
        gateway_with("roots/list").serving() as serving,
        client_of(serving, way, "ada", roots=[one]) as first,
        client_of(serving, way, "ada", roots=[two]) as second,
    ):
        assert await answers(first) == [{"roots": [{"uri": "file:///one"}]}]
        assert await answers(second) == [{"roots": [{"uri": "file:///two"}]}]


@DUPLEX
async def test_a_question_between_calls_is_asked(way: Way) -> None:
    async with opened(gateway_with(), way, **CAPABLE) as client:
        await client.list_tools()
        assert await ask_between(client, "elicitation/create") == {"action": "accept", "content": {"count": 2}}


@DUPLEX
async def test_a_question_whose_call_has_ended_is_asked_in_the_session(way: Way) -> None:
    async with opened(gateway_with(), way, **CAPABLE) as client:
        assert await ask(client, "ask_and_leave", "elicitation/create") == {"action": "accept", "content": {"count": 2}}


@DUPLEX
async def test_a_question_that_the_client_has_no_capability_for_names_the_capability(way: Way) -> None:
    questions = ("roots/list", "sampling/createMessage", "elicitation/create")
    async with opened(gateway_with(*questions), way) as client:
        told = await answers(client)

    assert [error["code"] for error in told] == [METHOD_NOT_FOUND] * 3
    for capability in ("roots", "sampling", "elicitation"):
        assert f"'{capability}" in str(told)


async def test_a_question_that_the_revision_of_the_client_does_not_have_is_refused() -> None:
    async with opened(gateway_with("elicitation/create"), Way(LEGACY, "2025-03-26", down_by="bytes")) as client:
        (error,) = await answers(client)

    assert error["code"] == METHOD_NOT_FOUND
    assert "2025-03-26" in error["message"]


async def test_the_error_of_the_client_is_passed_on() -> None:
    async def refuse(_: Any) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        raise McpError(-7, "not now", {"why": "busy"})

    async with opened(gateway_with("elicitation/create"), Way(LEGACY, LEGACY), **capable(on_elicit=refuse)) as client:
        assert await answers(client) == [{"code": -7, "message": "not now", "data": {"why": "busy"}}]


async def test_a_client_that_does_not_answer_in_time_is_not_waited_for(autojump_clock: object) -> None:
    async def think(_: Any) -> types.ElicitResult:
        await trio.sleep_forever()
        raise AssertionError

    gateway = gateway_with("elicitation/create", limits=Limits(ask_seconds=5))
    async with opened(gateway, Way(LEGACY, LEGACY), **capable(on_elicit=think)) as client:
        assert await answers(client) == [{"code": INTERNAL_ERROR, "message": "the client did not answer within 5 s"}]


async def test_a_client_that_leaves_while_it_is_asked_takes_the_connection_to_the_server_along() -> None:
    asked = trio.Event()

    async def think(_: Any) -> types.ElicitResult:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    gateway, upstream = front(), AskingUpstream(["elicitation/create"])
    gateway.mount(upstream, name="asking", share="session")
    async with gateway.serving() as serving:
        with trio.fail_after(60):
            async with client_of(serving, Way(LEGACY, LEGACY), **capable(on_elicit=think)) as client:
                await client.list_tools()
                await asked.wait()
                assert upstream.open == 1
            await wait_all_tasks_blocked()
            assert upstream.open == 0


@pytest.mark.parametrize("revision", [LEGACY, "2025-06-18"])
async def test_the_client_is_told_that_its_user_has_finished_on_a_page(revision: str) -> None:
    finished = trio.Event()

    async def completed(visit: types.ElicitationCompleteNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        assert visit.elicitation_id == "visit-1"
        finished.set()

    options = capable(on_elicit_complete=completed)
    async with opened(gateway_with("visit"), Way(LEGACY, revision, down_by="bytes"), **options) as client:
        (told,) = await answers(client)
        await client.call_tool("finish")
        if revision == LEGACY:
            assert told == {"action": "accept"}
            with trio.fail_after(60):
                await finished.wait()
        else:  # it has no pages
            assert told["code"] == METHOD_NOT_FOUND
            assert not finished.is_set()


# Nobody can be asked.

QUESTIONS: Final = ("roots/list", "sampling/createMessage", "elicitation/create")


@pytest.mark.parametrize("downstream", [LEGACY, MODERN])
@pytest.mark.parametrize("share", ["all", "principal"])
async def test_a_connection_of_several_clients_asks_none_of_them_but_answers_a_ping(
    share: str, downstream: str
) -> None:
    gateway = gateway_with("ping", *QUESTIONS, share=share)
    async with opened(gateway, Way(LEGACY, downstream), **CAPABLE) as client:
        told = await answers(client)

    assert {} in told
    told.remove({})
    assert [error["code"] for error in told] == [INTERNAL_ERROR] * 3
    assert {error["message"] for error in told} == {"this gateway cannot tell whom to ask: no call is in flight"}


async def test_a_modern_client_can_be_asked_only_in_a_call() -> None:
    async with opened(gateway_with("ping", *QUESTIONS), Way(LEGACY, MODERN), **CAPABLE) as client:
        told = await answers(client)
        assert {} in told
        told.remove({})
        assert [error["code"] for error in told] == [INTERNAL_ERROR] * 3
        assert {error["message"] for error in told} == {f"{NOBODY}, and its client can be asked only in a call"}
        assert await ask(client, "ask", "roots/list") == ROOTS
        refused = await ask_between(client, "roots/list")
        assert refused["message"].startswith(NOBODY)  # nothing would say that they have changed


async def test_an_http_client_is_asked_over_its_standing_stream() -> None:
    async with opened(gateway_with(*QUESTIONS), Way(LEGACY, LEGACY, down_by="http"), **CAPABLE) as client:
        assert ROOTS in await answers(client)
        assert await ask_between(client, "elicitation/create") == {"action": "accept", "content": {"count": 2}}


@define(eq=False)
class WithoutStream:
    """A legacy client over HTTP that opens no stream but by `reading`."""

    http: RawHttpClient

    async def answers(self) -> list[Any]:
        response = await self.http.post(self.http.call("answers"))
        told: list[Any] = json.loads(response.answer["result"]["content"][0]["text"])
        return told

    async def ask_between(self, kind: str) -> Any:
        await self.http.post(self.http.notification("acme/ask", {"kind": kind}))
        await wait_all_tasks_blocked()
        return (await self.answers())[-1]

    async def list_roots_in_a_call(self) -> None:
        async with self.http.open("POST", self.http.call("ask", {"kind": "roots/list"})) as response:
            await self.answer(await response.message(), ROOTS)
            assert "result" in await response.message()

    async def answer(self, question: Any, result: Any) -> None:
        assert question["method"] == "roots/list"
        await self.http.post({"jsonrpc": "2.0", "id": question["id"], "result": result})


@asynccontextmanager
async def without_stream(gateway: Gateway, **capabilities: Any) -> AsyncGenerator[WithoutStream]:
    with trio.fail_after(60):
        async with bridged("http", gateway) as engine:
            client = WithoutStream(RawHttpClient(engine, LEGACY))
            await client.http.greet(capabilities)
            await client.http.post(client.http.request("tools/list"))
            yield client


NO_STREAM: Final = {"code": INTERNAL_ERROR, "message": f"{NOBODY}, and its client has no stream open for questions"}


async def test_an_http_client_without_a_stream_is_not_asked() -> None:
    gateway = gateway_with(*QUESTIONS)
    async with without_stream(gateway, roots={}, sampling={}, elicitation={}) as client:
        assert await client.answers() == [NO_STREAM] * 3
        async with client.http.open("GET") as stream:
            await client.http.post(client.http.notification("acme/ask", {"kind": "roots/list"}))
            while (message := await stream.message())["method"].startswith("notifications/"):
                pass
            await client.answer(message, ROOTS)
            assert (await client.answers())[-1] == ROOTS
        await wait_all_tasks_blocked()
        assert await client.ask_between("roots/list") == NO_STREAM


async def test_the_roots_of_a_client_that_reports_changes_are_known_until_it_reports_one() -> None:
    async with without_stream(gateway_with(), roots={"listChanged": True}, sampling={}) as client:
        assert await client.ask_between("roots/list") == NO_STREAM
        await client.list_roots_in_a_call()
        assert await client.ask_between("roots/list") == ROOTS
        assert await client.ask_between("sampling/createMessage") == NO_STREAM
        await client.http.post(client.http.notification("notifications/roots/list_changed"))
        assert await client.ask_between("roots/list") == NO_STREAM


async def test_the_roots_of_a_client_that_reports_no_changes_are_not_known() -> None:
    async with without_stream(gateway_with(), roots={}) as client:
        await client.list_roots_in_a_call()
        assert await client.ask_between("roots/list") == NO_STREAM


# Clients that say what this package's client does not.


@define(eq=False)
class RawClient:
    """A client of a gateway that writes messages by hand."""

    stream: trio.abc.Stream
    _buffer: bytes = field(default=b"", init=False)

    async def send(self, **message: Any) -> None:
        await self.stream.send_all(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def receive(self, **wanted: Any) -> dict[str, Any]:
        """Return the next message with these members."""
        while True:
            while b"\n" not in self._buffer:
                received = await self.stream.receive_some()
                assert received
                self._buffer += received
            line, _, self._buffer = self._buffer.partition(b"\n")
            message: dict[str, Any] = json.loads(line)
            if wanted.items() <= message.items():
                return message

    async def greet(self, **capabilities: Any) -> None:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info}
        await self.send(id="greeting", method="initialize", params=params)
        await self.receive(id="greeting")

    async def call(self, tool: str, **arguments: Any) -> list[Any]:
        """Call a tool of the server; return the answers that it has."""
        await self.send(id=tool, method="tools/call", params={"name": tool, "arguments": arguments})
        told: list[Any] = json.loads((await self.receive(id=tool))["result"]["content"][0]["text"])
        return told


@asynccontextmanager
async def raw_client(gateway: Gateway) -> AsyncGenerator[RawClient]:
    near, far = memory_stream_pair()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, gateway, far)
            yield RawClient(near)
            await near.aclose()


async def test_nobody_is_asked_before_the_handshake_is_complete() -> None:
    async with raw_client(gateway_with("roots/list")) as client:
        await client.greet(roots={})
        await client.send(id="list", method="tools/list")
        await client.receive(id="list")
        (refused,) = await client.call("answers")
        assert refused["message"] == f"{NOBODY}, and its client has no stream open for questions"


async def test_an_answer_that_breaks_the_protocol_is_an_error_for_the_server() -> None:
    async with raw_client(gateway_with("roots/list")) as client:
        await client.greet(roots={})
        await client.send(method="notifications/initialized")
        await client.send(id="list", method="tools/list")
        question = await client.receive(method="roots/list")
        await client.send(id=question["id"], result={"roots": 7})
        (error,) = await client.call("answers")
        assert error["code"] == INTERNAL_ERROR
        assert error["message"].startswith("the client gave an answer that breaks the protocol: ")
