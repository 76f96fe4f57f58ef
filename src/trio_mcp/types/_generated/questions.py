"""Generated from schema/ by `python -m codegen`: do not edit. The message types: questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from trio_mcp.types._generated.basic import RequestId
from trio_mcp.types._generated.tools import (
    AudioContent,
    ImageContent,
    Role,
    SamplingMessageContentBlock,
    TaskMetadata,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from trio_mcp.types._model import NO_EXTRA, JSONObject, Model


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
class CreateMessageRequest(Model):
    """A sampling request to the client's model, inside an `InputRequiredResult`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#createmessagerequest
    """

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams
    id: RequestId | None = None
    jsonrpc: Literal["2.0"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateMessageRequestParams(Model):
    """The messages for the client's model, and the limits of its answer.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#createmessagerequestparams
    """

    max_tokens: int
    """The most tokens that the model may write."""
    messages: Sequence[SamplingMessage]
    meta: JSONObject | None = None
    include_context: Literal["allServers", "none", "thisServer"] | None = None
    metadata: JSONObject | None = None
    model_preferences: ModelPreferences | None = None
    stop_sequences: Sequence[str] | None = None
    system_prompt: str | None = None
    task: TaskMetadata | None = None
    temperature: float | None = None
    """As the provider of the model defines it; no unit."""
    tool_choice: ToolChoice | None = None
    tools: Sequence[Tool] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitRequest(Model):
    """A question to the user, inside an `InputRequiredResult`.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitrequest
    """

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams
    id: RequestId | None = None
    jsonrpc: Literal["2.0"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ElicitRequestFormParams(Model):
    """A question to the user, with a form to fill in.

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
    """A request that the user visit a web page, for data that the client must not see.

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
class EnumOption(Model):
    """One choice: the value to send and the title to show.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#titledsingleselectenumschema
    """

    const: str
    title: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InputRequiredResult(Model):
    """The questions that the server asks first. The client repeats its request with the answers.

    In revision 2026-07-28 only.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputrequiredresult
    """

    result_type: str
    meta: JSONObject | None = None
    input_requests: InputRequests | None = None
    request_state: str | None = None
    """Opaque: the client sends it back to the server unchanged."""
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
class ListRootsRequest(Model):
    """A request for the client's roots, inside an `InputRequiredResult`.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listrootsrequest
    """

    method: Literal["roots/list"] = "roots/list"
    id: RequestId | None = None
    jsonrpc: Literal["2.0"] | None = None
    params: ListRootsRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListRootsRequestParams(Model):
    """Metadata only.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listrootsrequest
    """

    meta: JSONObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ModelHint(Model):
    """The name, or part of the name, of a suitable model.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#modelhint
    """

    name: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ModelPreferences(Model):
    """The criteria by which the client chooses a model.

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
class NumberSchema(Model):
    """A number field of a form.

    Since revision 2025-06-18.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#numberschema
    """

    type: Literal["integer", "number"]
    default: float | None = None
    """In the unit of the field."""
    description: str | None = None
    maximum: float | None = None
    """The largest value allowed, in the unit of the field."""
    minimum: float | None = None
    """The smallest value allowed, in the unit of the field."""
    title: str | None = None
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
    """The most choices that may be selected. A count."""
    min_items: int | None = None
    """The fewest choices that must be selected. A count."""
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
class ToolChoice(Model):
    """The rule by which the client's model may, must or must not use tools.

    Since revision 2025-11-25.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#toolchoice
    """

    mode: Literal["auto", "none", "required"] | None = None
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
    """The most choices that may be selected. A count."""
    min_items: int | None = None
    """The fewest choices that must be selected. A count."""
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


ElicitRequestParams: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams
"""A question to the user: a form to fill in, or a web page to visit.

Since revision 2025-11-25.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#elicitrequestparams
"""


InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest
"""A question inside an `InputRequiredResult`: to the user, to the model, or for the roots.

In revision 2026-07-28 only.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputrequest
"""


InputRequests: TypeAlias = Mapping[str, InputRequest]
"""The questions of an `InputRequiredResult`, by keys that the server chooses.

In revision 2026-07-28 only.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#inputrequests
"""


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
"""A field of a form: text, a number, a yes or no, or a choice.

Since revision 2025-06-18.
Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#primitiveschemadefinition
"""
