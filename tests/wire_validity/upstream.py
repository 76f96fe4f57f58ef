"""The specification's own schema files as a judge: the definition that a message must meet, and whether it does.

Everything is derived from the files themselves and their naming, not from the package's method table, because that
table is under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jsonschema_rs
from attrs import define, field, frozen

from tests.wire_validity.tap import Role
from trio_mcp.wire import is_array, is_object

Json: TypeAlias = Any

INPUT_REQUIRED = "InputRequiredResult"
_DEEPEST = 200
"""The number of levels of an invalid message that the validator gets; it cannot process many more."""
_ROLES: tuple[Role, ...] = ("client", "server")
_ANSWERED_BY_NOTHING = frozenset({"PingRequest", "SetLevelRequest", "SubscribeRequest", "UnsubscribeRequest"})
"""The requests whose result is an EmptyResult. Without this list any result would be valid for a request that has no
result definition of its own."""


class ExtensionFacts(NamedTuple):
    """The facts about an extension that its file does not state."""

    id: str
    """The name under which it is declared."""
    declared_by_client: bool
    """True if it is in force only for requests that declare it."""
    since: str
    """The oldest revision in which it is used."""


EXTENSIONS: Mapping[str, ExtensionFacts] = {
    "skills": ExtensionFacts("io.modelcontextprotocol/skills", declared_by_client=False, since="2024-11-05"),
    "tasks": ExtensionFacts("io.modelcontextprotocol/tasks", declared_by_client=True, since="2026-07-28"),
}
"""The extensions whose messages pass between clients and servers, by the names of their files."""


@frozen
class Extension:
    """The file of one extension. Its requests are those of clients, and its notifications those of servers."""

    name: str
    document: Mapping[str, Json]

    @property
    def facts(self) -> ExtensionFacts:
        return EXTENSIONS[self.name]

    @property
    def definitions(self) -> Mapping[str, Json]:
        """The file's definitions by name."""
        return self.document["$defs"]  # type: ignore[no-any-return] # a JSON file, checked against its pin

    @cached_property
    def methods(self) -> Mapping[tuple[Role, str], str]:
        """The definitions of requests and notifications, by the role of the sender and the method."""
        found: dict[tuple[Role, str], str] = {}
        for name, definition in self.definitions.items():
            method = _constant(definition, "method")
            if method is not None:
                found["server" if name.endswith("Notification") else "client", method] = name
        return found

    def defines(self, role: Role, method: str) -> str | None:
        """Return the definition of a message; None if it is not of this extension."""
        return self.methods.get((role, method))

    def of_result_type(self, result_type: Json) -> str | None:
        """Return the definition of the results of a type that no revision has; None if the extension has none."""
        names = (name for name, each in self.definitions.items() if _constant(each, "resultType") == result_type)
        return next(names, None)


@frozen
class Part:
    """The definitions for one part of a message."""

    definitions: tuple[str, ...]
    """The names of the definitions, all of which apply."""
    path: tuple[str, ...] = ()
    """The path of the part in the message; the whole message by default."""


