"""Generated from schema/ by `python -m codegen`: do not edit. The message types: messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._generated.basic import (
    CancelledNotificationParams,
    DiscoverResult,
    EmptyResult,
    Error,
    Icon,
    InitializeRequestParams,
    InitializeResult,
    NotificationParams,
    PaginatedRequestParams,
    ProgressNotificationParams,
    RequestId,
    RequestParams,
    Result,
)
from trio_mcp.types._generated.others import (
    CancelTaskRequestParams,
    CancelTaskResult,
    CompleteRequestParams,
    CompleteResult,
    CreateTaskResult,
    ElicitationCompleteNotificationParams,
    GetTaskPayloadRequestParams,
    GetTaskPayloadResult,
    GetTaskRequestParams,
    GetTaskResult,
    ListTasksResult,
    LoggingMessageNotificationParams,
    MissingRequiredClientCapabilityErrorData,
    ResourceTemplateReference,
    ResourceUpdatedNotificationParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TaskStatusNotificationParams,
    UnsubscribeRequestParams,
    UnsupportedProtocolVersionErrorData,
    URLElicitationRequiredErrorData,
)
from trio_mcp.types._generated.questions import (
    CreateMessageRequest,
    ElicitRequest,
    InputRequiredResult,
    ListRootsRequest,
)
from trio_mcp.types._generated.resources_and_prompts import (
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from trio_mcp.types._generated.tools import (
    Annotations,
    CallToolRequestParams,
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    InputResponses,
    ListRootsResult,
    ListToolsResult,
    TaskMetadata,
)
from trio_mcp.types._model import NO_EXTRA, UNSET, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class Annotated(Model):
    """The base of types with annotations.

    In revision 2024-11-05 only.
    Specification: https://modelcontextprotocol.io/specification/2024-11-05/schema#annotated
    """

    annotations: Annotations | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class BaseMetadata(Model):
    """The base of types with a name for programs and a title for people.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#basemetadata
    """

    name: str
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CacheableResult(Model):
    """The base of results that a client may cache.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#cacheableresult
    """

    cache_scope: Literal["private", "public"]
    result_type: str
    ttl_ms: int
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CallToolRequest(Model):
    """The request of a client to call a tool.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#calltoolrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tools/call"] = "tools/call"
    params: CallToolRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CallToolResultResponse(Model):
    """The response to a `CallToolRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#calltoolresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: InputRequiredResult | CallToolResult | CreateTaskResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskRequest(Model):
    """The request to cancel a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#canceltaskrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: CancelTaskRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskResultResponse(Model):
    """The response to a `CancelTaskRequest`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#canceltaskrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: CancelTaskResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelledNotification(Model):
    """The notice that its sender no longer wants the response to a request.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#cancellednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/cancelled"] = "notifications/cancelled"
    params: CancelledNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompleteRequest(Model):
    """The request of a client to complete an argument.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completerequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["completion/complete"] = "completion/complete"
    params: CompleteRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompleteResultResponse(Model):
    """The response to a `CompleteRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completeresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: CompleteResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateMessageResultResponse(Model):
    """The response to a `CreateMessageRequest` that was not sent inside a result.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#createmessagerequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: CreateMessageResult | CreateTaskResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class DiscoverRequest(Model):
    """The request of a client for the identity, capabilities and revisions of a server.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#discoverrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["server/discover"] = "server/discover"
    params: RequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class DiscoverResultResponse(Model):
    """The response to a `DiscoverRequest`.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#discoverresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: DiscoverResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitResultResponse(Model):
    """The response to an `ElicitRequest` that was not sent inside a result.

    In revisions 2025-06-18 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#elicitrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ElicitResult | CreateTaskResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitationCompleteNotification(Model):
    """The notice that a visit of the user to a web page has ended.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#elicitationcompletenotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/elicitation/complete"] = "notifications/elicitation/complete"
    params: ElicitationCompleteNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetPromptRequest(Model):
    """The request of a client to fill in a prompt.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#getpromptrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["prompts/get"] = "prompts/get"
    params: GetPromptRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetPromptResultResponse(Model):
    """The response to a `GetPromptRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#getpromptresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: InputRequiredResult | GetPromptResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskPayloadRequest(Model):
    """The request for the result of a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskpayloadrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/result"] = "tasks/result"
    params: GetTaskPayloadRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskPayloadResultResponse(Model):
    """The response to a `GetTaskPayloadRequest`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskpayloadrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: GetTaskPayloadResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskRequest(Model):
    """The request for the state of a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResultResponse(Model):
    """The response to a `GetTaskRequest`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#gettaskrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: GetTaskResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class HeaderMismatchError(Model):
    """The response to an HTTP request whose headers contradict its message (error -32020).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#headermismatcherror
    """

    error: HeaderMismatchErrorObject
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class HeaderMismatchErrorObject(Model):
    """The body of a `HeaderMismatchError`.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#headermismatcherror
    """

    code: Literal[-32020] = -32020
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Icons(Model):
    """The base of types with icons.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#icons
    """

    icons: Sequence[Icon] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InitializeRequest(Model):
    """The request of a client that begins a connection.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#initializerequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["initialize"] = "initialize"
    params: InitializeRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InitializeResultResponse(Model):
    """The response to an `InitializeRequest`.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#initializerequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: InitializeResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InitializedNotification(Model):
    """The notice of a client that the handshake is complete.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#initializednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/initialized"] = "notifications/initialized"
    params: NotificationParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InputResponseRequestParams(Model):
    """The base of params that may carry answers to the questions of a server.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputresponserequestparams
    """

    meta: JSONObject
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: the state that the server sent with its questions, unchanged."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InternalError(Model):
    """The body of an error response: the receiver failed (error -32603).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#internalerror
    """

    code: Literal[-32603] = -32603
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InvalidParamsError(Model):
    """The body of an error response: the params do not fit the method (error -32602).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#invalidparamserror
    """

    code: Literal[-32602] = -32602
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InvalidRequestError(Model):
    """The body of an error response: the message is not a request (error -32600).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#invalidrequesterror
    """

    code: Literal[-32600] = -32600
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class JSONRPCErrorResponse(Model):
    """The response to a request that failed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#jsonrpcerrorresponse
    """

    error: Error
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class JSONRPCNotification(Model):
    """A notification of any method.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#jsonrpcnotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class JSONRPCRequest(Model):
    """A request of any method.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#jsonrpcrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class JSONRPCResultResponse(Model):
    """The response to a request of any method. `result.extra` holds its members.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#jsonrpcresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: Result
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListPromptsRequest(Model):
    """The request of a client for a page of a server's prompts.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listpromptsrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["prompts/list"] = "prompts/list"
    params: PaginatedRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListPromptsResultResponse(Model):
    """The response to a `ListPromptsRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listpromptsresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListPromptsResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListResourceTemplatesRequest(Model):
    """The request of a client for a page of a server's resource templates.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listresourcetemplatesrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["resources/templates/list"] = "resources/templates/list"
    params: PaginatedRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListResourceTemplatesResultResponse(Model):
    """The response to a `ListResourceTemplatesRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listresourcetemplatesresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListResourceTemplatesResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListResourcesRequest(Model):
    """The request of a client for a page of a server's resources.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listresourcesrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["resources/list"] = "resources/list"
    params: PaginatedRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListResourcesResultResponse(Model):
    """The response to a `ListResourcesRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listresourcesresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListResourcesResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListRootsResultResponse(Model):
    """The response to a `ListRootsRequest` that was not sent inside a result.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#listrootsrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListRootsResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListTasksRequest(Model):
    """The request for a page of the tasks of a peer.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#listtasksrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/list"] = "tasks/list"
    params: PaginatedRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListTasksResultResponse(Model):
    """The response to a `ListTasksRequest`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#listtasksrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListTasksResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListToolsRequest(Model):
    """The request of a client for a page of a server's tools.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listtoolsrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tools/list"] = "tools/list"
    params: PaginatedRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListToolsResultResponse(Model):
    """The response to a `ListToolsRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listtoolsresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListToolsResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class LoggingMessageNotification(Model):
    """A log message of a server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#loggingmessagenotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/message"] = "notifications/message"
    params: LoggingMessageNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class MethodNotFoundError(Model):
    """The body of an error response: the receiver has no such method (error -32601).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#methodnotfounderror
    """

    code: Literal[-32601] = -32601
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class MissingRequiredClientCapabilityError(Model):
    """The response to a client that lacks a capability (error -32021).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#missingrequiredclientcapabilityerror
    """

    error: MissingRequiredClientCapabilityErrorObject
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class MissingRequiredClientCapabilityErrorObject(Model):
    """The body of a `MissingRequiredClientCapabilityError`.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#missingrequiredclientcapabilityerror
    """

    code: Literal[-32021] = -32021
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    data: MissingRequiredClientCapabilityErrorData
    message: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Notification(Model):
    """The base of notifications, without the envelope.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#notification
    """

    method: str
    params: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PaginatedRequest(Model):
    """The base of requests for a page.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#paginatedrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: PaginatedRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PaginatedResult(Model):
    """The base of results that are pages.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#paginatedresult
    """

    meta: JSONObject | None = None
    next_cursor: str | None = None
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ParseError(Model):
    """The body of an error response: the message is not JSON (error -32700).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#parseerror
    """

    code: Literal[-32700] = -32700
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    message: str
    data: Any = UNSET
    """Any JSON value. None is a null that is sent; `UNSET` is absent."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PingRequest(Model):
    """The request to show that the connection works.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#pingrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["ping"] = "ping"
    params: RequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PingResultResponse(Model):
    """The response to a `PingRequest`.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#pingrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: EmptyResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ProgressNotification(Model):
    """The notice of the progress of a request.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#progressnotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/progress"] = "notifications/progress"
    params: ProgressNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class PromptListChangedNotification(Model):
    """The notice of a server that its prompts have changed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#promptlistchangednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/prompts/list_changed"] = "notifications/prompts/list_changed"
    params: NotificationParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceRequest(Model):
    """The request of a client to read a resource.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#readresourcerequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["resources/read"] = "resources/read"
    params: ReadResourceRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceResultResponse(Model):
    """The response to a `ReadResourceRequest`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#readresourceresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: InputRequiredResult | ReadResourceResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Request(Model):
    """The base of requests, without the envelope.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#request
    """

    method: str
    params: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceContents(Model):
    """The base of the contents of a resource.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcecontents
    """

    uri: str
    meta: JSONObject | None = None
    mime_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceListChangedNotification(Model):
    """The notice of a server that its resources have changed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcelistchangednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/resources/list_changed"] = "notifications/resources/list_changed"
    params: NotificationParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceRequestParams(Model):
    """The base of params that name a resource.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcerequestparams
    """

    uri: str
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceUpdatedNotification(Model):
    """The notice of a server that the contents of a resource have changed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/resources/updated"] = "notifications/resources/updated"
    params: ResourceUpdatedNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RootsListChangedNotification(Model):
    """The notice of a client that its roots have changed.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#rootslistchangednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/roots/list_changed"] = "notifications/roots/list_changed"
    params: NotificationParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SetLevelRequest(Model):
    """The request of a client to choose the severity of log messages.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#setlevelrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["logging/setLevel"] = "logging/setLevel"
    params: SetLevelRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SetLevelResultResponse(Model):
    """The response to a `SetLevelRequest`.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#setlevelrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: EmptyResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscribeRequest(Model):
    """The request of a client to be notified of changes of a resource.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#subscriberequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["resources/subscribe"] = "resources/subscribe"
    params: SubscribeRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscribeResultResponse(Model):
    """The response to a `SubscribeRequest`.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#subscriberequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: EmptyResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsAcknowledgedNotification(Model):
    """The notice of a server that a subscription has begun.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionsacknowledgednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/subscriptions/acknowledged"] = "notifications/subscriptions/acknowledged"
    params: SubscriptionsAcknowledgedNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsListenRequest(Model):
    """The request of a client to be notified of changes until the response.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionslistenrequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["subscriptions/listen"] = "subscriptions/listen"
    params: SubscriptionsListenRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsListenResultResponse(Model):
    """The response to a `SubscriptionsListenRequest`, which ends it.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionslistenresultresponse
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: SubscriptionsListenResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskAugmentedRequestParams(Model):
    """The base of params of a request that can run as a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#taskaugmentedrequestparams
    """

    meta: JSONObject | None = None
    task: TaskMetadata | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotification(Model):
    """The notice of the new state of a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#taskstatusnotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: TaskStatusNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolListChangedNotification(Model):
    """The notice of a server that its tools have changed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toollistchangednotification
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/tools/list_changed"] = "notifications/tools/list_changed"
    params: NotificationParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class URLElicitationRequiredError(Model):
    """The response to a request that needs visits of the user first (error -32042).

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#urlelicitationrequirederror
    """

    error: URLElicitationRequiredErrorObject
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class URLElicitationRequiredErrorObject(Model):
    """The body of a `URLElicitationRequiredError`.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#urlelicitationrequirederror
    """

    code: Literal[-32042] = -32042
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    data: URLElicitationRequiredErrorData
    message: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsubscribeRequest(Model):
    """The request of a client to end a `SubscribeRequest`.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#unsubscriberequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["resources/unsubscribe"] = "resources/unsubscribe"
    params: UnsubscribeRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsubscribeResultResponse(Model):
    """The response to an `UnsubscribeRequest`.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#unsubscriberequest
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: EmptyResult
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsupportedProtocolVersionError(Model):
    """The response to a request of an unsupported revision (error -32022).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#unsupportedprotocolversionerror
    """

    error: UnsupportedProtocolVersionErrorObject
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsupportedProtocolVersionErrorObject(Model):
    """The body of an `UnsupportedProtocolVersionError`.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#unsupportedprotocolversionerror
    """

    code: Literal[-32022] = -32022
    """The number of the error, as JSON-RPC and `ERRORS` define them."""
    data: UnsupportedProtocolVersionErrorData
    message: str
    extra: Mapping[str, Any] = NO_EXTRA


ClientNotification: TypeAlias = (
    CancelledNotification
    | InitializedNotification
    | ProgressNotification
    | TaskStatusNotification
    | RootsListChangedNotification
)
"""Every notification that a client sends.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientnotification
"""


ClientRequest: TypeAlias = (
    DiscoverRequest
    | ListResourcesRequest
    | ListResourceTemplatesRequest
    | ReadResourceRequest
    | SubscriptionsListenRequest
    | ListPromptsRequest
    | GetPromptRequest
    | ListToolsRequest
    | CallToolRequest
    | CompleteRequest
    | InitializeRequest
    | PingRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | GetTaskRequest
    | GetTaskPayloadRequest
    | CancelTaskRequest
    | ListTasksRequest
    | SetLevelRequest
)
"""Every request that a client sends.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientrequest
"""


ClientResult: TypeAlias = (
    Result
    | GetTaskResult
    | GetTaskPayloadResult
    | CancelTaskResult
    | ListTasksResult
    | CreateMessageResult
    | ListRootsResult
    | ElicitResult
)
"""Every result with which a client answers a server.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#clientresult
"""


JSONRPCBatchRequest: TypeAlias = Sequence[JSONRPCRequest | JSONRPCNotification]
"""Several requests and notifications in one message.

