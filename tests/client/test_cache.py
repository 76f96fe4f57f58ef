"""The cache of a client: for how long a result is used again, for which requests, and what a caller can choose."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client.cacheable_server import ASK, Ask, Json, Origin, connected, hinted
from trio_mcp import CacheHint, Client, ErrorResponse, LocalProtocolError, ResponseCache, Server, open_client, types
from trio_mcp.client import CacheStatistics
from trio_mcp.testing import open_scripted_server


def statistics(cache: ResponseCache) -> tuple[int, int, int]:
    now = cache.statistics()
    return now.entries, now.hits, now.misses


# For how long.


@pytest.mark.requirement("B.17-C4a")
@pytest.mark.parametrize(("method", "ask"), ASK.items(), ids=ASK)
async def test_a_result_is_requested_again_after_its_time_to_live_and_not_before(
    autojump_clock: trio.testing.MockClock, method: str, ask: Ask
) -> None:
    origin, cache = Origin(), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        first = await ask(client)
        await trio.sleep(9.999)
        assert types.unstructure(await ask(client)) == types.unstructure(first)
        assert origin.count(method) == 1

        await trio.sleep(0.001)
        await ask(client)
        assert origin.count(method) == 2
        await ask(client)
        assert origin.count(method) == 2
    assert (cache.statistics().hits, cache.statistics().misses) == (2, 2)


@pytest.mark.requirement("B.17-C4b")
async def test_an_expired_result_alone_causes_no_request(autojump_clock: trio.testing.MockClock) -> None:
    origin = Origin()
    async with connected(origin) as (client, _):
        for ask in ASK.values():
            await ask(client)
        await trio.sleep(24 * 3600)
    assert sorted(method for method, _ in origin.asked) == sorted(ASK)


async def test_the_time_counts_from_the_request_because_the_server_may_have_made_the_result_as_early_as_that(
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
        await peer.respond(request, hinted("tools/list"))
    assert statistics(cache) == (0, 0, 1)


@pytest.mark.parametrize("hints", [{"ttlMs": 0}, {"ttlMs": -1}, {"cacheScope": "public"}])
async def test_a_result_without_time_to_live_leaves_no_entry(hints: Json) -> None:
    cache = ResponseCache()
    bare = {name: value for name, value in hinted("tools/list").items() if name not in {"ttlMs", "cacheScope"}}
    origin = Origin(lambda method, _: bare | hints)
    async with connected(origin, cache=cache) as (client, _):
        for _ in range(3):
            await client.list_tools()
    assert cache.statistics() == CacheStatistics(entries=0, bytes=0, hits=0, misses=3)
    assert origin.count("tools/list") == 3


async def test_a_result_that_may_not_be_kept_takes_the_place_of_one_that_was(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache, times = ResponseCache(), [10_000, 0]
    async with connected(Origin(lambda method, _: hinted(method, times.pop(0))), cache=cache) as (client, _):
        await client.list_tools()
        assert cache.statistics().entries == 1
        await client.list_tools(fresh=True)
        assert cache.statistics() == CacheStatistics(entries=0, bytes=0, hits=0, misses=1)


async def test_a_very_long_time_to_live_is_accepted() -> None:
    origin = Origin(lambda method, _: hinted(method, 10**400))
    async with connected(origin) as (client, _):
        await client.list_tools()
        assert (await client.list_tools()).ttl_ms == 10**400
    assert origin.count("tools/list") == 1


# For which requests.


@pytest.mark.requirement("B.17-C1")
async def test_a_result_is_used_for_the_same_method_and_params_and_no_other() -> None:
    def reply(method: str, params: Json) -> Json:
        if method == "resources/read":
            return hinted(method, contents=[{"uri": params["uri"], "text": params["uri"]}])
        return hinted(method, nextCursor=f"after {params.get('cursor')}")

    origin = Origin(reply)
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
    assert len(origin.asked) == 8


@pytest.mark.requirement("B.17-C1")
async def test_custom_meta_members_are_part_of_the_cache_key_and_tracing_is_not() -> None:
    origin = Origin()
    metas: list[Json] = [{"tenant": 1}, {"tenant": "1"}, {"tenant": 2, "traceparent": "00-1"}]
    async with connected(origin) as (client, _):
        for meta in metas:
            await client.read_resource("a:b", meta=meta)
        assert len(origin.asked) == 3
        for meta in metas:
            await client.read_resource("a:b", meta=meta | {"traceparent": "00-2", "progressToken": 7})
        assert len(origin.asked) == 3
        await client.read_resource("a:b")
        await client.read_resource("a:b", meta={})
        await client.read_resource("a:b", meta={"traceparent": "00-3"})
        assert len(origin.asked) == 4


@pytest.mark.parametrize("fresh", [False, True])
async def test_params_that_are_not_json_are_refused_with_a_cache_too(fresh: bool) -> None:
    nothing: Any = object()
    async with connected(Origin()) as (client, _):
        with pytest.raises(LocalProtocolError):
            await client.read_resource("a:b", meta={"x": nothing}, fresh=fresh)


@pytest.mark.requirement("B.17-C2")
async def test_a_result_that_came_after_rounds_is_not_kept(autojump_clock: trio.testing.MockClock) -> None:
    def reply(method: str, params: Json) -> Json:
        if "requestState" in params:
            return hinted(method, contents=[{"uri": "a:b", "text": "yours"}])
        return {"resultType": "input_required", "requestState": "s"}

    origin, cache = Origin(reply), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        for _ in range(2):
            (contents,) = (await client.read_resource("a:b")).contents
            assert isinstance(contents, types.TextResourceContents)
            assert contents.text == "yours"
    assert [params.get("requestState") for _, params in origin.asked] == [None, "s", None, "s"]
    assert statistics(cache) == (0, 0, 2)


async def test_other_requests_are_sent_each_time() -> None:
    origin = Origin(lambda method, _: {"resultType": "complete", "ttlMs": 10_000, "cacheScope": "public", "tools": []})
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


# What a caller gets.


async def test_callers_do_not_share_cached_objects() -> None:
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    async with connected(Origin(lambda method, _: hinted(method, tools=[tool]))) as (client, _):
        for _ in range(3):
            (listed,) = (await client.list_tools()).tools
            schema: Any = listed.input_schema
            assert schema["properties"] == {"a": {"type": "integer"}}
            schema["properties"].clear()


async def test_unknown_members_are_kept_in_cached_results() -> None:
    async with connected(Origin(lambda method, _: hinted(method, colour="red", _meta={"x": 1}))) as (client, _):
        for _ in range(2):
            page = await client.list_tools()
            assert page.extra == {"colour": "red"}
            assert page.meta == {"x": 1}


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
async def test_fresh_requests_skip_the_cache_and_their_results_are_kept(ask: Ask) -> None:
    count = iter(range(100))
    origin, cache = Origin(lambda method, _: hinted(method, _meta={"number": next(count)})), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        numbers = [(await ask(client, fresh=fresh)).meta["number"] for fresh in (True, False, True, True, False, False)]
    assert numbers == [0, 0, 1, 2, 2, 2]
    assert statistics(cache)[1:] == (3, 0)


WALKS: dict[str, Any] = {
    "tools/list": Client.tools,
    "prompts/list": Client.prompts,
    "resources/list": Client.resources,
    "resources/templates/list": Client.resource_templates,
}


@pytest.mark.parametrize(("method", "walk"), WALKS.items(), ids=WALKS)
async def test_iteration_uses_fresh_pages_unless_all_are_requested(method: str, walk: Any) -> None:
    next_of = {None: "a", "a": "b", "b": None}

    def reply(method: str, params: Json) -> Json:
        cursor = next_of[params.get("cursor")]
        return hinted(method) | ({} if cursor is None else {"nextCursor": cursor})

    origin = Origin(reply)
    async with connected(origin) as (client, _):
        for fresh, asked in ((False, 3), (False, 3), (True, 6), (False, 6)):
            assert [each async for each in walk(client, fresh=fresh)] == []
            assert origin.count(method) == asked


async def test_a_result_from_the_cache_lets_others_run_and_can_be_cancelled() -> None:
    origin, ran = Origin(), list[str]()
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
    assert len(origin.asked) == 1


async def test_an_error_is_not_kept_and_leaves_what_is_fresh_unless_it_says_that_there_is_no_such_thing() -> None:
    replies: list[Any] = [hinted("resources/read"), -32603, -32602, hinted("resources/read")]
    origin = Origin(lambda _, __: replies.pop(0))
    async with connected(origin) as (client, _):
        await client.read_resource("a:b")
        with pytest.raises(ErrorResponse):
            await client.read_resource("a:b", fresh=True)
        await client.read_resource("a:b")
        assert len(origin.asked) == 2
        with pytest.raises(ErrorResponse):
            await client.read_resource("a:b", fresh=True)
        await client.read_resource("a:b")
        assert len(origin.asked) == 4


async def test_output_schemas_are_known_from_a_cached_list() -> None:
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
async def test_each_client_has_a_cache_of_its_own_by_default(option: bool | None) -> None:
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
    origin = Origin()
    async with connected(origin, cache=False) as (client, peer):
        for _ in range(2):
            await client.list_tools()
        await peer.notify("notifications/tools/list_changed")
        await client.list_tools()
    assert len(origin.asked) == 3


@pytest.mark.parametrize("option", [0, "yes", {}, ResponseCache])
async def test_an_option_that_is_no_cache_is_refused(option: Any) -> None:
    with pytest.raises(TypeError, match=r"cache=.*: expected a ResponseCache, what its for_server\(\) returns, or"):
        async with open_client(Server("s"), cache=option):
            raise AssertionError
