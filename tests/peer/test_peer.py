"""The other end of a connection: its notifications, its end, and endless requests."""

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
from .raw_peer import Bench, cancelled, client_admission, linked, modern, notification, result, shaken

MODERN = REVISIONS[-1]
ID = "io.modelcontextprotocol/subscriptionId"
LISTEN: JsonObject = {"notifications": {}, "_meta": {REVISION_KEY: MODERN, CAPABILITIES_KEY: {}}}


@define(eq=False)
class Ears:
    """A listener that writes down."""

    news: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)
    outcomes: list[JsonObject | Exception] = field(factory=list["JsonObject | Exception"], init=False)

    def on_notification(self, method: str, params: JsonObject) -> None:
        self.news.append((method, params))

    def on_outcome(self, outcome: JsonObject | Exception) -> None:
        self.outcomes.append(outcome)


async def test_notifications_of_no_exchange_are_sent_through_the_peer(autojump_clock: object) -> None:
    async with linked() as bench:
        link = bench.link
        assert not link.admission.operating
        await shaken(bench, "2025-11-25")
        await wait_all_tasks_blocked()
        assert link.admission.operating
        assert link.has_room()
        await link.room()
        link.notify_nowait("notifications/x", {"a": 1})
        assert await bench.peer.receive() == notification("notifications/x", {"a": 1})


async def test_a_client_operates_once_it_knows_what_the_server_speaks() -> None:
    assert not client_admission(None).operating
    assert client_admission(MODERN).operating


@pytest.mark.parametrize("how", ["stopped", "broken"])
async def test_the_end_of_a_connection_calls_each_callback_once(how: str) -> None:
    told: list[ConnectionLost] = []
    async with linked() as bench:
        bench.link.on_disconnect(told.append)
        bench.link.on_disconnect(told.append)
        assert bench.link.has_room()
        if how == "stopped":
            bench.link.stop()
        else:
            await bench.peer.stream.aclose()
        await bench.ended.wait()
        assert len(told) == 2
        bench.link.on_disconnect(told.append)  # it is so already
    assert {type(reason) for reason in told} == {ConnectionClosed if how == "stopped" else ConnectionBroken}
    assert len({id(reason) for reason in told}) == 3
    assert not bench.link.has_room()


async def test_a_request_that_listens_hears_what_names_it_until_it_ends(autojump_clock: object) -> None:
    async with linked(admission=client_admission(MODERN)) as bench:
        ears, asked = Ears(), bench.link.ask("subscriptions/listen", LISTEN)
        asked.listener = ears
        async with asked:
            await bench.peer.send(
                notification("notifications/a", {"_meta": {ID: 1}, "n": 1}),
                notification("notifications/b", {"_meta": {ID: "1"}}),
                notification("notifications/c", {"_meta": {ID: 2}}),
                notification("notifications/d"),
                result(1, {"done": True}),
                notification("notifications/e", {"_meta": {ID: 1}}),
            )
            assert await asked.result() == {"done": True}
        await wait_all_tasks_blocked()
        assert ears.news == [("notifications/a", {"_meta": {ID: 1}, "n": 1})]
        assert ears.outcomes == [{"done": True}]
        assert [method[-1] for method, _ in bench.heard] == ["b", "c", "d", "e"]


async def test_a_request_that_was_left_hears_nothing() -> None:
    async with linked(admission=client_admission(MODERN)) as bench:
        ears, asked = Ears(), bench.link.ask("subscriptions/listen", LISTEN)
        asked.listener = ears
        async with asked:
            pass
        assert not asked.deliver("notifications/a", {})
        assert (ears.news, ears.outcomes) == ([], [])


async def test_only_a_request_that_listens_may_be_ended_by_the_other_side(autojump_clock: object) -> None:
    async with (
        linked(admission=client_admission(MODERN)) as bench,
        bench.link.ask("subscriptions/listen", LISTEN) as listening,
        bench.link.ask("m", None) as other,
    ):
        await bench.peer.send(cancelled(2), cancelled(1), cancelled(3))
        assert await listening.result() == {}
        await bench.peer.send(result(2, {"still": "there"}))
        assert await other.result() == {"still": "there"}


def endless(bench: Bench, last_words: Any = None) -> Any:
    """Make the bench answer every request by a handler that never ends by itself."""

    async def forever(_: HandlerRun) -> JsonObject:
        await trio.sleep_forever()
        raise AssertionError

    def answer(asked: IncomingRequest) -> None:
        bench.pool.begin(asked, forever, lambda exc: McpError(-1, repr(exc)), asked.peer.listens)
        if asked.run is not None:
            asked.run.closing_result = last_words or (lambda: {"end": asked.id})

    bench.link._answer = answer


async def test_requests_without_an_end_are_ended_first_and_hold_nothing_up(autojump_clock: object) -> None:
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
        bench.link.outbox.size += 1  # as if the other side did not read
        bench.link.stop()
        await wait_all_tasks_blocked()
        bench.link.outbox.size -= 1
        await bench.ended.wait()
        assert bench.holds_nothing()


async def test_an_exchange_without_a_transport_of_its_own_way_is_concluded_by_its_result(
    nursery: trio.Nursery,
) -> None:
    pool, asked = HandlerPool(nursery), exchange()

    async def forever(_: HandlerRun) -> JsonObject:
        await trio.sleep_forever()
        raise AssertionError

    pool.begin(asked, forever, lambda exc: McpError(-1, repr(exc)))
    assert not asked.endless
    assert asked.run is not None
    asked.run.closing_result = lambda: {"end": True}
    assert asked.endless
    asked.abandon()
    await wait_all_tasks_blocked()
    assert asked.sent == [{"end": True}]
    assert not asked.endless
    assert pool.running == 0
