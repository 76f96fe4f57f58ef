"""The command `stubs`: it writes a typed Python client for what a live server offers.

Everything that a server says is text of somebody else. So it gets into the module as a string literal, as a docstring
without special characters, or as a name made of ASCII letters, digits and underscores, and never as code.

Rules of this file:

1. An object with known members becomes a `TypedDict`, an enumeration a `Literal`, and what Python's types cannot say is
   `Any`. A schema is never refused.
2. A reference becomes the class of its target. Other targets are written out, except one that contains itself, which
   becomes an alias.
3. A name that is a keyword, is taken, or would hide a type that annotations use gets another name.
4. The made module uses only what it needs, because strict type checkers complain about unused imports and functions.

Specification: https://json-schema.org/draft/2020-12 and https://typing.python.org/en/latest/spec/typeddict.html
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from attrs import define, field, frozen

from .. import types
from ..wire import JsonObject, is_array, is_object
from ._commands import Job
from ._errors import UsageError

__all__ = ["stubs", "written_module"]


async def stubs(job: Job) -> None:
    """Print a Python module with a typed client of the server.

    Raises:
        UsageError: the output shall be JSON.
    """
    if job.options.json:
        raise UsageError("stubs prints a Python module, not JSON")
    client = job.client
    offered, info = client.server_capabilities, client.server_info
    module = written_module(
        "server" if info is None else info.name,
        "" if info is None else info.version,
        tools=[each async for each in client.tools()] if offered.tools is not None else [],
        prompts=[each async for each in client.prompts()] if offered.prompts is not None else [],
        resources=[each async for each in client.resources()] if offered.resources is not None else [],
        templates=[each async for each in client.resource_templates()] if offered.resources is not None else [],
    )
    job.output.line(module)


# --- Names ---

_FROM_TYPING = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict", "cast")
_FROM_HERE = ("Client", "RemoteProtocolError", "types")
_USED = ("bool", "dict", "float", "int", "list", "quote", "self", "str")
_RESERVED = frozenset({*keyword.kwlist, *_FROM_TYPING, *_FROM_HERE, *_USED})
"""The names that get another one (rule 3)."""
_PLAIN_KEY = re.compile(r"[a-z][a-z0-9_]*")
_MOST_LEVELS = 60
"""The levels of a schema that are written out."""
_REFERENCE = re.compile(r'"\$ref": ("(?:[^"\\]|\\.)*")')


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", text)


def _class_name(text: str) -> str:
    """Return a name for a class, such as ``AddNote`` for ``add-note``."""
    name = "".join(word[0].upper() + word[1:] for word in _words(text))
    return name if name[:1].isalpha() else f"Type{name}"


def _plain_name(text: str, otherwise: str) -> str:
    """Return a name for a function or parameter, such as ``add_note`` for ``add-note``."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text).strip("_")
    if not name:
        return otherwise
    if name[0].isdigit():
        name = f"{otherwise}_{name}"
    return f"{name}_" if name in _RESERVED else name


@define(eq=False)
class _Names:
    """The names that are taken in one place of the module."""

    _taken: set[str] = field(factory=lambda: set(_RESERVED))

    def take(self, wanted: str) -> str:
        """Return *wanted*, or the same with a number if that is taken."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted.rstrip('_')}_{number}"
        self._taken.add(name)
        return name


# --- Text ---


def _literal(value: str) -> str:
    """Return a string literal of printable characters."""
    return '"' + "".join(_escaped(each, '"\\') for each in value) + '"'


def _escaped(character: str, special: str) -> str:
    if character in special:
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _docstring(text: str | None, indent: str) -> list[str]:
    """Return the lines of a docstring; none if there is no text."""
    lines = ["".join(_escaped(each, '"\\') for each in line) for line in (text or "").strip().splitlines()]
    if not lines:
        return []
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}".rstrip() for line in lines[1:]), f'{indent}"""']


# --- Types ---

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_ANY = ("Any",)