@define(eq=False)
class Revision:
    """One upstream file."""

    name: str
    document: Mapping[str, Json]
    extensions: Sequence[Extension] = ()
    """The extensions that are used in this revision."""
    _validators: dict[tuple[str, ...], jsonschema_rs.Validator] = field(factory=dict[Any, Any], init=False)

    @cached_property
    def _container(self) -> str:
        return "$defs" if "$defs" in self.document else "definitions"

    @cached_property
    def definitions(self) -> Mapping[str, Json]:
        """The file's definitions by name."""
        return self.document[self._container]  # type: ignore[no-any-return] # a JSON file, checked against its pin

    @cached_property
    def methods(self) -> frozenset[str]:
        """The methods of all definitions."""
        found = (_constant(definition, "method") for definition in self.definitions.values())
        return frozenset(method for method in found if method is not None)

    @cached_property
    def requests(self) -> Mapping[tuple[Role, str], str]:
        """The definitions of requests, by the role of the sender and the method."""
        return dict(self._sent("Request"))

    @cached_property
    def notifications(self) -> Mapping[tuple[Role, str], str]:
        """The definitions of notifications, by the role of the sender and the method."""
        return dict(self._sent("Notification"))

    def messages_of_extensions(self) -> Iterator[str]:
        """Yield the definitions, as ``extension:definition``, of the messages that extensions add to this revision."""
        for extension in self.extensions:
            for name, definition in extension.definitions.items():
                if _constant(definition, "resultType") not in {None, "complete"}:
                    yield f"{extension.name}:{name}"
            for (role, method), name in extension.methods.items():
                if method in self.methods:  # the file of an extension repeats requests that a server embeds in results
                    continue
                yield f"{extension.name}:{name}"
                if role == "client":
                    yield f"{extension.name}:{name.removesuffix('Request')}Result"

    def _sent(self, kind: str) -> Iterator[tuple[tuple[Role, str], str]]:
        for role in _ROLES:
            union = f"{role.title()}{kind}"
            for name in [union, *self._referred(self.definitions.get(union, {}))]:
                method = _constant(self.definitions.get(name, {}), "method")
                if method is not None:
                    yield (role, method), name

    def _referred(self, schema: Json) -> list[str]:
        arms = [schema, *schema.get("anyOf", ())]
        return [arm["$ref"].rpartition("/")[2] for arm in arms if "$ref" in arm]

    @cached_property
    def needs_id_in_errors(self) -> bool:
        """True if even an error for a request with an unreadable id must have an id."""
        return "id" in self.definitions[self.error]["required"]

    @property
    def result(self) -> str:
        """The name of the definition of a response with a result, which differs between revisions."""
        return "JSONRPCResultResponse" if "JSONRPCResultResponse" in self.definitions else "JSONRPCResponse"

    @property
    def error(self) -> str:
        """The name of the definition of a response with an error, which differs between revisions."""
        return "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in self.definitions else "JSONRPCError"

    def for_result(self, role: Role, method: str, params: Json, result: Json) -> list[Part]:
        """Return the definitions for a result: that of the response if there is one, and that of the result."""
        request = self.requests[role, method]
        base = request.removesuffix("Request")
        own = f"{base}ResultResponse"
        whole = Part((own, self.result) if own in self.definitions else (self.result,))
        return [whole, Part((self._result_of(request, own, params, result),), ("result",))]

    def _result_of(self, request: str, response: str, params: Json, result: Json) -> str:
        """Return the definition of a result; of several, the one that the result names."""
        if request in _ANSWERED_BY_NOTHING:
            return "EmptyResult"
        possible = self._referred(self.definitions.get(response, {}).get("properties", {}).get("result", {}))
        if INPUT_REQUIRED in possible and _has(result, "resultType") and result["resultType"] == "input_required":
            return INPUT_REQUIRED
        if "CreateTaskResult" in self.definitions and _has(params, "task") and _has(result, "task"):
            return "CreateTaskResult"
        return f"{request.removesuffix('Request')}Result"

    def for_request_of_extension(self, extension: Extension, request: str, message: Json) -> list[Part]:
        """Return the definitions for a request of an extension: its own, and those of every request."""
        whole = Part(("JSONRPCMessage", "JSONRPCRequest", f"{extension.name}:{request}"))
        has_params = "RequestParams" in self.definitions and "params" in message
        return [whole, Part(("RequestParams",), ("params",))] if has_params else [whole]

    def for_result_of_extension(self, extension: Extension, definition: str) -> list[Part]:
        """Return the definitions for a result of an extension: its own, and those of every result."""
        members = extension.definitions[definition].get("properties", {})
        base = "CacheableResult" if "ttlMs" in members and "cacheScope" in members else "Result"
        shared = (base,) if base in self.definitions else ()
        whole = Part(("JSONRPCMessage", self.result))
        return [whole, Part((f"{extension.name}:{definition}", *shared), ("result",))]

    def for_error(self, code: Json) -> list[Part]:
        """Return the definitions for an error: that of every error, and that of its code if there is one."""
        whole, body = self._by_code.get(code, ((), ())) if type(code) is int else ((), ())
        return [Part(("JSONRPCMessage", self.error, *whole)), *([Part(body, ("error",))] if body else [])]

    @cached_property
    def _by_code(self) -> Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]]:
        """For each error code the definitions of whole responses, and those of the member `error`."""
        found: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        for name, definition in self.definitions.items():
            of_response = self._code(definition.get("properties", {}).get("error", {}))
            of_body = self._code(definition)
            if of_response is not None:
                whole, body = found.get(of_response, ((), ()))
                found[of_response] = ((*whole, name), body)
            if of_body is not None:
                whole, body = found.get(of_body, ((), ()))
                found[of_body] = (whole, (*body, name))
        return found

    def _code(self, schema: Json) -> int | None:
        if "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        codes = [_constant(part, "code") for part in (schema, *schema.get("allOf", ()))]
        return next((code for code in codes if type(code) is int), None)

    def faults(self, part: Part, message: Json) -> list[str]:
        """Return the faults of a part of a message, each with its path; an empty list if it is valid."""
        value = message
        for member in part.path:
            value = value[member]
        validator = self._validator(part.definitions)
        if validator.is_valid(value):
            return []
        return [
            f"{'.'.join(map(str, ('$', *part.path, *error.instance_path)))}: {error.message[:300]}"
            for error in validator.iter_errors(pruned(value))
        ]

    @cached_property
    def _of_extensions(self) -> Mapping[str, Json]:
        """The definitions of the extensions, each under the name of its extension."""
        return {
            f"{extension.name}:{name}": self._in_this_revision(definition, extension.name)
            for extension in self.extensions
            for name, definition in extension.definitions.items()
        }

    def _in_this_revision(self, schema: Json, extension: str) -> Json:
        """Return a schema of an extension whose references lead to the definitions of this file."""
        if is_array(schema):
            return [self._in_this_revision(each, extension) for each in schema]
        if not is_object(schema):
            return schema
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            inner = {key: self._in_this_revision(each, extension) for key, each in schema.items() if key != "$schema"}
            # A member of an object may have that name too.
            return {**inner, "$schema": schema["$schema"]} if is_object(schema.get("$schema")) else inner
        file, _, name = reference.partition("#/$defs/")
        if not file:
            return {"$ref": f"#/{self._container}/{extension}:{name}"}
        # Older revisions leave some definitions out: then any value is valid.
        return {"$ref": f"#/{self._container}/{name}"} if name in self.definitions else {}

    def _validator(self, names: tuple[str, ...]) -> jsonschema_rs.Validator:
        validator = self._validators.get(names)
        if validator is None:
            schema: dict[str, Json] = {self._container: {**self.definitions, **self._of_extensions}}
            schema["allOf"] = [{"$ref": f"#/{self._container}/{name}"} for name in names]
            if "$schema" in self.document:
                schema["$schema"] = self.document["$schema"]
            # The earlier dialect checks formats and the later one does not: here all are checked.
            validator = self._validators[names] = jsonschema_rs.validator_for(schema, validate_formats=True)
        return validator


