"""The join of two schemas: one schema that admits what either of them admits. It is the core of `merge`."""

from __future__ import annotations

from codegen.shapes import BOUND_KEYS, Definitions, RefusedError, Schema, ref, target


def join(wide: Schema, other: Schema, place: str, kept: dict[str, Definitions]) -> Schema:
    """Return a schema that admits what either admits.

    Args:
        wide: the schema to prefer if both are equivalent.
        other: the other schema.
        place: their place, for the error message.
        kept: the definitions of all revisions, to follow the names of unions.

    Raises:
        RefusedError: no type can express such a schema.
    """
    if wide == other:
        return wide
    if not wide or not other:
        return {}
    arms, others = _arms(wide, kept), _arms(other, kept)
    if all(arm in arms for arm in others):
        return wide
    if all(arm in others for arm in arms):
        return other
    joined = _join_same_kind(wide, other, place, kept)
    if joined is not None:
        return joined
    # Two definitions are two types, even if one replaced the other: only `RENAMES` unites them.
    if "anyOf" in wide or "anyOf" in other or (target(wide) and target(other)):
        return {"anyOf": [*arms, *(arm for arm in others if arm not in arms)]}
    raise RefusedError(f"{place}: other revisions describe it in a way that no one type covers")


def _join_same_kind(wide: Schema, other: Schema, place: str, kept: dict[str, Definitions]) -> Schema | None:
    if "enum" in wide and "enum" in other:
        return {**wide, "enum": sorted({*wide["enum"], *other["enum"]})}
    for key in ("items", "additionalProperties"):
        if key in wide and key in other:
            return {**wide, key: join(wide[key], other[key], place, kept)}
    references_both = {target(wide), target(other)}
    if "JSONObject" in references_both and any("additionalProperties" in each for each in (wide, other)):
        return ref("JSONObject")
    if _is_scalar(wide) and _is_scalar(other):
        types = {*_types(wide), *_types(other)}
        if "number" in types:
            types.discard("integer")
        return {"type": types.pop() if len(types) == 1 else sorted(types)}
    return None


def _arms(schema: Schema, kept: dict[str, Definitions]) -> list[Schema]:
    """Return the alternatives of a schema, with the unions that it refers to resolved."""
    name = target(schema)
    if name is not None:
        unions = [each[name] for each in kept.values() if "anyOf" in each.get(name, {})]
        arms = [arm for union in unions for inner in union["anyOf"] for arm in _arms(inner, kept)]
        return arms or [schema]
    if "anyOf" in schema:
        return [arm for inner in schema["anyOf"] for arm in _arms(inner, kept)]
    if _is_scalar(schema) and not BOUND_KEYS & schema.keys():
        return [{"type": each} for each in _types(schema)]
    return [schema]


def _is_scalar(schema: Schema) -> bool:
    return "type" in schema and not schema.keys() - {"type", "format"} - BOUND_KEYS and "array" not in _types(schema)


def _types(schema: Schema) -> list[str]:
    given = schema["type"]
    return [given] if isinstance(given, str) else given
