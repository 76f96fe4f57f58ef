"""The host's side of the messages of a view: their order, their bounds, and views that break the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import Bridge, LocalProtocolError, types
from trio_mcp.apps import (
    App,
    BridgeEvent,
    CallPhase,
    CloseRequested,
    DisplayModeRequested,
    DownloadRequested,
    LinkRequested,
    MessageRequested,
    ModelContextChanged,
    RequestCancelled,
    ServerRequested,
    SizeChanged,
    ToolCallRequested,
    ViewClosed,
    ViewLogged,
    ViewReady,
    ViewState,
)
from trio_mcp.apps.types import McpUiAppCapabilities, McpUiHostCapabilities, McpUiHostContext
from trio_mcp.apps.types import McpUiUpdateModelContextRequestParams as ModelContext
from trio_mcp.wire import JsonObject

EVERYTHING: JsonObject = {
    name: {}
    for name in (
        *("serverTools", "serverResources", "openLinks", "downloadFile"),
        *("logging", "message", "updateModelContext"),
    )
}
INFO = types.Implementation(name="host", version="1")
RESULT = types.CallToolResult(content=[types.TextContent(text="done")], structured_content={"tea": 3})
WITH_RESULT: JsonObject = {"content": [{"type": "text", "text": "done"}], "structuredContent": {"tea": 3}}


def tool(name: str, visibility: Any = None) -> types.Tool:
    meta = None if visibility is None else {"ui": {"visibility": visibility}}
    return types.Tool(name=name, input_schema={"type": "object"}, meta=meta)


TOOLS = [tool("both"), tool("app", ["app"]), tool("model", ["model"])]


def make(**options: Any) -> Bridge:
    everything = types.structure(EVERYTHING, McpUiHostCapabilities)
    given: dict[str, Any] = {"info": INFO, "capabilities": everything, "tools": TOOLS, **options}
    return Bridge(**given)


def request(method: str, params: Any = None, *, id: Any = 1) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params}


def notice(method: str, params: Any = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def initialize(capabilities: Any = None, version: Any = "2026-01-26") -> JsonObject:
    params: JsonObject = {
        "appInfo": {"name": "view", "version": "2"},
        "appCapabilities": {} if capabilities is None else capabilities,
        "protocolVersion": version,
    }
    return request("ui/initialize", params, id=0)


INITIALIZED = notice("ui/notifications/initialized")


def sent(bridge: Bridge) -> list[JsonObject]:
    """Return the messages that the host sends, without the version of JSON-RPC."""
    messages = [dict(each) for each in bridge.outgoing]
    bridge.outgoing.clear()
    assert all(each.pop("jsonrpc") == "2.0" for each in messages)
    return messages


def ready(**options: Any) -> Bridge:
    """Return a bridge whose view is initialized."""
    bridge = make(**options)
    bridge.receive(initialize())
    bridge.receive(INITIALIZED)
    bridge.outgoing.clear()
    return bridge


def refusal(bridge: Bridge, message: JsonObject) -> tuple[int, str]:
    """Return the code and the text with which the bridge refuses a request by itself."""
    assert bridge.receive(message) == ()
    (reply,) = sent(bridge)
    assert reply["id"] == message["id"]
    return reply["error"]["code"], reply["error"]["message"]


# --- The beginning ---


def test_a_view_learns_about_its_host_and_says_that_it_is_ready() -> None:
    bridge = make(context=McpUiHostContext(theme="dark"))
    can_have_tools = types.structure({"tools": {}}, McpUiAppCapabilities)

    assert bridge.receive(initialize({"tools": {}})) == []
    assert sent(bridge) == [
        {
            "id": 0,
            "result": {
                "protocolVersion": "2026-01-26",
                "hostInfo": {"name": "host", "version": "1"},
                "hostCapabilities": EVERYTHING,
                "hostContext": {"theme": "dark"},
            },
        }
    ]
    assert bridge.receive(INITIALIZED) == (ViewReady(types.Implementation(name="view", version="2"), can_have_tools),)
    assert (bridge.state, sent(bridge)) == (ViewState.READY, [])


@pytest.mark.parametrize("version", ["1999-01-01", ""])
def test_a_view_of_another_version_is_offered_the_newest_one(version: Any) -> None:
    bridge = make()

    bridge.receive(initialize(version=version))

    assert sent(bridge)[0]["result"]["protocolVersion"] == "2026-01-26"


def test_nothing_is_sent_before_the_view_is_initialized() -> None:
    bridge = make()
    bridge.tool_input_partial({"year": 2})
    bridge.tool_input_partial({"year": 20})
    bridge.receive(initialize())
    bridge.change_context(McpUiHostContext(theme="dark"))
    bridge.change_context(McpUiHostContext(theme="light", locale="de"))
    bridge.tool_input({"year": 2026})
    bridge.tool_result(RESULT)

    assert [each["id"] for each in sent(bridge)] == [0]
    bridge.receive(INITIALIZED)
    assert sent(bridge) == [
        {"method": "ui/notifications/host-context-changed", "params": {"theme": "light", "locale": "de"}},
        {"method": "ui/notifications/tool-input", "params": {"arguments": {"year": 2026}}},
        {"method": "ui/notifications/tool-result", "params": WITH_RESULT},
    ]


def test_a_context_that_changes_before_the_view_asks_is_in_the_answer() -> None:
    bridge = make()
    bridge.change_context(McpUiHostContext(theme="dark"))

    bridge.receive(initialize())
    bridge.receive(INITIALIZED)

    (answer,) = sent(bridge)
    assert answer["result"]["hostContext"] == {"theme": "dark"}


def test_a_view_that_is_loaded_again_is_told_everything_again() -> None:
    bridge = ready()
    bridge.tool_input_partial({"year": 20})
    bridge.tool_input({"year": 2026})
    bridge.receive(request("ui/open-link", {"url": "https://a.example"}, id="old"))
    bridge.tool_cancelled("too slow")
    bridge.outgoing.clear()

    assert bridge.receive(initialize()) == [RequestCancelled("old")]
    assert bridge.state is ViewState.INITIALIZING
    bridge.receive(INITIALIZED)
    assert [each.get("method") for each in sent(bridge)] == [
        None,
        "ui/notifications/tool-input",
        "ui/notifications/tool-cancelled",
    ]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"appInfo": "view", "appCapabilities": {}, "protocolVersion": "2026-01-26"},
        {"appInfo": {"name": 7, "version": "1"}, "appCapabilities": {}, "protocolVersion": "2026-01-26"},
        {"appInfo": {"name": "view"}, "appCapabilities": {}, "protocolVersion": "2026-01-26"},
    ],
)
def test_a_view_must_say_what_it_is(params: JsonObject) -> None:
    bridge = make()

    code, text = refusal(bridge, request("ui/initialize", params))

    assert (code, bridge.state) == (-32602, ViewState.LOADING)
    assert "appInfo" in text


def test_a_sandbox_that_is_ready_gets_the_page_once() -> None:
    app = App(uri="ui://page", html="<p>", permissions=frozenset({"camera", "clipboard_write"}))
    bridge = make(app=app, granted=["microphone", "clipboard_write"])
    proxy_ready = notice("ui/notifications/sandbox-proxy-ready", {})

    bridge.receive(proxy_ready)

    page: JsonObject = {"html": "<p>", "csp": app.csp.to_wire(), "permissions": {"clipboardWrite": {}}}
    assert sent(bridge) == [{"method": "ui/notifications/sandbox-resource-ready", "params": page}]
    bridge.receive(initialize())
    bridge.outgoing.clear()
    bridge.receive(proxy_ready)
    assert sent(bridge) == []
    assert bridge.dropped == 1


def test_without_a_page_a_sandbox_gets_none() -> None:
    bridge = make()

    bridge.receive(notice("ui/notifications/sandbox-proxy-ready", {}))

    assert (sent(bridge), bridge.dropped) == ([], 1)


# --- The call ---


def test_the_call_is_told_in_order() -> None:
    bridge = ready()

    bridge.tool_input_partial({"year": 20})
    bridge.tool_input({"year": 2026})
    bridge.tool_result(RESULT)

    assert sent(bridge) == [
        {"method": "ui/notifications/tool-input-partial", "params": {"arguments": {"year": 20}}},
        {"method": "ui/notifications/tool-input", "params": {"arguments": {"year": 2026}}},
        {"method": "ui/notifications/tool-result", "params": WITH_RESULT},
    ]
    assert bridge.phase is CallPhase.DONE


@pytest.mark.parametrize("reason", [None, "the user has stopped it"])
def test_a_call_without_a_result_is_told_with_its_reason(reason: str | None) -> None:
    bridge = ready()

    bridge.tool_cancelled(reason)

    params = {} if reason is None else {"reason": reason}
    assert sent(bridge) == [{"method": "ui/notifications/tool-cancelled", "params": params}]


STEPS: dict[str, Callable[[Bridge], None]] = {
    "partial": lambda bridge: bridge.tool_input_partial({}),
    "input": lambda bridge: bridge.tool_input({}),
    "result": lambda bridge: bridge.tool_result(RESULT),
    "cancelled": lambda bridge: bridge.tool_cancelled(),
}
POSSIBLE = {
    "": {"partial", "input", "cancelled"},
    "partial": {"partial", "input", "cancelled"},
    "input": {"result", "cancelled"},
    "input result": set[str](),
    "cancelled": set[str](),
}


@pytest.mark.parametrize("before", POSSIBLE)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_call_in_the_wrong_order_is_the_hosts_mistake(before: str, step: str) -> None:
    bridge = ready()
    for each in before.split():
        STEPS[each](bridge)
    bridge.outgoing.clear()

    if step in POSSIBLE[before]:
        STEPS[step](bridge)
        assert len(bridge.outgoing) == 1
    else:
        with pytest.raises(LocalProtocolError, match=r"is not possible: the call is (DRAFTING|RUNNING|DONE)"):
            STEPS[step](bridge)
        assert not bridge.outgoing


# --- Requests of the view ---

TEXT: JsonObject = {"type": "text", "text": "hello"}
HELLO = types.TextContent(text="hello")
LINK: JsonObject = {"type": "resource_link", "uri": "file:///a", "name": "a"}

EVENTS: list[tuple[str, JsonObject, BridgeEvent]] = [
    ("tools/call", {"name": "both", "arguments": {"a": 1}}, ToolCallRequested(1, "both", {"a": 1})),
    ("tools/call", {"name": "app"}, ToolCallRequested(1, "app", {})),
    ("resources/read", {"uri": "a://b", "_meta": {"x": 1}}, ServerRequested(1, "resources/read", {"uri": "a://b"})),
    ("resources/list", {"cursor": "c"}, ServerRequested(1, "resources/list", {"cursor": "c"})),
    ("resources/templates/list", {}, ServerRequested(1, "resources/templates/list", {})),
    ("ui/open-link", {"url": "https://a.example/?b#c"}, LinkRequested(1, "https://a.example/?b#c")),
    ("ui/open-link", {"url": "mailto:ada@a.example"}, LinkRequested(1, "mailto:ada@a.example")),
    ("ui/message", {"role": "user", "content": [TEXT]}, MessageRequested(1, [HELLO])),
    ("ui/message", {"role": "user", "content": TEXT}, MessageRequested(1, [HELLO])),
    ("ui/download-file", {"contents": [LINK]}, DownloadRequested(1, [types.ResourceLink(uri="file:///a", name="a")])),
    ("ui/update-model-context", {}, ModelContextChanged(1, ModelContext())),
    (
        "ui/update-model-context",
        {"content": [TEXT], "structuredContent": {"a": 1}},
        ModelContextChanged(1, ModelContext(content=[HELLO], structured_content={"a": 1})),
    ),
    ("ui/request-display-mode", {"mode": "pip"}, DisplayModeRequested(1, "pip")),
]


@pytest.mark.parametrize(("method", "params", "event"), EVENTS)
def test_a_request_of_the_view_is_an_event_and_is_answered_once(
    method: str, params: JsonObject, event: BridgeEvent
) -> None:
    bridge = ready()

    assert bridge.receive(request(method, params)) == (event,)
    assert sent(bridge) == []
    bridge.respond(1, {"a": 1})
    bridge.respond(1)
    bridge.refuse(1, "no")
    assert sent(bridge) == [{"id": 1, "result": {"a": 1}}]


def test_a_refusal_has_a_code_and_data() -> None:
    bridge = ready()
    for id in (1, 2):
        bridge.receive(request("ui/open-link", {"url": "https://a.example"}, id=id))

    bridge.refuse(1, "the user has refused")
    bridge.refuse(2, "no such thing", code=-32602, data={"a": None})

    assert sent(bridge) == [
        {"id": 1, "error": {"code": -32000, "message": "the user has refused"}},
        {"id": 2, "error": {"code": -32602, "message": "no such thing", "data": {"a": None}}},
    ]


@pytest.mark.parametrize(("method", "params"), [(method, params) for method, params, _ in EVENTS])
def test_what_the_host_does_not_declare_is_refused(method: str, params: JsonObject) -> None:
    bridge = ready(capabilities=McpUiHostCapabilities())
    if method == "ui/request-display-mode":  # no capability is defined for it
        assert len(bridge.receive(request(method, params))) == 1
    else:
        assert refusal(bridge, request(method, params))[0] == -32601


@pytest.mark.parametrize("method", [method for method, _, _ in EVENTS])
@pytest.mark.parametrize("begun", [False, True])
def test_a_view_that_is_not_initialized_may_ask_for_nothing(method: str, begun: bool) -> None:
    bridge = make()
    if begun:
        bridge.receive(initialize())
        bridge.outgoing.clear()

    code, text = refusal(bridge, request(method))

    assert (code, text) == (-32600, f"{method!r} before 'ui/notifications/initialized'")


@pytest.mark.parametrize("method", ["tools/list", "sampling/createMessage", "ui/other", "x" * 10_000])
def test_other_methods_are_unknown(method: str) -> None:
    code, text = refusal(ready(), request(method))

    assert (code, text) == (-32601, f"unknown method {method[:200]!r}")


def test_a_ping_is_answered_at_any_time() -> None:
    bridge = make()

    assert bridge.receive(request("ping")) == ()
    assert sent(bridge) == [{"id": 1, "result": {}}]


@pytest.mark.parametrize("name", ["model", "other", "x" * 10_000])
def test_a_view_calls_only_tools_that_its_server_makes_for_apps(name: str) -> None:
    code, text = refusal(ready(), request("tools/call", {"name": name}))

    assert (code, text) == (-32602, f"the server has no tool {name[:200]!r} for apps")


def test_the_tools_may_change() -> None:
    bridge = ready()

    bridge.use_tools([tool("new")])

    assert bridge.callers_of("new") == {"model", "app"}
    assert bridge.callers_of("both") == frozenset()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": ["both"]}),
        ("tools/call", {"name": "both", "arguments": [1]}),
        ("ui/message", {"content": []}),
        ("ui/message", {"role": "assistant", "content": []}),
        ("ui/message", {"role": "user"}),
        ("ui/message", {"role": "user", "content": [{"type": "text"}]}),
        ("ui/download-file", {}),
        ("ui/download-file", {"contents": []}),
        ("ui/download-file", {"contents": [TEXT]}),
        ("ui/update-model-context", {"content": [7]}),
        ("ui/update-model-context", {"structuredContent": [7]}),
        ("ui/request-display-mode", {"mode": "window"}),
        ("ui/request-display-mode", {"mode": ["pip"]}),
        ("ui/open-link", {}),
        ("ui/open-link", {"url": ["https://a.example"]}),
    ],
)
def test_params_that_do_not_fit_are_refused(method: str, params: JsonObject) -> None:
    assert refusal(ready(), request(method, params))[0] == -32602


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "//a.example",
        "http:",
        "https:///path",
        "https:a.example",
        "javascript:alert(1)",
        "JavaScript://a.example/%0aalert(1)",
        "data:text/html,<p>",
        "file:///etc/passwd",
        "ui://page",
        "mailto://a.example",
        "https://bank.example@evil.example",
        "https://bank.example:80@evil.example/",
        "https://a.example/ b",
        " https://a.example",
        "https://a.example\n",
        "https://a.example/\u202egnp",
        "https://[::1",
        "https://a.example/" + "x" * 3_000,
    ],
)
def test_a_link_that_is_no_address_of_a_page_or_of_mail_is_refused(url: str) -> None:
    code, text = refusal(ready(), request("ui/open-link", {"url": url}))

    assert code == -32602
    assert text.startswith("$.url: expected the address of a web page or of mail")


def test_requests_that_are_open_are_bounded() -> None:
    bridge = ready(max_requests=2)
    ask = ("ui/open-link", {"url": "https://a.example"})
    for id in (1, 2):
        assert bridge.receive(request(*ask, id=id))

    assert refusal(bridge, request(*ask, id=3)) == (-32000, "too many open requests: at most 2 are possible")
    bridge.respond(1)
    assert bridge.receive(request(*ask, id=3))


def test_the_id_of_an_open_request_cannot_be_used_again() -> None:
    bridge = ready()
    bridge.receive(request("ui/open-link", {"url": "https://a.example"}, id="1"))

    assert refusal(bridge, request("ping", id="1")) == (-32600, "the id '1' is that of an open request")


def test_a_view_may_cancel_a_request_that_is_open() -> None:
    bridge = ready()
    bridge.receive(request("tools/call", {"name": "both"}))
    cancel = notice("notifications/cancelled", {"requestId": 1})

    assert bridge.receive(cancel) == (RequestCancelled(1),)
    bridge.forget(1)
    bridge.respond(1)
    assert bridge.receive(cancel) == ()
    assert bridge.receive(notice("notifications/cancelled", {"requestId": [1]})) == ()
    assert sent(bridge) == []


# --- The place of a view ---


@pytest.mark.parametrize(
    ("capabilities", "mode", "expected"),
    [
        ({}, "fullscreen", "fullscreen"),
        ({"availableDisplayModes": ["inline", "fullscreen"]}, "fullscreen", "fullscreen"),
        ({"availableDisplayModes": ["inline"]}, "fullscreen", "inline"),
        ({}, "inline", "inline"),
    ],
)
def test_a_view_is_put_only_where_it_can_be(capabilities: JsonObject, mode: Any, expected: str) -> None:
    bridge = make()
    bridge.receive(initialize(capabilities))
    bridge.receive(INITIALIZED)
    bridge.outgoing.clear()
    bridge.receive(request("ui/request-display-mode", {"mode": "fullscreen"}))

    bridge.display_mode_is(1, mode)

    *more, answer = sent(bridge)
    assert answer == {"id": 1, "result": {"mode": expected}}
    changed = {"method": "ui/notifications/host-context-changed", "params": {"displayMode": expected}}
    assert more == ([] if expected == "inline" else [changed])


# --- Notifications of the view ---


@pytest.mark.parametrize(
    ("method", "params", "event"),
    [
        ("ui/notifications/size-changed", {"width": 300, "height": 200.5}, SizeChanged(300.0, 200.5)),
        ("ui/notifications/size-changed", {"height": 0}, SizeChanged(None, 0.0)),
        ("notifications/message", {"level": "info", "data": None}, ViewLogged("info", None, None)),
        ("notifications/message", {"level": "error", "data": [1], "logger": "a"}, ViewLogged("error", [1], "a")),
        ("ui/notifications/request-teardown", None, CloseRequested()),
    ],
)
def test_a_notification_of_the_view_is_an_event(method: str, params: Any, event: BridgeEvent) -> None:
    bridge = ready()

    assert bridge.receive(notice(method, params)) == (event,)
    assert (sent(bridge), bridge.dropped) == ([], 0)


DROPPED: list[Any] = [
    notice("ui/notifications/size-changed", {}),
    notice("ui/notifications/size-changed", {"width": "300", "height": True}),
    notice("ui/notifications/size-changed", {"width": -1, "height": 1e9}),
    notice("notifications/message", {"level": "loud", "data": 1}),
    notice("notifications/message", {"level": "info"}),
    notice("notifications/other", {}),
    notice("ui/notifications/initialized", {}),
    notice("ui/notifications/tool-result", {}),
    {"jsonrpc": "2.0", "id": 7, "result": {}},
    {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no"}},
    {"jsonrpc": "1.0", "method": "ping"},
    {"jsonrpc": "2.0", "method": 7},
    {"jsonrpc": "2.0", "method": "ping", "id": [1]},
    {"jsonrpc": "2.0"},
    {},
    [],
    [notice("ui/notifications/request-teardown")],
    None,
    "text",
    float("nan"),
    {"method": object()},
]


@pytest.mark.parametrize("message", DROPPED, ids=lambda message: type(message).__name__)
def test_what_is_no_message_of_a_view_is_dropped_and_counted(message: Any) -> None:
    bridge = ready()

    assert bridge.receive(message) == ()
    assert (sent(bridge), bridge.dropped, bridge.state) == ([], 1, ViewState.READY)


def test_a_log_needs_a_host_that_takes_it() -> None:
    bridge = ready(capabilities=McpUiHostCapabilities())

    assert bridge.receive(notice("notifications/message", {"level": "info", "data": 1})) == ()
    assert bridge.dropped == 1


def test_notifications_before_the_beginning_are_dropped() -> None:
    bridge = make()

    assert bridge.receive(notice("ui/notifications/size-changed", {"height": 1})) == ()
    assert bridge.dropped == 1


def test_a_request_without_an_object_as_params_is_refused() -> None:
    bridge = ready()

    assert bridge.receive({"jsonrpc": "2.0", "id": 1, "method": "ui/message", "params": [1]}) == ()
    (reply,) = sent(bridge)
    assert (reply["id"], reply["error"]["code"]) == (1, -32602)


def test_a_message_that_is_too_large_is_refused_or_dropped() -> None:
    bridge = ready(max_message_bytes=200)
    large = "x" * 200

    assert refusal(bridge, request("tools/call", {"name": large})) == (-32600, "the message is larger than 200 bytes")
    assert bridge.receive(notice("notifications/message", {"level": "info", "data": large})) == ()
    assert bridge.receive({"jsonrpc": "2.0", "id": 1, "result": {"text": large}}) == ()
    assert bridge.receive(large) == ()
    assert (sent(bridge), bridge.dropped) == ([], 3)


def test_a_message_that_is_nested_too_deeply_is_dropped() -> None:
    bridge, deep = ready(), list[Any]()
    for _ in range(100_000):
        deep = [deep]

    assert bridge.receive(notice("notifications/message", {"level": "info", "data": deep})) == ()
    assert bridge.dropped == 1
    while deep:  # or it is freed recursively
        deep = deep.pop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [method for method, _, _ in EVENTS] + ["ui/initialize", "ping", "ui/notifications/initialized"]
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": METHODS},
    optional={"id": st.integers(0, 3) | st.text(max_size=2), "params": JSON},
)


@given(st.lists(MESSAGES | JSON, max_size=20))
def test_no_view_makes_the_bridge_fail_or_answer_more_than_it_was_asked(messages: list[Any]) -> None:
    bridge = make(max_requests=2)

    for message in messages:
        before = len(bridge.outgoing)
        events = bridge.receive(message)
        assert len(bridge.outgoing) <= before + 1
        assert len(events) <= 2 or all(isinstance(each, RequestCancelled) for each in events)


# --- The end ---


def test_a_view_is_asked_to_end_and_may_save_what_it_has() -> None:
    bridge = ready()

    assert bridge.close("the page is closed") == ()
    assert bridge.close() == ()
    (asked,) = sent(bridge)
    assert (asked["method"], asked["params"]) == ("ui/resource-teardown", {"reason": "the page is closed"})
    assert bridge.receive(request("tools/call", {"name": "app"})) == (ToolCallRequested(1, "app", {}),)
    bridge.respond(1)
    assert refusal_of_initialize(bridge) == -32600
    assert bridge.receive({"jsonrpc": "2.0", "id": asked["id"], "result": {}}) == (ViewClosed(),)
    assert bridge.state is ViewState.CLOSED


def refusal_of_initialize(bridge: Bridge) -> int:
    bridge.outgoing.clear()
    return refusal(bridge, initialize())[0]


def test_a_view_that_fails_to_save_has_ended_nevertheless() -> None:
    bridge = ready()
    bridge.close()
    (asked,) = sent(bridge)

    error = {"code": -32000, "message": "the disk is full"}
    assert bridge.receive({"jsonrpc": "2.0", "id": asked["id"], "error": error}) == (ViewClosed(),)
    assert asked["params"] == {}


@pytest.mark.parametrize("begun", [False, True])
def test_a_view_that_is_not_initialized_ends_at_once(begun: bool) -> None:
    bridge = make()
    if begun:
        bridge.receive(initialize())

    assert bridge.close() == (ViewClosed(),)
    assert (bridge.state, sent(bridge)) == (ViewState.CLOSED, [])


def gone(bridge: Bridge) -> Sequence[BridgeEvent]:
    return bridge.view_is_gone()


def test_a_view_that_has_ended_is_neither_heard_nor_told() -> None:
    bridge = ready()
    bridge.receive(request("tools/call", {"name": "app"}))

    assert gone(bridge) == (ViewClosed(),)
    assert gone(bridge) == ()
    assert bridge.close() == ()
    bridge.respond(1)
    bridge.tool_input({})
    bridge.change_context(McpUiHostContext(theme="dark"))
    assert bridge.receive(request("ping")) == ()
    assert sent(bridge) == []
