"""Writes `llms.txt` and `llms-full.txt`: the navigation for language models, and all pages as one text.

Format: https://llmstxt.org
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._layout import PAGES
from ._pages import ROOT, outside_of_blocks
from ._reference import text_of

__all__ = ["first_sentence", "navigation", "summaries", "write_llms"]

INDEX = ROOT / "docs" / "index.md"

_FIGURE = re.compile(r"<figure>.*?<title[^>]*>(.*?)</title>.*?<desc[^>]*>(.*?)</desc>.*?</figure>", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def navigation() -> Iterator[tuple[str, str, str]]:
    """Yield the pages of the navigation in order: section, title and file; the section of the first page is empty."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    yield from _entries("", project["nav"])


def _entries(section: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for entry in entries:
        for title, target in entry.items():
            if isinstance(target, str):
                yield section, title, target
            else:
                yield from _entries(title, target)


def summaries() -> Mapping[str, str]:
    """Return what `docs/index.md` says of each page, by its file."""
    rows = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \| (.+) \|$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def first_sentence(text: str) -> str:
    """Return the first sentence of a page, without links; empty if it begins with something else than text."""
    prose = "".join(part for outside, part in outside_of_blocks(text) if outside)
    paragraphs = (part for part in re.split(r"\n\s*\n", prose) if part.strip() and not part.lstrip().startswith("#"))
    first = " ".join(next(paragraphs, "").split())
    sentence = re.split(r"(?<=[.:])\s", _LINK.sub(r"\1", first), maxsplit=1)[0]
    return sentence.rstrip(":")


def write_llms(pages: Path, site: Path) -> None:
    """Write both files, and beside each page of the site its Markdown, to which `llms.txt` links.

    Args:
        pages: the staged pages.
        site: the built site.
    """
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    overview = ""
    everything: list[str] = []
    last, said = "", summaries()
    for section, title, file in navigation():
        text = _text(pages, file)
        (site / file).write_text(text, encoding="utf-8")
        everything.append(text)
        if section != last:
            overview += f"\n## {section}\n\n"
            last = section
        overview += f"- [{title}]({file}): {said.get(file) or _summary(file, text)}\n"
    _copy_unlisted(pages, site)
    full = "\n".join(everything)
    size = f"All pages in one file, in the order below: [llms-full.txt](llms-full.txt), {_megabytes(full)} of Markdown."
    head = f"# {project['site_name']}\n\n> {project['site_description']}\n\n{size}\n\n"
    (site / "llms.txt").write_text(head + overview, encoding="utf-8")
    (site / "llms-full.txt").write_text(full, encoding="utf-8")


def _megabytes(text: str) -> str:
    return f"{len(text.encode()) / 1_000_000:.1f} MB"


def _summary(file: str, text: str) -> str:
    """Return the first sentence of a page; that of a page of the reference may have a colon."""
    name = file.removeprefix("reference/").removesuffix(".md")
    if file.startswith("reference/") and name in PAGES:
        return re.split(r"(?<=\.)\s", _LINK.sub(r"\1", PAGES[name].summary), maxsplit=1)[0]
    return first_sentence(text)


def _copy_unlisted(pages: Path, site: Path) -> None:
    """Write the Markdown of the pages that the navigation does not have, such as source files, which pages link to."""
    for page in sorted(pages.rglob("*.md")):
        target = site / page.relative_to(pages)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")


def _text(pages: Path, file: str) -> str:
    name = file.removeprefix("reference/").removesuffix(".md")
    if file.startswith("reference/") and name in PAGES:
        return text_of(name)
    return _FIGURE.sub(r"(Picture: \1. \2)", (pages / file).read_text(encoding="utf-8"))
