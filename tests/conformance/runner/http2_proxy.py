"""A proxy that passes the requests of the suite, which speaks HTTP/1.1, to the server under test over HTTP/2."""

from __future__ import annotations

import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from .server_process import HOST, ServerFailed, free_port, running

__all__ = ["over_http2"]

_PROXY = "haproxy"
"""The program; most others speak only HTTP/1 to servers."""
# Without `http-no-delay` it waits 200 ms for the end of a response, which our server sends in a frame of its own.
_CONFIGURATION = """\
defaults
    mode http
    option http-no-delay
    timeout connect 30s
    timeout client 60s
    timeout server 60s
listen suite
    bind {host}:{port}
    server under-test {server} proto h2
"""


@asynccontextmanager
async def over_http2(url: str, folder: Path) -> AsyncGenerator[str]:
    """Run the proxy for as long as the block lasts; yields the URL of the endpoint behind it.

    Args:
        url: the endpoint of the server; over HTTP/2 without TLS.
        folder: the folder for the proxy's configuration and its output.

    Raises:
        ServerFailed: the proxy is not installed, did not start, or did not exit at SIGTERM.
    """
    if shutil.which(_PROXY) is None:
        raise ServerFailed(f"{_PROXY} is not installed; `--without http2` leaves out what needs it")
    port, place = free_port(), urlsplit(url)
    configuration = folder / "haproxy.cfg"
    configuration.write_text(_CONFIGURATION.format(host=HOST, port=port, server=place.netloc))
    command = [_PROXY, "-db", "-f", str(configuration)]
    async with running(command, port, folder / "haproxy.log", last_status=-signal.SIGTERM):
        yield f"http://{HOST}:{port}{place.path}"
