"""Generated from schema/ by `python -m codegen`: do not edit. The message types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._model import NO_EXTRA, UNSET, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class Annotations(Model):
    """Hints of the sender about whom some content is for and how much it matters.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#annotations
    """

    audience: Sequence[Role] | None = None
    last_modified: str | None = None
    """When the content last changed, as an ISO 8601 time."""
    priority: float | None = None
    """From 0, may be left out, to 1, indispensable. No unit."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class AudioContent(Model):
    """Sound as a content block.

    Since revision 2025-03-26.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#audiocontent
    """

    data: str
    """The sound, in base64."""
    mime_type: str
    type: Literal["audio"] = "audio"
    meta: JSONObject | None = None
    annotations: Annotations | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class BlobResourceContents(Model):
    """What a resource holds, when that is not text.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#blobresourcecontents
    """

    blob: str
    """The bytes, in base64."""
    uri: str
    meta: JSONObject | None = None
    mime_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class BooleanSchema(Model):
    """A yes-or-no field of a form.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#booleanschema
    """

    type: Literal["boolean"] = "boolean"
    default: bool | None = None
    description: str | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CallToolRequestParams(Model):
    """Which tool to call, and with what.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#calltoolrequestparams
    """

    name: str
    meta: JSONObject | None = None
    arguments: JSONObject | None = None
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: what the server sent with its questions, as it came."""
    task: TaskMetadata | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CallToolResult(Model):
    """What a tool answered; a failure of the tool itself is an answer too, with `is_error`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#calltoolresult
    """

    content: Sequence[ContentBlock]
    meta: JSONObject | None = None
    is_error: bool | None = None
    result_type: str | None = None
    structured_content: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskRequestParams(Model):
    """Which task to cancel.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#canceltaskrequest
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskResult(Model):
    """The state of a task after it was asked to stop.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#canceltaskresult
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: TaskStatus
    task_id: str
    ttl: int | None
    """How long the task is kept after its creation, in milliseconds; None for without end."""
    meta: JSONObject | None = None
    poll_interval: int | None = None
    """How long to wait between two looks at the task, in milliseconds."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


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
class CompleteRequestParams(Model):
    """The unfinished value of an argument, to be completed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completerequestparams
    """

    argument: CompletionArgument
    ref: PromptReference | ResourceTemplateReference
    meta: JSONObject | None = None
    context: CompletionContext | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompleteResult(Model):
    """Proposals for the value of an argument.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completeresult
    """

    completion: Completion
    meta: JSONObject | None = None
    result_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Completion(Model):
    """The proposals themselves, the best first.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completeresult
    """

    values: Sequence[str]
    """At most 100."""
    has_more: bool | None = None
    total: int | None = None
    """How many proposals there are in all, shown or not. A count."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompletionArgument(Model):
    """The argument being typed, and what was typed so far.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completerequestparams
    """

    name: str
    value: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompletionContext(Model):
    """The arguments that have their values already.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completerequestparams
    """

    arguments: Mapping[str, str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateMessageRequest(Model):
    """A question to the client's model, as it stands inside an `InputRequiredResult`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#createmessagerequest
    """

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateMessageRequestParams(Model):
    """What to ask the client's model, and within which limits.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#createmessagerequestparams
    """

    max_tokens: int
    """The most the model may write, in its tokens."""
    messages: Sequence[SamplingMessage]
    meta: JSONObject | None = None
    include_context: Literal["allServers", "none", "thisServer"] | None = None
    metadata: JSONObject | None = None
    model_preferences: ModelPreferences | None = None
    stop_sequences: Sequence[str] | None = None
    system_prompt: str | None = None
    task: TaskMetadata | None = None
    temperature: float | None = None
    """As the model's maker defines it; no unit."""
    tool_choice: ToolChoice | None = None
    tools: Sequence[Tool] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateMessageResult(Model):
    """What the client's model answered.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#createmessageresult
    """

    content: (
        TextContent
        | ImageContent
        | AudioContent
        | ToolUseContent
        | ToolResultContent
        | Sequence[SamplingMessageContentBlock]
    )
    model: str
    role: Role
    meta: JSONObject | None = None
    stop_reason: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateTaskResult(Model):
    """The first answer to a request that runs as a task: the task, not yet its result.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#createtaskresult
    """

    task: Task
    meta: JSONObject | None = None
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
class ElicitRequest(Model):
    """A question to the user, as it stands inside an `InputRequiredResult`.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitrequest
    """

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitRequestFormParams(Model):
    """A question to the user in the form of fields to fill in.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitrequestformparams
    """

    message: str
    requested_schema: ElicitRequestedSchema
    meta: JSONObject | None = None
    mode: Literal["form"] | None = None
    task: TaskMetadata | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitRequestURLParams(Model):
    """A request that the user visit a page, for what must not pass through the client.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitrequesturlparams
    """

    message: str
    mode: Literal["url"] = "url"
    url: str
    meta: JSONObject | None = None
    elicitation_id: str | None = None
    task: TaskMetadata | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitRequestedSchema(Model):
    """The fields of a form: a JSON Schema of an object whose members are all simple.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitrequestformparams
    """

    properties: Mapping[str, PrimitiveSchemaDefinition]
    type: Literal["object"] = "object"
    schema_uri: str | None = None
    required: Sequence[str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitResult(Model):
    """What the user did with a question; `content` holds the fields of an accepted form.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitresult
    """

    action: Literal["accept", "cancel", "decline"]
    meta: JSONObject | None = None
    content: Mapping[str, Sequence[str] | bool | float | str] | None = None
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
class ElicitationCompleteNotificationParams(Model):
    """Which visit to a page has come to its end.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#elicitationcompletenotification
    """

    elicitation_id: str
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
class EmbeddedResource(Model):
    """The contents of a resource as a content block.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#embeddedresource
    """

    resource: TextResourceContents | BlobResourceContents
    type: Literal["resource"] = "resource"
    meta: JSONObject | None = None
    annotations: Annotations | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class EnumOption(Model):
    """One choice: the value that is sent and the title that is shown.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#titledsingleselectenumschema
    """

    const: str
    title: str
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
class GetPromptRequestParams(Model):
    """Which prompt to fill in, and with what.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#getpromptrequestparams
    """

    name: str
    meta: JSONObject | None = None
    arguments: Mapping[str, str] | None = None
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: what the server sent with its questions, as it came."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetPromptResult(Model):
    """A prompt, filled in.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#getpromptresult
    """

    messages: Sequence[PromptMessage]
    meta: JSONObject | None = None
    description: str | None = None
    result_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskPayloadRequestParams(Model):
    """Which task's result to fetch.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskpayloadrequest
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskPayloadResult(Model):
    """The result of the request that ran as a task; its members are in `extra`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskpayloadresult
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskRequestParams(Model):
    """Which task to look up.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskrequest
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResult(Model):
    """The state of a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskresult
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: TaskStatus
    task_id: str
    ttl: int | None
    """How long the task is kept after its creation, in milliseconds; None for without end."""
    meta: JSONObject | None = None
    poll_interval: int | None = None
    """How long to wait between two looks at the task, in milliseconds."""
    status_message: str | None = None
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
class ImageContent(Model):
    """A picture as a content block.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#imagecontent
    """

    data: str
    """The picture, in base64."""
    mime_type: str
    type: Literal["image"] = "image"
    meta: JSONObject | None = None
    annotations: Annotations | None = None
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
class InputRequiredResult(Model):
    """Instead of a result: what the server must know first. The client answers by asking again.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputrequiredresult
    """

    result_type: str
    meta: JSONObject | None = None
    input_requests: InputRequests | None = None
    request_state: str | None = None
    """Opaque: goes back to the server as it came."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class LegacyTitledEnumSchema(Model):
    """A choice of one, with titles in a list of their own.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#legacytitledenumschema
    """

    enum: Sequence[str]
    type: Literal["string"] = "string"
    default: str | None = None
    description: str | None = None
    enum_names: Sequence[str] | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListPromptsResult(Model):
    """One page of a server's prompts.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listpromptsresult
    """

    prompts: Sequence[Prompt]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    next_cursor: str | None = None
    """Opaque: asks for the next page. None on the last one."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """How long the result may be cached, in milliseconds; 0 for not at all."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListResourceTemplatesResult(Model):
    """One page of a server's resource templates.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listresourcetemplatesresult
    """

    resource_templates: Sequence[ResourceTemplate]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    next_cursor: str | None = None
    """Opaque: asks for the next page. None on the last one."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """How long the result may be cached, in milliseconds; 0 for not at all."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListResourcesResult(Model):
    """One page of a server's resources.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listresourcesresult
    """

    resources: Sequence[Resource]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    next_cursor: str | None = None
    """Opaque: asks for the next page. None on the last one."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """How long the result may be cached, in milliseconds; 0 for not at all."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListRootsRequest(Model):
    """A question for the client's roots, as it stands inside an `InputRequiredResult`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listrootsrequest
    """

    method: Literal["roots/list"] = "roots/list"
    params: ListRootsRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListRootsRequestParams(Model):
    """Nothing but metadata.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listrootsrequest
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListRootsResult(Model):
    """The places the client opens to the server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listrootsresult
    """

    roots: Sequence[Root]
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListTasksResult(Model):
    """One page of the tasks a peer knows.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#listtasksresult
    """

    tasks: Sequence[Task]
    meta: JSONObject | None = None
    next_cursor: str | None = None
    """Opaque: asks for the next page. None on the last one."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListToolsResult(Model):
    """One page of a server's tools.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listtoolsresult
    """

    tools: Sequence[Tool]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    next_cursor: str | None = None
    """Opaque: asks for the next page. None on the last one."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """How long the result may be cached, in milliseconds; 0 for not at all."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class LoggingMessageNotificationParams(Model):
    """One log message of a server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#loggingmessagenotificationparams
    """

    data: Any
    level: LoggingLevel
    meta: JSONObject | None = None
    logger: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class MissingRequiredClientCapabilityErrorData(Model):
    """Which capabilities the client would have to declare (error -32021).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#missingrequiredclientcapabilityerror
    """

    required_capabilities: ClientCapabilities
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ModelHint(Model):
    """A name, or part of one, of a model that would suit.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#modelhint
    """

    name: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ModelPreferences(Model):
    """What to weigh when the client chooses a model.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#modelpreferences
    """

    cost_priority: float | None = None
    """From 0, does not matter, to 1, matters most. No unit."""
    hints: Sequence[ModelHint] | None = None
    intelligence_priority: float | None = None
    """From 0, does not matter, to 1, matters most. No unit."""
    speed_priority: float | None = None
    """From 0, does not matter, to 1, matters most. No unit."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class NotificationMetaObject(Model):
    """The reserved keys of a notification's `_meta`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#notificationmetaobject
    """

    subscription_id: RequestId | None = None
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
class NumberSchema(Model):
    """A number field of a form.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#numberschema
    """

    type: Literal["integer", "number"]
    default: float | None = None
    """In whatever unit the field has."""
    description: str | None = None
    maximum: float | None = None
    """The largest value allowed, in whatever unit the field has."""
    minimum: float | None = None
    """The smallest value allowed, in whatever unit the field has."""
    title: str | None = None
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
class Prompt(Model):
    """A prompt that a server offers.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#prompt
    """

    name: str
    meta: JSONObject | None = None
    arguments: Sequence[PromptArgument] | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PromptArgument(Model):
    """One argument of a prompt.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#promptargument
    """

    name: str
    description: str | None = None
    required: bool | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PromptMessage(Model):
    """One message of a prompt.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#promptmessage
    """

    content: ContentBlock
    role: Role
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PromptReference(Model):
    """A prompt, by name, as the thing whose argument is completed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#promptreference
    """

    name: str
    type: Literal["ref/prompt"] = "ref/prompt"
    title: str | None = None
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
class ReadResourceRequestParams(Model):
    """Which resource to read.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#readresourcerequestparams
    """

    uri: str
    meta: JSONObject | None = None
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: what the server sent with its questions, as it came."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceResult(Model):
    """What a resource holds; several items when it has parts.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#readresourceresult
    """

    contents: Sequence[TextResourceContents | BlobResourceContents]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    result_type: str | None = None
    ttl_ms: int | None = None
    """How long the result may be cached, in milliseconds; 0 for not at all."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RelatedTaskMetadata(Model):
    """Which task a message belongs to: the value of that reserved key in `_meta`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#relatedtaskmetadata
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RequestMetaObject(Model):
    """The reserved keys of a request's `_meta`: progress token and, in the modern era, envelope.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#requestmetaobject
    """

    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None
    log_level: LoggingLevel | None = None
    protocol_version: str | None = None
    progress_token: ProgressToken | None = None
    """Opaque: ties progress to the request it belongs to. 1 and `'1'` are two tokens."""
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
class Resource(Model):
    """A resource that a server offers.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resource
    """

    name: str
    uri: str
    meta: JSONObject | None = None
    annotations: Annotations | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    mime_type: str | None = None
    size: int | None = None
    """In bytes, before any encoding."""
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceLink(Model):
    """A resource to be read on demand, as a content block.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcelink
    """

    name: str
    type: Literal["resource_link"] = "resource_link"
    uri: str
    meta: JSONObject | None = None
    annotations: Annotations | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    mime_type: str | None = None
    size: int | None = None
    """In bytes, before any encoding."""
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceTemplate(Model):
    """A family of resources, by a URI template.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcetemplate
    """

    name: str
    uri_template: str
    meta: JSONObject | None = None
    annotations: Annotations | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    mime_type: str | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceTemplateReference(Model):
    """A resource template, by URI, as the thing whose variable is completed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcetemplatereference
    """

    type: Literal["ref/resource"] = "ref/resource"
    uri: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceUpdatedNotificationParams(Model):
    """Which resource has changed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams
    """

    uri: str
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
class ResultMetaObject(Model):
    """The reserved keys of a result's `_meta`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resultmetaobject
    """

    server_info: Implementation | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Root(Model):
    """A place, such as a folder, that the client opens to the server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#root
    """

    uri: str
    meta: JSONObject | None = None
    name: str | None = None
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
class SamplingMessage(Model):
    """One message of a conversation with the client's model.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#samplingmessage
    """

    content: (
        TextContent
        | ImageContent
        | AudioContent
        | ToolUseContent
        | ToolResultContent
        | Sequence[SamplingMessageContentBlock]
    )
    role: Role
    meta: JSONObject | None = None
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
class SetLevelRequestParams(Model):
    """From which severity on the server should send log messages.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#setlevelrequestparams
    """

    level: LoggingLevel
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class StringSchema(Model):
    """A text field of a form.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#stringschema
    """

    type: Literal["string"] = "string"
    default: str | None = None
    description: str | None = None
    format: Literal["date", "date-time", "email", "uri"] | None = None
    max_length: int | None = None
    """In characters."""
    min_length: int | None = None
    """In characters."""
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscribeRequestParams(Model):
    """Which resource to be told about.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#subscriberequestparams
    """

    uri: str
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionFilter(Model):
    """What to be told about.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionfilter
    """

    prompts_list_changed: bool | None = None
    resource_subscriptions: Sequence[str] | None = None
    resources_list_changed: bool | None = None
    tools_list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsAcknowledgedNotificationParams(Model):
    """What the server agreed to tell.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionsacknowledgednotificationparams
    """

    notifications: SubscriptionFilter
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsListenRequestParams(Model):
    """What the client wants to be told about.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionslistenrequestparams
    """

    meta: JSONObject
    notifications: SubscriptionFilter
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsListenResult(Model):
    """The end of a subscription.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionslistenresult
    """

    meta: JSONObject
    result_type: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsListenResultMetaObject(Model):
    """The reserved keys in the `_meta` of a subscription's end.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionslistenresultmetaobject
    """

    subscription_id: RequestId
    server_info: Implementation | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Task(Model):
    """A request that goes on after its first answer, and where it stands.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#task
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: TaskStatus
    task_id: str
    ttl: int | None
    """How long the task is kept after its creation, in milliseconds; None for without end."""
    poll_interval: int | None = None
    """How long to wait between two looks at the task, in milliseconds."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskMetadata(Model):
    """The wish that a request run as a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#taskmetadata
    """

    ttl: int | None = None
    """How long to keep the task after its creation, in milliseconds."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotificationParams(Model):
    """The new state of a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#taskstatusnotificationparams
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: TaskStatus
    task_id: str
    ttl: int | None
    """How long the task is kept after its creation, in milliseconds; None for without end."""
    meta: JSONObject | None = None
    poll_interval: int | None = None
    """How long to wait between two looks at the task, in milliseconds."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TextContent(Model):
    """Text as a content block.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#textcontent
    """

    text: str
    type: Literal["text"] = "text"
    meta: JSONObject | None = None
    annotations: Annotations | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TextResourceContents(Model):
    """What a resource holds, when that is text.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#textresourcecontents
    """

    text: str
    uri: str
    meta: JSONObject | None = None
    mime_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TitledEnumItems(Model):
    """The choices of a field that takes several, with titles.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#titledmultiselectenumschema
    """

    any_of: Sequence[EnumOption]
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TitledMultiSelectEnumSchema(Model):
    """A choice of several, with titles.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#titledmultiselectenumschema
    """

    items: TitledEnumItems
    type: Literal["array"] = "array"
    default: Sequence[str] | None = None
    description: str | None = None
    max_items: int | None = None
    """The most that may be chosen. A count."""
    min_items: int | None = None
    """The fewest that must be chosen. A count."""
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TitledSingleSelectEnumSchema(Model):
    """A choice of one, with titles.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#titledsingleselectenumschema
    """

    one_of: Sequence[EnumOption]
    type: Literal["string"] = "string"
    default: str | None = None
    description: str | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Tool(Model):
    """A tool that a server offers.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#tool
    """

    input_schema: JSONObject
    name: str
    meta: JSONObject | None = None
    annotations: ToolAnnotations | None = None
    description: str | None = None
    execution: ToolExecution | None = None
    icons: Sequence[Icon] | None = None
    output_schema: JSONObject | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolAnnotations(Model):
    """What a server claims about a tool's effects. Believe it only of servers you trust.

    Since revision 2025-03-26.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toolannotations
    """

    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None
    read_only_hint: bool | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolChoice(Model):
    """Whether the client's model may, must or must not use tools.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toolchoice
    """

    mode: Literal["auto", "none", "required"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolExecution(Model):
    """How a tool can be run.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#toolexecution
    """

    task_support: Literal["forbidden", "optional", "required"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolResultContent(Model):
    """What a tool answered, in a conversation with the client's model.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toolresultcontent
    """

    content: Sequence[ContentBlock]
    tool_use_id: str
    type: Literal["tool_result"] = "tool_result"
    meta: JSONObject | None = None
    is_error: bool | None = None
    structured_content: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
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
class ToolUseContent(Model):
    """A model's wish to have a tool called.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toolusecontent
    """

    id: str
    input: JSONObject
    name: str
    type: Literal["tool_use"] = "tool_use"
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolsCapability(Model):
    """What a server can do with tools beyond listing and calling them.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities
    """

    list_changed: bool | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class URLElicitationRequiredErrorData(Model):
    """Which pages the user must visit before the request can succeed (error -32042).

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#urlelicitationrequirederror
    """

    elicitations: Sequence[ElicitRequestURLParams]
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsubscribeRequestParams(Model):
    """Which resource to be no longer told about.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#unsubscriberequestparams
    """

    uri: str
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsupportedProtocolVersionErrorData(Model):
    """Which revisions the server speaks, and which was asked for (error -32022).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#unsupportedprotocolversionerror
    """

    requested: str
    supported: Sequence[str]
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UntitledEnumItems(Model):
    """The choices of a field that takes several.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#untitledmultiselectenumschema
    """

    enum: Sequence[str]
    type: Literal["string"] = "string"
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UntitledMultiSelectEnumSchema(Model):
    """A choice of several.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#untitledmultiselectenumschema
    """

    items: UntitledEnumItems
    type: Literal["array"] = "array"
    default: Sequence[str] | None = None
    description: str | None = None
    max_items: int | None = None
    """The most that may be chosen. A count."""
    min_items: int | None = None
    """The fewest that must be chosen. A count."""
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UntitledSingleSelectEnumSchema(Model):
    """A choice of one.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#untitledsingleselectenumschema
    """

    enum: Sequence[str]
    type: Literal["string"] = "string"
    default: str | None = None
    description: str | None = None
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


Cursor: TypeAlias = str


ElicitRequestParams: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams


EmptyResult: TypeAlias = Result


EnumSchema: TypeAlias = (
    UntitledSingleSelectEnumSchema
    | TitledSingleSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | TitledMultiSelectEnumSchema
    | LegacyTitledEnumSchema
)


InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest


InputRequests: TypeAlias = Mapping[str, InputRequest]


InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult


InputResponses: TypeAlias = Mapping[str, InputResponse]


LoggingLevel: TypeAlias = Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]


MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema


PrimitiveSchemaDefinition: TypeAlias = (
    StringSchema
    | NumberSchema
    | BooleanSchema
    | UntitledSingleSelectEnumSchema
    | TitledSingleSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | TitledMultiSelectEnumSchema
    | LegacyTitledEnumSchema
)


ProgressToken: TypeAlias = int | str


RequestId: TypeAlias = int | str


ResultType: TypeAlias = str


Role: TypeAlias = Literal["assistant", "user"]


SamplingMessageContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema


TaskStatus: TypeAlias = Literal["cancelled", "completed", "failed", "input_required", "working"]
