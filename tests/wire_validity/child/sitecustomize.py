"""A module that every Python child of a test loads in `nox -s spec`: it records the messages of the child.

It waits until the package is imported, because some tests check that a process does not import it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_PACKAGE = "trio_mcp"


class _Waiting(MetaPathFinder):
    """A finder that finds no module itself but runs a function after a given module was imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._is_searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_searching = False
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_run(module: ModuleType) -> None:
            if self in sys.meta_path:  # only once, and not if the module is only looked up
                sys.meta_path.remove(self)
            execute(module)
            self._then()

        spec.loader.exec_module = execute_and_run  # type: ignore[method-assign] # only this loader, for this module
        return spec


def _install() -> None:
    path = Path(__file__).parent.parent / "tap.py"
    spec = importlib.util.spec_from_file_location("wire_validity_tap", path)
    assert spec is not None
    assert spec.loader is not None
    tap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tap)
    for name, then in tap.taps(tap.Recorder(os.environ[tap.RECORDS])).items():
        sys.meta_path.insert(0, _Waiting(name, then))


if "TRIO_MCP_WIRE_RECORDS" in os.environ:
    sys.meta_path.insert(0, _Waiting(_PACKAGE, _install))
