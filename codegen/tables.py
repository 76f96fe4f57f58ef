"""Write the tables and the facade: data and names, no logic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from codegen.align import Revision
from codegen.homes import homes_of
from codegen.merge import Differences, Merged
from codegen.registry import ErrorRow, MethodRow
from codegen.shapes import RefusedError, attribute_to_wire, is_class, wire_to_attribute

_BOUNDS = {
    "maxItems": "max_length",
    "maxLength": "max_length",
    "maximum": "maximum",
    "minItems": "min_length",
    "minLength": "min_length",
    "minimum": "minimum",
}
_HAND_WRITTEN = {
    "_converter": ["structure", "structurer", "unstructure", "unstructurer"],
    "_model": [
        "UNSET",
        "Bounds",
        "ErrorShape",
        "JSONArray",
        "JSONObject",
        "JSONValue",
        "Method",
        "Model",
        "Profile",
        "Unset",
    ],
    "_tables": ["ERRORS", "LENIENT", "METHODS", "PROFILES", "REVISIONS", "SUPERSET", "WIRE_NAMES"],
}

# Hidden from the type checkers, for which every name of the module would be there otherwise.
_LOOK_UP = """
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return [*__all__]
"""


def tables_source(
    merged: Merged,
    revisions: list[Revision],
    methods: Mapping[str, Mapping[str, MethodRow]],
    errors: Mapping[str, Mapping[int, ErrorRow]],
) -> str:
    """Return the source of the module of tables, without its head line and unformatted."""
    names = [revision.name for revision in revisions]
    profiles = {name: _profile(merged.profiles[name]) for name in names}
    method_rows = {name: _methods(methods[name]) for name in names}
    error_rows = {name: _errors(errors[name]) for name in names}
    return "\n".join(
        [
            "from collections.abc import Mapping",
            "from typing import Final",
            "from trio_mcp.types._model import Bounds, ErrorShape, Method, Profile",
            f"REVISIONS: Final = ({', '.join(map(repr, names))},)",
            '"""Every protocol revision this package speaks, oldest first."""',
            f"METHODS: Final[Mapping[str, Mapping[str, Method]]] = {_mapping(method_rows)}",
            '"""Per revision, every method by its name on the wire."""',
            f"ERRORS: Final[Mapping[str, Mapping[int, ErrorShape]]] = {_mapping(error_rows)}",
            '"""Per revision, every error code its schema defines; older ones use those of JSON-RPC unnamed."""',
            f"PROFILES: Final[Mapping[str, Profile]] = {_mapping(profiles)}",
            '"""Per revision, how it differs from the classes."""',
            f"SUPERSET: Final = {_profile(merged.superset)}",
            '"""What holds in every revision; used where no revision is given."""',
            f"LENIENT: Final = frozenset({merged.lenient!r})",
            '"""Classes that keep a wrongly shaped member in `extra` instead of failing."""',
            f"WIRE_NAMES: Final[Mapping[str, Mapping[str, str]]] = {_mapping(_wire_names(merged))}",
            '"""Attributes whose name on the wire is not their camelCase form, by class."""',
        ]
    )


def facade_source(merged: Merged) -> str:
    """Return the source of the facade, without its head line and unformatted.

    It imports each name from its home when that is first used; type checkers see plain imports.

    Raises:
        RefusedError: a definition has the name of something hand-written.
    """
    for names in _HAND_WRITTEN.values():
        for name in merged.definitions.keys() & set(names):
            raise RefusedError(f"{name} is the name of something hand-written: rename it in codegen/choices.py")
    modules = {**_HAND_WRITTEN}
    for name, module in homes_of(merged.definitions).items():
        modules.setdefault(f"_generated.{module}", []).append(name)
    shown = [f"    from trio_mcp.types.{module} import {name}" for module, names in modules.items() for name in names]
    homes = {name: module for module, names in modules.items() for name in names}
    return "\n".join(
        [
            "from importlib import import_module",
            "from typing import TYPE_CHECKING, Any",
            "if TYPE_CHECKING:",
            *shown,
            f"_HOME_OF = {dict(sorted(homes.items()))!r}",
            f"__all__ = {sorted(homes)!r}",
            _LOOK_UP,
        ]
    )


def _mapping(rows: Mapping[str, str] | Mapping[int, str]) -> str:
    return "{" + ", ".join(f"{key!r}: {value}" for key, value in rows.items()) + "}"


def _tuple(items: Iterable[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _methods(rows: Mapping[str, MethodRow]) -> str:
    return _mapping(
        {
            method: f"Method({row.kind!r}, {row.direction!r}, {row.params!r}, {row.params_required!r}, "
            f"{_tuple(map(repr, row.results))})"
            for method, row in rows.items()
        }
    )


def _errors(rows: Mapping[int, ErrorRow]) -> str:
    return _mapping({code: f"ErrorShape({row.name!r}, {row.data!r})" for code, row in rows.items()})


def _profile(differences: Differences) -> str:
    required = {name: _tuple(map(repr, rows)) for name, rows in differences.required.items()}
    unknown = {name: _tuple(map(repr, rows)) for name, rows in differences.unknown.items()}
    bounds = {
        name: _mapping({member: f"Bounds({_limits(limits)})" for member, limits in rows.items()})
        for name, rows in differences.bounds.items()
    }
    metas = {name: repr(meta) for name, meta in differences.metas.items()}
    return (
        f"Profile(required={_mapping(required)}, unknown={_mapping(unknown)}, bounds={_mapping(bounds)}, "
        f"meta_names={_mapping(metas)})"
    )


def _limits(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{_BOUNDS[key]}={value!r}" for key, value in limits.items())


def _wire_names(merged: Merged) -> dict[str, str]:
    rows: dict[str, str] = {}
    for name, schema in merged.definitions.items():
        if is_class(schema):
            exceptions = {
                attribute: repr(member)
                for member in schema["properties"]
                if attribute_to_wire(attribute := wire_to_attribute(member)) != member
            }
            if exceptions:
                rows[name] = _mapping(exceptions)
    return rows
