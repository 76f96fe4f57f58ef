"""The child process that searches with atheris for an input that breaks one target: `python -m fuzz.guided`.

Atheris counts the branches of modules that are imported while it is active, and ends the process itself.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any

from fuzz.targets import load

# Imported before atheris is active: modules whose branches do not help and only slow it down.
_UNWATCHED = ("attrs", "cattrs", "hypothesis", "jsonschema", "msgspec", "pydantic", "trio")


def main(name: str, options: list[str]) -> None:
    """Search until a limit of the options, which are those of libFuzzer, or until the target raises."""
    atheris: Any = import_module("atheris")  # is not everywhere
    for module in _UNWATCHED:
        import_module(module)
    with atheris.instrument_imports(include=["trio_mcp"]):
        target = load(name)
    logging.disable()
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
