"""Generated from schema/ by `python -m codegen`: do not edit. The message types: others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._generated.basic import ClientCapabilities, Implementation, ProgressToken, RequestId
from trio_mcp.types._generated.questions import (
    ElicitRequestURLParams,
    LegacyTitledEnumSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)
from trio_mcp.types._model import NO_EXTRA, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskRequestParams(Model):
    """The task to cancel.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#canceltaskrequest
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskResult(Model):
    """The state of a task after its cancellation was requested.

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
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = None
    poll_interval: int | None = None
    """The time to wait between two polls of the task, in milliseconds."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompleteRequestParams(Model):
    """The argument to complete.

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
    """Suggestions for the value of an argument.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completeresult
    """

    completion: Completion
    meta: JSONObject | None = None
    result_type: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Completion(Model):
    """The suggestions themselves, the best first.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completeresult
    """

    values: Sequence[str]
    """At most 100."""
    has_more: bool | None = None
    total: int | None = None
    """The number of all suggestions, including those not listed."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompletionArgument(Model):
    """The argument to complete, and the value typed so far.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completerequestparams
    """

    name: str
    value: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompletionContext(Model):
    """The arguments that already have values.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#completerequestparams
    """

    arguments: Mapping[str, str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateTaskResult(Model):
    """The first response to a request that runs as a task: the task, not yet its result.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#createtaskresult
    """

    task: Task
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitationCompleteNotificationParams(Model):
    """The visit to a web page that has ended.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#elicitationcompletenotification
    """

    elicitation_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskPayloadRequestParams(Model):
    """The task whose result to fetch.

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
    """The task to look up.

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
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = None
    poll_interval: int | None = None
    """The time to wait between two polls of the task, in milliseconds."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListTasksResult(Model):
    """One page of the tasks of a peer.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#listtasksresult
    """

    tasks: Sequence[Task]
    meta: JSONObject | None = None
    next_cursor: str | None = None
    """Opaque: the cursor of the next page; None on the last page."""
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
    """The capabilities that the client must declare (error -32021).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#missingrequiredclientcapabilityerror
    """

    required_capabilities: ClientCapabilities
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
class PromptReference(Model):
    """A prompt, by name, whose argument is to be completed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#promptreference
    """

    name: str
    type: Literal["ref/prompt"] = "ref/prompt"
    title: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class RelatedTaskMetadata(Model):
    """The task that a message belongs to: the value of that reserved key in `_meta`.

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
    """Opaque: connects progress with its request. 1 and `'1'` are different tokens."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceTemplateReference(Model):
    """A resource template, by URI, whose variable is to be completed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcetemplatereference
    """

    type: Literal["ref/resource"] = "ref/resource"
    uri: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ResourceUpdatedNotificationParams(Model):
    """The resource that has changed.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams
    """

    uri: str
    meta: JSONObject | None = None
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
class SetLevelRequestParams(Model):
    """The lowest severity of the log messages that the server should send.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#setlevelrequestparams
    """

    level: LoggingLevel
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscribeRequestParams(Model):
    """The resource whose changes the client wants to be notified of.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#subscriberequestparams
    """

    uri: str
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionFilter(Model):
    """The changes that a subscription covers.

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
    """The changes that the server has agreed to send.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#subscriptionsacknowledgednotificationparams
    """

    notifications: SubscriptionFilter
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SubscriptionsListenRequestParams(Model):
    """The changes that the client wants to be notified of.

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
    """The state of a request that continues after its first response.

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
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval: int | None = None
    """The time to wait between two polls of the task, in milliseconds."""
    status_message: str | None = None
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
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = None
    poll_interval: int | None = None
    """The time to wait between two polls of the task, in milliseconds."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class URLElicitationRequiredErrorData(Model):
    """The web pages that the user must visit first (error -32042).

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#urlelicitationrequirederror
    """

    elicitations: Sequence[ElicitRequestURLParams]
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsubscribeRequestParams(Model):
    """The resource whose changes the client no longer wants.

    In revisions 2024-11-05 to 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#unsubscriberequestparams
    """

    uri: str
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UnsupportedProtocolVersionErrorData(Model):
    """The supported revisions, and the requested one (error -32022).

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#unsupportedprotocolversionerror
    """

    requested: str
    supported: Sequence[str]
    extra: Mapping[str, Any] = NO_EXTRA


Cursor: TypeAlias = str
"""The opaque position of a page in a list.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#cursor
"""


EnumSchema: TypeAlias = (
    UntitledSingleSelectEnumSchema
    | TitledSingleSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | TitledMultiSelectEnumSchema
    | LegacyTitledEnumSchema
)
"""A field of a form with a fixed set of values, of which the user chooses one or several.

Since revision 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#enumschema
"""


LoggingLevel: TypeAlias = Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]
"""The severity of a log message, as syslog defines it (RFC 5424), from `debug` to `emergency`.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#logginglevel
"""


MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
"""A field of a form with a fixed set of values, of which the user chooses several.

Since revision 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#multiselectenumschema
"""


ResultType: TypeAlias = str
"""The kind of a result: `complete`, `input_required`, or a kind that an extension defines.

In revision 2026-07-28 only.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#resulttype
"""


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
"""A field of a form with a fixed set of values, of which the user chooses one.

Since revision 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#singleselectenumschema
"""


TaskStatus: TypeAlias = Literal["cancelled", "completed", "failed", "input_required", "working"]
"""The status of a task; `completed`, `failed` and `cancelled` are final.

In revision 2025-11-25 only.
Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#taskstatus
"""
