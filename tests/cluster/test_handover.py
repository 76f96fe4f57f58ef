"""A process that stops leaves the sessions of older clients to the other processes of its service."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest
import trio
from attrs import define, field, frozen

from tests.cluster.interrupted_backend import InterruptedShared
from tests.interaction.over_cluster import Process, RoundRobin
from tests.interaction.raw_http_client import RawHttpClient
from tests.transports.http.server.token_verifier import Tokens, protection
from trio_mcp import (
    Accepted,
    CallNext,
    Context,
    Limits,
    MemoryEventStore,
    MemoryShared,
    Middleware,
    Request,
    Server,
    SessionSettings,
    open_http_client,
)
from trio_mcp.abc import Shared
from trio_mcp.gateway import Gateway
from trio_mcp.server import HttpOptions
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports.http.server._legacy_session import StreamableSession
from trio_mcp.transports.http.server._legacy_streams import HttpOutlet

URL = "http://localhost/mcp"
SSE, LEGACY, MODERN = "2024-11-05", "2025-11-25", "2026-07-28"
Json = dict[str, Any]


@frozen
class Person:
    name: str


@define(eq=False)
class Gate:
    """A tool waits here for the test."""

    entered: trio.Event = field(factory=trio.Event, init=False)
    opened: trio.Event = field(factory=trio.Event, init=False)


def make_server(gate: Gate | None = None, **options: Any) -> Server:
    server = Server("one-of-many", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def wait(ctx: Context) -> str:
        assert gate is not None
        gate.entered.set()
        await gate.opened.wait()
        await ctx.report_progress(1)
        return "waited"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        return answer.value.name if isinstance(answer, Accepted) else "nobody"

    @server.tool
    async def ask_late(ctx: Context) -> str:
        assert gate is not None
        gate.entered.set()
        await gate.opened.wait()
        return await ask(ctx)

    @server.tool
    async def fill(size: int) -> str:
        return "x" * size

    @server.tool
    async def roots(ctx: Context) -> int:
        return len(await ctx.list_roots())

    @server.tool
    async def change(ctx: Context) -> None:
        ctx.resource_updated("memo://today")

    @server.tool
    async def say(ctx: Context, text: str) -> None:
        await ctx.log("info", text)

    server.resources.add_static("memo://today", "# Today", name="today")
    return server


@define(eq=False)
class Service:
    """Processes of one service; each client of the test is at one of them."""

    processes: Sequence[Process]
    engines: Sequence[AsgiEngine]

    def client(self, number: int, session: str | None = None, revision: str = LEGACY) -> RawHttpClient:
        client = RawHttpClient(self.engines[number], revision)
        client.session = session
        return client

    async def begin(self, number: int, revision: str = LEGACY) -> str:
        """Begin a session at a process; return its id."""
        client = self.client(number, revision=revision)
        await client.greet({"elicitation": {}})
        assert client.session is not None
        return client.session

    async def stopping(self, number: int) -> None:
        """Wait until a process refuses new requests."""
        client = self.client(number, revision=MODERN)
        while (await client.post(client.request("ping"))).status != 503:
            pass

    async def stop(self, number: int) -> None:
        process = self.processes[number]
        process.stop.set()
        await process.stopped.wait()


@asynccontextmanager
async def service(
    nodes: int = 3,
    shared: Shared | None = None,
    gate: Gate | None = None,
    limits: Limits | None = None,
    middleware: Sequence[Middleware] = (),
    **options: Any,
) -> AsyncGenerator[Service]:
    backend = MemoryShared() if shared is None else shared
    given = cast("HttpOptions", {**options, "shared": backend})
    processes = [
        Process(make_server(gate, limits=limits or Limits(), middleware=middleware), given) for _ in range(nodes)
    ]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            yield Service(processes, [await nursery.start(each.run) for each in processes])
            for process in processes:
                process.stop.set()


def text_of(answer: Json) -> str:
    return str(answer["result"]["content"][0]["text"])


async def test_a_session_of_a_process_that_has_stopped_is_continued_by_the_others() -> None:
    async with service(3) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)

        for number in (1, 2, 1):
            client = nodes.client(number, session)
            got = await client.post(client.call("add", {"a": number, "b": 1}, id=number))
            assert (got.status, got.answer["id"], text_of(got.answer)) == (200, number, str(number + 1))


async def test_a_session_moves_as_often_as_its_process_stops_and_ends_when_its_client_says_so() -> None:
    async with service(4) as nodes:
        session = await nodes.begin(0)
        last = nodes.client(3, session)
        assert (await last.post(last.request("ping"))).status == 200
        for number in (0, 1):
            await nodes.stop(number)
            client = nodes.client(number + 1, session)
            assert (await client.post(client.request("ping"))).status == 200
            assert (await last.post(last.request("ping"))).status == 200

        assert (await last.send("DELETE")).status == 204
        assert (await last.post(last.request("ping"))).status == 404
        assert (await nodes.client(2, session).send("GET")).status == 404


async def test_requests_of_a_session_at_the_same_time_are_answered_by_the_one_process_that_continues_it() -> None:
    backend, statuses = InterruptedShared(), list[int]()
    async with service(4, backend) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)

        async def answer_slowly(method: str, name: str) -> None:
            await trio.sleep(0.002)

        backend.before = answer_slowly

        async def call(number: int) -> None:
            client = nodes.client(1 + number % 3, session)
            statuses.append((await client.post(client.request("ping", id=number))).status)

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(call, number)

        assert statuses == [200] * 30
        assert sum(_sessions(each) for each in nodes.processes) == 1


def _sessions(process: Process) -> int:
    connections = process.server.snapshot().connections
    return sum(each.transport == "http session" for each in connections)


async def test_what_the_handshake_has_agreed_on_and_the_log_level_go_along() -> None:
    async with service(2) as nodes:
        session = await nodes.begin(0, "2025-03-26")
        client = nodes.client(0, session, "2025-03-26")
        await client.post(client.request("logging/setLevel", {"level": "error"}))
        await nodes.stop(0)

        client = nodes.client(1, session, "2025-03-26")
        said = await client.post(client.call("say", {"text": "not an error"}))
        assert [each["id"] for each in said.messages] == [1]
        batch = await client.post([client.request("ping", id=1), client.request("ping", id=2)])
        assert [each["id"] for each in batch.messages] == [1, 2]
        other = nodes.client(1, session, LEGACY)
        assert (await other.post(other.request("ping"))).status == 400  # not the revision of the session
        again = await client.post(client.request("initialize", {"protocolVersion": LEGACY}))
        assert "this session has begun" in again.answer["error"]["message"]


async def test_subscriptions_go_along_and_the_client_is_told_that_everything_may_have_changed() -> None:
    async with service(3) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        await client.post(client.request("resources/subscribe", {"uri": "memo://today"}))
        await nodes.stop(0)
        nodes.processes[1].server.resource_updated("memo://today")  # while no process has the session
        nodes.processes[1].server.resource_updated("memo://tomorrow")

        async with client.open("GET") as stream:
            told = {(await stream.message())["method"] for _ in range(3)}
            assert told == {
                "notifications/tools/list_changed",
                "notifications/resources/list_changed",
                "notifications/resources/updated",
            }
            other = nodes.client(2)
            await other.greet()
            await other.post(other.call("change"))
            assert (await stream.message())["method"] == "notifications/resources/updated"


async def test_a_stored_stream_is_resumed_at_the_process_that_continues_the_session() -> None:
    gate = Gate()
    async with service(2, gate=gate, sessions=SessionSettings(event_store=MemoryEventStore())) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(0, session)
        async with client.open("POST", client.call("wait", meta={"progressToken": 7}, id="long")) as broken:
            first = await broken.event()
            assert first is not None
            await gate.entered.wait()
        nodes.processes[0].stop.set()
        gate.opened.set()
        await nodes.processes[0].stopped.wait()

        later = nodes.client(1, session)
        async with later.open("GET", headers={"last-event-id": first.id}) as resumed:
            progress, answer = await resumed.message(), await resumed.message()
            assert progress["params"]["progressToken"] == 7
            assert (answer["id"], text_of(answer)) == ("long", "waited")


async def test_the_standing_stream_goes_on_without_a_gap_and_without_repetition() -> None:
    async with service(2, sessions=SessionSettings(event_store=MemoryEventStore())) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(0, session)
        await client.post(client.request("resources/subscribe", {"uri": "memo://today"}))
        ids: list[str] = []
        async with client.open("GET") as stream:
            for _ in range(2):
                await client.post(client.call("change"))
            while len(ids) < 3:
                event = await stream.event()
                assert event is not None
                ids.append(event.id or "")
        await client.post(client.call("change"))  # while no stream is open
        await nodes.stop(0)

        later = nodes.client(1, session)
        async with later.open("GET", headers={"last-event-id": ids[1]}) as stream:
            resumed = [await stream.event() for _ in range(3)]
            assert [each and each.id for each in resumed] == [ids[1], ids[2], _next(ids[2])]


def _next(event_id: str) -> str:
    stream, number = event_id.split("-")
    return f"{stream}-{int(number) + 1}"


async def test_messages_that_wait_for_a_stream_go_along_without_an_event_store() -> None:
    async with service(2) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(0, session)
        await client.post(client.request("resources/subscribe", {"uri": "memo://today"}))
        await client.post(client.call("change"))
        await nodes.stop(0)

        async with nodes.client(1, session).open("GET") as stream:
            assert (await stream.message())["params"] == {"uri": "memo://today"}


async def test_a_request_waits_until_the_session_is_at_rest_and_is_answered_by_another_process() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        answers: list[str] = []

        async def call(tool: str, **arguments: int) -> None:
            got = await client.post(client.call(tool, arguments, id=tool))
            answers.append(text_of(got.messages[-1]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "wait")
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            nursery.start_soon(partial(call, "add", a=1, b=2))
            await trio.testing.wait_all_tasks_blocked(0.2)
            assert answers == []
            gate.opened.set()
        assert sorted(answers) == ["3", "waited"]


async def test_a_cancellation_reaches_a_handler_of_a_process_that_stops() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.post, client.call("wait", id=8))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            told = await client.post(client.notification("notifications/cancelled", {"requestId": 8}))
            assert told.status == 202
            await nodes.processes[0].stopped.wait()  # long before the 50 seconds


async def test_a_call_that_runs_for_too_long_fails_and_its_session_goes_on() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=0.2)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        messages: list[str] = []

        async def call() -> None:
            got = await client.post(client.call("wait", id=8))
            messages.append(got.answer["error"]["message"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await gate.entered.wait()
            nodes.processes[0].stop.set()
        assert messages == ["the server stopped before the request was done"]
        assert (await client.post(client.request("ping"))).status == 200


async def test_a_session_is_continued_only_for_its_principal() -> None:
    tokens = Tokens()
    ann, bob = tokens.issue("ann"), tokens.issue("bob")
    async with service(2, auth=protection(tokens)) as nodes:
        first, second = (RawHttpClient(engine, LEGACY, "https://mcp.example/mcp") for engine in nodes.engines)
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        begun = await first.post(first.request("initialize", params), ann)
        second.session = begun.headers["mcp-session-id"]
        await nodes.stop(0)

        assert (await second.post(second.request("ping"), bob)).status == 404
        assert (await second.post(second.request("ping"), ann)).status == 200
        assert (await second.post(second.request("ping"), bob)).status == 404


async def test_a_process_without_room_refuses_to_continue_a_session_which_another_one_then_does() -> None:
    async with service(3, sessions=SessionSettings(max_sessions=1)) as nodes:
        session = await nodes.begin(0)
        full = nodes.client(1)
        await full.greet()
        async with full.open("GET"):  # so it is not idle
            await nodes.stop(0)
            client = nodes.client(1, session)
            refused = await client.post(client.request("ping", id=9))
            assert (refused.status, refused.answer["id"]) == (503, 9)
            assert "the maximum number of sessions is open" in refused.answer["error"]["message"]
            other = nodes.client(2, session)
            assert (await other.post(other.request("ping"))).status == 200
            assert (await client.post(client.request("ping"))).status == 200  # forwarded


async def test_without_the_backend_a_session_ends_with_its_process(caplog: pytest.LogCaptureFixture) -> None:
    backend = InterruptedShared()
    async with service(2, backend) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 200
        backend.is_down = True
        await nodes.stop(0)
        assert "sessions end with this process: " in caplog.text

        got = await client.post(client.request("ping", id=4))
        assert (got.status, got.answer["id"]) == (503, 4)
        assert got.answer["error"]["message"] == "the session cannot be found now; try again later"
        backend.is_down = False
        assert (await client.post(client.request("ping"))).status == 404


@pytest.mark.parametrize("value", [b"", b"x", b"s", b"s" + bytes(40), b"{}"])
async def test_what_no_process_of_the_service_has_left_is_not_continued(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    shared = MemoryShared()
    async with service(2, shared) as nodes, shared.open() as state:
        session = await nodes.begin(0)
        await nodes.stop(0)
        key = f"session/{hashlib.sha256(session.encode()).hexdigest()}"
        assert await state.swap(key, await state.get(key), value)

        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 404
        assert "was not left by a process of this service" in caplog.text


async def test_no_call_of_a_client_fails_while_the_process_of_its_session_stops() -> None:
    async with service(3) as nodes:
        balanced = RoundRobin(nodes.engines[:1])
        async with open_http_client(URL, engine=balanced, revision=LEGACY) as client:
            balanced.turn_to(RoundRobin(nodes.engines[1:]))  # as a load balancer does before the process stops
            results: list[int] = []

            async def call_often() -> None:
                while not nodes.processes[0].stopped.is_set() or len(results) < 100:
                    got = await client.call_tool("add", {"a": 1, "b": 2})
                    assert got.structured_content is not None
                    results.append(got.structured_content["result"])

            async with trio.open_nursery() as calling:
                for _ in range(5):
                    calling.start_soon(call_often)
                while len(results) < 20:
                    await trio.lowlevel.checkpoint()
                await nodes.stop(0)
            assert set(results) == {3}


async def test_a_question_is_answered_while_its_process_stops() -> None:
    async with service(2, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        async with client.open("POST", client.call("ask", id="asking")) as calling:
            question = await calling.message()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            answer = {"action": "accept", "content": {"name": "Ada"}}
            told = await client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            assert told.status == 202
            done = await calling.message()
            assert (done["id"], text_of(done)) == ("asking", "Ada")


async def test_a_question_that_nobody_answers_ends_with_the_process() -> None:
    async with service(2, limits=Limits(drain_seconds=0.2)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        async with client.open("POST", client.call("ask")) as calling:
            question = await calling.message()
            await nodes.stop(0)
            assert (await calling.message())["method"] == "notifications/cancelled"  # of the question
            answer = await calling.message()
            assert "the server stopped" in answer["error"]["message"]
        late = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
        assert (await client.post(late)).status == 202  # as every answer to a question that nobody has asked
        assert (await client.post(client.request("ping"))).status == 200


async def test_a_replayed_handler_asks_while_its_process_stops_and_another_one_takes_the_answer() -> None:
    gate = Gate()
    async with service(2, gate=gate, asking="replayed") as nodes:
        first, second = nodes.client(0, revision=MODERN), nodes.client(1, revision=MODERN)
        capable: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
        call = first.call("ask_late", meta=capable)
        async with trio.open_nursery() as nursery:

            async def begin() -> None:
                got = (await first.post(call)).messages[-1]["result"]
                assert got["resultType"] == "input_required"
                (key,) = got["inputRequests"]
                answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
                retry = second.call("ask_late", meta=capable)
                retry["params"] |= {"requestState": got["requestState"], "inputResponses": answers}
                assert text_of((await second.post(retry)).messages[-1]) == "Ada"

            nursery.start_soon(begin)
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            gate.opened.set()


async def test_a_request_that_reaches_the_stopping_process_too_late_is_answered_elsewhere() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session, other, ended = [await nodes.begin(0) for _ in range(3)]
        busy = nodes.client(1, other)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(busy.post, busy.call("wait"))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)

            client = nodes.client(1, session)  # which was handed over, while its process still runs
            assert (await client.post(client.request("ping"))).status == 200
            assert (await busy.post({"jsonrpc": "2.0", "id": 77, "result": {}})).status == 202
            leaving = nodes.client(1, ended)
            assert (await leaving.send("DELETE")).status == 204
            assert (await leaving.send("GET")).status == 404
            gate.opened.set()


async def test_a_client_ends_a_session_of_a_process_that_stops() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.post, client.call("wait"))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)

            assert (await client.send("DELETE")).status == 204
            await nodes.processes[0].stopped.wait()  # long before the 50 seconds
        assert (await client.post(client.request("ping"))).status == 404


async def test_a_stream_ends_with_its_process_and_goes_on_at_the_next_one() -> None:
    async with service(2) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        await client.post(client.request("resources/subscribe", {"uri": "memo://today"}))
        async with client.open("GET") as stream:
            nodes.processes[0].server.resource_updated("memo://today")
            assert (await stream.message())["params"] == {"uri": "memo://today"}
            await nodes.stop(0)
            assert await stream.message() is None
        async with client.open("GET") as stream:
            told = {(await stream.message())["method"] for _ in range(3)}
            assert "notifications/resources/updated" in told
            nodes.processes[1].server.resource_updated("memo://today")
            assert (await stream.message())["params"] == {"uri": "memo://today"}


async def test_a_session_without_a_handshake_is_not_handed_over() -> None:
    gate = Gate()

    async def hang(request: Request, call_next: CallNext) -> Any:
        if request.method == "initialize":
            gate.entered.set()
            await trio.sleep_forever()
        return await call_next(request)

    backend, written = InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        if method == "swap":
            written.append(name)

    backend.before = note
    async with service(2, backend, limits=Limits(drain_seconds=0.2), middleware=[hang]) as nodes:
        client = nodes.client(0)
        async with trio.open_nursery() as nursery:
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            nursery.start_soon(client.post, client.request("initialize", params))
            await gate.entered.wait()
            await nodes.stop(0)
        assert not any(name.startswith("session/") for name in written)


async def test_sessions_that_cannot_be_handed_over_in_time_end_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio_mcp.transports.http.server._session_moves._HANDOVER_SECONDS", 0.1)
    backend = InterruptedShared()
    async with service(2, backend, limits=Limits(drain_seconds=0.1)) as nodes:
        sessions = [await nodes.begin(0) for _ in range(3)]

        async def hang(method: str, name: str) -> None:
            if name.startswith("session/") and not nodes.processes[0].stopped.is_set():
                await trio.sleep_forever()

        backend.before = hang
        await nodes.stop(0)
        for session in sessions:
            client = nodes.client(1, session)
            assert (await client.post(client.request("ping"))).status == 404
    assert caplog.text.count("sessions end with this process: they were not handed over in time") == 1


async def test_a_session_that_another_version_has_left_is_unknown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def of_another_version(self: StreamableSession, most_bytes: int) -> Json:
        return {"principal": None, "version": 2}

    monkeypatch.setattr(StreamableSession, "to_json", of_another_version)
    async with service(2) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)
        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 404
    assert "a session of another process cannot be read" in caplog.text


async def test_a_session_of_a_revision_that_the_next_process_does_not_speak_is_unknown() -> None:
    async with service(2) as nodes:
        nodes.processes[1].server.revisions = (MODERN, "2025-06-18")
        session = await nodes.begin(0)
        await nodes.stop(0)
        client = nodes.client(1, session)
        got = await client.post(client.request("ping"), {"mcp-protocol-version": None})
        assert got.status == 404


async def test_a_resource_that_is_gone_at_the_next_process_is_not_subscribed_to_any_more() -> None:
    async with service(2) as nodes:
        nodes.processes[0].server.resources.add_static("memo://old", "# Old", name="old")
        session = await nodes.begin(0)
        client = nodes.client(0, session)
        for uri in ("memo://old", "memo://today"):
            await client.post(client.request("resources/subscribe", {"uri": uri}))
        await nodes.stop(0)
        async with nodes.client(1, session).open("GET") as stream:
            for uri in ("memo://old", "memo://today"):
                nodes.processes[1].server.resource_updated(uri)
            while (message := await stream.message())["method"] != "notifications/resources/updated":
                pass
            assert message["params"] == {"uri": "memo://today"}


async def test_a_session_that_has_ended_here_is_not_looked_for_again() -> None:
    backend = InterruptedShared()
    async with service(3, backend) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)
        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 200
        backend.is_down = True  # so that the name of the process stays in the backend
        assert (await client.send("DELETE")).status == 204
        await trio.testing.wait_all_tasks_blocked(0.05)
        backend.is_down = False

        for number in (1, 2):
            late = nodes.client(number, session)
            assert (await late.post(late.request("ping"))).status == 404


async def test_a_request_that_reaches_a_process_that_is_about_to_leave_is_answered_elsewhere() -> None:
    backend, statuses = InterruptedShared(), list[int]()
    async with service(2, backend) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 200  # over a connection that stays

        async def call_before_it_leaves(method: str, name: str) -> None:
            if method == "release" and not statuses:
                statuses.append(0)
                statuses.append((await client.post(client.request("ping"))).status)

        backend.before = call_before_it_leaves
        await nodes.stop(0)
        assert statuses == [0, 200]


@define(eq=False)
class Pause:
    """Lets a backend wait before it writes sessions, until the test opens it."""

    reached: trio.Event = field(factory=trio.Event, init=False)
    over: trio.Event = field(factory=trio.Event, init=False)

    async def __call__(self, method: str, name: str) -> None:
        if method == "swap" and name.startswith("session/"):
            self.reached.set()
            await self.over.wait()


async def test_messages_that_arrive_while_a_session_is_handed_over_reach_the_next_process() -> None:
    backend, pause = InterruptedShared(), Pause()
    async with service(2, backend) as nodes:
        client, statuses = nodes.client(0), list[int]()
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        begun = await client.post(client.request("initialize", params))
        late = nodes.client(1, begun.headers["mcp-session-id"])
        backend.before = pause

        async def say_initialized() -> None:
            statuses.append((await late.post(late.notification("notifications/initialized"))).status)

        async with trio.open_nursery() as nursery:
            nodes.processes[0].stop.set()
            await pause.reached.wait()
            nursery.start_soon(say_initialized)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert statuses == []
            pause.over.set()
        assert statuses == [202]
        async with late.open("GET") as stream:
            nodes.processes[1].server.tool(name="another")(lambda: None)
            assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_session_that_is_deleted_while_it_is_handed_over_is_gone() -> None:
    backend, pause = InterruptedShared(), Pause()
    async with service(2, backend) as nodes:
        session, statuses = await nodes.begin(0), list[int]()
        client = nodes.client(1, session)
        backend.before = pause

        async def delete() -> None:
            statuses.append((await client.send("DELETE")).status)

        async with trio.open_nursery() as nursery:
            nodes.processes[0].stop.set()
            await pause.reached.wait()
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked(0.05)
            pause.over.set()
        assert statuses == [204]
        assert (await client.post(client.request("ping"))).status == 404


async def test_a_session_that_is_deleted_before_its_turn_costs_no_other() -> None:
    backend, pause = InterruptedShared(), Pause()
    async with service(2, backend) as nodes:
        sessions = [await nodes.begin(0) for _ in range(20)]
        backend.before = pause
        nodes.processes[0].stop.set()
        await pause.reached.wait()
        first = nodes.client(1, sessions[-1])
        deleted: list[int] = []

        async def delete() -> None:
            deleted.append((await first.send("DELETE")).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked(0.05)
            pause.over.set()
            await nodes.processes[0].stopped.wait()
        statuses = [(await each.post(each.request("ping"))).status for each in (nodes.client(1, id) for id in sessions)]
        assert deleted == [204]
        assert statuses == [200] * 19 + [404]


async def test_a_session_that_is_busy_for_long_is_handed_over_although_others_were_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_mcp.transports.http.server._session_moves._HANDOVER_SECONDS", 0.2)
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=8)) as nodes:
        idle, session = [await nodes.begin(0) for _ in range(2)]
        busy = nodes.client(1, session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(busy.post, busy.call("wait"))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            client = nodes.client(1, idle)
            assert (await client.post(client.request("ping"))).status == 200
            await trio.sleep(0.5)  # longer than a handover may take
            gate.opened.set()
        assert (await busy.post(busy.request("ping"))).status == 200


async def test_a_request_that_was_cancelled_while_it_waited_is_not_carried_out() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        held: list[int] = []

        async def call_later() -> None:
            got = await client.post(client.call("add", {"a": 1, "b": 2}, id="held"))
            held.append(got.status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.post, client.call("wait"))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            nursery.start_soon(call_later)
            await trio.testing.wait_all_tasks_blocked(0.1)
            cancelled = client.notification("notifications/cancelled", {"requestId": "held"})
            assert (await client.post(cancelled)).status == 202
            gate.opened.set()
        assert held == [202]  # without an answer


async def test_a_late_answer_answers_no_question_of_the_next_process() -> None:
    async with service(2, limits=Limits(drain_seconds=0.2)) as nodes:
        session = await nodes.begin(0)
        client = nodes.client(1, session)
        async with client.open("POST", client.call("ask", id="first")) as calling:
            first = await calling.message()
            await nodes.stop(0)
        async with client.open("POST", client.call("ask", id="second")) as calling:
            second = await calling.message()
            answers = {each["id"]: name for each, name in ((first, "Ada"), (second, "Bob"))}
            assert len(answers) == 2
            for id, name in answers.items():
                content = {"action": "accept", "content": {"name": name}}
                await client.post({"jsonrpc": "2.0", "id": id, "result": content})
            assert text_of(await calling.message()) == "Bob"


async def test_of_two_processes_that_stop_neither_keeps_a_session() -> None:
    gate = Gate()
    async with service(3, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client, at_owner = nodes.client(1, session), nodes.client(0, session)
        statuses: list[int] = []

        async def ping() -> None:
            statuses.append((await client.post(client.request("ping", id=5))).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(at_owner.post, at_owner.call("wait", id=8))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            nursery.start_soon(ping)
            await trio.testing.wait_all_tasks_blocked(0.1)
            nodes.processes[1].stop.set()
            await nodes.stopping(1)
            gate.opened.set()
        assert statuses == [503]
        await nodes.processes[1].stopped.wait()
        third = nodes.client(2, session)
        assert (await third.post(third.request("ping"))).status == 200


async def test_a_session_that_arrives_while_its_new_process_stops_is_handed_over_again() -> None:
    backend, pause = InterruptedShared(), Pause()
    async with service(3, backend) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)
        client = nodes.client(1, session)
        backend.before = pause
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.post, client.request("ping"))
            await pause.reached.wait()
            nodes.processes[1].stop.set()
            await nodes.stopping(1)
            pause.over.set()
            await nodes.processes[1].stopped.wait()
        third = nodes.client(2, session)
        assert (await third.post(third.request("ping"))).status == 200


async def test_sessions_that_arrive_at_once_do_not_exceed_the_limit() -> None:
    async with service(2, sessions=SessionSettings(max_sessions=5)) as nodes:
        sessions = [await nodes.begin(0) for _ in range(5)]
        for _ in range(3):
            own = nodes.client(1, await nodes.begin(1))
            await own.post(own.request("ping"))
        await nodes.stop(0)
        async with trio.open_nursery() as nursery:
            for session in sessions:
                client = nodes.client(1, session)
                nursery.start_soon(client.post, client.request("ping"))
        assert _sessions(nodes.processes[1]) <= 5


async def test_clients_that_do_not_read_cost_no_other_session() -> None:
    async with service(2, sessions=SessionSettings(event_store=MemoryEventStore())) as nodes:
        slow = [await nodes.begin(0) for _ in range(16)]
        fine = [await nodes.begin(0) for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for session in slow:
                client = nodes.client(0, session)
                nursery.start_soon(client.post_and_never_read, client.call("fill", {"size": 1_000_000}))
            await trio.testing.wait_all_tasks_blocked(0.2)
            await nodes.stop(0)
            nursery.cancel_scope.cancel()
        for session in [*fine, *slow]:
            client = nodes.client(1, session)
            assert (await client.post(client.request("ping", id="later"))).status == 200


@pytest.mark.parametrize("through", [0, 1])
async def test_an_answer_over_http_sse_is_taken_while_the_process_stops_and_a_request_is_not(through: int) -> None:
    async with service(2, limits=Limits(drain_seconds=50)) as nodes:
        opening = nodes.client(0, revision=SSE)
        async with opening.open("GET") as stream:
            endpoint = await stream.event()
            assert endpoint is not None
            url = f"http://localhost{endpoint.data.decode()}"
            here, there = (RawHttpClient(nodes.engines[number], SSE, url) for number in (0, through))
            capabilities: Json = {"roots": {}}
            params = {"protocolVersion": SSE, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}
            await here.post(here.request("initialize", params))
            await stream.message()
            await here.post(here.notification("notifications/initialized"))
            await here.post(here.call("roots", id="asking"))
            question = await stream.message()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)

            refused = await there.post(there.request("ping", id=9))
            assert refused.status == 503
            told = await there.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            assert told.status == 202
            done = await stream.message()
            assert (done["id"], done["result"].get("isError", False)) == ("asking", False)


async def test_a_session_whose_messages_find_no_room_at_the_next_process_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cut(self: HttpOutlet, left: Json) -> None:
        self.on_cut()

    async with service(2) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)
        monkeypatch.setattr(HttpOutlet, "restore", cut)
        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 404
        assert _sessions(nodes.processes[1]) == 0
        later = await nodes.begin(1)
        again = nodes.client(1, later)
        assert (await again.post(again.request("ping"))).status == 200


async def test_a_stream_that_waits_when_its_receiver_stops_is_refused() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client, statuses = nodes.client(1, session), list[int]()

        async def listen() -> None:
            statuses.append((await client.send("GET")).status)

        async with trio.open_nursery() as nursery:
            at_owner = nodes.client(0, session)
            nursery.start_soon(at_owner.post, at_owner.call("wait", id=8))
            await gate.entered.wait()
            nodes.processes[0].stop.set()
            await nodes.stopping(0)
            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked(0.1)
            nodes.processes[1].stop.set()
            await nodes.processes[1].stopped.wait()
            gate.opened.set()
        assert statuses == [503]


async def test_a_process_that_stops_waits_for_the_responses_that_it_relays() -> None:
    gate = Gate()
    async with service(2, gate=gate, limits=Limits(drain_seconds=50)) as nodes:
        session = await nodes.begin(0)
        client, answers = nodes.client(1, session), list[str]()

        async def call() -> None:
            answers.append(text_of((await client.post(client.call("wait"))).messages[-1]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await gate.entered.wait()
            nodes.processes[1].stop.set()
            await nodes.stopping(1)
            gate.opened.set()
        assert answers == ["waited"]


async def test_a_process_that_stops_waits_for_relayed_responses_no_longer_than_for_its_own() -> None:
    async with service(2, gate=Gate(), limits=Limits(drain_seconds=0.2)) as nodes:
        session = await nodes.begin(0)
        client, statuses = nodes.client(1, session), list[int]()

        async def call() -> None:
            statuses.append((await client.post(client.call("wait"))).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked(0.1)
            await nodes.stop(1)
        assert statuses == [502]


async def test_a_session_that_cannot_be_claimed_now_is_continued_later() -> None:
    backend = InterruptedShared()
    async with service(2, backend) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)
        client = nodes.client(1, session)

        async def break_down(method: str, name: str) -> None:
            backend.is_down = method == "swap" and name.startswith("session/")

        backend.before = break_down
        assert (await client.post(client.request("ping"))).status == 503
        backend.before, backend.is_down = None, False
        assert (await client.post(client.request("ping"))).status == 200
        assert _sessions(nodes.processes[1]) == 1


async def test_a_session_that_fails_when_it_is_handed_over_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    to_json = StreamableSession.to_json

    async def fail_once(self: StreamableSession, most_bytes: int) -> Json | None:
        if self.id == first:
            raise ZeroDivisionError
        return await to_json(self, most_bytes)

    monkeypatch.setattr(StreamableSession, "to_json", fail_once)
    async with service(2) as nodes:
        first, second = [await nodes.begin(0) for _ in range(2)]
        await nodes.stop(0)
        clients = [nodes.client(1, session) for session in (first, second)]
        assert [(await each.post(each.request("ping"))).status for each in clients] == [404, 200]
    assert "a session cannot be handed over" in caplog.text


async def test_the_subscriptions_of_a_gateway_go_along_as_far_as_its_servers_have_the_resources() -> None:
    before, after = Server("before"), Server("after")
    before.resources.add_static("memo://gone", "x", name="gone")
    for upstream in (before, after):
        upstream.resources.add_static("memo://up", "x", name="up")
    shared = MemoryShared()

    def gateway(upstream: Server) -> Server:
        made = Gateway("gate")
        made.mount(upstream, prefix="")
        made.resources.add_static("memo://own", "x", name="own")
        return made

    processes = [Process(gateway(each), HttpOptions(shared=shared)) for each in (before, after)]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nodes = Service(processes, [await nursery.start(each.run) for each in processes])
            session = await nodes.begin(0)
            client = nodes.client(0, session)
            for uri in ("memo://gone", "memo://up", "memo://own"):
                subscribed = await client.post(client.request("resources/subscribe", {"uri": uri}))
                assert "error" not in subscribed.answer
            await nodes.stop(0)
            late = nodes.client(1, session)
            async with late.open("GET") as stream:
                told = list[str]()
                while not {"memo://up", "memo://own"} <= {*told}:
                    told.append((await stream.message())["params"].get("uri", ""))
                after.resource_updated("memo://up")
                while (await stream.message())["params"].get("uri") != "memo://up":
                    pass
            processes[1].stop.set()


async def test_a_backend_that_hangs_while_a_session_arrives_is_waited_for_no_longer_than_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_mcp.transports.http.server._legacy_session_manager._ARRIVAL_SECONDS", 0.1)
    backend, hung = InterruptedShared(), list[str]()
    async with service(2, backend) as nodes:
        session = await nodes.begin(0)
        await nodes.stop(0)

        async def hang_once(method: str, name: str) -> None:
            if method == "swap" and name.startswith("session/") and not hung:
                hung.append(name)
                await trio.sleep_forever()

        backend.before = hang_once
        client = nodes.client(1, session)
        assert (await client.post(client.request("ping"))).status == 200  # at the second attempt
        assert hung


async def test_requests_that_wait_for_a_session_go_to_the_process_that_was_faster() -> None:
    backend, paused, over = InterruptedShared(), trio.Event(), trio.Event()
    async with service(3, backend) as nodes:
        session, statuses = await nodes.begin(0), list[int]()
        await nodes.stop(0)
        slow, fast = nodes.client(1, session), nodes.client(2, session)

        async def pause_once(method: str, name: str) -> None:
            if method == "swap" and name.startswith("session/") and not paused.is_set():
                paused.set()
                await over.wait()

        async def ping(number: int) -> None:
            statuses.append((await slow.post(slow.request("ping", id=number))).status)

        backend.before = pause_once
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ping, 11)
            await paused.wait()
            assert (await fast.post(fast.request("ping"))).status == 200
            nursery.start_soon(ping, 12)
            await trio.testing.wait_all_tasks_blocked(0.05)
            over.set()
        assert statuses == [200, 200]
