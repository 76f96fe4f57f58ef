"""The rules of the layers, checked by parsing the sources, and what an import may load, checked in a fresh process."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import attrs
import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "trio_mcp"

# Each folder may import the folders named before it.
LAYERS = ("schema", "types", "wire", "peer", "auth", "transports", "client", "server", "llm", "testing", "cli")
# Importable by every layer; each may import the layers and the modules named here, and nothing else of the package.
SHARED = {
    "_facade": set[str](),
    "_errors": set[str](),
    "_version": set[str](),
    "_util": {"_errors"},
    "_tracing": {"_errors"},
    "_user_types": {"_errors", "types", "wire"},
    "_extensions": {"_errors", "types", "wire"},
    "abc": {"_errors", "_util", "types", "wire", "peer", "auth"},  # for annotations alone; see the test of that below
}
FACADES = ("__init__", "lowlevel")

HTTP_LIBRARIES = {"httpx2", "httpcore2", "h11", "hypercorn", "wsproto", "h2"}
HTTP_LAYERS = {"transports", "auth"}
TRIO_FREE_LAYERS = {"types", "wire"}

ERA_WORDS = {"legacy", "handshake", "session"}
ERA_FILES = (
    "*legacy*",
    "*handshake*",
    "*session*",
    "_http_rules.py",
    "_http_messages.py",
    "_negotiate.py",
    "_revisions.py",
)
GENERATED = ("types/__init__.py", "types/_generated/", "types/_tables.py")
LONGEST_MODULE = 500  # lines of code

HEAVY = {"hypercorn", "httpx2", "h11", "cryptography", "joserfc", "jsonschema_rs", "opentelemetry", "rich"}


@attrs.frozen
class Module:
    """One source file, its place in the package and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module = attrs.field(eq=False, repr=False)

    @classmethod
    def load(cls, path: Path) -> Module:
        text = path.read_text(encoding="utf-8")
        return cls(path, text, ast.parse(text))

    @property
    def name(self) -> str:
        """The path inside the package, as the messages of the tests show it."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def layer(self) -> str:
        """The folder, or the bare name of a module beside the folders."""
        return "cli" if self.name == "__main__.py" else Path(self.name).parts[0].removesuffix(".py")

    def imports(self) -> Iterator[str]:
        """The absolute dotted name of everything imported, wherever in the file: `from ..wire import X` is one name."""
        here = ["trio_mcp", *self.path.relative_to(PACKAGE).with_suffix("").parts]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = [*here[: len(here) - node.level]] if node.level else []
                base += node.module.split(".") if node.module else []
                yield from (".".join([*base, alias.name]) for alias in node.names)


MODULES = [Module.load(path) for path in sorted(PACKAGE.rglob("*.py"))]
INSIDE = [module for module in MODULES if module.layer not in FACADES]
WRITTEN = [module for module in MODULES if not module.name.startswith(GENERATED)]


def of_package(module: Module) -> Iterator[list[str]]:
    """What the module imports of this package, split at the dots and without the package's own name."""
    for name in module.imports():
        parts = name.split(".")
        if parts[0] == "trio_mcp":
            yield parts[1:]


def allowed(layer: str) -> set[str]:
    """The folders and shared modules that this one may import."""
    if layer in SHARED:
        return SHARED[layer]
    above = set(LAYERS[: LAYERS.index(layer) + 1]) | set(SHARED)
    return above - {"client"} if layer == "server" else above


def test_every_folder_has_its_place_among_the_layers() -> None:
    places = {module.layer for module in MODULES}

    assert places <= {*LAYERS, *SHARED, *FACADES}


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_a_module_imports_only_its_own_layer_and_those_above(module: Module) -> None:
    imported = {parts[0] for parts in of_package(module)}

    assert imported - allowed(module.layer) == set()


def test_the_interfaces_import_the_package_for_annotations_alone() -> None:
    (interfaces,) = (module for module in MODULES if module.name == "abc.py")
    at_run_time = [
        ast.unparse(node)
        for node in interfaces.tree.body
        if isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith("trio_mcp"))
    ]

    assert at_run_time == []


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_a_module_imports_other_folders_through_their_facades(module: Module) -> None:
    private = [
        ".".join(parts)
        for parts in of_package(module)
        if parts[0] in LAYERS and parts[0] != module.layer and any(part.startswith("_") for part in parts[1:])
    ]

    assert private == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_only_transports_and_auth_import_an_http_library(module: Module) -> None:
    imported = {name.split(".")[0] for name in module.imports()}

    assert module.layer in HTTP_LAYERS or not imported & HTTP_LIBRARIES


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_vocabulary_and_grammar_do_not_know_trio(module: Module) -> None:
    imported = {name.split(".")[0] for name in module.imports()}

    assert module.layer not in TRIO_FREE_LAYERS or not imported & {"trio", "outcome", "sniffio"}


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_only_the_command_line_prints_with_rich(module: Module) -> None:
    imported = {name.split(".")[0] for name in module.imports()}

    assert module.layer == "cli" or "rich" not in imported


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


