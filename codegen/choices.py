"""The decisions that the schemas leave open: names across revisions, definitions without a class, and plain JSON."""

from __future__ import annotations

RENAMES: dict[str, dict[str, str]] = {
    "2024-11-05": {
        "JSONRPCError": "JSONRPCErrorResponse",
        "JSONRPCResponse": "JSONRPCResultResponse",
        "ResourceReference": "ResourceTemplateReference",
    },
    "2025-03-26": {
        "JSONRPCError": "JSONRPCErrorResponse",
        "JSONRPCResponse": "JSONRPCResultResponse",
        "ResourceReference": "ResourceTemplateReference",
    },
    "2025-06-18": {
        "ElicitRequestParams": "ElicitRequestFormParams",
        "EnumSchema": "LegacyTitledEnumSchema",
        "JSONRPCError": "JSONRPCErrorResponse",
        "JSONRPCResponse": "JSONRPCResultResponse",
    },
}
"""The names of types in each revision and in this package. An undeclared rename counts as a removal and an addition."""

NO_CLASS = frozenset(
    {
        # bases whose members upstream repeats in every definition that extends them
        "Annotated",
        "BaseMetadata",
        "CacheableResult",
        "Icons",
        "InputResponseRequestParams",
        "Notification",
        "PaginatedRequest",
        "PaginatedResult",
        "Request",
        "ResourceContents",
        "ResourceRequestParams",
        "TaskAugmentedRequestParams",
        # JSON-RPC envelopes and unions of messages: covered by the engine and the method table
        "ClientNotification",
        "ClientRequest",
        "ClientResult",
        "JSONRPCBatchRequest",
        "JSONRPCBatchResponse",
        "JSONRPCErrorResponse",
        "JSONRPCMessage",
        "JSONRPCNotification",
        "JSONRPCRequest",
        "JSONRPCResponse",
        "JSONRPCResultResponse",
        "ServerNotification",
        "ServerRequest",
        "ServerResult",
        # any JSON: hand-written in `trio_mcp.types._model`
        "JSONArray",
        "JSONObject",
        "JSONValue",
        "MetaObject",
    }
)
"""The definitions of the specification without a type of their own."""

JSON_MEMBERS = frozenset({("Tool", "inputSchema"), ("Tool", "outputSchema")})
"""The members that hold JSON of the user and stay a plain dict, even if the schema describes their contents."""

META_MEMBER = "_meta"
"""The member that is a plain dict everywhere. The table of profiles names a class by which a caller can check it."""

MODULES: dict[str, tuple[str, ...]] = {
    "basic": (
        "CancelledNotificationParams",
        "ClientCapabilities",
        "DiscoverResult",
        "EmptyResult",
        "Error",
        "Implementation",
        "InitializeRequestParams",
        "InitializeResult",
        "NotificationParams",
        "PaginatedRequestParams",
        "ProgressNotificationParams",
        "RequestParams",
    ),
    "tools": ("CallToolRequestParams", "CallToolResult", "ListToolsResult"),
    "resources_and_prompts": (
        "GetPromptRequestParams",
        "GetPromptResult",
        "ListPromptsResult",
        "ListResourceTemplatesResult",
        "ListResourcesResult",
        "ReadResourceRequestParams",
        "ReadResourceResult",
    ),
    "questions": ("ElicitRequestURLParams", "InputRequiredResult"),
}
"""The modules of the generated types, with the main types of each.

A type is placed in the first module whose main types include it or refer to it. So a module imports only modules before
it, and a program loads only the types that it uses. All other types are in `OTHER_MODULE`.
"""

OTHER_MODULE = "others"

LENIENT_ROOTS = frozenset({"ClientCapabilities", "ServerCapabilities"})
"""The classes that keep a member of the wrong type in `extra`, so that a peer's mistake does not fail the handshake."""

REQUEST_META = "RequestMetaObject"
"""The class for the inline `_meta` of requests, recognised by its progress token."""
