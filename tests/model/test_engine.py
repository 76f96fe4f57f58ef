"""One end of a link, compared with a model under any order of requests, responses and other events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import outcome
import trio
from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from trio._core import _run
from trio.testing import MemoryReceiveStream, MemorySendStream

from tests.model.engine_model import EngineModel, Inbound, Outbound
from tests.model.stage import Stage, examples
from tests.peer.raw_peer import explain, notification
from tests.peer.raw_peer import initialize as initialize_request
from trio_mcp import ConnectionLost, ErrorResponse, McpError, RemoteProtocolError
from trio_mcp.peer import HandlerPool, HandlerRun, IncomingRequest, Limits, Link, ServerSession
from trio_mcp.types import REVISIONS
from trio_mcp.wire import JsonObject, decode, encode

T = TypeVar("T")

LEGACY = "2025-11-25"
"""A revision in which both sides may send requests."""
DRAIN = 5.0
JUNK: list[JsonObject] = [{"id": 1}, {"id": True, "method": "theirs"}, {"method": 5}, {"id": None, "result": {}}]
IDS = (1, 2, "1", "a")
indices = st.integers(0, 7)
rarely = st.integers(0, 5).map(lambda number: number == 5)


@define(eq=False)
class Valve(trio.abc.Stream):
    """A stream to the test, which accepts sent bytes only while the valve is open."""

    sent: MemorySendStream = field(factory=MemorySendStream, init=False)
    received: MemoryReceiveStream = field(factory=MemoryReceiveStream, init=False)
    opened: trio.Event = field(factory=trio.Event, init=False)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.opened.wait()
        await self.sent.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.opened.wait()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.received.receive_some(max_bytes)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@define(eq=False)
class Worker:
    """A handler that waits for the outcome that a rule orders."""

    order: outcome.Outcome[JsonObject] | None = field(default=None, init=False)
    ordered: trio.Event = field(factory=trio.Event, init=False)
    run: HandlerRun | None = field(default=None, init=False)
    ended: str | None = field(default=None, init=False)

    async def handle(self, run: HandlerRun) -> JsonObject:
        self.run = run
        try:
            await self.ordered.wait()
            assert self.order is not None
            return self.order.unwrap()
        except trio.Cancelled:
            self.ended = "stopped"
            raise
        finally:
            self.ended = self.ended or "done"


@define(eq=False)
class Asker:
    """A task that sends a request and waits for its outcome."""

    wants_updates: bool
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    outcome: Any = field(default=None, init=False)
    outgoing: Any = field(default=None, init=False)

    async def ask(self, link: Link) -> None:
        try:
            with self.scope:
                async with link.ask("ours", None, wants_updates=self.wants_updates) as self.outgoing:
                    self.outcome = await self.outgoing.result()
                    return
        except ErrorResponse as error:
            self.outcome = error.code
        except ConnectionLost:
            self.outcome = "lost"
        except RemoteProtocolError:
            self.outcome = "broken"
        if self.scope.cancelled_caught:
            self.outcome = "left"


class EngineMachine(RuleBasedStateMachine):
    """Each rule does one thing at one end of the link and in the model, and then both are compared."""

    @initialize(seed=st.integers(0, 9))
    def open(self, seed: int) -> None:
        _run._r.seed(seed)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it
        self.stage, self.model = Stage(), EngineModel()
        self.stage.do(self.connect)
        self.receive(initialize_request(0, LEGACY), notification("notifications/initialized"))
        self.newly_sent()
        self.workers: dict[Inbound, Worker] = {}
        self.askers: dict[Outbound, Asker] = {}
        self.sent: list[JsonObject] = []
        self.numbers = 0

    def connect(self) -> None:
        self.valve = Valve()
        self.valve.opened.set()
        self.pool = HandlerPool(self.stage.nursery)
        limits = Limits(drain_seconds=DRAIN)
        self.link = Link(ServerSession(REVISIONS), self.answer, self.notified, limits, self.valve)
        self.ended = trio.Event()
        self.stage.nursery.start_soon(self.run_link)

    async def run_link(self) -> None:
        await self.link.run(drain=True)
        self.ended.set()

    def notified(self, method: str, params: JsonObject) -> None:
        """Ignore notifications that belong to no outgoing request."""

    def answer(self, exchange: IncomingRequest) -> None:
        if exchange.method == "initialize":
            exchange.respond({})
            return
        self.newest = Worker()
        self.pool.begin(exchange, self.newest.handle, explain)

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.end()

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def receive(self, *messages: Any) -> None:
        """Deliver messages of the peer to the link, all at once."""
        lines = b"".join(encode({"jsonrpc": "2.0", **each}) + b"\n" for each in messages)
        self.stage.do(self.valve.received.put_data, lines)

    @property
    def up(self) -> bool:
        return hasattr(self, "model") and not self.model.input_ended

    def working(self) -> list[Inbound]:
        return [inbound for inbound in self.workers if inbound.working] if hasattr(self, "workers") else []

    def asking(self) -> list[Outbound]:
        return [outbound for outbound in self.askers if outbound.outcome is None] if hasattr(self, "askers") else []

    # Requests of the peer.

    @precondition(lambda self: self.up)
    @rule(id=st.sampled_from(IDS))
    def they_ask(self, id: str | int) -> None:
        inbound = self.model.request(id)
        self.receive({"id": id, "method": "theirs"})
        if inbound is not None:
            self.workers[inbound] = self.newest

    @precondition(lambda self: self.up and self.model.incoming)
    @rule(which=indices)
    def they_cancel(self, which: int) -> None:
        self.they_send_cancellation(one_of(list(self.model.incoming), which))

    @precondition(lambda self: self.up)
    @rule(id=st.sampled_from((*IDS, 99, None)), together=st.booleans())
    def they_cancel_too_early_or_too_late(self, id: Any, together: bool) -> None:
        """Cancel a request before its handler could begin, or an id without a request in flight."""
        if together and id in IDS and id not in self.model.incoming:
            self.receive({"id": id, "method": "theirs"}, cancellation(id))
            assert self.newest.ended in {None, "stopped"}
        elif id not in self.model.incoming:
            self.they_send_cancellation(id)

    def they_send_cancellation(self, id: Any) -> None:
        self.model.cancelled(id)
        self.receive(cancellation(id))

    @precondition(lambda self: self.working())
    @rule(which=indices, well=st.booleans())
    def handler_ends(self, which: int, well: bool) -> None:
        inbound, number = one_of(self.working(), which), self.number()
        worker = self.workers[inbound]
        failure = McpError(number, "no")
        worker.order = outcome.Value({"n": number}) if well else outcome.Error(failure)
        self.model.answer(inbound, {"result": {"n": number}} if well else {"error": number})
        self.stage.do(worker.ordered.set)

    @precondition(lambda self: self.working())
    @rule(which=indices)
    def handler_sends_notification(self, which: int) -> None:
        inbound, number = one_of(self.working(), which), self.number()
        run = self.workers[inbound].run
        assert run is not None
        assert run.exchange is not None
        self.model.send({"method": "notifications/update", "params": {"n": number}})
        self.stage.do(run.exchange.notify, "notifications/update", {"n": number})

    # Requests to the peer.

    @rule(wants_updates=st.booleans())
    def we_ask(self, wants_updates: bool) -> None:
        outbound, asker = self.model.ask(wants_updates=wants_updates), Asker(wants_updates)
        self.askers[outbound] = asker
        self.stage.do(self.stage.nursery.start_soon, asker.ask, self.link)

    @precondition(lambda self: self.asking())
    @rule(which=indices)
    def we_leave(self, which: int) -> None:
        outbound = one_of(self.asking(), which)
        self.model.leave(outbound)
        self.stage.do(self.askers[outbound].scope.cancel)

    @precondition(lambda self: self.up and self.model.issued)
    @rule(which=indices, kind=st.sampled_from(["result", "result", "error", "broken"]), strange=rarely)
    def they_respond(self, which: int, kind: str, strange: bool) -> None:
        """Respond to an open request, to one that is over, or to an id that was never issued."""
        open_ids = [outbound.id for outbound in self.asking()]
        id: Any = str(which) if strange else one_of(open_ids or [self.model.issued + 1, 1], which)
        number = self.number()
        contents: dict[str, dict[str, Any]] = {
            "result": {"result": {"n": number}},
            "error": {"error": {"code": number, "message": "no"}},
            "broken": {"result": number},
        }
        self.model.malformed += kind == "broken"
        self.model.outcome(id, {"result": {"n": number}, "error": number, "broken": "broken"}[kind])
        self.receive({"id": id, **contents[kind]})

    @precondition(lambda self: self.up and self.model.issued)
    @rule(token=st.integers(0, 9) | st.sampled_from(["1", None]), times=st.integers(1, 3))
    def they_report_progress(self, token: Any, times: int) -> None:
        open_ids = [outbound.id for outbound in self.asking()]
        if open_ids and isinstance(token, int):
            token = one_of(open_ids, token)
        numbers = [self.number() for _ in range(times)]
        for number in numbers:
            self.model.progress(token, number)
        progress = {"method": "notifications/progress", "params": {"progressToken": token}}
        self.receive(*({**progress, "params": {**progress["params"], "progress": number}} for number in numbers))  # type: ignore[dict-item]

    @precondition(lambda self: any(outbound.updates for outbound in self.asking()))
    @rule(which=indices)
    def we_read(self, which: int) -> None:
        outbound = one_of([outbound for outbound in self.asking() if outbound.updates], which)
        assert outbound.updates
        outgoing = self.askers[outbound].outgoing
        method, params = self.stage.do(outgoing._pop)
        assert (method, params["progress"]) == ("notifications/progress", outbound.updates.pop(0))

    # Invalid messages, and the flow of bytes.

    @precondition(lambda self: self.up)
    @rule(
        junk=st.sampled_from([{"id": 1}, {"id": True, "method": "theirs"}, {"method": 5}, {"id": None, "result": {}}])
    )
    def they_send_an_invalid_message(self, junk: dict[str, Any]) -> None:
        """Send an invalid message, which is refused with its id unless that is in flight, or an invalid response."""
        self.model.malformed += 1
        if "result" not in junk:
            self.model.refuse(1 if junk == {"id": 1} and 1 not in self.model.incoming else None, -32600)
        self.receive(junk)

    @rule()
    def they_stop_reading(self) -> None:
        if hasattr(self, "model") and self.model.reading and not self.model.input_ended:
            self.model.reading = False
            self.valve.opened = trio.Event()

    @precondition(lambda self: not self.model.reading)
    @rule()
    def they_resume_reading(self) -> None:
        self.model.resume_reading()
        self.stage.do(self.valve.opened.set)

    # The end of the connection.

    @precondition(lambda self: self.up and self.model.reading and self.numbers > 5)
    @rule(really=st.booleans(), by_us=st.booleans())
    def end(self, really: bool, by_us: bool) -> None:
        """End the input, or stop the link: outgoing requests are lost, and handlers have the drain time to finish."""
        if really:
            self.model.end_of_input(by_us=by_us)
            self.stage.do(self.link.stop if by_us else self.valve.received.put_eof)

    @precondition(lambda self: not self.up and self.working())
    @rule(enough=st.booleans())
    def time_passes(self, enough: bool) -> None:
        """Pass the drain time, after which handlers are stopped and answered, or less of it."""
        if enough:
            for inbound in self.working():
                self.model.answer(inbound, {"error": -32603})
        self.stage.pass_time(DRAIN if enough else 0.001)

    # The comparison.

    @invariant()
    def link_and_model_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        self.sent += self.newly_sent()
        assert self.sent == self.model.out
        for outbound, asker in self.askers.items():
            assert asker.outcome == outbound.outcome
            if outbound.outcome is None and outbound.updates is not None:
                assert [params["progress"] for (_, params), _ in asker.outgoing._updates or ()] == outbound.updates
        for inbound, worker in self.workers.items():
            assert (worker.ended is None) is inbound.working
        facts = self.link.statistics()
        assert (facts.outgoing, facts.incoming) == (len(self.model.outgoing), len(self.model.incoming))
        assert (facts.unmatched_responses, facts.malformed) == (self.model.unmatched, self.model.malformed)
        unread = any(outbound.updates for outbound in self.asking())
        assert (facts.update_bytes > 0, self.link.budget.total) == (unread, facts.update_bytes)
        assert facts.running == self.pool.running == len(self.working())
        assert self.ended.is_set() is (self.model.input_ended and not self.working())

    def newly_sent(self) -> list[JsonObject]:
        """Return the messages that the link has sent since the last call, with errors reduced to their codes."""
        try:
            data = self.valve.sent.get_data_nowait()
        except trio.WouldBlock:
            return []
        messages: list[Any] = [decode(line) for line in bytes(data).splitlines()]
        return [each | {"error": each["error"]["code"]} if "error" in each else each for each in messages]


def cancellation(id: Any) -> JsonObject:
    return {"method": "notifications/cancelled", "params": {"requestId": id}}


def one_of(choices: Sequence[T], which: int) -> T:
    return choices[which % len(choices)]


EngineMachine.TestCase.settings = settings(
    max_examples=examples(200),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestEngine = EngineMachine.TestCase
