"""Requests beside those of the protocol: what they bring back, and what bounds them; against a server by hand."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from tests.transports.http.faulty_engines import Flaky
from tests.transports.http.scripted_server import HttpScript, Visit
from trio_mcp._util import owned_nursery
from trio_mcp.auth import CallFailed, HttpCall, HttpReply, Unreadable
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import engine_fetch

URL = "http://as.test/a/b?key=s3cret"
MOST = 256 * 1024


async def fetched(
    serve: Callable[[HttpScript], Awaitable[object]], url: str = URL, method: Any = "GET", **members: Any
) -> HttpReply:
    """The reply of a server that does something."""
    server = HttpScript()
    fetch = engine_fetch(AsgiEngine(server))
    async with owned_nursery() as nursery:
        nursery.start_soon(serve, server)
        return await fetch(HttpCall(method=method, url=url, named_by="server", **members))


async def silent(server: HttpScript) -> None:
    """Answer nothing."""
    await trio.sleep_forever()


def answering(*args: Any, **members: Any) -> Callable[[HttpScript], Awaitable[Visit]]:
    """Answer the next request."""

    async def answer(server: HttpScript) -> Visit:
        visit = await server._receive_visit.receive()
        await visit.answer(*args, **members)
        return visit

    return answer


async def test_an_answer_is_brought_back_as_it_is(autojump_clock: object) -> None:
    server = HttpScript()
    replies: list[HttpReply] = []

    async def fetch() -> None:
        call = HttpCall(method="POST", url=URL, headers={"x-mine": "a"}, body=b"grant=1", named_by="server")
        replies.append(await engine_fetch(AsgiEngine(server))(call))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetch)
        visit = await server._receive_visit.receive()
        await visit.answer(400, {"error": "x"}, headers={"DPoP-Nonce": "n"})

    (reply,) = replies
    assert (reply.status, reply.body) == (400, b'{"error": "x"}')
    assert reply.headers == {"content-type": "application/json", "dpop-nonce": "n"}
    assert (visit.method, visit.scope["path"], visit.scope["query_string"]) == ("POST", "/a/b", b"key=s3cret")
    assert visit.body == b"grant=1"
    assert visit.headers == {
        "host": "as.test",
        "content-length": "7",
        "x-mine": "a",
        "accept-encoding": "identity",
    }


async def test_a_body_has_a_limit(autojump_clock: object) -> None:
    assert len((await fetched(answering(200, b"x" * MOST))).body) == MOST
    for headers in ({}, {"content-length": str(MOST + 1)}):
        with pytest.raises(Unreadable, match=rf"^http://as.test/a/b answers with more than {MOST} bytes$"):
            await fetched(answering(200, b"x" * (MOST + 1), headers=headers))


async def test_a_compressed_body_is_not_unpacked(autojump_clock: object) -> None:
    with pytest.raises(CallFailed, match=r"^http://as.test/a/b: the response is compressed"):
        await fetched(answering(200, gzip.compress(b"{}"), headers={"content-encoding": "gzip"}))


async def test_an_answer_that_breaks_off_is_a_failure(autojump_clock: object) -> None:
    async def cut(server: HttpScript) -> None:
        visit = await server._receive_visit.receive()
        await visit.begin()
        await visit.send(b"{")
        visit.cut()
        await trio.sleep_forever()

    with pytest.raises(CallFailed, match=r"^http://as.test/a/b: "):
        await fetched(cut)


async def test_a_server_that_is_not_there_is_a_failure(autojump_clock: object) -> None:
    fetch = engine_fetch(Flaky(HttpScript(), is_up=False))

    with pytest.raises(CallFailed, match="cannot connect"):
        await fetch(HttpCall(method="GET", url=URL, named_by="user"))


async def test_a_server_that_does_not_answer_is_given_up(autojump_clock: object) -> None:
    began = trio.current_time()

    with pytest.raises(CallFailed, match=r"^http://as.test/a/b has not answered within 15 s$"):
        await fetched(silent)

    assert trio.current_time() - began == 15


async def test_redirects_have_no_time_of_their_own(autojump_clock: object) -> None:
    async def slow(server: HttpScript) -> None:
        while True:
            visit = await server._receive_visit.receive()
            await trio.sleep(6)
            await visit.answer(302, headers={"location": "/next"})

    began = trio.current_time()
    with pytest.raises(CallFailed, match="15 s"):
        await fetched(slow)
    assert trio.current_time() - began == 15


# Redirects.


async def redirect(server: HttpScript, *, status: int = 302, to: str = "/next", times: int = 1) -> None:
    """Redirect some requests; then say where they have come to."""
    for _ in range(times):
        visit = await server._receive_visit.receive()
        await visit.answer(status, headers={"location": to})
    visit = await server._receive_visit.receive()
    seen = f"{visit.method} {visit.scope['path']} {visit.headers.get('x-mine')}"
    await visit.answer(200, seen.encode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["/next", "next/../../next", "http://as.test:80/next", "//AS.test/next"])
async def test_a_redirect_within_the_origin_is_followed(status: int, to: str, autojump_clock: object) -> None:
    reply = await fetched(partial(redirect, status=status, to=to), headers={"x-mine": "a"})

    assert (reply.status, reply.body) == (200, b"GET /next a")


async def test_redirects_are_followed_a_few_times(autojump_clock: object) -> None:
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
async def test_a_redirect_to_what_is_no_address_is_not_followed(to: str, autojump_clock: object) -> None:
    with pytest.raises(Unreadable, match=r"^http://as.test/a/b redirects to an invalid address$"):
        await fetched(partial(redirect, to=to))


async def test_a_redirect_has_us_send_no_password(autojump_clock: object) -> None:
    with pytest.raises(CallFailed, match=r"^http://as.test/next holds a user name or a password"):
        await fetched(partial(redirect, to="http://me:s3cret@as.test/next"))


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_what_is_posted_is_not_posted_elsewhere(status: int, autojump_clock: object) -> None:
    reply = await fetched(answering(status, headers={"location": "/next"}), method="POST", body=b"x")

    assert (reply.status, reply.headers["location"]) == (status, "/next")


@pytest.mark.parametrize(("status", "headers"), [(302, {}), (300, {"location": "/next"}), (201, {"location": "/x"})])
async def test_what_is_no_redirect_is_an_answer(status: int, headers: dict[str, str], autojump_clock: object) -> None:
    assert (await fetched(answering(status, headers=headers))).status == status


# Addresses.


@pytest.mark.parametrize(
    ("url", "words"),
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
async def test_what_is_no_plain_address_is_not_requested(url: str, words: str, autojump_clock: object) -> None:
    with pytest.raises(CallFailed, match=words) as caught:
        await fetched(silent, url)

    assert "s3cret" not in str(caught.value)
