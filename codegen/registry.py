"""The methods and error codes of each revision, read from the schemas alone."""

from __future__ import annotations

from attrs import frozen

from codegen.align import Revision
from codegen.shapes import RefusedError, Schema, references, single_reference

_UNIONS = {
    "ClientNotification": ("notification", "client"),
    "ClientRequest": ("request", "client"),
    "InputRequest": ("embedded", "server"),
    "ServerNotification": ("notification", "server"),
    "ServerRequest": ("request", "server"),
}
_RESULT_UNIONS = ("ClientResult", "InputResponse", "ServerResult")


@frozen(kw_only=True)
class MethodRow:
    """One method of one revision, by the names of its types."""

    kind: str
    direction: str
    params: str | None
    params_required: bool
    results: list[str]


@frozen(kw_only=True)
class ErrorRow:
    """One error code of one revision."""

    name: str
    data: str | None


def methods(revision: Revision) -> dict[str, MethodRow]:
    """Return the methods of a revision.

    Raises:
        RefusedError: the schema does not state the sender or the result of a method.
    """
    rows: dict[str, MethodRow] = {}
    for name, schema in sorted(revision.definitions.items()):
        method = schema.get("properties", {}).get("method", {}).get("const")
        if method is not None:
            rows[method] = _method(name, method, schema, revision)
    return dict(sorted(rows.items()))


def _method(name: str, method: str, schema: Schema, revision: Revision) -> MethodRow:
    roles = [role for union, role in _UNIONS.items() if name in references(revision.definitions.get(union, {}))]
    kinds = {kind for kind, _ in roles}
    if len(kinds) != 1:
        raise RefusedError(f"{revision.label}: no union, or more than one, says what kind of message {name} is")
    kind = kinds.pop()
    senders = sorted({sender for _, sender in roles})
    params = schema["properties"].get("params")
    params_type = None if params is None else single_reference(params)
    if params is not None and params_type is None:
        raise RefusedError(f"{revision.label}: the params of {method} ({name}) have no name")
    return MethodRow(
        kind=kind,
        direction=senders[0] if len(senders) == 1 else "both",
        params=params_type,
        params_required="params" in schema.get("required", ()),
        results=[] if kind == "notification" else _results(name, params_type, revision),
    )


def _results(name: str, params: str | None, revision: Revision) -> list[str]:
    """Return the types of the result of a request, the final one first."""
    definitions = revision.definitions
    base = name.removesuffix("Request")
    response = definitions.get(f"{base}ResultResponse")
    if response is not None and f"{base}ResultResponse" not in revision.responses:
        found = list(references(response["properties"]["result"]))
    else:
        found = [f"{base}Result" if f"{base}Result" in definitions else "EmptyResult"]
    answers = {each for union in _RESULT_UNIONS for each in references(definitions.get(union, {}))}
    for each in found:
        if each not in definitions or ("Result" if each == "EmptyResult" else each) not in answers:
            raise RefusedError(f"{revision.label}: {name} is answered by {each}, which no union of results names")
    if params is not None and "CreateTaskResult" in definitions and "task" in _members(params, revision):
        found.append("CreateTaskResult")
    return sorted(found, key=lambda each: (each != f"{base}Result", each))


def _members(name: str, revision: Revision) -> set[str]:
    schema = revision.definitions[name]
    own = set(schema.get("properties", {}))
    return own.union(*(_members(each["$ref"].rsplit("/", 1)[-1], revision) for each in schema.get("anyOf", ())))


def errors(revision: Revision) -> dict[int, ErrorRow]:
    """Return the error codes that a revision defines."""
    definitions = revision.definitions
    rows: dict[int, ErrorRow] = {}
    for name, schema in sorted(definitions.items()):
        if name in revision.hoisted:
            continue
        members = schema.get("properties", {})
        body = single_reference(members.get("error", {}))
        if body is not None:
            members = definitions[body]["properties"]
        code = members.get("code", {}).get("const")
        if code is not None:
            rows[code] = ErrorRow(name=name, data=single_reference(members.get("data", {})))
    return dict(sorted(rows.items(), reverse=True))
