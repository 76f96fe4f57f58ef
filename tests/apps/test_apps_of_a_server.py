"""Apps of a server: what lists and contents say, what is refused, and what handlers know about their client."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import AppHost, Context, Csp, Server, open_client, types

UI = "io.modelcontextprotocol/ui"
TYPE = "text/html;profile=mcp-app"
PAGE = "<!doctype html><title>Chart</title>"
FIRST_WITH_META = "2025-06-18"


def make_server() -> Server:
    server = Server("charts")

    @server.tool(app="ui://chart", visibility=["model", "app"], meta={"com.example/odd": 1})
    async def sales(year: int, ctx: Context) -> str:
        return f"{year}: {'shown' if ctx.client_shows_apps else 'told'}"

    @server.app(
        "ui://chart",
        csp=Csp(connect=["https://api.example.com"]),
        permissions=["clipboard_write"],
        prefers_border=True,
        domain="charts.example",
        title="The chart",
        meta={"com.example/kept": True},
    )
    def chart() -> str:
        """Sales by month."""
        return PAGE

    return server


DECLARED: dict[str, Any] = {
    "csp": {"connectDomains": ["https://api.example.com"], "resourceDomains": []},
    "permissions": {"clipboardWrite": {}},
    "prefersBorder": True,
    "domain": "charts.example",
}


@pytest.mark.parametrize("revision", [each for each in types.REVISIONS if each >= FIRST_WITH_META])
async def test_a_client_of_any_revision_sees_the_link_and_the_declaration(revision: str) -> None:
    async with open_client(make_server(), revision=revision, apps=AppHost()) as client:
        (tool,) = [each async for each in client.tools()]
        (listed,) = [each async for each in client.resources()]
        (contents,) = (await client.read_resource("ui://chart")).contents
        extensions = client.extension(UI)

    assert tool.meta == {
        "com.example/odd": 1,
        "ui": {"resourceUri": "ui://chart", "visibility": ["model", "app"]},
        "ui/resourceUri": "ui://chart",
    }
    assert (listed.mime_type, listed.title, listed.description) == (TYPE, "The chart", "Sales by month.")
    assert listed.meta == {"com.example/kept": True, "ui": DECLARED}
    assert contents == types.TextResourceContents(uri="ui://chart", mime_type=TYPE, text=PAGE, meta={"ui": DECLARED})
    assert extensions == {}


async def test_an_app_says_that_it_uses_nothing_external() -> None:
    server = Server("charts")

    @server.app("ui://chart")
    def chart() -> str:
        return PAGE

    async with open_client(server) as client:
        (contents,) = (await client.read_resource("ui://chart")).contents

    assert contents.meta == {"ui": {"csp": {"connectDomains": [], "resourceDomains": []}}}


async def test_contents_with_metadata_of_their_own_keep_it() -> None:
    server = Server("charts")
    own: dict[str, Any] = {"ui": {"prefersBorder": False}, "com.example/version": 2}

    @server.app("ui://chart/{kind}", prefers_border=True)
    def chart(kind: str) -> types.TextResourceContents:
        return types.TextResourceContents(uri=f"ui://chart/{kind}", mime_type=TYPE, text=PAGE, meta=own)

    async with open_client(server) as client:
        (contents,) = (await client.read_resource("ui://chart/bars")).contents

    assert contents.meta == own


async def test_a_page_can_be_bytes_and_ask_for_a_context() -> None:
    server = Server("charts")

    @server.app("ui://chart")
    async def chart(ctx: Context) -> bytes:
        return f"{PAGE}{ctx.revision}".encode()

    async with open_client(server, revision="2025-11-25") as client:
        (contents,) = (await client.read_resource("ui://chart")).contents

    assert isinstance(contents, types.BlobResourceContents)
    assert contents.mime_type == TYPE


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"apps": AppHost()}, "shown"),
        ({}, "told"),
        ({"extensions": {UI: {"mimeTypes": ['text/html; profile="mcp-app"']}}}, "shown"),
        ({"extensions": {UI: {"mimeTypes": ["text/uri-list", 7]}}}, "told"),
        ({"extensions": {UI: {}}}, "told"),
    ],
)
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_handler_knows_whether_its_client_shows_apps(
    revision: str, options: dict[str, Any], answer: str
) -> None:
    async with open_client(make_server(), revision=revision, **options) as client:
        result = await client.call_tool("sales", {"year": 2026})

    assert result.content == [types.TextContent(text=f"2026: {answer}")]


async def test_a_handler_of_a_server_without_apps_has_no_client_that_shows_them() -> None:
    server = Server("plain")

    @server.tool
    async def shows(ctx: Context) -> str:
        return str(ctx.client_shows_apps)

    async with open_client(server, apps=AppHost()) as client:
        assert (await client.call_tool("shows")).content == [types.TextContent(text="False")]


async def test_a_tool_can_be_for_apps_alone() -> None:
    server = Server("charts")

    @server.tool(visibility=["app"])
    async def refresh() -> str:
        return "done"

    async with open_client(server) as client:
        (tool,) = [each async for each in client.tools()]

    assert tool.meta == {"ui": {"visibility": ["app"]}}
    assert UI in server.extensions


def test_options_that_are_none_change_nothing() -> None:
    server = Server("charts")

    @server.tool(app=None, visibility=None)
    async def plain() -> str:
        return ""

    assert server.extensions == {}


def test_settings_of_the_extension_that_the_program_has_given_are_kept() -> None:
    server = Server("charts", extensions={UI: {"com.example": 1}})

    server.app("ui://chart")(lambda: PAGE)

    assert server.extensions == {UI: {"com.example": 1}}


async def test_a_tool_whose_app_is_missing_is_named_when_the_server_begins_to_serve() -> None:
    server = Server("charts")

    @server.tool(app="ui://chart")
    async def sales() -> str:
        return ""

    @server.tool
    async def other() -> str:
        return ""

    with pytest.raises(ValueError, match=r"tool 'sales': its app 'ui://chart' is not registered; add @server\.app"):
        async with open_client(server):
            pass
    with pytest.raises(ValueError, match="tool 'sales'"):
        server.serving_one()
    server.tools.remove("sales")
    async with open_client(server) as client:
        assert [each.name async for each in client.tools()] == ["other"]


async def test_an_app_may_be_registered_after_its_tool_and_by_a_template() -> None:
    server = Server("charts")

    @server.tool(app="ui://chart/bars")
    async def sales() -> str:
        return ""

    @server.app("ui://chart/{kind}")
    def chart(kind: str) -> str:
        return PAGE

    async with open_client(server) as client:
        (tool,) = [each async for each in client.tools()]
        app = await client.app_of(tool)

    assert app is not None
    assert app.uri == "ui://chart/bars"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"app": "https://chart"}, ValueError, "app='https://chart'.*begins with 'ui://'"),
        ({"app": 7}, ValueError, "app=7"),
        ({"visibility": "model"}, TypeError, r"such as \['model'\]"),
        ({"visibility": []}, ValueError, "one or both of"),
        ({"visibility": ["user"]}, ValueError, "one or both of"),
        ({"visibility": ["app"], "meta": {"ui": {}}}, ValueError, "'ui' is made by app= and visibility="),
        ({"visibility": ["app"], "nothing": 1}, TypeError, "nothing"),
    ],
)
def test_a_mistake_in_the_options_of_a_tool_is_named(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Server("charts").tool(**options)(lambda: "")


@pytest.mark.parametrize(
    ("uri", "options", "error", "message"),
    [
        ("https://chart", {}, ValueError, "begins with 'ui://'"),
        ("ui://chart", {"csp": {"connect": []}}, TypeError, "must be a Csp"),
        ("ui://chart", {"permissions": "camera"}, TypeError, "must be a list"),
        ("ui://chart", {"permissions": ["usb"]}, ValueError, "'usb' does not exist; use camera"),
        ("ui://chart", {"meta": {"ui": {}}}, ValueError, "member 'ui'"),
        ("ui://chart", {"mime_type": "text/html"}, TypeError, "no option 'mime_type'"),
    ],
)
def test_a_mistake_in_the_options_of_an_app_is_named(
    uri: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    server = Server("charts")

    with pytest.raises(error, match=message):
        server.app(uri, **options)
    assert server.extensions == {}
