"""A server that tells the number of its process, and that neither the end of its input nor a polite signal ends."""

import os
import signal
import time

from trio_mcp import Server

server = Server("stubborn")


@server.tool
async def process() -> int:
    return os.getpid()


signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    server.run()
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
