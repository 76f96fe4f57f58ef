"""Shares of the senders of an HTTP server: no principal and no address can take handlers or sessions from others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from tests.server import isolated_tools
from tests.server.isolated_calls import taking_calls
from tests.transports.http.asgi_caller import AsgiCaller, scope_of
from tests.transports.http.asgi_caller import call as modern_call
from tests.transports.http.server.raw_session_client import (
    LATEST,
    SESSION,
    VERSION,
    Seats,
    call,
    initialize,
    message,
    text_of,
)
from tests.transports.http.server.token_verifier import Tokens, protection
from trio_mcp import Context, Limits, Server, SessionSettings, http_app
from trio_mcp.peer import BUSY
from trio_mcp.transports import HttpApp
from trio_mcp.wire import JsonObject

ELICITATION: JsonObject = {"elicitation": {}}
ASKS: JsonObject = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


@define(eq=False)
class Sender:
    """A principal or an address, which sends any number of requests in any number of sessions."""

    app: HttpApp = field(repr=False)
    nursery: trio.Nursery
    address: str
    headers: dict[str, str]
    callers: list[AsgiCaller] = field(factory=list[AsgiCaller], init=False)

    def post(self, body: Any, **headers: str) -> AsgiCaller:
        """POST a body in the background."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._start(AsgiCaller.post(body, self.headers | fields, client=(self.address, 1)))

    async def done(self, body: Any, **headers: str) -> AsgiCaller:
        """POST a body, and wait for the whole response."""
        caller = self.post(body, **headers)
        await caller.returned.wait()
        return caller

    def get(self, session: dict[str, str]) -> AsgiCaller:
        """Open an event stream in the background."""
        return self._start(AsgiCaller(scope_of("GET", headers=self.headers | session, client=(self.address, 1))))

    def _start(self, caller: AsgiCaller) -> AsgiCaller:
        self.callers.append(caller)
        self.nursery.start_soon(caller.run, self.app)
        return caller

    async def session(self) -> dict[str, str]:
        """Open a session; return the header fields of its requests. They are empty if it is refused."""
        begun = self.post(initialize(**ELICITATION))
        await begun.returned.wait()
        if begun.status != 200:
            return {}
        session = {SESSION: begun.headers[SESSION], VERSION: LATEST}
        await self.post(message("notifications/initialized"), **session).returned.wait()
        return session

    async def add(self, session: dict[str, str] | None) -> str:
        """Call the quick tool; return its text if it answers before anything else ends."""
        adding = self.post(modern_call("add") if session is None else call("add"), **(session or {}))
        await wait_all_tasks_blocked()
        return text_of(adding) if adding.complete else "still waiting"


@define(eq=False)
class Site:
    """An HTTP application with slow tools, tools that ask, and a quick one; and its senders."""

    app: HttpApp = field(repr=False)
    nursery: trio.Nursery
    sender: Callable[[str], Sender]
    failures: list[str]
    """The exceptions of questions."""
    go: trio.Event


@asynccontextmanager
async def site(limits: Limits, *, by: str = "address", **settings: Any) -> AsyncGenerator[Site]:
    """Serve the application; its senders are principals or addresses."""
    server, go, tokens, failures = Server("site", limits=limits), trio.Event(), Tokens(), list[str]()

    @server.tool
    async def add() -> str:
        await trio.lowlevel.checkpoint()
        return "added"

    @server.tool
    async def wait() -> str:
        await go.wait()
        return "done"

    @server.tool
    async def big() -> str:
        await trio.lowlevel.checkpoint()
        return "x" * 2**20

    @server.tool
    def wait_in_thread() -> str:
        trio.from_thread.run(go.wait)
        return "done"

    @server.tool
    def add_in_thread() -> str:
        return "added"

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            answer = await ctx.elicit("How many?", Seats)
        except Exception as exc:
            failures.append(f"{type(exc).__name__}: {exc}")
            raise
        return repr(answer)

    server.tool(name="wait_for_line", isolate="process")(isolated_tools.wait)
    server.tool(isolate="process")(isolated_tools.pid)
    auth = protection(tokens) if by == "principal" else None
    app = http_app(server, sessions=SessionSettings(**settings), auth=auth, allowed_hosts="any")

    def sender(name: str) -> Sender:
        if by == "principal":
            return Sender(app, nursery, "192.0.2.1", tokens.issue(name))
        return Sender(app, nursery, {"mallory": "192.0.2.1", "ann": "192.0.2.2"}[name], {})

    async with trio.open_nursery() as nursery:
        async with app.run():
            yield Site(app, nursery, sender, failures, go)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("by", ["principal", "address"])
