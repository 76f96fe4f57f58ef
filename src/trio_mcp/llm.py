"""Tools for a language model's chat interface, and answers to the calls that the model makes.

The format is that of chat completions, which most providers and local models accept. The application sends the
requests; no model is known here. See ``examples/chat_host.py`` for a whole host.

Rules of this file:

1. A function name may have 64 characters of ``A-Z a-z 0-9 _ -``; a tool's name may be longer and contain others. A tool
   name that is a valid function name is kept. Otherwise invalid characters become ``_``, and if the name is then too
   long or not unique, it ends in a digest of the tool's name. So a name does not depend on the order of the tools.
2. Results become text, the one kind of content that every interface accepts in a tool message. Images, audio and other
   binary content are described.
3. Every call of a model is answered with a message that the model can read.
4. A call runs only if *approve*, when given, has allowed it.
5. A call that fails does not affect the answers of other calls.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

from attrs import define, frozen

from . import types
from ._errors import ServerExited, TrioMcpError
from ._util import run_all
from .client import MAX_NAME_LENGTH, sanitized_name, unique_names
from .wire import Undecodable, decode, encode, is_array, is_object

__all__ = [
    "Approve",
    "HasTools",
    "ServerToolLike",
    "ToolCall",
    "Toolkit",
    "bounded",
    "definition",
    "error_text",
    "function_names",
    "load_toolkit",
    "result_text",
]


class ServerToolLike(Protocol):
    """A tool of one of several servers, as `Clients.tools` yields it."""

    @property
    def name(self) -> str:
        """A name that is unique among the tools of all servers."""
        ...

    @property
    def server(self) -> str:
        """The name of the server."""
        ...

    @property
    def tool(self) -> types.Tool:
        """The tool as the server describes it."""
        ...


class HasTools(Protocol):
    """An object with tools to call: a `Client`, or the `Clients` of many servers."""

    def tools(self) -> AsyncIterator[types.Tool | ServerToolLike]:
        """Iterate over the tools."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> types.CallToolResult:
        """Call the tool that has this name in `tools`."""
        ...


def definition(name: str, tool: types.Tool) -> dict[str, Any]:
    """Return *tool* as a function called *name*; its input schema is passed on unchanged."""
    function: dict[str, Any] = {"name": name, "parameters": tool.input_schema}
    if about := tool.description or tool.title:
        function["description"] = about
    return {"type": "function", "function": function}


def function_names(tools: Collection[str]) -> dict[str, str]:
    """Return a unique function name for each tool name; the tool names are unique too."""
    wanted = {tool: sanitized_name(tool)[:MAX_NAME_LENGTH] or "_" for tool in sorted(tools)}
    times = Counter(wanted.values())
    names = {tool: name for tool, name in wanted.items() if name == tool or _is_unique(tool, times[name])}
    rest = {tool: name for tool, name in wanted.items() if tool not in names}
    return names | unique_names(rest, times, lambda tool, attempt: f"{attempt}\0{tool}")


def _is_unique(tool: str, times_wanted: int) -> bool:
    return len(tool) <= MAX_NAME_LENGTH and times_wanted == 1


# --- Results as text ---


def result_text(result: types.CallToolResult) -> str:
    """Return *result* as text for a language model.

    Text, and embedded resources that are text, are included unchanged. Structured content is included as JSON if there
    is no text. Other content is described. A result that says `is_error` begins with ``Error:``.
    """
    parts = [_part(block) for block in result.content]
    content: Any = result.structured_content
    if content is not types.UNSET and not any(isinstance(block, types.TextContent) for block in result.content):
        parts.append(encode(content).decode())
    text = "\n".join(parts)
    if result.is_error:
        return error_text(text or "the tool failed, and did not say why")
    return text or "(the tool returned nothing)"


def error_text(text: str) -> str:
    """Return *text* marked as the description of a failure."""
    return f"Error: {text}"


def bounded(text: str, max_characters: int) -> str:
    """Return the beginning of *text*, with a note if characters were left out."""
    if len(text) <= max_characters:
        return text
    return f"{text[:max_characters]}\n[{len(text) - max_characters} more characters are left out here]"


