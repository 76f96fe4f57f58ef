"""Checks a built site: it loads nothing from other hosts, and every link inside it has a target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from attrs import define, field

from ._pages import outside_of_blocks

__all__ = ["broken_links", "outside_assets"]

_LOADED_BY_LINK = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload", "dns-prefetch"}
_LOADED = {"src", "srcset", "poster", "data"}
"""The attributes whose URLs a browser loads."""
_CSS_URL = re.compile(r"""url\(\s*['"]?([^'")\s]+)|@import\s+['"]([^'"]+)""")
_LINK_OF_MARKDOWN = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


@define
class _Page(HTMLParser):
    """What a page of HTML loads, where it links to, and the fragments that links may name."""

    loads: list[str] = field(factory=list[str])
    links: list[str] = field(factory=list[str])
    anchors: set[str] = field(factory=set[str])
    _styles: bool = False

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self._styles = tag == "style"
        self.loads += [value for name, value in values.items() if name in _LOADED and not value.startswith("data:")]
        self.loads += _urls_of_css(values.get("style", ""))
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "link" and _LOADED_BY_LINK & set(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])

    def handle_data(self, data: str) -> None:
        if self._styles:
            self.loads += _urls_of_css(data)


def _urls_of_css(css: str) -> list[str]:
    return [first or second for first, second in _CSS_URL.findall(css)]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def outside_assets(site: Path) -> Iterator[str]:
    """Yield a line for each script, style, font or picture that a page or style of the site loads from another host."""
    for path in sorted(site.rglob("*.html")):
        yield from (f"{path.relative_to(site)} loads {url}" for url in _read(path).loads if _OUTSIDE.match(url))
    for path in sorted(site.rglob("*.css")):
        urls = _urls_of_css(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(site)} loads {url}" for url in urls if _OUTSIDE.match(url))


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for each link inside the site without a target: a page, a file, a fragment; in Markdown, a file."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute, because it is shown under any address
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            exists = target.exists() and (
                not url.fragment or target not in pages or unquote(url.fragment) in pages[target].anchors
            )
            if not exists:
                yield f"{path.relative_to(site.resolve())} links to {link}, which does not exist"
    for path in sorted(site.rglob("*.md")):
        yield from _broken_links_of_markdown(path, site)


def _broken_links_of_markdown(path: Path, site: Path) -> Iterator[str]:
    prose = "".join(part for outside, part in outside_of_blocks(path.read_text(encoding="utf-8")) if outside)
    links: list[str] = _LINK_OF_MARKDOWN.findall(prose)
    for link in links:
        url = urlsplit(link)
        if not url.scheme and not url.netloc and url.path and not (path.parent / unquote(url.path)).exists():
            yield f"{path.relative_to(site)} links to {link}, which does not exist"
