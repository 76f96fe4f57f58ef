"""The classes: datamodel-code-generator writes them, this module checks them and distributes them over the modules."""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datamodel_code_generator import Formatter, InputFileType, LiteralType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType

from codegen.docs import Described
from codegen.homes import GENERATED, homes_of
from codegen.merge import Merged
from codegen.rules import rules_of
from codegen.shapes import (
    JSON_OBJECT,
    Definitions,
    RefusedError,
    core_name,
    is_class,
    references,
    rename_refs,
    wire_to_attribute,
)

_TEMPLATES = Path(__file__).parent / "templates"
_MODEL = "trio_mcp.types._model"
_TYPES = "trio_mcp.types"
_JSON_OBJECT = "JSONObject"


def generate_classes(merged: Merged, docs: Described) -> dict[str, str]:
    """Return the sources of the modules of classes by the name of each, without their head lines and unformatted.

    Raises:
        RefusedError: the classes do not match the schema.
    """
    source = _generated(merged.definitions, docs, {_JSON_OBJECT: f"{_MODEL}.{_JSON_OBJECT}"}, _MODEL, {})
    return _distributed(source, homes_of(merged.definitions), docs)


def generate_extension_classes(name: str, merged: Merged, docs: Described) -> str:
    """Return the source of the one module of an extension, which imports the types that it shares with the core.

    Members whose rules the name and type of an attribute do not show (the name on the wire, limits) have them as
    metadata, because the tables of the core know nothing of extensions.

    Raises:
        RefusedError: the classes do not match the schema, or a type has the name of a type of the core that others
            refer to.
    """
    shared = {each: core for each in _referred(merged.definitions) if (core := core_name(each)) is not None}
    for core in sorted({*shared.values()} & merged.definitions.keys()):
        raise RefusedError(
            f"extension {name}: {core} is defined, and a definition refers to {core} of the core as well"
        )
    overrides = {each: f"{_TYPES}.{each}" for each in {_JSON_OBJECT, *shared.values()}}
    definitions = {each: rename_refs(schema, shared) for each, schema in merged.definitions.items()}
    source = _generated(definitions, docs, overrides, _TYPES, rules_of(merged))
    return _distributed(source, dict.fromkeys(definitions, name), docs)[name]


def _generated(
    definitions: Definitions, docs: Described, written: dict[str, str], base: str, rules: dict[str, dict[str, str]]
) -> str:
    """Return the source of all classes and aliases.

    Args:
        definitions: the types to generate.
        docs: the source of their docstrings.
        written: the place of each type that they refer to and that exists already.
        base: the module that has the base class and its defaults.
        rules: the source of the metadata of attributes, by class and attribute.
    """
    stubs = dict.fromkeys(sorted(written), JSON_OBJECT)
    document: dict[str, Any] = {"$defs": {**_described(definitions, docs), **stubs}}
    aliases = {
        member: wire_to_attribute(member) for schema in definitions.values() for member in schema.get("properties", {})
    }
    with warnings.catch_warnings():
        # After a warning the output is unusable.
        warnings.simplefilter("error")
        source = generate(
            document,
            input_file_type=InputFileType.JsonSchema,
            output_model_type=DataModelType.DataclassesDataclass,
            target_python_version=PythonVersion.PY_311,
            custom_template_dir=_TEMPLATES,
            base_class=f"{base}.Model",
            additional_imports=[
                *("attrs.field", "attrs.frozen", "collections.abc.Mapping"),
                *(f"{base}.{each}" for each in ("UNSET", "NO_EXTRA", "Bounds")),
            ],
            extra_template_data=defaultdict(dict, {name: {"rules": rows} for name, rows in rules.items()}),
            aliases=aliases,
            enum_field_as_literal=LiteralType.All,
            use_one_literal_as_default=True,
            keyword_only=True,
            use_generic_container_types=True,
            use_standard_collections=True,
            use_type_alias=True,
            skip_root_model=True,
            strict_refs=True,
            use_schema_description=True,
            use_field_description=True,
            use_double_quotes=True,
            use_union_operator=True,
            type_overrides=written,
            disable_timestamp=True,
            formatters=[Formatter.BUILTIN],
        )
    if not isinstance(source, str):
        raise RefusedError("the class generator returned several modules where one was asked for")
    _check(source, definitions, written.keys())
    return source


def _described(definitions: Definitions, docs: Described) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for name, schema in definitions.items():
        described[name] = schema
        if is_class(schema):
            members = {
                member: {**inner, "description": text} if (text := docs.of_member(name, member)) else inner
                for member, inner in schema["properties"].items()
            }
            described[name] = {**schema, "properties": members, "description": docs.of_class(name)}
    return described


def _distributed(source: str, homes: dict[str, str], docs: Described) -> dict[str, str]:
    """Return the source of each module: its imports, its classes sorted, and below them its aliases without quotes.

    The class generator gives aliases no docstrings; this function adds them.

    Annotations are evaluated late, but aliases at once. So an alias is placed below the aliases that it names, without
    forward references, which cattrs cannot resolve.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    # The class generator imports from dataclasses what comes from attrs here.
    imports = [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "dataclasses")
    ]
    classes = {
        node.name: "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno])
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    aliases = {
        node.target.id: ast.unparse(_Unquoted().visit(node))
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    ordered = [*sorted(classes), *_in_dependency_order(aliases)]
    described = {name: f'{alias}\n"""{docs.of_class(name)}\n"""' for name, alias in aliases.items()}
    written = {**classes, **described}
    modules: dict[str, str] = {}
    for module in dict.fromkeys(homes.values()):
        # ruff removes the unused imports later.
        others = [f"from {GENERATED}.{home} import {name}" for name, home in homes.items() if home != module]
        parts = [written[name] for name in ordered if homes[name] == module]
        modules[module] = "\n\n\n".join(["\n".join([*imports, *others]), *parts]) + "\n"
    return modules


def _in_dependency_order(aliases: dict[str, str]) -> list[str]:
    ordered: list[str] = []

    def place(name: str) -> None:
        for other in sorted(set(re.findall(r"\w+", aliases[name])) & aliases.keys() - {name, *ordered}):
            place(other)
        if name not in ordered:
            ordered.append(name)

    for name in sorted(aliases):
        place(name)
    return ordered


class _Unquoted(ast.NodeTransformer):
    """A transformer that turns the forward references of a type alias into plain names, except in literals."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if isinstance(node.value, ast.Name) and node.value.id == "Literal" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Name(node.value, ast.Load()) if isinstance(node.value, str) else node


def _referred(definitions: Definitions) -> set[str]:
    return {name for schema in definitions.values() for name in references(schema)}


def _check(source: str, definitions: Definitions, elsewhere: Iterable[str]) -> None:
    """Compare the classes and their attributes with their definitions."""
    tree = ast.parse(source)
    written = {
        node.name: {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    for name, schema in definitions.items():
        if is_class(schema):
            wanted = {wire_to_attribute(member) for member in schema["properties"]} | {"extra"}
            if written.pop(name, None) != wanted:
                raise RefusedError(f"{name}: the class generator did not write the members of the schema")
    if written:
        raise RefusedError(f"the class generator invented {', '.join(sorted(written))}")
    unresolved = _referred(definitions) - definitions.keys() - {*elsewhere}
    if unresolved:
        raise RefusedError(f"{min(unresolved)} is referred to and has no type")