In revision 2025-03-26 only.
Specification: https://modelcontextprotocol.io/specification/2025-03-26/schema#jsonrpcbatchrequest
"""


JSONRPCBatchResponse: TypeAlias = Sequence[JSONRPCResultResponse | JSONRPCErrorResponse]
"""The responses to the requests of a `JSONRPCBatchRequest`, in any order.

In revision 2025-03-26 only.
Specification: https://modelcontextprotocol.io/specification/2025-03-26/schema#jsonrpcbatchresponse
"""


JSONRPCError: TypeAlias = JSONRPCErrorResponse
"""The former name of `JSONRPCErrorResponse`.

In revisions 2024-11-05 to 2025-06-18.
Specification: https://modelcontextprotocol.io/specification/2025-06-18/schema#jsonrpcerror
"""


JSONRPCMessage: TypeAlias = (
    JSONRPCRequest
    | JSONRPCNotification
    | Sequence[JSONRPCRequest | JSONRPCNotification]
    | JSONRPCResultResponse
    | JSONRPCErrorResponse
    | Sequence[JSONRPCResultResponse | JSONRPCErrorResponse]
)
"""Any message: a request, a notification, a response, or a batch of them.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#jsonrpcmessage
"""


JSONRPCResponse: TypeAlias = JSONRPCResultResponse | JSONRPCErrorResponse
"""The response to a request of any method: its result or its error.

