"""`RateLimit`: token buckets for principals, methods and tools, in virtual time."""

from __future__ import annotations

from types import SimpleNamespace
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


async def call_refused_for(client: Client, tool: str) -> float | None:
    """Call a tool; return the seconds after which a call_refused_for call may be repeated, None if it was admitted."""
    try:
        await client.call_tool(tool)
    except ErrorResponse as error:
        assert error.code == BUSY
        assert "try again in" in error.message
        seconds: float = error.data["retryAfterSeconds"]
        return seconds
    return None


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_burst_is_admitted_and_later_calls_at_the_rate(revision: str, autojump_clock: object) -> None:
    limit = RateLimit(per_second=2, burst=3, methods=["tools/call"])

    async with open_memory_client(make_server(limit), revision=revision) as client:
        assert [await call_refused_for(client, "dig") for _ in range(4)] == [None, None, None, 0.5]
        await trio.sleep(0.25)
        assert await call_refused_for(client, "dig") == 0.25
        await trio.sleep(0.25)
        assert [await call_refused_for(client, "dig") for _ in range(2)] == [None, 0.5]
        await trio.sleep(100)
        assert [await call_refused_for(client, "dig") for _ in range(4)] == [None, None, None, 0.5]


async def test_a_client_that_waits_as_long_as_the_refusal_says_is_admitted(autojump_clock: object) -> None:
    limit = RateLimit(per_second=0.3, burst=1, methods=["tools/call"])

    async with open_client(make_server(limit)) as client:
        await client.call_tool("dig")
        for _ in range(5):
            seconds = await call_refused_for(client, "dig")
            assert seconds is not None
            await trio.sleep(seconds)
            assert await call_refused_for(client, "dig") is None


async def test_each_tool_and_each_method_has_its_own_bucket(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1)

    async with open_client(make_server(limit)) as client:
        assert [await call_refused_for(client, tool) for tool in ("dig", "fill", "dig")] == [None, None, 1.0]
        await client.list_tools()
        with pytest.raises(ErrorResponse, match="too many requests"):
            await client.request("tools/list", None, types.ListToolsResult)


async def test_a_limit_may_count_all_tools_together_and_ignore_other_methods(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1, by=["principal"], methods={"tools/call"})

    async with open_client(make_server(limit)) as client:
        assert [await call_refused_for(client, tool) for tool in ("dig", "fill")] == [None, 1.0]
        for _ in range(3):
            await client.request("tools/list", None, types.ListToolsResult)


async def test_each_principal_has_its_own_bucket(autojump_clock: object) -> None:
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
        self._serving = SimpleNamespace(shared=None)


def a_request(principal: str | None, method: str = "ping", *, is_notification: bool = False) -> Request:
    context: Any = _Terms(principal)
    return Request(method=method, params=None, context=context, is_notification=is_notification)


async def admit(request: Request) -> Any:
    return request.method


async def test_buckets_that_are_full_again_are_removed(autojump_clock: object) -> None:
    limit = RateLimit(per_second=10, burst=5)
    for number in range(1000):
        await limit(a_request(f"client {number}"), admit)
    assert limit.buckets == 1000

    await trio.sleep(0.2)
    await limit(a_request("one more"), admit)

    assert limit.buckets == 1


async def test_clients_beyond_the_maximum_of_buckets_share_one_bucket(autojump_clock: object) -> None:
    limit = RateLimit(per_second=1, burst=2, max_buckets=3)
    for number in range(3):
        await limit(a_request(f"client {number}"), admit)

    await limit(a_request("late"), admit)
    await limit(a_request("later"), admit)
    with pytest.raises(Exception, match="too many requests"):
        await limit(a_request("latest"), admit)

    assert limit.buckets == 4
    await limit(a_request("client 0"), admit)  # earlier clients keep their buckets


@pytest.mark.parametrize("method", ["tools/call", "acme/unknown"])
async def test_unknown_names_share_one_bucket_and_use_up_no_other(method: str, autojump_clock: object) -> None:
    limit = RateLimit(per_second=1, burst=1, max_buckets=2)

    async with open_scripted_client(make_server(limit), "2025-11-25") as client:
        unknown: list[Any] = []
        for number in range(3):
            name = method if method == "tools/call" else f"{method}-{number}"
            unknown.append(await client.request(name, {"name": f"unknown-{number}"}))
        known = await client.request("tools/call", {"name": "dig"})

    assert [answer["error"]["code"] == BUSY for answer in unknown] == [False, True, True]
    assert "result" in known


async def test_each_custom_method_has_its_own_bucket(autojump_clock: object) -> None:
    server = Server("s", middleware=[RateLimit(per_second=1)])
    for name in ("acme/a", "acme/b"):
        server.method(name)(lambda: None)

    async with open_scripted_client(server, "2025-11-25") as client:
        answers = [await client.request(name) for name in ("acme/a", "acme/b", "acme/a")]

    assert ["result" in answer for answer in answers] == [True, True, False]


async def test_notifications_are_not_counted() -> None:
    limit = RateLimit(per_second=1, burst=1)
    for _ in range(10):
        assert await limit(a_request(None, is_notification=True), admit) == "ping"
    assert limit.buckets == 0


def test_a_server_in_two_trio_runs_counts_separately_in_each() -> None:
    limit = RateLimit(per_second=1, methods=["tools/call"])
    server = make_server(limit)

    async def call() -> float | None:
        async with open_client(server) as client:
            return await call_refused_for(client, "dig")

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
def test_invalid_options_are_refused(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        RateLimit(**options)


async def test_the_principal_is_taken_from_the_request(autojump_clock: object) -> None:
    """The server wrapper stands for a transport that authenticates its callers."""
    limit, server = RateLimit(per_second=1, methods=["tools/call"]), Server("s")
    server.tool(name="dig")(lambda: "done")
    server.middleware(limit)

    async with open_client(Authenticating(server, ["ada", "bob", "ada"])) as client:
        assert [await call_refused_for(client, "dig") for _ in range(3)] == [None, None, 1.0]


class Authenticating:
    """A server behind a transport that authenticates the callers of tools."""

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
