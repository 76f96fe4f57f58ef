"""The metadata of apps: the members of `_meta` that a server writes for its apps and tools, and that a host reads.

Rules of this file:

1. What an app declares stands in the entry of the list and in the contents, because some hosts read only one of them.
2. A tool names its app in both spellings, because hosts in use read the older one.
3. A tool whose app does not exist is found when the server begins to serve, since either may be registered first.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from .. import RemoteProtocolError, types
from ..lowlevel import ServerExtensionPoints
from ..wire import JsonObject, is_array, is_object
from ._csp import Csp

if TYPE_CHECKING:
    from .. import CacheHint, Server

__all__ = [
    "APP_TYPE",
    "EXTENSION",
    "PERMISSIONS",
    "AppPermission",
    "AppResourceOptions",
    "Visibility",
    "app_options",
    "app_uri",
    "is_app_type",
    "shows_apps",
    "tool_options",
    "ui_of",
    "visibility_of",
]

EXTENSION = "io.modelcontextprotocol/ui"
"""The id of the extension."""
APP_TYPE = "text/html;profile=mcp-app"
"""The media type of the page of an app."""
_UI = "ui"
"""The member of `_meta` that holds the metadata of apps."""
_FLAT_URI = "ui/resourceUri"
"""The member of `_meta` that older hosts read instead of the URI in `_UI`."""

Visibility: TypeAlias = Literal["model", "app"]
"""A caller to which hosts offer a tool: the model, or the apps of the same server."""
AppPermission: TypeAlias = Literal["camera", "microphone", "geolocation", "clipboard_write"]
"""A permission that a page may ask the browser for."""
PERMISSIONS: Mapping[AppPermission, str] = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboard_write": "clipboardWrite",
}
"""The permissions, with their names in messages."""

_EVERYBODY = frozenset[Visibility](get_args(Visibility))


# --- What a host reads ---


def ui_of(meta: Mapping[str, Any] | None) -> JsonObject:
    """Return the metadata of apps in a `_meta`; empty if there is none."""
    ui: Any = (meta or {}).get(_UI)
    return ui if is_object(ui) else {}


def _is_app_uri(uri: object) -> bool:
    """Return True if *uri* is a string that begins with ``ui://``."""
    return isinstance(uri, str) and uri.lower().startswith("ui://")


def is_app_type(media_type: str | None) -> bool:
    """Return True if a media type is that of an app, whatever its case, spaces and quotes are."""
    return "".join((media_type or "").lower().split()).replace('"', "") == APP_TYPE


def app_uri(tool: types.Tool) -> str | None:
    """Return the URI of the app that shows the results of a tool; None if the tool has none.

    Raises:
        RemoteProtocolError: the server names something that is not the URI of an app.
    """
    uri: Any = ui_of(tool.meta).get("resourceUri")
    if uri is None:
        uri = (tool.meta or {}).get(_FLAT_URI)
    if uri is None:
        return None
    if not _is_app_uri(uri):
        raise RemoteProtocolError(f"tool {tool.name!r}: its app is {uri!r:.200}, which is not a URI of an app (ui://)")
    return str(uri)


def visibility_of(tool: types.Tool) -> frozenset[Visibility]:
    """Return the callers to which a host offers a tool: ``"model"``, ``"app"`` for the apps of its server, or both.

    By default both. Callers that are not known are left out.
    """
    declared: Any = ui_of(tool.meta).get("visibility")
    if not is_array(declared):
        return _EVERYBODY
    return frozenset(each for each in _EVERYBODY if each in declared)


def shows_apps(settings: Mapping[str, Any]) -> bool:
    """Return True if a client that declares the extension with these settings shows pages in HTML."""
    shown: Any = settings.get("mimeTypes")
    return is_array(shown) and any(isinstance(each, str) and is_app_type(each) for each in shown)


# --- Options of a server ---


class AppResourceOptions(TypedDict, total=False):
    """The options that an app has as a resource; see `Server.resource`."""

    name: str | None
    """The name of the resource; by default the name of the function."""
    title: str | None
    """The name to display to users."""
    description: str | None
    """A description of the app; by default the docstring of the function."""
    annotations: types.Annotations | None
    """Hints for the client about the resource."""
    icons: Sequence[types.Icon] | None
    """Icons of the app."""
    meta: Mapping[str, Any] | None
    """The other members of the `_meta` of the resource, as JSON."""
    cache: CacheHint | None
    """The cache hint of the page; by default that of the server for ``resources/read``."""
    scopes: Sequence[str]
    """The scopes that a caller needs to read the page; none by default."""
    visible: Any
    """A function that decides who sees the app; see `Server.resource`."""


