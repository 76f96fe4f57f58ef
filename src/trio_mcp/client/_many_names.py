"""Names for the tools of many servers: unique, readable by a person, and the same whichever server was quicker.

Rules of this file:

1. A name that one server offers stays as it is. One that several offer becomes ``server__name`` for each of them.
2. So does a name that begins as another server's do (``other__``), whether that one is there or not: no server gets the
   calls that are meant for another.
3. In the server's part, characters other than ``A-Z a-z 0-9 _ -`` become ``_``.
4. A ``server__name`` of more than `MAX_NAME` characters, or one that would be somebody else's name as well, ends in a
   digest of the server's and the tool's name.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

__all__ = ["MAX_NAME", "Offer", "Prefix", "assign_names", "qualified_name"]

Prefix: TypeAlias = Literal["clashes", "always"]
"""Which names get their server's in front: those that several servers offer, or all."""
Offer: TypeAlias = tuple[str, str]
"""A server's name, and the name of one of its tools."""

MAX_NAME = 64
"""Characters in a name with the server in front: what the interfaces of language models take."""
_DIGEST = 8
_MAX_FRONT = MAX_NAME - _DIGEST - 1
"""Characters that a digest leaves of a name."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def qualified_name(offer: Offer) -> str:
    """Return a tool's name with its server's in front."""
    server, tool = offer
    name = f"{_front(server)}{tool}"
    return name if len(name) <= MAX_NAME else _with_digest(name, offer)


def assign_names(offers: Collection[Offer], *, prefix: Prefix, servers: Collection[str] = ()) -> dict[Offer, str]:
    """Return a unique name for each of *offers*, none of which is there twice; their order does not matter.

    Args:
        prefix: which names get their server's in front.
        servers: those that have nothing to offer now, but may have later.
    """
    fronts = {server: _front(server) for server in {*servers, *(server for server, _ in offers)}}
    times = Counter(tool for _, tool in offers)
    names = {
        (server, tool): tool
        for server, tool in offers
        if prefix == "clashes" and times[tool] == 1 and not _is_of_another(server, tool, fronts)
    }
    qualified = {offer: qualified_name(offer) for offer in sorted(offers) if offer not in names}
    wanted = Counter([*names.values(), *qualified.values()])
    names |= {offer: name for offer, name in qualified.items() if wanted[name] == 1}
    taken = set(wanted)
    for offer, name in qualified.items():
        if offer not in names:
            names[offer] = next(
                other for attempt in itertools.count() if (other := _with_digest(name, offer, attempt)) not in taken
            )
            taken.add(names[offer])
    return names


def _front(server: str) -> str:
    return f"{_UNFIT.sub('_', server)}__"


def _is_of_another(server: str, tool: str, fronts: Mapping[str, str]) -> bool:
    """Whether a tool is called as a tool of another server is with its server's name in front."""
    return any(tool.startswith(front[:_MAX_FRONT]) for each, front in fronts.items() if each != server)


def _with_digest(name: str, offer: Offer, attempt: int = 0) -> str:
    digest = hashlib.sha256("\0".join((*offer, str(attempt))).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:_MAX_FRONT]}_{digest[:_DIGEST]}"
