"""The server that the contract of transports is tested with: whatever it is asked, it does observably."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import trio
from attrs import define, field

from .. import types
from .._errors import McpError
from ..abc import HttpAnswerer, HttpServing
from ..peer import NO_ENVELOPE, Envelope, Limits, Peer
from ..server import AskingMode, Context, Server
from ..wire import JsonObject

__all__ = ["contract_server"]


@define(eq=False)
class _State:
    """What the handlers of one serving share."""

    stopped: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    """For each key, whether the handler that worked under it was cancelled."""
    released: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    waiting: int = 0
    """How many handlers wait."""
    notified: list[str] = field(factory=list[str])
    """The methods of the notifications that belonged to no exchange."""


@asynccontextmanager
async def _lifespan(_: Server) -> AsyncGenerator[_State]:
    yield _State()


@define(eq=False)
class _Noting:
    """A serving that notes the notifications it gets."""

    _serving: Any

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: Envelope = NO_ENVELOPE) -> None:
        self._serving.state.notified.append(method)
        self._serving.notified(method, params, peer, envelope)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._serving, name)


@define(eq=False)
class _ContractServer:
    _server: Server

    @property
    def revisions(self) -> Sequence[str]:
        return self._server.revisions

    @property
    def limits(self) -> Limits:
        return self._server.limits

    @asynccontextmanager
    async def serving(self, *, asking: AskingMode | None = None) -> AsyncGenerator[HttpServing]:
        async with self._server.serving(asking=asking) as serving:
            yield cast("HttpServing", _Noting(serving))

    def serving_one(self) -> AbstractAsyncContextManager[HttpServing]:
        return self._server.serving_one()


def contract_server() -> HttpAnswerer:
    """Return the server that the clauses of a `TransportContract` talk to.

    A contract gives one to `TransportContract.served`. A transport whose servers are programs of their own needs it
    in one: ``trio.run(serve_stdio, contract_server())``, say, or ``app = http_app(contract_server())``.
    """
    server = Server("contract", version="1.0", lifespan=_lifespan)
    for tool in (_echo, _count, _hang, _when_stopped, _wait, _release, _waiting, _refuse, _say, _notified, _pid):
        server.tool(name=tool.__name__.removeprefix("_"))(tool)
    return _ContractServer(server)


async def _echo(value: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[], meta={"value": value})


async def _count(steps: int, ctx: Context) -> str:
    for done in range(1, steps + 1):
        await ctx.report_progress(done, total=steps, message=f"step {done}")
    return "counted"


async def _hang(key: str, ctx: Context) -> None:
    """Report once, and work until cancelled."""
    with _counted(ctx):
        try:
            await ctx.report_progress(1)
            await trio.sleep_forever()
        finally:
            ctx.state.stopped[key].set()


async def _when_stopped(key: str, ctx: Context) -> str:
    await ctx.state.stopped[key].wait()
    return "stopped"


async def _wait(key: str, ctx: Context) -> str:
    with _counted(ctx):
        await ctx.state.released[key].wait()
    return key


async def _release(key: str, ctx: Context) -> None:
    ctx.state.released[key].set()


async def _waiting(ctx: Context) -> int:
    return cast("_State", ctx.state).waiting


async def _refuse() -> None:
    raise McpError(-5, "not today", {"until": "tomorrow"})


async def _say(text: str, ctx: Context) -> str:
    await ctx.log("error", text)
    return "said"


async def _notified(ctx: Context) -> list[str]:
    return list(ctx.state.notified)


async def _pid() -> int:
    return os.getpid()


@define(eq=False)
class _counted:  # noqa: N801 # a context manager
    """Counts who waits."""

    _ctx: Context

    def __enter__(self) -> None:
        self._ctx.state.waiting += 1

    def __exit__(self, *_: object) -> None:
        self._ctx.state.waiting -= 1
