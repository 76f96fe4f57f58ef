"""The HTTP application inside Starlette and Quart-Trio, and under Hypercorn's own Trio worker."""

from __future__ import annotations

import importlib
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from tests.transports.http.asgi_caller import AsgiCaller, scope_of
from trio_mcp import Context, Server, http_app, open_http_client
from trio_mcp.testing import AsgiEngine


def make_server(log: list[str]) -> Server:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[str]:
        log.append("entered")
        yield "shared"
        log.append("left")

    server = Server("mounted", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        await ctx.report_progress(1)
        return str(ctx.state)

    return server


async def check(engine: AsgiEngine, url: str) -> None:
    """Call a tool as a client of each era."""
    for revision in ("2025-11-25", "2026-07-28"):
        async with open_http_client(url, engine=engine, revision=revision) as client:
            result = await client.call_tool("state", on_progress=ignore_progress)
            assert result.structured_content == {"result": "shared"}


async def ignore_progress(_: object) -> None:
    """Accept progress, so that the answer is an event stream."""


async def hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def test_a_starlette_route_serves_the_application_and_its_lifespan_runs_it() -> None:
    log: list[str] = []
    app = http_app(make_server(log))
    host = Starlette(routes=[Route("/hello", hello), Route("/mcp", endpoint=app)], lifespan=app.lifespan)
    engine = AsgiEngine(host)

    async with engine.lifespan():
        assert log == ["entered"]
        await check(engine, "http://localhost/mcp")
        assert (await AsgiCaller(scope_of("GET", path="/hello")).run(host)).body == b"hello"

    assert log == ["entered", "left"]


@pytest.mark.parametrize(("path", "url"), [("/mcp", "http://localhost/api/mcp"), ("/", "http://localhost/api/")])
async def test_a_starlette_mount_serves_the_application(path: str, url: str) -> None:
    app = http_app(make_server([]), path=path)
    host = Starlette(routes=[Mount("/api", app=app)], lifespan=app.lifespan)
    engine = AsgiEngine(host)

    async with engine.lifespan():
        await check(engine, url)


async def test_the_application_wraps_starlette_with_its_own_lifespan() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        log.append("host entered")
        yield
        log.append("host left")

    both = http_app(make_server(log)).wrap(Starlette(routes=[Route("/hello", hello)], lifespan=lifespan))
    engine = AsgiEngine(both)

    async with engine.lifespan():
        await check(engine, "http://localhost/mcp")
        assert (await AsgiCaller(scope_of("GET", path="/hello")).run(both)).body == b"hello"

    assert log == ["entered", "host entered", "host left", "left"]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Quart-Trio needs Python 3.13")
async def test_the_application_wraps_quart_trio() -> None:
    quart: Any = importlib.import_module("quart_trio").QuartTrio("host")

    async def greet() -> str:
        return "hello"

    quart.get("/hello")(greet)
    both = http_app(make_server([])).wrap(quart)
    engine = AsgiEngine(both)

    async with engine.lifespan():
        await check(engine, "http://localhost/mcp")
        assert (await AsgiCaller(scope_of("GET", path="/hello")).run(both)).body == b"hello"


PROGRAM = """
from trio_mcp import Server, http_app

server = Server("mounted")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


app = http_app(server)
"""


async def test_hypercorns_own_trio_worker_runs_the_application(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        command = [sys.executable, "-m", "hypercorn", "-k", "trio", "--bind", f"fd://{bound.fileno()}", "program:app"]
        with trio.fail_after(60):
            process = await trio.lowlevel.open_process(
                command, cwd=tmp_path, pass_fds=[bound.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                async with open_http_client(url) as client:
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
                process.send_signal(signal.SIGTERM)
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    with trio.CancelScope(shield=True):
                        await process.wait()
