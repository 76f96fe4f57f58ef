"""Lifespan events between an ASGI server, an application, and a host application that it wraps."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field

from trio_mcp.transports import AsgiApp, AsgiMessage, Receive, Scope, Send
from trio_mcp.transports.http.server._lifespan import no_host, serve_lifespan

Run = Callable[[], AbstractAsyncContextManager[None]]
SCOPE: dict[str, Any] = {"type": "lifespan"}


@define
class ScriptedAsgiServer:
    """An ASGI server that sends startup, and shutdown at once or when `stop` is set, and that logs all events."""

    log: list[str] = field(factory=list[str])
    stops_at_once: bool = True
    stop: trio.Event = field(factory=trio.Event)
    _received: int = 0

    async def serve(self, app: AsgiApp) -> list[str]:
        """Run a lifespan; return the log."""
        await app(SCOPE, self._receive, self._send)
        return self.log

    async def _receive(self) -> AsgiMessage:
        assert self._received < 2, "the application received more than two events"
        if self._received == 1:
            await self.stop.wait()
            self.log.append("stop")
        self._received += 1
        return {"type": ("lifespan.startup", "lifespan.shutdown")[self._received - 1]}

    async def _send(self, message: AsgiMessage) -> None:
        await trio.lowlevel.checkpoint()
        text = message.get("message")
        self.log.append(message["type"].removeprefix("lifespan.") + (f": {text}" if text else ""))
        if message["type"] == "lifespan.startup.complete" and self.stops_at_once:
            self.stop.set()


def running(log: list[str], *, fails: str = "") -> Run:
    @asynccontextmanager
    async def run() -> AsyncGenerator[None]:
        if fails == "start":
            raise ZeroDivisionError("no start")
        log.append("entered")
        yield
        log.append("left")
        if fails == "end":
            raise ZeroDivisionError("no end")

    return run


def application(server: ScriptedAsgiServer, host: AsgiApp = no_host, *, fails: str = "") -> AsgiApp:
    run = running(server.log, fails=fails)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await serve_lifespan(run, host, scope, receive, send)

    return app


async def test_the_lifespan_is_entered_before_the_startup_completes_and_left_before_the_shutdown_completes() -> None:
    server = ScriptedAsgiServer()

    log = await server.serve(application(server))

    assert log == ["entered", "startup.complete", "stop", "left", "shutdown.complete"]


async def test_a_failed_startup_is_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = ScriptedAsgiServer()

    with caplog.at_level(logging.ERROR, "trio_mcp.transports"):
        log = await server.serve(application(server, fails="start"))

    assert log == ["startup.failed: ZeroDivisionError: no start"]
    assert "could not start" in caplog.text


async def test_a_failed_shutdown_is_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = ScriptedAsgiServer()

    with caplog.at_level(logging.ERROR, "trio_mcp.transports"):
        log = await server.serve(application(server, fails="end"))

    assert log[-2:] == ["left", "shutdown.failed: ZeroDivisionError: no end"]
    assert "the HTTP application failed" in caplog.text


async def test_a_lifespan_that_fails_while_serving_is_logged_and_reported_at_the_shutdown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, crash = ScriptedAsgiServer(stops_at_once=False), trio.Event()

    @asynccontextmanager
    async def run() -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crashing)
            yield

    async def crashing() -> None:
        await crash.wait()
        raise ZeroDivisionError("in between")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await serve_lifespan(run, no_host, scope, receive, send)

    with caplog.at_level(logging.ERROR, "trio_mcp.transports"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, app)
            crash.set()
            await trio.testing.wait_all_tasks_blocked()
            assert server.log == ["startup.complete"]
            assert "ZeroDivisionError: in between" in caplog.text
            server.stop.set()

    assert server.log[1] == "stop"
    assert server.log[2].startswith("shutdown.failed: ExceptionGroup")


def host_with_lifespan(log: list[str], *, start: str = "startup.complete", end: str = "shutdown.complete") -> AsgiApp:
    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "lifespan.startup"
        log.append("host starts")
        await send({"type": f"lifespan.{start}", "message": "host's"})
        if start != "startup.complete":
            return
        assert (await receive())["type"] == "lifespan.shutdown"
        log.append("host stops")
        await send({"type": f"lifespan.{end}", "message": "host's"})

    return host


async def test_a_host_starts_after_the_application_and_stops_before_it() -> None:
    server = ScriptedAsgiServer()

    log = await server.serve(application(server, host_with_lifespan(server.log)))

    assert log == [
        "entered",
        "host starts",
        "startup.complete",
        "stop",
        "host stops",
        "left",
        "shutdown.complete: host's",
    ]


async def test_a_host_that_cannot_start_stops_the_application() -> None:
    server = ScriptedAsgiServer()

    log = await server.serve(application(server, host_with_lifespan(server.log, start="startup.failed")))

    assert log == ["entered", "host starts", "startup.failed: host's"]


async def test_the_failed_shutdown_of_a_host_is_passed_on() -> None:
    server = ScriptedAsgiServer()

    log = await server.serve(application(server, host_with_lifespan(server.log, end="shutdown.failed")))

    assert log[-2:] == ["left", "shutdown.failed: host's"]


async def test_a_host_may_raise_at_lifespan_events(caplog: pytest.LogCaptureFixture) -> None:
    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError(scope["type"])

    server = ScriptedAsgiServer()
    with caplog.at_level(logging.INFO, "trio_mcp.transports"):
        log = await server.serve(application(server, host))

    assert log == ["entered", "startup.complete", "stop", "left", "shutdown.complete"]
    assert caplog.records == []


async def test_a_host_that_fails_after_its_startup_is_logged_and_the_application_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        raise ZeroDivisionError

    server = ScriptedAsgiServer()
    with caplog.at_level(logging.INFO, "trio_mcp.transports"):
        log = await server.serve(application(server, host))

    assert log == ["entered", "startup.complete", "stop", "left", "shutdown.complete"]
    assert "the lifespan of the other application failed" in caplog.text


async def test_a_host_may_receive_the_startup_and_return() -> None:
    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    server = ScriptedAsgiServer()
    log = await server.serve(application(server, host))

    assert log == ["entered", "startup.complete", "stop", "left", "shutdown.complete"]
