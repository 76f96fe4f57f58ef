"""The lifespan of an application: what it is told, and what becomes of what it raises."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp.transports import Receive, Scope, Send
from trio_mcp.transports.http.hypercorn._application import lifespan_of

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def told(receive: Receive, stage: str) -> None:
    assert await receive() == {"type": f"lifespan.{stage}"}


async def say(send: Send, what: str, **more: Any) -> None:
    await send({"type": f"lifespan.{what}", **more})


async def test_the_application_is_started_before_the_block_and_shut_down_after_it() -> None:
    diary: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["asgi"] == {"version": "3.0", "spec_version": "2.0"}
        await told(receive, "startup")
        scope["state"]["name"] = "Ada"
        diary.append("startup")
        await say(send, "startup.complete")
        await told(receive, "shutdown")
        diary.append("shutdown")
        await say(send, "shutdown.complete")
        await receive()
        diary.append("never")

    async with lifespan_of(app) as state:
        diary.append(state["name"])

    assert diary == ["startup", "Ada", "shutdown"]


class Refused(Exception):
    pass


async def raising(scope: Scope, receive: Receive, send: Send) -> None:
    await told(receive, "startup")
    raise Refused("no")


async def saying_and_raising(scope: Scope, receive: Receive, send: Send) -> None:
    await told(receive, "startup")
    await say(send, "startup.failed", message="Traceback")
    raise Refused("no")


async def exiting(scope: Scope, receive: Receive, send: Send) -> None:
    await told(receive, "startup")
    raise SystemExit("no")


@pytest.mark.parametrize(("app", "kind"), [(raising, Refused), (saying_and_raising, Refused), (exiting, SystemExit)])
async def test_an_exception_at_the_start_is_raised_as_it_is(app: Application, kind: type[BaseException]) -> None:
    with pytest.raises(kind, match=r"^no$"):
        async with lifespan_of(app):
            pytest.fail("not reached")


async def test_a_start_that_is_said_to_have_failed_is_an_error_with_what_was_said() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await say(send, "startup.failed", message="no database")
        await receive()

    with pytest.raises(RuntimeError, match=r"^the application says that its startup failed: no database$"):
        async with lifespan_of(app):
            pytest.fail("not reached")


async def test_an_exception_at_the_end_is_raised_as_it_is() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await say(send, "startup.complete")
        await told(receive, "shutdown")
        raise Refused("no")

    with pytest.raises(Refused, match=r"^no$"):
        async with lifespan_of(app):
            pass


async def test_an_end_that_is_said_to_have_failed_is_an_error_with_what_was_said() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await say(send, "startup.complete")
        await told(receive, "shutdown")
        await say(send, "shutdown.failed", message="no disk")

    with pytest.raises(RuntimeError, match=r"^the application says that its shutdown failed: no disk$"):
        async with lifespan_of(app):
            pass


async def test_an_application_that_fails_before_it_asks_has_no_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"

    with caplog.at_level(logging.INFO):
        async with lifespan_of(app):
            pass

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("trio_mcp.transports", logging.INFO)
    assert record.getMessage() == "the application has no lifespan"


async def test_an_application_that_returns_without_asking_has_no_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.lowlevel.checkpoint()

    async with lifespan_of(app):
        pass

    assert caplog.records == []


@pytest.mark.parametrize("error", [Refused("no"), SystemExit("no")], ids=repr)
async def test_a_failure_in_between_is_logged_and_the_block_goes_on(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    fail = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await say(send, "startup.complete")
        await fail.wait()
        raise error

    async with lifespan_of(app):
        fail.set()
        await trio.testing.wait_all_tasks_blocked()

        (record,) = caplog.records
        assert record.getMessage() == "the application failed outside its requests"
        assert record.exc_info is not None
        assert record.exc_info[1] is error


async def test_an_interrupt_in_between_passes() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await say(send, "startup.complete")
        raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as caught:
        async with lifespan_of(app):
            await trio.sleep_forever()

    assert caught.group_contains(KeyboardInterrupt)


async def test_an_exception_of_the_block_cancels_the_application_and_is_raised_as_it_is() -> None:
    cancelled = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal cancelled
        await told(receive, "startup")
        await say(send, "startup.complete")
        try:
            await receive()
        except trio.Cancelled:
            cancelled = True
            raise

    with pytest.raises(Refused):
        async with lifespan_of(app):
            raise Refused

    assert cancelled


@pytest.mark.parametrize("time", range(10))  # Trio decides by chance who is cancelled first
async def test_a_failure_while_the_start_is_cancelled_is_logged(time: int, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        try:
            await trio.sleep_forever()
        finally:
            raise Refused("no")

    with trio.move_on_after(0.01) as timeouts:
        async with lifespan_of(app):
            pytest.fail("not reached")

    assert timeouts.cancelled_caught
    (record,) = caplog.records
    assert record.getMessage() == "the application failed outside its requests"


async def test_an_application_that_receives_again_gets_no_more_events() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await say(send, "startup.complete")
        await told(receive, "shutdown")
        await receive()

    with trio.move_on_after(0.1) as timeouts:
        async with lifespan_of(app):
            pass

    assert timeouts.cancelled_caught


async def test_what_is_no_answer_is_refused() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await told(receive, "startup")
        await send({"type": "http.response.start"})

    with pytest.raises(ValueError, match=r"'http.response.start' is not a valid event of a lifespan"):
        async with lifespan_of(app):
            pytest.fail("not reached")
