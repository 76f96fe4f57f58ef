"""Requests beside those of the protocol, over real sockets: where they go, whatever names mean, and what they carry."""

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

from tests.transports.http.client.scripted_auth import AuthByHand
from tests.transports.http.hypercorn.test_tls import make_certificate
from tests.transports.http.resolver import Names
from tests.transports.http.scripted_server import Caller, ask, result
from tests.transports.http.test_engine import Connection, Listening, listening
from trio_mcp.abc import Fetch
from trio_mcp.auth import CallFailed, HttpCall, HttpReply
from trio_mcp.transports import http_transport, open_fetch
from trio_mcp.transports.http import _engine as _httpx_engine
from trio_mcp.transports.http import _fetch as _httpx_fetch
from trio_mcp.transports.http._engine import HttpxEngine, new_httpx_client

HERE = "http://127.0.0.1/mcp"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def fetching(
    url: str = "https://mcp.test/mcp", http_client: httpx2.AsyncClient | None = None, **seen: Any
) -> AsyncGenerator[Fetch]:
    """What makes the requests of a client of the server at *url*."""
    async with httpx2.AsyncClient() as carrying:
        engine = HttpxEngine(carrying, closes=False)
        engine.reached_at = seen.get("reached_at")
        async with _httpx_fetch.open_client_fetch(url, engine, http_client) as fetch:
            yield fetch


def call(url: str, **members: Any) -> HttpCall:
    """A request to where a server leads."""
    return evolve(HttpCall(method="GET", url=url, named_by="server"), **members)


async def answered(server: Listening, fetch: Fetch, what: HttpCall) -> tuple[str, dict[str, str], bytes, HttpReply]:
    """Make a request that the server answers; return what it has seen of it, and the reply."""
    replies: list[HttpReply] = []

    async def ask_for_it() -> None:
        replies.append(await fetch(what))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_for_it)
        connection = await server.connection()
        seen = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "X-A: 1", "x-a: 2", "content-length: 2", body=b"{}")
    return *seen, replies[0]


async def test_a_host_is_looked_up_once_and_reached_where_it_was_found() -> None:
    names = Names.set("as.test", ["127.0.0.1"], ["10.0.0.1"])
    async with listening() as server, fetching(HERE) as fetch:
        first, fields, _, reply = await answered(server, fetch, call(f"http://as.test:{server.port}/a?b=c"))

    assert names.asked == ["as.test"]
    assert first == "GET /a?b=c HTTP/1.1"
    assert fields.pop("user-agent").startswith("trio-mcp/")
    assert fields == {"host": f"as.test:{server.port}", "accept-encoding": "identity"}
    assert (reply.status, reply.body, reply.headers["x-a"]) == (200, b"{}", "1, 2")


async def test_a_host_that_moves_into_a_private_network_between_two_requests_is_refused_then() -> None:
    Names.set("as.test", ["127.0.0.1"], ["169.254.169.254"])
    async with listening() as server, fetching(HERE) as fetch:
        what = call(f"http://as.test:{server.port}/")
        await answered(server, fetch, what)
        with pytest.raises(CallFailed, match=r"has the address 169\.254\.169\.254"):
            await fetch(what)


async def test_a_redirect_is_judged_like_the_address_it_comes_from() -> None:
    names = Names.set("as.test", ["127.0.0.1"], ["169.254.169.254"])

    async def serve(server: Listening) -> None:
        connection = await server.connection()
        await connection.request()
        await connection.send("HTTP/1.1 302 Found", "location: /next", "content-length: 0")

    async with listening() as server, fetching(HERE) as fetch, trio.open_nursery() as nursery:
        nursery.start_soon(serve, server)
        with pytest.raises(CallFailed, match=r"has the address 169\.254\.169\.254"):
            await fetch(call(f"http://as.test:{server.port}/"))
    assert names.asked == ["as.test", "as.test"]


async def test_a_form_is_posted() -> None:
    Names.set("as.test", ["127.0.0.1"])
    async with listening() as server, fetching(HERE) as fetch:
        what = call(f"http://as.test:{server.port}/token", method="POST", body=b"a=1", headers={"content-type": "x"})
        first, fields, body, _ = await answered(server, fetch, what)

    assert (first, fields["content-type"], body) == ("POST /token HTTP/1.1", "x", b"a=1")


