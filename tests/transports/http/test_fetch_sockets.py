"""HTTP requests outside of the protocol, over real sockets: resolved addresses, certificates and proxies."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from attrs import evolve

from tests.transports.http.client.scripted_auth import ScriptedAuth
from tests.transports.http.hypercorn.test_tls import make_certificate
from tests.transports.http.resolver import FakeResolver
from tests.transports.http.scripted_server import ClientStub, result, start_request
from tests.transports.http.test_engine import Connection, RawServer, listening
from trio_mcp.abc import Fetch
from trio_mcp.auth import CallFailed, HttpCall, HttpReply
from trio_mcp.transports import http_transport, open_fetch
from trio_mcp.transports.http import _fetch, _http1_engine
from trio_mcp.transports.http._engine import EngineError, Place
from trio_mcp.transports.http._fetch import has_proxies, open_client_fetch
from trio_mcp.transports.http._http1_engine import Http1Engine

HERE = "http://127.0.0.1/mcp"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def fetching(
    url: str = "https://mcp.test/mcp", http_client: httpx2.AsyncClient | None = None, **options: Any
) -> AsyncGenerator[Fetch]:
    """Open the fetch of a client of the server at *url*."""
    engine = Http1Engine()
    engine.reached_at = options.get("reached_at")
    async with open_client_fetch(url, None if has_proxies() else engine, http_client) as fetch:
        yield fetch


def call(url: str, **members: Any) -> HttpCall:
    """Return a request to a URL that a server has named."""
    return evolve(HttpCall(method="GET", url=url, named_by="server"), **members)


async def answered(server: RawServer, fetch: Fetch, outgoing: HttpCall) -> tuple[str, dict[str, str], bytes, HttpReply]:
    """Send a request that the server answers; return the received request and the reply."""
    replies: list[HttpReply] = []

    async def send() -> None:
        replies.append(await fetch(outgoing))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        connection = await server.connection()
        received = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "X-A: 1", "x-a: 2", "content-length: 2", body=b"{}")
    return *received, replies[0]


async def exchange_twice(
    server: RawServer, fetch: Fetch, outgoing: HttpCall, connection: Connection | None = None
) -> Connection:
    """Send a request twice, one after the other, which the server answers on one connection; return that."""
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch, outgoing)
            connection = connection or await server.connection()
            await connection.request()
            await connection.send("HTTP/1.1 200 OK", "content-length: 2", body=b"{}")
    assert connection is not None
    return connection


async def test_a_host_is_resolved_once_and_reached_at_the_resolved_address() -> None:
    resolver = FakeResolver.install("as.test", ["127.0.0.1"], ["10.0.0.1"])
    async with listening() as server, fetching(HERE) as fetch:
        first, fields, _, reply = await answered(server, fetch, call(f"http://as.test:{server.port}/a?b=c"))

    assert resolver.lookups == ["as.test"]
    assert first == "GET /a?b=c HTTP/1.1"
    assert fields.pop("user-agent").startswith("trio-mcp/")
    assert fields == {"host": f"as.test:{server.port}", "connection": "close", "accept-encoding": "identity"}
    assert (reply.status, reply.body, reply.headers["x-a"]) == (200, b"{}", "1, 2")


async def test_a_host_that_moves_to_a_forbidden_address_between_two_requests_is_refused() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"], ["169.254.169.254"])
    async with listening() as server, fetching(HERE) as fetch:
        outgoing = call(f"http://as.test:{server.port}/")
        await answered(server, fetch, outgoing)
        with pytest.raises(CallFailed, match=r"has the address 169\.254\.169\.254"):
            await fetch(outgoing)


async def test_the_host_of_a_redirect_is_resolved_and_checked_again() -> None:
    resolver = FakeResolver.install("as.test", ["127.0.0.1"], ["169.254.169.254"])

    async def serve(server: RawServer) -> None:
        connection = await server.connection()
        await connection.request()
        await connection.send("HTTP/1.1 302 Found", "location: /next", "content-length: 0")

    async with listening() as server, fetching(HERE) as fetch, trio.open_nursery() as nursery:
        nursery.start_soon(serve, server)
        with pytest.raises(CallFailed, match=r"has the address 169\.254\.169\.254"):
            await fetch(call(f"http://as.test:{server.port}/"))
    assert resolver.lookups == ["as.test", "as.test"]


async def test_a_form_is_posted() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with listening() as server, fetching(HERE) as fetch:
        outgoing = call(
            f"http://as.test:{server.port}/token", method="POST", body=b"a=1", headers={"content-type": "x"}
        )
        first, fields, body, _ = await answered(server, fetch, outgoing)

    assert (first, fields["content-type"], body) == ("POST /token HTTP/1.1", "x", b"a=1")


async def test_every_request_opens_a_new_connection() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with listening() as server, fetching(HERE) as fetch:
        for _ in range(2):
            await answered(server, fetch, call(f"http://as.test:{server.port}/"))
        assert server.accepted == 2


async def test_a_server_keeps_the_connection_to_a_host_that_the_user_names() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with listening() as server, open_fetch(trusted_hosts=[]) as fetch:
        outgoing = call(f"http://as.test:{server.port}/", named_by="user", method="POST")
        await exchange_twice(server, fetch, outgoing)
        assert server.accepted == 1


async def test_a_kept_connection_that_the_other_side_has_closed_is_not_used() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with listening() as server, open_fetch(trusted_hosts=[]) as fetch:
        outgoing = call(f"http://as.test:{server.port}/", named_by="user", method="POST")
        for _ in range(3):
            connection = await exchange_twice(server, fetch, outgoing)
            await connection.stream.aclose()
        assert server.accepted == 3


def public(address: str) -> str:
    """Replace the function that returns the network of an address."""
    del address
    return "public"


async def test_a_kept_connection_is_used_for_one_name_only_although_another_has_the_same_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_fetch, "network_of", public)
    trio.socket.set_custom_hostname_resolver(FakeResolver({"a.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}))
    async with listening() as server, open_fetch(trusted_hosts=[]) as fetch:
        one, other = (call(f"http://{name}:{server.port}/") for name in ("a.test", "b.test"))
        first = await exchange_twice(server, fetch, one)
        assert server.accepted == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch, other)
            connection = await server.connection()
            await connection.request()
            await connection.send("HTTP/1.1 200 OK", "content-length: 0")
        assert server.accepted == 2
        await exchange_twice(server, fetch, one, first)


async def test_a_bounded_number_of_connections_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fetch, "network_of", public)
    monkeypatch.setattr(_fetch, "_MOST_IDLE", 1)
    trio.socket.set_custom_hostname_resolver(FakeResolver({"a.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}))
    async with listening() as server, open_fetch(trusted_hosts=[]) as fetch:
        one, other = (call(f"http://{name}:{server.port}/") for name in ("a.test", "b.test"))
        first = await exchange_twice(server, fetch, one)
        await exchange_twice(server, fetch, other)
        await first.left()
        await exchange_twice(server, fetch, one)
        assert server.accepted == 3


# TLS.


@asynccontextmanager
async def listening_with_tls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[RawServer]:
    """Listen as a server with a trusted certificate for `localhost`."""
    certificate = make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    monkeypatch.setattr(_http1_engine, "_trust", lambda: certificate.trusted)
    async with listening(context) as server:
        yield server


async def test_the_certificate_is_verified_for_the_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, fetching(HERE) as fetch:
        FakeResolver.install("localhost", ["127.0.0.1"])
        _, fields, _, reply = await answered(server, fetch, call(f"https://localhost:{server.port}/"))

    assert reply.status == 200
    assert fields["host"] == f"localhost:{server.port}"


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, fetching(HERE) as fetch:
        FakeResolver.install("as.test", ["127.0.0.1"])
        with pytest.raises(CallFailed, match=r"^cannot connect to https://as.test:[0-9]+/: .*verify failed"):
            await fetch(call(f"https://as.test:{server.port}/?key=s3cret"))


# Allowed addresses.


async def test_a_server_on_the_internet_may_not_name_this_machine() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with listening() as server, fetching() as fetch:
        for host in ("as.test", "127.0.0.1", "127.1", "[::ffff:127.0.0.1]"):
            with pytest.raises(CallFailed, match="may not name"):
                await fetch(call(f"http://{host}:{server.port}/"))
        assert server.accepted == 0
        await answered(server, fetch, call(f"http://127.0.0.1:{server.port}/", named_by="user"))


async def test_the_host_of_the_server_itself_counts_as_named_by_the_user() -> None:
    FakeResolver.install("mcp.test", ["127.0.0.1"])
    async with listening() as server, fetching("https://MCP.test/mcp") as fetch:
        await answered(server, fetch, call(f"http://mcp.test:{server.port}/.well-known/x"))


async def test_the_address_of_the_server_decides_which_hosts_it_may_name() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    auth = ScriptedAuth()
    async with listening() as server, trio.open_nursery() as nursery:
        resolver = FakeResolver({"mcp.test": [["127.0.0.1"]], "as.test": [["127.0.0.1"]]})
        trio.socket.set_custom_hostname_resolver(resolver)
        async with http_transport(f"http://mcp.test:{server.port}/mcp", auth=auth)(ClientStub()) as transport:
            outgoing = call(f"http://as.test:{server.port}/")
            with pytest.raises(CallFailed, match="may not name"):
                await auth.fetch(outgoing)
            pending = start_request(nursery, transport)
            connection = await server.connection()
            await connection.request()
            await connection.json(result(1))
            await pending.outcome()
            await answered(server, auth.fetch, outgoing)


async def test_an_unknown_host_is_not_found() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with fetching() as fetch:
        with pytest.raises(CallFailed, match=r"^https://unknown.test/x: the host is not found$"):
            await fetch(call("https://unknown.test/x?key=s3cret"))


async def test_an_invalid_address_is_not_requested() -> None:
    async with fetching() as fetch:
        with pytest.raises(CallFailed, match=r"^https://0177\.0\.0\.1/x is not a valid address: "):
            await fetch(call("https://0177.0.0.1/x?s3cret"))


async def test_a_url_without_a_port_uses_the_port_of_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[tuple[Place, str | None]] = []

    async def connect(_: Http1Engine, place: Place, address: str | None) -> Any:
        await trio.lowlevel.checkpoint()
        connected.append((place, address))
        raise EngineError("no way", sent=False)

    monkeypatch.setattr(Http1Engine, "connect", connect)
    FakeResolver.install("xn--bcher-kva.test", ["fd00::1"])
    async with fetching("https://10.0.0.1/mcp") as fetch:
        with pytest.raises(CallFailed, match="no way"):
            await fetch(call("https://bücher.test/x"))

    ((place, address),) = connected
    host = "xn--bcher-kva.test"
    assert (place.host, place.port, place.authority, place.target) == (host, 443, host, "/x")
    assert address == "fd00::1"


# Several addresses.


async def test_the_next_address_is_tried_if_one_cannot_be_reached() -> None:
    FakeResolver.install("as.test", ["127.0.0.2", "127.0.0.4", "127.0.0.3"])
    async with listening(host="127.0.0.3") as server, fetching(HERE) as fetch:
        await answered(server, fetch, call(f"http://as.test:{server.port}/"))


@pytest.mark.parametrize("before", [["127.0.0.2"], ["127.0.0.2", "127.0.0.4", "127.0.0.5", "127.0.0.3"]])
async def test_at_most_three_addresses_are_tried(before: Sequence[str]) -> None:
    FakeResolver.install("as.test", before)
    async with listening(host="127.0.0.3") as server, fetching(HERE) as fetch:
        with pytest.raises(CallFailed, match=r"cannot connect to http://as.test:[0-9]+/x"):
            await fetch(call(f"http://as.test:{server.port}/x"))
        assert server.accepted == 0


async def test_a_request_that_was_sent_is_not_repeated_at_another_address() -> None:
    async def hang_up(server: RawServer) -> None:
        connection: Connection = await server.connection()
        await connection.request()
        await connection.stream.aclose()

    FakeResolver.install("as.test", ["127.0.0.3", "127.0.0.2"])
    async with listening(host="127.0.0.3") as server, fetching(HERE) as fetch, trio.open_nursery() as nursery:
        nursery.start_soon(hang_up, server)
        with pytest.raises(CallFailed) as caught:
            await fetch(call(f"http://as.test:{server.port}/x", method="POST", body=b"once"))

    assert "cannot connect" not in str(caught.value)


# Proxies and custom clients.


async def test_hosts_behind_a_proxy_are_checked_if_they_can_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeResolver.install("as.test", ["10.0.0.1"])
    async with listening() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        async with fetching(reached_at="127.0.0.1") as fetch:
            with pytest.raises(CallFailed, match="may not name"):
                await fetch(call("http://as.test/"))
            first, fields, _, _ = await answered(proxy, fetch, call("http://elsewhere.test/x"))

    assert first == "GET http://elsewhere.test/x HTTP/1.1"
    assert fields["host"] == "elsewhere.test"


async def test_defaults_of_a_custom_client_are_not_sent_to_other_hosts() -> None:
    FakeResolver.install("as.test", ["93.184.216.34"])
    requests: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json={})

    async with httpx2.AsyncClient(
        headers={"X-Key": "s3cret"},
        cookies={"c": "s3cret"},
        params={"p": "s3cret"},
        auth=("me", "s3cret"),
        transport=httpx2.MockTransport(respond),
    ) as custom:
        async with fetching(http_client=custom) as fetch:
            assert (await fetch(call("https://as.test/x"))).body == b"{}"
            with pytest.raises(CallFailed, match="may not name"):
                await fetch(call("https://10.0.0.1/x"))
        assert not custom.is_closed

    (request,) = requests
    assert str(request.url) == "https://as.test/x"
    assert "s3cret" not in f"{request.headers!r}"
    assert {*request.headers} == {"host", "user-agent", "accept-encoding"}


# Without a client.


async def test_hosts_that_the_user_names_may_have_any_address() -> None:
    FakeResolver.install("as.test", ["127.0.0.1"])
    async with listening() as server, open_fetch() as fetch:
        await answered(server, fetch, call(f"http://as.test:{server.port}/"))


async def test_with_trusted_hosts_only_these_may_have_any_address() -> None:
    trio.socket.set_custom_hostname_resolver(FakeResolver({"as.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}))
    async with listening() as server, open_fetch(trusted_hosts=["AS.test"]) as fetch:
        await answered(server, fetch, call(f"http://as.test:{server.port}/"))
        with pytest.raises(CallFailed, match="may not name"):
            await fetch(call(f"http://b.test:{server.port}/"))


async def test_kept_connections_are_closed_with_their_fetch() -> None:
    async with listening() as server, trio.open_nursery() as nursery:
        async with open_fetch(trusted_hosts=[]) as fetch:
            connection = await exchange_twice(server, fetch, call(server.url, named_by="user"))
            with trio.CancelScope() as scope:
                scope.cancel()
                await trio.sleep_forever()
        nursery.start_soon(connection.left)
