"""The local web server that receives the redirect of the browser from an authorization server."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing
from attrs import define, field

from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth.client import _browser as _loopback
from trio_mcp.auth.client._browser import BrowserAgent, Callback, open_loopback_browser

PAGE = "https://auth.example.org/authorize?client_id=c&state=s%2B1"
RESPONSE = "code=abc&state=s%2B1&iss=https%3A%2F%2Fauth.example.org"


@define(eq=False)
class Person:
    """A user with a browser."""

    shown: list[str] = field(factory=list[str], init=False)
    is_shown: trio.Event = field(factory=trio.Event, init=False)

    async def show(self, url: str) -> None:
        self.shown.append(url)
        self.is_shown.set()
        await trio.sleep_forever()  # like a browser that stays open


async def reply_to(redirect: str, request: bytes) -> bytes:
    """Send bytes to the host and port of a redirect URI; return the whole response."""
    parts = urlsplit(redirect)
    assert parts.hostname is not None
    assert parts.port is not None
    async with await trio.open_tcp_stream(parts.hostname, parts.port) as stream:
        await stream.send_all(request)
        return b"".join([bytes(chunk) async for chunk in stream])


async def browse(url: str, method: str = "GET") -> bytes:
    """Request a URL; return the raw response."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return await reply_to(url, f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@asynccontextmanager
async def signing_in(
    redirect_uri: str | None = None, *, page: str = PAGE, cancelled: bool = True
) -> AsyncGenerator[tuple[str, list[str]]]:
    """Start a sign-in; yield the redirect URI and a list that receives the result."""
    person, outcome = Person(), list[str]()
    async with open_loopback_browser(show=person.show, seconds=60, redirect_uri=redirect_uri) as agent:
        redirect = await agent.pick_redirect(None)

        async def sign_in() -> None:
            outcome.append(await agent.sign_in(page, redirect))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_in)
            await person.is_shown.wait()
            assert person.shown == [page]
            with trio.fail_after(30):
                yield redirect, outcome
            if cancelled:
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def agent_for(redirect_uri: str | None = None, seconds: float = 60) -> AsyncGenerator[BrowserAgent]:
    async with open_loopback_browser(show=Person().show, seconds=seconds, redirect_uri=redirect_uri) as agent:
        yield agent


@asynccontextmanager
async def occupied(address: str = "127.0.0.1") -> AsyncGenerator[int]:
    """Occupy a port with another listener."""
    (listener,) = await trio.open_tcp_listeners(0, host=address)
    async with listener:
        yield listener.socket.getsockname()[1]


async def free_port() -> int:
    async with occupied() as port:
        return port


async def test_a_redirect_with_a_code_is_received_and_the_browser_gets_a_page() -> None:
    async with signing_in(cancelled=False) as (redirect, outcome):
        reply = await browse(f"{redirect}?{RESPONSE}")

    assert outcome == [f"{redirect}?{RESPONSE}"]
    assert urlsplit(redirect).hostname == "127.0.0.1"
    assert urlsplit(redirect).path == "/callback"
    head, _, page = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"cache-control: no-store" in head
    assert b"default-src 'none'" in head
    assert b"You can close this page" in page
    assert b"abc" not in reply
    assert b"<script" not in page


