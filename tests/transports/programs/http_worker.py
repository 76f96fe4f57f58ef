"""A worker of an HTTP server: says which process it is, and streams until it is told to stop."""

import os
import time

import trio

from tests.transports.http.socket_clients import App, answer, begin, part
from trio_mcp.transports import HttpListening, Receive, Scope, Send, serve_asgi, take_inheritance

end = trio.Event()


async def say_who(scope: Scope, receive: Receive, send: Send) -> None:
    time.sleep(0.02)  # noqa: ASYNC251  # so that others get something to do as well
    await answer(send, b"%d;" % os.getpid())


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send)
    await part(send, b"first")
    await end.wait()
    await send({"type": "http.response.body", "body": b"last"})


async def main() -> None:
    inheritance = take_inheritance(HttpListening())
    assert inheritance is not None
    report_ready = inheritance.report_ready
    assert take_inheritance(HttpListening()) is None

    class Status:
        def started(self, value: object) -> None:
            nursery.start_soon(report_ready)

    async def drain() -> None:
        end.set()

    async with trio.open_nursery() as nursery:
        await serve_asgi(
            App({"/who": say_who, "/stream": stream}),
            HttpListening(),
            stopping=inheritance.wait_dismissed,
            drain=drain,
            drain_seconds=5,
            sockets=inheritance.sockets,
            task_status=Status(),  # type: ignore[arg-type]  # all of it that is used
        )
    inheritance.close()


trio.run(main)
