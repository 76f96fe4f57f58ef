"""HTTP/1.1 over real sockets: responses, failing applications, and malformed requests."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from tests.transports.http.socket_clients import (
    OK,
    App,
    Served,
    answer,
    begin,
    get,
    post,
    read_all,
    read_body,
    read_until,
    send_part,
    serving,
    wait_for_disconnect,
)
from trio_mcp.transports import Receive, Scope, Send


async def exchange(served: Served, request: bytes) -> bytes:
    """Send a request, and return all data until the server closes the connection."""
    async with await served.connect() as stream:
        await stream.send_all(request)
        return await read_all(stream)


async def test_a_request_is_answered_and_the_connection_stays_open(capfd: pytest.CaptureFixture[str]) -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["client"][0] == "127.0.0.1"
        assert scope["server"] == ("127.0.0.1", served.bound.port)
        assert (scope["scheme"], scope["http_version"]) == ("http", "1.1")
        await answer(send, await read_body(receive))

    handlers = list(logging.getLogger("hypercorn.error").handlers)  # those of an unmodified Hypercorn in another test
    async with serving(App({"/echo": echo})) as served, await served.connect() as stream:
        for body in (b"<one>", b"<two>"):
            await stream.send_all(post("/echo?q", 5, body))
            head, _, rest = (await read_until(stream, body)).partition(b"\r\n\r\n")
            assert head.startswith(OK)
            assert b"server:" not in head.lower()
            assert b"connection:" not in head.lower()
            assert rest == body

    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("hypercorn.error").handlers == handlers


async def test_the_requests_on_one_connection_are_not_limited() -> None:
    async with serving(App()) as served, await served.connect() as stream:
        for _ in range(1010):
            await stream.send_all(get("/"))
            assert b"connection" not in await read_until(stream, b"fine")


async def test_a_response_of_known_length_is_sent_in_one_piece() -> None:
    async with serving(App()) as served, await served.connect() as stream:
        await stream.send_all(get("/"))

        assert (await stream.receive_some()).endswith(b"\r\n\r\nfine")


async def test_the_head_and_each_part_of_a_stream_are_sent_at_once() -> None:
    go_on = trio.Event()

    async def stream_parts(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await go_on.wait()
        await send_part(send, b"")  # a chunk without data would be the last
        await send_part(send, b"first")
        await wait_for_disconnect(receive)

    async with serving(App({"/stream": stream_parts})) as served, await served.connect() as stream:
        await stream.send_all(get("/stream"))
        assert (await read_until(stream, b"\r\n\r\n")).startswith(OK)
        go_on.set()
        assert await read_until(stream, b"first\r\n") == b"5\r\nfirst\r\n"


async def test_an_application_that_raises_before_its_response_sends_500_without_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise SystemExit("secret")

    async with serving(App({"/fail": fail})) as served, await served.connect() as stream:
        await stream.send_all(get("/fail"))
        reply = await read_all(stream)
        assert reply.startswith(b"HTTP/1.1 500 ")
        assert b"secret" not in reply
        assert await served.serves_others()

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/fail'"]


@pytest.mark.parametrize("length", [None, b"100"], ids=["chunks", "of known length"])
async def test_an_application_that_raises_during_its_response_breaks_it_off(
    length: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [] if length is None else [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send_part(send, b"part")
        raise ValueError

    async with serving(App({"/fail": fail})) as served:
        reply = await exchange(served, get("/fail"))

    assert reply.startswith(OK)
    assert reply.removesuffix(b"\r\n").endswith(b"part")
    assert b"\r\n0\r\n" not in reply


async def test_an_application_that_raises_before_the_body_of_a_held_head_sends_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        raise ValueError

    async with serving(App({"/fail": fail})) as served:
        assert (await exchange(served, get("/fail"))).startswith(b"HTTP/1.1 500 ")


@pytest.mark.parametrize(
    ("length", "parts"), [(b"3", [b"ab"]), (b"3", [b"ab", b"cd"]), (b"0", [b"x"]), (b"-1", []), (b"1, 1", [])]
)
async def test_a_response_of_another_length_than_announced_breaks_off(
    length: bytes, parts: Sequence[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the client would take the next response for a part of it."""

    async def mislead(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        for part in parts:
            await send_part(send, part)
        await send({"type": "http.response.body"})

    async with serving(App({"/mislead": mislead})) as served:
        reply = await exchange(served, get("/mislead") + get("/"))

    assert b"fine" not in reply
    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/mislead'"]


@pytest.mark.parametrize("status", [100, 199])
async def test_an_application_cannot_send_an_interim_response(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, status=status)

    async with serving(App({"/interim": respond})) as served:
        assert (await exchange(served, get("/interim"))).startswith(b"HTTP/1.1 500 ")


async def test_what_an_application_sends_out_of_turn_is_its_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def begin_twice(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await begin(send)

    async with serving(App({"/twice": begin_twice})) as served:
        await exchange(served, get("/twice"))

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/twice'"]


async def test_an_application_cannot_choose_the_framing() -> None:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"transfer-encoding", b"gzip"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})

    async with serving(App({"/framing": respond})) as served:
        reply = await exchange(served, get("/framing"))

    assert b"gzip" not in reply
    assert reply.count(b"transfer-encoding: chunked\r\n") == reply.count(b"connection: close\r\n") == 1
    assert reply.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")