def app_options(
    server: Server,
    uri: str,
    *,
    csp: Csp | None,
    permissions: Sequence[AppPermission],
    prefers_border: bool | None,
    domain: str | None,
    meta: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Declare the extension, and return the options of the resource of an app; see `Server.app`.

    Raises:
        ValueError: *uri* is not that of an app, or a permission does not exist, or *meta* describes the app itself.
        TypeError: *csp* is not a `Csp`, or an option does not exist.
    """
    where = f"@server.app({uri!r})"
    _check_app(where, uri, csp, permissions, meta)
    if unknown := sorted(options.keys() - AppResourceOptions.__annotations__.keys()):
        raise TypeError(f"{where}: there is no option {', '.join(map(repr, unknown))}")
    ui: dict[str, Any] = {"csp": (csp or Csp()).to_wire()}
    if permissions:
        ui["permissions"] = {PERMISSIONS[each]: {} for each in permissions}
    if prefers_border is not None:
        ui["prefersBorder"] = prefers_border
    if domain is not None:
        ui["domain"] = domain
    _declare(server)
    return {**options, "mime_type": APP_TYPE, "meta": {**(meta or {}), _UI: ui}, "contents_meta": {_UI: ui}}


def _check_app(where: str, uri: str, csp: object, permissions: Sequence[str], meta: Mapping[str, Any] | None) -> None:
    if not _is_app_uri(uri):
        raise ValueError(f"{where}: the URI of an app begins with 'ui://'")
    if not isinstance(csp, Csp | None):
        raise TypeError(f"{where}: csp={csp!r}: must be a Csp, such as Csp(connect=['https://api.example.com'])")
    if isinstance(permissions, str):
        raise TypeError(f"{where}: permissions={permissions!r}: must be a list of strings")
    for each in permissions:
        if each not in PERMISSIONS:
            raise ValueError(f"{where}: permission {each!r} does not exist; use {', '.join(PERMISSIONS)}")
    if _UI in (meta or {}):
        raise ValueError(f"{where}: meta has the member {_UI!r}, which the options of the app make")


def tool_options(
    server: Server,
    *,
    app: str | None = None,
    visibility: Sequence[Visibility] | None = None,
    meta: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Declare the extension, and return the options of a tool with *app* and *visibility* as part of its `_meta`.

    `Server.tool` calls this if it is given one of the two.

    Args:
        server: the server of the tool. It checks before each serving that it has the resource *app*.
        app: the URI of the app that shows the results of the tool, which begins with ``ui://``; None for no app.
        visibility: the callers that may see and call the tool: ``"model"``, ``"app"`` or both; None for both.
        meta: the other members of the tool's `_meta`.
        options: the other options of the tool, which are returned unchanged.

    Raises:
        ValueError: *app* is not the URI of an app, *visibility* has an unknown caller or none, or *meta* has the
            members that these options make.
        TypeError: *visibility* is a single string.
    """
    ui: dict[str, Any] = {}
    if app is not None:
        if not _is_app_uri(app):
            raise ValueError(f"@server.tool(app={app!r}): the URI of an app begins with 'ui://'")
        ui["resourceUri"] = app
    if visibility is not None:
        ui["visibility"] = _checked_visibility(visibility)
    if not ui:
        return {**options, "meta": meta}
    if _UI in (meta or {}):
        raise ValueError(f"@server.tool(meta=): the member {_UI!r} is made by app= and visibility=")
    flat = {} if app is None else {_FLAT_URI: app}
    _declare(server)
    if app is not None:
        ServerExtensionPoints(server).before_serving(partial(_check_link, server, app))
    return {**options, "meta": {**(meta or {}), _UI: ui, **flat}}


def _checked_visibility(visibility: Sequence[Visibility]) -> list[Visibility]:
    where = f"@server.tool(visibility={visibility!r})"
    if isinstance(visibility, str):
        raise TypeError(f"{where}: must be a list, such as [{visibility!r}]")
    if not visibility or not {*visibility} <= {*get_args(Visibility)}:
        raise ValueError(f"{where}: must be a list of one or both of {get_args(Visibility)!r}")
    return [*visibility]


def _declare(server: Server) -> None:
    if EXTENSION not in server.extensions:
        server.declare_extension(EXTENSION)


def _check_link(server: Server, uri: str) -> None:
    """Raise ValueError if a tool shows its results in an app that is not registered (rule 3)."""
    if server.resources.has(uri):
        return
    for tool in server.tools.catalog:
        if ui_of(tool.definition.meta).get("resourceUri") == uri:
            raise ValueError(
                f"tool {tool.definition.name!r}: its app {uri!r} is not registered; add @server.app({uri!r})"
            )