@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
async def test_slow_calls_in_many_sessions_leave_places_to_another_sender(by: str, modern: bool) -> None:
    async with site(Limits(max_running=8, max_in_flight=8), by=by) as open_site:
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")
        hers = None if modern else await ann.session()
        for _ in range(4):
            session = await mallory.session()
            for number in range(8):
                mallory.post(call("wait", number), **session)
            mallory.post(modern_call("wait"))
        await wait_all_tasks_blocked()
        for caller in mallory.callers:
            caller.disconnect()  # the calls of sessions go on
        await wait_all_tasks_blocked()

        assert await ann.add(hers) == "added"
        assert await mallory.add(await mallory.session()) == "still waiting"
        open_site.go.set()


async def test_the_queue_of_requests_is_common_to_all_sessions_of_a_sender() -> None:
    async with site(Limits(max_running=8, max_in_flight=2, max_queued=3)) as open_site:
        mallory = open_site.sender("mallory")
        for _ in range(5):
            mallory.post(call("wait"), **await mallory.session())
        await wait_all_tasks_blocked()
        refused = mallory.post(call("add"), **await mallory.session())
        await refused.returned.wait()

        assert refused.code == BUSY
        assert "of this client's requests, 2 run (Limits.max_in_flight) and 3 wait" in str(refused.answer)
        open_site.go.set()


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
async def test_a_handler_that_waits_for_an_answer_holds_no_place(modern: bool) -> None:
    async with site(Limits(max_running=2, max_in_flight=2)) as open_site:
        mallory = open_site.sender("mallory")
        session = None if modern else await mallory.session()
        for number in range(5):
            mallory.post(modern_call("ask", **ASKS) if modern else call("ask", 10 + number), **(session or {}))
        await wait_all_tasks_blocked()

        assert await mallory.add(session) == "added"


async def test_a_handler_continues_with_an_answer_when_it_has_a_place_again() -> None:
    async with site(Limits(max_running=4, max_in_flight=1)) as open_site:
        ann = open_site.sender("ann")
        session = await ann.session()
        asking = ann.post(call("ask", 2), **session)
        await asking.wait_for_messages(1)
        waiting = ann.post(call("wait", 3), **session)
        queued = ann.post(call("add", 4), **session)
        await wait_all_tasks_blocked()
        answer = {"action": "accept", "content": {"count": 2}}
        ann.post({"jsonrpc": "2.0", "id": asking.answer["id"], "result": answer}, **session)
        await wait_all_tasks_blocked()
        assert not asking.complete

        open_site.go.set()
        for each in (waiting, asking, queued):
            await each.returned.wait()
        assert "count=2" in text_of(asking)


