"""Generated from schema/ by `python -m codegen`: do not edit. The names of the protocol, each imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._converter import structure as structure
    from ._converter import structurer as structurer
    from ._converter import unstructure as unstructure
    from ._converter import unstructurer as unstructurer
    from ._generated.basic import CancelledNotificationParams as CancelledNotificationParams
    from ._generated.basic import ClientCapabilities as ClientCapabilities
    from ._generated.basic import ClientTaskRequestsCapability as ClientTaskRequestsCapability
    from ._generated.basic import ClientTasksCapability as ClientTasksCapability
    from ._generated.basic import DiscoverResult as DiscoverResult
    from ._generated.basic import ElicitationCapability as ElicitationCapability
    from ._generated.basic import ElicitationTasksCapability as ElicitationTasksCapability
    from ._generated.basic import EmptyResult as EmptyResult
    from ._generated.basic import Error as Error
    from ._generated.basic import Icon as Icon
    from ._generated.basic import Implementation as Implementation
    from ._generated.basic import InitializeRequestParams as InitializeRequestParams
    from ._generated.basic import InitializeResult as InitializeResult
    from ._generated.basic import NotificationParams as NotificationParams
    from ._generated.basic import PaginatedRequestParams as PaginatedRequestParams
    from ._generated.basic import ProgressNotificationParams as ProgressNotificationParams
    from ._generated.basic import ProgressToken as ProgressToken
    from ._generated.basic import PromptsCapability as PromptsCapability
    from ._generated.basic import RequestId as RequestId
    from ._generated.basic import RequestParams as RequestParams
    from ._generated.basic import ResourcesCapability as ResourcesCapability
    from ._generated.basic import Result as Result
    from ._generated.basic import RootsCapability as RootsCapability
    from ._generated.basic import SamplingCapability as SamplingCapability
    from ._generated.basic import SamplingTasksCapability as SamplingTasksCapability
    from ._generated.basic import ServerCapabilities as ServerCapabilities
    from ._generated.basic import ServerTaskRequestsCapability as ServerTaskRequestsCapability
    from ._generated.basic import ServerTasksCapability as ServerTasksCapability
    from ._generated.basic import ToolsCapability as ToolsCapability
    from ._generated.basic import ToolTasksCapability as ToolTasksCapability
    from ._generated.messages import Annotated as Annotated
    from ._generated.messages import BaseMetadata as BaseMetadata
    from ._generated.messages import CacheableResult as CacheableResult
    from ._generated.messages import CallToolRequest as CallToolRequest
    from ._generated.messages import CallToolResultResponse as CallToolResultResponse
    from ._generated.messages import CancelledNotification as CancelledNotification
    from ._generated.messages import CancelTaskRequest as CancelTaskRequest
    from ._generated.messages import CancelTaskResultResponse as CancelTaskResultResponse
    from ._generated.messages import ClientNotification as ClientNotification
    from ._generated.messages import ClientRequest as ClientRequest
    from ._generated.messages import ClientResult as ClientResult
    from ._generated.messages import CompleteRequest as CompleteRequest
    from ._generated.messages import CompleteResultResponse as CompleteResultResponse
    from ._generated.messages import CreateMessageResultResponse as CreateMessageResultResponse
    from ._generated.messages import DiscoverRequest as DiscoverRequest
    from ._generated.messages import DiscoverResultResponse as DiscoverResultResponse
    from ._generated.messages import ElicitationCompleteNotification as ElicitationCompleteNotification
    from ._generated.messages import ElicitResultResponse as ElicitResultResponse
    from ._generated.messages import GetPromptRequest as GetPromptRequest
    from ._generated.messages import GetPromptResultResponse as GetPromptResultResponse
    from ._generated.messages import GetTaskPayloadRequest as GetTaskPayloadRequest
    from ._generated.messages import GetTaskPayloadResultResponse as GetTaskPayloadResultResponse
    from ._generated.messages import GetTaskRequest as GetTaskRequest
    from ._generated.messages import GetTaskResultResponse as GetTaskResultResponse
    from ._generated.messages import HeaderMismatchError as HeaderMismatchError
    from ._generated.messages import HeaderMismatchErrorObject as HeaderMismatchErrorObject
    from ._generated.messages import Icons as Icons
    from ._generated.messages import InitializedNotification as InitializedNotification
    from ._generated.messages import InitializeRequest as InitializeRequest
    from ._generated.messages import InitializeResultResponse as InitializeResultResponse
    from ._generated.messages import InputResponseRequestParams as InputResponseRequestParams
    from ._generated.messages import InternalError as InternalError
    from ._generated.messages import InvalidParamsError as InvalidParamsError
    from ._generated.messages import InvalidRequestError as InvalidRequestError
    from ._generated.messages import JSONRPCBatchRequest as JSONRPCBatchRequest
    from ._generated.messages import JSONRPCBatchResponse as JSONRPCBatchResponse
    from ._generated.messages import JSONRPCError as JSONRPCError
    from ._generated.messages import JSONRPCErrorResponse as JSONRPCErrorResponse
    from ._generated.messages import JSONRPCMessage as JSONRPCMessage
    from ._generated.messages import JSONRPCNotification as JSONRPCNotification
    from ._generated.messages import JSONRPCRequest as JSONRPCRequest
    from ._generated.messages import JSONRPCResponse as JSONRPCResponse
    from ._generated.messages import JSONRPCResultResponse as JSONRPCResultResponse
    from ._generated.messages import ListPromptsRequest as ListPromptsRequest
    from ._generated.messages import ListPromptsResultResponse as ListPromptsResultResponse
    from ._generated.messages import ListResourcesRequest as ListResourcesRequest
    from ._generated.messages import ListResourcesResultResponse as ListResourcesResultResponse
    from ._generated.messages import ListResourceTemplatesRequest as ListResourceTemplatesRequest
    from ._generated.messages import ListResourceTemplatesResultResponse as ListResourceTemplatesResultResponse
    from ._generated.messages import ListRootsResultResponse as ListRootsResultResponse
    from ._generated.messages import ListTasksRequest as ListTasksRequest
    from ._generated.messages import ListTasksResultResponse as ListTasksResultResponse
    from ._generated.messages import ListToolsRequest as ListToolsRequest
    from ._generated.messages import ListToolsResultResponse as ListToolsResultResponse
    from ._generated.messages import LoggingMessageNotification as LoggingMessageNotification
    from ._generated.messages import Message as Message
    from ._generated.messages import MethodNotFoundError as MethodNotFoundError
    from ._generated.messages import MissingRequiredClientCapabilityError as MissingRequiredClientCapabilityError
    from ._generated.messages import (
        MissingRequiredClientCapabilityErrorObject as MissingRequiredClientCapabilityErrorObject,
    )
    from ._generated.messages import Notification as Notification
    from ._generated.messages import PaginatedRequest as PaginatedRequest
    from ._generated.messages import PaginatedResult as PaginatedResult
    from ._generated.messages import ParseError as ParseError
    from ._generated.messages import PingRequest as PingRequest
    from ._generated.messages import PingResultResponse as PingResultResponse
    from ._generated.messages import ProgressNotification as ProgressNotification
    from ._generated.messages import PromptListChangedNotification as PromptListChangedNotification
    from ._generated.messages import ReadResourceRequest as ReadResourceRequest
    from ._generated.messages import ReadResourceResultResponse as ReadResourceResultResponse
    from ._generated.messages import Request as Request
    from ._generated.messages import ResourceContents as ResourceContents
    from ._generated.messages import ResourceListChangedNotification as ResourceListChangedNotification
    from ._generated.messages import ResourceReference as ResourceReference
    from ._generated.messages import ResourceRequestParams as ResourceRequestParams
    from ._generated.messages import ResourceUpdatedNotification as ResourceUpdatedNotification
    from ._generated.messages import RootsListChangedNotification as RootsListChangedNotification
    from ._generated.messages import ServerNotification as ServerNotification
    from ._generated.messages import ServerRequest as ServerRequest
    from ._generated.messages import ServerResult as ServerResult
    from ._generated.messages import SetLevelRequest as SetLevelRequest
    from ._generated.messages import SetLevelResultResponse as SetLevelResultResponse
    from ._generated.messages import SubscribeRequest as SubscribeRequest
    from ._generated.messages import SubscribeResultResponse as SubscribeResultResponse
    from ._generated.messages import SubscriptionsAcknowledgedNotification as SubscriptionsAcknowledgedNotification
    from ._generated.messages import SubscriptionsListenRequest as SubscriptionsListenRequest
    from ._generated.messages import SubscriptionsListenResultResponse as SubscriptionsListenResultResponse
    from ._generated.messages import TaskAugmentedRequestParams as TaskAugmentedRequestParams
    from ._generated.messages import TaskStatusNotification as TaskStatusNotification
    from ._generated.messages import ToolListChangedNotification as ToolListChangedNotification
    from ._generated.messages import UnsubscribeRequest as UnsubscribeRequest
    from ._generated.messages import UnsubscribeResultResponse as UnsubscribeResultResponse
    from ._generated.messages import UnsupportedProtocolVersionError as UnsupportedProtocolVersionError
    from ._generated.messages import UnsupportedProtocolVersionErrorObject as UnsupportedProtocolVersionErrorObject
    from ._generated.messages import URLElicitationRequiredError as URLElicitationRequiredError
    from ._generated.messages import URLElicitationRequiredErrorObject as URLElicitationRequiredErrorObject
    from ._generated.others import CancelTaskRequestParams as CancelTaskRequestParams
    from ._generated.others import CancelTaskResult as CancelTaskResult
    from ._generated.others import CompleteRequestParams as CompleteRequestParams
    from ._generated.others import CompleteResult as CompleteResult
    from ._generated.others import Completion as Completion
    from ._generated.others import CompletionArgument as CompletionArgument
    from ._generated.others import CompletionContext as CompletionContext
    from ._generated.others import CreateTaskResult as CreateTaskResult
    from ._generated.others import Cursor as Cursor
    from ._generated.others import ElicitationCompleteNotificationParams as ElicitationCompleteNotificationParams
    from ._generated.others import EnumSchema as EnumSchema
    from ._generated.others import GetTaskPayloadRequestParams as GetTaskPayloadRequestParams
    from ._generated.others import GetTaskPayloadResult as GetTaskPayloadResult
    from ._generated.others import GetTaskRequestParams as GetTaskRequestParams
    from ._generated.others import GetTaskResult as GetTaskResult
    from ._generated.others import ListTasksResult as ListTasksResult
    from ._generated.others import LoggingLevel as LoggingLevel
    from ._generated.others import LoggingMessageNotificationParams as LoggingMessageNotificationParams
    from ._generated.others import MissingRequiredClientCapabilityErrorData as MissingRequiredClientCapabilityErrorData
    from ._generated.others import MultiSelectEnumSchema as MultiSelectEnumSchema
    from ._generated.others import NotificationMetaObject as NotificationMetaObject
    from ._generated.others import PromptReference as PromptReference
    from ._generated.others import RelatedTaskMetadata as RelatedTaskMetadata
    from ._generated.others import RequestMetaObject as RequestMetaObject
    from ._generated.others import ResourceTemplateReference as ResourceTemplateReference
    from ._generated.others import ResourceUpdatedNotificationParams as ResourceUpdatedNotificationParams
    from ._generated.others import ResultMetaObject as ResultMetaObject
    from ._generated.others import ResultType as ResultType
    from ._generated.others import SetLevelRequestParams as SetLevelRequestParams
    from ._generated.others import SingleSelectEnumSchema as SingleSelectEnumSchema
    from ._generated.others import SubscribeRequestParams as SubscribeRequestParams
    from ._generated.others import SubscriptionFilter as SubscriptionFilter
    from ._generated.others import (
        SubscriptionsAcknowledgedNotificationParams as SubscriptionsAcknowledgedNotificationParams,
    )
    from ._generated.others import SubscriptionsListenRequestParams as SubscriptionsListenRequestParams
    from ._generated.others import SubscriptionsListenResult as SubscriptionsListenResult
    from ._generated.others import SubscriptionsListenResultMetaObject as SubscriptionsListenResultMetaObject
    from ._generated.others import Task as Task
    from ._generated.others import TaskStatus as TaskStatus
    from ._generated.others import TaskStatusNotificationParams as TaskStatusNotificationParams
    from ._generated.others import UnsubscribeRequestParams as UnsubscribeRequestParams
    from ._generated.others import UnsupportedProtocolVersionErrorData as UnsupportedProtocolVersionErrorData
    from ._generated.others import URLElicitationRequiredErrorData as URLElicitationRequiredErrorData
    from ._generated.questions import BooleanSchema as BooleanSchema
    from ._generated.questions import CreateMessageRequest as CreateMessageRequest
    from ._generated.questions import CreateMessageRequestParams as CreateMessageRequestParams
    from ._generated.questions import ElicitRequest as ElicitRequest
    from ._generated.questions import ElicitRequestedSchema as ElicitRequestedSchema
    from ._generated.questions import ElicitRequestFormParams as ElicitRequestFormParams
    from ._generated.questions import ElicitRequestParams as ElicitRequestParams
    from ._generated.questions import ElicitRequestURLParams as ElicitRequestURLParams
    from ._generated.questions import EnumOption as EnumOption
    from ._generated.questions import InputRequest as InputRequest
    from ._generated.questions import InputRequests as InputRequests
    from ._generated.questions import InputRequiredResult as InputRequiredResult
    from ._generated.questions import LegacyTitledEnumSchema as LegacyTitledEnumSchema
    from ._generated.questions import ListRootsRequest as ListRootsRequest
    from ._generated.questions import ListRootsRequestParams as ListRootsRequestParams
    from ._generated.questions import ModelHint as ModelHint
    from ._generated.questions import ModelPreferences as ModelPreferences
    from ._generated.questions import NumberSchema as NumberSchema
    from ._generated.questions import PrimitiveSchemaDefinition as PrimitiveSchemaDefinition
    from ._generated.questions import SamplingMessage as SamplingMessage
    from ._generated.questions import StringSchema as StringSchema
    from ._generated.questions import TitledEnumItems as TitledEnumItems
    from ._generated.questions import TitledMultiSelectEnumSchema as TitledMultiSelectEnumSchema
    from ._generated.questions import TitledSingleSelectEnumSchema as TitledSingleSelectEnumSchema
    from ._generated.questions import ToolChoice as ToolChoice
    from ._generated.questions import UntitledEnumItems as UntitledEnumItems
    from ._generated.questions import UntitledMultiSelectEnumSchema as UntitledMultiSelectEnumSchema
    from ._generated.questions import UntitledSingleSelectEnumSchema as UntitledSingleSelectEnumSchema
    from ._generated.resources_and_prompts import GetPromptRequestParams as GetPromptRequestParams
    from ._generated.resources_and_prompts import GetPromptResult as GetPromptResult
    from ._generated.resources_and_prompts import ListPromptsResult as ListPromptsResult
    from ._generated.resources_and_prompts import ListResourcesResult as ListResourcesResult
    from ._generated.resources_and_prompts import ListResourceTemplatesResult as ListResourceTemplatesResult
    from ._generated.resources_and_prompts import Prompt as Prompt
    from ._generated.resources_and_prompts import PromptArgument as PromptArgument
    from ._generated.resources_and_prompts import PromptMessage as PromptMessage
    from ._generated.resources_and_prompts import ReadResourceRequestParams as ReadResourceRequestParams
    from ._generated.resources_and_prompts import ReadResourceResult as ReadResourceResult
    from ._generated.resources_and_prompts import Resource as Resource
    from ._generated.resources_and_prompts import ResourceTemplate as ResourceTemplate
    from ._generated.tools import Annotations as Annotations
    from ._generated.tools import AudioContent as AudioContent
    from ._generated.tools import BlobResourceContents as BlobResourceContents
    from ._generated.tools import CallToolRequestParams as CallToolRequestParams
    from ._generated.tools import CallToolResult as CallToolResult
    from ._generated.tools import ContentBlock as ContentBlock
    from ._generated.tools import CreateMessageResult as CreateMessageResult
    from ._generated.tools import ElicitResult as ElicitResult
    from ._generated.tools import EmbeddedResource as EmbeddedResource
    from ._generated.tools import ImageContent as ImageContent
    from ._generated.tools import InputResponse as InputResponse
    from ._generated.tools import InputResponses as InputResponses
    from ._generated.tools import ListRootsResult as ListRootsResult
    from ._generated.tools import ListToolsResult as ListToolsResult
    from ._generated.tools import ResourceLink as ResourceLink
    from ._generated.tools import Role as Role
    from ._generated.tools import Root as Root
    from ._generated.tools import SamplingMessageContentBlock as SamplingMessageContentBlock
    from ._generated.tools import TaskMetadata as TaskMetadata
    from ._generated.tools import TextContent as TextContent
    from ._generated.tools import TextResourceContents as TextResourceContents
    from ._generated.tools import Tool as Tool
    from ._generated.tools import ToolAnnotations as ToolAnnotations
    from ._generated.tools import ToolExecution as ToolExecution
    from ._generated.tools import ToolResultContent as ToolResultContent
    from ._generated.tools import ToolUseContent as ToolUseContent
    from ._messages import read_message as read_message
    from ._model import NO_EXTRA as NO_EXTRA
    from ._model import UNSET as UNSET
    from ._model import Bounds as Bounds
    from ._model import ErrorShape as ErrorShape
    from ._model import JSONArray as JSONArray
    from ._model import JSONObject as JSONObject
    from ._model import JSONValue as JSONValue
    from ._model import MetaObject as MetaObject
    from ._model import Method as Method
    from ._model import Model as Model
    from ._model import Profile as Profile
    from ._model import Unset as Unset
    from ._tables import ERRORS as ERRORS
    from ._tables import LENIENT as LENIENT
    from ._tables import METHODS as METHODS
    from ._tables import PROFILES as PROFILES
    from ._tables import REVISIONS as REVISIONS
    from ._tables import SUPERSET as SUPERSET
    from ._tables import WIRE_NAMES as WIRE_NAMES
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_converter": ("structure", "structurer", "unstructure", "unstructurer"),
            "_generated.basic": (
                "CancelledNotificationParams", "ClientCapabilities", "ClientTaskRequestsCapability",
                "ClientTasksCapability", "DiscoverResult", "ElicitationCapability", "ElicitationTasksCapability",
                "EmptyResult", "Error", "Icon", "Implementation", "InitializeRequestParams", "InitializeResult",
                "NotificationParams", "PaginatedRequestParams", "ProgressNotificationParams", "ProgressToken",
                "PromptsCapability", "RequestId", "RequestParams", "ResourcesCapability", "Result", "RootsCapability",
                "SamplingCapability", "SamplingTasksCapability", "ServerCapabilities", "ServerTaskRequestsCapability",
                "ServerTasksCapability", "ToolTasksCapability", "ToolsCapability",
            ),
            "_generated.messages": (
                "Annotated", "BaseMetadata", "CacheableResult", "CallToolRequest", "CallToolResultResponse",
                "CancelTaskRequest", "CancelTaskResultResponse", "CancelledNotification", "ClientNotification",
                "ClientRequest", "ClientResult", "CompleteRequest", "CompleteResultResponse",
                "CreateMessageResultResponse", "DiscoverRequest", "DiscoverResultResponse", "ElicitResultResponse",
                "ElicitationCompleteNotification", "GetPromptRequest", "GetPromptResultResponse",
                "GetTaskPayloadRequest", "GetTaskPayloadResultResponse", "GetTaskRequest", "GetTaskResultResponse",
                "HeaderMismatchError", "HeaderMismatchErrorObject", "Icons", "InitializeRequest",
                "InitializeResultResponse", "InitializedNotification", "InputResponseRequestParams", "InternalError",
                "InvalidParamsError", "InvalidRequestError", "JSONRPCBatchRequest", "JSONRPCBatchResponse",
                "JSONRPCError", "JSONRPCErrorResponse", "JSONRPCMessage", "JSONRPCNotification", "JSONRPCRequest",
                "JSONRPCResponse", "JSONRPCResultResponse", "ListPromptsRequest", "ListPromptsResultResponse",
                "ListResourceTemplatesRequest", "ListResourceTemplatesResultResponse", "ListResourcesRequest",
                "ListResourcesResultResponse", "ListRootsResultResponse", "ListTasksRequest", "ListTasksResultResponse",
                "ListToolsRequest", "ListToolsResultResponse", "LoggingMessageNotification", "Message",
                "MethodNotFoundError", "MissingRequiredClientCapabilityError",
                "MissingRequiredClientCapabilityErrorObject", "Notification", "PaginatedRequest", "PaginatedResult",
                "ParseError", "PingRequest", "PingResultResponse", "ProgressNotification",
                "PromptListChangedNotification", "ReadResourceRequest", "ReadResourceResultResponse", "Request",
                "ResourceContents", "ResourceListChangedNotification", "ResourceReference", "ResourceRequestParams",
                "ResourceUpdatedNotification", "RootsListChangedNotification", "ServerNotification", "ServerRequest",
                "ServerResult", "SetLevelRequest", "SetLevelResultResponse", "SubscribeRequest",
                "SubscribeResultResponse", "SubscriptionsAcknowledgedNotification", "SubscriptionsListenRequest",
                "SubscriptionsListenResultResponse", "TaskAugmentedRequestParams", "TaskStatusNotification",
                "ToolListChangedNotification", "URLElicitationRequiredError", "URLElicitationRequiredErrorObject",
                "UnsubscribeRequest", "UnsubscribeResultResponse", "UnsupportedProtocolVersionError",
                "UnsupportedProtocolVersionErrorObject",
            ),
            "_generated.others": (
                "CancelTaskRequestParams", "CancelTaskResult", "CompleteRequestParams", "CompleteResult", "Completion",
                "CompletionArgument", "CompletionContext", "CreateTaskResult", "Cursor",
                "ElicitationCompleteNotificationParams", "EnumSchema", "GetTaskPayloadRequestParams",
                "GetTaskPayloadResult", "GetTaskRequestParams", "GetTaskResult", "ListTasksResult", "LoggingLevel",
                "LoggingMessageNotificationParams", "MissingRequiredClientCapabilityErrorData", "MultiSelectEnumSchema",
                "NotificationMetaObject", "PromptReference", "RelatedTaskMetadata", "RequestMetaObject",
                "ResourceTemplateReference", "ResourceUpdatedNotificationParams", "ResultMetaObject", "ResultType",
                "SetLevelRequestParams", "SingleSelectEnumSchema", "SubscribeRequestParams", "SubscriptionFilter",
                "SubscriptionsAcknowledgedNotificationParams", "SubscriptionsListenRequestParams",
                "SubscriptionsListenResult", "SubscriptionsListenResultMetaObject", "Task", "TaskStatus",
                "TaskStatusNotificationParams", "URLElicitationRequiredErrorData", "UnsubscribeRequestParams",
                "UnsupportedProtocolVersionErrorData",
            ),
            "_generated.questions": (
                "BooleanSchema", "CreateMessageRequest", "CreateMessageRequestParams", "ElicitRequest",
                "ElicitRequestFormParams", "ElicitRequestParams", "ElicitRequestURLParams", "ElicitRequestedSchema",
                "EnumOption", "InputRequest", "InputRequests", "InputRequiredResult", "LegacyTitledEnumSchema",
                "ListRootsRequest", "ListRootsRequestParams", "ModelHint", "ModelPreferences", "NumberSchema",
                "PrimitiveSchemaDefinition", "SamplingMessage", "StringSchema", "TitledEnumItems",
                "TitledMultiSelectEnumSchema", "TitledSingleSelectEnumSchema", "ToolChoice", "UntitledEnumItems",
                "UntitledMultiSelectEnumSchema", "UntitledSingleSelectEnumSchema",
            ),
            "_generated.resources_and_prompts": (
                "GetPromptRequestParams", "GetPromptResult", "ListPromptsResult", "ListResourceTemplatesResult",
                "ListResourcesResult", "Prompt", "PromptArgument", "PromptMessage", "ReadResourceRequestParams",
                "ReadResourceResult", "Resource", "ResourceTemplate",
            ),
            "_generated.tools": (
                "Annotations", "AudioContent", "BlobResourceContents", "CallToolRequestParams", "CallToolResult",
                "ContentBlock", "CreateMessageResult", "ElicitResult", "EmbeddedResource", "ImageContent",
                "InputResponse", "InputResponses", "ListRootsResult", "ListToolsResult", "ResourceLink", "Role", "Root",
                "SamplingMessageContentBlock", "TaskMetadata", "TextContent", "TextResourceContents", "Tool",
                "ToolAnnotations", "ToolExecution", "ToolResultContent", "ToolUseContent",
            ),
            "_messages": ("read_message",),
            "_model": (
                "NO_EXTRA", "UNSET", "Bounds", "ErrorShape", "JSONArray", "JSONObject", "JSONValue", "MetaObject",
                "Method", "Model", "Profile", "Unset",
            ),
            "_tables": ("ERRORS", "LENIENT", "METHODS", "PROFILES", "REVISIONS", "SUPERSET", "WIRE_NAMES"),
        },
    )  # fmt: skip