async def test_a_redirect_with_an_error_is_received_and_its_description_is_not_on_the_page() -> None:
    async with signing_in(cancelled=False) as (redirect, outcome):
        reply = await browse(f"{redirect}?error=access_denied&error_description=<b>Ha</b>&state=s%2B1")

    assert len(outcome) == 1
    assert status(reply) == 200
    assert b"Not signed in" in reply
    assert b"Ha" not in reply


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", 400),
        ("code=abc", 400),
        ("state=s%2B1", 400),
        ("code=abc&state=other", 400),
        ("code=abc&state=%FF", 400),
        ("code=abc&state=s%2B1&state=s%2B1", 400),
        ("error=access_denied", 400),
        ("error=access_denied&state=other", 400),
        ("&".join(["code=abc&state=s%2B1"] * 60), 400),
    ],
)
async def test_a_response_to_another_sign_in_is_refused_and_ignored(query: str, expected: int) -> None:
    async with signing_in() as (redirect, outcome):
        assert status(await browse(f"{redirect}?{query}")) == expected
        await trio.testing.wait_all_tasks_blocked()
        assert outcome == []

        assert status(await browse(f"{redirect}?{RESPONSE}")) == 200
        await trio.testing.wait_all_tasks_blocked()
        assert outcome == [f"{redirect}?{RESPONSE}"]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/favicon.ico", 404),
        ("GET", "/", 404),
        ("GET", "/callback/", 404),
        ("GET", "/x/callback", 404),
        ("HEAD", "/callback", 405),
        ("POST", "/callback", 405),
        ("OPTIONS", "/callback", 405),
    ],
)
async def test_requests_with_other_paths_or_methods_are_refused(method: str, path: str, expected: int) -> None:
    async with signing_in() as (redirect, outcome):
        parts = urlsplit(redirect)
        reply = await browse(f"http://{parts.netloc}{path}?{RESPONSE}", method)
        await trio.testing.wait_all_tasks_blocked()

        assert status(reply) == expected
        assert outcome == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /callback?" + RESPONSE.encode() + b"\r\n\r\n",
        b"GET /callback?" + RESPONSE.encode() + b" HTTP/2.0\r\n\r\n",
        b"GET /call back HTTP/1.1\r\n\r\n",
        b"get /callback HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
async def test_a_malformed_request_gets_an_error_response(request_bytes: bytes) -> None:
    async with signing_in() as (redirect, outcome):
        assert status(await reply_to(redirect, request_bytes)) == 400
        await trio.testing.wait_all_tasks_blocked()

        assert outcome == []


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with signing_in(cancelled=False) as (redirect, outcome):
        parts = urlsplit(redirect)
        assert parts.port is not None
        async with await trio.open_tcp_stream("127.0.0.1", parts.port) as stream:
            for byte in f"GET /callback?{RESPONSE} HTTP/1.1\r\nHost: x\r\n\r\n".encode():
                await stream.send_all(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 OK")

    assert outcome == [f"{redirect}?{RESPONSE}"]


async def test_an_endless_request_is_cut_off() -> None:
    async with signing_in() as (redirect, outcome):
        parts = urlsplit(redirect)
        assert parts.port is not None
        async with await trio.open_tcp_stream("127.0.0.1", parts.port) as stream:
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await stream.send_all(b"x" * 10_000)

        assert outcome == []


async def test_idle_and_closed_connections_do_not_block_others() -> None:
    async with signing_in(cancelled=False) as (redirect, outcome):
        parts = urlsplit(redirect)
        assert parts.port is not None
        async with await trio.open_tcp_stream("127.0.0.1", parts.port) as silent:
            closed = await trio.open_tcp_stream("127.0.0.1", parts.port)
            await closed.aclose()
            half = await trio.open_tcp_stream("127.0.0.1", parts.port)
            await half.send_all(b"GET /callback?")
            half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing it causes a reset
            await half.aclose()

            await browse(f"{redirect}?{RESPONSE}")

            assert await silent.receive_some() == b""
    assert outcome == [f"{redirect}?{RESPONSE}"]


async def test_a_connection_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loopback, "REQUEST_SECONDS", 0)

    async with signing_in() as (redirect, _):
        assert await reply_to(redirect, b"") == b""


async def test_the_number_of_concurrent_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loopback, "MAX_CONNECTIONS", 1)

    async with signing_in(cancelled=False) as (redirect, outcome):
        parts = urlsplit(redirect)
        assert parts.port is not None
        async with await trio.open_tcp_stream("127.0.0.1", parts.port):
            await trio.testing.wait_all_tasks_blocked()
            async with await trio.open_tcp_stream("127.0.0.1", parts.port) as second:
                assert await second.receive_some() == b""
        await trio.testing.wait_all_tasks_blocked()

        assert status(await browse(f"{redirect}?{RESPONSE}")) == 200
    assert outcome == [f"{redirect}?{RESPONSE}"]


async def test_the_redirect_counts_even_if_the_browser_does_not_read_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def disconnected(self: trio.SocketStream, data: bytes) -> None:
        raise trio.BrokenResourceError

    async with signing_in(cancelled=False) as (redirect, outcome):
        parts = urlsplit(redirect)
        assert parts.port is not None
        async with await trio.open_tcp_stream("127.0.0.1", parts.port) as stream:
            await stream.send_all(f"GET /callback?{RESPONSE} HTTP/1.1\r\n".encode())
            await trio.testing.wait_all_tasks_blocked()
            with monkeypatch.context() as patch:
                socket_of = stream.socket
                patch.setattr(trio.SocketStream, "send_all", disconnected)
                await socket_of.send(b"\r\n")
                assert await stream.receive_some() == b""

    assert outcome == [f"{redirect}?{RESPONSE}"]


