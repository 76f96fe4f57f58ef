"""The generated types as JSON Schema, with a switch for every way in which they accept more than upstream.

`judge` shows that this description is exact: it and the converter give the same verdict on every message. So each
message that upstream rejects and the converter accepts is explained by a named switch, and no leniency is accidental.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from codegen.choices import JSON_MEMBERS, META_MEMBER
from codegen.merge import Differences, Merged
from codegen.shapes import JSON_OBJECT, Definitions, Schema, is_class, rebuild, ref, references, target


class Leniency(Enum):
    """A reason to accept a message that the upstream schema rejects."""

    NULL = "null for a member that may be left out counts as left out"
    CAPABILITY = "a wrongly shaped member of a capability object is kept, not refused"
    PLAIN_JSON = "a tool's schemas, and the params of a message without a method of its own, are any object"
    WIDER = "another revision allows it: a type is as wide as its widest revision"
    META = "`_meta` is any object: a caller can check it by its class"
    FORM = "the form of a string is not checked"
    REPAIR = "the upstream schema has a known mistake, repaired here"


NO_SWITCH: frozenset[Leniency] = frozenset()
SWITCHES = frozenset({Leniency.NULL, Leniency.CAPABILITY, Leniency.PLAIN_JSON, Leniency.WIDER})


def model(merged: Merged, normalised: dict[str, Any], leniencies: frozenset[Leniency]) -> Definitions:
    """Return definitions that accept what the generated types accept in one revision.

    Args:
        merged: all revisions.
        normalised: the normal form of the revision.
        leniencies: the switches that are on.
    """
    revision = normalised["revision"]
    own = merged.own[revision]
    definitions: Definitions = {"JSONObject": JSON_OBJECT}
    for name, joined in merged.definitions.items():
        schema = own.get(name, joined)
        if Leniency.WIDER in leniencies and name in own:
            schema = _widened(name, schema, joined, merged.profiles[revision])
        if is_class(schema):
            schema = _with_meta(name, schema, merged.profiles[revision] if name in own else merged.superset)
            if Leniency.PLAIN_JSON not in leniencies and name in normalised["$defs"]:
                schema = _with_upstream_json(name, schema, normalised["$defs"])
            schema = loosened(schema, name in merged.lenient, leniencies)
        definitions[name] = schema
    return _with_referenced(definitions, normalised["$defs"])


def _widened(name: str, own: Schema, joined: Schema, profile: Differences) -> Schema:
    """Give the members of a class their joined types, but keep the set of members and the limits of the revision."""
    if not is_class(own):
        return joined
    limits = profile.bounds.get(name, {})
    members = {member: {**joined["properties"][member], **limits.get(member, {})} for member in own["properties"]}
    return {**own, "properties": members}


def _with_meta(name: str, schema: Schema, profile: Differences) -> Schema:
    meta = profile.metas.get(name)
    if meta is None or META_MEMBER not in schema["properties"]:
        return schema
    return {**schema, "properties": {**schema["properties"], META_MEMBER: ref(meta)}}


def _with_upstream_json(name: str, schema: Schema, upstream: Definitions) -> Schema:
    members = {
        member: upstream[name]["properties"][member] if (name, member) in JSON_MEMBERS else inner
        for member, inner in schema["properties"].items()
    }
    return {**schema, "properties": members}


def loosened(schema: Schema, lenient: bool, leniencies: frozenset[Leniency]) -> Schema:
    """Return the schema of a class whose optional members admit what the converter ignores.

    Args:
        schema: the schema.
        lenient: whether the class keeps members of the wrong type.
        leniencies: the switches that are on.
    """
    required = schema.get("required", ())

    def loosen(member: str, inner: Schema) -> Schema:
        if member in required or not inner:
            return inner
        if lenient and Leniency.CAPABILITY in leniencies:
            return {}
        return {"anyOf": [inner, {"type": "null"}]} if Leniency.NULL in leniencies else inner

    return {**schema, "properties": {member: loosen(member, inner) for member, inner in schema["properties"].items()}}


def _with_referenced(definitions: Definitions, upstream: Definitions) -> Definitions:
    """Add the definitions that only the upstream schemas of such members refer to, and expand plain JSON."""
    waiting = list(definitions)
    while waiting:
        for name in references(definitions[waiting.pop()]):
            if name not in definitions:
                definitions[name] = upstream[name]
                waiting.append(name)

    def unfold(schema: Schema) -> Schema:
        return JSON_OBJECT if target(schema) == "JSONObject" else rebuild(schema, unfold)

    return {name: unfold(schema) for name, schema in definitions.items()}
