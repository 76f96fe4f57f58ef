"""The decisions that the schemas leave open: names across revisions, definitions without a class, and plain JSON."""

from __future__ import annotations

RENAMES: dict[str, dict[str, str]] = {
    "2024-11-05": {
        "AnnotatedAnnotations": "Annotations",
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

CORE_REVISION = "2026-07-28"
"""The revision on which the extensions build: they share its definitions."""

PLAIN_JSON = frozenset({"JSONArray", "JSONObject", "JSONValue", "MetaObject"})
"""The definitions for any JSON, which are written by hand in `trio_mcp.types._model`."""

PAGINATED_REQUEST = "PaginatedRequest"
"""The base of the requests for a page: it has an envelope, but no method of its own."""

MESSAGE = "Message"
"""The union of all messages of a revision, which the specification does not name."""

JSON_MEMBERS = frozenset(
    {
        ("JSONRPCNotification", "params"),
        ("JSONRPCRequest", "params"),
        ("Notification", "params"),
        ("Request", "params"),
        ("Skill", "frontmatter"),
        ("Tool", "inputSchema"),
        ("Tool", "outputSchema"),
    }
)
"""The members that stay a plain dict, even if the schema describes their contents: JSON of the user, and params of a
method that the type does not name."""

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
it, and a program loads only the types that it uses. All other types are in `OTHER_MODULE`, and the messages in
`MESSAGE_MODULE`.
"""

OTHER_MODULE = "others"

MESSAGE_MODULE = "messages"
"""The last module: the messages with their envelopes, and what only the specification uses. This package does not."""

ONLY_IN_THE_SPECIFICATION = frozenset(
    {
        # bases whose members upstream repeats in every definition that extends them
        "Annotated",
        "BaseMetadata",
        "CacheableResult",
        "Icons",
        "InputResponseRequestParams",
        "Notification",
        "PaginatedResult",
        "Request",
        "ResourceContents",
        "ResourceRequestParams",
        "TaskAugmentedRequestParams",
        # unions of messages and of results
        "ClientNotification",
        "ClientRequest",
        "ClientResult",
        "JSONRPCBatchRequest",
        "JSONRPCBatchResponse",
        "JSONRPCMessage",
        "JSONRPCResponse",
        "ServerNotification",
        "ServerRequest",
        "ServerResult",
        MESSAGE,
        # former names
        "JSONRPCError",
        "ResourceReference",
    }
)
"""The definitions in `MESSAGE_MODULE` that have no envelope."""

LENIENT_ROOTS = frozenset({"ClientCapabilities", "ServerCapabilities"})
"""The classes that keep a member of the wrong type in `extra`, so that a peer's mistake does not fail the handshake."""

REQUEST_META = "RequestMetaObject"
"""The class for the inline `_meta` of requests, recognised by its progress token."""
