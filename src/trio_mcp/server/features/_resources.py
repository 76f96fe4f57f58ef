"""Resources and resource templates: registering them, and reading one.

Rules of this file:

1. A URI identifies one resource: resources take precedence over templates, and templates are tried in the order of
   their registration.
2. The values of a template's variables are decoded once. A value that could escape from its place in a path (``..``,
   absolute paths, in any encoding) is refused, unless the author allows it.
3. A URI that no resource or template accepts is not found, for any reason.
4. A list of bytes, contents, images, audio or text blocks is several contents. A list of anything else, a dict or an
   object is data: one JSON text.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from attrs import define, evolve, field, frozen

from ... import types
from ..._errors import McpError, ResourceNotFound
from ...peer import Access
from ...schema import Form
from ...wire import INVALID_PARAMS, NotJsonError, UriTemplate, encode, escapes, is_modern, is_uri
from .._context import Context
from ..signature import ArgumentFaults, mentions
from ._catalog import NO_SCOPES, CacheHint, Catalog, Listable, Visible, check_hint, check_scopes
from ._content import CONTENT_CLASSES, Audio, Image, NotReturnable, check_returns, to_plain
from ._prompts import TextFunction, look_at, name_of, title_of

__all__ = ["Contents", "Resources"]

RESOURCE_NOT_FOUND = -32002
"""The error code of legacy revisions, and of `ResourceNotFound`; from 2026-07-28 on it is sent as -32602."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_SAFE = ":/?#[]@!$&'()*+,;=%"
"""The characters that are not encoded in a suggested URI."""

Contents: TypeAlias = "str | bytes | types.TextResourceContents | types.BlobResourceContents"
"""The contents of a resource: a string, bytes, or contents with a URI and a media type of their own."""
_SEVERAL = (
    bytes, bytearray, types.TextResourceContents, types.BlobResourceContents, types.TextContent, Image, Audio,
)  # fmt: skip
"""The classes of contents that make several contents of a list (rule 4)."""
_BLOCKS = tuple(cls for cls in CONTENT_CLASSES if cls is not types.TextContent)
"""The content of tools and prompts that cannot be that of a resource; its JSON would be of a block, not of data."""
_RETURNED = (str, *_SEVERAL, types.ReadResourceResult)
_DATA: frozenset[Form] = frozenset({"object", "array"})
_CURE = (
    "return a string, bytes, contents, or data whose JSON is an object or array (a dict, list, dataclass or model); "
    "an image or audio is Image(data, mime_type) or Audio(data, mime_type); "
    "raise ResourceNotFound if there is no such resource"
)


