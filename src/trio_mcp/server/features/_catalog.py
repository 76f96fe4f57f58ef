"""The lists of a server: catalogs of named entries, their pages and cursors, their scopes and their cache hints.

Tools, resources, resource templates and prompts have one catalog each, in the order of registration. The JSON of an
entry is made once for each revision, and the JSON of a page once, until an entry is added or removed. A list with
predicates of visibility depends on the caller: its pages are put together for each request.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import base64
import binascii
import hmac
import inspect
import logging
import os
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args

from attrs import Attribute, define, field, frozen

from ... import types
from ..._errors import McpError, StructureError
from ..._misuse import did_you_mean
from ..._user_types import is_async
from ...peer import Access
from ...wire import INVALID_PARAMS, JsonObject, JsonText, NotJsonError, encode, is_modern, json_text

if TYPE_CHECKING:
    from .._context import Context

__all__ = [
    "NOT_KEPT",
    "NO_SCOPES",
    "CacheHint",
    "CacheableMethod",
    "Catalog",
    "Cursors",
    "ListResponder",
    "Listable",
    "NotFound",
    "ShownTo",
    "Visible",
    "check_hint",
    "check_hints",
    "check_keys",
    "check_scopes",
    "check_visible",
    "with_texts",
]


_log = logging.getLogger("trio_mcp.server")

_MIN_KEY_BYTES = 16
_PURPOSE = b"trio-mcp list cursor"
"""Separates these signatures from others that are made with the same key."""
_MASK = b"trio-mcp place of a cursor"
_PLACE_BYTES, _TAG_BYTES = 8, 16


def check_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return *keys*, or else a new key.

    Raises:
        TypeError: *keys* is not a list of bytes.
        ValueError: a key is shorter than 16 bytes.
    """
    given: Any = keys
    if isinstance(given, bytes | str) or not all(isinstance(key, bytes) for key in given):
        raise TypeError("keys: must be a list of bytes, such as [os.urandom(32)]")
    if any(len(key) < _MIN_KEY_BYTES for key in keys):
        raise ValueError(f"keys: each must have at least {_MIN_KEY_BYTES} bytes; use os.urandom(32)")
    return tuple(keys) or (os.urandom(32),)


@define(eq=False)
class Cursors:
    """Makes and reads cursors, which name the position in a list where the next page begins.

    A cursor is authenticated with HMAC-SHA256: a changed one, or one of another list, is refused. It is valid as long
    as the server has its key. The position is hidden, because it would tell how many entries the caller does not see.

    Args:
        keys: the first key seals; every key opens.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
    """

    _keys: tuple[bytes, ...] = field(alias="keys", repr=False)

    def replace_keys(self, keys: Sequence[bytes]) -> None:
        """Use other keys from now on."""
        self._keys = tuple(keys)

    def seal(self, method: str, place: int) -> str:
        """Return the cursor for the entries after *place* in the list of *method*."""
        packed, key = place.to_bytes(_PLACE_BYTES, "big"), self._keys[0]
        tag = _tag(key, method, packed)
        return base64.urlsafe_b64encode(_masked(key, tag, packed) + tag).decode()

    def read(self, method: str, cursor: str) -> int:
        """Return the place after which a cursor for *method* continues.

        Raises:
            McpError: this server has not made the cursor, or has made it for another list.
        """
        try:
            data = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            data = b""
        masked, tag = data[:_PLACE_BYTES], data[_PLACE_BYTES:]
        for key in self._keys:
            packed = _masked(key, tag, masked)
            if hmac.compare_digest(tag, _tag(key, method, packed)):
                return int.from_bytes(packed, "big")
        raise McpError(
            INVALID_PARAMS,
            f"$.cursor: {cursor[:100]!r} is not a cursor of {method!r} on this server. Processes of one server, "
            "also one after the other, know the cursors of each other if they share their keys: Server(keys=[...])",
        )


def _tag(key: bytes, method: str, packed: bytes) -> bytes:
    return hmac.digest(key, b"\0".join((_PURPOSE, method.encode(), packed)), "sha256")[:_TAG_BYTES]


def _masked(key: bytes, tag: bytes, packed: bytes) -> bytes:
    """Mask a place, or remove its mask: the tag, which depends on the place, takes the part of a nonce."""
    pad = hmac.digest(key, b"\0".join((_MASK, tag)), "sha256")
    return bytes(left ^ right for left, right in zip(packed, pad, strict=False))


_MOST_PAGES = 256
"""The number of cached pages of one list, because a client may hold a cursor for every entry that ever existed."""


class Listable:
    """An entry of a catalog."""

    definition: Any

    def published(self, revision: str) -> JsonObject:
        """Return the JSON of the entry for a client of *revision*."""
        json: JsonObject = types.unstructure(self.definition, revision=revision)
        return json


