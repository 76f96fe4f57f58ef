"""The generated types of the apps extension."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import StructureError, types
from trio_mcp.apps import types as app_types

TOOL: dict[str, Any] = {
    "name": "sales",
    "inputSchema": {"type": "object", "properties": {"year": {"type": "integer"}}},
    "execution": {"taskSupport": "optional"},
}
CONTEXT: dict[str, Any] = {
    "toolInfo": {"id": 3, "tool": TOOL},
    "theme": "dark",
    "styles": {"variables": {"--font-sans": "Arial"}},
    "displayMode": "inline",
    "containerDimensions": {"height": 300, "maxWidth": 800.5},
    "weather": "fine",
}
RESULT: dict[str, Any] = {"content": [{"type": "text", "text": "42"}], "structuredContent": [4, 2], "isError": False}


def test_the_answer_of_a_host_comes_back_unchanged() -> None:
    value: dict[str, Any] = {
        "protocolVersion": "2026-01-26",
        "hostInfo": {"name": "h", "version": "1"},
        "hostCapabilities": {"openLinks": {}, "sandbox": {"csp": {"connectDomains": []}}},
        "hostContext": CONTEXT,
    }

    result = types.structure(value, app_types.McpUiInitializeResult)

    assert result.host_info == types.Implementation(name="h", version="1")
    assert result.host_context.extra == {"weather": "fine"}
    assert types.unstructure(result) == value


def test_the_tool_of_a_view_is_a_tool_of_the_core_with_its_schema_as_it_is() -> None:
    context = types.structure(CONTEXT, app_types.McpUiHostContext)

    assert context.tool_info is not None
    assert isinstance(context.tool_info.tool, types.Tool)
    assert context.tool_info.tool.input_schema is TOOL["inputSchema"]


def test_the_dimensions_of_a_view_may_be_fixed_in_one_direction_and_limited_in_the_other() -> None:
    context = types.structure(CONTEXT, app_types.McpUiHostContext)

    assert context.container_dimensions == app_types.McpUiHostContextContainerDimensions(height=300, max_width=800.5)


def test_the_result_of_a_tool_is_that_of_the_core_in_any_revision() -> None:
    notification = types.structure(
        {"method": "ui/notifications/tool-result", "params": RESULT}, app_types.McpUiToolResultNotification
    )

    assert notification.params == types.CallToolResult(
        content=[types.TextContent(text="42")], structured_content=[4, 2], is_error=False
    )


def test_the_files_to_save_are_contents_or_links() -> None:
    link = {"type": "resource_link", "name": "a", "uri": "file:///a", "size": 3}

    params = types.structure({"contents": [link]}, app_types.McpUiDownloadFileRequestParams)

    assert params.contents == [types.ResourceLink(name="a", uri="file:///a", size=3)]
    with pytest.raises(
        StructureError, match=r"\$\.contents\[0\]\.type: expected one of 'resource', 'resource_link', g"
    ):
        types.structure({"contents": [{"type": "text", "text": "a"}]}, app_types.McpUiDownloadFileRequestParams)


def test_members_that_belong_to_the_resource_are_unknown_on_a_tool() -> None:
    meta = types.structure({"resourceUri": "ui://a", "csp": {}}, app_types.McpUiToolMeta)

    assert (meta.resource_uri, meta.extra) == ("ui://a", {"csp": {}})


@pytest.mark.parametrize(
    ("method", "sender", "params"),
    [
        ("ui/initialize", "view", app_types.McpUiInitializeRequestParams),
        ("ui/notifications/tool-result", "host", types.CallToolResult),
        ("ui/notifications/host-context-changed", "host", app_types.McpUiHostContext),
        ("ui/resource-teardown", "host", types.JSONObject),
    ],
)
def test_the_table_of_methods_leads_to_the_classes(method: str, sender: str, params: Any) -> None:
    row = app_types.METHODS[method]

    assert (row.direction, row.params) == (sender, params)
    assert row.kind == ("notification" if "notifications" in method else "request")


def test_a_request_without_a_result_of_its_own_has_an_empty_one() -> None:
    assert app_types.METHODS["ui/update-model-context"].results == (types.EmptyResult,)
