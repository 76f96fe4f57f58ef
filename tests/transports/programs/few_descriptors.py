"""An HTTP server in a process that may have few descriptors; it prints its port, and ends with its standard input."""

import logging
import os
import resource
import sys

import trio

from tests.transports.http.socket_clients import App, no_drain
from trio_mcp.transports import Bound, HttpListening, serve_asgi

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
logging.basicConfig(level=logging.INFO, format="%(message)s")
listening = HttpListening(port=0) if sys.argv[1] == "default" else HttpListening(port=0, max_connections=1000)


class Status:
    def started(self, value: Bound | None = None) -> None:
        assert value is not None
        sys.stdout.write(f"{value.port}\n")
        sys.stdout.flush()


async def main() -> None:
    async with trio.lowlevel.FdStream(os.dup(0)) as standard_input:
        await serve_asgi(
            App(),
            listening,
            stopping=standard_input.receive_some,
            drain=no_drain,
            drain_seconds=1,
            task_status=Status(),
        )


trio.run(main)
