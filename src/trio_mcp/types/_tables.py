"""Generated from schema/ by `python -m codegen`: do not edit. The methods, errors and members of each revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trio_mcp.types._model import Bounds, ErrorShape, Method, Profile, rows_in

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Every protocol revision that this package supports, oldest first."""
# A value of the tables below holds from the revision before it until the next one; None ends a row.
_METHODS: Final[Mapping[str, Mapping[str, Method | None]]] = {
    "completion/complete": {
        "2024-11-05": Method("request", "client", "CompleteRequestParams", True, ("CompleteResult",))
    },
    "elicitation/create": {
        "2025-06-18": Method("request", "server", "ElicitRequestFormParams", True, ("ElicitResult",)),
        "2025-11-25": Method("request", "server", "ElicitRequestParams", True, ("ElicitResult", "CreateTaskResult")),
        "2026-07-28": Method("embedded", "server", "ElicitRequestParams", True, ("ElicitResult",)),
    },
    "initialize": {
        "2024-11-05": Method("request", "client", "InitializeRequestParams", True, ("InitializeResult",)),
        "2026-07-28": None,
    },
    "logging/setLevel": {
        "2024-11-05": Method("request", "client", "SetLevelRequestParams", True, ("EmptyResult",)),
        "2026-07-28": None,
    },
    "notifications/cancelled": {"2024-11-05": Method("notification", "both", "CancelledNotificationParams", True, ())},
    "notifications/elicitation/complete": {
        "2025-11-25": Method("notification", "server", "ElicitationCompleteNotificationParams", True, ()),
        "2026-07-28": None,
    },
    "notifications/initialized": {
        "2024-11-05": Method("notification", "client", "NotificationParams", False, ()),
        "2026-07-28": None,
    },
    "notifications/message": {
        "2024-11-05": Method("notification", "server", "LoggingMessageNotificationParams", True, ())
    },
    "notifications/progress": {
        "2024-11-05": Method("notification", "both", "ProgressNotificationParams", True, ()),
        "2026-07-28": Method("notification", "server", "ProgressNotificationParams", True, ()),
    },
    "notifications/prompts/list_changed": {
        "2024-11-05": Method("notification", "server", "NotificationParams", False, ())
    },
    "notifications/resources/list_changed": {
        "2024-11-05": Method("notification", "server", "NotificationParams", False, ())
    },
    "notifications/resources/updated": {
        "2024-11-05": Method("notification", "server", "ResourceUpdatedNotificationParams", True, ())
    },
    "notifications/roots/list_changed": {
        "2024-11-05": Method("notification", "client", "NotificationParams", False, ()),
        "2026-07-28": None,
    },
    "notifications/subscriptions/acknowledged": {
        "2026-07-28": Method("notification", "server", "SubscriptionsAcknowledgedNotificationParams", True, ())
    },
    "notifications/tasks/status": {
        "2025-11-25": Method("notification", "both", "TaskStatusNotificationParams", True, ()),
        "2026-07-28": None,
    },
    "notifications/tools/list_changed": {
        "2024-11-05": Method("notification", "server", "NotificationParams", False, ())
    },
    "ping": {"2024-11-05": Method("request", "both", "RequestParams", False, ("EmptyResult",)), "2026-07-28": None},
    "prompts/get": {
        "2024-11-05": Method("request", "client", "GetPromptRequestParams", True, ("GetPromptResult",)),
        "2026-07-28": Method(
            "request", "client", "GetPromptRequestParams", True, ("GetPromptResult", "InputRequiredResult")
        ),
    },
    "prompts/list": {
        "2024-11-05": Method("request", "client", "PaginatedRequestParams", False, ("ListPromptsResult",)),
        "2026-07-28": Method("request", "client", "PaginatedRequestParams", True, ("ListPromptsResult",)),
    },
    "resources/list": {
        "2024-11-05": Method("request", "client", "PaginatedRequestParams", False, ("ListResourcesResult",)),
        "2026-07-28": Method("request", "client", "PaginatedRequestParams", True, ("ListResourcesResult",)),
    },
    "resources/read": {
        "2024-11-05": Method("request", "client", "ReadResourceRequestParams", True, ("ReadResourceResult",)),
        "2026-07-28": Method(
            "request", "client", "ReadResourceRequestParams", True, ("ReadResourceResult", "InputRequiredResult")
        ),
    },
    "resources/subscribe": {
        "2024-11-05": Method("request", "client", "SubscribeRequestParams", True, ("EmptyResult",)),
        "2026-07-28": None,
    },
    "resources/templates/list": {
        "2024-11-05": Method("request", "client", "PaginatedRequestParams", False, ("ListResourceTemplatesResult",)),
        "2026-07-28": Method("request", "client", "PaginatedRequestParams", True, ("ListResourceTemplatesResult",)),
    },
    "resources/unsubscribe": {
        "2024-11-05": Method("request", "client", "UnsubscribeRequestParams", True, ("EmptyResult",)),
        "2026-07-28": None,
    },
    "roots/list": {
        "2024-11-05": Method("request", "server", "ListRootsRequestParams", False, ("ListRootsResult",)),
        "2026-07-28": Method("embedded", "server", "ListRootsRequestParams", False, ("ListRootsResult",)),
    },
    "sampling/createMessage": {
        "2024-11-05": Method("request", "server", "CreateMessageRequestParams", True, ("CreateMessageResult",)),
        "2025-11-25": Method(
            "request", "server", "CreateMessageRequestParams", True, ("CreateMessageResult", "CreateTaskResult")
        ),
        "2026-07-28": Method("embedded", "server", "CreateMessageRequestParams", True, ("CreateMessageResult",)),
    },
    "server/discover": {"2026-07-28": Method("request", "client", "RequestParams", True, ("DiscoverResult",))},
    "subscriptions/listen": {
        "2026-07-28": Method(
            "request", "client", "SubscriptionsListenRequestParams", True, ("SubscriptionsListenResult",)
        )
    },
    "tasks/cancel": {
        "2025-11-25": Method("request", "both", "CancelTaskRequestParams", True, ("CancelTaskResult",)),
        "2026-07-28": None,
    },
    "tasks/get": {
        "2025-11-25": Method("request", "both", "GetTaskRequestParams", True, ("GetTaskResult",)),
        "2026-07-28": None,
    },
    "tasks/list": {
        "2025-11-25": Method("request", "both", "PaginatedRequestParams", False, ("ListTasksResult",)),
        "2026-07-28": None,
    },
    "tasks/result": {
        "2025-11-25": Method("request", "both", "GetTaskPayloadRequestParams", True, ("GetTaskPayloadResult",)),
        "2026-07-28": None,
    },
    "tools/call": {
        "2024-11-05": Method("request", "client", "CallToolRequestParams", True, ("CallToolResult",)),
        "2025-11-25": Method(
            "request", "client", "CallToolRequestParams", True, ("CallToolResult", "CreateTaskResult")
        ),
        "2026-07-28": Method(
            "request", "client", "CallToolRequestParams", True, ("CallToolResult", "InputRequiredResult")
        ),
    },
    "tools/list": {
        "2024-11-05": Method("request", "client", "PaginatedRequestParams", False, ("ListToolsResult",)),
        "2026-07-28": Method("request", "client", "PaginatedRequestParams", True, ("ListToolsResult",)),
    },
}
_ERRORS: Final[Mapping[int, Mapping[str, ErrorShape | None]]] = {
    -32020: {"2026-07-28": ErrorShape("HeaderMismatchError", None)},
    -32021: {
        "2026-07-28": ErrorShape("MissingRequiredClientCapabilityError", "MissingRequiredClientCapabilityErrorData")
    },
    -32022: {"2026-07-28": ErrorShape("UnsupportedProtocolVersionError", "UnsupportedProtocolVersionErrorData")},
    -32042: {
        "2025-11-25": ErrorShape("URLElicitationRequiredError", "URLElicitationRequiredErrorData"),
        "2026-07-28": None,
    },
    -32600: {"2026-07-28": ErrorShape("InvalidRequestError", None)},
    -32601: {"2026-07-28": ErrorShape("MethodNotFoundError", None)},
    -32602: {"2026-07-28": ErrorShape("InvalidParamsError", None)},
    -32603: {"2026-07-28": ErrorShape("InternalError", None)},
    -32700: {"2026-07-28": ErrorShape("ParseError", None)},
}
_REQUIRED: Final[Mapping[str, Mapping[str, tuple[str, ...] | None]]] = {
    "CallToolRequestParams": {"2026-07-28": ("_meta",)},
    "CallToolResult": {"2026-07-28": ("resultType",)},
    "CancelledNotificationParams": {"2024-11-05": ("requestId",), "2025-11-25": None, "2026-07-28": ("requestId",)},
    "CompleteRequestParams": {"2026-07-28": ("_meta",)},
    "CompleteResult": {"2026-07-28": ("resultType",)},
    "CreateMessageRequest": {"2024-11-05": ("id", "jsonrpc"), "2026-07-28": None},
    "ElicitRequest": {"2025-06-18": ("id", "jsonrpc"), "2026-07-28": None},
    "ElicitRequestURLParams": {"2025-11-25": ("elicitationId",), "2026-07-28": None},
    "GetPromptRequestParams": {"2026-07-28": ("_meta",)},
    "GetPromptResult": {"2026-07-28": ("resultType",)},
    "JSONRPCErrorResponse": {"2024-11-05": ("id",), "2025-11-25": None},
    "ListPromptsRequest": {"2026-07-28": ("params",)},
    "ListPromptsResult": {"2026-07-28": ("cacheScope", "resultType", "ttlMs")},
    "ListResourceTemplatesRequest": {"2026-07-28": ("params",)},
    "ListResourceTemplatesResult": {"2026-07-28": ("cacheScope", "resultType", "ttlMs")},
    "ListResourcesRequest": {"2026-07-28": ("params",)},
    "ListResourcesResult": {"2026-07-28": ("cacheScope", "resultType", "ttlMs")},
    "ListRootsRequest": {"2024-11-05": ("id", "jsonrpc"), "2026-07-28": None},
    "ListToolsRequest": {"2026-07-28": ("params",)},
    "ListToolsResult": {"2026-07-28": ("cacheScope", "resultType", "ttlMs")},
    "PaginatedRequest": {"2026-07-28": ("params",)},
    "PaginatedRequestParams": {"2026-07-28": ("_meta",)},
    "PaginatedResult": {"2026-07-28": ("resultType",)},
    "ReadResourceRequestParams": {"2026-07-28": ("_meta",)},
    "ReadResourceResult": {"2026-07-28": ("cacheScope", "resultType", "ttlMs")},
    "RequestMetaObject": {
        "2026-07-28": ("io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/protocolVersion")
    },
    "RequestParams": {"2026-07-28": ("_meta",)},
    "ResourceRequestParams": {"2026-07-28": ("_meta",)},
    "Result": {"2026-07-28": ("resultType",)},
}
_UNKNOWN: Final[Mapping[str, Mapping[str, tuple[str, ...] | None]]] = {
    "Annotations": {"2024-11-05": ("lastModified",), "2025-06-18": None},
    "AudioContent": {"2025-03-26": ("_meta",), "2025-06-18": None},
    "BlobResourceContents": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "CallToolRequestParams": {
        "2024-11-05": ("inputResponses", "requestState", "task"),
        "2025-11-25": ("inputResponses", "requestState"),
        "2026-07-28": ("task",),
    },
    "CallToolResult": {
        "2024-11-05": ("resultType", "structuredContent"),
        "2025-06-18": ("resultType",),
        "2026-07-28": None,
    },
    "ClientCapabilities": {
        "2024-11-05": ("elicitation", "extensions", "tasks"),
        "2025-06-18": ("extensions", "tasks"),
        "2025-11-25": ("extensions",),
        "2026-07-28": ("tasks",),
    },
    "CompleteRequestParams": {"2024-11-05": ("context",), "2025-06-18": None},
    "CompleteResult": {"2024-11-05": ("resultType",), "2026-07-28": None},
    "CreateMessageRequest": {"2026-07-28": ("id", "jsonrpc")},
    "CreateMessageRequestParams": {
        "2024-11-05": ("task", "toolChoice", "tools"),
        "2025-11-25": None,
        "2026-07-28": ("_meta", "task"),
    },
    "ElicitRequest": {"2026-07-28": ("id", "jsonrpc")},
    "ElicitRequestFormParams": {"2025-06-18": ("mode", "task"), "2025-11-25": None, "2026-07-28": ("_meta", "task")},
    "ElicitRequestURLParams": {"2026-07-28": ("_meta", "elicitationId", "task")},
    "ElicitRequestedSchema": {"2025-06-18": ("$schema",), "2025-11-25": None},
    "ElicitResult": {"2026-07-28": ("_meta",)},
    "ElicitationCapability": {"2025-06-18": ("form", "url"), "2025-11-25": None},
    "EmbeddedResource": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "GetPromptRequestParams": {"2024-11-05": ("inputResponses", "requestState"), "2026-07-28": None},
    "GetPromptResult": {"2024-11-05": ("resultType",), "2026-07-28": None},
    "ImageContent": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "Implementation": {
        "2024-11-05": ("description", "icons", "title", "websiteUrl"),
        "2025-06-18": ("description", "icons", "websiteUrl"),
        "2025-11-25": None,
    },
    "LegacyTitledEnumSchema": {"2025-06-18": ("default",), "2025-11-25": None},
    "ListPromptsResult": {"2024-11-05": ("cacheScope", "resultType", "ttlMs"), "2026-07-28": None},
    "ListResourceTemplatesResult": {"2024-11-05": ("cacheScope", "resultType", "ttlMs"), "2026-07-28": None},
    "ListResourcesResult": {"2024-11-05": ("cacheScope", "resultType", "ttlMs"), "2026-07-28": None},
    "ListRootsRequest": {"2026-07-28": ("id", "jsonrpc")},
    "ListRootsResult": {"2026-07-28": ("_meta",)},
    "ListToolsResult": {"2024-11-05": ("cacheScope", "resultType", "ttlMs"), "2026-07-28": None},
    "NotificationMetaObject": {"2024-11-05": ("io.modelcontextprotocol/subscriptionId",), "2026-07-28": None},
    "NumberSchema": {"2025-06-18": ("default",), "2025-11-25": None},
    "PaginatedResult": {"2024-11-05": ("resultType",), "2026-07-28": None},
    "ProgressNotificationParams": {"2024-11-05": ("message",), "2025-03-26": None},
    "Prompt": {"2024-11-05": ("_meta", "icons", "title"), "2025-06-18": ("icons",), "2025-11-25": None},
    "PromptArgument": {"2024-11-05": ("title",), "2025-06-18": None},
    "PromptReference": {"2024-11-05": ("title",), "2025-06-18": None},
    "ReadResourceRequestParams": {"2024-11-05": ("inputResponses", "requestState"), "2026-07-28": None},
    "ReadResourceResult": {"2024-11-05": ("cacheScope", "resultType", "ttlMs"), "2026-07-28": None},
    "RequestMetaObject": {
        "2024-11-05": (
            "io.modelcontextprotocol/clientCapabilities",
            "io.modelcontextprotocol/clientInfo",
            "io.modelcontextprotocol/logLevel",
            "io.modelcontextprotocol/protocolVersion",
        ),
        "2026-07-28": None,
    },
    "Resource": {"2024-11-05": ("_meta", "icons", "title"), "2025-06-18": ("icons",), "2025-11-25": None},
    "ResourceContents": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "ResourceLink": {"2025-06-18": ("icons",), "2025-11-25": None},
    "ResourceTemplate": {"2024-11-05": ("_meta", "icons", "title"), "2025-06-18": ("icons",), "2025-11-25": None},
    "Result": {"2024-11-05": ("resultType",), "2026-07-28": None},
    "ResultMetaObject": {"2024-11-05": ("io.modelcontextprotocol/serverInfo",), "2026-07-28": None},
    "Root": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "RootsCapability": {"2026-07-28": ("listChanged",)},
    "SamplingCapability": {"2024-11-05": ("context", "tools"), "2025-11-25": None},
    "SamplingMessage": {"2024-11-05": ("_meta",), "2025-11-25": None},
    "ServerCapabilities": {
        "2024-11-05": ("completions", "extensions", "tasks"),
        "2025-03-26": ("extensions", "tasks"),
        "2025-11-25": ("extensions",),
        "2026-07-28": ("tasks",),
    },
    "StringSchema": {"2025-06-18": ("default",), "2025-11-25": None},
    "TextContent": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "TextResourceContents": {"2024-11-05": ("_meta",), "2025-06-18": None},
    "Tool": {
        "2024-11-05": ("_meta", "annotations", "execution", "icons", "outputSchema", "title"),
        "2025-03-26": ("_meta", "execution", "icons", "outputSchema", "title"),
        "2025-06-18": ("execution", "icons"),
        "2025-11-25": None,
        "2026-07-28": ("execution",),
    },
}
_BOUNDS: Final[Mapping[str, Mapping[str, Mapping[str, Bounds] | None]]] = {
    "Annotations": {"2024-11-05": {"priority": Bounds(maximum=1, minimum=0)}},
    "CacheableResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
    "Completion": {"2026-07-28": {"values": Bounds(max_length=100)}},
    "DiscoverResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
    "ListPromptsResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
    "ListResourceTemplatesResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
    "ListResourcesResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
    "ListToolsResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
    "ModelPreferences": {
        "2024-11-05": {
            "costPriority": Bounds(maximum=1, minimum=0),
            "intelligencePriority": Bounds(maximum=1, minimum=0),
            "speedPriority": Bounds(maximum=1, minimum=0),
        }
    },
    "ReadResourceResult": {"2026-07-28": {"ttlMs": Bounds(minimum=0)}},
}
_META_NAMES: Final[Mapping[str, Mapping[str, str | None]]] = {
    "CacheableResult": {"2026-07-28": "ResultMetaObject"},
    "CallToolRequestParams": {"2024-11-05": "RequestMetaObject"},
    "CallToolResult": {"2024-11-05": "ResultMetaObject"},
    "CancelledNotificationParams": {"2024-11-05": "NotificationMetaObject"},
    "CompleteRequestParams": {"2024-11-05": "RequestMetaObject"},
    "CompleteResult": {"2024-11-05": "ResultMetaObject"},
    "CreateMessageRequestParams": {"2024-11-05": "RequestMetaObject", "2026-07-28": None},
    "DiscoverResult": {"2026-07-28": "ResultMetaObject"},
    "ElicitRequestFormParams": {"2025-06-18": "RequestMetaObject", "2026-07-28": None},
    "ElicitRequestURLParams": {"2025-11-25": "RequestMetaObject", "2026-07-28": None},
    "GetPromptRequestParams": {"2024-11-05": "RequestMetaObject"},
    "GetPromptResult": {"2024-11-05": "ResultMetaObject"},
    "InitializeRequestParams": {"2024-11-05": "RequestMetaObject", "2026-07-28": None},
    "InputRequiredResult": {"2026-07-28": "ResultMetaObject"},
    "InputResponseRequestParams": {"2026-07-28": "RequestMetaObject"},
    "ListPromptsResult": {"2024-11-05": "ResultMetaObject"},
    "ListResourceTemplatesResult": {"2024-11-05": "ResultMetaObject"},
    "ListResourcesResult": {"2024-11-05": "ResultMetaObject"},
    "ListRootsRequestParams": {"2024-11-05": "RequestMetaObject", "2026-07-28": None},
    "ListToolsResult": {"2024-11-05": "ResultMetaObject"},
    "LoggingMessageNotificationParams": {"2024-11-05": "NotificationMetaObject"},
    "NotificationParams": {"2024-11-05": "NotificationMetaObject"},
    "PaginatedRequestParams": {"2024-11-05": "RequestMetaObject"},
    "PaginatedResult": {"2024-11-05": "ResultMetaObject"},
    "ProgressNotificationParams": {"2024-11-05": "NotificationMetaObject"},
    "ReadResourceRequestParams": {"2024-11-05": "RequestMetaObject"},
    "ReadResourceResult": {"2024-11-05": "ResultMetaObject"},
    "RequestParams": {"2024-11-05": "RequestMetaObject"},
    "ResourceRequestParams": {"2025-11-25": "RequestMetaObject"},
    "ResourceUpdatedNotificationParams": {"2024-11-05": "NotificationMetaObject"},
    "Result": {"2024-11-05": "ResultMetaObject"},
    "SetLevelRequestParams": {"2024-11-05": "RequestMetaObject", "2026-07-28": None},
    "SubscribeRequestParams": {"2024-11-05": "RequestMetaObject", "2026-07-28": None},
    "SubscriptionsAcknowledgedNotificationParams": {"2026-07-28": "NotificationMetaObject"},
    "SubscriptionsListenRequestParams": {"2026-07-28": "RequestMetaObject"},
    "SubscriptionsListenResult": {"2026-07-28": "SubscriptionsListenResultMetaObject"},
    "TaskAugmentedRequestParams": {"2025-11-25": "RequestMetaObject", "2026-07-28": None},
    "UnsubscribeRequestParams": {"2024-11-05": "RequestMetaObject", "2026-07-28": None},
}

