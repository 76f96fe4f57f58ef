"""Tests of the facades: they hold names and no logic, and import each name when it is first used."""

from __future__ import annotations

import ast
import importlib
import inspect
import re

import pytest

from tests.architecture.sources import MODULES, PACKAGE, Module

FACADES = ("__init__", "lowlevel")


@pytest.mark.parametrize("module", [m for m in MODULES if m.path.stem in FACADES], ids=lambda module: module.name)
def test_a_facade_holds_names_and_no_logic(module: Module) -> None:
    logic = [ast.unparse(node) for node in module.tree.body if not is_naming(node)]

    assert logic == []


def is_naming(node: ast.stmt) -> bool:
    """Return True for a statement that only names things: an import, or the table of a lazy facade."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
            return all(is_naming(inner) for inner in body)
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[ast.Assign(value=ast.Call(func=made_by))]):
            return ast.unparse(made_by) == "lazy_names" and all(is_naming(inner) for inner in body)
        case _:
            return False


PUBLIC = [
    *("trio_mcp", "trio_mcp.lowlevel", "trio_mcp.abc", "trio_mcp.types", "trio_mcp.llm", "trio_mcp.testing"),
    "trio_mcp.apps",
]


@pytest.mark.parametrize("facade", PUBLIC)
def test_every_exported_name_exists_and_has_a_docstring(facade: str) -> None:
    module = importlib.import_module(facade)
    values = {name: getattr(module, name) for name in module.__all__}
    objects = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}

    assert [name for name, value in objects.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("facade", [name for name in PUBLIC if name not in {"trio_mcp.abc", "trio_mcp.llm"}])
def test_a_facade_exports_exactly_the_names_it_binds(facade: str) -> None:
    module = importlib.import_module(facade)
    values = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    bound = {
        name
        for name, value in values.items()
        if name != "annotations" and (not inspect.ismodule(value) or name in module.__all__)
    }

    assert sorted(module.__all__) == sorted(bound)


LAZY = {
    ".".join(["trio_mcp", *module.path.relative_to(PACKAGE).parent.parts]): module
    for module in MODULES
    if module.path.stem == "__init__" and "lazy_names(" in module.text
}


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_facade_shows_its_names_to_type_checkers(name: str) -> None:
    module = importlib.import_module(name)
    (shown,) = (node for node in LAZY[name].tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imported = [node for node in shown.body if isinstance(node, ast.ImportFrom) and node.module]
    homes = {alias.name: importlib.import_module(f"{name}.{node.module}") for node in imported for alias in node.names}

    assert {*module.__all__} - {"types"} == homes.keys()
    assert [each for each, home in homes.items() if getattr(module, each) is not getattr(home, each)] == []


@pytest.mark.parametrize("name", LAZY)
def test_a_name_that_a_lazy_facade_does_not_have_is_an_attribute_error(name: str) -> None:
    module = importlib.import_module(name)

    with pytest.raises(AttributeError, match=f"module '{re.escape(name)}' has no attribute 'nothing'"):
        getattr(module, "nothing")  # noqa: B009 # the name does not exist


@pytest.mark.parametrize("name", LAZY)
def test_a_star_import_of_a_lazy_facade_imports_the_listed_names(name: str) -> None:
    module, imported_names = importlib.import_module(name), dict[str, object]()
    exec(f"from {name} import *", imported_names)  # a function cannot contain a star import

    assert set(module.__all__) == set(dir(module))
    assert imported_names.keys() - {"__builtins__"} == set(module.__all__)


def test_the_interfaces_export_exactly_what_they_define() -> None:
    (interfaces,) = (module for module in MODULES if module.name == "abc.py")
    defined = {node.name for node in interfaces.tree.body if isinstance(node, ast.ClassDef)}
    module = importlib.import_module("trio_mcp.abc")

    assert {name for name in module.__all__ if inspect.isclass(getattr(module, name))} == defined
