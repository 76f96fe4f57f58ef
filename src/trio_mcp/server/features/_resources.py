"""Resources and resource templates: registering them, and reading one.

Rules of this file:

1. A URI names one thing: a resource goes before the templates, and templates are tried in the order they were
   registered.
2. What a template's variables say is decoded once, and refused where it could lead out of its place (``..``, absolute
   paths, and all the ways to write them), unless the author allows it.
3. A URI that nothing answers is not found, whatever the reason; no reading of it is guessed.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from attrs import define, evolve, field, frozen

from ... import types
from ..._errors import McpError, ResourceNotFound
from ...wire import INVALID_PARAMS, UriTemplate, escapes, is_modern, is_uri
from .._context import Context
from ..signature import ArgumentFaults
from ._catalog import NO_SCOPES, CacheHint, Catalog, Listable, check_hint, check_scopes
from ._prompts import TextFunction, look_at, name_of

__all__ = ["Contents", "Resources"]

RESOURCE_NOT_FOUND = -32002
"""What the legacy revisions answer, and what a handler raises in any; from 2026-07-28 on it leaves as -32602."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_SAFE = ":/?#[]@!$&'()*+,;=%"
"""What stands for itself in a URI that is suggested."""

Contents: TypeAlias = "str | bytes | types.TextResourceContents | types.BlobResourceContents"
"""What a resource holds: text, bytes, or contents that say more about themselves."""


