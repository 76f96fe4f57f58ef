"""Generated from schema/extensions/skills.json by `python -m codegen`: do not edit. The messages of skills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from attrs import field, frozen

from trio_mcp.types import NO_EXTRA, Bounds, JSONObject, Method, Model, RequestId, Resource


@frozen(kw_only=True, repr=False, eq=False)
class GetSkillRequest(Model):
    """The request of a client for the entry of one skill.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["skills/get"] = "skills/get"
    params: GetSkillRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetSkillRequestParams(Model):
    """The skill to describe, by the URI of its SKILL.md.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    uri: str
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetSkillResult(Model):
    """The entry of one skill.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    skill: Skill
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    cache_scope: Literal["private", "public"] | None = None
    result_type: Literal["complete"] | None = None
    ttl_ms: int | None = field(default=None, metadata={"bounds": Bounds(minimum=0)})
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListSkillsRequest(Model):
    """The request of a client for a page of a server's skills.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["skills/list"] = "skills/list"
    params: ListSkillsRequestParams | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListSkillsRequestParams(Model):
    """The page to list; the first page without a cursor.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    cursor: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ListSkillsResult(Model):
    """One page of a server's skills. It may be empty or incomplete even if there are skills.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    skills: Sequence[Skill]
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    cache_scope: Literal["private", "public"] | None = None
    next_cursor: str | None = None
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: Literal["complete"] | None = None
    ttl_ms: int | None = field(default=None, metadata={"bounds": Bounds(minimum=0)})
    """The time that the result may be cached, in milliseconds; 0 forbids caching."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceDirectoryRequest(Model):
    """The request of a client for the children of a directory resource.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["resources/directory/read"] = "resources/directory/read"
    params: ReadResourceDirectoryRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceDirectoryRequestParams(Model):
    """The directory to read, by its URI without a trailing slash.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    uri: str
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    cursor: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class ReadResourceDirectoryResult(Model):
    """One page of the direct children of a directory resource.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    resources: Sequence[Resource]
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    next_cursor: str | None = None
    """Opaque: the cursor of the next page; None on the last page."""
    result_type: Literal["complete"] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Skill(Model):
    """The entry of a skill: all that a host needs to show it, to bind an approval to it and to verify it.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    frontmatter: JSONObject
    """The YAML frontmatter of SKILL.md as JSON, verbatim; at least `name` and `description`."""
    resources: Sequence[SkillResource] | Literal["dynamic"]
    """Every file of the skill once, SKILL.md too; `"dynamic"` if they have no stable digests."""
    uri: str
    """The URI of the SKILL.md. It identifies the skill only together with the server."""
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SkillResource(Model):
    """One file of a skill, with the digest and the size that its contents must have.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    digest: str
    """The SHA-256 of the bytes of the file: `sha256:` and 64 lowercase hexadecimal digits."""
    size: int = field(metadata={"bounds": Bounds(minimum=0)})
    """In bytes, before any encoding."""
    uri: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class SkillsExtensionCapability(Model):
    """The settings with which a server declares that it serves skills.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    directory_read: bool | None = None
    """Whether the server has `resources/directory/read`; None means no."""
    extra: Mapping[str, Any] = NO_EXTRA


__all__ = [
    "EXTENSION",
    "GetSkillRequest",
    "GetSkillRequestParams",
    "GetSkillResult",
    "ListSkillsRequest",
    "ListSkillsRequestParams",
    "ListSkillsResult",
    "METHODS",
    "ReadResourceDirectoryRequest",
    "ReadResourceDirectoryRequestParams",
    "ReadResourceDirectoryResult",
    "Skill",
    "SkillResource",
    "SkillsExtensionCapability",
]
EXTENSION: Final = "io.modelcontextprotocol/skills"
"""The name under which both sides declare the extension."""
METHODS: Final[Mapping[str, Method]] = {
    "resources/directory/read": Method(
        "request",
        "client",
        "trio_mcp.skills.types.ReadResourceDirectoryRequestParams",
        True,
        ("trio_mcp.skills.types.ReadResourceDirectoryResult",),
    ),
    "skills/get": Method(
        "request",
        "client",
        "trio_mcp.skills.types.GetSkillRequestParams",
        True,
        ("trio_mcp.skills.types.GetSkillResult",),
    ),
    "skills/list": Method(
        "request",
        "client",
        "trio_mcp.skills.types.ListSkillsRequestParams",
        False,
        ("trio_mcp.skills.types.ListSkillsResult",),
    ),
}
"""Every method of the extension, by its name on the wire."""