@frozen
class _Resource(Listable):
    """A resource with one URI."""

    definition: types.Resource
    function: TextFunction | None
    constant: types.ReadResourceResult | None = None
    """The result, if there is no function."""
    hint: CacheHint | None = None
    """The cache hint; None for the server's hint."""
    scopes: frozenset[str] = NO_SCOPES
    """The scopes that a reader needs."""
    is_private: bool = False
    """True if not everybody may read it, so that its contents must not be shared."""
    contents_meta: Mapping[str, Any] | None = None
    """Members for the `_meta` of each of its contents."""

    @property
    def waits(self) -> bool:
        """True if reading it may wait for something."""
        return self.function is not None and self.function.waits

    @property
    def may_ask(self) -> bool:
        """True if the function takes a `Context`, and may ask questions."""
        return self.function is not None and self.function.may_ask

    async def call(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Answer `resources/read`.

        Raises:
            McpError: the function reports that there is no such resource.
        """
        try:
            value = self.constant if self.function is None else await self.function.call(context, {})
        except McpError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
            raise _not_found(error, context, params.uri) from error
        return _result(value, params.uri, self)


@frozen
class _Template(Listable):
    """The resources whose URIs match a template."""

    definition: types.ResourceTemplate
    function: TextFunction
    template: UriTemplate
    allow_traversal: bool
    hint: CacheHint | None = None
    """The cache hint; None for the server's hint."""
    scopes: frozenset[str] = NO_SCOPES
    """The scopes that a reader needs."""
    is_private: bool = False
    """True if not everybody may read it, so that its contents must not be shared."""
    contents_meta: Mapping[str, Any] | None = None
    """Members for the `_meta` of each of its contents."""

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values of the variables in *uri*; None if it does not match the template (rule 2)."""
        values = self.template.match(uri)
        if values is None or (not self.allow_traversal and any(escapes(value) for value in values.values())):
            return None
        left_out = self.template.exploded - values.keys()
        return values | {name: [] for name in left_out if self.function.requires(name)}


@define(eq=False)
class Resources:
    """The resources and resource templates of one server. They may be added and removed while it is being served."""

    catalog: Catalog[_Resource] = field(
        factory=lambda: Catalog[_Resource]("resource", "resources/list", "resources"), init=False
    )
    templates: Catalog[_Template] = field(
        factory=lambda: Catalog[_Template]("resource template", "resources/templates/list", "resourceTemplates"),
        init=False,
    )
    waits: bool = field(default=True, init=False)
    """True, because reading a resource of a template may wait for something."""
    may_ask: bool = field(default=False, init=False)
    """True if the function of any template has taken a `Context`, and may ask questions."""

    @property
    def offered(self) -> bool:
        """True if anything was ever registered."""
        return self.catalog.offered or self.templates.offered

    def add(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        contents_meta: Mapping[str, Any] | None = None,
        size: int | None = None,
        allow_traversal: bool = False,
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[Any] | None = None,
        listed: bool = True,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Register a function; see `Server.resource`.

        Args:
            namespace: names for annotations, in addition to those of the function's module.
        """
        name = name or name_of(function)
        looked_at, template = look_at(function, name, namespace), UriTemplate(uri)
        check_returns(looked_at.returns, f"resource {name!r}", _RETURNED, _DATA, _CURE, never=_BLOCKS)
        others = (*self._check_protection(name, cache, scopes, visible), contents_meta)
        _check_uri(uri, template.variables)
        if set(looked_at.parameters) != set(template.variables):
            theirs, ours = (", ".join(names) or "none" for names in (looked_at.parameters, template.variables))
            raise ValueError(f"{name}: the parameters ({theirs}) are not the variables of {uri!r} ({ours})")
        for each in template.exploded:
            if not looked_at.takes_list(each):
                raise ValueError(f"{name}: {each}* in {uri!r} is a list, but parameter {each!r} does not accept lists")
        facts: dict[str, Any] = {
            "name": name,
            "title": title_of(name) if title is None else title,
            "description": description or looked_at.description,
            "mime_type": mime_type,
            "annotations": annotations,
            "icons": icons,
            "meta": None if meta is None else dict(meta),
        }
        if not template.variables:
            resource = types.Resource(uri=uri, size=size, **facts)
            self.catalog.add(uri, _Resource(resource, looked_at, None, *others), visible, listed=listed)
            return
        if size is not None:
            raise ValueError(f"{name}: a template has no size; remove size=")
        definition = types.ResourceTemplate(uri_template=uri, **facts)
        entry = _Template(definition, looked_at, template, allow_traversal, *others)
        self.templates.add(uri, entry, visible, listed=listed)
        self.may_ask = self.may_ask or looked_at.may_ask

    def add_static(
        self,
        uri: str,
        contents: Contents | Sequence[Contents],
        *,
        name: str,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        contents_meta: Mapping[str, Any] | None = None,
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[Any] | None = None,
        listed: bool = True,
    ) -> None:
        """Register constant contents. The size of a single string or bytes object is published too.

        Args:
            uri: the URI of the resource.
            contents: a string, bytes, `types.TextResourceContents` or `types.BlobResourceContents`, or a list of them.
            name: the name of the resource.
            title: the name to display to users; by default it is made from *name*.
            description: a description.
            mime_type: the media type; by default ``text/plain`` for strings and ``application/octet-stream`` for bytes.
            annotations: hints about the intended audience.
            icons: icons of the resource.
            meta: the resource's `_meta`.
            contents_meta: members for the `_meta` of each of the contents; see `Server.resource`.
            cache: the cache hint for clients; by default that of `Server` for all resources.
            scopes: the scopes that a caller needs; see `Server.resource`.
            visible: decides who sees the resource; see `Server.tool`.
            listed: False to leave the resource out of the list; see `Server.resource`.

        Raises:
            ValueError: the URI is registered or not valid; or as `Server.resource` says of *scopes*.
            TypeError: *contents* are none of these, *cache* is not a `CacheHint`, or *visible* is not a plain function.
        """
        _check_uri(uri)
        size: int | None = None
        if isinstance(contents, str | bytes):
            size = len(contents.encode() if isinstance(contents, str) else contents)
        definition = types.Resource(
            uri=uri,
            name=name,
            title=title_of(name) if title is None else title,
            description=description,
            mime_type=mime_type,
            annotations=annotations,
            icons=icons,
            size=size,
            meta=None if meta is None else dict(meta),
        )
        one = (str, bytes, types.TextResourceContents, types.BlobResourceContents)
        held: Sequence[Contents] = [contents] if isinstance(contents, one) else contents
        try:
            constant = types.ReadResourceResult(contents=[_as_contents(each, uri, mime_type) for each in held])
        except TypeError as error:
            raise TypeError(f"resource {name!r}: {error}") from None
        protection = self._check_protection(name, cache, scopes, visible)
        self.catalog.add(uri, _Resource(definition, None, constant, *protection, contents_meta), visible, listed=listed)

    def _check_protection(
        self, name: str, cache: CacheHint | None, scopes: Sequence[str], visible: Visible[Any] | None
    ) -> tuple[CacheHint | None, frozenset[str], bool]:
        """Return the checked cache hint and scopes of a resource, and True if its contents are private."""
        hint, needed = check_hint(name, cache), check_scopes(name, scopes)
        own = "needs scopes" if needed else "has visible=" if visible is not None else ""
        if own and hint is not None and hint.scope == "public":
            raise ValueError(f"{name}: cache={hint!r} is public, but the resource {own}; use scope='private'")
        is_private = own != "" or self.catalog.visible is not None
        if is_private and hint is not None:
            hint = evolve(hint, scope="private")
        return hint, needed, is_private

    def scopes_of(self, uri: object, access: Access | None) -> frozenset[str]:
        """Return the scopes that reading *uri* needs; empty if the caller sees no such resource."""
        found = self.catalog.find(uri, access) if isinstance(uri, str) else None
        if found is not None:
            return found.scopes
        if not isinstance(uri, str) or not any(template.scopes for template in self.templates):
            return NO_SCOPES
        try:
            template, _ = self._find(uri, access)
        except ResourceNotFound:
            return NO_SCOPES
        return template.scopes

    def scopes_of_template(self, uri: object, access: Access | None) -> frozenset[str]:
        """Return the scopes of the template that was registered as *uri*; empty if the caller sees none."""
        template = self.templates.find(uri, access) if isinstance(uri, str) else None
        return NO_SCOPES if template is None else template.scopes

    def has(self, uri: str) -> bool:
        """Return True if *uri* is registered, or matches the variables of a registered template."""
        return self.catalog.get(uri) is not None or any(each.match(uri) is not None for each in self.templates)

    @property
    def varies(self) -> bool:
        """True if some resources are hidden from some callers, so that what is said of them must not be shared."""
        return self.catalog.varies

    def definition_of(self, uri: str, access: Access | None) -> types.Resource | None:
        """Return the definition of a resource, listed or not; None if there is none, or it is hidden from the caller.

        Args:
            uri: the URI that it was registered with; those of templates are not found.
            access: the caller, as in `Context.access`.
        """
        found = self.catalog.find(uri, access)
        return None if found is None else found.definition

    def remove(self, uri: str) -> None:
        """Remove a resource or template; raises KeyError if *uri* is not registered."""
        (self.templates if self.templates.get(uri) else self.catalog).remove(uri)

    async def call(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Answer `resources/read` for a URI of a template.

        Raises:
            McpError: the URI matches no template, or the function reports that there is no such resource.
        """
        try:
            template, bound = self._find(params.uri, context.access)
            value = await template.function.call(context, bound)
        except McpError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
            raise _not_found(error, context, params.uri) from error
        return _result(value, params.uri, template)

    def _find(self, uri: str, access: Access | None) -> tuple[_Template, dict[str, Any]]:
        """Return the template that *uri* matches, and its arguments (rules 1 and 3)."""
        faults = ""
        for template in self.templates.shown(access):
            values = template.match(uri)
            if values is not None:
                try:
                    return template, template.function.bind(values)
                except ArgumentFaults as error:
                    faults = faults or f": {'; '.join(error.faults)}"
        raise ResourceNotFound(f"no resource {uri!r}{faults}")


def _not_found(error: McpError, context: Context, uri: str) -> McpError:
    """Return the error for a resource that does not exist, in the client's revision."""
    code = INVALID_PARAMS if is_modern(context.revision) else RESOURCE_NOT_FOUND
    return McpError(code, error.message, {"uri": uri} if error.data is None else error.data)


def _check_uri(uri: str, variables: Sequence[str] = ()) -> None:
    if not _SCHEME.fullmatch(uri):
        raise ValueError(f"{uri!r} is not a URI; it must begin with a scheme, as in 'notes://today'")
    if not variables and not is_uri(uri):
        hint = f"; write {quote(uri, safe=_SAFE)!r}"
        raise ValueError(f"{uri!r} is not a URI: percent-encode spaces, braces and characters outside of ASCII{hint}")


def _result(value: Any, uri: str, found: _Resource | _Template) -> types.ReadResourceResult:
    result, hint = _with_contents_meta(_read(value, uri, found), found.contents_meta), found.hint
    if hint is not None:
        ttl_ms = hint.ttl_ms if result.ttl_ms is None else result.ttl_ms
        return evolve(result, ttl_ms=ttl_ms, cache_scope=result.cache_scope or hint.scope)
    if found.is_private:  # in spite of the server's hint, this resource must not be shared
        return evolve(result, cache_scope=result.cache_scope or "private")
    return result


def _with_contents_meta(result: types.ReadResourceResult, meta: Mapping[str, Any] | None) -> types.ReadResourceResult:
    """Return a result whose contents have these members in their `_meta`, beside and below those of their own."""
    if meta is None:
        return result
    return evolve(result, contents=[evolve(each, meta={**meta, **(each.meta or {})}) for each in result.contents])


def _read(value: Any, uri: str, found: _Resource | _Template) -> types.ReadResourceResult:
    if isinstance(value, types.ReadResourceResult):
        if value.ttl_ms is not None and (type(value.ttl_ms) is not int or value.ttl_ms < 0):
            raise ValueError(f"resource {uri!r} returned ttl_ms={value.ttl_ms!r}: must be an int of at least 0")
        if value.cache_scope not in (None, "private", "public"):
            raise ValueError(f"resource {uri!r} returned cache_scope={value.cache_scope!r}: use 'private' or 'public'")
        return value
    definition, function = found.definition, found.function
    assert function is not None  # constant contents are a whole result
    try:
        return types.ReadResourceResult(contents=_contents(value, uri, definition.mime_type, function.returns))
    except (NotJsonError, TypeError) as fault:
        raise NotReturnable(f"resource {definition.name!r}", value, fault, function.place) from fault


def _contents(
    value: Any, uri: str, mime_type: str | None, annotation: Any
) -> list[types.TextResourceContents | types.BlobResourceContents]:
    """Return what a function has returned as contents (rule 4).

    Args:
        annotation: the return annotation; it decides on lists of strings, and on empty lists.

    Raises:
        NotJsonError: it has no JSON form.
        TypeError: it is not data, or it is among contents.
    """
    if isinstance(value, list | tuple):
        values = cast("Sequence[Any]", value)
        kinds = set(map(type, values))
        if any(issubclass(kind, (*_SEVERAL, *_BLOCKS)) for kind in kinds) or (
            kinds <= {str} and mentions(annotation, _SEVERAL)
        ):
            return [_as_contents(each, uri, mime_type) for each in values]
    if isinstance(value, (str, *_SEVERAL)):
        return [_as_contents(value, uri, mime_type)]
    plain = None if isinstance(value, _BLOCKS) else to_plain(value)
    if not isinstance(plain, dict | list):
        raise TypeError(_CURE)
    text = encode(plain).decode()
    return [types.TextResourceContents(uri=uri, mime_type=mime_type or "application/json", text=text)]


def _as_contents(
    value: Any, uri: str, mime_type: str | None
) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(value, types.TextResourceContents | types.BlobResourceContents):
        return value
    if isinstance(value, str):
        return types.TextResourceContents(uri=uri, mime_type=mime_type or "text/plain", text=value)
    if isinstance(value, bytes | bytearray):
        mime_type = mime_type or "application/octet-stream"
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(value).decode())
    if isinstance(value, types.TextContent):
        mime_type = mime_type or "text/plain"
        return types.TextResourceContents(uri=uri, mime_type=mime_type, text=value.text, meta=value.meta)
    if isinstance(value, Image | Audio):
        return types.BlobResourceContents(uri=uri, mime_type=value.mime_type, blob=value.block().data)
    raise TypeError(f"contents are strings, bytes or types of contents, not {type(value).__name__}")