@define(eq=False)
class _TypeWriter:
    """Makes Python types of JSON Schemas, and collects their declarations."""

    declarations: list[str] = field(factory=list[str], init=False)
    names: _Names = field(factory=_Names, init=False)
    _classes: dict[str, str] = field(factory=dict[str, str], init=False)
    """The names of the classes, by their schemas, so that tools share them."""
    _open: dict[str, tuple[int, str]] = field(factory=dict[str, tuple[int, str]], init=False)
    """The referenced schemas that are being written out, with their levels and the names of their aliases."""
    _used: set[str] = field(factory=set[str], init=False)
    """The names of aliases that are needed (rule 2)."""
    _aliases: dict[str, str] = field(factory=dict[str, str], init=False)
    """The names of the aliases, by their schemas."""
    _level: int = field(default=0, init=False)

    def written(self, schema: Any, root: JsonObject, hint: str) -> str:
        """Return the type of the values that *schema* describes.

        Args:
            root: the whole schema, to which references refer.
            hint: the name of a class that is made for it, unless the schema has a title.
        """
        return " | ".join(self.kinds(schema, root, hint))

    def kinds(self, schema: Any, root: JsonObject, hint: str) -> tuple[str, ...]:
        """Return the alternatives of a type, each once."""
        if not is_object(schema) or self._level > _MOST_LEVELS:
            return _ANY
        if isinstance(schema.get("$ref"), str):
            return self._referenced(schema["$ref"], root)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if is_array(values) and values:
            return _enumerated(values)
        if is_array(schema.get("allOf")):
            schema = merged(schema, root)
        if is_object(schema.get("properties")) and schema["properties"]:
            return (self._record(schema, root, hint),)
        for word in ("anyOf", "oneOf"):
            if is_array(schema.get(word)):
                branches = [self.kinds(each, root, f"{hint}{number}") for number, each in enumerate(schema[word], 1)]
                return _united(kind for branch in branches for kind in branch)
        return self._of_type(schema, root, hint)

    def _of_type(self, schema: JsonObject, root: JsonObject, hint: str) -> tuple[str, ...]:
        named = schema.get("type")
        if named is None:
            named = "array" if "items" in schema else "object" if "additionalProperties" in schema else None
        kinds: list[str] = []
        for each in named if is_array(named) else [named]:
            if each == "array":
                kinds.append(f"list[{self._items(schema, root, hint)}]")
            elif each == "object":
                kinds.append(f"dict[str, {self._inside(schema.get('additionalProperties'), root, f'{hint}Value')}]")
            else:
                kinds.append(_SCALARS.get(each, "Any") if isinstance(each, str) else "Any")
        return _united(kinds)

    def _items(self, schema: JsonObject, root: JsonObject, hint: str) -> str:
        first = schema.get("prefixItems")
        places: list[Any] = [*first] if is_array(first) else []
        if schema.get("items") is not False and (not places or "items" in schema):
            places.append(schema.get("items"))
        with self._nested():
            found = [self.kinds(each, root, f"{hint}Item") for each in places]
        return " | ".join(_united(kind for each in found for kind in each))

    def _inside(self, schema: Any, root: JsonObject, hint: str) -> str:
        with self._nested():
            return " | ".join(self.kinds(schema, root, hint))

    @contextmanager
    def _nested(self) -> Generator[None]:
        self._level += 1
        try:
            yield
        finally:
            self._level -= 1

    def _referenced(self, reference: str, root: JsonObject) -> tuple[str, ...]:
        target = resolved(reference, root)
        if not is_object(target):
            return _ANY
        hint = _class_name(reference.rpartition("/")[2].removeprefix("#") or "Root")
        if is_object(target.get("properties")) and target["properties"]:
            return (self._record(target, root, hint),)
        key = _key(target, root)
        if key in self._aliases:
            return (self._aliases[key],)
        if key in self._open:
            level, name = self._open[key]
            if level == self._level:  # it is itself, which no value ever is
                return _ANY
            self._used.add(name)
            return (name,)
        name = self.names.take(hint)
        self._open[key] = self._level, name
        try:
            kinds = self.kinds(target, root, hint)
        finally:
            del self._open[key]
        if name not in self._used:
            return kinds
        self._aliases[key] = name
        self.declarations.append(f"{name}: TypeAlias = {_literal(' | '.join(kinds))}")
        return (name,)

    def _record(self, schema: JsonObject, root: JsonObject, hint: str) -> str:
        """Return the name of the `TypedDict` for an object with known members."""
        key = _key(schema, root)
        if key in self._classes:
            return self._classes[key]
        title = schema.get("title")
        name = self.names.take(_class_name(title) if isinstance(title, str) and _words(title) else hint)
        self._classes[key] = name
        with self._nested():
            members = [
                (member, self._member(member, each, schema, root, f"{name}{_class_name(member)}"), _text_of(each))
                for member, each in schema["properties"].items()
            ]
        plain = all(_PLAIN_KEY.fullmatch(member) and member not in _RESERVED for member, _, _ in members)
        about = _text_of(schema)
        self.declarations.append(_class_of(name, about, members) if plain else _call_of(name, about, members))
        return name

    def _member(self, member: str, schema: Any, parent: JsonObject, root: JsonObject, hint: str) -> str:
        required = parent.get("required")
        written = self.written(schema, root, hint)
        if is_array(required) and member in required:
            return written
        return f"NotRequired[{written}]"


