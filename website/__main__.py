"""Builds the site: `python -m website` writes it to `build/site`, and fails on any warning and on any broken link."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from subprocess import PIPE, STDOUT

from ._check import broken_links, outside_assets
from ._llms import write_llms
from ._pages import ROOT, stage_pages
from ._reference import stage_reference
from ._search import order_search

PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"


def main() -> int:
    """Build the site and return the exit status of the program."""
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    stage_pages(PAGES)
    stage_reference(PAGES / "reference")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(ROOT / "zensical.toml")]
    done = subprocess.run(command, cwd=ROOT, stdout=PIPE, stderr=STDOUT, encoding="utf-8", check=False)  # noqa: S603  # our own arguments
    print(done.stdout)
    if done.returncode != 0:
        return done.returncode
    write_llms(PAGES, SITE)
    order_search(SITE)
    # Strict mode does not know the warnings of Griffe, which reads the docstrings.
    warnings = re.findall(r"^griffe: .*$", done.stdout, re.MULTILINE)
    faults = [*warnings, *outside_assets(SITE), *broken_links(SITE)]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{SITE}: {len(list(SITE.rglob('*.html')))} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
