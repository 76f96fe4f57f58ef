"""Tools for the interface of a language model, and answers to the calls that the model makes.

Three interfaces are known by their JSON: chat completions, which most providers and local models accept, the Messages
API of Anthropic, and the Responses API of OpenAI. The application sends the requests; no model is known here. See
``examples/chat_host.py`` for a whole host.

Rules of this file:

1. A function name may have 64 characters of ``A-Z a-z 0-9 _ -``; a tool's name may be longer and contain others. A tool
   name that is a valid function name is kept. Otherwise invalid characters become ``_``, and if the name is then too
   long or not unique, it ends in a digest of the tool's name. So a name does not depend on the order of the tools.
2. Results become text, the one kind of content that every interface accepts as the result of a call. Images, audio and
   other binary content are described.
3. Every call of a model is answered with a text that the model can read.
4. A call runs only if *approve*, when given, has allowed it.
5. A call that fails does not affect the answers of other calls.
6. Skills are one more tool, which reads them. The model knows only their names and descriptions before that.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

import trio
from attrs import define, evolve, frozen

from . import types
from ._capabilities import load_capability
from ._errors import ServerExited, TrioMcpError
from ._misuse import called_back, require_trio
from ._util import run_all, succeeds
from .client import MAX_NAME_LENGTH, OnProgress, sanitized_name, unique_names
from .wire import Undecodable, decode, encode, is_array, is_object

if TYPE_CHECKING:
    from ._capabilities import SkillApprovals, SkillReader

__all__ = [
    "Api",
    "Approve",
    "CallTimeout",
    "HasTools",
    "OfferedTool",
    "OnCallProgress",
    "Only",
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

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> types.CallToolResult:
        """Call a tool, as `Client.call_tool` does.

        Args:
            name: the name of the tool in `tools`.
            arguments: the arguments of the tool, as JSON; None for none.
            on_progress: called with each report of progress.
        """
        ...


def definition(name: str, tool: types.Tool) -> dict[str, Any]:
    """Return *tool* as a function called *name* for chat completions; its input schema is passed on unchanged."""
    function: dict[str, Any] = {"name": name, "parameters": tool.input_schema}
    if about := tool.description or tool.title:
        function["description"] = about
    return {"type": "function", "function": function}


def function_names(tools: Collection[str]) -> dict[str, str]:
    """Return a unique function name for each of *tools*, the names of tools, which are unique too."""
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
    """Return the first *max_characters* of *text*, with a note if characters were left out."""
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


# --- The JSON of the interfaces ---

Api: TypeAlias = Literal["chat-completions", "messages", "responses"]
"""The interface of a model: chat completions, Anthropic's Messages API or OpenAI's Responses API."""


@frozen
class _WrittenCall:
    """A call as a model wrote it; nothing is checked yet."""

    id: str
    name: Any
    arguments: Any


@frozen
class _CallAnswer:
    """The answer to a call."""

    text: str
    is_error: bool = False


class _Interface(Protocol):
    """The JSON of one interface."""

    def definition(self, name: str, tool: types.Tool) -> dict[str, Any]:
        """Return *tool* as a function called *name*; its input schema is passed on unchanged."""
        ...

    def calls(self, answer: Mapping[str, Any]) -> list[_WrittenCall]:
        """Return the calls in an answer of the model; raise ValueError if it is not one."""
        ...

    def results(self, answers: Sequence[tuple[_WrittenCall, _CallAnswer]]) -> list[dict[str, Any]]:
        """Return what is to be appended to the conversation; empty if there were no calls."""
        ...


class _ChatCompletions:
    def definition(self, name: str, tool: types.Tool) -> dict[str, Any]:
        return definition(name, tool)

    def calls(self, answer: Mapping[str, Any]) -> list[_WrittenCall]:
        found = _objects(answer.get("tool_calls"), "an assistant's message: 'tool_calls'")
        functions = [_object(call.get("function")) for call in found]
        return [
            _WrittenCall(_id(call, "id"), function.get("name"), function.get("arguments"))
            for call, function in zip(found, functions, strict=True)
        ]

    def results(self, answers: Sequence[tuple[_WrittenCall, _CallAnswer]]) -> list[dict[str, Any]]:
        return [{"role": "tool", "tool_call_id": call.id, "content": answer.text} for call, answer in answers]


class _Messages:
    def definition(self, name: str, tool: types.Tool) -> dict[str, Any]:
        return _described({"name": name}, tool) | {"input_schema": tool.input_schema}

    def calls(self, answer: Mapping[str, Any]) -> list[_WrittenCall]:
        content: Any = answer.get("content")
        blocks = [] if isinstance(content, str) else _objects(content, "a message: 'content'")
        return [
            _WrittenCall(_id(block, "id"), block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        ]

    def results(self, answers: Sequence[tuple[_WrittenCall, _CallAnswer]]) -> list[dict[str, Any]]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": answer.text}
            | ({"is_error": True} if answer.is_error else {})
            for call, answer in answers
        ]
        return [{"role": "user", "content": blocks}] if blocks else []


class _Responses:
    def definition(self, name: str, tool: types.Tool) -> dict[str, Any]:
        # Strict functions, which are the default here, accept only a part of JSON Schema.
        function = {"type": "function", "name": name, "parameters": tool.input_schema, "strict": False}
        return _described(function, tool)

    def calls(self, answer: Mapping[str, Any]) -> list[_WrittenCall]:
        return [
            _WrittenCall(_id(item, "call_id"), item.get("name"), item.get("arguments"))
            for item in _objects(answer.get("output"), "a response: 'output'")
            if item.get("type") == "function_call"
        ]

    def results(self, answers: Sequence[tuple[_WrittenCall, _CallAnswer]]) -> list[dict[str, Any]]:
        return [{"type": "function_call_output", "call_id": call.id, "output": answer.text} for call, answer in answers]


_INTERFACES: Final[Mapping[str, _Interface]] = {
    "chat-completions": _ChatCompletions(),
    "messages": _Messages(),
    "responses": _Responses(),
}


def _check_no_other_calls(answer: Mapping[str, Any]) -> None:
    """Raise ValueError if an answer, in which the interface of the toolkit finds no calls, has calls elsewhere."""
    if is_array(answer.get("choices")):
        raise ValueError("the answer is a whole response: pass the message in it, response['choices'][0]['message']")
    for name, interface in _INTERFACES.items():
        try:
            calls = interface.calls(answer)
        except ValueError:  # a member of the same name holds something else
            continue
        if calls:
            raise ValueError(f"the answer has calls of another interface: write load_toolkit(..., api={name!r})")


def _check_answer(answer: object) -> None:
    if not is_object(answer):
        has_json = hasattr(answer, "model_dump")
        cure = "answer(message.model_dump())" if has_json else "the whole message of the model, not a part of it"
        raise TypeError(f"the answer of the model must be a dict, and is of type {type(answer).__name__}: pass {cure}")


def _described(function: dict[str, Any], tool: types.Tool) -> dict[str, Any]:
    about = tool.description or tool.title
    return {**function, "description": about} if about else function


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    found: Any = value or []
    if not is_array(found) or not all(is_object(each) for each in found):
        raise ValueError(f"{where} must be a list of objects, got {found!r:.200}")
    return found


def _object(value: Any) -> Mapping[str, Any]:
    return value if is_object(value) else {}


def _id(call: Mapping[str, Any], member: str) -> str:
    return str(call.get(member) or "")


def _arguments(written: Any) -> Mapping[str, Any]:
    """Return the arguments that a model wrote: JSON in a string or, in some interfaces, an object."""
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


# --- The tools of one conversation ---

_log = logging.getLogger("trio_mcp.llm")

MAX_CHARACTERS = 50_000
"""The longest text of a result: some ten thousand tokens."""


@frozen
class OfferedTool:
    """A tool that is offered to a model."""

    name: str
    """The name to call it by: that of `Client.tools`, or of `Clients.tools`."""
    server: str | None
    """The server that has it; None if there is only one server."""
    tool: types.Tool
    """The tool as its server describes it."""


Only: TypeAlias = "Collection[str] | Mapping[str, Collection[str]] | Callable[[OfferedTool], bool]"
"""The tools that are offered: names of tools, names by server, or a function that returns True for them.

