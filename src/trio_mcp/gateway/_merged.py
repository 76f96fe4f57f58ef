"""The lists that one caller sees of the servers behind a gateway, and the server behind each entry.

Rules of this file:

1. A name that one server offers stays as it is. A name that several offer becomes ``server__name`` for each of them;
   with ``prefix=`` all names of a server become ``prefix__name``. A name given by ``rename=`` is taken as it is. What
   the gateway itself registers keeps its name.
2. A URI stays as it is if no server that was mounted before has the same, or a template that matches it. Otherwise it
   becomes ``label+uri``, where the label comes from the prefix or the name of its server.
3. Each entry keeps its place as long as it exists, so that the pages of a list stay valid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from .. import Access, types
from ..lowlevel import assign_names, qualified_name, tool_json
from ..wire import JsonObject, JsonText, UriTemplate, encode, is_object, json_text
from ._ranking import ToolIndex
from ._upstream import LISTS, ListKind, UpstreamClient

if TYPE_CHECKING:
    from ._forward import Target

__all__ = ["METHODS", "Entry", "MergedLists", "Places"]

METHODS: Final[Mapping[str, tuple[ListKind, str]]] = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
}
"""The list and the member of the result, by method."""


@define(eq=False)
class Entry:
    """A tool, prompt, resource or resource template, as a gateway lists it."""

    client: UpstreamClient
    original: str
    """Its name or URI on its server."""
    public: str
    """Its name or URI in the gateway."""
    definition: Any
    """It, with its public name or URI."""
    place: int
    """Its place in the list."""
    target: Target | None = field(default=None, init=False)
    """The target of its requests, apart from fixed arguments; None until it is needed."""
    _json: dict[str, JsonText] = field(factory=dict[str, JsonText], init=False)

    def json(self, revision: str) -> JsonText:
        """Return its JSON in a revision."""
        if revision not in self._json:
            self._json[revision] = json_text(encode(published(self.definition, revision)))
        return self._json[revision]

    def is_visible(self, access: Access | None) -> bool:
        """Return True if a caller sees it."""
        return self.client.mount.is_visible(self.definition, access)


def published(definition: Any, revision: str) -> JsonObject:
    """Return the JSON of a tool, prompt, resource or resource template in a revision."""
    if isinstance(definition, types.Tool):
        return tool_json(definition, revision)
    json: JsonObject = types.unstructure(definition, revision=revision)
    return json


@define(eq=False)
class Places:
    """The places of the entries of a gateway, in the order in which they were first seen (rule 3)."""

    _of_client: dict[UpstreamClient, dict[tuple[ListKind, str], int]] = field(
        factory=dict["UpstreamClient", dict[tuple[ListKind, str], int]], init=False
    )
    _last: int = field(default=0, init=False)

    def of(self, client: UpstreamClient, kind: ListKind, original: str) -> int:
        """Return the place of an entry."""
        places = self._of_client.setdefault(client, {})
        if (kind, original) not in places:
            self._last += 1
            places[kind, original] = self._last
        return places[kind, original]

    def tidy(self, client: UpstreamClient) -> None:
        """Forget places of what a client no longer lists, when there are many of them."""
        places = self._of_client.get(client, {})
        if len(places) > 2 * sum(map(len, client.lists.values())) + 100:
            known = {(kind, _original(kind, each)) for kind in LISTS for each in client.lists.get(kind, ())}
            self._of_client[client] = {key: place for key, place in places.items() if key in known}

    def forget(self, client: UpstreamClient) -> None:
        """Forget the places of a client that was closed for good."""
        self._of_client.pop(client, None)


def _original(kind: ListKind, definition: Any) -> str:
    match kind:
        case "tools" | "prompts":
            name: str = definition.name
            return name
        case "resources":
            uri: str = definition.uri
            return uri
        case _:
            template: str = definition.uri_template
            return template


_EXPRESSION: Final = re.compile(r"\{[^{}]*\}")
_VARIABLE: Final = re.compile(r"[\w.%]+")


def _form(uri: str) -> str:
    """Return a template without the names of its variables, or a URI as it is."""
    return _EXPRESSION.sub(lambda found: _VARIABLE.sub("_", found[0]), uri) if "{" in uri else uri


@frozen(eq=False)
class _ListedTemplate:
    """A resource template of a server, ready to be matched."""

    entry: Entry
    template: UriTemplate


@define(eq=False)
class MergedLists:
    """The lists of a gateway for the callers who share the same connections.

    Args:
        clients: the connections, in the order in which their servers were mounted.
        taken: the names of the tools and prompts that the gateway itself has, by list.
        places: the places of all entries.
    """

    clients: Sequence[UpstreamClient]
    _taken: Mapping[ListKind, Collection[str]]
    _places: Places
    entries: dict[ListKind, list[Entry]] = field(init=False)
    """The entries of each list, by place."""
    varies: bool = field(init=False)
    """True if some entries are hidden from some callers."""
    has_shared_uris: bool = field(init=False)
    """True if the URIs of some server may have to be changed: more than one has resources."""
    _by_name: dict[ListKind, dict[str, Entry]] = field(init=False)
    _owners: dict[str, UpstreamClient] = field(init=False)
    """The first server that lists a URI or a template, by its form: the names of variables do not count."""
    _templates: list[_ListedTemplate] = field(init=False)
    tokens: Mapping[int, int] | None = field(default=None, init=False)
    """The estimated tokens of each tool, by the id of its entry; None until they are needed."""
    index: ToolIndex | None = field(default=None, init=False)
    """The index of all tools; None until it is needed."""
    pages: dict[tuple[ListKind, str], JsonText] = field(factory=dict[tuple[ListKind, str], JsonText], init=False)
    """Whole lists by revision, if they are the same for everybody."""

    def __attrs_post_init__(self) -> None:
        self.varies = any(client.mount.visible is not None for client in self.clients)
        having = [client for client in self.clients if "resources" in client.lists or "templates" in client.lists]
        self.has_shared_uris = len(having) > 1
        self._owners, self._templates = {}, []
        for client in self.clients:
            for kind in ("resources", "templates"):
                for each in client.lists.get(kind, ()):
                    self._owners.setdefault(_form(_original(kind, each)), client)
        self.entries = {kind: [] for kind in LISTS}
        self.entries["templates"] = self._uri_entries("templates")
        for entry in self.entries["templates"]:
            try:
                self._templates.append(_ListedTemplate(entry, UriTemplate(entry.original)))
            except ValueError:  # a template that nobody can expand is listed, and matches nothing
                continue
        self.entries["resources"] = self._uri_entries("resources")
        self.entries["tools"], self.entries["prompts"] = self._named_entries("tools"), self._named_entries("prompts")
        for entries in self.entries.values():
            entries.sort(key=lambda entry: entry.place)
        self._by_name = {kind: {entry.public: entry for entry in entries} for kind, entries in self.entries.items()}

    # --- Names (rule 1) ---

    def _named_entries(self, kind: ListKind) -> list[Entry]:
        offers = {
            (client.mount.name, each.name): (client, each)
            for client in self.clients
            for each in client.lists.get(kind, ())
        }
        names = _public_names(offers, self._taken.get(kind, ()))
        entries: list[Entry] = []
        for offer, (client, each) in offers.items():
            definition, place = self._renamed(client, each, names[offer]), self._place(client, kind, each)
            entries.append(Entry(client, each.name, names[offer], definition, place))
        return entries

    def _renamed(self, client: UpstreamClient, definition: Any, name: str) -> Any:
        if isinstance(definition, types.Tool) and definition.meta:
            definition = evolve(definition, meta=self._public_meta(client, definition.meta))
        return evolve(definition, name=name) if definition.name != name else definition

    def _place(self, client: UpstreamClient, kind: ListKind, definition: Any) -> int:
        return self._places.of(client, kind, _original(kind, definition))

    # --- URIs (rule 2) ---

    def _uri_entries(self, kind: ListKind) -> list[Entry]:
        entries: list[Entry] = []
        member = "uri" if kind == "resources" else "uri_template"
        for client in self.clients:
            for each in client.lists.get(kind, ()):
                original = _original(kind, each)
                public = self.public_uri(client, original)
                definition = each if public == original else evolve(each, **{member: public})
                entries.append(Entry(client, original, public, definition, self._place(client, kind, each)))
        return entries

    def public_uri(self, client: UpstreamClient, uri: str) -> str:
        """Return the URI in the gateway of a resource, or a template, of one server."""
        owner = self._owners.get(_form(uri)) or next(
            (each.entry.client for each in self._templates if each.template.match(uri) is not None), None
        )
        return uri if owner is None or owner is client else f"{client.mount.label}+{uri}"

    def _public_meta(self, client: UpstreamClient, meta: Mapping[str, Any]) -> JsonObject:
        """Return the `_meta` of a tool, with the public URI of its app."""
        ui = meta.get("ui")
        uri = ui.get("resourceUri") if is_object(ui) else None
        if not isinstance(uri, str) or not is_object(ui):
            return dict(meta)
        return {**meta, "ui": {**ui, "resourceUri": self.public_uri(client, uri)}}

    def resource(self, uri: str, access: Access | None) -> tuple[UpstreamClient, str] | None:
        """Return the server of a listed resource, or of one that matches a template, and its URI there."""
        entry = self._by_name["resources"].get(uri)
        if entry is not None:
            return (entry.client, entry.original) if entry.is_visible(access) else None
        for each in self._templates:
            client = each.entry.client
            own = uri.removeprefix(f"{client.mount.label}+")
            if self.public_uri(client, own) == uri and each.template.match(own) is not None:
                return (client, own) if each.entry.is_visible(access) else None
        for client in self.clients:  # a link to a resource that is not listed
            own = uri.removeprefix(f"{client.mount.label}+")
            if own != uri and self.public_uri(client, own) == uri and not client.mount.has_patterns:
                return client, own
        return None

    # --- Entries ---

    def find(self, kind: ListKind, public: str, access: Access | None) -> Entry | None:
        """Return the entry of a name or URI; None if there is none, or if it is hidden from the caller."""
        entry = self._by_name[kind].get(public)
        return entry if entry is None or not self.varies or entry.is_visible(access) else None

    def visible(self, kind: ListKind, access: Access | None) -> Iterator[Entry]:
        """Return the entries of a list that a caller sees, by place."""
        entries = self.entries[kind]
        return (entry for entry in entries if entry.is_visible(access)) if self.varies else iter(entries)


def _public_names(
    offers: Mapping[tuple[str, str], tuple[UpstreamClient, Any]], taken: Collection[str]
) -> dict[tuple[str, str], str]:
    """Return the public name of each name that a server offers."""
    names: dict[tuple[str, str], str] = {}
    plain: list[tuple[str, str]] = []
    for offer, (client, definition) in offers.items():
        mount = client.mount
        if definition.name in mount.rename:
            names[offer] = mount.rename[definition.name]
        elif mount.prefix:
            names[offer] = qualified_name((mount.prefix, definition.name))
        else:
            plain.append(offer)
    fixed = Counter([*names.values(), *taken])
    assigned = assign_names(plain, prefix="clashes", servers={server for server, _ in offers})
    names |= {offer: name if name not in fixed else qualified_name(offer) for offer, name in assigned.items()}
    used: set[str] = {*taken}
    for offer, name in list(names.items()):  # what still clashes: names that were given, and digests of nothing
        number, unique = 2, name
        while unique in used:
            unique, number = f"{name[:60]}_{number}", number + 1
        names[offer] = unique
        used.add(unique)
    return names
