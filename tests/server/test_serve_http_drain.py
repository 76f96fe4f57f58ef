"""The delay between the request to stop an HTTP server and its drain, in which load balancers take it out."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

import trio_mcp.server._serve_http
from tests.server.raw_http_client import connected, make_server
from tests.transports.http.asgi_caller import call, request
from trio_mcp import HttpBound, Limits, Server, serve_http
from trio_mcp.server import HttpService, ServeHttpOptions

CHECKS: dict[str, Any] = {"health_path": "/healthz", "ready_path": "/readyz"}


async def statuses(bound: HttpBound) -> list[str]:
    """Return what the checks of health and readiness, and a call, answer on new connections."""
    seen: list[str] = []
    for path in CHECKS.values():
        async with connected(bound) as client:
            await client.stream.send_all(f"GET {path} HTTP/1.1\r\nhost: 10.0.0.7\r\nconnection: close\r\n\r\n".encode())
            response = (await client.rest()).decode()
            seen.append(f"{response.split()[1]} {response.rpartition(chr(10))[2]}")
    async with connected(bound) as client:
        await client.post(call("add", {"a": 1, "b": 2}))
        seen.append((await client.until(b'"result":3')).decode().split()[1])
    return seen


READY = ["200 serving", "200 ready", "200"]
LEAVING = ["200 serving", "503 the server is about to stop", "200"]


async def test_everything_is_served_during_the_delay_while_the_check_of_readiness_fails(
    mock_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []
    serve = partial(serve_http, make_server(log), port=0, drain_delay=5, **CHECKS)
    async with trio.open_nursery() as nursery:
        bound: HttpBound = await nursery.start(serve)
        async with connected(bound) as listener:
            await listener.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            await listener.until(b"notifications/subscriptions/acknowledged")
            assert await statuses(bound) == READY
            nursery.start_soon(bound.stop)
            nursery.start_soon(bound.stop)  # a repeated stop does not end the delay
            await trio.testing.wait_all_tasks_blocked()
            assert await statuses(bound) == LEAVING
            mock_clock.jump(4.9)
            assert await statuses(bound) == LEAVING
            assert b'"resultType"' not in listener.received
            mock_clock.jump(0.2)
            assert b'"resultType":"complete"' in await listener.rest()
        assert bound.port is not None
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", bound.port)

    assert log == ["entered", "left"]


async def test_a_second_signal_ends_the_delay() -> None:
    options: ServeHttpOptions = {"drain_delay": 1000, "health_path": "/healthz", "ready_path": "/readyz"}
    service = HttpService.of(make_server(), "127.0.0.1", 0, options)
    bounds: list[HttpBound] = []
    is_bound = trio.Event()

    def on_bound(bound: HttpBound) -> None:
        bounds.append(bound)
        is_bound.set()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(service.run, signals=True, on_bound=on_bound))
            await is_bound.wait()
            (bound,) = bounds
            assert await statuses(bound) == READY
            signal.raise_signal(signal.SIGTERM)
            await trio.testing.wait_all_tasks_blocked()
            assert await statuses(bound) == LEAVING
            signal.raise_signal(signal.SIGTERM)


async def test_a_stop_during_a_slow_start_has_no_delay() -> None:
    entering = trio.Event()

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        entering.set()
        await trio.sleep_forever()
        yield

    service = HttpService.of(Server("slow", lifespan=lifespan), "127.0.0.1", 0, {"drain_delay": 1000})
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(service.run, signals=False, on_bound=lambda _: None))
            await entering.wait()
            service.stop()


async def test_workers_are_killed_only_after_the_delay_and_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    async def serve_workers(*_: object, **options: Any) -> list[int]:
        given.update(options)
        await trio.lowlevel.checkpoint()
        return [0, 0]

    monkeypatch.setattr(trio_mcp.server._serve_http, "serve_workers", serve_workers)
    server = make_server(limits=Limits(drain_seconds=20))
    await serve_http(server, port=0, workers=2, drain_delay=7)

    assert given["drain_seconds"] == 7 + 20 + 25


@pytest.mark.parametrize("delay", [-1, True, float("inf"), float("nan")])
async def test_a_delay_that_is_not_a_number_of_seconds_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match=f"drain_delay={delay!r}: must be a number of seconds, 0 or more"):
        await serve_http(make_server(), port=0, drain_delay=delay)
