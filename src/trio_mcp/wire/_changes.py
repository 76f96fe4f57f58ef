"""The changes that a server notifies clients of: a list has changed, a resource was updated.

The notifications are the same in every revision. The revisions differ in how a client subscribes to them, and in how a
notification names its subscription.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeGuard

from attrs import field, frozen

from .. import types
from ._jsonrpc import JsonObject, RequestId, is_array, is_id, is_object

__all__ = [
    "ACKNOWLEDGED",
    "EVERY_LIST",
    "LISTEN",
    "LIST_CHANGES",
    "SUBSCRIPTION_ID_KEY",
    "Change",
    "ChangeFilter",
    "CustomChange",
    "ListChanged",
    "ResourceUpdated",
    "SpecifiedChange",
    "is_string_list",
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


@frozen
class CustomChange:
    """Something that an extension reports to those who listen for it.

    Equal ones are about the same thing: the newest stands for all earlier ones.
    """

    member: str
    """The member of the filter by which a client listens for it, such as ``"taskIds"``."""
    key: str
    """The value in that member."""
    method: str = field(eq=False)
    """The notification."""
    params: JsonObject = field(eq=False, repr=False)
    """The params of the notification."""


SpecifiedChange: TypeAlias = ListChanged | ResourceUpdated
"""A change that the specification defines."""
Change: TypeAlias = SpecifiedChange | CustomChange
"""One change. Equal changes mean the same, so that a waiting client needs only the newest of them."""

_LISTS: Mapping[str, ListChanged] = {
    "notifications/tools/list_changed": ListChanged("tools"),
    "notifications/prompts/list_changed": ListChanged("prompts"),
    "notifications/resources/list_changed": ListChanged("resources"),
}
LIST_CHANGES = frozenset(_LISTS)
"""The notifications of changes of lists."""
_METHODS: Mapping[ListChanged, str] = {change: method for method, change in _LISTS.items()}


def is_string_list(value: object) -> TypeGuard[Sequence[str]]:
    """Return True for an array of strings."""
    return is_array(value) and all(isinstance(each, str) for each in value)


def notification_of(change: Change) -> tuple[str, JsonObject]:
    """Return the method and params of the notification of *change*."""
    if isinstance(change, ListChanged):
        return _METHODS[change], {}
    if isinstance(change, CustomChange):
        return change.method, change.params
    return _UPDATED, {"uri": change.uri}


def read_change(method: str, params: JsonObject) -> SpecifiedChange | None:
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
    custom: Mapping[str, Sequence[str]] = field(factory=dict[str, "Sequence[str]"], hash=False)
    """The strings of members that extensions add, such as ``taskIds``."""

    def __bool__(self) -> bool:
        return self.tools or self.prompts or self.resource_list or bool(self.resources or self.custom)

    @classmethod
    def from_wire(cls, wire: types.SubscriptionFilter, custom: Iterable[str] = ()) -> ChangeFilter:
        """Return the filter of a request or an acknowledgement; a repeated URI counts once.

        Args:
            wire: the filter, as it was received.
            custom: the members of extensions to take over, if they are lists of strings.
        """
        return cls(
            tools=bool(wire.tools_list_changed),
            prompts=bool(wire.prompts_list_changed),
            resource_list=bool(wire.resources_list_changed),
            resources=dict.fromkeys(wire.resource_subscriptions or ()),
            custom={name: wire.extra[name] for name in custom if is_string_list(wire.extra.get(name))},
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
        json.update({name: list(strings) for name, strings in self.custom.items()})
        return json

    def within(self, declared: types.ServerCapabilities) -> ChangeFilter:
        """Return the part of this filter that a server with these declared capabilities supports."""
        tools, prompts, resources = declared.tools, declared.prompts, declared.resources
        return ChangeFilter(
            tools=self.tools and tools is not None and tools.list_changed is True,
            prompts=self.prompts and prompts is not None and prompts.list_changed is True,
            resource_list=self.resource_list and resources is not None and resources.list_changed is True,
            resources=self.resources if resources is not None and resources.subscribe is True else (),
            custom=self.custom,
        )

    def changes(self) -> frozenset[Change]:
        """Return every change that it includes, each resource by its own URI."""
        lists = {"tools": self.tools, "prompts": self.prompts, "resources": self.resource_list}
        included: list[Change] = [change for change in _METHODS if lists[change.kind]]
        return frozenset(included + [ResourceUpdated(uri) for uri in self.resources])

    def covers(self, change: Change) -> bool:
        """Return True if it includes *change*, or if *change* is about a part of one of its resources."""
        if isinstance(change, CustomChange):
            return change.member in self.custom
        if isinstance(change, ListChanged):
            return change in self.changes()
        return any(_is_part(change.uri, uri) for uri in self.resources)


EVERY_LIST = ChangeFilter(tools=True, prompts=True, resource_list=True)
"""The changes of all lists."""


def _is_part(uri: str, of: str) -> bool:
    """Return True if *uri* is *of*, or continues it at a boundary."""
    return uri.startswith(of) and (len(uri) == len(of) or of.endswith(_BELOW) or uri[len(of)] in _BELOW)
