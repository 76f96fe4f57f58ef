"""The results of servers as a caller gets them: with the URIs of the gateway, and in the caller's revision.

Rules of this file:

1. What is not to be changed is passed as bytes: a long member of a result may be `wire.JsonText`, and stays so.
2. A result of a later revision is read and written again in the revision of the caller, except for what is known to be
   the same in both.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from .. import types
from ..lowlevel import checked_result
from ..wire import SERVER_INFO_KEY, JsonObject, JsonText, decoded, is_array, is_object
from ._merged import MergedLists
from ._upstream import UpstreamClient

__all__ = ["in_revision", "with_public_uris", "without_server_info"]

_SINCE_STRUCTURED: Final = "2025-06-18"
"""The first revision that has structured content."""
_OF_ALL_REVISIONS: Final = frozenset({"content", "structuredContent", "isError", "resultType"})
"""The members of the result of a call that older revisions have, or that are left out for them."""


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    """A block of text without annotations, whose text is not decoded."""

    type: Literal["text"]
    text: msgspec.Raw


_read_texts: Final = msgspec.json.Decoder(list[_Text]).decode


def in_revision(result: JsonObject, method: str, revision: str, name: str) -> types.Model | JsonObject:
    """Return the result of a later revision in an earlier one (rule 2), typed or as JSON.

    Args:
        name: the name of the tool or prompt, for errors.

    Raises what `checked_result` raises.
    """
    is_known = method in types.METHODS[revision]
    if not is_known or (method == "tools/call" and _is_the_same(result, revision)):
        return {name: each for name, each in result.items() if name != "resultType"}
    checked: types.Model = checked_result(
        {name: decoded(each) for name, each in result.items()}, method, revision, name
    )
    return checked


def _is_the_same(result: JsonObject, revision: str) -> bool:
    """Return True if the result of a call is known to be the same in a legacy revision, apart from its type."""
    if not result.keys() <= _OF_ALL_REVISIONS or not isinstance(result.get("isError", False), bool):
        return False
    structured: Any = result.get("structuredContent", _NOTHING)
    if structured is not _NOTHING and (revision < _SINCE_STRUCTURED or not _is_encoded_object(structured)):
        return False
    return _has_only_texts(result.get("content"))


_NOTHING: Final = object()


def _is_encoded_object(value: Any) -> bool:
    return is_object(value) or (isinstance(value, JsonText) and _begins_with(value, b"{"))


def _begins_with(text: JsonText, first: bytes) -> bool:
    return bytes(memoryview(text)[:1]) == first


def _has_only_texts(content: Any) -> bool:
    if isinstance(content, JsonText):
        try:
            return all(_begins_with(block.text, b'"') for block in _read_texts(content))
        except msgspec.MsgspecError:
            return False
    return is_array(content) and all(
        is_object(block) and len(block) == 2 and block.get("type") == "text" and _is_string(block.get("text"))
        for block in content
    )


def _is_string(value: Any) -> bool:
    return type(value) is str or (isinstance(value, JsonText) and _begins_with(value, b'"'))


def without_server_info(result: JsonObject) -> JsonObject:
    """Return a result without the name of the server: the caller talks to the gateway."""
    meta: Any = result.get("_meta")
    if isinstance(meta, JsonText):
        meta = decoded(meta)
    if not is_object(meta) or SERVER_INFO_KEY not in meta:
        return result
    result = {**result}
    if len(meta) == 1:
        del result["_meta"]
    else:
        result["_meta"] = {name: each for name, each in meta.items() if name != SERVER_INFO_KEY}
    return result


_WITH_URIS: Final = ("uri", "resource", "content")
"""The members of a block that are a URI or hold one."""


def with_public_uris(merged: MergedLists, client: UpstreamClient, result: JsonObject) -> JsonObject:
    """Return a result whose links and contents have the URIs of the gateway."""

    def changed(each: JsonObject) -> JsonObject:
        found = {name: decoded(each[name]) for name in _WITH_URIS if name in each}
        if isinstance(found.get("uri"), str):
            return {**each, "uri": merged.public_uri(client, found["uri"])}
        for name in ("resource", "content"):  # an embedded resource; the block of a message of a prompt
            if is_object(found.get(name)):
                return {**each, name: changed(found[name])}
        return each

    for member in ("content", "contents", "messages"):
        parts: Any = result.get(member)
        if isinstance(parts, JsonText) and not _has_only_texts(parts):
            parts = decoded(parts)
        if is_array(parts):
            result = {**result, member: [changed(each) if is_object(each) else each for each in parts]}
    return result
