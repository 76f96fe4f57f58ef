"""`Context.once` in one process: the function runs once for a retry that arrives twice at the same time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Context, Server, http_app
from trio_mcp.testing import AsgiEngine
from trio_mcp.wire import CAPABILITIES_KEY

ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}


class Bank:
    """Payments that the test lets succeed or fail."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = trio.Event()
        self.failures = 0

    async def pay(self) -> int:
        self.begun += 1
        await self.go.wait()
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError("no money")
        return self.begun

    def server(self) -> Server:
        server = Server("bank", asking="replayed")

        @server.tool
        async def buy(ctx: Context) -> int:
            await ctx.list_roots()
            return await ctx.once("pay", self.pay)

        return server


async def retry_of(client: RawHttpClient) -> Any:
    """Begin a call; return the retry with the answer."""
    interim = (await client.post(client.call("buy", meta=ROOTS))).answer["result"]
    (key,) = interim["inputRequests"]
    retry = client.call("buy", meta=ROOTS)
    retry["params"] |= {"requestState": interim["requestState"], "inputResponses": {key: {"roots": []}}}
    return retry


@pytest.mark.parametrize(("failures", "results"), [(0, [1, 1, 1]), (1, [2, 2, None])])
async def test_a_retry_that_arrives_several_times_at_once_has_its_effect_once(
    failures: int, results: list[int | None]
) -> None:
    bank, got = Bank(), list[Any]()
    bank.failures = failures
    engine = AsgiEngine(http_app(bank.server()))

    async def buy() -> None:
        got.append((await client.post(retry)).answer["result"].get("structuredContent", {}).get("result"))

    with trio.fail_after(60):
        async with engine.lifespan():
            client = RawHttpClient(engine)
            retry = await retry_of(client)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(buy)
                await wait_all_tasks_blocked(0.01)
                assert bank.begun == 1
                bank.go.set()
            assert sorted(got, key=str) == results
            await buy()  # nothing is remembered when all have ended

    assert got[-1] == bank.begun == 2 + failures
