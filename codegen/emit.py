"""The sources of the generated modules, from the normalised schemas. This module writes no file."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from codegen.align import align, read_extension
from codegen.classes import generate_classes, generate_extension_classes
from codegen.docs import Docs, ExtensionDocs
from codegen.envelopes import complete
from codegen.extensions import EXTENSIONS, extension_methods
from codegen.merge import merge
from codegen.registry import errors, methods
from codegen.shapes import RefusedError
from codegen.tables import extension_source, facade_source, tables_source

HEAD = '"""Generated from {schema} by `python -m codegen`: do not edit. {subject}"""'
RUFF = [sys.executable, "-m", "ruff"]
# Isolated, so that the output does not depend on where the generator runs.
SETTINGS = ["--isolated", "--line-length", "120", "--target-version", "py311", "--no-cache", "--quiet"]
IMPORTS = [
    "--config",
    "lint.isort.known-first-party=['trio_mcp']",
    "--config",
    "lint.isort.split-on-trailing-comma=false",
]


def emit(documents: list[dict[str, Any]]) -> dict[str, str]:
    """Return the sources of the generated modules by their path in `trio_mcp/types`.

    Args:
        documents: the normalised schemas, oldest revision first.

    Raises:
        RefusedError: the schemas cannot be expressed.
    """
    revisions = complete(align(documents))
    merged = merge(revisions)
    docs = Docs(merged)
    method_rows = {revision.name: methods(revision) for revision in revisions}
    error_rows = {revision.name: errors(revision) for revision in revisions}
    sources = {
        "_generated/__init__.py": ("The message types, by topic.", ""),
        **{
            f"_generated/{module}.py": (f"The message types: {module.replace('_', ' ')}.", source)
            for module, source in generate_classes(merged, docs).items()
        },
        "_tables.py": (
            "The methods, errors and members of each revision.",
            tables_source(merged, revisions, method_rows, error_rows),
        ),
        "__init__.py": ("The names of the protocol, each imported on first use.", facade_source(merged)),
    }
    return {name: _formatted(_headed("schema/", subject, source)) for name, (subject, source) in sources.items()}


def emit_extension(document: dict[str, Any]) -> str:
    """Return the source of the generated module of an extension.

    Args:
        document: its normalised schema.

    Raises:
        RefusedError: the schema cannot be expressed.
    """
    extension = read_extension(document)
    name = extension.name
    rows = extension_methods(extension)
    merged = merge([extension])
    classes = generate_extension_classes(name, merged, ExtensionDocs(name))
    source = extension_source(name, EXTENSIONS[name].id, classes, merged, rows)
    return _formatted(_headed(f"schema/extensions/{name}.json", f"The messages of {name}.", source))


def _headed(schema: str, subject: str, source: str) -> str:
    future = "from __future__ import annotations"
    return f"{HEAD.format(schema=schema, subject=subject)}\n\n{future}\n\n{source.replace(future, '')}\n"


def _formatted(source: str) -> str:
    """Remove unused imports, sort the others, and format the source."""
    checked = _ruff(["check", "--fix", "--select", "F401,I001", *IMPORTS, "-"], source)
    return _ruff(["format", "-"], checked)


def _ruff(arguments: list[str], source: str) -> str:
    done = subprocess.run(  # noqa: S603 - a fixed command
        [*RUFF, *arguments[:-1], *SETTINGS, "--stdin-filename", "types.py", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RefusedError(f"ruff refuses the generated code: {done.stderr or done.stdout}")
    return done.stdout