# --- Visibility ---

Definition = TypeVar("Definition")
Visible: TypeAlias = Callable[[Definition, Access | None], bool]
"""A plain function that decides whether a caller sees an entry. The caller is None without authentication."""
ShownTo: TypeAlias = Callable[[Access | None], bool]
"""Tells whether a caller sees a certain entry."""


def check_visible(where: str, visible: Any) -> None:
    """Check that *visible* is a predicate, or None.

    Args:
        where: the name of what it hides, in errors.

    Raises:
        TypeError: it is not a plain function of an entry and a caller.
    """
    if visible is None:
        return
    fault = f"{where}: visible={visible!r}: must be a plain function of an entry and an Access or None"
    if not callable(visible) or is_async(visible):
        raise TypeError(fault)
    try:
        signature = inspect.signature(visible)
    except ValueError:  # some functions that are written in C have none
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise TypeError(f"{fault}: {error}") from None


def _says(visible: Visible[Any], definition: Any, access: Access | None) -> bool:
    shown: Any = visible(definition, access)
    if isinstance(shown, Coroutine):  # it would count as True
        shown.close()
        raise TypeError("visible= returned a coroutine; it must be a plain function")
    return bool(shown)


# --- Catalogs ---

Entry = TypeVar("Entry", bound=Listable)


@define(eq=False)
class _Listed(Generic[Entry]):
    """An entry, its place, and its JSON by revision."""

    entry: Entry
    visible: Visible[Any] | None = None
    """Decides who sees the entry; None if everybody does."""
    is_listed: bool = True
    """True if the entry is in the list; if not, it is found by its name all the same."""
    place: int = field(default=0, init=False)
    """Grows with each registration, so that a cursor stays valid when entries are added and removed; 0 before."""
    json: dict[str, bytes] = field(factory=dict[str, bytes], init=False)

    def encoded(self, revision: str) -> bytes:
        """Return the entry's JSON."""
        if revision not in self.json:
            self.json[revision] = encode(self.entry.published(revision))
        return self.json[revision]


def _ignore(_: ShownTo | None) -> None:
    """Do nothing."""


