"""Views that a host shows: their calls of the server, the consent of the user, and their end."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from trio_mcp import (
    AppHost,
    CallNext,
    Client,
    ConsentRefused,
    ErrorResponse,
    LocalProtocolError,
    McpError,
    Request,
    Server,
    open_client,
    types,
)
from trio_mcp.apps import App, SizeChanged, View, ViewLogged, ViewState, open_view
from trio_mcp.apps.types import McpUiDisplayMode, McpUiHostContext
from trio_mcp.apps.types import McpUiUpdateModelContextRequestParams as ModelContext
from trio_mcp.wire import JsonObject


@define(eq=False)
class Page:
    """The page of an app, played by a test."""

    to_host: trio.MemorySendChannel[Any]
    from_host: trio.MemoryReceiveChannel[Any]
    answers_close: bool = True
    _id: int = field(default=0, init=False)
    notices: list[JsonObject] = field(factory=list[JsonObject], init=False)
    """The notifications of the host that were read."""

    async def begin(self) -> JsonObject:
        """Initialize; return what the host says about itself."""
        params = {"appInfo": {"name": "page", "version": "1"}, "appCapabilities": {}, "protocolVersion": "2026-01-26"}
        result: JsonObject = (await self.ask("ui/initialize", params))["result"]
        await self.tell("ui/notifications/initialized")
        return result

    async def send(self, method: str, params: Any = None) -> int:
        """Send a request; return its id."""
        self._id += 1
        await self.to_host.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}})
        return self._id

    async def ask(self, method: str, params: Any = None) -> JsonObject:
        """Send a request; return its response."""
        return await self.answer(await self.send(method, params))

    async def answer(self, id: int) -> JsonObject:
        """Return the response to a request."""
        while True:
            message: JsonObject = await self.from_host.receive()
            if message.get("id") == id and "method" not in message:
                return message
            await self._take(message)

    async def tell(self, method: str, params: Any = None) -> None:
        await self.to_host.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def heard(self, method: str) -> JsonObject:
        """Wait for a notification of the host; return its params."""
        while not (found := [each["params"] for each in self.notices if each["method"] == method]):
            await self._take(await self.from_host.receive())
        params: JsonObject = found[0]
        return params

    async def _take(self, message: JsonObject) -> None:
        if message.get("method") == "ui/resource-teardown":
            if self.answers_close:
                await self.to_host.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        elif "id" not in message:
            self.notices.append(message)

    async def read(self) -> None:
        """Take all messages of the host."""
        with suppress(trio.ClosedResourceError):
            async for message in self.from_host:
                await self._take(message)


def make_server(ended: trio.Event | None = None) -> Server:
    """Return a server with an app; the event is set when the tool that waits is cancelled."""
    server = Server("charts")

    @server.tool(app="ui://chart")
    async def sales(year: int) -> dict[str, int]:
        if year < 0:
            raise McpError(-32050, "no such year", {"year": year})
        return {"tea": year}

    @server.tool(visibility=["app"])
    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            if ended is not None:
                ended.set()

    @server.app("ui://chart")
    def chart() -> str:
        return "<p>"

    return server


@asynccontextmanager
async def showing(
    host: AppHost | None = None, *, server: Server | None = None, **options: Any
) -> AsyncGenerator[tuple[View, Page, Client]]:
    """Show the app of the server, in a page whose messages wait until they are read."""
    to_host, from_page = trio.open_memory_channel[Any](0)
    to_page, from_host = trio.open_memory_channel[Any](math.inf)
    page = Page(to_host, from_host)
    host = host or AppHost()
    async with open_client(server or make_server(), apps=host, **options) as client:
        tool = await anext(client.tools())
        app = await client.app_of(tool)
        assert app is not None
        async with (
            trio.open_nursery() as nursery,
            open_view(client, app, to_page.send, from_page, host=host, tool=tool) as view,
        ):
            yield view, page, client
            nursery.start_soon(page.read)
            await view.end()
            nursery.cancel_scope.cancel()


# --- The call ---


async def test_a_view_is_told_about_the_call() -> None:
    async with showing() as (view, page, _):
        await view.tool_input_partial({"year": 20})
        await page.begin()
        assert await page.heard("ui/notifications/tool-input-partial") == {"arguments": {"year": 20}}
        result = await view.call({"year": 2026})
        seen = await page.heard("ui/notifications/tool-result")

    assert result.structured_content == {"tea": 2026}
    assert seen["structuredContent"] == {"tea": 2026}
    assert [each["method"].rpartition("/")[2] for each in page.notices] == [
        "tool-input-partial",
        "tool-input",
        "tool-result",
    ]


async def test_a_view_learns_about_its_host_and_its_tool() -> None:
    host = AppHost(context=McpUiHostContext(theme="dark"), info=types.Implementation(name="desk", version="3"))
    async with showing(host) as (view, page, _):
        about = await page.begin()
        await view.wait_ready()
        await view.change_context(McpUiHostContext(theme="light"))
        changed = await page.heard("ui/notifications/host-context-changed")

    assert about["hostInfo"] == {"name": "desk", "version": "3"}
    assert about["hostContext"]["toolInfo"]["tool"]["name"] == "sales"
    assert (about["hostContext"]["theme"], about["hostContext"]["displayMode"]) == ("dark", "inline")
    empty: JsonObject = {"connectDomains": [], "resourceDomains": []}
    assert about["hostCapabilities"] == {
        "serverTools": {},
        "serverResources": {},
        "sandbox": {"permissions": {}, "csp": empty},
    }
    assert changed == {"theme": "light"}


@pytest.mark.parametrize(
    ("year", "reason"), [(-1, "no such year"), ("many", "the request failed (ValueError)")], ids=["server", "client"]
)
async def test_a_call_that_fails_has_no_result(year: Any, reason: str) -> None:
    async def consent(call: Any) -> Any:
        if call.arguments["year"] == "many":
            raise ValueError("a bug")
        return call

    async with showing(consent=consent) as (view, page, _):
        await page.begin()
        with pytest.raises((ErrorResponse, ValueError)):
            await view.call({"year": year})
        assert await page.heard("ui/notifications/tool-cancelled") == {"reason": reason}


async def test_a_call_that_is_cancelled_has_no_result() -> None:
    server = Server("slow")
    begun = trio.Event()

    @server.tool(app="ui://page")
    async def slow() -> None:
        begun.set()
        await trio.sleep_forever()

    server.app("ui://page")(lambda: "<p>")
    async with showing(server=server) as (view, page, _):
        await page.begin()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(view.call)
                await begun.wait()
                scope.cancel()
        assert await page.heard("ui/notifications/tool-cancelled") == {"reason": "the call was cancelled"}
        with pytest.raises(LocalProtocolError, match="the call is DONE"):
            await view.call()


async def test_a_view_that_was_opened_without_a_tool_has_no_call() -> None:
    to_page, _ = trio.open_memory_channel[Any](0)
    to_host, from_page = trio.open_memory_channel[Any](0)
    async with open_client(make_server()) as client:
        app = App(uri="ui://chart", html="<p>")
        async with open_view(client, app, to_page.send, from_page, host=AppHost()) as view:
            with pytest.raises(ValueError, match="opened without tool="):
                await view.call({})
            to_host.close()
            await view.wait_closed()


# --- Requests to the server ---


async def test_a_view_calls_tools_of_its_server_and_reads_its_resources() -> None:
    async with showing() as (_, page, _):
        await page.begin()
        called = await page.ask("tools/call", {"name": "sales", "arguments": {"year": 1}})
        read = await page.ask("resources/read", {"uri": "ui://chart"})
        listed = await page.ask("resources/list")
        missing = await page.ask("resources/read", {"uri": "ui://other"})

    assert called["result"]["structuredContent"] == {"tea": 1}
    assert read["result"]["contents"][0]["text"] == "<p>"
    assert [each["uri"] for each in listed["result"]["resources"]] == ["ui://chart"]
    assert missing["error"]["code"] == -32602
    assert missing["error"]["data"] == {"uri": "ui://other"}


async def test_a_failing_call_is_an_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    async def consent(call: Any) -> Any:
        match call.arguments["year"]:
            case 1:
                raise ConsentRefused("not this year")
            case 2:
                raise ValueError("a secret of the host")
            case _:
                return call

    async with showing(consent=consent) as (_, page, _):
        await page.begin()
        errors = [
            (await page.ask("tools/call", {"name": "sales", "arguments": {"year": year}}))["error"]
            for year in (-1, 1, 2)
        ]

    assert errors == [
        {"code": -32050, "message": "no such year", "data": {"year": -1}},
        {"code": -32000, "message": "not this year"},
        {"code": -32603, "message": "the request failed (ValueError)"},
    ]
    assert "a secret of the host" in caplog.text


async def test_a_tool_that_is_new_is_found() -> None:
    server = make_server()
    async with showing(server=server) as (_, page, _):
        await page.begin()
        server.tool(name="new")(lambda: "new")
        server.tool(name="hidden", visibility=["model"])(lambda: "hidden")
        new = await page.ask("tools/call", {"name": "new"})
        hidden = await page.ask("tools/call", {"name": "hidden"})
        for params in ({"name": 7}, {}):
            assert (await page.ask("tools/call", params))["error"]["code"] == -32602

    assert new["result"]["content"] == [{"type": "text", "text": "new"}]
    assert hidden["error"]["message"] == "the server has no tool 'hidden' for apps"


async def test_a_list_of_tools_that_fails_leaves_the_call_refused() -> None:
    server, fails = make_server(), list[bool]()

    @server.middleware
    async def fail(request: Request, call_next: CallNext) -> Any:
        if fails and request.method == "tools/list":
            raise McpError(-32000, "not now")
        return await call_next(request)

    async with showing(server=server) as (_, page, _):
        await page.begin()
        fails.append(True)
        refused = await page.ask("tools/call", {"name": "new"})

    assert refused["error"]["message"] == "the server has no tool 'new' for apps"


async def test_a_request_that_the_view_cancels_is_cancelled_in_the_server() -> None:
    ended = trio.Event()
    async with showing(server=make_server(ended)) as (_, page, _):
        await page.begin()
        id = await page.send("tools/call", {"name": "wait"})
        other = await page.send("tools/call", {"name": "sales", "arguments": {"year": 1}})
        await page.answer(other)
        await page.tell("notifications/cancelled", {"requestId": id})
        await ended.wait()


async def test_a_page_that_is_loaded_again_may_use_the_ids_of_the_page_before() -> None:
    ended = trio.Event()
    async with showing(server=make_server(ended)) as (_, page, _):
        await page.begin()
        id = await page.send("tools/call", {"name": "wait"})
        await page.begin()
        page._id = id - 1
        again = await page.ask("tools/call", {"name": "sales", "arguments": {"year": 1}})
        await ended.wait()

    assert (again["id"], again["result"]["structuredContent"]) == (id, {"tea": 1})


# --- Consent ---

HELLO = types.TextContent(text="hello")
LINK = types.ResourceLink(uri="file:///a", name="a")
CONSENT: list[tuple[str, str, Any, Any]] = [
    ("on_open_link", "ui/open-link", {"url": "https://a.example"}, "https://a.example"),
    ("on_message", "ui/message", {"role": "user", "content": [types.unstructure(HELLO)]}, [HELLO]),
    ("on_download", "ui/download-file", {"contents": [types.unstructure(LINK)]}, [LINK]),
]


@pytest.mark.parametrize(("option", "method", "params", "subject"), CONSENT)
async def test_the_user_decides(option: str, method: str, params: Any, subject: Any) -> None:
    asked, verdicts = list[Any](), iter([True, False])

    async def decide(what: Any) -> bool:
        asked.append(what)
        return next(verdicts)

    async with showing(AppHost(**{option: decide})) as (_, page, _):  # type: ignore[arg-type]
        await page.begin()
        allowed, refused = [await page.ask(method, params) for _ in range(2)]

    assert asked == [subject, subject]
    assert allowed["result"] == {}
    assert refused["error"] == {"code": -32000, "message": "the user has refused"}


@pytest.mark.parametrize(("option", "method", "params", "subject"), CONSENT)
async def test_without_a_callback_nothing_is_asked(option: str, method: str, params: Any, subject: Any) -> None:
    del option, subject
    async with showing() as (_, page, _):
        await page.begin()
        refused = await page.ask(method, params)

    assert refused["error"] == {"code": -32601, "message": f"this host does not support {method!r}"}


async def fail(*_: object) -> Any:
    raise RuntimeError("a secret of the host")


@pytest.mark.parametrize(
    ("option", "method", "params"),
    [(option, method, params) for option, method, params, _ in CONSENT]
    + [("on_model_context", "ui/update-model-context", {})],
)
async def test_a_callback_that_fails_is_logged_and_the_view_goes_on(
    option: str, method: str, params: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with showing(AppHost(**{option: fail})) as (_, page, _):  # type: ignore[arg-type]
        await page.begin()
        failed = await page.ask(method, params)
        assert (await page.ask("ping"))["result"] == {}

    assert failed["error"] == {"code": -32603, "message": "the host failed"}
    assert "a secret of the host" in caplog.text


async def test_the_model_learns_what_the_view_states() -> None:
    stated = list[ModelContext]()

    async def on_model_context(context: ModelContext) -> None:
        stated.append(context)

    async with showing(AppHost(on_model_context=on_model_context)) as (_, page, _):
        about = await page.begin()
        params = {"content": [types.unstructure(HELLO)], "structuredContent": {"a": 1}}
        assert (await page.ask("ui/update-model-context", params))["result"] == {}

    assert stated == [ModelContext(content=[HELLO], structured_content={"a": 1})]
    assert "structuredContent" in about["hostCapabilities"]["updateModelContext"]


@pytest.mark.parametrize(("has_callback", "mode"), [(True, "fullscreen"), (False, "inline")])
async def test_a_view_is_shown_in_the_place_that_the_host_chooses(has_callback: bool, mode: str) -> None:
    async def on_display_mode(wanted: McpUiDisplayMode) -> McpUiDisplayMode:
        return wanted

    host = AppHost(on_display_mode=on_display_mode) if has_callback else AppHost()
    async with showing(host) as (view, page, _):
        await page.begin()
        answer = await page.ask("ui/request-display-mode", {"mode": "fullscreen"})

    assert answer["result"] == {"mode": mode}
    assert view.bridge.context.display_mode == mode


async def test_a_host_that_names_no_place_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def on_display_mode(_: McpUiDisplayMode) -> Any:
        return "nowhere"

    async with showing(AppHost(on_display_mode=on_display_mode)) as (view, page, _):
        await page.begin()
        failed = await page.ask("ui/request-display-mode", {"mode": "pip"})

    assert failed["error"] == {"code": -32603, "message": "the host failed"}
    assert view.bridge.context.display_mode == "inline"
    assert "a request of a view could not be answered" in caplog.text


@pytest.mark.parametrize("has_callbacks", [True, False])
async def test_the_host_hears_the_notifications_of_the_view_in_order(has_callbacks: bool) -> None:
    heard = list[Any]()

    async def hear(what: Any = "close") -> None:
        heard.append(what)

    host = AppHost(on_size=hear, on_view_log=hear, on_close_request=hear) if has_callbacks else AppHost()
    async with showing(host) as (_, page, _):
        await page.begin()
        await page.tell("ui/notifications/size-changed", {"height": 100})
        await page.tell("notifications/message", {"level": "info", "data": "text"})
        await page.tell("ui/notifications/request-teardown")
        await page.ask("ping")

    assert heard == ([SizeChanged(None, 100.0), ViewLogged("info", "text", None), "close"] if has_callbacks else [])


# --- The end ---


async def test_the_end_of_the_block_asks_the_view_to_end() -> None:
    async with showing() as (view, page, _):
        await page.begin()

    await view.wait_closed()
    assert view.bridge.state is ViewState.CLOSED


async def test_a_view_may_call_its_server_while_it_ends() -> None:
    async with showing() as (view, page, _):
        await page.begin()
        await view.wait_ready()
        page.answers_close = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.close, "the page is closed")
            asked = await page.from_host.receive()
            saved = await page.ask("tools/call", {"name": "sales", "arguments": {"year": 1}})
            await page.to_host.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})

    assert asked["params"] == {"reason": "the page is closed"}
    assert saved["result"]["structuredContent"] == {"tea": 1}


async def test_a_view_that_does_not_end_is_left_after_a_while(autojump_clock: trio.testing.MockClock) -> None:
    async with showing(AppHost(close_seconds=7)) as (view, page, _):
        await page.begin()
        await view.wait_ready()
        page.answers_close = False
        begun = trio.current_time()

    assert trio.current_time() - begun == 7
    assert view.bridge.state is ViewState.CLOSED


async def test_a_block_that_is_cancelled_asks_the_view_to_end() -> None:
    to_host, from_page = trio.open_memory_channel[Any](0)
    to_page, from_host = trio.open_memory_channel[Any](math.inf)
    page = Page(to_host, from_host)
    async with open_client(make_server()) as client, trio.open_nursery() as nursery:
        views = list[View]()
        with trio.CancelScope() as scope:
            async with open_view(
                client, App(uri="ui://chart", html="<p>"), to_page.send, from_page, host=AppHost()
            ) as view:
                views.append(view)
                await page.begin()
                await view.wait_ready()
                nursery.start_soon(page.read)
                scope.cancel()
                await trio.sleep_forever()
        nursery.cancel_scope.cancel()

    assert scope.cancelled_caught
    assert views[0].bridge.state is ViewState.CLOSED


async def test_the_block_raises_its_own_exception_unwrapped() -> None:
    to_page, _ = trio.open_memory_channel[Any](0)
    _to_host, from_page = trio.open_memory_channel[Any](0)
    async with open_client(make_server()) as client:
        with pytest.raises(KeyError, match="mine"):
            async with open_view(client, App(uri="ui://chart", html="<p>"), to_page.send, from_page, host=AppHost()):
                raise KeyError("mine")


async def test_a_view_that_is_gone_has_its_requests_cancelled() -> None:
    ended = trio.Event()
    async with showing(server=make_server(ended)) as (view, page, _):
        await page.begin()
        await page.send("tools/call", {"name": "wait"})
        await page.ask("tools/call", {"name": "sales", "arguments": {"year": 1}})
        page.to_host.close()
        await view.wait_closed()
        await ended.wait()
        await view.tool_input({"year": 1})


async def test_a_page_that_takes_nothing_any_more_is_gone() -> None:
    async with showing() as (view, page, _):
        await page.begin()
        await page.ask("ping")
        page.from_host.close()
        await view.tool_input({"year": 1})
        await view.wait_closed()

    assert view.bridge.state is ViewState.CLOSED


async def test_a_hostile_view_harms_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    host = AppHost(max_message_bytes=1_000, max_requests=3)
    async with showing(host) as (view, page, _):
        wrong: list[Any] = [[], "x" * 2_000, {"jsonrpc": "2.0", "result": 1}, {"method": object()}, None]
        for message in wrong:
            await page.to_host.send(message)
        await page.begin()
        ids = [await page.send("tools/call", {"name": "wait"}) for _ in range(4)]
        refused = await page.answer(ids[3])
        assert (await page.ask("tools/call", {"name": "x" * 2_000}))["error"]["code"] == -32600
        assert view.bridge.dropped == 5

    assert refused["error"]["message"] == "too many open requests: at most 3 are possible"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
