"""Generated from schema/ by `python -m codegen`: do not edit. The message types: tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._generated.basic import Icon
from trio_mcp.types._model import NO_EXTRA, UNSET, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class Annotations(Model):
    """Hints of the sender about the audience and the importance of content.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#annotations
    """

    audience: Sequence[Role] | None = None
    last_modified: str | None = None
    """The time of the last change of the content, in ISO 8601."""
    priority: float | None = None
    """From 0, optional, to 1, indispensable. No unit."""
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
    """The binary contents of a resource.

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
class CallToolRequestParams(Model):
    """The tool to call, and its arguments.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#calltoolrequestparams
    """

    name: str
    meta: JSONObject | None = None
    arguments: JSONObject | None = None
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: the state that the server sent with its questions, unchanged."""
    task: TaskMetadata | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CallToolResult(Model):
    """The result of a tool. A failure of the tool itself is a result too, with `is_error`.

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
class CreateMessageResult(Model):
    """The answer of the client's model.

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
class ElicitResult(Model):
    """The user's decision about a question; `content` holds the fields of an accepted form.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitresult
    """

    action: Literal["accept", "cancel", "decline"]
    meta: JSONObject | None = None
    content: Mapping[str, Sequence[str] | bool | float | str] | None = None
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
class ListRootsResult(Model):
    """The roots that the client offers to the server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listrootsresult
    """

    roots: Sequence[Root]
    meta: JSONObject | None = None
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
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
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
class Root(Model):
    """A place, such as a folder, that the client offers to the server.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#root
    """

    uri: str
    meta: JSONObject | None = None
    name: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskMetadata(Model):
    """The wish of the sender that its request run as a task.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#taskmetadata
    """

    ttl: int | None = None
    """The time to keep the task after its creation, in milliseconds."""
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
    """The text of a resource.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#textresourcecontents
    """

    text: str
    uri: str
    meta: JSONObject | None = None
    mime_type: str | None = None
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
    """The claims of a server about the effects of a tool. Trust them only if you trust the server.

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
class ToolExecution(Model):
    """The ways in which a tool can run.

    In revision 2025-11-25 only.
    Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#toolexecution
    """

    task_support: Literal["forbidden", "optional", "required"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ToolResultContent(Model):
    """The result of a tool, in a conversation with the client's model.

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
class ToolUseContent(Model):
    """A call of a tool that the model requests.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toolusecontent
    """

    id: str
    input: JSONObject
    name: str
    type: Literal["tool_use"] = "tool_use"
    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""One part of a tool result or of a prompt: text, a picture, sound, or a resource.

Since revision 2025-06-18.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#contentblock
"""


InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult
"""The answer to an `InputRequest`.

In revision 2026-07-28 only.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputresponse
"""


InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The answers to the questions of an `InputRequiredResult`, by the keys of the questions.

In revision 2026-07-28 only.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputresponses
"""


Role: TypeAlias = Literal["assistant", "user"]
"""The sender of a message in a conversation: the user, or the assistant, which is the model.

In every revision.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#role
"""


SamplingMessageContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
"""One part of a message for the model or from it.

Since revision 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#samplingmessagecontentblock
"""
