"""A server with apps, made with the official SDK and run by that SDK's interpreter: ``python official_apps.py``."""

from __future__ import annotations

import importlib
from typing import Any

# By name, because type checkers run where the official SDK is not installed.
apps_module = importlib.import_module("mcp.server.apps")
server_module = importlib.import_module("mcp.server.mcpserver")

PAGE = "<!doctype html><title>Clock</title>"
apps = apps_module.Apps()


def clock(ctx: Any) -> str:
    """Tell the time, in words that fit the client."""
    return "shown" if apps_module.client_supports_apps(ctx) else "five o'clock"


clock.__annotations__ = {"ctx": server_module.Context, "return": str}
apps.tool(resource_uri="ui://clock/app.html")(clock)


def wind(turns: int) -> int:
    """Wind the clock; for the app."""
    return turns * 2


apps.tool(resource_uri="ui://clock/app.html", visibility=["app"])(wind)

apps.add_html_resource(
    "ui://clock/app.html",
    PAGE,
    csp=apps_module.ResourceCsp(connect_domains=["https://time.example"]),
    permissions=apps_module.ResourcePermissions(geolocation={}),
    prefers_border=True,
)
server_module.MCPServer("clock", extensions=[apps]).run("stdio")
