"""Authentication of an HTTP client: each request carries credentials, and refused requests are repeated."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.client.scripted_auth import ScriptedAuth, ScriptedAuthAttempt
from tests.transports.http.scripted_server import (
    LEGACY,
    META,
    MODERN,
    URL,
    ClientStub,
    Pending,
    ReceivedRequest,
    ScriptedHttpServer,
    answer_handshake,
    initialize,
    notification,
    open_session,
    open_transport,
    result,
    start_request,
)
from trio_mcp import HttpStatusError, Limits, ResponseLost
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.abc import Transport
from trio_mcp.auth import HttpCall
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import http_transport

REFUSED = {"www-authenticate": 'Bearer error="invalid_token"'}


def credentials_of(request: ReceivedRequest) -> str | None:
    """Return the credentials of a request."""
    return request.headers.get("authorization")


class BrokenAttempt(ScriptedAuthAttempt):
    """An attempt that fails at every response."""

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:
        """Raise."""
        raise KeyError("s3cret")


async def refuse(server: ScriptedHttpServer, method: str = "POST", rpc: str | None = None) -> ReceivedRequest:
    """Answer the next request with 401."""
    request = await server.next(method, rpc)
    await request.answer(401, headers=REFUSED)
    return request


# Modern requests.


@pytest.mark.requirement("C.2-1")
async def test_each_request_carries_credentials(autojump_clock: object) -> None:
    server, auth, client = ScriptedHttpServer(), ScriptedAuth(), ClientStub()
    client.admission.agree(MODERN, {}, None)
    async with (
        open_transport(server, client, auth=auth, headers={"X-Mine": "a"}) as transport,
        trio.open_nursery() as nursery,
    ):
        pending = start_request(nursery, transport)
        await (await server.next(rpc="tools/list")).result()
        await pending.outcome()
        auth.token = "t1"
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        await (await server.next(rpc="notifications/mine")).answer(202)

    assert [credentials_of(request) for request in server.requests] == ["Bearer t0", "Bearer t1"]
    assert {request.headers["x-mine"] for request in server.requests} == {"a"}
    assert auth.responses == [("POST", URL, 200), ("POST", URL, 202)]


async def test_a_refused_request_is_repeated_after_the_token_was_renewed(autojump_clock: object) -> None:
    server, auth, client = ScriptedHttpServer(), ScriptedAuth(), ClientStub()
    async with open_transport(server, client, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", name="a", arguments={})
        first = await refuse(server, rpc="tools/call")
        again = await server.next(rpc="tools/call")
        await again.result(content=[])
        assert await pending.outcome() == {"content": []}

    assert [credentials_of(first), credentials_of(again)] == ["Bearer t0", "Bearer t1"]
    assert first.body == again.body
    assert auth.challenges == ['Bearer error="invalid_token"']
    assert [direction for direction, _ in client.seen] == ["sent", "received"]


async def test_a_request_that_is_refused_after_every_renewal_raises_its_status(autojump_clock: object) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth(max_repeats=2)
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        for _ in range(3):
            await refuse(server, rpc="tools/list")
        with pytest.raises(HttpStatusError) as caught:
            await pending.outcome()

    assert caught.value.status == 401
    assert auth.renewals == 2


async def test_other_refusals_are_reported_unchanged(autojump_clock: object) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        await (await server.next(rpc="tools/list")).answer(403)
        with pytest.raises(HttpStatusError):
            await pending.outcome()

    assert auth.responses == [("POST", URL, 403)]


async def test_a_missing_token_fails_one_call_and_no_other(autojump_clock: object) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        unaffected = start_request(nursery, transport, "tools/call")
        request = await server.next(rpc="tools/call")
        auth.failure = AuthorizationFailed("no token")
        with pytest.raises(AuthorizationFailed, match="no token"):
            await start_request(nursery, transport, repeatable=True).outcome()
        with pytest.raises(AuthorizationFailed, match="no token"):
            await transport.notify("notifications/mine", {"_meta": META})
        await request.result()
        assert await unaffected.outcome() == {}
        assert transport.statistics().outgoing == 0

    assert len(server.requests) == 1


async def test_a_failed_sign_in_fails_its_call_and_the_next_call_tries_again(autojump_clock: object) -> None:
    async def fail_once(auth: ScriptedAuth) -> None:
        await trio.lowlevel.checkpoint()
        if auth.renewals == 1:
            raise AuthorizationFailed("the user denied access", error="access_denied")
        auth.token = "new"

    server, auth = ScriptedHttpServer(), ScriptedAuth(token=None, renew=fail_once)
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        assert credentials_of(await refuse(server, rpc="tools/list")) is None
        with pytest.raises(AuthorizationFailed, match="the user denied access") as caught:
            await pending.outcome()
        assert caught.value.error == "access_denied"

        pending = start_request(nursery, transport)
        await refuse(server, rpc="tools/list")
        again = await server.next(rpc="tools/list")
        await again.result()
        await pending.outcome()

    assert credentials_of(again) == "Bearer new"


async def test_a_call_that_is_cancelled_while_it_waits_for_a_token_ends_at_once(autojump_clock: object) -> None:
    async def never(auth: ScriptedAuth) -> None:
        await trio.sleep_forever()

    server, auth = ScriptedHttpServer(), ScriptedAuth(renew=never)
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        await refuse(server, rpc="tools/list")
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert transport.statistics().outgoing == 0
        assert pending.is_done


async def test_an_accepted_request_does_not_wait_for_the_token_of_a_refused_one(autojump_clock: object) -> None:
    is_renewed = trio.Event()

    async def renew(auth: ScriptedAuth) -> None:
        await is_renewed.wait()

    server, auth = ScriptedHttpServer(), ScriptedAuth(renew=renew)
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        waiting = start_request(nursery, transport, "tools/call")
        await refuse(server, rpc="tools/call")
        unaffected = start_request(nursery, transport)
        await (await server.next(rpc="tools/list")).result()
        await unaffected.outcome()
        assert not waiting.is_done
        is_renewed.set()
        await (await server.next(rpc="tools/call")).result()
        await waiting.outcome()


@pytest.mark.parametrize("failing", ["attempt", "fields", "on_response", "resolve"])
async def test_a_token_source_that_raises_fails_one_call(failing: str, autojump_clock: object) -> None:
    class Broken(ScriptedAuth):
        def attempt(self, method: str, url: str) -> Any:
            if failing == "attempt":
                raise KeyError("s3cret")
            kind = BrokenAttempt if failing == "on_response" else ScriptedAuthAttempt
            return kind(self, method, url)

    async def fail(auth: ScriptedAuth) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("s3cret")

    server, auth = ScriptedHttpServer(), Broken(renew=fail)
    if failing == "fields":
        auth.failure = KeyError("s3cret")
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        if failing in {"on_response", "resolve"}:
            await refuse(server, rpc="tools/list")
        with pytest.raises(AuthorizationFailed, match=r"^the token source has raised KeyError$") as caught:
            await pending.outcome()
        assert isinstance(caught.value.__cause__, KeyError)
        assert transport.statistics().outgoing == 0


# The authentication of one connection.


async def test_the_tasks_of_an_authentication_end_with_its_connection(autojump_clock: object) -> None:
    server, auth, client = ScriptedHttpServer(), ScriptedAuth(), ClientStub()
    ended = trio.Event()

    async def outlive() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with open_transport(server, client, auth=auth):
        assert auth.url == URL
        auth.nursery.start_soon(outlive)
        await trio.testing.wait_all_tasks_blocked()
        assert not client.is_user_asked
        with auth.asking_person():
            assert client.is_user_asked
        assert not client.is_user_asked

    assert ended.is_set()


async def test_an_authentication_gets_the_address_in_its_encoded_form(autojump_clock: object) -> None:
    auth, engine = ScriptedAuth(), AsgiEngine(ScriptedHttpServer())
    async with http_transport("https://Bücher.example:443/für/mcp", auth=auth, engine=engine)(ClientStub()):
        assert auth.url == "https://xn--bcher-kva.example/f%C3%BCr/mcp"


def test_an_address_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(ValueError, match="2028/mcp' is not the address of a server"):
        http_transport("http://\u2028/mcp", auth=ScriptedAuth())


async def test_requests_of_an_authentication_use_the_engine_of_the_client_without_its_header_fields(
    autojump_clock: object,
) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    replies: list[Any] = []
    async with open_transport(server, auth=auth, headers={"X-Mine": "a"}), trio.open_nursery() as nursery:

        async def fetch() -> None:
            replies.append(await auth.fetch(HttpCall(method="GET", url="http://as.test/x", named_by="server")))

        nursery.start_soon(fetch)
        request = await server.next("GET")
        await request.answer(200, {"issuer": "me"})

    assert (replies[0].status, replies[0].body) == (200, b'{"issuer": "me"}')
    assert request.headers["host"] == "as.test"
    assert {"authorization", "x-mine"}.isdisjoint(request.headers)


async def test_an_authentication_that_cannot_be_set_up_raises_when_the_connection_is_opened() -> None:
    class Broken(ScriptedAuth):
        def source(self, url: str, **_: Any) -> ScriptedAuth:
            raise ValueError(f"nothing for {url}")

    with pytest.raises(ValueError, match=f"^nothing for {URL}$"):
        async with open_transport(ScriptedHttpServer(), auth=Broken()):
            raise AssertionError


@pytest.mark.parametrize("name", ["Authorization", "authorization", "DPoP"])
def test_duplicate_header_fields_of_the_caller_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="auth and an Authorization header exclude each other"):
        http_transport(URL, auth=ScriptedAuth(), headers={name: "Bearer mine"})


# Sessions.


async def open_stream_after_401(
    transport: Transport, server: ScriptedHttpServer, nursery: trio.Nursery
) -> ReceivedRequest:
    """Open the standalone stream of the transport; refuse it once with 401, and return the repeated request."""
    nursery.start_soon(transport.open_standalone_stream)
    await refuse(server, "GET")
    return await server.next("GET")


async def test_a_handshake_and_the_standalone_stream_carry_credentials(autojump_clock: object) -> None:
    server, auth, client = ScriptedHttpServer(), ScriptedAuth(), ClientStub()
    async with open_transport(server, client, auth=auth) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await refuse(server, rpc="initialize")
        await answer_handshake(server)
        request = await open_stream_after_401(transport, server, nursery)
        await request.begin()
        await request.event(notification("notifications/x"))
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == ["notifications/x"]
        await request.end()
        again = await server.next("GET")
        await again.begin()
        nursery.cancel_scope.cancel()

    tokens = [credentials_of(request) for request in server.requests]
    assert tokens[:6] == ["Bearer t0", "Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]
    assert server.requests[-1].method == "DELETE"
    assert tokens[-1] == "Bearer t2"


async def test_the_last_messages_of_a_closing_client_are_not_repeated_after_a_401(autojump_clock: object) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    with trio.fail_after(60):
        async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
            nursery.start_soon(initialize, transport)
            await answer_handshake(server)
            pending = start_request(nursery, transport, modern=False)
            await server.next(rpc="tools/list")
            pending.scope.cancel()
            await refuse(server, rpc="notifications/cancelled")
            await trio.testing.wait_all_tasks_blocked()

            async def refuse_delete() -> None:
                await refuse(server, "DELETE")

            auth.nursery.start_soon(refuse_delete)

    assert auth.renewals == 0
    assert server.requests[-1].method == "DELETE"
    assert [method for method, _, status in auth.responses if status == 401] == ["POST", "DELETE"]


async def test_a_closing_client_without_a_token_sends_no_delete(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await answer_handshake(server)
        auth.failure = AuthorizationFailed("gone")

    assert "DELETE" not in {request.method for request in server.requests}
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


async def test_a_reply_to_the_server_waits_for_the_user_without_a_limit_but_not_for_the_server(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask_user(auth: ScriptedAuth) -> None:
        with auth.asking_person():
            await trio.sleep(3600)

    server, auth, client = ScriptedHttpServer(), ScriptedAuth(renew=ask_user), ClientStub(Limits(stall_seconds=10))
    async with open_session(server, client, auth=auth) as transport, trio.open_nursery() as nursery:
        request = await open_stream_after_401(transport, server, nursery)
        await request.begin()
        for number in (1, 2):
            await request.event({"jsonrpc": "2.0", "id": number, "method": "ping"})
            await (await server.next()).answer(401)
            again = await server.next()
            assert again.message["id"] == number
            if number == 1:
                await again.answer(202)
        assert not caplog.records
        await trio.sleep(11)

    assert "the server has not confirmed a response" in caplog.text


@pytest.mark.parametrize(
    ("failure", "asks_user", "expected"),
    [
        (AuthorizationFailed("out of reach"), False, True),
        (AuthorizationFailed("the user did not answer"), True, False),
        (AuthorizationFailed("refused", error="invalid_grant"), False, False),
    ],
)
async def test_the_standalone_stream_is_reopened_unless_the_authorization_was_denied(
    failure: AuthorizationFailed,
    asks_user: bool,
    expected: bool,
    autojump_clock: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(auth: ScriptedAuth) -> None:
        await trio.lowlevel.checkpoint()
        if asks_user:
            with auth.asking_person():
                await trio.sleep(300)
        raise failure

    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_session(server, auth=auth) as transport, trio.open_nursery() as nursery:
        request = await open_stream_after_401(transport, server, nursery)
        await request.begin()
        auth.renew = fail
        await request.end()
        await refuse(server, "GET")
        if expected:
            request = await server.next("GET")
            auth.renew = None
            await request.answer(401)
            await (await server.next("GET")).begin()
        else:
            await server.expect_nothing(3600)
        nursery.cancel_scope.cancel()

    assert (f"the standalone stream is not opened again: {failure}" in caplog.text) is not expected


async def test_a_standalone_stream_that_was_never_opened_is_not_retried(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_session(server, auth=auth) as transport:
        auth.failure = AuthorizationFailed("no token")
        await transport.open_standalone_stream()
        await server.expect_nothing(3600)
        auth.failure = None

    assert "the standalone stream is not opened again: no token" in caplog.text


async def test_the_request_that_resumes_a_stream_carries_credentials(autojump_clock: object) -> None:
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_session(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event(id="e1")
        await request.end()
        await refuse(server, "GET")
        again = await server.next("GET")
        await again.begin()
        await again.event(result(request.message["id"], tools=[]))
        assert await pending.outcome() == {"tools": []}

    assert credentials_of(again) == "Bearer t1"


async def start_renewal(server: ScriptedHttpServer, transport: Transport, nursery: trio.Nursery) -> Pending:
    """End the session at the server; return a request that waits for the new one."""
    pending = start_request(nursery, transport, modern=False)
    await (await server.next(rpc="tools/list")).answer(404)
    return pending


async def test_a_new_session_without_authorization_fails_the_calls_that_need_it(autojump_clock: object) -> None:
    async def fail(auth: ScriptedAuth) -> None:
        await trio.lowlevel.checkpoint()
        raise AuthorizationFailed("the user denied access", error="access_denied")

    server, auth, client = ScriptedHttpServer(), ScriptedAuth(renew=fail), ClientStub()
    async with open_session(server, client, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = await start_renewal(server, transport, nursery)
        await refuse(server, rpc="initialize")
        with pytest.raises(AuthorizationFailed, match="the user denied access") as caught:
            await pending.outcome()
        assert caught.value.error == "access_denied"

        auth.renew = None
        pending = start_request(nursery, transport, modern=False)
        await refuse(server, rpc="initialize")
        await answer_handshake(server, id="s2")
        await (await server.next(rpc="tools/list")).result()
        await pending.outcome()
        assert client.renewals == 1


@pytest.mark.parametrize("asks_user", [True, False])
async def test_calls_wait_for_a_new_session_without_a_limit_while_the_user_is_asked(
    asks_user: bool, autojump_clock: object
) -> None:
    async def take_long(auth: ScriptedAuth) -> None:
        if asks_user:
            with auth.asking_person():
                await trio.sleep(3600)
        else:
            await trio.sleep(3600)

    server, auth = ScriptedHttpServer(), ScriptedAuth(renew=take_long)
    async with open_session(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending, began = await start_renewal(server, transport, nursery), trio.current_time()
        await refuse(server, rpc="initialize")
        if asks_user:
            await answer_handshake(server, id="s2")
            await (await server.next(rpc="tools/list")).result()
            await pending.outcome()
            assert trio.current_time() - began == 3600
        else:
            with pytest.raises(ResponseLost, match="cannot be reached to open a new one"):
                await pending.outcome()
            assert trio.current_time() - began == 30


# HTTP+SSE.


@pytest.mark.parametrize("asks_user", [True, False])
async def test_the_handshake_waits_for_an_http_sse_stream_without_a_limit_while_the_user_is_asked(
    asks_user: bool, autojump_clock: object
) -> None:
    async def take_long(auth: ScriptedAuth) -> None:
        if asks_user:
            with auth.asking_person():
                await trio.sleep(3600)
        else:
            await trio.sleep(3600)

    server, auth = ScriptedHttpServer(), ScriptedAuth(renew=take_long)
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(405)
        await refuse(server, "GET")
        if asks_user:
            stream = await server.next("GET")
            await stream.begin()
            await stream.send(b"event: endpoint\ndata: /messages\n\n")
            request = await server.next(rpc="initialize")
            await request.answer(202)
            await stream.event(result(request.message["id"], protocolVersion=LEGACY))
            await pending.outcome()
            assert auth.responses[-1] == ("POST", "http://server.test/messages", 202)
        else:
            with pytest.raises(HttpStatusError, match="405"):
                await pending.outcome()


async def test_a_legacy_server_that_refuses_its_stream_gives_the_reason(autojump_clock: object) -> None:
    async def fail(auth: ScriptedAuth) -> None:
        await trio.lowlevel.checkpoint()
        raise AuthorizationFailed("the user denied access")

    server, auth = ScriptedHttpServer(), ScriptedAuth(renew=fail)
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(405)
        await refuse(server, "GET")
        with pytest.raises(AuthorizationFailed, match="the user denied access"):
            await pending.outcome()


async def test_a_followed_redirect_gets_credentials_for_its_own_address(autojump_clock: object) -> None:
    """A proof of possession names the address of its request."""
    server, auth = ScriptedHttpServer(), ScriptedAuth()
    async with open_transport(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        await (await server.next(rpc="tools/list")).answer(307, headers={"location": "/mcp/"})
        await (await server.next(rpc="tools/list")).result()
        await pending.outcome()

    assert auth.responses == [("POST", URL, 307), ("POST", URL + "/", 200)]
