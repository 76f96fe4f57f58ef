"""What shows a server who asks accompanies each request of a client over HTTP, whatever it is for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.client.scripted_auth import AttemptByHand, AuthByHand
from tests.transports.http.scripted_server import (
    LEGACY,
    META,
    MODERN,
    URL,
    Caller,
    HttpScript,
    Pending,
    Visit,
    ask,
    initialize,
    notice,
    opened,
    opened_in_session,
    result,
    welcome,
)
from trio_mcp import HttpStatusError, Limits, ResponseLost
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.abc import Transport
from trio_mcp.auth import HttpCall
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import http_transport

REFUSED = {"www-authenticate": 'Bearer error="invalid_token"'}


def shown(visit: Visit) -> str | None:
    """Who the request says that it comes from."""
    return visit.headers.get("authorization")


class BrokenHearing(AttemptByHand):
    """Does not understand what it hears."""

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:
        """Raise."""
        raise KeyError("s3cret")


async def refuse(server: HttpScript, method: str = "POST", rpc: str | None = None) -> Visit:
    """Answer the next request with the question who asks."""
    visit = await server.next(method, rpc)
    await visit.answer(401, headers=REFUSED)
    return visit


# Requests that say all about themselves.


@pytest.mark.requirement("C.2-1")
async def test_each_request_carries_credentials(autojump_clock: object) -> None:
    server, auth, caller = HttpScript(), AuthByHand(), Caller()
    caller.admission.agree(MODERN, {}, None)
    async with opened(server, caller, auth=auth, headers={"X-Mine": "a"}) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        await (await server.next(rpc="tools/list")).result()
        await pending.outcome()
        auth.token = "t1"  # nobody's
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        await (await server.next(rpc="notifications/mine")).answer(202)

    assert [shown(visit) for visit in server.visits] == ["Bearer t0", "Bearer t1"]
    assert {visit.headers["x-mine"] for visit in server.visits} == {"a"}
    assert auth.heard == [("POST", URL, 200), ("POST", URL, 202)]


async def test_a_request_that_is_refused_is_sent_again_when_that_is_settled(autojump_clock: object) -> None:
    server, auth, caller = HttpScript(), AuthByHand(), Caller()
    async with opened(server, caller, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", name="a", arguments={})
        first = await refuse(server, rpc="tools/call")
        again = await server.next(rpc="tools/call")
        await again.result(content=[])
        assert await pending.outcome() == {"content": []}

    assert [shown(first), shown(again)] == ["Bearer t0", "Bearer t1"]
    assert first.body == again.body
    assert auth.challenges == ['Bearer error="invalid_token"']
    assert [direction for direction, _ in caller.seen] == ["sent", "received"]


async def test_what_is_refused_again_and_again_is_raised_as_its_status(autojump_clock: object) -> None:
    server, auth = HttpScript(), AuthByHand(times=2)
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        for _ in range(3):
            await refuse(server, rpc="tools/list")
        with pytest.raises(HttpStatusError) as caught:
            await pending.outcome()

    assert caught.value.status == 401
    assert auth.renewals == 2


async def test_other_refusals_are_reported_unchanged(autojump_clock: object) -> None:
    server, auth = HttpScript(), AuthByHand()
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        await (await server.next(rpc="tools/list")).answer(403)
        with pytest.raises(HttpStatusError):
            await pending.outcome()

    assert auth.heard == [("POST", URL, 403)]


async def test_where_nothing_can_be_shown_one_call_fails_and_no_other(autojump_clock: object) -> None:
    server, auth = HttpScript(), AuthByHand()
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        going = ask(nursery, transport, "tools/call")
        visit = await server.next(rpc="tools/call")
        auth.missing = AuthorizationFailed("no token")
        with pytest.raises(AuthorizationFailed, match="no token"):
            await ask(nursery, transport, repeatable=True).outcome()
        with pytest.raises(AuthorizationFailed, match="no token"):
            await transport.notify("notifications/mine", {"_meta": META})
        await visit.result()
        assert await going.outcome() == {}
        assert transport.statistics().outgoing == 0

    assert len(server.visits) == 1


async def test_a_call_without_a_token_fails_and_the_next_one_tries_again(autojump_clock: object) -> None:
    async def fail_once(auth: AuthByHand) -> None:
        await trio.lowlevel.checkpoint()
        if auth.renewals == 1:
            raise AuthorizationFailed("they said no", error="access_denied")
        auth.token = "new"  # nobody's

    server, auth = HttpScript(), AuthByHand(token=None, renew=fail_once)
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        assert shown(await refuse(server, rpc="tools/list")) is None
        with pytest.raises(AuthorizationFailed, match="they said no") as caught:
            await pending.outcome()
        assert caught.value.error == "access_denied"

        pending = ask(nursery, transport)
        await refuse(server, rpc="tools/list")
        again = await server.next(rpc="tools/list")
        await again.result()
        await pending.outcome()

    assert shown(again) == "Bearer new"


async def test_a_call_that_is_left_while_it_waits_for_a_token_ends_at_once(autojump_clock: object) -> None:
    async def never(auth: AuthByHand) -> None:
        await trio.sleep_forever()

    server, auth = HttpScript(), AuthByHand(renew=never)
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        await refuse(server, rpc="tools/list")
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert transport.statistics().outgoing == 0
        assert pending.is_settled


async def test_a_request_with_a_token_does_not_wait_for_one_without(autojump_clock: object) -> None:
    is_there = trio.Event()

    async def renew(auth: AuthByHand) -> None:
        await is_there.wait()

    server, auth = HttpScript(), AuthByHand(renew=renew)
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        waiting = ask(nursery, transport, "tools/call")
        await refuse(server, rpc="tools/call")
        going = ask(nursery, transport)
        await (await server.next(rpc="tools/list")).result()
        await going.outcome()
        assert not waiting.is_settled
        is_there.set()
        await (await server.next(rpc="tools/call")).result()
        await waiting.outcome()


@pytest.mark.parametrize("where", ["attempt", "fields", "heard", "settle"])
async def test_a_token_source_that_raises_fails_one_call(where: str, autojump_clock: object) -> None:
    class Broken(AuthByHand):
        def attempt(self, method: str, url: str) -> Any:
            if where == "attempt":
                raise KeyError("s3cret")
            kind = BrokenHearing if where == "heard" else AttemptByHand
            return kind(self, method, url)

    async def fail(auth: AuthByHand) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("s3cret")

    server, auth = HttpScript(), Broken(renew=fail)
    if where == "fields":
        auth.missing = KeyError("s3cret")
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        if where in {"heard", "settle"}:
            await refuse(server, rpc="tools/list")
        with pytest.raises(AuthorizationFailed, match=r"^the token source has raised KeyError$") as caught:
            await pending.outcome()
        assert isinstance(caught.value.__cause__, KeyError)
        assert transport.statistics().outgoing == 0


# Who asks, and on whose behalf.


async def test_it_is_made_for_one_connection_and_ends_with_it(autojump_clock: object) -> None:
    server, auth, caller = HttpScript(), AuthByHand(), Caller()
    ended = trio.Event()

    async def outlive() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with opened(server, caller, auth=auth):
        assert auth.url == URL
        auth.nursery.start_soon(outlive)
        await trio.testing.wait_all_tasks_blocked()
        assert not caller.is_person_asked
        with auth.asking_person():
            assert caller.is_person_asked
        assert not caller.is_person_asked

    assert ended.is_set()


async def test_it_learns_the_address_as_it_is_sent(autojump_clock: object) -> None:
    auth, engine = AuthByHand(), AsgiEngine(HttpScript())
    async with http_transport("https://Bücher.example:443/für/mcp", auth=auth, engine=engine)(Caller()):
        assert auth.url == "https://xn--bcher-kva.example/f%C3%BCr/mcp"


def test_an_address_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(ValueError, match="2028/mcp' is not the address of a server"):
        http_transport("http://\u2028/mcp", auth=AuthByHand())


async def test_its_own_requests_go_where_those_of_the_client_go(autojump_clock: object) -> None:
    server, auth = HttpScript(), AuthByHand()
    replies: list[Any] = []
    async with opened(server, auth=auth, headers={"X-Mine": "a"}), trio.open_nursery() as nursery:

        async def fetch() -> None:
            replies.append(await auth.fetch(HttpCall(method="GET", url="http://as.test/x", named_by="server")))

        nursery.start_soon(fetch)
        visit = await server.next("GET")
        await visit.answer(200, {"issuer": "me"})

    assert (replies[0].status, replies[0].body) == (200, b'{"issuer": "me"}')
    assert visit.headers["host"] == "as.test"
    assert {"authorization", "x-mine"}.isdisjoint(visit.headers)


async def test_what_cannot_be_made_for_a_connection_is_raised_where_it_is_opened() -> None:
    class Broken(AuthByHand):
        def source(self, url: str, **_: Any) -> AuthByHand:
            raise ValueError(f"nothing for {url}")

    with pytest.raises(ValueError, match=f"^nothing for {URL}$"):
        async with opened(HttpScript(), auth=Broken()):
            raise AssertionError


@pytest.mark.parametrize("name", ["Authorization", "authorization", "DPoP"])
def test_duplicate_header_fields_of_the_caller_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="auth and an Authorization header exclude each other"):
        http_transport(URL, auth=AuthByHand(), headers={name: "Bearer mine"})


# Sessions.


async def settle_by(transport: Transport, server: HttpScript, nursery: trio.Nursery) -> Visit:
    """Have the transport ask for news, which it has to show who it is for; return the request that is let in."""
    nursery.start_soon(transport.open_standalone_stream)
    await refuse(server, "GET")
    return await server.next("GET")


async def test_a_handshake_and_the_standalone_stream_carry_credentials(autojump_clock: object) -> None:
    server, auth, caller = HttpScript(), AuthByHand(), Caller()
    async with opened(server, caller, auth=auth) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await refuse(server, rpc="initialize")
        await welcome(server)
        visit = await settle_by(transport, server, nursery)
        await visit.begin()
        await visit.event(notice("notifications/x"))
        await trio.testing.wait_all_tasks_blocked()
        assert caller.news == ["notifications/x"]
        await visit.end()
        again = await server.next("GET")
        await again.begin()
        nursery.cancel_scope.cancel()

    tokens = [shown(visit) for visit in server.visits]
    assert tokens[:6] == ["Bearer t0", "Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]
    assert server.visits[-1].method == "DELETE"
    assert tokens[-1] == "Bearer t2"


async def test_the_last_words_are_said_once(autojump_clock: object) -> None:
    server, auth = HttpScript(), AuthByHand()
    with trio.fail_after(60):
        async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
            nursery.start_soon(initialize, transport)
            await welcome(server)
            pending = ask(nursery, transport, modern=False)
            await server.next(rpc="tools/list")
            pending.scope.cancel()
            await refuse(server, rpc="notifications/cancelled")
            await trio.testing.wait_all_tasks_blocked()

            async def bury() -> None:
                await refuse(server, "DELETE")

            auth.nursery.start_soon(bury)

    assert auth.renewals == 0
    assert server.visits[-1].method == "DELETE"
    assert [method for method, _, status in auth.heard if status == 401] == ["POST", "DELETE"]


async def test_without_a_token_the_last_words_are_not_said(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, auth = HttpScript(), AuthByHand()
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await welcome(server)
        auth.missing = AuthorizationFailed("gone")

    assert "DELETE" not in {visit.method for visit in server.visits}
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


async def test_an_answer_to_the_server_waits_for_a_person_but_not_for_a_server(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask_person(auth: AuthByHand) -> None:
        with auth.asking_person():
            await trio.sleep(3600)

    server, auth, caller = HttpScript(), AuthByHand(renew=ask_person), Caller(Limits(stall_seconds=10))
    async with opened_in_session(server, caller, auth=auth) as transport, trio.open_nursery() as nursery:
        visit = await settle_by(transport, server, nursery)
        await visit.begin()
        for number in (1, 2):
            await visit.event({"jsonrpc": "2.0", "id": number, "method": "ping"})
            await (await server.next()).answer(401)
            again = await server.next()
            assert again.message["id"] == number
            if number == 1:
                await again.answer(202)
        assert not caplog.records
        await trio.sleep(11)

    assert "the server has not confirmed a response" in caplog.text


@pytest.mark.parametrize(
    ("failure", "asks_person", "expected"),
    [
        (AuthorizationFailed("out of reach"), False, True),
        (AuthorizationFailed("nobody came back"), True, False),
        (AuthorizationFailed("refused", error="invalid_grant"), False, False),
    ],
)
async def test_the_standalone_stream_is_retried_until_it_is_denied(
    failure: AuthorizationFailed,
    asks_person: bool,
    expected: bool,
    autojump_clock: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(auth: AuthByHand) -> None:
        await trio.lowlevel.checkpoint()
        if asks_person:
            with auth.asking_person():
                await trio.sleep(300)
        raise failure

    server, auth = HttpScript(), AuthByHand()
    async with opened_in_session(server, auth=auth) as transport, trio.open_nursery() as nursery:
        visit = await settle_by(transport, server, nursery)
        await visit.begin()
        auth.renew = fail
        await visit.end()
        await refuse(server, "GET")
        if expected:
            visit = await server.next("GET")
            auth.renew = None
            await visit.answer(401)
            await (await server.next("GET")).begin()
        else:
            await server.silence(3600)
        nursery.cancel_scope.cancel()

    assert (f"the standalone stream is not opened again: {failure}" in caplog.text) is not expected


async def test_a_standalone_stream_that_never_opened_is_not_retried(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, auth = HttpScript(), AuthByHand()
    async with opened_in_session(server, auth=auth) as transport:
        auth.missing = AuthorizationFailed("no token")
        await transport.open_standalone_stream()
        await server.silence(3600)
        auth.missing = None

    assert "the standalone stream is not opened again: no token" in caplog.text


async def test_a_resumed_answer_carries_credentials(autojump_clock: object) -> None:
    server, auth = HttpScript(), AuthByHand()
    async with opened_in_session(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event(id="e1")
        await visit.end()
        await refuse(server, "GET")
        again = await server.next("GET")
        await again.begin()
        await again.event(result(visit.message["id"], tools=[]))
        assert await pending.outcome() == {"tools": []}

    assert shown(again) == "Bearer t1"


async def forget(server: HttpScript, transport: Transport, nursery: trio.Nursery) -> Pending:
    """Lose the session; the renewal follows. Return a request that waits for it."""
    pending = ask(nursery, transport, modern=False)
    await (await server.next(rpc="tools/list")).answer(404)
    return pending


async def test_a_new_session_without_authorization_fails_the_calls_that_need_it(autojump_clock: object) -> None:
    async def fail(auth: AuthByHand) -> None:
        await trio.lowlevel.checkpoint()
        raise AuthorizationFailed("they said no", error="access_denied")

    server, auth, caller = HttpScript(), AuthByHand(renew=fail), Caller()
    async with opened_in_session(server, caller, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = await forget(server, transport, nursery)
        await refuse(server, rpc="initialize")
        with pytest.raises(AuthorizationFailed, match="they said no") as caught:
            await pending.outcome()
        assert caught.value.error == "access_denied"

        auth.renew = None
        pending = ask(nursery, transport, modern=False)
        await refuse(server, rpc="initialize")
        await welcome(server, id="s2")
        await (await server.next(rpc="tools/list")).result()
        await pending.outcome()
        assert caller.renewals == 1


@pytest.mark.parametrize("is_person", [True, False])
async def test_another_session_is_waited_for_while_a_person_is_asked(is_person: bool, autojump_clock: object) -> None:
    async def take_long(auth: AuthByHand) -> None:
        if is_person:
            with auth.asking_person():
                await trio.sleep(3600)
        else:
            await trio.sleep(3600)

    server, auth = HttpScript(), AuthByHand(renew=take_long)
    async with opened_in_session(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending, began = await forget(server, transport, nursery), trio.current_time()
        await refuse(server, rpc="initialize")
        if is_person:
            await welcome(server, id="s2")
            await (await server.next(rpc="tools/list")).result()
            await pending.outcome()
            assert trio.current_time() - began == 3600
        else:
            with pytest.raises(ResponseLost, match="cannot be reached to open a new one"):
                await pending.outcome()
            assert trio.current_time() - began == 30


# HTTP+SSE.


@pytest.mark.parametrize("is_person", [True, False])
async def test_the_stream_of_an_old_server_is_waited_for_while_a_person_is_asked(
    is_person: bool, autojump_clock: object
) -> None:
    async def take_long(auth: AuthByHand) -> None:
        if is_person:
            with auth.asking_person():
                await trio.sleep(3600)
        else:
            await trio.sleep(3600)

    server, auth = HttpScript(), AuthByHand(renew=take_long)
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(405)
        await refuse(server, "GET")
        if is_person:
            stream = await server.next("GET")
            await stream.begin()
            await stream.send(b"event: endpoint\ndata: /messages\n\n")
            visit = await server.next(rpc="initialize")
            await visit.answer(202)
            await stream.event(result(visit.message["id"], protocolVersion=LEGACY))
            await pending.outcome()
            assert auth.heard[-1] == ("POST", "http://server.test/messages", 202)
        else:
            with pytest.raises(HttpStatusError, match="405"):
                await pending.outcome()


async def test_a_legacy_server_that_refuses_its_stream_gives_the_reason(autojump_clock: object) -> None:
    async def fail(auth: AuthByHand) -> None:
        await trio.lowlevel.checkpoint()
        raise AuthorizationFailed("they said no")

    server, auth = HttpScript(), AuthByHand(renew=fail)
    async with opened(server, auth=auth) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(405)
        await refuse(server, "GET")
        with pytest.raises(AuthorizationFailed, match="they said no"):
            await pending.outcome()
