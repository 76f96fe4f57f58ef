"""The response of a web API as the result of a tool, and its errors in words for a model.

Specification: https://www.rfc-editor.org/rfc/rfc9457 (problem details)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final

from .. import ToolError, types
from ..wire import is_object
from ._operations import is_json

__all__ = ["error_of", "result_of"]

MOST_CHARACTERS: Final = 1000
"""The number of characters of an error that a model is told."""
_PROBLEM: Final = ("title", "detail", "message", "error_description", "error", "code", "type")
"""The members of an error that a model is told, as problem details and common APIs name them."""
REMOVED: Final = "[removed]"


def result_of(status: int, media_type: str, content: bytes, url: str) -> types.CallToolResult:
    """Return the result of a response that reports a success.

    JSON is structured content, and text as well; images and sound are such content; other bytes are a resource.
    """
    if not content:
        return _of_text(f"{status} {_phrase(status)}".strip())
    kind = media_type.partition(";")[0].strip().lower()
    if is_json(kind):
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            raise ToolError(f"the API answered {kind} that is not JSON") from None
        text = types.TextContent(text=json.dumps(value, ensure_ascii=False))
        structured: Any = value if is_object(value) else types.UNSET
        return types.CallToolResult(content=[text], structured_content=structured)
    if kind.startswith("text/") or kind in {"", "application/xml", "application/yaml"}:
        return _of_text(content.decode("utf-8", "replace"))
    data = base64.b64encode(content).decode()
    if kind.startswith("image/"):
        return types.CallToolResult(content=[types.ImageContent(data=data, mime_type=kind)])
    if kind.startswith("audio/"):
        return types.CallToolResult(content=[types.AudioContent(data=data, mime_type=kind)])
    blob = types.BlobResourceContents(uri=url, blob=data, mime_type=kind)
    return types.CallToolResult(content=[types.EmbeddedResource(resource=blob)])


def _of_text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def error_of(status: int, media_type: str, content: bytes, secrets: Collection[str]) -> ToolError:
    """Return the error of a response that reports a failure, with its problem details and without any secret."""
    said = _said(media_type, content)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        said = said.replace(secret, REMOVED)
    if len(said) > MOST_CHARACTERS:
        said = said[:MOST_CHARACTERS] + " [...]"
    return ToolError(f"the API answered {status} {_phrase(status)}".strip() + (f": {said}" if said else ""))


def _said(media_type: str, content: bytes) -> str:
    text = content.decode("utf-8", "replace").strip()
    if is_json(media_type.partition(";")[0].strip()):
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