def _class_of(name: str, about: str, members: Iterable[tuple[str, str, str]]) -> str:
    lines = [f"class {name}(TypedDict):", *_docstring(about, "    "), *([""] if about else [])]
    for member, written, described in members:
        lines += [f"    {member}: {written}", *_docstring(described, "    ")]
    return "\n".join(lines)


def _call_of(name: str, about: str, members: Iterable[tuple[str, str, str]]) -> str:
    """Return the declaration of a `TypedDict` whose keys cannot all be names."""
    lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
    lines += [f"        {_literal(member)}: {_literal(written)}," for member, written, _ in members]
    return "\n".join([*lines, "    },", ")", *_docstring(about, "")])


def _text_of(schema: Any) -> str:
    text = schema.get("description") if is_object(schema) else None
    return text.strip() if isinstance(text, str) else ""


def _key(schema: JsonObject, root: JsonObject) -> str:
    """Return a string that is the same for schemas that mean the same, with everything that they refer to."""
    targets: dict[str, str] = {}
    pending = [json.dumps(schema, sort_keys=True)]
    while pending:
        for found in _REFERENCE.findall(pending.pop()):
            if found not in targets:
                targets[found] = json.dumps(resolved(json.loads(found), root), sort_keys=True)
                pending.append(targets[found])
    return json.dumps([schema, targets], sort_keys=True)


def _enumerated(values: Sequence[Any]) -> tuple[str, ...]:
    """Return the type of an enumeration: a `Literal` if all of its values may be in one."""
    written = [_written_value(each) for each in values]
    if None not in written:
        return (f"Literal[{', '.join(dict.fromkeys(each for each in written if each is not None))}]",)
    return _united(_class_of_value(each) for each in values)


def _written_value(value: Any) -> str | None:
    """Return the source text of a scalar; None for other values."""
    if isinstance(value, str):
        return _literal(value)
    return repr(value) if value is None or isinstance(value, bool | int) else None


def _class_of_value(value: Any) -> str:
    if is_array(value):
        return "list[Any]"
    if is_object(value):
        return "dict[str, Any]"
    return "None" if value is None else type(value).__name__


def _united(kinds: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(kinds))
    return _ANY if not found or "Any" in found else found


