"""The operations of a description as tools: their names, their arguments, their results, and which are selected.

Rules of this file:

1. The name of a tool is the `operationId`, with ``_`` for what is no letter, digit, ``_`` or ``-``; without one it is
   the method and the words of the path. A name of more than 64 characters is shortened, and a name that is taken gets a
   number.
2. A parameter keeps its name as an argument, in the same characters, and the body is the argument ``body``. If several
   of them have one name, each parameter is ``name_in_place``: ``id_in_path`` and ``id_in_query``. Parameters of one
   place whose names differ in other characters only get a number.
3. Of the media types of a body, the first that can be used counts: JSON, then any (``*/*``), then forms, then text,
   then others. JSON that is a list of changes (JSON Patch) comes after other JSON.
4. The parameters ``Accept``, ``Content-Type`` and ``Authorization`` in the header are ignored, as OpenAPI says. What
   security schemes require is no argument either: credentials belong to the program, not to a model.
5. Links, callbacks and webhooks are no operations that a client calls, and are ignored.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, frozen

from .. import types
from ..types import JSONObject
from ..wire import is_array, is_object
from ._document import Description, OperationEntry
from ._media_types import FORM, PARTS, base_of, is_json, is_range, is_text
from ._results import Results, read_results
from ._schemas import BYTES, Schemas, alternatives, is_binary

__all__ = ["Body", "Encoding", "Operation", "Parameter", "Place", "read_operations", "selected"]

Place: TypeAlias = Literal["path", "query", "querystring", "header", "cookie"]
MAX_NAME_LENGTH: Final = 64
"""The longest name, in characters, that the interfaces of language models accept for a function or an argument."""

_USUAL_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_STYLES: Final[Mapping[str, Collection[str]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}
_IGNORED: Final = frozenset({"accept", "content-type", "authorization"})
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})
_CHANGES: Final = frozenset({"PUT", "DELETE", "PATCH"})
_REPEATABLE: Final = _READS | {"PUT", "DELETE"}
_UNSUITABLE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_YAML: Final = re.compile(r"application/(?:[\w.+-]+\+|x-)?yaml|text/yaml")
_ANNOTATIONS: Final = frozenset({"deprecated", "description", "examples", "title"})


@frozen
class Parameter:
    """A parameter of an operation."""

    name: str
    place: Place
    argument: str
    """The name of the argument that holds its value."""
    schema: Any
    required: bool
    style: str
    explode: bool
    allow_reserved: bool
    media_type: str | None
    """The media type in which its value is written; None if its style says how."""
    description: str | None


@frozen
class Encoding:
    """The encoding that a description states for a property of a form."""

    style: str | None
    """The style of a parameter, in which the property is written; None if it is written in a media type."""
    explode: bool
    allow_reserved: bool
    media_type: str | None


@frozen
class Body:
    """The body of a request."""

    media_type: str
    schema: Any
    required: bool
    description: str | None
    encodings: Mapping[str, Encoding]
    """The stated encodings of the properties of a form, by name."""


@frozen
class Operation:
    """An operation of a description, as a tool."""

    method: str
    path: str
    name: str
    """The name of the tool."""
    title: str | None
    description: str | None
    parameters: Sequence[Parameter]
    body: Body | None
    results: Results
    server: str | None
    """The URL of the server of this operation, if the description states one for it."""

    @property
    def label(self) -> str:
        """The method and the path, as in ``GET /customers/{id}``."""
        return f"{self.method} {self.path}"

    @property
    def input_schema(self) -> JSONObject:
        """The schema of the arguments."""
        properties: JSONObject = {}
        required: list[str] = []
        definitions: JSONObject = {}
        parts: list[tuple[str, Any, bool, str | None]] = [
            (each.argument, each.schema, each.required, each.description) for each in self.parameters
        ]
        if self.body is not None:
            parts.append(("body", self.body.schema, self.body.required, self.body.description))
        for name, schema, is_required, description in parts:
            properties[name] = _described(_without_definitions(schema, definitions), description)
            if is_required:
                required.append(name)
        whole: JSONObject = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            whole["required"] = required
        if definitions:
            whole["$defs"] = definitions
        return whole

    @property
    def annotations(self) -> types.ToolAnnotations:
        """The hints that follow from the method. A POST may do anything, so nothing is said of its effects."""
        method = self.method.upper()
        reads = method in _READS
        return types.ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=True if method in _CHANGES else None,
            idempotent_hint=method in _REPEATABLE,
            open_world_hint=True,
        )


def _described(schema: Any, description: str | None) -> Any:
    if description is None or not is_object(schema) or "description" in schema:
        return schema
    return {**schema, "description": description}


def _without_definitions(schema: Any, definitions: JSONObject) -> Any:
    """Return a schema whose definitions were moved to *definitions*; those of one name are the same."""
    if not is_object(schema) or "$defs" not in schema:
        return schema
    members = dict(schema)
    definitions.update(members.pop("$defs"))
    return members


# --- Selection ---


def selected(entry: OperationEntry, pattern: str) -> bool:
    """Return True if a pattern selects an operation.

    A pattern is ``tag:NAME``, ``METHOD PATH`` or an `operationId`; each may have ``*`` and ``?``.
    """
    if pattern.startswith("tag:"):
        tags: Any = entry.members.get("tags")
        return is_array(tags) and any(fnmatch.fnmatchcase(str(each), pattern[4:]) for each in tags)
    if " " in pattern:
        method, _, path = pattern.partition(" ")
        # the braces of a path have no meaning to fnmatch; brackets have, and are rare
        return fnmatch.fnmatchcase(entry.method.upper(), method.upper()) and fnmatch.fnmatchcase(entry.path, path)
    return fnmatch.fnmatchcase(str(entry.members.get("operationId", "")), pattern)


def read_operations(
    description: Description, include: Sequence[str], exclude: Sequence[str], prefix: str
) -> tuple[list[Operation], dict[str, str]]:
    """Return the selected operations, and why others that are selected cannot be tools, by method and path.

    Args:
        prefix: what each name begins with.

    Raises:
        ValueError: a pattern selects nothing.
    """
    schemas = Schemas(description)
    unused = {*include, *exclude}
    operations: list[Operation] = []
    faults: dict[str, str] = {}
    names: set[str] = set()
    for entry in description.operations():
        matching = {pattern for pattern in (*include, *exclude) if selected(entry, pattern)}
        unused -= matching
        if matching.isdisjoint(include) or not matching.isdisjoint(exclude):
            continue
        try:
            operation = _read(schemas, entry)
        except (ValueError, RecursionError) as fault:
            faults[entry.label] = str(fault)
            continue
        name = _free_name(f"{prefix}{operation.name}", names)
        names.add(name)
        operations.append(evolve(operation, name=name))
    for pattern in sorted(unused):
        raise ValueError(
            f"{description.where}: {pattern!r} selects no operation; a pattern is 'tag:NAME', 'METHOD PATH' or an "
            "operationId"
        )
    return operations, faults


def _free_name(wanted: str, taken: Collection[str]) -> str:
    name, number = wanted[:MAX_NAME_LENGTH], 1
    while name in taken:
        number += 1
        ending = f"_{number}"
        name = wanted[: MAX_NAME_LENGTH - len(ending)] + ending
    return name


# --- Reading ---


def _read(schemas: Schemas, entry: OperationEntry) -> Operation:
    members, place = entry.members, entry.place
    id = members.get("operationId")
    words = _UNSUITABLE.sub("_", f"{entry.method.lower()}{entry.path}").strip("_")
    body = _body(schemas, members.get("requestBody"), f"{place}.requestBody")
    parameters = _parameters(schemas, entry, has_body=body is not None)
    in_path = {each.name for each in parameters if each.place == "path"}
    for variable in sorted({*_VARIABLE.findall(entry.path)} - in_path):
        raise ValueError(f"{place}: there is no parameter for {variable!r} in the path")
    server_url = schemas.description.server_url
    return Operation(
        method=entry.method,
        path=entry.path,
        name=_UNSUITABLE.sub("_", id).strip("_") or words if isinstance(id, str) else words,
        title=_text(members.get("summary")),
        description=_text(members.get("description")) or _text(members.get("summary")),
        parameters=parameters,
        body=body,
        results=read_results(schemas, members.get("responses"), f"{place}.responses"),
        server=server_url(members) or server_url(entry.item),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _parameters(schemas: Schemas, entry: OperationEntry, *, has_body: bool) -> list[Parameter]:
    found: dict[tuple[str, str], Parameter] = {}
    for owner in (entry.item, entry.members):  # those of the operation replace those of the path
        listed: Any = owner.get("parameters", [])
        for at, each in enumerate(listed if is_array(listed) else []):
            where = f"{entry.place}.parameters[{at}]"
            parameter = _parameter(schemas, schemas.description.resolved(each, where), where)
            if parameter is not None:
                found[parameter.name, parameter.place] = parameter
    taken = {"body"} if has_body else set[str]()
    places = {(each.argument, each.place) for each in found.values()}
    times = Counter([*(argument for argument, _ in places), *taken])
    parameters: list[Parameter] = []
    for each in found.values():
        wanted = f"{each.argument}_in_{each.place}" if times[each.argument] > 1 else each.argument
        argument = _free_name(wanted, taken)
        taken.add(argument)
        parameters.append(evolve(each, argument=argument))
    return parameters


def _parameter(schemas: Schemas, members: JSONObject, place: str) -> Parameter | None:
    name, where = members.get("name"), members.get("in")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{place}: the name must be a string")
    if where not in (*_STYLES, "querystring"):
        raise ValueError(f"{place}: in must be one of {', '.join(_STYLES)}, not {where!r}")
    if where == "header" and name.lower() in _IGNORED:
        return None
    media_type, schema = None, members.get("schema", {})
    content: Any = members.get("content")
    if is_object(content) and content:
        media_type, media = next(iter(content.items()))
        schema = schemas.description.resolved(media, f"{place}.content.{media_type}").get("schema", {})
    style = members.get("style", _USUAL_STYLES.get(str(where), "form"))
    if media_type is None and style not in _STYLES.get(str(where), ()):
        raise ValueError(f"{place}: the style {style!r} is not one of parameters in {where}")
    return Parameter(
        name=name,
        place=where,
        argument=_UNSUITABLE.sub("_", name).strip("_") or "value",
        schema=schemas.plain(schema, f"{place}.schema", "request"),
        required=members.get("required") is True or where == "path",
        style=style,
        explode=bool(members.get("explode", style in {"form", "cookie"})),
        allow_reserved=members.get("allowReserved") is True,
        media_type=media_type,
        description=_text(members.get("description")),
    )


def _body(schemas: Schemas, value: object, place: str) -> Body | None:
    if value is None:
        return None
    members = schemas.description.resolved(value, place)
    content: Any = members.get("content")
    if not is_object(content) or not content:
        return None
    kind = min(content, key=_preference)
    inner = f"{place}.content.{kind}"
    media = schemas.description.resolved(content[kind], inner)
    if base_of(kind).startswith("multipart/") and base_of(kind) != PARTS and not is_range(kind):
        raise ValueError(f"{inner}: a body of this media type cannot be made")
    media_type, schema = _sendable(kind, schemas.plain(media.get("schema", {}), f"{inner}.schema", "request"))
    encodings = _encodings(media.get("encoding"))
    return Body(media_type, schema, members.get("required") is True, _text(members.get("description")), encodings)


def _preference(media_type: str) -> int:
    base = base_of(media_type)
    if is_json(base):
        return 0 if base == "application/json" else 2 if base == "application/json-patch+json" else 1
    if base == "*/*":
        return 3
    if base in {FORM, PARTS}:
        return 4
    return 5 if is_text(base) else 6


def _sendable(media_type: str, schema: Any) -> tuple[str, Any]:
    """Return the media type and the schema of a body as it can be sent.

    A range of media types becomes one of them. What is neither JSON nor a form is text or bytes, whatever its schema
    says of the structure in it.
    """
    base = base_of(media_type)
    members: JSONObject = schema if is_object(schema) else {}
    definitions: JSONObject = members.get("$defs", {})
    if is_range(base):
        if is_binary(schema, definitions):
            return "application/octet-stream", schema
        return ("text/plain", schema) if base.startswith("text/") else ("application/json", schema)
    if is_json(base) or base in {FORM, PARTS} or _YAML.fullmatch(base):  # JSON is YAML
        return media_type, schema
    if not is_text(base) and members.keys() <= _ANNOTATIONS:
        return media_type, {**members, **BYTES}
    if any(each.get("type") in ("object", "array") for each in alternatives(schema, definitions)):
        said = {keyword: each for keyword, each in members.items() if keyword in _ANNOTATIONS - {"examples"}}
        return media_type, {**said, "type": "string", "contentMediaType": base}
    return media_type, schema


def _encodings(value: object) -> Mapping[str, Encoding]:
    """Return the encodings of the properties of a form. The style of a parameter counts more than a media type."""
    encodings: dict[str, Encoding] = {}
    for name, each in value.items() if is_object(value) else ():
        if is_object(each):
            style = _text(each.get("style"))
            if style not in _STYLES["query"]:
                style = None if each.keys().isdisjoint({"explode", "allowReserved"}) else "form"
            explode = bool(each.get("explode", style == "form"))
            media_type = (_text(each.get("contentType")) or "").partition(",")[0].strip()
            usable = media_type if media_type and not is_range(media_type) else None
            encodings[name] = Encoding(style, explode, each.get("allowReserved") is True, usable)
    return encodings
