"""The source files of the package as data: their syntax trees, the imports among them and their lines of code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

__all__ = [
    "EXTENSIONS",
    "GENERATED",
    "MODULES",
    "PACKAGE",
    "ROOT",
    "WRITTEN",
    "Import",
    "Module",
    "circles",
    "imports_of_package",
]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "trio_mcp"
EXTENSIONS = tuple(f"{path.stem}/types.py" for path in sorted(ROOT.glob("schema/extensions/*.json")))
"""The generated modules of extensions."""
GENERATED = ("types/__init__.py", "types/_generated/", "types/_tables.py", *EXTENSIONS)


@attrs.frozen
class Import:
    """One name that a file imports from the package."""

    source: str
    """The dotted module in the import statement, made absolute."""
    name: str
    is_for_types: bool
    """True if the statement stands under ``if TYPE_CHECKING:``."""
    is_lazy: bool
    """True if the statement stands inside a function."""


@attrs.frozen
class Module:
    """One source file, its place in the package and its syntax tree."""

    path: Path
    text: str = attrs.field(repr=False)
    tree: ast.Module = attrs.field(eq=False, repr=False)

    @classmethod
    def load(cls, path: Path) -> Module:
        text = path.read_text(encoding="utf-8")
        return cls(path, text, ast.parse(text))

    @property
    def name(self) -> str:
        """The path inside the package, for messages of the tests."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def dotted(self) -> str:
        """The dotted name of the module."""
        parts = ["trio_mcp", *self.path.relative_to(PACKAGE).with_suffix("").parts]
        return ".".join(parts[:-1] if self.is_package else parts)

    @property
    def is_package(self) -> bool:
        return self.path.stem == "__init__"

    @property
    def folder(self) -> str:
        """The dotted name of the package that holds the module; of a package, its own name."""
        return self.dotted if self.is_package else self.dotted.rpartition(".")[0]

    @property
    def layer(self) -> str:
        """The top-level folder, or the bare name of a module beside the folders."""
        return "cli" if self.name == "__main__.py" else Path(self.name).parts[0].removesuffix(".py")

    @property
    def lines_of_code(self) -> int:
        """The number of lines that are neither blank nor a comment nor part of a docstring."""
        prose: set[int] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Expr(value=ast.Constant(value=str())):
                    prose |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
                case _:
                    pass
        lines = enumerate(self.text.splitlines(), 1)
        return sum(1 for number, line in lines if number not in prose and line.strip() and line.strip()[0] != "#")

    def libraries(self) -> set[str]:
        """Return the top-level names of everything that the file imports."""
        names: set[str] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=aliases):
                    names |= {alias.name.split(".")[0] for alias in aliases}
                case ast.ImportFrom(module=str(module), level=0):
                    names.add(module.split(".")[0])
                case _:
                    pass
        return names

    def imports(self) -> Iterator[Import]:
        """Yield what the file imports from the package."""
        yield from self._imports_in(self.tree.body, is_for_types=False, is_lazy=False)

    def _imports_in(self, body: list[ast.stmt], *, is_for_types: bool, is_lazy: bool) -> Iterator[Import]:
        for node in body:
            if isinstance(node, ast.ImportFrom):
                source = self._absolute(node)
                if source.split(".")[0] == "trio_mcp":
                    yield from (Import(source, alias.name, is_for_types, is_lazy) for alias in node.names)
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                yield from self._imports_in(node.body, is_for_types=True, is_lazy=is_lazy)
                yield from self._imports_in(node.orelse, is_for_types=is_for_types, is_lazy=is_lazy)
            else:
                inside = is_lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                children = [child for child in ast.walk(node) if isinstance(child, ast.ImportFrom)]
                yield from self._imports_in([*children], is_for_types=is_for_types, is_lazy=inside or bool(children))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return str(node.module)
        parts = self.folder.split(".")
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


MODULES = [Module.load(path) for path in sorted(PACKAGE.rglob("*.py"))]
WRITTEN = [module for module in MODULES if not module.name.startswith(GENERATED)]

_BY_NAME = {module.dotted: module for module in MODULES}


def home_of(source: str, name: str) -> str:
    """Return the dotted name of the module that defines *name*, which may be imported from a facade."""
    while f"{source}.{name}" not in _BY_NAME:
        facade = _BY_NAME[source]
        further = next((each for each in facade.imports() if each.name == name), None) if facade.is_package else None
        if further is None:
            return source
        source = further.source
    return f"{source}.{name}"


def imports_of_package(module: Module, *, at_run_time: bool) -> set[str]:
    """Return the modules that *module* needs: to be imported, or to be understood by a type checker.

    An import from a facade counts as one from the module that defines the name. Imports inside functions do not count:
    they run when everything is loaded.
    """
    wanted = (each for each in module.imports() if not each.is_lazy and not (at_run_time and each.is_for_types))
    return {home_of(each.source, each.name) for each in wanted} - {module.dotted}


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import one another in a circle (strongly connected components, by Tarjan)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        path.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in path:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            circle = set(path[path.index(node) :])
            del path[path.index(node) :]
            if len(circle) > 1:
                found.append(circle)

    for node in graph:
        if node not in index:
            visit(node)
    return found
