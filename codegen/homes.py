"""The module of each generated type, so that a program loads only the types that it uses."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.choices import MESSAGE_MODULE, MODULES, ONLY_IN_THE_SPECIFICATION, OTHER_MODULE
from codegen.shapes import Definitions, references

GENERATED = "trio_mcp.types._generated"
"""The package of those modules."""


def homes_of(definitions: Definitions) -> dict[str, str]:
    """Return the name of the module of each definition, sorted by definition.

    No two modules import each other: the types that a type refers to are in its own module or in an earlier one.
    """
    used = [name for name in definitions if not _is_message(name, definitions)]
    homes: dict[str, str] = {}
    for module, roots in {**MODULES, OTHER_MODULE: used, MESSAGE_MODULE: definitions}.items():
        homes.update(dict.fromkeys(_reached(roots, definitions) - homes.keys(), module))
    return dict(sorted(homes.items()))


def _is_message(name: str, definitions: Definitions) -> bool:
    """Return True for a message with its envelope, an error, or a definition that only the specification uses."""
    members = definitions[name].get("properties", {})
    return name in ONLY_IN_THE_SPECIFICATION or "jsonrpc" in members or "const" in members.get("code", {})


def _reached(roots: Iterable[str], definitions: Definitions) -> set[str]:
    """Return the existing definitions among *roots* with all definitions that they refer to."""
    reached: set[str] = set()
    waiting = [*roots]
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached.add(name)
            waiting += references(definitions[name])
    return reached
