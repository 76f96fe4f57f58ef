"""The merge of all revisions into one set of types, and the differences of each revision from them."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from codegen.align import Revision
from codegen.choices import LENIENT_ROOTS, PLAIN_JSON
from codegen.join import join
from codegen.refusals import refuse_inexpressible
from codegen.shapes import (
    BOUND_KEYS,
    Definitions,
    RefusedError,
    Schema,
    is_class,
    rebuild,
    references,
    wire_to_attribute,
)


@frozen(kw_only=True)
class Differences:
    """The rules that one revision (or, in the superset, every revision) adds to the merged types."""

    required: dict[str, list[str]]
    unknown: dict[str, list[str]]
    bounds: dict[str, dict[str, dict[str, float]]]
    metas: dict[str, str]


@frozen(kw_only=True)
class Merged:
    """The merged types of all revisions. Each type is as wide as in its widest revision."""

    definitions: Definitions
    own: dict[str, Definitions]
    """The definitions of these types in each revision."""
    hoisted_from: dict[str, str]
    """The containing definition of each class that is inline in its newest upstream revision, and the request of each
    response that upstream does not define."""
    revisions_of: dict[str, list[str]]
    profiles: dict[str, Differences]
    superset: Differences
    lenient: list[str]


def merge(revisions: list[Revision]) -> Merged:
    """Join the aligned revisions.

    Args:
        revisions: oldest first, with whole messages.

    Raises:
        RefusedError: no single type covers the descriptions of two revisions.
    """
    kept = {revision.name: _kept(revision) for revision in revisions}
    for revision in revisions:
        refuse_inexpressible(kept[revision.name], revision.label)
    newest_first = [revision.name for revision in reversed(revisions)]
    names = sorted({name for definitions in kept.values() for name in definitions})
    merged: Definitions = {}
    for name in names:
        versions = [(revision, kept[revision][name]) for revision in newest_first if name in kept[revision]]
        merged[name] = _join_definition(name, versions, kept)
    profiles = {revision.name: _differences(revision, kept[revision.name], merged) for revision in revisions}
    return Merged(
        definitions={name: _without_bounds(schema) for name, schema in merged.items()},
        own=kept,
        hoisted_from=_hoisted_from(revisions),
        revisions_of={name: [each.name for each in revisions if name in kept[each.name]] for name in names},
        profiles=profiles,
        superset=_superset(profiles, kept),
        lenient=_lenient(merged, {name for revision in revisions for name in revision.hoisted}),
    )


def _hoisted_from(revisions: list[Revision]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for revision in revisions:
        for name in revision.definitions:
            place = revision.hoisted.get(name)
            if place is not None:
                owners[name] = place.owner
            elif name in revision.responses:
                owners[name] = revision.responses[name]
            else:
                owners.pop(name, None)
    return owners


def _kept(revision: Revision) -> Definitions:
    """Return the definitions that become types: without plain JSON, and without inline objects that nothing uses."""
    chosen = {name: schema for name, schema in revision.definitions.items() if name not in PLAIN_JSON}
    metas = set(revision.metas.values())
    while True:
        used = metas.union(*map(references, chosen.values()))
        orphans = [name for name in chosen if name in revision.hoisted and name not in used]
        if not orphans:
            return chosen
        for name in orphans:
            del chosen[name]


def _join_definition(name: str, versions: list[tuple[str, Schema]], kept: dict[str, Definitions]) -> Schema:
    if len({is_class(schema) for _, schema in versions}) > 1:
        raise RefusedError(
            f"{name} is a class in one of the revisions {', '.join(revision for revision, _ in versions)} "
            f"and not in another: declare a rename in codegen/choices.py"
        )
    if not is_class(versions[0][1]):
        (_, joined), *older = versions
        for revision, schema in older:
            joined = join(joined, schema, f"{name} (revision {revision})", kept)
        return joined
    members: dict[str, Schema] = {}
    for revision, schema in versions:
        for member, inner in schema["properties"].items():
            place = f"{name}.{member} (revision {revision})"
            members[member] = join(members[member], inner, place, kept) if member in members else inner
    _check_attributes(name, members)
    required: set[str] = set(members)
    for _, schema in versions:
        required &= set(schema.get("required", ()))
    return {
        "properties": {each: members[each] for each in sorted(members)},
        "required": sorted(required),
        "type": "object",
    }


def _check_attributes(name: str, members: dict[str, Schema]) -> None:
    seen: dict[str, str] = {"extra": "which holds the unknown members"}
    for member in members:
        attribute = wire_to_attribute(member)
        if not attribute.isidentifier():
            raise RefusedError(f"{name}: the member {member!r} has no Python name")
        if attribute in seen:
            raise RefusedError(f"{name}: the member {member!r} would be the attribute {attribute}, {seen[attribute]}")
        seen[attribute] = f"like {member!r}"


def _without_bounds(schema: Schema) -> Schema:
    """Drop the bounds, which the converter enforces from the profiles, and the rules for the form of strings."""
    inner = rebuild(schema, _without_bounds)
    return {key: value for key, value in inner.items() if key not in BOUND_KEYS and key not in {"format", "pattern"}}


def _differences(revision: Revision, own: Definitions, merged: Definitions) -> Differences:
    required: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    bounds: dict[str, dict[str, dict[str, float]]] = {}
    for name in sorted(own):
        if not is_class(own[name]):
            _refuse_bounds(own[name], f"{revision.label}: {name}")
            continue
        required[name] = sorted(set(own[name].get("required", ())) - set(merged[name]["required"]))
        unknown[name] = sorted(merged[name]["properties"].keys() - own[name]["properties"].keys())
        bounds[name] = {}
        for member, inner in own[name]["properties"].items():
            limits = {key: inner[key] for key in sorted(BOUND_KEYS & inner.keys())}
            if limits:
                bounds[name][member] = limits
            for deeper in (inner.get("items", {}), inner.get("additionalProperties", {}), *inner.get("anyOf", ())):
                _refuse_bounds(deeper, f"{revision.label}: {name}.{member}")
    return Differences(
        required={name: rows for name, rows in required.items() if rows},
        unknown={name: rows for name, rows in unknown.items() if rows},
        bounds={name: rows for name, rows in bounds.items() if rows},
        metas={name: meta for name, meta in sorted(revision.metas.items()) if name in own},
    )


def _refuse_bounds(schema: Schema, place: str) -> None:
    found = sorted(BOUND_KEYS & schema.keys())
    if found:
        raise RefusedError(f"{place}: {found[0]} is only supported directly on a member")


def _superset(profiles: dict[str, Differences], kept: dict[str, Definitions]) -> Differences:
    """Return the rules that hold in every revision: the bounds that all revisions share."""
    bounds: dict[str, dict[str, dict[str, float]]] = {}
    newest = list(profiles)[-1]
    metas: dict[str, str] = {}
    for profile in profiles.values():
        metas.update(profile.metas)
    for name, rows in profiles[newest].bounds.items():
        for member, limits in rows.items():
            where = [each for each in kept if member in kept[each].get(name, {}).get("properties", {})]
            if all(profiles[each].bounds.get(name, {}).get(member) == limits for each in where):
                bounds.setdefault(name, {})[member] = limits
    return Differences(required={}, unknown={}, bounds=bounds, metas=dict(sorted(metas.items())))


def _lenient(merged: Definitions, hoisted: set[str]) -> list[str]:
    found = set(LENIENT_ROOTS & merged.keys())
    waiting: list[Any] = list(found)
    while waiting:
        for name in references(merged[waiting.pop()]):
            if name in hoisted and name not in found:
                found.add(name)
                waiting.append(name)
    return sorted(found)
