"""The content of results: conversion of return values, binary blocks, messages, and content for legacy revisions.

A kind of content that a revision does not have (audio before 2025-03-26, resource links before 2025-06-18) is refused
with an error, so that no other content silently takes its place. Members that a revision does not have are left out.

What a handler cannot return is refused at registration if its annotation says so, and else when it happens: the log
then names the handler, and the peer gets an error without details.
"""

from __future__ import annotations

import base64
import inspect
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from attrs import evolve, frozen

from ... import types
from ..._errors import McpError, ToolError, TrioMcpError
from ..._other_sdks import explained_init
from ...schema import Form, Misfit, form_of, render_path, to_json
from ...wire import INTERNAL_ERROR, JsonObject, NotJsonError, encode, is_modern

__all__ = [
    "CONTENT_CLASSES",
    "RESULT_CLASSES",
    "SCALARS",
    "Assistant",
    "Audio",
    "Content",
    "Image",
    "NotReturnable",
    "User",
    "check_returns",
    "content_blocks",
    "data_result",
    "holds_content",
    "legacy_messages",
    "legacy_result",
    "messages_of",
    "text_result",
    "to_plain",
]

_log = logging.getLogger("trio_mcp.server")

CONTENT_CLASSES = (
    types.TextContent,
    types.ImageContent,
    types.AudioContent,
    types.ResourceLink,
    types.EmbeddedResource,
)
_STRUCTURED = frozenset(types.REVISIONS[types.REVISIONS.index("2025-06-18") :])
"""Revisions with structured content, with `_meta` of blocks, and with every kind of content."""
_SINCE: Mapping[type, tuple[str, str]] = {
    types.AudioContent: ("audio", "2025-03-26"),
    types.ResourceLink: ("a resource link", "2025-06-18"),
}
"""Kinds of content that the first revision does not have: the name of each, and its first revision."""
_OBJECTS = (dict, Mapping)
"""`dict` comes first because nearly all mappings are dicts, and the check for `Mapping` is slow."""
Content: TypeAlias = (
    "types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource"
)


@explained_init
@frozen
class Image:
    """An image to return from a tool or prompt: its bytes and its media type.

    Args:
        data: the encoded image, such as the content of a PNG file.
        mime_type: the media type, such as ``"image/png"``.
    """

    data: bytes
    mime_type: str

    def block(self) -> types.ImageContent:
        """Return a content block with the bytes in base64."""
        return types.ImageContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime_type)


@explained_init
@frozen
class Audio:
    """Audio to return from a tool or prompt: its bytes and its media type.

    Args:
        data: the encoded audio, such as the content of a WAV file.
        mime_type: the media type, such as ``"audio/wav"``.
    """

    data: bytes
    mime_type: str

    def block(self) -> types.AudioContent:
        """Return a content block with the bytes in base64."""
        return types.AudioContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime_type)


RESULT_CLASSES = (*CONTENT_CLASSES, Image, Audio, types.CallToolResult)
"""The classes that are content, not data: a return annotation that names one gives no output schema."""
SCALARS = frozenset({str, int, float, bool, type(None)})
"""Classes whose instances are never content: a quick check."""
_AS_BLOCKS = (*CONTENT_CLASSES, Image, Audio)
_LISTS = (list, tuple)


def content_blocks(value: Any, *, of_list: bool = False) -> list[Content]:
    """Return *value* as content blocks.

    A list that contains content is content; any other value is data, and becomes a text block with its JSON.

    Args:
        value: the value of a handler.
        of_list: True if the items of a list are content in any case: each becomes a block.

    Raises:
        TypeError: *value* is bytes, which have no media type.
    """
    if value is None:
        return []
    if isinstance(value, _LISTS) and (of_list or holds_content(value)):
        return [_block(item) for item in cast("Sequence[Any]", value)]
    return [_block(value)]


def holds_content(value: Any) -> bool:
    """Return True if *value* is content, or a list that contains some."""
    if isinstance(value, _LISTS):
        return any(issubclass(each, _AS_BLOCKS) for each in set(map(type, cast("Sequence[Any]", value))))
    return issubclass(type(value), _AS_BLOCKS)


def _block(value: Any) -> Content:
    if type(value) is str:
        return types.TextContent(text=value)
    if isinstance(value, CONTENT_CLASSES):
        return value
    if isinstance(value, Image | Audio):
        return value.block()
    if isinstance(value, bytes | bytearray):
        raise TypeError("bytes have no media type; return Image(data, mime_type) or Audio(data, mime_type)")
    return types.TextContent(text=_text_of(value))


def _text_of(value: Any) -> str:
    """Return *value* if it is a string, else its JSON.

    Raises:
        NotJsonError: *value* is not JSON.
        TypeError: *value* is a coroutine.
    """
    if isinstance(value, str):
        return value
    try:
        return encode(value).decode()
    except NotJsonError:  # a class that only the conversion for output schemas knows, such as a pydantic model
        return encode(to_plain(value)).decode()


