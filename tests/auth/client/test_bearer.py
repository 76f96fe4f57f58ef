"""Bearer tokens that the application provides."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.client.scripted_network import URL
from trio_mcp import AuthorizationFailed
from trio_mcp.abc import AuthAttempt, ClientAuth
from trio_mcp.auth import Bearer, HttpCall, HttpReply


async def no_fetch(call: HttpCall) -> HttpReply:
    raise AssertionError(call)


def attempt_of(bearer: ClientAuth, nursery: trio.Nursery) -> AuthAttempt:
    source = bearer.source(URL, fetch=no_fetch, nursery=nursery, asking_person=nullcontext)
    return source.attempt("POST", URL)


async def test_the_token_is_sent_with_each_request_and_a_refusal_is_final(nursery: trio.Nursery) -> None:
    attempt = attempt_of(Bearer("t0ken"), nursery)

    assert await attempt.fields() == {"authorization": "Bearer t0ken"}
    assert not attempt.on_response(401, {})


@pytest.mark.parametrize("token", ["", "two words", "line\r\nx: y", "tökén", "\x7f"])
def test_a_token_that_a_header_cannot_carry_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ValueError, match="a header field cannot carry") as caught:
        Bearer(token)

    assert not token or token not in str(caught.value)


def test_the_repr_does_not_contain_the_token() -> None:
    assert "t0ken" not in repr(Bearer("t0ken"))


async def test_the_token_function_is_called_once_for_all_requests(nursery: trio.Nursery) -> None:
    calls: list[int] = []

    async def token() -> str:
        calls.append(1)
        await trio.lowlevel.checkpoint()
        return f"t{len(calls)}"

    bearer = Bearer(token)
    shown: list[str] = []

    async def send() -> None:
        shown.append((await attempt_of(bearer, nursery).fields())["authorization"])

    async with trio.open_nursery() as requests:
        for _ in range(10):
            requests.start_soon(send)

    assert shown == ["Bearer t1"] * 10


async def test_the_token_function_is_called_once_more_for_all_refused_requests(nursery: trio.Nursery) -> None:
    calls: list[int] = []

    async def token() -> str:
        calls.append(1)
        await trio.lowlevel.checkpoint()
        return f"t{len(calls)}"

    bearer = Bearer(token)
    attempts = [attempt_of(bearer, nursery) for _ in range(10)]
    for attempt in attempts:
        await attempt.fields()
        assert not attempt.on_response(403, {})
        assert attempt.on_response(401, {})

    async with trio.open_nursery() as requests:
        for attempt in attempts:
            requests.start_soon(attempt.resolve)

    assert [await attempt.fields() for attempt in attempts] == [{"authorization": "Bearer t2"}] * 10
    assert not any(attempt.on_response(401, {}) for attempt in attempts)
    assert await attempt_of(bearer, nursery).fields() == {"authorization": "Bearer t2"}


async def test_if_the_calling_request_is_cancelled_the_next_request_calls_the_token_function(
    nursery: trio.Nursery,
) -> None:
    hold = trio.Event()

    async def token() -> str:
        await hold.wait()
        return "t"

    bearer = Bearer(token)
    async with trio.open_nursery() as leader:
        leader.start_soon(attempt_of(bearer, nursery).fields)
        await wait_all_tasks_blocked()
        leader.cancel_scope.cancel()
    hold.set()

    assert await attempt_of(bearer, nursery).fields() == {"authorization": "Bearer t"}


async def test_an_exception_of_the_token_function_fails_the_request(nursery: trio.Nursery) -> None:
    async def token() -> str:
        await trio.lowlevel.checkpoint()
        raise LookupError("s3cret")

    with pytest.raises(AuthorizationFailed, match="LookupError") as caught:
        await attempt_of(Bearer(token), nursery).fields()

    assert "s3cret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("returned", ["", "two words", None, 7, b"bytes"])
async def test_an_invalid_result_of_the_token_function_is_refused(nursery: trio.Nursery, returned: str) -> None:
    async def token() -> str:
        await trio.lowlevel.checkpoint()
        return returned

    with pytest.raises(AuthorizationFailed, match="returned a value that a header field cannot carry"):
        await attempt_of(Bearer(token), nursery).fields()
