"""Generated from schema/ by `python -m codegen`: do not edit. The message types: basic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._model import NO_EXTRA, UNSET, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class CancelledNotificationParams(Model):
    """Which request its sender no longer wants answered.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#cancellednotificationparams
    """

    meta: JSONObject | None = None
    reason: str | None = None
    request_id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ClientCapabilities(Model):
    """What a client can be asked for. A member that is present, even empty, declares an ability.

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
    """Which requests a client can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    elicitation: ElicitationTasksCapability | None = None
    sampling: SamplingTasksCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ClientTasksCapability(Model):
    """What a client can do with tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    cancel: JSONObject | None = None
    list: JSONObject | None = None
    requests: ClientTaskRequestsCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class DiscoverResult(Model):
    """What a server is and can do, and which revisions it speaks.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#discoverresult
    """

    cache_scope: Literal["private", "public"]
    capabilities: ServerCapabilities
    result_type: str
    supported_versions: Sequence[str]
    ttl_ms: int
    """How long the result may be cached, in milliseconds; 0 for not at all."""
    meta: JSONObject | None = None
    instructions: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitationCapability(Model):
    """How a client can ask its user.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    form: JSONObject | None = None
    url: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitationTasksCapability(Model):
    """Which questions to the user a client can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    create: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Error(Model):
    """The body of an error response.

    Since revision 2025-11-25.
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
    """An image that stands for something in a user interface.

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
    """Which program one side is.

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
    """Nothing but metadata.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#notificationparams
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PaginatedRequestParams(Model):
    """Which page to list; the first without a cursor.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#paginatedrequestparams
    """

    meta: JSONObject | None = None
    cursor: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ProgressNotificationParams(Model):
    """How far a request has come.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#progressnotificationparams
    """

    progress: float
    """How much is done; must grow. In the unit of `total`, whatever that is."""
    progress_token: ProgressToken
    """Opaque: ties progress to the request it belongs to. 1 and `'1'` are two tokens."""
    meta: JSONObject | None = None
    message: str | None = None
    total: float | None = None
    """How much there is to do, in the sender's own unit; None when unknown."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PromptsCapability(Model):
    """What a server can do with prompts beyond listing them.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RequestParams(Model):
    """Nothing but metadata.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#requestparams
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourcesCapability(Model):
    """What a server can do with resources beyond listing and reading them.

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
    """What a client can do with roots.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SamplingCapability(Model):
    """What a client's model can be asked with.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities
    """

    context: JSONObject | None = None
    tools: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SamplingTasksCapability(Model):
    """Which questions to its model a client can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#clientcapabilities
    """

    create_message: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ServerCapabilities(Model):
    """What a server offers. A member that is present, even empty, declares an ability.

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
    """Which requests a server can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#servercapabilities
    """

    tools: ToolTasksCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ServerTasksCapability(Model):
    """What a server can do with tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#servercapabilities
    """

    cancel: JSONObject | None = None
    list: JSONObject | None = None
    requests: ServerTaskRequestsCapability | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolTasksCapability(Model):
    """Which tool requests a server can run as tasks.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#servercapabilities
    """

    call: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolsCapability(Model):
    """What a server can do with tools beyond listing and calling them.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


EmptyResult: TypeAlias = Result


ProgressToken: TypeAlias = int | str


RequestId: TypeAlias = int | str
