"""Tools: their registry, and calling one.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, cast, get_args, get_origin
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from ... import types
from ..._errors import McpError, ToolError
from ..._misuse import check_class
from ..._other_sdks import unknown_options
from ..._util import exc_info_of
from ...peer import Access, FairLimiter, OutOfTimeError
from ...schema import Form, SchemaError, compile_schema
from ...wire import (
    JsonObject,
    JsonText,
    NotJsonError,
    Undecodable,
    decode,
    is_modern,
    is_object,
    json_text,
    mirrored_params,
)
from .._context import Context, run_of, serving_of
from .._extensions import ExtensionResult
from .._processes import Isolated, isolated
from .._threads import take_place
from ..signature import ArgumentFaults, Injected, ResultFaults, SchemaRefs, Signature, describe, mentions
from ._catalog import NO_SCOPES, Catalog, Listable, Visible, check_scopes, with_texts
from ._content import (
    RESULT_CLASSES,
    SCALARS,
    NotReturnable,
    check_returns,
    content_blocks,
    data_result,
    holds_content,
    legacy_result,
    text_result,
)
from ._prompts import dependencies_of, name_of, title_of

if TYPE_CHECKING:
    from .._resolve import Dependencies

__all__ = [
    "Around",
    "RawSchema",
    "TaskMode",
    "Tools",
    "legacy_schema",
    "read_raw_schema",
    "tool_json",
    "written_schemas",
]


_OF_BOOLEANS: Mapping[bool, JsonObject] = {True: {}, False: {"not": {}}}

RawSchema: TypeAlias = "Mapping[str, Any] | str | bytes"
"""A JSON Schema: an object, or its JSON text, which is published byte for byte.

