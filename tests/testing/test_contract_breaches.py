"""The transport contract detects breaches: for each clause there is a transport that breaks it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, cast

import pytest
import trio
import trio.testing
from attrs import evolve

from trio_mcp import ConnectionLost
from trio_mcp.abc import Answerer, Transport, TransportClient, TransportOpener
from trio_mcp.lowlevel import ConnectionStatistics, IncomingRequest, OutgoingRequest
from trio_mcp.testing import (
    FaultyStream,
    RemoteTransportContract,
    StreamContract,
    TransportContract,
    broken_clauses,
    check_contract,
    delay,
    reorder,
    rewrite,
)
from trio_mcp.transports import memory_transport

Wrap = Callable[[trio.abc.Stream], trio.abc.Stream]


# Breaches in the stream of the client or of the server.


class Wrapped(StreamContract):
    def __init__(self, client: Wrap | None = None, server: Wrap | None = None) -> None:
        self.wrap_client, self.wrap_server = client, server

    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        ours: trio.abc.Stream
        theirs: trio.abc.Stream
        ours, theirs = trio.testing.memory_stream_pair()
        return (
            ours if self.wrap_client is None else self.wrap_client(ours),
            theirs if self.wrap_server is None else self.wrap_server(theirs),
        )


def received(change: Callable[[bytes], bytes | None]) -> Wrapped:
    return Wrapped(lambda stream: FaultyStream(stream, receiving=[rewrite(change)]))


def sent(change: Callable[[bytes], bytes | None]) -> Wrapped:
    return Wrapped(lambda stream: FaultyStream(stream, sending=[rewrite(change)]))


def losing(where: bytes) -> Callable[[bytes], bytes | None]:
    return lambda line: None if where in line else line


def progress(value: int) -> Callable[[Any], bool]:
    return lambda message: message.get("params", {}).get("progress") == value


class BrokenStream(trio.abc.Stream):
    """A base class of streams that break the contract."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.stream.aclose()


class NoEnd(BrokenStream):
    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.stream.receive_some(max_bytes) or await trio.sleep_forever()


class ChunksAreMessages(BrokenStream):
    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        chunk = await self.stream.receive_some(max_bytes)
        return chunk + b"\n" if chunk else chunk


class CannotSendAfterEndOfInput(BrokenStream):
    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self.input_ended = trio.Event()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        chunk = await self.stream.receive_some(max_bytes)
        if not chunk:
            self.input_ended.set()
        return chunk

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.input_ended.wait()
        raise trio.BrokenResourceError


class StaysOpen(BrokenStream):
    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def fail_on_junk(line: bytes) -> bytes:
    if not line.startswith(b"{"):
        raise trio.BrokenResourceError
    return line


class OneStream(StreamContract):
    """A contract whose opener can connect only once."""

    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        async with super().served(server) as opener:
            used: list[TransportClient] = []

            @asynccontextmanager
            async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
                if used:
                    raise trio.ClosedResourceError
                used.append(client)
                async with opener(client) as transport:
                    yield transport

            yield connect

    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        return trio.testing.memory_stream_pair()


# Breaches in the transport, between the caller and the connection.


