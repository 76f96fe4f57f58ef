"""A client with credentials: what its openers raise, and which timeouts are paused during a sign-in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from attrs import define

from tests.client.http_origin import LEGACY, MODERN, URL, HttpOrigin, Json, ReceivedRequest, modern, served
from tests.transports.http.client.scripted_auth import ScriptedAuth
from trio_mcp import HttpStatusError, Limits, RequestTimedOut, TimeLimits, open_http_client, start_http_client
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.testing import AsgiEngine


@define(eq=False)
class TokenProtected:
    """An application that refuses every request without the token."""

    origin: HttpOrigin
    token: str = "t1"
    refusals: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if (b"authorization", f"Bearer {self.token}".encode()) in scope["headers"]:
            await self.origin(scope, receive, send)
            return
        self.refusals += 1
        await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
        await send({"type": "http.response.body", "body": b""})


def with_tools() -> HttpOrigin:
    return HttpOrigin(replies={"tools/list": lambda _: modern(tools=[])})


async def sign_in(auth: ScriptedAuth, *, seconds: float = 3600, token: str = "t1") -> None:
    with auth.asking_person():
        await trio.sleep(seconds)
    auth.token = token


async def refuse(auth: ScriptedAuth) -> None:
    await trio.lowlevel.checkpoint()
    raise AuthorizationFailed("the user denied access", error="access_denied")


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_client_signs_in_when_the_server_requires_authentication(revision: str) -> None:
    protected, auth = TokenProtected(HttpOrigin(revision)), ScriptedAuth()

    async with served(protected) as url, open_http_client(url, auth=auth) as client:
        assert client.revision == revision

    assert auth.renewals == protected.refusals == 1
    assert auth.url == url


async def test_a_client_that_is_started_in_a_nursery_signs_in(autojump_clock: object) -> None:
    protected, auth = TokenProtected(HttpOrigin()), ScriptedAuth()

    async with trio.open_nursery() as nursery:
        client = await start_http_client(nursery, URL, auth=auth, engine=AsgiEngine(protected))
        await client.aclose()

    assert auth.renewals == 1


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_failed_sign_in_is_raised_by_the_opener(revision: str, autojump_clock: object) -> None:
    engine = AsgiEngine(TokenProtected(HttpOrigin(revision)))

    with pytest.raises(AuthorizationFailed, match="the user denied access") as caught:
        async with open_http_client(URL, auth=ScriptedAuth(renew=refuse), engine=engine):
            raise AssertionError
    assert caught.value.error == "access_denied"
    async with trio.open_nursery() as nursery:
        with pytest.raises(AuthorizationFailed, match="the user denied access"):
            await start_http_client(nursery, URL, auth=ScriptedAuth(renew=refuse), engine=engine)


async def test_a_rejected_token_raises_the_http_status(autojump_clock: object) -> None:
    engine = AsgiEngine(TokenProtected(HttpOrigin()))

    with pytest.raises(HttpStatusError, match="401"):
        async with open_http_client(URL, auth=ScriptedAuth(max_repeats=0), engine=engine):
            raise AssertionError


async def test_a_failed_sign_in_fails_only_its_own_call(autojump_clock: object) -> None:
    protected = TokenProtected(with_tools())
    auth = ScriptedAuth("t1", renew=refuse)

    async with open_http_client(URL, auth=auth, engine=AsgiEngine(protected)) as client:
        protected.token = "t2"  # no client has this token
        with pytest.raises(AuthorizationFailed):
            await client.list_tools()
        auth.renew = partial(sign_in, token="t2")
        assert (await client.list_tools()).tools == []


# Timeouts are paused while a user signs in.

SHORT = TimeLimits(idle=10, total=20, connect=30, probe=5)


async def test_no_timeout_applies_while_the_opener_waits_for_the_user(autojump_clock: object) -> None:
    origin, began = HttpOrigin(), trio.current_time()
    engine, auth = AsgiEngine(TokenProtected(origin)), ScriptedAuth(renew=sign_in)

    async with open_http_client(URL, auth=auth, engine=engine, time_limits=SHORT) as client:
        assert trio.current_time() - began == 3600
        assert client.revision == origin.revision

    assert origin.methods() == ["server/discover"]


async def test_the_timeouts_of_the_opener_continue_after_the_sign_in(autojump_clock: object) -> None:
    async def never(request: ReceivedRequest) -> Json:
        await trio.sleep_forever()
        raise AssertionError

    origin = HttpOrigin(replies={"server/discover": never, "initialize": never})
    engine, auth, began = AsgiEngine(TokenProtected(origin)), ScriptedAuth(renew=sign_in), trio.current_time()

    with pytest.raises(RequestTimedOut, match="within 30 s"):
        async with open_http_client(URL, auth=auth, engine=engine, time_limits=SHORT):
            raise AssertionError

    assert trio.current_time() - began == 3630
    assert origin.methods() == ["server/discover", "initialize"]


async def test_slow_authentication_without_a_user_times_out(autojump_clock: object) -> None:
    async def hang(auth: ScriptedAuth) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    with pytest.raises(RequestTimedOut, match="within 30 s"):
        async with open_http_client(
            URL, auth=ScriptedAuth(renew=hang), engine=AsgiEngine(TokenProtected(HttpOrigin())), time_limits=SHORT
        ):
            raise AssertionError

    assert trio.current_time() - began == 30


async def test_calls_and_queued_calls_wait_for_the_user(autojump_clock: object) -> None:
    protected, auth = TokenProtected(with_tools()), ScriptedAuth("t1", renew=partial(sign_in, token="t2"))
    ended: list[float] = []

    async def call() -> None:
        await client.list_tools()
        ended.append(trio.current_time() - began)

    async with open_http_client(
        URL, auth=auth, engine=AsgiEngine(protected), time_limits=SHORT, limits=Limits(max_posts=1)
    ) as client:
        protected.token = "t2"  # no client has this token
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(call)

    assert ended == [3600, 3600]


async def test_a_call_that_waits_for_a_free_place_times_out(autojump_clock: object) -> None:
    async def slow(request: ReceivedRequest) -> Json:
        await trio.sleep(9)
        return modern(tools=[])

    origin = HttpOrigin(replies={"tools/list": slow})
    failures: list[str] = []

    async def call() -> None:
        try:
            await client.list_tools()
        except RequestTimedOut as exc:
            failures.append(str(exc))

    async with (
        open_http_client(
            URL, engine=AsgiEngine(origin), time_limits=SHORT, limits=Limits(max_posts=1), cache=False
        ) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(4):
            nursery.start_soon(call)

    assert failures == ["'tools/list' took longer than 20 s in all (TimeLimits.total)"] * len(failures)
    assert failures
