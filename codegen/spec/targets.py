"""The values that can be compared in a revision, each with its upstream definition and its generated type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

import attrs
from attrs import frozen

from codegen.align import Revision
from codegen.choices import RENAMES
from codegen.merge import Merged
from codegen.registry import ErrorRow, MethodRow
from codegen.spec.seeds import same_json
from trio_mcp import types
from trio_mcp._errors import StructureError
from trio_mcp.types._faults import kind_of


@frozen(kw_only=True, eq=False)
class Target:
    """A kind of value, with its upstream definition and its generated type."""

    label: str
    upstream: tuple[dict[str, str], ...]
    """References to the upstream definitions that the whole message must satisfy."""
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
        revision: the aligned revision.
        merged: all revisions.
        rows: its methods.
        errors: its errors.
        upstream: the upstream definitions.
        pointer: the prefix of references to them.
    """
    renames = RENAMES.get(revision.name, {})
    for name, schema in upstream.items():
        type_name = renames.get(name, name)
        method = schema.get("properties", {}).get("method", {}).get("const")
        # A request with an envelope has a class only if another revision embeds it without an envelope.
        is_enveloped = method is not None and rows[method].kind != "embedded"
        if type_name in merged.own[revision.name] and not is_enveloped:
            yield Target(label=name, upstream=({"$ref": pointer + name},), envelope=None, slot="", type_name=type_name)
    for name, schema in upstream.items():
        method = schema.get("properties", {}).get("method", {}).get("const")
        row = rows.get(method) if method is not None else None
        if row is None or row.params is None or name == "ClientNotification":
            continue
        envelope = {"jsonrpc": "2.0", "method": method}
        generic = {"request": "JSONRPCRequest", "notification": "JSONRPCNotification"}.get(row.kind)
        both = tuple({"$ref": pointer + each} for each in (name, generic) if each is not None)
        if row.kind == "request":
            envelope["id"] = "1"
        yield Target(label=f"params of {method}", upstream=both, envelope=envelope, slot="params", type_name=row.params)
    for code, error in errors.items():
        if error.data is not None:
            yield Target(
                label=f"data of error {code}",
                upstream=({"$ref": pointer + error.name},),
                envelope={"id": "1", "jsonrpc": "2.0"},
                slot="",
                type_name=error.data,
                code=code,
            )


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
    """An example message of the specification, reduced to the part that has a type."""

    path: Path
    type_name: str
    """Its type; for a result of several types, the final one."""
    kind: Any
    value: Any


def examples(folder: Path, revision: str, errors: dict[int, ErrorRow]) -> Iterator[Example]:
    """Yield the example messages of the specification without their envelopes, which the method table describes."""
    for path in sorted(folder.glob("*/*.json")):
        name, value = _strip(path.parent.name, json.loads(path.read_text("utf-8")), revision, errors)
        kind = getattr(types, name)
        if path.parent.name.endswith("ResultResponse"):
            rows = types.METHODS[revision].values()
            kind = Union[next(row.results for row in rows if kind in row.results)]  # noqa: UP007 - a tuple of arms
        yield Example(path=path, type_name=name, kind=kind, value=value)


def _strip(name: str, message: Any, revision: str, errors: dict[int, ErrorRow]) -> tuple[str, Any]:
    """Return the type and the value of the contents of a message; a message with a type is its own contents."""
    row = types.METHODS[revision].get(message.get("method", ""))
    if row is not None and row.kind != "embedded":
        return str(getattr(row.params, "__name__", row.params)), message.get("params", {})
    if name.endswith("ResultResponse"):
        return name.removesuffix("Response"), message["result"]
    if name in {error.name for error in errors.values()}:
        body = message.get("error", message)
        data = errors[body["code"]].data
        return ("Error", body) if data is None else (data, body["data"])
    return name, message


def survives(value: Any, kind: Any, revision: str | None) -> str | None:
    """Return the change of a value after structuring and unstructuring; None if it comes back equal."""
    try:
        back = types.unstructure(accept(value, kind, revision), revision=revision)
    except StructureError as error:
        return str(error)
    return None if same_json(back, value) else f"came back as {json.dumps(back)}"
