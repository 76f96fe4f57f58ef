"""A definition for every inline object, because a class needs a name.

The name follows from the place (owner and member); a short table holds better names for some. Several objects of one
union are told apart by the constant member that tells their messages apart. The place of each object is recorded, so
that `merge` recognises the object if another revision defines it by name.
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
    """The member that holds it; of an object in a union, the member that tells the objects apart."""


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
        result[name], moved = _without_inline(name, schema, source)
        for own_name, (place, inner) in moved.items():
            if own_name in definitions:
                raise RefusedError(f"{source}: {name}.{place.member} would be named {own_name}, which is taken")
            hoisted.setdefault(own_name, place)
            waiting.append((own_name, inner))
    return result, hoisted


def _without_inline(name: str, schema: Schema, source: str) -> tuple[Schema, dict[str, tuple[Hoist, Schema]]]:
    """Return a definition that refers to its inline objects, and these by their new names."""
    if is_class(schema):
        members: dict[str, Schema] = {}
        found: dict[str, tuple[Hoist, Schema]] = {}
        for member, inner in schema["properties"].items():
            objects: Definitions = {}
            members[member] = _move(inner, _name(name, member), objects, f"{source}: {name}.{member}")
            found.update({each: (Hoist(name, member), moved) for each, moved in objects.items()})
        return {**schema, "properties": members}, found
    arms: Definitions = {}
    union = _move(schema, name, arms, f"{source}: {name}")
    if name in arms:
        raise RefusedError(f"{source}: {name} holds an inline object that has no member to be named after")
    tag, _ = _tags(schema) or ("", ())
    return union, {each: (Hoist(name, tag), moved) for each, moved in arms.items()}


def _move(schema: Schema, name: str, moved: Definitions, place: str) -> Schema:
    if is_class(schema):
        if name in moved:
            raise RefusedError(f"{place} holds several inline objects: name them upstream")
        moved[name] = schema
        return ref(name)
    _, words = _tags(schema) or ("", ())
    names = iter([name + word for word in words])
    return rebuild(schema, lambda inner: _move(inner, next(names, name) if is_class(inner) else name, moved, place))


def _tags(schema: Schema) -> tuple[str, list[str]] | None:
    """Return the member by which the objects of a union differ, and a word for each; None if there is none."""
    arms = [arm["properties"] for arm in schema.get("anyOf", ()) if is_class(arm)]
    for member in arms[0] if len(arms) > 1 else ():
        values = [str(arm.get(member, {}).get("const", "")) for arm in arms]
        if all(values) and len({*values}) == len(values):
            return member, ["".join(word.capitalize() for word in value.split("_")) for value in values]
    return None


def _name(owner: str, member: str) -> str:
    word = member.lstrip("_$").rsplit("/", 1)[-1]
    # The errors of the specification are whole responses; only `error.data` becomes a class.
    base = owner.removesuffix("Object") if owner.endswith("ErrorObject") else owner
    name = f"{base}Object" if member == "error" else base + word[:1].upper() + word[1:]
    return NAMES.get(name, name)
