"""One cache for several clients: sharing, concurrent requests and limits."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.client.counting_server import REQUESTS, CountingServer, Json, cacheable, connected
from trio_mcp import CacheHint, Client, ResponseCache, Server, open_client, types
from trio_mcp.client import CacheOption
from trio_mcp.testing import open_scripted_server

# Sharing.


async def requests_of_the_second(first: CacheOption, second: CacheOption, scope: str, **options: Any) -> int:
    """Send every request from two connected clients in turn; return how many the second server received."""
    origins = [CountingServer(lambda method, _: cacheable(method, scope=scope)) for _ in range(2)]
    async with (
        connected(origins[0], cache=first) as (one, _),
        connected(origins[1], cache=second, **options) as (two, _),
    ):
        for client in (one, two, one, two):
            for send in REQUESTS.values():
                await send(client)
    assert len(origins[0].requests) == len(REQUESTS)
    return len(origins[1].requests)


@pytest.mark.requirement("B.17-C3")
@pytest.mark.parametrize(
    ("scope", "principals", "shares"),
    [
        ("public", ("ada", "ada"), True),
        ("public", ("ada", "bob"), True),
        ("public", (None, None), True),
        ("private", ("ada", "ada"), True),
        ("private", ("ada", "bob"), False),
        ("private", ("ada", None), False),
        ("private", (None, None), False),
    ],
)
async def test_private_results_are_shared_only_between_clients_of_one_principal(
    scope: str, principals: tuple[str | None, str | None], shares: bool
) -> None:
    cache = ResponseCache()
    first, second = (cache.for_server("s", principal=each) for each in principals)
    assert await requests_of_the_second(first, second, scope) == (0 if shares else len(REQUESTS))


async def test_clients_without_the_same_server_name_share_no_results() -> None:
    cache = ResponseCache()
    for first, second in (
        (cache.for_server("a", principal=1), cache.for_server("b", principal=1)),
        (cache, cache),
        (cache.for_server("c", principal=1), cache),
        (ResponseCache().for_server("a", principal=1), cache.for_server("a", principal=1)),
    ):
        cache.clear()
        assert await requests_of_the_second(first, second, "public") == len(REQUESTS)


async def test_clients_with_different_envelopes_share_no_results() -> None:
    cache = ResponseCache().for_server("s")
    info = types.Implementation(name="other", version="1")
    assert await requests_of_the_second(cache, cache, "public", info=info) == len(REQUESTS)

    cache = ResponseCache().for_server("s")
    assert await requests_of_the_second(cache, cache, "public", roots=[]) == len(REQUESTS)


async def test_servers_of_different_versions_share_no_results() -> None:
    cache, versions = ResponseCache().for_server("s"), list[str]()
    for version in ("1", "1", "2"):
        server = Server("s", version=version, cache={"tools/list": CacheHint(ttl=60, scope="public")})
        server.tool(name=f"t{version}")(lambda: None)

        def tap(direction: str, message: bytes, version: str = version) -> None:
            if direction == "sent" and b"tools/list" in message:
                versions.append(version)

        async with open_client(server, cache=cache, tap=tap) as client:
            assert [tool.name async for tool in client.tools()] == [f"t{version}"]
    assert versions == ["1", "2"]


async def test_a_change_reported_to_one_client_applies_to_all_clients_of_that_server() -> None:
    cache = ResponseCache()
    names = [("s", "ada"), ("s", "bob"), ("other", "ada")]
    origins = [CountingServer() for _ in names]
    async with AsyncExitStack() as stack:
        connections = [
            connected(origin, cache=cache.for_server(server, principal=principal))
            for origin, (server, principal) in zip(origins, names, strict=True)
        ]
        pairs = [await stack.enter_async_context(connection) for connection in connections]
        for _ in range(2):
            for client, _peer in pairs:
                await client.list_tools()
        await pairs[0][1].notify("notifications/tools/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        for client, _peer in pairs:
            await client.list_tools()
    assert [len(origin.requests) for origin in origins] == [2, 2, 1]


async def test_a_private_result_is_preferred_to_a_public_one_until_it_is_requested_again() -> None:
    scopes = {"ada": "private", "bob": "public"}
    cache = ResponseCache()
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}

        def of(name: str) -> CountingServer:
            return CountingServer(lambda method, _: cacheable(method, scope=scopes[name], _meta={"of": name}))

        for name, origin in [(name, of(name)) for name in scopes]:
            connection = connected(origin, cache=cache.for_server("s", principal=name))
            clients[name], _peer = await stack.enter_async_context(connection)

        async def seen(name: str, *, fresh: bool = False) -> Any:
            meta: Any = (await clients[name].list_tools(fresh=fresh)).meta
            return meta["of"]

        assert [await seen("ada"), await seen("bob"), await seen("ada"), await seen("bob")] == [
            "ada",
            "bob",
            "ada",
            "bob",
        ]
        scopes["ada"] = "public"
        assert [await seen("ada", fresh=True), await seen("bob")] == ["ada", "ada"]
    assert cache.statistics().entries == 1


async def test_a_result_that_becomes_private_is_no_longer_shared() -> None:
    scopes = ["public", "private"]
    origin, other = CountingServer(lambda method, _: cacheable(method, scope=scopes.pop(0))), CountingServer()
    cache = ResponseCache()
    async with (
        connected(origin, cache=cache.for_server("s", principal="ada")) as (ada, _),
        connected(other, cache=cache.for_server("s", principal="bob")) as (bob, _),
    ):
        await ada.list_tools()
        await bob.list_tools()
        assert other.requests == []
        await ada.list_tools(fresh=True)
        await bob.list_tools()
    assert len(other.requests) == 1


async def test_a_principal_may_change_while_a_client_is_connected() -> None:
    origin = CountingServer()
    async with connected(origin, cache=ResponseCache().for_server("s", principal="ada")) as (client, _):
        for principal in ("ada", "bob", "ada", "bob"):
            client._connection.cache.principal = principal  # pyright: ignore[reportPrivateUsage] # as authentication does
            await client.list_tools()
    assert len(origin.requests) == 2


# Concurrent requests.


async def test_concurrent_requests_are_all_sent_and_the_latest_request_wins() -> None:
    cache = ResponseCache()
    metas = dict[int, Any]()
    async with open_scripted_server(cache=cache) as (client, peer), trio.open_nursery() as nursery:

        async def ask(number: int) -> None:
            metas[number] = (await client.list_tools()).meta

        requests: list[Json] = []
        for number in range(3):
            nursery.start_soon(ask, number)
            requests.append(await peer.expect_request("tools/list"))
        for number in (1, 0, 2):
            await peer.respond(requests[number], cacheable("tools/list", _meta={"number": number}))
            await trio.testing.wait_all_tasks_blocked()
            await ask(3)
            assert metas[3] == {"number": {1: 1, 0: 1, 2: 2}[number]}
    assert [metas[number] for number in range(3)] == [{"number": number} for number in range(3)]


async def test_a_result_of_one_principal_does_not_invalidate_an_earlier_request_of_another() -> None:
    cache = ResponseCache()
    ada, bob = (cache.for_server("s", principal=each) for each in ("ada", "bob"))
    async with (
        open_scripted_server(cache=ada) as (first, first_peer),
        open_scripted_server(cache=bob) as (second, second_peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.list_tools)
        request = await first_peer.expect_request()
        nursery.start_soon(second.list_tools)
        await second_peer.answer(cacheable("tools/list"))
        await trio.testing.wait_all_tasks_blocked()
        await first_peer.respond(request, cacheable("tools/list"))
        await trio.testing.wait_all_tasks_blocked()
        assert cache.statistics().entries == 2


# Limits.


async def test_the_least_recently_used_result_makes_room() -> None:
    origin, cache = CountingServer(), ResponseCache(max_entries=3)
    async with connected(origin, cache=cache) as (client, _):
        for cursor in ("a", "b", "c"):
            await client.list_tools(cursor)
        await client.list_tools("a")
        await client.list_tools("d")
        assert cache.statistics().entries == 3
        for cursor in ("a", "c", "d", "b"):
            await client.list_tools(cursor)
    assert [params["cursor"] for _, params in origin.requests] == ["a", "b", "c", "d", "b"]


async def test_cached_results_stay_within_max_bytes_and_a_larger_result_is_not_cached() -> None:
    def reply(method: str, params: Json) -> Json:
        return cacheable(method, contents=[{"uri": params["uri"], "text": "x" * int(params["uri"][2:])}])

    origin, cache = CountingServer(reply), ResponseCache(max_bytes=10_000)
    async with connected(origin, cache=cache) as (client, _):
        sizes = [3000, 3001, 4000, 20_000, 100]
        for size in sizes:
            await client.read_resource(f"a:{size}")
            assert cache.statistics().bytes <= 10_000
        assert cache.statistics().entries == 3
        for size in (3001, 4000, 100, 20_000):
            await client.read_resource(f"a:{size}")
    requested = [int(params["uri"][2:]) for _, params in origin.requests]
    assert requested == [*sizes, 20_000]


async def test_the_cache_keeps_at_most_max_entries_and_drops_them_when_the_client_closes() -> None:
    origin, cache = CountingServer(), ResponseCache(max_entries=50)
    async with connected(origin, cache=cache) as (client, _):
        for number in range(1000):
            await client.list_tools(str(number))
        assert cache.statistics().entries == 50
    now = cache.statistics()
    assert (now.entries, now.bytes, now.misses) == (0, 0, 1000)


async def test_an_outdated_entry_is_dropped_when_it_is_looked_up(autojump_clock: trio.testing.MockClock) -> None:
    times = [1000, 0]
    cache = ResponseCache()
    async with connected(CountingServer(lambda method, _: cacheable(method, times.pop(0))), cache=cache) as (client, _):
        await client.list_tools()
        await trio.sleep(1)
        assert cache.statistics().entries == 1
        await client.list_tools()
        assert cache.statistics().entries == 0


async def test_a_cleared_cache_does_not_keep_results_in_flight() -> None:
    cache = ResponseCache()
    async with open_scripted_server(cache=cache) as (client, peer), trio.open_nursery() as nursery:
        for clear, kept in ((False, 1), (True, 0)):
            nursery.start_soon(partial(client.list_tools, fresh=True))
            request = await peer.expect_request()
            if clear:
                cache.clear()
            await peer.respond(request, cacheable("tools/list"))
            await trio.testing.wait_all_tasks_blocked()
            assert cache.statistics().entries == kept


def test_results_of_an_earlier_trio_run_are_not_used() -> None:
    cache, origin = ResponseCache(), CountingServer(lambda method, _: cacheable(method, scope="public"))

    async def ask() -> None:
        async with connected(origin, cache=cache.for_server("s")) as (client, _):
            for _ in range(2):
                await client.list_tools()

    for _ in range(2):
        trio.run(ask, clock=trio.testing.MockClock())  # both begin at the same time
    assert len(origin.requests) == 2


# Arguments.


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "1", None])
@pytest.mark.parametrize("name", ["max_entries", "max_bytes"])
def test_limits_of_a_cache_are_integers_of_at_least_1(name: str, bound: Any) -> None:
    with pytest.raises(ValueError, match=rf"ResponseCache\({name}={bound!r}\): must be a whole number, and at least 1"):
        ResponseCache(**{name: bound})


def test_a_server_name_is_a_string_and_a_principal_is_hashable() -> None:
    unnamed: Any = None
    unhashable: Any = []
    with pytest.raises(TypeError, match="server=None: expected a string"):
        ResponseCache().for_server(unnamed)
    with pytest.raises(TypeError, match="unhashable"):
        ResponseCache().for_server("s", principal=unhashable)
    assert ResponseCache().for_server("s", principal=("issuer", "ada")).principal == ("issuer", "ada")
