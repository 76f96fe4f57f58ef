"""Servers of Trio in ASGI applications of asyncio: under uvicorn, and inside FastAPI, over real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import uvicorn
from fastapi import FastAPI

from tests.asyncio.bridged_server import mark, until
from trio_mcp import Context, Server, ToolFailed
from trio_mcp.asyncio import http_app, open_client, run_asyncio
from trio_mcp.sync import open_client as open_sync_client

SECONDS = 60.0


def make_server(lifespans: list[str]) -> Server:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        lifespans.append("begun")
        yield
        lifespans.append("ended")

    server = Server("hosted", lifespan=lifespan)

    @server.tool
    async def add(a: int, b: int) -> int:
        await trio.lowlevel.checkpoint()
        return a + b

    @server.tool
    async def steps(ctx: Context) -> str:
        for step in range(3):
            await ctx.report_progress(step)
        return "done"

    @server.tool
    async def ask_the_loop() -> str:
        async def name() -> str:
            await asyncio.sleep(0)
            task = asyncio.current_task()
            return "in no task" if task is None else "in a task"

        return await run_asyncio(name())

    @server.tool
    async def forget_trio() -> None:
        await asyncio.sleep(0.01)

    @server.tool
    async def wait(folder: str) -> None:
        async def forever() -> None:
            mark(folder, "started")
            try:
                await asyncio.sleep(SECONDS)
            finally:
                mark(folder, "cancelled")

        await run_asyncio(forever())

    return server


@contextmanager
def served(app: Any, **options: Any) -> Generator[str]:
    """Serve an ASGI application with uvicorn in a thread; yield the address."""
    uvicorn_server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=5, ws="none", **options)
    )
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            uvicorn_server.run()
        except BaseException as failure:  # noqa: BLE001 # told below
            failures.append(failure)

    thread = threading.Thread(target=serve)
    thread.start()
    while not uvicorn_server.started and thread.is_alive():
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{uvicorn_server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        uvicorn_server.should_exit = True
        thread.join(SECONDS)
    assert not thread.is_alive()
    assert failures == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_uvicorn_serves_a_server(loop: str) -> None:
    lifespans: list[str] = []
    with served(http_app(make_server(lifespans)), loop=loop) as url, open_sync_client(f"{url}/mcp") as client:
        updates: list[float] = []
        assert client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        client.call_tool("steps", on_progress=lambda update: updates.append(update.progress))
        assert updates == [0, 1, 2]
        assert lifespans == ["begun"]

    assert lifespans == ["begun", "ended"]


def test_fastapi_has_a_server_beside_its_own_routes() -> None:
    lifespans: list[str] = []
    mcp = http_app(make_server(lifespans))
    app = FastAPI(lifespan=mcp.lifespan)
    app.mount("/tools", mcp)

    with served(app) as url, open_sync_client(f"{url}/tools/mcp") as client:
        assert client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3

    assert lifespans == ["begun", "ended"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_both_eras_are_served(revision: str) -> None:
    with served(http_app(make_server([]))) as url, open_sync_client(f"{url}/mcp") as client:
        del client
        with open_sync_client(f"{url}/mcp", revision=revision) as pinned:
            assert pinned.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


def test_a_handler_awaits_something_of_the_hosting_loop() -> None:
    with served(http_app(make_server([]))) as url, open_sync_client(f"{url}/mcp") as client:
        assert client.call_tool("ask_the_loop", returns=str) == "in a task"


def test_cancelling_a_call_cancels_what_its_handler_awaits_of_the_loop(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with asyncio.timeout(SECONDS), open_client(f"{url}/mcp") as client:
            call = asyncio.create_task(client.call_tool("wait", {"folder": str(tmp_path)}))
            await until(tmp_path / "started")
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(tmp_path / "cancelled")

    with served(http_app(make_server([]))) as url:
        asyncio.run(main(url))


def test_a_handler_that_calls_asyncio_is_told_the_cure(caplog: pytest.LogCaptureFixture) -> None:
    with (
        served(http_app(make_server([]))) as url,
        open_sync_client(f"{url}/mcp") as client,
        pytest.raises(ToolFailed),
    ):
        client.call_tool("forget_trio", raise_on_error=True)

    assert "trio_mcp.asyncio.run_asyncio" in caplog.text


async def test_run_asyncio_needs_a_hosting_loop() -> None:
    async def never() -> None:
        raise AssertionError

    with pytest.raises(RuntimeError, match=r"run_asyncio\(\) is for handlers of a server that asyncio hosts"):
        await run_asyncio(never())
    with pytest.raises(RuntimeError, match="asyncio does not host this one"):
        await run_asyncio(Never())


class Never:
    def __await__(self) -> Any:
        raise AssertionError


def test_run_asyncio_is_not_for_tasks_of_asyncio() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="is for handlers"):
            await run_asyncio(asyncio.sleep(0))

    asyncio.run(main())
