"""A link and a raw peer: responses, batches, invalid input and the end of the connection."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import ConnectionBroken, ConnectionClosed, ConnectionLost, ErrorResponse, McpError, ServerExited
from trio_mcp.peer import ConnectionStatistics, HandlerRun, HandshakeState, Limits, ServerSession
from trio_mcp.types import REVISIONS
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REVISION_KEY,
    JsonObject,
    encode,
)

from .raw_peer import (
    Pair,
    cancelled,
    client_admission,
    handshake,
    initialize,
    linked,
    modern,
    notification,
    pipe_pair,
    request,
    result,
)

LEGACY = REVISIONS[:-1]
PAIRS: list[Pair] = [memory_stream_pair, lockstep_stream_pair, pipe_pair]
all_pairs = pytest.mark.parametrize("pair", PAIRS)


async def echo(run: HandlerRun) -> JsonObject:
    await trio.lowlevel.checkpoint()
    assert run.exchange is not None
    return {"echo": {key: value for key, value in (run.exchange.params or {}).items() if key != "_meta"}}


async def forever(_: HandlerRun) -> JsonObject:
    await trio.Event().wait()
    return {}


HANDLERS = {"echo": echo, "forever": forever}


def error(id: Any, code: int, message: str | None = None) -> Any:
    """Return an error response; an id of `...` is left out, and the message is None if it does not matter."""
    shape = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
    return shape if id is ... else {**shape, "id": id}


def shape(message: Any) -> Any:
    """Replace the message of an error response by None."""
    message["error"]["message"] = None
    return message


@pytest.mark.requirement("G.15")
@all_pairs
async def test_a_request_is_answered_and_leaves_nothing_in_the_link(pair: Pair) -> None:
    async with linked(HANDLERS, pair=pair) as bench:
        assert await bench.peer.exchange(modern(1, "echo", {"a": 1})) == result(1, {"echo": {"a": 1}})
        assert await bench.peer.exchange(modern("1", "echo")) == result("1", {"echo": {}})
        assert bench.holds_nothing()


@pytest.mark.requirement("B.1-P4a")
@all_pairs
async def test_requests_are_answered_in_the_order_in_which_they_finish(pair: Pair) -> None:
    go = trio.Event()

    async def slow(_: HandlerRun) -> JsonObject:
        await go.wait()
        return {"slow": True}

    async with linked({"echo": echo, "slow": slow}, pair=pair) as bench:
        await bench.peer.send(modern(1, "slow"))
        assert await bench.peer.exchange(modern(2, "echo")) == result(2, {"echo": {}})
        await wait_all_tasks_blocked()
        assert bench.link.statistics() == ConnectionStatistics(
            outgoing=0,
            incoming=1,
            running=1,
            queued=0,
            outbox_bytes=0,
            update_bytes=0,
            unmatched_responses=0,
            malformed=0,
        )
        go.set()
        assert await bench.peer.receive() == result(1, {"slow": True})


@all_pairs
async def test_updates_of_an_exchange_leave_before_its_response(pair: Pair) -> None:
    async def talk(run: HandlerRun) -> JsonObject:
        exchange = run.exchange
        assert exchange is not None
        for number in range(3):
            await exchange.room()
            exchange.notify("notifications/progress", {"progress": number})
        return {}

    async with linked({"talk": talk}, pair=pair) as bench:
        await bench.peer.send(modern(1, "talk"))
        updates = [await bench.peer.receive() for _ in range(3)]

        assert updates == [notification("notifications/progress", {"progress": number}) for number in range(3)]
        assert await bench.peer.receive() == result(1, {})


@pytest.mark.requirement("B.5-S3c", "B.12-P2b", "G.2")
@all_pairs
async def test_a_cancelled_request_is_never_answered(pair: Pair, autojump_clock: MockClock) -> None:
    stopped = trio.Event()

    async def handler(run: HandlerRun) -> JsonObject:
        exchange = run.exchange
        assert exchange is not None
        try:
            await trio.Event().wait()
        finally:
            exchange.notify("notifications/progress", {"too": "late"})
            stopped.set()
        return {}

    async with linked({"wait": handler}, pair=pair) as bench:
        await bench.peer.send(modern(1, "wait"))
        await wait_all_tasks_blocked()
        await bench.peer.send(cancelled(1, reason="changed my mind"))
        await stopped.wait()

        await bench.peer.expect_silence()
        assert bench.holds_nothing()


@pytest.mark.parametrize("at_once", [True, False], ids=["in one read", "in two reads"])
async def test_a_cancelled_handler_notices_before_the_next_message_is_processed(at_once: bool) -> None:
    notifications_seen: list[int] = []

    async def wait(_: HandlerRun) -> JsonObject:
        try:
            await trio.sleep_forever()
        finally:
            notifications_seen.append(len(bench.notifications))
        raise AssertionError

    async with linked({"wait": wait}, pair=pipe_pair) as bench:
        for number in range(40):  # which of two tasks runs first is random in Trio
            await bench.peer.send(modern(number, "wait"))
            await wait_all_tasks_blocked()
            parts = [encode(message) + b"\n" for message in (cancelled(number), notification("n"))]
            for part in [b"".join(parts)] if at_once else parts:
                await bench.peer.stream.send_all(part)
            await wait_all_tasks_blocked()

    assert notifications_seen == list(range(40))


async def test_a_link_that_stopped_ignores_the_rest_of_the_chunk_after_a_cancellation() -> None:
    async def wait(_: HandlerRun) -> JsonObject:
        try:
            await trio.sleep_forever()
        finally:
            bench.link.stop()
        raise AssertionError

    async with linked({"wait": wait}, pair=pipe_pair) as bench:
        await bench.peer.send(modern(1, "wait"))
        await wait_all_tasks_blocked()
        lines = [encode(message) + b"\n" for message in (cancelled(1), notification("n"))]
        await bench.peer.stream.send_all(b"".join(lines))
        await bench.ended.wait()

    assert bench.notifications == []


async def test_a_cancellation_of_an_unknown_request_does_not_delay_the_next_messages(autojump_clock: MockClock) -> None:
    passes = 0

    async def count() -> None:
        nonlocal passes
        while len(bench.notifications) < 1:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with linked(pair=memory_stream_pair) as bench, trio.open_nursery() as nursery:
        messages = [*(cancelled(number) for number in range(14)), notification("n")]
        await wait_all_tasks_blocked()
        nursery.start_soon(count)
        await bench.peer.stream.send_all(b"".join(encode(message) + b"\n" for message in messages))

    assert passes < 14


@pytest.mark.requirement("B.12-P4b")
async def test_the_reason_of_a_cancellation_is_logged_up_to_a_limited_length(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp.peer")

    async with linked(HANDLERS) as bench:
        await bench.peer.send(modern(1, "forever"), cancelled(1, reason="changed my mind" + "!" * 1000))
        await wait_all_tasks_blocked()

    assert "forever 1: the peer cancelled the request: changed my mind!!!" in caplog.text
    assert "!" * 300 not in caplog.text


@pytest.mark.requirement("B.12-P2c")
@pytest.mark.parametrize("id", [99, "1", True, 1.0, None, [1], {}])
async def test_a_cancellation_that_names_no_request_in_flight_is_ignored(id: Any, autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(modern(1, "forever"), cancelled(id), notification("notifications/cancelled"))

        await bench.peer.expect_silence()
        assert bench.link.statistics().incoming == 1
        assert bench.link.statistics().malformed == 0


@pytest.mark.requirement("B.12-P4a")
async def test_a_cancellation_of_an_answered_request_is_ignored(autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        assert await bench.peer.exchange(modern(1, "echo")) == result(1, {"echo": {}})
        await bench.peer.send(cancelled(1))

        await bench.peer.expect_silence()
        assert await bench.peer.exchange(modern(1, "echo")) == result(1, {"echo": {}})


@all_pairs
async def test_a_request_with_the_id_of_a_request_in_flight_is_refused_without_an_id(
    pair: Pair, autojump_clock: MockClock
) -> None:
    async with linked(HANDLERS, pair=pair) as bench:
        await bench.peer.send(modern(1, "forever"))
        answer = await bench.peer.exchange(modern(1, "echo"))

        assert answer == error(..., INVALID_REQUEST, "a request with the id 1 is in flight already")
        assert await bench.peer.exchange(modern("1", "echo")) == result("1", {"echo": {}})
        assert bench.link.statistics().incoming == 1


async def test_an_id_may_be_used_again_after_its_request_was_answered_or_cancelled() -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(modern(1, "forever"), cancelled(1))
        for _ in range(3):
            assert await bench.peer.exchange(modern(1, "echo")) == result(1, {"echo": {}})


async def test_initialize_that_was_refused_for_its_id_may_be_sent_again_with_another() -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(modern(1, "forever"))
        answer = await bench.peer.exchange(initialize(1, LEGACY[-1]))

        assert shape(answer) == error(..., INVALID_REQUEST)
        assert await bench.peer.exchange(initialize(2, LEGACY[-1])) == result(2, {"revision": LEGACY[-1]})


async def test_the_end_of_an_exchange_does_not_end_a_newer_one_with_the_same_id(autojump_clock: MockClock) -> None:
    """A cancelled handler that cleans up for long does not remove the newer request with the same id."""

    async def lingers(_: HandlerRun) -> JsonObject:
        try:
            await trio.Event().wait()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
        return {}

    async with linked({**HANDLERS, "lingers": lingers}) as bench:
        await bench.peer.send(modern(1, "lingers"), cancelled(1), modern(1, "forever"))
        await trio.sleep(20)

        facts = bench.link.statistics()
        assert (facts.incoming, facts.running) == (1, 1)


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_handshake_determines_the_revision_of_later_requests(revision: str) -> None:
    async with linked(HANDLERS) as bench:
        await handshake(bench, revision)

        assert await bench.peer.exchange(request(1, "echo", {"a": 1})) == result(1, {"echo": {"a": 1}})
        assert bench.notifications == [("notifications/initialized", {})]
        for id, other in enumerate(LEGACY, 2):  # as the clients of a gateway make them
            assert await bench.peer.exchange(initialize(id, other)) == result(id, {"revision": other})
            assert await bench.peer.exchange(request("p", "ping")) == result("p", {"revision": other})


BAD_LINES: list[tuple[bytes, Any]] = [
    (b"junk\n", error(None, PARSE_ERROR)),
    (b'{"jsonrpc": "2.0"\n', error(None, PARSE_ERROR)),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}\n', error(None, PARSE_ERROR)),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": NaN}}\n', error(None, PARSE_ERROR)),
    (b"[" * 100_000 + b"\n", error(None, PARSE_ERROR)),
    (b" " * 300_000 + b"\n", error(None, INVALID_REQUEST)),
    (b"5\n", error(None, INVALID_REQUEST)),
    (b"[]\n", error(None, INVALID_REQUEST)),
    (b'{"jsonrpc": "2.0", "id": null, "method": "m"}\n', error(None, INVALID_REQUEST)),
    (b'{"jsonrpc": "2.0", "id": true, "method": "m"}\n', error(None, INVALID_REQUEST)),
    (b'{"id": 5, "method": "m"}\n', error(5, INVALID_REQUEST)),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "m", "params": [1]}\n', error(5, INVALID_PARAMS)),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "m", "params": {"_meta": 1}}\n', error(5, INVALID_PARAMS)),
    (b'{"jsonrpc": "2.0", "id": "x", "method": "unknown"}\n', error("x", METHOD_NOT_FOUND)),
]


@pytest.mark.parametrize("revision", [None, *LEGACY])
@pytest.mark.parametrize(("line", "answer"), BAD_LINES, ids=[repr(line[:60]) for line, _ in BAD_LINES])
@all_pairs
async def test_a_bad_line_is_answered_as_the_revision_requires_and_the_link_survives(
    pair: Pair, line: bytes, answer: Any, revision: str | None
) -> None:
    async with linked(HANDLERS, pair=pair, limits=Limits(max_message_bytes=200_000)) as bench:
        if revision is not None:
            await handshake(bench, revision)
        elif answer["error"]["code"] == METHOD_NOT_FOUND:
            answer = error("x", INVALID_PARAMS)  # a request before any handshake, without an envelope

        expected = {**answer}
        if expected["id"] is None and revision in {None, LEGACY[-1]}:
            del expected["id"]  # later schemas have no errors with a null id, earlier ones no errors without an id
        assert shape(await bench.peer.exchange(line)) == expected
        assert await bench.peer.exchange(modern(1, "echo")) == result(1, {"echo": {}})


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"  \t \n"])
async def test_blank_lines_are_ignored(line: bytes) -> None:
    async with linked(HANDLERS) as bench:
        assert await bench.peer.exchange(line, modern(1, "echo")) == result(1, {"echo": {}})
        assert bench.link.statistics().malformed == 0


@all_pairs
async def test_an_incomplete_line_at_the_end_of_input_is_answered_with_a_parse_error(pair: Pair) -> None:
    async with linked(HANDLERS, pair=pair) as bench:
        async with trio.open_nursery() as nursery:

            async def send_half_a_line() -> None:
                await bench.peer.send(b'{"jsonrpc": "2.0", "id": 1')
                await bench.peer.send_eof()

            nursery.start_soon(send_half_a_line)
            assert [shape(line) for line in await bench.peer.rest()] == [error(..., PARSE_ERROR)]
        await bench.ended.wait()


@all_pairs
async def test_a_complete_last_line_without_a_newline_is_answered(pair: Pair) -> None:
    async with linked(HANDLERS, pair=pair) as bench:
        await bench.peer.send(encode(modern(1, "echo")))
        await bench.peer.send_eof()

        assert await bench.peer.rest() == [result(1, {"echo": {}})]


@pytest.mark.parametrize("revision", [None, *LEGACY])
async def test_unexpected_responses_are_counted_and_dropped(revision: str | None, autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        if revision is not None:
            await handshake(bench, revision)
        unasked = {"jsonrpc": "2.0", "id": "7", "error": {"code": 1, "message": "no"}}
        await bench.peer.send(result(7, {}), unasked)

        await bench.peer.expect_silence()
        assert bench.link.statistics().unmatched_responses == 2
        assert bench.link.statistics().malformed == 0


async def test_broken_responses_are_counted_logged_and_not_answered(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(HANDLERS) as bench:
        nameless = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}}
        await bench.peer.send(result(None, {}), result(7, []), nameless)

        await bench.peer.expect_silence()
        assert bench.link.statistics().malformed == 3
        assert bench.link.statistics().unmatched_responses == 1
    assert [record.getMessage() for record in caplog.records] == [
        "a broken response: a result without a usable 'id'",
        "a broken response: 'result' is an array, not an object",
        "the peer could not read a message: what? (-32700)",
    ]


@pytest.mark.requirement("B.1-P6b")
async def test_notifications_reach_the_owner_of_the_link_and_are_never_answered(autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(notification("a"), notification("b", {"c": 1}), notification("notifications/progress"))

        await bench.peer.expect_silence()
        assert bench.notifications == [("a", {}), ("b", {"c": 1})]


@pytest.mark.parametrize("token", [1, "1", True, None, 5, [1], 1.0])
async def test_progress_for_an_unknown_request_is_ignored(token: Any, autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(notification("notifications/progress", {"progressToken": token, "progress": 1}))

        await bench.peer.expect_silence()
        assert bench.holds_nothing()


async def test_a_result_that_is_not_json_is_answered_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def nan(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"value": [float("nan")]}

    async def surrogate(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        raise McpError(1, "lone \ud800")

    async with linked({**HANDLERS, "nan": nan, "surrogate": surrogate}) as bench:
        answer = await bench.peer.exchange(modern(1, "nan"))
        message = "the answer to 'nan' is not JSON; the log says where"
        assert answer == error(1, INTERNAL_ERROR, message)
        answer = await bench.peer.exchange(modern(2, "surrogate"))
        assert shape(answer) == error(2, INTERNAL_ERROR)
        assert await bench.peer.exchange(modern(3, "echo")) == result(3, {"echo": {}})
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]
    assert "$.result.value[0]: NaN" in caplog.text


async def test_a_handshake_whose_result_is_not_json_can_be_repeated() -> None:
    async def nan(_: HandlerRun) -> JsonObject:
        await trio.lowlevel.checkpoint()
        return {"instructions": float("nan")}

    async with linked({**HANDLERS, "initialize": nan}) as bench:
        await bench.peer.exchange(initialize(1, "2025-06-18"))

        assert isinstance(bench.link.admission, ServerSession)
        assert bench.link.admission.state is HandshakeState.NOT_BEGUN


async def test_protocol_violations_are_counted_and_only_the_first_ones_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with linked(HANDLERS) as bench:
        for _ in range(15):
            await bench.peer.exchange(b"junk\n")

        assert bench.link.statistics().malformed == 15
    assert len(caplog.records) == 11
    assert "only counted" in caplog.text


@pytest.mark.parametrize("depth", [300, 450, 600, 800, 950])
async def test_deeply_nested_arguments_are_echoed_or_refused(depth: int) -> None:
    deep = b"[" * depth + b"null" + b"]" * depth
    meta = encode({REVISION_KEY: REVISIONS[-1], CAPABILITIES_KEY: {}})
    line = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"deep":%b,"_meta":%b}}\n' % (deep, meta)
    async with linked(HANDLERS) as bench:
        await bench.peer.send(line)
        chunk = bytes(await bench.peer.stream.receive_some())

        assert deep in chunk or b'"error"' in chunk
        assert await bench.peer.exchange(modern(2, "echo")) == result(2, {"echo": {}})


async def test_a_peer_that_keeps_violating_the_protocol_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with linked(HANDLERS, admission=client_admission(REVISIONS[-1])) as bench:
        await bench.peer.send(b"junk\n" * 10_000)
        await wait_all_tasks_blocked()

        assert bench.link.statistics().malformed == 10_000
    assert len(caplog.records) < 1000


# -- batches


def batch(*messages: Any) -> bytes:
    return encode(list(messages)) + b"\n"


@pytest.mark.requirement("B.1-P8")
@pytest.mark.parametrize("revision", [None, *[revision for revision in LEGACY if revision != "2025-03-26"]])
async def test_a_batch_is_refused_in_revisions_without_batches(revision: str | None) -> None:
    async with linked(HANDLERS) as bench:
        if revision is not None:
            await handshake(bench, revision)
        answer = await bench.peer.exchange(batch(modern(1, "echo")))

        expected_id = ... if revision in {None, LEGACY[-1]} else None
        assert answer == error(expected_id, INVALID_REQUEST, "batches exist in revision 2025-03-26 only")
        assert bench.link.statistics().malformed == 1


@pytest.mark.requirement("B.1-P7a", "G.16")
@all_pairs
async def test_a_batch_is_answered_with_one_array_when_its_last_request_is_done(pair: Pair) -> None:
    go = trio.Event()

    async def slow(_: HandlerRun) -> JsonObject:
        await go.wait()
        return {"slow": True}

    async with linked({"echo": echo, "slow": slow}, pair=pair) as bench:
        await handshake(bench, "2025-03-26")
        await bench.peer.send(batch(request(1, "slow"), request(2, "echo"), request(3, "ping"), notification("n")))
        await wait_all_tasks_blocked()
        assert bench.link.outbox.size == 0
        go.set()

        assert sorted(await bench.peer.receive(), key=lambda answer: answer["id"]) == [
            result(1, {"slow": True}),
            result(2, {"echo": {}}),
            result(3, {"revision": "2025-03-26"}),
        ]
        assert bench.notifications[1:] == [("n", {})]
        assert bench.holds_nothing()


@pytest.mark.requirement("B.1-P7b")
@all_pairs
async def test_bad_members_of_a_batch_are_refused_in_the_array_of_responses(pair: Pair) -> None:
    async with linked(HANDLERS, pair=pair) as bench:
        await handshake(bench, "2025-03-26")
        answers = await bench.peer.exchange(
            batch(
                1,
                request(None, "echo"),
                request(1, "echo", [1]),
                initialize(2, "2025-03-26"),
                request(3, "unknown"),
                request(4, "echo", {"_meta": 1}),
                request(5, "echo"),
                request(5, "echo"),
                [],
            )
        )

        assert [answer.get("error", {}).get("code") for answer in answers] == [
            INVALID_REQUEST,
            INVALID_REQUEST,
            INVALID_PARAMS,
            INVALID_REQUEST,
            METHOD_NOT_FOUND,
            INVALID_PARAMS,
            INVALID_REQUEST,
            INVALID_REQUEST,
            None,
        ]
        assert [answer["id"] for answer in answers] == [None, None, 1, 2, 3, 4, None, None, 5]
        assert answers[3]["error"]["message"] == "'initialize' cannot be part of a batch"
        assert answers[-1] == result(5, {"echo": {}})


@pytest.mark.requirement("B.1-P7c")
async def test_an_empty_batch_is_refused() -> None:
    async with linked(HANDLERS) as bench:
        await handshake(bench, "2025-03-26")

        assert await bench.peer.exchange(b"[]\n") == error(None, INVALID_REQUEST, "an empty batch")


@pytest.mark.requirement("B.1-P7c")
@pytest.mark.parametrize(
    "line",
    [
        batch(notification("a"), notification("b")),
        batch(result(1, {})),
        batch(request(1, "forever"), cancelled(1)),
    ],
)
async def test_a_batch_that_needs_no_response_is_not_answered(line: bytes, autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        await handshake(bench, "2025-03-26")
        await bench.peer.send(line)

        await bench.peer.expect_silence()
        assert bench.holds_nothing()


async def test_the_response_to_a_batch_does_not_wait_for_a_cancelled_member(autojump_clock: MockClock) -> None:
    async with linked(HANDLERS) as bench:
        await handshake(bench, "2025-03-26")
        await bench.peer.send(batch(request(1, "forever"), request(2, "echo")))
        await bench.peer.expect_silence()

        assert await bench.peer.exchange(cancelled(1)) == [result(2, {"echo": {}})]
        assert bench.holds_nothing()


# -- the end of the connection


@all_pairs
async def test_after_the_end_of_input_accepted_requests_are_answered(pair: Pair, autojump_clock: MockClock) -> None:
    go = trio.Event()

    async def slow(_: HandlerRun) -> JsonObject:
        await go.wait()
        return {"slow": True}

    async with linked({"slow": slow}, pair=pair) as bench:
        began = trio.current_time()
        await bench.peer.send(modern(1, "slow"), modern(2, "slow"))
        await bench.peer.send_eof()
        await wait_all_tasks_blocked()
        assert not bench.ended.is_set()
        with pytest.raises(ConnectionBroken, match="the peer ended the connection"):
            async with bench.link.ask("m", None):
                pass
        go.set()

        assert sorted(answer["id"] for answer in await bench.peer.rest()) == [1, 2]
        await bench.ended.wait()
        assert trio.current_time() == began  # the end does not wait for the whole drain time


@all_pairs
async def test_after_the_drain_time_the_remaining_requests_are_answered_that_the_server_stopped(
    pair: Pair, autojump_clock: MockClock
) -> None:
    async with linked(HANDLERS, pair=pair, limits=Limits(drain_seconds=3)) as bench:
        began = trio.current_time()
        await bench.peer.send(modern(1, "forever"), modern(2, "forever"))
        await bench.peer.send_eof()
        answers = await bench.peer.rest()

        assert trio.current_time() - began == 3
        stopped = "the server stopped before the request was done"
        assert answers == [error(1, INTERNAL_ERROR, stopped), error(2, INTERNAL_ERROR, stopped)]
        await bench.ended.wait()
        await wait_all_tasks_blocked()
        assert bench.holds_nothing()


@all_pairs
async def test_stop_accepts_no_new_requests_and_lets_those_in_flight_finish(pair: Pair) -> None:
    go = trio.Event()

    async def slow(_: HandlerRun) -> JsonObject:
        await go.wait()
        return {"slow": True}

    async with linked({"slow": slow}, pair=pair) as bench:
        await bench.peer.send(modern(1, "slow"))
        await wait_all_tasks_blocked()
        bench.link.stop()
        bench.link.stop()
        await wait_all_tasks_blocked()
        assert type(bench.link.lost) is ConnectionClosed
        go.set()

        assert await bench.peer.rest() == [result(1, {"slow": True})]


async def test_stop_before_the_first_byte_ends_the_link() -> None:
    async with linked() as bench:
        bench.link.stop()
        await bench.ended.wait()

        assert await bench.peer.rest() == []


@all_pairs
async def test_a_cancelled_link_answers_the_requests_in_flight_and_closes_its_stream(pair: Pair) -> None:
    received: list[Any] = []

    async with trio.open_nursery() as listening, linked(HANDLERS, pair=pair) as bench:
        await bench.peer.send(modern(1, "forever"))
        await wait_all_tasks_blocked()

        async def receive_all() -> None:
            received.extend(await bench.peer.rest())

        listening.start_soon(receive_all)
        bench.connection.cancel_scope.cancel()

    assert [shape(line) for line in received] == [error(1, INTERNAL_ERROR)]
    with pytest.raises(trio.ClosedResourceError):
        await bench.link.stream.send_all(b"x")


@pytest.mark.parametrize(("drain", "seconds"), [(False, 1), (True, 5)])
async def test_a_peer_that_does_not_read_delays_the_end_for_a_bounded_time(
    autojump_clock: MockClock, drain: bool, seconds: float
) -> None:
    async with linked(HANDLERS, pair=lockstep_stream_pair, drain=drain) as bench:
        await bench.peer.send(modern(1, "echo"))
        await wait_all_tasks_blocked()
        began = trio.current_time()
        bench.link.stop()
        await bench.ended.wait()

        assert trio.current_time() - began == seconds
        assert bench.holds_nothing()


async def test_a_stream_that_breaks_while_the_link_reads_ends_the_link() -> None:
    class Broken(trio.abc.ReceiveStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    def pair() -> tuple[trio.abc.Stream, trio.abc.Stream]:
        ours, theirs = memory_stream_pair()
        return trio.StapledStream(ours.send_stream, Broken()), theirs

    async with linked(HANDLERS, pair=pair, drain=False) as bench:
        await bench.ended.wait()

        assert str(bench.link.lost) == "the peer ended the connection"
        assert await bench.peer.rest() == []


async def test_the_owner_of_the_link_supplies_the_reason_of_an_unexpected_end() -> None:
    async with linked(disconnect_reason=lambda: ServerExited(3)) as bench:
        await bench.peer.stream.aclose()
        await bench.ended.wait()

        assert isinstance(bench.link.lost, ServerExited)


async def test_the_owner_is_not_asked_for_the_reason_of_an_end_after_stop() -> None:
    def disconnect_reason() -> ConnectionLost:
        raise AssertionError

    async with linked(disconnect_reason=disconnect_reason) as bench:
        bench.link.stop()
        await bench.ended.wait()

        assert isinstance(bench.link.lost, ConnectionClosed)


async def test_messages_of_a_peer_that_closed_its_input_are_read_during_the_drain_time(
    autojump_clock: MockClock,
) -> None:
    async with linked(HANDLERS, limits=Limits(drain_seconds=3)) as bench:
        await bench.peer.send(modern(1, "forever"))
        await wait_all_tasks_blocked()
        await bench.peer.stream.receive_stream.aclose()  # type: ignore[attr-defined] # a stapled stream
        await bench.peer.send(modern(2, "echo"))
        await wait_all_tasks_blocked()

        assert bench.holds_nothing()  # no response can be sent any more
        assert not bench.ended.is_set()
        await bench.peer.send(modern(3, "forever"), notification("seen"))
        await trio.sleep(2)
        assert bench.notifications == [("seen", {})]
        assert not bench.ended.is_set()
        await trio.sleep(2)
        assert bench.ended.is_set()
        assert str(bench.link.lost) == "the peer stopped reading"
        await wait_all_tasks_blocked()
        assert bench.holds_nothing()


async def test_an_outgoing_notification_is_sent_completely_or_cancelled_without_a_trace(
    autojump_clock: MockClock,
) -> None:
    async with linked(pair=lockstep_stream_pair, limits=Limits(outbox_bytes=1)) as bench:
        await bench.link.notify("first", {"a": 1})
        with trio.move_on_after(1) as scope:
            await bench.link.notify("second", None)
        assert scope.cancelled_caught

        assert await bench.peer.receive() == notification("first", {"a": 1})
        await bench.link.notify("third", None)
        assert await bench.peer.receive() == notification("third")


@pytest.mark.requirement("B.1-P9a")
async def test_a_client_of_a_modern_server_answers_no_request_of_the_server(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(HANDLERS, admission=client_admission(REVISIONS[-1])) as bench:
        await bench.peer.send(request(1, "ping"), b"junk\n", request(None, "echo"))

        await bench.peer.expect_silence()
        assert bench.link.statistics().malformed == 3
    assert caplog.records[0].getMessage() == "a request that the server's revision does not allow: ping"


async def test_a_client_of_a_legacy_server_answers_its_requests_but_no_message_without_an_id(
    autojump_clock: MockClock,
) -> None:
    async with linked(HANDLERS, admission=client_admission("2025-06-18")) as bench:
        assert await bench.peer.exchange(request(1, "echo", {"a": 1})) == result(1, {"echo": {"a": 1}})
        await bench.peer.send(b"junk\n", request(None, "echo"))
        await bench.peer.expect_silence()


async def test_a_refusal_leaves_out_an_id_that_belongs_to_a_request_in_flight() -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(modern(1, "forever"))
        assert shape(await bench.peer.exchange(request(1, "echo"))) == error(..., INVALID_PARAMS)


async def test_large_messages_arrive_complete() -> None:
    text = "x" * 5_000_000
    async with linked(HANDLERS, pair=memory_stream_pair) as bench:
        assert await bench.peer.exchange(modern(1, "echo", {"text": text})) == result(1, {"echo": {"text": text}})


async def test_responses_that_are_ready_at_once_are_sent_together() -> None:
    async def quick(_: HandlerRun) -> JsonObject:
        return {}

    async with linked({"quick": quick}, pair=pipe_pair) as bench:
        lines = b"".join(encode(request(number, "ping")) + b"\n" for number in range(1, 4))
        await handshake(bench, "2025-11-25")
        await bench.peer.stream.send_all(lines)

        assert await bench.peer.stream.receive_some() == b"".join(
            encode(result(number, {"revision": "2025-11-25"})) + b"\n" for number in range(1, 4)
        )


async def test_a_long_request_does_not_delay_the_responses_to_others() -> None:
    async with linked(HANDLERS, pair=pipe_pair) as bench:
        await bench.peer.send(modern(1, "forever"))
        assert await bench.peer.exchange(modern(2, "echo")) == result(2, {"echo": {}})


async def test_a_handler_without_a_task_that_raises_an_interrupt_fails_alone() -> None:
    async def quick(_: HandlerRun) -> JsonObject:
        return {}

    async def interrupted(_: HandlerRun) -> JsonObject:
        raise KeyboardInterrupt

    async with linked({"quick": quick, "interrupted": interrupted}, pair=pipe_pair, never_wait=True) as bench:
        await bench.peer.send(modern(1, "quick"), modern(2, "interrupted"), modern(3, "quick"))
        assert await bench.peer.receive() == result(1, {})
        assert shape(await bench.peer.receive()) == error(2, INTERNAL_ERROR)
        assert await bench.peer.receive() == result(3, {})


async def test_a_loop_that_sends_notifications_lets_other_tasks_run_and_can_be_cancelled() -> None:
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with linked(pair=pipe_pair) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        for _ in range(10):
            await bench.link.notify("n", None)
        assert passes >= 5  # about one for each notification
        nursery.cancel_scope.cancel()
        with pytest.raises(trio.Cancelled):
            await bench.link.notify("n", None)


async def test_each_request_of_a_batch_has_its_own_task() -> None:
    names: list[str] = []

    async def quick(_: HandlerRun) -> JsonObject:
        names.append(trio.lowlevel.current_task().name)
        return {}

    async with linked({"quick": quick}, never_wait=True) as bench:
        await handshake(bench, "2025-03-26")
        await bench.peer.send([request(1, "quick"), request(2, "quick")])
        assert len(await bench.peer.receive()) == 2
        assert await bench.peer.exchange(request(3, "quick")) == result(3, {})

    assert names[:2] == ["quick handler"] * 2
    assert names[2] != "quick handler"


# Peers that bend the rules.


@pytest.mark.parametrize("outcome", [{"result": {"a": 1}}, {"error": {"code": -5, "message": "no"}}])
async def test_a_response_with_the_id_as_a_string_is_taken_and_logged_once(
    outcome: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(admission=client_admission(LEGACY[-1])) as bench:
        for id in ("1", "2"):
            async with bench.link.ask("m", None) as asked:
                await bench.peer.receive()
                await bench.peer.send({"jsonrpc": "2.0", "id": id, **outcome})
                if "result" in outcome:
                    assert await asked.result() == {"a": 1}
                else:
                    with pytest.raises(ErrorResponse):
                        await asked.result()
        assert bench.link.statistics().unmatched_responses == 0

    bent = [record.message for record in caplog.records if "is understood" in record.message]
    assert bent == [
        (
            "the peer breaks the protocol, and is understood: a response has the id of its request as a string: "
            "'1' instead of 1"
        )
    ]


@pytest.mark.parametrize("id", ["01", "+1", "1.0", " 1", "٣", "2", "", "9" * 5000, "x"])
async def test_a_response_with_another_string_as_its_id_answers_nothing(id: str) -> None:
    async with linked(admission=client_admission(LEGACY[-1])) as bench, bench.link.ask("m", None):
        await bench.peer.receive()
        await bench.peer.send(result(id, {}))
        await wait_all_tasks_blocked()

        facts = bench.link.statistics()
        assert (facts.outgoing, facts.unmatched_responses) == (1, 1)


PREAMBLES = [b"\xef\xbb\xbf", b"\x1b[2J\x1b[H", b"\x1b]0;a title\x07\x1b[0m"]


@pytest.mark.parametrize("preamble", PREAMBLES)
@pytest.mark.parametrize("before", [b"", b"\n", b"Starting...\n", b"[INFO] starting\n"])
async def test_a_preamble_of_the_first_message_is_dropped_and_logged(
    preamble: bytes, before: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(HANDLERS) as bench:
        await bench.peer.send(before + preamble, modern(1, "echo"))
        if before.strip():
            assert shape(await bench.peer.receive()) == error(..., PARSE_ERROR)
        assert await bench.peer.receive() == result(1, {"echo": {}})
        assert await bench.peer.exchange(modern(2, "echo")) == result(2, {"echo": {}})

    bent = [record.message for record in caplog.records if "is understood" in record.message]
    assert bent == [
        "the peer breaks the protocol, and is understood: the first message is preceded by other bytes: "
        + repr(preamble)
    ]


@pytest.mark.parametrize("preamble", PREAMBLES)
async def test_a_preamble_on_a_line_of_its_own_is_dropped(preamble: bytes) -> None:
    async with linked(HANDLERS) as bench:
        assert await bench.peer.exchange(preamble + b"\r\n", modern(1, "echo")) == result(1, {"echo": {}})
        assert bench.link.statistics().malformed == 0


@pytest.mark.parametrize("preamble", PREAMBLES)
async def test_a_preamble_of_a_later_message_makes_it_malformed(preamble: bytes) -> None:
    async with linked(HANDLERS) as bench:
        assert await bench.peer.exchange(modern(1, "echo")) == result(1, {"echo": {}})
        assert shape(await bench.peer.exchange(preamble, modern(2, "echo"))) == error(..., PARSE_ERROR)


async def test_after_a_message_that_is_too_long_no_preamble_is_expected() -> None:
    async with linked(HANDLERS, limits=Limits(max_message_bytes=500)) as bench:
        answer = await bench.peer.exchange(b"x" * 501 + b"\n" + PREAMBLES[0], modern(1, "echo"))
        assert shape(answer) == error(..., INVALID_REQUEST)
        assert shape(await bench.peer.receive()) == error(..., PARSE_ERROR)


@pytest.mark.parametrize("preamble", [b"", PREAMBLES[0]])
async def test_the_only_line_may_lack_its_newline(preamble: bytes) -> None:
    async with linked(HANDLERS, pair=pipe_pair) as bench:
        await bench.peer.send(preamble + encode(modern(1, "echo")))
        await bench.peer.send_eof()

        assert await bench.peer.receive() == result(1, {"echo": {}})
