"""The site of the documentation in Chromium, at the width of a desk and of a telephone.

`nox -s docs` builds the site before it runs these tests; `-- --screenshots FOLDER` keeps a picture of each page.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.web.webdriver import Browser
from website import picture_sources

SITE = Path(__file__).parents[2] / "build" / "site"
WIDTHS = {"desk": 1280, "telephone": 390}
SECONDS = 540
"""The timeout for all pages."""

FAULTS = """
const root = document.documentElement, faults = [];
const shown = element => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} pixels wide`);
if (document.querySelectorAll("article h1").length !== 1) faults.push("it has not exactly one h1");
for (const image of document.images) {
    image.loading = "eager";
    await image.decode().catch(() => faults.push(`no image: ${image.src}`));
    if (!image.alt) faults.push(`no description: ${image.src}`);
}
for (const element of document.querySelectorAll("article :is(p, li, h1, h2, h3, h4, pre, table, svg, img)")) {
    const {left, right} = element.getBoundingClientRect();
    const scrolls = element.closest("pre, .md-typeset__scrollwrap, .md-typeset__table");
    const isOutside = right > root.clientWidth + 1 || left < -1;
    if (isOutside && shown(element) && (!scrolls || element.matches("pre")))
        faults.push(`${element.tagName} outside of the page: ${element.textContent.slice(0, 60)}`);
}
for (const scrolling of document.querySelectorAll("article pre > code, article .md-typeset__scrollwrap")) {
    const isCut = scrolling.scrollWidth > scrolling.clientWidth + 1;
    if (isCut && !["auto", "scroll"].includes(getComputedStyle(scrolling).overflowX))
        faults.push(`cut off: ${scrolling.textContent.slice(0, 60)}`);
}
return faults;
"""

PICTURE_FAULTS = """
const faults = [];
for (const picture of document.querySelectorAll("svg.picture")) {
    const whole = picture.getBoundingClientRect(), texts = [...picture.querySelectorAll("text")];
    const boxes = texts.map(text => text.getBoundingClientRect());
    texts.forEach((text, i) => {
        const box = boxes[i], size = parseFloat(getComputedStyle(text).fontSize) * whole.width / 400;
        if (size < 10) faults.push(`${text.textContent}: ${size} pixels`);
        if (box.left < whole.left || box.right > whole.right) faults.push(`${text.textContent}: outside`);
        boxes.slice(0, i).forEach((other, j) => {
            const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
            const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
            if (across > 1 && down > 3) faults.push(`${text.textContent} on ${texts[j].textContent}`);
        });
    });
}
return [document.querySelectorAll("svg.picture").length, faults];
"""

CONTRAST = """
const light = color => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(value => value / 255)
        .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const paper = light(getComputedStyle(document.body).backgroundColor);
const ratio = color => (Math.max(light(color), paper) + 0.05) / (Math.min(light(color), paper) + 0.05);
const colors = [...document.querySelectorAll($[0])].map(element => getComputedStyle(element)[$[1]]);
return {isDark: paper < 0.2, ratio: Math.min(...colors.map(ratio))};
"""

SEARCH = """
document.querySelector(".md-search__button").click();
const frame = () => new Promise(requestAnimationFrame);
const inDialog = css => [...document.body.querySelectorAll("*")].filter(each => each.shadowRoot)
    .flatMap(each => [...each.shadowRoot.querySelectorAll(css)]);
while (!inDialog("input").length) await frame();
const [box] = inDialog("input");
Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, $[0]);
box.dispatchEvent(new InputEvent("input", {bubbles: true, composed: true, data: $[0]}));
while (!inDialog("[role=listbox] a").length) await frame();
return inDialog("[role=listbox] a").map(link => link.getAttribute("href"));
"""


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base class
        """Print nothing."""


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Serve a folder of files to browsers on this machine; yield its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def site() -> Generator[str]:
    if not (SITE / "index.html").exists():
        pytest.fail(f"{SITE} is missing: run these tests with `nox -s docs`, which builds the site")
    with served(SITE) as url:
        yield url


def pages() -> list[str]:
    """Return the pages of the site, as paths."""
    return sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if path.name != "404.html")


@pytest.mark.parametrize("part", range(2))
async def test_every_page_fits_its_screen_and_loads_without_errors(
    part: int, site: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    pictures: Path | None = request.config.getoption("--screenshots")
    faults: list[str] = []
    with trio.fail_after(SECONDS):
        for page in pages()[part::2]:
            await browser.go(f"{site}/{page}")
            for device, width in WIDTHS.items():
                await browser.emulate(width=width)
                faults += [f"{page}, {device}: {fault}" for fault in await browser.run(FAULTS)]
                if pictures is not None:
                    name = f"{page.removesuffix('.html').replace('/', '-')}-{device}.png"
                    (pictures / name).write_bytes(await browser.screenshot())
            faults += await browser.errors()

    assert faults == []


FAULTY = {
    "<script>throw new Error('broken')</script>": "broken",
    "<link rel='stylesheet' href='missing.css'>": "404",
    "<img src='missing.png' alt='x'>": "no image",
    "<h1>a second heading</h1>": "not exactly one h1",
    "<p style='width: 2000px'>wide</p>": "2000 pixels wide",
    "<div style='overflow: hidden'><p style='width: 2000px'>hidden</p></div>": "P outside of the page",
    f"<pre style='overflow: hidden'><code style='display: block'>{'x' * 500}</code></pre>": "cut off",
}
"""Parts of pages, each with its fault."""


async def test_each_fault_of_a_page_is_found(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as url, trio.fail_after(SECONDS):
        await browser.emulate(width=390)
        for number, (html, fault) in enumerate(FAULTY.items()):
            page = f"<!doctype html><link rel='icon' href='data:,'><body style='margin: 0'><article><h1>x</h1>{html}"
            (tmp_path / f"{number}.html").write_text(page, encoding="utf-8")
            await browser.go(f"{url}/{number}.html")
            faults = [*await browser.run(FAULTS), *await browser.errors()]
            assert fault in "\n".join(faults)


async def test_the_search_finds_a_name_in_the_reference(site: str, browser: Browser) -> None:
    with trio.fail_after(SECONDS):
        await browser.go(f"{site}/index.html")
        links = await browser.run(SEARCH, "serve_http")

    assert any("reference/server.html" in link for link in links[:5])


FOUND = {
    "timeout": "time-limits.html",
    "cancel": "progress-and-cancellation.html",
    "401": "troubleshooting.html",
    "progress": "progress-and-cancellation.html",
    "Context": "reference/server.html#trio_mcp.Context",
    "elicit": "reference/server.html#trio_mcp.Context.elicit",
    "sampling": "sampling.html",
    "session": "reference/http.html#trio_mcp.SessionSettings",
    "CORS": "http.html",
    "middleware": "middleware.html",
    "call_tool": "reference/client.html#trio_mcp.Client.call_tool",
}
"""The page, and perhaps the entry, that is among the first five results of each search."""


@pytest.mark.parametrize("words", FOUND)
async def test_the_search_finds_what_readers_mean(words: str, site: str, browser: Browser) -> None:
    page, _, entry = FOUND[words].partition("#")
    with trio.fail_after(SECONDS):
        await browser.go(f"{site}/index.html")
        links = await browser.run(SEARCH, words)

    assert any(f"/{page}" in link and link.endswith(f"#{entry}" if entry else "") for link in links[:5])


MEMBERS_IN_CONTENTS = """
const contents = [...document.querySelectorAll(".md-sidebar--secondary a")].map(link => link.hash);
if (!contents.includes("#trio_mcp.Server")) throw new Error("no entry of the class");
return contents.filter(hash => hash.startsWith("#trio_mcp.Server."));
"""


async def test_the_contents_of_a_reference_page_have_no_members(site: str, browser: Browser) -> None:
    with trio.fail_after(SECONDS):
        await browser.go(f"{site}/reference/server.html")
        members = await browser.run(MEMBERS_IN_CONTENTS)

    assert members == []


async def test_the_text_in_pictures_is_large_enough_and_overlaps_no_other(site: str, browser: Browser) -> None:
    drawn = 0
    with trio.fail_after(SECONDS):
        for page in ("asking", "design", "gateway", "many-machines"):
            await browser.go(f"{site}/{page}.html")
            for width in WIDTHS.values():
                await browser.emulate(width=width)
                count, faults = await browser.run(PICTURE_FAULTS)
                drawn += count
                assert faults == []

    assert drawn == len(WIDTHS) * len(picture_sources())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_text_and_pictures_are_readable_in_light_and_dark(dark: bool, site: str, browser: Browser) -> None:
    await browser.emulate(width=1280, dark=dark)
    with trio.fail_after(SECONDS):
        await browser.go(f"{site}/asking.html")
        text = await browser.run(CONTRAST, "article p, article h1, article h2", "color")
        letters = await browser.run(CONTRAST, "svg.picture text", "fill")
        lines = await browser.run(CONTRAST, "svg.picture path[marker-end]", "stroke")

    assert text["isDark"] == dark
    assert min(text["ratio"], letters["ratio"]) >= 4.5  # WCAG 2.2, 1.4.3
    assert lines["ratio"] >= 3  # WCAG 2.2, 1.4.11


async def test_the_reader_can_choose_dark_on_a_light_system(site: str, browser: Browser) -> None:
    await browser.emulate(width=1280)
    with trio.fail_after(SECONDS):
        await browser.go(f"{site}/asking.html")
        for _ in range(2):  # from the system's choice to light, and to dark
            await browser.run("[...document.querySelectorAll('label[for^=__palette]')].find(e => !e.hidden).click()")
        text = await browser.run(CONTRAST, "svg.picture text", "fill")

    assert text["isDark"]
    assert text["ratio"] >= 4.5
