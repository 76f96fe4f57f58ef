"""The command `call`: one tool called once, with its progress, its result, and its failure told apart."""

from __future__ import annotations

import argparse
from typing import Any

from .. import types
from .._errors import ToolFailed
from .._schema import SchemaError
from ..wire import Undecodable, decode, is_object
from ._call_arguments import arguments_for, texts_of, whole_object
from ._content import Piece, pieces_of, save
from ._failures import UsageError
from ._job import Job
from ._target import nearest

__all__ = ["call", "prepare_call"]


def prepare_call(options: argparse.Namespace) -> None:
    """Read the arguments, before there is a server that would wait for them.

    Raises:
        UsageError: they are not what arguments look like, or a file of them cannot be read.
    """
    options.texts, options.whole = texts_of(options.pairs), whole_object(options.arguments)


async def call(job: Job) -> None:
    """Call a tool and print its result.

    Raises:
        UsageError: the server has no such tool, or the arguments do not fit its schema.
        ToolFailed: the tool says that it failed.
    """
    options = job.options
    tool = await _find(job, options.name)
    try:
        arguments = arguments_for(tool.input_schema, options.texts, options.whole)
    except SchemaError as error:
        job.notes.say(f"the arguments are not checked, because the tool's schema cannot be used: {error}")
        arguments = arguments_for({}, options.texts, options.whole)
    async with job.client.open_call(tool.name, arguments) as under_way:
        with job.notes.bar(tool.name) as show:
            async for update in under_way.updates:
                show(update)
        result = await under_way.result()
    _print(job, result)
    if result.is_error:
        raise ToolFailed(tool.name, "\n".join(piece.text for piece in pieces_of(result.content)), result)


async def _find(job: Job, name: str) -> types.Tool:
    seen: list[str] = []
    async for tool in job.client.tools():
        if tool.name == name:
            return tool
        seen.append(tool.name)
    raise UsageError(f"the server has no tool {name!r}; {nearest(name, seen)}")


def _print(job: Job, result: types.CallToolResult) -> None:
    if job.options.json:
        job.output.document(job.wire(result))
    if result.is_error:
        return  # what it says goes to standard error
    pieces = pieces_of(result.content)
    if job.options.output is not None:
        for name in save(pieces, job.options.output, job.output):
            job.notes.say(f"written: {name}")
    elif not job.options.json:
        _show(job, pieces, result.structured_content)


def _show(job: Job, pieces: list[Piece], structured: Any) -> None:
    """Print the content, and the structured content unless the content says the same."""
    only = pieces[0].text if len(pieces) == 1 else None
    inner = structured["result"] if is_object(structured) and [*structured] == ["result"] else types.UNSET
    if only is not None and _is_json_of(only, structured):
        job.output.value(structured)
        return
    for piece in pieces:
        job.output.text(piece.text)
    if structured is not types.UNSET and (only is None or not (only == inner or _is_json_of(only, inner))):
        job.output.value(structured)


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return bool(decode(text.encode("utf-8", "surrogatepass")) == value)
    except Undecodable:
        return False
