"""The page about types: each row of its tables is what the package does, and no type is missing."""

from __future__ import annotations

import builtins
import collections.abc
import datetime as dt
import decimal
import fractions
import ipaddress
import json
import pathlib
import re
import typing
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import annotated_types
import pytest
import trio

from trio_mcp import Image, Server, open_client, types
from trio_mcp.server.signature import describe_type
from trio_mcp.wire import is_array, is_object

PAGE = (Path(__file__).parents[2] / "docs" / "argument-types.md").read_text(encoding="utf-8")
PATTERN = "…"
"""The mark of a regular expression, which the page leaves out."""
MODULES = (builtins, collections.abc, dt, decimal, fractions, ipaddress, pathlib, uuid)


def names() -> dict[str, Any]:
    """Return the names that the tables use: those of the program of the page, and of the standard library."""
    program = re.search(r'^```python title="theatre\.py"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    assert program is not None
    defined: dict[str, Any] = {"__name__": "theatre"}
    exec(compile(program[1], "theatre.py", "exec", dont_inherit=True), defined)  # a program of this repository
    modules = {module.__name__: module for module in (*MODULES, annotated_types)}
    return vars(typing) | vars(collections.abc) | modules | {"Image": Image} | defined


NAMES = names()


def rows(section: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table of a section, as they are read."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert text is not None
    for line in re.findall(r"^\| (`.*) \|$", text[1], re.MULTILINE):
        yield [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)]


def code(cell: str) -> list[str]:
    """Return what a cell has in code, without a remark in parentheses."""
    return re.findall(r"`([^`]+)`", re.sub(r" \(.*\)$", "", cell))


def value_of(expression: str) -> Any:
    return eval(expression, NAMES)  # of a page of this repository


def without_patterns(schema: Any) -> Any:
    """Return a schema with the mark in place of each regular expression."""
    if is_object(schema):
        return {name: PATTERN if name == "pattern" else without_patterns(each) for name, each in schema.items()}
    if is_array(schema):
        return [without_patterns(each) for each in schema]
    return schema


ARGUMENTS = [
    (annotation, *(code(cell)[0] for cell in cells))
    for section in ("Arguments", "Descriptions and bounds")
    for annotations, *cells in rows(section)
    for annotation in code(annotations)
]


@pytest.mark.parametrize(("annotation", "schema", "sent", "arrives"), ARGUMENTS)
def test_an_argument_has_the_schema_and_arrives_as_the_page_says(
    annotation: str, schema: str, sent: str, arrives: str
) -> None:
    server, arrived = Server("one"), list[Any]()

    def take(value: Any) -> None:
        arrived.append(value)

    take.__annotations__ = {"value": value_of(annotation), "return": None}
    server.tool(take)

    async def call() -> types.Tool:
        with trio.fail_after(60):
            async with open_client(server) as client:
                await client.call_tool("take", {"value": json.loads(sent)}, raise_on_error=True)
                return (await client.list_tools()).tools[0]

    published = trio.run(call).input_schema["properties"]["value"]
    assert without_patterns(published) == without_patterns(json.loads(schema))
    assert list(map(repr, arrived)) == [arrives]


@pytest.mark.parametrize(("annotation", "returned", "sent"), list(rows("Results")))
def test_a_result_is_sent_as_the_page_says(annotation: str, returned: str, sent: str) -> None:
    server, value = Server("one"), value_of(code(returned)[0])

    def give() -> Any:
        return value

    give.__annotations__ = {"return": value_of(code(annotation)[0])}
    server.tool(give)

    async def call() -> types.CallToolResult:
        with trio.fail_after(60):
            async with open_client(server) as client:
                return await client.call_tool("give", raise_on_error=True)

    result = trio.run(call)
    assert result.structured_content == (types.UNSET if sent == "nothing" else json.loads(code(sent)[0]))


@pytest.mark.parametrize(("annotation", "reason"), list(rows("What is refused")))
def test_an_annotation_is_refused_for_the_reason_on_the_page(annotation: str, reason: str) -> None:
    def take(value: Any) -> None:
        raise NotImplementedError

    take.__annotations__ = {"value": value_of(code(annotation)[0]), "return": None}

    with pytest.raises(TypeError) as refusal:
        Server("one").tool(take)
    assert str(refusal.value) == f"take: parameter 'value': {code(reason)[0]}"


def is_accepted(cls: type[Any]) -> bool:
    try:
        describe_type(cls, name="it")
    except TypeError:
        return False
    return True


def test_the_page_has_every_class_of_the_standard_library_that_an_argument_can_have() -> None:
    by_chance = {decimal.DecimalTuple, uuid.SafeUUID}
    defined: list[Any] = [each for module in MODULES for each in vars(module).values() if isinstance(each, type)]
    accepted = {each for each in defined if each not in by_chance and is_accepted(each)}
    mentioned = {typing.get_origin(value_of(each)) or value_of(each) for each, *_ in ARGUMENTS}

    assert accepted - mentioned == set()