@frozen
class Upstream:
    """The files of all revisions, oldest first."""

    revisions: Mapping[str, Revision]

    @classmethod
    def read(cls, paths: Mapping[str, Path], extensions: Mapping[str, Path]) -> Upstream:
        """Read the file of each revision and of each extension; raise `OSError` if one is missing."""
        documents = {name: json.loads(path.read_text("utf-8")) for name, path in paths.items()}
        known = [Extension(name, json.loads(path.read_text("utf-8"))) for name, path in extensions.items()]
        return cls(
            {
                name: Revision(name, document, [each for each in known if each.facts.since <= name])
                for name, document in documents.items()
            }
        )

    @property
    def names(self) -> Sequence[str]:
        """The revisions, oldest first."""
        return list(self.revisions)

    def knows(self, method: str) -> bool:
        """Return True if any revision has the method; a test has invented every other method."""
        return any(method in revision.methods for revision in self.revisions.values())


def _constant(definition: Json, member: str) -> Json:
    """Return the only value that a definition allows for a member; None if there is no such value."""
    found: Any = None
    for part in (definition, *definition.get("allOf", ())):
        schema = part.get("properties", {}).get(member)
        found = schema.get("const", found) if is_object(schema) else found
    return found


def _has(value: Json, member: str) -> bool:
    return is_object(value) and member in value


def pruned(value: Json, levels: int = _DEEPEST) -> Json:
    """Return a copy with null in place of everything below *levels* levels."""
    if is_object(value):
        return {key: pruned(each, levels - 1) for key, each in value.items()} if levels else None
    if is_array(value):
        return [pruned(each, levels - 1) for each in value] if levels else None
    return value
