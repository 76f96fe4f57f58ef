"""`Context.once` in a service: the function runs once for a retry that reaches several processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field

from tests.cluster.interrupted_backend import MESSAGE, InterruptedShared
from tests.interaction.over_cluster import cluster
from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Context, Server, SharedUnavailable
from trio_mcp.wire import CAPABILITIES_KEY

ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}


@define(eq=False)
class Shop:
    """What the handlers of all processes do and see."""

    payments: int = 0
    """The number of payments that were begun."""
    paid: int = 0
    go: trio.Event = field(factory=trio.Event)
    """Set when payments may end."""
    begun: trio.Event = field(factory=trio.Event)
    """Set when a payment has begun."""
    waits: trio.Event = field(factory=trio.Event)
    """Set when a process looks for the result of another one."""
    failure: SharedUnavailable | None = None

    async def pay(self) -> str:
        self.payments += 1
        self.begun.set()
        await self.go.wait()
        self.paid += 1
        return f"receipt {self.paid}"

    async def note(self, method: str, name: str) -> None:
        """Take note of a call of the backend."""
        if method == "get" and "/once/" in name:
            self.waits.set()

    def server(self) -> Server:
        server = Server("shop", asking="replayed")

        @server.tool
        async def buy(ctx: Context, item: str, *, catches: bool = False) -> str:
            roots = await ctx.list_roots()
            try:
                receipt = await ctx.once("pay", self.pay)
            except SharedUnavailable as error:
                self.failure = error
                if catches:
                    return "try again later"
                raise
            return f"{receipt} for {item} to {roots[0].uri}"

        return server


@asynccontextmanager
async def served(shop: Shop, nodes: int = 2) -> AsyncGenerator[tuple[InterruptedShared, list[RawHttpClient]]]:
    line: Any = InterruptedShared()
    line.before = shop.note
    with trio.fail_after(60):
        async with cluster(shop.server, nodes, shared=line) as balanced:
            yield line, [RawHttpClient(engine) for engine in balanced.engines]


async def asked(client: RawHttpClient, item: str = "tea", *, uri: str = "file:///a", catches: bool = False) -> Any:
    """Begin a call; return the retry with the answer."""
    arguments = {"item": item, "catches": catches}
    interim = (await client.post(client.call("buy", arguments, meta=ROOTS))).answer["result"]
    return retry_of(client, interim, arguments, uri)


def retry_of(client: RawHttpClient, interim: Any, arguments: Any, uri: str) -> Any:
    (key,) = interim["inputRequests"]
    retry = client.call("buy", arguments, meta=ROOTS)
    retry["params"] |= {"requestState": interim["requestState"], "inputResponses": {key: {"roots": [{"uri": uri}]}}}
    return retry


async def text_of(client: RawHttpClient, retry: Any) -> str:
    result = (await client.post(retry)).answer["result"]
    assert not result.get("isError")
    return f"{result['structuredContent']['result']}"


async def test_a_retry_that_reaches_two_processes_at_once_has_its_effect_once() -> None:
    shop, texts = Shop(), list[str]()

    async def buy(client: RawHttpClient) -> None:
        texts.append(await text_of(client, retry))

    async with served(shop) as (_, clients):
        retry = await asked(clients[0])
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(buy, client)
            await shop.begun.wait()
            await shop.waits.wait()
            shop.go.set()

        assert texts == ["receipt 1 for tea to file:///a"] * 2
        assert shop.payments == 1
        assert await text_of(clients[1], retry) == texts[0]  # also later
        assert shop.payments == 1


async def test_the_other_process_pays_if_the_client_of_the_first_leaves() -> None:
    shop, texts = Shop(), list[str]()

    async def buy() -> None:
        texts.append(await text_of(clients[1], retry))

    async with served(shop) as (_, clients):
        retry = await asked(clients[0])
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as leaving:
                leaving.start_soon(clients[0].post, retry)
                await shop.begun.wait()
                nursery.start_soon(buy)
                await shop.waits.wait()
                leaving.cancel_scope.cancel()
            shop.go.set()

    assert texts == ["receipt 1 for tea to file:///a"]
    assert (shop.payments, shop.paid) == (2, 1)


async def test_other_calls_and_other_answers_have_their_own_effect() -> None:
    shop = Shop()
    shop.go.set()

    async with served(shop) as (_, clients):
        first, second = await asked(clients[0]), await asked(clients[0])  # the same call twice
        assert await text_of(clients[0], first) == "receipt 1 for tea to file:///a"
        assert await text_of(clients[1], second) == "receipt 2 for tea to file:///a"
        other = await asked(clients[0], "tea", uri="file:///b")
        other["params"]["requestState"] = first["params"]["requestState"]

        assert await text_of(clients[1], other) == "receipt 3 for tea to file:///b"


@pytest.mark.parametrize("catches", [True, False])
async def test_without_the_backend_a_call_fails_at_once_and_its_error_does_not_name_it(
    *, catches: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()

    async with served(shop) as (line, clients):
        retry = await asked(clients[0], catches=catches)
        line.is_down = True

        got = await clients[0].post(retry)

        assert shop.payments == 0
        assert MESSAGE in str(shop.failure)
        if catches:
            assert got.answer["result"]["structuredContent"] == {"result": "try again later"}
        else:
            assert got.code == -32603
            assert got.answer["error"]["message"] == (
                "what the processes of this service share cannot be reached at the moment; try again later"
            )
            assert MESSAGE in caplog.text


async def test_names_and_answers_are_not_told_to_the_backend() -> None:
    shop, names = Shop(), list[str]()
    shop.go.set()

    async with served(shop) as (line, clients):

        async def note(method: str, name: str) -> None:
            names.append(name)

        retry = await asked(clients[0], "a secret")
        line.before = note
        assert await text_of(clients[1], retry) == "receipt 1 for a secret to file:///a"
        (name,) = {name for name in names if "/once/" in name}
        async with line.open() as state:
            stored = await state.get(name)

        assert name.partition("/once/")[2].isalnum()
        assert stored is not None
        assert b"receipt" not in stored
