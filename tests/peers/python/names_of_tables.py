"""Print the names in a table of the documentation that the package of another SDK does not have.

It runs in the environment of that package: ``python -m tests.peers.python.names_of_tables PAGE COLUMN PACKAGE``, where
the package is ``mcp 1``, ``mcp 2`` or ``fastmcp``. Commands are looked up in the help of the command line.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.readme.tables import codes, is_command, is_expression, missing

UNSEEN = {"cli", "contrib", "experimental", "os"}
"""Parts of the packages whose names no program imports; some of them exit if an optional package is missing."""


def modules(package: str) -> list[ModuleType]:
    """Import all public modules of a package that can be imported; some need optional packages."""
    home = Path(str(importlib.import_module(package).__file__)).parent
    found = list[ModuleType]()
    for path in sorted(home.rglob("*.py"), key=lambda path: (len(path.parts), path)):
        parts = path.relative_to(home).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not UNSEEN.intersection(parts) and not any(part.startswith("_") for part in parts):
            with suppress(ImportError):
                found.append(importlib.import_module(".".join([package, *parts])))
    return found


class Installed:
    """The package that is installed here."""

    def __init__(self, package: str) -> None:
        name = package.partition(" ")[0]
        self._modules = modules(name)
        # By name, because type checkers run where the packages are not installed.
        high = importlib.import_module(
            {"mcp 1": "mcp.server.fastmcp", "mcp 2": "mcp.server.mcpserver"}.get(package, name)
        )
        server = high.MCPServer if package == "mcp 2" else high.FastMCP
        client = self.find("ClientSession" if package == "mcp 1" else "Client")
        self.holders: Mapping[str, Any] = {
            "mcp": server,
            "FastMCP": server,
            "ctx": high.Context,
            "Context": high.Context,
            "client": client,
            "session": client,
        }
        if name == "mcp":
            low_level = SimpleNamespace(Server=importlib.import_module("mcp.server.lowlevel").Server)
            self.holders = {**self.holders, "lowlevel": low_level, "types": importlib.import_module("mcp.types")}

    def find(self, name: str) -> Any:
        """Return the object of that name: rather a class or function of the package than an import or a type alias."""
        found = [getattr(each, name) for each in self._modules if hasattr(each, name)]
        return max(found, key=self._fitness, default=None)

    def _fitness(self, value: Any) -> tuple[bool, bool]:
        is_own = str(getattr(value, "__module__", "")).partition(".")[0] == self._modules[0].__name__
        return inspect.isroutine(value) or isinstance(value, type), is_own

    def more_options(self, function: Any) -> Collection[str]:
        """Return the options of the functions to which `run` passes what it does not know."""
        if function is self.holders["mcp"].run and hasattr(self.holders["mcp"], "run_http_async"):
            return inspect.signature(self.holders["mcp"].run_http_async).parameters
        return ()


def has_command(code: str) -> bool:
    """Return True if the command exists.

    That of `mcp` needs typer, which is not installed: its source says which commands it has.
    """
    program, *words = code.split()
    if program == "mcp":
        source = Path(str(importlib.import_module("mcp").__file__)).parent / "cli" / "cli.py"
        return (
            re.search(rf"^@app\.command\(.*\)\ndef {words[0]}\(", source.read_text("utf-8"), re.MULTILINE) is not None
        )
    app = importlib.import_module("fastmcp.cli.cli").app
    for name in takewhile(re.compile("[a-z-]+$").match, words):
        if name not in app:
            return False
        app = app[name]
    return True


def main(page: str, column: str, package: str) -> None:
    """Check one column of a page."""
    installed = Installed(package)
    found = codes(page, int(column), without="Names of FastMCP 2.x and 3.x")
    faults = {code: missing(code, installed) for code in found if is_expression(code)}
    faults |= {code: ["no such command"] for code in found if is_command(code) and not has_command(code)}
    report = {"checked": len(found), "missing": {code: names for code, names in faults.items() if names}}
    print(json.dumps(report))  # noqa: T201 # a program prints


if __name__ == "__main__":
    main(*sys.argv[1:])