@define(eq=False)
class Catalog(Generic[Entry]):
    """The entries of one list. Any thread may add and remove entries at any time.

    Args:
        kind: the name of an entry in errors, such as ``"tool"``.
        method: the list request, such as ``"tools/list"``.
        member: the member of its result, such as ``"tools"``.
    """

    kind: str
    method: str
    member: str
    changed: Callable[[ShownTo | None], None] = field(default=_ignore, init=False)
    """Called after each change, in the thread that made it, with who sees the entry; None if everybody does."""
    visible: Visible[Any] | None = field(default=None, init=False)
    """Decides who sees each entry, beside the predicate of the entry itself; set before there are entries."""
    varies: bool = field(default=False, init=False)
    """True if the list depends on the caller."""
    offered: bool = field(default=False, init=False)
    """True if anything was ever registered, because a declared list is answered even when it has become empty."""
    version: int = field(default=0, init=False)
    """Grows with each change."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _listed: dict[str, _Listed[Entry]] = field(factory=dict[str, _Listed[Entry]], init=False)
    _places: int = field(default=0, init=False)
    _pages: dict[tuple[str, int], tuple[JsonText, int | None]] = field(
        factory=dict[tuple[str, int], "tuple[JsonText, int | None]"], init=False
    )
    """By revision and the place after which a page begins: its JSON, and the place of its last entry if more follow."""

    def __iter__(self) -> Iterator[Entry]:
        return (listed.entry for listed in list(self._listed.values()))

    def get(self, name: str) -> Entry | None:
        """Return the entry of this name; None if there is none."""
        listed = self._listed.get(name)
        return None if listed is None else listed.entry

    def find(self, name: str, access: Access | None) -> Entry | None:
        """Return the entry of this name; None if there is none, or if it is hidden from the caller."""
        listed = self._listed.get(name)
        if listed is None or (self.varies and not self._shows(listed, access)):
            return None
        return listed.entry

    def shown(self, access: Access | None) -> Iterator[Entry]:
        """Return the entries that a caller sees."""
        if not self.varies:
            return iter(self)
        return (listed.entry for listed in list(self._listed.values()) if self._shows(listed, access))

    def restrict(self, visible: Visible[Any] | None) -> None:
        """Let a predicate decide on all entries; do nothing for None."""
        self.visible, self.varies = visible, visible is not None

    def check_free(self, name: str) -> None:
        """Raise ValueError if *name* is registered."""
        if name in self._listed:
            raise ValueError(f"a {self.kind} {name!r} is registered already")

    def add(self, name: str, entry: Entry, visible: Visible[Any] | None = None, *, listed: bool = True) -> None:
        """Register an entry.

        Args:
            visible: decides who sees it; everybody for None.
            listed: True if the entry is in the list; False if it is only found by its name.

        Raises:
            ValueError: the name is registered, or the definition of the entry is not valid.
            TypeError: the definition of the entry is not valid.
        """
        check_visible(f"{self.kind} {name!r}", visible)
        new = _Listed(entry, visible, listed)
        try:  # because one invalid entry would make the whole list unreadable
            kind: Any = entry.definition.__class__
            types.structure(types.unstructure(entry.definition), kind)
            new.encoded(types.REVISIONS[-1])
        except (StructureError, NotJsonError) as error:
            raise ValueError(f"{self.kind} {name!r}: {error}") from error
        except TypeError as error:
            raise TypeError(f"{self.kind} {name!r}: {error}") from error
        with self._lock:
            self.check_free(name)
            self._places = new.place = self._places + 1
            self.offered, self.varies = True, self.varies or visible is not None
            self._listed[name] = new  # after `varies`, which other threads read without the lock
            self._pages.clear()
            self.version += 1
        self._notify(new)

    def remove(self, name: str) -> None:
        """Remove an entry; requests in flight continue. Raises KeyError if there is none of this name."""
        with self._lock:
            listed = self._listed.pop(name)
            self.varies = self.visible is not None or any(each.visible is not None for each in self._listed.values())
            self._pages.clear()
            self.version += 1
        self._notify(listed)

    def page(
        self, revision: str, cursor: str | None, size: int | None, cursors: Cursors, access: Access | None
    ) -> JsonObject:
        """Return the result of the list request.

        If a client requests all pages, an entry that exists throughout is on exactly one page, even if other entries
        are added or removed meanwhile.

        Args:
            cursor: the cursor that the client sent; None for the first page.
            size: the number of entries of a page; None for all on one page.
            access: the caller; it gets no page that holds what is hidden from it, and no number of such entries.

        Raises:
            McpError: the cursor is not valid for this list.
        """
        after = 0 if cursor is None else cursors.read(self.method, cursor)
        page = self._kept_page(revision, after, size)
        varies = page is None
        if page is None:
            later = [listed for listed in list(self._listed.values()) if listed.place > after and listed.is_listed]
            page = _make_page((listed for listed in later if self._shows(listed, access)), revision, size)
        entries, last = page
        result: JsonObject = {self.member: entries}
        if varies and is_modern(revision):
            result["cacheScope"] = "private"  # whatever the hint of the server says
        if last is not None:
            result["nextCursor"] = cursors.seal(self.method, last)
        return result

    def _kept_page(self, revision: str, after: int, size: int | None) -> tuple[JsonText, int | None] | None:
        """Return a page of a list that is the same for everybody; None if the list varies."""
        with self._lock:
            if self.varies:
                return None
            page = self._pages.get((revision, after))
            if page is None:
                following = (listed for listed in self._listed.values() if listed.place > after and listed.is_listed)
                page = _make_page(following, revision, size)
                if len(self._pages) < _MOST_PAGES:
                    self._pages[revision, after] = page
            return page

    def _notify(self, listed: _Listed[Entry]) -> None:
        """Report that the list has changed, if the entry is in it."""
        if listed.is_listed:
            self.changed(self._shown_to(listed))

    def _shown_to(self, listed: _Listed[Entry]) -> ShownTo | None:
        if self.visible is None and listed.visible is None:
            return None
        return partial(self._shows, listed)

    def _shows(self, listed: _Listed[Entry], access: Access | None) -> bool:
        """Return True if a caller sees an entry; a predicate that fails hides it."""
        definition = listed.entry.definition
        try:
            return all(
                _says(visible, definition, access) for visible in (self.visible, listed.visible) if visible is not None
            )
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 # it may raise anything, which must not end the connection
            _log.exception("visible= of %s %r failed, which hides it", self.kind, definition.name)
            return False


def _make_page(following: Iterator[_Listed[Any]], revision: str, size: int | None) -> tuple[JsonText, int | None]:
    """Return the JSON of the next entries, and the place of the last one if more follow."""
    entries = list(islice(following, size))
    more = next(following, None) is not None
    text = b"[" + b",".join(listed.encoded(revision) for listed in entries) + b"]"
    return json_text(text), entries[-1].place if more else None


def with_texts(published: JsonObject, texts: Mapping[str, JsonText]) -> JsonObject:
    """Return *published* with those members replaced that were given as JSON text."""
    return {member: texts.get(member, value) for member, value in published.items()} if texts else published


# --- Scopes ---

NO_SCOPES = frozenset[str]()

_SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""The syntax of RFC 6749, section 3.3."""


