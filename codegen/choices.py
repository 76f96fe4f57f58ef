"""What the schemas cannot say and we decided: names across revisions, what gets no class, what stays plain JSON."""

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
"""Per revision, its name for a type and ours. A rename that is not declared is one type gone and another added."""

NO_CLASS = frozenset(
    {
        # bases that upstream has already written out in everything that extends them
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
        # JSON-RPC and the lists of who sends what: the engine's business, and the method table's
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
"""Definitions of the specification that get no type of their own."""

JSON_MEMBERS = frozenset({("Tool", "inputSchema"), ("Tool", "outputSchema")})
"""Members that are a user's own JSON and stay a plain dict, whatever the schema says about their inside."""

META_MEMBER = "_meta"
"""Likewise a plain dict, everywhere; the table of profiles names the class that fits it, for who wants it checked."""

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
"""The modules of the generated types, and the types that each is about.

A type lives in the first module whose own types lead to it, or are it: so a module imports only those before it, and a
program loads the types of what it does. What no module asks for lives in `OTHER_MODULE`.
"""

OTHER_MODULE = "others"

LENIENT_ROOTS = frozenset({"ClientCapabilities", "ServerCapabilities"})
"""Classes that keep a wrongly shaped member in `extra` instead of failing: a handshake must survive a peer's slip."""

REQUEST_META = "RequestMetaObject"
"""The class for the inline `_meta` of requests, recognised by its progress token."""