async def test_a_malformed_response_is_logged_as_a_failure_of_the_application(caplog: pytest.LogCaptureFixture) -> None:
    async def send_nonsense(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"two\nlines", b"")]})

    async with serving(App({"/nonsense": send_nonsense})) as served:
        assert (await exchange(served, get("/nonsense"))).startswith(b"HTTP/1.1 500 ")

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/nonsense'"]


async def test_a_response_before_the_end_of_the_body_arrives_and_ends_the_connection() -> None:
    """The mailbox of the application is full, and the client continues to send."""
    seen: list[str] = []

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await full.wait()
        await answer(send, b"too large", 413)
        seen.append((await receive())["type"])

    full = trio.Event()
    async with serving(App({"/upload": refuse})) as served, await served.connect() as stream:
        await stream.send_all(post("/upload", 100_000_000))
        with trio.move_on_after(0.2):
            while True:  # until the server reads no more
                await stream.send_all(bytes(1_000_000))
        full.set()
        async with trio.open_nursery() as nursery:

            async def go_on_sending() -> None:
                for _ in range(10):
                    await stream.send_all(bytes(1_000_000))

            nursery.start_soon(go_on_sending)
            reply = await read_all(stream)
            nursery.cancel_scope.cancel()
        assert await served.serves_others()

    assert reply.startswith(b"HTTP/1.1 413 ")
    assert reply.endswith(b"too large")
    assert seen in (["http.request"], ["http.disconnect"])


async def test_the_application_is_notified_at_once_when_the_client_closes() -> None:
    left = trio.Event()

    async def stream_for_ever(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await wait_for_disconnect(receive)
        await send_part(send, b"not read")
        left.set()

    async with serving(App({"/stream": stream_for_ever})) as served:
        async with await served.connect() as stream:
            await stream.send_all(get("/stream"))
            await read_until(stream, b"\r\n\r\n")
        with trio.fail_after(60):
            await left.wait()


async def test_data_that_an_application_sends_in_a_cancelled_scope_is_not_lost() -> None:
    async def send_cancelled(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await send_part(send, b"kept")
        await send({"type": "http.response.body", "body": b"all"})

    async with serving(App({"/cancelled": send_cancelled})) as served, await served.connect() as stream:
        await stream.send_all(get("/cancelled"))
        reply = await read_until(stream, b"0\r\n\r\n")

    assert reply.endswith(b"4\r\nkept\r\n3\r\nall\r\n0\r\n\r\n")


async def test_an_application_that_takes_no_websockets_answers_a_request_for_one_like_any_other() -> None:
    request = get("/", "upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13")
    async with serving(App()) as served, await served.connect() as stream:
        for _ in range(2):
            await stream.send_all(request)
            reply = await read_until(stream, b"fine")
            assert reply.startswith(OK)
            assert b"upgrade" not in reply


async def test_the_obsolete_upgrade_to_http2_is_ignored() -> None:
    request = get("/", "upgrade: h2c", "connection: upgrade, http2-settings", "http2-settings: AAMAAABkAAQAoAAA")
    async with serving(App()) as served, await served.connect() as stream:
        await stream.send_all(request)

        assert (await read_until(stream, b"fine")).startswith(OK)


async def test_empty_lines_before_a_request_are_ignored() -> None:
    async with serving(App()) as served, await served.connect() as stream:
        for part in (b"\r\n", b"\r\n", get("/")):
            await stream.send_all(part)
            await trio.testing.wait_all_tasks_blocked()
        assert (await read_until(stream, b"fine")).startswith(OK)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (get("/", "content-length: 1", "content-length: 2"), b"400"),
        (get("/", "x: " + 20_000 * "y"), b"431"),  # read at once
        (get("/", "x: " + 90_000 * "y"), b"431"),
    ],
)
async def test_a_malformed_head_is_refused(request_: bytes, status: bytes) -> None:
    async with serving(App()) as served:
        assert (await exchange(served, request_)).startswith(b"HTTP/1.1 " + status)
        assert await served.serves_others()


