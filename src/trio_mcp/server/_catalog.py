"""What a server lists: named entries in the order they were registered, handed out page by page.

Tools, resources, resource templates and prompts are kept in one catalog each. An entry is put into JSON once for each
revision that asks for it, and a page is put together once; only what is registered or removed makes them anew.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

from attrs import define, field

from .. import types
from .._errors import StructureError
from ..wire import JsonObject, JsonText, NotJsonError, encode, json_text
from ._cursors import Cursors

__all__ = ["Catalog", "Listable", "with_texts"]


_MOST_PAGES = 256
"""Pages kept of one list. There may be a cursor for every entry that ever was, and a peer may have gathered them."""


class Listable:
    """An entry of a catalog: subclasses say what of."""

    definition: Any

    def published(self, revision: str) -> JsonObject:
        """Return the entry as the list shows it to a peer of *revision*."""
        json: JsonObject = types.unstructure(self.definition, revision=revision)
        return json


Entry = TypeVar("Entry", bound=Listable)


@define(eq=False)
class _Listed(Generic[Entry]):
    """An entry, its place, and its JSON by revision."""

    entry: Entry
    place: int = field(default=0, init=False)
    """Grows from one registration to the next, so that a cursor holds when others come and go; 0 before that."""
    json: dict[str, bytes] = field(factory=dict[str, bytes], init=False)

    def encoded(self, revision: str) -> bytes:
        """Return the entry's JSON."""
        if revision not in self.json:
            self.json[revision] = encode(self.entry.published(revision))
        return self.json[revision]


def _nobody() -> None:
    """Tell nobody."""


@define(eq=False)
class Catalog(Generic[Entry]):
    """The entries of one list. Any thread may register and remove some while others are asked for.

    Args:
        kind: what an entry is called in errors, such as ``"tool"``.
        method: the request that lists them, such as ``"tools/list"``.
        member: where its result has them, such as ``"tools"``.
    """

    kind: str
    method: str
    member: str
    changed: Callable[[], None] = field(default=_nobody, init=False)
    """Called after each change, in the thread that made it."""
    offered: bool = field(default=False, init=False)
    """Whether anything was ever registered: what was declared once is answered, with an empty list if need be."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _listed: dict[str, _Listed[Entry]] = field(factory=dict[str, _Listed[Entry]], init=False)
    _places: int = field(default=0, init=False)
    _pages: dict[tuple[str, int], tuple[JsonText, int | None]] = field(
        factory=dict[tuple[str, int], "tuple[JsonText, int | None]"], init=False
    )
    """By revision and the place that a page begins after: its JSON, and the place of its last entry if more follow."""

    def __iter__(self) -> Iterator[Entry]:
        return (listed.entry for listed in list(self._listed.values()))

    def get(self, name: str) -> Entry | None:
        """Return the entry of this name, None where there is none."""
        listed = self._listed.get(name)
        return None if listed is None else listed.entry

    def check_free(self, name: str) -> None:
        """Raise ValueError where *name* is taken."""
        if name in self._listed:
            raise ValueError(f"a {self.kind} {name!r} is registered already")

    def add(self, name: str, entry: Entry) -> None:
        """Register an entry.

        Raises:
            ValueError: the name is taken, or what is said about the entry is nothing that a list can hold.
            TypeError: likewise.
        """
        listed = _Listed(entry)
        try:  # one wrong entry would make the whole list unreadable
            kind: Any = entry.definition.__class__
            types.structure(types.unstructure(entry.definition), kind)
            listed.encoded(types.REVISIONS[-1])
        except (StructureError, NotJsonError) as error:
            raise ValueError(f"{self.kind} {name!r}: {error}") from error
        except TypeError as error:
            raise TypeError(f"{self.kind} {name!r}: {error}") from error
        with self._lock:
            self.check_free(name)
            self._places = listed.place = self._places + 1
            self._listed[name] = listed
            self.offered = True
            self._pages.clear()
        self.changed()

    def remove(self, name: str) -> None:
        """Take an entry out; what it does for requests under way goes on. Raises KeyError where there is none."""
        with self._lock:
            del self._listed[name]
            self._pages.clear()
        self.changed()

    def page(self, revision: str, cursor: str | None, size: int | None, cursors: Cursors) -> JsonObject:
        """Return the result of the list's request.

        An entry that is there from the first page of a walk to its last is on exactly one of them, whatever is
        registered and removed meanwhile.

        Args:
            cursor: what the peer has sent: where the page begins; None for the first one.
            size: entries of a page; None puts all of them on one.

        Raises:
            McpError: the cursor is none of this list.
        """
        after = 0 if cursor is None else cursors.read(self.method, cursor)
        with self._lock:
            page = self._pages.get((revision, after))
            if page is None:
                page = self._put_together(revision, after, size)
                if len(self._pages) < _MOST_PAGES:
                    self._pages[revision, after] = page
        entries, last = page
        result: JsonObject = {self.member: entries}
        if last is not None:
            result["nextCursor"] = cursors.seal(self.method, last)
        return result

    def _put_together(self, revision: str, after: int, size: int | None) -> tuple[JsonText, int | None]:
        following = (listed for listed in self._listed.values() if listed.place > after)
        entries = list(islice(following, size))
        more = next(following, None) is not None
        text = b"[" + b",".join(listed.encoded(revision) for listed in entries) + b"]"
        return json_text(text), entries[-1].place if more else None


def with_texts(published: JsonObject, texts: Mapping[str, JsonText]) -> JsonObject:
    """Return *published* with members that its author has written as JSON in just those bytes."""
    return {member: texts.get(member, value) for member, value in published.items()} if texts else published
