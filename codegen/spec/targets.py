"""The values that can be compared in a revision, each with its upstream definition and its generated type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from codegen.align import Revision
from codegen.choices import RENAMES
from codegen.envelopes import response_name
from codegen.merge import Merged
from codegen.registry import ErrorRow, MethodRow
from codegen.shapes import Definitions
from codegen.spec.seeds import same_json
from trio_mcp import types
from trio_mcp._errors import StructureError
from trio_mcp.types._faults import kind_of

_UNIONS = {
    "ClientNotification": "JSONRPCNotification",
    "ClientRequest": "JSONRPCRequest",
    "ServerNotification": "JSONRPCNotification",
    "ServerRequest": "JSONRPCRequest",
}
"""The envelope of the messages of each union."""

_RESULTS = "ServerResult"
"""A union whose types differ in `_meta` only, which is checked by class. Each of its types is judged by itself."""


@frozen(kw_only=True, eq=False)
class Target:
    """A kind of value, with its upstream definition and its generated type."""

    label: str
    upstream: tuple[dict[str, Any], ...]
    """The upstream schemas that the whole message must satisfy."""
    envelope: dict[str, Any] | None
    """The message around the value, which is placed at `slot`; None if the value is the whole message."""
    slot: str
    type_name: str
    """The generated type, which is also the definition in `model`."""
    code: int | None = None
    """The required code of an error, whose `data` is the value; None otherwise."""

    def message(self, value: Any) -> Any:
        """Return the whole message around a value, which the upstream schema judges."""
        if self.envelope is None:
            return value
        if self.code is not None:
            return {**self.envelope, "error": {"code": self.code, "message": "text", "data": value}}
        return {**self.envelope, self.slot: value}


def targets(
    revision: Revision,
    merged: Merged,
    rows: dict[str, MethodRow],
    errors: dict[int, ErrorRow],
    upstream: dict[str, Any],
    pointer: str,
) -> Iterator[Target]:
    """Yield every kind of value that both sides can judge.

    Args:
        revision: the aligned revision, with whole messages.
        merged: all revisions.
        rows: its methods.
        errors: its errors.
        upstream: the upstream definitions.
        pointer: the prefix of references to them.
    """
    renames = RENAMES.get(revision.name, {})

    def refer(*names: str | None) -> tuple[dict[str, Any], ...]:
        return tuple({"$ref": pointer + name} for name in names if name is not None)

    for name, schema in upstream.items():
        type_name = renames.get(name, name)
        row = _row_of(schema, rows)
        # Older revisions define the envelope of a message apart from the message.
        generic = _envelope_of(type_name, merged.own[revision.name])
        if type_name in merged.own[revision.name] and name != _RESULTS:
            yield Target(label=name, upstream=refer(name, generic), envelope=None, slot="", type_name=type_name)
        if row is None or row.params is None or name == "ClientNotification":
            continue
        envelope = {"jsonrpc": "2.0", "method": schema["properties"]["method"]["const"]}
        if row.kind == "request":
            envelope["id"] = "1"
        yield Target(
            label=f"params of {envelope['method']}",
            upstream=refer(name, generic),
            envelope=envelope,
            slot="params",
            type_name=row.params,
        )
        if row.kind == "request" and response_name(name) not in upstream:
            result = {"properties": {"result": {"anyOf": [*refer(*row.results)]}}}
            response = "JSONRPCResultResponse" if "JSONRPCResultResponse" in upstream else "JSONRPCResponse"
            yield Target(
                label=f"response to {envelope['method']}",
                upstream=(*refer(response), result),
                envelope=None,
                slot="",
                type_name=response_name(name),
            )
    for code, error in errors.items():
        if error.data is not None:
            yield Target(
                label=f"data of error {code}",
                upstream=refer(error.name),
                envelope={"id": "1", "jsonrpc": "2.0"},
                slot="",
                type_name=error.data,
                code=code,
            )


def _envelope_of(name: str, definitions: Definitions) -> str | None:
    """Return the name of the envelope of a message, or of the messages of a union; None for anything else."""
    members = definitions.get(name, {}).get("properties", {})
    if {"jsonrpc", "method"} <= members.keys():
        return "JSONRPCRequest" if "id" in members else "JSONRPCNotification"
    return _UNIONS.get(name)


def _row_of(schema: dict[str, Any], rows: dict[str, MethodRow]) -> MethodRow | None:
    method = schema.get("properties", {}).get("method", {}).get("const")
    return None if method is None else rows[method]


def accept(value: Any, kind: Any, revision: str | None) -> Any:
    """Structure a value and every `_meta` inside it.

    Raises:
        StructureError: the value does not fit.
    """
    message = types.structure(value, kind, revision=revision)
    metas = (types.SUPERSET if revision is None else types.PROFILES[revision]).metas
    _check_metas(message, metas, revision)
    return message


def _check_metas(value: Any, metas: Any, revision: str | None) -> None:
    kind = kind_of(value)
    if isinstance(value, types.Model):
        meta = getattr(value, "meta", None)
        fitting = metas.get(type(value).__name__)
        if meta is not None and fitting is not None:
            types.structure(meta, fitting, revision=revision)
        inside = [getattr(value, each.name) for each in attrs.fields(type(value)) if each.name not in {"extra", "meta"}]
    else:
        inside = list(value.values() if kind == "object" else value) if kind in {"array", "object"} else []
    for each in inside:
        _check_metas(each, metas, revision)


@frozen(kw_only=True)
class Example:
    """An example of the specification, which is a value of the type that its folder is named for."""

    path: Path
    type_name: str
    value: Any


def examples(folder: Path) -> Iterator[Example]:
    """Yield the examples of the specification, which are files `<type>/<name>.json`."""
    for path in sorted(folder.glob("*/*.json")):
        yield Example(path=path, type_name=path.parent.name, value=json.loads(path.read_text("utf-8")))


def survives(example: Example, revision: str | None) -> str | None:
    """Return the change of an example after structuring and unstructuring; None if it comes back equal.

    A whole message is also read as a line, which must find its type without the name.
    """
    kind = getattr(types, example.type_name)
    try:
        back = types.unstructure(accept(example.value, kind, revision), revision=revision)
        if not same_json(back, example.value):
            return f"came back as {json.dumps(back)}"
        return _misread(example, revision)
    except StructureError as error:
        return str(error)


def _misread(example: Example, revision: str | None) -> str | None:
    """Return the difference of a message read as a line from the message made of its type; None if there is none."""
    if kind_of(example.value) != "object" or "jsonrpc" not in example.value:
        return None
    methods = types.METHODS[types.REVISIONS[-1]].items()
    responses = {f"{row.result_names[0]}Response": method for method, row in methods if row.kind == "request"}
    method = responses.get(example.type_name)
    message = types.read_message(json.dumps(example.value), revision=revision, method=method)
    if type(message).__name__ != example.type_name:
        return f"was read as a {type(message).__name__}"
    back = types.unstructure(message, revision=revision)
    return None if same_json(back, example.value) else f"was read, and came back as {json.dumps(back)}"
