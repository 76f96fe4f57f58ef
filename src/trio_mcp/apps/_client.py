"""Apps as a host reads them: the page of a tool, and what its server declares about it.

Rules of this file:

1. The metadata of the contents counts. That of the entry in the list of resources is read if the contents have none.
2. What does not fit is left out and reported, as long as the page itself can be shown: less is granted then.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attrs import field, frozen

from .. import Client, ErrorResponse, RemoteProtocolError, types
from ..wire import JsonObject, is_object
from ._csp import Csp
from ._metadata import APP_TYPE, PERMISSIONS, AppPermission, app_uri, is_app_type, ui_of

__all__ = ["App", "read_app"]

_log = logging.getLogger("trio_mcp.apps")


@frozen(kw_only=True)
class App:
    """A page that shows the results of a tool, and what its server asks the host for.

    Show it only in a sandbox: a frame of an origin of its own, with `policy` as its content security policy.
    """

    uri: str
    """The URI of its resource, such as ``"ui://chart"``."""
    html: str = field(repr=False)
    """The document."""
    csp: Csp = field(factory=Csp)
    """The origins that it may use."""
    permissions: frozenset[AppPermission] = frozenset()
    """The permissions that it asks the browser for. A host need not grant them."""
    prefers_border: bool | None = None
    """True if it wants a border, False if it wants none; None if the host decides."""
    domain: str | None = None
    """The origin that the server wants for the sandbox, in a form that the host defines."""
    ignored: Sequence[str] = ()
    """The parts of the server's metadata that are left out because it does not fit, each with the reason."""


async def read_app(client: Client, tool: types.Tool) -> App | None:
    """Read the app that shows the results of a tool; None if the tool has none. `Client.app_of` calls this.

    Args:
        client: a client of the server that has the tool.
        tool: the tool, as `Client.tools` lists it.

    Raises:
        RemoteProtocolError: the URI of the app, or its resource, is not that of an app.
    """
    uri = app_uri(tool)
    if uri is None:
        return None
    contents = _page_of((await client.read_resource(uri)).contents, tool, uri)
    ui = ui_of(contents.meta) or await _ui_in_list(client, uri)
    app = _app(uri, _html(contents, uri), ui)
    for each in app.ignored:
        _log.warning("app %s: ignored: %s", uri, each)
    return app


def _page_of(
    contents: Sequence[types.TextResourceContents | types.BlobResourceContents], tool: types.Tool, uri: str
) -> types.TextResourceContents | types.BlobResourceContents:
    for each in contents:
        if is_app_type(each.mime_type):
            return each
    found = ", ".join(repr(each.mime_type) for each in contents) or "no contents"
    raise RemoteProtocolError(f"tool {tool.name!r}: its app {uri!r} must have the type {APP_TYPE!r}, but has {found}")


def _html(contents: types.TextResourceContents | types.BlobResourceContents, uri: str) -> str:
    if isinstance(contents, types.TextResourceContents):
        return contents.text
    try:
        return base64.b64decode(contents.blob, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"app {uri!r}: its page is not UTF-8 in base64: {error}") from None


async def _ui_in_list(client: Client, uri: str) -> JsonObject:
    """Return the metadata of the app in the list of resources, which need not contain it."""
    with suppress(ErrorResponse):  # the server has no such list
        async for resource in client.resources():
            if resource.uri == uri:
                return ui_of(resource.meta)
    return {}


def _app(uri: str, html: str, ui: JsonObject) -> App:
    csp, faults = Csp.from_wire(ui.get("csp"))
    ignored = [*faults]
    asked: Any = ui.get("permissions")
    if asked is not None and not is_object(asked):
        ignored.append("permissions: it is not an object")
        asked = None
    border, domain = ui.get("prefersBorder"), ui.get("domain")
    if not isinstance(border, bool | None):
        ignored.append("prefersBorder: it is not a boolean")
        border = None
    if not isinstance(domain, str | None):
        ignored.append("domain: it is not a string")
        domain = None
    return App(
        uri=uri,
        html=html,
        csp=csp,
        permissions=frozenset(name for name, wire in PERMISSIONS.items() if is_object((asked or {}).get(wire))),
        prefers_border=border,
        domain=domain,
        ignored=ignored,
    )
