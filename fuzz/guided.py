"""The child process that looks with atheris for an input that breaks one target: `python -m fuzz.guided`.

Atheris counts the branches of what is imported while it watches, and ends the process itself.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any

from fuzz.targets import load

# Imported before atheris watches: what tells it nothing and would only slow down every input.
_UNWATCHED = ("attrs", "cattrs", "hypothesis", "jsonschema", "msgspec", "pydantic", "trio")


def main(name: str, options: list[str]) -> None:
    """Look until the options, which are those of libFuzzer, say that it is enough, or the target has raised."""
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
