"""The peer as handlers see it: notifications, disconnection, and endless requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from trio_mcp import ConnectionBroken, ConnectionClosed, ConnectionLost, McpError
from trio_mcp.peer import HandlerPool, HandlerRun, IncomingRequest, Limits
from trio_mcp.types import REVISIONS
from trio_mcp.wire import CAPABILITIES_KEY, REVISION_KEY, JsonObject

from .fake_exchange import exchange
from .raw_peer import Bench, cancelled, client_admission, handshake, linked, modern, notification, result

MODERN = REVISIONS[-1]
ID = "io.modelcontextprotocol/subscriptionId"
LISTEN: JsonObject = {"notifications": {}, "_meta": {REVISION_KEY: MODERN, CAPABILITIES_KEY: {}}}


@define(eq=False)
class RecordingListener:
    """A listener that records notifications and outcomes."""

    notifications: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)
    outcomes: list[JsonObject | Exception] = field(factory=list["JsonObject | Exception"], init=False)

    def on_notification(self, method: str, params: JsonObject) -> None:
        self.notifications.append((method, params))

    def on_outcome(self, outcome: JsonObject | Exception) -> None:
        self.outcomes.append(outcome)


async def test_notifications_outside_an_exchange_are_sent_through_the_peer(autojump_clock: object) -> None:
    async with linked() as bench:
        link = bench.link
        assert not link.admission.operating
        await handshake(bench, "2025-11-25")
        await wait_all_tasks_blocked()
        assert link.admission.operating
        assert link.has_room()
        await link.room()
        link.notify_nowait("notifications/x", {"a": 1})
        assert await bench.peer.receive() == notification("notifications/x", {"a": 1})


async def test_a_client_session_operates_after_agreement_on_a_revision() -> None:
    assert not client_admission(None).operating
    assert client_admission(MODERN).operating


@pytest.mark.parametrize("how", ["stopped", "broken"])
async def test_the_end_of_a_connection_calls_each_disconnect_callback_once(how: str) -> None:
    reasons: list[ConnectionLost] = []
    async with linked() as bench:
        bench.link.on_disconnect(reasons.append)
        bench.link.on_disconnect(reasons.append)
        assert bench.link.has_room()
        if how == "stopped":
            bench.link.stop()
        else:
            await bench.peer.stream.aclose()
        await bench.ended.wait()
        assert len(reasons) == 2
        bench.link.on_disconnect(reasons.append)  # the connection has ended already
    assert {type(reason) for reason in reasons} == {ConnectionClosed if how == "stopped" else ConnectionBroken}
    assert len({id(reason) for reason in reasons}) == 3
    assert not bench.link.has_room()


async def test_a_listening_request_receives_the_notifications_that_name_it_until_it_ends(
    autojump_clock: object,
) -> None:
    async with linked(admission=client_admission(MODERN)) as bench:
        listener, outgoing = RecordingListener(), bench.link.ask("subscriptions/listen", LISTEN)
        outgoing.listener = listener
        async with outgoing:
            await bench.peer.send(
                notification("notifications/a", {"_meta": {ID: 1}, "n": 1}),
                notification("notifications/b", {"_meta": {ID: "1"}}),
                notification("notifications/c", {"_meta": {ID: 2}}),
                notification("notifications/d"),
                result(1, {"done": True}),
                notification("notifications/e", {"_meta": {ID: 1}}),
            )
            assert await outgoing.result() == {"done": True}
        await wait_all_tasks_blocked()
        assert listener.notifications == [("notifications/a", {"_meta": {ID: 1}, "n": 1})]
        assert listener.outcomes == [{"done": True}]
        assert [method[-1] for method, _ in bench.notifications] == ["b", "c", "d", "e"]


async def test_a_listening_request_that_was_left_receives_nothing() -> None:
    async with linked(admission=client_admission(MODERN)) as bench:
        listener, outgoing = RecordingListener(), bench.link.ask("subscriptions/listen", LISTEN)
        outgoing.listener = listener
        async with outgoing:
            pass
        assert not outgoing.deliver("notifications/a", {})
        assert (listener.notifications, listener.outcomes) == ([], [])


async def test_the_peer_may_cancel_only_a_listening_request(autojump_clock: object) -> None:
    async with (
        linked(admission=client_admission(MODERN)) as bench,
        bench.link.ask("subscriptions/listen", LISTEN) as listening,
        bench.link.ask("m", None) as other,
    ):
        await bench.peer.send(cancelled(2), cancelled(1), cancelled(3))
        assert await listening.result() == {}
        await bench.peer.send(result(2, {"still": "there"}))
        assert await other.result() == {"still": "there"}


def endless(bench: Bench, closing_result: Any = None) -> Any:
    """Make the link answer every request by a handler that never ends by itself."""

    async def forever(_: HandlerRun) -> JsonObject:
        await trio.sleep_forever()
        raise AssertionError

    def answer(incoming: IncomingRequest) -> None:
        bench.pool.begin(incoming, forever, lambda exc: McpError(-1, repr(exc)), incoming.peer.listens)
        if incoming.run is not None:
            incoming.run.closing_result = closing_result or (lambda: {"end": incoming.id})

    bench.link._answer = answer


async def test_endless_requests_are_ended_first_and_do_not_delay_the_end_of_the_link(autojump_clock: object) -> None:
    async with linked() as bench:
        endless(bench)
        await bench.peer.send(modern("a", "listen"), modern(2, "listen"))
        await wait_all_tasks_blocked()
        facts = bench.link.statistics()
        assert (facts.running, bench.link.slots.running, bench.link.listens.running) == (2, 0, 2)
        began = trio.current_time()
        bench.link.stop()
        messages = await bench.peer.rest()
        await bench.ended.wait()
        assert trio.current_time() == began
        assert bench.holds_nothing()
    assert messages == [
        message
        for id in ("a", 2)
        for message in (result(id, {"end": id}), cancelled(id, reason="the server stops", _meta={ID: id}))
    ]


async def test_a_closing_result_that_breaks_the_connection_is_the_last_message(autojump_clock: object) -> None:
    async with linked(limits=Limits(outbox_bytes=1, outbox_urgent_bytes=120)) as bench:
        endless(bench)
        await bench.peer.send(modern(1, "listen"), modern(2, "listen"))
        await wait_all_tasks_blocked()
        bench.link.outbox.size += 1  # as if the peer did not read
        bench.link.stop()
        await wait_all_tasks_blocked()
        bench.link.outbox.size -= 1
        await bench.ended.wait()
        assert bench.holds_nothing()


async def test_an_abandoned_endless_exchange_is_answered_with_its_closing_result(
    nursery: trio.Nursery,
) -> None:
    pool, incoming = HandlerPool(nursery), exchange()

    async def forever(_: HandlerRun) -> JsonObject:
        await trio.sleep_forever()
        raise AssertionError

    pool.begin(incoming, forever, lambda exc: McpError(-1, repr(exc)))
    assert not incoming.endless
    assert incoming.run is not None
    incoming.run.closing_result = lambda: {"end": True}
    assert incoming.endless
    incoming.abandon()
    await wait_all_tasks_blocked()
    assert incoming.sent == [{"end": True}]
    assert not incoming.endless
    assert pool.running == 0
