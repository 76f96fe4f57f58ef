"""Writes the maps of a call into the page that shows them: `python -m website.maps`; with `--check` it only compares.

A map lists the files of the package that one `tools/call` passes, in the order in which the call first reaches them,
each with the classes and functions that it passes there. It runs in a process of its own, because a call passes
further files where OpenTelemetry is loaded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import Final

import trio

from benchmarks.call_path import FOLLOWERS, CallPath

from ._pages import ROOT

__all__ = ["call_map", "main", "with_maps"]

PAGE: Final = ROOT / "docs" / "ways-of-a-call.md"
_INDENT: Final = "    "
_MAP: Final = re.compile(r"(?<=^```text\n)tools/call over (\w+),.*?(?=^```$)", re.MULTILINE | re.DOTALL)


def call_map(transport: str, path: CallPath) -> str:
    """Return the map of a call, which does not depend on the random order of Trio's tasks."""
    names: dict[str, set[str]] = {file: set() for file in path.files}
    for step in path.steps:
        names[step.file] |= {function.partition(".")[0] for function in step.functions if not function.startswith("<")}
    lines = [f"tools/call over {transport}, {len(names)} files:"]
    for file, found in names.items():
        passed = ", ".join(sorted(found, key=str.lower))
        lines += [file, *wrap(passed, 60, initial_indent=_INDENT, subsequent_indent=_INDENT)]
    return "\n".join(lines) + "\n"


def with_maps(text: str) -> str:
    """Return a page with the current maps in place of those in it."""
    return _MAP.sub(lambda found: call_map(found[1], trio.run(FOLLOWERS[found[1]])), text)


def main(arguments: Sequence[str]) -> int:
    """Write the maps, or compare them; return the exit status of the program."""
    page = PAGE.read_text(encoding="utf-8")
    current = with_maps(page)
    if "--check" not in arguments:
        PAGE.write_text(current, encoding="utf-8")
    elif current != page:
        print(f"{PAGE.name} has other maps than the package: run python -m website.maps", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