@pytest.mark.parametrize("by", ["principal", "address"])
@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
async def test_the_open_questions_of_one_sender_give_way_to_those_of_another(
    by: str, modern: bool, autojump_clock: object
) -> None:
    async with site(Limits(max_parked=3), by=by) as open_site:
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")

        ids = count(10)

        async def ask(sender: Sender) -> AsgiCaller:
            asking = sender.post(
                modern_call("ask", **ASKS) if modern else call("ask", next(ids)), **({} if modern else session)
            )
            await wait_all_tasks_blocked()
            return asking

        for _ in range(3):
            session = {} if modern else await mallory.session()
            await ask(mallory)
        await ask(mallory)  # it has the most itself
        assert open_site.failures == [
            "TooManyParked: the question cannot be asked: 3 handlers wait for answers already (Limits.max_parked)"
        ]
        session = {} if modern else await ann.session()
        asked = await ask(ann)

        assert open_site.failures[1:] == [
            "AskExpired: the question gave way to those of other clients (Limits.max_parked)"
        ]
        assert "How many?" in str(asked.answer)


async def test_sessions_with_open_streams_give_way_to_another_sender() -> None:
    async with site(Limits(), max_sessions=4) as open_site:
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")
        for _ in range(4):
            mallory.get(await mallory.session())
        await wait_all_tasks_blocked()
        assert await mallory.session() == {}

        hers = await ann.session()
        assert await ann.add(hers) == "added"
        assert [caller.complete for caller in mallory.callers if caller.scope["method"] == "GET"].count(True) == 1
        hers = await ann.session()
        assert await ann.session() == {}  # each of them has two
        assert await ann.add(hers) == "added"


async def test_a_session_with_a_running_handler_gives_way_last() -> None:
    async with site(Limits(), max_sessions=3) as open_site:
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")
        busy = [await mallory.session() for _ in range(2)]
        waiting = [mallory.post(call("wait"), **session) for session in busy]
        listening = mallory.get(await mallory.session())
        await wait_all_tasks_blocked()

        assert await ann.session() != {}
        assert listening.complete
        assert [caller.complete for caller in waiting] == [False, False]
        open_site.go.set()


async def test_plain_functions_of_one_sender_leave_threads_to_another() -> None:
    async with site(Limits(max_threads=4)) as open_site:
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")
        for _ in range(8):
            mallory.post(modern_call("wait_in_thread"))
        await wait_all_tasks_blocked()

        adding = ann.post(modern_call("add_in_thread"))
        with trio.fail_after(60):
            await adding.returned.wait()
        assert text_of(adding) == "added"
        open_site.go.set()


async def test_a_client_can_cancel_only_its_own_requests() -> None:
    async with site(Limits()) as open_site:
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")
        hers, theirs = await ann.session(), await mallory.session()
        waiting = ann.post(call("wait", 7), **hers)
        modern = ann.post(modern_call("wait"))
        await wait_all_tasks_blocked()

        for id in (7, 1):
            cancel = message("notifications/cancelled", {"requestId": id})
            assert (await mallory.done(cancel, **theirs)).status == 202
        await wait_all_tasks_blocked()
        open_site.go.set()
        for each in (waiting, modern):
            await each.returned.wait()
            assert text_of(each) == "done"


async def test_isolated_functions_of_one_sender_leave_worker_processes_to_another(tmp_path: Path) -> None:
    async with (
        taking_calls(tmp_path / "calls") as calls,
        site(Limits(max_processes=2, drain_seconds=0.1)) as open_site,
    ):
        mallory, ann = open_site.sender("mallory"), open_site.sender("ann")
        with trio.fail_after(60):
            for _ in range(3):
                mallory.post(modern_call("wait_for_line", {"path": calls.path}))
            line, _ = await calls.take()
            asking = ann.post(modern_call("pid"))
            await asking.returned.wait()

            assert text_of(asking).isdecimal()
            await line.aclose()


async def test_a_client_with_many_large_results_does_not_delay_the_results_of_another() -> None:
    async with site(Limits()) as served:
        attacker, user = served.sender("mallory"), served.sender("ann")
        many = [attacker.post(modern_call("big")) for _ in range(20)]
        mine = await user.done(modern_call("big"))
        before = sum(each.complete for each in many)
        assert len(text_of(mine)) == 2**20
        assert before < 10
