"""The commands that connect to a server: `info`, most lists, `call`, `read`, `prompt`, `complete`, `ping` and `watch`.

The arguments of a call are converted by the schema of the tool and checked before they are sent.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import trio
from attrs import define, evolve, field, frozen

from .. import types
from .._errors import MissingCapability, ToolFailed
from .._user_types import member_schema, value_from_text
from ..client import Client
from ..schema import SchemaError, compile_schema, render_path
from ..types import JSONObject
from ..wire import (
    EVERY_LIST,
    Change,
    ChangeFilter,
    ListChanged,
    ResourceUpdated,
    Undecodable,
    decode,
    is_array,
    is_modern,
    is_object,
    notification_of,
)
from ._errors import UsageError, nearest
from ._output import Notes, Output, Piece, first_line, json_line, log_line, piece_of, pieces_of, save
from ._terminal import visible_line

__all__ = [
    "Job",
    "Watching",
    "arguments_for",
    "arguments_of",
    "call",
    "complete",
    "find_tool",
    "info",
    "ping",
    "prepare_call",
    "print_result",
    "prompt",
    "prompts",
    "read",
    "read_file",
    "resources",
    "texts_of",
    "whole_object",
]


def read_file(path: str) -> bytes:
    """Return the contents of a file that the command line names.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


# --- The arguments of a call ---


def texts_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return the values of strings such as ``name=value`` by name.

    Raises:
        UsageError: a string is not such a pair, or a name is given twice.
    """
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"expected KEY=VALUE, got {pair!r}", word=pair)
        if name.removesuffix(":") in (known.removesuffix(":") for known in texts):
            raise UsageError(f"argument {name.removesuffix(':')!r} is given twice")
        texts[name] = value
    return texts


def whole_object(given: str | None) -> JSONObject:
    """Return the object of ``--arguments``, which is JSON, ``@FILE``, or ``-`` for standard input.

    Raises:
        UsageError: the file cannot be read, or it does not hold a JSON object.
    """
    if given is None:
        return {}
    if given == "-":
        text = sys.stdin.buffer.read()
    elif given.startswith("@"):
        text = read_file(given[1:])
    else:
        text = given.encode("utf-8", "surrogatepass")
    try:
        value = decode(text)
        _refuse_doubles(text)
    except Undecodable as error:
        raise UsageError(f"--arguments: not JSON: {error}") from None
    except ValueError as error:
        raise UsageError(f"--arguments: {error}") from None
    if not is_object(value):
        raise UsageError("--arguments: expected a JSON object")
    return value


def arguments_for(schema: JSONObject, texts: Mapping[str, str], whole: JSONObject) -> JSONObject:
    """Return the arguments of a call, checked against the *schema* of the tool.

    Args:
        texts: the strings by name; if a name ends in a colon, its string is JSON whatever the schema says.
        whole: arguments that are already JSON values; *texts* override them.

    Raises:
        UsageError: the arguments do not fit the schema; the message names every fault by its path.
        SchemaError: the schema cannot be used.
    """
    arguments, faults = dict(whole), dict[str, str]()
    for name, text in texts.items():
        key = name.removesuffix(":")
        try:
            arguments[key] = _json(text) if name != key else _by_schema(text, schema, key)
        except ValueError as error:
            arguments[key], faults[render_path([key])] = text, str(error)
    lines = [*(f"{path}: {fault}" for path, fault in faults.items()), *_others(schema, arguments, faults)]
    if lines:
        raise UsageError(f"the arguments do not fit, nothing was sent: {'; '.join(lines)}")
    return arguments


def _others(schema: JSONObject, arguments: JSONObject, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the faults of the arguments, except those of values that are already known to be wrong."""
    for line in compile_schema(schema).faults(arguments):
        if not any(line.startswith((f"{path}:", f"{path}.", f"{path}[")) for path in known):
            yield line


def _json(text: str) -> Any:
    try:
        value = decode(text.encode("utf-8", "surrogatepass"))
    except Undecodable as error:
        raise ValueError(f"not JSON: {error}, got the string {text!r}") from None
    _refuse_doubles(text)
    return value


def _by_schema(text: str, schema: JSONObject, name: str) -> Any:
    value = value_from_text(text, member_schema(schema, name), schema)
    if not isinstance(value, str):
        _refuse_doubles(text)
    return value


