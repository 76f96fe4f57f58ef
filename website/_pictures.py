"""Draws the pictures of the documentation as SVG, from the TOML files in `docs/images`.

A source describes a sequence (`lanes` and `steps`) or a plan (`boxes`, `groups` and `lines`). Rules of this file:

1. A picture is 400 units wide, and its smallest text has 12: it can be read on a telephone.
2. Colours are variables. In a file they follow the system's choice of light or dark; on a page of the site, where the
   SVG is a part of the page, they follow the reader's choice.
3. A picture has a title and a description, which screen readers read, and which texts for models have in its place.
"""

from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import cattrs
from attrs import define, field, frozen

__all__ = ["Picture", "picture_sources", "read_picture"]

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"

_WIDTH: Final = 400
_LINE: Final = 15
"""The height of a line of text."""
_STYLE: Final = """
.picture { --ink: #1f2328; --paper: #ffffff; --fill: #eef1f6; --strong: #3c50b4 }
@media (prefers-color-scheme: dark) {
  .picture { --ink: #e6edf3; --paper: #0d1117; --fill: #1e2530; --strong: #93a4f4 }
}
"""
_SHAPES: Final = """
.picture text { font: 12px system-ui, sans-serif; fill: var(--ink); text-anchor: middle }
.picture .label { stroke: var(--paper); stroke-width: 4px; paint-order: stroke }
.picture .head { font-weight: bold }
.picture rect { fill: var(--fill); stroke: var(--ink); stroke-width: 1px }
.picture .group { fill: none; stroke-dasharray: 5 4 }
.picture path { fill: none; stroke: var(--strong); stroke-width: 1.5px }
.picture .lane { stroke: var(--ink); stroke-width: 1px; opacity: 0.4 }
.picture .dashed { stroke-dasharray: 5 4 }
.picture marker path { fill: var(--strong); stroke: none }
"""


@frozen
class Step:
    """A message from one lane to another, a note at a lane, or a line that divides the sequence."""

    text: str
    source: int | None = None
    target: int | None = None
    at: int | None = None
    """The lane of a note. A step with neither a source nor this divides the sequence."""
    dashed: bool = False


@frozen
class Box:
    """A labelled rectangle: its centre, and its size."""

    text: str
    x: float
    y: float
    width: float = 100
    height: float = 40


@frozen
class Group:
    """A dashed rectangle around boxes, with a label at its lower edge."""

    text: str
    boxes: tuple[int, ...]


@frozen
class Line:
    """An arrow between two boxes."""

    source: int
    target: int
    text: str = ""
    both: bool = False
    """True for an arrow with two heads."""
    dashed: bool = False


@frozen
class Picture:
    """A picture, as its source describes it."""

    title: str
    description: str
    lanes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    boxes: tuple[Box, ...] = ()
    groups: tuple[Group, ...] = ()
    lines: tuple[Line, ...] = ()

    def svg(self, name: str, *, in_page: bool = False) -> str:
        """Return the picture as SVG.

        Args:
            name: prefixes the ids, which must be unique in a page.
            in_page: the page has the colours.
        """
        canvas = _Canvas(name)
        if self.lanes:
            _draw_sequence(canvas, self)
        else:
            _draw_plan(canvas, self)
        return canvas.finish(self, _SHAPES if in_page else _STYLE + _SHAPES)


def picture_sources() -> list[Path]:
    """Return the sources of all pictures."""
    return sorted(IMAGES.glob("*.toml"))


def read_picture(source: Path) -> Picture:
    """Read the source of a picture.

    Raises:
        cattrs.BaseValidationError: the file has another form.
    """
    converter = cattrs.Converter(forbid_extra_keys=True)
    return converter.structure(tomllib.loads(source.read_text(encoding="utf-8")), Picture)