A name is that of the tool on its server, and may contain wildcards: ``"find_*"``. Servers that are not in a mapping
offer no tools.
"""


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
OnCallProgress: TypeAlias = Callable[[ToolCall, types.ProgressNotificationParams], Awaitable[None]]
"""A callback that receives the progress updates of calls."""
CallTimeout: TypeAlias = "float | Callable[[ToolCall], float | None] | None"
"""The seconds that a call may take: for all calls, or a function that returns those of a call; None for no limit."""


@define(eq=False)
class Toolkit:
    """The tools of a `Client`, or of `Clients`, for one conversation with a model. Create it with `load_toolkit`.

    It may be used from any number of tasks at once.
    """

    _source: HasTools
    _offers: Mapping[str, OfferedTool]
    """The tools by function name."""
    _interface: _Interface
    _reader: SkillReader | None = None
    """The function that reads skills; None if there are none."""

    @property
    def skills(self) -> str:
        """The part of the system prompt about the skills: names, servers and descriptions; "" without skills.

        They are as the servers describe them.
        """
        return "" if self._reader is None else self._reader.text()

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The tools as the member ``tools`` of a request.

        Input schemas are passed on unchanged. A name that does not match ``[a-zA-Z0-9_-]{1,64}`` is replaced by one
        that does.
        """
        return [self._interface.definition(name, offer.tool) for name, offer in self._offers.items()]

    async def answer(
        self,
        message: Mapping[str, Any],
        *,
        approve: Approve | None = None,
        on_progress: OnCallProgress | None = None,
        timeout: CallTimeout = None,  # noqa: ASYNC109 # of each call, not of this method
        max_characters: int = MAX_CHARACTERS,
    ) -> list[dict[str, Any]]:
        """Make the calls in an answer of the model, and return what to append to the conversation.

        That is a ``tool`` message for each call (chat completions), one user message with a ``tool_result`` for each
        call (``"messages"``) or a ``function_call_output`` for each call (``"responses"``), in the order of the calls;
        nothing if there are no calls.

        First *approve* is awaited for each call, one after the other; then the allowed calls run concurrently. The
        model is told of every failure of a call: an unknown function, arguments that are not a JSON object, a refusal,
        an error of the tool, a timeout, a lost connection. `result_text` describes the form of results.

        ::

            async def approve(call: ToolCall) -> bool | str:
                return "deleting is not allowed" if call.tool.name == "delete" else True

            async def on_progress(call: ToolCall, update: types.ProgressNotificationParams) -> None:
                print(call.function, update.progress, update.total)

            def timeout(call: ToolCall) -> float | None:
                return 600 if call.tool.name == "build" else 30

            messages += await toolkit.answer(message, approve=approve, on_progress=on_progress, timeout=timeout)

        Args:
            message: the answer of the model, with or without calls: the assistant's message (chat completions,
                ``"messages"``), or the response (``"responses"``), as JSON values.
            approve: decides about each call; without it all calls are made.
            on_progress: awaited with each progress update of each call; those of one call in order, before its result.
                An exception is logged, and the call continues.
            timeout: the seconds that each call may take; then it is cancelled, and the model is told.
            max_characters: a longer text of a result is truncated, with a note.

        Raises:
            ValueError: the calls are not a list of objects, or are those of another interface; or *message* is a
                response of chat completions instead of the message in it.
            TypeError: *message* is not a dict; or a callback takes other arguments, or is no async function.

        An exception of *approve* is raised here, and no call is made; likewise one of *timeout*. Cancelling this method
        cancels the calls.
        """
        _check_answer(message)
        written = self._interface.calls(message)
        if not written:
            _check_no_other_calls(message)
        prepared = [self._prepare(call) for call in written]
        decided = [await _decide(call, approve) if isinstance(call, ToolCall) else call for call in prepared]
        answers = [each if isinstance(each, _CallAnswer) else _CallAnswer("") for each in decided]
        jobs: list[Callable[[], Awaitable[None]]] = []
        for index, each in enumerate(decided):
            if isinstance(each, ToolCall):
                seconds = timeout(each) if callable(timeout) else timeout
                jobs.append(partial(self._call, each, answers, index, on_progress, seconds))
        await run_all(jobs, log=_log)
        bound = [evolve(each, text=bounded(each.text, max_characters)) for each in answers]
        return self._interface.results([*zip(written, bound, strict=True)])

    def _prepare(self, call: _WrittenCall) -> ToolCall | _CallAnswer:
        """Return the call to make, or the answer that describes its fault."""
        if not isinstance(call.name, str) or call.name not in self._offers:
            return _failure(f"there is no function {call.name!r:.200}")
        try:
            arguments = _arguments(call.arguments)
        except ValueError as exc:
            return _failure(str(exc))
        offer = self._offers[call.name]
        return ToolCall(call.id, call.name, offer.server, offer.tool, arguments)

    async def _call(
        self,
        call: ToolCall,
        answers: list[_CallAnswer],
        index: int,
        on_progress: OnCallProgress | None,
        seconds: float | None,
    ) -> None:
        limit = math.inf if seconds is None else seconds
        answers[index] = _failure(f"the call took longer than {limit:g} s, and was cancelled")
        with trio.move_on_after(limit):
            answers[index] = await self._outcome(call, on_progress)

    async def _outcome(self, call: ToolCall, on_progress: OnCallProgress | None) -> _CallAnswer:
        offer = self._offers[call.function]
        report = None if on_progress is None else partial(_report, on_progress, call)
        try:
            if self._reader is not None and call.function == self._reader.function:
                return _CallAnswer(await self._reader.read(call.arguments))
            result = await self._source.call_tool(offer.name, call.arguments, on_progress=report)
        except ServerExited as exc:  # without its standard error, which is for the user of this machine
            return _failure(str(ServerExited(exc.status)))
        except TrioMcpError as exc:
            return _failure(str(exc))
        except KeyError as exc:  # `Clients` no longer finds the tool; str() would quote the message
            return _failure(" ".join(map(str, exc.args)) or "there is no such tool")
        except Exception as exc:  # noqa: BLE001 # logged, and told to the model
            _log.warning("the call of %r failed", offer.name, exc_info=exc)
            return _failure(f"the call failed ({type(exc).__name__})")
        return _CallAnswer(result_text(result), result.is_error or False)


