"""Changes and filters: their form on the wire, and the changes that a filter covers."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import types
from trio_mcp.wire import (
    Change,
    ChangeFilter,
    JsonObject,
    ListChanged,
    ResourceUpdated,
    notification_of,
    read_change,
    subscription_id,
)

MODERN = types.REVISIONS[-1]
NOTIFICATIONS: list[tuple[Change, str, JsonObject]] = [
    (ListChanged("tools"), "notifications/tools/list_changed", {}),
    (ListChanged("prompts"), "notifications/prompts/list_changed", {}),
    (ListChanged("resources"), "notifications/resources/list_changed", {}),
    (ResourceUpdated("a:b"), "notifications/resources/updated", {"uri": "a:b"}),
]
FILTERS: list[tuple[ChangeFilter, JsonObject]] = [
    (ChangeFilter(), {}),
    (ChangeFilter(tools=True), {"toolsListChanged": True}),
    (ChangeFilter(prompts=True), {"promptsListChanged": True}),
    (ChangeFilter(resource_list=True), {"resourcesListChanged": True}),
    (ChangeFilter(resources=["a:b", "a:c"]), {"resourceSubscriptions": ["a:b", "a:c"]}),
]


@pytest.mark.parametrize(("change", "method", "params"), NOTIFICATIONS)
def test_a_change_is_written_as_its_notification_and_read_from_it(
    change: Change, method: str, params: JsonObject
) -> None:
    assert notification_of(change) == (method, params)
    assert read_change(method, {**params, "_meta": {}}) == change
    for revision in types.REVISIONS:
        types.structure(params, types.METHODS[revision][method].params or types.NotificationParams, revision=revision)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/resources/updated", {}),
        ("notifications/resources/updated", {"uri": 7}),
        ("notifications/resources/updated", {"uri": None}),
        ("notifications/progress", {"uri": "a:b"}),
        ("", {}),
    ],
)
def test_other_notifications_are_not_changes(method: str, params: JsonObject) -> None:
    assert read_change(method, params) is None


@pytest.mark.parametrize("id", [1, "1", 0, ""])
def test_a_notification_names_its_subscription(id: int | str) -> None:
    found = subscription_id({"_meta": {"io.modelcontextprotocol/subscriptionId": id}})
    assert found == id
    assert type(found) is type(id)


@pytest.mark.parametrize(
    "meta", [None, 7, [], {}, *({"io.modelcontextprotocol/subscriptionId": i} for i in (None, 1.0))]
)
def test_a_notification_without_a_valid_subscription_id_belongs_to_no_subscription(meta: Any) -> None:
    assert subscription_id({"_meta": meta}) is None
    assert subscription_id({}) is None


@pytest.mark.parametrize(("filter_", "json"), FILTERS)
def test_a_filter_is_written_to_and_read_from_the_wire(filter_: ChangeFilter, json: JsonObject) -> None:
    assert filter_.to_wire() == json
    assert ChangeFilter.from_wire(types.structure(json, types.SubscriptionFilter, revision=MODERN)) == filter_
    assert bool(filter_) is bool(json)


def test_false_in_a_filter_counts_as_absent_and_duplicate_resources_count_once() -> None:
    json = {"toolsListChanged": False, "resourceSubscriptions": ["a:b", "a:c", "a:b"]}
    read = ChangeFilter.from_wire(types.structure(json, types.SubscriptionFilter, revision=MODERN))
    assert read == ChangeFilter(resources=["a:b", "a:c"])


EVERYTHING = ChangeFilter(tools=True, prompts=True, resource_list=True, resources=["a:b"])


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, ChangeFilter()),
        ({"tools": {}, "prompts": {"listChanged": False}, "resources": {"subscribe": False}}, ChangeFilter()),
        ({"tools": {"listChanged": True}}, ChangeFilter(tools=True)),
        ({"prompts": {"listChanged": True}}, ChangeFilter(prompts=True)),
        ({"resources": {"listChanged": True}}, ChangeFilter(resource_list=True)),
        ({"resources": {"subscribe": True}}, ChangeFilter(resources=["a:b"])),
    ],
)
def test_a_filter_is_reduced_to_the_declared_capabilities_of_the_server(
    declared: JsonObject, expected: ChangeFilter
) -> None:
    capabilities = types.structure(declared, types.ServerCapabilities)
    assert EVERYTHING.within(capabilities) == expected
    assert not ChangeFilter().within(capabilities)


def test_a_filter_covers_its_lists_and_its_resources() -> None:
    assert EVERYTHING.changes() == {change for change, _, __ in NOTIFICATIONS}
    assert all(EVERYTHING.covers(change) for change, _, __ in NOTIFICATIONS)
    assert not ChangeFilter().changes()
    assert not any(ChangeFilter().covers(change) for change, _, __ in NOTIFICATIONS)
    assert [change for change, _, __ in NOTIFICATIONS if ChangeFilter(prompts=True).covers(change)] == [
        ListChanged("prompts")
    ]


@pytest.mark.parametrize(
    ("uri", "of", "is_part"),
    [
        ("file:///a", "file:///a", True),
        ("file:///a/b", "file:///a", True),
        ("file:///a/b", "file:///a/", True),
        ("file:///a?b", "file:///a", True),
        ("file:///a#b", "file:///a", True),
        ("file:///ab", "file:///a", False),
        ("file:///", "file:///a", False),
        ("file:///A", "file:///a", False),
    ],
)
def test_a_filter_covers_the_parts_of_its_resources(uri: str, of: str, is_part: bool) -> None:
    assert ChangeFilter(resources=[of]).covers(ResourceUpdated(uri)) is is_part
