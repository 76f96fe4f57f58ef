"""What a server may tell of its own accord: which of its lists has changed, which resource was updated.

The same news travels in every revision; what differs is how it is asked for, and how it finds those who asked.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from .. import types
from ._jsonrpc import JsonObject, RequestId, is_id, is_object

__all__ = [
    "ACKNOWLEDGED",
    "LISTEN",
    "SUBSCRIPTION_ID_KEY",
    "Change",
    "ChangeFilter",
    "ListChanged",
    "ResourceUpdated",
    "notification_of",
    "read_change",
    "subscription_id",
]

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID_KEY = "io.modelcontextprotocol/subscriptionId"

_UPDATED = "notifications/resources/updated"
_BELOW = ("/", "?", "#")
"""What a URI goes on with that names a part of another one."""


@frozen
class ListChanged:
    """A list of the server is not what it was: ask for it again."""

    kind: Literal["tools", "prompts", "resources"]
    """Of what; resource templates count as resources."""


@frozen
class ResourceUpdated:
    """A resource is not what it was: read it again."""

    uri: str
    """Which; it may name a part of the resource that was asked for."""


Change: TypeAlias = ListChanged | ResourceUpdated
"""One piece of news. Equal ones say the same, so whoever waits to be told needs each only once."""

_LISTS: Mapping[str, ListChanged] = {
    "notifications/tools/list_changed": ListChanged("tools"),
    "notifications/prompts/list_changed": ListChanged("prompts"),
    "notifications/resources/list_changed": ListChanged("resources"),
}
_METHODS: Mapping[ListChanged, str] = {change: method for method, change in _LISTS.items()}


def notification_of(change: Change) -> tuple[str, JsonObject]:
    """Return the method and the params that tell of *change*."""
    if isinstance(change, ListChanged):
        return _METHODS[change], {}
    return _UPDATED, {"uri": change.uri}


def read_change(method: str, params: JsonObject) -> Change | None:
    """Return what a notification tells of; None where it is about something else, or does not say what."""
    if method != _UPDATED:
        return _LISTS.get(method)
    uri = params.get("uri")
    return ResourceUpdated(uri) if type(uri) is str else None


def subscription_id(params: JsonObject) -> RequestId | None:
    """Return the id of the subscription that a notification belongs to; None where it names none."""
    meta = params.get("_meta")
    id = meta.get(SUBSCRIPTION_ID_KEY) if is_object(meta) else None
    return id if is_id(id) else None


@frozen(kw_only=True)
class ChangeFilter:
    """Which changes to be told of, or which a server has agreed to tell of."""

    tools: bool = False
    """That the list of tools has changed."""
    prompts: bool = False
    """That the list of prompts has."""
    resource_list: bool = False
    """That the list of resources, or of resource templates, has."""
    resources: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    """The URIs of resources: that one of them was updated."""

    def __bool__(self) -> bool:
        return self.tools or self.prompts or self.resource_list or bool(self.resources)

    @classmethod
    def from_wire(cls, wire: types.SubscriptionFilter) -> ChangeFilter:
        """Return what a request or an acknowledgement says; a URI named twice counts once."""
        return cls(
            tools=bool(wire.tools_list_changed),
            prompts=bool(wire.prompts_list_changed),
            resource_list=bool(wire.resources_list_changed),
            resources=dict.fromkeys(wire.resource_subscriptions or ()),
        )

    def to_wire(self) -> JsonObject:
        """Return the JSON of a request or an acknowledgement; what is not asked for is left out."""
        json: JsonObject = {}
        if self.tools:
            json["toolsListChanged"] = True
        if self.prompts:
            json["promptsListChanged"] = True
        if self.resource_list:
            json["resourcesListChanged"] = True
        if self.resources:
            json["resourceSubscriptions"] = list(self.resources)
        return json

    def within(self, declared: types.ServerCapabilities) -> ChangeFilter:
        """Return what of this a server that has declared these capabilities tells of."""
        tools, prompts, resources = declared.tools, declared.prompts, declared.resources
        return ChangeFilter(
            tools=self.tools and tools is not None and tools.list_changed is True,
            prompts=self.prompts and prompts is not None and prompts.list_changed is True,
            resource_list=self.resource_list and resources is not None and resources.list_changed is True,
            resources=self.resources if resources is not None and resources.subscribe is True else (),
        )

    def changes(self) -> frozenset[Change]:
        """Return every change it is about, each resource by its own URI."""
        lists = {"tools": self.tools, "prompts": self.prompts, "resources": self.resource_list}
        told: list[Change] = [change for change in _METHODS if lists[change.kind]]
        return frozenset(told + [ResourceUpdated(uri) for uri in self.resources])

    def covers(self, change: Change) -> bool:
        """Tell whether *change* is one of those, or is about a part of one of the resources."""
        if isinstance(change, ListChanged):
            return change in self.changes()
        return any(_is_part(change.uri, uri) for uri in self.resources)


def _is_part(uri: str, of: str) -> bool:
    """Tell whether *uri* is *of*, or goes on where it ends."""
    return uri.startswith(of) and (len(uri) == len(of) or of.endswith(_BELOW) or uri[len(of)] in _BELOW)
