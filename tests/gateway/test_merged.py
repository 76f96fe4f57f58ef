"""The merged lists of a gateway by themselves: names, places and URIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import trio

from tests.gateway.helpers import MODERN
from trio_mcp import Client, ClientOptions, Server, types
from trio_mcp.abc import ClientAuth
from trio_mcp.gateway._merged import MergedLists, Places
from trio_mcp.gateway._mount import Mount
from trio_mcp.gateway._tasks import TaskIds
from trio_mcp.gateway._turns import Turns
from trio_mcp.gateway._upstream import ListKind, UpstreamClient
from trio_mcp.lowlevel import ServerExtensionPoints


async def never(_: trio.Nursery, __: ClientAuth | None, ___: ClientOptions) -> Client:
    raise AssertionError


def upstream(name: str, lists: dict[ListKind, Sequence[Any]], **terms: Any) -> UpstreamClient:
    """Return the connection to a server that has listed these entries, without a connection."""
    mount = Mount(name=name, start=never, label=terms.pop("label", name), **terms)
    nursery = cast("trio.Nursery", None)
    info = types.Implementation(name="gate", version="0")
    ids = TaskIds(ServerExtensionPoints(Server("gate")))
    client = UpstreamClient(mount, None, Turns(mount), info, nursery, ids, _no, _no)
    client.lists.update(lists)
    return client


def _no(*_: object) -> None:
    """Take no note of a change."""


def tool(name: str, **members: Any) -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object"}, **members)


def resource(uri: str) -> types.Resource:
    return types.Resource(uri=uri, name=uri)


def template(uri: str) -> types.ResourceTemplate:
    return types.ResourceTemplate(uri_template=uri, name=uri)


def merged(*clients: UpstreamClient, places: Places | None = None, **taken: Sequence[str]) -> MergedLists:
    return MergedLists(clients, cast("Any", taken), Places() if places is None else places)


def public(lists: MergedLists, kind: ListKind) -> list[str]:
    return [entry.public for entry in lists.entries[kind]]


async def test_names_are_unique_whatever_servers_offer() -> None:
    first = upstream("a", {"tools": [tool("find"), tool("b__find")]})
    second = upstream("b", {"tools": [tool("find")]})

    listed = public(merged(first, second, tools=["find"]), "tools")

    assert len(set(listed)) == 3
    assert "find" not in listed


async def test_a_given_name_that_the_gateway_itself_has_gets_a_number() -> None:
    client = upstream("a", {"tools": [tool("find")]}, rename={"find": "own"})

    assert public(merged(client, tools=["own"]), "tools") == ["own_2"]


async def test_entries_keep_their_places_when_others_come_and_go() -> None:
    places = Places()
    first, second = upstream("a", {"tools": [tool("x"), tool("y")]}), upstream("b", {"tools": [tool("z")]})
    assert public(merged(first, second, places=places), "tools") == ["x", "y", "z"]

    first.lists["tools"] = [tool("w"), tool("y"), tool("x")]

    assert public(merged(first, second, places=places), "tools") == ["x", "y", "z", "w"]


async def test_the_places_of_what_a_server_does_not_list_any_more_are_forgotten_when_they_are_many() -> None:
    places, many = Places(), [tool(f"t{number}") for number in range(300)]
    lists: dict[ListKind, Sequence[Any]] = {
        "prompts": [types.Prompt(name="x")],
        "resources": [resource("a://x")],
        "templates": [template("a://{x}")],
        "tools": [tool("x"), tool("y"), *many],
    }
    client = upstream("a", lists)
    merged(client, places=places)

    client.lists["tools"] = [tool("y")]
    places.tidy(client)
    client.lists["tools"] = [tool("x"), tool("y")]

    assert public(merged(client, places=places), "tools") == ["y", "x"]  # x is new again


async def test_the_places_of_what_is_away_for_a_while_are_kept() -> None:
    places = Places()
    client = upstream("a", {"tools": [tool("x"), tool("y")]})
    merged(client, places=places)

    client.lists["tools"] = [tool("y")]
    places.tidy(client)
    client.lists["tools"] = [tool("y"), tool("x")]

    assert public(merged(client, places=places), "tools") == ["x", "y"]


async def test_the_app_of_a_tool_is_named_by_its_uri_in_the_gateway() -> None:
    meta = {"ui": {"resourceUri": "ui://app"}, "other": 1}
    first = upstream("a", {"resources": [resource("ui://app")], "tools": [tool("x", meta=meta)]})
    second = upstream("b", {"resources": [resource("ui://app")], "tools": [tool("y", meta=meta)]})

    of_first, of_second = merged(first, second).entries["tools"]

    assert of_first.definition.meta == meta
    assert of_second.definition.meta == {"ui": {"resourceUri": "b+ui://app"}, "other": 1}


async def test_other_meta_of_a_tool_stays_as_it_is() -> None:
    client = upstream("a", {"tools": [tool("x", meta={"ui": {"visibility": ["app"]}}), tool("y", meta={"ui": 5})]})

    first, second = merged(client).entries["tools"]

    assert (first.definition.meta, second.definition.meta) == ({"ui": {"visibility": ["app"]}}, {"ui": 5})


async def test_a_uri_that_only_begins_like_a_label_is_that_of_its_own_server() -> None:
    first = upstream("a", {"resources": [resource("x://y"), resource("b+x://z")]})
    second = upstream("b", {"resources": [resource("x://y")]})
    lists = merged(first, second)

    assert public(lists, "resources") == ["x://y", "b+x://z", "b+x://y"]
    assert lists.resource("b+x://y", None) == (second, "x://y")
    assert lists.resource("b+x://z", None) == (first, "b+x://z")
    assert lists.resource("b+x://unlisted", None) is None


async def test_a_link_to_what_is_not_listed_is_read_from_the_server_that_its_label_names() -> None:
    first = upstream("a", {"templates": [template("x://{id}")]})
    second = upstream("b", {"templates": [template("y://{id}")]})
    lists = merged(first, second)

    assert lists.public_uri(second, "x://1") == "b+x://1"
    assert lists.resource("b+x://1", None) == (second, "x://1")
    assert lists.resource("x://1", None) == (first, "x://1")
    assert lists.resource("y://1", None) == (second, "y://1")
    assert lists.has_shared_uris


async def test_json_of_an_entry_is_made_once_for_each_revision() -> None:
    (entry,) = merged(upstream("a", {"tools": [tool("x", title="T")]})).entries["tools"]

    assert entry.json(MODERN) is entry.json(MODERN)
    assert b"title" in bytes(entry.json(MODERN))
    assert b"title" not in bytes(entry.json("2024-11-05"))
