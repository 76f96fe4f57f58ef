"""Names that the interfaces of language models take for a function, and what makes one unique that would not be."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Final, TypeVar

__all__ = ["MAX_FRONT", "MAX_NAME", "fitting", "told_apart", "with_digest"]

MAX_NAME: Final = 64
"""Characters in a name."""
_DIGEST: Final = 8
MAX_FRONT: Final = MAX_NAME - _DIGEST - 1
"""Characters that a digest leaves of a name."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")

Key = TypeVar("Key", bound=Hashable)


def fitting(text: str) -> str:
    """Return *text* with ``_`` for all characters but ``A-Z a-z 0-9 _ -``."""
    return _UNFIT.sub("_", text)


def with_digest(name: str, identity: str) -> str:
    """Return the beginning of *name* and a digest of *identity*, which says what the name stands for."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:MAX_FRONT]}_{digest[:_DIGEST]}"


def told_apart(
    wanted: Mapping[Key, str], taken: Collection[str], identity: Callable[[Key, int], str]
) -> dict[Key, str]:
    """Return names with digests in place of *wanted* ones, unique beside one another and those that are *taken*.

    Args:
        identity: says what a name stands for, anew for each attempt from 0 on.
    """
    names: dict[Key, str] = {}
    unfree = set(taken)
    for key, name in wanted.items():
        tries = (with_digest(name, identity(key, attempt)) for attempt in itertools.count())
        names[key] = next(each for each in tries if each not in unfree)
        unfree.add(names[key])
    return names
