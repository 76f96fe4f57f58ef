"""Orders the index of the search: of results that fit equally well, it shows those first that come first in the index.

Zensical writes the pages in alphabetical order. The guides go before the reference, the clients for Trio before those
for asyncio, and the files of the repository last. A title that is the searched word beats any longer one; so attributes
are found by their classes, and `context` finds `Context` and not the attributes of that name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from ._llms import navigation
from ._reference import attributes_of, classes_of_reference

__all__ = ["order_search"]

_LAST: Final = ("reference/asyncio", "reference/sync", "reference/lowlevel", "changelog")
"""The pages that repeat the names of others, or that few readers mean."""
_LABELS: Final = re.compile(r"\s*<small>.*?</small>")


def order_search(site: Path) -> None:
    """Order the index of a built site by the navigation, and let classes stand for their attributes.

    Args:
        site: the built site.
    """
    file = site / "search.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    order = [page.removesuffix(".md") for _, _, page in navigation()]
    places = {page: place for place, page in enumerate(sorted(order, key=lambda page: page in _LAST))}

    def place_of(item: dict[str, Any]) -> int:
        page = item["location"].partition("#")[0].removesuffix(".html")
        return places.get(page, len(places))

    index["items"] = sorted(_without_attributes(index["items"]), key=place_of)
    file.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _without_attributes(items: Iterable[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the entries of the index without those of attributes, whose texts become a part of those of their classes.

    The path of a method ends with its class, and its title has no labels.
    """
    attributes = {f"{name}.{key}" for name, cls in classes_of_reference() for key in attributes_of(cls)}
    kept: dict[str, dict[str, Any]] = {}
    for item in items:
        page, _, name = item["location"].partition("#")
        owner = name.rpartition(".")[0]
        of_class = kept.get(f"{page}#{owner}")
        if name in attributes and of_class is not None:
            of_class["text"] += f"<p>{name.rpartition('.')[2]}: {item['text']}</p>"
            continue
        path = item["path"] if of_class is None else [*item["path"], owner.rpartition(".")[2]]
        kept[item["location"]] = {**item, "title": _LABELS.sub("", item["title"]), "path": path}
    return [*kept.values()]
