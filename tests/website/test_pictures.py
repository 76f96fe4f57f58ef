"""The pictures, the terminals and the maps in the documentation: all are what their sources give now."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import import_module
from pathlib import Path

import cattrs
import pytest
import trio

from benchmarks.call_path import FOLLOWERS, CallPath, Step
from website import IMAGES, TERMINALS, first_sentence, picture_sources, read_picture, stage_pages, terminal_picture
from website.maps import call_map, with_maps

ROOT = Path(__file__).parents[2]
DESIGN = [ROOT / "docs" / name for name in ("design.md", "ways-of-a-call.md", "extending.md")]
SHOWN = re.compile(r"\(images/([\w-]+)\.svg\)")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("source", picture_sources(), ids=lambda source: source.stem)
def test_a_picture_is_what_its_source_gives(source: Path) -> None:
    drawn = source.with_suffix(".svg").read_text(encoding="utf-8")

    assert drawn == read_picture(source).svg(source.stem), "run python -m website.images"


@pytest.mark.parametrize("name", TERMINALS)
def test_a_terminal_shows_what_its_commands_print(name: str) -> None:
    drawn = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")

    assert drawn == terminal_picture(name, TERMINALS[name]), "run python -m website.images"


@pytest.mark.parametrize("image", sorted(IMAGES.glob("*.svg")), ids=lambda image: image.stem)
def test_a_picture_has_a_title_and_a_description_and_loads_nothing(image: Path) -> None:
    text = image.read_text(encoding="utf-8")
    svg = ET.fromstring(text)

    assert svg.findtext(f"{SVG}title")
    assert svg.findtext(f"{SVG}desc")
    assert re.findall(r"url\((?!#)", text) == []


def test_every_svg_has_a_source_and_is_on_a_page() -> None:
    images = {image.stem for image in IMAGES.glob("*.svg")}
    shown = {name for page in ROOT.glob("docs/*.md") for name in SHOWN.findall(page.read_text(encoding="utf-8"))}

    assert images == {source.stem for source in picture_sources()} | set(TERMINALS)
    assert shown == images


def test_an_unknown_member_of_a_source_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "a.toml"
    source.write_text('title = "a"\ndescription = "b"\ncolour = "red"\n', encoding="utf-8")

    with pytest.raises(cattrs.BaseValidationError):
        read_picture(source)


def test_a_drawn_picture_is_a_part_of_its_page_and_has_the_colours_of_the_page(tmp_path: Path) -> None:
    stage_pages(tmp_path / "pages")

    page = (tmp_path / "pages" / "asking.md").read_text(encoding="utf-8")

    assert "<figure>\n<svg" in page
    assert "prefers-color-scheme" not in page
    assert "images/parked.svg" not in page


def test_the_page_has_the_current_maps_of_a_call() -> None:
    command = [sys.executable, "-m", "website.maps", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_map_lists_each_file_once_with_what_is_passed_there() -> None:
    path = CallPath([Step("a.py", ("F.g", "F.h", "<lambda>")), Step("b.py", ("k",)), Step("a.py", ("e",))])

    assert call_map("link", path) == "tools/call over link, 2 files:\na.py\n    e, F\nb.py\n    k\n"


def test_an_old_map_is_replaced() -> None:
    page = "before\n\n```text\ntools/call over link, 1 files:\nold.py\n```\n\nafter\n"

    current = with_maps(page)

    assert "old.py" not in current
    assert call_map("link", trio.run(FOLLOWERS["link"])) in current
    assert current.startswith("before\n")
    assert current.endswith("```\n\nafter\n")


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.stem)
def test_the_names_in_a_page_on_design_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert first_sentence(text)
    files = re.findall(r"`((?:tests/|codegen/|src/)?[a-z_0-9]+(?:/[a-z_0-9]+)*(?:/|\.py))`", text)
    names = re.findall(r"`(trio_mcp(?:\.\w+)+)", text)

    assert files + names != [] or page.stem == "ways-of-a-call"
    for file in files:
        assert (ROOT / file).exists() or (ROOT / "src" / "trio_mcp" / file).exists(), file
    for name in names:
        assert exists(name), name


def exists(name: str) -> bool:
    """Return True if a dotted name is a module, or an attribute of one or of its classes."""
    parts = name.split(".")
    value = import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            try:
                import_module(".".join(parts[:number]))
            except ModuleNotFoundError:
                return False
        value = getattr(value, part)
    return True
