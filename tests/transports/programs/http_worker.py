"""A worker of an HTTP server that reports its process id, and streams until it is dismissed."""

import os
import time
from pathlib import Path

import trio

from tests.transports.http.socket_clients import App, answer, begin, send_part
from trio_mcp.transports import HttpListening, Receive, Scope, Send, serve_asgi, take_inheritance

end = trio.Event()


async def send_pid(scope: Scope, receive: Receive, send: Send) -> None:
    time.sleep(0.02)  # noqa: ASYNC251  # so that other workers accept connections as well
    await answer(send, b"%d;" % os.getpid())


async def block(scope: Scope, receive: Receive, send: Send) -> None:
    Path(os.environ["BLOCKED"]).write_text(str(os.getpid()), encoding="ascii")  # noqa: ASYNC240  # it blocks anyway
    time.sleep(1000)  # noqa: ASYNC251


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send)
    await send_part(send, b"first")
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
            App({"/block": block, "/pid": send_pid, "/stream": stream}),
            HttpListening(),
            stopping=inheritance.wait_dismissed,
            drain=drain,
            drain_seconds=5,
            sockets=inheritance.sockets,
            task_status=Status(),  # type: ignore[arg-type]  # only this method is used
        )
    inheritance.close()


trio.run(main)
