"""The lifespan of an application: its events, and the exceptions that it raises."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.not_exceptions import raise_it
from trio_mcp.transports import Receive, Scope, Send
from trio_mcp.transports.http.hypercorn._application import lifespan_of

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def expect_event(receive: Receive, stage: str) -> None:
    assert await receive() == {"type": f"lifespan.{stage}"}


async def send_event(send: Send, event: str, **more: Any) -> None:
    await send({"type": f"lifespan.{event}", **more})


async def test_the_application_is_started_before_the_block_and_shut_down_after_it() -> None:
    log: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["asgi"] == {"version": "3.0", "spec_version": "2.0"}
        await expect_event(receive, "startup")
        scope["state"]["name"] = "Ada"
        log.append("startup")
        await send_event(send, "startup.complete")
        await expect_event(receive, "shutdown")
        log.append("shutdown")
        await send_event(send, "shutdown.complete")
        await receive()
        log.append("never")

    async with lifespan_of(app) as state:
        log.append(state["name"])

    assert log == ["startup", "Ada", "shutdown"]


class Refused(Exception):
    pass


async def raising(scope: Scope, receive: Receive, send: Send) -> None:
    await expect_event(receive, "startup")
    raise Refused("no")


async def reporting_and_raising(scope: Scope, receive: Receive, send: Send) -> None:
    await expect_event(receive, "startup")
    await send_event(send, "startup.failed", message="Traceback")
    raise Refused("no")


async def exiting(scope: Scope, receive: Receive, send: Send) -> None:
    await expect_event(receive, "startup")
    raise SystemExit("no")


@pytest.mark.parametrize(("app", "kind"), [(raising, Refused), (reporting_and_raising, Refused), (exiting, SystemExit)])
async def test_an_exception_at_the_startup_is_raised_unchanged(app: Application, kind: type[BaseException]) -> None:
    with pytest.raises(kind, match=r"^no$"):
        async with lifespan_of(app):
            pytest.fail("not reached")


async def test_a_startup_that_is_reported_as_failed_raises_an_error_with_its_message() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await send_event(send, "startup.failed", message="no database")
        await receive()

    with pytest.raises(RuntimeError, match=r"^the application says that its startup failed: no database$"):
        async with lifespan_of(app):
            pytest.fail("not reached")


async def test_an_exception_at_the_shutdown_is_raised_unchanged() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await send_event(send, "startup.complete")
        await expect_event(receive, "shutdown")
        raise Refused("no")

    with pytest.raises(Refused, match=r"^no$"):
        async with lifespan_of(app):
            pass


async def test_a_shutdown_that_is_reported_as_failed_raises_an_error_with_its_message() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await send_event(send, "startup.complete")
        await expect_event(receive, "shutdown")
        await send_event(send, "shutdown.failed", message="no disk")

    with pytest.raises(RuntimeError, match=r"^the application says that its shutdown failed: no disk$"):
        async with lifespan_of(app):
            pass


async def test_an_application_that_raises_before_it_receives_has_no_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"

    with caplog.at_level(logging.INFO):
        async with lifespan_of(app):
            pass

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("trio_mcp.transports", logging.INFO)
    assert record.getMessage() == "the application has no lifespan"


async def test_an_application_that_returns_without_receiving_has_no_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.lowlevel.checkpoint()

    async with lifespan_of(app):
        pass

    assert caplog.records == []


@pytest.mark.parametrize("error", [Refused("no"), SystemExit("no"), KeyboardInterrupt()], ids=repr)
async def test_an_exception_between_startup_and_shutdown_is_logged_and_the_block_continues(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    fail = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await send_event(send, "startup.complete")
        await fail.wait()
        raise error

    async with lifespan_of(app):
        fail.set()
        await trio.testing.wait_all_tasks_blocked()

        (record,) = caplog.records
        assert record.getMessage() == "the application failed outside its requests"
        assert record.exc_info is not None
        assert record.exc_info[1] is error


async def test_the_cancellation_of_another_task_at_the_startup_is_raised_as_an_error() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await raise_it("cancelled")

    with pytest.raises(RuntimeError, match="but was not cancelled"):
        async with lifespan_of(app):
            pytest.fail("not reached")


async def test_an_exception_in_the_block_cancels_the_application_and_is_raised_unchanged() -> None:
    cancelled = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal cancelled
        await expect_event(receive, "startup")
        await send_event(send, "startup.complete")
        try:
            await receive()
        except trio.Cancelled:
            cancelled = True
            raise

    with pytest.raises(Refused):
        async with lifespan_of(app):
            raise Refused

    assert cancelled


@pytest.mark.parametrize("attempt", range(10))  # Trio cancels the tasks in random order
async def test_an_exception_while_the_startup_is_cancelled_is_logged(
    attempt: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        starting.cancel()
        try:
            await trio.sleep_forever()
        finally:
            raise Refused("no")

    with trio.CancelScope() as starting:
        async with lifespan_of(app):
            pytest.fail("not reached")

    assert starting.cancelled_caught
    (record,) = caplog.records
    assert record.getMessage() == "the application failed outside its requests"


async def test_an_application_that_receives_again_gets_no_more_events() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await send_event(send, "startup.complete")
        await expect_event(receive, "shutdown")
        await receive()

    with trio.move_on_after(0.1) as timeout:
        async with lifespan_of(app):
            pass

    assert timeout.cancelled_caught


async def test_an_event_that_is_not_of_the_lifespan_is_refused() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await expect_event(receive, "startup")
        await send({"type": "http.response.start"})

    with pytest.raises(ValueError, match=r"'http.response.start' is not a valid event of a lifespan"):
        async with lifespan_of(app):
            pytest.fail("not reached")
