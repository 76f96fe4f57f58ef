"""Apps: pages of a server that hosts show beside the results of its tools (`io.modelcontextprotocol/ui`).

`_csp` and `_metadata` write the metadata of a server and read it, and `_client` reads a whole app. `_bridge` is the
host's side of the messages between a page and its host, without I/O, and `_view` runs it with a client.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
    from ._bridge import Bridge as Bridge
    from ._bridge import BridgeEvent as BridgeEvent
    from ._bridge import CallPhase as CallPhase
    from ._bridge import CloseRequested as CloseRequested
    from ._bridge import DisplayModeRequested as DisplayModeRequested
    from ._bridge import DownloadRequested as DownloadRequested
    from ._bridge import LinkRequested as LinkRequested
    from ._bridge import MessageRequested as MessageRequested
    from ._bridge import ModelContextChanged as ModelContextChanged
    from ._bridge import RequestCancelled as RequestCancelled
    from ._bridge import ServerRequested as ServerRequested
    from ._bridge import SizeChanged as SizeChanged
    from ._bridge import ToolCallRequested as ToolCallRequested
    from ._bridge import ViewClosed as ViewClosed
    from ._bridge import ViewLogged as ViewLogged
    from ._bridge import ViewReady as ViewReady
    from ._bridge import ViewState as ViewState
    from ._client import App as App
    from ._client import read_app as read_app
    from ._csp import Csp as Csp
    from ._metadata import APP_TYPE as APP_TYPE
    from ._metadata import EXTENSION as EXTENSION
    from ._metadata import PERMISSIONS as PERMISSIONS
    from ._metadata import AppPermission as AppPermission
    from ._metadata import AppResourceOptions as AppResourceOptions
    from ._metadata import Visibility as Visibility
    from ._metadata import app_options as app_options
    from ._metadata import app_uri as app_uri
    from ._metadata import shows_apps as shows_apps
    from ._metadata import tool_options as tool_options
    from ._metadata import visibility_of as visibility_of
    from ._view import AppHost as AppHost
    from ._view import View as View
    from ._view import open_view as open_view
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "": ("types",),
            "_bridge": (
                "Bridge", "BridgeEvent", "CallPhase", "CloseRequested", "DisplayModeRequested",
                "DownloadRequested", "LinkRequested", "MessageRequested", "ModelContextChanged",
                "RequestCancelled", "ServerRequested", "SizeChanged", "ToolCallRequested", "ViewClosed", "ViewLogged",
                "ViewReady", "ViewState",
            ),
            "_client": ("App", "read_app"),
            "_csp": ("Csp",),
            "_metadata": (
                "APP_TYPE", "EXTENSION", "PERMISSIONS", "AppPermission", "AppResourceOptions", "Visibility",
                "app_options", "app_uri", "shows_apps", "tool_options", "visibility_of",
            ),
            "_view": ("AppHost", "View", "open_view"),
        },
    )  # fmt: skip