A proxy that shows the tools of another server must not change their schemas: ``1.0`` stays ``1.0``, and keywords keep
their order."""


def read_raw_schema(schema: RawSchema | None, what: str) -> dict[str, Any] | None:
    """Return a raw schema as an object; None for None.

    Args:
        what: the name of the schema in errors.

    Raises:
        ValueError: it is not the JSON of an object, or not a usable JSON Schema.
    """
    if schema is None:
        return None
    value = dict(schema) if isinstance(schema, Mapping) else _decoded(schema, what)
    try:
        compile_schema(value)  # now, although it loads a library, because every client will rely on it
    except SchemaError as error:
        raise ValueError(f"{what} cannot be used: {error}") from error
    return value


def _decoded(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        value = decode(_bytes(text))
    except Undecodable as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    if not is_object(value):
        raise ValueError(f"{what} is not a JSON object")
    return value


def written_schemas(schemas: Mapping[str, RawSchema | None]) -> dict[str, JsonText]:
    """Return the schemas that were given as JSON text, in the form for messages."""
    return {name: json_text(_bytes(text)) for name, text in schemas.items() if isinstance(text, str | bytes)}


def legacy_schema(schema: JsonObject) -> JsonObject:
    """Return *schema* for legacy revisions, in which the schema of a property is an object, never true or false."""
    properties = schema.get("properties")
    if not is_object(properties) or not any(isinstance(each, bool) for each in properties.values()):
        return schema
    spelled_out = {name: _OF_BOOLEANS[each] if isinstance(each, bool) else each for name, each in properties.items()}
    return {**schema, "properties": spelled_out}


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


_log = logging.getLogger("trio_mcp.server")

_MOST_CHARACTERS = 10_000
"""The maximum length of the description of argument faults."""
_MOST_OF_A_PLACE = 200
"""The number of characters of a path in the log: the caller may choose the names in it."""
_SCHEMAS: Sequence[str] = ("inputSchema", "outputSchema")
_RETURNED = (*RESULT_CLASSES, ExtensionResult)
"""The classes of return values that give no output schema."""
_DATA: frozenset[Form] = frozenset({"object", "array", "scalar"})
Around: TypeAlias = "Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]"
"""A function around each call of a tool: it gets the `Context` and a function that calls the tool, and returns what the
tool returns."""
TaskMode: TypeAlias = Literal["optional", "required"]
"""The rule for the calls of a tool: ``"optional"`` if they may become tasks, ``"required"`` if they must."""

_CURE = "return text, content (bytes as Image or Audio), data or a whole types.CallToolResult"
_CONTENT_FOR_DATA = (
    "$: it is content, but the return annotation promises data; annotate the return value as content (Image, "
    "types.TextContent, list[Image | str] and so on), or as types.CallToolResult"
)

_NOTHING: Mapping[Injected, Any] = {}
_COMMON_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def _is_object_schema(schema: Mapping[str, Any] | None) -> bool:
    return schema is not None and schema.get("type") == "object"


@define(eq=False)
class _Tool(Listable):
    """A tool and its function."""

    definition: types.Tool
    signature: Signature
    texts: Mapping[str, JsonText]
    """The schemas that were given as JSON text, by the member of the definition."""
    timeout: float
    """The seconds that the function may run; infinite without a limit."""
    max_concurrency: int | None
    """The number of calls that run at once; None without a limit."""
    isolated: Isolated | None
    """Set if the function runs in a worker process."""
    scopes: frozenset[str]
    """The scopes that a caller needs."""
    dependencies: Dependencies | None
    around: Around | None
    """The function around each call."""
    on_repair: Callable[[str, Sequence[str]], None] | None
    """Called with the name of the tool and the paths of the strings that were replaced by the JSON that they held;
    None if such arguments are refused."""
    _limiters: WeakKeyDictionary[trio.lowlevel.TrioToken, FairLimiter] = field(
        factory=WeakKeyDictionary[trio.lowlevel.TrioToken, FairLimiter], init=False
    )
    """The limiters of `max_concurrency` by Trio run, because a task of one run cannot wake one of another."""
    _runs_freely: bool = field(init=False)
    """True if a call waits only for its function: it has no limiter, timeout or dependencies, and needs no worker."""
    waits: bool = field(init=False)
    """True if a call may wait for something."""
    _lists_content: bool = field(init=False)
    """True if the return annotation says that the items of a list are content."""
    may_ask: bool = field(init=False)
    """True if the function takes a `Context` or has dependencies, and may ask questions."""

    def __attrs_post_init__(self) -> None:
        limited = self.max_concurrency is not None or not math.isinf(self.timeout)
        free, dependencies = not limited and self.isolated is None and self.signature.is_async, self.dependencies
        self._runs_freely = free and dependencies is None
        waits = self.signature.waits or (dependencies is not None and dependencies.waits)
        self.waits = not free or waits or self.around is not None
        self._lists_content = self.signature.output_schema is None and _lists_content(self.signature.returns)
        self.may_ask = bool(self.signature.injected) or self.around is not None

    def published(self, revision: str) -> JsonObject:
        """Return the definition in the form of *revision*."""
        return tool_json(self.definition, revision, self.texts)

    def limiter(self) -> FairLimiter | None:
        """Return the limiter of concurrent calls in this Trio run; None without a limit."""
        if self.max_concurrency is None:
            return None
        token = trio.lowlevel.current_trio_token()
        if token not in self._limiters:
            self._limiters[token] = FairLimiter(self.max_concurrency)
        return self._limiters[token]

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | ExtensionResult | JsonObject:
        """Answer `tools/call`. The result is typed, or JSON of the request's revision if the function returned data.

        Raises:
            Exception: raised by the function; `explain` makes a tool error of it.
        """
        signature = self.signature
        arguments = params.arguments or {}
        injected: Mapping[Injected, Any] = _NOTHING
        try:
            bound = signature.bind(arguments)
        except ArgumentFaults:
            repaired = self._repaired(arguments)
            if repaired is None:
                raise
            bound = repaired
        if signature.injected:
            injected = {Context: context}
        if self.around is not None:
            value = await self.around(context, partial(self._call, context, bound, injected))
        elif self._runs_freely:
            value = await signature.call(bound, injected)
        else:
            value = await self._work(context, bound, injected)
        return self._result(value, run_of(context).context.revision)

    def _repaired(self, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return arguments that do not fit with JSON in place of strings that hold it; None if that does not help."""
        if self.on_repair is None:
            return None
        found = self.signature.repair(arguments)
        if found is None:
            return None
        bound, places = found
        self.on_repair(self.definition.name, places)
        return bound

    async def _call(self, context: Context, bound: Mapping[str, Any], injected: Mapping[Injected, Any]) -> Any:
        if self._runs_freely:
            return await self.signature.call(bound, injected)
        return await self._work(context, bound, injected)

    async def _work(self, context: Context, bound: Mapping[str, Any], injected: Mapping[Injected, Any]) -> Any:
        """Call the function with a place of its limiter, a timeout, a thread or a process."""
        run, serving = run_of(context), serving_of(context)
        work, limiter = partial(self.signature.call, bound, injected), self.limiter()

        def begin() -> None:
            if not math.isinf(self.timeout):
                run.allow(self.timeout)

        try:
            if self.dependencies is not None:
                return await self._resolve(self.dependencies, context, bound, limiter, begin)
            if self.isolated is not None:
                return await serving.processes.run(self.isolated, bound, run, limiter=limiter, on_begin=begin)
            if not self.signature.is_async:
                return await serving.threads.run(work, run, limiter=limiter, on_begin=begin)
            if limiter is None:
                begin()
                return await work()
            hold = await take_place(run, limiter)
            try:
                begin()
                return await work()
            finally:
                run.holds.drop(hold)
        finally:
            if not math.isinf(self.timeout):
                run.end_limit()  # the timeout applies to the tool, not to the middleware around it

    async def _resolve(
        self,
        dependencies: Dependencies,
        context: Context,
        bound: Mapping[str, Any],
        limiter: FairLimiter | None,
        begin: Callable[[], None],
    ) -> Any:
        """Call the function with its dependencies, which share its place of the limiter and its timeout."""
        run = run_of(context)
        hold = None if limiter is None else await take_place(run, limiter)
        try:
            begin()
            async with dependencies.resolved(context) as injected:
                work = partial(self.signature.call, bound, injected)
                if self.signature.is_async:
                    return await work()
                given, hold = hold, None  # the thread keeps the place, also if it is abandoned
                return await serving_of(context).threads.run(work, run, hold=given)
        finally:
            if hold is not None:
                run.holds.drop(hold)

    def _result(self, value: Any, revision: str) -> types.CallToolResult | ExtensionResult | JsonObject:
        signature = self.signature
        promised = signature.output_schema is not None
        if value.__class__ not in SCALARS:
            if isinstance(value, ExtensionResult):
                return value
            if isinstance(value, types.CallToolResult):
                if promised and not value.is_error:
                    self._check(value.structured_content)
                return self._readable(value, revision)
            if promised and holds_content(value):
                raise ResultFaults(self.definition.name, [_CONTENT_FOR_DATA], signature.place)
        if not promised:
            return self._content(value, revision)
        try:
            structured = signature.dump(value)
        except ResultFaults as faults:
            if faults.has_form:
                raise
            raise self._not_returnable(value, "; ".join(faults.faults)) from faults
        return data_result(structured["result"] if signature.wraps_result else structured, structured, revision)

    def _content(self, value: Any, revision: str) -> types.CallToolResult | JsonObject:
        """Return the result of a tool without output schema."""
        try:
            if value.__class__ in SCALARS and value is not None:
                return text_result(value)
            blocks = content_blocks(value, of_list=self._lists_content)
        except (NotJsonError, TypeError) as fault:
            raise self._not_returnable(value, fault) from fault
        return self._readable(types.CallToolResult(content=blocks), revision)

    def _not_returnable(self, value: Any, fault: object) -> NotReturnable:
        return NotReturnable(f"tool {self.definition.name!r}", value, fault, self.signature.place)

    def _readable(self, result: types.CallToolResult, revision: str) -> types.CallToolResult:
        """Return a typed result in a form that a client of *revision* can read."""
        return result if is_modern(revision) else legacy_result(result, revision, self.definition.name)

    def _check(self, structured: Any) -> None:
        """Check the structured content of a `CallToolResult` against the published output schema."""
        if structured is types.UNSET:
            fault = "$: required, but missing: the tool has an output schema"
            raise ResultFaults(self.definition.name, [fault], self.signature.place)
        self.signature.check(structured)


