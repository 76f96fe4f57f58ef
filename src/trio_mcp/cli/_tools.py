"""The command `tools`: the tools of a server with their arguments and hints, and one tool with its whole schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from .. import types
from .._errors import TrioMcpError
from ..types import JSONObject
from ..wire import is_array, is_object
from ._commands import Job, find_tool
from ._output import Notes, Output, first_line

if TYPE_CHECKING:
    from ..client import Clients

__all__ = ["list_tools_of_all", "tools"]

_COLUMNS: Final = ("tool", "arguments", "what it does")


async def tools(job: Job) -> None:
    """List the tools, or show the one that the command line names.

    Raises:
        UsageError: the server has no such tool.
    """
    if job.options.name is not None:
        _show(job, await find_tool(job, job.options.name))
        return
    found = [tool async for tool in job.client.tools()]
    if job.options.json:
        job.output.document({"tools": job.wire(found)})
    elif found:
        job.output.table(_COLUMNS, map(_row, found))
    else:
        job.notes.say("the server has no tools")


async def list_tools_of_all(clients: Clients, output: Output, notes: Notes, *, as_json: bool) -> None:
    """List the tools of many servers.

    Raises:
        TrioMcpError: some servers could not be asked; the tools of the others are listed before.
    """
    found: dict[str, Any] = {}
    rows: list[Sequence[str]] = []
    for name, client in clients.items():
        try:
            listed = [tool async for tool in client.tools()]
        except TrioMcpError as error:
            notes.say(f"{name}: {error}")
            continue
        found[name] = {"tools": types.unstructure(listed, revision=client.revision)}
        rows += [(name, *_row(tool)) for tool in listed]
    if as_json:
        output.document({"servers": found})
    else:
        output.table(("server", *_COLUMNS), rows)
    missing = [name for name in clients.names if name not in found]
    if missing:
        raise TrioMcpError(f"these servers could not be asked: {', '.join(missing)}")


def _row(tool: types.Tool) -> tuple[str, str, str]:
    hints = ", ".join(_hints(tool))
    line = first_line(tool.description)
    return tool.name, " ".join(_parameters(tool.input_schema)), f"[{hints}] {line}" if hints else line


def _hints(tool: types.Tool) -> Iterator[str]:
    """Yield the hints that the server gives, as far as they say that something may happen or cannot happen."""
    hints = tool.annotations or types.ToolAnnotations()
    if hints.read_only_hint:
        yield "read-only"
    if hints.destructive_hint:
        yield "destructive"
    if hints.idempotent_hint:
        yield "idempotent"
    if hints.open_world_hint:
        yield "open world"


# --- One tool ---


def _show(job: Job, tool: types.Tool) -> None:
    """Print everything that the server says about a tool."""
    if job.options.json:
        job.output.document(job.wire(tool))
        return
    job.output.table(("", ""), _facts(tool))
    for title, schema in (("input schema", tool.input_schema), ("output schema", tool.output_schema)):
        if schema is not None:
            job.output.line(f"{title}:")
            job.output.value(schema)


def _facts(tool: types.Tool) -> Iterator[tuple[str, str]]:
    yield "tool", tool.name
    if tool.title:
        yield "title", tool.title
    for line in (tool.description or "").strip().splitlines():
        yield "description", line
    for hint in _hints(tool):
        yield "hint", hint
    members = tool.input_schema.get("properties")
    described = members.values() if is_object(members) else ()
    for written, member in zip(_parameters(tool.input_schema), described, strict=True):
        words = member.get("description") if is_object(member) else None
        yield "argument", f"{written}  {words}" if isinstance(words, str) else written


# --- Arguments ---

_DEEPEST: Final = 4
"""The number of schemas inside one another that are shown."""
_MOST_SCHEMAS: Final = 200
"""The number of schemas that are shown of one tool: the server may refer to one from many places."""
_MOST_CHOICES: Final = 8


def _parameters(schema: JSONObject) -> Iterator[str]:
    """Yield each parameter of a tool as it is written in a call, in brackets if it is optional."""
    return _Writer(schema).members(schema, 0)


@define(eq=False)
class _Writer:
    """A writer of short descriptions of the schemas of one tool."""

    _root: JSONObject
    _left: int = field(default=_MOST_SCHEMAS, init=False)
    """The number of schemas that may still be shown."""

    def members(self, schema: JSONObject, depth: int) -> Iterator[str]:
        """Yield each member of an object with its kind, in brackets if it is optional."""
        members, required = schema.get("properties"), schema.get("required")
        for name, member in members.items() if is_object(members) else ():
            written = f"{name}={self.kind(member, depth)}"
            yield written if is_array(required) and name in required else f"[{written}]"

    def kind(self, schema: object, depth: int) -> str:
        """Return a kind of value, such as INTEGER, fast|slow, [STRING ...] or {name=STRING [size=NUMBER]}."""
        self._left -= 1
        if not is_object(schema) or depth > _DEEPEST or self._left < 0:
            return "VALUE"
        parts = [*self._parts(schema)]
        if parts:
            kinds = dict.fromkeys(self.kind(part, depth + 1) for part in parts)
            return "|".join(kind for kind in kinds if kind != "NULL") or "NULL"
        choices = schema.get("enum")
        if is_array(choices) and len(choices) <= _MOST_CHOICES and all(isinstance(choice, str) for choice in choices):
            return "|".join(choices)
        if is_object(schema.get("properties")):
            return f"{{{' '.join(self.members(schema, depth + 1))}}}"
        if is_object(schema.get("items")):
            return f"[{self.kind(schema['items'], depth + 1)} ...]"
        kind = schema.get("type")
        return kind.upper() if isinstance(kind, str) else "VALUE"

    def _parts(self, schema: JSONObject) -> Iterator[object]:
        """Yield the schemas of which a value fits one: alternatives, the types of a list, and the target of `$ref`."""
        reference, kinds = schema.get("$ref"), schema.get("type")
        if isinstance(reference, str):
            _, _, path = reference.partition("#/")
            folder, _, name = path.partition("/")
            definitions = self._root.get(folder)
            yield definitions.get(name) if is_object(definitions) else None
        for keyword in ("anyOf", "oneOf"):
            if is_array(schema.get(keyword)):
                yield from schema[keyword]
        if is_array(kinds):
            yield from ({**schema, "type": kind} for kind in kinds)
