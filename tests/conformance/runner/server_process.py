"""A server as a child process, above all that under test, from accepting connections until it has exited."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, STDOUT

import trio

from trio_mcp import open_http_client

from .suite import ROOT

__all__ = ["HOST", "ServerFailed", "everything_gateway", "everything_server", "free_port", "running"]

HOST = "127.0.0.1"
SECONDS_TO_START = 30
SECONDS_TO_STOP = 15


class ServerFailed(Exception):
    """The server did not start or did not exit with status 0; the message contains its output."""


@asynccontextmanager
async def everything_server(log: Path, *options: str) -> AsyncGenerator[str]:
    """Run the everything server for as long as the block lasts; yields the URL of its endpoint.

    Args:
        log: the file for its output.
        options: options of its command line.

    Raises:
        ServerFailed: see `running`.
    """
    async with _running_program("everything_server", log, *options) as url:
        yield url


@asynccontextmanager
async def everything_gateway(log: Path, *options: str) -> AsyncGenerator[str]:
    """Run a gateway in front of the everything server for as long as the block lasts; yields the URL of its endpoint.

    Yields when the server behind it is connected.

    Args:
        log: the file for its output.
        options: options of its command line.

    Raises:
        ServerFailed: see `running`.
    """
    async with _running_program("everything_gateway", log, *options) as url:
        async with open_http_client(url, cache=False) as client:
            with trio.move_on_after(SECONDS_TO_START):
                while not (await client.list_tools()).tools:  # each waits some seconds for the server behind it
                    pass
        yield url


@asynccontextmanager
async def _running_program(name: str, log: Path, *options: str) -> AsyncGenerator[str]:
    port = free_port()
    command = [sys.executable, "-m", f"tests.conformance.{name}", "--port", str(port), *options]
    async with running(command, port, log):
        yield f"http://{HOST}:{port}/mcp"


@asynccontextmanager
async def running(command: Sequence[str], port: int, log: Path, *, last_status: int = 0) -> AsyncGenerator[None]:
    """Run a server for as long as the block lasts.

    Args:
        command: its command line.
        port: the port at which it listens.
        log: the file for its output.
        last_status: its exit status after SIGTERM.

    Raises:
        ServerFailed: it did not start, or did not exit with that status after SIGTERM.
    """
    process = await _begin(command, log)
    try:
        await _until_it_listens(process, port, log)
        yield
        process.send_signal(signal.SIGTERM)
        with trio.move_on_after(SECONDS_TO_STOP):
            await process.wait()
        if process.returncode is None:
            raise ServerFailed(f"the server has not ended {SECONDS_TO_STOP} s after SIGTERM{_words(log)}")
        if process.returncode != last_status:
            raise ServerFailed(f"the server has ended with status {process.returncode}{_words(log)}")
    finally:
        if process.returncode is None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _begin(command: Sequence[str], log: Path) -> trio.Process:
    with log.open("wb") as output:
        begin = partial(trio.lowlevel.open_process, stdin=DEVNULL, stdout=output, stderr=STDOUT, cwd=ROOT)
        return await begin(command)


async def _until_it_listens(process: trio.Process, port: int, log: Path) -> None:
    with trio.move_on_after(SECONDS_TO_START):
        while process.poll() is None:
            try:
                stream = await trio.open_tcp_stream(HOST, port)
            except OSError:
                await trio.sleep(0.05)
            else:
                await stream.aclose()
                return
        raise ServerFailed(f"the server has ended with status {process.returncode}{_words(log)}")
    raise ServerFailed(f"the server does not listen after {SECONDS_TO_START} s{_words(log)}")


def free_port() -> int:
    """Return a port of this machine that no server uses."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
    return port


def _words(log: Path) -> str:
    words = log.read_text(errors="replace").strip()
    return f"; it has printed:\n{words}" if words else ", and has printed nothing"