def check_scopes(where: str, scopes: Sequence[str]) -> frozenset[str]:
    """Return the scopes as a set.

    Args:
        where: the name of what needs them, in errors.

    Raises:
        ValueError: *scopes* is a single string, or contains an invalid scope.
    """
    if isinstance(scopes, str):
        raise ValueError(f"{where}: scopes={scopes!r}: must be a list of strings, such as [{scopes!r}]")
    for scope in cast("Sequence[object]", scopes):
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            raise ValueError(
                f"{where}: {scope!r} is not a scope; use visible ASCII without spaces, quotes, backslashes"
            )
    return frozenset(scopes)


# --- Cache hints ---

CacheableMethod: TypeAlias = Literal[
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
]
"""The requests whose results clients may cache, from 2026-07-28 on. A result without a hint is stale at once."""

_SCOPES = ("private", "public")
_MOST_MILLISECONDS = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""


def _duration(_: object, attribute: Attribute[Any], value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= cast("float", value) * 1000 <= _MOST_MILLISECONDS:  # excludes NaN and infinity
        raise ValueError(f"CacheHint({attribute.name}={value!r}): must be a number of seconds, 0 or more")


def _scope(_: object, attribute: Attribute[Any], value: object) -> None:
    if value not in _SCOPES:
        raise ValueError(f"CacheHint({attribute.name}={value!r}): must be 'private' or 'public'")


@frozen(kw_only=True)
class CacheHint:
    """A hint that tells clients how long they may cache a result, and for whom.

    Raises:
        ValueError: *ttl* is not a number of seconds, or *scope* is not valid.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """

    ttl: float = field(default=0.0, validator=_duration)
    """The seconds for which the result is fresh, to the millisecond; 0 if it is stale at once.

    A client that listens is notified of changes in any case, and requests the result again."""
    scope: Literal["private", "public"] = field(default="private", validator=_scope)
    """The users who may share the cached result: ``"private"`` for the caller only, ``"public"`` for all users.

    It is not an access control: do not use ``"public"`` for results that depend on the caller."""

    @property
    def ttl_ms(self) -> int:
        """`ttl` in milliseconds, as it is sent."""
        return round(self.ttl * 1000)

    def to_wire(self) -> JsonObject:
        """Return the members of a result for this hint."""
        return {"ttlMs": self.ttl_ms, "cacheScope": self.scope}


NOT_KEPT = CacheHint()
"""The default hint."""


def check_hint(where: str, hint: object) -> CacheHint | None:
    """Return *hint*, which may be None.

    Raises:
        TypeError: it is not a `CacheHint`.
    """
    if hint is not None and not isinstance(hint, CacheHint):
        raise TypeError(f"{where}: cache={hint!r}: must be a CacheHint")
    return hint


def check_hints(hints: object) -> Mapping[str, CacheHint]:
    """Return the hints of a server by method; empty for None.

    Raises:
        ValueError: the results of a method cannot be cached.
        TypeError: *hints* is not a mapping, or a value is not a `CacheHint`.
    """
    if hints is None:
        return {}
    if not isinstance(hints, Mapping):
        raise TypeError(f"cache={hints!r}: must be a mapping of methods, such as {{'tools/list': CacheHint(ttl=60)}}")
    known, checked = get_args(CacheableMethod), dict[str, CacheHint]()
    for method, hint in cast("Mapping[object, object]", hints).items():
        if method not in known:
            raise ValueError(f"cache: results of {method!r} cannot be cached; use {', '.join(known)}")
        if not isinstance(hint, CacheHint):
            raise TypeError(f"cache[{method!r}]={hint!r}: must be a CacheHint")
        checked[str(method)] = hint
    return checked


# --- Answers ---


@frozen(eq=False)
class ListResponder:
    """Answers the requests for one list."""

    _catalog: Catalog[Any]
    _page_size: int | None
    _cursors: Cursors
    waits: bool = field(default=False, init=False)
    may_ask: bool = field(default=False, init=False)

    async def call(self, context: Context, params: Any) -> JsonObject:
        """Return the page that a request names."""
        return self._catalog.page(context.revision, params.cursor, self._page_size, self._cursors, context.access)


@frozen(eq=False)
class NotFound:
    """Refuses a request for something that is not registered, or that its caller does not see."""

    _kind: str
    _name: str
    _catalog: Catalog[Any]
    waits: bool = field(default=False, init=False)
    may_ask: bool = field(default=False, init=False)

    async def call(self, context: Context, params: Any) -> Any:
        """Raise the refusal, with the names that are like the one in the request."""
        del params
        known = (entry.definition.name for entry in self._catalog.shown(context.access))
        raise McpError(INVALID_PARAMS, f"no {self._kind} {self._name!r}{did_you_mean(self._name, known)}")
