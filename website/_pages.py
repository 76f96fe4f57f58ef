"""Stages the pages: those of `docs`, and a page for each file of the repository that a page links to.

Rules of this file:

1. A link of a staged page leads to a staged page. Links inside fenced blocks are text, and stay.
2. A picture that has a source in `docs/images` becomes a part of its page, so that it has the colours of the page.
3. A linked file that is no Markdown is shown in a block; a linked folder is a page that shows its files.
4. A link to a page of the reference stays as it is: the reference is generated later, and the built site is checked.
5. A bar inside of code in a table is written with a backslash in front of it, as GitHub needs it; the site shows the
   backslash, so it is removed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from attrs import define, field

from ._pictures import picture_sources, read_picture

__all__ = ["ROOT", "outside_of_blocks", "stage_pages"]

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
"""The folder of the generated pages, as pages in `docs` link to it. It exists on the site only."""
NAMES = {"README.md": "overview.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""The pages of the site that are files outside of `docs`."""
LANGUAGES = {".py": "python", ".html": "html", ".md": "markdown", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}

_BLOCK = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)
_CODE_WITH_BAR = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
_PICTURE = re.compile(r"^!\[[^\]]*\]\((?:docs/)?images/([\w-]+)\.svg\)$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def outside_of_blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a Markdown text, each with True if it is outside of fenced blocks."""
    end = 0
    for block in _BLOCK.finditer(text):
        yield True, text[end : block.start()]
        yield False, block[0]
        end = block.end()
    yield True, text[end:]


def stage_pages(target: Path) -> None:
    """Write the pages of `docs`, and those of linked files, into a new folder.

    Raises:
        FileNotFoundError: a page links to a file that does not exist.
    """
    shutil.copytree(ROOT / "docs" / "images", target / "images", ignore=shutil.ignore_patterns("*.toml"))
    shutil.copy(Path(__file__).with_name("site.css"), target)
    staging = _Staging(target, pictures={path.stem: path for path in picture_sources()})
    for source in (*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in NAMES)):
        staging.add_page(source)


@define
class _Staging:
    """The pages that are written, and the files that they link to."""

    target: Path
    pictures: Mapping[str, Path]
    shown: set[Path] = field(factory=set[Path])

    def add_page(self, source: Path) -> None:
        """Write a Markdown file with links of the site."""
        place = self._place_of(source)

        def replace(link: re.Match[str]) -> str:
            return self._site_link(link[0], source, place)

        parts = outside_of_blocks(source.read_text(encoding="utf-8"))
        text = "".join(self._changed(part, replace) if prose else part for prose, part in parts)
        self._write(place, text)

    def _changed(self, prose: str, replace: Callable[[re.Match[str]], str]) -> str:
        return _PICTURE.sub(self._drawn, _LINK.sub(replace, _without_escapes(prose)))

    def _drawn(self, image: re.Match[str]) -> str:
        name = image[1]
        if name not in self.pictures:
            return image[0]
        return f"<figure>\n{read_picture(self.pictures[name]).svg(name, in_page=True)}</figure>"

    def _site_link(self, link: str, source: Path, place: PurePosixPath) -> str:
        path, mark, fragment = link.partition("#")
        if "://" in link or not path:
            return link
        linked = (source.parent / path).resolve()
        if linked.parent == REFERENCE:
            return link
        if not linked.exists():
            raise FileNotFoundError(f"{source.relative_to(ROOT)} links to {link}, which does not exist")
        self._show(linked)
        return os.path.relpath(self._place_of(linked), place.parent) + mark + fragment

    def _place_of(self, file: Path) -> PurePosixPath:
        name = file.relative_to(ROOT).as_posix()
        if name in NAMES:
            return PurePosixPath(NAMES[name])
        if name.startswith("docs/"):
            return PurePosixPath(name).relative_to("docs")
        return PurePosixPath("files", f"{name}.md")

    def _show(self, file: Path) -> None:
        place = self._place_of(file)
        if place.parts[0] != "files" or file in self.shown:
            return
        self.shown.add(file)
        name = file.relative_to(ROOT).as_posix()
        files = sorted(file.rglob("*")) if file.is_dir() else [file]
        texts = [_block(each, name) for each in files if each.is_file() and "__pycache__" not in each.parts]
        self._write(place, "\n".join([f"# {name}\n", *texts]))

    def _write(self, place: PurePosixPath, text: str) -> None:
        path = self.target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _without_escapes(prose: str) -> str:
    return _CODE_WITH_BAR.sub(lambda code: code[0].replace(r"\|", "|"), prose)


def _block(file: Path, page: str) -> str:
    name = file.relative_to(ROOT).as_posix()
    heading = "" if name == page else f"## {name.removeprefix(page + '/')}\n\n"
    text = file.read_text(encoding="utf-8").rstrip("\n")
    fence = "`" * max(3, *(1 + len(run) for run in re.findall(r"`{3,}", text)), 3)
    return f"{heading}{fence}{LANGUAGES.get(file.suffix, 'text')}\n{text}\n{fence}\n"
