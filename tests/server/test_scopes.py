"""Scopes: those that a request needs for the tools, resources, prompts and methods that it names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import CacheHint, Context, Server, open_client, types
from trio_mcp.testing import open_memory_client

server = Server("archive", cache={"resources/read": CacheHint(ttl=60, scope="public")})


@server.tool(scopes=["write", "admin"])
async def burn(paper: str) -> str:
    return f"burnt {paper}"


@server.tool
async def count() -> int:
    return 7


@server.prompt(scopes=("read",))
async def summary(style: str) -> str:
    return style


@server.prompt
async def hello() -> str:
    return "hello"


@server.resource("paper://index")
async def index() -> str:
    return "all of them"


@server.resource("paper://ledger", scopes=["money"])
async def ledger() -> str:
    return "7"


@server.resource("paper://by-number/{number}", scopes=["number"])
async def by_number(number: int) -> str:
    return f"the paper {number}"


@server.resource("paper://by-number/{name}", scopes=["name"])
async def by_name(name: str) -> str:
    return f"the paper {name}"


@server.resource("paper://open/{name}")
async def open_to_all(name: str) -> str:
    return name


server.resources.add_static("paper://seal", "a seal", name="seal", scopes=["seal"])


@server.method("acme/burn", scopes=["fire"])
async def burn_all(params: dict[str, Any]) -> None:
    params.clear()


@server.method("acme/look")
async def look(params: dict[str, Any]) -> None:
    params.clear()


def listening(*uris: Any) -> dict[str, Any]:
    return {"notifications": {"resourceSubscriptions": list(uris)}}


CASES: list[tuple[str, Any, set[str]]] = [
    ("tools/call", {"name": "burn", "arguments": {}}, {"write", "admin"}),
    ("tools/call", {"name": "count"}, set()),
    ("tools/call", {"name": "nothing"}, set()),
    ("tools/call", {"name": ["burn"]}, set()),
    ("tools/call", {}, set()),
    ("tools/list", {"name": "burn"}, set()),
    ("prompts/get", {"name": "summary"}, {"read"}),
    ("prompts/get", {"name": "hello"}, set()),
    ("prompts/get", {"name": "nothing"}, set()),
    ("prompts/get", {"name": {}}, set()),
    ("resources/read", {"uri": "paper://index"}, set()),
    ("resources/read", {"uri": "paper://ledger"}, {"money"}),
    ("resources/read", {"uri": "paper://seal"}, {"seal"}),
    ("resources/read", {"uri": "paper://by-number/7"}, {"number"}),
    ("resources/read", {"uri": "paper://by-number/seven"}, {"name"}),
    ("resources/read", {"uri": "paper://open/seven"}, set()),
    ("resources/read", {"uri": "paper://nothing"}, set()),
    ("resources/read", {"uri": None}, set()),
    ("resources/subscribe", {"uri": "paper://ledger"}, {"money"}),
    ("resources/unsubscribe", {"uri": "paper://ledger"}, set()),
    ("subscriptions/listen", listening("paper://ledger", "paper://by-number/7", 7), {"money", "number"}),
    ("subscriptions/listen", listening(), set()),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": "paper://ledger"}}, set()),
    ("subscriptions/listen", {"notifications": []}, set()),
    ("subscriptions/listen", {}, set()),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "summary"}}, {"read"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "hello"}}, set()),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "paper://by-number/{name}"}}, {"name"}),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "paper://nothing/{name}"}}, set()),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": 7}}, set()),
    ("completion/complete", {"ref": "summary"}, set()),
    ("acme/burn", {"name": "burn", "uri": "paper://ledger"}, {"fire"}),
    ("acme/look", {"name": "burn", "uri": "paper://ledger"}, set()),
    ("acme/unknown", {"name": "burn", "uri": "paper://ledger"}, set()),
]


@pytest.mark.parametrize(("method", "params", "needed"), CASES)
def test_a_request_needs_the_scopes_of_the_features_that_it_names(method: str, params: Any, needed: set[str]) -> None:
    assert server.needed_scopes(method, params, None) == needed


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["burn", "summary", "paper://ledger", "paper://{x}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
members = st.dictionaries(
    st.sampled_from(["name", "uri", "ref", "notifications", "resourceSubscriptions"]), json_values
)
methods = st.sampled_from(
    ["tools/call", "prompts/get", "resources/read", "subscriptions/listen", "completion/complete"]
)


@given(methods, members)
def test_the_needed_scopes_can_be_determined_for_any_params(method: str, params: dict[str, Any]) -> None:
    assert server.needed_scopes(method, params, None) <= {"write", "admin", "read", "money", "seal", "number", "name"}


def test_only_as_many_subscriptions_as_allowed_are_checked_for_scopes() -> None:
    most = server.limits.max_subscriptions

    others = [f"paper://{number}" for number in range(most)]

    assert server.needed_scopes("subscriptions/listen", listening(*others, "paper://ledger"), None) == set()


def test_repeated_uris_of_a_subscription_do_not_hide_a_uri_that_needs_scopes() -> None:
    most = server.limits.max_subscriptions
    wanted = listening(*["paper://index"] * most, "paper://ledger")

    assert server.needed_scopes("subscriptions/listen", wanted, None) == {"money"}


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        ("write", "scopes='write': must be a list of strings, such as ['write']"),
        (["read write"], "'read write' is not a scope"),
        ([""], "'' is not a scope"),
        (['a"b'], "is not a scope"),
        (["a\\b"], "is not a scope"),
        (["schön"], "'schön' is not a scope"),
        (["a\r\nx-evil: 1"], "is not a scope"),
        ([7], "7 is not a scope"),
    ],
)
def test_invalid_scopes_are_refused_at_registration(scopes: Any, message: str) -> None:
    new = Server("s")

    async def made(x: str) -> str:
        return x

    registered = (
        new.tool(scopes=scopes),
        new.prompt(scopes=scopes),
        new.resource("a://{x}", scopes=scopes),
        new.method("acme/made", scopes=scopes),
    )
    for register in registered:
        with pytest.raises(ValueError, match="made") as refused:
            register(made)
        assert message in str(refused.value)
    capabilities = new.capabilities
    assert (capabilities.tools, capabilities.prompts, capabilities.resources) == (None, None, None)
    assert new._internals.custom.methods == {}


async def test_results_that_need_scopes_are_private() -> None:
    async with open_client(server) as client:
        scopes = {
            uri: (await client.read_resource(uri)).cache_scope
            for uri in ("paper://index", "paper://ledger", "paper://seal", "paper://by-number/7")
        }

    assert scopes == {
        "paper://index": "public",
        "paper://ledger": "private",
        "paper://seal": "private",
        "paper://by-number/7": "private",
    }


async def test_custom_cache_hints_of_results_that_need_scopes_are_kept() -> None:
    new = Server("s")

    @new.resource("a://kept", scopes=["read"], cache=CacheHint(ttl=5))
    async def kept() -> str:
        return "x"

    @new.resource("a://custom", scopes=["read"])
    async def custom() -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[], ttl_ms=7, cache_scope="public")

    async with open_client(new) as client:
        results = [await client.read_resource(uri) for uri in ("a://kept", "a://custom")]

    assert [(each.ttl_ms, each.cache_scope) for each in results] == [(5000, "private"), (7, "public")]


def test_a_resource_that_needs_scopes_cannot_have_a_public_cache_hint() -> None:
    new, public = Server("s"), CacheHint(ttl=5, scope="public")

    with pytest.raises(ValueError, match=r"secret: cache=.*is public, but the resource needs scopes"):
        new.resource("a://b", name="secret", scopes=["read"], cache=public)(lambda: "x")
    with pytest.raises(ValueError, match=r"secret: cache=.*is public, but the resource needs scopes"):
        new.resources.add_static("a://b", "x", name="secret", scopes=["read"], cache=public)
    assert not new.resources.offered


async def test_transports_without_authentication_do_not_check_scopes() -> None:
    new, seen = Server("s"), list[Any]()

    @new.tool(scopes=["write"])
    async def burn(ctx: Context) -> str:
        seen.append((ctx.access, ctx.principal))
        return "burnt"

    async with open_memory_client(new) as client:
        await client.call_tool("burn")

    assert seen == [(None, None)]