async def test_no_connection_is_reused_for_another_name() -> None:
    Names.set("as.test", ["127.0.0.1"])
    async with listening() as server, fetching(HERE) as fetch:
        for _ in range(2):
            await answered(server, fetch, call(f"http://as.test:{server.port}/"))
        assert server.accepted == 2


# TLS.


@asynccontextmanager
async def listening_with_tls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Listening]:
    """A server whose certificate says `localhost`, and is trusted."""
    certificate = make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    monkeypatch.setattr(_httpx_engine, "_trust", lambda: certificate.trusted)
    async with listening(context) as server:
        yield server


async def test_the_name_is_verified_though_the_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, fetching(HERE) as fetch:
        Names.set("localhost", ["127.0.0.1"])
        _, fields, _, reply = await answered(server, fetch, call(f"https://localhost:{server.port}/"))

    assert reply.status == 200
    assert fields["host"] == f"localhost:{server.port}"


async def test_a_server_of_another_name_at_that_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, fetching(HERE) as fetch:
        Names.set("as.test", ["127.0.0.1"])
        with pytest.raises(CallFailed, match=r"^cannot connect to https://as.test:[0-9]+/: .*verify failed"):
            await fetch(call(f"https://as.test:{server.port}/?key=s3cret"))


# Where a host may be.


async def test_a_server_on_the_internet_does_not_lead_to_this_machine() -> None:
    Names.set("as.test", ["127.0.0.1"])
    async with listening() as server, fetching() as fetch:
        for host in ("as.test", "127.0.0.1", "127.1", "[::ffff:127.0.0.1]"):
            with pytest.raises(CallFailed, match="may not name"):
                await fetch(call(f"http://{host}:{server.port}/"))
        assert server.accepted == 0
        await answered(server, fetch, call(f"http://127.0.0.1:{server.port}/", named_by="user"))


async def test_the_host_of_the_server_itself_is_one_that_the_user_has_named() -> None:
    Names.set("mcp.test", ["127.0.0.1"])
    async with listening() as server, fetching("https://MCP.test/mcp") as fetch:
        await answered(server, fetch, call(f"http://mcp.test:{server.port}/.well-known/x"))


async def test_the_address_of_the_server_decides_which_hosts_it_may_name() -> None:
    Names.set("as.test", ["127.0.0.1"])
    auth = AuthByHand()
    async with listening() as server, trio.open_nursery() as nursery:
        names = Names({"mcp.test": [["127.0.0.1"]], "as.test": [["127.0.0.1"]]})
        trio.socket.set_custom_hostname_resolver(names)
        async with http_transport(f"http://mcp.test:{server.port}/mcp", auth=auth)(Caller()) as transport:
            what = call(f"http://as.test:{server.port}/")
            with pytest.raises(CallFailed, match="may not name"):
                await auth.fetch(what)
            pending = ask(nursery, transport)
            connection = await server.connection()
            await connection.request()
            await connection.json(result(1))
            await pending.outcome()
            await answered(server, auth.fetch, what)


async def test_an_unknown_host_is_not_found() -> None:
    Names.set("as.test", ["127.0.0.1"])
    async with fetching() as fetch:
        with pytest.raises(CallFailed, match=r"^https://nobody.test/x: the host is not found$"):
            await fetch(call("https://nobody.test/x?key=s3cret"))


async def test_an_invalid_address_is_not_requested() -> None:
    async with fetching() as fetch:
        with pytest.raises(CallFailed, match=r"^https://0177\.0\.0\.1/x is not a valid address: "):
            await fetch(call("https://0177.0.0.1/x?s3cret"))


async def test_a_name_without_a_port_is_looked_up_with_that_of_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200)

    def client(**_: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(respond))

    monkeypatch.setattr(_httpx_fetch, "new_httpx_client", client)
    Names.set("xn--bcher-kva.test", ["fd00::1"])
    async with fetching("https://10.0.0.1/mcp") as fetch:
        await fetch(call("https://bücher.test/x"))

    (request,) = requests
    assert str(request.url) == "https://[fd00::1]/x"
    assert request.headers["host"] == request.extensions["sni_hostname"] == "xn--bcher-kva.test"


