"""What a server lists: named entries in the order they were registered, handed out page by page.

Tools, resources, resource templates and prompts are kept in one catalog each. An entry is put into JSON once for each
revision that asks for it, and a page is put together once; only what is registered or removed makes them anew.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args

from attrs import Attribute, define, field, frozen

from ... import types
from ..._errors import McpError, StructureError
from ...wire import INVALID_PARAMS, JsonObject, JsonText, NotJsonError, encode, json_text

__all__ = [
    "NOT_KEPT",
    "NO_SCOPES",
    "CacheHint",
    "CacheableMethod",
    "Catalog",
    "Cursors",
    "Listable",
    "check_hint",
    "check_hints",
    "check_keys",
    "check_scopes",
    "keys_by_default",
    "with_texts",
]


# Cursors: where the next page of a list begins, in a form that only this server can have made.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination

keys_by_default: ContextVar[tuple[bytes, ...]] = ContextVar("trio_mcp_keys_by_default", default=())
"""The keys of servers that are made without: for processes each of which may have to open what another has sealed."""

_MIN_KEY_BYTES = 16
_PURPOSE = b"trio-mcp list cursor"
"""Keeps what is signed here apart from whatever else is signed with the same key."""
_PLACE_BYTES, _TAG_BYTES = 8, 16


def check_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return *keys*, or those by default, or a new one where there are none.

    Raises:
        TypeError: they are no list of bytes.
        ValueError: a key is shorter than 16 bytes.
    """
    given: Any = keys
    if isinstance(given, bytes | str) or not all(isinstance(key, bytes) for key in given):
        raise TypeError("keys: a list of bytes, such as [os.urandom(32)]")
    if any(len(key) < _MIN_KEY_BYTES for key in keys):
        raise ValueError(f"keys: each must have at least {_MIN_KEY_BYTES} bytes; os.urandom(32) makes a good one")
    return tuple(keys) or keys_by_default.get() or (os.urandom(32),)


@frozen
class Cursors:
    """Seals places in lists as cursors, and reads them back.

    A cursor names its list and the entry it continues after, and is authenticated with HMAC-SHA256: a changed one,
    or one of another list, is refused. It holds for as long as its key is among the server's.

    Args:
        keys: the first seals; every one of them is tried when reading.
    """

    _keys: tuple[bytes, ...] = field(alias="keys", repr=False)

    def seal(self, method: str, place: int) -> str:
        """Return the cursor for what follows *place* in the list of *method*."""
        packed = place.to_bytes(_PLACE_BYTES, "big")
        return base64.urlsafe_b64encode(packed + _tag(self._keys[0], method, packed)).decode()

    def read(self, method: str, cursor: str) -> int:
        """Return the place that a cursor for *method* continues after.

        Raises:
            McpError: this server has not made it, or has made it for another list.
        """
        try:
            data = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            data = b""
        packed, tag = data[:_PLACE_BYTES], data[_PLACE_BYTES:]
        if not any(hmac.compare_digest(tag, _tag(key, method, packed)) for key in self._keys):
            raise McpError(INVALID_PARAMS, f"$.cursor: {cursor[:100]!r} is no cursor of {method!r} on this server")
        return int.from_bytes(packed, "big")


def _tag(key: bytes, method: str, packed: bytes) -> bytes:
    return hmac.digest(key, b"\0".join((_PURPOSE, method.encode(), packed)), "sha256")[:_TAG_BYTES]


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


# What has to be granted for what: the scopes of tools, resources, prompts and methods, and those of one request.
#
# Rules of this file:
#
# 1. Scopes are checked by what authenticates, before a request is begun: by HTTP applications, and by nothing else.
# 2. What is read of a request here is what its handler will read. Where that is nothing, it is refused elsewhere.
# 3. Lists show everything to everybody: what needs a scope has to be found before anybody asks for that.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling

NO_SCOPES = frozenset[str]()

_SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""As RFC 6749, section 3.3, spells one."""


def check_scopes(where: str, scopes: Sequence[str]) -> frozenset[str]:
    """Return the scopes that something needs.

    Raises:
        ValueError: *scopes* is one text, or one of them cannot be a scope.
    """
    if isinstance(scopes, str):
        raise ValueError(f"{where}: scopes={scopes!r} must be a list of texts, such as [{scopes!r}]")
    for scope in cast("Sequence[object]", scopes):
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            raise ValueError(f"{where}: {scope!r} is no scope: visible ASCII without spaces, quotes and backslashes")
    return frozenset(scopes)


# What a server says about keeping its results: for how long, and by whom.
#
# Only revisions from 2026-07-28 on carry it, on complete results of six methods. Where nothing is said, a result is
# out
# of date at once and nobody else's, which is always right.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching

CacheableMethod: TypeAlias = Literal[
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
]
"""The requests whose results may be kept."""

_SCOPES = ("private", "public")
_MOST_MILLISECONDS = 2**53 - 1
"""The largest whole number that every reader of JSON gets right."""


def _duration(_: object, attribute: Attribute[Any], value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= cast("float", value) * 1000 <= _MOST_MILLISECONDS:  # so NaN and infinity are out, too
        raise ValueError(f"CacheHint({attribute.name}={value!r}): must be a number of seconds, 0 or more")


def _scope(_: object, attribute: Attribute[Any], value: object) -> None:
    if value not in _SCOPES:
        raise ValueError(f"CacheHint({attribute.name}={value!r}): must be 'private' or 'public'")


@frozen(kw_only=True)
class CacheHint:
    """For how long clients may keep a result, and for whom.

    Raises:
        ValueError: *ttl* is no number of seconds, or *scope* is none.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """

    ttl: float = field(default=0.0, validator=_duration)
    """Seconds for which the result need not be asked for again; 0: it is out of date at once. To the millisecond.

    A client that listens is told of changes all the same, and asks again."""
    scope: Literal["private", "public"] = field(default="private", validator=_scope)
    """Who may be shown it: ``"private"``, nobody but the caller, or ``"public"``, anybody, whoever they are.

    It is no access control: say ``"public"`` of nothing that depends on who asks."""

    @property
    def ttl_ms(self) -> int:
        """`ttl` in milliseconds, as it goes over the wire."""
        return round(self.ttl * 1000)

    def to_wire(self) -> JsonObject:
        """Return the members of a result that say so."""
        return {"ttlMs": self.ttl_ms, "cacheScope": self.scope}


NOT_KEPT = CacheHint()
"""What is said where the author has said nothing."""


def check_hint(where: str, hint: object) -> CacheHint | None:
    """Return *hint*, which may be None.

    Raises:
        TypeError: it is none.
    """
    if hint is not None and not isinstance(hint, CacheHint):
        raise TypeError(f"{where}: cache={hint!r} must be a CacheHint")
    return hint


def check_hints(hints: object) -> Mapping[str, CacheHint]:
    """Return the hints of a server by method; none for None.

    Raises:
        ValueError: there is no such method, or its results are not kept.
        TypeError: *hints* is no mapping, or holds something else.
    """
    if hints is None:
        return {}
    if not isinstance(hints, Mapping):
        raise TypeError(f"cache={hints!r} must be a mapping of methods, such as {{'tools/list': CacheHint(ttl=60)}}")
    known, checked = get_args(CacheableMethod), dict[str, CacheHint]()
    for method, hint in cast("Mapping[object, object]", hints).items():
        if method not in known:
            raise ValueError(f"cache: results of {method!r} cannot be kept; those of {', '.join(known)} can")
        if not isinstance(hint, CacheHint):
            raise TypeError(f"cache[{method!r}]={hint!r} must be a CacheHint")
        checked[str(method)] = hint
    return checked