@frozen
class _Resource(Listable):
    """A resource with one URI."""

    definition: types.Resource
    function: TextFunction | None
    contents: tuple[Contents, ...] = ()
    """What it holds, if there is no function to ask."""
    hint: CacheHint | None = None
    """For how long what was read may be kept; None: as the server says of all."""
    scopes: frozenset[str] = NO_SCOPES
    """What must have been granted to whoever reads it."""

    @property
    def waits(self) -> bool:
        """Whether reading it may wait for something."""
        return self.function is not None and self.function.waits

    @property
    def may_ask(self) -> bool:
        """True if the function takes a `Context`, and may ask questions."""
        return self.function is not None and self.function.may_ask

    async def call(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Answer `resources/read`.

        Raises:
            McpError: its handler says that there is none.
        """
        try:
            value = self.contents if self.function is None else await self.function.call(context, {})
        except McpError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
            raise _not_found(error, context, params.uri) from error
        return _result(value, params.uri, self)


@frozen
class _Template(Listable):
    """Resources whose URIs follow a template."""

    definition: types.ResourceTemplate
    function: TextFunction
    template: UriTemplate
    allow_traversal: bool
    hint: CacheHint | None = None
    """As of a resource."""
    scopes: frozenset[str] = NO_SCOPES
    """Likewise."""

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values of the variables in *uri*, None where it is no URI of this template (rule 2)."""
        values = self.template.match(uri)
        if values is None or (not self.allow_traversal and any(escapes(value) for value in values.values())):
            return None
        left_out = self.template.exploded - values.keys()
        return values | {name: [] for name in left_out if self.function.requires(name)}


@define(eq=False)
class Resources:
    """The resources and resource templates of one server. They may come and go while it is being served."""

    catalog: Catalog[_Resource] = field(
        factory=lambda: Catalog[_Resource]("resource", "resources/list", "resources"), init=False
    )
    templates: Catalog[_Template] = field(
        factory=lambda: Catalog[_Template]("resource template", "resources/templates/list", "resourceTemplates"),
        init=False,
    )
    waits: bool = field(default=True, init=False)
    """Whether reading what follows a template may wait for something."""
    may_ask: bool = field(default=False, init=False)
    """True if the function of any template has taken a `Context`, and may ask questions."""

    @property
    def offered(self) -> bool:
        """Whether anything was ever registered."""
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
        size: int | None = None,
        allow_traversal: bool = False,
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Register a function; see `Server.resource`.

        Args:
            namespace: names that annotations may use beside those of the function's module.
        """
        name = name or name_of(function)
        looked_at, template = look_at(function, name, namespace), UriTemplate(uri)
        hint, needed = _check_protection(name, cache, scopes)
        _check_uri(uri, template.variables)
        if set(looked_at.parameters) != set(template.variables):
            theirs, ours = (", ".join(names) or "none" for names in (looked_at.parameters, template.variables))
            raise ValueError(f"{name}: the parameters ({theirs}) are not the variables of {uri!r} ({ours})")
        for each in template.exploded:
            if not looked_at.takes_list(each):
                raise ValueError(f"{name}: {each}* in {uri!r} is a list, which parameter {each!r} does not take")
        facts: dict[str, Any] = {
            "name": name,
            "title": title,
            "description": description or looked_at.description,
            "mime_type": mime_type,
            "annotations": annotations,
            "icons": icons,
            "meta": None if meta is None else dict(meta),
        }
        if not template.variables:
            resource = types.Resource(uri=uri, size=size, **facts)
            self.catalog.add(uri, _Resource(resource, looked_at, hint=hint, scopes=needed))
            return
        if size is not None:
            raise ValueError(f"{name}: a template has no size; leave size= out")
        definition = types.ResourceTemplate(uri_template=uri, **facts)
        self.templates.add(uri, _Template(definition, looked_at, template, allow_traversal, hint, needed))
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
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
    ) -> None:
        """Register contents that do not change; of a single text or bytes the size is published, too.

        Args:
            uri: where clients find it.
            contents: text, bytes, `types.TextResourceContents` or `types.BlobResourceContents`, or a list of them.
            name: its name.
            title: its name for people.
            description: what it is.
            mime_type: its media type; of text ``text/plain`` by default, of bytes ``application/octet-stream``.
            annotations: hints about whom it is for.
            icons: pictures of it.
            meta: its `_meta`.
            cache: for how long clients may keep it, and for whom; by default as `Server` says of all resources.
            scopes: what must have been granted to whoever reads it; see `Server.resource`.

        Raises:
            ValueError: the URI is registered, or is none; or as `Server.resource` says of *scopes*.
            TypeError: *cache* is no `CacheHint`.
        """
        _check_uri(uri)
        size: int | None = None
        if isinstance(contents, str | bytes):
            size = len(contents.encode() if isinstance(contents, str) else contents)
        definition = types.Resource(
            uri=uri,
            name=name,
            title=title,
            description=description,
            mime_type=mime_type,
            annotations=annotations,
            icons=icons,
            size=size,
            meta=None if meta is None else dict(meta),
        )
        one = (str, bytes, types.TextResourceContents, types.BlobResourceContents)
        held: tuple[Contents, ...] = (contents,) if isinstance(contents, one) else tuple(contents)
        for each in held:
            _as_contents(each, uri, mime_type)  # refused here rather than when it is read
        self.catalog.add(uri, _Resource(definition, None, held, *_check_protection(name, cache, scopes)))

    def scopes_of(self, uri: object) -> frozenset[str]:
        """Return what must have been granted to whoever reads *uri*; nothing where no resource has it."""
        found = self.catalog.get(uri) if isinstance(uri, str) else None
        if found is not None:
            return found.scopes
        if not isinstance(uri, str) or not any(template.scopes for template in self.templates):
            return NO_SCOPES
        try:
            template, _ = self._find(uri)
        except ResourceNotFound:
            return NO_SCOPES
        return template.scopes

    def scopes_of_template(self, uri: object) -> frozenset[str]:
        """Likewise, of the template that was registered as *uri*."""
        template = self.templates.get(uri) if isinstance(uri, str) else None
        return NO_SCOPES if template is None else template.scopes

    def remove(self, uri: str) -> None:
        """Take a resource or template out; raises KeyError where *uri* is not registered."""
        (self.templates if self.templates.get(uri) else self.catalog).remove(uri)

    async def call(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Answer `resources/read` where no resource has just this URI.

        Raises:
            McpError: it follows no template, or a handler says that there is nothing there.
        """
        try:
            template, bound = self._find(params.uri)
            value = await template.function.call(context, bound)
        except McpError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
            raise _not_found(error, context, params.uri) from error
        return _result(value, params.uri, template)

    def _find(self, uri: str) -> tuple[_Template, dict[str, Any]]:
        """Return the template that *uri* follows, and the arguments in it (rules 1 and 3)."""
        faults = ""
        for template in self.templates:
            values = template.match(uri)
            if values is not None:
                try:
                    return template, template.function.bind(values)
                except ArgumentFaults as error:
                    faults = faults or f": {'; '.join(error.faults)}"
        raise ResourceNotFound(f"no resource {uri!r}{faults}")


def _not_found(error: McpError, context: Context, uri: str) -> McpError:
    """Return what a client of its revision is told where there is nothing."""
    code = INVALID_PARAMS if is_modern(context.revision) else RESOURCE_NOT_FOUND
    return McpError(code, error.message, {"uri": uri} if error.data is None else error.data)


def _check_uri(uri: str, variables: Sequence[str] = ()) -> None:
    if not _SCHEME.fullmatch(uri):
        raise ValueError(f"{uri!r} is no URI: it begins with a scheme, as in 'notes://today'")
    if not variables and not is_uri(uri):
        hint = f"; write {quote(uri, safe=_SAFE)!r}"
        raise ValueError(f"{uri!r} is no URI: spaces, braces and characters outside ASCII are percent-encoded{hint}")


def _check_protection(
    name: str, cache: CacheHint | None, scopes: Sequence[str]
) -> tuple[CacheHint | None, frozenset[str]]:
    """Return who may keep what was read, and who may read it."""
    hint, needed = check_hint(name, cache), check_scopes(name, scopes)
    if needed and hint is not None and hint.scope == "public":
        raise ValueError(f"{name}: cache={hint!r} lets everybody have what needs scopes; say scope='private'")
    return hint, needed


def _result(value: Any, uri: str, found: _Resource | _Template) -> types.ReadResourceResult:
    result, hint = _read(value, uri, found.definition.mime_type), found.hint
    if hint is not None:
        ttl_ms = hint.ttl_ms if result.ttl_ms is None else result.ttl_ms
        return evolve(result, ttl_ms=ttl_ms, cache_scope=result.cache_scope or hint.scope)
    if found.scopes:  # whatever the server says of all resources, this one is not for everybody
        return evolve(result, cache_scope=result.cache_scope or "private")
    return result


def _read(value: Any, uri: str, mime_type: str | None) -> types.ReadResourceResult:
    if isinstance(value, types.ReadResourceResult):
        if value.ttl_ms is not None and (type(value.ttl_ms) is not int or value.ttl_ms < 0):
            raise ValueError(f"resource {uri!r} returned ttl_ms={value.ttl_ms!r}; it must be at least 0, and an int")
        if value.cache_scope not in (None, "private", "public"):
            raise ValueError(f"resource {uri!r} returned cache_scope={value.cache_scope!r}: 'private' or 'public'")
        return value
    values = value if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownVariableType] # a user's value
    return types.ReadResourceResult(contents=[_as_contents(each, uri, mime_type) for each in values])  # pyright: ignore[reportUnknownVariableType] # likewise


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
    raise TypeError(f"resource {uri!r} returned {type(value).__name__}; it may return text, bytes or contents")
