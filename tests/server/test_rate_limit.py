"""The token buckets of `RateLimit`, in virtual time."""

from __future__ import annotations

from typing import Any, Self

import pytest
import trio
from attrs import evolve

from trio_mcp import Client, ErrorResponse, RateLimit, Request, Server, open_client, types
from trio_mcp.lowlevel import ActiveServer, IncomingRequest
from trio_mcp.peer import BUSY, Access
from trio_mcp.testing import open_memory_client, open_scripted_client


def make_server(limit: RateLimit) -> Server:
    server = Server("s", middleware=[limit])
    for name in ("dig", "fill"):
        server.tool(name=name)(lambda: "done")
    return server


async def refused(client: Client, tool: str) -> float | None:
    """Call a tool; the seconds that the refusal names, None where the call was let through."""
    try:
        await client.call_tool(tool)
    except ErrorResponse as error:
        assert error.code == BUSY
        assert "try again in" in error.message
        seconds: float = error.data["retryAfterSeconds"]
        return seconds
    return None


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_burst_is_let_through_and_what_follows_at_the_rate(revision: str, autojump_clock: object) -> None:
    limit = RateLimit(per_second=2, burst=3, methods=["tools/call"])

    async with open_memory_client(make_server(limit), revision=revision) as client:
        assert [await refused(client, "dig") for _ in range(4)] == [None, None, None, 0.5]
        await trio.sleep(0.25)
        assert await refused(client, "dig") == 0.25
        await trio.sleep(0.25)
        assert [await refused(client, "dig") for _ in range(2)] == [None, 0.5]
        await trio.sleep(100)
        assert [await refused(client, "dig") for _ in range(4)] == [None, None, None, 0.5]


async def test_whoever_waits_as_long_as_it_was_told_is_let_through(autojump_clock: object) -> None:
    limit = RateLimit(per_second=0.3, burst=1, methods=["tools/call"])

    async with open_client(make_server(limit)) as client:
        await client.call_tool("dig")
        for _ in range(5):
            seconds = await refused(client, "dig")
            assert seconds is not None
            await trio.sleep(seconds)
            assert await refused(client, "dig") is None


async def test_each_tool_has_a_bucket_and_each_method(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1)

    async with open_client(make_server(limit)) as client:
        assert [await refused(client, tool) for tool in ("dig", "fill", "dig")] == [None, None, 1.0]
        await client.list_tools()
        with pytest.raises(ErrorResponse, match="too many requests"):
            await client.request("tools/list", None, types.ListToolsResult)


async def test_it_may_count_all_tools_together_and_leave_other_methods_alone(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1, by=["principal"], methods={"tools/call"})

    async with open_client(make_server(limit)) as client:
        assert [await refused(client, tool) for tool in ("dig", "fill")] == [None, 1.0]
        for _ in range(3):
            await client.request("tools/list", None, types.ListToolsResult)


async def test_each_principal_has_a_bucket(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1)
    passed: list[str] = []

    async def call_as(principal: str | None) -> None:
        async def call_next(request: Request) -> Any:
            passed.append(str(principal))

        await limit(a_request(principal), call_next)

    await call_as("ada")
    await call_as("bob")
    await call_as(None)
    with pytest.raises(Exception, match="too many requests"):
        await call_as("ada")

    assert passed == ["ada", "bob", "None"]


class _Terms:
    def __init__(self, principal: str | None) -> None:
        self.principal = principal


def a_request(principal: str | None, method: str = "ping", *, is_notification: bool = False) -> Request:
    context: Any = _Terms(principal)
    return Request(method=method, params=None, context=context, is_notification=is_notification)


async def let_through(request: Request) -> Any:
    return request.method


async def test_buckets_that_are_full_again_are_forgotten(autojump_clock: object) -> None:
    limit = RateLimit(per_second=10, burst=5)
    for number in range(1000):
        await limit(a_request(f"client {number}"), let_through)
    assert limit.buckets == 1000

    await trio.sleep(0.2)
    await limit(a_request("one more"), let_through)

    assert limit.buckets == 1


