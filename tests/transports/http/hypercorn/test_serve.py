"""Serving an application: startup, stop, drain, cancellation, and many connections at once."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.socket_clients import (
    OK,
    App,
    begin,
    get,
    no_drain,
    post,
    read_all,
    read_body,
    read_until,
    send_part,
    serving,
)
from trio_mcp.transports import Bound, HttpListening, HttpSockets, Receive, Scope, Send, bind_sockets, serve_asgi


class StreamingApp(App):
    """An application whose streams last until it is drained."""

    def __init__(self) -> None:
        self.end = trio.Event()
        super().__init__({"/stream": self.stream})

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"first")
        await self.end.wait()
        await send({"type": "http.response.body", "body": b"last"})

    async def drain(self) -> None:
        self.lifespan_events.append("drain")
        self.end.set()


async def open_streams(connect: Callable[[], Any], count: int) -> list[trio.SocketStream]:
    streams: list[trio.SocketStream] = []
    for _ in range(count):
        streams.append(await connect())
        await streams[-1].send_all(get("/stream"))
    for stream in streams:
        await read_until(stream, b"first\r\n")
    return streams


async def test_a_stop_drains_the_application_then_ends_the_lifespan() -> None:
    app = StreamingApp()
    async with serving(app, drain=app.drain, drain_seconds=1000) as served:
        streams = await open_streams(served.connect, 50)
        assert app.lifespan_events == ["startup"]
        with trio.fail_after(60):
            served.stop.set()
            for stream in streams:
                assert await read_all(stream) == b"4\r\nlast\r\n0\r\n\r\n"
            await served.ended.wait()

    assert app.lifespan_events == ["startup", "drain", "shutdown"]


async def test_a_stopping_server_refuses_connections_and_announces_the_close_in_its_last_responses() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        await begin(send)
        await send_part(send, body)

    async def drain() -> None:
        draining.set()
        await go_on.wait()

    draining, go_on = trio.Event(), trio.Event()
    async with serving(App({"/echo": echo}), drain=drain, drain_seconds=5) as served:
        idle, busy = await served.connect(), await served.connect()
        await idle.send_all(get("/"))
        await read_until(idle, b"fine")
        await busy.send_all(post("/echo", 4))
        await trio.testing.wait_all_tasks_blocked(0.01)
        served.stop.set()
        await draining.wait()

        assert await read_all(idle) == b""
        with pytest.raises(OSError, match="all attempts to connect"):
            await served.connect()
        await busy.send_all(b"body")
        reply = await read_all(busy)
        assert reply.startswith(OK)
        assert b"connection: close\r\n" in reply.lower()
        assert reply.endswith(b"4\r\nbody\r\n")  # the application did not complete it, so it is broken off
        go_on.set()


async def test_streams_that_do_not_end_in_time_are_broken_off() -> None:
    app = StreamingApp()
    async with serving(app, drain_seconds=0.1) as served:
        (stream,) = await open_streams(served.connect, 1)
        served.stop.set()

        assert await read_all(stream) == b""
        await served.ended.wait()

    assert app.lifespan_events == ["startup", "shutdown"]


async def test_a_drain_that_hangs_is_cancelled() -> None:
    async with serving(App(), drain=trio.sleep_forever, drain_seconds=0.1) as served:
        served.stop.set()
        await served.ended.wait()


async def test_cancellation_closes_all_connections_and_sockets_at_once() -> None:
    app = StreamingApp()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_asgi, app, stopping=trio.sleep_forever, drain=no_drain, drain_seconds=1000)
            bound: Bound = await nursery.start(serve, HttpListening(port=0))
            assert bound.port is not None
            async with await trio.open_tcp_stream("127.0.0.1", bound.port) as stream:
                await stream.send_all(get("/stream"))
                await read_until(stream, b"first\r\n")
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    assert await read_all(stream) == b""
                    with pytest.raises(OSError, match="all attempts to connect"):
                        await trio.open_tcp_stream("127.0.0.1", bound.port)

    assert app.lifespan_events == ["startup"]


async def test_a_keyboard_interrupt_that_an_application_raises_ends_only_its_request() -> None:
    async def interrupt(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyboardInterrupt

    async with serving(App({"/interrupt": interrupt})) as served:
        for _ in range(2):
            stream = await served.connect()
            await stream.send_all(get("/interrupt"))
            assert b"500" in await stream.receive_some()


class Refused(Exception):
    pass


async def failing(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    raise Refused("no")


class RecordingStatus:
    """A task status that records that the server has started."""

    def __init__(self) -> None:
        self.is_served = trio.Event()

    def started(self, value: Bound) -> None:
        self.is_served.set()


async def fail_to_serve(kind: type[BaseException], *, app: Any = failing, **settings: Any) -> BaseException:
    """Serve an application that cannot be served; return the exception."""
    options: dict[str, Any] = {"port": 0, **settings}
    status: Any = RecordingStatus()
    with pytest.raises(kind) as caught:
        await serve_asgi(
            app,
            HttpListening(**options),
            stopping=trio.sleep_forever,
            drain=no_drain,
            drain_seconds=1,
            task_status=status,
        )
    assert not status.is_served.is_set()
    return caught.value


async def test_an_application_that_cannot_start_is_never_served_and_its_exception_is_raised_unchanged() -> None:
    error = await fail_to_serve(Refused)

    assert str(error) == "no"


async def test_an_address_in_use_is_an_error_before_the_application_starts() -> None:
    app = App()
    async with serving(App()) as served:
        error = await fail_to_serve(OSError, app=app, port=served.bound.port)

    assert isinstance(error, OSError)
    assert error.errno == errno.EADDRINUSE
    assert error.strerror == f"cannot listen on 127.0.0.1:{served.bound.port}: Address already in use"
    assert app.lifespan_events == []


async def test_a_certificate_that_cannot_be_read_is_an_error_before_the_application_starts() -> None:
    app = App()

    error = await fail_to_serve(FileNotFoundError, app=app, certfile="missing.pem")

    assert isinstance(error, FileNotFoundError)
    assert error.filename == "missing.pem"
    assert app.lifespan_events == []


async def test_an_exception_at_the_end_of_the_lifespan_is_raised_unchanged() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        raise Refused("no")

    status: Any = RecordingStatus()
    with pytest.raises(Refused):
        await serve_asgi(
            app,
            HttpListening(port=0),
            stopping=status.is_served.wait,
            drain=no_drain,
            drain_seconds=1,
            task_status=status,
        )


async def test_a_stop_during_the_startup_cancels_the_startup() -> None:
    cancelled = trio.Event()
    starting = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        starting.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    await serve_asgi(app, HttpListening(port=0), stopping=starting.wait, drain=trio.sleep_forever, drain_seconds=1000)

    assert cancelled.is_set()


async def test_clients_that_connect_before_the_application_has_started_wait_for_it(nursery: trio.Nursery) -> None:
    started = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await started.wait()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        else:
            await App()(scope, receive, send)

    sockets = await bind_sockets(HttpListening(port=0))
    assert sockets.bound.port is not None
    stopping = trio.Event()
    serve = partial(serve_asgi, stopping=stopping.wait, drain=no_drain, drain_seconds=1, sockets=sockets)
    nursery.start_soon(serve, app, HttpListening())
    async with await trio.open_tcp_stream("127.0.0.1", sockets.bound.port) as stream:
        await stream.send_all(get("/"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        started.set()
        assert (await read_until(stream, b"fine")).startswith(OK)
    stopping.set()


async def test_every_request_has_its_own_copy_of_the_state_of_the_lifespan() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope["state"]["shared"] = []
            await App()(scope, receive, send)
        else:
            scope["state"]["shared"].append(len(scope["state"]))
            scope["state"]["own"] = True
            seen.append([*scope["state"]["shared"]])
            await App()(scope, receive, send)

    seen: list[list[int]] = []
    async with serving(app) as served:
        assert await served.serves_others()
        assert await served.serves_others()

    assert seen == [[1], [1, 1]]


@pytest.fixture
def many_descriptors() -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = max(before[0], min(4096, before[1] if before[1] != resource.RLIM_INFINITY else 4096))
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_thousand_streams_are_served_at_once_and_completed(many_descriptors: None) -> None:
    app = StreamingApp()
    async with serving(app, drain=app.drain, drain_seconds=1000) as served:
        streams = await open_streams(served.connect, 1000)
        assert await served.serves_others()
        served.stop.set()
        for stream in streams:
            assert await read_all(stream) == b"4\r\nlast\r\n0\r\n\r\n"
        await served.ended.wait()


def test_hypercorn_is_not_imported_before_an_application_is_served() -> None:
    program = "import sys, trio_mcp.transports.http.hypercorn._serve; assert 'hypercorn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_given_sockets_are_closed_even_if_the_application_cannot_be_served() -> None:
    sockets: HttpSockets = await bind_sockets(HttpListening(port=0))
    with pytest.raises(FileNotFoundError):
        await serve_asgi(
            App(),
            HttpListening(certfile="missing.pem"),
            stopping=trio.sleep_forever,
            drain=no_drain,
            drain_seconds=1,
            sockets=sockets,
        )

    assert [each.fileno() for each in sockets.sockets] == [-1]
