"""Draws every picture of the documentation anew: `python -m website.images`.

The pictures are committed, so that the pages have them in the repository as well. Tests compare them with what their
sources give.
"""

from __future__ import annotations

from ._pictures import IMAGES, picture_sources, read_picture
from ._terminals import TERMINALS, terminal_picture


def main() -> None:
    """Write the SVG files into `docs/images`."""
    for source in picture_sources():
        source.with_suffix(".svg").write_text(read_picture(source).svg(source.stem), encoding="utf-8")
    for name, terminal in TERMINALS.items():
        (IMAGES / f"{name}.svg").write_text(terminal_picture(name, terminal), encoding="utf-8")


if __name__ == "__main__":
    main()
