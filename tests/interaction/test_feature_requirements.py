"""Requirements for single features: pages of a list, limits, errors and schema dialects."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from tests.interaction.scripted_peers import ENVELOPE, MODERN, Json
from trio_mcp import Limits, Server
from trio_mcp.schema import SchemaError, compile_schema
from trio_mcp.testing import open_scripted_client

LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def of_x(x: str) -> str:
    return x


def of_a(a: str) -> str:
    return a


def of_a_and_b(a: str, b: str) -> str:
    return a + b


def numbered_server() -> Server:
    """Return a server with five of everything, on pages of two."""
    server = Server("s", page_size=2)
    for number in range(5):
        server.tool(name=f"t{number}")(lambda: None)
        server.resource(f"r{number}:x", name=f"r{number}")(lambda: "")
        server.resource(f"r{number}:{{x}}", name=f"r{number}")(of_x)
        server.prompt(name=f"p{number}")(lambda: "")
    return server


@pytest.mark.requirement("B.16-S2", "B.17-S1a", "B.17-S2")
@pytest.mark.parametrize("method", LISTS)
async def test_all_pages_of_a_list_have_the_same_cache_scope(method: str) -> None:
    pages: list[Json] = []
    async with open_scripted_client(numbered_server(), MODERN) as client:
        cursor: Json = {}
        while not pages or cursor:
            pages.append((await client.request(method, cursor, envelope=ENVELOPE))["result"])
            cursor = {"cursor": pages[-1]["nextCursor"]} if "nextCursor" in pages[-1] else {}
    assert len(pages) == 3
    assert len({page["cacheScope"] for page in pages}) == 1
    assert all(type(page["ttlMs"]) is int and page["ttlMs"] >= 0 for page in pages)


@pytest.mark.requirement("B.3-S3b", "B.16-S1a")
async def test_a_list_can_be_continued_over_another_connection(revision: str) -> None:
    server, cursor, names = numbered_server(), None, list[str]()
    for _ in range(3):
        async with open_scripted_client(server, revision) as client:
            page: Any = (await client.request("tools/list", {} if cursor is None else {"cursor": cursor}))["result"]
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
    assert (names, cursor) == ([f"t{number}" for number in range(5)], None)


@pytest.mark.requirement("B.19-S4b", "B.20-S1d")
@pytest.mark.parametrize("method", ["completion/complete", "tools/call"])
async def test_the_server_runs_and_queues_no_more_requests_than_its_limits(
    method: str, revision: str, autojump_clock: object
) -> None:
    server = Server("s", limits=Limits(max_in_flight=2, max_queued=1))
    server.prompt(name="p")(of_a)

    @server.completion(prompt="p", argument="a")
    async def suggest(typed: str) -> list[str]:
        await trio.sleep(1)
        return [typed]

    @server.tool
    async def work() -> None:
        await trio.sleep(1)

    params: Json = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"}}
    params = params if method == "completion/complete" else {"name": "work"}
    async with open_scripted_client(server, revision) as client:
        meta = {"_meta": ENVELOPE} if revision == MODERN else {}
        await client.send(*({"jsonrpc": "2.0", "id": id, "method": method, "params": params | meta} for id in range(5)))
        answers = {answer["id"]: answer for answer in [await client.receive() for _ in range(5)]}
    assert [answers[id].get("error", {}).get("code") for id in range(5)] == [None, None, None, -31000, -31000]


@pytest.mark.requirement("B.19-S3c", "B.21-S3d", "B.22-S2c")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
        ("resources/read", {"uri": "a:b"}),
        ("prompts/get", {"name": "p", "arguments": {"a": ""}}),
    ],
)
async def test_a_failure_inside_a_handler_is_an_internal_error_without_details(
    method: str, params: Json, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(a: str = "") -> str:
        await trio.lowlevel.checkpoint()
        raise KeyError("secret")

    server = Server("s")
    server.prompt(name="p")(fail)
    server.resource("a:b", name="r")(partial(fail, ""))
    server.completion(prompt="p", argument="a")(fail)
    async with open_scripted_client(server, revision) as client:
        error = (await client.request(method, params))["error"]
    assert error["code"] == -32603
    assert "secret" not in str(error)
    assert "secret" in caplog.text


@pytest.mark.requirement("B.19-S4c")
async def test_a_completer_receives_only_validated_input(revision: str) -> None:
    server, seen = Server("s"), list[Any]()
    server.prompt(name="p")(of_a_and_b)

    @server.completion(prompt="p", argument="a")
    async def suggest(typed: str, b: str | None) -> list[str]:
        await trio.lowlevel.checkpoint()
        seen.append((typed, b))
        return []

    good: Json = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"}}
    bad: list[Json] = [
        {"ref": "p"},
        {"ref": {"type": "ref/prompt"}},
        {"ref": {"type": "ref/nothing", "name": "p"}},
        {"argument": {"name": "a"}},
        {"argument": {"name": "a", "value": 7}},
        {"argument": {"name": "c", "value": "v"}},
    ]
    bad += [{"context": {"arguments": {"b": 7}}}] if revision >= "2025-06-18" else []
    async with open_scripted_client(server, revision) as client:
        for member in bad:
            answer = await client.request("completion/complete", good | member)
            assert answer["error"]["code"] == -32602, member
        assert seen == []
        assert "result" in await client.request("completion/complete", good)
    assert seen == [("v", None)]


@pytest.mark.requirement("B.20-J3", "B.20-J4")
def test_the_refusal_of_an_unknown_schema_dialect_names_the_known_ones() -> None:
    with pytest.raises(SchemaError) as refused:
        compile_schema({"$schema": "https://example.com/dialect", "type": "object"})
    for known in ("draft/2020-12", "draft/2019-09", "draft-07", "draft-06", "draft-04"):
        assert f"https://json-schema.org/{known}/schema" in str(refused.value).replace("http:", "https:")