# Several addresses.


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    Names.set("as.test", ["127.0.0.2", "127.0.0.4", "127.0.0.3"])
    async with listening(host="127.0.0.3") as server, fetching(HERE) as fetch:
        await answered(server, fetch, call(f"http://as.test:{server.port}/"))


@pytest.mark.parametrize("before", [["127.0.0.2"], ["127.0.0.2", "127.0.0.4", "127.0.0.5", "127.0.0.3"]])
async def test_some_addresses_are_tried_and_no_more(before: Sequence[str]) -> None:
    Names.set("as.test", before)
    async with listening(host="127.0.0.3") as server, fetching(HERE) as fetch:
        with pytest.raises(CallFailed, match=r"cannot connect to http://as.test:[0-9]+/x"):
            await fetch(call(f"http://as.test:{server.port}/x"))
        assert server.accepted == 0


async def test_what_has_left_is_not_sent_to_another_address() -> None:
    async def hang_up(server: Listening) -> None:
        connection: Connection = await server.connection()
        await connection.request()
        await connection.stream.aclose()

    Names.set("as.test", ["127.0.0.3", "127.0.0.2"])
    async with listening(host="127.0.0.3") as server, fetching(HERE) as fetch, trio.open_nursery() as nursery:
        nursery.start_soon(hang_up, server)
        with pytest.raises(CallFailed) as caught:
            await fetch(call(f"http://as.test:{server.port}/x", method="POST", body=b"once"))

    assert "cannot connect" not in str(caught.value)


# Proxies, and clients of the user's.


async def test_through_a_proxy_hosts_are_judged_as_far_as_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    Names.set("as.test", ["10.0.0.1"])
    async with listening() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        async with fetching(reached_at="127.0.0.1") as fetch:
            with pytest.raises(CallFailed, match="may not name"):
                await fetch(call("http://as.test/"))
            first, fields, _, _ = await answered(proxy, fetch, call("http://elsewhere.test/x"))

    assert first == "GET http://elsewhere.test/x HTTP/1.1"
    assert fields["host"] == "elsewhere.test"


async def test_additions_of_a_custom_client_are_not_sent_to_other_hosts() -> None:
    Names.set("as.test", ["93.184.216.34"])
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
    ) as mine:
        async with fetching(http_client=mine) as fetch:
            assert (await fetch(call("https://as.test/x"))).body == b"{}"
            with pytest.raises(CallFailed, match="may not name"):
                await fetch(call("https://10.0.0.1/x"))
        assert not mine.is_closed

    (request,) = requests
    assert str(request.url) == "https://as.test/x"
    assert "s3cret" not in f"{request.headers!r}"
    assert {*request.headers} == {"host", "user-agent", "accept-encoding"}


# Without a client.


async def test_hosts_that_the_user_names_may_have_any_address() -> None:
    Names.set("as.test", ["127.0.0.1"])
    async with listening() as server, open_fetch() as fetch:
        await answered(server, fetch, call(f"http://as.test:{server.port}/"))


async def test_or_only_those_that_are_trusted() -> None:
    trio.socket.set_custom_hostname_resolver(Names({"as.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}))
    async with listening() as server, open_fetch(trusted_hosts=["AS.test"]) as fetch:
        await answered(server, fetch, call(f"http://as.test:{server.port}/"))
        with pytest.raises(CallFailed, match="may not name"):
            await fetch(call(f"http://b.test:{server.port}/"))


async def test_connections_are_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[httpx2.AsyncClient] = []

    def client(**options: Any) -> httpx2.AsyncClient:
        made.append(new_httpx_client(**options))
        return made[-1]

    monkeypatch.setattr(_httpx_fetch, "new_httpx_client", client)
    with trio.CancelScope() as scope:
        async with open_fetch():
            scope.cancel()
            await trio.sleep_forever()

    assert made[0].is_closed