def _lists_content(annotation: Any) -> bool:
    """Return True if an annotation, or an arm of it, is a list of content, such as ``list[Image | str]``."""
    if get_origin(annotation) in {list, tuple}:
        return mentions(annotation, RESULT_CLASSES) is not None
    return any(map(_lists_content, get_args(annotation)))


def tool_json(tool: types.Tool, revision: str, texts: Mapping[str, JsonText] = MappingProxyType({})) -> JsonObject:
    """Return the JSON of a tool in the form of *revision*.

    Args:
        texts: schemas that are sent as they were written, by the name of the member.
    """
    json: JsonObject = types.unstructure(tool, revision=revision)
    if is_modern(revision):
        return with_texts(json, texts)
    if not _is_object_schema(tool.output_schema):
        json.pop("outputSchema", None)  # legacy clients expect structured content to be an object
    legacy = {member: legacy_schema(json[member]) for member in _SCHEMAS if member in json}
    as_written = {member: text for member, text in texts.items() if legacy.get(member) is json.get(member)}
    return with_texts(json | legacy, as_written)


@define(eq=False)
class Tools:
    """The tools of one server. They may be added and removed while it is being served."""

    schema_refs: SchemaRefs = "inline"
    """What becomes of references in the schemas that are made from annotations."""
    repair_arguments: bool = True
    """True to take JSON that was sent as a string, where the schema admits no string. It applies to tools that are
    registered later."""
    mask_errors: bool = False
    """True to tell callers nothing of an exception of a tool but a `ToolError` or `McpError`."""
    task_maker: Callable[[TaskMode, Around | None], Around] | None = None
    """Returns the function around a tool whose calls may become tasks; None if these tools belong to no server."""
    repaired: int = field(default=0, init=False)
    """The number of strings in arguments that were replaced by the JSON that they held, in all servings together."""
    _counting: threading.Lock = field(factory=threading.Lock, init=False)
    catalog: Catalog[_Tool] = field(factory=lambda: Catalog[_Tool]("tool", "tools/list", "tools"), init=False)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        input_schema: RawSchema | None = None,
        output_schema: RawSchema | None = None,
        timeout: float | None = None,
        max_concurrency: int | None = None,
        isolate: Literal["process"] | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[types.Tool] | None = None,
        around: Around | None = None,
        task: TaskMode | None = None,
        namespace: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> None:
        """Register a function; see `Server.tool`.

        Args:
            namespace: names for annotations, in addition to those of the function's module.
        """
        if unknown:
            raise unknown_options("@server.tool", unknown)
        name = name_of(function) if name is None else name
        self.catalog.check_free(name)
        if not _COMMON_NAME.fullmatch(name):
            _log.warning("tool name %r: clients may refuse it; use 1 to 128 letters, digits, '_', '-' and '.'", name)
        _check_options(f"tool {name!r}", timeout, max_concurrency, isolate, annotations)
        needed = check_scopes(f"tool {name!r}", scopes)
        given = {"inputSchema": input_schema, "outputSchema": output_schema}
        raw = {member: read_raw_schema(schema, f"tool {name!r}: {member}") for member, schema in given.items()}
        signature = describe(
            function,
            name=name,
            inject=(Context,),
            content=_RETURNED,
            input_schema=raw["inputSchema"],
            output_schema=raw["outputSchema"],
            namespace=namespace,
            schema_refs=self.schema_refs,
        )
        try:
            mirrored_params(signature.input_schema)
        except ValueError as faults:
            raise ValueError(f"tool {name!r}: inputSchema: {faults}; clients would ignore the tool") from None
        if title is None:  # the annotations may have one, from the time before tools had titles
            title = (annotations and annotations.title) or title_of(name)
        definition = types.Tool(
            name=name,
            title=title,
            description=description or signature.description or None,
            input_schema=signature.input_schema,
            output_schema=signature.output_schema,
            annotations=annotations,
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        limit = math.inf if timeout is None else timeout
        isolation = None if isolate is None else isolated(function, signature)
        if signature.output_schema is None:
            check_returns(signature.returns, f"tool {name!r}", _RETURNED, _DATA, _CURE)
        found = dependencies_of(signature.injected, name, namespace)
        on_repair = self._count_repairs if self.repair_arguments else None
        texts = written_schemas(given)
        if task is not None:
            around = self._as_task(name, task, around)
        tool = _Tool(definition, signature, texts, limit, max_concurrency, isolation, needed, found, around, on_repair)
        self.catalog.add(name, tool, visible)

    def _as_task(self, name: str, task: TaskMode, around: Around | None) -> Around:
        if task not in get_args(TaskMode):
            raise ValueError(f"tool {name!r}: task={task!r}: must be one of {', '.join(get_args(TaskMode))}, or None")
        assert self.task_maker is not None  # the server has set it
        return self.task_maker(task, around)

    def _count_repairs(self, name: str, places: Sequence[str]) -> None:
        with self._counting:
            self.repaired += len(places)
        for place in places:
            _log.debug("tool %r: %s was JSON in a string; its value was taken", name, place[:_MOST_OF_A_PLACE])

    def input_schema(self, name: str, access: Access | None) -> JsonObject | None:
        """Return the input schema of a tool, the same object each time; None if the caller sees no such tool."""
        tool = self.catalog.find(name, access)
        return None if tool is None else tool.definition.input_schema

    def scopes_of(self, name: object, access: Access | None) -> frozenset[str]:
        """Return the scopes that a call of this tool needs; empty if the caller sees no such tool."""
        tool = self.catalog.find(name, access) if isinstance(name, str) else None
        return NO_SCOPES if tool is None else tool.scopes

    def remove(self, name: str) -> None:
        """Remove a tool; calls in flight continue. Raises KeyError if there is no tool of this name."""
        self.catalog.remove(name)

    def explain(self, name: str, failure: Exception) -> types.CallToolResult:
        """Return the tool error for an exception of a tool; log the exception if it is a bug."""
        mask = f"{name} failed; the server's log says why" if self.mask_errors else None
        if isinstance(failure, OutOfTimeError):
            tool = self.catalog.get(name)  # it may have been removed
            message = f"{name} timed out" + (f" after {tool.timeout:g} s" if tool else "")
        elif isinstance(failure, ArgumentFaults):  # it repeats the arguments, which may be megabytes
            message = str(failure)
            if len(message) > _MOST_CHARACTERS:
                message = f"{message[:_MOST_CHARACTERS]} [...]"
        elif isinstance(failure, ResultFaults):
            faults = "; ".join(failure.faults)
            _log.error(
                "tool %r: the returned value does not fit: %s; its handler is at %s", name, faults, failure.place
            )
            message = mask or str(failure)
        elif isinstance(failure, ToolError):
            message = str(failure)
        else:
            _log.error("tool %r failed", name, exc_info=exc_info_of(failure))
            message = _message_of(failure, mask)
        return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


def _check_options(
    label: str,
    timeout: float | None,
    max_concurrency: int | None,
    isolate: object,
    annotations: types.ToolAnnotations | None,
) -> None:
    if timeout is not None and not timeout > 0:
        raise ValueError(f"{label}: timeout={timeout!r}: must be a number of seconds above 0")
    if max_concurrency is not None and (type(max_concurrency) is not int or max_concurrency < 1):
        raise ValueError(f"{label}: max_concurrency={max_concurrency!r}: must be an integer, at least 1")
    if isolate not in {None, "process"}:
        raise ValueError(f"{label}: isolate={isolate!r}: must be 'process' or None")
    if annotations is not None:
        example = "types.ToolAnnotations(read_only_hint=True)"
        check_class(f"{label}: annotations", annotations, types.ToolAnnotations, example)


def _message_of(failure: BaseException, mask: str | None) -> str:
    """Return what an exception says, or its mask; for a group, what each part says."""
    if isinstance(failure, BaseExceptionGroup):
        parts: tuple[BaseException, ...] = cast("BaseExceptionGroup[BaseException]", failure).exceptions
        return "; ".join(dict.fromkeys(_message_of(part, mask) for part in parts))
    if mask is not None and not isinstance(failure, ToolError | McpError):
        return mask
    return str(failure) or type(failure).__name__
