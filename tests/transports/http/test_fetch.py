"""HTTP requests outside of the protocol, such as those for OAuth: their replies and limits, at a scripted server."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from tests.transports.http.faulty_engines import FlakyEngine
from tests.transports.http.scripted_server import ReceivedRequest, ScriptedHttpServer
from trio_mcp._util import owned_nursery
from trio_mcp.auth import CallFailed, HttpCall, HttpReply, Unreadable
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import engine_fetch

URL = "http://as.test/a/b?key=s3cret"
MAX_BODY_BYTES = 256 * 1024


async def fetched(
    serve: Callable[[ScriptedHttpServer], Awaitable[object]], url: str = URL, method: Any = "GET", **members: Any
) -> HttpReply:
    """Fetch a URL from a server that behaves this way; return the reply."""
    server = ScriptedHttpServer()
    fetch = engine_fetch(AsgiEngine(server))
    async with owned_nursery() as nursery:
        nursery.start_soon(serve, server)
        return await fetch(HttpCall(method=method, url=url, named_by="server", **members))


async def silent(server: ScriptedHttpServer) -> None:
    """Never answer."""
    await trio.sleep_forever()


def answering(*args: Any, **members: Any) -> Callable[[ScriptedHttpServer], Awaitable[ReceivedRequest]]:
    """Return a server that answers the next request."""

    async def answer(server: ScriptedHttpServer) -> ReceivedRequest:
        request = await server._received.receive()
        await request.answer(*args, **members)
        return request

    return answer


async def test_a_response_is_returned_unchanged(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    replies: list[HttpReply] = []

    async def fetch() -> None:
        call = HttpCall(method="POST", url=URL, headers={"x-mine": "a"}, body=b"grant=1", named_by="server")
        replies.append(await engine_fetch(AsgiEngine(server))(call))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetch)
        request = await server._received.receive()
        await request.answer(400, {"error": "x"}, headers={"DPoP-Nonce": "n"})

    (reply,) = replies
    assert (reply.status, reply.body) == (400, b'{"error": "x"}')
    assert reply.headers == {"content-type": "application/json", "dpop-nonce": "n"}
    assert (request.method, request.scope["path"], request.scope["query_string"]) == ("POST", "/a/b", b"key=s3cret")
    assert request.body == b"grant=1"
    assert request.headers == {
        "host": "as.test",
        "content-length": "7",
        "x-mine": "a",
        "accept-encoding": "identity",
    }


async def test_a_body_over_the_limit_is_refused(autojump_clock: object) -> None:
    assert len((await fetched(answering(200, b"x" * MAX_BODY_BYTES))).body) == MAX_BODY_BYTES
    for headers in ({}, {"content-length": str(MAX_BODY_BYTES + 1)}):
        with pytest.raises(Unreadable, match=rf"^http://as.test/a/b answers with more than {MAX_BODY_BYTES} bytes$"):
            await fetched(answering(200, b"x" * (MAX_BODY_BYTES + 1), headers=headers))


async def test_a_compressed_body_is_refused(autojump_clock: object) -> None:
    with pytest.raises(CallFailed, match=r"^http://as.test/a/b: the response is compressed"):
        await fetched(answering(200, gzip.compress(b"{}"), headers={"content-encoding": "gzip"}))


async def test_a_response_that_breaks_off_is_a_failure(autojump_clock: object) -> None:
    async def cut(server: ScriptedHttpServer) -> None:
        request = await server._received.receive()
        await request.begin()
        await request.send(b"{")
        request.cut()
        await trio.sleep_forever()

    with pytest.raises(CallFailed, match=r"^http://as.test/a/b: "):
        await fetched(cut)


async def test_a_server_that_cannot_be_reached_is_a_failure(autojump_clock: object) -> None:
    fetch = engine_fetch(FlakyEngine(ScriptedHttpServer(), is_up=False))

    with pytest.raises(CallFailed, match="cannot connect"):
        await fetch(HttpCall(method="GET", url=URL, named_by="user"))


async def test_a_request_without_an_answer_times_out(autojump_clock: object) -> None:
    began = trio.current_time()

    with pytest.raises(CallFailed, match=r"^http://as.test/a/b has not answered within 15 s$"):
        await fetched(silent)

    assert trio.current_time() - began == 15


async def test_one_timeout_covers_a_request_and_its_redirects(autojump_clock: object) -> None:
    async def slow(server: ScriptedHttpServer) -> None:
        while True:
            request = await server._received.receive()
            await trio.sleep(6)
            await request.answer(302, headers={"location": "/next"})

    began = trio.current_time()
    with pytest.raises(CallFailed, match="15 s"):
        await fetched(slow)
    assert trio.current_time() - began == 15


# Redirects.


async def redirect(server: ScriptedHttpServer, *, status: int = 302, to: str = "/next", times: int = 1) -> None:
    """Redirect some requests; then answer with the method, the path and a header field of the last one."""
    for _ in range(times):
        request = await server._received.receive()
        await request.answer(status, headers={"location": to})
    request = await server._received.receive()
    seen = f"{request.method} {request.scope['path']} {request.headers.get('x-mine')}"
    await request.answer(200, seen.encode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["/next", "next/../../next", "http://as.test:80/next", "//AS.test/next"])
async def test_a_redirect_within_the_origin_is_followed(status: int, to: str, autojump_clock: object) -> None:
    reply = await fetched(partial(redirect, status=status, to=to), headers={"x-mine": "a"})

    assert (reply.status, reply.body) == (200, b"GET /next a")


async def test_at_most_three_redirects_are_followed(autojump_clock: object) -> None:
    assert (await fetched(partial(redirect, times=3))).status == 200
    with pytest.raises(Unreadable, match=r"^http://as.test/a/b redirects more than 3 times$"):
        await fetched(partial(redirect, times=4))


@pytest.mark.parametrize(
    "to",
    [
        "https://as.test/next",
        "http://as.test:8080/next",
        "http://evil.test/next",
        "http://169.254.169.254/latest",
        "http://127.0.0.1/",
        "//evil.test/",
    ],
)
async def test_a_redirect_to_another_origin_is_not_followed(to: str, autojump_clock: object) -> None:
    with pytest.raises(Unreadable, match=r"^http://as.test/a/b redirects to another origin .*, which is not followed$"):
        await fetched(partial(redirect, to=f"{to}?code=s3cret"))


@pytest.mark.parametrize("to", ["ftp://as.test/", "http://[", "http://as.test:x/", "javascript:alert(1)", "/a b"])
async def test_a_redirect_to_an_invalid_address_is_not_followed(to: str, autojump_clock: object) -> None:
    with pytest.raises(Unreadable, match=r"^http://as.test/a/b redirects to an invalid address$"):
        await fetched(partial(redirect, to=to))


async def test_a_redirect_to_an_address_with_a_password_is_not_followed(autojump_clock: object) -> None:
    with pytest.raises(CallFailed, match=r"^http://as.test/next holds a user name or a password"):
        await fetched(partial(redirect, to="http://me:s3cret@as.test/next"))


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_the_redirect_of_a_post_is_not_followed(status: int, autojump_clock: object) -> None:
    reply = await fetched(answering(status, headers={"location": "/next"}), method="POST", body=b"x")

    assert (reply.status, reply.headers["location"]) == (status, "/next")


@pytest.mark.parametrize(("status", "headers"), [(302, {}), (300, {"location": "/next"}), (201, {"location": "/x"})])
async def test_a_status_that_does_not_redirect_is_a_reply(
    status: int, headers: dict[str, str], autojump_clock: object
) -> None:
    assert (await fetched(answering(status, headers=headers))).status == status


# Addresses.


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://as.test/", "'ftp://as.test/' is not a valid address: it does not begin with http"),
        ("http://as.test/a b", "is not a valid address: it holds a space"),
        ("http://me:s3cret@as.test:x/?s3cret", "'as.test:x/' is not a valid address"),
        ("http://", "it names no host"),
        ("http://[::1", "is not a valid address"),
        ("https://me:s3cret@as.test/x?s3cret", "^https://as.test/x holds a user name or a password"),
        ("https://me@as.test/", "^https://as.test/ holds a user name or a password"),
    ],
)
async def test_an_invalid_address_or_one_with_credentials_is_not_requested(
    url: str, message: str, autojump_clock: object
) -> None:
    with pytest.raises(CallFailed, match=message) as caught:
        await fetched(silent, url)

    assert "s3cret" not in str(caught.value)