async def test_the_first_of_two_redirects_counts() -> None:
    sign_in = _loopback._SignIn("auth.example.org", Person().show, Callback("u", "h", 1, "/cb"), "s")
    ours, theirs = trio.testing.memory_stream_pair()
    also_ours, also_theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(b"GET /cb?code=1&state=s HTTP/1.1\r\n\r\n")
    await also_theirs.send_all(b"GET /cb?code=2&state=s HTTP/1.1\r\n\r\n")

    for stream in (ours, also_ours):
        served: Any = stream
        await sign_in.serve(served)

    assert sign_in.target == "/cb?code=1&state=s"


async def test_without_a_state_any_redirect_with_a_code_counts() -> None:
    async with signing_in(page="https://auth.example.org/authorize", cancelled=False) as (redirect, outcome):
        assert status(await browse(f"{redirect}?state=x")) == 400
        assert status(await browse(f"{redirect}?code=abc")) == 200

    assert outcome == [f"{redirect}?code=abc"]


async def test_waiting_for_the_redirect_has_a_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with agent_for(seconds=300) as agent:
        redirect = await agent.pick_redirect(None)
        with pytest.raises(
            AuthorizationFailed, match=r"^the sign-in at auth\.example\.org was not completed within 300 s$"
        ):
            await agent.sign_in(PAGE, redirect)

    assert trio.current_time() == pytest.approx(300, abs=0.1)


async def test_if_the_page_cannot_be_shown_the_sign_in_fails_with_the_reason() -> None:
    cause = ValueError("secret")

    async def show(url: str) -> None:
        raise cause

    async with open_loopback_browser(show=show, seconds=60, redirect_uri=None) as agent:
        redirect = await agent.pick_redirect(None)
        with pytest.raises(AuthorizationFailed) as caught:
            await agent.sign_in(PAGE, redirect)

    assert str(caught.value) == "the sign-in page of auth.example.org could not be shown: ValueError"
    assert caught.value.__cause__ is cause


async def test_the_show_function_may_raise_the_reason_of_the_failure() -> None:
    refusal = AuthorizationFailed("no screen")

    async def show(url: str) -> None:
        raise refusal

    async with open_loopback_browser(show=show, seconds=60, redirect_uri=None) as agent:
        redirect = await agent.pick_redirect(None)
        with pytest.raises(AuthorizationFailed) as caught:
            await agent.sign_in(PAGE, redirect)

    assert caught.value is refusal


async def test_a_received_redirect_counts_even_if_the_show_function_fails_afterwards() -> None:
    async def show(url: str) -> None:
        await browse(f"{redirect}?{RESPONSE}")
        raise RuntimeError("the window is missing")

    async with open_loopback_browser(show=show, seconds=60, redirect_uri=None) as agent:
        redirect = await agent.pick_redirect(None)
        assert await agent.sign_in(PAGE, redirect) == f"{redirect}?{RESPONSE}"


async def test_the_show_function_may_return_at_once() -> None:
    async def show(url: str) -> None:
        nursery.start_soon(browse, f"{redirect}?{RESPONSE}")

    async with (
        open_loopback_browser(show=show, seconds=60, redirect_uri=None) as agent,
        trio.open_nursery() as nursery,
    ):
        redirect = await agent.pick_redirect(None)
        assert await agent.sign_in(PAGE, redirect) == f"{redirect}?{RESPONSE}"


async def test_an_unsafe_page_is_not_shown() -> None:
    async with agent_for() as agent:
        redirect = await agent.pick_redirect(None)
        with pytest.raises(AuthorizationFailed, match="http or https URL"):
            await agent.sign_in("file:///etc/passwd", redirect)


async def test_sign_in_requires_a_picked_redirect_uri() -> None:
    async with agent_for() as agent:
        with pytest.raises(RuntimeError):
            await agent.sign_in(PAGE, "http://127.0.0.1:1/callback")
        await agent.pick_redirect(None)
        with pytest.raises(RuntimeError):
            await agent.sign_in(PAGE, "http://127.0.0.1:1/callback")