async def test_there_are_never_more_buckets_than_allowed_and_the_new_ones_share_one(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1, burst=2, max_buckets=3)
    for number in range(3):
        await limit(a_request(f"client {number}"), let_through)

    await limit(a_request("late"), let_through)
    await limit(a_request("later"), let_through)
    with pytest.raises(Exception, match="too many requests"):
        await limit(a_request("latest"), let_through)

    assert limit.buckets == 4
    await limit(a_request("client 0"), let_through)  # those that were there have what is theirs


@pytest.mark.parametrize("method", ["tools/call", "acme/made-up"])
async def test_names_that_a_caller_makes_up_share_a_bucket_and_take_no_place_of_others(
    method: str, autojump_clock: object
) -> None:
    limit = RateLimit(per_second=1, burst=1, max_buckets=2)

    async with open_scripted_client(make_server(limit), "2025-11-25") as client:
        made_up: list[Any] = []
        for number in range(3):
            name = method if method == "tools/call" else f"{method}-{number}"
            made_up.append(await client.request(name, {"name": f"made-up-{number}"}))
        known = await client.request("tools/call", {"name": "dig"})

    assert [answer["error"]["code"] == BUSY for answer in made_up] == [False, True, True]
    assert "result" in known


async def test_a_method_of_the_applications_own_has_a_bucket(autojump_clock: object) -> None:
    server = Server("s", middleware=[RateLimit(per_second=1)])
    for name in ("acme/a", "acme/b"):
        server.method(name)(lambda: None)

    async with open_scripted_client(server, "2025-11-25") as client:
        answers = [await client.request(name) for name in ("acme/a", "acme/b", "acme/a")]

    assert ["result" in answer for answer in answers] == [True, True, False]


async def test_notifications_are_not_counted() -> None:
    limit = RateLimit(per_second=1, burst=1)
    for _ in range(10):
        assert await limit(a_request(None, is_notification=True), let_through) == "ping"
    assert limit.buckets == 0


def test_a_server_that_is_served_in_two_trio_runs_counts_in_each_by_its_own_clock() -> None:
    limit = RateLimit(per_second=1, methods=["tools/call"])
    server = make_server(limit)

    async def call() -> float | None:
        async with open_client(server) as client:
            return await refused(client, "dig")

    assert trio.run(call) is None
    assert trio.run(call) is None


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"per_second": 0}, "per_second=0"),
        ({"per_second": float("nan")}, "per_second=nan"),
        ({"per_second": float("inf")}, "per_second=inf"),
        ({"per_second": 1, "burst": 0}, "burst=0"),
        ({"per_second": 1, "burst": 1.5}, "burst=1.5"),
        ({"per_second": 1, "max_buckets": 0}, "max_buckets=0"),
        ({"per_second": 1, "by": ["colour"]}, "'principal', 'method', 'tool'"),
        ({"per_second": 1, "by": "tool"}, "'principal', 'method', 'tool'"),
        ({"per_second": 1, "methods": "tools/call"}, "must be a list of methods"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        RateLimit(**options)


async def test_principals_come_from_the_request_that_is_answered(autojump_clock: object) -> None:
    """Through a serving whose transport authenticates: here by hand."""
    limit, server = RateLimit(per_second=1, methods=["tools/call"]), Server("s")
    server.tool(name="dig")(lambda: "done")
    server.middleware(limit)

    async with open_client(Authenticating(server, ["ada", "bob", "ada"])) as client:
        assert [await refused(client, "dig") for _ in range(3)] == [None, None, 1.0]


class Authenticating:
    """A server behind a transport that knows who calls tools."""

    def __init__(self, server: Server, principals: list[str]) -> None:
        self._server, self._principals = server, principals
        self._opened: Any = None

    def serving(self) -> Any:
        self._opened = self._server.serving()
        return self

    async def __aenter__(self) -> Self:
        self._serving: ActiveServer = await self._opened.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> Any:
        return await self._opened.__aexit__(*failure)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._serving, name)

    def answer(self, exchange: IncomingRequest) -> None:
        if exchange.method == "tools/call":
            exchange.context = evolve(exchange.context, access=Access(self._principals.pop(0)))
        self._serving.answer(exchange)
