"""HAProxy in front of the server under test: over HTTP/2, which the suite does not speak, or in front of several."""

from __future__ import annotations

import shutil
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from .server_process import HOST, ServerFailed, free_port, running

__all__ = ["balanced", "over_http2"]

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
    balance roundrobin
{checks}
{servers}
"""
_CHECKS = """\
    option httpchk GET {path}
    option redispatch
    default-server check inter 200ms fall 1 rise 1"""


@asynccontextmanager
async def over_http2(url: str, folder: Path) -> AsyncGenerator[str]:
    """Run the proxy for as long as the block lasts; yields the URL of the endpoint behind it.

    Args:
        url: the endpoint of the server; over HTTP/2 without TLS.
        folder: the folder for the proxy's configuration and its output.

    Raises:
        ServerFailed: the proxy is not installed, did not start, or did not exit at SIGTERM.
    """
    async with _proxy([url], folder, " proto h2") as url_in_front:
        yield url_in_front


@asynccontextmanager
async def balanced(urls: Sequence[str], folder: Path, ready_path: str | None = None) -> AsyncGenerator[str]:
    """Run the proxy in front of several servers, which get the requests in turn; yields the URL of the endpoint.

    Args:
        urls: the endpoints of the servers.
        ready_path: the path by which the proxy checks several times a second which servers are ready.
        folder: the folder for the proxy's configuration and its output.

    Raises:
        ServerFailed: see `over_http2`.
    """
    checks = "" if ready_path is None else _CHECKS.format(path=ready_path)
    async with _proxy(urls, folder, checks=checks) as url:
        yield url


@asynccontextmanager
async def _proxy(urls: Sequence[str], folder: Path, options: str = "", checks: str = "") -> AsyncGenerator[str]:
    if shutil.which(_PROXY) is None:
        raise ServerFailed(f"{_PROXY} is not installed; `--without http2 --without nodes` leaves out what needs it")
    port, places = free_port(), [urlsplit(url) for url in urls]
    servers = [f"    server s{number} {place.netloc}{options}" for number, place in enumerate(places)]
    configuration = folder / "haproxy.cfg"
    configuration.write_text(_CONFIGURATION.format(host=HOST, port=port, checks=checks, servers="\n".join(servers)))
    command = [_PROXY, "-db", "-f", str(configuration)]
    async with running(command, port, folder / "haproxy.log", last_status=-signal.SIGTERM):
        yield f"http://{HOST}:{port}{places[0].path}"
