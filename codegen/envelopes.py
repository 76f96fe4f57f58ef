"""The definitions that older revisions leave to the reader: the envelopes of messages, responses, and former names.

Since 2025-11-25 the schema of a request includes `id` and `jsonrpc`, and 2026-07-28 defines the response to each
request. The messages of the older revisions have the same envelopes, which only their prose says. So each message gets
its envelope in every revision, and each request a response. Then one class covers a message in all revisions.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from codegen.align import Revision
from codegen.choices import MESSAGE, PAGINATED_REQUEST, RENAMES
from codegen.registry import MethodRow, methods
from codegen.shapes import Definitions, RefusedError, Schema, ref

_ENVELOPES = {"request": "JSONRPCRequest", "notification": "JSONRPCNotification"}
_RESULT_RESPONSE = "JSONRPCResultResponse"


def complete(revisions: list[Revision]) -> list[Revision]:
    """Return the aligned revisions with whole messages, a response for each request, and all names of definitions.

    Raises:
        RefusedError: the schema does not state the sender or the result of a method, or has no definition of an
            envelope.
    """
    defined = {name for revision in revisions for name in revision.definitions}
    return [_with_former_names(_with_union(_with_messages(revision)), defined) for revision in revisions]


def response_name(request: str) -> str:
    """Return the name of the response to a request."""
    return f"{request.removesuffix('Request')}ResultResponse"


def _with_messages(revision: Revision) -> Revision:
    definitions = dict(revision.definitions)
    responses: dict[str, str] = {}
    rows = methods(revision)
    for name, schema in revision.definitions.items():
        row = _row_of(schema, rows)
        kind = "request" if name == PAGINATED_REQUEST else None if row is None else row.kind
        if kind is not None:
            definitions[name] = _enclosed(schema, _envelope(_ENVELOPES[kind], revision))
        response = response_name(name)
        if row is not None and row.kind == "request" and response not in definitions:
            definitions[response] = _response(row.results, _envelope(_RESULT_RESPONSE, revision))
            responses[response] = name
    return evolve(revision, definitions=definitions, responses=responses)


def _row_of(schema: Schema, rows: Mapping[str, MethodRow]) -> MethodRow | None:
    """Return the row of the method of a whole message; None for another definition, or a request in a result."""
    method = schema.get("properties", {}).get("method", {}).get("const")
    return None if method is None or rows[method].kind == "embedded" else rows[method]


def _envelope(name: str, revision: Revision) -> Schema:
    if name not in revision.definitions:
        raise RefusedError(f"{revision.label}: {name}, the envelope of messages, is not defined")
    return revision.definitions[name]


def _enclosed(schema: Schema, envelope: Schema) -> Schema:
    """Return a message with the members of its envelope, which it may name itself."""
    own = {name: inner for name, inner in envelope["properties"].items() if name != "params"}
    required = sorted({*schema.get("required", ()), *envelope["required"]})
    return {**schema, "properties": {**own, **schema["properties"]}, "required": required}


def _response(results: list[str], envelope: Schema) -> Schema:
    arms = [ref(name) for name in results]
    result = arms[0] if len(arms) == 1 else {"anyOf": arms}
    return {**envelope, "properties": {**envelope["properties"], "result": result}}


def _with_union(revision: Revision) -> Revision:
    """Add the union of all messages, which the specification describes without a name."""
    if MESSAGE in revision.definitions:
        raise RefusedError(f"{revision.label}: {MESSAGE} is the name of the union of all messages")
    arms = [
        ref(name)
        for name, schema in sorted(revision.definitions.items())
        if "jsonrpc" in schema.get("properties", {}) and name != PAGINATED_REQUEST
    ]
    return evolve(revision, definitions={**revision.definitions, MESSAGE: {"anyOf": arms}})


def _with_former_names(revision: Revision, defined: set[str]) -> Revision:
    """Add the name that a revision has for a renamed definition, unless a revision has something else of that name."""
    former: Definitions = {
        old: ref(new)
        for old, new in RENAMES.get(revision.name, {}).items()
        if old not in defined and new not in revision.hoisted
    }
    return evolve(revision, definitions={**revision.definitions, **former})