Since revision 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#jsonrpcresponse
"""


Message: TypeAlias = (
    CallToolRequest
    | CallToolResultResponse
    | CancelledNotification
    | CompleteRequest
    | CompleteResultResponse
    | DiscoverRequest
    | DiscoverResultResponse
    | GetPromptRequest
    | GetPromptResultResponse
    | HeaderMismatchError
    | JSONRPCErrorResponse
    | JSONRPCNotification
    | JSONRPCRequest
    | JSONRPCResultResponse
    | ListPromptsRequest
    | ListPromptsResultResponse
    | ListResourceTemplatesRequest
    | ListResourceTemplatesResultResponse
    | ListResourcesRequest
    | ListResourcesResultResponse
    | ListToolsRequest
    | ListToolsResultResponse
    | LoggingMessageNotification
    | MissingRequiredClientCapabilityError
    | ProgressNotification
    | PromptListChangedNotification
    | ReadResourceRequest
    | ReadResourceResultResponse
    | ResourceListChangedNotification
    | ResourceUpdatedNotification
    | SubscriptionsAcknowledgedNotification
    | SubscriptionsListenRequest
    | SubscriptionsListenResultResponse
    | ToolListChangedNotification
    | UnsupportedProtocolVersionError
    | CancelTaskRequest
    | CancelTaskResultResponse
    | CreateMessageRequest
    | CreateMessageResultResponse
    | ElicitRequest
    | ElicitResultResponse
    | ElicitationCompleteNotification
    | GetTaskPayloadRequest
    | GetTaskPayloadResultResponse
    | GetTaskRequest
    | GetTaskResultResponse
    | InitializeRequest
    | InitializeResultResponse
    | InitializedNotification
    | ListRootsRequest
    | ListRootsResultResponse
    | ListTasksRequest
    | ListTasksResultResponse
    | PingRequest
    | PingResultResponse
    | RootsListChangedNotification
    | SetLevelRequest
    | SetLevelResultResponse
    | SubscribeRequest
    | SubscribeResultResponse
    | TaskStatusNotification
    | URLElicitationRequiredError
    | UnsubscribeRequest
    | UnsubscribeResultResponse
)
"""Any message of a method that a revision defines, with its envelope.