def words(identifier: str) -> set[str]:
    """The lower-case words of a snake_case or CamelCase name."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Every name that the file gives to something: classes, functions, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


@pytest.mark.parametrize("module", WRITTEN, ids=lambda module: module.name)
def test_era_words_are_defined_only_in_files_named_for_them(module: Module) -> None:
    if any(module.path.match(pattern) for pattern in ERA_FILES):
        return

    assert [name for name in defined_names(module.tree) if words(name) & ERA_WORDS] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_first_says_why_it_exists(module: Module) -> None:
    assert ast.get_docstring(module.tree)


def lines_of_code(module: Module) -> int:
    """The lines that are neither blank nor a comment nor part of a docstring."""
    prose: set[int] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                prose |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
            case _:
                pass
    lines = enumerate(module.text.splitlines(), 1)
    return sum(1 for number, line in lines if number not in prose and line.strip() and line.strip()[0] != "#")


@pytest.mark.parametrize("module", WRITTEN, ids=lambda module: module.name)
def test_a_module_is_short_enough_to_be_read(module: Module) -> None:
    assert lines_of_code(module) <= LONGEST_MODULE


PUBLIC = ["trio_mcp", "trio_mcp.lowlevel", "trio_mcp.abc", "trio_mcp.types", "trio_mcp.llm", "trio_mcp.testing"]


@pytest.mark.parametrize("facade", PUBLIC)
def test_every_exported_name_is_there_and_explains_itself(facade: str) -> None:
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
def test_a_lazy_facade_shows_the_type_checkers_the_names_it_has(name: str) -> None:
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
        getattr(module, "nothing")  # noqa: B009 # the name is not there


@pytest.mark.parametrize("name", LAZY)
def test_a_star_import_of_a_lazy_facade_brings_the_names_that_it_lists(name: str) -> None:
    module, brought = importlib.import_module(name), dict[str, object]()
    exec(f"from {name} import *", brought)  # there is no other way to say it in a function

    assert set(module.__all__) == set(dir(module))
    assert brought.keys() - {"__builtins__"} == set(module.__all__)


def test_the_interfaces_export_exactly_what_they_define() -> None:
    (interfaces,) = (module for module in MODULES if module.name == "abc.py")
    defined = {node.name for node in interfaces.tree.body if isinstance(node, ast.ClassDef)}
    module = importlib.import_module("trio_mcp.abc")

    assert {name for name in module.__all__ if inspect.isclass(getattr(module, name))} == defined


def modules_after(program: str, *arguments: str) -> set[str]:
    """The names in `sys.modules` of a fresh process that has run the program."""
    report = "\nimport sys\nnames = sorted(sys.modules)\nimport json\nprint(json.dumps(names))\n"
    child = subprocess.run(
        [sys.executable, "-c", program + report, *arguments], check=True, capture_output=True, encoding="utf-8"
    )
    return set(json.loads(child.stdout))


def loaded_after(program: str, *arguments: str) -> set[str]:
    """The top-level packages among them."""
    return {name.split(".")[0] for name in modules_after(program, *arguments)}


def among(names: set[str], *wanted: str) -> list[str]:
    """Those of the modules of this package that match one of the patterns."""
    own = (name.removeprefix("trio_mcp.") for name in names if name.startswith("trio_mcp."))
    return sorted(name for name in own if any(fnmatchcase(name, pattern) for pattern in wanted))


def test_importing_a_client_loads_no_way_to_travel_and_no_message() -> None:
    loaded = modules_after("from trio_mcp import open_client")

    assert among(loaded, "transports._*", "types._generated*", "server*") == []
    assert among(loaded, "auth*", "client._many*", "client._server_*", "wire._http_rules", "wire._sse") == []
    assert "cattrs" not in loaded


def test_importing_a_server_loads_no_client_and_nothing_of_http() -> None:
    loaded = modules_after("from trio_mcp import Server, serve_stdio")

    assert among(loaded, "client*", "auth._*", "transports._http*", "transports._hypercorn*", "wire._sse") == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import trio_mcp")

    assert loaded & HEAVY == set()


def test_the_types_by_themselves_load_no_trio_and_nothing_heavy() -> None:
    loaded = loaded_after(
        "from trio_mcp import types\ntypes.structure({'name': 'x', 'inputSchema': {'type': 'object'}}, types.Tool)"
    )

    assert "trio" not in loaded
    assert loaded & HEAVY == set()


SERVER = """
import trio
from trio_mcp import Server, serve_stdio

server = Server("tiny")


@server.tool
async def add(a: int, b: int):
    return str(a + b)


trio.run(serve_stdio, server)
"""

CLIENT = """
import sys
import trio
from trio_mcp import open_client


async def main():
    async with open_client([sys.executable, sys.argv[1]]) as client:
        assert [tool.name async for tool in client.tools()] == ["add"]


trio.run(main)
"""


def test_the_grammar_by_itself_loads_no_trio() -> None:
    assert "trio" not in loaded_after("import trio_mcp.wire")


def test_opening_a_stdio_client_loads_nothing_heavy_and_nothing_of_http(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")

    loaded = modules_after(CLIENT, str(tmp_path / "server.py"))

    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    assert among(loaded, "transports._http*", "auth*", "wire._http_rules", "wire._sse", "types._generated.others") == []
