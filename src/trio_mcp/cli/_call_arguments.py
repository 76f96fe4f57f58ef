"""The arguments of a call, from the command line: converted by the tool's schema, and checked before they are sent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from .._from_text import member_schema, value_from_text
from .._schema import compile_schema
from .._schema_faults import render_path
from ..types import JSONObject
from ..wire import Undecodable, decode, is_object
from ._failures import UsageError
from ._target import read_file

__all__ = ["arguments_for", "texts_of", "whole_object"]


def texts_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return what stands behind each name in texts such as ``name=value``.

    Raises:
        UsageError: a text is no such pair, or a name comes twice.
    """
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"expected KEY=VALUE, got {pair!r}")
        if name.removesuffix(":") in (known.removesuffix(":") for known in texts):
            raise UsageError(f"argument {name.removesuffix(':')!r} is there twice")
        texts[name] = value
    return texts


def whole_object(given: str | None) -> JSONObject:
    """Return the object that ``--arguments`` gives: itself, ``@FILE``, or ``-`` for standard input.

    Raises:
        UsageError: the file cannot be read, or it is no JSON object.
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
    """Return the arguments of a call, which fit the tool's *schema*.

    Args:
        texts: by name; a name that ends in a colon has JSON behind it, whatever the schema says.
        whole: arguments that are JSON values already; *texts* take their place.

    Raises:
        UsageError: they do not fit; the text names every fault by its path.
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
    """Yield what else is wrong: nothing about values that are known to be."""
    for line in compile_schema(schema).faults(arguments):
        if not any(line.startswith((f"{path}:", f"{path}.", f"{path}[")) for path in known):
            yield line


def _json(text: str) -> Any:
    try:
        value = decode(text.encode("utf-8", "surrogatepass"))
    except Undecodable as error:
        raise ValueError(f"not JSON: {error}, got the text {text!r}") from None
    _refuse_doubles(text)
    return value


def _by_schema(text: str, schema: JSONObject, name: str) -> Any:
    value = value_from_text(text, member_schema(schema, name), schema)
    if not isinstance(value, str):
        _refuse_doubles(text)
    return value


def _refuse_doubles(text: str | bytes) -> None:
    """Raise `ValueError` where an object in a JSON text has a member twice: one of the two would not be sent."""

    def taken(members: list[tuple[str, Any]]) -> dict[str, Any]:
        names: set[str] = set()
        for name, _ in members:
            if name in names:
                raise ValueError(f"member {name!r} is there twice")
            names.add(name)
        return {}

    with suppress(RecursionError):  # as deep as this, nobody types
        json.loads(text, object_pairs_hook=taken, parse_int=str)