async def test_a_malformed_body_is_refused_and_closes_the_connection() -> None:
    seen: list[str] = []
    begun = trio.Event()

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        seen.append((await receive())["type"])
        await answer(send)  # is not sent: the client has got a response already

    async with serving(App({"/read": read})) as served:
        async with await served.connect() as stream:
            await stream.send_all(b"POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            await begun.wait()
            await stream.send_all(b"nonsense\r\n")
            reply = await read_all(stream)
        assert await served.serves_others()

    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"fine" not in reply
    assert seen == ["http.disconnect"]


async def test_a_malformed_body_breaks_off_the_response_that_has_begun() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"begun")
        await wait_for_disconnect(receive)

    async with serving(App({"/read": read})) as served, await served.connect() as stream:
        await stream.send_all(b"POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        await read_until(stream, b"begun\r\n")
        await stream.send_all(b"nonsense\r\n")
        assert await read_all(stream) == b""


async def test_a_request_that_ends_too_early_counts_as_a_disconnect() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])
        left.set()

    seen: list[str] = []
    left = trio.Event()
    async with serving(App({"/read": read})) as served:
        async with await served.connect() as stream:
            await stream.send_all(post("/read", 100, b"half"))
        await left.wait()

    assert seen == ["http.request", "http.disconnect"]


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        await trio.sleep(0.01)
        await answer(send, b"slow" + body)

    chunked = b"POST /slow HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n"
    async with serving(App({"/slow": slow})) as served, await served.connect() as stream:
        await stream.send_all(post("/slow", 1, b"1") + chunked + b"\r\n" + get("/"))
        reply = await read_until(stream, b"fine")

    assert reply.index(b"slow1") < reply.index(b"slow2") < reply.index(b"fine")


async def test_a_client_that_waits_with_its_body_is_told_to_continue() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, await read_body(receive))

    async with serving(App({"/echo": echo})) as served, await served.connect() as stream:
        await stream.send_all(b"POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n")
        assert await read_until(stream, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"body")
        assert (await read_until(stream, b"body")).startswith(OK)


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [("HEAD", 200, b"content-length: 4"), ("GET", 304, b"content-length: 4"), ("GET", 204, b"")],
)
async def test_a_response_without_a_body_sends_none(method: str, status: int, length: bytes) -> None:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, status=status)

    async with serving(App({"/": respond})) as served, await served.connect() as stream:
        for _ in range(2):
            await stream.send_all(get("/").replace(b"GET", method.encode()))
            reply = await read_until(stream, b"\r\n\r\n")
            assert reply.startswith(b"HTTP/1.1 %d " % status)
            assert (b"content-length" in reply) == bool(length)
            assert length in reply
            assert reply.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("length", [None, b"3"])
async def test_an_old_client_gets_a_response_that_ends_with_the_connection(length: bytes | None) -> None:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [] if length is None else [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})

    async with serving(App({"/old": respond})) as served:
        reply = await exchange(served, b"GET /old HTTP/1.0\r\n\r\n")

    assert b"transfer-encoding" not in reply
    assert reply.endswith(b"\r\n\r\nabc")


async def test_a_response_to_an_old_client_that_breaks_off_is_reset_because_its_length_is_unknown() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send_part(send, b"part")
        await go_on.wait()
        raise ValueError

    go_on = trio.Event()
    async with serving(App({"/fail": fail})) as served, await served.connect() as stream:
        await stream.send_all(b"GET /fail HTTP/1.0\r\n\r\n")
        await read_until(stream, b"part")
        go_on.set()
        assert await read_all(stream) == b"[reset]"


async def test_an_old_client_may_keep_its_connection() -> None:
    async with serving(App()) as served, await served.connect() as stream:
        for _ in range(2):
            await stream.send_all(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            assert b"connection: keep-alive\r\n" in await read_until(stream, b"fine")


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_connection_can_only_begin_with_http2(is_first: bool) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
    async with serving(App(), http2=not is_first) as served:
        reply = await exchange(served, preface if is_first else get("/") + preface)

    assert reply.rpartition(b"HTTP/1.1 ")[2].startswith(b"505 ")


async def test_a_response_that_is_sent_before_the_body_of_its_request_was_read_announces_the_close() -> None:
    """Otherwise a client may send the next request on a connection that is being closed, and get no response."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"no")

    async with serving(App({"/refuse": refuse})) as served:
        early = await exchange(served, post("/refuse", 4, b""))
        async with await served.connect() as stream:
            await stream.send_all(post("/refuse", 4, b"body"))
            late = await read_until(stream, b"no")

    assert b"connection: close\r\n" in early.lower()
    assert early.endswith(b"no")
    assert b"connection" not in late.lower()


async def test_a_request_that_is_framed_twice_is_refused_with_all_that_follows() -> None:
    """Otherwise a proxy that goes by Content-Length could be made to forward a hidden request (RFC 9112, 6.1)."""
    framed_twice = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
    async with serving(App()) as served:
        reply = await exchange(served, framed_twice + b"4\r\nbody\r\n0\r\n\r\n" + get("/hidden"))

    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close\r\n" in reply
    assert b"fine" not in reply
