"""Apps as a host reads them: pages of any server, and declarations that do not fit."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

from trio_mcp import AppHost, CallNext, Csp, McpError, RemoteProtocolError, Request, Server, open_client, types
from trio_mcp.apps import App, app_uri, visibility_of
from trio_mcp.llm import load_toolkit

TYPE = "text/html;profile=mcp-app"
PAGE = "<!doctype html><title>Ärger</title>"


def serving(contents: Any, *, meta: Any = None, tool_meta: Any = None) -> Server:
    """Return a server of another maker, whose tool links to a resource with these contents."""
    server = Server("foreign")
    linked = {"ui": {"resourceUri": "ui://page"}} if tool_meta is None else tool_meta

    @server.tool(meta=linked)
    async def show() -> str:
        return "shown"

    if contents is not None:
        server.resource("ui://page", meta=meta)(lambda: contents)
    return server


async def read(server: Server) -> App | None:
    async with open_client(server, apps=AppHost()) as client:
        (tool,) = [each async for each in client.tools()]
        return await client.app_of(tool)


def page(meta: Any = None, mime_type: str | None = TYPE) -> types.TextResourceContents:
    return types.TextResourceContents(uri="ui://page", mime_type=mime_type, text=PAGE, meta=meta)


async def test_an_app_has_a_page_and_what_its_contents_declare() -> None:
    declared: dict[str, Any] = {
        "csp": {"connectDomains": ["https://api.example"], "frameDomains": ["https://video.example"]},
        "permissions": {"camera": {}, "clipboardWrite": {}, "usb": {}},
        "prefersBorder": False,
        "domain": "a.example",
    }

    assert await read(serving(page({"ui": declared}), meta={"ui": {"prefersBorder": True}})) == App(
        uri="ui://page",
        html=PAGE,
        csp=Csp(connect=["https://api.example"], frames=["https://video.example"]),
        permissions=frozenset({"camera", "clipboard_write"}),
        prefers_border=False,
        domain="a.example",
        ignored=[],
    )


async def test_contents_without_metadata_have_that_of_the_list() -> None:
    app = await read(serving(page(), meta={"ui": {"prefersBorder": True}}))

    assert app is not None
    assert app.prefers_border is True


async def test_a_page_need_not_be_listed_and_declares_nothing_then() -> None:
    server = Server("foreign", page_size=1)
    server.tool(name="show", meta={"ui/resourceUri": "ui://page/1"})(lambda: "")
    server.resource("ui://other")(lambda: "")

    @server.resource("ui://page/{number}", mime_type=TYPE)
    def numbered(number: str) -> str:
        return PAGE + number

    assert await read(server) == App(uri="ui://page/1", html=PAGE + "1", ignored=[])


async def test_a_server_need_not_have_a_list_of_resources() -> None:
    server = serving(page(), meta={"ui": {"prefersBorder": True}})

    @server.middleware
    async def refuse_lists(request: Request, call_next: CallNext) -> Any:
        if request.method == "resources/list":
            raise McpError(-32601, "no lists here")
        return await call_next(request)

    assert await read(server) == App(uri="ui://page", html=PAGE, ignored=[])


async def test_a_page_can_be_in_base64() -> None:
    blob = base64.b64encode(PAGE.encode()).decode()
    app = await read(serving(types.BlobResourceContents(uri="ui://page", mime_type=TYPE, blob=blob)))

    assert app is not None
    assert app.html == PAGE


async def test_the_page_is_the_contents_of_the_type_of_apps() -> None:
    other = types.TextResourceContents(uri="ui://page", mime_type="text/css", text="a {}")
    app = await read(serving([other, page(mime_type='Text/HTML; profile="mcp-app"')]))

    assert app is not None
    assert app.html == PAGE


async def test_what_does_not_fit_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    declared = {"csp": {"connectDomains": ["*"]}, "permissions": ["camera"], "prefersBorder": "yes", "domain": 7}

    with caplog.at_level(logging.WARNING, "trio_mcp.apps"):
        app = await read(serving(page({"ui": declared})))

    ignored = [
        "csp.connectDomains: '*' is not an origin",
        "permissions: it is not an object",
        "prefersBorder: it is not a boolean",
        "domain: it is not a string",
    ]
    assert app == App(uri="ui://page", html=PAGE, ignored=ignored)
    assert [record.getMessage() for record in caplog.records] == [f"app ui://page: ignored: {each}" for each in ignored]


async def test_a_permission_is_asked_for_by_an_object() -> None:
    app = await read(serving(page({"ui": {"permissions": {"camera": True, "microphone": {}}}})))

    assert app is not None
    assert app.permissions == {"microphone"}


@pytest.mark.parametrize("meta", [{"ui": "chart"}, {"ui": {}}, {"com.example": 1}])
async def test_a_tool_without_a_link_has_no_app(meta: Any) -> None:
    assert await read(serving(None, tool_meta=meta)) is None


@pytest.mark.parametrize("uri", ["https://example.com", 7, ["ui://page"]])
async def test_a_link_to_something_else_is_the_fault_of_the_server(uri: Any) -> None:
    with pytest.raises(RemoteProtocolError, match=r"tool 'show': its app is .* not a URI of an app"):
        await read(serving(None, tool_meta={"ui": {"resourceUri": uri}}))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (page(mime_type="text/html"), "must have the type 'text/html;profile=mcp-app', but has 'text/html'"),
        (types.ReadResourceResult(contents=[]), "but has no contents"),
        (types.BlobResourceContents(uri="ui://page", mime_type=TYPE, blob="?"), "not UTF-8 in base64"),
        (types.BlobResourceContents(uri="ui://page", mime_type=TYPE, blob="/w=="), "not UTF-8 in base64"),
    ],
)
async def test_a_resource_that_is_no_page_is_the_fault_of_the_server(contents: Any, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        await read(serving(contents))


def tool(ui: Any) -> types.Tool:
    return types.Tool(name="show", input_schema={"type": "object"}, meta={"ui": ui})


@pytest.mark.parametrize(
    ("ui", "callers"),
    [
        ({}, {"model", "app"}),
        ({"visibility": "app"}, {"model", "app"}),
        ({"visibility": ["app"]}, {"app"}),
        ({"visibility": ["model", "user", 7]}, {"model"}),
        ({"visibility": []}, set[str]()),
    ],
)
def test_the_callers_of_a_tool_are_those_that_its_server_names(ui: Any, callers: set[str]) -> None:
    assert visibility_of(tool(ui)) == callers


def test_a_link_in_the_newer_spelling_wins() -> None:
    both = types.Tool(
        name="show",
        input_schema={"type": "object"},
        meta={"ui": {"resourceUri": "UI://new"}, "ui/resourceUri": "ui://old"},
    )

    assert app_uri(both) == "UI://new"
    assert app_uri(types.Tool(name="plain", input_schema={"type": "object"})) is None


async def test_a_model_is_not_offered_the_tools_for_apps() -> None:
    server = Server("charts")
    server.tool(name="refresh", visibility=["app"])(lambda: "")
    server.tool(name="sales", visibility=["model"])(lambda: "")
    server.tool(name="both", meta={"ui": {}})(lambda: "")
    server.tool(name="plain")(lambda: "")

    async with open_client(server) as client:
        toolkit = await load_toolkit(client)
        answers = await toolkit.answer({"tool_calls": [{"id": "1", "function": {"name": "refresh"}}]})

    assert [each["function"]["name"] for each in toolkit.functions] == ["sales", "both", "plain"]
    assert "no function 'refresh'" in answers[0]["content"]


async def test_the_option_of_a_client_is_a_host() -> None:
    wrong: Any = {"apps": True}
    with pytest.raises(TypeError, match=r"apps.*AppHost\(\)"):
        async with open_client(Server("charts"), **wrong):
            pass