def _refuse_doubles(text: str | bytes) -> None:
    """Raise `ValueError` if an object in the JSON has a member twice, because only one of the two would be sent."""

    def taken(members: list[tuple[str, Any]]) -> dict[str, Any]:
        names: set[str] = set()
        for name, _ in members:
            if name in names:
                raise ValueError(f"member {name!r} is given twice")
            names.add(name)
        return {}

    with suppress(RecursionError):  # too deep to be typed by hand
        json.loads(text, object_pairs_hook=taken, parse_int=str)


@frozen
class Job:
    """The context of a running command: the connected client, the options, and the output."""

    client: Client
    options: argparse.Namespace
    output: Output
    notes: Notes

    def wire(self, message: object) -> types.JSONValue:
        """Return the JSON of a message, or of a list of messages, in the negotiated revision."""
        return types.unstructure(message, revision=self.client.revision)


def prepare_call(options: argparse.Namespace) -> None:
    """Parse the arguments of a call before the connection is opened.

    Raises:
        UsageError: an argument is malformed, or a file of arguments cannot be read.
    """
    options.texts, options.whole = texts_of(options.pairs), whole_object(options.arguments)


async def call(job: Job) -> None:
    """Call a tool and print its result.

    Raises:
        UsageError: the server has no such tool, or the arguments do not fit its schema.
        ToolFailed: the tool reports a failure.
    """
    tool = await find_tool(job, job.options.name)
    arguments = arguments_of(job, tool)
    async with job.client.open_call(tool.name, arguments) as pending:
        with job.notes.bar(tool.name) as show:
            async for update in pending.updates:
                show(update)
        result = await pending.result()
    print_result(job, tool.name, result)


def arguments_of(job: Job, tool: types.Tool) -> JSONObject:
    """Return the arguments on the command line, checked against the schema of the tool, if it can be used.

    Raises:
        UsageError: they do not fit.
    """
    options = job.options
    try:
        return arguments_for(tool.input_schema, options.texts, options.whole)
    except SchemaError as error:
        job.notes.say(f"the arguments are not checked, because the tool's schema cannot be used: {error}")
        return arguments_for({}, options.texts, options.whole)


async def find_tool(job: Job, name: str) -> types.Tool:
    """Return a tool of the server.

    Raises:
        UsageError: there is no such tool; the message suggests similar names.
    """
    seen: list[str] = []
    async for tool in job.client.tools():
        if tool.name == name:
            return tool
        seen.append(tool.name)
    raise UsageError(f"the server has no tool {name!r}; {nearest(name, seen)}", word=name)


def print_result(job: Job, name: str | None, result: types.CallToolResult) -> None:
    """Print the result of a call of the tool *name*, None if it is unknown.

    Raises:
        ToolFailed: the tool reports a failure.
    """
    if job.options.json:
        job.output.document(job.wire(result))
    pieces = pieces_of(result.content)
    if result.is_error:
        raise ToolFailed(name, "\n".join(piece.text for piece in pieces), result)
    if job.options.output is not None:
        for path in save(pieces, job.options.output, job.output):
            job.notes.say(f"written: {path}")
    elif not job.options.json:
        _show(job, pieces, result.structured_content)


def _show(job: Job, pieces: list[Piece], structured: Any) -> None:
    """Print a result once: its content, or its structured content if the content is empty or the same as JSON."""
    texts = [piece.text for piece in pieces]
    inner = structured["result"] if is_object(structured) and [*structured] == ["result"] else structured
    for value in (structured, inner):
        if _is_nested(value) and _says(texts, value):
            job.output.value(value)
            return
    is_said = structured is types.UNSET or _says(texts, inner) or _says_each(texts, inner)
    if not is_said and not any(texts):
        job.output.value(structured)
        return
    for text in texts:
        job.output.text(text)
    if not is_said:
        job.notes.say("the result also has structured content; --json prints it")


def _is_nested(value: Any) -> bool:
    return is_object(value) or is_array(value)


def _says(texts: Sequence[str], value: Any) -> bool:
    """Return True if there is one text, and it is *value*, or the JSON of it."""
    if len(texts) != 1:
        return False
    try:
        return texts[0] == value or bool(decode(texts[0].encode("utf-8", "surrogatepass")) == value)
    except Undecodable:
        return False


def _says_each(texts: Sequence[str], values: Any) -> bool:
    """Return True if there is one text for each item of an array."""
    return is_array(values) and len(texts) == len(values) and all(map(_says, ([text] for text in texts), values))


