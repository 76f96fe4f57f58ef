"""Orders the index of the search: of results that fit equally well, it shows those first that come first in the index.

Zensical writes the pages in alphabetical order. The guides go before the reference, the clients for Trio before those
for asyncio, and the files of the repository last. A title that is one word beats any longer one; so the title of a
member begins with its class, and `context` finds the class before the attributes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from ._llms import navigation

__all__ = ["order_search"]

_LAST: Final = ("reference/asyncio", "reference/sync", "reference/lowlevel", "changelog")
"""The pages that repeat the names of others, or that few readers mean."""
_LABELS: Final = re.compile(r"\s*<small>.*?</small>")


def order_search(site: Path) -> None:
    """Order the index of a built site by the navigation, and name the class of each member in its title.

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

    index["items"] = sorted((_named(item) for item in index["items"]), key=place_of)
    file.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _named(item: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without the labels of its title; the title of a member begins with its class."""
    title = _LABELS.sub("", item["title"])
    name = item["location"].partition("#")[2]
    module, _, owner = name.rpartition(".")[0].rpartition(".")
    is_member = name.startswith("trio_mcp.") and bool(module) and owner[:1].isupper()
    return {**item, "title": f"{owner}.{title}" if is_member else title}