METHODS: Final[Mapping[str, Mapping[str, Method]]] = {each: rows_in(each, _METHODS) for each in REVISIONS}
"""Every method of each revision, by its name on the wire."""
ERRORS: Final[Mapping[str, Mapping[int, ErrorShape]]] = {each: rows_in(each, _ERRORS) for each in REVISIONS}
"""Every error code that a revision defines. The older revisions use the codes of JSON-RPC and define none."""
PROFILES: Final[Mapping[str, Profile]] = {
    each: Profile(
        required=rows_in(each, _REQUIRED),
        unknown=rows_in(each, _UNKNOWN),
        bounds=rows_in(each, _BOUNDS),
        meta_names=rows_in(each, _META_NAMES),
    )
    for each in REVISIONS
}
"""The differences between each revision and the classes."""

SUPERSET: Final = Profile(
    required={},
    unknown={},
    bounds={
        "Annotations": {"priority": Bounds(maximum=1, minimum=0)},
        "CacheableResult": {"ttlMs": Bounds(minimum=0)},
        "DiscoverResult": {"ttlMs": Bounds(minimum=0)},
        "ListPromptsResult": {"ttlMs": Bounds(minimum=0)},
        "ListResourceTemplatesResult": {"ttlMs": Bounds(minimum=0)},
        "ListResourcesResult": {"ttlMs": Bounds(minimum=0)},
        "ListToolsResult": {"ttlMs": Bounds(minimum=0)},
        "ModelPreferences": {
            "costPriority": Bounds(maximum=1, minimum=0),
            "intelligencePriority": Bounds(maximum=1, minimum=0),
            "speedPriority": Bounds(maximum=1, minimum=0),
        },
        "ReadResourceResult": {"ttlMs": Bounds(minimum=0)},
    },
    meta_names={
        "CacheableResult": "ResultMetaObject",
        "CallToolRequestParams": "RequestMetaObject",
        "CallToolResult": "ResultMetaObject",
        "CancelledNotificationParams": "NotificationMetaObject",
        "CompleteRequestParams": "RequestMetaObject",
        "CompleteResult": "ResultMetaObject",
        "CreateMessageRequestParams": "RequestMetaObject",
        "DiscoverResult": "ResultMetaObject",
        "ElicitRequestFormParams": "RequestMetaObject",
        "ElicitRequestURLParams": "RequestMetaObject",
        "GetPromptRequestParams": "RequestMetaObject",
        "GetPromptResult": "ResultMetaObject",
        "InitializeRequestParams": "RequestMetaObject",
        "InputRequiredResult": "ResultMetaObject",
        "InputResponseRequestParams": "RequestMetaObject",
        "ListPromptsResult": "ResultMetaObject",
        "ListResourceTemplatesResult": "ResultMetaObject",
        "ListResourcesResult": "ResultMetaObject",
        "ListRootsRequestParams": "RequestMetaObject",
        "ListToolsResult": "ResultMetaObject",
        "LoggingMessageNotificationParams": "NotificationMetaObject",
        "NotificationParams": "NotificationMetaObject",
        "PaginatedRequestParams": "RequestMetaObject",
        "PaginatedResult": "ResultMetaObject",
        "ProgressNotificationParams": "NotificationMetaObject",
        "ReadResourceRequestParams": "RequestMetaObject",
        "ReadResourceResult": "ResultMetaObject",
        "RequestParams": "RequestMetaObject",
        "ResourceRequestParams": "RequestMetaObject",
        "ResourceUpdatedNotificationParams": "NotificationMetaObject",
        "Result": "ResultMetaObject",
        "SetLevelRequestParams": "RequestMetaObject",
        "SubscribeRequestParams": "RequestMetaObject",
        "SubscriptionsAcknowledgedNotificationParams": "NotificationMetaObject",
        "SubscriptionsListenRequestParams": "RequestMetaObject",
        "SubscriptionsListenResult": "SubscriptionsListenResultMetaObject",
        "TaskAugmentedRequestParams": "RequestMetaObject",
        "UnsubscribeRequestParams": "RequestMetaObject",
    },
)
"""The profile that is used if no revision is given. It holds in every revision."""
LENIENT: Final = frozenset(
    [
        "ClientCapabilities",
        "ClientTaskRequestsCapability",
        "ClientTasksCapability",
        "ElicitationCapability",
        "ElicitationTasksCapability",
        "PromptsCapability",
        "ResourcesCapability",
        "RootsCapability",
        "SamplingCapability",
        "SamplingTasksCapability",
        "ServerCapabilities",
        "ServerTaskRequestsCapability",
        "ServerTasksCapability",
        "ToolTasksCapability",
        "ToolsCapability",
    ]
)
"""The classes that keep a member of the wrong type in `extra` instead of failing."""
WIRE_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "AudioContent": {"meta": "_meta"},
    "BlobResourceContents": {"meta": "_meta"},
    "CacheableResult": {"meta": "_meta"},
    "CallToolRequestParams": {"meta": "_meta"},
    "CallToolResult": {"meta": "_meta"},
    "CancelTaskResult": {"meta": "_meta"},
    "CancelledNotificationParams": {"meta": "_meta"},
    "CompleteRequestParams": {"meta": "_meta"},
    "CompleteResult": {"meta": "_meta"},
    "CreateMessageRequestParams": {"meta": "_meta"},
    "CreateMessageResult": {"meta": "_meta"},
    "CreateTaskResult": {"meta": "_meta"},
    "DiscoverResult": {"meta": "_meta"},
    "ElicitRequestFormParams": {"meta": "_meta"},
    "ElicitRequestURLParams": {"meta": "_meta"},
    "ElicitRequestedSchema": {"schema_uri": "$schema"},
    "ElicitResult": {"meta": "_meta"},
    "EmbeddedResource": {"meta": "_meta"},
    "GetPromptRequestParams": {"meta": "_meta"},
    "GetPromptResult": {"meta": "_meta"},
    "GetTaskPayloadResult": {"meta": "_meta"},
    "GetTaskResult": {"meta": "_meta"},
    "ImageContent": {"meta": "_meta"},
    "InitializeRequestParams": {"meta": "_meta"},
    "InitializeResult": {"meta": "_meta"},
    "InputRequiredResult": {"meta": "_meta"},
    "InputResponseRequestParams": {"meta": "_meta"},
    "ListPromptsResult": {"meta": "_meta"},
    "ListResourceTemplatesResult": {"meta": "_meta"},
    "ListResourcesResult": {"meta": "_meta"},
    "ListRootsRequestParams": {"meta": "_meta"},
    "ListRootsResult": {"meta": "_meta"},
    "ListTasksResult": {"meta": "_meta"},
    "ListToolsResult": {"meta": "_meta"},
    "LoggingMessageNotificationParams": {"meta": "_meta"},
    "NotificationMetaObject": {"subscription_id": "io.modelcontextprotocol/subscriptionId"},
    "NotificationParams": {"meta": "_meta"},
    "PaginatedRequestParams": {"meta": "_meta"},
    "PaginatedResult": {"meta": "_meta"},
    "ProgressNotificationParams": {"meta": "_meta"},
    "Prompt": {"meta": "_meta"},
    "ReadResourceRequestParams": {"meta": "_meta"},
    "ReadResourceResult": {"meta": "_meta"},
    "RequestMetaObject": {
        "client_capabilities": "io.modelcontextprotocol/clientCapabilities",
        "client_info": "io.modelcontextprotocol/clientInfo",
        "log_level": "io.modelcontextprotocol/logLevel",
        "protocol_version": "io.modelcontextprotocol/protocolVersion",
    },
    "RequestParams": {"meta": "_meta"},
    "Resource": {"meta": "_meta"},
    "ResourceContents": {"meta": "_meta"},
    "ResourceLink": {"meta": "_meta"},
    "ResourceRequestParams": {"meta": "_meta"},
    "ResourceTemplate": {"meta": "_meta"},
    "ResourceUpdatedNotificationParams": {"meta": "_meta"},
    "Result": {"meta": "_meta"},
    "ResultMetaObject": {"server_info": "io.modelcontextprotocol/serverInfo"},
    "Root": {"meta": "_meta"},
    "SamplingMessage": {"meta": "_meta"},
    "SetLevelRequestParams": {"meta": "_meta"},
    "SubscribeRequestParams": {"meta": "_meta"},
    "SubscriptionsAcknowledgedNotificationParams": {"meta": "_meta"},
    "SubscriptionsListenRequestParams": {"meta": "_meta"},
    "SubscriptionsListenResult": {"meta": "_meta"},
    "SubscriptionsListenResultMetaObject": {
        "server_info": "io.modelcontextprotocol/serverInfo",
        "subscription_id": "io.modelcontextprotocol/subscriptionId",
    },
    "TaskAugmentedRequestParams": {"meta": "_meta"},
    "TaskStatusNotificationParams": {"meta": "_meta"},
    "TextContent": {"meta": "_meta"},
    "TextResourceContents": {"meta": "_meta"},
    "Tool": {"meta": "_meta"},
    "ToolResultContent": {"meta": "_meta"},
    "ToolUseContent": {"meta": "_meta"},
    "UnsubscribeRequestParams": {"meta": "_meta"},
}
"""The attributes whose name on the wire is not their camelCase form, by class."""
