"""The cache of a client: lifetimes of results, keys, and the options of callers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client.counting_server import REQUESTS, CountingServer, Json, RequestFunction, cacheable, connected
from trio_mcp import CacheHint, Client, ErrorResponse, LocalProtocolError, ResponseCache, Server, open_client, types
from trio_mcp.client import CacheStatistics
from trio_mcp.testing import open_scripted_server


def statistics(cache: ResponseCache) -> tuple[int, int, int]:
    now = cache.statistics()
    return now.entries, now.hits, now.misses


# Lifetime.


@pytest.mark.requirement("B.17-C4a")
@pytest.mark.parametrize(("method", "send"), REQUESTS.items(), ids=REQUESTS)
async def test_a_result_is_requested_again_after_its_time_to_live_and_not_before(
    autojump_clock: trio.testing.MockClock, method: str, send: RequestFunction
) -> None:
    origin, cache = CountingServer(), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        first = await send(client)
        await trio.sleep(9.999)
        assert types.unstructure(await send(client)) == types.unstructure(first)
        assert origin.count(method) == 1

        await trio.sleep(0.001)
        await send(client)
        assert origin.count(method) == 2
        await send(client)
        assert origin.count(method) == 2
    assert (cache.statistics().hits, cache.statistics().misses) == (2, 2)


@pytest.mark.requirement("B.17-C4b")
async def test_an_expired_result_alone_causes_no_request(autojump_clock: trio.testing.MockClock) -> None:
    origin = CountingServer()
    async with connected(origin) as (client, _):
        for send in REQUESTS.values():
            await send(client)
        await trio.sleep(24 * 3600)
    assert sorted(method for method, _ in origin.requests) == sorted(REQUESTS)


async def test_the_time_to_live_counts_from_the_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, reads = Server("s", cache={"resources/read": CacheHint(ttl=10)}), list[float]()

    @server.resource("a:b")
    async def slow() -> str:
        reads.append(trio.current_time())
        await trio.sleep(3)
        return "text"

    async with open_client(server) as client:
        await client.read_resource("a:b")
        await trio.sleep(6.5)
        await client.read_resource("a:b")
        assert len(reads) == 1
        await trio.sleep(0.5)
        await client.read_resource("a:b")
        assert len(reads) == 2


async def test_a_result_that_arrives_after_its_time_to_live_is_not_kept(autojump_clock: trio.testing.MockClock) -> None:
    cache = ResponseCache()
    async with open_scripted_server(cache=cache) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(client.list_tools)
        request = await peer.expect_request("tools/list")
        await trio.sleep(10)
        await peer.respond(request, cacheable("tools/list"))
    assert statistics(cache) == (0, 0, 1)


@pytest.mark.parametrize("hints", [{"ttlMs": 0}, {"ttlMs": -1}, {"cacheScope": "public"}])
async def test_a_result_without_time_to_live_leaves_no_entry(hints: Json) -> None:
    cache = ResponseCache()
    bare = {name: value for name, value in cacheable("tools/list").items() if name not in {"ttlMs", "cacheScope"}}
    origin = CountingServer(lambda method, _: bare | hints)
    async with connected(origin, cache=cache) as (client, _):
        for _ in range(3):
            await client.list_tools()
    assert cache.statistics() == CacheStatistics(entries=0, bytes=0, hits=0, misses=3)
    assert origin.count("tools/list") == 3


async def test_an_uncacheable_result_removes_the_entry_of_an_earlier_result(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache, times = ResponseCache(), [10_000, 0]
    async with connected(CountingServer(lambda method, _: cacheable(method, times.pop(0))), cache=cache) as (client, _):
        await client.list_tools()
        assert cache.statistics().entries == 1
        await client.list_tools(fresh=True)
        assert cache.statistics() == CacheStatistics(entries=0, bytes=0, hits=0, misses=1)


async def test_a_very_long_time_to_live_is_accepted() -> None:
    origin = CountingServer(lambda method, _: cacheable(method, 10**400))
    async with connected(origin) as (client, _):
        await client.list_tools()
        assert (await client.list_tools()).ttl_ms == 10**400
    assert origin.count("tools/list") == 1


# Keys.


@pytest.mark.requirement("B.17-C1")
async def test_a_cached_result_is_used_only_for_the_same_method_and_params() -> None:
    def reply(method: str, params: Json) -> Json:
        if method == "resources/read":
            return cacheable(method, contents=[{"uri": params["uri"], "text": params["uri"]}])
        return cacheable(method, nextCursor=f"after {params.get('cursor')}")

    origin = CountingServer(reply)
    async with connected(origin) as (client, _):
        for _ in range(2):
            assert (await client.list_tools()).next_cursor == "after None"
            assert (await client.list_tools("")).next_cursor == "after "
            assert (await client.list_tools("a")).next_cursor == "after a"
            assert (await client.list_resources("a")).resources == []
            assert (await client.list_resource_templates("a")).resource_templates == []
            for uri in ("a:b", "a:B", "a:b?"):
                (contents,) = (await client.read_resource(uri)).contents
                assert contents.uri == uri
    assert len(origin.requests) == 8


@pytest.mark.requirement("B.17-C1")
async def test_custom_meta_members_are_part_of_the_cache_key_and_tracing_is_not() -> None:
    origin = CountingServer()
    metas: list[Json] = [{"tenant": 1}, {"tenant": "1"}, {"tenant": 2, "traceparent": "00-1"}]
    async with connected(origin) as (client, _):
        for meta in metas:
            await client.read_resource("a:b", meta=meta)
        assert len(origin.requests) == 3
        for meta in metas:
            await client.read_resource("a:b", meta=meta | {"traceparent": "00-2", "progressToken": 7})
        assert len(origin.requests) == 3
        await client.read_resource("a:b")
        await client.read_resource("a:b", meta={})
        await client.read_resource("a:b", meta={"traceparent": "00-3"})
        assert len(origin.requests) == 4


@pytest.mark.parametrize("fresh", [False, True])
async def test_params_that_are_not_json_are_refused_with_a_cache(fresh: bool) -> None:
    nothing: Any = object()
    async with connected(CountingServer()) as (client, _):
        with pytest.raises(LocalProtocolError):
            await client.read_resource("a:b", meta={"x": nothing}, fresh=fresh)


@pytest.mark.requirement("B.17-C2")
async def test_a_result_after_rounds_of_questions_is_not_cached(autojump_clock: trio.testing.MockClock) -> None:
    def reply(method: str, params: Json) -> Json:
        if "requestState" in params:
            return cacheable(method, contents=[{"uri": "a:b", "text": "yours"}])
        return {"resultType": "input_required", "requestState": "s"}

    origin, cache = CountingServer(reply), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        for _ in range(2):
            (contents,) = (await client.read_resource("a:b")).contents
            assert isinstance(contents, types.TextResourceContents)
            assert contents.text == "yours"
    assert [params.get("requestState") for _, params in origin.requests] == [None, "s", None, "s"]
    assert statistics(cache) == (0, 0, 2)


async def test_client_request_does_not_use_the_cache() -> None:
    origin = CountingServer(
        lambda method, _: {"resultType": "complete", "ttlMs": 10_000, "cacheScope": "public", "tools": []}
    )
    async with connected(origin) as (client, _):
        for _ in range(2):
            await client.request("tools/list", None, types.ListToolsResult)
    assert origin.count("tools/list") == 2


@pytest.mark.parametrize("revision", types.REVISIONS[:-1])
async def test_results_of_a_legacy_server_are_not_cached(revision: str) -> None:
    cache, hints = ResponseCache(), {"ttlMs": 10_000, "cacheScope": "public"}
    async with open_scripted_server(revision=revision, cache=cache) as (client, peer), trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(client.list_tools)
            await peer.answer({"tools": [], **hints}, method="tools/list")
    assert cache.statistics() == CacheStatistics(entries=0, bytes=0, hits=0, misses=0)


# Results.


async def test_callers_do_not_share_cached_objects() -> None:
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    async with connected(CountingServer(lambda method, _: cacheable(method, tools=[tool]))) as (client, _):
        for _ in range(3):
            (listed,) = (await client.list_tools()).tools
            schema: Any = listed.input_schema
            assert schema["properties"] == {"a": {"type": "integer"}}
            schema["properties"].clear()


async def test_unknown_members_are_kept_in_cached_results() -> None:
    async with connected(CountingServer(lambda method, _: cacheable(method, colour="red", _meta={"x": 1}))) as (
        client,
        _,
    ):
        for _ in range(2):
            page = await client.list_tools()
            assert page.extra == {"colour": "red"}
            assert page.meta == {"x": 1}


@pytest.mark.parametrize("send", REQUESTS.values(), ids=REQUESTS)
async def test_fresh_requests_skip_the_cache_and_their_results_are_kept(send: RequestFunction) -> None:
    count = iter(range(100))
    origin, cache = CountingServer(lambda method, _: cacheable(method, _meta={"number": next(count)})), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        numbers = [
            (await send(client, fresh=fresh)).meta["number"] for fresh in (True, False, True, True, False, False)
        ]
    assert numbers == [0, 0, 1, 2, 2, 2]
    assert statistics(cache)[1:] == (3, 0)


ITERATORS: dict[str, Any] = {
    "tools/list": Client.tools,
    "prompts/list": Client.prompts,
    "resources/list": Client.resources,
    "resources/templates/list": Client.resource_templates,
}


@pytest.mark.parametrize(("method", "iterate"), ITERATORS.items(), ids=ITERATORS)
async def test_iteration_uses_fresh_pages_unless_all_are_requested(method: str, iterate: Any) -> None:
    next_of = {None: "a", "a": "b", "b": None}

    def reply(method: str, params: Json) -> Json:
        cursor = next_of[params.get("cursor")]
        return cacheable(method) | ({} if cursor is None else {"nextCursor": cursor})

    origin = CountingServer(reply)
    async with connected(origin) as (client, _):
        for fresh, count in ((False, 3), (False, 3), (True, 6), (False, 6)):
            assert [each async for each in iterate(client, fresh=fresh)] == []
            assert origin.count(method) == count


async def test_a_cached_result_is_a_checkpoint() -> None:
    origin, ran = CountingServer(), list[str]()
    async with connected(origin) as (client, _):
        await client.list_tools()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)
            with trio.testing.assert_checkpoints():
                await client.list_tools()
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.list_tools()
            ran.append("not cancelled")
    assert scope.cancelled_caught
    assert not ran
    assert len(origin.requests) == 1


async def test_an_error_is_not_cached_and_only_invalid_params_removes_the_entry() -> None:
    replies: list[Any] = [cacheable("resources/read"), -32603, -32602, cacheable("resources/read")]
    origin = CountingServer(lambda _, __: replies.pop(0))
    async with connected(origin) as (client, _):
        await client.read_resource("a:b")
        with pytest.raises(ErrorResponse):
            await client.read_resource("a:b", fresh=True)
        await client.read_resource("a:b")
        assert len(origin.requests) == 2
        with pytest.raises(ErrorResponse):
            await client.read_resource("a:b", fresh=True)
        await client.read_resource("a:b")
        assert len(origin.requests) == 4


async def test_output_schemas_are_learned_from_a_cached_list() -> None:
    server = Server("s", cache={"tools/list": CacheHint(ttl=60, scope="public")})
    shared = ResponseCache().for_server("s")
    server.tool(name="t", output_schema={"type": "object", "required": ["a"]})(lambda: {"a": 1})

    async with open_client(server, cache=shared) as first:
        await first.list_tools()
    server.tools.remove("t")
    server.tool(name="t")(lambda: "text")
    async with open_client(server, cache=shared) as second:
        await second.list_tools()
        with pytest.raises(Exception, match="returned no structured content, which its output schema requires"):
            await second.call_tool("t")


# The option.


@pytest.mark.parametrize("option", [None, True])
async def test_each_client_has_a_separate_cache_by_default(option: bool | None) -> None:
    server, reads = Server("s"), list[str]()

    @server.resource("a:b", cache=CacheHint(ttl=60, scope="public"))
    async def read() -> str:
        reads.append("read")
        return "text"

    async with open_client(server, cache=option) as first, open_client(server, cache=option) as second:
        for client in (first, second, first, second):
            await client.read_resource("a:b")
    assert len(reads) == 2


async def test_caching_can_be_disabled() -> None:
    origin = CountingServer()
    async with connected(origin, cache=False) as (client, peer):
        for _ in range(2):
            await client.list_tools()
        await peer.notify("notifications/tools/list_changed")
        await client.list_tools()
    assert len(origin.requests) == 3


@pytest.mark.parametrize("option", [0, "yes", {}, ResponseCache])
async def test_an_invalid_cache_option_is_refused(option: Any) -> None:
    with pytest.raises(TypeError, match=r"cache=.*: expected a ResponseCache, what its for_server\(\) returns, or"):
        async with open_client(Server("s"), cache=option):
            raise AssertionError
