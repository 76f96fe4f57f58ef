"""The sources of the tables and of the facade, data and names without logic, and of the module of an extension."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill, indent
from typing import Any

from attrs import evolve

from codegen.align import Revision
from codegen.homes import homes_of
from codegen.merge import Differences, Merged
from codegen.registry import ErrorRow, MethodRow
from codegen.rules import bounds_source, wire_names
from codegen.shapes import RefusedError, core_name

_HAND_WRITTEN = {
    "_converter": ["structure", "structurer", "unstructure", "unstructurer"],
    "_messages": ["read_message"],
    "_model": [
        "NO_EXTRA",
        "UNSET",
        "Bounds",
        "ErrorShape",
        "JSONArray",
        "JSONObject",
        "JSONValue",
        "MetaObject",
        "Method",
        "Model",
        "Profile",
        "Unset",
    ],
    "_tables": ["ERRORS", "LENIENT", "METHODS", "PROFILES", "REVISIONS", "SUPERSET", "WIRE_NAMES"],
}
_WIDTH = 120
"""The longest line of the facade, in columns."""
_DEEP = " " * 16
"""The indentation of names on lines of their own."""

_BUILT = '''
METHODS: Final[Mapping[str, Mapping[str, Method]]] = {each: rows_in(each, _METHODS) for each in REVISIONS}
"""Every method of each revision, by its name on the wire."""
ERRORS: Final[Mapping[str, Mapping[int, ErrorShape]]] = {each: rows_in(each, _ERRORS) for each in REVISIONS}
"""Every error code that a revision defines. The older revisions use the codes of JSON-RPC and define none."""
PROFILES: Final[Mapping[str, Profile]] = {
    each: Profile(
        required=rows_in(each, _REQUIRED),
        unknown=rows_in(each, _UNKNOWN),
        bounds=rows_in(each, _BOUNDS),
        meta_names=rows_in(each, _META_NAMES),
    )
    for each in REVISIONS
}
"""The differences between each revision and the classes."""
'''


def tables_source(
    merged: Merged,
    revisions: list[Revision],
    methods: Mapping[str, Mapping[str, MethodRow]],
    errors: Mapping[str, Mapping[int, ErrorRow]],
) -> str:
    """Return the source of the module of tables, without its head line and unformatted.

    A table that differs between revisions is written as its changes: each row has its values by the revision that each
    holds from, and None where the row ends.
    """
    names = [revision.name for revision in revisions]
    profiles = merged.profiles
    method_rows = {name: _methods(methods[name]) for name in names}
    error_rows = {name: _errors(errors[name]) for name in names}
    required = {name: _members(profiles[name].required) for name in names}
    unknown = {name: _members(profiles[name].unknown) for name in names}
    bounds = {name: _bounds(profiles[name].bounds) for name in names}
    metas = {name: _quoted(profiles[name].metas) for name in names}
    return "\n".join(
        [
            "from collections.abc import Mapping",
            "from typing import Final",
            "from trio_mcp.types._model import Bounds, ErrorShape, Method, Profile, rows_in",
            f"REVISIONS: Final = {tuple(names)!r}",
            '"""Every protocol revision that this package supports, oldest first."""',
            "# A value of the tables below holds from the revision before it until the next one; None ends a row.",
            f"_METHODS: Final[Mapping[str, Mapping[str, Method | None]]] = {_changes(method_rows)}",
            f"_ERRORS: Final[Mapping[int, Mapping[str, ErrorShape | None]]] = {_changes(error_rows)}",
            f"_REQUIRED: Final[Mapping[str, Mapping[str, tuple[str, ...] | None]]] = {_changes(required)}",
            f"_UNKNOWN: Final[Mapping[str, Mapping[str, tuple[str, ...] | None]]] = {_changes(unknown)}",
            f"_BOUNDS: Final[Mapping[str, Mapping[str, Mapping[str, Bounds] | None]]] = {_changes(bounds)}",
            f"_META_NAMES: Final[Mapping[str, Mapping[str, str | None]]] = {_changes(metas)}",
            _BUILT,
            f"SUPERSET: Final = {_profile(merged.superset)}",
            '"""The profile that is used if no revision is given. It holds in every revision."""',
            f"LENIENT: Final = frozenset({merged.lenient!r})",
            '"""The classes that keep a member of the wrong type in `extra` instead of failing."""',
            f"WIRE_NAMES: Final[Mapping[str, Mapping[str, str]]] = {wire_names(merged)!r}",
            '"""The attributes whose name on the wire is not their camelCase form, by class."""',
        ]
    )


def extension_source(name: str, id: str, classes: str, merged: Merged, methods: Mapping[str, MethodRow]) -> str:
    """Return the source of the module of an extension, without its head line and unformatted.

    Args:
        name: the extension, which is the name of its package.
        id: the name under which both sides declare it.
        classes: the source of its classes, with the imports.
        merged: its types.
        methods: its methods.

    Raises:
        RefusedError: a definition has the name of something else in the module.
    """
    for taken in sorted(merged.definitions.keys() & {"EXTENSION", "METHODS", "JSONObject", "Method", "Model"}):
        raise RefusedError(f"extension {name}: {taken} is the name of something hand-written")
    places = {each: f"trio_mcp.{name}.types.{each}" for each in merged.definitions}
    rows = {method: _method(_placed(row, places)) for method, row in methods.items()}
    return "\n".join(
        [
            "from collections.abc import Mapping",
            "from typing import Any, Final",
            "from trio_mcp.types import Method",
            classes,
            f"__all__ = {sorted(['EXTENSION', 'METHODS', *merged.definitions])!r}",
            f"EXTENSION: Final = {id!r}",
            '"""The name under which both sides declare the extension."""',
            f"METHODS: Final[Mapping[str, Method]] = {_mapping(rows)}",
            '"""Every method of the extension, by its name on the wire."""',
        ]
    )


def _placed(row: MethodRow, places: Mapping[str, str]) -> MethodRow:
    """Return a method whose types are named with their modules, except those of the core."""

    def place(name: str) -> str:
        return core_name(name) or places.get(name, name)

    return evolve(row, params=row.params and place(row.params), results=[place(each) for each in row.results])


def facade_source(merged: Merged) -> str:
    """Return the source of the facade, without its head line and unformatted.

    The facade imports each name from its module on first use; type checkers see plain imports.

    Raises:
        RefusedError: a definition has the name of something hand-written.
    """
    for names in _HAND_WRITTEN.values():
        for name in merged.definitions.keys() & set(names):
            raise RefusedError(f"{name} is the name of something hand-written: rename it in codegen/choices.py")
    modules = {**_HAND_WRITTEN}
    for name, module in homes_of(merged.definitions).items():
        modules.setdefault(f"_generated.{module}", []).append(name)
    shown = [f"    from .{module} import {name} as {name}" for module, names in modules.items() for name in names]
    return "\n".join(
        [
            "from typing import TYPE_CHECKING",
            "from .._facade import lazy_names",
            "if TYPE_CHECKING:",
            *shown,
            "else:",
            "    __getattr__, __dir__, __all__ = lazy_names(",
            "        __name__,",
            "        {",
            *(_facade_row(module, names) for module, names in sorted(modules.items())),
            "        },",
            "    )  # fmt: skip",
        ]
    )


def _facade_row(module: str, names: list[str]) -> str:
    """Return the names of a module as a row of the facade's table, with as many names on a line as fit."""
    quoted = ", ".join(f'"{name}"' for name in names)
    row = f'            "{module}": ({quoted}{"," if len(names) == 1 else ""}),'
    if len(row) <= _WIDTH:
        return row
    lines = indent(fill(quoted, _WIDTH - len(_DEEP)), _DEEP)
    return f'            "{module}": (\n{lines},\n            ),'


