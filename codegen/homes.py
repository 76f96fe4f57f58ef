"""Which module each generated type lives in, so that a program loads the types it uses and not all of them."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.choices import MODULES, OTHER_MODULE
from codegen.shapes import Definitions, references

GENERATED = "trio_mcp.types._generated"
"""The package of those modules."""


def homes_of(definitions: Definitions) -> dict[str, str]:
    """Return the name of the module of each definition, sorted by definition.

    No two modules import one another: what a type refers to lives in its own module or in one before that.
    """
    homes: dict[str, str] = {}
    for module, roots in {**MODULES, OTHER_MODULE: tuple(definitions)}.items():
        homes.update(dict.fromkeys(_reached(roots, definitions) - homes.keys(), module))
    return dict(sorted(homes.items()))


def _reached(roots: Iterable[str], definitions: Definitions) -> set[str]:
    """Return the definitions among *roots* with all that they refer to. A root may be one that there is not yet."""
    reached: set[str] = set()
    waiting = [*roots]
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached.add(name)
            waiting += references(definitions[name])
    return reached
