"""A protected server and its users: one user cannot use what belongs to another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio
import trio.testing
from attrs import define, field, frozen

from tests.interaction.raw_http_client import RawHttpClient, RawResponse
from tests.interaction.scripted_peers import Json
from tests.transports.http.server.token_verifier import Tokens, protection
from trio_mcp import (
    Context,
    HttpStatusError,
    Limits,
    RateLimit,
    ResourceNotFound,
    Server,
    http_app,
    open_http_client,
)
from trio_mcp.testing import AsgiEngine
from trio_mcp.wire import CAPABILITIES_KEY, LEGACY_REVISIONS

URL = "http://localhost/mcp"
MODERN, LATEST = "2026-07-28", LEGACY_REVISIONS[-1]
CAN_BE_ASKED: Json = {CAPABILITIES_KEY: {"elicitation": {"form": {}}}}
BAD_STATE = "$.requestState: it is invalid or has expired; send the request again without it"


@frozen
class Amount:
    pounds: int


@define(eq=False)
class Bank:
    """A server whose tools need a user."""

    asking: Literal["parked", "replayed"] = "parked"
    limits: Limits = field(factory=Limits)
    tokens: Tokens = field(factory=Tokens, init=False)
    server: Server = field(init=False)
    paid: list[str] = field(factory=list[str], init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("bank", asking=self.asking, limits=self.limits)
        self.server.tool(self.balance)
        self.server.tool(scopes=["pay"])(self.pay)
        self.server.tool(self.hang)

    async def balance(self, ctx: Context) -> str:
        return f"{ctx.principal} has 7"

    async def pay(self, ctx: Context) -> str:
        answer: Any = await ctx.elicit("How much?", Amount)
        self.paid.append(f"{ctx.principal} pays {answer.value.pounds}")
        return self.paid[-1]

    async def hang(self) -> None:
        await trio.sleep_forever()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[AsgiEngine]:
        engine = AsgiEngine(http_app(self.server, auth=protection(self.tokens)))
        async with engine.lifespan():
            yield engine


def retry_of(response: RawResponse) -> Json:
    """Return the params of a call that answers the questions of an interim result."""
    result = response.answer["result"]
    answers = {key: {"action": "accept", "content": {"pounds": 5}} for key in result["inputRequests"]}
    return {"name": "pay", "arguments": {}, "requestState": result["requestState"], "inputResponses": answers}


@pytest.mark.parametrize("asking", ["parked", "replayed"])
async def test_one_user_cannot_answer_the_question_of_another(asking: Literal["parked", "replayed"]) -> None:
    bank = Bank(asking)
    ann, bob = (bank.tokens.issue(who, "pay") for who in ("ann", "bob"))
    renewed, less = bank.tokens.issue("ann", "pay"), bank.tokens.issue("ann")

    async with bank.open() as engine:
        client = RawHttpClient(engine)

        async def call(params: Json, headers: Mapping[str, str]) -> RawResponse:
            return await client.post(client.request("tools/call", params, meta=CAN_BE_ASKED), headers)

        retry = retry_of(await call({"name": "pay", "arguments": {}}, ann))
        stolen = await call(retry, bob)
        assert stolen.answer["error"] == {"code": -32602, "message": BAD_STATE}
        assert (await call(retry, {})).status == 401
        assert (await call(retry, less)).status == 403
        assert bank.paid == []
        done = await call(retry, renewed)

    assert done.answer["result"]["content"][0]["text"] == "ann pays 5"
    assert bank.paid == ["ann pays 5"]


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_client_with_a_token_gets_what_was_granted_and_a_clear_error_otherwise(revision: str) -> None:
    bank = Bank()
    ann = bank.tokens.issue("ann")

    async with bank.open() as engine:
        async with open_http_client(URL, engine=engine, headers=ann, revision=revision) as client:
            assert {tool.name async for tool in client.tools()} == {"balance", "pay", "hang"}
            with pytest.raises(HttpStatusError) as refused:
                await client.call_tool("pay")
            result = await client.call_tool("balance")
            assert refused.value.status == 403
            assert result.content[0].text == "ann has 7"  # type: ignore[union-attr]
        with pytest.raises(HttpStatusError) as unknown:
            async with open_http_client(URL, engine=engine, revision=revision):
                pass

    assert unknown.value.status == 401


async def test_users_behind_one_address_have_separate_limits() -> None:
    bank = Bank(limits=Limits(max_in_flight=1, max_queued=1, drain_seconds=0.1))
    ann, bob = bank.tokens.issue("ann"), bank.tokens.issue("bob")

    async with bank.open() as engine, trio.open_nursery() as nursery:
        client = RawHttpClient(engine)
        for _ in range(2):
            nursery.start_soon(client.post, client.call("hang"), ann)
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.post(client.call("balance"), ann)).code is not None
        assert (await client.post(client.call("balance"), bob)).code is None
        nursery.cancel_scope.cancel()


async def test_a_rate_limit_applies_to_each_user() -> None:
    bank = Bank()
    bank.server.middleware(RateLimit(per_second=0.001, burst=1, by=["principal"]))
    ann, bob = bank.tokens.issue("ann"), bank.tokens.issue("bob")

    async with bank.open() as engine:
        client = RawHttpClient(engine)
        codes = [(await client.post(client.call("balance"), who)).code is None for who in (ann, bob, ann, bob)]

    assert codes == [True, True, False, False]


async def test_a_resource_may_exist_only_for_some_users() -> None:
    bank = Bank()
    ann, bob = bank.tokens.issue("ann"), bank.tokens.issue("bob")

    @bank.server.resource("bank://accounts/{owner}")
    async def account(owner: str, ctx: Context) -> str:
        if owner != ctx.principal:
            raise ResourceNotFound(f"no resource {owner!r}")
        return "7"

    async with bank.open() as engine:
        client = RawHttpClient(engine)
        read = client.request("resources/read", {"uri": "bank://accounts/ann"})
        found, hidden = await client.post(read, ann), await client.post(read, bob)

    assert found.answer["result"]["contents"][0]["text"] == "7"
    assert found.answer["result"]["cacheScope"] == "private"
    assert hidden.code == -32602