def resolved(reference: str, root: JsonObject) -> Any:
    """Return the schema at a reference inside of *root*; None if there is none, or it is elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if is_object(found) else None
    return found


def merged(schema: JsonObject, root: JsonObject, level: int = 0) -> JsonObject:
    """Return a schema that has the members of its `allOf` and of references in it."""
    parts: list[Any] = [{name: each for name, each in schema.items() if name not in {"allOf", "$ref"}}]
    if isinstance(schema.get("$ref"), str):
        parts.append(resolved(schema["$ref"], root))
    every = schema.get("allOf")
    parts += every if is_array(every) else []
    result: JsonObject = {}
    for number, part in enumerate(parts):
        if not is_object(part) or level > _MOST_LEVELS:
            continue
        flat = merged(part, root, level + 1) if number else part
        members = {**result.get("properties", {}), **_object_at(flat, "properties")}
        required = [*result.get("required", []), *_array_at(flat, "required")]
        result = {**flat, **result, "properties": members, "required": required}
    return result


def _object_at(schema: JsonObject, name: str) -> JsonObject:
    found = schema.get(name)
    return found if is_object(found) else {}


def _array_at(schema: JsonObject, name: str) -> Sequence[Any]:
    found = schema.get(name)
    return found if is_array(found) else ()


# --- The module ---


@frozen
class _Parameter:
    """One parameter of a method."""

    name: str
    key: str
    """Its name in the message."""
    kind: str
    default: str | None = None
    """The source text of its default; None if it is required."""
    about: str = ""


@define(eq=False)
class _ModuleWriter:
    """The methods of the client class."""

    writer: _TypeWriter = field(factory=_TypeWriter, init=False)
    methods: list[str] = field(factory=list[str], init=False)
    helpers: dict[str, str] = field(factory=dict[str, str], init=False)
    """The private methods that are used, by name."""
    _names: _Names = field(factory=_Names, init=False)

    def add_tool(self, tool: types.Tool) -> None:
        """Add the method that calls a tool."""
        schema = merged(tool.input_schema, tool.input_schema)
        parameters = self._parameters(schema, tool)
        arguments = f"{{{', '.join(f'{_literal(each.key)}: {each.name}' for each in parameters)}}}"
        if _is_open(schema):
            parameters, arguments = [_Parameter("arguments", "", "dict[str, Any]")], "arguments"
        result, member = self._result(tool)
        self._use("_call")
        call = f"self._call({_literal(tool.name)}, {arguments})"
        if result is None:
            result, body = "types.CallToolResult", f"return await {call}"
        else:
            self._use("_structured")
            content = f"self._structured({_literal(tool.name)}, await {call}){member}"
            body = f"return {content}" if result == "Any" else f"return cast({_literal(result)}, {content})"
        self._add(_plain_name(tool.name, "tool"), parameters, result, tool.description, body)

    def _parameters(self, schema: JsonObject, tool: types.Tool) -> list[_Parameter]:
        names, required = _Names(), _array_at(schema, "required")
        found: list[_Parameter] = []
        for key, each in _object_at(schema, "properties").items():
            kind = self.writer.written(each, tool.input_schema, _class_name(tool.name) + _class_name(key))
            default = None if key in required else _default_of(each, kind)
            if default == "types.UNSET" and kind != "Any":
                kind += " | types.Unset"
            found.append(_Parameter(names.take(_plain_name(key, "value")), key, kind, default, _text_of(each)))
        return found

    def _result(self, tool: types.Tool) -> tuple[str | None, str]:
        """Return the type of the structured content, and the subscript at which it holds the result, if it does."""
        root = tool.output_schema
        if root is None:
            return None, ""
        schema, hint = merged(root, root), f"{_class_name(tool.name)}Result"
        members = _object_at(schema, "properties")
        if [*members] == ["result"] and "result" in _array_at(schema, "required"):  # a value that is no object
            return self.writer.written(members["result"], root, hint), '["result"]'
        return self.writer.written(root, root, hint), ""

    def add_prompt(self, prompt: types.Prompt) -> None:
        """Add the method that gets a prompt."""
        self._use("_prompt")
        names = _Names()
        parameters = [
            _Parameter(
                names.take(_plain_name(each.name, "value")),
                each.name,
                "str" if each.required else "str | types.Unset",
                None if each.required else "types.UNSET",
                each.description or "",
            )
            for each in prompt.arguments or ()
        ]
        arguments = f"{{{', '.join(f'{_literal(each.key)}: {each.name}' for each in parameters)}}}"
        body = f"return await self._prompt({_literal(prompt.name)}, {arguments})"
        name = f"prompt_{_plain_name(prompt.name, 'named').rstrip('_')}"
        self._add(name, parameters, "types.GetPromptResult", prompt.description, body)

    def add_resource(self, resource: types.Resource) -> None:
        """Add the method that reads a resource."""
        body = f"return await self._client.read_resource({_literal(resource.uri)})"
        name = f"read_{_plain_name(resource.name, 'resource').rstrip('_')}"
        self._add(name, [], "types.ReadResourceResult", resource.description, body)

    def add_template(self, template: types.ResourceTemplate) -> None:
        """Add the method that reads a resource of a template."""
        parts = re.split(r"\{([A-Za-z0-9_.]+)\}", template.uri_template)
        uri, names = "uri", _Names()
        parameters = [_Parameter("uri", "", "str", None, f"made by {template.uri_template}")]
        if not any("{" in text for text in parts[::2]):
            parameters = [
                _Parameter(names.take(_plain_name(each, "value")), each, "str") for each in dict.fromkeys(parts[1::2])
            ]
            named = {each.key: each.name for each in parameters}
            pieces = [
                f'quote({named[part]}, safe="")' if number % 2 else _literal(part) for number, part in enumerate(parts)
            ]
            uri = " + ".join(piece for piece in pieces if piece != '""')
        body = f"return await self._client.read_resource({uri})"
        name = f"read_{_plain_name(template.name, 'template').rstrip('_')}"
        self._add(name, parameters, "types.ReadResourceResult", template.description, body)

    def _add(self, wanted: str, parameters: Sequence[_Parameter], result: str, about: str | None, body: str) -> None:
        required = [f"{each.name}: {each.kind}" for each in parameters if each.default is None]
        optional = [f"{each.name}: {each.kind} = {each.default}" for each in parameters if each.default is not None]
        given = ", ".join(["self", *required, *(["*"] if optional else []), *optional])
        described = [f"    {each.name}: {' '.join(each.about.split())}" for each in parameters if each.about]
        text = "\n".join([(about or "").strip(), *(["", "Args:", *described] if described else [])])
        lines = [f"    async def {self._names.take(wanted)}({given}) -> {result}:", *_docstring(text, "        ")]
        self.methods.append("\n".join([*lines, f"        {body}"]))

    def _use(self, helper: str) -> None:
        self.helpers[helper] = _HELPERS[helper]


_HELPERS: Mapping[str, str] = {
    "_call": """\
    async def _call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        given = {key: value for key, value in arguments.items() if value is not types.UNSET}
        return await self._client.call_tool(name, given, raise_on_error=True)""",
    "_structured": """\
    def _structured(self, name: str, result: types.CallToolResult) -> Any:
        if result.structured_content is types.UNSET:
            raise RemoteProtocolError(f"tool {name!r} promises structured content, but its result has none")
        return result.structured_content""",
    "_prompt": """\
    async def _prompt(self, name: str, arguments: dict[str, str | types.Unset]) -> types.GetPromptResult:
        given = {key: value for key, value in arguments.items() if not isinstance(value, types.Unset)}
        return await self._client.get_prompt(name, given)""",
}


def _is_open(schema: JsonObject) -> bool:
    """Return True if the arguments cannot be named, because the schema names none but describes some."""
    words = ("anyOf", "oneOf", "patternProperties", "if")
    extra = is_object(schema.get("additionalProperties"))
    return not _object_at(schema, "properties") and (extra or any(word in schema for word in words))


def _default_of(schema: Any, kind: str) -> str:
    """Return the default of an optional parameter: that of the schema if it is a scalar of the right type."""
    if not is_object(schema) or "default" not in schema:
        return "types.UNSET"
    value = schema["default"]
    written = repr(value) if isinstance(value, float) else _written_value(value)
    fits = kind == "Any" or _class_of_value(value) in kind.split(" | ") or value in _array_at(schema, "enum")
    return written if written is not None and fits else "types.UNSET"


def written_module(
    name: str,
    version: str,
    *,
    tools: Iterable[types.Tool] = (),
    prompts: Iterable[types.Prompt] = (),
    resources: Iterable[types.Resource] = (),
    templates: Iterable[types.ResourceTemplate] = (),
) -> str:
    """Return the source text of a module with a typed client.

    Args:
        name: the name of the server.
        version: the version of the server.
        tools: become methods of their names.
        prompts: become methods ``prompt_NAME``.
        resources: become methods ``read_NAME``.
        templates: become methods ``read_NAME``, with a parameter for each variable.
    """
    made = _ModuleWriter()
    client = made.writer.names.take(f"{_class_name(name).removesuffix('Server')}Client")
    for tool in tools:
        made.add_tool(tool)
    for prompt in prompts:
        made.add_prompt(prompt)
    for resource in resources:
        made.add_resource(resource)
    for template in templates:
        made.add_template(template)
    about = f"A typed client of the MCP server {name} {version}".rstrip()
    members = [
        f"class {client}:\n" + "\n".join(_docstring(f"{about}. Make it of an open client.", "    ")),
        "    def __init__(self, client: Client) -> None:\n        self._client = client",
        *made.methods,
        *made.helpers.values(),
    ]
    code = "\n\n\n".join([*made.writer.declarations, "\n\n".join(members)])
    used = _names_in(ast.parse(code))
    imports = [
        ("typing", sorted(used.intersection(_FROM_TYPING))),
        ("urllib.parse", sorted(used.intersection(["quote"]))),
        ("trio_mcp", sorted(used.intersection(_FROM_HERE))),
    ]
    lines = [f"from {module} import {', '.join(names)}" for module, names in imports if names]
    lines.insert(-1, "")
    head = "\n".join(_docstring(f"{about}, made by `trio-mcp stubs`.", ""))
    return "\n\n".join([head, "from __future__ import annotations", "\n".join(lines).lstrip("\n"), f"\n{code}\n"])


def _names_in(node: ast.AST) -> set[str]:
    """Return the names that a part of the module uses, those in types that are strings included (rule 4)."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Subscript(value=ast.Name(id="Literal")):
            return {"Literal"}
        case ast.Call(func=ast.Name(id="cast"), args=[ast.Constant(value=str(text)), value]):
            return {"cast"} | _names_in(ast.parse(text)) | _names_in(value)
        case ast.Call(func=ast.Name(id="TypedDict"), args=[_, ast.Dict(values=values)]):
            texts = [cast("ast.Constant", each).value for each in values]
            return {"TypedDict"}.union(*(_names_in(ast.parse(str(text))) for text in texts))
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias"), value=ast.Constant(value=str(text))):
            return {"TypeAlias"} | _names_in(ast.parse(text))
        case _:
            return set[str]().union(*map(_names_in, ast.iter_child_nodes(node)))