async def load_toolkit(
    source: HasTools,
    *,
    api: Api = "chat-completions",
    only: Only | None = None,
    skills: SkillApprovals | bool = False,
    server: str | None = None,
) -> Toolkit:
    """Ask a `Client`, or `Clients`, for the current tools, and return them for use with a language model.

    Tools that their server makes only for its apps are left out.

    ::

        def only(offer: OfferedTool) -> bool:
            return not offer.tool.name.startswith("delete")

        toolkit = await load_toolkit(client, only=only)

    Args:
        source: the client or clients.
        api: the interface of the model, whose JSON `Toolkit` reads and writes.
        only: the tools to offer, by name, by server and name, or by a function; all by default. The model can neither
            see nor call other tools.
        skills: the approvals of the user, to let the model read the skills that are approved; True to let it read all
            skills. Put `Toolkit.skills` into the system prompt; the model reads a skill with one more function,
            ``read_skill``. Skills whose files cannot be verified are left out.
        server: the application's name of the server of a `Client`, for its skills: the model is told of it, and
            approvals need it. The skills of `Clients` have the names of their servers.

    Raises:
        ValueError: *api* is unknown; or *only* names no tool that there is, or names the tools by server, and there is
            only one server.
        TypeError: *only* is a single string, or *source* has no tools, or no skills.
        BaseException: raised by listing the tools and skills of *source*, or by the approvals.
    """
    require_trio("load_toolkit()")
    if not hasattr(source, "tools") or not hasattr(source, "call_tool"):
        raise TypeError(
            f"load_toolkit(): expected a Client, or the Clients of open_clients(), and got {type(source).__name__}"
        )
    if api not in _INTERFACES:
        raise ValueError(f"api={api!r}: must be one of {', '.join(map(repr, _INTERFACES))}")
    if isinstance(only, str):
        raise TypeError(f"only={only!r}: expected a list of names")
    offers: dict[str, OfferedTool] = {}
    async for each in source.tools():
        server, tool = (None, each) if isinstance(each, types.Tool) else (each.server, each.tool)
        if not _is_for_model(tool):
            continue
        offer = OfferedTool(each.name, server, tool)
        if only is None or _is_wanted(offer, only):
            offers.setdefault(each.name, offer)
    if not offers and isinstance(only, Collection) and only:
        raise ValueError(f"only={only!r}: no tool has such a name")
    names = function_names(offers)
    by_function = {names[name]: offer for name, offer in offers.items()}
    reader = None if skills is False else await _load_skills(source, server, skills, by_function)
    if reader is not None:
        by_function[reader.function] = OfferedTool(reader.function, None, reader.tool())
    return Toolkit(source, by_function, _INTERFACES[api], reader)