# --- What cannot be returned ---


class NotReturnable(TrioMcpError):
    """A handler has returned a value that cannot be sent. The handler is at fault; the peer is told nothing of it.

    Args:
        what: the handler, such as ``tool 'search'``.
        value: the returned value.
        fault: what is wrong with it.
        place: the file and line of the handler.
    """

    def __init__(self, what: str, value: object, fault: object, place: str) -> None:
        kind = type(value).__qualname__
        super().__init__(f"{what} returned a value of type {kind}: {fault}; its handler is at {place}")


def check_returns(
    annotation: Any,
    what: str,
    content: tuple[type, ...],
    forms: Collection[Form],
    cure: str,
    *,
    never: tuple[type, ...] = (),
) -> None:
    """Check that a return annotation names only types whose values can be sent.

    A type that says little of its values, such as `Any` or a protocol, passes: the values are checked in each call.

    Args:
        annotation: the resolved annotation; `inspect.Signature.empty` if there is none.
        what: the handler in errors, such as ``resource 'stock'``.
        content: the classes whose instances are content.
        forms: the JSON forms of other values.
        cure: the end of the message.
        never: classes that have a JSON form, but must not be sent in it.

    Raises:
        TypeError: it names another type.
    """
    for refused in _refused(annotation, content, forms, never):
        raise TypeError(f"{what}: its return annotation names {_written(refused)}, which cannot be returned: {cure}")


def _written(annotation: Any) -> str:
    if annotation is type(None):
        return "None"
    is_plain = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if is_plain else str(annotation).removeprefix("typing.")


_UNSAID: tuple[Any, ...] = (inspect.Signature.empty, Any, object)
"""Annotations that may be classes, and say nothing of the values."""
_ALL_FORMS: Collection[Form] = get_args(Form)


