"""The response of a web API as the result of a tool, and its errors in words for a model.

Specification: https://www.rfc-editor.org/rfc/rfc9457 (problem details)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from .. import ToolError, types
from ..wire import is_object
from ._media_types import base_of, charset_of, is_json, is_text

__all__ = ["error_of", "result_of"]

MOST_CHARACTERS: Final = 1000
"""The number of characters of an error that a model is told."""
_PROBLEM: Final = ("title", "detail", "message", "error_description", "error", "code", "type")
"""The members of an error that a model is told, as problem details and common APIs name them."""
REMOVED: Final = "[removed]"


def result_of(status: int, media_type: str, content: bytes, url: str) -> types.CallToolResult:
    """Return the result of a response that reports a success.

    JSON is structured content, and text as well; images and sound are such content; other bytes are a resource.

    Args:
        url: the URL of the request, which names the resource.
    """
    if not content:
        return _of_text(f"{status} {_phrase(status)}".strip())
    kind = base_of(media_type)
    if is_json(kind):
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            raise ToolError(f"the API answered {kind} that is not JSON") from None
        text = types.TextContent(text=json.dumps(value, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=value)
    if is_text(kind) or not kind:
        return _of_text(_decoded(content, media_type))
    data = base64.b64encode(content).decode()
    if kind.startswith("image/"):
        return types.CallToolResult(content=[types.ImageContent(data=data, mime_type=kind)])
    if kind.startswith("audio/"):
        return types.CallToolResult(content=[types.AudioContent(data=data, mime_type=kind)])
    blob = types.BlobResourceContents(uri=url, blob=data, mime_type=kind)
    return types.CallToolResult(content=[types.EmbeddedResource(resource=blob)])


def _decoded(content: bytes, media_type: str) -> str:
    try:
        return content.decode(charset_of(media_type), "replace")
    except LookupError:  # no character set of Python
        return content.decode("utf-8", "replace")


def _of_text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def error_of(status: int, media_type: str, content: bytes, secrets: Collection[str]) -> ToolError:
    """Return the error of a response that reports a failure, with its problem details and without any secret."""
    said = _said(media_type, content)
    # A secret inside JSON or a URL may be written in another way.
    spelled = {each for secret in secrets for each in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))}
    for secret in sorted(spelled, key=len, reverse=True):
        said = said.replace(secret, REMOVED)
    if len(said) > MOST_CHARACTERS:
        said = said[:MOST_CHARACTERS] + " [...]"
    phrase = _phrase(status)
    return ToolError(f"the API answered {status} {phrase}".strip() + (f": {said}" if said not in {"", phrase} else ""))


def _said(media_type: str, content: bytes) -> str:
    text = _decoded(content, media_type).strip()
    if is_json(media_type):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return _problem(value) if is_object(value) else text
    return "" if "html" in media_type else text  # a page is for a person


def _problem(value: Mapping[str, Any]) -> str:
    known = {name: value[name] for name in _PROBLEM if isinstance(value.get(name), str | int)}
    nested: Any = value.get("error")
    if is_object(nested):
        known |= {name: nested[name] for name in _PROBLEM if isinstance(nested.get(name), str | int)}
    shown = [str(each) if name in {"title", "detail", "message"} else f"{name} {each}" for name, each in known.items()]
    others = {name: each for name, each in value.items() if name not in known and name not in {"status", "error"}}
    if others:
        shown.append(json.dumps(others, ensure_ascii=False))
    return "; ".join(shown)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
