"""Generated from schema/ by `python -m codegen`: do not edit. The message types: resources and prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from trio_mcp.types._generated.basic import Icon
from trio_mcp.types._generated.tools import (
    Annotations,
    BlobResourceContents,
    ContentBlock,
    InputResponses,
    Role,
    TextResourceContents,
)
from trio_mcp.types._model import NO_EXTRA, JSONObject, Model


@frozen(kw_only=True, repr=False, eq=False)
class GetPromptRequestParams(Model):
    """The prompt to fill in, and its arguments.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#getpromptrequestparams
    """

    name: str
    meta: JSONObject | None = None
    arguments: Mapping[str, str] | None = None
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: the state that the server sent with its questions, unchanged."""
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
class ListPromptsResult(Model):
    """One page of a server's prompts.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#listpromptsresult
    """

    prompts: Sequence[Prompt]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    next_cursor: str | None = None
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
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
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
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
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: str | None = None
    ttl_ms: int | None = None
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
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
class ReadResourceRequestParams(Model):
    """The resource to read.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#readresourcerequestparams
    """

    uri: str
    meta: JSONObject | None = None
    input_responses: InputResponses | None = None
    request_state: str | None = None
    """Opaque: the state that the server sent with its questions, unchanged."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceResult(Model):
    """The contents of a resource, in several items if it has parts.

    In every revision.
    Specification: https://modelcontextprotocol.io/specification/2026-07-28/schema#readresourceresult
    """

    contents: Sequence[TextResourceContents | BlobResourceContents]
    meta: JSONObject | None = None
    cache_scope: Literal["private", "public"] | None = None
    result_type: str | None = None
    ttl_ms: int | None = None
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
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
