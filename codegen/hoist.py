"""A definition for every inline object, because a class needs a name.

The name follows from the place (owner and member); a short table holds better names for some. The place of each object
is recorded, so that `merge` recognises the object if another revision defines it by name.
"""

from __future__ import annotations

from typing import NamedTuple

from codegen.shapes import Definitions, RefusedError, Schema, is_class, rebuild, ref

NAMES = {
    "ClientCapabilitiesElicitation": "ElicitationCapability",
    "ClientCapabilitiesRoots": "RootsCapability",
    "ClientCapabilitiesSampling": "SamplingCapability",
    "ClientCapabilitiesTasks": "ClientTasksCapability",
    "ClientTasksCapabilityRequests": "ClientTaskRequestsCapability",
    "ClientTaskRequestsCapabilityElicitation": "ElicitationTasksCapability",
    "ClientTaskRequestsCapabilitySampling": "SamplingTasksCapability",
    "CompleteRequestParamsArgument": "CompletionArgument",
    "CompleteRequestParamsContext": "CompletionContext",
    "CompleteResultCompletion": "Completion",
    "ElicitRequestFormParamsRequestedSchema": "ElicitRequestedSchema",
    "ElicitRequestParamsRequestedSchema": "ElicitRequestedSchema",
    "ServerCapabilitiesPrompts": "PromptsCapability",
    "ServerCapabilitiesResources": "ResourcesCapability",
    "ServerCapabilitiesTasks": "ServerTasksCapability",
    "ServerCapabilitiesTools": "ToolsCapability",
    "ServerTasksCapabilityRequests": "ServerTaskRequestsCapability",
    "ServerTaskRequestsCapabilityTools": "ToolTasksCapability",
    "TitledEnumItemsAnyOf": "EnumOption",
    "TitledMultiSelectEnumSchemaItems": "TitledEnumItems",
    "TitledSingleSelectEnumSchemaOneOf": "EnumOption",
    "UntitledMultiSelectEnumSchemaItems": "UntitledEnumItems",
}


class Hoist(NamedTuple):
    """The place of a named inline object."""

    owner: str
    member: str


def hoist_inline_objects(
    definitions: Definitions, earlier: dict[str, Hoist], source: str
) -> tuple[Definitions, dict[str, Hoist]]:
    """Return the definitions with every inline object moved out, and the place of each such object.

    Args:
        definitions: flattened definitions; not changed.
        earlier: places recorded when these definitions were normalised before.
        source: the revision or extension, for messages.
    """
    result: Definitions = {}
    hoisted = dict(earlier)
    waiting = list(definitions.items())
    while waiting:
        name, schema = waiting.pop(0)
        if name in result and result[name] != schema:
            raise RefusedError(f"{source}: {name} is the name of two different objects")
        result[name] = schema
        if not is_class(schema):
            _refuse_inline(schema, f"{source}: {name}")
            continue
        members: dict[str, Schema] = {}
        for member, inner in schema["properties"].items():
            moved: list[Schema] = []
            own_name = _name(name, member)
            members[member] = _move(inner, own_name, moved)
            if len(moved) > 1:
                raise RefusedError(f"{source}: {name}.{member} holds several inline objects: name them upstream")
            if moved:
                if own_name in definitions:
                    raise RefusedError(f"{source}: {name}.{member} would be named {own_name}, which is taken")
                hoisted.setdefault(own_name, Hoist(name, member))
                waiting.append((own_name, moved[0]))
        result[name] = {**schema, "properties": members}
    return result, hoisted


def _move(schema: Schema, name: str, moved: list[Schema]) -> Schema:
    if is_class(schema):
        moved.append(schema)
        return ref(name)
    return rebuild(schema, lambda inner: _move(inner, name, moved))


def _name(owner: str, member: str) -> str:
    word = member.lstrip("_$").rsplit("/", 1)[-1]
    # The errors of the specification are whole responses; only `error.data` becomes a class.
    base = owner.removesuffix("Object") if owner.endswith("ErrorObject") else owner
    name = f"{base}Object" if member == "error" else base + word[:1].upper() + word[1:]
    return NAMES.get(name, name)


def _refuse_inline(schema: Schema, place: str) -> None:
    moved: list[Schema] = []
    _move(schema, "", moved)
    if moved:
        raise RefusedError(f"{place} holds an inline object that has no member to be named after")