async def test_the_port_is_closed_after_the_sign_in() -> None:
    async with agent_for() as agent:
        first = await agent.pick_redirect(None)
        assert await agent.pick_redirect(first) == first
        port = urlsplit(first).port
        assert port is not None

    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:{}/callback",
        "http://localhost:{}/cb",
        "http://LOCALHOST:{}/cb?tenant=1",
        "http://127.0.0.1:{}",
        "http://[::1]:{}/cb",
    ],
)
async def test_a_preferred_redirect_uri_is_used_unchanged_if_its_port_is_free(uri: str) -> None:
    preferred = uri.format(await free_port())

    async with agent_for() as agent:
        assert await agent.pick_redirect(preferred) == preferred
    async with agent_for(preferred) as agent:
        assert await agent.pick_redirect("http://127.0.0.1:1/other") == preferred


async def test_if_the_preferred_port_is_occupied_another_port_is_used() -> None:
    async with occupied() as port, agent_for() as agent:
        found = urlsplit(await agent.pick_redirect(f"http://127.0.0.1:{port}/cb?tenant=1"))

    assert found.port != port
    assert (found.hostname, found.path, found.query) == ("127.0.0.1", "/cb", "tenant=1")


@pytest.mark.parametrize("uri", ["http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost:0/cb"])
async def test_a_redirect_uri_without_a_port_gets_any_free_port(uri: str) -> None:
    async with agent_for(uri) as agent:
        found = urlsplit(await agent.pick_redirect(None))

    assert found.port not in {None, 0, 80}
    assert (found.hostname, found.path) == (urlsplit(uri).hostname, "/cb")


async def test_an_occupied_port_that_the_application_requires_is_an_error() -> None:
    async with occupied() as port, agent_for(f"http://127.0.0.1:{port}/cb") as agent:
        with pytest.raises(AuthorizationFailed, match=rf"cannot be redirected to http://127.0.0.1:{port}/cb: .*in use"):
            await agent.pick_redirect(None)


async def test_localhost_requires_the_port_on_both_of_its_addresses() -> None:
    async with occupied("::1") as port, agent_for(f"http://localhost:{port}/cb") as agent:
        with pytest.raises(AuthorizationFailed, match="in use"):
            await agent.pick_redirect(None)
        (free,) = await trio.open_tcp_listeners(port, host="127.0.0.1")  # released again
        await free.aclose()


async def test_the_server_listens_on_both_addresses_of_localhost() -> None:
    for address in ("127.0.0.1", "[::1]"):
        async with signing_in("http://localhost/cb", cancelled=False) as (redirect, outcome):
            await browse(f"http://{address}:{urlsplit(redirect).port}/cb?{RESPONSE}")
        assert outcome == [f"{redirect}?{RESPONSE}"]


async def test_without_ipv6_the_server_listens_on_the_ipv4_address_of_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Simulates the missing address family, because test machines have both."""
    listen = trio.open_tcp_listeners

    async def open_tcp_listeners(port: int, *, host: str) -> list[trio.SocketListener]:
        if host == "::1":
            raise OSError(errno.EADDRNOTAVAIL, "no such address")
        return await listen(port, host=host)

    monkeypatch.setattr(trio, "open_tcp_listeners", open_tcp_listeners)

    async with signing_in("http://localhost/cb", cancelled=False) as (redirect, outcome):
        await browse(f"{redirect}?{RESPONSE}".replace("localhost", "127.0.0.1"))
    assert outcome == [f"{redirect}?{RESPONSE}"]


@pytest.mark.parametrize(
    "uri",
    [
        "https://127.0.0.1:8000/cb",
        "http://example.org/cb",
        "http://192.0.2.1/cb",
        "http://me@127.0.0.1/cb",
        "http://127.0.0.1/cb#x",
        "http://127.0.0.1:99999/cb",
        "http://0.0.0.0/cb",
        "http://[::1/cb",
        "app:/cb",
        "",
    ],
)
async def test_a_redirect_uri_of_another_host_is_refused(uri: str) -> None:
    async with agent_for(uri) as agent:
        with pytest.raises(AuthorizationFailed, match="is not an http URL of this machine"):
            await agent.pick_redirect(None)
    async with agent_for() as agent:  # the registered port may belong to another program
        found = urlsplit(await agent.pick_redirect(uri))
    assert (found.hostname, found.path) == ("127.0.0.1", "/callback")