def _refused(
    annotation: Any, content: tuple[type, ...], forms: Collection[Form], never: tuple[type, ...]
) -> Iterator[Any]:
    """Yield the types in an annotation that are among *never*, or neither content nor JSON of one of these forms."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Annotated, Final}:
        yield from _refused(arguments[0], content, forms, never)
    elif origin in {Union, UnionType}:
        for arm in arguments:
            yield from _refused(arm, content, forms, never)
    elif origin is Literal:
        for kind in dict.fromkeys(map(type, arguments)):
            yield from _refused(kind, content, forms, never)
    elif hasattr(annotation, "__value__") or hasattr(annotation, "__supertype__"):
        yield from _refused(getattr(annotation, "__value__", None) or annotation.__supertype__, content, forms, never)
    else:
        cls = origin or annotation
        if not isinstance(cls, type) or cls in _UNSAID or issubclass(cls, content):
            return
        is_open = inspect.isabstract(cls) or getattr(cls, "_is_protocol", False)
        if issubclass(cls, never) or (not is_open and form_of(cls) not in forms):
            yield annotation
        inner: Collection[Form] = {*forms, "scalar"} if cls in _LISTS else _ALL_FORMS
        for argument in arguments:
            yield from _refused(argument, content, inner, never)


def to_plain(value: Any) -> Any:
    """Return the JSON form of a value, made of dict, list, str, int, float, bool and None.

    Raises:
        NotJsonError: it has none; the message says which part has none, and why.
    """
    try:
        return to_json(value)
    except Misfit as misfit:
        raise NotJsonError("; ".join(f"{render_path(path)}: {fault}" for path, fault in misfit.faults)) from misfit
    except RecursionError:
        raise NotJsonError("it is nested too deeply, or contains itself") from None


# --- Messages of prompts ---

_ROLES = ("user", "assistant")
_MEMBERS = frozenset({"role", "content"})
MessageContent: TypeAlias = "str | Content | Image | Audio | Mapping[str, Any]"
"""The content of a message: text, a content block, an image or audio, or the JSON object of a content block."""


def User(content: MessageContent) -> types.PromptMessage:  # noqa: N802 # it stands for a class: "a message of the user"
    """Return a message of the user, to return from a prompt.

    Args:
        content: text, a content block (such as `types.ResourceLink`), an `Image` or `Audio`, or the JSON object of a
            content block, such as ``{"type": "text", "text": "Hello"}``.

    Raises:
        TypeError: *content* is none of these.
        StructureError: the JSON object is not one of a content block.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#promptmessage
    """
    return _message("user", content)


def Assistant(content: MessageContent) -> types.PromptMessage:  # noqa: N802 # as `User`
    """Return a message of the assistant, to return from a prompt; see `User`."""
    return _message("assistant", content)


def messages_of(value: Any) -> list[types.PromptMessage]:
    """Return what a prompt has returned as messages.

    A mapping with the members ``role`` and ``content`` is a message; one without ``content`` is refused. Content
    and data become messages of the user.

    Raises:
        NotJsonError: a part has no JSON form.
        TypeError: a part is bytes, or a message whose content is no content.
        ValueError: a part is a mapping that is not quite a message.
        StructureError: its content is a JSON object that is no content block.
    """
    parts: Sequence[Any] = cast("Sequence[Any]", value) if isinstance(value, _LISTS) else [value]
    messages: list[types.PromptMessage] = []
    for part in parts:
        if isinstance(part, types.PromptMessage):
            messages.append(part)
        elif isinstance(part, _OBJECTS) and part.keys() >= _MEMBERS:
            messages.append(_message_from(cast("Mapping[str, Any]", part)))
        elif isinstance(part, _OBJECTS) and "role" in part:
            raise ValueError("a message has a role and content: this dict has a 'role', but its 'content' is missing")
        else:
            messages += [types.PromptMessage(role="user", content=block) for block in content_blocks(part)]
    return messages


def _message_from(members: Mapping[str, Any]) -> types.PromptMessage:
    role = members["role"]
    if role not in _ROLES:
        raise ValueError(f"the role of a message is 'user' or 'assistant', not {role!r:.100}")
    if unknown := members.keys() - _MEMBERS:
        raise ValueError(f"a message has a role and content, but no {', '.join(sorted(map(repr, unknown)))}")
    return _message(role, members["content"])


def _message(role: Literal["user", "assistant"], content: Any) -> types.PromptMessage:
    if isinstance(content, _OBJECTS):
        block = dict(cast("Mapping[str, Any]", content))
        return types.structure({"role": role, "content": block}, types.PromptMessage)
    if not isinstance(content, (str, *_AS_BLOCKS)):
        raise TypeError(
            f"the content of a message is text, content, or a dict of content, not {type(content).__name__}"
        )
    return types.PromptMessage(role=role, content=_block(content))


# --- Results ---


def text_result(plain: Any) -> JsonObject:
    """Return the JSON of a tool result with one text block; see `data_result`."""
    return {"content": [{"type": "text", "text": _text_of(plain)}]}


def data_result(plain: Any, structured: Any, revision: str) -> JsonObject:
    """Return the JSON of the result of a tool that has returned data; most results are, and need no typed classes.

    Args:
        plain: the data, as JSON values.
        structured: the structured content; left out if the revision has none, or permits only objects.
    """
    result = text_result(plain)
    if revision in _STRUCTURED and (type(structured) is dict or is_modern(revision)):
        result["structuredContent"] = structured
    return result


def legacy_result(result: types.CallToolResult, revision: str, tool: str) -> types.CallToolResult:
    """Return the *result* of a tool in a form that a client of the legacy *revision* can read.

    Structured content exists from 2025-06-18 on, and must be an object. Where it is not possible, it is replaced by a
    text block with its JSON, unless the result has a text block.

    Raises:
        ToolError: the content is of a kind that the revision does not have; also logged.
    """
    structured, has_structure = result.structured_content, revision in _STRUCTURED
    fits = structured is types.UNSET or (has_structure and isinstance(structured, _OBJECTS))
    if fits and has_structure:
        return result
    try:
        content = _for_revision(result.content, revision, f"tool {tool!r}: content")
    except McpError as error:
        raise ToolError(error.message) from error
    if fits:
        return result if content == result.content else evolve(result, content=content)
    if not any(isinstance(block, types.TextContent) for block in content):
        content.append(types.TextContent(text=_text_of(structured)))
    return evolve(result, content=content, structured_content=types.UNSET)


def legacy_messages(result: types.GetPromptResult, revision: str, prompt: str) -> types.GetPromptResult:
    """Return the *result* of a prompt in a form that a client of *revision* can read.

    Raises:
        McpError: the messages have content of a kind that the revision does not have; also logged.
    """
    if revision in _STRUCTURED:
        return result
    contents = [each.content for each in result.messages]
    pairs = zip(result.messages, _for_revision(contents, revision, f"prompt {prompt!r}: messages"), strict=True)
    return evolve(result, messages=[evolve(each, content=content) for each, content in pairs])


def _for_revision(blocks: Sequence[Any], revision: str, where: str) -> list[Any]:
    """Return *blocks* without the members that *revision* does not have.

    Args:
        where: the name of the blocks in errors.

    Raises:
        McpError: a block is of a kind that the revision does not have; also logged.
    """
    for number, block in enumerate(blocks):
        what, since = _SINCE.get(block.__class__, ("", ""))
        if revision < since:
            fault = f"{where}[{number}] is {what}, which revision {revision} does not have ({since} and later ones do)"
            _log.error("%s; nothing was sent. Check Context.revision before returning it", fault)
            raise McpError(INTERNAL_ERROR, fault)
    if revision in _STRUCTURED:
        return list(blocks)
    return [block if block.meta is None else evolve(block, meta=None) for block in blocks]
