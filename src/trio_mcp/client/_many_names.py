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

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from .._function_names import MAX_FRONT, MAX_NAME, fitting, told_apart, with_digest

__all__ = ["Offer", "Prefix", "assign_names", "qualified_name"]

Prefix: TypeAlias = Literal["clashes", "always"]
"""Which names get their server's in front: those that several servers offer, or all."""
Offer: TypeAlias = tuple[str, str]
"""A server's name, and the name of one of its tools."""


def qualified_name(offer: Offer) -> str:
    """Return a tool's name with its server's in front."""
    server, tool = offer
    name = f"{_front(server)}{tool}"
    return name if len(name) <= MAX_NAME else with_digest(name, _identity(offer, 0))


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
    rest = {offer: name for offer, name in qualified.items() if offer not in names}
    return names | told_apart(rest, wanted, _identity)


def _identity(offer: Offer, attempt: int) -> str:
    return "\0".join((*offer, str(attempt)))


def _front(server: str) -> str:
    return f"{fitting(server)}__"


def _is_of_another(server: str, tool: str, fronts: Mapping[str, str]) -> bool:
    """Whether a tool is called as a tool of another server is with its server's name in front."""
    return any(tool.startswith(front[:MAX_FRONT]) for each, front in fronts.items() if each != server)
