"""Generated from schema/ by `python -m codegen`: do not edit. The message types: basic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._model import NO_EXTRA, UNSET, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class CancelledNotificationParams(Model):
    """The request that its sender has cancelled.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#cancellednotificationparams
    """

    meta: JSONObject | None = None
    reason: str | None = None
    request_id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ClientCapabilities(Model):
    """The capabilities of a client. A member that is present, even empty, declares a capability.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    elicitation: ElicitationCapability | None = None
    experimental: Mapping[str, JSONObject] | None = None
    extensions: Mapping[str, JSONObject] | None = None
    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    tasks: ClientTasksCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ClientTaskRequestsCapability(Model):
    """The requests that a client can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    elicitation: ElicitationTasksCapability | None = None
    sampling: SamplingTasksCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ClientTasksCapability(Model):
    """The task operations that a client supports.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    cancel: JSONObject | None = None
    list: JSONObject | None = None
    requests: ClientTaskRequestsCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class DiscoverResult(Model):
    """The identity and capabilities of a server, and the revisions that it supports.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#discoverresult
    """

    cache_scope: Literal["private", "public"]
    capabilities: ServerCapabilities
    result_type: str
    supported_versions: Sequence[str]
    ttl_ms: int
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
    meta: JSONObject | None = None
    instructions: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitationCapability(Model):
    """The ways in which a client can ask its user.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    form: JSONObject | None = None
    url: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitationTasksCapability(Model):
    """The questions to the user that a client can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    create: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Error(Model):
    """The body of an error response.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#error
    """

    code: int
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Icon(Model):
    """An image for a user interface.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#icon
    """

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] | None = None
    theme: Literal["dark", "light"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Implementation(Model):
    """The name and version of a client or a server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#implementation
    """

    name: str
    version: str
    description: str | None = None
    icons: Sequence[Icon] | None = None
    title: str | None = None
    website_url: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InitializeRequestParams(Model):
    """The client's half of the handshake.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#initializerequestparams
    """

    capabilities: ClientCapabilities
    client_info: Implementation
    protocol_version: str
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InitializeResult(Model):
    """The server's half of the handshake.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#initializeresult
    """

    capabilities: ServerCapabilities
    protocol_version: str
    server_info: Implementation
    meta: JSONObject | None = None
    instructions: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class NotificationParams(Model):
    """Metadata only.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#notificationparams
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PaginatedRequestParams(Model):
    """The page to list; the first page without a cursor.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#paginatedrequestparams
    """

    meta: JSONObject | None = None
    cursor: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ProgressNotificationParams(Model):
    """The progress of a request.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#progressnotificationparams
    """

    progress: float
    """The amount done, which must grow. In the unit of `total`."""
    progress_token: ProgressToken
    """Opaque: connects progress with its request. 1 and `'1'` are different tokens."""
    meta: JSONObject | None = None
    message: str | None = None
    total: float | None = None
    """The amount to do, in a unit that the sender chooses; None if unknown."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PromptsCapability(Model):
    """The operations on prompts that a server supports beyond listing them.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RequestParams(Model):
    """Metadata only.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#requestparams
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourcesCapability(Model):
    """The operations on resources that a server supports beyond listing and reading them.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    list_changed: bool | None = None
    subscribe: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Result(Model):
    """A result without members of its own.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#result
    """

    meta: JSONObject | None = None
    result_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RootsCapability(Model):
    """The operations on roots that a client supports.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SamplingCapability(Model):
    """The sampling options that a client supports.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    context: JSONObject | None = None
    tools: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SamplingTasksCapability(Model):
    """The sampling requests that a client can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    create_message: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ServerCapabilities(Model):
    """The capabilities of a server. A member that is present, even empty, declares a capability.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    completions: JSONObject | None = None
    experimental: Mapping[str, JSONObject] | None = None
    extensions: Mapping[str, JSONObject] | None = None
    logging: JSONObject | None = None
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tasks: ServerTasksCapability | None = None
    tools: ToolsCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ServerTaskRequestsCapability(Model):
    """The requests that a server can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#servercapabilities
    """

    tools: ToolTasksCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ServerTasksCapability(Model):
    """The task operations that a server supports.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#servercapabilities
    """

    cancel: JSONObject | None = None
    list: JSONObject | None = None
    requests: ServerTaskRequestsCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolTasksCapability(Model):
    """The tool requests that a server can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#servercapabilities
    """

    call: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolsCapability(Model):
    """The operations on tools that a server supports beyond listing and calling them.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


EmptyResult: TypeAlias = Result
"""The result of a request that returns no data.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#emptyresult
"""


ProgressToken: TypeAlias = int | str
"""The token that connects progress with its request. 1 and `'1'` are different tokens.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#progresstoken
"""


RequestId: TypeAlias = int | str
"""The id that connects a response with its request. 1 and `'1'` are different ids.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#requestid
"""