# --- The commands info, resources and prompts ---


async def info(job: Job) -> None:
    """Print the name, version and capabilities of the server."""
    client = job.client
    supported = (await client.discover()).supported_versions if is_modern(client.revision) else None
    facts: dict[str, Any] = {
        "serverInfo": None if client.server_info is None else job.wire(client.server_info),
        "protocolVersion": client.revision,
        "supportedVersions": None if supported is None else [*supported],
        "capabilities": job.wire(client.server_capabilities),
        "instructions": client.instructions,
    }
    if job.options.json:
        job.output.document({name: value for name, value in facts.items() if value is not None})
    else:
        job.output.table(("", ""), _facts(client.server_info, facts))


def _facts(server: types.Implementation | None, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if server is not None:
        yield "name", server.name
        yield "version", server.version
        if server.title:
            yield "title", server.title
    yield "revision", facts["protocolVersion"]
    if facts["supportedVersions"]:
        yield "supported", ", ".join(facts["supportedVersions"])
    for name, declared in facts["capabilities"].items():
        yield f"offers {name}", json_line(declared) if declared else ""
    for line in (facts["instructions"] or "").splitlines():
        yield "instructions", line


async def resources(job: Job) -> None:
    """List the resources and resource templates."""
    found = [resource async for resource in job.client.resources()]
    templates = [template async for template in job.client.resource_templates()]
    if job.options.json:
        job.output.document({"resources": job.wire(found), "resourceTemplates": job.wire(templates)})
        return
    rows = [_place(resource.uri, resource) for resource in found]
    rows += [_place(template.uri_template, template) for template in templates]
    _table(job, "resources", ("resource", "name", "type", "what it is"), rows)


def _place(uri: str, what: types.Resource | types.ResourceTemplate) -> tuple[str | None, ...]:
    return uri, what.title or what.name, what.mime_type, first_line(what.description)


async def prompts(job: Job) -> None:
    """List the prompts."""
    found = [prompt async for prompt in job.client.prompts()]
    if job.options.json:
        job.output.document({"prompts": job.wire(found)})
        return
    rows = [(each.name, " ".join(_named(each.arguments or ())), first_line(each.description)) for each in found]
    _table(job, "prompts", ("prompt", "arguments", "what it asks for"), rows)


def _table(job: Job, what: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    if rows:
        job.output.table(columns, rows)
    else:
        job.notes.say(f"the server has no {what}")


def _named(arguments: Sequence[types.PromptArgument]) -> Iterator[str]:
    for each in arguments:
        yield f"{each.name}=TEXT" if each.required else f"[{each.name}=TEXT]"


# --- The commands read, prompt and complete ---


async def read(job: Job) -> None:
    """Read a resource."""
    result = await job.client.read_resource(job.options.uri)
    if job.options.json:
        job.output.document(job.wire(result))
    pieces = pieces_of(result.contents)
    if job.options.output is not None:
        for name in save(pieces, job.options.output, job.output):
            job.notes.say(f"written: {name}")
    elif not job.options.json:
        for piece in pieces:
            _show_piece(job, piece, alone=len(pieces) == 1)


def _show_piece(job: Job, piece: Piece, *, alone: bool) -> None:
    if job.output.is_terminal:
        job.output.text(piece.text)
        if piece.data is not None:
            job.notes.say("use -o FILE to save the bytes")
    elif piece.data is not None:
        job.output.data(piece.data)
    elif alone:
        job.output.data(piece.text.encode("utf-8", "surrogatepass"))  # byte for byte, for checksums and diffs
    else:
        job.output.text(piece.text)


async def prompt(job: Job) -> None:
    """Get a prompt, and print its messages."""
    result = await job.client.get_prompt(job.options.name, texts_of(job.options.pairs))
    if job.options.json:
        job.output.document(job.wire(result))
        return
    for message in result.messages:
        job.output.text(f"{message.role}: {piece_of(message.content).text}")


async def complete(job: Job) -> None:
    """Print suggestions for an argument, one on each line."""
    options = job.options
    completion = await job.client.complete(
        _reference(options.reference),
        options.argument,
        options.value,
        context=texts_of(options.context) or None,
    )
    if options.json:
        job.output.document({"completion": job.wire(completion)})
        return
    job.output.table(("suggestion",), [(value,) for value in completion.values])
    if completion.has_more:
        job.notes.say("there are more" if completion.total is None else f"there are {completion.total} in all")


def _reference(text: str) -> types.PromptReference | types.ResourceTemplateReference:
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UsageError(f"expected prompt:NAME or a URI template, got {text!r}")
    return types.PromptReference(name=rest) if kind == "prompt" else types.ResourceTemplateReference(uri=text)


# --- The command ping ---


async def ping(job: Job) -> None:
    """Print the time of each round trip: of `ping`, or of `server/discover` in the revisions that have no `ping`."""
    client = job.client
    method, trip = ("server/discover", _discover) if is_modern(client.revision) else ("ping", Client.ping)
    seconds: list[float] = []
    if not job.options.json:
        job.output.line(f"revision\t{client.revision}")
    for number in range(1, job.options.count + 1):
        began = time.perf_counter()
        await trip(client)
        seconds.append(time.perf_counter() - began)
        if not job.options.json:
            job.output.line(f"{method} {number}\t{_milliseconds(seconds[-1])}")
            job.output.flush()
    if job.options.json:
        job.output.document({"protocolVersion": client.revision, "method": method, "seconds": seconds})
    else:
        job.output.line(f"median\t{_milliseconds(sorted(seconds)[len(seconds) // 2])}")


async def _discover(client: Client) -> None:
    await client.discover(fresh=True)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


# --- The command watch ---

_PING_SECONDS = 5.0
"""The interval between pings of a server that sends no change notifications."""


@define(eq=False)
class Watching:
    """The command `watch`. It flushes each line, because the reader may be a program that waits for it."""

    _as_json: bool
    _output: Output
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _failure: OSError | UsageError | None = field(default=None, init=False)
    """The error that stopped the output."""

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Print a log message. A callback for the client."""
        if self._as_json:
            self._print(json_line({"method": "notifications/message", "params": types.unstructure(message)}))
        else:
            self._print(log_line(message))

    async def run(self, job: Job) -> None:
        """Print changes until the server ends the subscription."""
        with self._scope:
            await self._follow(job)
        if self._failure is not None:
            raise self._failure

    async def _follow(self, job: Job) -> None:
        uris: list[str] = job.options.uris
        declared = job.client.server_capabilities
        watched = evolve(EVERY_LIST, resources=uris).within(declared)
        if not watched and (uris or is_modern(job.client.revision) or declared.logging is None):
            raise MissingCapability("the server has not declared that it reports any of these changes", {})
        if not watched:
            await _ping_until_lost(job)
        async with job.client.listen(
            tools=watched.tools,
            prompts=watched.prompts,
            resource_list=watched.resource_list,
            resources=watched.resources,
        ) as changes:
            job.notes.say(f"watching {', '.join(_watched(job, changes.honored)) or 'nothing'}; press Ctrl+C to stop")
            for uri in uris:
                if uri not in changes.honored.resources:
                    job.notes.say(f"the server does not report changes of {uri}")
            async for change in changes:
                self._notify(change)
            job.notes.say("the server has ended the subscription")

    def _notify(self, change: Change) -> None:
        if self._as_json:
            method, params = notification_of(change)
            self._print(json_line({"method": method, "params": params}))
        elif isinstance(change, ListChanged):
            self._print(f"the list of {change.kind} has changed")
        else:
            assert isinstance(change, ResourceUpdated)  # the command listens for nothing else
            self._print(visible_line(f"{change.uri} has changed"))

    def _print(self, line: str) -> None:
        try:
            self._output.line(line)
            self._output.flush()
        except (OSError, UsageError) as error:  # raised by `run`: a callback's own failure would only be logged
            self._failure = error
            self._scope.cancel(reason="the output cannot be written")


def _watched(job: Job, honored: ChangeFilter) -> Iterator[str]:
    if job.client.server_capabilities.logging is not None:
        yield "log messages"
    if honored.tools:
        yield "tools"
    if honored.prompts:
        yield "prompts"
    if honored.resource_list:
        yield "resources"
    yield from honored.resources


async def _ping_until_lost(job: Job) -> NoReturn:
    """Ping the server until the connection is lost, which raises `ConnectionLost`."""
    job.notes.say("watching log messages; press Ctrl+C to stop")
    while True:
        await job.client.ping()
        await trio.sleep(_PING_SECONDS)
