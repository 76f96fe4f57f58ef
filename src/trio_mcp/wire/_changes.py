"""The changes that a server notifies clients of: a list has changed, a resource was updated.

The notifications are the same in every revision. The revisions differ in how a client subscribes to them, and in how a
notification names its subscription.

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
    "EVERY_LIST",
    "LISTEN",
    "LIST_CHANGES",
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
"""The characters that may follow a URI in the URI of a part of it."""


@frozen
class ListChanged:
    """A list of the server has changed: fetch it again."""

    kind: Literal["tools", "prompts", "resources"]
    """The kind of the list; resource templates count as resources."""


@frozen
class ResourceUpdated:
    """A resource has changed: read it again."""

    uri: str
    """The URI of the resource, or of a part of the resource that was subscribed to."""


Change: TypeAlias = ListChanged | ResourceUpdated
"""One change. Equal changes mean the same, so that a waiting client needs each only once."""

_LISTS: Mapping[str, ListChanged] = {
    "notifications/tools/list_changed": ListChanged("tools"),
    "notifications/prompts/list_changed": ListChanged("prompts"),
    "notifications/resources/list_changed": ListChanged("resources"),
}
LIST_CHANGES = frozenset(_LISTS)
"""The notifications of changes of lists."""
_METHODS: Mapping[ListChanged, str] = {change: method for method, change in _LISTS.items()}


def notification_of(change: Change) -> tuple[str, JsonObject]:
    """Return the method and params of the notification of *change*."""
    if isinstance(change, ListChanged):
        return _METHODS[change], {}
    return _UPDATED, {"uri": change.uri}


def read_change(method: str, params: JsonObject) -> Change | None:
    """Return the change that a notification tells of; None if it tells of none."""
    if method != _UPDATED:
        return _LISTS.get(method)
    uri = params.get("uri")
    return ResourceUpdated(uri) if type(uri) is str else None


def subscription_id(params: JsonObject) -> RequestId | None:
    """Return the id of the subscription that a notification belongs to; None if it names none."""
    meta = params.get("_meta")
    id = meta.get(SUBSCRIPTION_ID_KEY) if is_object(meta) else None
    return id if is_id(id) else None


@frozen(kw_only=True)
class ChangeFilter:
    """The changes that a client subscribes to, or that a server has agreed to notify it of."""

    tools: bool = False
    """True for changes of the list of tools."""
    prompts: bool = False
    """True for changes of the list of prompts."""
    resource_list: bool = False
    """True for changes of the list of resources, or of resource templates."""
    resources: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    """The URIs of the resources whose updates are included."""

    def __bool__(self) -> bool:
        return self.tools or self.prompts or self.resource_list or bool(self.resources)

    @classmethod
    def from_wire(cls, wire: types.SubscriptionFilter) -> ChangeFilter:
        """Return the filter of a request or an acknowledgement; a repeated URI counts once."""
        return cls(
            tools=bool(wire.tools_list_changed),
            prompts=bool(wire.prompts_list_changed),
            resource_list=bool(wire.resources_list_changed),
            resources=dict.fromkeys(wire.resource_subscriptions or ()),
        )

    def to_wire(self) -> JsonObject:
        """Return the JSON of a request or an acknowledgement; false members are left out."""
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
        """Return the part of this filter that a server with these declared capabilities supports."""
        tools, prompts, resources = declared.tools, declared.prompts, declared.resources
        return ChangeFilter(
            tools=self.tools and tools is not None and tools.list_changed is True,
            prompts=self.prompts and prompts is not None and prompts.list_changed is True,
            resource_list=self.resource_list and resources is not None and resources.list_changed is True,
            resources=self.resources if resources is not None and resources.subscribe is True else (),
        )

    def changes(self) -> frozenset[Change]:
        """Return every change that it includes, each resource by its own URI."""
        lists = {"tools": self.tools, "prompts": self.prompts, "resources": self.resource_list}
        included: list[Change] = [change for change in _METHODS if lists[change.kind]]
        return frozenset(included + [ResourceUpdated(uri) for uri in self.resources])

    def covers(self, change: Change) -> bool:
        """Return True if it includes *change*, or if *change* is about a part of one of its resources."""
        if isinstance(change, ListChanged):
            return change in self.changes()
        return any(_is_part(change.uri, uri) for uri in self.resources)


EVERY_LIST = ChangeFilter(tools=True, prompts=True, resource_list=True)
"""The changes of all lists."""


def _is_part(uri: str, of: str) -> bool:
    """Return True if *uri* is *of*, or continues it at a boundary."""
    return uri.startswith(of) and (len(uri) == len(of) or of.endswith(_BELOW) or uri[len(of)] in _BELOW)