def _part(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            return f"[an image of type {block.mime_type}, {_size(block.data)} bytes, which cannot be shown here]"
        case types.AudioContent():
            return f"[audio of type {block.mime_type}, {_size(block.data)} bytes, which cannot be played here]"
        case types.ResourceLink():
            described = f": {block.description}" if block.description else ""
            return f"[resource {block.title or block.name} <{block.uri}>{described}]"
        case _:
            return _resource(block.resource)


def _resource(contents: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(contents, types.TextResourceContents):
        return f"[resource <{contents.uri}>]\n{contents.text}"
    kind = f" of type {contents.mime_type}" if contents.mime_type else ""
    return f"[resource <{contents.uri}>{kind}, {_size(contents.blob)} bytes, which cannot be shown here]"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


# --- The tools of one conversation ---

_log = logging.getLogger("trio_mcp.llm")

MAX_CHARACTERS = 50_000
"""The longest tool message: some ten thousand tokens."""


@frozen
class _OfferedTool:
    """A tool, and the name to call it by."""

    name: str
    server: str | None
    tool: types.Tool


@frozen
class ToolCall:
    """A call that the model wants to make."""

    id: str
    """The model's identifier of the call."""
    function: str
    """The name of the function, as the model knows it."""
    server: str | None
    """The server that has the tool; None if there is only one server."""
    tool: types.Tool
    """The tool as its server describes it."""
    arguments: Mapping[str, Any]
    """JSON values by parameter, as the model wrote them: no schema has been applied."""


Approve: TypeAlias = Callable[[ToolCall], Awaitable[bool | str]]
"""A callback that decides about a call: True allows it, False refuses it, a string refuses it with a reason.

The model receives the reason.
"""


@define(eq=False)
class Toolkit:
    """The tools of a `Client`, or of `Clients`, for one conversation with a model. Create it with `load_toolkit`.

    It may be used from any number of tasks at once.
    """

    _source: HasTools
    _offers: Mapping[str, _OfferedTool]
    """The tools by function name."""

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The tools as the member ``tools`` of a chat-completions request.

        Input schemas are passed on unchanged. A name that does not match ``[a-zA-Z0-9_-]{1,64}`` is replaced by one
        that does.
        """
        return [definition(name, offer.tool) for name, offer in self._offers.items()]

    async def answer(
        self, message: Mapping[str, Any], *, approve: Approve | None = None, max_characters: int = MAX_CHARACTERS
    ) -> list[dict[str, Any]]:
        """Make the calls in a message of the model, and return a ``tool`` message for each, in the order of the calls.

        First *approve* is awaited for each call, one after the other; then the allowed calls run concurrently. The
        model is told of every failure of a call: an unknown function, arguments that are not a JSON object, a refusal,
        an error of the tool, a lost connection. `result_text` describes the form of results.

        ::

            async def approve(call: ToolCall) -> bool | str:
                return "deleting is not allowed" if call.tool.name == "delete" else True

            messages += await toolkit.answer(message, approve=approve)

        Args:
            message: the assistant's message, with or without ``tool_calls``.
            approve: decides about each call; without it all calls are made.
            max_characters: a longer tool message is truncated, with a note.

        Raises:
            ValueError: the message's ``tool_calls`` is not a list of objects.

        An exception of *approve* is raised here, and no call is made. Cancelling this method cancels the calls.
        """
        calls: Any = message.get("tool_calls") or []
        if not is_array(calls) or not all(is_object(call) for call in calls):
            raise ValueError(f"an assistant's message: 'tool_calls' must be a list of objects, got {calls!r:.200}")
        prepared = [self._prepare(call) for call in calls]
        decided = [await _decide(call, approve) if isinstance(call, ToolCall) else call for call in prepared]
        contents = [each if isinstance(each, str) else "" for each in decided]
        made = [(index, each) for index, each in enumerate(decided) if isinstance(each, ToolCall)]
        jobs = [partial(self._call, each, contents, index) for index, each in made]
        await run_all(jobs, log=_log)
        return [
            {"role": "tool", "tool_call_id": _id_of(call), "content": bounded(text, max_characters)}
            for call, text in zip(calls, contents, strict=True)
        ]

    def _prepare(self, call: Mapping[str, Any]) -> ToolCall | str:
        """Return the call to make, or a string that describes its fault."""
        function = call.get("function")
        name: Any = function.get("name") if is_object(function) else None
        if not isinstance(name, str) or name not in self._offers:
            return error_text(f"there is no function {name!r:.200}")
        assert is_object(function)
        try:
            arguments = _arguments(function.get("arguments"))
        except ValueError as exc:
            return error_text(str(exc))
        offer = self._offers[name]
        return ToolCall(_id_of(call), name, offer.server, offer.tool, arguments)

    async def _call(self, call: ToolCall, contents: list[str], index: int) -> None:
        offer = self._offers[call.function]
        try:
            contents[index] = result_text(await self._source.call_tool(offer.name, call.arguments))
        except ServerExited as exc:  # without its standard error, which is for the user of this machine
            contents[index] = error_text(str(ServerExited(exc.status)))
        except TrioMcpError as exc:
            contents[index] = error_text(str(exc))
        except KeyError as exc:  # `Clients` no longer finds the tool; str() would quote the message
            contents[index] = error_text(" ".join(map(str, exc.args)) or "there is no such tool")
        except Exception as exc:  # noqa: BLE001 # logged, and told to the model
            _log.warning("the call of %r failed", offer.name, exc_info=exc)
            contents[index] = error_text(f"the call failed ({type(exc).__name__})")


async def load_toolkit(source: HasTools) -> Toolkit:
    """Ask a `Client`, or `Clients`, for the current tools, and return them for use with a language model.

    Raises the exceptions of listing the tools of *source*.
    """
    offers: dict[str, _OfferedTool] = {}
    async for each in source.tools():
        server, tool = (None, each) if isinstance(each, types.Tool) else (each.server, each.tool)
        offers.setdefault(each.name, _OfferedTool(each.name, server, tool))
    names = function_names(offers)
    return Toolkit(source, {names[name]: offer for name, offer in offers.items()})


async def _decide(call: ToolCall, approve: Approve | None) -> ToolCall | str:
    verdict = True if approve is None else await approve(call)
    if verdict is True:
        return call
    reason = f": {verdict}" if isinstance(verdict, str) and verdict else ""
    return error_text(f"the user has refused this call{reason}")


def _id_of(call: Mapping[str, Any]) -> str:
    return str(call.get("id") or "")


def _arguments(written: Any) -> Mapping[str, Any]:
    """Return the arguments that a model wrote: JSON in a string or, from some endpoints, an object."""
    if is_object(written):
        return written
    if not isinstance(written, str | None):
        raise ValueError("the arguments are not a JSON object")
    try:
        value = decode((written or "").strip().encode("utf-8", "surrogatepass") or b"{}")
    except Undecodable as exc:
        raise ValueError(f"the arguments are not JSON: {exc}") from None
    if not is_object(value):
        raise ValueError("the arguments are not a JSON object")
    return value