async def _load_skills(
    source: HasTools, server: str | None, skills: SkillApprovals | Literal[True], taken: Collection[str]
) -> SkillReader | None:
    """Return the function that reads the skills of a source; None if there are no skills.

    Args:
        taken: the names of the other functions.
    """
    list_skills: Any = getattr(source, "skills", None)
    if list_skills is None:
        raise TypeError(f"skills={skills!r}: {type(source).__name__} has no skills; expected a Client or Clients")
    found = list_skills() if server is None else list_skills(server=server)
    approvals = None if skills is True else skills
    reader: SkillReader | None = await load_capability("skills").load_skills(found, approvals, taken)
    return reader


def _is_for_model(tool: types.Tool) -> bool:
    """Return False for a tool that is made for the apps of its server alone."""
    if "ui" not in (tool.meta or {}):
        return True
    made_for: frozenset[str] = load_capability("apps").visibility_of(tool)
    return "model" in made_for


def _is_wanted(offer: OfferedTool, only: Only) -> bool:
    if callable(only):
        return only(offer)
    if isinstance(only, Mapping):
        if offer.server is None:
            raise ValueError("only= names the tools by server, but there is only one server: give a list of names")
        only = cast("Mapping[str, Collection[str]]", only).get(offer.server, ())
    return any(fnmatchcase(offer.tool.name, name) for name in only)


async def _decide(call: ToolCall, approve: Approve | None) -> ToolCall | _CallAnswer:
    verdict = True if approve is None else await called_back("approve", approve, call)
    if verdict is True:
        return call
    reason = f": {verdict}" if isinstance(verdict, str) and verdict else ""
    return _failure(f"the user has refused this call{reason}")


def _failure(text: str) -> _CallAnswer:
    return _CallAnswer(error_text(text), is_error=True)


async def _report(on_progress: OnCallProgress, call: ToolCall, update: types.ProgressNotificationParams) -> None:
    await succeeds(partial(called_back, "on_progress", on_progress, call, update), "on_progress", _log)
