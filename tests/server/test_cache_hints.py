"""Cache hints of a server: for methods, for a resource, and for a single read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.peer.fake_exchange import CONTEXT
from trio_mcp import CacheHint, Client, Context, Server, open_client, types
from trio_mcp.server._serving import finish_result
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client

Json: TypeAlias = dict[str, Any]

PARAMS: dict[str, Json] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "a:b"},
}


def of_x(x: str) -> str:
    return x


def make_server(**options: Any) -> Server:
    server = Server("s", **options)
    for number in range(3):
        server.tool(name=f"t{number}")(lambda: None)
        server.prompt(name=f"p{number}")(lambda: "")
        server.resource(f"a:{number}/{{x}}", name=f"r{number}")(of_x)
        server.resources.add_static(f"a:{number}", "", name=f"s{number}")
    server.resource("a:b", name="b")(lambda: "text")
    return server


async def hints(client: ScriptedPeer, method: str, **params: Any) -> tuple[Any, Any]:
    result: Json = (await client.request(method, PARAMS[method] | params))["result"]
    return result.get("ttlMs"), result.get("cacheScope")


@pytest.mark.requirement("B.17-S1a", "B.17-S1b")
async def test_results_must_not_be_cached_without_a_hint() -> None:
    async with open_scripted_client(make_server()) as client:
        assert [await hints(client, method) for method in PARAMS] == [(0, "private")] * 6


@pytest.mark.requirement("B.17-S1a", "B.17-S1b")
@pytest.mark.parametrize("method", PARAMS)
async def test_a_hint_for_a_method_applies_to_its_results_only(method: str) -> None:
    server = make_server(cache={method: CacheHint(ttl=60, scope="public")})
    async with open_scripted_client(server) as client:
        for each in PARAMS:
            assert await hints(client, each) == ((60_000, "public") if each == method else (0, "private"))


@pytest.mark.requirement("B.17-S2")
@pytest.mark.parametrize("method", [method for method in PARAMS if method.endswith("/list")])
async def test_all_pages_of_a_list_carry_the_same_hint(method: str) -> None:
    server = make_server(page_size=1, cache={method: CacheHint(ttl=5, scope="public")})
    pages, cursor = list[Json](), dict[str, str]()
    async with open_scripted_client(server) as client:
        while not pages or cursor:
            pages.append((await client.request(method, cursor))["result"])
            cursor = {"cursor": pages[-1]["nextCursor"]} if "nextCursor" in pages[-1] else {}
    assert len(pages) >= 3
    assert {(page["ttlMs"], page["cacheScope"]) for page in pages} == {(5000, "public")}


async def test_the_hint_of_a_resource_overrides_the_method_and_the_hint_of_a_read_overrides_both() -> None:
    public, minute = CacheHint(ttl=1, scope="public"), CacheHint(ttl=60)
    server = Server("s", cache={"resources/read": public})
    read: Callable[..., types.ReadResourceResult] = types.ReadResourceResult
    server.resource("of:method", name="a")(lambda: "")
    server.resource("of:function", name="b", cache=minute)(lambda: "")
    server.resource("of:template/{x}", cache=minute)(of_x)
    server.resources.add_static("of:contents", "", name="c", cache=minute)
    server.resource("of:read", name="d", cache=minute)(lambda: read(contents=[], ttl_ms=5, cache_scope="public"))
    server.resource("of:read/zero", name="e", cache=minute)(lambda: read(contents=[], ttl_ms=0))
    server.resource("of:read/scope", name="f", cache=minute)(lambda: read(contents=[], cache_scope="public"))
    server.resource("of:read/alone", name="g")(lambda: read(contents=[], ttl_ms=5))
    expected = {
        "of:method": (1000, "public"),
        "of:function": (60_000, "private"),
        "of:template/x": (60_000, "private"),
        "of:contents": (60_000, "private"),
        "of:read": (5, "public"),
        "of:read/zero": (0, "private"),
        "of:read/scope": (60_000, "public"),
        "of:read/alone": (5, "public"),
    }
    async with open_scripted_client(server) as client:
        assert {uri: await hints(client, "resources/read", uri=uri) for uri in expected} == expected


@pytest.mark.parametrize("revision", types.REVISIONS[:-1])
async def test_legacy_revisions_get_no_hints(revision: str) -> None:
    every: Any = dict.fromkeys(PARAMS, CacheHint(ttl=60, scope="public"))
    server = make_server(cache=every)
    server.resource("a:cached", name="cached", cache=CacheHint(ttl=60))(lambda: "")
    async with open_scripted_client(server, revision) as client:
        for method in [method for method in PARAMS if method != "server/discover"]:
            assert await hints(client, method) == (None, None)
        assert await hints(client, "resources/read", uri="a:cached") == (None, None)


async def test_results_of_other_requests_carry_no_hint() -> None:
    every: Any = dict.fromkeys(PARAMS, CacheHint(ttl=60, scope="public"))
    async with open_scripted_client(make_server(cache=every)) as client:
        result = (await client.request("tools/call", {"name": "t0"}))["result"]
        assert not {"ttlMs", "cacheScope"} & result.keys()
        result = (await client.request("prompts/get", {"name": "p0"}))["result"]
        assert not {"ttlMs", "cacheScope"} & result.keys()


@pytest.mark.parametrize(
    "interim",
    [
        types.InputRequiredResult(result_type="input_required", request_state="s"),
        {"resultType": "input_required", "requestState": "s"},
    ],
    ids=["typed", "json"],
)
def test_an_interim_result_that_asks_for_input_carries_no_hint(interim: Any) -> None:
    result = finish_result(interim, CONTEXT, {"name": "s"}, CacheHint(ttl=60, scope="public"))
    assert result == {
        "resultType": "input_required",
        "requestState": "s",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s"}},
    }


@pytest.mark.parametrize(
    ("ttl", "ttl_ms"), [(0, 0), (0.0004, 0), (0.29, 290), (1.001, 1001), (60, 60_000), (2**53 / 1000 - 1, 2**53 - 1000)]
)
def test_seconds_are_sent_as_whole_milliseconds(ttl: float, ttl_ms: int) -> None:
    assert CacheHint(ttl=ttl).ttl_ms == ttl_ms
    assert CacheHint(ttl=ttl).to_wire() == {"ttlMs": ttl_ms, "cacheScope": "private"}


@pytest.mark.parametrize("ttl", [-1, -0.0001, math.inf, math.nan, 1e300, 10**400, True, "60", None])
def test_an_invalid_ttl_is_refused(ttl: Any) -> None:
    with pytest.raises(ValueError, match=r"CacheHint\(ttl=.*\): must be a number of seconds, 0 or more"):
        CacheHint(ttl=ttl)


@pytest.mark.parametrize("scope", ["shared", "", None, "Public"])
def test_an_unknown_cache_scope_is_refused(scope: Any) -> None:
    with pytest.raises(ValueError, match=rf"CacheHint\(scope={scope!r}\): must be 'private' or 'public'"):
        CacheHint(scope=scope)


@pytest.mark.parametrize(
    ("cache", "error", "message"),
    [
        (
            {"tools/call": CacheHint()},
            ValueError,
            "cache: results of 'tools/call' cannot be cached; use server/discover, ",
        ),
        ({1: CacheHint()}, ValueError, "cache: results of 1 cannot be cached"),
        ({"tools/list": 60}, TypeError, r"cache\['tools/list'\]=60: must be a CacheHint"),
        (CacheHint(), TypeError, "cache=.*: must be a mapping of methods, such as"),
    ],
)
def test_hints_for_results_that_cannot_be_cached_are_refused(cache: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Server("s", cache=cache)


def test_a_resource_hint_of_the_wrong_type_is_refused() -> None:
    server, wrong = Server("s"), 60
    not_a_hint: Any = wrong
    with pytest.raises(TypeError, match="of_x: cache=60: must be a CacheHint"):
        server.resource("a:{x}", cache=not_a_hint)(of_x)
    with pytest.raises(TypeError, match="name: cache=60: must be a CacheHint"):
        server.resources.add_static("a:b", "", name="name", cache=not_a_hint)
    assert not server.resources.offered


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"ttl_ms": 1.5}, "ttl_ms=1.5: must be an int of at least 0"),
        ({"ttl_ms": True}, "ttl_ms=True: must be"),
        ({"cache_scope": "shared"}, "cache_scope='shared': use 'private' or 'public'"),
    ],
)
async def test_a_read_with_an_invalid_hint_fails_and_the_log_names_the_hint(
    members: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: types.ReadResourceResult(contents=[], **members))
    async with open_client(server) as client:
        with pytest.raises(Exception, match="the server's log says why"):
            await client.read_resource("a:b")
    assert message in caplog.text


async def test_a_client_receives_the_hints_of_lists_and_of_discovery() -> None:
    server = make_server(cache={"tools/list": CacheHint(ttl=1.5, scope="public"), "server/discover": CacheHint(ttl=2)})
    async with open_client(server) as client:
        page, discovered = await Client.list_tools(client), await client.discover()
    assert (page.ttl_ms, page.cache_scope) == (1500, "public")
    assert (discovered.ttl_ms, discovered.cache_scope) == (2000, "private")


@pytest.mark.requirement("B.17-C2")
@pytest.mark.parametrize("mode", ["parked", "replayed"])
async def test_a_result_that_depends_on_the_users_answers_is_private_despite_a_public_hint(mode: Any) -> None:
    server = Server("asking", asking=mode)

    @server.resource("free://", cache=CacheHint(ttl=60, scope="public"))
    async def free(ctx: Context) -> str:
        return f"{len(await ctx.list_roots())} roots"

    async with open_memory_client(server, roots=[]) as client:
        read = await client.read_resource("free://")
    assert (read.ttl_ms, read.cache_scope) == (0, "private")