@define
class _Canvas:
    """An SVG element that grows downwards."""

    name: str
    height: float = 0
    svg: ET.Element = field(factory=lambda: ET.Element("svg"))

    def add(self, tag: str, **attributes: str | float) -> ET.Element:
        """Add a shape; numbers have at most one decimal."""
        shown = {key: f"{value:.4g}" if isinstance(value, int | float) else value for key, value in attributes.items()}
        return ET.SubElement(self.svg, tag, {key.rstrip("_"): value for key, value in shown.items()})

    def write(self, text: str, x: float, top: float, kind: str = "label") -> None:
        """Write lines of text below each other, centred."""
        for number, line in enumerate(text.splitlines()):
            self.add("text", x=x, y=top + _LINE * number + 11, class_=kind).text = line

    def box(self, text: str, x: float, y: float, width: float, height: float, kind: str = "inside") -> None:
        """Draw a box around its centre, with text."""
        self.add("rect", x=x - width / 2, y=y - height / 2, width=width, height=height, rx=6)
        self.write(text, x, y - _LINE * len(text.splitlines()) / 2, kind)

    def arrow(self, start: tuple[float, float], end: tuple[float, float], *, both: bool, dashed: bool) -> None:
        """Draw an arrow."""
        shape = self.add("path", d=f"M{start[0]:.4g} {start[1]:.4g}L{end[0]:.4g} {end[1]:.4g}")
        shape.set("marker-end", f"url(#{self.name}-head)")
        if both:
            shape.set("marker-start", f"url(#{self.name}-head)")
        if dashed:
            shape.set("class", "dashed")

    def finish(self, picture: Picture, style: str) -> str:
        """Return the SVG as text."""
        names = {kind: f"{self.name}-{kind}" for kind in ("title", "description", "head")}
        self.svg.attrib = {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "picture",
            "viewBox": f"0 0 {_WIDTH} {self.height:.4g}",
            "role": "img",
            "aria-labelledby": f"{names['title']} {names['description']}",
        }
        first = [ET.Element("title", id=names["title"]), ET.Element("desc", id=names["description"])]
        first[0].text, first[1].text = picture.title, " ".join(picture.description.split())
        sheet = ET.Element("style")
        sheet.text = style
        marker = ET.Element(
            "marker",
            {"id": names["head"], "viewBox": "0 0 10 10", "refX": "9", "refY": "5", "markerWidth": "7"}
            | {"markerHeight": "7", "orient": "auto-start-reverse"},
        )
        ET.SubElement(marker, "path", d="M0 0L10 5L0 10z")
        self.svg[:0] = [*first, sheet, marker]
        ET.indent(self.svg)
        return ET.tostring(self.svg, encoding="unicode") + "\n"


def _draw_sequence(canvas: _Canvas, picture: Picture) -> None:
    gap = _WIDTH / len(picture.lanes)
    places = [gap * (number + 0.5) for number in range(len(picture.lanes))]
    lanes = [canvas.add("path", class_="lane") for _ in places]
    head = _LINE * max(len(name.splitlines()) for name in picture.lanes) + 10
    for name, x in zip(picture.lanes, places, strict=True):
        canvas.box(name, x, head / 2 + 1, gap - 8, head, "head")
    y = head + 10.0
    for step in picture.steps:
        y = _draw_step(canvas, step, places, y)
    for lane, x in zip(lanes, places, strict=True):
        lane.set("d", f"M{x:.4g} {head + 1}V{y:.4g}")
    canvas.height = y + 4


def _draw_step(canvas: _Canvas, step: Step, places: Sequence[float], y: float) -> float:
    """Draw a step below *y*; return where the next one begins."""
    height = _LINE * len(step.text.splitlines())
    if step.source is not None and step.target is not None:
        start, end = places[step.source], places[step.target]
        canvas.write(step.text, (start + end) / 2, y)
        inset = 2 if end > start else -2
        canvas.arrow((start + inset, y + height + 5), (end - inset, y + height + 5), both=False, dashed=step.dashed)
        return y + height + 15
    if step.at is not None:
        width = 6.4 * max(map(len, step.text.splitlines())) + 16
        x = min(max(places[step.at], width / 2 + 1), _WIDTH - width / 2 - 1)
        canvas.box(step.text, x, y + height / 2 + 5, width, height + 8)
        return y + height + 19
    canvas.add("path", d=f"M4 {y + 10:.4g}H{_WIDTH - 4}", class_="lane dashed")
    canvas.write(step.text, _WIDTH / 2, y + 10 - height / 2)
    return y + height + 14


def _draw_plan(canvas: _Canvas, picture: Picture) -> None:
    for group in picture.groups:
        boxes = [picture.boxes[number] for number in group.boxes]
        left, right = min(b.x - b.width / 2 for b in boxes) - 9, max(b.x + b.width / 2 for b in boxes) + 9
        top, bottom = min(b.y - b.height / 2 for b in boxes) - 10, max(b.y + b.height / 2 for b in boxes) + 28
        canvas.add("rect", x=left, y=top, width=right - left, height=bottom - top, rx=10, class_="group")
        canvas.write(group.text, (left + right) / 2, bottom - 20)
        canvas.height = max(canvas.height, bottom + 4)
    labels: list[tuple[str, float, float]] = []
    for line in picture.lines:
        source, target = picture.boxes[line.source], picture.boxes[line.target]
        start, end = _border(source, target), _border(target, source)
        canvas.arrow(start, end, both=line.both, dashed=line.dashed)
        labels.append((line.text, (start[0] + end[0]) / 2, (start[1] + end[1]) / 2))
    for box in picture.boxes:
        canvas.box(box.text, box.x, box.y, box.width, box.height)
        canvas.height = max(canvas.height, box.y + box.height / 2 + 4)
    for text, x, y in labels:
        if text:
            canvas.write(text, x, y - _LINE * len(text.splitlines()) / 2)


def _border(box: Box, other: Box) -> tuple[float, float]:
    """Return the point where the line to the centre of another box leaves a box, and a gap of 3 units."""
    across, down = other.x - box.x, other.y - box.y
    scale = min(
        (box.width / 2 + 3) / abs(across) if across else float("inf"),
        (box.height / 2 + 3) / abs(down) if down else float("inf"),
    )
    return box.x + across * scale, box.y + down * scale
