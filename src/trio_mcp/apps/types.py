"""Generated from schema/extensions/apps.json by `python -m codegen`: do not edit. The messages of apps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types import (
    NO_EXTRA,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    Implementation,
    JSONObject,
    Method,
    Model,
    ResourceLink,
    Tool,
)


@frozen(kw_only=True, repr=False, eq=False)
class McpUiAppCapabilities(Model):
    """The capabilities of a view. A member that is present declares a capability.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    available_display_modes: Sequence[McpUiDisplayMode] | None = None
    experimental: Mapping[str, JSONObject] | None = None
    tools: McpUiAppCapabilitiesTools | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiAppCapabilitiesTools(Model):
    """The tools that a view offers to the host.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiClientCapabilities(Model):
    """The settings with which a client declares that it shows apps.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    mime_types: Sequence[str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiDownloadFileRequest(Model):
    """The request of a view that the host let the user save files.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/download-file"] = "ui/download-file"
    params: McpUiDownloadFileRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiDownloadFileRequestParams(Model):
    """The files to save: their contents, or links to resources of the server.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    contents: Sequence[EmbeddedResource | ResourceLink]
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiDownloadFileResult(Model):
    """The outcome of a download.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    is_error: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostCapabilities(Model):
    """The capabilities of a host. A member that is present declares a capability.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    download_file: JSONObject | None = None
    experimental: Mapping[str, JSONObject] | None = None
    logging: JSONObject | None = None
    message: McpUiSupportedContentBlockModalities | None = None
    open_links: JSONObject | None = None
    sampling: McpUiHostCapabilitiesSampling | None = None
    sandbox: McpUiHostCapabilitiesSandbox | None = None
    server_resources: McpUiHostCapabilitiesServerResources | None = None
    server_tools: McpUiHostCapabilitiesServerTools | None = None
    update_model_context: McpUiSupportedContentBlockModalities | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostCapabilitiesSampling(Model):
    """The sampling options that a host offers to its views.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    tools: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostCapabilitiesSandbox(Model):
    """The permissions and the content security policy that a host granted.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    csp: McpUiResourceCsp | None = None
    permissions: McpUiResourcePermissions | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostCapabilitiesServerResources(Model):
    """The operations on resources of the server that a host passes on.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostCapabilitiesServerTools(Model):
    """The operations on tools of the server that a host passes on.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostContext(Model):
    """The surroundings of a view: its tool, its space and the user's preferences.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    available_display_modes: Sequence[McpUiDisplayMode] | None = None
    container_dimensions: McpUiHostContextContainerDimensions | None = None
    device_capabilities: McpUiHostContextDeviceCapabilities | None = None
    display_mode: McpUiDisplayMode | None = None
    locale: str | None = None
    """A BCP 47 language tag, such as `en-GB`."""
    platform: Literal["desktop", "mobile", "web"] | None = None
    safe_area_insets: McpUiHostContextSafeAreaInsets | None = None
    styles: McpUiHostStyles | None = None
    theme: McpUiTheme | None = None
    time_zone: str | None = None
    """A name of the IANA time zone database, such as `Europe/Berlin`."""
    tool_info: McpUiHostContextToolInfo | None = None
    user_agent: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostContextChangedNotification(Model):
    """The notice of a host of the members of the context that have changed.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/host-context-changed"] = "ui/notifications/host-context-changed"
    params: McpUiHostContext
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostContextContainerDimensions(Model):
    """The space for a view: in each direction fixed, limited or free.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    height: float | None = None
    """The fixed height, in CSS pixels."""
    max_height: float | None = None
    """The largest height, in CSS pixels; None for no limit."""
    max_width: float | None = None
    """The largest width, in CSS pixels; None for no limit."""
    width: float | None = None
    """The fixed width, in CSS pixels."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostContextDeviceCapabilities(Model):
    """The ways in which the user can point at things.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    hover: bool | None = None
    touch: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostContextSafeAreaInsets(Model):
    """The margins of the space that a view should leave empty.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    bottom: float
    """In CSS pixels."""
    left: float
    """In CSS pixels."""
    right: float
    """In CSS pixels."""
    top: float
    """In CSS pixels."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostContextToolInfo(Model):
    """The tool whose call a view shows, and the id of the request.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    tool: Tool
    id: int | str | None = None
    """The id of the request of the tool call. 1 and `'1'` are different ids."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostCss(Model):
    """Style sheets of a host for its views.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    fonts: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiHostStyles(Model):
    """The style of a host, which a view can follow.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    css: McpUiHostCss | None = None
    variables: Mapping[str, str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiInitializeRequest(Model):
    """The request of a view that begins the connection with its host.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/initialize"] = "ui/initialize"
    params: McpUiInitializeRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiInitializeRequestParams(Model):
    """The view's half of the handshake.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    app_capabilities: McpUiAppCapabilities
    app_info: Implementation
    protocol_version: str
    """The version of the protocol of apps, which is a date."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiInitializeResult(Model):
    """The host's half of the handshake.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    host_capabilities: McpUiHostCapabilities
    host_context: McpUiHostContext
    host_info: Implementation
    protocol_version: str
    """The version of the protocol of apps, which is a date."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiInitializedNotification(Model):
    """The notice of a view that the handshake is complete. It comes first.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/initialized"] = "ui/notifications/initialized"
    params: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiMessageRequest(Model):
    """The request of a view to add a message of the user to the conversation.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/message"] = "ui/message"
    params: McpUiMessageRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiMessageRequestParams(Model):
    """The message to add.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    content: Sequence[ContentBlock]
    role: Literal["user"] = "user"
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiMessageResult(Model):
    """The outcome of adding a message.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    is_error: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiOpenLinkRequest(Model):
    """The request of a view that the host open a web page in the user's browser.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/open-link"] = "ui/open-link"
    params: McpUiOpenLinkRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiOpenLinkRequestParams(Model):
    """The web page to open.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    url: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiOpenLinkResult(Model):
    """The outcome of opening a web page.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    is_error: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiRequestDisplayModeRequest(Model):
    """The request of a view to be shown in another way.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/request-display-mode"] = "ui/request-display-mode"
    params: McpUiRequestDisplayModeRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiRequestDisplayModeRequestParams(Model):
    """The display mode that the view prefers.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    mode: McpUiDisplayMode
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiRequestDisplayModeResult(Model):
    """The display mode that the host has chosen, which may differ.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    mode: McpUiDisplayMode
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiRequestTeardownNotification(Model):
    """The notice of a view that it wants to be removed.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/request-teardown"] = "ui/notifications/request-teardown"
    params: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiResourceCsp(Model):
    """The origins that a view needs, from which the host makes its content security policy.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    base_uri_domains: Sequence[str] | None = None
    """The origins allowed in `base-uri`."""
    connect_domains: Sequence[str] | None = None
    """The origins that scripts may connect to."""
    frame_domains: Sequence[str] | None = None
    """The origins of nested frames."""
    resource_domains: Sequence[str] | None = None
    """The origins of images, scripts, style sheets, fonts and media."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiResourceMeta(Model):
    """The value of `ui` in the `_meta` of a UI resource: the needs of its view.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    csp: McpUiResourceCsp | None = None
    domain: str | None = None
    permissions: McpUiResourcePermissions | None = None
    prefers_border: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiResourcePermissions(Model):
    """The browser features that a view needs, each as a member.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    camera: JSONObject | None = None
    clipboard_write: JSONObject | None = None
    geolocation: JSONObject | None = None
    microphone: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiResourceTeardownRequest(Model):
    """The request of a host that a view prepare to be removed.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/resource-teardown"] = "ui/resource-teardown"
    params: JSONObject
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiSandboxProxyReadyNotification(Model):
    """The notice of a sandbox proxy, on behalf of the view, that it is ready.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/sandbox-proxy-ready"] = "ui/notifications/sandbox-proxy-ready"
    params: JSONObject
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiSandboxResourceReadyNotification(Model):
    """The HTML of a view, which a host sends to its sandbox proxy.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/sandbox-resource-ready"] = "ui/notifications/sandbox-resource-ready"
    params: McpUiSandboxResourceReadyNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiSandboxResourceReadyNotificationParams(Model):
    """The HTML of a view, and the limits for it.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    html: str
    csp: McpUiResourceCsp | None = None
    permissions: McpUiResourcePermissions | None = None
    sandbox: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiSizeChangedNotification(Model):
    """The notice of a view of the size of its content.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/size-changed"] = "ui/notifications/size-changed"
    params: McpUiSizeChangedNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiSizeChangedNotificationParams(Model):
    """The size of the content of a view.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    height: float | None = None
    """In CSS pixels."""
    width: float | None = None
    """In CSS pixels."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiSupportedContentBlockModalities(Model):
    """The kinds of content that a host accepts, each as a member.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    audio: JSONObject | None = None
    image: JSONObject | None = None
    resource: JSONObject | None = None
    resource_link: JSONObject | None = None
    structured_content: JSONObject | None = None
    text: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolCancelledNotification(Model):
    """The notice of a host that the tool call of a view was cancelled.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/tool-cancelled"] = "ui/notifications/tool-cancelled"
    params: McpUiToolCancelledNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolCancelledNotificationParams(Model):
    """The reason of a cancellation.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    reason: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolInputNotification(Model):
    """The complete arguments of the tool call of a view, which a host sends once.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/tool-input"] = "ui/notifications/tool-input"
    params: McpUiToolInputNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolInputNotificationParams(Model):
    """The complete arguments of a tool call.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    arguments: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolInputPartialNotification(Model):
    """The arguments of a tool call as far as the model has written them.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/tool-input-partial"] = "ui/notifications/tool-input-partial"
    params: McpUiToolInputPartialNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolInputPartialNotificationParams(Model):
    """The incomplete arguments of a tool call, which may change.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    arguments: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolMeta(Model):
    """The value of `ui` in the `_meta` of a tool: the view of its results.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    resource_uri: str | None = None
    visibility: Sequence[McpUiToolVisibility] | None = None
    """The parties that may call the tool: the model, the view or both; None means both."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiToolResultNotification(Model):
    """The result of the tool call of a view, which a host sends once.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/notifications/tool-result"] = "ui/notifications/tool-result"
    params: CallToolResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiUpdateModelContextRequest(Model):
    """The request of a view to replace what the model is told about it.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    method: Literal["ui/update-model-context"] = "ui/update-model-context"
    params: McpUiUpdateModelContextRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class McpUiUpdateModelContextRequestParams(Model):
    """The text and data for the model, in place of earlier ones.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    content: Sequence[ContentBlock] | None = None
    structured_content: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


McpUiDisplayMode: TypeAlias = Literal["fullscreen", "inline", "pip"]
"""The place of a view: in the conversation, on the whole screen, or in a small window.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""


McpUiResourceTeardownResult: TypeAlias = Mapping[str, Any]
"""The answer of a view that it is ready to be removed.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""


McpUiStyleVariableKey: TypeAlias = Literal[
    "--border-radius-full",
    "--border-radius-lg",
    "--border-radius-md",
    "--border-radius-sm",
    "--border-radius-xl",
    "--border-radius-xs",
    "--border-width-regular",
    "--color-background-danger",
    "--color-background-disabled",
    "--color-background-ghost",
    "--color-background-info",
    "--color-background-inverse",
    "--color-background-primary",
    "--color-background-secondary",
    "--color-background-success",
    "--color-background-tertiary",
    "--color-background-warning",
    "--color-border-danger",
    "--color-border-disabled",
    "--color-border-ghost",
    "--color-border-info",
    "--color-border-inverse",
    "--color-border-primary",
    "--color-border-secondary",
    "--color-border-success",
    "--color-border-tertiary",
    "--color-border-warning",
    "--color-ring-danger",
    "--color-ring-info",
    "--color-ring-inverse",
    "--color-ring-primary",
    "--color-ring-secondary",
    "--color-ring-success",
    "--color-ring-warning",
    "--color-text-danger",
    "--color-text-disabled",
    "--color-text-ghost",
    "--color-text-info",
    "--color-text-inverse",
    "--color-text-primary",
    "--color-text-secondary",
    "--color-text-success",
    "--color-text-tertiary",
    "--color-text-warning",
    "--font-heading-2xl-line-height",
    "--font-heading-2xl-size",
    "--font-heading-3xl-line-height",
    "--font-heading-3xl-size",
    "--font-heading-lg-line-height",
    "--font-heading-lg-size",
    "--font-heading-md-line-height",
    "--font-heading-md-size",
    "--font-heading-sm-line-height",
    "--font-heading-sm-size",
    "--font-heading-xl-line-height",
    "--font-heading-xl-size",
    "--font-heading-xs-line-height",
    "--font-heading-xs-size",
    "--font-mono",
    "--font-sans",
    "--font-text-lg-line-height",
    "--font-text-lg-size",
    "--font-text-md-line-height",
    "--font-text-md-size",
    "--font-text-sm-line-height",
    "--font-text-sm-size",
    "--font-text-xs-line-height",
    "--font-text-xs-size",
    "--font-weight-bold",
    "--font-weight-medium",
    "--font-weight-normal",
    "--font-weight-semibold",
    "--shadow-hairline",
    "--shadow-lg",
    "--shadow-md",
    "--shadow-sm",
]
"""The name of a CSS variable that a host sets for its views.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""


McpUiStyles: TypeAlias = Mapping[str, str]
"""The values of the CSS variables of a host, by their names.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""


McpUiTheme: TypeAlias = Literal["dark", "light"]
"""The colours that the user prefers: light or dark.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""


McpUiToolVisibility: TypeAlias = Literal["app", "model"]
"""A party that may call a tool: the model, or the view (`app`).

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

__all__ = [
    "EXTENSION",
    "METHODS",
    "McpUiAppCapabilities",
    "McpUiAppCapabilitiesTools",
    "McpUiClientCapabilities",
    "McpUiDisplayMode",
    "McpUiDownloadFileRequest",
    "McpUiDownloadFileRequestParams",
    "McpUiDownloadFileResult",
    "McpUiHostCapabilities",
    "McpUiHostCapabilitiesSampling",
    "McpUiHostCapabilitiesSandbox",
    "McpUiHostCapabilitiesServerResources",
    "McpUiHostCapabilitiesServerTools",
    "McpUiHostContext",
    "McpUiHostContextChangedNotification",
    "McpUiHostContextContainerDimensions",
    "McpUiHostContextDeviceCapabilities",
    "McpUiHostContextSafeAreaInsets",
    "McpUiHostContextToolInfo",
    "McpUiHostCss",
    "McpUiHostStyles",
    "McpUiInitializeRequest",
    "McpUiInitializeRequestParams",
    "McpUiInitializeResult",
    "McpUiInitializedNotification",
    "McpUiMessageRequest",
    "McpUiMessageRequestParams",
    "McpUiMessageResult",
    "McpUiOpenLinkRequest",
    "McpUiOpenLinkRequestParams",
    "McpUiOpenLinkResult",
    "McpUiRequestDisplayModeRequest",
    "McpUiRequestDisplayModeRequestParams",
    "McpUiRequestDisplayModeResult",
    "McpUiRequestTeardownNotification",
    "McpUiResourceCsp",
    "McpUiResourceMeta",
    "McpUiResourcePermissions",
    "McpUiResourceTeardownRequest",
    "McpUiResourceTeardownResult",
    "McpUiSandboxProxyReadyNotification",
    "McpUiSandboxResourceReadyNotification",
    "McpUiSandboxResourceReadyNotificationParams",
    "McpUiSizeChangedNotification",
    "McpUiSizeChangedNotificationParams",
    "McpUiStyleVariableKey",
    "McpUiStyles",
    "McpUiSupportedContentBlockModalities",
    "McpUiTheme",
    "McpUiToolCancelledNotification",
    "McpUiToolCancelledNotificationParams",
    "McpUiToolInputNotification",
    "McpUiToolInputNotificationParams",
    "McpUiToolInputPartialNotification",
    "McpUiToolInputPartialNotificationParams",
    "McpUiToolMeta",
    "McpUiToolResultNotification",
    "McpUiToolVisibility",
    "McpUiUpdateModelContextRequest",
    "McpUiUpdateModelContextRequestParams",
]
EXTENSION: Final = "io.modelcontextprotocol/ui"
"""The name under which both sides declare the extension."""
METHODS: Final[Mapping[str, Method]] = {
    "ui/download-file": Method(
        "request",
        "view",
        "trio_mcp.apps.types.McpUiDownloadFileRequestParams",
        True,
        ("trio_mcp.apps.types.McpUiDownloadFileResult",),
    ),
    "ui/initialize": Method(
        "request",
        "view",
        "trio_mcp.apps.types.McpUiInitializeRequestParams",
        True,
        ("trio_mcp.apps.types.McpUiInitializeResult",),
    ),
    "ui/message": Method(
        "request",
        "view",
        "trio_mcp.apps.types.McpUiMessageRequestParams",
        True,
        ("trio_mcp.apps.types.McpUiMessageResult",),
    ),
    "ui/notifications/host-context-changed": Method(
        "notification", "host", "trio_mcp.apps.types.McpUiHostContext", True, ()
    ),
    "ui/notifications/initialized": Method("notification", "view", "JSONObject", False, ()),
    "ui/notifications/request-teardown": Method("notification", "view", "JSONObject", False, ()),
    "ui/notifications/sandbox-proxy-ready": Method("notification", "view", "JSONObject", True, ()),
    "ui/notifications/sandbox-resource-ready": Method(
        "notification", "host", "trio_mcp.apps.types.McpUiSandboxResourceReadyNotificationParams", True, ()
    ),
    "ui/notifications/size-changed": Method(
        "notification", "view", "trio_mcp.apps.types.McpUiSizeChangedNotificationParams", True, ()
    ),
    "ui/notifications/tool-cancelled": Method(
        "notification", "host", "trio_mcp.apps.types.McpUiToolCancelledNotificationParams", True, ()
    ),
    "ui/notifications/tool-input": Method(
        "notification", "host", "trio_mcp.apps.types.McpUiToolInputNotificationParams", True, ()
    ),
    "ui/notifications/tool-input-partial": Method(
        "notification", "host", "trio_mcp.apps.types.McpUiToolInputPartialNotificationParams", True, ()
    ),
    "ui/notifications/tool-result": Method("notification", "host", "CallToolResult", True, ()),
    "ui/open-link": Method(
        "request",
        "view",
        "trio_mcp.apps.types.McpUiOpenLinkRequestParams",
        True,
        ("trio_mcp.apps.types.McpUiOpenLinkResult",),
    ),
    "ui/request-display-mode": Method(
        "request",
        "view",
        "trio_mcp.apps.types.McpUiRequestDisplayModeRequestParams",
        True,
        ("trio_mcp.apps.types.McpUiRequestDisplayModeResult",),
    ),
    "ui/resource-teardown": Method(
        "request", "host", "JSONObject", True, ("trio_mcp.apps.types.McpUiResourceTeardownResult",)
    ),
    "ui/update-model-context": Method(
        "request", "view", "trio_mcp.apps.types.McpUiUpdateModelContextRequestParams", True, ("EmptyResult",)
    ),
}
"""Every method of the extension, by its name on the wire."""
