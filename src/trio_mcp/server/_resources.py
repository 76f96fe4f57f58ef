"""Resources and resource templates: their registry, and reading them.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from .. import types
from .._errors import McpError
from ..wire import INVALID_PARAMS, UriTemplate, is_modern
from ._context import Context
from ._functions import TextFunction, look_at, name_of

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["Resources"]

RESOURCE_NOT_FOUND = -32002
"""What the legacy revisions answer; from 2026-07-28 on it is -32602."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)

Contents = types.TextResourceContents | types.BlobResourceContents


@frozen
class _Registered:
    """One resource or template, and the function behind it."""

    definition: types.Resource | types.ResourceTemplate
    template: UriTemplate
    function: TextFunction


@define(eq=False)
class Resources:
    """The registry of one server."""

    _registered: dict[str, _Registered] = field(factory=dict[str, _Registered], init=False)
    offered: bool = field(default=False, init=False)
    """Whether anything was ever registered: what was declared once is answered, with an empty list if need be."""

    def add(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None,
        title: str | None,
        description: str | None,
        mime_type: str | None,
    ) -> None:
        """Register a function; see `Server.resource`."""
        name = name or name_of(function)
        template, looked_at = UriTemplate(uri), look_at(function, name)
        if not _SCHEME.fullmatch(uri):
            raise ValueError(f"{uri!r} is no URI: it begins with a scheme, as in 'notes://today'")
        if uri in self._registered:
            raise ValueError(f"a resource {uri!r} is registered already")
        if set(looked_at.parameters) != set(template.variables):
            theirs, ours = (", ".join(names) or "none" for names in (looked_at.parameters, template.variables))
            raise ValueError(f"{name}: the parameters ({theirs}) are not the variables of {uri!r} ({ours})")
        facts: dict[str, Any] = {
            "name": name,
            "title": title,
            "description": description or looked_at.docstring.description or None,
            "mime_type": mime_type,
        }
        definition: types.Resource | types.ResourceTemplate
        if template.variables:
            definition = types.ResourceTemplate(uri_template=uri, **facts)
        else:
            definition = types.Resource(uri=uri, **facts)
        self._registered[uri] = _Registered(definition, template, looked_at)
        self.offered = True

    def remove(self, uri: str) -> None:
        """Take a resource or template out; raises KeyError where *uri* is not registered."""
        del self._registered[uri]

    def definitions(self) -> list[types.Resource]:
        """Return what `resources/list` answers."""
        return [one.definition for one in self._registered.values() if isinstance(one.definition, types.Resource)]

    def templates(self) -> list[types.ResourceTemplate]:
        """Return what `resources/templates/list` answers."""
        every = (one.definition for one in self._registered.values())
        return [one for one in every if isinstance(one, types.ResourceTemplate)]

    async def read(self, serving: Serving, context: Context, uri: str) -> types.ReadResourceResult:
        """Answer `resources/read`.

        Raises:
            McpError: no resource has this URI.
        """
        found, variables = self._find(uri, context.revision)
        value = await found.function.call(serving, variables, context)
        if isinstance(value, types.ReadResourceResult):
            return value
        values = value if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownVariableType] # a user's value
        return types.ReadResourceResult(contents=[_contents(each, uri, found.definition) for each in values])  # pyright: ignore[reportUnknownVariableType] # likewise

    def _find(self, uri: str, revision: str) -> tuple[_Registered, dict[str, str]]:
        exact = self._registered.get(uri)
        if exact is not None and not exact.template.variables:
            return exact, {}
        for one in self._registered.values():
            variables = one.template.match(uri) if one.template.variables else None
            if variables is not None:
                return one, variables
        code = INVALID_PARAMS if is_modern(revision) else RESOURCE_NOT_FOUND
        raise McpError(code, f"no resource {uri!r}", {"uri": uri})


def _contents(value: Any, uri: str, definition: types.Resource | types.ResourceTemplate) -> Contents:
    if isinstance(value, types.TextResourceContents | types.BlobResourceContents):
        return value
    if isinstance(value, str):
        return types.TextResourceContents(uri=uri, mime_type=definition.mime_type or "text/plain", text=value)
    if isinstance(value, bytes | bytearray):
        mime_type = definition.mime_type or "application/octet-stream"
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(value).decode())
    raise TypeError(f"resource {uri!r} returned {type(value).__name__}; it may return text, bytes or contents")
