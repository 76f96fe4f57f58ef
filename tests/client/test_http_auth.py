"""A client that shows a server who asks: what its doors take and raise, and which of its time limits stand still."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from attrs import define

from tests.client.http_origin import LEGACY, MODERN, URL, Got, HttpOrigin, Json, modern, served
from tests.transports.http.client.scripted_auth import ScriptedAuth
from trio_mcp import HttpStatusError, Limits, RequestTimedOut, TimeLimits, open_http_client, start_http_client
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.testing import AsgiEngine


@define(eq=False)
class Guarded:
    """Lets in who shows the token, but for the methods that are open to all."""

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
    raise AuthorizationFailed("the person said no", error="access_denied")


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_client_signs_in_when_the_server_requires_authentication(revision: str) -> None:
    guarded, auth = Guarded(HttpOrigin(revision)), ScriptedAuth()

    async with served(guarded) as url, open_http_client(url, auth=auth) as client:
        assert client.revision == revision

    assert auth.renewals == guarded.refusals == 1
    assert auth.url == url


async def test_a_client_of_a_nursery_signs_in_as_well(autojump_clock: object) -> None:
    guarded, auth = Guarded(HttpOrigin()), ScriptedAuth()

    async with trio.open_nursery() as nursery:
        client = await start_http_client(nursery, URL, auth=auth, engine=AsgiEngine(guarded))
        await client.aclose()

    assert auth.renewals == 1


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_failed_sign_in_is_raised_by_the_opener(revision: str, autojump_clock: object) -> None:
    engine = AsgiEngine(Guarded(HttpOrigin(revision)))

    with pytest.raises(AuthorizationFailed, match="the person said no") as caught:
        async with open_http_client(URL, auth=ScriptedAuth(renew=refuse), engine=engine):
            raise AssertionError
    assert caught.value.error == "access_denied"
    async with trio.open_nursery() as nursery:
        with pytest.raises(AuthorizationFailed, match="the person said no"):
            await start_http_client(nursery, URL, auth=ScriptedAuth(renew=refuse), engine=engine)


async def test_a_rejected_token_raises_the_http_status(autojump_clock: object) -> None:
    engine = AsgiEngine(Guarded(HttpOrigin()))

    with pytest.raises(HttpStatusError, match="401"):
        async with open_http_client(URL, auth=ScriptedAuth(max_repeats=0), engine=engine):
            raise AssertionError


async def test_a_call_whose_sign_in_fails_fails_alone(autojump_clock: object) -> None:
    guarded = Guarded(with_tools())
    auth = ScriptedAuth("t1", renew=refuse)

    async with open_http_client(URL, auth=auth, engine=AsgiEngine(guarded)) as client:
        guarded.token = "t2"  # nobody's
        with pytest.raises(AuthorizationFailed):
            await client.list_tools()
        auth.renew = partial(sign_in, token="t2")
        assert (await client.list_tools()).tools == []


# While a person signs in, no limit runs.

SHORT = TimeLimits(idle=10, total=20, connect=30, probe=5)


async def test_opening_waits_for_a_person_as_long_as_it_takes(autojump_clock: object) -> None:
    origin, began = HttpOrigin(), trio.current_time()
    engine, auth = AsgiEngine(Guarded(origin)), ScriptedAuth(renew=sign_in)

    async with open_http_client(URL, auth=auth, engine=engine, time_limits=SHORT) as client:
        assert trio.current_time() - began == 3600
        assert client.revision == origin.revision

    assert origin.methods() == ["server/discover"]


async def test_the_limits_of_opening_go_on_where_they_stood(autojump_clock: object) -> None:
    async def never(got: Got) -> Json:
        await trio.sleep_forever()
        raise AssertionError

    origin = HttpOrigin(replies={"server/discover": never, "initialize": never})
    engine, auth, began = AsgiEngine(Guarded(origin)), ScriptedAuth(renew=sign_in), trio.current_time()

    with pytest.raises(RequestTimedOut, match="within 30 s"):
        async with open_http_client(URL, auth=auth, engine=engine, time_limits=SHORT):
            raise AssertionError

    assert trio.current_time() - began == 3630
    assert origin.methods() == ["server/discover", "initialize"]


async def test_slow_authentication_without_a_person_times_out(autojump_clock: object) -> None:
    async def hang(auth: ScriptedAuth) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    with pytest.raises(RequestTimedOut, match="within 30 s"):
        async with open_http_client(
            URL, auth=ScriptedAuth(renew=hang), engine=AsgiEngine(Guarded(HttpOrigin())), time_limits=SHORT
        ):
            raise AssertionError

    assert trio.current_time() - began == 30


async def test_calls_and_queued_calls_wait_for_a_person(autojump_clock: object) -> None:
    guarded, auth = Guarded(with_tools()), ScriptedAuth("t1", renew=partial(sign_in, token="t2"))
    ended: list[float] = []

    async def call() -> None:
        await client.list_tools()
        ended.append(trio.current_time() - began)

    async with open_http_client(
        URL, auth=auth, engine=AsgiEngine(guarded), time_limits=SHORT, limits=Limits(max_posts=1)
    ) as client:
        guarded.token = "t2"  # nobody's
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(call)

    assert ended == [3600, 3600]


async def test_waiting_for_a_free_place_times_out(autojump_clock: object) -> None:
    async def slow(got: Got) -> Json:
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