In every revision.
"""


ResourceReference: TypeAlias = ResourceTemplateReference
"""The former name of `ResourceTemplateReference`.

In revisions 2024-11-05 to 2025-03-26.
Specification: https://modelcontextprotocol.io/specification/2025-03-26/schema#resourcereference
"""


ServerNotification: TypeAlias = (
    CancelledNotification
    | ProgressNotification
    | ResourceListChangedNotification
    | SubscriptionsAcknowledgedNotification
    | ResourceUpdatedNotification
    | PromptListChangedNotification
    | ToolListChangedNotification
    | LoggingMessageNotification
    | TaskStatusNotification
    | ElicitationCompleteNotification
)
"""Every notification that a server sends.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#servernotification
"""


ServerRequest: TypeAlias = (
    PingRequest
    | GetTaskRequest
    | GetTaskPayloadRequest
    | CancelTaskRequest
    | ListTasksRequest
    | CreateMessageRequest
    | ListRootsRequest
    | ElicitRequest
)
"""Every request that a server sends to a client.

In revisions 2024-11-05 to 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#serverrequest
"""


ServerResult: TypeAlias = (
    Result
    | InputRequiredResult
    | DiscoverResult
    | ListResourcesResult
    | ListResourceTemplatesResult
    | ReadResourceResult
    | SubscriptionsListenResult
    | ListPromptsResult
    | GetPromptResult
    | ListToolsResult
    | CallToolResult
    | CompleteResult
    | InitializeResult
    | GetTaskResult
    | GetTaskPayloadResult
    | CancelTaskResult
    | ListTasksResult
)
"""Every result with which a server answers a client.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#serverresult
"""