def _changes(rows: Mapping[str, Mapping[Any, str]]) -> str:
    """Return the source of a table that says from which revision each value of each row holds.

    Args:
        rows: the rows by revision, oldest first; a row is the source of a value.
    """
    keys = {key: None for table in rows.values() for key in table}
    written: dict[Any, str] = {}
    for key in sorted(keys, reverse=any(isinstance(key, int) for key in keys)):
        values = {revision: table.get(key, "None") for revision, table in rows.items()}
        before = ["None", *values.values()]
        written[key] = _mapping(
            {revision: value for (revision, value), last in zip(values.items(), before, strict=False) if value != last}
        )
    return _mapping(written)


def _mapping(rows: Mapping[Any, str]) -> str:
    return "{" + ", ".join(f"{key!r}: {value}" for key, value in rows.items()) + "}"


def _methods(rows: Mapping[str, MethodRow]) -> dict[str, str]:
    return {method: _method(row) for method, row in rows.items()}


def _method(row: MethodRow) -> str:
    return f"Method({row.kind!r}, {row.direction!r}, {row.params!r}, {row.params_required!r}, {tuple(row.results)!r})"


def _errors(rows: Mapping[int, ErrorRow]) -> dict[int, str]:
    return {code: f"ErrorShape({row.name!r}, {row.data!r})" for code, row in rows.items()}


def _members(rows: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: repr(tuple(members)) for name, members in rows.items()}


def _bounds(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, str]:
    return {
        name: _mapping({member: bounds_source(limits) for member, limits in members.items()})
        for name, members in rows.items()
    }


def _quoted(rows: Mapping[str, str]) -> dict[str, str]:
    return {name: repr(value) for name, value in rows.items()}


def _profile(differences: Differences) -> str:
    return (
        f"Profile(required={_mapping(_members(differences.required))}, "
        f"unknown={_mapping(_members(differences.unknown))}, "
        f"bounds={_mapping(_bounds(differences.bounds))}, "
        f"meta_names={_mapping(_quoted(differences.metas))})"
    )