class BrokenTransport:
    """A base class of transports that break the contract."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @property
    def has_fields(self) -> bool:
        return self.transport.has_fields

    def ask(self, method: str, params: Any, *, wants_updates: bool = False) -> OutgoingRequest:
        return self.transport.ask(method, params, wants_updates=wants_updates)

    async def notify(self, method: str, params: Any) -> None:
        await self.transport.notify(method, params)

    async def open_standalone_stream(self) -> None:
        await self.transport.open_standalone_stream()

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        self.transport.on_disconnect(callback)

    def statistics(self) -> ConnectionStatistics:
        return self.transport.statistics()


class AcceptsAnyValue(BrokenTransport):
    def ask(self, method: str, params: Any, *, wants_updates: bool = False) -> OutgoingRequest:
        return super().ask(method, json.loads(json.dumps(params, default=str).replace("NaN", "0")))


class AlwaysWantsUpdates(BrokenTransport):
    def ask(self, method: str, params: Any, *, wants_updates: bool = False) -> OutgoingRequest:
        return super().ask(method, params, wants_updates=True)


class IgnoresDisconnectCallbacks(BrokenTransport):
    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        pass


class CountsNoRequests(BrokenTransport):
    def statistics(self) -> ConnectionStatistics:
        return evolve(super().statistics(), outgoing=0)


class AlteredRequest:
    def __init__(self, outgoing: OutgoingRequest, limit: trio.CapacityLimiter | None = None) -> None:
        self.outgoing = outgoing
        self.limit = limit

    async def __aenter__(self) -> Self:
        if self.limit is not None:
            await self.limit.acquire_on_behalf_of(self)
        await self.outgoing.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.limit is not None:  # one request at a time
            self.limit.release_on_behalf_of(self)
            self.outgoing.leave()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outgoing, name)


class OneAtATime(BrokenTransport):
    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.limit = trio.CapacityLimiter(1)

    def ask(self, method: str, params: Any, *, wants_updates: bool = False) -> OutgoingRequest:
        outgoing = super().ask(method, params, wants_updates=wants_updates)
        return cast("OutgoingRequest", AlteredRequest(outgoing, self.limit))


class NeverLeaves(BrokenTransport):
    def ask(self, method: str, params: Any, *, wants_updates: bool = False) -> OutgoingRequest:
        return cast("OutgoingRequest", AlteredRequest(super().ask(method, params, wants_updates=wants_updates)))


class Transported(TransportContract):
    def __init__(self, transport: type[BrokenTransport]) -> None:
        self.transport = transport

    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        opener = memory_transport(server)

        @asynccontextmanager
        async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
            async with opener(client) as transport:
                yield self.transport(transport)

        yield connect


# Breaches in the opener.


class Opened(TransportContract):
    def __init__(
        self,
        connect: Callable[[TransportOpener, TransportClient, trio.Nursery], AbstractAsyncContextManager[Transport]],
    ) -> None:
        self.connect = connect

    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        async with trio.open_nursery() as nursery:
            yield lambda client: self.connect(memory_transport(server), client, nursery)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def never_closing(
    opener: TransportOpener, client: TransportClient, nursery: trio.Nursery
) -> AsyncGenerator[Transport]:
    async def hold(task_status: trio.TaskStatus[Transport]) -> None:
        async with opener(client) as transport:
            task_status.started(transport)
            await trio.sleep_forever()

    yield cast("Transport", await nursery.start(hold))


@asynccontextmanager
async def wrapping_exceptions(
    opener: TransportOpener, client: TransportClient, _: trio.Nursery
) -> AsyncGenerator[Transport]:
    async with trio.open_nursery(), opener(client) as transport:
        yield transport


@asynccontextmanager
async def hanging_on_failure(
    opener: TransportOpener, client: TransportClient, _: trio.Nursery
) -> AsyncGenerator[Transport]:
    async with opener(client) as transport:
        try:
            yield transport
        except Exception:
            await trio.sleep_forever()
            raise


@asynccontextmanager
async def leaking_a_task(
    opener: TransportOpener, client: TransportClient, nursery: trio.Nursery
) -> AsyncGenerator[Transport]:
    nursery.start_soon(trio.sleep_forever)
    async with opener(client) as transport:
        yield transport


@asynccontextmanager
async def asking_a_modern_client(
    opener: TransportOpener, client: TransportClient, _: trio.Nursery
) -> AsyncGenerator[Transport]:
    async with opener(client) as transport:
        client.answer(cast("IncomingRequest", Question()))
        yield transport


class Question:
    method = "roots/list"


class Untapped:
    tap = None

    def __init__(self, client: TransportClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


def untapped(
    opener: TransportOpener, client: TransportClient, _: trio.Nursery
) -> AbstractAsyncContextManager[Transport]:
    return opener(cast("TransportClient", Untapped(client)))


BREACHES: dict[str, tuple[str, Callable[[], TransportContract]]] = {
    "results are lost": (
        "a_request_is_answered_with_its_result",
        lambda: received(losing(b'"result"')),
    ),
    "a fraction becomes an integer": (
        "values_are_transferred_unchanged",
        lambda: received(lambda line: line.replace(b'"value":1.0', b'"value":1')),
    ),
    "a string becomes a number": (
        "values_are_transferred_unchanged",
        lambda: sent(lambda line: line.replace(b'"value":"1"', b'"value":1')),
    ),
    "large messages are lost": (
        "large_messages_are_transferred_in_both_directions",
        lambda: sent(lambda line: None if len(line) > 100_000 else line),
    ),
    "the data of errors are lost": (
        "an_error_is_raised_with_its_code_message_and_data",
        lambda: received(lambda line: line.replace(b',"data":{"until":"tomorrow"}', b"")),
    ),
    "errors are broken": (
        "an_error_is_raised_with_its_code_message_and_data",
        lambda: received(lambda line: line.replace(b'"code":-5', b'"code":"-5"')),
    ),
    "values that are not JSON are sent": (
        "params_that_are_not_json_are_refused_before_they_are_sent",
        lambda: Transported(AcceptsAnyValue),
    ),
    "updates are reordered": (
        "updates_arrive_in_order_and_before_the_result",
        lambda: Wrapped(lambda stream: FaultyStream(stream, receiving=[reorder(progress(3))])),
    ),
    "the last update comes after the result": (
        "updates_arrive_in_order_and_before_the_result",
        lambda: Wrapped(lambda stream: FaultyStream(stream, receiving=[reorder(progress(1))])),
    ),
    "updates go to the wrong request": (
        "updates_reach_the_request_they_belong_to",
        lambda: received(lambda line: re.sub(rb'"progressToken":\d+', b'"progressToken":1', line)),
    ),
    "every request gets updates": (
        "no_updates_arrive_for_a_request_without_updates",
        lambda: Transported(AlwaysWantsUpdates),
    ),
    "a notification is lost": (
        "notifications_reach_the_server_in_order",
        lambda: sent(losing(b'"notifications/3"')),
    ),
    "a notification overtakes another": (
        "notifications_reach_the_server_in_order",
        lambda: Wrapped(lambda stream: FaultyStream(stream, sending=[reorder("notifications/1")])),
    ),
    "notifications come after the result": (
        "notifications_of_the_server_reach_the_client_in_order",
        lambda: Wrapped(
            lambda stream: FaultyStream(
                stream, receiving=[reorder("notifications/message"), delay(1, "notifications/message")]
            )
        ),
    ),
    "one request at a time": (
        "requests_run_concurrently_and_are_answered_in_any_order",
        lambda: Transported(OneAtATime),
    ),
    "one answer of many is lost": (
        "many_concurrent_requests_each_get_their_own_result",
        lambda: Wrapped(lambda stream: FaultyStream(stream, receiving=[rewrite(lambda _: None, when=150)])),
    ),
    "two answers of many are swapped": (
        "many_concurrent_requests_each_get_their_own_result",
        lambda: received(
            lambda line: re.sub(
                rb'"id":(7|8)\b',
                lambda found: b'"id":7' if found[1] == b"8" else b'"id":8',
                line,
            )
        ),
    ),
    "requests in flight are not counted": (
        "requests_in_flight_are_counted",
        lambda: Transported(CountsNoRequests),
    ),
    "cancellations are lost": (
        "leaving_a_request_stops_its_handler_and_nothing_arrives_afterwards",
        lambda: sent(losing(b"notifications/cancelled")),
    ),
    "a result comes after the cancellation": (
        "leaving_a_request_stops_its_handler_and_nothing_arrives_afterwards",
        lambda: received(lambda line: line + b'\n{"jsonrpc":"2.0","id":1,"result":{}}' if b"stopped" in line else line),
    ),
    "cancellations of callers are lost": (
        "a_cancelled_caller_stops_only_its_own_handler",
        lambda: sent(losing(b"notifications/cancelled")),
    ),
    "leaving a request has no effect": (
        "a_call_may_be_cancelled_at_every_step",
        lambda: Transported(NeverLeaves),
    ),
    "closing does not close, and waiting callers keep waiting": (
        "closing_fails_the_waiting_callers",
        lambda: Opened(never_closing),
    ),
    "closing does not close, and requests are still sent": (
        "after_closing_requests_fail",
        lambda: Opened(never_closing),
    ),
    "disconnect callbacks are not called": (
        "disconnect_callbacks_are_called_once",
        lambda: Transported(IgnoresDisconnectCallbacks),
    ),
    "exceptions are wrapped": (
        "the_exception_of_a_block_is_raised_unchanged",
        lambda: Opened(wrapping_exceptions),
    ),
    "a block that failed is never left": (
        "the_exception_of_a_block_is_raised_unchanged",
        lambda: Opened(hanging_on_failure),
    ),
    "an opener connects only once": (
        "an_opener_can_connect_repeatedly",
        OneStream,
    ),
    "a task is left running": (
        "no_task_outlives_its_connection",
        lambda: Opened(leaking_a_task),
    ),
    "the tap is not called": (
        "the_tap_sees_every_message",
        lambda: Opened(untapped),
    ),
    "a modern client is asked": (
        "a_request_is_answered_with_its_result",
        lambda: Opened(asking_a_modern_client),
    ),
    "legacy revisions do not work": (
        "a_client_works_in_every_revision",
        lambda: sent(losing(b'"initialize"')),
    ),
    "the end is not noticed by waiting callers": (
        "the_end_of_the_connection_fails_the_waiting_callers",
        lambda: Wrapped(client=NoEnd),
    ),
    "the end is not noticed by later callers": (
        "after_the_end_of_the_connection_requests_fail",
        lambda: Wrapped(client=NoEnd),
    ),
    "updates before the end are lost": (
        "updates_received_before_the_end_can_still_be_read",
        lambda: received(losing(b"notifications/progress")),
    ),
    "an opener does not connect again after the end": (
        "a_new_connection_works_after_the_end_of_another",
        OneStream,
    ),
    "ids become strings": (
        "a_response_has_the_unchanged_id_of_its_request",
        lambda: received(lambda line: line.replace(b'"id":7', b'"id":"7"')),
    ),
    "a chunk is a message": (
        "messages_may_arrive_in_any_chunks",
        lambda: Wrapped(server=ChunksAreMessages),
    ),
    "bad input ends the connection": (
        "invalid_messages_are_harmless",
        lambda: Wrapped(server=lambda stream: FaultyStream(stream, receiving=[rewrite(fail_on_junk)])),
    ),
    "the end of input ends the output": (
        "requests_are_answered_after_the_end_of_the_input",
        lambda: Wrapped(server=CannotSendAfterEndOfInput),
    ),
    "a stopped server does not close its stream": (
        "a_cancelled_serving_closes_its_stream",
        lambda: Wrapped(server=StaysOpen),
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
async def test_a_clause_detects_the_transport_that_breaks_it(breach: str, autojump_clock: object) -> None:
    clause, contract = BREACHES[breach]

    with pytest.raises(Exception) as caught:  # noqa: PT011 # each clause raises its own kind of exception
        await getattr(contract(), f"test_{clause}")()
    assert caught.type in (AssertionError, ExceptionGroup, trio.ClosedResourceError)


@pytest.mark.parametrize("breach", BREACHES)
async def test_a_correct_transport_keeps_the_clause_that_a_broken_one_breaks(
    breach: str, autojump_clock: object
) -> None:
    await getattr(Wrapped(), f"test_{BREACHES[breach][0]}")()


def test_every_clause_is_broken_by_some_transport() -> None:
    clauses = {name.removeprefix("test_") for name in dir(StreamContract) if name.startswith("test_")}

    assert {clause for clause, _ in BREACHES.values()} == clauses


def test_every_clause_has_a_description() -> None:
    for name in dir(StreamContract):
        assert not name.startswith("test_") or getattr(StreamContract, name).__doc__


async def test_a_contract_that_is_kept_has_no_broken_clauses(autojump_clock: object) -> None:
    assert await broken_clauses(Wrapped()) == {}
    await check_contract(Wrapped())


async def test_the_broken_clauses_are_raised_together_each_with_its_name(autojump_clock: object) -> None:
    with pytest.raises(ExceptionGroup, match="Opened breaks 1 clauses") as caught:
        await check_contract(Opened(untapped))
    (broken,) = caught.value.exceptions
    assert "messages: expected" in str(broken)
    assert broken.__notes__ == ["clause the_tap_sees_every_message"]


class Incomplete(RemoteTransportContract):
    pass


async def test_a_contract_without_a_way_to_connect_raises_a_clear_error() -> None:
    with pytest.raises(NotImplementedError, match="Incomplete must implement `served`"):
        await Incomplete().test_values_are_transferred_unchanged()
    with pytest.raises(NotImplementedError, match="Incomplete must implement `cut`"):
        await Incomplete().cut(cast("Transport", None))


async def test_a_failure_names_the_expected_and_the_actual_value(autojump_clock: object) -> None:
    contract = received(lambda line: line.replace(b"not today", b"never"))

    with pytest.raises(AssertionError, match=r"the error: expected \(-5, 'not today', .* found \(-5, 'never', "):
        await contract.test_an_error_is_raised_with_its_code_message_and_data()


async def test_a_clause_that_times_out_names_the_expected_event(autojump_clock: object) -> None:
    contract = received(lambda line: line if b"counted" not in line else b"{}")

    with pytest.raises(AssertionError, match="the clause did not finish within 20 s: an event that it"):
        await contract.test_a_request_is_answered_with_its_result()
