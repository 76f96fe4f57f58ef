"""The operations of a description as tools: their names, their arguments, their results, and which are selected.

Rules of this file:

1. The name of a tool is the `operationId`, with ``_`` for what is no letter, digit, ``_`` or ``-``; without one it is
   the method and the words of the path. A name of more than 64 characters is shortened, and a name that is taken gets a
   number.
2. A parameter keeps its name as an argument, and the body is the argument ``body``. If several of them have one name,
   each parameter is ``name_in_place``: ``id_in_path`` and ``id_in_query``.
3. Of the media types of a body or a response, the first that can be used counts: JSON, then forms, then text, then any.
4. The parameters ``Accept``, ``Content-Type`` and ``Authorization`` in the header are ignored, as OpenAPI says. What
   security schemes require is no argument either: credentials belong to the program, not to a model.
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
from ._document import Description
from ._schemas import Direction, plain_schema

__all__ = ["Body", "Operation", "Parameter", "Place", "is_json", "read_operations", "selected"]

Place: TypeAlias = Literal["path", "query", "querystring", "header", "cookie"]
MAX_NAME_LENGTH: Final = 64
"""The longest name, in characters, that the interfaces of language models accept for a function."""

_USUAL_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_STYLES: Final[Mapping[str, Collection[str]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}
_IGNORED: Final = frozenset({"accept", "content-type", "authorization"})
_READS: Final = frozenset({"get", "head", "options", "trace", "query"})
_REPEATABLE: Final = _READS | {"put", "delete"}
_UNSUITABLE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_JSON: Final = re.compile(r"application/(?:[\w.+-]+\+)?json|text/json", re.IGNORECASE)
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")


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
class Body:
    """The body of a request."""

    media_type: str
    schema: Any
    required: bool
    description: str | None


@frozen
class Operation:
    """An operation of a description, as a tool."""

    method: str
    path: str
    id: str | None
    """The `operationId`."""
    tags: Sequence[str]
    name: str
    """The name of the tool."""
    title: str | None
    description: str | None
    parameters: Sequence[Parameter]
    body: Body | None
    result: Any
    """The schema of a successful result in JSON; None if it has none, or none that is an object."""
    server: str | None
    """The URL of the server of this operation, if the description states one for it."""

    @property
    def label(self) -> str:
        """The method and the path, as in ``GET /customers/{id}``."""
        return f"{self.method.upper()} {self.path}"

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
        """The hints that follow from the method."""
        reads = self.method in _READS
        return types.ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=None if reads else self.method in {"delete", "put", "patch"},
            idempotent_hint=self.method in _REPEATABLE,
            open_world_hint=True,
        )


def _described(schema: Any, description: str | None) -> Any:
    if description is None or not is_object(schema) or "description" in schema:
        return schema
    return {**schema, "description": description}


def _without_definitions(schema: Any, definitions: JSONObject) -> Any:
    """Return a schema whose definitions were moved to *definitions*.

    Two schemas of one description have the same definition of a name, or the later ones get a number.
    """
    if not is_object(schema) or "$defs" not in schema:
        return schema
    members = dict(schema)
    own: JSONObject = members.pop("$defs")
    renamed: dict[str, str] = {}
    for name, each in own.items():
        number, free = 1, name
        while free in definitions and definitions[free] != each:
            number += 1
            free = f"{name}_{number}"
        renamed[name] = free
    definitions.update({renamed[name]: _renamed(each, renamed) for name, each in own.items()})
    return _renamed(members, renamed)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if all(name == new for name, new in names.items()):
        return value
    if is_object(value):
        members = value
        return {
            name: f"#/$defs/{names[each[8:]]}"
            if name == "$ref" and isinstance(each, str) and each[8:] in names
            else _renamed(each, names)
            for name, each in members.items()
        }
    return [_renamed(each, names) for each in value] if is_array(value) else value


def is_json(media_type: str) -> bool:
    """Return True for a media type whose content is JSON."""
    return _JSON.fullmatch(media_type.partition(";")[0].strip()) is not None


# --- Selection ---


def selected(operation: tuple[str, str, JSONObject], pattern: str) -> bool:
    """Return True if a pattern selects an operation: its method, its path and its description.

    A pattern is ``tag:NAME``, ``METHOD PATH`` or an `operationId`; each may have ``*`` and ``?``.
    """
    method, path, members = operation
    if pattern.startswith("tag:"):
        tags: Any = members.get("tags", [])
        return is_array(tags) and any(fnmatch.fnmatchcase(str(each), pattern[4:]) for each in tags)
    if " " in pattern:
        wanted_method, _, wanted_path = pattern.partition(" ")
        # the braces of a path have no meaning to fnmatch; brackets have, and are rare
        return fnmatch.fnmatchcase(method.upper(), wanted_method.upper()) and fnmatch.fnmatchcase(path, wanted_path)
    return fnmatch.fnmatchcase(str(members.get("operationId", "")), pattern)


def read_operations(
    description: Description, include: Sequence[str], exclude: Sequence[str], prefix: str
) -> tuple[list[Operation], dict[str, str]]:
    """Return the selected operations, and why others that are selected cannot be tools, by method and path.

    Args:
        prefix: what each name begins with.

    Raises:
        ValueError: a pattern selects nothing.
    """
    unused = {*include, *exclude}
    operations: list[Operation] = []
    faults: dict[str, str] = {}
    names: set[str] = set()
    for method, path, item, members in description.operations():
        one = (method, path, members)
        matching = {pattern for pattern in (*include, *exclude) if selected(one, pattern)}
        unused -= matching
        if matching.isdisjoint(include) or not matching.isdisjoint(exclude):
            continue
        try:
            operation = _read(description, method, path, item, members)
        except (ValueError, RecursionError) as fault:
            faults[f"{method.upper()} {path}"] = str(fault)
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


def _read(description: Description, method: str, path: str, item: JSONObject, members: JSONObject) -> Operation:
    place = f"{description.where}: paths.{path}.{method}"
    id = members.get("operationId")
    words = _UNSUITABLE.sub("_", f"{method}{path}").strip("_")
    body = _body(description, members.get("requestBody"), f"{place}.requestBody")
    parameters = _parameters(description, item, members, place, has_body=body is not None)
    for variable in sorted({*_VARIABLE.findall(path)} - {each.name for each in parameters if each.place == "path"}):
        raise ValueError(f"{place}: there is no parameter for {variable!r} in the path")
    return Operation(
        method=method,
        path=path,
        id=id if isinstance(id, str) else None,
        tags=[str(each) for each in members.get("tags", [])],
        name=_UNSUITABLE.sub("_", id).strip("_") or words if isinstance(id, str) else words,
        title=_text(members.get("summary")),
        description=_text(members.get("description")) or _text(members.get("summary")),
        parameters=parameters,
        body=body,
        result=_result(description, members.get("responses"), f"{place}.responses"),
        server=_server(members) or _server(item),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _server(members: JSONObject) -> str | None:
    servers: Any = members.get("servers")
    url = servers[0].get("url") if is_array(servers) and servers and is_object(servers[0]) else None
    return _text(url)


def _parameters(
    description: Description, item: JSONObject, members: JSONObject, place: str, *, has_body: bool
) -> list[Parameter]:
    found: dict[tuple[str, str], Parameter] = {}
    for owner in (item, members):  # those of the operation replace those of the path
        listed: Any = owner.get("parameters", [])
        for at, each in enumerate(listed if is_array(listed) else []):
            where = f"{place}.parameters[{at}]"
            parameter = _parameter(description, description.resolved(each, where), where)
            if parameter is not None:
                found[parameter.name, parameter.place] = parameter
    times = Counter([each.argument for each in found.values()] + ["body"] * has_body)
    return [
        evolve(each, argument=f"{each.argument}_in_{each.place}") if times[each.argument] > 1 else each
        for each in found.values()
    ]


def _parameter(description: Description, members: JSONObject, place: str) -> Parameter | None:
    name, where = members.get("name"), members.get("in")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{place}: the name must be a string")
    if where not in {*_STYLES, "querystring"}:
        raise ValueError(f"{place}: in must be one of {', '.join(_STYLES)}, not {where!r}")
    if where == "header" and name.lower() in _IGNORED:
        return None
    media_type, schema = None, members.get("schema", {})
    content: Any = members.get("content")
    if is_object(content) and content:
        media_type, media = next(iter(content.items()))
        schema = description.resolved(media, f"{place}.content.{media_type}").get("schema", {})
    style = members.get("style", _USUAL_STYLES.get(str(where), "form"))
    if media_type is None and style not in _STYLES.get(str(where), ()):
        raise ValueError(f"{place}: the style {style!r} is not one of parameters in {where}")
    return Parameter(
        name=name,
        place=where,
        argument=_UNSUITABLE.sub("_", name).strip("_") or "value",
        schema=plain_schema(description, schema, f"{place}.schema", "request"),
        required=members.get("required") is True or where == "path",
        style=style,
        explode=bool(members.get("explode", style in {"form", "cookie"})),
        allow_reserved=members.get("allowReserved") is True,
        media_type=media_type,
        description=_text(members.get("description")),
    )


def _body(description: Description, value: object, place: str) -> Body | None:
    if value is None:
        return None
    members = description.resolved(value, place)
    chosen = _media(description, members, place, "request")
    if chosen is None:
        return None
    media_type, schema = chosen
    return Body(media_type, schema, members.get("required") is True, _text(members.get("description")))


def _result(description: Description, value: object, place: str) -> Any:
    """Return the schema of the result of a success, if it is JSON and an object."""
    if not is_object(value):
        return None
    # YAML reads 200 as a number.
    successes = {str(code): each for code, each in value.items() if str(code).startswith("2")}
    if not successes:
        return None
    code = min(successes)
    members = description.resolved(successes[code], f"{place}.{code}")
    chosen = _media(description, members, f"{place}.{code}", "response")
    if chosen is None or not is_json(chosen[0]):
        return None
    schema = chosen[1]
    if not is_object(schema):
        return None
    reference = str(schema.get("$ref", ""))
    target: Any = schema["$defs"][reference[len("#/$defs/") :]] if reference else schema
    return {**schema, "type": "object"} if is_object(target) and target.get("type") == "object" else None


def _media(description: Description, members: JSONObject, place: str, direction: Direction) -> tuple[str, Any] | None:
    """Return the media type that is used, and its schema (rule 3)."""
    content: Any = members.get("content")
    if not is_object(content) or not content:
        return None
    kinds = [str(each) for each in content]
    kind = min(kinds, key=_preference)
    media = description.resolved(content[kind], f"{place}.content.{kind}")
    return kind, plain_schema(description, media.get("schema", {}), f"{place}.content.{kind}.schema", direction)


def _preference(media_type: str) -> int:
    if is_json(media_type):
        return 0
    if media_type in _FORMS:
        return 1
    return 2 if media_type.startswith("text/") else 3
